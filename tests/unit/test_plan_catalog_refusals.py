"""What a catalog is told that cannot be used: the exact place, what is wrong, what to write."""

from __future__ import annotations

import json
import re
from typing import get_args

import pytest

from runner_e2e.plan.catalog import parse_catalog
from runner_e2e.plan.catalog_problems import MAX_SHOWN_PROBLEMS
from runner_e2e.plan.catalog_wording import EXAMPLES, EXAMPLES_IN_PLACE, MAPPINGS, known_keys
from runner_e2e.plan.definitions import KNOWN_GROUPS, CredentialName, Flow
from unit.catalog_text import (
    REMOVED,
    Document,
    as_text,
    changed,
    profile,
    refusal,
    small_catalog,
    suite,
    task,
)

KEY = "sk-or-v1-0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        pytest.param(
            ("schema",), REMOVED, "schema: is missing. Add schema: runner-e2e.catalog/v1", id="schema"
        ),
        pytest.param(
            ("schema",), "v2", "schema: v2 is none of the known values. Write a known value: r", id="v2"
        ),
        pytest.param(("suites",), [], "suites: must not be empty. Write a list of suites", id="no-suites"),
        pytest.param(("tasks",), None, "tasks: must be a list. Write a list of tasks, each", id="null-tasks"),
        pytest.param(("tasks",), {"id": "a"}, "tasks: must be a list", id="one-task"),
        pytest.param(("tasks", 1), "second", "tasks[1]: must be a mapping of keys to values", id="text-task"),
        pytest.param(("more",), 1, "more: is no key of this mapping. Use one of its keys: schema", id="more"),
        pytest.param(("sutes",), 1, "sutes: is no key of this mapping. Did you mean suites?", id="sutes"),
        pytest.param(("<<",), {}, '["<<"]: is a merge key, which is not read. Write the keys', id="merge"),
        pytest.param(
            ("tasks", 0, "attempt_timeout_ms"),
            {},
            "tasks[0] (first.case).attempt_timeout_ms: is no key of this mapping. Did you mean attemptTime",
            id="python-name",
        ),
        pytest.param(
            ("tasks", 0, "flow"),
            "singel_turn",
            "tasks[0] (first.case).flow: singel_turn is none of the known values. Did you mean single_turn?",
            id="flow",
        ),
        pytest.param(
            ("tasks", 0, "flow"),
            ["single_turn"],
            "tasks[0] (first.case).flow: must be one of the known values. Write one of agent_chat,",
            id="flow-list",
        ),
        pytest.param(
            ("tasks", 0, "attemptTimeoutMs", "local"),
            "300000",
            "tasks[0] (first.case).attemptTimeoutMs.local: must be a whole number of milliseconds. "
            "Write local: 300000, without quotes",
            id="quoted-number",
        ),
        pytest.param(
            ("tasks", 0, "attemptTimeoutMs", "daytona"),
            1.5,
            "tasks[0] (first.case).attemptTimeoutMs.daytona: must be a whole number of milliseconds",
            id="fraction",
        ),
        pytest.param(
            ("tasks", 0, "expectedRunCount"),
            True,
            "tasks[0] (first.case).expectedRunCount: must be a whole number. Write expectedRunCount: 1",
            id="true-count",
        ),
        pytest.param(
            ("tasks", 0, "expectedRunCount"),
            0,
            "tasks[0] (first.case).expectedRunCount: must be at least 1",
            id="no-run",
        ),
        pytest.param(
            ("tasks", 0, "turnTimeoutMs"),
            10**12,
            "tasks[0] (first.case).turnTimeoutMs: must be at most",
            id="long-turn",
        ),
        pytest.param(
            ("tasks", 0, "restartServerBeforeQuestionAnswer"),
            "yes",
            "tasks[0] (first.case).restartServerBeforeQuestionAnswer: must be true or false",
            id="yes",
        ),
        pytest.param(
            ("tasks", 0, "title"),
            {"nonce": None},
            "tasks[0] (first.case).title: must be text, not a mapping. Put text that begins with { in quotes",
            id="bare-placeholder",
        ),
        pytest.param(
            ("tasks", 0, "label"),
            7,
            "tasks[0] (first.case).label: must be text, not a number. Put it",
            id="number",
        ),
        pytest.param(
            ("tasks", 0, "label"), False, "tasks[0] (first.case).label: must be text, not true or", id="false"
        ),
        pytest.param(
            ("tasks", 0, "label"), ["a"], "tasks[0] (first.case).label: must be text, not a list", id="list"
        ),
        pytest.param(
            ("tasks", 0, "label"),
            None,
            "tasks[0] (first.case).label: must be text. Write label: A",
            id="null",
        ),
        pytest.param(
            ("tasks", 0, "label"),
            "",
            "tasks[0] (first.case).label: must not be empty. Write label",
            id="empty",
        ),
        pytest.param(
            ("tasks", 0, "label"), "x" * 513, "tasks[0] (first.case).label: must have at most 512", id="long"
        ),
        pytest.param(
            ("tasks", 0, "label"),
            "a\nb",
            "tasks[0] (first.case).label: must be one line of print",
            id="lines",
        ),
        pytest.param(
            ("tasks", 0, "prompt"),
            "bell \a",
            "tasks[0] (first.case).prompt: must hold no control characters but line ends and tabs",
            id="control",
        ),
        pytest.param(
            ("tasks", 0, "id"),
            "first case",
            'tasks[0] ("first case").id: "first case" is no case: it must begin with a letter or digit',
            id="case-id",
        ),
        pytest.param(
            ("tasks", 0, "id"),
            "a::error::b\r\n",
            r'tasks[0] ("a::error::b\r\n").id: "a::error::b\r\n" is no case',
            id="command-as-id",
        ),
        pytest.param(
            ("profiles", 0, "id"),
            "One.two",
            "profiles[0] (One.two).id: One.two is no name: it must begin with a lower-case letter or digit",
            id="profile-id",
        ),
        pytest.param(
            ("profiles", 0, "id"),
            "x" * 129,
            f"profiles[0] ({'x' * 77}...).id: must have at most 128 characters",
            id="long-id",
        ),
        pytest.param(
            ("suites", 0, "tasks"),
            [],
            "suites[0] (wide).tasks: must not be empty. Write tasks: [",
            id="no-tasks",
        ),
        pytest.param(
            ("suites", 0, "excludedExecutionIds"),
            ["wide.two.daytona"],
            "suites[0] (wide).excludedExecutionIds[0]: must be suite.profile.environment.case with env",
            id="short-id",
        ),
        pytest.param(
            ("suites", 0, "definitionMetadata"),
            [],
            "suites[0] (wide).definitionMetadata: must be a mapping of keys to values",
            id="metadata",
        ),
        pytest.param(
            ("suites", 0, "definitionMetadata"),
            {"a": [1, float("inf")]},
            "suites[0] (wide).definitionMetadata.a[1]: is no number that JSON knows",
            id="infinity",
        ),
        pytest.param(
            ("environments", 0, "id"),
            "cloud",
            "environments[0] (cloud).id: cloud is none of the known values. Write a known value: local",
            id="environment-id",
        ),
        pytest.param(
            ("environments", 0, "lifecycle", "probe"),
            REMOVED,
            "environments[0] (local).lifecycle.probe: is missing. Add probe: run_context_via_api",
            id="probe",
        ),
        pytest.param(
            ("tasks", 0, "matchers", 0, "kind"),
            "message_contain",
            "tasks[0] (first.case).matchers[0].kind: message_contain is none of the known values. "
            "Did you mean message_contains?",
            id="matcher",
        ),
        pytest.param(
            ("tasks", 0, "matchers", 0, "parameters"),
            "x",
            "tasks[0] (first.case).matchers[0].parameters: must be a mapping of keys to values",
            id="parameters",
        ),
        pytest.param(
            ("profiles", 0, "credential"),
            "OPENROUTER_KEY",
            "profiles[0] (one).credential: must be the name of a known credential. Write one of OPENAI_API",
            id="credential",
        ),
    ],
)
def test_a_value_that_is_wrong_on_its_own_is_told_with_its_place(
    path: tuple[str | int, ...], value: object, expected: str
) -> None:
    text = json.dumps(changed(path, value)).replace("Infinity", ".inf")

    assert f"my.yaml: {expected}" in refusal(text)


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        pytest.param(
            ("suites", 1, "id"),
            "wide",
            "suites[1] (wide).id: is wide, as suites[0] is already",
            id="same-suite",
        ),
        pytest.param(
            ("profiles", 1, "id"), "one", "profiles[1] (one).id: is one, as profiles[0] is", id="same-profile"
        ),
        pytest.param(
            ("tasks", 2, "id"), "second", "tasks[2] (second).id: is second, as tasks[1] is al", id="same-task"
        ),
        pytest.param(
            ("suites", 0, "profiles", 1),
            "tow",
            "suites[0] (wide).profiles[1]: tow is no profile of this catalog. Did you mean two?",
            id="unknown-profile",
        ),
        pytest.param(
            ("suites", 0, "environments", 1),
            "daytona:large",
            "suites[0] (wide).environments[1]: daytona:large is no environment of this catalog",
            id="unknown-environment",
        ),
        pytest.param(
            ("suites", 0, "tasks", 0),
            "first-case",
            "suites[0] (wide).tasks[0]: first-case is no task of this catalog. Did you mean first.case?",
            id="unknown-task",
        ),
        pytest.param(
            ("suites", 0, "tasks", 1),
            "first.case",
            "suites[0] (wide).tasks[1]: first.case is named twice in this suite. Remove one",
            id="task-twice",
        ),
        pytest.param(
            ("suites", 0, "profiles", 1),
            "one",
            "suites[0] (wide).profiles[1]: one is named twice",
            id="profile-twice",
        ),
        pytest.param(
            ("suites", 0, "groups"),
            ["core", "chta"],
            "suites[0] (wide).groups[1]: chta is no known group. Did you mean chat?",
            id="suite-group",
        ),
        pytest.param(
            ("profiles", 0, "groups"),
            ["x"],
            "profiles[0] (one).groups[0]: x is no known group",
            id="profile-group",
        ),
        pytest.param(
            ("environments", 1, "groups"),
            ["x"],
            "environments[1] (daytona).groups[0]: x is no known group. Add it to the list groups at the top "
            "of the file, as groups: [x], or use another: breadth,",
            id="environment-group",
        ),
        pytest.param(
            ("tasks", 0, "groups"),
            ["x"],
            "tasks[0] (first.case).groups[0]: x is no known group",
            id="task-group",
        ),
        pytest.param(
            ("tasks", 2, "explicitGroup"),
            "slwo",
            "tasks[2] (third).explicitGroup: slwo is no known group. Did you mean slow?",
            id="unknown-explicit-group",
        ),
        pytest.param(
            ("tasks", 2, "groups"),
            [],
            "tasks[2] (third).explicitGroup: slow is not among the groups of its cells in suite narrow, so "
            "selecting the group cannot admit them. Add slow to the task's groups",
            id="unreachable-explicit-group",
        ),
        pytest.param(
            ("tasks", 0, "minimumExpectedRunCount"),
            2,
            "tasks[0] (first.case).minimumExpectedRunCount: is 2, more than the expectedRunCount of 1",
            id="least-above-most",
        ),
        pytest.param(
            ("profiles", 0, "credential"),
            "DAYTONA_API_KEY",
            "profiles[0] (one).credential: DAYTONA_API_KEY belongs to an environment",
            id="daytona-credential",
        ),
        pytest.param(
            ("profiles", 0, "expectedRuntimeMetadata", "adapterType"),
            "process",
            "profiles[0] (one).expectedRuntimeMetadata.adapterType: is process, but the profile's "
            "adapterType is paperclip_runner",
            id="adapter",
        ),
        pytest.param(
            ("environments", 0, "driver"),
            "sandbox",
            "environments[0] (local).driver: is sandbox, but environment local has local. Write local",
            id="local-driver",
        ),
        pytest.param(
            ("environments", 0, "provider"),
            "daytona",
            "environments[0] (local).provider: is daytona, but environment local has local",
            id="local-provider",
        ),
        pytest.param(
            ("environments", 0, "credential"),
            "DAYTONA_API_KEY",
            "environments[0] (local).credential: has no meaning for environment local. Remove it",
            id="local-credential",
        ),
        pytest.param(
            ("environments", 0, "expectedExecutionTarget", "transport"),
            "sandbox",
            "environments[0] (local).expectedExecutionTarget.transport: has no meaning for environment local",
            id="local-transport",
        ),
        pytest.param(
            ("environments", 1, "driver"),
            "local",
            "environments[1] (daytona).driver: is local, but environment daytona has sandbox",
            id="daytona-driver",
        ),
        pytest.param(
            ("environments", 1, "provider"),
            "local",
            "environments[1] (daytona).provider: is local, but environment daytona has daytona",
            id="daytona-provider",
        ),
        pytest.param(
            ("environments", 1, "expectedExecutionTarget", "kind"),
            "local",
            "environments[1] (daytona).expectedExecutionTarget.kind: is local, but environment daytona has",
            id="daytona-target",
        ),
        pytest.param(
            ("environments", 1, "credential"),
            REMOVED,
            "environments[1] (daytona).credential: is missing for environment daytona. Add credential: ",
            id="daytona-without-credential",
        ),
        pytest.param(
            ("suites", 0, "expectedMatrixSize"),
            8,
            "suites[0] (wide).expectedMatrixSize: is 8, but the suite has 7 cells (4 profiles in their "
            "environments x 2 tasks - 1 excluded). Write 7, or",
            id="suite-size",
        ),
        pytest.param(
            ("expectedMatrixSize",),
            9,
            "expectedMatrixSize: is 9, but all suites together have 8 cells. Write 8, or correct the suites",
            id="total-size",
        ),
        pytest.param(
            ("suites", 0, "excludedExecutionIds"),
            ["wide.two.daytona.third"],
            "suites[0] (wide).excludedExecutionIds[0]: removes nothing: third is no case of this suite",
            id="exclude-unknown-case",
        ),
        pytest.param(
            ("suites", 0, "excludedExecutionIds"),
            ["wide.tow.daytona.second"],
            "suites[0] (wide).excludedExecutionIds[0]: removes nothing: tow is no profile of this suite. "
            "Did you mean two?",
            id="exclude-unknown-profile",
        ),
        pytest.param(
            ("suites", 1, "excludedExecutionIds"),
            ["narrow.one.daytona.third"],
            "suites[1] (narrow).excludedExecutionIds[0]: removes nothing: daytona is no environment of this",
            id="exclude-unknown-environment",
        ),
        pytest.param(
            ("suites", 0, "excludedExecutionIds"),
            ["narrow.one.local.third"],
            "suites[0] (wide).excludedExecutionIds[0]: narrow.one.local.third is no cell of this suite",
            id="exclude-from-another-suite",
        ),
        pytest.param(
            ("suites", 0, "excludedExecutionIds"),
            ["wide.two.daytona.second", "wide.two.daytona.second"],
            "suites[0] (wide).excludedExecutionIds[1]: wide.two.daytona.second is excluded twice",
            id="exclude-twice",
        ),
        pytest.param(
            ("suites", 1, "excludedExecutionIds"),
            ["narrow.one.local.third"],
            "suites[1] (narrow).excludedExecutionIds: exclude every cell of the suite. Remove the suite",
            id="exclude-all",
        ),
    ],
)
def test_values_that_contradict_each_other_are_told_with_their_place(
    path: tuple[str | int, ...], value: object, expected: str
) -> None:
    assert f"my.yaml: {expected}" in refusal(changed(path, value))


