"""Ask targets for their cells: harnesses that run the published rules, old ones, and ones that misbehave.

Each call runs in a process of its own, as in the product, and gets what to ask on standard input.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from e2e.checkout import PROJECT, TIMEOUT_S, wait_for
from e2e.programs.target_harness import CELLS, VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PROGRAMS = Path(__file__).resolve().parent / "programs"
EXPLICIT = "core.opencode.local.long-haul"
FIRST = "core.opencode.local.first-task"
LIMITS = {"timeout_s": 60.0, "cap": 1_000_000}

# Stands where the target has its package manager: names the script it runs, unless it is to be silent.
PNPM = """\
#!/bin/sh
if [ "$1" = --silent ]; then shift; else echo "> target@1.0.0 $1"; fi
[ "$1" = test:e2e:runner ] || {{ echo "ERR_PNPM_NO_SCRIPT Missing script: $1"; exit 1; }}
shift
exec {python} {harness} "$@"
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one call came to."""

    status: int
    content: dict[str, Any]

    @property
    def answer(self) -> Any:  # noqa: ANN401 - one of several documents
        assert "answer" in self.content, self
        return self.content["answer"]

    @property
    def error(self) -> str:
        assert "error" in self.content, self
        return str(self.content["error"])

    @property
    def said(self) -> str:
        return str(self.content["said"])


@dataclass(frozen=True, slots=True)
class Caller:
    """Asks targets in one directory; every process of a target carries the directory as its mark."""

    directory: Path

    @property
    def mark(self) -> str:
        return f"--mark={self.directory}"

    def start(self, order: Mapping[str, object], **environ: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, PROGRAMS / "list_cells.py"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(PROJECT / "lib"), **environ},
            text=True,
        )
        assert process.stdin is not None
        process.stdin.write(json.dumps({"directory": str(self.directory), **order}))
        process.stdin.close()
        process.stdin = None
        return process

    def ask(self, order: Mapping[str, object], **environ: str) -> Outcome:
        return finish(self.start(order, **environ))

    def odd(self, way: str, **more: object) -> dict[str, object]:
        """Return the order that runs a command which does not behave."""
        words = [sys.executable, str(PROGRAMS / "odd_harness.py"), way, self.mark]
        order = {"task": "run", "words": words, "environ": {"PATH": os.environ["PATH"]}, "limits": LIMITS}
        return {**order, **more}

    def command(self, *modes: str) -> str:
        """Return the command line of a harness that runs the published rules."""
        script = f'exec "$0" {PROGRAMS}/target_harness.py {" ".join(modes)} "$@"'
        return f"sh -c '{script}' {sys.executable} --"

    def order(self, task: str, *modes: str, **more: object) -> dict[str, object]:
        return {"task": task, "command": self.command(*modes), "pass_env": [], "transport": "env", **more}

    def left(self) -> list[int]:
        return [pid for pid in psutil.pids() if os.fsencode(self.mark) in read_proc(pid, "cmdline")]


def finish(process: subprocess.Popen[str]) -> Outcome:
    printed, said = process.communicate(timeout=TIMEOUT_S)
    assert said == ""
    return Outcome(process.returncode, json.loads(printed))


def read_proc(pid: int, name: str) -> bytes:
    """Return a file of a process, nothing when it is gone or somebody else's."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


@pytest.fixture
def caller(tmp_path: Path) -> Iterator[Caller]:
    """Whatever a test asks, nothing of the target may be left when the answer is there."""
    found = Caller(tmp_path)
    yield found
    left = found.left()
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == []


def test_a_target_lists_what_is_selected(caller: Caller) -> None:
    outcome = caller.ask(caller.order("list", selectors={"suites": ["core"]}))

    assert outcome.status == 0
    assert outcome.answer["ids"] == [FIRST, "core.opencode.daytona.first-task"]


def test_a_target_that_refuses_is_quoted(caller: Caller) -> None:
    outcome = caller.ask(caller.order("list", selectors={"suites": ["cores"]}))

    assert (outcome.status, outcome.error) == (2, "ListingRefusedError")
    assert "status 1: unknown suite: cores / Try --list" in outcome.said


@pytest.mark.parametrize(
    ("modes", "result"),
    [
        pytest.param((), "supported", id="reads-the-variable"),
        pytest.param(("old",), "unsupported", id="does-not"),
    ],
)
def test_the_probe_tells_targets_apart(caller: Caller, modes: tuple[str, ...], result: str) -> None:
    assert caller.ask(caller.order("probe", *modes)).answer[0] == result


@pytest.mark.parametrize(
    "command",
    [
        pytest.param("{python} {programs}/odd_harness.py crash", id="crashes"),
        pytest.param("{python} {programs}/odd_harness.py show_large", id="other-json"),
        pytest.param("{python} {programs}/odd_harness.py fail_on_stdout", id="fails"),
        pytest.param("/no/such/program", id="is-not-there"),
    ],
)
def test_the_probe_of_a_target_that_does_not_answer_is_unknown(caller: Caller, command: str) -> None:
    words = command.format(python=sys.executable, programs=PROGRAMS)

    assert caller.ask({**caller.order("probe"), "command": words}).answer[0] == "unknown"


