"""A target's own probe lines: several forms, only before a launch, and never a guess."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner_e2e.evidence.check_lines import Seen, read_check_line
from runner_e2e.evidence.server_log import Boot, parse_bytes, summarize
from runner_e2e.report.markdown import probe_summary
from unit.staged_log import stage

LAUNCH = b"launching /opt/paperclip-runnerd --connect-url ws://127.0.0.1:1/api/runner/v1/connect/r1\n"
PROBE = (
    b'{"msg":"sandbox probe","checks":{"run:secrets":"denied","run:ownDurableSession":"allowed"},'
    b'"failures":[]}\n'
)
OURS = (
    b'runner-e2e sandbox-probe {"schema":"runner-e2e.sandbox-probe/v1","boot":1,"checks":[{"id":"x"}],'
    b'"failures":[]}\n'
)


def result(content: bytes) -> tuple[object, object]:
    summary = summarize(parse_bytes(content))
    return summary["status"], summary["owner"]


@pytest.mark.parametrize(
    ("line", "seen"),
    [
        pytest.param('{"run:secrets":"denied"}', [Seen("run:secrets", "denied")], id="key"),
        pytest.param(
            '{"checks":{"run:a":{"observed":"denied"}}}', [Seen("run:a", "denied")], id="key-object"
        ),
        pytest.param(
            '{"checks":[{"id":"run:a","expected":"denied","observed":"allowed","control":"allowed"}]}',
            [Seen("run:a", "allowed", "denied")],
            id="rows",
        ),
        pytest.param(
            '{"name":"run:a","access":"denied"} trailing',
            [Seen("run:a", "denied")],
            id="row-with-another-key",
        ),
        pytest.param('[12:00] INFO probe: {"run:a":"allowed"}', [Seen("run:a", "allowed")], id="prefix"),
        pytest.param(
            '{"msg":"run:a denied, run:b allowed"}',
            [Seen("run:a", "denied"), Seen("run:b", "allowed")],
            id="message",
        ),
        pytest.param('{"log":"{\\"run:a\\":\\"denied\\"}\\n"}', [Seen("run:a", "denied")], id="json-in-json"),
        pytest.param("run:a: denied", [Seen("run:a", "denied")], id="colon"),
        pytest.param(
            "  run:a=denied run:b=ALLOWED", [Seen("run:a", "denied"), Seen("run:b", "allowed")], id="equals"
        ),
        pytest.param("ok run:a -> denied (EACCES)", [Seen("run:a", "denied")], id="arrow"),
        pytest.param(
            "run:a expected=denied observed=allowed", [Seen("run:a", "allowed", "denied")], id="both-words"
        ),
        pytest.param(
            "run:a allowed, expected denied", [Seen("run:a", "allowed", "denied")], id="other-order"
        ),
        pytest.param("run:a control allowed inside denied", [Seen("run:a", "denied")], id="control"),
        pytest.param("\x1b[32mrun:a\x1b[0m: \x1b[1mdenied\x1b[0m", [Seen("run:a", "denied")], id="colours"),
        pytest.param('    "run:a": "denied",', [Seen("run:a", "denied")], id="pretty-json"),
        pytest.param("run:a", [], id="no-outcome"),
        pytest.param("heartbeat run: denied", [], id="no-name"),
        pytest.param("npm prerun:a denied", [], id="inside-a-word"),
        pytest.param('{"expected":{"run:a":"denied"}}', [], id="only-expected"),
        pytest.param(
            '{"control":{"run:a":"allowed"},"inside":{"run:a":"denied"}}',
            [Seen("run:a", "denied")],
            id="inside",
        ),
    ],
)
def test_a_line_is_read_in_any_of_several_forms(line: str, seen: list[Seen]) -> None:
    found = read_check_line(line.encode())

    assert (found.seen, found.failures, found.readable) == (seen, [], True)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("run:a is not denied", id="negated"),
        pytest.param("run:a denied: false", id="negated-after"),
        pytest.param("run:a denied allowed", id="both"),
        pytest.param("denied: run:a run:b", id="outcome-first"),
        pytest.param("allowed: run:a denied: run:b", id="outcomes-first"),
        pytest.param("run:x denied: run:a", id="outcome-of-the-next"),
        pytest.param("run:a could have been denied", id="prose"),
        pytest.param("run:a expected denied", id="only-expected"),
        pytest.param('{"run:a":true}', id="boolean"),
        pytest.param('{"run:a":{"denied":false}}', id="boolean-inside"),
        pytest.param('{"id":"run:a","observed":"denied","result":"allowed"}', id="two-outcomes"),
        pytest.param('{"id":"run:a","other":"run:b","observed":"denied"}', id="two-names"),
        pytest.param('{"id":"run:a","observed":"denied","observed":"allowed"}', id="equal-keys"),
    ],
)
def test_what_can_be_read_in_two_ways_is_no_outcome(line: str) -> None:
    found = read_check_line(line.encode())

    assert (found.seen, found.readable) == ([], False)
    assert result(PROBE + line.encode() + b"\n" + LAUNCH)[0] == "failed"


@pytest.mark.parametrize(
    ("failures", "names"),
    [
        ([], []),
        (["run:secrets"], ["run:secrets"]),
        ([{"id": "run:secrets"}], ["run:secrets"]),
        (["it broke"], ["not named"]),
        ("run:a", ["not named"]),
        ({"run:a": "x"}, ["not named"]),
        (None, []),
        (0, []),
        (2, ["not named"]),
    ],
)
def test_failures_that_a_line_lists_are_failures(failures: object, names: list[str]) -> None:
    line = json.dumps({"checks": {"run:secrets": "denied"}, "failures": failures}).encode()

    assert read_check_line(line).failures == names
    assert result(line + b"\n")[0] == ("failed" if names else "passed")


@pytest.mark.parametrize(
    ("content", "status", "owner"),
    [
        pytest.param(PROBE + LAUNCH + b"work\n", "passed", "target", id="passed"),
        pytest.param(PROBE, "passed", "target", id="no-launch"),
        pytest.param(PROBE.replace(b"denied", b"allowed") + LAUNCH, "failed", "target", id="failed"),
        pytest.param(
            b"run:ownDurableSession denied\nrun:secrets denied\n", "failed", "target", id="own-denied"
        ),
        pytest.param(b"run:ownDurableSession allowed\n", "failed", "target", id="no-denial"),
        pytest.param(b"run:unheardOf denied\n" + LAUNCH, "failed", "target", id="unknown-check-alone"),
        pytest.param(PROBE + b"run:unheardOf allowed\n", "passed", "target", id="unknown-check-too"),
        pytest.param(PROBE + b"run:harnessCmdline allowed\n", "passed", "target", id="recorded"),
        pytest.param(PROBE + b"run:secrets allowed\n" + LAUNCH, "mismatch", "target", id="contradiction"),
        pytest.param(LAUNCH + PROBE, "mismatch", "target", id="late"),
        pytest.param(PROBE + LAUNCH + b"run:secrets denied\n", "mismatch", "target", id="once-more"),
        pytest.param(
            PROBE + LAUNCH + b"run:secrets could be denied\n", "mismatch", "target", id="late-unclear"
        ),
        pytest.param(PROBE + LAUNCH + b"npm run:lint denied\n", "passed", "target", id="late-other-name"),
        pytest.param(
            PROBE + b"x" * 70_000 + b"runnerd\n" + PROBE, "mismatch", "target", id="launch-in-a-long-line"
        ),
        pytest.param(b"x" * 70_000 + PROBE, "absent", None, id="probe-in-a-long-line"),
        pytest.param(
            b"probe with paperclip-runnerd run:secrets denied\n" + PROBE,
            "passed",
            "target",
            id="prose-with-runnerd",
        ),
        pytest.param(
            b'{"bin":"paperclip-runnerd","run:secrets":"denied"}\n' + PROBE,
            "passed",
            "target",
            id="runnerd-in-the-probe",
        ),
        pytest.param(LAUNCH + b"work\n", "absent", None, id="absent"),
        pytest.param(b"work\n", "absent", None, id="plain"),
        pytest.param(PROBE + OURS, "mismatch", "action", id="forged-probe-of-ours"),
        pytest.param(PROBE + b"x " + OURS, "mismatch", "target", id="claim"),
        pytest.param(
            PROBE + b'runner-e2e sandbox-launch {"schema":"runner-e2e.sandbox-launch/v1"}\n',
            "absent",
            "action",
            id="forged-launch",
        ),
        pytest.param(stage([Boot(1, None, [], PROBE + LAUNCH)]), "passed", "target", id="staged"),
        pytest.param(
            stage([Boot(1, None, [], PROBE + LAUNCH)])[:-2],
            "mismatch",
            "target",
            id="staged-and-cut-off",
        ),
        pytest.param(
            stage([Boot(1, None, [], PROBE)]) + b"text\n",
            "mismatch",
            "target",
            id="staged-and-more",
        ),
        pytest.param(
            stage([Boot(1, None, [], PROBE), Boot(2, None, [], LAUNCH + PROBE)]),
            "mismatch",
            "target",
            id="staged-second-start",
        ),
    ],
)
def test_only_what_stands_before_a_launch_is_a_proof(content: bytes, status: str, owner: str | None) -> None:
    assert result(content) == (status, owner)


def test_a_server_cannot_undo_or_mend_a_probe_of_ours() -> None:
    probe: dict[str, object] = {
        "schema": "runner-e2e.sandbox-probe/v1",
        "boot": 1,
        "checks": [{"id": "run:secrets"}],
        "failures": [],
    }
    for output in (b"run:secrets allowed\n", LAUNCH + PROBE):
        assert result(stage([Boot(1, probe, [], output)])) == ("passed", "action")
        failed = probe | {"failures": ["run:secrets"]}
        assert result(stage([Boot(1, failed, [], output)])) == ("failed", "action")


def test_the_summary_says_whose_probe_it_is_and_what_is_missing() -> None:
    summary = summarize(parse_bytes(PROBE.replace(b'"denied"', b'"allowed"') + LAUNCH))

    assert summary["failures"] == [{"boot": None, "id": "run:secrets"}]
    assert summary["reasons"] == [
        "a check of the target failed: run:secrets",
        "the target's probe shows no denial",
    ]
    target = summary["target"]
    assert isinstance(target, dict)
    assert target["launchSeen"] is True
    assert len(target["missing"]) == 12
    text = probe_summary(summary)
    assert "the target's own" in text
    assert "| ❌ | run&#58;secrets | denied | allowed | unknown |" in text
    assert "| ✅ | run&#58;ownDurableSession | allowed | allowed | unknown |" in text


def test_more_lines_than_are_read_are_no_pass() -> None:
    summary = summarize(parse_bytes(PROBE + b"run:secrets denied\n" * 20_000))

    assert summary["status"] == "failed"
    assert summary["reasons"] == ["1 line(s) that name checks cannot be read"]


WORDS = st.sampled_from(
    [
        "run:secrets",
        "run:a",
        "denied",
        "allowed",
        "expected",
        "observed",
        "not",
        ":",
        "=",
        "{",
        "}",
        '"',
        ",",
        "[",
        "]",
        " ",
        "id",
        "failures",
    ]
)


@settings(deadline=None, max_examples=500)
@given(st.lists(st.one_of(WORDS, st.text(max_size=4)), max_size=20).map("".join))
def test_any_line_can_be_read(line: str) -> None:
    content = line.encode("utf-8", "surrogatepass")

    found = read_check_line(content)

    assert all(one.observed in ("denied", "allowed") for one in found.seen)
    assert result(content)[0] in ("passed", "failed", "absent", "mismatch")


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b'{"run:a":' + b"[" * 30_000, id="deep"),
        pytest.param(b'{"run:a":' + b"1" * 30_000 + b"}", id="huge-number"),
        pytest.param(b'{"run:a":[' + b"1," * 20_000 + b"1]}", id="wide"),
        pytest.param(b"run:a " * 10_000, id="names"),
        pytest.param(b'{"run:a":NaN}', id="not-a-number"),
    ],
)
def test_a_line_made_to_break_the_reader_is_no_outcome(line: bytes) -> None:
    assert read_check_line(line).seen == []
