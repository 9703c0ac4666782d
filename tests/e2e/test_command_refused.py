"""Cells of a target for which nothing is spent: each refusal comes before the harness's own start."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from action.act import git
from action.test_run_cell import INERT_WRAPPER
from e2e.checkout import PROJECT, Checkout
from e2e.command_cells import KEY_SECRET, Done, Workshop, assert_absent, credential_of, workshop_for
from e2e.target_job import DAYTONA, LEGACY, NATIVE
from runner_e2e.cell.request import CellRequest
from runner_e2e.cell.run import run_cell
from runner_e2e.errors import TransientInfrastructureError
from runner_e2e.plan.catalog import read_catalog
from runner_e2e.plan.keys import build_key
from runner_e2e.plan.matrix import build_jobs, row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager

CODEX = "breadth.codex-native.local.first-task"
RUNNER = "PAPERCLIP_RUNNER_BINARY"


@pytest.fixture(scope="module")
def own() -> Iterator[Workshop]:
    with workshop_for(Checkout(PROJECT, Path(sys.executable))) as made:
        yield made


@pytest.fixture(scope="module")
def ordinary(ordinary_checkout: Checkout) -> Iterator[Workshop]:
    with workshop_for(ordinary_checkout) as made:
        yield made


def run_marked(
    workshop: Workshop,
    cell: str = NATIVE,
    environ: Mapping[str, str | None] | None = None,
    inputs: Mapping[str, str | None] | None = None,
) -> tuple[Done, bool]:
    """Run a cell; tell whether the target's harness was started for it."""
    desk = workshop.desk()
    started = desk.open / "started"
    done = workshop.run(cell, {"append": {str(started): "x"}}, desk=desk, environ=environ, inputs=inputs)
    return done, started.exists()


@contextlib.contextmanager
def keeping_credentials(workshop: Workshop) -> Iterator[None]:
    """As actions/checkout leaves them unless it is told not to."""
    header = "http.https://github.com/.extraheader"
    git(workshop.target.path, "config", "--local", header, "AUTHORIZATION: basic Zm9yZWlnbjp0b2tlbg==")
    yield
    git(workshop.target.path, "config", "--local", "--unset-all", header)


@contextlib.contextmanager
def with_earlier_results(workshop: Workshop) -> Iterator[None]:
    workshop.target.results.mkdir()
    (workshop.target.results / "kept").write_text("of somebody else\n")
    yield
    (workshop.target.results / "kept").unlink()
    workshop.target.results.rmdir()


@contextlib.contextmanager
def with_a_link_for_results(workshop: Workshop) -> Iterator[None]:
    workshop.target.results.symlink_to("/tmp")
    yield
    workshop.target.results.unlink()


@contextlib.contextmanager
def open_to_all(workshop: Workshop) -> Iterator[None]:
    workshop.target.path.chmod(0o777)
    yield
    workshop.target.path.chmod(0o755)


@contextlib.contextmanager
def left_alone(_workshop: Workshop) -> Iterator[None]:
    yield


@dataclass(frozen=True)
class Refusal:
    """Why a cell is refused, and the words that tell of it."""

    word: str
    cell: str = NATIVE
    inputs: Mapping[str, str | None] = field(default_factory=dict)
    environ: Mapping[str, str | None] = field(default_factory=dict)
    state: Callable[[Workshop], AbstractContextManager[None]] = left_alone


