"""Examine the runner: the action's command `doctor`, and by hand. `runner-e2e doctor` is for a person."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "lib"))

from runner_e2e.actions.packages import require_packages

require_packages("doctor.py")

from runner_e2e.actions.doctor_inputs import DoctorInputs, parse_doctor
from runner_e2e.actions.doctor_publication import LogProgress, publish_diagnosis
from runner_e2e.actions.entry import run_entry, start
from runner_e2e.actions.github_client import GitHubClient
from runner_e2e.actions.inputs import read_inputs
from runner_e2e.actions.protection_rules import DEADLINE_S, observe_repository
from runner_e2e.actions.surface import ActionSurface
from runner_e2e.doctor.examination import examine
from runner_e2e.doctor.repository import RepositoryFacts

DEFAULT_API = "https://api.github.com"
HELP = """\
usage: doctor.py

Says whether this machine can isolate cells, and what to change where it cannot: real launches try to get
out of their domain. Inputs are those of action.yml, as variables: INPUT_HARNESS, INPUT_MIN_ABI,
INPUT_SANDBOX_PRESET, INPUT_SERVICE_USER, INPUT_TARGET_PATH. With INPUT_GITHUB_TOKEN the API is asked what
protects the environment INPUT_PROTECTED_ENVIRONMENT of GITHUB_REPOSITORY; without it nothing uses a network.

Exit status: 0 cells can run here, 2 refused, 3 they cannot, or nothing can be proven.
"""


def main(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """Examine what the environment describes; return the exit status."""
    surface = ActionSurface(environ, sys.stdout)
    return run_entry("doctor.py", HELP, argv, surface, lambda: _examine(environ, surface))


def _examine(environ: Mapping[str, str], surface: ActionSurface) -> int:
    inputs = parse_doctor(read_inputs(environ), environ)
    if inputs.token is not None:
        surface.mask(inputs.token)
    ask = None if inputs.token is None else lambda: _ask(inputs, environ)
    return publish_diagnosis(surface, examine(inputs.request, LogProgress(surface), ask))


def _ask(inputs: DoctorInputs, environ: Mapping[str, str]) -> RepositoryFacts:
    api = environ.get("GITHUB_API_URL") or DEFAULT_API
    with GitHubClient(api, inputs.token, deadline_s=DEADLINE_S) as client:
        return observe_repository(client, environ, inputs.environment)


if __name__ == "__main__":
    raise SystemExit(start(main, os.environ))