@pytest.mark.parametrize(
    ("task", "more", "wanted"),
    [
        pytest.param("probe", {}, FIRST, id="probe"),
        pytest.param("list", {"selectors": {"ids": [EXPLICIT]}}, EXPLICIT, id="explicit-cell"),
    ],
)
def test_an_id_travels_in_the_environment_and_on_no_command_line(
    caller: Caller, task: str, more: dict[str, object], wanted: str
) -> None:
    process = caller.start(caller.order(task, "slow", **more))

    seen = watch(process, wanted)

    outcome = finish(process)
    assert outcome.status == 0
    assert outcome.answer == {"rows": [EXPLICIT], "ids": [EXPLICIT]} or outcome.answer[0] == "supported"
    assert seen["environ"] > 0  # control: it was looked at while the target had the id
    assert seen["cmdline"] == 0


def test_the_watch_would_see_an_id_on_a_command_line(caller: Caller) -> None:
    words = ["--matrix-json", "--id", EXPLICIT]

    process = caller.start(caller.order("call", "slow", words=words))

    assert watch(process, EXPLICIT)["cmdline"] > 0
    assert json.loads(finish(process).answer)["executionIds"] == [EXPLICIT]


def watch(process: subprocess.Popen[str], wanted: str) -> dict[str, int]:
    """Count how often the caller or a process below it shows an id, until the call ends."""
    seen = {"environ": 0, "cmdline": 0}
    texts = {"environ": f"{VARIABLE}={wanted}".encode(), "cmdline": wanted.encode()}
    deadline = time.monotonic() + TIMEOUT_S
    while process.poll() is None:
        assert time.monotonic() < deadline
        with contextlib.suppress(psutil.NoSuchProcess):
            below = psutil.Process(process.pid).children(recursive=True)
            for pid in (process.pid, *(child.pid for child in below)):
                for name, text in texts.items():
                    seen[name] += text in read_proc(pid, name)
        time.sleep(0.01)
    return seen


@pytest.fixture
def package_manager(caller: Caller) -> str:
    """Return a search path with a stand-in for the package manager on it."""
    script = caller.directory / "bin" / "pnpm"
    script.parent.mkdir()
    script.write_text(PNPM.format(python=sys.executable, harness=PROGRAMS / "target_harness.py"))
    script.chmod(0o755)
    return f"{script.parent}:{os.environ['PATH']}"


def test_the_usual_command_is_the_package_managers_script(caller: Caller, package_manager: str) -> None:
    order = {**caller.order("list", selectors={"all": True}), "command": ""}

    outcome = caller.ask(order, PATH=package_manager)

    assert outcome.answer["ids"] == [cell.id for cell in CELLS if not cell.manual and cell.explicit is None]


@pytest.mark.parametrize(
    ("command", "problem", "remedy"),
    [
        pytest.param("pnpm test:e2e:runner --", "does not begin with a JSON", "--silent", id="not-silent"),
        pytest.param("pnpm --silent e2e --", "Missing script: e2e", "by hand", id="other-script"),
        pytest.param("pnpn --silent", "cannot be started: pnpn: No such file", "Install", id="misspelt"),
        pytest.param("./harness", "cannot be started: ./harness: Permission denied", "", id="no-program"),
        pytest.param("./lost", "cannot be started: ./lost: No such file", "", id="no-interpreter"),
    ],
)
def test_a_command_that_is_not_quite_right_is_refused_with_a_remedy(
    caller: Caller, package_manager: str, command: str, problem: str, remedy: str
) -> None:
    (caller.directory / "harness").write_text("#!/bin/sh\n")
    lost = caller.directory / "lost"
    lost.write_text("#!/no/such/interpreter\n")
    lost.chmod(0o755)

    outcome = caller.ask(
        {**caller.order("list", selectors={"all": True}), "command": command}, PATH=package_manager
    )

    assert outcome.status == 2
    assert problem in outcome.said
    assert remedy in outcome.said


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        pytest.param("nowhere", "No such file or directory", id="absent"),
        pytest.param("file", "Not a directory", id="file"),
        pytest.param("n" * 300, "File name too long", id="long-name"),
    ],
)
def test_a_checkout_that_cannot_be_entered_is_named(caller: Caller, name: str, reason: str) -> None:
    (caller.directory / "file").touch()
    place = caller.directory / name

    outcome = caller.ask(caller.order("call", words=[], directory=str(place)))

    assert outcome.status == 2
    assert f"{place} cannot be entered: {reason}" in outcome.said
    assert "target-path" in outcome.said


