"""Ask the target's own harness which cells it has: what it is called with, and what comes of its rows.

Pure: the process belongs to `listing_process` and comes in as a function.
"""

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from runner_e2e.errors import InputError
from runner_e2e.plan.ids import CASE, SEGMENT, split_execution_id
from runner_e2e.plan.matrix import Job
from runner_e2e.plan.ordering import build_sort_key
from runner_e2e.plan.selection import (
    SELECTED_ID,
    Selectors,
    check_combination,
    describe_value,
    describe_values,
)
from runner_e2e.plan.target_matrix import TargetMatrix, parse_matrix

DEFAULT_COMMAND = ("pnpm", "--silent", "test:e2e:runner", "--")
MATRIX_FLAG = "--matrix-json"
_NO_GROUP = "no-such-group-of-runner-e2e"

# Each of them starts the target's harness once more, which takes a second or two.
MAX_SINGLE_LISTINGS = 64
# A package manager makes one shell word of all arguments, and Linux takes none above 128 KiB.
_MAX_ARGUMENT_BYTES = 96 * 1024

Transport = Literal["auto", "env", "argv"]
# Calls the target's harness with arguments, and with variables besides those that it always gets.
Run = Callable[[Sequence[str], Mapping[str, str]], bytes]


class ListingRefusedError(InputError):
    """The target's harness ran and said no. Asked for less, it may still answer."""


@dataclass(frozen=True, slots=True)
class Listing:
    """One call of the target's harness. An id never stands among the arguments."""

    argv: tuple[str, ...]
    selected_id: str | None = None

    @property
    def variables(self) -> dict[str, str]:
        """What the call needs in its environment."""
        return {} if self.selected_id is None else {SELECTED_ID: self.selected_id}


def split_command(text: str) -> tuple[str, ...]:
    """Return the words of a command line (`harness-command`), parted as a shell does it.

    No other rule of a shell holds, since none is started. An empty text is the usual command.
    """
    if not text.strip():
        return DEFAULT_COMMAND
    try:
        words = tuple(shlex.split(text))
    except ValueError:
        words = ()
    if not words or not words[0] or "\0" in text:
        raise InputError(
            "Input harness-command is not a command line",
            "Close its quotes and begin with a program; it is started without a shell",
        )
    return words


def plan_listings(selectors: Selectors) -> tuple[Listing, ...]:
    """Return the calls that list what is selected.

    Selectors go as flags. A case or a group may stand on this command line, where every process of the
    host can read it, because no agent runs in the job that lists. An id stays off it: the suites of the
    ids are listed instead, which also admits manual-only ones, and `list_target` takes what it needs.
    """
    check_combination(selectors)
    if selectors.ids:
        return (_build_listing(replace(selectors, ids=(), suites=_find_suites(selectors.ids))),)
    return (_build_listing(selectors),)


def plan_single_listings(ids: Sequence[str], transport: Transport) -> tuple[Listing, ...]:
    """Return the calls that list cells which no listing of their suite shows, one by one."""
    if transport == "argv":
        raise InputError(
            f"The target's suites list no {describe_values(ids)}, and it takes an id only as an argument",
            "Check the spelling; select an explicit cell by suite and case instead of id",
        )
    if len(ids) > MAX_SINGLE_LISTINGS:
        raise InputError(
            f"{len(ids)} of the ids stand in no listing of their suite, and each has to be asked for alone",
            f"Give at most {MAX_SINGLE_LISTINGS} such ids, or select them by suite and case",
        )
    return tuple(Listing((MATRIX_FLAG,), name) for name in ids)


def list_target(run: Run, selectors: Selectors, transport: Transport) -> TargetMatrix:
    """Return the selected cells as the target lists them.

    Rows are sorted by id and ids keep the order of the target's catalog; explicit cells that were asked
    for by id follow them. The answer never holds more than was asked for: what does is refused, because
    each cell costs money.
    """
    (listing,) = plan_listings(selectors)
    if selectors.ids:
        found = _list_ids(run, listing, tuple(dict.fromkeys(selectors.ids)), transport)
    else:
        found = _ask(run, listing)
        _refuse_more(found.jobs, selectors)
        if selectors.groups:
            _require_groups(run)
    if not found.jobs:
        raise InputError(
            "The target lists no cell for these selectors",
            "Drop a selector; name the suite of a manual-only cell, and the case of an explicit one",
        )
    return replace(found, jobs=tuple(sorted(found.jobs, key=lambda job: build_sort_key(job.execution_id))))


