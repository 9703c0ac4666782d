"""The end of a cell under a service user: nothing of it runs, its evidence is root's, the rest is gone."""

import contextlib
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from runner_e2e.cell.handover import (
    NOTE_PREFIX,
    Handover,
    close_workplace,
    open_workplace,
    read_note,
    take_over,
)
from runner_e2e.cell.left_record import UnusableError, opening_cell, read_record, write_record
from runner_e2e.cell.marked import await_end, end_marked, find_left, remove_left, send
from runner_e2e.cell.process_marks import is_running, read_boot_id
from runner_e2e.cell.remains import HARNESS_GRACE_S, Ended, end_harness
from runner_e2e.cell.request import Status
from runner_e2e.cell.root import PARENT
from runner_e2e.errors import CleanupError, RunnerE2EError

_MOST_NAMED = 20


@dataclass(frozen=True, slots=True)
class Settled:
    """What the end of a cell came to: processes that had to be ended, evidence that was left out."""

    ended: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Recovered:
    """What a sweep did of it: the processes that it ended, by name of the evidence; what is in the way."""

    cells: dict[str, Ended] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


def settle(handover: Handover, parent: Path) -> Settled:
    """End what runs of the cell, take its evidence over into `parent`, and remove all else.

    Raises RunnerE2EError for what cannot be done; workplace and note stay then, for a later sweep.
    """
    try:
        return _settle(handover, parent)
    except OSError as error:
        raise CleanupError(
            f"What the service user {handover.identity.user} left cannot be put away: {error.strerror}",
            "Mend that, then start entrypoints/sweep_cell.py as root",
        ) from error


def _settle(handover: Handover, parent: Path) -> Settled:
    identity = handover.identity
    await_end(identity)
    ended = end_marked(identity)
    if ended.left:
        raise CleanupError(
            f"{len(ended.left)} processes of the service user {identity.user} cannot be ended: "
            f"{', '.join(ended.left[:_MOST_NAMED])}",
            "Look at them, then start entrypoints/sweep_cell.py as root, which takes the evidence over",
        )
    close_workplace(handover)
    left_out = take_over(handover, parent)
    open_workplace(handover)
    left = remove_left(identity, find_left(identity))
    if left:
        raise CleanupError(
            f"Not all that {identity.user} made can be removed: {'; '.join(left[:_MOST_NAMED])}",
            "Remove it by hand",
        )
    handover.note(parent).unlink(missing_ok=True)
    return Settled(ended.ended, tuple(left_out))


def explain_settled(settled: Settled, exit_code: int) -> RunnerE2EError | None:
    """Return why a cell that ended so is not what its exit status says, None when it is."""
    if settled.left_out:
        return RunnerE2EError(
            f"The evidence is not whole: {', '.join(settled.left_out)}",
            "Find out which program of the service user wrote to it",
        )
    if settled.ended and exit_code == 0:
        return CleanupError(
            f"The cell passed and left processes, which were ended: {', '.join(settled.ended[:_MOST_NAMED])}",
            "Find out which program of the cell outlives it",
        )
    return None


def compare_record(directory: Path, outputs: Mapping[str, str]) -> RunnerE2EError | None:
    """Return what is wrong with the record of a cell whose process ended well, None when it says the same."""
    try:
        with opening_cell(directory) as cell:
            content = read_record(cell.opened)
    except UnusableError as error:
        what = str(error)
    else:
        if content is not None and content["status"] == outputs.get("status"):
            return None
        what = "There is no record" if content is None else "The record tells of another end"
    return RunnerE2EError(
        f"The cell's process ended with status 0, and its evidence does not bear that out: {what}",
        "Find out which program of the service user wrote to it",
    )


def take_back(directory: Path, error: RunnerE2EError) -> None:
    """Have the record of a cell that said to have passed tell that it did not, if there is one to be used."""
    with contextlib.suppress(UnusableError), opening_cell(directory) as cell:
        content = read_record(cell.opened)
        if content is not None:
            changed = {
                "status": Status.FAILED.value,
                "failureClass": error.failure_class.value,
                "exitCode": error.exit_code,
                "message": str(error),
            }
            write_record(cell, {**content, **changed})


def recover(parent: Path, places: Path = PARENT) -> Recovered:
    """Settle every cell of a service user that a note in a directory of evidence names. For root only.

    A cell that still runs is asked to end, and so is root's own process, which would do all this.
    """
    if os.geteuid() != 0:
        return Recovered()
    cells, problems = {}, []
    for note in sorted(parent.glob(f"{NOTE_PREFIX}*.json")):
        try:
            handover = read_note(note, places)
            ended = _recover_cell(handover, parent)
        except ValueError as error:
            problems.append(f"The note {note.name} of a cell under a service user cannot be used: {error}")
        except RunnerE2EError as error:
            problems.append(str(error))
        else:
            cells[handover.directory] = ended
    return Recovered(cells, tuple(problems))


def _recover_cell(handover: Handover, parent: Path) -> Ended:
    asked: tuple[str, ...] = ()
    if handover.boot_id == read_boot_id():
        supervisor = end_harness(handover.supervisor)
        if not os.path.lexists(handover.note(parent)):  # it came to its own end
            return Ended()
        asked = () if supervisor is None else (supervisor,)
        if handover.cell is not None and is_running(handover.cell):
            # It was told already that root's process ended, and may be about to clean up.
            send(handover.identity, handover.cell, signal.SIGTERM, HARNESS_GRACE_S)
    settled = settle(handover, parent)
    return Ended((*asked, *settled.ended))
