"""A plan is read whole, or refused in a sentence that quotes nothing of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from artifact_samples import CELL, SHA, build_plan, build_row, hash_suite
from runner_e2e.errors import InputError
from runner_e2e.report.planned import MOST_BYTES, Planned, PlannedCell, read_plan

if TYPE_CHECKING:
    from collections.abc import Callable

KEY = "c-28b51f552c4c"


def read(plan: object) -> Planned:
    return read_plan(json.dumps(plan).encode())


def test_a_plan_names_its_cells_in_order_and_keeps_its_rows() -> None:
    plan = build_plan(CELL, "chat.opus.daytona.turns.six")

    planned = read(plan)

    assert planned.cells == (
        PlannedCell(CELL, "local", "chat", "opus", "turns.two"),
        PlannedCell("chat.opus.daytona.turns.six", "daytona", "chat", "opus", "turns.six"),
    )
    assert [list(row.items()) for row in planned.rows] == [list(row.items()) for row in plan["rows"]]
    assert (planned.run, planned.attempt, planned.opaque, planned.target_sha) == ("7", 1, False, SHA)
    assert planned.definitions == {"chat": hash_suite("chat")}


def test_behind_keys_a_plan_tells_of_a_cell_only_key_and_environment() -> None:
    assert read(build_plan(KEY)).cells == (PlannedCell(KEY, "local"),)


SPOILED: list[tuple[str, Callable[[dict[str, Any]], object]]] = [
    ("another-schema", lambda plan: plan.update(schema="runner-e2e.plan/v2")),
    ("no-run", lambda plan: plan.pop("run")),
    ("run-with-a-line-break", lambda plan: plan.update(run="7\n8")),
    ("attempt-0", lambda plan: plan.update(attempt=0)),
    ("attempt-true", lambda plan: plan.update(attempt=True)),
    ("opaque-unsaid", lambda plan: plan.update(opaque=None)),
    ("no-commit", lambda plan: plan.update(targetSha="main")),
    ("no-digest", lambda plan: plan.update(matrixSha256="0" * 63)),
    ("no-rows", lambda plan: plan.update(rows=[], cellCount=0)),
    ("rows-that-are-none", lambda plan: plan.update(rows={"include": []})),
    ("a-row-that-is-none", lambda plan: plan.update(rows=[CELL])),
    ("another-count", lambda plan: plan.update(cellCount=2)),
    ("too-many-rows", lambda plan: plan.update(rows=plan["rows"] * 1025, cellCount=1025)),
    ("a-cell-twice", lambda plan: plan.update(rows=plan["rows"] * 2, cellCount=2)),
    ("an-id-of-another-suite", lambda plan: plan["rows"][0].update(suiteId="other")),
    ("an-id-with-a-path", lambda plan: plan["rows"][0].update(executionId="a.b.local.../../x")),
    ("an-endless-id", lambda plan: plan.update(rows=[build_row(f"a.b.local.{'x' * 600}")])),
    ("a-key-among-ids", lambda plan: plan.update(rows=[build_row(KEY)])),
    ("an-id-among-keys", lambda plan: plan.update(opaque=True)),
    ("definitions-behind-keys", lambda plan: plan.update(opaque=True, rows=[build_row(KEY)])),
    ("no-definitions", lambda plan: plan.pop("definitions")),
    ("a-definition-that-is-none", lambda plan: plan.update(definitions={"chat": None})),
]


@pytest.mark.parametrize("spoil", [pytest.param(spoil, id=name) for name, spoil in SPOILED])
def test_what_is_no_plan_is_refused(spoil: Callable[[dict[str, Any]], object]) -> None:
    plan = build_plan(CELL)
    assert read(plan).cells  # control
    spoil(plan)

    with pytest.raises(InputError, match=r"^The plan ") as caught:
        read(plan)

    assert "chat" not in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\xff", id="no-text"),
        pytest.param(b"[]", id="a-list"),
        pytest.param(b"[" * 100_000, id="endless-depth"),
        pytest.param(b'{"schema": 1' + b"0" * 5000 + b"}", id="an-endless-number"),
        pytest.param(json.dumps(build_plan(CELL)).encode()[:-1] + b', "run": "8"}', id="a-key-twice"),
        pytest.param(b" " * (MOST_BYTES + 1), id="too-large"),
    ],
)
def test_what_is_no_json_object_is_refused(content: bytes) -> None:
    with pytest.raises(InputError):
        read_plan(content)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@settings(deadline=None)
@given(field=st.sampled_from(sorted(build_plan(CELL))), value=JSON)
def test_any_value_of_a_field_is_taken_or_refused(field: str, value: object) -> None:
    try:
        planned = read(build_plan(CELL) | {field: value})
    except InputError:
        return
    assert planned.cells


@settings(deadline=None)
@given(content=st.binary())
def test_any_bytes_are_refused(content: bytes) -> None:
    with pytest.raises(InputError):
        read_plan(content)