def _list_ids(run: Run, listing: Listing, ids: Sequence[str], transport: Transport) -> TargetMatrix:
    try:
        found = _keep(_ask(run, listing), ids)
    except ListingRefusedError:
        # One attended journey in a suite makes the harness refuse the whole suite.
        if transport == "argv" or len(ids) > MAX_SINGLE_LISTINGS:
            raise
        found = TargetMatrix((), ())
    listed = frozenset(found.execution_ids)
    missing = [name for name in ids if name not in listed]
    if not missing:
        return found
    return _join([found, *_ask_singly(run, plan_single_listings(missing, transport))])


def _ask_singly(run: Run, listings: Iterable[Listing]) -> list[TargetMatrix]:
    """Ask for each cell alone; one error names all that the target does not have."""
    found, refused, last = [], [], ""
    for listing in listings:
        name = listing.selected_id or ""
        try:
            answer = _ask(run, listing)
        except ListingRefusedError as error:
            refused.append(name)
            last = error.problem
            continue
        if answer.execution_ids != (name,):
            raise InputError(
                f"The target lists {len(answer.jobs)} cells where a variable selects {describe_value(name)}",
                "Set selected-id-transport to argv, and select explicit cells by suite and case",
            )
        found.append(answer)
    if refused:
        raise InputError(f"Unknown id: {describe_values(refused)}. {last}", "Use ids that the target lists")
    return found


def _ask(run: Run, listing: Listing) -> TargetMatrix:
    return parse_matrix(run(listing.argv, listing.variables))


def _keep(matrix: TargetMatrix, ids: Iterable[str]) -> TargetMatrix:
    wanted = frozenset(ids)
    return replace(
        matrix,
        jobs=tuple(job for job in matrix.jobs if job.execution_id in wanted),
        execution_ids=tuple(name for name in matrix.execution_ids if name in wanted),
    )


def _join(parts: Sequence[TargetMatrix]) -> TargetMatrix:
    return TargetMatrix(
        tuple(job for part in parts for job in part.jobs),
        tuple(name for part in parts for name in part.execution_ids),
        tuple(dict.fromkeys(note for part in parts for note in part.notes)),
    )


def _require_groups(run: Run) -> None:
    """Make sure that the target looks at groups: no row says which ones its cell is in."""
    try:
        run((MATRIX_FLAG, "--group", _NO_GROUP), {})
    except ListingRefusedError:
        return
    raise InputError(
        "The target lists cells for a group that does not exist, so it ignores groups",
        "Check that the command (input harness-command) hands its arguments on to the harness",
    )


def _refuse_more(jobs: Iterable[Job], selectors: Selectors) -> None:
    """Refuse rows outside of the selectors; groups are in no row."""
    given = (selectors.suites, selectors.profiles, selectors.environments, selectors.cases)
    wanted = [frozenset(names) for names in given]
    for job in jobs:
        own = (job.suite_id, job.profile_id, job.environment_id, job.case_id)
        if any(names and name not in names for names, name in zip(wanted, own, strict=True)):
            raise InputError(
                f"The target lists {describe_value(job.execution_id)}, which was not asked for",
                "Check that the command (input harness-command) hands its arguments on to the harness",
            )


def _find_suites(ids: Iterable[str]) -> tuple[str, ...]:
    parts = {name: split_execution_id(name) for name in ids}
    wrong = [name for name, found in parts.items() if found is None]
    if wrong:
        raise InputError(
            f"Not the id of a cell: {describe_values(wrong)}",
            "Write suite.profile.environment.case with environment local or daytona",
        )
    return tuple(dict.fromkeys(found.suite for found in parts.values() if found))


def _build_listing(selectors: Selectors) -> Listing:
    words = [MATRIX_FLAG, *(["--all"] if selectors.all else [])]
    for kind, values, pattern in (
        ("suite", selectors.suites, SEGMENT),
        ("group", selectors.groups, SEGMENT),
        ("profile", selectors.profiles, SEGMENT),
        ("environment", selectors.environments, SEGMENT),
        ("case", selectors.cases, CASE),
    ):
        wrong = [value for value in values if not re.fullmatch(pattern, value)]
        if wrong:
            raise InputError(
                f"Not the name of a {kind}: {describe_values(wrong)}", "Use letters, digits, _ and -"
            )
        words += [word for value in dict.fromkeys(values) for word in (f"--{kind}", value)]
    if sum(len(word) + 1 for word in words) > _MAX_ARGUMENT_BYTES:
        raise InputError(
            "The selectors are too many for one command line",
            "Select by suite or group, or plan in several runs",
        )
    return Listing(tuple(words))
