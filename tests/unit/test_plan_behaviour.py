"""What the target's behaviour says about the selected-id variable."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from e2e.programs import target_harness
from e2e.programs.target_harness import CELLS, VARIABLE
from runner_e2e.errors import CancelledError, CleanupError, InputError, TransientInfrastructureError
from runner_e2e.plan.behaviour import Probe, probe_transport

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from runner_e2e.plan.listing import Run

TWO = CELLS[0], CELLS[3]
NONE = b'{"include":[],"needsDaytona":false,"executionIds":[]}'


def build_answer(*cells: target_harness.Cell) -> bytes:
    return json.dumps(
        {
            "include": [cell.row for cell in cells],
            "needsDaytona": any(cell.environment == "daytona" for cell in cells),
            "executionIds": [cell.id for cell in cells],
        }
    ).encode()


def answering(first: bytes | Exception, second: bytes | Exception) -> Run:
    """Return a target that answers so without the variable, and so with it."""

    def run(argv: Sequence[str], variables: Mapping[str, str]) -> bytes:
        assert list(argv) == ["--matrix-json"]
        chosen = second if VARIABLE in variables else first
        if isinstance(chosen, Exception):
            raise chosen
        return chosen

    return run


@pytest.mark.parametrize(
    ("first", "second", "result", "reason"),
    [
        pytest.param(build_answer(*TWO), build_answer(TWO[0]), "supported", "exactly the cell", id="one-row"),
        pytest.param(build_answer(*TWO), build_answer(*TWO), "unsupported", "more cells", id="all-rows"),
        pytest.param(
            build_answer(*CELLS[:3]), build_answer(*TWO), "unsupported", "more cells", id="several-rows"
        ),
        pytest.param(
            build_answer(*TWO), build_answer(TWO[1]), "unknown", "does not list the", id="other-row"
        ),
        pytest.param(build_answer(*TWO), NONE, "unknown", "does not list the cell", id="no-row"),
        pytest.param(build_answer(*TWO), b"> noise", "unknown", "when the variable is set", id="no-json"),
        pytest.param(
            build_answer(*TWO), InputError("x", "y"), "unknown", "when the variable is set", id="error"
        ),
        pytest.param(
            build_answer(*TWO),
            TransientInfrastructureError("x", "y"),
            "unknown",
            "when the variable is set",
            id="timeout",
        ),
        pytest.param(build_answer(TWO[0]), build_answer(TWO[0]), "unknown", "fewer than two", id="one-cell"),
        pytest.param(NONE, NONE, "unknown", "fewer than two", id="no-cell"),
        pytest.param(b"", NONE, "unknown", "does not list its cells", id="nothing-at-first"),
        pytest.param(InputError("x", "y"), NONE, "unknown", "does not list its cells", id="error-at-first"),
    ],
)
def test_only_exactly_the_named_row_proves_that_the_variable_is_read(
    first: bytes | Exception, second: bytes | Exception, result: str, reason: str
) -> None:
    probe = probe_transport(answering(first, second))

    assert probe.result == result
    assert reason in probe.reason
    assert not any(cell.id in probe.reason for cell in CELLS)


@pytest.mark.parametrize(
    ("old", "result"),
    [pytest.param(False, "supported", id="new"), pytest.param(True, "unsupported", id="old")],
)
def test_a_harness_by_the_published_rules_is_told_from_an_older_one(result: str, *, old: bool) -> None:
    def run(argv: Sequence[str], variables: Mapping[str, str]) -> bytes:
        return target_harness.answer(argv, variables, old=old).encode()

    assert probe_transport(run).result == result


@pytest.mark.parametrize("error", [CancelledError(15), CleanupError("left", "end them")])
def test_a_stop_and_what_was_left_behind_are_no_answer(error: CancelledError | CleanupError) -> None:
    with pytest.raises(type(error)):
        probe_transport(answering(build_answer(*TWO), error))


def test_a_target_that_cannot_be_listed_is_asked_once() -> None:
    calls: list[Mapping[str, str]] = []

    def run(_argv: Sequence[str], variables: Mapping[str, str]) -> bytes:
        calls.append(variables)
        return b"not JSON"

    assert probe_transport(run) == Probe("unknown", "the target does not list its cells")
    assert calls == [{}]