def test_a_suite_that_no_profile_supports_is_refused() -> None:
    document = small_catalog()
    document["profiles"][0]["supportedEnvironments"] = ["daytona"]

    said = refusal(document)

    assert "suites[1] (narrow): none of its profiles supports any of its environments" in said


def test_an_exclusion_of_an_unsupported_pair_removes_nothing() -> None:
    document = small_catalog()
    document["profiles"][1]["supportedEnvironments"] = ["local"]

    assert "removes nothing: two does not support daytona" in refusal(document)


def test_two_configurations_of_one_environment_need_keys_and_suites_of_their_own() -> None:
    document = small_catalog()
    large = {**document["environments"][1], "configurationKey": "large"}
    document["environments"].append(dict(document["environments"][1]))
    assert "environments[2] (daytona).id: is daytona, as environments[1] is already. Give it" in refusal(
        document
    )

    document["environments"][2] = large
    document["suites"].append(suite("other", 1, environments=["daytona:large"]))
    document["expectedMatrixSize"] = 9
    assert parse_catalog(as_text(document), "my.yaml").executions[-1].id == "other.one.daytona.first.case"

    document["suites"][0]["environments"] = ["daytona", "daytona:large"]
    assert "environments[1]: daytona:large gives the same execution ids as daytona" in refusal(document)


