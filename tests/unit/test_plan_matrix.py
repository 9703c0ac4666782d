"""Rows, shards and outputs of a plan."""

import hashlib
import json
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner_e2e.errors import InputError, RunnerE2EError
from runner_e2e.plan.cells import Execution
from runner_e2e.plan.definitions import ATTENDED_FLOWS, Flow
from runner_e2e.plan.keys import build_keys
from runner_e2e.plan.matrix import (
    MAX_JOB_OUTPUT_BYTES,
    RESERVED_OUTPUT_BYTES,
    Job,
    build_jobs,
    build_matrix_json,
    choose_max_parallel,
    compute_timeout_minutes,
    digest_rows,
    measure_outputs,
    plan_outputs,
    row,
    shard,
)
from unit.plan_cells import build_cell

SECRET = "0123456789abcdef"
MATRIX_OUTPUTS = ["matrix", "matrix-1", "matrix-2", "matrix-3"]
LOCAL = build_cell("core.codex.local.hello", credential="OPENAI_API_KEY", attempt_ms=600_000)
REMOTE = build_cell("core.codex.daytona.hello", credential="OPENAI_API_KEY", attempt_ms=1_200_000)
DOTTED = build_cell("chat.opencode.local.agents.change-manager")


def build_job(number: int, length: int = 0) -> Job:
    case = f"c{number}-".ljust(length, "x")
    return Job(f"s.p.local.{case}", "s", "p", "OPENAI_API_KEY", "local", case, 25, False)


def plan(jobs: list[Job], keys: dict[str, str] | None = None) -> dict[str, str]:
    return plan_outputs(jobs, [job.execution_id for job in jobs], 32, keys)


def read_rows(outputs: dict[str, str]) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for name in MATRIX_OUTPUTS:
        matrix = json.loads(outputs[name])
        assert list(matrix) == ["include"]
        rows += matrix["include"]
    return rows


@pytest.mark.parametrize(
    ("environment", "attempt_ms", "minutes"),
    [
        ("local", 1, 25),
        ("local", 300_000, 25),
        ("local", 510_000, 25),
        ("local", 510_001, 26),
        ("local", 600_000, 28),
        ("local", 600_001, 29),
        ("local", 900_000, 38),
        ("daytona", 1, 40),
        ("daytona", 600_000, 40),
        ("daytona", 960_000, 40),
        ("daytona", 960_001, 41),
        ("daytona", 1_200_000, 48),
    ],
)
def test_a_job_has_room_for_two_attempts(environment: str, attempt_ms: int, minutes: int) -> None:
    assert compute_timeout_minutes(environment, attempt_ms) == minutes


def test_a_job_says_what_its_cell_needs() -> None:
    jobs = build_jobs([REMOTE, LOCAL, DOTTED])

    assert jobs == (
        Job(
            "chat.opencode.local.agents.change-manager",
            "chat",
            "opencode",
            None,
            "local",
            "agents.change-manager",
            25,
            False,
        ),
        Job("core.codex.daytona.hello", "core", "codex", "OPENAI_API_KEY", "daytona", "hello", 48, True),
        Job("core.codex.local.hello", "core", "codex", "OPENAI_API_KEY", "local", "hello", 28, False),
    )


def test_a_row_has_the_names_of_the_product() -> None:
    assert list(row(build_jobs([LOCAL])[0]).items()) == [
        ("executionId", "core.codex.local.hello"),
        ("suiteId", "core"),
        ("profileId", "codex"),
        ("credentialName", "OPENAI_API_KEY"),
        ("environmentId", "local"),
        ("caseId", "hello"),
        ("timeoutMinutes", 28),
        ("needsDaytona", False),
    ]
    assert row(build_jobs([DOTTED])[0])["credentialName"] is None


def test_jobs_are_sorted_as_in_javascript_whatever_the_matrix_order() -> None:
    order = [
        "s.p.local.a_b",
        "s.p.local.a-b",
        "s.p.local.a.b",
        "s.p.local.a1",
        "s.p.local.ab",
        "s.p.local.aB",
    ]

    jobs = build_jobs([build_cell(name) for name in sorted(order)])

    assert sorted(order) != order
    assert [job.execution_id for job in jobs] == order


