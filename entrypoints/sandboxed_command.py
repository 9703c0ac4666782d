#!/usr/bin/python3 -ISXutf8
"""Stand where the server expects an agent's own command: isolate this launch, then become the command.

The harness copies this file unchanged to `<root>/bin/agent-command`, and writes next to it, in
`<root>/private/`, where the library lies (`library`), what to start and what to hide (`command.json`).
"""

import sys
from os.path import dirname, realpath


def main() -> int:
    """Load the wrapper from where the harness says, and run it."""
    root = dirname(dirname(realpath(__file__)))
    try:
        with open(f"{root}/private/library", encoding="utf-8", errors="surrogateescape") as file:
            sys.path.append(file.read().rstrip("\n"))
        from runner_e2e.launch.agent_command import main as launch  # noqa: PLC0415 - its place is read first
    except (OSError, ImportError):
        sys.stderr.write(
            '{"schema":"runner-e2e.sandbox-refusal/v1","code":"usage","path":null,'
            '"message":"the wrapper has no library to load",'
            '"remedy":"start the command through the bin directory of a running attempt"}\n'
        )
        return 125
    return launch(__file__, sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
