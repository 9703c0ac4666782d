"""A comparison and flake rates as JSON, Markdown and terminal text: whole, bounded, never more than text."""

from __future__ import annotations

import io
import json
import re
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from markdown_it import MarkdownIt
from rich.console import Console

from hostile_campaigns import TEXTS, build_hostile
from report_samples import Document, build_attempt, build_cell, build_missing, build_mixed, build_results
from runner_e2e.report.campaign import Campaign, read_campaign
from runner_e2e.report.comparison import Change, Comparison, compare
from runner_e2e.report.flakes import Flakes, build_flakes
from runner_e2e.report.history_documents import build_comparison, build_flake_rates
from runner_e2e.report.history_markdown import render_comparison, render_flake_rates
from runner_e2e.report.history_terminal import print_comparison, print_flake_rates
from runner_e2e.report.schemas import read_compare_schema, read_flakes_schema

COMPARE = jsonschema_rs.Draft202012Validator(read_compare_schema())
FLAKES = jsonschema_rs.Draft202012Validator(read_flakes_schema())
MARKDOWN = MarkdownIt("gfm-like", {"linkify": False})
NAME = "chat.haiku.local.a-case-with-quite-a-long-name-that-says-what-it-does.and-a-part"


def campaign(day: int, *cells: Document) -> Campaign:
    document = build_results(*(cell | {"startedAt": None} for cell in cells))
    document["campaign"]["run"] = str(day)
    document["generatedAt"] = f"2026-11-{day:02}T10:00:00.000+00:00"
    return read_campaign(document)


BEFORE = campaign(1, *build_mixed()["cells"])
AFTER = campaign(
    2,
    build_cell(
        failureClass="candidate_failure",
        durationMs=170_000,
        attempts=[build_attempt(1, "failed", "candidate_failure") | {"message": "It said 5."}],
    ),
    build_cell("chat.opus.local.turns.six", cost=build_cell()["cost"] | {"usd": 0.02}),
    build_cell("isolation.opus.local.two-agents", cost=build_cell()["cost"] | {"scripted": True}),
    build_cell("chat.haiku.local.turns.two", failureClass="candidate_failure"),
    build_cell("chat.haiku.local.turns.six", suiteDefinitionHash="ab" * 32),
    build_missing("questions.opus.local.answered"),
    build_cell(NAME),
)
COMPARISON = compare(BEFORE, AFTER)
RATES = build_flakes([BEFORE, AFTER, campaign(3, build_cell())])


def say(console_width: int, what: Comparison | Flakes, *, every: bool = False) -> str:
    stream = io.StringIO()
    console = Console(
        file=stream, width=console_width, highlight=False, force_terminal=True, color_system=None
    )
    if isinstance(what, Comparison):
        print_comparison(console, what)
    else:
        print_flake_rates(console, what, every=every)
    return stream.getvalue()


def test_a_comparison_as_json_keeps_to_its_schema_and_holds_each_cell() -> None:
    document: Any = json.loads(json.dumps(build_comparison(COMPARISON)))

    assert [error.message for error in COMPARE.iter_errors(document)] == []
    assert document["verdict"] == {"word": "regression", "exitCode": 1}
    assert document["counts"] == {
        "regression": 1,
        "fixed": 1,
        "still-failing": 1,
        "could-not-be-judged": 1,
        "new": 1,
        "gone": 2,
        "definition-changed": 1,
        "still-passing": 1,
        "flaky": 1,
        "joined": 5,
        "judged": 4,
    }
    assert [cell["costNotCompared"] for cell in document["cells"]] == [
        None,
        None,
        "scripted-against-real",
        None,
        "unknown",
        "unknown",
        "unknown",
        "unknown",
        "unknown",
    ]
    first = document["cells"][0]
    assert first["durationMs"] == {"before": 158_250, "after": 170_000, "change": 11_750, "cells": 1}
    assert (first["before"]["passed"], first["after"]["failureClass"]) == (True, "candidate_failure")
    assert document["costUsd"] == {"before": 0.0369, "after": 0.0446, "change": 0.0077, "cells": 3}
    assert document["scriptedCostUsd"] is None


def test_flake_rates_as_json_keep_to_their_schema() -> None:
    document: Any = json.loads(json.dumps(build_flake_rates(RATES)))

    assert [error.message for error in FLAKES.iter_errors(document)] == []
    assert [one["run"] for one in document["campaigns"]] == ["1", "2", "3"]
    assert document["cells"][0] | {"suiteDefinitionHash": None, "interval": None} == {
        "name": "chat.opus.local.turns.six",
        "suiteDefinitionHash": None,
        "seen": 2,
        "judged": 2,
        "passed": 2,
        "failed": 0,
        "flaky": 1,
        "flips": 0,
        "flipsAtOneCommit": 0,
        "rate": 0.5,
        "interval": None,
    }


@pytest.mark.parametrize("width", [60, 80, 140])
def test_a_comparison_in_a_terminal_tells_the_answer_first_and_keeps_names_whole(width: int) -> None:
    lines = [line.rstrip() for line in say(width, COMPARISON).splitlines()]

    assert lines[0] == "1 REGRESSION"
    headings = [line for line in lines if re.fullmatch(r"[A-Z][^.]*: [0-9]+", line)]
    assert headings == [
        "Regressions: 1",
        "Fixed: 1",
        "Still failing: 1",
        "Could not be judged: 1",
        "Not compared: the suite definition changed: 1",
        "New: 1",
        "Gone: 2",
        "Flaky: 1",
    ]
    assert f"  + {NAME}" in lines
    if width == 140:
        at = lines.index("Regressions: 1")
        assert lines[at + 1 : at + 4] == [
            "  ✗ chat.opus.local.turns.two",
            "      passed → candidate_failure · +12 s (+7%)",
            "      It said 5.",
        ]
        assert "  Time: 10 min 33 s → 10 min 45 s, +12 s (+2%), over 4 of 5 joined cells" in lines
        assert "  Cost: 0.0369 USD → 0.0446 USD, +0.0077 USD (+21%), over 3 of 5 joined cells" in lines
        assert "  1 cell not in the cost: scripted prices against real ones" in lines


