"""From a row, an id or an opaque key to the one cell that a job runs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner_e2e.errors import InputError
from runner_e2e.plan.keys import build_key
from runner_e2e.plan.matrix import build_jobs, plan_outputs, row
from runner_e2e.plan.resolution import resolve_cell
from unit.plan_cells import build_catalog, build_cell

if TYPE_CHECKING:
    from runner_e2e.plan.cells import Execution

SECRET = "0123456789abcdef0123456789abcdef"
PAID = build_cell("quillwort.paid.local.marsh.heron-stilts", credential="OPENROUTER_API_KEY")
FREE = build_cell("quillwort.free.local.marsh.heron-stilts", attempt_ms=900_000)
REMOTE = build_cell("quillwort.paid.daytona.marsh.heron-stilts", credential="OPENROUTER_API_KEY")
ATTENDED = build_cell("quillwort.paid.local.ottershaw", flow="provider_connection")
CATALOG = build_catalog(PAID, FREE, REMOTE, ATTENDED)
SAID = ("quillwort", "paid", "marsh", "heron", "ottershaw", "OPENROUTER", "connection")


def row_of(cell: Execution) -> dict[str, object]:
    (job,) = build_jobs([cell])
    return row(job)


def key_of(cell: Execution) -> str:
    return build_key(SECRET, cell.id)


@pytest.mark.parametrize("cell", [PAID, FREE, REMOTE], ids=lambda cell: cell.id)
def test_an_id_names_its_cell(cell: Execution) -> None:
    assert resolve_cell(CATALOG, execution_id=cell.id) is cell


@pytest.mark.parametrize("cell", [PAID, FREE, REMOTE], ids=lambda cell: cell.id)
def test_a_row_names_its_cell_and_agrees_with_the_catalog_that_made_it(cell: Execution) -> None:
    assert resolve_cell(CATALOG, execution_id=cell.id, said=row_of(cell)) is cell


@pytest.mark.parametrize("cell", [PAID, FREE, REMOTE], ids=lambda cell: cell.id)
def test_a_key_names_its_cell_with_the_secret(cell: Execution) -> None:
    (job,) = build_jobs([cell])
    planned = plan_outputs([job], [cell.id], 1, {cell.id: key_of(cell)})
    said: dict[str, Any] = {
        "key": key_of(cell),
        "environmentId": cell.environment.id,
        "credentialName": cell.profile.credential,
        "timeoutMinutes": job.timeout_minutes,
    }

    assert all(str(value) in planned["matrix"] for value in said.values() if value is not None)
    assert resolve_cell(CATALOG, key=key_of(cell), key_secret=SECRET, said=said) is cell


def test_an_id_and_a_key_have_to_name_the_same_cell() -> None:
    key = key_of(PAID)

    assert resolve_cell(CATALOG, execution_id=PAID.id, key=key, key_secret=SECRET) is PAID
    with pytest.raises(InputError, match="executionId") as caught:
        resolve_cell(CATALOG, execution_id=FREE.id, key=key, key_secret=SECRET)

    assert not any(word in str(caught.value) for word in SAID)


@pytest.mark.parametrize(
    ("said", "named"),
    [
        pytest.param({"timeoutMinutes": 24}, ["timeoutMinutes"], id="time"),
        pytest.param({"timeoutMinutes": "25"}, ["timeoutMinutes"], id="time-as-text"),
        pytest.param({"timeoutMinutes": True}, ["timeoutMinutes"], id="time-as-a-boolean"),
        pytest.param({"environmentId": "daytona"}, ["environmentId"], id="environment"),
        pytest.param({"credentialName": "OPENAI_API_KEY"}, ["credentialName"], id="credential"),
        pytest.param({"credentialName": None}, ["credentialName"], id="no-credential"),
        pytest.param({"needsDaytona": True}, ["needsDaytona"], id="daytona"),
        pytest.param({"needsDaytona": 0}, ["needsDaytona"], id="zero-for-false"),
        pytest.param({"suiteId": "other"}, ["suiteId"], id="suite"),
        pytest.param({"profileId": "free"}, ["profileId"], id="profile"),
        pytest.param({"caseId": "other"}, ["caseId"], id="case"),
        pytest.param({"key": "c-0123456789ab"}, ["key"], id="a-key-that-was-not-used"),
        pytest.param({"maxCost::error::": 1}, ["an unknown field"], id="unknown"),
        pytest.param(
            {"timeoutMinutes": 1, "credentialName": "x", "environmentId": "local"},
            ["credentialName", "timeoutMinutes"],
            id="all-at-once",
        ),
    ],
)
def test_a_row_that_drifted_from_the_catalog_is_refused(said: dict[str, object], named: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        resolve_cell(CATALOG, execution_id=PAID.id, said=said)

    assert caught.value.problem == f"The row does not agree with the catalog: {', '.join(named)}"
    assert "Plan again with the same catalog" in caught.value.remedy
    assert caught.value.exit_code == 2


def test_a_cell_whose_catalog_changed_is_refused_by_what_changed() -> None:
    said = row_of(PAID)
    longer = replace(PAID.task, attempt_timeout_ms=replace(PAID.task.attempt_timeout_ms, local=900_000))

    with pytest.raises(InputError, match="catalog: timeoutMinutes"):
        resolve_cell(build_catalog(replace(PAID, task=longer)), execution_id=PAID.id, said=said)


# Names that are none.


@pytest.mark.parametrize(
    ("name", "near"),
    [
        pytest.param("quillwort.paid.local.marsh.heron-stilt", PAID.id, id="case"),
        pytest.param("quilwort.paid.local.marsh.heron-stilts", PAID.id, id="suite"),
        pytest.param("quillwort.pad.daytona.marsh.heron-stilts", REMOTE.id, id="profile"),
        pytest.param("quillwort-paid-local-marsh.heron-stilts", PAID.id, id="no-id-at-all"),
    ],
)
def test_an_unknown_id_is_refused_with_the_nearest_one(name: str, near: str) -> None:
    with pytest.raises(InputError) as caught:
        resolve_cell(CATALOG, execution_id=name)

    assert name in caught.value.problem
    assert f"Did you mean {near}?" in caught.value.remedy


def test_an_id_that_is_near_to_nothing_gets_no_guess() -> None:
    with pytest.raises(InputError) as caught:
        resolve_cell(CATALOG, execution_id="a.b.local.c")

    assert "Did you mean" not in str(caught.value)
    assert "runner-e2e list" in caught.value.remedy


@given(st.text(max_size=600))
def test_whatever_is_given_for_an_id_ends_in_one_line(name: str) -> None:
    with pytest.raises(InputError) as caught:
        resolve_cell(CATALOG, execution_id=name)

    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 400


def test_an_empty_catalog_has_no_cell() -> None:
    with pytest.raises(InputError, match="has no cell"):
        resolve_cell(build_catalog(), execution_id=PAID.id)


def test_no_name_names_no_cell() -> None:
    with pytest.raises(InputError, match="No cell is named"):
        resolve_cell(CATALOG)


# With a key, messages tell nothing.


@pytest.mark.parametrize(
    ("key", "secret", "said"),
    [
        pytest.param(key_of(PAID), None, {}, id="without-a-secret"),
        pytest.param(key_of(PAID), "short", {}, id="short-secret"),
        pytest.param(key_of(PAID), SECRET[::-1], {}, id="another-secret"),
        pytest.param("c-0123456789ab", SECRET, {}, id="unknown-key"),
        pytest.param(PAID.id[:-1], SECRET, {}, id="an-id-for-a-key"),
        pytest.param(key_of(PAID), SECRET, {"timeoutMinutes": 1}, id="time"),
        pytest.param(key_of(PAID), SECRET, {"credentialName": "OPENAI_API_KEY"}, id="credential"),
        pytest.param(key_of(PAID), SECRET, {"caseId": "other", "suiteId": "x"}, id="another-case"),
        pytest.param(key_of(PAID), SECRET, {"marsh": 1}, id="unknown-field"),
        pytest.param(key_of(PAID), SECRET, {"key": "c-0123456789ab"}, id="another-key-in-the-row"),
    ],
)
def test_with_a_key_no_message_tells_a_part_of_the_id(
    key: str, secret: str | None, said: dict[str, object]
) -> None:
    with pytest.raises(InputError) as caught:
        resolve_cell(CATALOG, key=key, key_secret=secret, said=said)

    assert not any(word in str(caught.value) for word in SAID)
    assert "Did you mean" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_an_attended_journey_is_refused_however_it_is_named() -> None:
    with pytest.raises(InputError, match="Attended journeys"):
        resolve_cell(CATALOG, execution_id=ATTENDED.id)
    with pytest.raises(InputError, match="attended journey") as caught:
        resolve_cell(CATALOG, key=key_of(ATTENDED), key_secret=SECRET)

    assert not any(word in str(caught.value) for word in SAID)


@given(st.sampled_from([PAID, FREE, REMOTE]), st.data())
def test_a_row_agrees_exactly_with_its_own_cell(cell: Execution, data: st.DataObject) -> None:
    other = data.draw(st.sampled_from([PAID, FREE, REMOTE]))
    said = {name: value for name, value in row_of(other).items() if name != "executionId"}
    fields = data.draw(st.sets(st.sampled_from(sorted(said))))
    partly = {name: said[name] for name in fields}

    if all(row_of(cell)[name] == value for name, value in partly.items()):
        assert resolve_cell(CATALOG, execution_id=cell.id, said=partly) is cell
    else:
        with pytest.raises(InputError, match="does not agree"):
            resolve_cell(CATALOG, execution_id=cell.id, said=partly)
