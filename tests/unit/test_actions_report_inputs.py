"""The inputs of `report`: what they come to, and what is refused."""

from pathlib import Path

import pytest

from runner_e2e.actions.report_inputs import PlannedRows, ReportInputs, parse_report
from runner_e2e.errors import InputError

DIGEST = "0123456789abcdef" * 4
SHA = "ab" * 20
GIVEN = {"command": "report", "artifacts-path": "artifacts", "matrix-sha256": DIGEST, "cell-count": "12"}


def test_all_that_it_reads_is_read() -> None:
    inputs = parse_report(
        {
            **GIVEN,
            "target-sha": SHA,
            "target-ref": "refs/heads/main",
            "github-token": "ghs_secret",
            "artifact-prefix": "nightly",
        },
        on_actions=True,
    )

    assert inputs == ReportInputs(
        Path("artifacts"), PlannedRows(DIGEST, 12), SHA, "refs/heads/main", "nightly", "ghs_secret"
    )
    assert "ghs_secret" not in repr(inputs)


def test_by_hand_the_plans_file_may_be_taken_at_its_word() -> None:
    assert parse_report({"artifacts-path": "x"}, on_actions=False).rows is None


@pytest.mark.parametrize(
    ("changes", "on_actions", "message"),
    [
        pytest.param({"artifacts-path": ""}, True, "artifacts-path", id="no-directory"),
        pytest.param({"matrix-sha256": "", "cell-count": ""}, True, "which cells were planned", id="no-rows"),
        pytest.param({"matrix-sha256": ""}, True, "Only one of", id="no-digest"),
        pytest.param({"cell-count": ""}, False, "Only one of", id="no-count"),
        pytest.param({"matrix-sha256": DIGEST.upper()}, True, "matrix-sha256", id="upper-case"),
        pytest.param({"matrix-sha256": DIGEST[:-1]}, True, "matrix-sha256", id="short"),
        pytest.param({"matrix-sha256": f"{DIGEST}\n1"}, True, "matrix-sha256", id="two-lines"),
        pytest.param({"cell-count": "0"}, True, "cell-count", id="no-cell"),
        pytest.param({"cell-count": "-1"}, True, "cell-count", id="negative"),
        pytest.param({"target-sha": "main"}, True, "target-sha", id="branch"),
        pytest.param({"target-ref": "a\nb"}, True, "target-ref", id="ref-of-two-lines"),
        pytest.param({"suite": "core"}, True, "no use for: suite", id="selector"),
        pytest.param({"credential": "x" * 20}, True, "no use for: credential", id="credential"),
        pytest.param({"command": "plan"}, True, "not report", id="another-command"),
    ],
)
def test_what_cannot_be_used_is_refused(changes: dict[str, str], on_actions: bool, message: str) -> None:
    inputs = {name: value for name, value in {**GIVEN, **changes}.items() if value}

    with pytest.raises(InputError, match=message):
        parse_report(inputs, on_actions=on_actions)
