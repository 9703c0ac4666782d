"""Start a target's command, follow it to its end, and end what is left of it."""

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from runner_e2e.cell.attempt import Attempt, changed_modes
from runner_e2e.cell.child import Child, running_child
from runner_e2e.cell.command_log import HarnessLog
from runner_e2e.cell.kept_files import KeptFiles
from runner_e2e.cell.processes import NOT_ENDED
from runner_e2e.errors import AttemptTimeoutError, CancelledError, RunnerE2EError

_STEP_S = 0.2
_LOOK_S = 0.25
_NOTE_S = 1.0
# What the command started may need a moment after it to end by itself.
_GROUP_GRACE_S = 2.0


@dataclass(frozen=True, slots=True)
class Order:
    """What is started, where, with which variables, and what it must not change."""

    words: Sequence[str]
    environment: Mapping[str, str] = field(repr=False)
    directory: Path
    protected: Sequence[Path]


@dataclass(frozen=True, slots=True)
class Eyes:
    """What to look at while it runs.

    `observe` copies what agents write, `has_results` tells whether they are packaged, and `check_limits`
    raises what ends the cell. After results a harness has `results_grace_s` to end by itself.
    """

    observe: Callable[[], object]
    has_results: Callable[[], bool]
    check_limits: Callable[[], object]
    results_grace_s: float


@dataclass(slots=True)
class Driven:
    """What came of it. `status` is the command's, 128+n for signal n, None when it was never known.

    `outlived` says that it was ended because it did not end by itself after its results were there, `hurried`
    that a stop signal came, so that there is little time for everything that follows.
    """

    started: bool = False
    status: int | None = None
    outlived: bool = False
    hurried: bool = False
    domain: Mapping[str, str] = field(default_factory=dict)
    leftovers: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)


def drive(attempt: Attempt, order: Order, eyes: Eyes, log: HarnessLog, driven: Driven) -> None:
    """Run the command; what comes of it is in `driven`, also when this raises."""
    attempt.reporter.phase("Starting the target's harness")
    kept = KeptFiles(attempt.request.environ)
    try:
        with running_child(order.words, order.environment, order.directory, order.protected) as child:
            driven.started = True
            driven.domain = child.domain
            log.follow(child.stdout, child.stderr)
            attempt.watch.family.spare()
            with attempt.reporter.group("Output of the target's harness"):
                try:
                    _follow(attempt, child, eyes, log, driven)
                except CancelledError:
                    driven.hurried = True
                    raise
                finally:
                    _end(child, log, driven)
    finally:
        driven.changed += _restore(kept)


def _restore(kept: KeptFiles) -> list[str]:
    """Undo what was done to the runner's command files; nothing of the target's runs any more."""
    return [*(f"{name} was written to" for name in kept.restore()), *kept.problems]


def _follow(attempt: Attempt, child: Child, eyes: Eyes, log: HarnessLog, driven: Driven) -> None:
    """Show what it prints until it ends, or until something speaks against going on."""
    looked = noted = 0.0
    finished_at: float | None = None
    while (status := child.poll()) is None:
        log.live.step(_STEP_S)
        now = time.monotonic()
        eyes.check_limits()
        if now > attempt.deadline:
            raise AttemptTimeoutError(
                "The target's harness did not end before the deadline",
                "Read harness.log, or allow more time in the catalog",
            )
        if now - looked < _LOOK_S:
            continue
        looked = now
        eyes.observe()
        if now - noted < _NOTE_S:
            continue
        noted = now
        with contextlib.suppress(OSError):  # a full disk is no reason to end the harness
            attempt.note_running(child.running())
        driven.changed += changed_modes(attempt.watch.modes, meanwhile=True)
        if eyes.has_results():
            finished_at = now if finished_at is None else finished_at
            if now - finished_at > eyes.results_grace_s:
                driven.leftovers.append("the target's harness, which did not end by itself")
                driven.outlived = True
                return
    driven.status = status
    if child.warden_lost:
        raise RunnerE2EError(
            "Something ended the supervision of the target's harness",
            "Find out what sends signals to processes that are not its own",
        )
    # A limit may have been passed in the last moment.
    eyes.check_limits()


def _end(child: Child, log: HarnessLog, driven: Driven) -> None:
    """End what still runs, show what it still says, and name what it left running.

    Nobody left anything who was ended by this process: then only what lives on is named.
    """
    by_itself = driven.status is not None
    if by_itself:
        child.await_group(_GROUP_GRACE_S, log.live.step)
    else:
        child.stop(meanwhile=log.live.step)
        driven.status = child.poll()
    log.live.drain()
    strays = child.end_strays()
    driven.leftovers += strays if by_itself else [name for name in strays if name == NOT_ENDED]
