"""The paid templates as people copy them, run by `act` over a target of this machine."""

import subprocess
from pathlib import Path

import pytest

from action.act import commit, git
from action.paid_template import (
    CREDENTIAL,
    TOKEN,
    Stage,
    find_jobs,
    find_uploads,
    holds,
    perform_template,
    read_json,
    set_stage,
)
from action.workflow_rules import FULL, PRIVATE
from e2e.target_checkout import catalog
from runner_e2e.plan.keys import build_key
from unit.authorized_run import OTHER_ID

pytestmark = pytest.mark.action

NATIVE, LEGACY = "core.native.local.first-task", "core.legacy.local.first-task"
KEY_SECRET = "0123456789abcdef0123456789abcdef"
APP_KEY = "the-key-of-the-app"


@pytest.fixture
def stage(clone: Path, place: Path, environment: Path) -> Stage:
    """The project and a target."""
    return set_stage(clone, place, environment)


def test_the_full_stack_template_runs_a_targets_cells_and_reports(stage: Stage) -> None:
    selected = {"suite": "core", "case": "first-task", "environment": "local"}

    done = perform_template(
        stage, FULL, {"target_branch": "", "all": "true", **selected}, cells=[NATIVE, LEGACY]
    )

    assert done.exit_code == 0, done.log
    assert find_jobs(done) == {"authorize", "target_lock", "plan", "bundle", "cells", "report"}
    assert find_uploads(done) == {
        "runner-e2e-plan-1-1",
        "runner-e2e-report-1-1",
        "runner-e2e-target-pnpm-lock-1-1",
        f"runner-e2e-build-{stage.target.sha}-1-1",
        f"runner-e2e-1-1-{NATIVE}",
        f"runner-e2e-1-1-{LEGACY}",
    }
    native, legacy = (read_json(done, f"runner-e2e-1-1-{name}/cell.json") for name in (NATIVE, LEGACY))
    assert (native["status"], native["sandbox"], native["transport"]) == ("passed", "enforced", "env")
    assert (legacy["status"], legacy["sandbox"], legacy["transport"]) == ("passed", "not-applicable", "env")
    assert {native["targetSha"], legacy["targetSha"]} == {stage.target.sha}
    results = read_json(done, "runner-e2e-report-1-1/results.json")
    assert results["verdict"]["exitCode"] == 0
    assert {cell["name"] for cell in results["cells"]} == {NATIVE, LEGACY}
    assert holds(done, CREDENTIAL) == holds(done, TOKEN) == []
    assert holds(done, NATIVE) != []  # what the private template must not show


def test_a_private_case_runs_and_nothing_that_people_see_names_it(stage: Stage) -> None:
    key = build_key(KEY_SECRET, NATIVE)
    cases = stage.repositories / "octo-org" / "cases"
    cases.mkdir()
    catalog(stage.target).rename(cases / "private.yaml")
    git(cases, "init", "--quiet", "--initial-branch=main")
    commit(cases)
    sha = subprocess.run(
        ["git", "-c", "safe.directory=*", "rev-parse", "HEAD"],
        cwd=cases,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()

    done = perform_template(
        stage,
        PRIVATE,
        {
            "catalog_sha": sha,
            "keys": key,
            "target_branch": "",
            "profile": "",
            "group": "",
            "max_infrastructure_retries": "3",
        },
        variables={
            "RUNNER_E2E_CATALOG_APP_CLIENT_ID": "Iv1.test",
            "RUNNER_E2E_CATALOG_FILE": "private.yaml",
            "RUNNER_E2E_CATALOG_REPOSITORY": "cases",
        },
        secrets={"RUNNER_E2E_CATALOG_APP_KEY": APP_KEY, "RUNNER_E2E_KEY_SECRET": KEY_SECRET},
        cells=[key],
    )

    assert done.exit_code == 0, done.log
    assert find_jobs(done) == {"authorize", "target", "plan", "cells", "report"}
    bundle = f"runner-e2e-target-{stage.target.sha}-1-1"
    assert find_uploads(done) == {
        "runner-e2e-plan-1-1",
        "runner-e2e-report-1-1",
        bundle,
        f"runner-e2e-1-1-{key}",
    }
    cell = read_json(done, f"runner-e2e-1-1-{key}/cell.json")
    assert (cell["status"], cell["sandbox"], cell["transport"]) == ("passed", "enforced", "env")
    results = read_json(done, "runner-e2e-report-1-1/results.json")
    assert [cell["name"] for cell in results["cells"]] == [key]
    assert results["verdict"]["exitCode"] == 0
    for secret in (CREDENTIAL, TOKEN, APP_KEY, KEY_SECRET, "ghs_token-of-the-app", NATIVE, "first-task"):
        assert holds(done, secret) == []


def test_who_is_not_allowed_gets_no_further_than_the_gate(stage: Stage) -> None:
    done = perform_template(stage, FULL, {"all": "true"}, allowed=[OTHER_ID])

    assert done.exit_code != 0
    assert find_jobs(done) == {"authorize"}
    assert find_uploads(done) == set()
    assert "allowed-actor-ids" in "".join(done.annotations)
