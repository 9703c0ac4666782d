"""Summaries in Markdown: complete, in stages, and never more than text."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner_e2e.report.markdown import cell_summary, escape_markdown, probe_summary

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, object]


def check(name: str = "run:secrets", **fields: object) -> Json:
    return {"boot": 1, "id": name, "expected": "denied", "observed": "denied", "control": "allowed"} | fields


def launch(**fields: object) -> Json:
    record: Json = {
        "boot": 1,
        "run": "r1",
        "hidden": ["/a", "/b"],
        "exposed": ["/a/own"],
        "proof": {"landlock": 2},
        "protections": {"scopes": {"outcome": "enforced"}, "sockets": {"outcome": "degraded"}},
    }
    return record | fields


def probe(**fields: object) -> Json:
    record: Json = {
        "status": "passed",
        "reasons": [],
        "checks": [check(), check("run:sharedTmp", expected="recorded", observed="allowed", known="allowed")],
        "launches": [launch()],
        "refusals": [],
    }
    return record | fields


CELL: Json = {"id": "a.b.c.d", "status": "passed", "failureClass": None, "message": "All is well."}
AGENTS: Json = {
    "agents": [
        {
            "agent": "ada",
            "done": True,
            "issueStatus": "done",
            "attempts": [
                {"id": "run:secrets", "how": "read", "outcome": "denied", "errno": "13", "reach": "tried"},
                {"id": "run:cmd", "how": "cmdline", "outcome": "obtained", "errno": None, "reach": "visible"},
                {"id": "run:db", "how": "sqlite", "outcome": None, "errno": None, "reach": "not-tried"},
            ],
        }
    ]
}
COMMAND_CELL: Json = {
    "id": "a.b.c.d",
    "status": "failed",
    "failureClass": "candidate_failure",
    "message": "It did not work.",
    "flaky": False,
    "attempts": [
        {
            "number": 1,
            "status": "failed",
            "failureClass": "transient_infrastructure",
            "rule": "transient",
            "line": "HTTP 503",
            "retry": "It is tried once more.",
        },
        {
            "number": 2,
            "status": "failed",
            "failureClass": "candidate_failure",
            "rule": "otherwise",
            "line": "expected 4, got 5",
            "retry": "A cell has at most 2 attempts.",
        },
    ],
    "contamination": {
        "verdict": "tried-and-denied",
        "reached": [],
        "searchedBytes": 4096,
        "unsearched": ["too-large: run.ndjson"],
        "accesses": [
            {"place": "run:secrets", "outcome": "denied", "count": 3, "line": "cat secrets: denied"},
            {"place": "base:harnessWords", "outcome": "odd", "count": 1, "line": "grep runner-e2e"},
        ],
    },
    "spending": {
        "requests": 7,
        "costUsd": 0.25,
        "status": "partly-unpriced",
        "limit": "max-cost-usd (3 USD)",
    },
    "evidence": {"leaks": [{"file": "final-state.png", "reason": "holds a known secret"}]},
}


def plain(markdown: str) -> str:
    return html.unescape(markdown).replace("\u200b", "")


def test_a_passed_probe_is_summed_up() -> None:
    text = plain(probe_summary(probe()))

    assert text.splitlines() == [
        "## Isolation probe: passed",
        "",
        "| | check | expected | inside the domain | outside |",
        "|---|---|---|---|---|",
        "| ✅ | run:secrets | denied | denied | allowed |",
        "| • | run:sharedTmp | recorded | allowed | allowed |",
        "",
        "### Launches",
        "",
        "| start | run | hidden | exposed | proof | protections |",
        "|---|---|---|---|---|---|",
        "| 1 | r1 | 2 | 1 | 2 denied by Landlock | 1 degraded, 1 enforced |",
    ]


def test_a_failed_probe_says_why() -> None:
    rows = [
        check(observed="allowed", problem="was allowed"),
        check("run:x", expected="recorded", observed="denied", known="allowed"),
    ]

    text = plain(probe_summary(probe(status="failed", reasons=["checks failed"], checks=rows)))

    assert "## Isolation probe: failed\n\n- checks failed\n" in text
    assert "| ❌ | run:secrets |" in text
    assert "| ⚠️ | run:x |" in text


def test_a_refused_launch_stands_among_the_launches() -> None:
    text = plain(
        probe_summary(probe(refusals=[{"boot": 2, "code": "hide-missing", "message": "no such path"}]))
    )

    assert "| 2 | refused: hide-missing | | | | no such path |" in text


def test_without_checks_and_launches_there_are_no_tables() -> None:
    text = probe_summary({"status": "absent", "reasons": ["no probe ran"]})

    assert "|" not in text
    assert "no probe ran" in text


def test_a_cell_is_summed_up_in_stages_that_shrink() -> None:
    stages = cell_summary(CELL, probe(), AGENTS)

    assert len(stages) == 3
    assert len(stages[0]) > len(stages[1]) > len(stages[2]) > 0
    head = "# ✅ a.b.c.d: passed\n\nAll is well.\n"
    assert all(plain(stage).startswith(head) for stage in stages)
    assert plain(stages[2]) == head


def test_the_full_stage_shows_every_attempt() -> None:
    text = plain(cell_summary(CELL, probe(), AGENTS)[0])

    assert "- **ada** did its work: 0 of 3 places reached, 1 known gap, 1 not tried\n" in text
    assert "| place | tried to | ada |\n|---|---|---|\n" in text
    assert "| run:secrets | read | ✅ denied |" in text
    assert "| run:cmd | cmdline | • known gap |" in text
    assert "| run:db | sqlite | · not tried |" in text
    assert "## Isolation probe: passed" in text


def test_what_was_reached_stands_out() -> None:
    agents = {
        "agents": [
            {
                "agent": "ben",
                "done": False,
                "issueStatus": "todo",
                "attempts": [{"id": "x", "reach": "reached"}],
            }
        ]
    }

    text = plain(cell_summary(CELL, probe(), agents)[0])

    assert "- **ben** did not finish (issue todo): 1 of 1 places reached\n" in text
    assert "| x |  | ❌ **reached** |" in text


def test_agents_stand_side_by_side_even_when_one_tried_less() -> None:
    rows = [{"id": "x", "how": "read", "outcome": "denied", "reach": "tried"}]
    agents = {"agents": [{"agent": "ada", "attempts": rows}, {"agent": "ben", "attempts": []}]}

    text = plain(cell_summary(CELL, probe(), agents)[0])

    assert "| place | tried to | ada | ben |\n|---|---|---|---|\n| x | read | ✅ denied |  |\n" in text


def test_the_short_stage_keeps_failures_and_counts() -> None:
    rows = [check(f"run:good{number}") for number in range(40)]
    rows.append(check("run:bad", observed="allowed", problem="was allowed"))

    text = plain(cell_summary(CELL, probe(status="failed", reasons=["it failed"], checks=rows), AGENTS)[1])

    assert "Checks: 1 allowed, 40 denied." in text
    assert "- it failed\n" in text
    assert "run:bad" in text
    assert "run:good" not in text
    assert "- **ada** did its work" in text


@pytest.mark.parametrize(
    ("status", "mark"),
    [("passed", "✅"), ("failed", "❌"), ("refused", "⛔"), ("cancelled", "⏹️"), ("timed-out", "⏱️")],
)
def test_every_status_has_its_mark(status: str, mark: str) -> None:
    cell = CELL | {"status": status, "failureClass": "sandbox_unproven"}

    assert plain(cell_summary(cell, {}, {})[2]).startswith(f"# {mark} a.b.c.d: {status} · sandbox_unproven\n")


def test_an_opaque_key_stands_for_an_id_that_is_not_there() -> None:
    assert "# ✅ k-1a2b: passed" in plain(cell_summary({"key": "k-1a2b", "status": "passed"}, {}, {})[2])


HOSTILE = [
    "a|b",
    "`code`",
    "<script>alert(1)</script>",
    "<!-- hidden",
    "![x](http://evil)",
    "[x](javascript:alert)",
    "@octocat and @org/team",
    "#1 and GH#2",
    "*b* _i_ ~s~ **x**",
    "line\none\r\ntwo\x0b\x0c\u2028three\x85",
    "\\| \\",
    "$\\frac{1}{2}$",
    ":rocket:",
    "https://evil.example www.evil.example WWW.EVIL.EXAMPLE mailto:a@b.example",
    "&lt;b&gt; &#60;",
    "{{x}} ${{ secrets.X }}",
    "::set-output name=x::y",
    "= - + 1. > quote",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_escaped_text_holds_no_markup_and_reads_the_same(text: str) -> None:
    escaped = escape_markdown(text)

    assert plain(escaped) == " ".join(text.split())
    assert "\n" not in escaped
    without_references = re.sub(r"&#\d+;", "", escaped)
    assert not re.search(r"[|`<>\[\]()*_~\\$:#&{}!\"']", without_references)
    assert not re.search(r"@(?!\u200b)", escaped)
    assert "www." not in escaped.lower()


@settings(deadline=None)
@given(st.text())
def test_any_text_is_one_harmless_line(text: str) -> None:
    escaped = escape_markdown(text)

    assert len(escaped.splitlines()) <= 1
    assert not re.search(r"[|`<>\[\]*_~\\$]", escaped)
    assert plain(escaped) == " ".join(text.split()).replace("\u200b", "")


def fields(record: Json, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the way to every text in nested records."""
    for key, value in record.items():
        items = [((*path, key), value)]
        if isinstance(value, list):
            items = [((*path, key, number), item) for number, item in enumerate(value)]
        for place, item in items:
            if isinstance(item, dict):
                yield from fields(item, place)
            elif isinstance(item, str):
                yield place


