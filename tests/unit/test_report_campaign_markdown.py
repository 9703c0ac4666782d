"""A campaign's summary: what a person is told, in which order, and that nothing in it is more than text."""

from __future__ import annotations

import html
import re

import pytest
from hypothesis import given, settings
from markdown_it import MarkdownIt

from hostile_campaigns import TEXTS, build_hostile
from report_samples import (
    BEGAN,
    Document,
    build_agent,
    build_attempt,
    build_cell,
    build_missing,
    build_mixed,
    build_results,
)
from runner_e2e.report.campaign_markdown import campaign_summary

BUDGET = 900 << 10
MARKDOWN = MarkdownIt("gfm-like", {"linkify": False})


def plain(markdown: str) -> str:
    return html.unescape(markdown).replace("\u200b", "")


def full(document: Document) -> str:
    return plain(campaign_summary(document)[0])


def section(text: str, heading: str) -> str:
    return text.partition(f"## {heading}")[2].partition("\n## ")[0].partition("<details>")[0]


def test_the_first_lines_say_what_came_of_it() -> None:
    for stage in campaign_summary(build_mixed()):
        head, counts, facts = plain(stage).split("\n\n")[:3]

        assert head == "# ❌ Failed: 2 of 8 cells passed"
        assert counts == ("**2 passed** · 4 failed · 1 refused · 1 not run · 1 left no artifact · 🔁 1 flaky")
        assert facts.startswith("[run 7, attempt 1](https://github.com/acme/paperclip/actions/runs/7) · acme")
        assert "commit 4f1c0de54f1c of refs/heads/main" in facts
        assert "7 attempts, 18 min 28 s of cell time · cost unknown · tokens unknown" in facts


def test_a_passed_campaign_is_short() -> None:
    text = full(build_results(build_cell(), build_cell("chat.opus.local.turns.six")))

    assert text.startswith("# ✅ Passed: all 2 cells\n")
    assert re.findall("^## (.*)$", text, re.MULTILINE) == ["Suites", "Sandbox"]
    assert text.endswith("</details>\n")


@pytest.mark.parametrize(
    ("word", "headline"),
    [
        pytest.param("infrastructure", "# ⚠️ Infrastructure failed: all 1 cell passed", id="infrastructure"),
        pytest.param("coverage-lost", "# ⏭️ Coverage lost: all 1 cell passed", id="coverage"),
        pytest.param("cancelled", "# ⏹️ Cancelled: all 1 cell passed", id="cancelled"),
        pytest.param("refused", "# ⛔ Refused: all 1 cell passed", id="refused"),
    ],
)
def test_the_verdict_is_the_campaigns_whatever_the_cells_say(word: str, headline: str) -> None:
    document = build_results(build_cell(), verdict={"word": word, "exitCode": 3, "reasons": []})

    assert full(document).splitlines()[0] == headline


def test_a_campaign_without_cells_is_told() -> None:
    assert full(build_results()).startswith("# ✅ Passed: no cells\n")


def test_the_grid_counts_what_passed_and_shows_the_worst() -> None:
    assert section(full(build_mixed()), "Suites").strip().splitlines()[:5] == [
        "| suite | opus<br>local | haiku<br>local | haiku<br>daytona |",
        "|---|---|---|---|",
        "| chat | ✅ 2/2 🔁 | ❌ 0/3 | ⏭️ 0/1 |",
        "| isolation | ❌ 0/1 |  |  |",
        "| questions | ⚠️ 0/1 |  |  |",
    ]


def test_behind_keys_and_with_endless_columns_there_is_no_grid() -> None:
    opaque = build_results(build_cell("c-28b51f552c4c"))
    wide = build_results(*(build_cell(f"s.p{number}.local.c") for number in range(13)))
    at_most = build_results(*(build_cell(f"s.p{number}.local.c") for number in range(12)))

    assert "## Suites" not in full(opaque)
    assert "c-28b51f552c4c" in full(opaque)
    assert "## Suites" not in full(wide)
    assert "## Suites" in full(at_most)


def test_what_did_not_pass_stands_with_the_worst_first_and_says_why() -> None:
    cell = build_cell(
        "a.b.local.c",
        failureClass="candidate_failure",
        runAttempt=3,
        attempts=[
            build_attempt(1, "failed", "transient_infrastructure"),
            build_attempt(2, "failed", "candidate_failure") | {"message": "It said 5.", "rule": "assertion"},
        ],
    )
    rows = section(full(build_results(build_missing("x.y.local.z"), cell, build_cell())), "Did not pass: 2")

    assert rows.strip().splitlines()[2:] == [
        "| ❌ | a.b.local.c | candidate_failure | 2 of run attempt 3 | assertion | It said 5. |",
        (
            "| ⚠️ | x.y.local.z | permanent_infrastructure, no artifact | none | - |"
            " The cell left no artifact. See the log of its job. |"
        ),
    ]


def test_flaky_cells_say_what_made_them_so() -> None:
    again = build_cell(
        "a.b.local.c", attempts=[build_attempt(1, "failed", "transient_infrastructure"), build_attempt(2)]
    )
    earlier = {"runAttempt": 1, "artifact": "a", "status": "failed", "failureClass": "contaminated"}
    between = build_cell("a.b.local.d", runAttempt=2, earlier=[earlier])

    assert section(full(build_results(again, between)), "Flaky: 2").strip().splitlines() == [
        "- 🔁 a.b.local.c: passed only when it was tried again after transient_infrastructure",
        "- 🔁 a.b.local.d: failed in run attempt 1, passed in 2",
    ]


