"""Whether Codex's own sandbox can start inside a domain; a cell that would find out itself costs money.

Codex starts its tools in bubblewrap, which mounts. A Landlock domain that restricts files refuses every
mount, also in a user namespace of its own (Linux, security/landlock/fs.c), so a Codex cell can run only
where a kernel comes to allow that.
"""

import contextlib
import errno
import json
import os
import secrets
import shutil
import signal
import stat
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from runner_e2e.errors import InputError, SandboxUnprovenError
from runner_e2e.evidence.journal import parse_journal
from runner_e2e.isolation.layout import DURABLE_SESSIONS, RUN_LOGS
from runner_e2e.isolation.product import CellTraits
from runner_e2e.launch.install import find_interpreter, install_wrapper, write_configuration

OBSERVER = Path(__file__).parent / "codex_observer.py"
TIMEOUT_S = 30.0
DONE = "done"

_RUN = "codex-run"
_STEPS = {
    "namespaces": "make a user and a mount namespace",
    "maps": "map its user into the namespace",
    "private": "make its mounts private",
    "memory": "mount a file system",
}
_SHELL = """\
#!/bin/sh
exec {interpreter} -IS {observer} {place}
"""
_OTHERWISE = "run this cell elsewhere, with sandbox-owner target or on daytona, or choose another profile"


@dataclass(frozen=True, slots=True)
class CodexRequest:
    """The attempt and its production policy, as for a probe.

    `sandboxed` false launches without the wrapper, to show what that would find.
    """

    root: Path
    project: Path
    hide: Sequence[Path]
    hide_optional: Sequence[Path]
    minimum_abi: int
    levels: Mapping[str, str]
    sandboxed: bool = True
    timeout_s: float = TIMEOUT_S


@dataclass(frozen=True, slots=True)
class Reached:
    """How far Codex's sandbox comes: the step that failed and its errno, or `done`."""

    step: str
    number: int = 0


def needs_codex_sandbox(cell: CellTraits) -> bool:
    """Whether a cell starts Codex on this machine."""
    return cell.provider == "codex" and not cell.remote


def check_codex_sandbox(request: CodexRequest) -> None:
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


def observe_codex_sandbox(request: CodexRequest) -> tuple[Reached | None, Reached | None]:
    """Return how far it comes outside of a domain and inside; raises only when nothing can be launched."""
    root = request.root / "probe"
    try:
        root.mkdir(mode=0o700)
        with contextlib.ExitStack() as stack:
            stack.callback(shutil.rmtree, root, ignore_errors=True)
            return _observe_both(request, root)
    except OSError as error:
        raise SandboxUnprovenError(
            f"It could not be tried whether Codex's sandbox starts: {error.strerror or error}",
            "Check free space and permissions of the attempt's directory",
        ) from error


def _observe_both(request: CodexRequest, root: Path) -> tuple[Reached | None, Reached | None]:
    interpreter = find_interpreter()
    wrapper = install_wrapper(root, request.project)
    instance = root / "paperclip-home" / "instances" / "codex"
    workspace = instance / "workspaces" / "agent"
    place = workspace / "mounted"
    place.mkdir(mode=0o700, parents=True)
    (root / "s").mkdir(mode=0o700)
    # As a server does before it starts runnerd: without it a launch sees no workspace.
    log = instance / RUN_LOGS / "codex" / workspace.name / f"{_RUN}.ndjson"
    log.parent.mkdir(mode=0o700, parents=True)
    log.touch(mode=0o600)
    observer, shell = root / "bin" / "observer.py", root / "bin" / "codex-shell"
    shutil.copyfile(OBSERVER, observer)
    shell.write_text(_SHELL.format(interpreter=interpreter, observer=observer, place=place), encoding="utf-8")
    shell.chmod(stat.S_IRWXU | stat.S_IRGRP | stat.S_IXGRP | stat.S_IROTH | stat.S_IXOTH)
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
    arguments = [
        "--state-dir",
        f"{instance}/{DURABLE_SESSIONS}/{'0' * 64}/runner",
        "--session-id",
        "codex-session",
        "--run-id",
        _RUN,
    ]
    outside = _observe([shell], workspace, request.timeout_s)
    if not request.sandboxed:
        return outside, _observe([shell, *arguments], workspace, request.timeout_s)
    inside = _observe([wrapper, *arguments], workspace, request.timeout_s)
    records = parse_journal(journal.read_bytes()) if journal.exists() else []
    refused = [record for record in records if "code" in record]
    if refused or not records:
        said = (
            f": {refused[0]['code']}: {refused[0]['message']}"
            if refused
            else " and left no line in the journal"
        )
        raise SandboxUnprovenError(
            f"The launch that tries Codex's sandbox was not made{said}", "Read the messages of the wrapper"
        )
    return outside, inside


def _observe(command: Sequence[Path | str], workspace: Path, timeout_s: float) -> Reached | None:
    nonce = secrets.token_hex(16)
    try:
        with subprocess.Popen(
            [os.fspath(word) for word in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=workspace,
            env={"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": os.devnull},
            start_new_session=True,
        ) as process:
            try:
                answer, _ = process.communicate(nonce.encode(), timeout_s)
            except BaseException:
                # Also when the harness is stopped.
                os.killpg(process.pid, signal.SIGKILL)
                raise
    except (subprocess.TimeoutExpired, OSError):
        return None
    return parse_answer(answer, nonce)


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
