"""The target's command behind its warden: real processes, some of which do all to outlive it."""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import secrets
import select
import shlex
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from e2e.checkout import Checkout, finish, wait_for
from runner_e2e.actions.surface import ActionSurface
from runner_e2e.cell.child import Child, running_child
from runner_e2e.cell.process_marks import is_running, read_mark
from runner_e2e.errors import InputError, SandboxUnprovenError
from runner_e2e.evidence.live_log import LiveLog
from runner_e2e.evidence.redaction import Redactor

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAMS = Path(__file__).parent / "programs"
UNRULY = PROGRAMS / "unruly_child.py"
ENVIRONMENT = {"PATH": os.defpath}
TIMEOUT_S = 20.0
ROUNDS = 12


@dataclass(frozen=True, slots=True)
class Stage:
    """Whatever carries the token on its command line belongs to the test."""

    directory: Path
    token: str = field(default_factory=lambda: f"unruly-{secrets.token_hex(8)}")

    def words(self, way: str, *more: str) -> list[str]:
        return [sys.executable, "-I", "-S", str(UNRULY), way, self.token, *more]

    def child(self, way: str) -> contextlib.AbstractContextManager[Child]:
        return running_child(self.words(way), ENVIRONMENT, self.directory)

    def left(self) -> list[int]:
        """Return the living processes of the test."""
        found = [int(path.name) for path in Path("/proc").glob("[0-9]*") if self._owns(path)]
        return [pid for pid in found if read_mark(pid) is not None]

    def _owns(self, path: Path) -> bool:
        with contextlib.suppress(OSError):
            return self.token.encode() in (path / "cmdline").read_bytes()
        return False


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """Whatever a test does, nothing may be left of it."""
    found = Stage(tmp_path)
    yield found
    left = found.left()
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == []


def read_line(descriptor: int) -> bytes:
    """Return one line of a pipe."""
    line = b""
    while not line.endswith(b"\n"):
        assert select.select([descriptor], [], [], TIMEOUT_S)[0], f"no whole line: {line!r}"
        part = os.read(descriptor, 1)
        assert part, f"ended in a line: {line!r}"
        line += part
    return line


def read_all(descriptor: int) -> bytes:
    parts = []
    while part := os.read(descriptor, 65536):
        parts.append(part)
    return b"".join(parts)


def wait(child: Child) -> int:
    wait_for(lambda: child.poll() is not None, "the command did not end", TIMEOUT_S)
    status = child.poll()
    assert status is not None
    return status


def run(words: list[str], environment: dict[str, str], cwd: Path) -> tuple[int, bytes]:
    with running_child(words, environment, cwd) as child:
        printed = read_all(child.stdout)
        return wait(child), printed


def test_a_command_that_succeeds_is_seen_from_start_to_end(stage: Stage) -> None:
    with running_child(["cat"], ENVIRONMENT, stage.directory) as child:  # ends, since its input is empty
        assert wait(child) == 0
        assert child.end_strays() == []
        assert child.running() == [child.warden]
        assert read_all(child.stdout) == b""
        assert not child.warden_lost

    assert not is_running(child.warden)


@pytest.mark.parametrize(
    ("way", "status"),
    [
        pytest.param("hold", 5, id="own-status"),
        pytest.param("die", 128 + signal.SIGUSR2, id="signal"),
    ],
)
def test_the_status_is_told_as_a_shell_does(stage: Stage, way: str, status: int) -> None:
    with stage.child(way) as child:
        assert wait(child) == status
        assert child.poll() == status
        assert not child.warden_lost
        child.end_strays()
        assert stage.left() == []


def test_the_status_is_told_though_somebody_stopped_the_warden(stage: Stage) -> None:
    with stage.child("be_stubborn") as child:
        read_line(child.stdout)
        os.kill(child.warden.pid, signal.SIGSTOP)
        os.kill(child.mark.pid, signal.SIGUSR2)

        assert wait(child) == 128 + signal.SIGUSR2
        assert not child.warden_lost


def test_how_far_the_command_is_confined_is_told(stage: Stage) -> None:
    with running_child(["true"], ENVIRONMENT, stage.directory) as child:
        assert child.domain == {"scopes": "enforced", "writes": "off"}
    with running_child(["true"], ENVIRONMENT, stage.directory, [stage.directory]) as child:
        assert child.domain == {"scopes": "enforced", "writes": "enforced"}


def test_a_command_that_cannot_be_confined_does_not_start(stage: Stage) -> None:
    (stage.directory / "link").symlink_to(stage.directory)
    words = ["touch", str(stage.directory / "started")]

    with pytest.raises(SandboxUnprovenError, match=r"leads somewhere else: .*/link"):  # noqa: SIM117
        with running_child(words, ENVIRONMENT, stage.directory, [stage.directory / "link"]):
            pytest.fail("it started")
    assert not (stage.directory / "started").exists()


