"""A launcher that restricts nothing: the kernel tests must fail with it.

It takes the production command line, drops everything up to `--` and becomes the command.
"""

import os
import sys

if __name__ == "__main__":
    command = sys.argv[sys.argv.index("--") + 1 :]
    os.execvp(command[0], command)
