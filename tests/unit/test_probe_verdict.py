"""What observations prove, and what they do not."""

from __future__ import annotations

from errno import EACCES, EIO, ELOOP, ENOENT, ENOTDIR, EPERM, ETIMEDOUT
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner_e2e.probe.checks import CHECKS, TEMPORARY_ROOT_CHECKS, Action, Expected, Layout, checks_for
from runner_e2e.probe.run import ProbeResult, join_results
from runner_e2e.probe.verdict import Access, CheckResult, Observation, classify, judge

if TYPE_CHECKING:
    from collections.abc import Mapping

MARKERS = {check.id: f"marker-{number:032x}".encode() for number, check in enumerate(CHECKS)}
BY_ID = {check.id: check for check in CHECKS}
DENIED = [check.id for check in CHECKS if check.expected is Expected.DENIED]
ALLOWED = [check.id for check in CHECKS if check.expected is Expected.ALLOWED]
RECORDED = [check.id for check in CHECKS if check.expected is Expected.RECORDED]
NO_ACCESS = Observation(EACCES)


def success(check: str) -> Observation:
    return Observation(0, b"before " + MARKERS[check] + b" after")


def outside() -> dict[str, Observation]:
    return {check.id: success(check.id) for check in CHECKS}


def inside() -> dict[str, Observation]:
    return {
        check.id: NO_ACCESS
        if check.expected is Expected.DENIED or check.known == "denied"
        else success(check.id)
        for check in CHECKS
    }


def judged(
    within: Mapping[str, Observation], without: Mapping[str, Observation] | None = None
) -> dict[str, CheckResult]:
    return {result.check.id: result for result in judge(within, without or outside(), MARKERS)}


def failures(
    within: Mapping[str, Observation], without: Mapping[str, Observation] | None = None
) -> list[str]:
    return [name for name, result in judged(within, without).items() if not result.passed]


def test_a_domain_that_holds_passes_every_check() -> None:
    assert failures(inside()) == []
    assert [result.check for result in judge(inside(), outside(), MARKERS)] == list(CHECKS)


def test_the_checks_of_another_layout_are_judged_in_their_order() -> None:
    checks = checks_for(Layout.TEMPORARY_ROOT)
    results = judge(inside(), outside(), MARKERS, checks=checks)

    assert [result.check for result in results] == list(checks)
    assert [result.check for result in results if not result.passed] == list(TEMPORARY_ROOT_CHECKS)


def test_a_launcher_that_does_nothing_fails_every_denied_check_and_no_other() -> None:
    """S-48."""
    assert failures(outside()) == DENIED


@pytest.mark.parametrize("name", DENIED)
@pytest.mark.parametrize("number", [EACCES, EPERM])
def test_permission_denied_is_a_denial(name: str, number: int) -> None:
    result = judged(inside() | {name: Observation(number)})[name]

    assert result.passed
    assert result.observed is Access.DENIED


@pytest.mark.parametrize("name", [check.id for check in CHECKS])
@pytest.mark.parametrize(
    ("observation", "access"),
    [
        pytest.param(None, Access.MISSING, id="missing"),
        pytest.param(Observation(ENOENT), Access.ABSENT, id="absent"),
        pytest.param(Observation(ENOTDIR), Access.ABSENT, id="not-a-directory"),
        pytest.param(Observation(-1), Access.INCONCLUSIVE, id="timeout"),
        pytest.param(Observation(ETIMEDOUT), Access.INCONCLUSIVE, id="timed-out"),
        pytest.param(Observation(EIO), Access.INCONCLUSIVE, id="io"),
        pytest.param(Observation(ELOOP), Access.INCONCLUSIVE, id="loop"),
        pytest.param(Observation(0, b""), Access.INCONCLUSIVE, id="nothing-read"),
        pytest.param(Observation(0, b"marker-"), Access.INCONCLUSIVE, id="something-else-read"),
    ],
)
def test_what_proves_nothing_fails_every_check(
    name: str, observation: Observation | None, access: Access
) -> None:
    within = {key: value for key, value in inside().items() if key != name}
    if observation is not None:
        within[name] = observation

    result = judged(within)[name]

    assert result.observed is access
    assert not result.passed
    assert result.problem is not None
    assert str(access) in result.problem
    assert failures(within) == [name]


@pytest.mark.parametrize("name", [check.id for check in CHECKS])
@pytest.mark.parametrize(
    "control", [None, NO_ACCESS, Observation(ENOENT), Observation(-1), Observation(0, b"something else")]
)
def test_without_a_control_that_succeeds_nothing_is_proven(name: str, control: Observation | None) -> None:
    without = {key: value for key, value in outside().items() if key != name}
    if control is not None:
        without[name] = control

    result = judged(inside(), without)[name]

    assert not result.passed
    assert result.problem is not None
    assert "control" in result.problem
    assert failures(inside(), without) == [name]