def test_a_command_that_ends_at_once_is_not_missed(stage: Stage) -> None:
    for _ in range(40):
        with running_child(["true"], ENVIRONMENT, stage.directory) as child:
            time.sleep(0.01)  # so that its start and its end are told together
            assert wait(child) == 0
            assert not child.warden_lost


@pytest.mark.parametrize(
    ("word", "said"),
    [
        pytest.param(
            "no-such-command", "'no-such-command' was not found on its search path", id="not-on-the-path"
        ),
        pytest.param("./missing", "'./missing' was not found", id="no-such-file"),
        pytest.param("./plain/file", "'./plain/file' was not found", id="below-a-file"),
        pytest.param("./directory", "is a directory", id="directory"),
        pytest.param("directory", "'directory' was not found", id="directory-on-the-path"),
        pytest.param("./plain", "may not be executed", id="not-executable"),
        pytest.param("plain", "may not be executed", id="not-executable-on-the-path"),
        pytest.param("./no-interpreter", "the interpreter of './no-interpreter' was not found", id="shebang"),
        pytest.param("./no-program", "no program that this machine can execute", id="no-format"),
        pytest.param("n" * 5000, "File name too long", id="name-too-long"),
    ],
)
def test_a_command_that_cannot_be_executed_is_refused_in_words(stage: Stage, word: str, said: str) -> None:
    (stage.directory / "directory").mkdir()
    (stage.directory / "plain").write_text("x")
    for name, content in (("no-interpreter", "#!/no/such/interpreter\n"), ("no-program", "x\n")):
        (stage.directory / name).write_text(content)
        (stage.directory / name).chmod(0o755)
    environment = {"PATH": f"{stage.directory}:{os.defpath}"}

    with pytest.raises(InputError, match=said), running_child([word], environment, stage.directory):
        pytest.fail("it started")


def test_a_search_goes_on_behind_what_cannot_be_executed(stage: Stage) -> None:
    (stage.directory / "cat").mkdir()
    (stage.directory / "true").write_text("x")
    environment = {"PATH": f"{stage.directory}:/no/such/place:{os.defpath}"}

    for word in ("cat", "true"):
        assert run([word], environment, stage.directory) == (0, b"")


def test_a_directory_that_cannot_be_entered_is_refused(stage: Stage) -> None:
    missing = stage.directory / "missing"

    with pytest.raises(InputError, match=r"cannot be entered: .*missing.*: No such file"):  # noqa: SIM117
        with running_child(["true"], ENVIRONMENT, missing):
            pytest.fail("it started")


def test_an_environment_that_is_too_long_is_refused(stage: Stage) -> None:
    with pytest.raises(InputError, match="so long an environment"):  # noqa: SIM117
        with running_child(["true"], {"LONG": "x" * (1 << 20)}, stage.directory):
            pytest.fail("it started")


def test_the_command_gets_exactly_what_it_is_given(stage: Stage) -> None:
    environment = {f"VARIABLE_{number}": "x" * 10_000 for number in range(100)}
    environment |= {"ODD\udcff": "\udcfe", "EMPTY": "", "LINES": "a\nb=c"}
    words = [f"word {number}" for number in range(1997)] + ["", "\u00e4", "a\nb"]

    status, printed = run(stage.words("show", *words), environment, stage.directory)

    seen = json.loads(printed)
    assert status == 0
    assert seen["environment"] == sorted(f"{name}={value}" for name, value in environment.items())
    assert seen["words"] == words
    assert seen["files"] == [0, 1, 2]
    assert seen["input"] == "/dev/null"
    assert seen["directory"] == str(stage.directory)
    assert seen["leads"] is True


def test_no_signal_that_is_held_or_ignored_here_is_so_there(stage: Stage) -> None:
    held = {signal.SIGTERM, signal.SIGCHLD, signal.SIGRTMIN}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, held)
    ignored = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        control = subprocess.check_output(["grep", "^Sig[BI]", "/proc/self/status"])
        status, printed = run(["grep", "^Sig[BI]", "/proc/self/status"], ENVIRONMENT, stage.directory)
    finally:
        signal.signal(signal.SIGHUP, ignored)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

    assert all(int(line.split()[1], 16) for line in control.splitlines())
    assert status == 0
    assert [int(line.split()[1], 16) for line in printed.splitlines()] == [0, 0]