def test_the_sandbox_line_counts_cells_and_what_agents_got() -> None:
    text = full(
        build_results(
            build_cell(agents=[build_agent("ada", "run:secrets"), build_agent("bob")]),
            build_cell("a.b.local.c", sandbox="target", agents=[]),
            build_cell("a.b.local.d", sandbox="not-applicable", agents=[], contamination=None),
            build_missing("a.b.local.e"),
        )
    )

    assert section(text, "Sandbox").strip().splitlines() == [
        (
            "4 cells: 1 enforced and proven at each launch, 1 by the target's own sandbox, 1 not applicable,"
            " 1 **unproven**."
        ),
        "2 agents tried hidden places 9 times: 8 denied, **❌ 1 reached**.",
        "",
        "- ❌ chat.opus.local.turns.two: run:secrets",
    ]


def test_refused_artifacts_and_scripted_prices_are_told() -> None:
    document = build_mixed()
    document["problems"] = [{"artifact": "evil", "code": "unknown-name", "message": "No cell has it."}]
    document["totals"]["cost"] = {
        "status": "partial",
        "usd": 0.25,
        "source": "gateway",
        "scripted": True,
        "requests": 3,
    }
    text = full(document)

    assert "| evil | unknown-name | No cell has it. |" in section(text, "Refused artifacts: 1")
    assert "cost at least 0.2500 USD at scripted prices, nobody's bill (not all of it is known)" in text


def test_a_time_that_no_cell_tells_is_unknown() -> None:
    document = build_results(build_missing("a.b.local.c"))
    assert "0 attempts, unknown of cell time" in full(document)


@pytest.mark.parametrize(
    "url",
    ["javascript:alert(1)", "http://plain.example", "https://e.example/a)b", "https://e.example/?q=<x>"],
)
def test_only_a_plain_https_address_becomes_a_link(url: str) -> None:
    document = build_mixed()
    document["campaign"]["url"] = url

    assert "](" not in campaign_summary(document)[0]


@pytest.mark.parametrize("reason", ["- a", "1. a", "2.", "-", ". a", "3.5 of 4", "10-20"])
def test_a_reason_begins_no_list_of_its_own(reason: str) -> None:
    document = build_mixed()
    document["verdict"]["reasons"] = [reason]

    kinds = [token.type for token in MARKDOWN.parse(campaign_summary(document)[1])]

    assert "ordered_list_open" not in kinds
    assert kinds.count("list_item_open") == 3  # the reason, a flaky cell, one whose agent reached something
    assert f"\n- {reason}\n" in plain(campaign_summary(document)[1])


@settings(max_examples=60, deadline=None)
@given(TEXTS)
def test_hostile_text_forms_no_markup(texts: list[str]) -> None:
    document = build_hostile(texts)
    document["campaign"]["url"] = None
    ours = {"<br>", "<details>", "<summary>", "</summary>", "</details>"}

    for stage in campaign_summary(document):
        tokens = MARKDOWN.parse(stage)
        inner = [one for token in tokens for one in token.children or ()]
        assert {token.type for token in [*tokens, *inner]} <= KINDS
        raw = " ".join(token.content for token in [*tokens, *inner] if token.type.startswith("html"))
        assert set(re.findall(r"<[^>]*>?", raw)) <= ours
        for table in re.findall(r"(?:^\|.*\n)+", stage, re.MULTILINE):
            assert len({line.count("|") for line in table.splitlines()}) == 1
        assert stage.count("|") == sum(line.count("|") for line in stage.splitlines() if line[:1] == "|")
        assert all(char.isprintable() or char in "\n\u200b" for char in stage)


KINDS = {
    *(
        f"{one}_{end}"
        for one in ("heading", "paragraph", "bullet_list", "list_item")
        for end in ("open", "close")
    ),
    *(f"{one}_{end}" for one in ("table", "thead", "tbody", "tr", "th", "td") for end in ("open", "close")),
    *("inline", "text", "text_special", "softbreak", "hardbreak", "html_block", "html_inline"),
    *("strong_open", "strong_close"),
}


def test_1024_hostile_cells_stay_in_the_budget_and_each_stage_is_smaller() -> None:
    worst = "#" * 500
    cells = [
        build_cell(
            f"{worst}{number}",
            suite=worst[:500],
            profile=f"{worst[:480]}{number % 12}",
            environment=worst[:300],
            message="#" * 2000,
            flaky=True,
            status="passed" if number % 2 else "failed",
            failureClass=None if number % 2 else "contaminated",
            exitCode=0 if number % 2 else 1,
            attempts=[
                build_attempt(1, "failed", "contaminated") | {"rule": "#" * 2000, "message": "#" * 2000}
            ],
            agents=[build_agent("ada", "run:secrets")],
            startedAt=BEGAN,
        )
        for number in range(1024)
    ]
    document = build_results(*cells)
    document["verdict"]["reasons"] = ["#" * 2000] * 100
    document["problems"] = [{"artifact": "#" * 300, "code": "#" * 300, "message": "#" * 2000}] * 1000
    document["campaign"] |= {"repository": "#" * 300, "targetRef": "#" * 300, "run": "#" * 300}

    sizes = [len(stage.encode()) for stage in campaign_summary(document)]

    assert sizes[0] <= BUDGET
    assert sizes[1] <= 120 << 10
    assert sizes[2] <= 10 << 10
    assert "more cells: `results.json` and `dashboard.html` have all." in campaign_summary(document)[0]


def test_1024_ordinary_cells_are_all_in_the_table() -> None:
    document = build_results(*(build_cell(f"suite.profile.local.case-{number}") for number in range(1024)))

    text = full(document)

    assert all(f"| suite.profile.local.case-{number} |" in text for number in range(1024))