def test_the_matrix_as_json_sorts_rows_and_keeps_the_ids_in_matrix_order() -> None:
    matrix = build_matrix_json([REMOTE, LOCAL, DOTTED])

    assert list(matrix) == ["include", "needsDaytona", "executionIds"]
    assert matrix["include"] == [row(job) for job in build_jobs([DOTTED, REMOTE, LOCAL])]
    assert matrix["executionIds"] == [REMOTE.id, LOCAL.id, DOTTED.id]
    assert matrix["needsDaytona"] is True
    assert build_matrix_json([LOCAL])["needsDaytona"] is False


@pytest.mark.parametrize("flow", sorted(ATTENDED_FLOWS))
def test_an_attended_journey_refuses_the_whole_selection(flow: Flow) -> None:
    attended = build_cell("journeys.codex.local.tour", flow=flow)

    for build in (build_jobs, build_matrix_json):
        with pytest.raises(
            InputError, match=rf"not admitted to paid CI; selected are: {flow} \(2\)"
        ) as caught:
            build([LOCAL, attended, replace(attended, id="journeys.codex.local.trek")])

        assert "another flow" in caught.value.remedy


def test_every_kind_of_attended_journey_is_counted_by_name() -> None:
    flows: list[Flow] = ["provider_connection", "github_review_journey", "antigravity_agent_journey"]
    cells = [build_cell(f"journeys.codex.local.{number}", flow=flow) for number, flow in enumerate(flows)]

    with pytest.raises(InputError) as caught:
        build_jobs(cells)

    assert caught.value.problem.endswith(
        "are: antigravity_agent_journey (1), github_review_journey (1), provider_connection (1)"
    )


@given(st.integers(0, 1024), st.integers(256, 300))
def test_shards_are_a_partition_in_order(count: int, size: int) -> None:
    rows = list(range(count))

    shards = shard(rows, size)

    assert [number for part in shards for number in part] == rows
    assert len(shards) == -(-count // size) <= 4
    assert all(0 < len(part) <= size for part in shards)


def test_more_rows_than_four_matrices_take_are_refused() -> None:
    assert [len(part) for part in shard(range(1024))] == [256] * 4
    with pytest.raises(
        InputError, match="1025 cells are selected, and one workflow run takes 1024"
    ) as caught:
        plan([build_job(number) for number in range(1025)])

    assert "Narrow the selection" in caught.value.remedy


@pytest.mark.parametrize(
    ("count", "sizes"),
    [
        (1, [1, 0, 0, 0]),
        (256, [256, 0, 0, 0]),
        (257, [256, 1, 0, 0]),
        (513, [256, 256, 1, 0]),
        (1024, [256, 256, 256, 256]),
    ],
)
def test_each_matrix_output_holds_its_rows(count: int, sizes: list[int]) -> None:
    jobs = [build_job(number) for number in range(count)]

    outputs = plan(jobs)

    assert [len(json.loads(outputs[name])["include"]) for name in MATRIX_OUTPUTS] == sizes
    assert read_rows(outputs) == [row(job) for job in jobs]
    assert outputs["shard-count"] == str(sum(size > 0 for size in sizes))
    assert outputs["cell-count"] == str(count)
    assert all(
        outputs[name] == '{"include":[]}'
        for name, size in zip(MATRIX_OUTPUTS, sizes, strict=True)
        if not size
    )


def test_a_plan_has_these_outputs() -> None:
    outputs = plan_outputs(build_jobs([REMOTE, DOTTED]), [REMOTE.id, DOTTED.id], 7)

    rows = (
        '{"executionId":"chat.opencode.local.agents.change-manager","suiteId":"chat","profileId":"opencode",'
        '"credentialName":null,"environmentId":"local","caseId":"agents.change-manager","timeoutMinutes":25,'
        '"needsDaytona":false},'
        '{"executionId":"core.codex.daytona.hello","suiteId":"core","profileId":"codex",'
        '"credentialName":"OPENAI_API_KEY","environmentId":"daytona","caseId":"hello","timeoutMinutes":48,'
        '"needsDaytona":true}'
    )
    assert outputs == {
        "matrix": f'{{"include":[{rows}]}}',
        "matrix-1": '{"include":[]}',
        "matrix-2": '{"include":[]}',
        "matrix-3": '{"include":[]}',
        "shard-count": "1",
        "cell-count": "2",
        "execution-ids": '["core.codex.daytona.hello","chat.opencode.local.agents.change-manager"]',
        "matrix-sha256": hashlib.sha256(f"[{rows}]".encode()).hexdigest(),
        "max-parallel": "7",
        "needs-daytona": "true",
    }


def test_a_later_job_can_recompute_the_digest_from_the_outputs() -> None:
    outputs = plan([build_job(number) for number in range(600)])

    assert digest_rows(read_rows(outputs)) == outputs["matrix-sha256"]
    cut = [json.loads(outputs[name])["include"] for name in MATRIX_OUTPUTS[:2]]
    assert digest_rows([*cut[0], *cut[1]]) != outputs["matrix-sha256"]


SEGMENTS = st.from_regex(r"[a-z0-9][A-Za-z0-9_-]{0,9}", fullmatch=True)
CASES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,9}", fullmatch=True)
IDS = st.builds("{}.{}.{}.{}".format, SEGMENTS, SEGMENTS, st.sampled_from(["local", "daytona"]), CASES)
CELLS = st.lists(
    st.builds(
        lambda name, credential, attempt_ms: build_cell(name, credential=credential, attempt_ms=attempt_ms),
        IDS,
        st.sampled_from([None, "OPENAI_API_KEY", "ANTHROPIC_API_KEY"]),
        st.integers(1000, 10_000_000),
    ),
    min_size=1,
    max_size=8,
    unique_by=lambda cell: cell.id,
)


