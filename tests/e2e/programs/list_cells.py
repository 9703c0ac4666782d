"""Ask a target as the product does, in a process of its own. What to ask comes on standard input.

So no word of it stands on a command line. Prints one JSON object: the answer, or the error.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from runner_e2e.errors import RunnerE2EError
from runner_e2e.plan.behaviour import probe_transport
from runner_e2e.plan.listing import list_target, split_command
from runner_e2e.plan.listing_process import build_run, run_listing
from runner_e2e.plan.selection import Selectors


def ask(order: dict[str, Any]) -> object:
    """Do what the order says."""
    directory = Path(order["directory"])
    if order["task"] == "run":
        return run_listing(order["words"], directory, order["environ"], **order["limits"]).decode()
    run = build_run(split_command(order["command"]), directory, os.environ, order["pass_env"])
    if order["task"] == "call":
        return run(order["words"], {}).decode()
    if order["task"] == "probe":
        probe = probe_transport(run)
        return [probe.result, probe.reason]
    given: dict[str, Any] = {
        name: tuple(values) if isinstance(values, list) else values
        for name, values in order["selectors"].items()
    }
    found = list_target(run, Selectors(**given), order["transport"])
    return {"rows": [job.execution_id for job in found.jobs], "ids": found.execution_ids}


def main() -> int:
    """Print the outcome; return the status that the product would end with."""
    try:
        outcome = {"answer": ask(json.load(sys.stdin))}
    except RunnerE2EError as error:
        print(json.dumps({"error": type(error).__name__, "said": str(error)}))
        return error.exit_code
    print(json.dumps(outcome))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
