"""A diagnosis as JSON, in a log, a summary and a terminal: all of it is there, and nothing foreign acts."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from runner_e2e.actions.doctor_publication import publish_diagnosis
from runner_e2e.actions.surface import ActionSurface
from runner_e2e.doctor.document import count_words, describe, log_lines, summarize, verdict
from runner_e2e.doctor.examination import Diagnosis
from runner_e2e.doctor.findings import Answer, Finding, Level
from runner_e2e.doctor.terminal import print_diagnosis
from runner_e2e.report.markdown import escape_markdown

HOSTILE = "x\n::error::y \x1b[2J <b>@me</b> | `q` [bold]z[/bold] \u202e##[set-env name=A]B"
FINDINGS = (
    Finding("kernel.release", Answer(Level.OK, "Linux 6", "Fine")),
    Finding("account.user", Answer(Level.INFO, "This is root", "It matters", "Be somebody")),
    Finding("runner.kind", Answer(Level.WARNING, HOSTILE, HOSTILE, HOSTILE, (HOSTILE,))),
)
WRONG = Finding("isolation.self-test", Answer(Level.ERROR, "It does not hold", "Bad", "Mend it", ("run:x",)))
GOOD = Diagnosis(FINDINGS)
BAD = Diagnosis((*FINDINGS, WRONG))


def test_the_document_has_every_finding_whole() -> None:
    document = json.loads(json.dumps(describe(BAD)))

    assert document["schema"] == "runner-e2e.doctor/v1"
    assert document["exitCode"] == 3
    assert document["counts"] == {"ok": 1, "info": 1, "warning": 1, "error": 1}
    assert document["findings"][0] == {
        "id": "kernel.release",
        "section": "kernel",
        "level": "ok",
        "found": "Linux 6",
        "means": "Fine",
        "remedy": None,
        "detail": [],
    }
    assert document["findings"][2]["remedy"] == HOSTILE
    assert document["findings"][3]["detail"] == ["run:x"]


@pytest.mark.parametrize(
    ("findings", "words", "counts"),
    [
        pytest.param(FINDINGS[:1], "can run here", "1 ok", id="ok"),
        pytest.param(FINDINGS, "warnings say", "1 warning, 1 note, 1 ok", id="warning"),
        pytest.param(
            (*FINDINGS, WRONG, WRONG), "cannot run", "2 errors, 1 warning, 1 note, 1 ok", id="error"
        ),
    ],
)
def test_the_verdict_is_one_sentence(findings: tuple[Finding, ...], words: str, counts: str) -> None:
    assert words in verdict(Diagnosis(findings))
    assert count_words(Diagnosis(findings)) == counts


def test_the_log_groups_findings_in_the_order_of_their_sections() -> None:
    titles = [title for title, _ in log_lines(BAD)]

    assert titles == ["Kernel", "Isolation, tried out", "Account", "Runner"]


def test_a_summary_falls_in_stages_and_escapes_what_is_foreign() -> None:
    stages = summarize(BAD, escape_markdown)

    assert [len(stage) for stage in stages] == sorted((len(stage) for stage in stages), reverse=True)
    assert "self-test" in stages[1]
    assert "Linux 6" in stages[0]
    assert "Linux 6" not in stages[1]
    for stage in stages:
        assert "<b>" not in stage
        assert "\n::error" not in stage
        assert "@me" not in stage


@pytest.mark.parametrize("width", [40, 80, 140, 400])
@pytest.mark.parametrize("explained", [False, True])
def test_a_terminal_shows_every_finding_and_nothing_in_it_acts(width: int, explained: bool) -> None:
    stream = io.StringIO()

    print_diagnosis(Console(file=stream, width=width, highlight=False), BAD, explained=explained)

    shown = stream.getvalue()
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "[bold]" in shown.replace("\n", "").replace(" ", "")
    assert max(map(len, shown.splitlines())) <= min(width, 120)
    for mark in "✓·!✗→":
        assert mark in shown
    assert ("kernel.release" in shown) == explained
    assert ("Fine." in shown) == explained


def publish(diagnosis: Diagnosis, **environ: str) -> tuple[int, str]:
    stream = io.StringIO()
    return publish_diagnosis(ActionSurface(environ, stream), diagnosis), stream.getvalue()


def test_in_a_terminal_the_log_is_all_there_is() -> None:
    status, log = publish(GOOD)

    assert status == 0
    assert "- " not in log.splitlines()[0]
    assert "\x1b" not in log
    assert not [line for line in log.splitlines() if line.startswith("::")]


def test_on_actions_errors_and_warnings_are_annotated_and_the_document_is_an_output(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    place = tmp_path_factory.mktemp("runner")
    output, summary = place / "output", place / "summary"
    output.touch()
    summary.touch()

    status, log = publish(
        BAD, GITHUB_ACTIONS="true", GITHUB_OUTPUT=str(output), GITHUB_STEP_SUMMARY=str(summary)
    )

    assert status == 3
    commands = [line.partition(" ")[0] for line in log.splitlines() if line.startswith(("::e", "::w"))]
    assert sorted(commands) == ["::endgroup::"] * 4 + ["::error", "::warning"]
    assert "##[" not in log
    name, _, rest = output.read_text(encoding="utf-8").partition("<<")
    assert name == "diagnosis"
    assert json.loads(rest.splitlines()[1])["exitCode"] == 3
    assert "Doctor: Cells cannot run here" in summary.read_text(encoding="utf-8")
