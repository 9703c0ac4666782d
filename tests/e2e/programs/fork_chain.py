"""Chains of processes, each of which forks and ends at once: none is there when it is looked for.

Arguments: how many chains, and for how many seconds. Each process is a session of its own, works in /, and
has no variables and no open file. A line tells that all chains have begun.
"""

import os
import sys
import time


def main() -> None:
    """Start the chains, say so, and end."""
    chains, until = int(sys.argv[1]), time.monotonic() + float(sys.argv[2])
    os.chdir("/")
    for _ in range(chains):
        if os.fork() == 0:
            os.closerange(0, 3)
            go_on(until)
    print("begun", flush=True)


def go_on(until: float) -> None:
    """Become the next process of a chain, again and again."""
    while time.monotonic() < until:
        if os.fork():
            os._exit(0)
        os.setsid()
    os._exit(0)


if __name__ == "__main__":
    main()
