"""Whether Codex's own sandbox can start inside a domain; a cell that would find out itself costs money.

Codex starts its tools in bubblewrap, which mounts. A Landlock domain that restricts files refuses every
mount, also in a user namespace of its own (Linux, security/landlock/fs.c), so a Codex cell can run only
where a kernel comes to allow that.
"""

import errno
import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from runner_e2e.cell.trial_launch import Trial, TrialRequest, prepared_trial
from runner_e2e.errors import InputError, SandboxUnprovenError
from runner_e2e.isolation.product import CellTraits

OBSERVER = Path(__file__).parent / "codex_observer.py"
DONE = "done"

_STEPS = {
    "namespaces": "make a user and a mount namespace",
    "maps": "map its user into the namespace",
    "private": "make its mounts private",
    "memory": "mount a file system",
}
_OTHERWISE = "run this cell elsewhere, with sandbox-owner target or on daytona, or choose another profile"


@dataclass(frozen=True, slots=True)
class Reached:
    """How far Codex's sandbox comes: the step that failed and its errno, or `done`."""

    step: str
    number: int = 0


def needs_codex_sandbox(cell: CellTraits) -> bool:
    """Whether a cell starts Codex on this machine."""
    return cell.provider == "codex" and not cell.remote


def check_codex_sandbox(request: TrialRequest) -> None:
    """Refuse a Codex cell where Codex's sandbox cannot start inside a domain of the production wrapper.

    Uses `<root>/probe`, which every production launch hides, and removes it.
    """
    outside, inside = observe_codex_sandbox(request)
    if error := judge_codex_sandbox(outside, inside):
        raise error


def judge_codex_sandbox(outside: Reached | None, inside: Reached | None) -> InputError | None:
    """Return why a cell cannot run Codex, None when it can; None for an observation is no usable answer."""
    if outside is None or outside.step != DONE:
        return InputError(
            f"Codex's own sandbox cannot start on this machine at all: it {_describe(outside)}",
            "Allow unprivileged user namespaces on it (on Ubuntu 24.04 the setting "
            "kernel.apparmor_restrict_unprivileged_userns), or choose another profile",
        )
    if inside is None or inside.step != DONE:
        return InputError(
            f"Codex's own sandbox cannot start inside the cell's sandbox: there it {_describe(inside)}",
            f"A sandbox that hides files lets nothing below it mount; {_OTHERWISE}",
        )
    return None


def _describe(reached: Reached | None) -> str:
    if reached is None:
        return "gave no usable answer"
    reason = errno.errorcode.get(reached.number, "unknown error")
    return f"cannot {_STEPS.get(reached.step, 'start')} ({reason})"


def observe_codex_sandbox(request: TrialRequest) -> tuple[Reached | None, Reached | None]:
    """Return how far it comes outside of a domain and inside; raises only when nothing can be launched."""
    try:
        with prepared_trial(request, "codex", OBSERVER) as trial:
            outside = _observe(trial, trial.outside)
            inside = _observe(trial, trial.inside)
            refused = trial.find_refusal() if request.sandboxed else ""
    except OSError as error:
        raise SandboxUnprovenError(
            f"It could not be tried whether Codex's sandbox starts: {error.strerror or error}",
            "Check free space and permissions of the attempt's directory",
        ) from error
    if refused:
        raise SandboxUnprovenError(
            f"The launch that tries Codex's sandbox was not made: {refused}",
            "Read the messages of the wrapper",
        )
    return outside, inside


def _observe(trial: Trial, command: Sequence[Path | str]) -> Reached | None:
    nonce = secrets.token_hex(16)
    answer = trial.ask(command, nonce.encode())
    return None if answer is None else parse_answer(answer, nonce)


def parse_answer(answer: bytes, nonce: str) -> Reached | None:
    """Return what an observer says, None unless it is whole and belongs to the request."""
    try:
        content = json.loads(answer)
        step, number = content["step"], content["errno"]
        usable = (
            content["nonce"] == nonce
            and (step == DONE or step in _STEPS)
            and type(number) is int
            and (number == 0) == (step == DONE)
        )
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return Reached(step, number) if usable else None