@pytest.mark.parametrize(
    ("way", "problem"),
    [
        pytest.param("need_variable", "status 1: TARGET_SETTING is not set.", id="lacks-a-variable"),
        pytest.param("fail_silently", "status 3, and says nothing", id="says-nothing"),
        pytest.param("fail_on_stdout", "ERR_PNPM_NO_SCRIPT", id="says-it-on-stdout"),
        pytest.param("fail_and_daemonize", "status 1: no such suite", id="leaves-a-daemon"),
        pytest.param("lack_program", "tsx: not found", id="is-not-installed"),
        pytest.param("crash", "ended by signal 9 (SIGKILL): about to crash", id="crashes"),
        pytest.param("flood", "prints more than 1000000 bytes", id="floods"),
        pytest.param("flood_errors", "a line of no use / the last line", id="floods-errors"),
    ],
)
def test_a_command_that_fails_is_refused_in_one_line(caller: Caller, way: str, problem: str) -> None:
    outcome = caller.ask(caller.odd(way))

    assert outcome.status == 2
    assert problem in outcome.said
    assert outcome.said.isprintable()
    assert caller.left() == []


@pytest.mark.parametrize("way", ["answer_and_leave", "answer_and_daemonize"])
def test_a_child_that_holds_the_streams_delays_no_answer_and_is_gone_after_it(
    caller: Caller, way: str
) -> None:
    started = time.monotonic()

    assert json.loads(caller.ask(caller.odd(way)).answer)["include"] == []
    assert time.monotonic() - started < 15
    assert caller.left() == []


@pytest.mark.parametrize(
    ("way", "words"),
    [
        pytest.param("hang", "; its last words: waiting for the registry", id="hangs"),
        pytest.param("hang_stubbornly", "; its last words: waiting for", id="ignores-sigterm"),
        pytest.param("hang_stopped", "1 seconds. ", id="is-stopped"),
        pytest.param("hang_closed", "1 seconds. ", id="closes-its-streams"),
    ],
)
def test_a_command_that_does_not_end_is_ended(caller: Caller, way: str, words: str) -> None:
    outcome = caller.ask(caller.odd(way, limits={"timeout_s": 1, "cap": 1000}))

    assert (outcome.status, outcome.error) == (3, "TransientInfrastructureError")
    assert words in outcome.said
    assert caller.left() == []


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("way", ["hang", "hang_stubbornly"])
def test_a_stop_signal_ends_the_command_too(caller: Caller, way: str, signum: signal.Signals) -> None:
    process = caller.start(caller.odd(way))
    wait_for(lambda: len(caller.left()) >= 3, "the command did not start")

    process.send_signal(signum)

    outcome = finish(process)
    assert (outcome.status, outcome.error) == (128 + signum, "CancelledError")
    assert caller.left() == []


def test_a_long_answer_comes_whole(caller: Caller) -> None:
    assert len(json.loads(caller.ask(caller.odd("show_large")).answer)) == 300_000


def test_an_answer_may_be_as_long_as_the_cap_and_no_longer(caller: Caller) -> None:
    limits = {"timeout_s": 60, "cap": 300_002}

    assert caller.ask(caller.odd("show_large", limits=limits)).status == 0
    assert caller.ask(caller.odd("show_large", limits={**limits, "cap": 300_001})).status == 2


def test_a_command_leads_a_session_with_no_input_and_no_further_file(caller: Caller) -> None:
    seen = json.loads(caller.ask(caller.odd("show_surroundings")).answer)

    assert seen == {
        "input": "/dev/null",
        "leads": True,
        "directory": str(caller.directory),
        "files": [0, 1, 2],
        "words": [caller.mark],
    }


def test_a_command_gets_no_credential_and_nothing_of_the_workflow(caller: Caller) -> None:
    command = f"{sys.executable} {PROGRAMS}/odd_harness.py show_environment"
    given = {
        "OPENROUTER_API_KEY": "sk-1",
        "GITHUB_TOKEN": "ghs-1",
        "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "t",
        "INPUT_KEY_SECRET": "s",
        "PAPERCLIP_E2E_MAX_PARALLEL": "nonsense",
        VARIABLE: FIRST,
        "TARGET_SETTING": "wanted",
        "LC_ALL": "C.UTF-8",
    }
    order = {"task": "call", "command": command, "words": [], "pass_env": ["TARGET_SETTING"]}

    seen = json.loads(caller.ask(order, **given).answer)

    assert seen == {
        "PATH": os.environ["PATH"],
        "LC_ALL": "C.UTF-8",
        "TERM": "dumb",
        "TARGET_SETTING": "wanted",
    }


def test_a_credential_that_is_to_be_passed_is_refused_before_anything_starts(caller: Caller) -> None:
    outcome = caller.ask(
        {**caller.order("probe"), "pass_env": ["OPENROUTER_API_KEY"]}, OPENROUTER_API_KEY="sk-hunter2"
    )

    assert outcome.status == 2
    assert "OPENROUTER_API_KEY of pass-env" in outcome.said
    assert "hunter2" not in outcome.said