@pytest.mark.parametrize("name", ALLOWED)
def test_what_an_agent_needs_must_work(name: str) -> None:
    assert failures(inside() | {name: NO_ACCESS}) == [name]


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_check_passes_with_either_value(name: str) -> None:
    for observation, access in ((NO_ACCESS, Access.DENIED), (success(name), Access.ALLOWED)):
        result = judged(inside() | {name: observation})[name]
        assert result.passed
        assert result.observed is access


@pytest.mark.parametrize("name", DENIED)
@pytest.mark.parametrize("place", ["run:ownScratch", "run:sharedTmp", "run:harnessCmdline"])
def test_a_leak_beats_a_proof(name: str, place: str) -> None:
    """The kernel may have denied it; its marker turned up all the same."""
    within = inside()
    within[place] = Observation(0, within[place].data + MARKERS[name])

    result = judged(within)[name]

    assert result.observed is Access.ALLOWED
    assert failures(within) == [name]


def test_a_leak_counts_in_the_answer_to_a_failed_action() -> None:
    name = DENIED[0]

    assert failures(inside() | {name: Observation(EACCES, MARKERS[name])}) == [name]
    assert failures(inside() | {"unknown": Observation(EACCES, MARKERS[name])}) == [name]


def test_the_shortest_marker_that_counts_has_sixteen_bytes() -> None:
    """As the line of a git store has: `ref: refs/heads/`."""
    for length, passed in ((16, False), (15, True)):
        marker = b"ref: refs/heads/"[:length]
        markers = MARKERS | {"base:gitStore": marker}
        within = inside() | {"run:ownScratch": Observation(0, MARKERS["run:ownScratch"] + marker)}
        results = judge(within, outside() | {"base:gitStore": Observation(0, marker)}, markers)
        assert all(result.passed for result in results) is passed


@pytest.mark.parametrize("name", ALLOWED)
def test_a_marker_elsewhere_does_not_make_up_for_missing_access(name: str) -> None:
    within = inside() | {
        name: NO_ACCESS,
        "run:sharedTmp": Observation(0, MARKERS["run:sharedTmp"] + MARKERS[name]),
    }

    assert failures(within) == [name]


def test_short_markers_do_not_count_as_leaks() -> None:
    """A word such as `delivered` may stand in any output; only random text is unmistakable."""
    markers = MARKERS | {"base:signalHarness": b"delivered"}
    within = inside() | {"run:ownScratch": Observation(0, MARKERS["run:ownScratch"] + b"delivered")}

    results = judge(within, outside() | {"base:signalHarness": Observation(0, b"delivered")}, markers)

    assert all(result.passed for result in results)


def test_without_a_marker_a_success_cannot_be_told() -> None:
    assert classify(Observation(0, b"anything"), b"") is Access.INCONCLUSIVE
    assert classify(Observation(0, b""), b"") is Access.INCONCLUSIVE
    assert not any(result.passed for result in judge(inside(), outside(), {}))


@pytest.mark.parametrize(
    ("protection", "name"), [("scopes", "base:signalHarness"), ("ports", "run:databasePort")]
)
def test_a_protection_that_may_be_missing_makes_its_checks_recorded(protection: str, name: str) -> None:
    dependent = [check.id for check in CHECKS if check.protection == protection]
    assert dependent == [name]
    open_there = inside() | {name: success(name)}

    (strict,) = [r for r in judge(open_there, outside(), MARKERS) if r.check.id == name]
    results = judge(open_there, outside(), MARKERS, frozenset({protection}))
    (lenient,) = [r for r in results if r.check.id == name]

    assert not strict.passed
    assert lenient.passed
    assert lenient.check.expected is Expected.RECORDED
    assert lenient.check.known == "denied"
    assert all(result.passed for result in results)


def test_no_other_protection_excuses_a_check() -> None:
    others = frozenset({"filesystem", "noNewPrivileges", "descriptors", "capabilities", "sockets"})

    results = judge(outside(), outside(), MARKERS, others)

    assert [result.check.id for result in results if not result.passed] == DENIED


def test_the_table_has_every_check_of_the_contract() -> None:
    denied = """
        run:otherDurableSession run:durableSessionListing run:otherRunnerState run:controlPlaneState
        run:otherOpencodeSession run:otherRunLog run:databaseWal run:secrets run:otherProviderTrace
        run:harnessEnviron run:instanceEnvFile run:otherOperationLog run:otherScratch base:harnessTests
        run:otherWorkspace run:otherAgentHome run:sharedAssetsWrite
        base:gitStore base:privateAttempt base:runnerTemp base:dockerSocket base:userBus base:signalHarness
        run:databasePort
    """
    allowed = (
        "run:ownDurableSession run:ownOpencodeSession run:acpxRuntime run:ownProviderTrace run:ownScratch"
        " run:ownWorkspace"
    )
    recorded = "run:harnessCmdline run:sharedTmp run:controlPlaneApi"

    assert len(BY_ID) == len(CHECKS)
    assert set(denied.split()) <= set(DENIED)
    assert set(allowed.split()) <= set(ALLOWED)
    assert set(recorded.split()) <= set(RECORDED)