def test_an_execution_id_has_at_most_512_characters() -> None:
    document = small_catalog()
    names = {"wide": "w" * 128, "one": "o" * 128, "first.case": "f" * 256}
    fitting = as_text(document)
    for old, new in names.items():
        fitting = fitting.replace(f'"{old}"', f'"{new[:-7]}"').replace(f'"{old}.', f'"{new[:-7]}.')
    assert max(len(cell.id) for cell in parse_catalog(fitting, "my.yaml").executions) <= 512

    text = as_text(document)
    for old, new in names.items():
        text = text.replace(f'"{old}"', f'"{new}"').replace(f'"{old}.', f'"{new}.')
    assert "makes execution ids of up to 522 characters; 512 is the most. Shorten" in refusal(text)


def test_products_that_explode_are_refused_before_they_are_built() -> None:
    names = [f"case-{number}" for number in range(600)]
    profiles = [f"profile-{number}" for number in range(500)]
    document = {
        **small_catalog(),
        "tasks": [task(name) for name in names],
        "profiles": [profile(name) for name in profiles],
        "suites": [suite("huge", 300_000, profiles=profiles, tasks=names)],
    }

    assert "suites: make 300000 cells; 250000 is the most. Split the catalog" in refusal(document)


@pytest.mark.parametrize(
    ("path", "value", "place"),
    [
        pytest.param(
            ("suites", 0, "description"), f"use {KEY}", "suites[0] (wide).description", id="description"
        ),
        pytest.param(("profiles", 0, "credential"), KEY, "profiles[0] (one).credential", id="as-credential"),
        pytest.param(("tasks", 0, "flow"), KEY, "tasks[0] (first.case).flow", id="as-flow"),
        pytest.param(("tasks", 0, "prompt"), f'a\n"{KEY}"\n', "tasks[0] (first.case).prompt", id="quoted"),
        pytest.param(
            ("tasks", 0, "prompt"), f"a\n{KEY}\n", "tasks[0] (first.case).prompt", id="behind-an-escape"
        ),
        pytest.param(
            ("tasks", 0, "matchers", 0, "parameters"),
            {"texts": ["a", KEY]},
            "tasks[0] (first.case).matchers[0].parameters.texts[1]",
            id="parameters",
        ),
        pytest.param(("tasks", 0, "id"), KEY, "tasks[0] ((a value that looks like a secret)).id", id="as-id"),
        pytest.param((KEY,), 1, "the whole file", id="as-key"),
        pytest.param(
            ("profiles", 0, "adapterConfig"),
            {"a": {KEY: 1}},
            "profiles[0] (one).adapterConfig.a",
            id="inner-key",
        ),
    ],
)
def test_what_looks_like_a_secret_is_refused_and_never_repeated(
    path: tuple[str | int, ...], value: object, place: str
) -> None:
    said = refusal(changed(path, value))

    assert f"my.yaml: {place}: holds what looks like a provider's key (sk-...)" in said
    assert KEY not in said
    assert KEY[:12] not in said


