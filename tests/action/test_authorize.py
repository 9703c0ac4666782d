"""The command `authorize` as the runner starts it: no environment made, one request at most, exit codes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING
from urllib.request import Request

import psutil
import pytest

from action.act import Performance, perform
from action.github_api import answer, serving
from action.runner_model import read_log
from action.workflow_rules import PROJECT
from runner_e2e.actions.actor_lookup import MAX_ANSWER_BYTES, fetch_once
from runner_e2e.errors import TransientInfrastructureError
from unit.authorized_run import ACTOR_ID, ALLOWED, DISPATCH, ENVIRON, OTHER_ID

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from http.server import BaseHTTPRequestHandler
    from pathlib import Path

ENTRYPOINT = PROJECT / "entrypoints" / "authorize.py"
TOKEN = "ghs_a-secret-token"
DEADLINE_S = 60
HUBOT = answer(200, {"login": "Hubot", "id": OTHER_ID})


class Gate:
    """A step that authorizes, with nothing in its environment but what the runner sets."""

    def __init__(self, place: Path) -> None:
        self.temporary = place / "runner-temp"
        self.venv = place / "venv"
        self.output_file = place / "output"
        self.summary_file = place / "summary"
        event_file = place / "event.json"
        event_file.write_text(json.dumps(DISPATCH), encoding="utf-8")
        self.temporary.mkdir()
        self.output_file.touch()
        self.summary_file.touch()
        self._script = place / "step.sh"
        self._script.write_text('exec "$GITHUB_ACTION_PATH/scripts/action-entry"', encoding="utf-8")
        self.environ = {
            **ENVIRON,
            "PATH": os.environ["PATH"],
            "HOME": str(place),
            "GITHUB_ACTION_PATH": str(PROJECT),
            "GITHUB_EVENT_PATH": str(event_file),
            "GITHUB_OUTPUT": str(self.output_file),
            "GITHUB_STEP_SUMMARY": str(self.summary_file),
            "RUNNER_TEMP": str(self.temporary),
            "RUNNER_E2E_VENV": str(self.venv),
            "INPUT_COMMAND": "authorize",
            "INPUT_ALLOWED_ACTOR_IDS": json.dumps(ALLOWED),
            "INPUT_GITHUB_TOKEN": TOKEN,
        }

    def start(self, **changes: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", self._script],
            cwd=self.temporary,
            env={**self.environ, **changes},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, **changes: str) -> tuple[int, str]:
        """Return exit status and log; whatever happens, nothing was made or handed on."""
        with self.start(**changes) as process:
            log, _ = process.communicate(timeout=DEADLINE_S)
        assert not self.venv.exists()
        assert list(self.temporary.iterdir()) == []
        assert self.output_file.read_bytes() == b""
        assert TOKEN not in log + self.summary_file.read_text(encoding="utf-8")
        return process.returncode, log


@pytest.fixture
def gate(place: Path) -> Gate:
    return Gate(place)


def test_the_actor_is_authorized_without_a_request(gate: Gate) -> None:
    with serving(HUBOT) as api:
        status, log = gate.run(GITHUB_API_URL=api.url)

    assert (status, log) == (0, f"Authorized: workflow_dispatch by octo-cat (id {ACTOR_ID}).\n")
    assert api.requests == []
    assert "Authorized" in gate.summary_file.read_text(encoding="utf-8")


def test_someone_else_who_starts_it_again_costs_one_request_with_the_token(gate: Gate) -> None:
    with serving(HUBOT) as api:
        status, log = gate.run(GITHUB_API_URL=api.url, GITHUB_TRIGGERING_ACTOR="hubot")

    assert status == 0, log
    assert f"started again by hubot (id {OTHER_ID})" in log
    ((path, headers),) = api.requests
    assert path == "/users/hubot"
    assert headers["Authorization"] == f"Bearer {TOKEN}"


def test_an_app_is_asked_for_by_its_whole_name(gate: Gate) -> None:
    with serving(answer(200, {"login": "hubot[bot]", "id": OTHER_ID})) as api:
        status, log = gate.run(GITHUB_API_URL=f"{api.url}/api/v3", GITHUB_TRIGGERING_ACTOR="hubot[bot]")

    assert status == 0, log
    assert [path for path, _ in api.requests] == ["/api/v3/users/hubot%5Bbot%5D"]


def hang_up(handler: BaseHTTPRequestHandler) -> None:
    handler.close_connection = True


def babble(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"::error::x\r\n\r\n")
    handler.close_connection = True


def cut_off(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b'HTTP/1.0 200 OK\r\nContent-Length: 99\r\n\r\n{"login": "hubot"')
    handler.close_connection = True


@pytest.mark.parametrize(
    ("reply", "exit_code", "words"),
    [
        pytest.param(
            answer(200, {"login": "hubot", "id": 3}), 2, "not in allowed-actor-ids", id="not-listed"
        ),
        pytest.param(
            answer(200, {"login": "mallory", "id": OTHER_ID}), 2, "something else", id="other-account"
        ),
        pytest.param(answer(404, {"message": "Not Found"}), 2, "no account hubot", id="unknown"),
        pytest.param(answer(401, {"message": "Bad credentials"}), 2, "github-token", id="bad-token"),
        pytest.param(answer(403, {}), 2, "github-token", id="forbidden"),
        pytest.param(answer(403, {}, X_RateLimit_Remaining="0"), 3, "Start the job again", id="exhausted"),
        pytest.param(answer(429, {}), 3, "Start the job again", id="too-many"),
        pytest.param(answer(502, {}), 3, "Start the job again", id="broken"),
        pytest.param(answer(200, "::error::x"), 2, "something else", id="text"),
        pytest.param(hang_up, 3, "could not be asked", id="hung-up"),
        pytest.param(babble, 3, "could not be asked", id="no-http"),
        pytest.param(cut_off, 3, "Start the job again", id="cut-off"),
    ],
)
def test_an_answer_that_does_not_authorize_ends_in_one_line_after_one_try(
    gate: Gate, reply: Callable[[BaseHTTPRequestHandler], None], exit_code: int, words: str
) -> None:
    with serving(reply) as api:
        status, log = gate.run(GITHUB_API_URL=api.url, GITHUB_TRIGGERING_ACTOR="hubot")

    assert status == exit_code, log
    assert log.count("\n") == 1
    assert [command.name for command in read_log(log)] == ["error"]
    assert words in log
    assert len(api.requests) == 1
    assert gate.summary_file.read_text(encoding="utf-8").count("\n") == 1


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(gate: Gate, status: int) -> None:
    with serving(HUBOT) as other:
        there = answer(status, {}, Location=f"{other.url}/users/hubot")
        with serving(there) as api:
            exit_code, log = gate.run(GITHUB_API_URL=api.url, GITHUB_TRIGGERING_ACTOR="hubot")

    assert exit_code == 2, log
    assert "redirect" in log
    assert len(api.requests) == 1
    assert other.requests == []


def test_an_api_that_is_not_there_is_worth_another_try(gate: Gate) -> None:
    with serving(HUBOT) as api:
        url = api.url  # closed when it is asked

    status, log = gate.run(GITHUB_API_URL=url, GITHUB_TRIGGERING_ACTOR="hubot")

    assert status == 3
    assert "could not be asked (ConnectionRefusedError)" in log


def test_a_proxy_for_plain_http_never_sees_the_token(gate: Gate) -> None:
    with serving(HUBOT) as api, serving(answer(500)) as proxy:
        status, log = gate.run(
            GITHUB_API_URL=api.url,
            GITHUB_TRIGGERING_ACTOR="hubot",
            http_proxy=proxy.url,
            https_proxy=proxy.url,
            all_proxy=proxy.url,
        )

    assert status == 0, log
    assert proxy.requests == []


def test_the_step_becomes_an_isolated_python_without_packages(gate: Gate) -> None:
    asked, go_on = threading.Event(), threading.Event()

    def wait(handler: BaseHTTPRequestHandler) -> None:
        asked.set()
        go_on.wait(DEADLINE_S)
        HUBOT(handler)

    with serving(wait) as api:
        process = gate.start(GITHUB_API_URL=api.url, GITHUB_TRIGGERING_ACTOR="hubot")
        with process:
            try:
                assert asked.wait(DEADLINE_S)
                command = psutil.Process(process.pid).cmdline()
            finally:
                go_on.set()
            log, _ = process.communicate(timeout=DEADLINE_S)

    assert command[1:] == ["-I", "-S", str(ENTRYPOINT)]
    assert process.returncode == 0, log


def test_a_slow_answer_ends_at_the_deadline() -> None:
    stop = threading.Event()

    def drip(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"HTTP/1.0 200 OK\r\nContent-Length: 1000\r\n\r\n")
        while not stop.wait(0.05):
            handler.wfile.write(b" ")

    with serving(drip) as api:
        started = time.monotonic()
        try:
            with pytest.raises(TransientInfrastructureError, match=r"within 0\.5 s"):
                fetch_once(Request(f"{api.url}/users/hubot"), deadline_s=0.5)
        finally:
            stop.set()
        elapsed_s = time.monotonic() - started

    assert elapsed_s < 5


def test_an_endless_answer_is_cut_off() -> None:
    with serving(answer(200, "x" * (2 * MAX_ANSWER_BYTES))) as api:
        arrived = fetch_once(Request(f"{api.url}/users/hubot"))

    assert len(arrived.body) == MAX_ANSWER_BYTES + 1


LIST_MODULES = """\
import json, os, runpy, sys
entrypoint, report = sys.argv[1:]
sys.argv = [entrypoint]
try:
    runpy.run_path(entrypoint, run_name="__main__")
