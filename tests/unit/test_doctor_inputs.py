"""The inputs of `doctor`: those of a cell's isolation, and what GitHub is asked with."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner_e2e.actions.doctor_inputs import parse_doctor
from runner_e2e.cell.request import Preset
from runner_e2e.errors import InputError

TOKEN = "ghs_a-token"


def test_without_inputs_the_reference_is_examined_strictly_and_nobody_is_asked() -> None:
    parsed = parse_doctor({"command": "doctor"}, {})

    assert (parsed.request.harness, parsed.request.minimum_abi) == ("reference", 6)
    assert parsed.request.preset is Preset.STRICT
    assert parsed.token is None
    assert parsed.environment == "runner-e2e-paid"


def test_every_input_reaches_the_examination() -> None:
    parsed = parse_doctor(
        {
            "harness": "built-in",
            "min-abi": "4",
            "sandbox-preset": "compatible",
            "service-user": "cells",
            "target-path": "target",
            "github-token": TOKEN,
            "protected-environment": "Paid / cells",
        },
        {"HOME": "/home/x", "INPUT_GITHUB_TOKEN": TOKEN},
    )

    request = parsed.request
    assert (request.harness, request.minimum_abi, request.preset) == ("built-in", 4, Preset.COMPATIBLE)
    assert (request.service_user, request.target) == ("cells", Path("target"))
    assert (parsed.token, parsed.environment) == (TOKEN, "Paid / cells")
    assert request.environ == {"HOME": "/home/x"}
    assert TOKEN not in repr(parsed)


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        pytest.param({"command": "plan"}, "not doctor", id="another-command"),
        pytest.param({"credential": "a-secret"}, "no use for: credential", id="credential"),
        pytest.param({"row": "{}"}, "no use for: row", id="row"),
        pytest.param({"min-abi": "4"}, "strict protection needs 6", id="strict-on-an-old-kernel"),
        pytest.param({"min-abi": "2"}, "min-abi", id="unusable-abi"),
        pytest.param({"harness": "pnpm"}, "harness", id="harness"),
        pytest.param({"protected-environment": "x"}, "no github-token", id="nobody-to-ask"),
        pytest.param({"protected-environment": "a\nb", "github-token": TOKEN}, "control", id="two-lines"),
    ],
)
def test_what_cannot_be_used_is_refused(inputs: dict[str, str], words: str) -> None:
    with pytest.raises(InputError, match=words) as refused:
        parse_doctor(inputs, {})

    assert "a-secret" not in str(refused.value)
