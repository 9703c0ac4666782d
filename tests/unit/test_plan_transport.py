"""The decision how an id reaches the harness: every policy against everything that can be known."""

from __future__ import annotations

import json
from itertools import product
from typing import TYPE_CHECKING, get_args

import pytest

from runner_e2e.errors import InputError
from runner_e2e.plan.transport import (
    Decision,
    Policy,
    Scan,
    ScannedFile,
    Support,
    combine,
    decide_transport,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

SUPPORTS: tuple[Support, ...] = get_args(Support)
POLICIES: tuple[Policy, ...] = get_args(Policy)
PROBES: tuple[Support | None, ...] = (*SUPPORTS, None)


def scan(result: Support) -> Scan:
    return Scan(result, "launch-uses-consumer", (ScannedFile("tests/runner-e2e/launch.ts", "a" * 40, 12),))


@pytest.mark.parametrize(
    ("found", "probe", "expected"),
    [
        ("supported", None, "supported"),
        ("supported", "supported", "supported"),
        ("supported", "unsupported", "unknown"),
        ("supported", "unknown", "supported"),
        ("unsupported", None, "unsupported"),
        ("unsupported", "supported", "unknown"),
        ("unsupported", "unsupported", "unsupported"),
        ("unsupported", "unknown", "unsupported"),
        ("unknown", None, "unknown"),
        ("unknown", "supported", "supported"),
        ("unknown", "unsupported", "unsupported"),
        ("unknown", "unknown", "unknown"),
    ],
)
def test_a_contradiction_is_unknown_and_an_unknown_contradicts_nothing(
    found: Support, probe: Support | None, expected: Support
) -> None:
    assert combine(found, probe) == expected


@pytest.mark.parametrize(
    ("policy", "found", "decision", "warnings"),
    [
        ("auto", "supported", "env", 0),
        ("auto", "unsupported", "argv", 1),
        ("auto", "unknown", "argv", 1),
        ("env", "supported", "env", 0),
        ("env", "unsupported", "env", 1),
        ("env", "unknown", "env", 1),
        ("argv", "supported", "argv", 1),
        ("argv", "unsupported", "argv", 0),
        ("argv", "unknown", "argv", 0),
    ],
)
def test_without_a_hidden_id_each_policy_ends_in_a_transport(
    policy: Policy, found: Support, decision: Decision, warnings: int
) -> None:
    transport = decide_transport(policy, require_hidden_id=False, scan=scan(found), probe=None)

    assert (transport.value, len(transport.warnings)) == (decision, warnings)


@pytest.mark.parametrize(
    ("policy", "found", "warnings"),
    [
        ("auto", "supported", 0),
        ("env", "supported", 0),
        ("env", "unsupported", 1),
        ("env", "unknown", 1),
    ],
)
def test_a_required_hidden_id_travels_by_environment(policy: Policy, found: Support, warnings: int) -> None:
    transport = decide_transport(policy, require_hidden_id=True, scan=scan(found), probe=None)

    assert (transport.value, len(transport.warnings)) == ("env", warnings)


@pytest.mark.parametrize(
    ("policy", "found"),
    [
        ("auto", "unsupported"),
        ("auto", "unknown"),
        ("argv", "supported"),
        ("argv", "unsupported"),
        ("argv", "unknown"),
    ],
)
def test_a_required_hidden_id_that_cannot_be_hidden_stops_the_campaign(
    policy: Policy, found: Support
) -> None:
    with pytest.raises(InputError, match="require-hidden-id"):
        decide_transport(policy, require_hidden_id=True, scan=scan(found), probe=None)


def test_a_probe_that_contradicts_the_scan_falls_back_to_the_command_line() -> None:
    transport = decide_transport("auto", require_hidden_id=False, scan=scan("supported"), probe="unsupported")

    assert transport.value == "argv"
    assert "not known" in transport.warnings[0]


def test_a_warning_says_what_follows() -> None:
    fallback = decide_transport("auto", require_hidden_id=False, scan=scan("unsupported"), probe=None)
    forced = decide_transport("env", require_hidden_id=False, scan=scan("unsupported"), probe=None)

    assert "command line" in fallback.warnings[0]
    assert "nothing is spent" in forced.warnings[0]


def everything() -> Iterable[tuple[Policy, bool, Support, Support | None]]:
    return product(POLICIES, (True, False), SUPPORTS, PROBES)


def test_whatever_is_known_a_required_hidden_id_never_travels_by_command_line() -> None:
    decided = 0
    for policy, hidden, found, probe in everything():
        try:
            transport = decide_transport(policy, require_hidden_id=hidden, scan=scan(found), probe=probe)
        except InputError:
            assert hidden
            continue
        decided += 1
        assert transport.value == "env" or not hidden
        assert policy in ("auto", transport.value)
        assert len(transport.warnings) <= 1

    assert decided > 40  # control: most combinations end in a decision


def test_the_evidence_is_one_line_of_json_with_fixed_words_only() -> None:
    transport = decide_transport("auto", require_hidden_id=False, scan=scan("supported"), probe="supported")

    line = json.dumps(transport.evidence, separators=(",", ":"))
    assert "\n" not in line
    assert json.loads(line) == {
        "schema": "runner-e2e.transport-evidence/v1",
        "policy": "auto",
        "scan": "supported",
        "scanReason": "launch-uses-consumer",
        "probe": "supported",
        "files": [{"path": "tests/runner-e2e/launch.ts", "blob": "a" * 40, "bytes": 12}],
        "decision": "env",
    }