def test_a_secret_in_a_comment_is_refused_by_its_line() -> None:
    said = refusal(f"# one\n# {KEY}\n{as_text(small_catalog())}")

    assert "my.yaml: line 2: holds what looks like a provider's key" in said
    assert KEY not in said


@pytest.mark.parametrize(
    ("configuration", "place"),
    [
        pytest.param({"apiKey": "hunter2"}, ".apiKey", id="key"),
        pytest.param({"env": {"OPENROUTER_API_KEY": "hunter2"}}, ".env.OPENROUTER_API_KEY", id="variable"),
        pytest.param({"token": {"secretRef": "hunter2"}}, ".token.secretRef", id="reference-to-a-value"),
        pytest.param({"env": [{"name": "API_KEY", "value": "hunter2"}]}, ".env[0].value", id="pair"),
    ],
)
def test_a_raw_value_under_a_secret_name_is_refused(configuration: Document, place: str) -> None:
    said = refusal(changed(("profiles", 0, "adapterConfig"), configuration))

    assert f"profiles[0] (one).adapterConfig{place}: holds a raw value, and its name says" in said
    assert "hunter2" not in said


def test_references_and_placeholders_under_a_secret_name_are_read() -> None:
    configuration = {"env": {"OPENROUTER_API_KEY": {"secretRef": "OPENROUTER_API_KEY"}}, "token": "{nonce}"}
    catalog = parse_catalog(as_text(changed(("profiles", 0, "adapterConfig"), configuration)), "my.yaml")

    assert catalog.executions[0].profile.adapter_config == configuration


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(
            '"label": "Case second"', '"label": !mine x', "tasks[1] (second).label: has the tag", id="tag"
        ),
        pytest.param('"second",\n', "!mine second,\n", "has the tag", id="tag-in-list"),
        pytest.param(
            '"text": "{nonce}"',
            '"text": !mine x',
            'parameters.text: has the tag "!mine". Remove',
            id="free-tag",
        ),
        pytest.param(
            '"text": "{nonce}"', "7: x", "parameters: has the key 7, which is not text", id="number-key"
        ),
        pytest.param(
            '"text": "{nonce}"',
            '"a": {null: x}',
            "parameters.a: has the key None, which is not",
            id="null-key",
        ),
        pytest.param(
            '"text": "{nonce}"', '"text": .nan', "parameters.text: is no number that JSON", id="nan"
        ),
        pytest.param(
            '"schema"', 'null: 1, "schema"', "the whole file: has the key None, which is", id="top-key"
        ),
        pytest.param(
            '"label": "Case second"',
            'true: 1, "label": "x"',
            "tasks[1] (second): has the key True",
            id="true-key",
        ),
    ],
)
def test_what_only_yaml_can_say_is_refused(old: str, new: str, expected: str) -> None:
    text = as_text(small_catalog())
    assert old in text

    assert expected in refusal(text.replace(old, new, 1))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("# only a comment\n", id="comment"),
        pytest.param("- 1\n", id="list"),
        pytest.param("text", id="text"),
        pytest.param("7", id="number"),
    ],
)
def test_a_file_that_is_no_mapping_is_refused(text: str) -> None:
    assert "my.yaml: the whole file: must be a mapping of keys to values" in refusal(text)


