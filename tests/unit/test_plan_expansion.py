"""From suites to cells: order, ids, groups, credentials, and the hash of a definition."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner_e2e.plan.catalog import parse_catalog
from runner_e2e.plan.ids import IdParts, split_execution_id
from unit.catalog_text import DAYTONA, LOCAL, Document, as_text, profile, small_catalog, suite, task

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner_e2e.plan.cells import Catalog


def read(document: Document) -> Catalog:
    return parse_catalog(as_text(document), "my.yaml")


def ids(document: Document) -> list[str]:
    return [cell.id for cell in read(document).executions]


def hashes(document: Document) -> dict[str, str]:
    return {cell.suite.id: cell.suite_definition_hash for cell in read(document).executions}


def test_cells_stand_in_the_order_suites_profiles_environments_tasks() -> None:
    assert ids(small_catalog()) == [
        "wide.one.local.first.case",
        "wide.one.local.second",
        "wide.one.daytona.first.case",
        "wide.one.daytona.second",
        "wide.two.local.first.case",
        "wide.two.local.second",
        "wide.two.daytona.first.case",
        "narrow.one.local.third",
    ]


def test_the_order_is_that_of_the_suite_and_not_of_the_lists() -> None:
    document = small_catalog()
    document["suites"][0].update(
        profiles=["two", "one"], environments=["daytona", "local"], tasks=["second", "first.case"]
    )

    assert ids(document)[:3] == [
        "wide.two.daytona.first.case",
        "wide.two.local.second",
        "wide.two.local.first.case",
    ]


def test_an_environment_that_a_profile_does_not_support_is_left_out() -> None:
    document = small_catalog()
    document["profiles"][0]["supportedEnvironments"] = ["local"]
    document["suites"][0]["expectedMatrixSize"] = 5
    del document["expectedMatrixSize"]

    assert not [name for name in ids(document) if name.startswith("wide.one.daytona")]
    assert "wide.two.daytona.first.case" in ids(document)


def test_groups_are_the_ordered_union_of_suite_profile_environment_and_task() -> None:
    document = small_catalog()
    document["suites"][0]["groups"] = ["core", "own"]
    document["tasks"][0]["groups"] = ["chat", "core", "local"]

    groups = {cell.id: cell.groups for cell in read(document).executions}

    assert groups["wide.one.local.first.case"] == ("core", "own", "native", "local", "chat")
    assert groups["wide.one.daytona.first.case"] == ("core", "own", "native", "daytona", "chat", "local")
    assert groups["narrow.one.local.third"] == ("native", "local", "slow")


def test_cells_with_equal_groups_share_them() -> None:
    document = small_catalog()
    document["tasks"][0]["groups"] = ["chat"]
    document["tasks"][1]["groups"] = ["chat"]
    first, second, *_ = read(document).executions

    assert first.groups is second.groups


def test_credentials_are_the_profiles_then_the_environments() -> None:
    needed = {cell.id: cell.required_credentials for cell in read(small_catalog()).executions}

    assert needed["wide.one.local.second"] == ("OPENROUTER_API_KEY",)
    assert needed["wide.one.daytona.second"] == ("OPENROUTER_API_KEY", "DAYTONA_API_KEY")
    assert needed["wide.two.local.second"] == ()
    assert needed["wide.two.daytona.first.case"] == ("DAYTONA_API_KEY",)


def test_a_suite_names_one_configuration_of_an_environment() -> None:
    document = small_catalog()
    document["environments"].append({**DAYTONA, "configurationKey": "large", "label": "Large"})
    document["suites"][1].update(environments=["daytona:large"])

    cell = read(document).executions[-1]

    assert cell.id == "narrow.one.daytona.third"
    assert cell.environment.label == "Large"


def test_the_hash_is_that_of_the_stated_contents() -> None:
    document = small_catalog()
    document["suites"][0]["definitionMetadata"] = {"b": [1, "ü"], "a": None}
    document["tasks"][1].update(
        expectedRunCount=2, minimumExpectedRunCount=1, restartServerBeforeQuestionAnswer=True
    )
    qualification = {"source": "adapter_constant"}
    contents = {
        "id": "wide",
        "profiles": [
            {
                "id": "one",
                "model": "vendor/model",
                "modelQualification": {**qualification, "qualificationId": "one"},
            },
            {
                "id": "two",
                "model": "vendor/model",
                "modelQualification": {**qualification, "qualificationId": "two"},
            },
        ],
        "environments": [
            {"id": "local", "configurationKey": "default"},
            {"id": "daytona", "configurationKey": "default"},
        ],
        "tasks": [
            {
                "id": "first.case",
                "flow": "single_turn",
                "expectedRunCount": 1,
                "restartServerBeforeQuestionAnswer": False,
            },
            {
                "id": "second",
                "flow": "single_turn",
                "expectedRunCount": 2,
                "minimumExpectedRunCount": 1,
                "restartServerBeforeQuestionAnswer": True,
            },
        ],
        "excludedExecutionIds": ["wide.two.daytona.second"],
        "definitionMetadata": {"b": [1, "ü"], "a": None},
    }
    text = json.dumps(contents, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    assert hashes(document)["wide"] == hashlib.sha256(text.encode()).hexdigest()


def _set(*path: str | int, to: object) -> Callable[[Document], None]:
    def change(document: Document) -> None:
        place: Any = document
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = to

    return change


def _reorder(document: Document) -> None:
    document["suites"][0]["tasks"].reverse()


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(_set("profiles", 0, "model", to="other/model"), id="model"),
        pytest.param(
            _set("profiles", 0, "modelQualification", "qualificationId", to="x"), id="qualification"
        ),
        pytest.param(_set("tasks", 0, "flow", to="multi_turn"), id="flow"),
        pytest.param(_set("tasks", 0, "expectedRunCount", to=2), id="runs"),
        pytest.param(_set("tasks", 0, "minimumExpectedRunCount", to=1), id="least-runs"),
        pytest.param(_set("tasks", 0, "restartServerBeforeQuestionAnswer", to=True), id="restart"),
        pytest.param(_set("suites", 0, "definitionMetadata", to={}), id="metadata"),
        pytest.param(_set("suites", 0, "excludedExecutionIds", to=["wide.one.local.second"]), id="excluded"),
        pytest.param(_reorder, id="order"),
    ],
)
def test_what_makes_results_incomparable_changes_the_hash(change: Callable[[Document], None]) -> None:
    document = small_catalog()
    before = hashes(document)
    change(document)

    after = hashes(document)

    assert after["wide"] != before["wide"]
    assert after["wide"] != after["narrow"]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(_set("suites", 0, "label", to="Other"), id="label"),
        pytest.param(_set("suites", 0, "groups", to=["breadth"]), id="groups"),
        pytest.param(_set("tasks", 0, "prompt", to="Say it again, {nonce}."), id="prompt"),
        pytest.param(_set("tasks", 0, "restartServerBeforeQuestionAnswer", to=False), id="default"),
        pytest.param(_set("profiles", 0, "adapterConfig", to={"a": 1}), id="configuration"),
        pytest.param(_set("suites", 1, "manualOnly", to=False), id="another-suite"),
    ],
)
def test_what_leaves_results_comparable_does_not_change_the_hash(change: Callable[[Document], None]) -> None:
    document = small_catalog()
    before = hashes(document)
    change(document)

    assert hashes(document) == before


def test_the_order_of_excluded_ids_does_not_count() -> None:
    excluded = ["wide.two.daytona.second", "wide.one.local.second"]
    document = small_catalog()
    document["suites"][0].update(excludedExecutionIds=excluded, expectedMatrixSize=6)
    del document["expectedMatrixSize"]
    before = hashes(document)
    document["suites"][0]["excludedExecutionIds"] = excluded[::-1]

    assert hashes(document) == before


NAMES = st.from_regex(r"[a-z0-9][A-Za-z0-9_-]{0,5}", fullmatch=True)
CASES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,8}", fullmatch=True)


@st.composite
def catalogs(draw: st.DrawFn) -> tuple[Document, list[IdParts]]:
    """Draw a catalog and the parts of the ids that it makes, in order."""
    environments = ["local", "daytona"]
    some = st.lists(st.sampled_from(environments), min_size=1, unique=True)
    supported = draw(st.dictionaries(NAMES, some, min_size=1, max_size=3))
    cases = draw(st.lists(CASES, min_size=1, max_size=4, unique=True))
    suites, expected = [], []
    for name in draw(st.lists(NAMES, min_size=1, max_size=3, unique=True)):
        profiles = draw(st.lists(st.sampled_from(list(supported)), min_size=1, unique=True))
        places = draw(st.permutations(environments))
        tasks = draw(st.lists(st.sampled_from(cases), min_size=1, unique=True))
        parts = [
            IdParts(name, profile_name, place, case)
            for profile_name in profiles
            for place in places
            if place in supported[profile_name]
            for case in tasks
        ]
        left_out = draw(st.lists(st.sampled_from(parts), max_size=len(parts) - 1, unique=True))
        kept = [item for item in parts if item not in left_out]
        suites.append(
            suite(
                name,
                len(kept),
                profiles=profiles,
                environments=places,
                tasks=tasks,
                excludedExecutionIds=[_join(item) for item in left_out],
            )
        )
        expected += kept
    document = {
        "schema": "runner-e2e.catalog/v1",
        "expectedMatrixSize": len(expected),
        "suites": suites,
        "profiles": [profile(name, supportedEnvironments=places) for name, places in supported.items()],
        "environments": [LOCAL, DAYTONA],
        "tasks": [task(name) for name in cases],
    }
    return document, expected


def _join(parts: IdParts) -> str:
    return f"{parts.suite}.{parts.profile}.{parts.environment}.{parts.case}"


@settings(deadline=None)
@given(catalogs())
def test_every_catalog_makes_its_cells_once_and_every_id_splits_into_its_parts(
    drawn: tuple[Document, list[IdParts]],
) -> None:
    document, expected = drawn

    first, second = read(document), read(document)

    assert first == second
    names = [cell.id for cell in first.executions]
    assert len(set(names)) == len(names)
    assert [split_execution_id(name) for name in names] == expected
    for cell in first.executions:
        assert split_execution_id(cell.id) == IdParts(
            cell.suite.id, cell.profile.id, cell.environment.id, cell.task.id
        )
        assert sum(other.suite is cell.suite for other in first.executions) == cell.suite.expected_matrix_size
