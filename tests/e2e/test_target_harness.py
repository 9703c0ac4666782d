"""The target that command cells are tested on, by itself: it does what the product's own harness does."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from e2e.target.cells import CELLS, VARIABLE
from e2e.target_checkout import CAMPAIGN, HARNESS, Variant, catalog, find_cell, write_mischief
from e2e.target_job import CREDENTIAL, DAYTONA, LEGACY, NATIVE, PACKAGED, Job, files_below, job_on
from runner_e2e.evidence.server_log import parse_bytes, summarize
from runner_e2e.plan.catalog import read_catalog
from runner_e2e.plan.marker import scan
from runner_e2e.plan.target_matrix import parse_matrix

if TYPE_CHECKING:
    from collections.abc import Iterator

    from e2e.checkout import Checkout


@pytest.fixture
def job() -> Iterator[Job]:
    with job_on() as made:
        yield made


# What it lists


@pytest.mark.parametrize(
    ("variant", "result"),
    [
        pytest.param("modern", "supported", id="modern"),
        pytest.param("own-sandbox", "supported", id="own-sandbox"),
        pytest.param("old", "unsupported", id="old"),
    ],
)
def test_its_sources_say_whether_it_reads_the_variable(variant: Variant, result: str) -> None:
    with job_on(variant=variant) as job:
        directory = job.target.path / HARNESS

        found = scan((directory / "selectors.ts").read_bytes(), (directory / "launch.ts").read_bytes())

    assert found.result == result


def test_a_catalog_of_it_has_the_cells_that_it_lists(job: Job) -> None:
    listed = parse_matrix(job.ask("--matrix-json", "--all").stdout.encode())
    manual = parse_matrix(job.ask("--matrix-json", "--suite", "extended-harnesses").stdout.encode())

    described = {cell.id for cell in read_catalog(catalog(job.target)).executions}

    assert described == {*listed.execution_ids, *manual.execution_ids} == {cell.id for cell in CELLS}
    assert not listed.notes


def test_a_list_is_a_table_of_every_cell(job: Job) -> None:
    header, *rows = job.ask("--", "--list").stdout.splitlines()

    assert header == "ID\tSUITE\tGENERATION\tPROVIDER\tMODEL\tCREDENTIALS"
    assert [row.split("\t")[0] for row in rows] == [cell.id for cell in CELLS]


def test_the_variable_selects_one_cell(job: Job) -> None:
    listed = parse_matrix(job.ask("--matrix-json", **{VARIABLE: f" {DAYTONA} "}).stdout.encode())

    assert listed.execution_ids == (DAYTONA,)


def test_an_old_target_takes_no_notice_of_the_variable() -> None:
    with job_on(variant="old") as job:
        refused = job.run()
        listed = parse_matrix(job.ask("--matrix-json", "--id", NATIVE).stdout.encode())

    assert (refused.status, refused.stdout) == (1, "")
    assert "billable runs need" in refused.stderr
    assert listed.execution_ids == (NATIVE,)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        pytest.param(["--all", "--max-automatic-retries", "2"], "must be 0 or 1", id="retries"),
        pytest.param(["--id", "core.native.local.none"], "unknown id", id="unknown-cell"),
        pytest.param(["--id", NATIVE, "--all"], "exclusive", id="id-with-all"),
        pytest.param(["--id", DAYTONA], "missing: OPENROUTER_API_KEY, DAYTONA_API_KEY", id="no-credential"),
    ],
)
def test_it_refuses_words_and_jobs_that_cannot_be(job: Job, words: list[str], problem: str) -> None:
    refused = job.ask(*words)

    assert (refused.status, refused.stdout) == (1, "")
    assert problem in refused.stderr
    assert not job.target.results.exists()


# What it runs


def test_a_native_cell_passes_and_is_packaged(checkout: Checkout) -> None:
    """As the present user, and as an ordinary one."""
    with job_on(checkout) as job:
        ended = job.run()

        assert ended.status == 0, ended
        (attempt,) = job.target.attempts()
        assert attempt == job.target.results / "c-0123456789abcdef/core/native/local/first-task/attempt-1"
        assert files_below(attempt) == PACKAGED
        result = job.result()
        assert (result["status"], result["cleanup"]) == ("passed", "passed")
        assert (result["executionId"], result["source"]["sha"]) == (NATIVE, job.target.sha)
        assert len(result["runIds"]) == 1
        assert all(row["passed"] for row in result["matcherResults"])
        assert b"run " in (attempt / "server.log").read_bytes()
        assert list(job.temporary.iterdir()) == []
        assert CREDENTIAL not in ended.stdout + ended.stderr
        for name in PACKAGED:
            assert CREDENTIAL.encode() not in (attempt / name).read_bytes()


@pytest.mark.parametrize("cell", [cell.id for cell in CELLS if cell.id != NATIVE])
def test_every_other_cell_passes_too(job: Job, cell: str) -> None:
    ended = job.run(cell)

    assert ended.status == 0, ended
    assert len(job.result()["runIds"]) == find_cell(cell).agents


def test_its_server_gets_neither_a_credential_nor_the_cell(job: Job) -> None:
    shown = job.desk / "server.json"

    job.run(NATIVE, {"show_server_environment": str(shown)})

    server = json.loads(shown.read_text())["environment"]
    assert server["PAPERCLIP_RUNNER_BINARY"] == str(job.target.runner)
    assert not {"OPENROUTER_API_KEY", VARIABLE, CAMPAIGN, "TARGET_MISCHIEF"} & server.keys()
    assert not any(word in value for value in server.values() for word in (CREDENTIAL, NATIVE))


def test_a_remote_cell_and_a_legacy_one_leave_the_local_runner_alone(job: Job) -> None:
    """What would be the wrapper is not started, so nothing of it can be needed."""
    for cell in (DAYTONA, LEGACY):
        assert job.run(cell, PAPERCLIP_RUNNER_BINARY="/bin/false", **{CAMPAIGN: cell}).status == 0
    assert job.run(NATIVE, PAPERCLIP_RUNNER_BINARY="/bin/false").status == 1  # control


def test_an_agent_tries_the_places_that_it_is_given(job: Job) -> None:
    leads = [
        {"id": "base:secrets", "how": "list", "target": "{instance}/secrets"},
        {"id": "base:environ", "how": "environ", "target": "{harness}"},
    ]

    job.run(NATIVE, {"leads": leads})

    (attempt,) = job.target.attempts()
    state = json.loads((attempt / "snapshots/api-state.json").read_text())
    (comment,) = state["issues"][0]["comments"]
    assert all(lead["id"] in comment for lead in leads)
    assert "master.key" in comment  # nothing hides it here


@pytest.mark.parametrize(("retries", "attempts"), [("0", 1), ("1", 2)])
def test_it_tries_again_unless_it_is_told_not_to(job: Job, retries: str, attempts: int) -> None:
    failure = {"error": "ECONNRESET", "failureClass": "transient_infrastructure"}
    environ = write_mischief(job.desk / "mischief.json", {"failure": failure})
    words = [*job.target.words, "--max-automatic-retries", retries]

    ended = job.checkout.run(words, job.target.path, job.environment(NATIVE, environ))

    assert ended.status == 1
    assert [path.name for path in job.target.attempts()] == [f"attempt-{n + 1}" for n in range(attempts)]


def test_a_target_with_a_sandbox_of_its_own_says_so_before_any_launch() -> None:
    with job_on(variant="own-sandbox") as job:
        assert (job.target.path / HARNESS / "agent-filesystem-sandbox.ts").is_file()
        assert job.run().status == 0
        (attempt,) = job.target.attempts()

        summary = summarize(parse_bytes((attempt / "server.log").read_bytes()))

    assert summary["status"] == "passed"