def test_the_warden_holds_neither_the_order_nor_the_streams(stage: Stage) -> None:
    secret = f"secret-{secrets.token_hex(8)}"
    with running_child(stage.words("be_stubborn"), {"SECRET": secret}, stage.directory) as child:
        read_line(child.stdout)
        warden = Path(f"/proc/{child.warden.pid}")
        shown = (warden / "environ").read_bytes() + (warden / "cmdline").read_bytes()
        streams = [(warden / "fd" / str(number)).readlink() for number in (1, 2)]
        commanded = Path(f"/proc/{child.mark.pid}/environ").read_bytes()

    assert secret.encode() in commanded  # control
    assert secret.encode() not in shown
    assert stage.token.encode() not in shown
    assert streams == [Path("/dev/null"), Path("/dev/null")]


def test_a_stubborn_command_is_killed_after_the_grace(stage: Stage) -> None:
    with stage.child("be_stubborn") as child:
        read_line(child.stdout)
        started = time.monotonic()
        child.stop(0.5)
        elapsed_s = time.monotonic() - started
        child.stop(5)

        assert child.poll() == 128 + signal.SIGKILL
        assert time.monotonic() - started - elapsed_s < 0.5
    assert 0.5 <= elapsed_s < 1.5


def test_a_command_that_has_much_to_tell_at_its_end_is_read_meanwhile(stage: Stage) -> None:
    printed = b""

    def read(timeout_s: float) -> None:
        nonlocal printed
        if select.select([child.stdout], [], [], timeout_s)[0]:
            printed += os.read(child.stdout, 1 << 20)

    with stage.child("end_politely") as child:
        read_line(child.stdout)
        child.stop(5, read)

        assert child.poll() == 4
    assert printed.count(b"cleaning up\n") > 10_000  # far more than a pipe holds


def test_a_group_has_its_grace_after_its_first_process_ended(stage: Stage) -> None:
    with stage.child("end_before_its_group") as child:
        read_line(child.stdout)
        child.stop(5)

        assert child.poll() == 128 + signal.SIGTERM
        assert (stage.directory / stage.token).exists()
        assert child.end_strays() == []


def test_a_stopped_group_takes_its_signal(stage: Stage) -> None:
    with stage.child("end_before_its_group") as child:
        read_line(child.stdout)
        os.killpg(child.mark.pid, signal.SIGSTOP)
        child.stop(5)

        assert (stage.directory / stage.token).exists()


def test_a_daemon_is_found_after_the_command_ended(stage: Stage) -> None:
    with stage.child("daemonize") as child:
        assert wait(child) == 0
        (daemon,) = stage.left()
        assert read_mark(daemon) in child.running()

        (name,) = child.end_strays()

        assert name.endswith(f" ({daemon})")
        assert stage.left() == []
        assert child.end_strays() == []
        assert child.poll() == 0


def test_what_runs_is_told_for_the_record(stage: Stage) -> None:
    with stage.child("grow") as child:
        read_line(child.stdout)
        marks = child.running()

    assert marks[:2] == [child.warden, child.mark]
    assert len(marks) == 4
    assert not any(is_running(mark) for mark in marks)


def test_a_stream_held_by_another_does_not_hide_the_end(stage: Stage) -> None:
    log = io.StringIO()
    surface = ActionSurface({"GITHUB_ACTIONS": "true"}, log)
    live = LiveLog(surface.line)
    with stage.child("hold") as child:
        for descriptor in (child.stdout, child.stderr):
            live.follow(descriptor, Redactor([]).stream)
        started = time.monotonic()
        whole = live.run(lambda: child.poll() is not None, "Harness", surface.group, grace_s=1)

        assert (child.poll(), whole) == (5, False)
        assert time.monotonic() - started < TIMEOUT_S
        assert len(child.end_strays()) == 1
    assert "last words" in log.getvalue()


def test_a_bomb_is_ended_within_the_time_of_a_cancelled_job(stage: Stage) -> None:
    with stage.child("bomb") as child:
        read_line(child.stdout)
        started = time.monotonic()
        child.stop()
        names = child.end_strays()
        elapsed_s = time.monotonic() - started
        for _ in range(5):  # what runs away gets more of a busy machine than who hunts it
            if stage.left():
                assert child.end_strays()

        assert stage.left() == []
    assert elapsed_s < 8
    assert len(names) >= 20


@pytest.mark.parametrize("strays", [True, False], ids=["strays-ended", "left-to-the-end"])
def test_a_warden_that_is_stopped_again_and_again_holds_nobody_up(stage: Stage, *, strays: bool) -> None:
    with stage.child("hold") as child:
        script = f"while kill -STOP {child.warden.pid}; do :; done 2>/dev/null"
        pesterer = subprocess.Popen(["/bin/sh", "-c", script])  # ends with the warden
        started = time.monotonic()
        status = wait(child)
        elapsed_s = time.monotonic() - started
        if strays:
            child.end_strays()

    pesterer.wait(TIMEOUT_S)
    assert (status, child.warden_lost) in [(5, False), (137, True)]
    assert elapsed_s < 4
    assert time.monotonic() - started < 8


