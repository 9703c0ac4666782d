"""What the surroundings tell of a campaign, and what they must not."""

from pathlib import Path

import pytest

from artifact_samples import CELL, RUN, plan_cells
from runner_e2e.actions.report_context import build_about, build_run_url, choose_target
from runner_e2e.actions.report_inputs import ReportInputs
from runner_e2e.errors import InputError

ENVIRON = {
    "GITHUB_SERVER_URL": "https://github.com",
    "GITHUB_REPOSITORY": "acme/paperclip",
    "GITHUB_RUN_ID": RUN,
    "GITHUB_RUN_ATTEMPT": "2",
}
SHA, OTHER = "ab" * 20, "cd" * 20
TIME = "2026-11-29T09:10:00.000+00:00"


def test_a_campaign_is_told_by_run_repository_and_target() -> None:
    inputs = ReportInputs(Path("x"), None, None, "refs/heads/main", "nightly", None)

    about = build_about(inputs, plan_cells(CELL, targetSha=SHA), ENVIRON, TIME)

    assert (about.run, about.attempt, about.repository) == (RUN, 2, "acme/paperclip")
    assert about.url == "https://github.com/acme/paperclip/actions/runs/7/attempts/2"
    assert (about.target_sha, about.target_ref) == (SHA, "refs/heads/main")
    assert (about.prefix, about.generated_at) == ("nightly", TIME)


def test_the_first_attempts_page_is_the_runs() -> None:
    assert build_run_url(ENVIRON, RUN, 1) == "https://github.com/acme/paperclip/actions/runs/7"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("GITHUB_SERVER_URL", ""),
        ("GITHUB_SERVER_URL", "http://github.com"),
        ("GITHUB_SERVER_URL", "javascript:alert(1)//"),
        ("GITHUB_SERVER_URL", "https://github.com/x?"),
        ("GITHUB_REPOSITORY", ""),
        ("GITHUB_REPOSITORY", "acme"),
        ("GITHUB_REPOSITORY", "acme/x/../y"),
    ],
)
def test_a_page_that_cannot_be_trusted_is_no_link(name: str, value: str) -> None:
    assert build_run_url({**ENVIRON, name: value}, RUN, 1) is None


def test_outside_of_a_run_there_is_no_page() -> None:
    assert build_run_url(ENVIRON, "local", 1) is None


@pytest.mark.parametrize(
    ("planned", "given", "chosen"), [(SHA, SHA, SHA), (SHA, None, SHA), (None, SHA, SHA), (None, None, None)]
)
def test_the_target_is_the_planned_one_or_the_given_one(
    planned: str | None, given: str | None, chosen: str | None
) -> None:
    assert choose_target(planned, given) == chosen


def test_two_targets_are_refused() -> None:
    with pytest.raises(InputError, match="target-sha"):
        choose_target(SHA, OTHER)
