"""Ask a target for one cell as the product does, in a process of its own; what to ask comes on its input.

So no word of it stands on a command line. Prints one JSON object: the cell, or the error.
"""

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

from runner_e2e.errors import RunnerE2EError
from runner_e2e.plan.listing import split_command
from runner_e2e.plan.listing_process import build_run
from runner_e2e.plan.target_list import list_cell


def main() -> int:
    """Print the outcome; return the status that the product would end with."""
    order = json.load(sys.stdin)
    run = build_run(split_command(order["command"]), Path(order["directory"]), os.environ, [])
    try:
        cell = list_cell(run, order["id"], order["transport"], hidden=order["hidden"])
    except RunnerE2EError as error:
        print(json.dumps({"error": type(error).__name__, "said": str(error)}))
        return error.exit_code
    print(json.dumps(asdict(cell)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