def test_what_says_nothing_of_the_product_is_not_called_a_pass() -> None:
    broken = compare(BEFORE, campaign(2, build_missing("chat.opus.local.turns.two")))
    well = compare(campaign(1, build_cell()), campaign(2, build_cell()))

    assert say(80, broken).startswith("NOTHING TO COMPARE\n")
    assert render_comparison(broken).startswith("# ⚠️ Nothing to compare\n")
    assert say(80, well).startswith("NO REGRESSION IN 1 CELL\n")
    assert render_comparison(well).startswith("# ✅ No regression in 1 cell\n")


def test_flake_rates_in_a_terminal_show_what_was_ever_flaky_and_all_on_request() -> None:
    lines = say(80, RATES).splitlines()

    assert lines[0] == "1 of 10 cells flaky over 3 campaigns"
    assert lines[3:5] == [
        "flaky    95 %  pass  fail  judged  flips  same commit  cell",
        "  50%  9-91 %     2     0     2/2      0            0  chat.opus.local.turns.six",
    ]
    assert lines[-1] == "7 cells never flaky, and never with another end."
    everything = say(80, RATES, every=True)
    assert "chat.haiku.local.turns.six (definition abababab)" in everything
    assert "never flaky" not in everything


def test_markdown_tells_the_same() -> None:
    text = render_comparison(COMPARISON)

    assert text.startswith("# ❌ 1 regression\n")
    assert re.findall(r"^## (.*)$", text, re.MULTILINE)[:2] == ["Regressions: 1", "Fixed: 1"]
    assert "| chat.opus.local.turns.two | passed → candidate&#95;failure |" in text
    rates = render_flake_rates(RATES)
    assert rates.startswith("# 🔁 1 of 10 cells flaky over 3 campaigns\n")
    assert "| 50% | 9-91 % | 1 | 2 | 0 | 2/2 | 0 (0) | chat.opus.local.turns.six |" in rates


def test_endless_groups_are_cut_and_their_number_is_told() -> None:
    many = campaign(2, *(build_cell(f"a.b.local.c{number}") for number in range(1024)))
    comparison = compare(campaign(1, build_cell("a.b.local.c0")), many)

    assert "New: 1,023" in say(80, comparison)
    assert "… and 1,003 more; --format json has all" in say(80, comparison)
    assert len(say(80, comparison).splitlines()) < 60


def test_the_worst_that_a_campaign_can_hold_fits_into_a_summary() -> None:
    nasty = {
        "message": "#" * 2000,
        "attempts": [build_attempt(1, "failed", "contaminated") | {"message": "#" * 2000}],
        "flaky": True,
    }
    names = [f"{'#' * 490}{number}" for number in range(1024)]
    before = [build_cell(name, **nasty) for name in names]
    after = [build_cell(name, failureClass="contaminated", **nasty) for name in names]
    comparison = compare(campaign(1, *before), campaign(2, *after))

    assert len(comparison.of(Change.REGRESSION)) == 1024
    assert len(render_comparison(comparison).encode()) < 900 << 10
    assert len(render_flake_rates(build_flakes([campaign(1, *before)])).encode()) < 900 << 10


KINDS = {
    *(
        f"{one}_{end}"
        for one in (
            "heading",
            "paragraph",
            "bullet_list",
            "list_item",
            "table",
            "thead",
            "tbody",
            "tr",
            "th",
            "td",
        )
        for end in ("open", "close")
    ),
    *("inline", "text", "text_special", "softbreak"),
}


@settings(max_examples=40, deadline=None)
@given(TEXTS)
def test_hostile_text_acts_neither_in_markdown_nor_in_a_terminal(texts: list[str]) -> None:
    document = build_hostile(texts)
    for number, cell in enumerate(document["cells"]):
        cell |= {"name": f"{cell['name'][:250]}{number}", "startedAt": None}
    before = read_campaign(document)
    document["campaign"] = document["campaign"] | {"run": document["campaign"]["run"] + "x"}
    document["cells"][0] |= {"status": "failed", "failureClass": "contaminated"}
    after = read_campaign(document)
    # One cell under two definitions, so that both are shown.
    other = document | {"campaign": document["campaign"] | {"run": "other"}}
    other["cells"] = [document["cells"][1] | {"suiteDefinitionHash": f"{texts[0][:100]}2", "flaky": True}]
    comparison, rates = compare(before, after), build_flakes([before, after, read_campaign(other)])

    for page in (render_comparison(comparison), render_flake_rates(rates)):
        tokens = MARKDOWN.parse(page)
        assert {one.type for token in tokens for one in (token, *(token.children or ()))} <= KINDS
        assert all(char.isprintable() or char in "\n\u200b" for char in page)
    for text in (say(80, comparison), say(80, rates, every=True)):
        assert all(char.isprintable() or char == "\n" for char in text)
        text.encode()
    assert COMPARE.is_valid(build_comparison(comparison))
    assert FLAKES.is_valid(build_flake_rates(rates))
