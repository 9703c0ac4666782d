"""The results that a target's harness left: held while they are read, staged, judged, and removed."""

import contextlib
import os
import signal
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

from runner_e2e.cell.attempt import Attempt
from runner_e2e.cell.classification import Decision, classify_end, judge_result
from runner_e2e.cell.command_request import CommandRequest
from runner_e2e.cell.packaged_results import (
    RESULT,
    NoResultsError,
    Results,
    find_missing,
    finding_results,
    stage_results,
)
from runner_e2e.cell.removal import remove_tree
from runner_e2e.errors import CleanupError, HarnessFailureError, RunnerE2EError
from runner_e2e.evidence.bundle import Bundle
from runner_e2e.evidence.redaction import Redactor

# Campaign, suite, profile, environment, case, attempt.
_LEVELS = 6
_MOST_LOOKED_AT = 100
_REMEDY = "Read results/result.json and harness.log"


class TargetResults:
    """What lies below the results path of one attempt. `hold` comes first, `remove` last."""

    def __init__(self, attempt: Attempt, command: CommandRequest) -> None:
        self._attempt = attempt
        self._command = command
        self._place = command.target / command.results
        self._held = ExitStack()
        self._results: Results | None = None
        self._problem: HarnessFailureError | None = None
        self._missing: tuple[str, ...] = ()

    @property
    def server_log(self) -> int | None:
        """A descriptor that stands for the server's log, if one was packaged."""
        return None if self._results is None else self._results.server_log

    @property
    def run_ids(self) -> tuple[str, ...]:
        """The runs that the result names, none where it names none."""
        result = None if self._results is None else self._results.result
        return () if result is None else result.run_ids or ()

    def exist(self) -> bool:
        """Whether a result was packaged already, as far as names tell; the tree may change meanwhile."""
        places = [self._place]
        for _ in range(_LEVELS):
            places = [below for place in places for below in _list_directories(place)][:_MOST_LOOKED_AT]
        return any(os.path.lexists(place / RESULT) for place in places)

    def hold(self, campaign: str) -> None:
        """Find the one set of results and hold it open; what is wrong with it is told by `judge`."""
        request = self._attempt.request
        try:
            self._results = self._held.enter_context(
                finding_results(
                    self._place,
                    execution_id=request.cell_id,
                    sha=self._command.sha,
                    campaign=campaign,
                    below=self._command.target,
                )
            )
        except HarnessFailureError as error:
            self._problem = error

    def stage(self, destination: Path, redactor: Redactor) -> Bundle | None:
        """Stage what may be uploaded, into a directory that does not exist."""
        if self._results is None:
            return None
        hides = self._attempt.request.hides_names
        bundle = stage_results(self._results, destination, redactor, hides_names=hides)
        # What was withheld is as good as missing; behind a key all of it is.
        withheld = () if hides else find_missing(bundle.files.values())
        self._missing = (*self._results.missing, *withheld)
        return bundle

    def judge(self, status: int | None, tail: bytes, redactor: Redactor) -> RunnerE2EError | None:
        """Return what the target's own words come to, None for a pass.

        Its word for a pass counts only if its harness ended well too. `status` is None for one that was ended
        because it outlived its results: that it was left running is told apart from them.
        """
        results = self._results
        if results is None or results.result is None:
            return self._judge_nothing(status, tail, redactor)
        decision = judge_result(results.result, tuple(dict.fromkeys(self._missing)))
        if decision is not None:
            return _build_failure(decision, redactor, "The target's harness reports a failure")
        if status:
            return _build_failure(
                classify_end(status, redactor.redact(tail), timed_out=False),
                redactor,
                f"The target's harness reports success and {describe_status(status)}",
            )
        return None

    def remove(self) -> RunnerE2EError | None:
        """Remove what was left, which may hold secrets and would be in the way of a further attempt."""
        self._held.close()
        left = remove_tree(self._place)
        if left is not None:
            return CleanupError(
                f"The target's results could not be removed from its checkout: {left}",
                "Remove the results directory, which may hold secrets",
            )
        return None

    def _judge_nothing(self, status: int | None, tail: bytes, redactor: Redactor) -> RunnerE2EError:
        problem = self._problem
        # What contradicts itself would do so again; only where nothing was left does the output decide.
        if problem is not None and (status == 0 or not isinstance(problem, NoResultsError)):
            return problem
        said = "The harness left no result.json" if problem is None else problem.problem
        return _build_failure(
            classify_end(0 if status is None else status, redactor.redact(tail), timed_out=False),
            redactor,
            f"The target's harness {describe_status(status)}. {said}",
        )


def describe_status(status: int | None) -> str:
    """Return how a process ended, for people."""
    if status is None:
        return "did not end by itself"
    with contextlib.suppress(ValueError):
        if status > 128:
            return f"was ended by {signal.Signals(status - 128).name}"
    return f"ended with status {status}"


def _list_directories(place: Path) -> list[Path]:
    try:
        with os.scandir(place) as entries:
            some = islice(entries, _MOST_LOOKED_AT)
            return [place / entry.name for entry in some if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _build_failure(decision: Decision, redactor: Redactor, problem: str) -> HarnessFailureError:
    line = redactor.redact_name(decision.line)
    return HarnessFailureError(
        decision.failure_class,
        f"{problem} ({decision.rule}){f': {line}' if line else ''}",
        _REMEDY,
        rule=decision.rule,
        line=line,
    )
