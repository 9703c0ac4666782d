"""The inputs of `doctor`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from runner_e2e.actions.inputs import RawInputs, find_unused, parse_inputs, require_command
from runner_e2e.doctor.request import DoctorRequest
from runner_e2e.errors import InputError

_USED = frozenset(
    {
        "github-token",
        "harness",
        "min-abi",
        "protected-environment",
        "sandbox-preset",
        "service-user",
        "target-path",
    }
)


@dataclass(frozen=True, slots=True)
class DoctorInputs:
    """What `doctor` was asked to do; without a token it asks GitHub nothing."""

    request: DoctorRequest
    environment: str
    token: str | None = field(repr=False)


def parse_doctor(inputs: Mapping[str, str], environ: Mapping[str, str]) -> DoctorInputs:
    """Return what `doctor` needs; `environ` is this process's, for the examination itself."""
    raw = parse_inputs(inputs)
    require_command(raw, "doctor")
    if unused := find_unused(raw, _USED):
        raise InputError(
            f"The command doctor has no use for: {', '.join(unused)}", "Leave them out; it runs no cell"
        )
    token = raw.github_token.get_secret_value() if raw.github_token else None
    if token is None and raw.protected_environment != RawInputs().protected_environment:
        raise InputError(
            "Input protected-environment is given, and no github-token to look it up with",
            "Give github-token: ${{ github.token }} as well",
        )
    return DoctorInputs(
        request=DoctorRequest(
            minimum_abi=raw.min_abi,
            preset=raw.sandbox_preset,
            harness=raw.harness.value,
            target=Path(raw.target_path) if raw.target_path else None,
            service_user=raw.service_user,
            # Inputs are ours: what they hold is no finding about the job.
            environ={name: value for name, value in environ.items() if not name.startswith("INPUT_")},
        ),
        environment=raw.protected_environment,
        token=token,
    )