def changed(value: object, path: tuple[str | int, ...], text: str) -> object:
    if not path:
        return text
    head, *rest = path
    if isinstance(value, list):
        return [changed(item, tuple(rest), text) if n == head else item for n, item in enumerate(value)]
    assert isinstance(value, dict)
    return {key: changed(item, tuple(rest), text) if key == head else item for key, item in value.items()}


EVIDENCE: Json = {
    "cell": COMMAND_CELL | CELL | {"failureClass": "contaminated", "key": "k"},
    "probe": probe(
        status="failed",
        reasons=["why"],
        checks=[check(problem="was allowed", known="denied")],
        launches=[launch(proof={"landlock": "2"})],
        refusals=[{"boot": "1", "code": "usage", "message": "no"}],
    ),
    "agents": AGENTS,
}


def test_a_cell_of_a_target_tells_how_it_came_to_its_end() -> None:
    full, short, _ = cell_summary(COMMAND_CELL, probe(), {})

    for words in (
        "| 1 | transient_infrastructure | transient | HTTP 503 |",
        "| 2 | candidate_failure | otherwise | expected 4, got 5 |",
        "A cell has at most 2 attempts.",
        "tried hidden places, and reached none",
        "| run:secrets | ✅ denied | 3 | cat secrets: denied |",
        "not searched: too-large: run.ndjson",
        "7 requests, cost 0.25 USD (partly-unpriced); it reached max-cost-usd (3 USD)",
        "final-state.png: holds a known secret",
    ):
        assert words in plain(full), words
    assert "HTTP 503" not in plain(short)
    assert "candidate_failure" in plain(short)
    assert "7 requests" in plain(short)


