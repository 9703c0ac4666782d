"""Plan one cell of a target as `run-cell` does, in a process of its own; the order comes on its input.

Prints one JSON object: the request, with credentials by name and value, or the error.
"""

import json
import sys
from dataclasses import asdict
from pathlib import Path, PurePosixPath
from typing import Any

from runner_e2e.cell.command_plan import CellAddress, plan_command
from runner_e2e.cell.command_request import CommandOrder
from runner_e2e.cell.limits import Spending
from runner_e2e.cell.request import CellRequest
from runner_e2e.errors import RunnerE2EError


def main() -> int:
    """Print the outcome; return the status that the product would end with."""
    status, outcome = answer(json.load(sys.stdin))
    print(json.dumps(outcome, default=str))
    return status


def answer(given: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """Return the status and the outcome."""
    address, base = CellAddress(**given["address"]), CellRequest(environ=given["environ"])
    try:
        planned = plan_command(build_order(given["order"]), address, base)
    except RunnerE2EError as error:
        return error.exit_code, {"error": type(error).__name__, "said": str(error)}
    request, command = planned.request, planned.request.command
    if command is None:
        return 3, {"error": "None", "said": "There is no order for a target"}
    return 0, {
        "cell": request.cell_id,
        "key": request.key,
        "definition": request.definition,
        "catalog": request.catalog,
        "deadline": request.deadline_s,
        "total": request.total_s,
        "retries": asdict(request.retries),
        "harness": request.harness,
        "target": command.target,
        "sha": command.sha,
        "words": command.words,
        "transport": command.transport,
        "owner": command.owner,
        "traits": asdict(command.traits),
        "credentials": dict(command.credentials),
        "credentialName": command.credential_name,
        "results": command.results,
        "sourceRef": command.source_ref,
        "secrets": command.secrets,
        "task": command.task,
        "warnings": planned.warnings,
    }


def build_order(given: dict[str, Any]) -> CommandOrder:
    """Return the order that JSON describes."""
    rest = {
        "target": Path(given["target"]),
        "results": PurePosixPath(given.get("results", "tests/runner-e2e/results")),
        "spending": Spending(max_requests=given.pop("max_requests", None)),
    }
    return CommandOrder(**{**given, **rest})


if __name__ == "__main__":
    raise SystemExit(main())
