"""A cell in a terminal, and the rows it is read from."""

from __future__ import annotations

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from runner_e2e.report.rows import AttemptRow, agent_rows, check_rows, protections, records, text
from runner_e2e.report.terminal import plain, print_agents, print_host, print_probe, print_verdict

Json = dict[str, object]


def console(width: int = 120) -> tuple[Console, io.StringIO]:
    out = io.StringIO()
    return Console(file=out, width=width, highlight=False, force_terminal=False), out


def attempt(**fields: object) -> Json:
    return {"id": "run:secrets", "how": "read", "outcome": "denied", "errno": "13", "reach": "tried"} | fields


def agents_of(*names: str, **fields: object) -> Json:
    rows = [
        {"agent": name, "done": True, "issueStatus": "done", "attempts": [attempt(**fields)]}
        for name in names
    ]
    return {"agents": rows}


PROBE: Json = {
    "checks": [
        {"id": "run:secrets", "expected": "denied", "observed": "denied", "control": "allowed"},
        {
            "id": "run:leak",
            "expected": "denied",
            "observed": "allowed",
            "control": "allowed",
            "problem": "was allowed",
        },
        {
            "id": "run:tmp",
            "expected": "recorded",
            "observed": "denied",
            "control": "allowed",
            "known": "allowed",
        },
        {
            "id": "run:cmd",
            "expected": "recorded",
            "observed": "allowed",
            "control": "allowed",
            "known": "allowed",
        },
    ],
    "protections": {"scopes": {"outcome": "enforced"}, "sockets": {"outcome": "degraded"}},
    "launches": [{}, {}],
}


def test_each_check_has_its_mark() -> None:
    out, written = console()

    print_probe(out, PROBE)

    lines = {line.split()[1]: line.split()[0] for line in written.getvalue().splitlines() if "run:" in line}
    assert lines == {"run:secrets": "✓", "run:leak": "✗", "run:tmp": "!", "run:cmd": "·"}
    assert "enforced  signal and abstract-socket scopes" in written.getvalue()
    assert "degraded  Unix sockets refused" in written.getvalue()


def test_agents_stand_side_by_side() -> None:
    out, written = console()
    agents = agents_of("ada", "ben")

    print_agents(out, agents, PROBE)

    shown = " ".join(written.getvalue().split())
    assert "Agents: 2 in one instance, 2 launches in a domain of their own" in shown
    assert "ada got" in shown
    assert "ben got" in shown
    assert "ada did its work; 0 of 1 places reached" in shown


@pytest.mark.parametrize(
    ("reach", "word"), [("reached", "REACHED"), ("visible", "known gap"), ("tried", "denied")]
)
def test_what_an_agent_got_is_said_in_a_word(reach: str, word: str) -> None:
    out, written = console()

    print_agents(out, agents_of("ada", reach=reach), {})

    assert word in written.getvalue()


def test_without_agents_nothing_is_printed() -> None:
    out, written = console()

    print_agents(out, {}, PROBE)

    assert written.getvalue() == ""


def test_the_verdict_says_where_the_evidence_is() -> None:
    out, written = console()

    print_verdict(
        out,
        {"status": "failed", "failureClass": "sandbox_unproven", "message": "It is not proven."},
        "/some/where",
        ["cell.json", "server.log"],
    )

    shown = written.getvalue()
    assert "FAILED (sandbox_unproven)" in shown
    assert "It is not proven." in shown
    assert "/some/where" in shown
    assert "cell.json, server.log" in shown


def test_a_long_place_is_folded_and_not_cut_off() -> None:
    out, written = console(60)
    place = "/long" + "/directory" * 20

    print_verdict(out, {"status": "passed"}, place, [])

    joined = "".join(line.strip("│╭╮╰╯─ ") for line in written.getvalue().splitlines())
    assert place in joined


HOSTILE = "[bold]x[/bold] [/nothing] \x1b]0;title\x07\x1b[31m\r\x9b2J\u202e"


def test_a_text_of_an_agent_is_shown_and_not_obeyed() -> None:
    """Escape sequences of an agent would act on the terminal; markup of rich's would be an error."""
    out, written = console(200)
    cell = {"status": HOSTILE, "failureClass": HOSTILE, "message": HOSTILE}
    probe = {
        "checks": [dict.fromkeys(("id", "expected", "observed", "control", "known", "problem"), HOSTILE)],
        "protections": {HOSTILE: {"outcome": HOSTILE}},
    }
    agents = agents_of(HOSTILE, id=HOSTILE, how=HOSTILE, outcome=HOSTILE, errno=HOSTILE, reach=HOSTILE)

    print_host(out, {HOSTILE: HOSTILE})
    print_probe(out, probe)
    print_agents(out, agents, probe)
    print_verdict(out, cell, HOSTILE, [HOSTILE])

    shown = written.getvalue()
    assert "[bold]x[/bold]" in shown
    assert not set(shown) & set("\x1b\x07\r\x9b\u202e")


@settings(deadline=None)
@given(st.text())
def test_only_what_can_be_seen_reaches_a_terminal(words: str) -> None:
    shown = str(plain(words))

    assert len(shown) == len(words)
    assert all(char.isprintable() for char in shown)
    assert [a for a, b in zip(shown, words, strict=True) if a == b or b.isprintable()] == [
        char for char in words if char.isprintable() or char == "\ufffd"
    ]


@pytest.mark.parametrize(
    ("fields", "got"),
    [
        ({"outcome": "denied", "errno": "13"}, "denied"),
        ({"outcome": "obtained", "errno": None}, "obtained"),
        ({"outcome": "absent", "errno": "2"}, "not there (errno 2)"),
        ({"outcome": "failed", "errno": "5"}, "failed (errno 5)"),
        ({"outcome": None, "errno": None}, "not tried"),
        ({"outcome": "made up", "errno": None}, "made up"),
    ],
)
def test_an_attempt_says_what_was_got(fields: Json, got: str) -> None:
    (agent,) = agent_rows(agents_of("ada", **fields))

    assert agent.attempts == (AttemptRow("run:secrets", "read", got, "tried"),)


def test_only_true_is_done() -> None:
    for value in (1, "true", "yes", None, [True]):
        (agent,) = agent_rows({"agents": [{"agent": "ada", "done": value}]})
        assert not agent.done


def test_a_recorded_check_with_another_value_has_changed() -> None:
    rows = {row.id: row for row in check_rows(PROBE)}

    assert [name for name, row in rows.items() if row.changed] == ["run:tmp"]
    assert rows["run:leak"].problem == "was allowed"
    assert rows["run:secrets"].problem is None


@pytest.mark.parametrize("value", [None, 1, "x", {}, [1, None, "x", []]])
def test_what_is_no_list_of_records_has_no_rows(value: object) -> None:
    assert list(records(value)) == []
    assert check_rows({"checks": value}) == ()
    assert agent_rows({"agents": value}) == ()
    assert protections({"protections": value}) == {}


def test_a_missing_field_is_an_empty_text() -> None:
    assert text({}, "a") == text({"a": None}, "a") == ""
    assert text({"a": 0}, "a") == "0"
    assert text({"a": False}, "a") == "False"


KEYS = [
    "checks",
    "agents",
    "attempts",
    "id",
    "reach",
    "outcome",
    "errno",
    "protections",
    "status",
    "observed",
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner),
    max_leaves=10,
)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(["checks", "agents", "protections", "launches", "status"]), JSON))
def test_garbled_evidence_can_be_printed(evidence: Json) -> None:
    out, _ = console()

    print_probe(out, evidence)
    print_agents(out, evidence, evidence)
    print_verdict(out, evidence, "", [])