def test_only_recorded_checks_have_a_known_value() -> None:
    for check in CHECKS:
        assert (check.known is not None) is (check.expected is Expected.RECORDED)
        assert check.known in (None, "allowed", "denied")
    assert all(BY_ID[name].action is Action.WRITE for name in ALLOWED)


OBSERVATIONS = st.builds(
    Observation,
    st.sampled_from([0, 0, 1, 2, 13, 20, 5, -1, 110]),
    st.one_of(st.binary(max_size=4), st.sampled_from(sorted(MARKERS.values()))),
)


@settings(deadline=None)
@given(
    st.dictionaries(st.sampled_from(sorted(MARKERS)), OBSERVATIONS),
    st.dictionaries(st.sampled_from(sorted(MARKERS)), OBSERVATIONS),
)
def test_a_pass_always_has_a_control_and_a_clear_answer(
    within: dict[str, Observation], without: dict[str, Observation]
) -> None:
    text = b"\n".join(observation.data for observation in within.values())
    for result in judge(within, without, MARKERS):
        name = result.check.id
        if not result.passed:
            continue
        assert without[name].errno == 0
        assert MARKERS[name] in without[name].data
        if name in DENIED:
            assert within[name].errno in (1, 13)
            assert MARKERS[name] not in text
        elif name in ALLOWED:
            assert within[name].errno == 0
            assert MARKERS[name] in within[name].data
        else:
            assert within[name].errno in (0, 1, 13)


def test_a_probe_passes_without_failures_and_without_a_problem() -> None:
    good = judge(inside(), outside(), MARKERS)
    bad = judge(outside(), outside(), MARKERS)

    assert ProbeResult(1, good, 7, {}).passed
    assert not ProbeResult(1, bad, 7, {}).passed
    assert not ProbeResult(1, good, 7, {}, "the launch left no line").passed
    assert ProbeResult(1, bad, 7, {}).failures == tuple(DENIED)


def test_a_probe_is_recorded_in_the_format_of_the_contract() -> None:
    within = outside() | {"run:ownScratch": Observation(ENOENT)}
    record = ProbeResult(
        3, judge(within, outside(), MARKERS), 7, {"scopes": {"level": "required", "outcome": "enforced"}}
    ).record()

    assert record["schema"] == "runner-e2e.sandbox-probe/v1"
    assert (record["boot"], record["abi"]) == (3, 7)
    assert record["failures"] == [*DENIED, "run:ownScratch"]
    assert record["protections"] == {"scopes": {"level": "required", "outcome": "enforced"}}
    assert "problem" not in record
    checks = record["checks"]
    assert isinstance(checks, list)
    rows = {row["id"]: row for row in checks}
    assert rows["run:secrets"]["expected"] == "denied"
    assert (rows["run:secrets"]["observed"], rows["run:secrets"]["control"]) == ("allowed", "allowed")
    assert rows["run:ownScratch"]["observed"] == "absent"
    assert rows["run:ownScratch"]["problem"]
    assert rows["run:harnessCmdline"] == {
        "id": "run:harnessCmdline",
        "expected": "recorded",
        "observed": "allowed",
        "control": "allowed",
        "known": "allowed",
    }
    assert ProbeResult(1, (), 0, {}, "it hung").record()["problem"] == "it hung"


def entry(outcome: str) -> dict[str, str]:
    return {"level": "preferred", "outcome": outcome}


@pytest.mark.parametrize("turn", [1, -1], ids=["weaker-last", "weaker-first"])
def test_two_probes_of_a_start_are_as_good_as_the_weaker_one(turn: int) -> None:
    good = judge(inside(), outside(), MARKERS)
    bad = judge(outside(), outside(), MARKERS)
    strong = ProbeResult(2, good, 7, {"scopes": entry("enforced"), "ports": entry("degraded")})
    weak = ProbeResult(2, bad, 6, {"scopes": entry("degraded"), "ports": entry("off")}, "it hung")

    joined = join_results([strong, weak][::turn])

    assert joined.checks == ((good + bad) if turn == 1 else (bad + good))
    assert (joined.boot, joined.abi, joined.problem) == (2, 6, "it hung")
    assert joined.protections == {"scopes": entry("degraded"), "ports": entry("off")}
    assert joined.failures == tuple(DENIED)
    assert not joined.passed


def test_no_probe_of_two_hides_the_problem_of_the_other() -> None:
    good = judge(inside(), outside(), MARKERS)
    one, two = (ProbeResult(1, good, 7, {}, problem) for problem in ("one", "two"))

    assert join_results([one]) == one
    assert join_results([one, two]).problem == "one; two"
    assert join_results([ProbeResult(1, good, 7, {}), two]).problem == "two"
    assert join_results([ProbeResult(1, good, 7, {})] * 2).passed
