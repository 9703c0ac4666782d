"""Which privileges a launch gets, through set-id programs and sudo too: tried inside a domain and outside."""

import json
import os
import secrets
import shutil
import signal
import stat
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from runner_e2e.errors import SandboxUnprovenError
from runner_e2e.evidence.journal import parse_journal
from runner_e2e.isolation.layout import DURABLE_SESSIONS, RUN_LOGS
from runner_e2e.launch.install import find_interpreter, install_wrapper, write_configuration

OBSERVER = Path(__file__).parent / "privilege_observer.py"
TIMEOUT_S = 8.0
# Programs that usually belong to root and start as root, whoever starts them; each prints a help text.
SET_ID_NAMES = ("su", "sudo", "mount", "umount", "passwd", "gpasswd", "chsh", "chfn", "pkexec")
_SEARCH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
_MOST_PROGRAMS = 4
_RUN = "doctor"
_SHELL = """\
#!/bin/sh
exec {interpreter} -IS {observer}
"""


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


@dataclass(frozen=True, slots=True)
class PrivilegeRequest:
    """An attempt's directory with the production policy, as for a probe; `search` has sudo and its like.

    `sandboxed` false launches without the wrapper, to show what a launcher that does nothing leaves open.
    """

    root: Path
    project: Path
    hide: Sequence[Path]
    hide_optional: Sequence[Path]
    minimum_abi: int
    levels: Mapping[str, str]
    search: str = _SEARCH
    sandboxed: bool = True
    timeout_s: float = TIMEOUT_S


def observe_privileges(request: PrivilegeRequest) -> PrivilegeFacts:
    """Start the observer through the production wrapper and without it.

    Uses `<root>/probe`, which every production launch hides, and removes it. Raises RunnerE2EError when no
    answer can be had.
    """
    root = request.root / "probe"
    try:
        root.mkdir(mode=0o700)
        try:
            return _observe_both(request, root)
        finally:
            shutil.rmtree(root, ignore_errors=True)
    except OSError as error:
        raise SandboxUnprovenError(
            f"Privileges could not be tried out: {error.strerror or type(error).__name__}",
            "Check free space and permissions of /var/tmp",
        ) from error


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


def _observe_both(request: PrivilegeRequest, root: Path) -> PrivilegeFacts:
    wrapper = install_wrapper(root, request.project)
    instance = root / "paperclip-home" / "instances" / "doctor"
    workspace = instance / "workspaces" / "agent"
    workspace.mkdir(mode=0o700, parents=True)
    (root / "s").mkdir(mode=0o700)
    # As a server does before it starts runnerd: without it a launch sees no workspace.
    log = instance / RUN_LOGS / "doctor" / workspace.name / f"{_RUN}.ndjson"
    log.parent.mkdir(mode=0o700, parents=True)
    log.touch(mode=0o600)
    observer, shell = root / "bin" / "observer.py", root / "bin" / "doctor-shell"
    shutil.copyfile(OBSERVER, observer)
    shell.write_text(_SHELL.format(interpreter=find_interpreter(), observer=observer), encoding="utf-8")
    shell.chmod(0o755)
    journal = write_configuration(
        root,
        runner=shell,
        boot=1,
        instance_parents=[instance.parent],
        hide=[*request.hide, root / "private"],
        # Its own root is what the production policy hides; here it has to stay visible.
        hide_optional=[path for path in request.hide_optional if path != root],
        minimum_abi=request.minimum_abi,
        levels=request.levels,
    )
    session = f"{instance}/{DURABLE_SESSIONS}/{'0' * 64}/runner"
    arguments = ["--state-dir", session, "--session-id", "doctor", "--run-id", _RUN]
    sudo = shutil.which("sudo", path=request.search)
    asked: dict[str, object] = {"programs": find_set_id(request.search), "sudo": sudo}
    outside = _observe([shell], workspace, asked, request.timeout_s)
    inside = _observe(
        [wrapper if request.sandboxed else shell, *arguments], workspace, asked, request.timeout_s
    )
    refused = _find_refusal(journal) if request.sandboxed else ""
    if refused:
        raise SandboxUnprovenError(refused, "Read the other findings about isolation")
    if outside is None or inside is None:
        raise SandboxUnprovenError(
            "An observer of privileges gave no usable answer", "Read the other findings about isolation"
        )
    return PrivilegeFacts(outside, inside, sudo)


def _find_refusal(journal: Path) -> str:
    records = parse_journal(journal.read_bytes()) if journal.exists() else []
    refused = [record for record in records if "code" in record]
    if refused:
        return f"The launch was refused: {refused[0]['code']}: {refused[0]['message']}"
    return "" if records else "The launch left no line in the journal"


def _observe(
    command: Sequence[Path | str], workspace: Path, asked: Mapping[str, object], timeout_s: float
) -> Seen | None:
    nonce = secrets.token_hex(16)
    try:
        with subprocess.Popen(
            [os.fspath(word) for word in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=workspace,
            env={"PATH": _SEARCH, "LANG": "C.UTF-8", "HOME": os.devnull},
            start_new_session=True,
        ) as process:
            try:
                answer, _ = process.communicate(json.dumps({"nonce": nonce, **asked}).encode(), timeout_s)
            except BaseException:
                # Also when the doctor is stopped: what was started holds its pipes.
                os.killpg(process.pid, signal.SIGKILL)
                raise
    except (subprocess.TimeoutExpired, OSError):
        return None
    return parse_seen(answer, nonce)


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
