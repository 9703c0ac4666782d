"""From what a job was told to the one cell of the catalog that it has to run. Pure.

A job gets a row of the matrix, an execution id, or an opaque key. Whatever else the row says has to be
what the catalog says: a plan that was made with another catalog must not choose credential or time.
"""

import difflib
from collections.abc import Mapping
from itertools import islice
from types import MappingProxyType

from runner_e2e.errors import InputError
from runner_e2e.plan.cells import Catalog, Execution
from runner_e2e.plan.definitions import ATTENDED_FLOWS
from runner_e2e.plan.ids import split_execution_id
from runner_e2e.plan.keys import resolve_key
from runner_e2e.plan.matrix import build_jobs, compute_common_timeouts, level_timeouts, row

# Looking for a near name costs about 20 µs for each candidate.
_MOST_COMPARED = 5000
_LONGEST_SHOWN = 120


def resolve_cell(
    catalog: Catalog,
    *,
    execution_id: str | None = None,
    key: str | None = None,
    key_secret: str | None = None,
    said: Mapping[str, object] = MappingProxyType({}),
) -> Execution:
    """Return the cell that an id or an opaque key names; where both do, they have to agree.

    `said` is what the row says, by the fields of a matrix row; each is compared with what the catalog
    makes of the cell, also one that is null. Raises InputError for an unknown name, a row that does not
    agree, and an attended journey. With a key no message holds an id or a case.
    """
    if key is not None:
        if key_secret is None:
            raise InputError("The cell is named by an opaque key", "Give key-secret as in plan")
        known = resolve_key(key_secret, key, (cell.id for cell in catalog.executions))
        if execution_id is not None:
            said = {**said, "executionId": execution_id}
        execution_id = known
    if execution_id is None:
        raise InputError("No cell is named", "Give an execution id, or a row of the matrix as plan made it")
    found = find_cell(catalog, execution_id)
    _compare(catalog, found, said, key)
    return found


def find_cell(catalog: Catalog, execution_id: str) -> Execution:
    """Return the cell with this id; raise InputError, with the nearest one that exists, for an unknown id."""
    found = next((cell for cell in catalog.executions if cell.id == execution_id), None)
    if found is None:
        raise _unknown(catalog, execution_id)
    return found


def _compare(catalog: Catalog, execution: Execution, said: Mapping[str, object], key: str | None) -> None:
    if key is not None and execution.task.flow in ATTENDED_FLOWS:
        # What `build_jobs` says of it names the flow.
        raise InputError("The key names an attended journey, which no CI job runs", "Plan again")
    jobs = build_jobs([execution])
    if key is not None:
        jobs = level_timeouts(jobs, compute_common_timeouts(catalog.executions))
    (job,) = jobs
    known = {**row(job), "key": key}
    differing = sorted(
        name for name, value in said.items() if name not in known or not _same(value, known[name])
    )
    if differing:
        # An unknown name is the caller's text, and may be anything.
        names = [name for name in differing if name in known] or ["an unknown field"]
        raise InputError(
            f"The row does not agree with the catalog: {', '.join(names)}",
            "Plan again with the same catalog, and hand the row on as plan made it",
        )


def _same(value: object, known: object) -> bool:
    # Python takes true for 1.
    return type(value) is type(known) and value == known


def _unknown(catalog: Catalog, name: str) -> InputError:
    """Return the error for an id that is not in the catalog, with the nearest one that is."""
    shown = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in name)
    shown = shown if len(shown) <= _LONGEST_SHOWN else f"{shown[:_LONGEST_SHOWN]}…"
    near = _find_near(catalog, name)
    hint = f"Did you mean {near}? " if near else ""
    return InputError(
        f"The catalog has no cell {shown}", f"{hint}List its cells with runner-e2e list, or plan again"
    )


def _find_near(catalog: Catalog, name: str) -> str | None:
    parts = split_execution_id(name)
    cells = [
        cell
        for cell in catalog.executions
        if parts is None or parts.suite == cell.suite.id or parts.case == cell.task.id
    ]
    candidates = (cell.id for cell in islice(cells or catalog.executions, _MOST_COMPARED))
    return next(iter(difflib.get_close_matches(name, candidates, n=1, cutoff=0.6)), None)
