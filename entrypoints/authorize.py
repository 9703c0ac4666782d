"""Authorize a run: the action's command `authorize`, and by hand. Standard library only."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "lib"))

from runner_e2e.actions.actor_lookup import Fetch, fetch_once, look_up_id
from runner_e2e.actions.bare import BareSurface
from runner_e2e.actions.entry import run_entry, start
from runner_e2e.actions.event_file import read_event_file
from runner_e2e.errors import InputError
from runner_e2e.plan.authorize import Authorization, authorize
from runner_e2e.plan.run_context import Account, build_context, parse_allowed_actors
from runner_e2e.report.markdown import escape_markdown

HELP = """\
usage: authorize.py

Decides whether this workflow run may start paid cells: a dispatch or schedule of the default
branch, by people whose numeric ids are listed. Needs no installed package and no checkout.

INPUT_ALLOWED_ACTOR_IDS  JSON array of numeric user ids
INPUT_GITHUB_TOKEN       token for one API request, made only for a re-run, and when someone
                         else than the actor started this attempt
The rest are the runner's own variables, GITHUB_*.

Exit status: 0 authorized, 2 refused, 3 the API could not be asked.
"""


def main(argv: Sequence[str], environ: Mapping[str, str], fetch: Fetch = fetch_once) -> int:
    """Decide about the run that the environment describes; return the exit status."""
    surface = BareSurface(environ, sys.stdout)

    def work() -> None:
        text = _describe(_authorize(environ, fetch))
        surface.line(text)
        surface.summary(escape_markdown(text))

    return run_entry("authorize.py", HELP, argv, surface, work)


def _authorize(environ: Mapping[str, str], fetch: Fetch) -> Authorization:
    if environ.get("INPUT_COMMAND", "").strip() not in ("", "authorize"):
        raise InputError("Input command is not authorize", "Start the entrypoint of that command")
    if "GITHUB_EVENT_NAME" not in environ:
        raise InputError(
            "This is no workflow run: the variables of the runner are missing",
            "Use the command authorize in a workflow",
        )
    allowed = parse_allowed_actors(environ.get("INPUT_ALLOWED_ACTOR_IDS", ""))
    api_url = environ.get("GITHUB_API_URL", "")
    token = environ.get("INPUT_GITHUB_TOKEN", "").strip()
    context = build_context(environ, read_event_file(environ.get("GITHUB_EVENT_PATH", "")))
    return authorize(context, allowed, lambda login: look_up_id(login, api_url, token, fetch))


def _describe(authorization: Authorization) -> str:
    def name(account: Account) -> str:
        return f"{account.login} (id {account.id})"

    actor, triggering = authorization.actor, authorization.triggering_actor
    again = "" if triggering == actor else f", started again by {name(triggering)}"
    return f"Authorized: {authorization.event_name} by {name(actor)}{again}."


if __name__ == "__main__":
    raise SystemExit(start(main, os.environ))