except SystemExit as end:
    with open(report, "w") as file:
        json.dump([end.code, sorted(sys.modules)], file)
"""


def test_nothing_outside_the_standard_library_is_loaded(gate: Gate, place: Path) -> None:
    report = place / "modules.json"
    with serving(HUBOT) as api:
        subprocess.run(
            [sys.executable, "-I", "-S", "-c", LIST_MODULES, ENTRYPOINT, report],
            env={**gate.environ, "GITHUB_API_URL": api.url, "GITHUB_TRIGGERING_ACTOR": "hubot"},
            check=True,
            capture_output=True,
            timeout=DEADLINE_S,
        )

    status, modules = json.loads(report.read_bytes())
    assert status == 0
    assert len(api.requests) == 1
    assert "urllib.request" in modules
    tops = {name.partition(".")[0] for name in modules}
    assert tops <= {"__main__", "runner_e2e", *sys.stdlib_module_names}
    assert not {"site", "runner_e2e.actions.commands", "runner_e2e.actions.inputs"} & set(modules)


def bin_without_python(directory: Path) -> str:
    directory.mkdir()
    for name in ("bash", "sh", "env", "dirname", "timeout"):
        (directory / name).symlink_to(shutil.which(name) or pytest.fail(f"{name} is missing"))
    return str(directory)


def test_without_a_python_the_step_is_refused_in_fixed_words(gate: Gate, place: Path) -> None:
    status, log = gate.run(PATH=bin_without_python(place / "bin"))

    assert status == 2
    assert log == (
        "::error title=Runner E2E::No Python 3.11 or newer was found. "
        "Install one on the runner, or name it in input python.\n"
    )
    assert gate.summary_file.read_text(encoding="utf-8").startswith("No Python 3.11 or newer")


@pytest.mark.parametrize("python", ["::error::x", "/nowhere/python3", "--version", "false", "a\n::error::b"])
def test_an_input_python_that_is_none_is_refused_without_its_text(gate: Gate, python: str) -> None:
    status, log = gate.run(RUNNER_E2E_PYTHON=python)

    assert status == 2
    assert log.count("\n") == 1
    assert python not in log + gate.summary_file.read_text(encoding="utf-8")


def test_the_input_python_is_used(gate: Gate, place: Path) -> None:
    chosen = place / "chosen"
    chosen.write_text(f'#!/bin/sh\necho used >>{place}/used\nexec {sys.executable} "$@"\n', encoding="utf-8")
    chosen.chmod(0o755)

    status, log = gate.run(RUNNER_E2E_PYTHON=str(chosen), PATH=bin_without_python(place / "bin"))

    assert status == 0, log
    assert (place / "used").exists()


@pytest.mark.parametrize(
    ("redirection", "allowed", "exit_code"),
    [
        pytest.param(">&-", ALLOWED, 0, id="closed"),
        pytest.param(">&-", (3,), 2, id="closed-and-refused"),
        pytest.param(">/dev/full", ALLOWED, 0, id="full"),
        pytest.param(">/dev/full", (3,), 2, id="full-and-refused"),
    ],
)
def test_the_exit_status_tells_when_the_log_is_gone(
    gate: Gate, redirection: str, allowed: tuple[int, ...], exit_code: int
) -> None:
    command = f'"$GITHUB_ACTION_PATH/scripts/action-entry" {redirection}'
    done = subprocess.run(
        ["bash", "-c", command],
        env={**gate.environ, "INPUT_ALLOWED_ACTOR_IDS": json.dumps(allowed)},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )

    assert done.returncode == exit_code
    assert done.stderr == ""


def perform_gate(clone: Path, place: Path, api_url: str, allowed: Sequence[int]) -> Performance:
    event = {**DISPATCH, "inputs": {"allowed-actor-ids": json.dumps(allowed)}}
    event_file = place / "event.json"
    event_file.write_text(json.dumps(event), encoding="utf-8")
    variables = {
        "GITHUB_ACTOR_ID": ENVIRON["GITHUB_ACTOR_ID"],
        "GITHUB_API_URL": api_url,
        "GITHUB_REPOSITORY": ENVIRON["GITHUB_REPOSITORY"],
        "GITHUB_REPOSITORY_ID": ENVIRON["GITHUB_REPOSITORY_ID"],
        "GITHUB_TRIGGERING_ACTOR": "hubot",
    }
    options = [
        f"--actor={ENVIRON['GITHUB_ACTOR']}",
        f"--secret=GITHUB_TOKEN={TOKEN}",
        *(f"--env={name}={value}" for name, value in variables.items()),
    ]
    return perform(
        clone, place, place / "venv", {}, workflow="authorize.yml", options=options, event=event_file
    )


def test_the_action_authorizes_without_making_an_environment(clone: Path, place: Path) -> None:
    with serving(HUBOT) as api:
        done = perform_gate(clone, place, api.url, ALLOWED)

    assert (done.exit_code, done.outcome) == (0, "success"), done.log
    assert not (place / "venv").exists()
    assert [headers["Authorization"] for _, headers in api.requests] == [f"Bearer {TOKEN}"]
    assert not any(done.outputs.values())
    assert "Authorized" in done.summary
    assert not done.annotations
    assert list(done.artifacts.iterdir()) == []
    assert TOKEN not in done.log


def test_the_action_refuses_someone_who_is_not_listed(clone: Path, place: Path) -> None:
    with serving(HUBOT) as api:
        done = perform_gate(clone, place, api.url, [ACTOR_ID])

    assert done.outcome == "failure"
    assert "exit status 2" in done.log
    assert not (place / "venv").exists()
    assert len(api.requests) == 1
    assert not any(done.outputs.values())
    (annotation,) = done.annotations
    assert "hubot" in annotation
    assert "allowed-actor-ids" in annotation
    assert "refused" in done.summary
