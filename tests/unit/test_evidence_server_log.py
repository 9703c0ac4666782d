"""The staged `server.log`: what is ours in it, and that nothing else can be taken for it."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner_e2e.evidence.server_log import Boot, ServerLog, parse, parse_bytes, summarize
from unit.staged_log import stage

Record = dict[str, object]
CLAIM = (
    b'runner-e2e sandbox-probe {"schema":"runner-e2e.sandbox-probe/v1","boot":1,"checks":[],"failures":[]}\n'
)
PROTECTIONS = {"scopes": {"level": "required", "outcome": "enforced"}}


def check(name: str = "run:secrets", observed: str = "denied") -> Record:
    return {"id": name, "expected": "denied", "observed": observed, "control": "allowed"}


def probe(boot: object = 1, **fields: object) -> Record:
    record: Record = {
        "schema": "runner-e2e.sandbox-probe/v1",
        "boot": boot,
        "checks": [check()],
        "failures": [],
        "abi": 7,
        "protections": PROTECTIONS,
    }
    return record | fields


def launch(boot: int = 1, run: str = "r1") -> Record:
    return {
        "schema": "runner-e2e.sandbox-launch/v1",
        "boot": boot,
        "launch": "uuid",
        "run": run,
        "hidden": ["/x\ud800"],
    }


def refusal(boot: int = 1, code: str = "usage") -> Record:
    return {"schema": "runner-e2e.sandbox-refusal/v1", "boot": boot, "code": code, "message": "no"}


def staged(*boots: Boot, secrets: tuple[str, ...] = ()) -> bytes:
    return stage(boots, secrets)


def one_boot(
    output: bytes = b"listening\n", journal: tuple[Record, ...] = (launch(),), **fields: object
) -> bytes:
    return staged(Boot(1, probe(**fields), journal, output))


def status_of(content: bytes) -> str:
    return str(summarize(parse_bytes(content))["status"])


def reasons_of(content: bytes) -> list[str]:
    reasons = summarize(parse_bytes(content))["reasons"]
    assert isinstance(reasons, list)
    return reasons


def test_the_first_line_is_the_probe_and_our_lines_come_before_the_servers() -> None:
    lines = one_boot(journal=(launch(), refusal())).splitlines()

    assert lines[0].startswith(b'runner-e2e sandbox-probe {"schema":"runner-e2e.sandbox-probe/v1","boot":1,')
    assert lines[1].startswith(b'runner-e2e sandbox-launch {"schema":"runner-e2e.sandbox-launch/v1",')
    assert lines[2].startswith(b'runner-e2e sandbox-refusal {"schema":"runner-e2e.sandbox-refusal/v1",')
    assert lines[3].startswith(b'runner-e2e server-output {"schema":"runner-e2e.server-output/v1",')
    assert lines[4:] == [b"listening"]
    assert all(line.isascii() for line in lines[:4])


def test_a_log_is_read_back_as_it_was_written() -> None:
    content = staged(
        Boot(1, probe(1), [launch(1, "a"), refusal(1)], b"one\n"),
        Boot(2, probe(2), [launch(2, "b")], b"two"),
        Boot(3, probe(3), [], b""),
    )

    log = parse_bytes(content)

    assert [record["boot"] for record in log.probes] == [1, 2, 3]
    assert [record["run"] for record in log.launches] == ["a", "b"]
    assert [record["code"] for record in log.refusals] == ["usage"]
    assert (log.problems, log.claims) == ([], 0)


PREFIXES = [
    b"runner-e2e ",
    b"runner-e2e sandbox-",
    b"sandbox-probe ",
    b"runner-e2e server-output ",
    b"runner-e2e[claimed] sandbox-",
    CLAIM,
    b"\nrunner-e2e sandbox-launch {}",
    b"\n",
    b"\r\n",
    b"\0",
    b"{}",
    b"x" * 5000,
]
OUTPUTS = st.lists(st.one_of(st.sampled_from(PREFIXES), st.binary(max_size=12)), max_size=8).map(b"".join)
BOOTS = st.lists(
    st.tuples(st.booleans(), st.lists(st.sampled_from(["launch", "refusal"]), max_size=3), OUTPUTS),
    max_size=4,
)


@settings(deadline=None)
@given(BOOTS)
def test_whatever_a_server_writes_our_lines_are_exactly_ours(
    starts: list[tuple[bool, list[str], bytes]],
) -> None:
    boots = []
    for number, (probed, journal, output) in enumerate(starts, 1):
        records = [launch(number) if kind == "launch" else refusal(number) for kind in journal]
        boots.append(Boot(number, probe(number) if probed else None, records, output))

    log = parse(io.BytesIO(staged(*boots)))

    assert log.problems == []
    assert log.probes == [boot.probe for boot in boots if boot.probe is not None]
    assert log.launches == [record for boot in boots for record in boot.journal if "code" not in record]
    assert log.refusals == [record for boot in boots for record in boot.journal if "code" in record]
    assert log.claims == sum(output.count(b"runner-e2e sandbox-") for _, _, output in starts)
    assert len(log.outputs) == len(boots)


@settings(deadline=None)
@given(OUTPUTS)
def test_text_that_claims_to_be_ours_is_never_a_pass(output: bytes) -> None:
    expected = "mismatch" if b"runner-e2e sandbox-" in output else "passed"

    assert status_of(one_boot(output)) == expected


@pytest.mark.parametrize("output", [CLAIM, b"x " + CLAIM, b"log: runner-e2e sandbox-launch {}", CLAIM * 3])
def test_a_claim_is_kept_marked_and_counted(output: bytes) -> None:
    content = one_boot(output)

    assert content.endswith(
        output.replace(b"runner-e2e sandbox-", b"runner-e2e[claimed] sandbox-").rstrip() + b"\n"
    )
    assert status_of(content) == "mismatch"
    count = output.count(b"runner-e2e sandbox-")
    assert reasons_of(content) == [f"{count} line(s) of the server's text claim to be the harness's"]


def test_a_claim_in_place_of_a_probe_is_a_mismatch() -> None:
    assert status_of(staged(Boot(1, None, [], CLAIM))) == "mismatch"


@pytest.mark.parametrize(
    ("content", "status"),
    [
        pytest.param(b"", "absent", id="empty"),
        pytest.param(staged(), "absent", id="no-start"),
        pytest.param(staged(Boot(1, None, [], b"listening\n")), "absent", id="no-probe"),
        pytest.param(staged(Boot(1, None, [launch()], b"")), "absent", id="a-launch-without-a-probe"),
        pytest.param(b"a server's plain log\n", "absent", id="plain-log"),
        pytest.param(one_boot(), "passed", id="passed"),
        pytest.param(one_boot(journal=()), "passed", id="no-launch"),
        pytest.param(one_boot(b""), "passed", id="no-output"),
        pytest.param(one_boot(failures=["run:secrets"]), "failed", id="failed-check"),
        pytest.param(one_boot(problem="it hung"), "failed", id="problem"),
        pytest.param(one_boot(checks=[]), "failed", id="no-checks"),
        pytest.param(one_boot(checks=None), "failed", id="checks-null"),
        pytest.param(one_boot(journal=(launch(), refusal())), "failed", id="refused-launch"),
        pytest.param(
            staged(Boot(1, probe(1), [], b""), Boot(2, None, [], b"")), "mismatch", id="second-unprobed"
        ),
        pytest.param(one_boot(journal=(launch(2),)), "mismatch", id="launch-of-another-start"),
        pytest.param(one_boot(journal=(refusal(0),)), "mismatch", id="refusal-of-another-start"),
        pytest.param(staged(Boot(1, probe(2), [], b"")), "mismatch", id="probe-of-another-start"),
        pytest.param(staged(Boot(1, probe(1), [], b""), Boot(1, probe(1), [], b"")), "mismatch", id="twice"),
        pytest.param(one_boot(boot="1"), "mismatch", id="start-as-text"),
        pytest.param(one_boot(boot=[1]), "mismatch", id="start-as-list"),
        pytest.param(one_boot(journal=({**launch(), "boot": {}},)), "mismatch", id="launch-start-as-object"),
    ],
)
def test_only_a_whole_and_successful_probe_is_a_pass(content: bytes, status: str) -> None:
    assert status_of(content) == status
    assert bool(reasons_of(content)) is (status != "passed")


def line(kind: str, record: Record) -> bytes:
    return b"runner-e2e " + kind.encode() + b" " + json.dumps(record).encode() + b"\n"


EMPTY_SHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({}, "passed"),
        ({"boot": "1"}, "mismatch"),
        ({"boot": None}, "mismatch"),
        ({"bytes": -1}, "mismatch"),
        ({"bytes": None}, "mismatch"),
        ({"bytes": 1}, "mismatch"),
        ({"bytes": 1.0}, "mismatch"),
        ({"sha256": None}, "mismatch"),
        ({"claims": 1}, "mismatch"),
        ({"claims": None}, "mismatch"),
        ({"claims": "0"}, "mismatch"),
    ],
)
def test_the_head_of_an_output_is_taken_at_its_word_only_where_it_is_right(
    fields: Record, status: str
) -> None:
    head: Record = {
        "schema": "runner-e2e.server-output/v1",
        "boot": 1,
        "bytes": 0,
        "sha256": EMPTY_SHA256,
        "claims": 0,
    }
    boot = fields.get("boot", 1)

    assert status_of(line("sandbox-probe", probe(boot)) + line("server-output", head | fields)) == status


def test_a_claim_outside_of_any_output_is_counted() -> None:
    content = one_boot() + b"x runner-e2e sandbox-probe y runner-e2e sandbox-launch\n"

    assert parse_bytes(content).claims == 2


def test_several_starts_pass_only_together() -> None:
    good = [Boot(number, probe(number), [launch(number)], b"x\n") for number in (1, 2, 3)]
    bad = Boot(2, probe(2, failures=["run:secrets"]), [], b"")

    assert status_of(staged(*good)) == "passed"
    assert status_of(staged(good[0], bad, good[2])) == "failed"
    assert "checks failed before start 2" in reasons_of(staged(good[0], bad, good[2]))


def test_a_log_that_is_cut_off_is_never_a_pass() -> None:
    """Wherever it ends, except for the newline that only the harness added."""
    for output in (b"line one\nline two\n", b"no newline at the end", b""):
        content = staged(Boot(1, probe(1), [launch(1)], b"first\n"), Boot(2, probe(2), [launch(2)], output))
        cut = content[:-1] if output and not output.endswith(b"\n") else content
        assert status_of(content) == "passed"
        for length in range(len(cut)):
            summary = summarize(parse_bytes(content[:length]))
            whole_starts = content[:length] == staged(Boot(1, probe(1), [launch(1)], b"first\n"))
            assert (summary["status"] == "passed") is whole_starts, length


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_changed_output_is_noticed(data: st.DataObject) -> None:
    output = b"first line\nsecond line\n"
    content = bytearray(one_boot(output))
    position = data.draw(st.integers(len(content) - len(output), len(content) - 1))
    content[position] ^= data.draw(st.integers(1, 255))

    assert status_of(bytes(content)) == "mismatch"


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_lines_of_ours_that_do_not_parse_are_noticed(data: st.DataObject) -> None:
    content = one_boot()
    position = data.draw(st.integers(0, len(content)))
    inserted = data.draw(st.sampled_from([b"x", b"\n", b"\0", b'"', b"runner-e2e ", CLAIM[:30], b"\xff"]))
    changed = content[:position] + inserted + content[position:]

    summary = summarize(parse_bytes(changed))

    # Inside a quoted value a letter may still be a letter of ours; only the manifest can tell.
    log = parse_bytes(changed)
    intact = len(log.probes) == len(log.launches) == len(log.outputs) == 1 and not log.problems
    assert summary["status"] != "passed" or intact


@pytest.mark.parametrize(
    "line",
    [
        b"runner-e2e sandbox-probe {}",
        b"runner-e2e sandbox-probe []",
        b"runner-e2e sandbox-probe {",
        b"runner-e2e sandbox-probe " + b"[" * 100_000,
        b'runner-e2e sandbox-probe {"schema":"runner-e2e.server-output/v1"}',
        b'runner-e2e sandbox-probe {"schema":"runner-e2e.sandbox-launch/v1"}',
        b'runner-e2e sandbox-probe {"schema":"runner-e2e.sandbox-probe/v2"}',
        b'runner-e2e sandbox-prove {"schema":"runner-e2e.sandbox-prove/v1"}',
        b'runner-e2e  sandbox-probe {"schema":"runner-e2e.sandbox-probe/v1"}',
        b' runner-e2e sandbox-probe {"schema":"runner-e2e.sandbox-probe/v1"}',
        b'RUNNER-E2E sandbox-probe {"schema":"runner-e2e.sandbox-probe/v1"}',
        b'runner-e2e server-output {"schema":"runner-e2e.server-output/v1","boot":1}',
        b'runner-e2e server-output {"schema":"runner-e2e.server-output/v1","boot":1,"bytes":-1,"claims":0}',
        b'runner-e2e server-output {"schema":"runner-e2e.server-output/v1","boot":1,"bytes":1e9,"claims":0}',
        b"text",
    ],
)
def test_a_line_of_another_form_is_a_problem(line: bytes) -> None:
    log = parse_bytes(line + b"\n")

    assert log.problems
    assert not log.probes
    assert status_of(one_boot() + line + b"\n") == "mismatch"


@settings(deadline=None)
@given(st.one_of(st.binary(), st.lists(st.sampled_from([*PREFIXES, one_boot(), b"{}\n"])).map(b"".join)))
def test_any_bytes_have_a_verdict(content: bytes) -> None:
    log = parse_bytes(content)

    assert isinstance(log, ServerLog)
    assert summarize(log)["status"] in ("passed", "failed", "absent", "mismatch")
    json.dumps(summarize(log))


def test_a_summary_has_the_fields_of_its_schema() -> None:
    content = staged(
        Boot(1, probe(1), [launch(1)], b""),
        Boot(
            2,
            probe(2, abi=9, failures=["run:secrets"], checks=[check(observed="allowed")]),
            [refusal(2)],
            b"",
        ),
    )

    summary = summarize(parse_bytes(content))

    assert summary["schema"] == "runner-e2e.probe-summary/v1"
    assert summary["status"] == "failed"
    assert summary["abi"] == 9
    assert summary["protections"] == PROTECTIONS
    assert summary["checks"] == [{"boot": 1, **check()}, {"boot": 2, **check(observed="allowed")}]
    assert summary["failures"] == [{"boot": 2, "id": "run:secrets"}]
    assert summary["launches"] == [launch(1)]
    assert summary["refusals"] == [refusal(2)]
    assert summary["reasons"] == ["checks failed before start 2", "a launch was refused: usage"]


def test_known_secrets_are_replaced_before_anything_is_measured() -> None:
    output = b'token s3cret-value and "s3cret-value"\n'

    content = staged(Boot(1, probe(), [], output), secrets=("s3cret-value",))

    assert b"s3cret-value" not in content
    assert content.endswith(b'token [redacted] and "[redacted]"\n')
    assert status_of(content) == "passed"


def test_redaction_cannot_make_a_claim_of_the_rest() -> None:
    """What is left when a secret goes is looked at again."""
    content = staged(Boot(1, probe(), [], b"runner-e2e sandbox-probe {}"), secrets=("other-secret",))

    assert status_of(content) == "mismatch"