def test_an_error_in_the_block_ends_everything(stage: Stage) -> None:
    with pytest.raises(ZeroDivisionError), stage.child("grow") as child:  # noqa: PT012 - the error is ours
        read_line(child.stdout)
        assert len(stage.left()) == 3
        _ = 1 // 0

    assert stage.left() == []
    assert child.poll() == 128 + signal.SIGKILL


@dataclass(frozen=True, slots=True)
class Host:
    """Who runs the process that stands for run-cell, and where."""

    checkout: Checkout
    desk: Path
    stage: Stage

    @property
    def library(self) -> Path:
        return self.desk / "lib"

    def words(self, way: str) -> list[str]:
        """A way of the unruly child, as a command of its own."""
        return [str(self.checkout.python), "-I", "-S", str(self.desk / UNRULY.name), way, self.stage.token]

    def start(self, way: str) -> subprocess.Popen[str]:
        words = [str(self.checkout.python), "-P", str(self.desk / "child_host.py")]
        words += [str(self.library), str(self.desk / UNRULY.name), way, self.stage.token]
        return self.checkout.start(words, self.desk)

    def run(self, way: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return what the host told at first and in the end."""
        with self.start(way) as process:
            try:
                printed, said = process.communicate(timeout=TIMEOUT_S)
            finally:
                process.kill()
        assert said == ""
        first, last = map(json.loads, printed.splitlines())
        return first, last


@pytest.fixture
def host(checkout: Checkout, desk: Path, stage: Stage) -> Host:
    for program in (UNRULY, PROGRAMS / "child_host.py"):
        shutil.copy(program, desk / program.name)
        (desk / program.name).chmod(0o644)
    (desk / "lib").symlink_to(checkout.project / "lib")
    return Host(checkout, desk, stage)


def test_a_host_reports_a_daemon_and_ends_it(host: Host) -> None:
    _, last = host.run("daemonize")

    assert (last["status"], last["lost"], len(last["strays"]), last["left"]) == (0, False, 1, [])


def test_a_warden_that_somebody_kills_is_known_and_nothing_is_lost(host: Host) -> None:
    with host.start("grow") as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        wait_for(lambda: len(host.stage.left()) == 4, "the command did not start")  # the host is one of them
        os.kill(first["warden"], signal.SIGKILL)
        last = json.loads(process.communicate(timeout=TIMEOUT_S)[0])

    assert (last["status"], last["lost"], last["strays"]) == (137, True, [])
    assert len(last["left"]) >= 1  # the daemon, which run-cell inherited
    assert read_mark(first["warden"]) is None
    assert host.stage.left() == []


def test_a_command_reaches_neither_its_warden_nor_run_cell(host: Host) -> None:
    words = shlex.join(host.words("reach_up"))
    _, last = host.run("reach_up")
    control = finish(
        host.checkout.start(["/bin/sh", "-c", f"sh -c {shlex.quote(f'{words}; :')}; :"], host.desk)
    )

    assert (last["status"], last["lost"]) == (0, False)
    found, allowed = json.loads(last["said"]), json.loads(control.stdout)
    assert set(allowed.values()) == {""}, control
    denials = {"signal": "EPERM", "continue": "EPERM", "limit": "EPERM"}
    denials |= dict.fromkeys(("environ", "memory", "descriptor"), "EACCES")
    assert found == {name: denials[name.split()[1]] for name in allowed}


def test_nothing_outlives_a_host_that_is_killed_at_any_moment(host: Host) -> None:
    seed = secrets.randbits(32)
    print(f"seed {seed}")  # noqa: T201 - to repeat a failure
    delays = random.Random(seed)
    for number in range(ROUNDS):
        with host.start("grow") as process:
            assert process.stdout is not None
            try:
                if number == 1:  # at least once there is all that there can be, the host too
                    wait_for(lambda: len(host.stage.left()) == 4, "the command did not start")
                    assert len(wardens(host)) == 1
                elif number % 3 == 1:
                    time.sleep(delays.uniform(0, 0.4))
                elif number % 3 == 2:  # from the moment at which the command runs
                    process.stdout.readline()
                    time.sleep(delays.uniform(0, 0.1))
            finally:
                process.kill()
            process.communicate(timeout=TIMEOUT_S)  # its streams, too, are let go
        wait_for(lambda: not host.stage.left(), f"processes were left in round {number}, seed {seed}")
        wait_for(lambda: not wardens(host), f"a warden was left in round {number}, seed {seed}")


def wardens(host: Host) -> list[int]:
    """Return the living wardens of a host, which loads them from its own desk."""
    place = os.fsencode(host.library / "runner_e2e/cell/warden.py")
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if place in (path / "cmdline").read_bytes() and read_mark(int(path.name)) is not None:
                found.append(int(path.name))
    return found
