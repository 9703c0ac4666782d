"""Resolve the target: the action's command `resolve`, and by hand."""

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "lib"))

from runner_e2e.actions.packages import require_packages

require_packages("resolve_target.py")

from runner_e2e.actions.command_files import unchanged_files
from runner_e2e.actions.entry import run_entry, start
from runner_e2e.actions.github_client import GitHubClient
from runner_e2e.actions.inputs import read_inputs
from runner_e2e.actions.plan_inputs import ResolveInputs, TargetCommand, parse_resolve
from runner_e2e.actions.surface import ActionSurface
from runner_e2e.actions.target_publication import publish_target
from runner_e2e.errors import InputError
from runner_e2e.plan.behaviour import probe_transport
from runner_e2e.plan.listing import split_command
from runner_e2e.plan.listing_process import build_run
from runner_e2e.plan.local_objects import open_checkout
from runner_e2e.plan.selection import take_selected_id
from runner_e2e.plan.target import Home, Probe, Target, TargetRequest, resolve_target
from runner_e2e.plan.transport import Support

DEFAULT_API = "https://api.github.com"
HELP = """\
usage: resolve_target.py

Finds the commit of a branch, how the target's harness learns its cell, and who isolates agents. Inputs are
those of action.yml, as variables: INPUT_TARGET_BRANCH, INPUT_TARGET_PATH, INPUT_GITHUB_TOKEN ...
With INPUT_TARGET_PATH the files come from that checkout instead of the API; with INPUT_HARNESS=command
as well, the target's harness is asked too, so use it in a job without credentials.

Exit status: 0 resolved, 2 refused, 3 the API could not be asked.
"""


def main(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """Resolve the target that the environment names; return the exit status."""
    surface = ActionSurface(environ, sys.stdout)
    return run_entry("resolve_target.py", HELP, argv, surface, lambda: _resolve(environ, surface))


def _resolve(environ: Mapping[str, str], surface: ActionSurface) -> None:
    _, rest = take_selected_id(environ)
    inputs = parse_resolve(read_inputs(rest))
    if inputs.token is not None:
        surface.mask(inputs.token)
    publish_target(surface, _find_target(inputs, rest, surface))


def _find_target(inputs: ResolveInputs, environ: Mapping[str, str], surface: ActionSurface) -> Target:
    home = _read_home(environ)
    request = TargetRequest(
        repository=inputs.repository or home.full_name,
        branch=inputs.branch,
        sha=inputs.sha,
        policy=inputs.transport,
        require_hidden_id=inputs.require_hidden_id,
    )
    with ExitStack() as stack:
        client = checkout = None
        if inputs.branch is not None:
            api = environ.get("GITHUB_API_URL") or DEFAULT_API
            surface.line(f"Asking {api} for branch {inputs.branch}")
            client = stack.enter_context(GitHubClient(api, inputs.token))
        if inputs.path is not None:
            checkout = stack.enter_context(open_checkout(inputs.path, os.geteuid()))
        probe = None if inputs.listing is None else _build_probe(inputs.listing, environ)
        return resolve_target(request, home, client, checkout, probe)


def _read_home(environ: Mapping[str, str]) -> Home:
    number = environ.get("GITHUB_REPOSITORY_ID", "")
    if number and not (number.isascii() and number.isdigit() and len(number) < 20):
        raise InputError("GITHUB_REPOSITORY_ID is not a number", "Leave it as the runner sets it")
    return Home(int(number) if number else None, environ.get("GITHUB_REPOSITORY") or None)


def _build_probe(listing: TargetCommand, environ: Mapping[str, str]) -> Probe:
    run = build_run(split_command(listing.command), listing.directory, environ, listing.pass_env)

    def probe() -> Support:
        with unchanged_files(environ):
            return probe_transport(run).result

    return probe


if __name__ == "__main__":
    raise SystemExit(start(main, os.environ))
