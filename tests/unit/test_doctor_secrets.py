"""What lets somebody in: names are found, values never leave, and what is no credential is not called one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from runner_e2e.doctor.findings import Finding, Level, Unreadable, answer_all
from runner_e2e.doctor.reach import QUESTIONS
from runner_e2e.doctor.request import DoctorRequest
from runner_e2e.doctor.secret_facts import SecretFacts, find_files, find_injections, observe_secrets

if TYPE_CHECKING:
    from pathlib import Path

GOOD = SecretFacts(
    "reference", None, git_open=False, git_remedy="", files=(), identity=(), credentials=(), injections=()
)
SECRET = "ghs_the-value-of-a-secret"
KEPT = f'[http "https://github.com/"]\n\textraheader = AUTHORIZATION: basic {SECRET}\n'


def judge(**changes: Any) -> dict[str, Finding]:  # noqa: ANN401 - fields of many types
    return {one.id: one for one in answer_all(QUESTIONS, replace(GOOD, **changes))}


def observe(tmp_path: Path, **environ: str) -> SecretFacts:
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    return observe_secrets(DoctorRequest(target=tmp_path / "target", environ={"HOME": str(home), **environ}))


def test_a_clean_job_asks_for_nothing() -> None:
    assert {one.level for one in judge().values()} == {Level.OK}


@pytest.mark.parametrize(
    ("name", "changes", "level", "words"),
    [
        pytest.param("git", {"git": "Kept: x", "git_remedy": "do"}, "warning", "Kept: x", id="git"),
        pytest.param(
            "git",
            {"git": "Kept", "git_remedy": "do", "harness": "command"},
            "error",
            "Kept",
            id="git-command",
        ),
        pytest.param(
            "git",
            {"git": "odd", "git_remedy": "do", "git_open": True},
            "warning",
            "could not be told",
            id="git-open",
        ),
        pytest.param("files", {"files": (".npmrc",)}, "info", ".npmrc", id="files"),
        pytest.param(
            "files", {"files": (".ssh",), "harness": "command"}, "warning", ".ssh", id="files-command"
        ),
        pytest.param("files", {"files": Unreadable("closed")}, "warning", "closed", id="files-closed"),
        pytest.param("identity", {"identity": ("A",)}, "warning", "(A)", id="identity"),
        pytest.param(
            "identity", {"identity": ("A",), "harness": "command"}, "error", "(A)", id="identity-command"
        ),
        pytest.param("variables", {"credentials": ("GH_TOKEN",)}, "warning", "GH_TOKEN", id="variables"),
        pytest.param(
            "injection", {"injections": ("NODE_OPTIONS",)}, "warning", "NODE_OPTIONS", id="injection"
        ),
        pytest.param(
            "injection",
            {"injections": tuple(f"LD_{n}" for n in range(9))},
            "warning",
            "and 3 more",
            id="many",
        ),
    ],
)
def test_each_fact_has_its_answer(name: str, changes: dict[str, Any], level: str, words: str) -> None:
    found = judge(**changes)[f"secrets.{name}"]

    assert found.level == level
    assert words in found.answer.found


def test_credentials_are_found_by_name_and_no_value_is_kept(tmp_path: Path) -> None:
    (tmp_path / "target" / ".git").mkdir(parents=True)
    (tmp_path / "target" / ".git" / "config").write_text(KEPT, encoding="utf-8")
    (tmp_path / "home" / ".ssh").mkdir(parents=True)
    (tmp_path / "home" / ".npmrc").write_text(SECRET, encoding="utf-8")

    facts = observe(
        tmp_path,
        OPENAI_API_KEY=SECRET,
        github_token=SECRET,
        ACTIONS_ID_TOKEN_REQUEST_TOKEN=SECRET,
        NODE_OPTIONS=SECRET,
        MY_OWN=SECRET,
    )

    assert facts.git is not None
    assert "extraheader" in facts.git
    assert facts.files == (".ssh", ".npmrc")
    assert facts.credentials == ("OPENAI_API_KEY", "github_token")
    assert facts.identity == ("ACTIONS_ID_TOKEN_REQUEST_TOKEN",)
    assert facts.injections == ("NODE_OPTIONS",)
    assert SECRET not in repr(facts) + repr(list(answer_all(QUESTIONS, facts)))


def test_an_empty_value_and_an_empty_file_are_no_credential(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".netrc").touch()

    facts = observe(tmp_path, GH_TOKEN="", ACTIONS_ID_TOKEN_REQUEST_URL="", LD_PRELOAD="")

    assert replace(facts, harness="reference") == GOOD


def test_a_checkout_that_cannot_be_judged_is_said_to_be_open(tmp_path: Path) -> None:
    (tmp_path / "target" / ".git").mkdir(parents=True)
    (tmp_path / "target" / ".git" / "config").write_text("[http]\n\tproxy = a \\\n b\n", encoding="utf-8")

    facts = observe(tmp_path)

    assert facts.git_open
    assert (
        judge(git=facts.git, git_open=True, git_remedy=facts.git_remedy)["secrets.git"].level is Level.WARNING
    )


@pytest.mark.parametrize("home", ["", "relative", "/does/not/exist"])
def test_a_home_that_is_not_there_holds_nothing(home: str) -> None:
    assert list(find_files(home)) == []


def test_the_usual_settings_of_a_runner_are_no_findings(tmp_path: Path) -> None:
    for name in (".config", ".gitconfig", ".bash_history"):
        (tmp_path / name).mkdir()

    assert list(find_files(str(tmp_path))) == []
    assert list(find_injections({"LD_LIBRARY_PATH": "/opt/python/lib"})) == []
