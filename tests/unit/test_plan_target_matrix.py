"""Reading what a target's `--matrix-json` answers."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner_e2e.errors import InputError
from runner_e2e.plan.definitions import CREDENTIAL_NAMES
from runner_e2e.plan.matrix import Job, build_matrix_json
from runner_e2e.plan.target_matrix import MAX_ANSWER_BYTES, MAX_ROWS, TargetMatrix, parse_matrix
from unit.plan_cells import build_cell

if TYPE_CHECKING:
    from collections.abc import Callable

LOCAL = "core.opencode.local.agents.change-manager"
DAYTONA = "core.opencode.daytona.first-task"

Content = dict[str, Any]


def build_content() -> Content:
    return {
        "include": [
            {
                "executionId": DAYTONA,
                "suiteId": "core",
                "profileId": "opencode",
                "credentialName": "OPENROUTER_API_KEY",
                "environmentId": "daytona",
                "caseId": "first-task",
                "timeoutMinutes": 40,
                "needsDaytona": True,
            },
            {
                "executionId": LOCAL,
                "suiteId": "core",
                "profileId": "opencode",
                "credentialName": None,
                "environmentId": "local",
                "caseId": "agents.change-manager",
                "timeoutMinutes": 25,
                "needsDaytona": False,
            },
        ],
        "needsDaytona": True,
        "executionIds": [LOCAL, DAYTONA],
    }


def dump(content: object) -> bytes:
    return json.dumps(content).encode()


def refusal_of(text: bytes) -> str:
    with pytest.raises(InputError) as refusal:
        parse_matrix(text)
    assert refusal.value.exit_code == 2
    return str(refusal.value)


def read(text: bytes) -> tuple[TargetMatrix | None, str]:
    try:
        return parse_matrix(text), ""
    except InputError as error:
        return None, str(error)


def test_rows_come_out_as_jobs_and_both_orders_are_kept() -> None:
    found = parse_matrix(dump(build_content()))

    assert found.jobs == (
        Job(DAYTONA, "core", "opencode", "OPENROUTER_API_KEY", "daytona", "first-task", 40, True),
        Job(LOCAL, "core", "opencode", None, "local", "agents.change-manager", 25, False),
    )
    assert found.execution_ids == (LOCAL, DAYTONA)
    assert found.notes == ()


def test_what_this_product_prints_can_be_read_back() -> None:
    cells = [build_cell(LOCAL), build_cell(DAYTONA, credential="XAI_API_KEY")]
    printed = build_matrix_json(cells)

    found = parse_matrix(dump(printed))

    assert found.execution_ids == (LOCAL, DAYTONA)
    assert {job.execution_id: job.credential_name for job in found.jobs} == {
        LOCAL: None,
        DAYTONA: "XAI_API_KEY",
    }


def test_a_matrix_without_rows_is_a_matrix() -> None:
    found = parse_matrix(b'{"include":[],"needsDaytona":false,"executionIds":[]}\n')

    assert (found.jobs, found.execution_ids) == ((), ())


def test_unknown_keys_are_ignored_and_noted_once() -> None:
    content = build_content()
    content["version"] = 2
    for row in content["include"]:
        row["shard"] = {"deep": [1]}
        row["evil\n::error::"] = 1

    (note,) = parse_matrix(dump(content)).notes

    assert "shard, version" in note
    assert note.isprintable()


def test_a_credential_that_javascript_left_out_is_none() -> None:
    content = build_content()
    del content["include"][1]["credentialName"]

    assert parse_matrix(dump(content)).jobs[1].credential_name is None


@pytest.mark.parametrize("name", [name for name in CREDENTIAL_NAMES if name != "DAYTONA_API_KEY"])
def test_every_credential_of_a_profile_is_known(name: str) -> None:
    content = build_content()
    content["include"][0]["credentialName"] = name

    assert parse_matrix(dump(content)).jobs[0].credential_name == name


@pytest.mark.parametrize(
    ("text", "problem", "remedy"),
    [
        pytest.param(b"", "is empty", "harness-command", id="nothing"),
        pytest.param(b" \n\t", "is empty", "harness-command", id="blanks"),
        pytest.param(b"> target@1.0 test\n{}", "does not begin with", "--silent", id="noise-before"),
        pytest.param(b"\xef\xbb\xbf{}", "does not begin with", "--silent", id="byte-order-mark"),
        pytest.param("{}".encode("utf-16"), "does not begin with", "--silent", id="utf-16"),
        pytest.param(b"[]", "does not begin with", "--silent", id="array"),
        pytest.param(b"null", "does not begin with", "--silent", id="null"),
        pytest.param(b"{}\nDone in 1.2s", "goes on after", "--silent", id="noise-after"),
        pytest.param(b"{}{}", "goes on after", "--silent", id="two-objects"),
        pytest.param(b'{"include": [', "is not JSON from", "--silent", id="cut-off"),
        pytest.param(b"{'include': []}", "is not JSON from", "--silent", id="single-quotes"),
        pytest.param(b'{"a": "\xff"}', "is not UTF-8", "", id="not-utf-8"),
        pytest.param(b'{"a": NaN}', "a number that JSON does not have", "", id="nan"),
        pytest.param(b'{"a": -Infinity}', "a number that JSON does not have", "", id="infinity"),
        pytest.param(b'{"a": 1, "a": 1}', "a key twice", "", id="key-twice"),
        pytest.param(b'{"a": ' + b"9" * 5000 + b"}", "a number that", "", id="number-of-5000-digits"),
        pytest.param(b'{"a":' * 200_000, "nested too deeply", "", id="deep-objects"),
        pytest.param(b'{"a":' + b"[" * 200_000, "nested too deeply", "", id="deep-arrays"),
        pytest.param(b" " * (MAX_ANSWER_BYTES + 1), "larger than 45 MiB", "Narrow", id="too-large"),
    ],
)
def test_anything_but_one_json_object_is_refused(text: bytes, problem: str, remedy: str) -> None:
    said = refusal_of(text)

    assert problem in said
    assert remedy in said


def _set(name: str, value: object) -> Callable[[Content], None]:
    return lambda content: content["include"][1].__setitem__(name, value)


def _drop(name: str) -> Callable[[Content], None]:
    return lambda content: content["include"][1].__delitem__(name)


def _set_top(name: str, value: object) -> Callable[[Content], None]:
    return lambda content: content.__setitem__(name, value)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        pytest.param(_drop("executionId"), "include[1].executionId is missing", id="no-id"),
        pytest.param(_drop("suiteId"), ".suiteId is missing", id="no-suite"),
        pytest.param(_drop("needsDaytona"), ".needsDaytona is missing", id="no-flag"),
        pytest.param(_set("executionId", 3), "include[1].executionId must be the id", id="id-is-a-number"),
        pytest.param(_set("executionId", "core"), "executionId must be the id of a cell", id="one-part"),
        pytest.param(_set("executionId", LOCAL + "\n"), "must be the id of a cell", id="id-with-line-end"),
        pytest.param(_set("executionId", "\ud800"), "must be the id of a cell", id="id-is-a-surrogate"),
        pytest.param(_set("executionId", LOCAL + "x" * 512), "must be the id of a cell", id="long-id"),
        pytest.param(_set("executionId", "::error::x"), "must be the id of a cell", id="workflow-command"),
        pytest.param(_set("suiteId", "other"), "suiteId is another one", id="other-suite"),
        pytest.param(_set("profileId", "other"), "profileId is another one", id="other-profile"),
        pytest.param(_set("environmentId", "daytona"), "environmentId is another", id="other-environment"),
        pytest.param(_set("environmentId", "cloud"), "must be local or daytona", id="unknown-environment"),
        pytest.param(_set("caseId", "agents"), "caseId is another one", id="case-cut-at-its-dot"),
        pytest.param(_set("credentialName", "AWS_SECRET"), "must be a known cred", id="unknown-credential"),
        pytest.param(_set("credentialName", ""), "must be a known credential", id="empty-credential"),
        pytest.param(_set("credentialName", "DAYTONA_API_KEY"), "not the environment's", id="daytona-key"),
        pytest.param(_set("timeoutMinutes", 0), "from 1 to 1440", id="no-time"),
        pytest.param(_set("timeoutMinutes", 1441), "from 1 to 1440", id="more-than-a-day"),
        pytest.param(_set("timeoutMinutes", "25"), "from 1 to 1440", id="time-as-text"),
        pytest.param(_set("timeoutMinutes", 25.0), "from 1 to 1440", id="time-as-float"),
        pytest.param(_set("timeoutMinutes", True), "from 1 to 1440", id="time-as-boolean"),
        pytest.param(_set("timeoutMinutes", 10**400), "from 1 to 1440", id="time-without-end"),
        pytest.param(_set("needsDaytona", "false"), "must be true or false", id="flag-as-text"),
        pytest.param(_set("needsDaytona", 0), "must be true or false", id="flag-as-number"),
        pytest.param(_set("needsDaytona", True), "contradicts the row's environment", id="wrong-flag"),
        pytest.param(_set_top("needsDaytona", False), "needsDaytona contradicts the rows", id="wrong-sum"),
        pytest.param(_set_top("needsDaytona", None), "needsDaytona must be true", id="sum-is-null"),
        pytest.param(_set_top("include", {}), "include must be a list of rows", id="rows-as-object"),
        pytest.param(_set_top("include", [1]), "include[0] must be an object", id="row-as-number"),
        pytest.param(_set_top("include", [[]]), "include[0] must be an object", id="row-as-list"),
        pytest.param(_set_top("executionIds", LOCAL), "must be a list of ids", id="ids-as-text"),
        pytest.param(_set_top("executionIds", [1, 2]), "must be a list of ids", id="ids-as-numbers"),
        pytest.param(_set_top("executionIds", [LOCAL]), f"holds {DAYTONA}", id="id-is-missing"),
        pytest.param(_set_top("executionIds", [LOCAL, DAYTONA, "a\n"]), r"holds 'a\n'", id="id-too-much"),
        pytest.param(_set_top("executionIds", [LOCAL, DAYTONA, LOCAL]), "twice", id="id-twice"),
        pytest.param(
            lambda content: content["include"].append(content["include"][0]),
            f"include holds a cell twice: {DAYTONA}",
            id="row-twice",
        ),
        pytest.param(lambda content: content.pop("include"), "include is missing", id="no-rows"),
        pytest.param(lambda content: content.clear(), "(2 more problems)", id="empty-object"),
    ],
)
def test_a_row_that_contradicts_itself_or_the_rest_is_refused(
    change: Callable[[Content], None], problem: str
) -> None:
    content = build_content()
    change(content)

    said = refusal_of(dump(content))

    assert problem in said
    assert said.isprintable()
    assert len(said) < 500


def test_the_id_of_a_wrong_row_is_named_and_nothing_else_of_it() -> None:
    content = build_content()
    content["include"][1] |= {"timeoutMinutes": "hunter2", "credentialName": "hunter2", "other": "hunter2"}

    said = refusal_of(dump(content))

    assert f"include[1] ({LOCAL}).timeoutMinutes" in said
    assert "hunter2" not in said


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def mutations(draw: st.DrawFn) -> bytes:
    """Return an answer with one place replaced or removed, as text that may be cut."""
    content: Any = copy.deepcopy(build_content())
    holder, place = content, draw(st.sampled_from(sorted(content)))
    while isinstance(holder[place], dict | list) and holder[place] and draw(st.booleans()):
        holder = holder[place]
        place = draw(st.sampled_from(sorted(holder) if isinstance(holder, dict) else range(len(holder))))
    if draw(st.booleans()):
        holder[place] = draw(VALUES)
    else:
        del holder[place]
    text = dump(content)
    return text[: draw(st.integers(0, len(text)))] if draw(st.booleans()) else text


@given(st.one_of(st.binary(), VALUES.map(dump), st.dictionaries(st.text(), VALUES).map(dump), mutations()))
def test_a_hostile_answer_is_read_consistently_or_refused_in_one_line(text: bytes) -> None:
    found, said = read(text)
    if found is None:
        assert said.isprintable()
        assert len(said) < 600
        return
    ids = [job.execution_id for job in found.jobs]
    assert sorted(ids) == sorted(found.execution_ids)
    for job in found.jobs:
        parts = (job.suite_id, job.profile_id, job.environment_id, job.case_id)
        assert ".".join(parts) == job.execution_id
        assert job.needs_daytona is (job.environment_id == "daytona")


@given(st.binary(min_size=1).filter(lambda noise: bool(noise.strip(b" \t\r\n"))), st.booleans())
def test_whatever_stands_beside_the_object_is_refused(noise: bytes, before: bool) -> None:
    text = dump(build_content())

    refusal_of(noise + text if before else text + noise)


@pytest.mark.parametrize("name", ["include", "executionIds"])
def test_more_rows_than_any_matrix_has_are_refused_by_their_number(name: str) -> None:
    content = build_content() | {name: [1] * (MAX_ROWS + 1)}

    assert f"{name} holds more than {MAX_ROWS} entries. Narrow the selection" in refusal_of(dump(content))


def test_one_of_many_wrong_rows_is_told() -> None:
    content = build_content() | {"include": [1] * MAX_ROWS}

    said = refusal_of(dump(content))

    assert "include[0] must be an object" in said
    assert "more problems" not in said
