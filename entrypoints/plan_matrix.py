"""Plan a campaign: the action's command `plan`, and by hand."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "lib"))

from runner_e2e.actions.packages import require_packages

require_packages("plan_matrix.py")

from runner_e2e.actions.artifact import read_run_id
from runner_e2e.actions.command_files import unchanged_files
from runner_e2e.actions.entry import run_entry, start
from runner_e2e.actions.inputs import read_inputs
from runner_e2e.actions.plan_inputs import REFERENCE_CATALOG, PlanInputs, TargetCommand, parse_plan
from runner_e2e.actions.plan_publication import publish_plan, stage_plan, warn_of_daytona, warn_of_names
from runner_e2e.actions.surface import ActionSurface
from runner_e2e.actions.uploads import read_attempt_number, write_files
from runner_e2e.cell.flow import check_local
from runner_e2e.plan.campaign import Campaign, plan_from_catalog
from runner_e2e.plan.catalog import find_catalog, read_catalog
from runner_e2e.plan.keys import hidden_names
from runner_e2e.plan.matrix import choose_max_parallel, plan_outputs
from runner_e2e.plan.plan_file import build_plan_file, dump_plan
from runner_e2e.plan.selection import take_selected_id

HELP = """\
usage: plan_matrix.py [--plan-file PATH]

Selects cells of a catalog and hands on the matrix. Inputs are those of action.yml, as variables:
INPUT_<NAME>, upper case, underscores for hyphens; for example INPUT_ALL=true or INPUT_SUITE=isolation.
One id can also come in PAPERCLIP_RUNNER_E2E_SELECTED_ID, which no process below sees.

On Actions the plan is also staged as a file that is uploaded for the report; by hand, --plan-file writes it
to PATH, where nothing may be yet.

No cell runs and nothing is spent. Exit status: 0 planned, 2 refused, 3 something else went wrong.
"""


def main(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """Plan what the environment asks for; return the exit status."""
    surface = ActionSurface(environ, sys.stdout)
    plan_file, rest = _take_plan_file(argv)
    return run_entry("plan_matrix.py", HELP, rest, surface, lambda: _plan(environ, surface, plan_file))


def _take_plan_file(argv: Sequence[str]) -> tuple[Path | None, Sequence[str]]:
    if len(argv) == 2 and argv[0] == "--plan-file":
        return Path(argv[1]), ()
    return None, argv


def _plan(environ: Mapping[str, str], surface: ActionSurface, plan_file: Path | None) -> None:
    selected, rest = take_selected_id(environ)
    inputs = parse_plan(read_inputs(rest), selected)
    max_parallel = choose_max_parallel(inputs.max_parallel, inputs.max_parallel_limit)
    if inputs.key_secret is not None:
        surface.mask(inputs.key_secret)
        warn_of_names(surface, inputs)
    campaign = _select(inputs, rest)
    outputs = plan_outputs(campaign.jobs, campaign.execution_ids, max_parallel, campaign.keys)
    run, attempt = read_run_id(environ), read_attempt_number(environ)
    document = build_plan_file(campaign, outputs, run=run, attempt=attempt, target_sha=inputs.target_sha)
    if plan_file is not None:
        write_files(plan_file.parent, {plan_file.name: dump_plan(document)})
    if surface.on_actions:
        outputs |= stage_plan(dump_plan(document), inputs.artifact_prefix, run, attempt, environ)
    if inputs.catalog == REFERENCE_CATALOG:
        warn_of_daytona(surface, campaign)
    publish_plan(surface, campaign, outputs)


def _select(inputs: PlanInputs, environ: Mapping[str, str]) -> Campaign:
    secret = inputs.key_secret
    if inputs.listing is None:
        path = find_catalog(inputs.catalog)
        with hidden_names(active=secret is not None):
            catalog = read_catalog(path)
            return plan_from_catalog(
                catalog, inputs.selectors, named_keys=inputs.keys, secret=secret, check=check_local
            )
    return _ask_target(inputs, inputs.listing, environ)


def _ask_target(inputs: PlanInputs, listing: TargetCommand, environ: Mapping[str, str]) -> Campaign:
    # Only a listing needs these, and each costs every plan that reads a file.
    from runner_e2e.plan.listing import split_command  # noqa: PLC0415 - see above
    from runner_e2e.plan.listing_process import build_run  # noqa: PLC0415 - see above
    from runner_e2e.plan.local_objects import open_checkout  # noqa: PLC0415 - see above
    from runner_e2e.plan.target import check_head  # noqa: PLC0415 - see above
    from runner_e2e.plan.target_campaign import plan_from_target  # noqa: PLC0415 - see above

    if inputs.target_sha is not None:
        with open_checkout(listing.directory, os.geteuid()) as checkout:
            check_head(checkout, inputs.target_sha)
    run = build_run(split_command(listing.command), listing.directory, environ, listing.pass_env)
    with unchanged_files(environ), hidden_names(active=inputs.key_secret is not None):
        return plan_from_target(run, inputs.selectors, inputs.transport, secret=inputs.key_secret)


if __name__ == "__main__":
    raise SystemExit(start(main, os.environ))
