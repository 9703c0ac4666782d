"""`entrypoints/authorize.py` in process: what it prints and returns, also for hostile variables."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from action.runner_model import read_log
from runner_e2e.actions.actor_lookup import Answer
from unit.authorized_run import ACTOR_ID, ALLOWED, DISPATCH, ENVIRON, OTHER_ID, change_payload
from unit.test_actions_commands import HOSTILE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType
    from urllib.request import Request

PROJECT = Path(__file__).resolve().parents[2]
TOKEN = "ghs_a-secret-token"


def load_entrypoint() -> ModuleType:
    spec = importlib.util.spec_from_file_location("authorize", PROJECT / "entrypoints" / "authorize.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MAIN = load_entrypoint().main


@dataclass(frozen=True, slots=True)
class Place:
    """The files that the runner makes for a step."""

    event: Path
    summary: Path
    output: Path

    def environ(self, **changes: str) -> dict[str, str]:
        return {
            **ENVIRON,
            "GITHUB_EVENT_PATH": str(self.event),
            "GITHUB_STEP_SUMMARY": str(self.summary),
            "GITHUB_OUTPUT": str(self.output),
            "INPUT_COMMAND": "authorize",
            "INPUT_ALLOWED_ACTOR_IDS": json.dumps(ALLOWED),
            "INPUT_GITHUB_TOKEN": TOKEN,
            **changes,
        }


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    directory = tmp_path_factory.mktemp("step")
    place = Place(directory / "event.json", directory / "summary", directory / "output")
    place.output.touch()
    return place


@pytest.fixture(autouse=True)
def fresh_files(place: Place) -> None:
    place.event.write_text(json.dumps(DISPATCH), encoding="utf-8")
    place.summary.write_text("", encoding="utf-8")


def ask_nobody(request: Request) -> Answer:
    raise AssertionError(request.full_url)


def answer_with(number: int) -> Callable[[Request], Answer]:
    def answer(request: Request) -> Answer:
        login = request.full_url.rpartition("/")[2]
        return Answer(200, {}, json.dumps({"login": login, "id": number}).encode())

    return answer


def run(
    environ: Mapping[str, str], fetch: Callable[[Request], Answer] = ask_nobody, *argv: str
) -> tuple[int, str]:
    log = io.StringIO()
    with contextlib.redirect_stdout(log):
        status = MAIN(argv, environ, fetch)
    return status, log.getvalue()


def test_an_authorized_run_ends_with_one_line_and_one_in_the_summary(place: Place) -> None:
    status, log = run(place.environ())

    assert status == 0
    assert log == f"Authorized: workflow_dispatch by octo-cat (id {ACTOR_ID}).\n"
    assert place.summary.read_text(encoding="utf-8").startswith("Authorized")
    assert place.output.read_bytes() == b""


def test_a_run_that_someone_else_started_again_names_both(place: Place) -> None:
    environ = place.environ(GITHUB_TRIGGERING_ACTOR="hubot")

    status, log = run(environ, answer_with(OTHER_ID))

    assert status == 0
    assert f"octo-cat (id {ACTOR_ID}), started again by hubot (id {OTHER_ID})" in log


def test_a_refusal_is_one_annotation_and_one_line_that_says_what_to_change(place: Place) -> None:
    status, log = run(place.environ(GITHUB_REF="refs/heads/feature"))

    (command,) = read_log(log)
    assert status == 2
    assert log.count("\n") == 1
    assert (command.name, command.properties["title"]) == ("error", "Runner E2E")
    assert "Dispatch the workflow from the default branch" in command.message
    summary = place.summary.read_text(encoding="utf-8")
    assert summary.startswith("**refused**: ")
    assert "Dispatch the workflow from the default branch" in summary
    assert summary.count("\n") == 1
    assert place.output.read_bytes() == b""


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        pytest.param({"INPUT_COMMAND": "plan"}, "Input command is not authorize", id="other-command"),
        pytest.param({"INPUT_ALLOWED_ACTOR_IDS": ""}, "is empty", id="no-list"),
        pytest.param({"GITHUB_EVENT_PATH": ""}, "GITHUB_EVENT_PATH is missing", id="no-event"),
        pytest.param(
            {"GITHUB_TRIGGERING_ACTOR": "hubot", "INPUT_GITHUB_TOKEN": ""}, "without a token", id="no-token"
        ),
        pytest.param(
            {"GITHUB_TRIGGERING_ACTOR": "hubot", "GITHUB_API_URL": "http://example.com"},
            "GITHUB_API_URL",
            id="plain-api",
        ),
    ],
)
def test_what_the_caller_can_mend_is_refused(place: Place, changes: dict[str, str], problem: str) -> None:
    status, log = run(place.environ(**changes))

    assert status == 2
    assert problem in log


def test_other_inputs_and_blanks_around_these_do_not_matter(place: Place) -> None:
    environ = place.environ(
        INPUT_COMMAND=" ",
        INPUT_HARNESS="reference",
        INPUT_ALL="maybe",
        INPUT_ALLOWED_ACTOR_IDS=f" {[ACTOR_ID]}\n",
    )

    assert run(environ)[0] == 0


def test_an_argument_is_refused_without_repeating_it(place: Place) -> None:
    status, log = run(place.environ(), ask_nobody, "some.cell.local.id")

    assert status == 2
    assert "takes no arguments" in log
    assert "some.cell" not in log


def test_help_says_which_variables_it_reads() -> None:
    status, log = run({}, ask_nobody, "--help")

    assert status == 0
    assert log.startswith("usage: authorize.py")
    assert "INPUT_ALLOWED_ACTOR_IDS" in log


def test_a_defect_ends_in_one_line_without_its_value(place: Place) -> None:
    def fail(_: Request) -> Answer:
        raise ZeroDivisionError(TOKEN)

    status, log = run(place.environ(GITHUB_TRIGGERING_ACTOR="hubot"), fail)

    assert status == 3
    assert log.count("\n") == 1
    assert "An unexpected ZeroDivisionError" in log
    assert TOKEN not in log + place.summary.read_text(encoding="utf-8")


def test_an_interrupt_ends_in_one_line(place: Place) -> None:
    def interrupt(_: Request) -> Answer:
        raise KeyboardInterrupt

    status, log = run(place.environ(GITHUB_TRIGGERING_ACTOR="hubot"), interrupt)

    assert status == 130
    assert log.count("\n") == 1


@pytest.mark.parametrize("summary", ["", "/nowhere/summary"])
def test_without_a_summary_file_nothing_is_authorized_and_a_refusal_stays_one(
    place: Place, summary: str
) -> None:
    assert run(place.environ(GITHUB_STEP_SUMMARY=summary))[0] == 3
    assert run(place.environ(GITHUB_STEP_SUMMARY=summary, GITHUB_REF=""))[0] == 2


DECIDING = [
    "GITHUB_ACTOR",
    "GITHUB_ACTOR_ID",
    "GITHUB_BASE_REF",
    "GITHUB_EVENT_NAME",
    "GITHUB_EVENT_PATH",
    "GITHUB_HEAD_REF",
    "GITHUB_REF",
    "GITHUB_REF_TYPE",
    "GITHUB_REPOSITORY",
    "GITHUB_REPOSITORY_ID",
    "INPUT_ALLOWED_ACTOR_IDS",
    "INPUT_COMMAND",
]


@given(name=st.sampled_from(DECIDING), value=HOSTILE)
def test_hostile_text_in_a_variable_is_refused_in_exactly_one_command(
    place: Place, name: str, value: str
) -> None:
    environ = place.environ()
    assume(value.strip())
    assume(value.lower() != environ[name].lower())

    status, log = run({**environ, name: value})

    assert status == 2
    assert [command.name for command in read_log(log)] == ["error"]
    assert log.count("\n") == 1


# Beside a path, text such as `/` or `/.` can lead to the same file.
EXACT = [name for name in DECIDING if name not in ("GITHUB_EVENT_PATH", "INPUT_COMMAND")]


@given(name=st.sampled_from(EXACT), value=HOSTILE, before=st.booleans())
def test_hostile_text_beside_the_right_value_is_refused_too(
    place: Place, name: str, value: str, before: bool
) -> None:
    environ = place.environ()
    mixed = value + environ[name] if before else environ[name] + value
    assume(mixed.strip().lower() != environ[name].lower())

    status, log = run({**environ, name: mixed})

    assert status == 2
    assert [command.name for command in read_log(log)] == ["error"]


@given(
    path=st.sampled_from(
        ["ref", "repository.full_name", "repository.default_branch", "sender.login", "sender.id", "sender"]
    ),
    value=HOSTILE,
)
def test_hostile_text_in_the_event_file_is_refused_in_exactly_one_command(
    place: Place, path: str, value: str
) -> None:
    place.event.write_bytes(change_payload(DISPATCH, path, value))

    status, log = run(place.environ())

    assert status == 2
    assert [command.name for command in read_log(log)] == ["error"]


@given(login=HOSTILE, token=HOSTILE, api_url=HOSTILE)
def test_hostile_text_around_the_question_is_never_authorized_nor_shown(
    place: Place, login: str, token: str, api_url: str
) -> None:
    assume(login.lower() != "octo-cat")
    environ = place.environ(
        GITHUB_TRIGGERING_ACTOR=login, INPUT_GITHUB_TOKEN=f"ghs_{token}", GITHUB_API_URL=api_url
    )

    status, log = run(environ, answer_with(3))

    assert status == 2
    assert [command.name for command in read_log(log)] == ["error"]
    assert "ghs_" not in log