def test_all_problems_are_told_at_once_and_those_beyond_ten_are_counted() -> None:
    document = small_catalog()
    for item in document["tasks"]:
        del item["label"], item["expectedTerminalState"]
        item["expectedRunCount"] = 0
        item["matchers"] = [{"kind": "message", "parameters": {}}]

    said = refusal(document)

    lines = said.split("\n")
    assert len(lines) == MAX_SHOWN_PROBLEMS + 1
    assert all(line.startswith("my.yaml: ") for line in lines)
    assert lines[-1] == "my.yaml: 2 more problems. Correct these places of the catalog."


def test_a_mistake_in_every_item_of_a_long_list_is_counted_and_told_with_the_right_index() -> None:
    document = small_catalog()
    document["tasks"] += [task(f"more-{number}") for number in range(1500)]
    for item in document["tasks"][1200:]:
        item["flow"] = "no_flow"
    said = refusal(document)
    assert "tasks[1200] (more-1197).flow: no_flow is none" in said
    assert "my.yaml: 293 more problems" in said


def test_a_file_with_hundreds_of_thousands_of_items_is_refused_as_a_whole() -> None:
    text = as_text({**small_catalog(), "tasks": []}).replace('"tasks": []', f'"tasks": [{"a," * 250_001}]')

    assert "tasks: has more than 250000 items. Split" in refusal(text)


