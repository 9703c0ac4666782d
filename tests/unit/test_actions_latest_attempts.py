"""Which attempt of a run counts for each cell, from what GitHub's API tells of its jobs. No network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import responses
from hypothesis import given
from hypothesis import strategies as st

from runner_e2e.actions.github_client import GitHubClient
from runner_e2e.actions.github_waiting import Clock
from runner_e2e.actions.latest_attempts import (
    PAGE_ROWS,
    JobRow,
    LastJobs,
    ask_latest,
    find_cell,
    find_latest,
)
from runner_e2e.actions.report_context import find_latest_attempts
from runner_e2e.errors import InputError, RunnerE2EError, TransientInfrastructureError
from runner_e2e.plan.target import Repository

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

TOKEN = "ghs_" + "x1Y2" * 9
HOME = Repository(7, "octo/app", "")
RUN = "https://api.github.com:443/repos/octo/app/actions/runs/77"
A, B, C = "core.p.local.a", "core.p.local.b", "c-0123456789ab"
FIRST, SECOND, THIRD = "2026-11-29T08:00:00Z", "2026-11-29T09:00:00Z", "2026-11-29T10:00:00Z"
ENVIRON = {"GITHUB_REPOSITORY": "octo/app", "GITHUB_REPOSITORY_ID": "7"}


def job(name: str, attempt: int = 1, started: str | None = FIRST, **changes: object) -> dict[str, Any]:
    row = {"name": name, "run_attempt": attempt, "started_at": started, "conclusion": "success"}
    return {"id": abs(hash((name, attempt))) + 1, "steps": [], **row, **changes}


@pytest.fixture
def api() -> Iterator[responses.RequestsMock]:
    with responses.RequestsMock() as mock:
        yield mock


def answer(api: responses.RequestsMock, *jobs: dict[str, Any], **starts: str) -> None:
    """Answer with one page of jobs, and with the starts of `a2`, `a3`."""
    api.get(f"{RUN}/jobs", json={"total_count": len(jobs), "jobs": jobs})
    for name, start in starts.items():
        number = int(name.removeprefix("a"))
        api.get(f"{RUN}/attempts/{number}", json={"run_attempt": number, "run_started_at": start})


def ask(attempt: int, *names: str) -> Mapping[str, int]:
    return ask_all(attempt, *names).attempts


def ask_all(attempt: int, *names: str) -> LastJobs:
    clock = Clock(lambda _: None, lambda: 0.0, lambda: 0.0, lambda: 0.0)
    with GitHubClient("https://api.github.com", TOKEN, clock) as client:
        return ask_latest(client, HOME, "77", attempt, names or (A, B))


def test_a_cell_that_ran_again_counts_by_its_last_run_and_one_that_did_not_by_its_first(
    api: responses.RequestsMock,
) -> None:
    answer(
        api,
        job(A),
        job(B),
        job(A, 2, FIRST),  # carried over
        job(B, 2, "2026-11-29T09:00:30Z"),
        a2=SECOND,
    )

    assert ask(2) == {A: 1, B: 2}


def test_a_row_that_was_carried_over_twice_leads_to_the_attempt_in_which_its_job_ran(
    api: responses.RequestsMock,
) -> None:
    rows = [job(A, 3, "2026-11-29T09:00:01Z"), job(B, 3, FIRST)]

    answer(api, *rows, a2=SECOND, a3=THIRD)

    assert ask(3) == {A: 2, B: 1}


def test_a_job_that_never_got_a_runner_counts_so_that_its_cell_is_missing(
    api: responses.RequestsMock,
) -> None:
    answer(api, job(A), job(A, 2, None, conclusion="cancelled"), a2=SECOND)

    assert ask(2) == {A: 2}


def test_jobs_are_found_by_key_and_below_the_job_that_called_their_workflow(
    api: responses.RequestsMock,
) -> None:
    rows = [job(f"nightly / cells / {A}"), job(C, 2, SECOND), job("report", 2, SECOND), job(f"x{B}")]

    answer(api, *rows, a2=SECOND)

    assert ask(2, A, B, C) == {A: 1, C: 2}


@pytest.mark.parametrize(
    ("name", "found"),
    [(A, A), (f"x / {A}", A), (f"x/{A}", None), (f"{A} / x", None), (f"cells ({A})", None), ("", None)],
)
def test_only_the_last_part_of_a_jobs_name_names_a_cell(name: str, found: str | None) -> None:
    assert find_cell(name, {A, B}) == found


def test_every_page_is_asked_for_and_every_attempt_once(api: responses.RequestsMock) -> None:
    names = [f"core.p.local.case-{number}" for number in range(PAGE_ROWS + 1)]
    jobs = [job(name, 2, SECOND, id=number + 1) for number, name in enumerate(names)]
    for page in (1, 2):
        rows = jobs[(page - 1) * PAGE_ROWS : page * PAGE_ROWS]
        query = {"filter": "all", "per_page": "100", "page": str(page)}
        api.get(
            f"{RUN}/jobs",
            json={"total_count": len(jobs), "jobs": rows},
            match=[responses.matchers.query_param_matcher(query)],
        )
    api.get(f"{RUN}/attempts/2", json={"run_attempt": 2, "run_started_at": SECOND})

    assert ask(2, *names) == dict.fromkeys(names, 2)
    assert len(api.calls) == 3


def test_a_list_of_jobs_with_gaps_is_an_error_and_not_fewer_jobs(api: responses.RequestsMock) -> None:
    api.get(f"{RUN}/jobs", json={"total_count": 3, "jobs": [job(A), job(B), job(B)]})

    with pytest.raises(TransientInfrastructureError, match="2 of the 3 jobs"):
        ask(2)


def test_rows_of_an_attempt_that_is_still_to_come_do_not_count(api: responses.RequestsMock) -> None:
    answer(api, job(A), job(A, 2, SECOND))

    assert ask(1) == {A: 1}


def test_jobs_without_the_names_of_cells_are_refused_with_what_to_call_them(
    api: responses.RequestsMock,
) -> None:
    answer(api, job("cells (core, p, local, a)"))

    with pytest.raises(InputError, match=r"matrix\.key \|\| matrix\.executionId"):
        ask(2)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param({"jobs": []}, id="no-count"),
        pytest.param({"total_count": 1, "jobs": [job(A, started="yesterday")]}, id="no-time"),
        pytest.param({"total_count": 1, "jobs": [job(A, started="2026-11-29T08:00:00")]}, id="no-zone"),
        pytest.param({"total_count": 1, "jobs": [job(A, attempt=0)]}, id="attempt-0"),
        pytest.param({"total_count": 10**9, "jobs": []}, id="without-end"),
    ],
)
def test_an_answer_that_cannot_be_read_is_no_answer(api: responses.RequestsMock, body: object) -> None:
    api.get(f"{RUN}/jobs", json=body)

    with pytest.raises(RunnerE2EError, match="malformed"):
        ask(2)


def test_the_start_of_another_attempt_is_no_answer(api: responses.RequestsMock) -> None:
    answer(api, job(A, 2, SECOND))
    api.get(f"{RUN}/attempts/2", json={"run_attempt": 1, "run_started_at": FIRST})

    with pytest.raises(RunnerE2EError, match="malformed"):
        ask(2)


def test_a_token_that_may_not_read_jobs_is_told_what_it_lacks(api: responses.RequestsMock) -> None:
    api.get(f"{RUN}/jobs", status=403, json={"message": "Resource not accessible by integration"})

    with pytest.raises(InputError, match="actions: read"):
        ask(2)


@pytest.mark.parametrize(
    ("rows", "failed"),
    [
        pytest.param([job(A), job(B, conclusion="failure")], {B}, id="failed"),
        pytest.param([job(A, conclusion="skipped"), job(B, conclusion="cancelled")], {A, B}, id="never-ran"),
        pytest.param([job(A, conclusion="failure"), job(A, 2, SECOND), job(B)], set(), id="ran-again"),
        pytest.param([job(A), job(A, 2, SECOND, conclusion="timed_out"), job(B)], {A}, id="failed-again"),
        pytest.param([job(A), job(B), job(B, 2, FIRST, conclusion="failure")], {B}, id="carried-over"),
        pytest.param([job(A), job(A, id=9, conclusion="failure"), job(B)], {A}, id="two-jobs-of-a-name"),
        pytest.param([job(A), job(B, conclusion=None)], set(), id="not-told"),
    ],
)
def test_a_cell_whose_last_job_did_not_succeed_is_told_of(
    api: responses.RequestsMock, rows: list[dict[str, Any]], failed: set[str]
) -> None:
    starts = {"a2": SECOND} if any(row["run_attempt"] == 2 for row in rows) else {}
    answer(api, *rows, **starts)

    assert ask_all(2).failed == failed


def test_rows_of_one_id_in_two_attempts_are_two_rows(api: responses.RequestsMock) -> None:
    answer(api, job(A, id=1), job(A, 2, FIRST, id=1), job(B, id=2), a2=SECOND)

    assert ask(2) == {A: 1, B: 1}


def test_a_page_that_counts_fewer_jobs_than_one_before_hides_none(api: responses.RequestsMock) -> None:
    names = [f"core.p.local.case-{number}" for number in range(PAGE_ROWS)]
    rows = [job(name, id=number + 1) for number, name in enumerate(names)]
    later = [job(A, conclusion="failure", id=PAGE_ROWS + 1)]
    for page, total, jobs in ((1, 2 * PAGE_ROWS + 1, rows), (2, 1, later), (3, 1, [])):
        query = {"filter": "all", "per_page": "100", "page": str(page)}
        api.get(
            f"{RUN}/jobs",
            json={"total_count": total, "jobs": jobs},
            match=[responses.matchers.query_param_matcher(query)],
        )

    with pytest.raises(TransientInfrastructureError, match="101 of the 201 jobs"):
        ask(1, A, *names)


def test_in_the_first_attempt_nothing_is_asked_without_a_token() -> None:
    assert find_latest_attempts(None, ENVIRON, "77", 1, {A}) is None


def test_in_the_first_attempt_it_is_asked_how_the_jobs_ended(api: responses.RequestsMock) -> None:
    answer(api, job(A, conclusion="failure"))

    assert find_latest_attempts(TOKEN, ENVIRON, "77", 1, {A, B}) == LastJobs({A: 1}, frozenset({A}))


def test_later_attempts_without_a_token_are_refused() -> None:
    with pytest.raises(InputError, match="github-token"):
        find_latest_attempts(None, ENVIRON, "77", 2, {A})


def test_the_repositorys_id_saves_a_request(api: responses.RequestsMock) -> None:
    answer(api, job(A, 2, SECOND), a2=SECOND)

    assert find_latest_attempts(TOKEN, ENVIRON, "77", 2, {A}) == LastJobs({A: 2}, frozenset())
    assert len(api.calls) == 2


def test_without_its_id_the_repository_is_asked_for(api: responses.RequestsMock) -> None:
    api.get(
        "https://api.github.com:443/repos/octo/app",
        json={"id": 7, "full_name": "octo/app", "default_branch": "main"},
    )
    answer(api, job(A, 2, SECOND), a2=SECOND)

    environ = {"GITHUB_REPOSITORY": "octo/app"}
    assert find_latest_attempts(TOKEN, environ, "77", 2, {A}) == LastJobs({A: 2}, frozenset())


@pytest.mark.parametrize("run", ["local", "", "7/../8", "0", "7?x=1"])
def test_a_run_that_is_none_is_not_asked_for(run: str) -> None:
    with pytest.raises(InputError, match="GITHUB_RUN_ID"):
        find_latest_attempts(TOKEN, ENVIRON, run, 2, {A})


TIMES = st.integers(0, 50).map(lambda minute: f"2026-11-29T08:{minute:02d}:00Z")


@given(
    st.lists(st.tuples(st.sampled_from([A, B, "other"]), st.integers(1, 4), st.none() | TIMES), max_size=12),
    st.tuples(TIMES, TIMES, TIMES).map(sorted),
)
def test_no_cell_counts_by_an_attempt_after_the_one_that_lists_its_job(
    rows: list[tuple[str, int, str | None]], starts: list[str]
) -> None:
    read = [
        JobRow.model_validate_json(
            f'{{"id": {number + 1}, "name": "{name}", "run_attempt": {attempt},'
            f' "started_at": {"null" if started is None else chr(34) + started + chr(34)}}}'
        )
        for number, (name, attempt, started) in enumerate(rows)
    ]
    known = {
        number + 2: JobRow.model_validate_json(
            f'{{"id": 1, "name": "", "run_attempt": 1, "started_at": "{start}"}}'
        ).started_at
        for number, start in enumerate(starts)
    }

    latest = find_latest(read, {n: start for n, start in known.items() if start is not None}, {A, B})

    assert latest.keys() == {name for name, *_ in rows} & {A, B}
    for name, attempt in latest.items():
        assert 1 <= attempt <= max(number for listed, number, _ in rows if listed == name)
