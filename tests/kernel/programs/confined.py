"""Confine this process as a target's harness is, then become the command.

Usage: confined.py [--protect PATH]... -- COMMAND ARGUMENT... What `confine` told is the command's
variable DOMAIN. A refusal is told as the launcher tells it.
"""

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "lib"))  # under -I nothing else does

from runner_e2e.sandbox.confine import confine
from runner_e2e.sandbox.refusal import REFUSED, Refusal


def main(argv: list[str]) -> None:
    end = argv.index("--")
    protected = [os.fsencode(path) for path in argv[1:end:2]]
    try:
        os.environ["DOMAIN"] = " ".join(confine(protected))
    except Refusal as refusal:
        print(json.dumps(refusal.fields()), file=sys.stderr)
        sys.exit(REFUSED)
    except OSError as error:
        print(error, file=sys.stderr)
        sys.exit(REFUSED)
    os.execvp(argv[end + 1], argv[end + 1 :])


if __name__ == "__main__":
    main(sys.argv[1:])
