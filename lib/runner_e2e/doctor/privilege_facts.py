"""Which privileges a launch gets, through set-id programs and sudo too: tried inside a domain and outside."""

import json
import secrets
import shutil
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from runner_e2e.cell.trial_launch import SEARCH, Trial, TrialRequest, prepared_trial
from runner_e2e.errors import SandboxUnprovenError

OBSERVER = Path(__file__).parent / "privilege_observer.py"
# Programs that usually belong to root and start as root, whoever starts them; each prints a help text.
SET_ID_NAMES = ("su", "sudo", "mount", "umount", "passwd", "gpasswd", "chsh", "chfn", "pkexec")
_MOST_PROGRAMS = 4


@dataclass(frozen=True, slots=True)
class Process:
    """Whom the kernel made of a process: its effective user and capabilities."""

    user: int
    effective: int
    bounding: int
    no_new_privileges: bool


@dataclass(frozen=True, slots=True)
class Refused:
    """There is no such process: it could not be started (`errno`), or ended with a status."""

    errno: int = 0
    status: int = 0


Reached = Process | Refused | None


@dataclass(frozen=True, slots=True)
class Seen:
    """What one observer saw; None stands for what it could not tell."""

    own: Process
    programs: Mapping[str, Reached] = field(default_factory=dict)
    sudo: Reached = None


@dataclass(frozen=True, slots=True)
class PrivilegeFacts:
    """The same attempts outside of a domain, for control, and inside; `sudo` is where it lies."""

    outside: Seen
    inside: Seen
    sudo: str | None


def observe_privileges(request: TrialRequest, search: str = SEARCH) -> PrivilegeFacts:
    """Start the observer through the production wrapper and without it; `search` has sudo and its like.

    Raises RunnerE2EError when no answer can be had.
    """
    sudo = shutil.which("sudo", path=search)
    asked: dict[str, object] = {"programs": find_set_id(search), "sudo": sudo}
    try:
        with prepared_trial(request, "doctor", OBSERVER) as trial:
            outside = _observe(trial, trial.outside, asked)
            inside = _observe(trial, trial.inside, asked)
            refused = trial.find_refusal() if request.sandboxed else ""
    except OSError as error:
        raise SandboxUnprovenError(
            f"Privileges could not be tried out: {error.strerror or type(error).__name__}",
            "Check free space and permissions of /var/tmp",
        ) from error
    if refused:
        raise SandboxUnprovenError(
            f"The launch was not made: {refused}", "Read the other findings about isolation"
        )
    if outside is None or inside is None:
        raise SandboxUnprovenError(
            "An observer of privileges gave no usable answer", "Read the other findings about isolation"
        )
    return PrivilegeFacts(outside, inside, sudo)


def find_set_id(search: str) -> list[str]:
    """Return programs of root on a search path that start as root, a few."""
    found = []
    for name in SET_ID_NAMES:
        program = shutil.which(name, path=search)
        if program is not None and _starts_as_root(Path(program)):
            found.append(program)
    return found[:_MOST_PROGRAMS]


def _starts_as_root(program: Path) -> bool:
    status = program.stat()
    return status.st_uid == 0 and bool(status.st_mode & stat.S_ISUID)


def _observe(trial: Trial, command: Sequence[Path | str], asked: Mapping[str, object]) -> Seen | None:
    nonce = secrets.token_hex(16)
    answer = trial.ask(command, json.dumps({"nonce": nonce, **asked}).encode())
    return None if answer is None else parse_seen(answer, nonce)


def parse_seen(answer: bytes, nonce: str) -> Seen | None:
    """Return what an observer says, None unless it is whole and belongs to the request."""
    try:
        content = json.loads(answer)
        own = _parse_reached(content["own"])
        programs = {str(name): _parse_reached(row) for name, row in content["programs"].items()}
        if content["nonce"] != nonce or not isinstance(own, Process):
            return None
        return Seen(own, programs, _parse_reached(content["sudo"]))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _parse_reached(row: Mapping[str, object] | None) -> Reached:
    if row is None:
        return None
    if "errno" in row or "exit" in row:
        return Refused(_number(row.get("errno", 0)), _number(row.get("exit", 0)))
    return Process(
        _number(row["user"]),
        _number(row["effective"]),
        _number(row["bounding"]),
        _number(row["noNewPrivileges"]) != 0,
    )


def _number(value: object) -> int:
    if type(value) is not int:
        raise TypeError
    return value