@given(CELLS)
def test_outputs_parse_back_to_exactly_the_rows_in_one_line_of_ascii(cells: list[Execution]) -> None:
    jobs = build_jobs(cells)

    outputs = plan_outputs(jobs, [cell.id for cell in cells], 32)

    assert read_rows(outputs) == [row(job) for job in jobs]
    assert json.loads(outputs["execution-ids"]) == [cell.id for cell in cells]
    assert {job.execution_id for job in jobs} == {cell.id for cell in cells}
    assert outputs["needs-daytona"] == str(any(cell.environment.id == "daytona" for cell in cells)).lower()
    assert all(value.isascii() and value.isprintable() for value in outputs.values())


def test_opaque_rows_have_these_names_and_are_sorted_by_key() -> None:
    cells = [REMOTE, LOCAL, DOTTED]
    keys = build_keys(SECRET, [cell.id for cell in cells])

    outputs = plan_outputs(build_jobs(cells), [cell.id for cell in cells], 32, keys)

    rows = read_rows(outputs)
    assert [row["key"] for row in rows] == sorted(keys.values()) == json.loads(outputs["execution-ids"])
    assert next(row for row in rows if row["key"] == keys[REMOTE.id]) == {
        "key": keys[REMOTE.id],
        "environmentId": "daytona",
        "credentialName": "OPENAI_API_KEY",
        "timeoutMinutes": 48,
    }
    assert digest_rows(rows) == outputs["matrix-sha256"]
    assert outputs["needs-daytona"] == "true"


# Letters that no fixed text of the outputs has in a row, so that a name found is a name leaked.
WORDS = st.text("qrstuvwxyz", min_size=4, max_size=8)
OPAQUE_CELLS = st.lists(
    st.builds(
        lambda suite, profile, environment, case: build_cell(f"{suite}.{profile}.{environment}.{case}"),
        WORDS,
        WORDS,
        st.sampled_from(["local", "daytona"]),
        st.lists(WORDS, min_size=1, max_size=3).map(".".join),
    ),
    min_size=1,
    max_size=6,
    unique_by=lambda cell: cell.id,
)


@given(OPAQUE_CELLS, st.randoms(use_true_random=False))
def test_with_opaque_keys_neither_text_nor_order_tells_a_name(cells: list[Execution], random: Random) -> None:
    ids = [cell.id for cell in cells]
    keys = build_keys(SECRET, ids)
    jobs = list(build_jobs(cells))

    outputs = plan_outputs(jobs, ids, 32, keys)

    text = json.dumps(outputs)
    for cell in cells:
        for name in (cell.suite.id, cell.profile.id, *cell.task.id.split(".")):
            assert name not in text
    random.shuffle(jobs)
    random.shuffle(ids)
    assert plan_outputs(jobs, ids, 32, keys) == outputs