REFUSALS = {
    "other-commit": Refusal("commit", inputs={"target_sha": "0" * 40}),
    "git-credentials": Refusal("persist-credentials", state=keeping_credentials),
    "identity": Refusal("id-token", environ={"ACTIONS_ID_TOKEN_REQUEST_URL": "https://id.example/"}),
    "earlier-results": Refusal("results directory exists", state=with_earlier_results),
    "link-for-results": Refusal("results", state=with_a_link_for_results),
    "results-elsewhere": Refusal("results-path", inputs={"results_path": "../elsewhere"}),
    "results-in-the-way": Refusal("results directory exists", inputs={"results_path": "tests"}),
    "open-checkout": Refusal("Other users can change", state=open_to_all),
    "no-runner": Refusal("runnerd", environ={RUNNER: "/var/tmp/no-such-runnerd"}),
    "no-built-runner": Refusal("runnerd", environ={RUNNER: None}),
    "no-program": Refusal("no file that can be executed", environ={RUNNER: "/etc/passwd"}),
    "codex": Refusal("Codex", cell=CODEX),
    "other-credential": Refusal(
        "credential-name",
        inputs={"credential_name": "OPENAI_API_KEY", "credential": credential_of("OPENAI_API_KEY")},
    ),
    "no-credential": Refusal("OPENROUTER_API_KEY", inputs={"credential_name": None, "credential": None}),
    "no-second-credential": Refusal("DAYTONA_API_KEY", cell=DAYTONA, environ={"DAYTONA_API_KEY": None}),
    "credential-for-none": Refusal("belong together", inputs={"credential_name": None}),
    "limit-without-gateway": Refusal("cannot be kept", inputs={"max_requests": "2"}),
    "cost-without-gateway": Refusal("cannot be kept", inputs={"max_cost_usd": "2"}),
    "unknown-cell": Refusal("has no cell", inputs={"id": "core.native.local.none"}),
    "no-cell": Refusal("No cell is named", inputs={"id": None}),
    "passing-a-token": Refusal("GITHUB_TOKEN", inputs={"pass_env": "GITHUB_TOKEN"}),
    "hidden-runner-parent": Refusal("hide", inputs={"hide": "/usr/bin"}),
    "no-command": Refusal("no-such-command", inputs={"harness_command": "/no-such-command"}),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_a_cell_is_refused_before_its_harness_is_started(own: Workshop, name: str) -> None:
    refusal = REFUSALS[name]
    with refusal.state(own):
        done, started = run_marked(own, refusal.cell, refusal.environ, refusal.inputs)

    assert (done.status, started) == (2, False), done.ended
    assert refusal.word in done.log
    assert (done.outputs["status"], done.outputs["failure-class"]) == ("refused", "refused")
    assert "::error" in done.ended.stdout
    if done.desk.records:
        assert done.verdict == (2, "refused", "refused")
    else:
        assert not done.outputs.get("artifact-name")


# The report waits for a record of every row: one that names no cell of the target has one, too.
OF_ROWS = (
    "other-commit",
    "git-credentials",
    "identity",
    "open-checkout",
    "no-credential",
    "other-credential",
    "limit-without-gateway",
    "no-runner",
    "earlier-results",
)


def row_of(workshop: Workshop, name: str = NATIVE) -> dict[str, object]:
    """Return a cell's row, as `plan` makes it."""
    (cell,) = (one for one in read_catalog(workshop.catalog).executions if one.id == name)
    (job,) = build_jobs([cell])
    return row(job)


@pytest.mark.parametrize("name", OF_ROWS)
def test_a_row_that_is_refused_has_a_record_that_says_why(own: Workshop, name: str) -> None:
    refusal = REFUSALS[name]
    with refusal.state(own):
        done, started = run_marked(
            own,
            environ=refusal.environ,
            inputs={**refusal.inputs, "id": None, "row": json.dumps(row_of(own))},
        )

    assert (done.verdict, started) == ((2, "refused", "refused"), False), done.ended
    assert refusal.word in done.cell["message"]
    assert (done.cell["id"], done.cell["harness"]) == (NATIVE, "command")
    assert done.outputs["artifact-name"] == f"runner-e2e-17-1-{NATIVE}"
    (attempt,) = done.cell["attempts"]
    assert attempt["status"] == "refused"


@pytest.mark.parametrize("changed", [{"executionId": "core.native.local.none"}, {"timeoutMinutes": 1}])
def test_a_row_that_is_not_the_catalogs_has_a_record_too(own: Workshop, changed: dict[str, object]) -> None:
    given = {**row_of(own), **changed}

    done, started = run_marked(own, inputs={"id": None, "row": json.dumps(given)})

    assert (done.verdict, started) == ((2, "refused", "refused"), False), done.ended
    assert done.cell["id"] == given["executionId"]


@pytest.mark.parametrize("secret", [KEY_SECRET, KEY_SECRET[::-1]], ids=["its-secret", "another-secret"])
def test_a_row_behind_a_key_that_is_refused_names_nothing_but_the_key(own: Workshop, secret: str) -> None:
    key = build_key(KEY_SECRET, NATIVE)
    said = {name: value for name, value in row_of(own).items() if name == "timeoutMinutes"}
    inputs = {
        "id": None,
        "row": json.dumps({**said, "key": key}),
        "key_secret": secret,
        "target_sha": "0" * 40,
    }

    done, started = run_marked(own, inputs=inputs)

    assert (done.verdict, started) == ((2, "refused", "refused"), False), done.ended
    assert (done.cell["key"], done.outputs["artifact-name"]) == (key, f"runner-e2e-17-1-{key}")
    assert "id" not in done.cell
    assert_absent(done, NATIVE, "first-task", "side-by-side")


def test_a_target_that_cannot_be_asked_for_a_row_is_asked_once(own: Workshop) -> None:
    inputs = {"id": None, "row": json.dumps(row_of(own)), "catalog": None, "harness_command": "/bin/false"}

    done, started = run_marked(own, inputs=inputs)

    assert not started
    assert done.outputs["artifact-name"] == f"runner-e2e-17-1-{NATIVE}"
    (attempt,) = done.cell["attempts"]
    assert attempt["retry"] == "A refused is not retried."


def test_what_could_not_be_planned_for_a_moment_is_not_tried_with_the_same_answer(tmp_path: Path) -> None:
    away = TransientInfrastructureError("The target could not be asked", "Run the job again")
    base = CellRequest(evidence_parent=tmp_path, infrastructure_retries=3, environ={})

    outcome = run_cell(base.for_unplanned(NATIVE, "command", away, None))

    assert (outcome.exit_code, outcome.failure_class) == (3, away.failure_class)
    (attempt,) = json.loads((tmp_path / NATIVE / "cell.json").read_text())["attempts"]
    assert attempt["retry"] == "Nothing of the cell was run."


def test_without_any_reason_the_same_cell_starts_its_harness(own: Workshop) -> None:
    done, started = run_marked(own, LEGACY)

    assert (done.status, started) == (0, True), done.ended


def test_a_runner_beneath_a_hidden_path_is_refused(own: Workshop) -> None:
    done, started = run_marked(own, inputs={"hide": str(own.target.runner.parent)})

    assert (done.status, started) == (2, False), done.ended
    assert "is hidden" in done.log


@pytest.mark.skipif(os.geteuid() != 0, reason="the present user is an ordinary one")
def test_root_is_refused_unless_it_is_allowed(own: Workshop) -> None:
    done, started = run_marked(own, inputs={"allow_root": "false"})

    assert (done.status, started) == (2, False), done.ended
    assert "allow-root" in done.log


def test_an_ordinary_user_needs_no_permission(ordinary: Workshop) -> None:
    done, started = run_marked(ordinary, LEGACY, inputs={"allow_root": "false"})

    assert (done.status, started) == (0, True), done.ended


def test_a_checkout_of_another_user_is_refused(ordinary: Workshop) -> None:
    uid = ordinary.checkout.uid
    assert uid is not None
    os.chown(ordinary.target.path, uid + 1, -1)
    try:
        done, started = run_marked(ordinary)
    finally:
        os.chown(ordinary.target.path, uid, -1)

    assert (done.status, started) == (2, False), done.ended
    assert "another user" in done.log


def test_a_probe_that_fails_stops_the_cell_before_its_harness(own: Workshop, editable: Checkout) -> None:
    wrapper = editable.project / "entrypoints" / "sandboxed_runnerd.py"
    original = wrapper.read_text(encoding="utf-8")
    wrapper.write_text(INERT_WRAPPER, encoding="utf-8")
    inert = Workshop(own.target, editable, own.place, own.catalog, own.jobs)
    try:
        done, started = run_marked(inert)
    finally:
        wrapper.write_text(original, encoding="utf-8")

    assert (done.verdict, started) == ((3, "failed", "sandbox_unproven"), False), done.ended
    assert done.outputs["probe-status"] == "failed"
    assert (done.cell["sandbox"], done.evidence.probe["launches"]) == ("unproven", [])
    assert done.evidence.probe["failures"]


def test_evidence_of_an_earlier_run_is_not_touched(own: Workshop) -> None:
    desk = own.desk()
    earlier = desk.parent / NATIVE
    shutil.copytree(own.target.path / "tests", earlier)

    started = own.start(desk=desk)
    with started:
        stdout, _ = started.process.communicate(timeout=60)

    assert started.process.returncode == 2
    assert "earlier run" in stdout
    assert not (earlier / "cell.json").exists()
    assert not started.workshop.target.results.exists()