def test_a_file_of_tens_of_thousands_of_unknown_keys_is_refused_as_a_whole() -> None:
    document = {**small_catalog(), **{f"key-{number}": 1 for number in range(20_001)}}

    assert "my.yaml: the whole file: has 20001 wrong values or keys" in refusal(document)


def test_a_name_is_suggested_among_thousands() -> None:
    names = [f"case-{number}.of-many" for number in range(3000)]
    document = small_catalog()
    document["tasks"] += [task(name) for name in names]
    document["suites"][0]["tasks"] = ["case-1234.of-mnay"]

    assert "case-1234.of-mnay is no task of this catalog. Did you mean case-" in refusal(document)


def test_a_name_like_none_of_thousands_gets_no_list_of_them() -> None:
    document = small_catalog()
    document["tasks"] += [task(f"case-{number}") for number in range(50)]
    document["suites"][0]["tasks"] = ["zzz"]

    assert refusal(document).endswith("zzz is no task of this catalog. Name one by its id.")


def test_every_key_that_may_be_missing_has_an_example() -> None:
    for path, mapping in MAPPINGS.items():
        for key in known_keys(path):
            assert key in EXAMPLES or (*path, key) in EXAMPLES_IN_PLACE or _is_optional(mapping, key), (
                path,
                key,
            )


