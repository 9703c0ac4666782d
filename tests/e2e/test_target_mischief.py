"""The misbehaviours of the target: a test of the product that relies on one would pass without it."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from e2e.checkout import is_alive, wait_for
from e2e.scripted_provider import Answer, running_provider
from e2e.target.cells import VARIABLE
from e2e.target.plants import PLANTS
from e2e.target_checkout import CAMPAIGN, write_mischief
from e2e.target_job import CREDENTIAL, NATIVE, PACKAGED, Job, files_below, job_on

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def job() -> Iterator[Job]:
    with job_on() as made:
        yield made


def find_left(pid_file: Path) -> psutil.Process:
    """Return the process that was left on purpose, once it is what it becomes."""
    wait_for(pid_file.exists, "no process was left")
    process = psutil.Process(int(pid_file.read_text()))
    wait_for(lambda: process.name() == "sleep", "it is another process")
    return process


def test_it_fails_as_it_is_told_once_and_passes_then(job: Job) -> None:
    failure = {"error": "429 from the provider", "failureClass": "provider_variance"}
    environ = write_mischief(job.desk / "mischief.json", {"failure": failure}, {})

    first = job.run(**environ, **{CAMPAIGN: "c-1"})
    second = job.run(**environ, **{CAMPAIGN: "c-2"})

    assert (first.status, second.status) == (1, 0)
    results = [json.loads((path / "result.json").read_text()) for path in job.target.attempts()]
    assert [result["status"] for result in results] == ["failed", "passed"]
    assert failure.items() <= results[0].items()


def test_it_says_what_it_must_not_on_both_streams(job: Job) -> None:
    ended = job.run(
        NATIVE,
        {
            "stdout": "::set-output name=a::{credential}\n",
            "stderr": "x ##[error]{credential}\n",
            "crash": "gone\n",
        },
    )

    assert ended.status == 7
    assert ended.stdout == f"::set-output name=a::{CREDENTIAL}\n"
    assert ended.stderr == f"x ##[error]{CREDENTIAL}\ngone\n"
    assert "{credential}" in (job.desk / "mischief.json").read_text()


def test_it_shows_what_it_was_started_with(job: Job) -> None:
    shown = job.desk / "harness.json"

    job.run(NATIVE, {"show_environment": str(shown), "crash": ""}, LANG="C.UTF-8")

    seen = json.loads(shown.read_text())
    assert seen["environment"][VARIABLE] == NATIVE
    assert seen["environment"]["OPENROUTER_API_KEY"] == CREDENTIAL
    assert (seen["directory"], seen["leads"], seen["input"]) == (str(job.target.path), True, "/dev/null")
    assert NATIVE not in seen["words"]


def test_it_appends_to_files_and_fills_directories(job: Job) -> None:
    (job.desk / "env").write_text("A=1\n")
    (job.desk / "full").mkdir()

    job.run(
        NATIVE,
        {
            "append": {str(job.desk / "env"): "B={credential}\n"},
            "fill": str(job.desk / "full"),
            "fill_bytes": 100_000,
            "crash": "",
        },
    )

    assert (job.desk / "env").read_text() == f"A=1\nB={CREDENTIAL}\n"
    assert (job.desk / "full" / "filling").stat().st_size >= 100_000


@pytest.mark.parametrize("kind", ["daemon", "pipe_holder"])
def test_it_leaves_a_process_that_nothing_leads_to(job: Job, kind: str) -> None:
    pid_file = job.desk / "pid"
    with job.start(NATIVE, {kind: str(pid_file), "crash": "gone"}) as process:
        assert process.wait(30) == 7
        left = find_left(pid_file)
        try:
            assert left.environ() == {}
            assert left.cwd() == "/"
            assert os.getsid(left.pid) != process.pid
            assert left.ppid() != process.pid
            holds = Path(f"/proc/{left.pid}/fd/1").readlink() != Path("/dev/null")
            assert holds is (kind == "pipe_holder")
        finally:
            left.kill()
        assert process.communicate(timeout=10)[1] == "gone"


@pytest.mark.parametrize("moment", ["start", "serving", "packaged"])
def test_it_hangs_at_a_moment_and_cleans_up_when_it_is_stopped(job: Job, moment: str) -> None:
    with job.start(NATIVE, {"hang": moment}) as process:
        reached = {
            "start": lambda: process.pid in {p.pid for p in psutil.process_iter()},
            "serving": lambda: any(job.temporary.glob("*/paperclip-home/instances/*/runtime-info.json")),
            "packaged": lambda: bool(job.target.attempts()),
        }
        wait_for(reached[moment], "it did not come so far")
        server = psutil.Process(process.pid).children()

        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1.5)
        process.send_signal(signal.SIGTERM)

        assert process.wait(20) in (-signal.SIGTERM, 128 + signal.SIGTERM)
        assert bool(server) is (moment == "serving")
        wait_for(lambda: not any(is_alive(one) for one in server), "its server is left")
        assert list(job.temporary.iterdir()) == []
        process.communicate()


def test_it_takes_no_notice_of_signals(job: Job) -> None:
    ready = job.desk / "ready"
    with job.start(NATIVE, {"ignore_signals": True, "append": {str(ready): "x"}, "hang": "start"}) as process:
        wait_for(ready.exists, "it did not start")
        for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            process.send_signal(signum)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1)
        process.kill()
        process.communicate()


def test_it_does_what_it_should_not_with_its_results(job: Job) -> None:
    order = {"results_twice": True, "without": ["junit.xml", "html-report"], "keep_root": True}

    assert job.run(NATIVE, order, **{CAMPAIGN: "c-1"}).status == 0

    attempts = job.target.attempts()
    assert [path.parts[-6] for path in attempts] == ["c-1", "c-1-again"]
    left_out = {"junit.xml", "html-report/index.html"}
    assert [files_below(path) for path in attempts] == [PACKAGED - left_out] * 2
    assert len(list(job.temporary.iterdir())) == 1

    moved = {"move_results": "moved", "exit_status": 5}
    assert job.run(NATIVE, moved, **{CAMPAIGN: "c-2"}).status == 5
    assert not job.target.results.exists()
    assert (job.target.results.parent / "moved").is_dir()


def test_it_writes_lines_that_claim_to_be_others(job: Job) -> None:
    order = {"log_first": ["runner-e2e sandbox-probe {}"], "log_last": ["late {credential}"]}

    job.run(NATIVE, order)

    (attempt,) = job.target.attempts()
    lines = (attempt / "server.log").read_text().splitlines()
    assert (lines[0], lines[-1]) == ("runner-e2e sandbox-probe {}", f"late {CREDENTIAL}")


def test_it_starts_agents_by_another_program_than_the_job_names(job: Job) -> None:
    ended = job.run(NATIVE, {"runner": str(job.target.runner)}, PAPERCLIP_RUNNER_BINARY="/bin/false")

    assert ended.status == 0


def test_it_asks_a_provider_through_the_gateway_that_the_job_names(job: Job) -> None:
    with running_provider() as provider:
        url = f"http://127.0.0.1:{provider.port}"
        asked = job.run(NATIVE, {"asks": 3}, PAPERCLIP_E2E_GATEWAY_BASE_URL=url, **{CAMPAIGN: "c-1"})
        provider.answer = lambda _call: Answer(status=402)
        refused = job.run(NATIVE, {"asks": 3}, PAPERCLIP_E2E_GATEWAY_BASE_URL=url, **{CAMPAIGN: "c-2"})

    assert (asked.status, refused.status) == (0, 1)
    assert [call.path for call in provider.calls] == ["/v1/chat/completions"] * 4
    assert dict(provider.calls[0].headers)["authorization"] == f"Bearer {CREDENTIAL}"
    error = json.loads((job.target.attempts()[1] / "result.json").read_text())["error"]
    assert error == "the provider answered call 1 with 402"


def test_without_an_answer_of_the_provider_it_fails(job: Job) -> None:
    ended = job.run(NATIVE, {"asks": 1}, PAPERCLIP_E2E_GATEWAY_BASE_URL="http://127.0.0.1:9")

    assert ended.status == 1
    assert job.result()["failureClass"] == "provider_variance"


def test_it_plants_what_must_not_be_taken_over(job: Job) -> None:
    plain = {name: 1 for name in PLANTS if name not in ("link-result", "log-pipe", "broken-result", "device")}

    job.run(NATIVE, {"plant": [*plain, *(["device"] if os.geteuid() == 0 else [])]})

    (attempt,) = job.target.attempts()
    output = attempt / "playwright-output"
    assert (attempt / "snapshots/link.json").readlink() == Path("/etc/passwd")
    assert (attempt / "snapshots/out.json").is_symlink()
    assert (output / "outside").is_symlink()
    assert stat.S_ISFIFO((output / "pipe.json").lstat().st_mode)
    assert stat.S_ISSOCK((output / "socket").lstat().st_mode)
    assert os.geteuid() or stat.S_ISCHR((output / "zero.json").lstat().st_mode)
    assert CREDENTIAL.encode() in (attempt / "final-state.png").read_bytes()
    assert json.loads((attempt / "snapshots/agent.json").read_text())["env"]["KEY"] == CREDENTIAL
    assert CREDENTIAL in (attempt / "html-report/index.html").read_text()
    assert (output / f"{CREDENTIAL}.txt").is_file()
    assert (output / "picture.svg").is_file()
    with zipfile.ZipFile(attempt / "blob-report/report.zip") as archive:
        assert CREDENTIAL.encode() not in (attempt / "blob-report/report.zip").read_bytes()
        assert CREDENTIAL.encode() in archive.read("resources/trace.network")


@pytest.mark.parametrize(
    ("name", "check"),
    [
        pytest.param("link-result", lambda path: (path / "result.json").is_symlink(), id="link"),
        pytest.param("log-pipe", lambda path: (path / "server.log").is_fifo(), id="pipe"),
        pytest.param("broken-result", lambda path: (path / "result.json").stat().st_size < 80, id="broken"),
    ],
)
def test_it_plants_in_the_place_of_what_is_needed(job: Job, name: str, check: Callable[[Path], bool]) -> None:
    job.run(NATIVE, {"plant": [name]})

    (attempt,) = job.target.attempts()
    assert check(attempt)


def test_an_unknown_misbehaviour_is_a_mistake(job: Job) -> None:
    ended = job.run(NATIVE, {"hnag": "start"})

    assert (ended.status, ended.stdout) == (1, "")
    assert "unknown mischief: ['hnag']" in ended.stderr