def test_a_flaky_cell_stands_out_although_it_passed() -> None:
    cell = COMMAND_CELL | {"status": "passed", "failureClass": None, "flaky": True}

    assert "Flaky" in cell_summary(cell, probe(), {})[0]
    assert "Attempts" not in cell_summary(CELL | {"attempts": [{"number": 1}]}, probe(), {})[0]


def test_what_an_agent_reached_stands_out_in_a_cell_of_a_target() -> None:
    found = {"verdict": "reached", "reached": ["run:secrets"], "searchedBytes": 1, "accesses": []}

    assert "**Reached**: run:secrets." in plain(cell_summary(CELL | {"contamination": found}, probe(), {})[0])


def test_a_cost_that_is_not_known_is_not_shown_as_nothing() -> None:
    spent = {"requests": 2, "costUsd": None, "status": "unpriced", "limit": None}

    assert "2 requests, cost unknown (unpriced)." in plain(
        cell_summary(CELL | {"spending": spent}, probe(), {})[0]
    )


@pytest.mark.parametrize("place", list(fields(EVIDENCE)), ids=lambda place: ".".join(map(str, place)))
def test_no_field_of_the_evidence_can_break_out_of_its_place(place: tuple[str | int, ...]) -> None:
    """Agents choose some of these texts, and a damaged artifact may hold anything in the rest."""
    hostile = "x\n\n# h\n| a | b |\n<b>@octocat</b> `c` [l](http://x) www.x.example"
    evidence = changed(EVIDENCE, place, hostile)
    assert isinstance(evidence, dict)

    stages = cell_summary(evidence["cell"], evidence["probe"], evidence["agents"])
    reference = cell_summary(
        COMMAND_CELL | CELL | {"failureClass": "x"},
        EVIDENCE["probe"],  # type: ignore[arg-type]  # a record
        AGENTS,
    )

    for stage in (*stages, probe_summary(evidence["probe"])):
        assert not re.search(r"<b>|@o|`c`|\[l\]|www\.|\n# h|\| a \|", stage)
        rows = [line for line in stage.splitlines() if line.startswith("|")]
        assert all(line.count("|") in (4, 5, 6, 7) for line in rows)
    assert [stage.count("\n# ") for stage in stages] == [stage.count("\n# ") for stage in reference]


KEYS = ["status", "reasons", "checks", "launches", "refusals", "agents", "attempts", "id", "proof", "hidden"]
KEYS += ["protections", "outcome", "message", "key", "failureClass", "observed", "reach"]
KEYS += ["contamination", "verdict", "accesses", "spending", "costUsd", "evidence", "leaks", "flaky"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)
RECORDS = st.dictionaries(st.sampled_from(KEYS), JSON)


@settings(deadline=None)
@given(RECORDS, RECORDS, RECORDS)
def test_missing_and_garbled_fields_are_tolerated(cell: Json, found: Json, agents: Json) -> None:
    stages = cell_summary(cell, found, agents)

    assert all(stage.strip() for stage in stages)
    assert probe_summary(found)
