"""What the surroundings of a step tell of the campaign that it reports: run, target, latest attempts."""

import re
from collections.abc import Collection, Mapping

from runner_e2e.actions.artifact import read_run_id
from runner_e2e.actions.github_client import GitHubClient
from runner_e2e.actions.github_transport import DEFAULT_API_URL
from runner_e2e.actions.latest_attempts import LastJobs, ask_latest
from runner_e2e.actions.report_inputs import ReportInputs
from runner_e2e.actions.uploads import read_attempt_number
from runner_e2e.errors import InputError
from runner_e2e.plan.target import Repository
from runner_e2e.report.merge import CampaignAbout
from runner_e2e.report.planned import Planned

_SERVER_URL = re.compile(r"https://[A-Za-z0-9][A-Za-z0-9.-]{0,252}(?::[0-9]{1,5})?")
_FULL_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}/[A-Za-z0-9._-]{1,100}")
_RUN_ID = re.compile(r"[1-9][0-9]{0,18}")
_REPOSITORY_ID = re.compile(r"[1-9][0-9]{0,18}")


def build_about(
    inputs: ReportInputs, planned: Planned, environ: Mapping[str, str], generated_at: str
) -> CampaignAbout:
    """Return what the report says of the campaign as a whole."""
    run, attempt = read_run_id(environ), read_attempt_number(environ)
    return CampaignAbout(
        run=run,
        attempt=attempt,
        repository=_read_repository(environ),
        url=build_run_url(environ, run, attempt),
        target_sha=planned.target_sha,
        target_ref=inputs.target_ref,
        prefix=inputs.prefix,
        generated_at=generated_at,
    )


def build_run_url(environ: Mapping[str, str], run: str, attempt: int) -> str | None:
    """Return the page of this attempt of the run, None when the surroundings do not tell it."""
    server, repository = environ.get("GITHUB_SERVER_URL", ""), _read_repository(environ)
    if repository is None or not _SERVER_URL.fullmatch(server) or not _RUN_ID.fullmatch(run):
        return None
    page = f"{server}/{repository}/actions/runs/{run}"
    return page if attempt == 1 else f"{page}/attempts/{attempt}"


def choose_target(planned: str | None, given: str | None) -> str | None:
    """Return the commit that every cell has to have run; two that differ are refused."""
    if planned is not None and given is not None and planned != given:
        raise InputError(
            "Input target-sha is not the commit that was planned",
            "Hand on the same output target-sha to plan, to run-cell and to report",
        )
    return planned if given is None else given


def find_latest_attempts(
    token: str | None, environ: Mapping[str, str], run: str, attempt: int, names: Collection[str]
) -> LastJobs | None:
    """Return which attempt counts for each cell, and whose job failed; None where nobody can be asked.

    Attempts after the first need the API: without it, a cell that left nothing this time would pass by what
    it left before. In the first one it tells of a cell that passed by its artifact, and not by its job.
    """
    if token is None and attempt == 1:
        return None
    if token is None:
        raise InputError(
            f"This is attempt {attempt} of the run, and nothing tells which cells ran again in it",
            "Give github-token: ${{ github.token }}, and the job the permission actions: read",
        )
    url = environ.get("GITHUB_API_URL") or DEFAULT_API_URL
    with GitHubClient(url, token) as client:
        return ask_latest(client, _find_repository(client, environ), run, attempt, names)


def _find_repository(client: GitHubClient, environ: Mapping[str, str]) -> Repository:
    name, number = _read_repository(environ), environ.get("GITHUB_REPOSITORY_ID", "")
    if name is None:
        raise InputError("GITHUB_REPOSITORY is not set", "Start the action as a step of a workflow run")
    if _REPOSITORY_ID.fullmatch(number):
        return Repository(int(number), name, default_branch="")  # one request less
    return client.repository(name)


def _read_repository(environ: Mapping[str, str]) -> str | None:
    name = environ.get("GITHUB_REPOSITORY", "")
    return name if _FULL_NAME.fullmatch(name) else None
