"""Flows in which an agent of the real product waits for the board: its question, and its plan."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from e2e.checkout import private_directory

from .cells import SCRIPTED, drive, evidence_of, run_cell

if TYPE_CHECKING:
    from pathlib import Path

    from e2e.checkout import Checkout

pytestmark = pytest.mark.usefixtures("clean")

HEAD = """schema: runner-e2e.scripted-model/v1
values: [nonce, ada_key]
agents:
  - id: ada
    match: {key: '{ada_key}'}
    steps:
"""
SAYS = "      - text: 'The word is {nonce}.'\n"
WORKS = """      - tool:
          name: bash
          arguments: {command: 'echo {nonce} > planned.txt', description: Work at once}
"""
# OpenCode's own tool: its run lasts until somebody answers.
ASKS_INSIDE = """      - tool:
          name: question
          arguments:
            questions:
              - question: May I write the file?
                header: May I
                options: [{label: 'Yes', description: Write it}, {label: 'No', description: Leave it}]
"""


@pytest.mark.parametrize(
    ("case", "kind", "status", "boots"),
    [
        pytest.param(
            "chat.question-resume",
            "ask_user_questions",
            "answered",
            1,
            id="question",
            marks=pytest.mark.extended,
        ),
        pytest.param(
            "chat.question-after-restart",
            "ask_user_questions",
            "answered",
            2,
            id="question-after-restart",
            marks=pytest.mark.extended,
        ),
        pytest.param(
            "chat.plan-approval", "request_confirmation", "accepted", 1, id="plan", marks=pytest.mark.extended
        ),
    ],
)
def test_an_agent_waits_for_the_board_and_goes_on_with_its_answer(
    ordinary: Checkout, case: str, kind: str, status: str, boots: int
) -> None:
    with private_directory("waits") as place:
        ended = run_cell(ordinary, place, f"{SCRIPTED}{case}")

        assert ended.status == 0, ended.stdout + ended.stderr
        evidence = evidence_of(place, f"{SCRIPTED}{case}")
        (agent,) = evidence.read("agents.json")["agents"]
        last, first = agent["runs"]
        assert [last["status"], first["status"]] == ["succeeded"] * 2
        (card,) = agent["interactions"]
        assert (card["kind"], card["status"], card["run"]) == (kind, status, first["id"])
        assert evidence.log.count(b"runner-e2e sandbox-probe ") == boots
        assert evidence.log.count(b"runner-e2e sandbox-launch ") == 2
        assert [row["status"] for row in evidence.cell.get("restarts", [])] == ["ready"] * (boots - 1)


@pytest.mark.extended
@pytest.mark.parametrize(
    ("case", "steps", "says"),
    [
        pytest.param(
            "chat.question-resume",
            SAYS,
            ["no question of ada came before its run ended", "Have the agent ask by request_human_input"],
            id="question",
        ),
        pytest.param(
            "chat.plan-approval",
            WORKS + SAYS,
            [
                "no plan of ada came before its run ended",
                "ada worked before it was approved: matchers[0] (file_contains)",
                "Have the agent write the document plan",
            ],
            id="plan",
        ),
    ],
)
def test_an_agent_that_does_not_wait_fails_its_cell(
    ordinary: Checkout, case: str, steps: str, says: list[str]
) -> None:
    with private_directory("hurries") as place:
        catalogs = place / "catalogs"
        shutil.copytree(ordinary.project / "catalogs", catalogs)
        write_script(catalogs / "paperclip-model" / f"{case}.yaml", steps)

        ended = drive(ordinary, place, f"{SCRIPTED}{case}", catalog=str(catalogs / "paperclip.yaml"))

        assert ended.status == 1, ended.stdout + ended.stderr
        cell: dict[str, Any] = evidence_of(place, f"{SCRIPTED}{case}").cell
        assert cell["failureClass"] == "candidate_failure"
        for text in says:
            assert text in cell["message"]
        (agent,) = evidence_of(place, f"{SCRIPTED}{case}").read("agents.json")["agents"]
        assert (len(agent["runs"]), agent["interactions"]) == (1, [])


@pytest.mark.extended
def test_an_agent_that_asks_inside_of_its_run_fails_its_cell(ordinary: Checkout) -> None:
    name = f"{SCRIPTED}chat.question-resume"
    with private_directory("inside") as place:
        catalogs = place / "catalogs"
        shutil.copytree(ordinary.project / "catalogs", catalogs)
        write_script(catalogs / "paperclip-model" / "chat.question-resume.yaml", ASKS_INSIDE + SAYS)
        text = (catalogs / "paperclip.yaml").read_text(encoding="utf-8")
        head, mark, tail = text.partition("  - id: chat.question-resume\n")
        tail = tail.replace("turnTimeoutMs: 240000\n", "turnTimeoutMs: 25000\n", 1)
        (catalogs / "paperclip.yaml").write_text(head + mark + tail, encoding="utf-8")

        ended = drive(ordinary, place, name, catalog=str(catalogs / "paperclip.yaml"))

        assert ended.status == 1, ended.stdout + ended.stderr
        cell = evidence_of(place, name).cell
        assert cell["failureClass"] == "candidate_failure"
        assert "The run of ada waits for an answer, and does not end" in cell["message"]
        (agent,) = evidence_of(place, name).read("agents.json")["agents"]
        # The product shows it on no issue.
        assert agent["interactions"] == []


def write_script(path: Path, steps: str) -> None:
    path.write_text(HEAD + steps, encoding="utf-8")
