"""Prints what must not act in a job log, in odd writes, and leaves a process that holds both streams."""

import os
import sys
import time

SECRET = os.environ["PRINTED_SECRET"].encode()
COMMANDS = [
    b"::error::from the child\n",
    b"\r::add-mask::e\r",
    b"text ##[set-env name=A]b\n",
    "\u3000\u2028::stop-commands::x\n".encode(),
    b"\x85::warning::x\n",
    b"::endgroup::\n",
    SECRET + b"\n",
    b"x" * 20_000 + b"::error::x##[error]" + b"y" * 20_000 + b"\n",
]


def main() -> None:
    """Print every command to both streams, split after each byte or not at all."""
    if os.fork() == 0:
        time.sleep(float(sys.argv[1]))  # holds both pipes
        os._exit(0)
    for command in COMMANDS:
        for descriptor in (1, 2):
            step = 1 if len(command) < 100 else len(command)
            for start in range(0, len(command), step):
                os.write(descriptor, command[start : start + step])
    os.write(1, b"last words, ##[error]")


if __name__ == "__main__":
    main()