def _is_optional(mapping: type, key: str) -> bool:
    name = re.sub(r"[A-Z]", lambda match: f"_{match[0].lower()}", key)
    return bool(mapping.__pydantic_fields__[name].is_required() is False)  # type: ignore[attr-defined]


def test_the_closed_lists_are_those_of_the_product() -> None:
    groups = (
        "legacy native local daytona warm core breadth chat onboarding context-integrity stock-harness slow"
    )
    credentials = (
        "OPENAI_API_KEY ANTHROPIC_API_KEY OPENROUTER_API_KEY KIMI_MODEL_API_KEY XAI_API_KEY GROK_AUTH_JSON "
        "GEMINI_API_KEY DAYTONA_API_KEY CURSOR_AUTH_TOKEN COPILOT_GITHUB_TOKEN"
    )
    flows = (
        "provider_connection github_review_journey antigravity_agent_journey plan_task_guidance "
        "blocker_guidance public_mcp everyday_workflow context_integrity continuation "
        "continuation_accounting first_task agent_chat governed_tool_review single_turn "
        "plan_revision_acceptance question_resume_completion plan_approval_completion warm_three_turn "
        "instruction_persistence native_active_stop native_provider_loss cursor_native pi_native "
        "copilot_protection"
    )
    own_flows = "multi_turn two_agents question_resume plan_approval restart_server"

    assert set(groups.split()) == KNOWN_GROUPS
    assert set(credentials.split()) == set(get_args(CredentialName))
    assert set(f"{flows} {own_flows}".split()) == set(get_args(Flow))


@pytest.mark.parametrize("value", ["hunter2!pw", "a" * 200, "p@ss", "x\ny", "\U0001f600"])
def test_what_no_name_looks_like_is_not_echoed_where_a_known_value_belongs(value: str) -> None:
    said = refusal(changed(("tasks", 0, "flow"), value))

    assert value not in said
    assert "must be one of the known values" in said