def test_a_cell_without_a_key_is_a_defect_and_is_not_named() -> None:
    with pytest.raises(RunnerE2EError, match="no opaque key") as caught:
        plan_outputs(build_jobs([LOCAL]), [LOCAL.id], 32, {})

    assert caught.value.exit_code == 3
    assert "hello" not in str(caught.value)


def test_a_plan_without_cells_is_refused() -> None:
    with pytest.raises(InputError, match="No cell is left to plan"):
        plan_outputs([], [], 32)


@pytest.mark.parametrize(
    ("outputs", "size"),
    [
        pytest.param({}, 0, id="nothing"),
        pytest.param({"ab": "cd"}, 8, id="ascii-counts-twice"),
        pytest.param({"a": "é"}, 4, id="latin"),
        pytest.param({"": "中中"}, 6, id="three-bytes-of-utf-8"),
        pytest.param({"": "😀"}, 4, id="surrogate-pair"),
        pytest.param({"a": "\udc80"}, 4, id="lone-surrogate"),
    ],
)
def test_outputs_are_measured_as_the_platform_does(outputs: dict[str, str], size: int) -> None:
    assert measure_outputs(outputs) == size


def test_outputs_are_refused_from_the_first_byte_above_the_limit() -> None:
    limit = MAX_JOB_OUTPUT_BYTES - RESERVED_OUTPUT_BYTES
    jobs = [build_job(number, length=400) for number in range(300)]
    missing_characters = (limit - measure_outputs(plan(jobs))) // 2
    # A case stands three times in the outputs; the number of workers fills what is left.
    longer, rest = divmod(missing_characters, 3)
    jobs[0] = build_job(0, length=400 + longer)
    ids = [job.execution_id for job in jobs]
    workers = 32 * 10**rest

    assert measure_outputs(plan_outputs(jobs, ids, workers)) == limit
    with pytest.raises(InputError, match=f"take {limit + 2} bytes, and a job can hand on {limit}"):
        plan_outputs(jobs, ids, workers * 10)


def test_outputs_that_are_too_large_say_how_to_make_them_small() -> None:
    jobs = [build_job(number, length=480) for number in range(1024)]

    with pytest.raises(InputError, match=r"take \d{7} bytes, and a job can hand on 1032192") as caught:
        plan(jobs)

    assert "opaque-keys" in caught.value.remedy
    outputs = plan(jobs, build_keys(SECRET, [job.execution_id for job in jobs]))
    assert measure_outputs(outputs) < MAX_JOB_OUTPUT_BYTES // 3


@pytest.mark.parametrize(
    ("wanted", "limit", "chosen"),
    [
        pytest.param(None, None, 32, id="default"),
        pytest.param(None, 100, 32, id="default-below-the-limit"),
        pytest.param(None, 8, 8, id="default-capped"),
        pytest.param(57, None, 57, id="default-limit"),
        pytest.param(100, 100, 100, id="at-the-limit"),
        pytest.param(1, 1, 1, id="one"),
    ],
)
def test_how_many_cells_run_at_once(wanted: int | None, limit: int | None, chosen: int) -> None:
    assert choose_max_parallel(wanted, limit) == chosen


@pytest.mark.parametrize(
    ("wanted", "limit", "problem"),
    [
        pytest.param(58, None, "max-parallel 58 is above the limit of 57", id="default-limit"),
        pytest.param(9, 8, "max-parallel 9 is above the limit of 8", id="limit"),
        pytest.param(0, None, "max-parallel must be a positive integer", id="zero"),
        pytest.param(-1, 8, "max-parallel must be a positive integer", id="negative"),
        pytest.param(None, 0, "max-parallel-limit must be a positive integer", id="limit-zero"),
    ],
)
def test_too_many_or_none_at_once_is_refused(wanted: int | None, limit: int | None, problem: str) -> None:
    with pytest.raises(InputError) as caught:
        choose_max_parallel(wanted, limit)

    assert caught.value.problem == problem
