"""The inputs of `resolve` and `plan`: what they come to, and what each refuses."""

from pathlib import Path

import pytest

from runner_e2e.actions.plan_inputs import TargetCommand, parse_plan, parse_resolve
from runner_e2e.errors import InputError
from runner_e2e.plan.selection import Selectors

SHA = "0123456789abcdef0123456789abcdef01234567"
KEY = "c-0123456789ab"
SECRET = "0123456789abcdef"


def test_selectors_are_read_from_the_inputs() -> None:
    planned = parse_plan(
        {
            "command": "plan",
            "suite": "chat-features, core",
            "group": "native,slow",
            "profile": "runner-opencode",
            "environment": "local",
            "case": "agents.change-manager\nroutines.pause-owned",
        }
    )

    assert planned.selectors == Selectors(
        suites=("chat-features", "core"),
        groups=("native", "slow"),
        profiles=("runner-opencode",),
        environments=("local",),
        cases=("agents.change-manager", "routines.pause-owned"),
    )


@pytest.mark.parametrize(
    ("inputs", "catalog"),
    [
        ({}, "reference"),
        ({"harness": "reference"}, "reference"),
        ({"harness": "built-in"}, "paperclip"),
        ({"harness": "command", "target-path": "/target"}, "target"),
        ({"harness": "command", "catalog": "cells.yaml"}, "cells.yaml"),
    ],
)
def test_without_a_catalog_the_harness_brings_its_own(inputs: dict[str, str], catalog: str) -> None:
    assert parse_plan({"all": "true", **inputs}).catalog == catalog


def test_the_target_lists_its_cells_with_its_own_command() -> None:
    planned = parse_plan(
        {
            "all": "true",
            "catalog": "target",
            "target-path": "/target",
            "harness-command": "node harness.js --",
            "pass-env": "PNPM_HOME",
            "target-sha": SHA,
        }
    )

    assert planned.listing == TargetCommand(Path("/target"), "node harness.js --", ("PNPM_HOME",))
    assert planned.target_sha == SHA


def test_the_target_cannot_be_asked_without_its_checkout() -> None:
    with pytest.raises(InputError, match="target-path"):
        parse_plan({"all": "true", "catalog": "target"})


@pytest.mark.parametrize(
    ("inputs", "selected", "ids"),
    [
        ({"id": "a.b.local.c"}, None, ("a.b.local.c",)),
        ({}, "a.b.local.c", ("a.b.local.c",)),
        ({"id": "a.b.local.c"}, "a.b.local.d", ("a.b.local.c", "a.b.local.d")),
        ({"id": "a.b.local.c,a.b.local.c"}, "a.b.local.c", ("a.b.local.c",)),
    ],
)
def test_ids_of_input_and_variable_join(
    inputs: dict[str, str], selected: str | None, ids: tuple[str, ...]
) -> None:
    assert parse_plan(inputs, selected).selectors.ids == ids


def test_opaque_keys_are_kept_apart_from_ids() -> None:
    planned = parse_plan({"id": f"{KEY},a.b.local.c", "opaque-keys": "true", "key-secret": SECRET})

    assert (planned.keys, planned.selectors.ids) == ((KEY,), ("a.b.local.c",))
    assert planned.key_secret == SECRET
    assert SECRET not in repr(planned)


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        pytest.param({"opaque-keys": "true"}, "need a secret", id="no-secret"),
        pytest.param({"key-secret": SECRET}, "without opaque-keys", id="secret-alone"),
        pytest.param({"id": KEY}, "named by an opaque key", id="key-alone"),
    ],
)
def test_keys_and_their_secret_belong_together(inputs: dict[str, str], words: str) -> None:
    selected = {} if "id" in inputs else {"suite": "core"}

    with pytest.raises(InputError, match=words) as caught:
        parse_plan({**inputs, **selected})

    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("credential", "sk-secret"),
        ("credential-name", "OPENAI_API_KEY"),
        ("github-token", "ghs_secret"),
        ("row", "{}"),
        ("hide", "/a"),
        ("target-branch", "main"),
        ("target-path", "/target"),
        ("harness-command", "pnpm test"),
        ("pass-env", "A"),
        ("allowed-actor-ids", "[1]"),
        ("min-abi", "7"),
    ],
)
def test_plan_refuses_what_it_would_ignore(name: str, value: str) -> None:
    with pytest.raises(InputError, match=f"no use for: {name}") as caught:
        parse_plan({"all": "true", name: value})

    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        pytest.param({"id": "a.b.local.c"}, "selected-id-transport", id="transport-undecided"),
        pytest.param(
            {"id": KEY, "opaque-keys": "true", "key-secret": SECRET, "selected-id-transport": "env"},
            "lists no keys",
            id="key",
        ),
    ],
)
def test_the_target_is_not_asked_for_names_that_it_cannot_answer(inputs: dict[str, str], words: str) -> None:
    with pytest.raises(InputError, match=words):
        parse_plan({"catalog": "target", "target-path": "/target", **inputs})


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        pytest.param({}, "Nothing is selected", id="nothing"),
        pytest.param({"all": "true", "suite": "core"}, "cannot be combined", id="all-and-suite"),
        pytest.param({"id": KEY, "suite": "core"}, "cannot be combined", id="key-and-suite"),
    ],
)
def test_a_selection_that_contradicts_itself_is_told_also_behind_opaque_keys(
    inputs: dict[str, str], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        parse_plan({**inputs, "opaque-keys": "true", "key-secret": SECRET})


@pytest.mark.parametrize(
    ("inputs", "selected", "named"),
    [
        ({"id": "a.b.local.c"}, None, True),
        ({"case": "agents.b"}, None, True),
        ({"suite": "core"}, None, False),
        ({}, "a.b.local.c", False),
    ],
)
def test_a_name_in_an_input_is_noted(inputs: dict[str, str], selected: str | None, named: bool) -> None:
    assert parse_plan(inputs, selected).named_in_inputs is named


def test_an_id_that_must_be_hidden_is_not_planned_for_a_target_that_shows_it() -> None:
    with pytest.raises(InputError, match="require-hidden-id"):
        parse_plan({"all": "true", "selected-id-transport": "argv", "require-hidden-id": "true"})


@pytest.mark.parametrize("command", ["run-cell", "resolve", "authorize"])
def test_the_entrypoint_of_another_command_is_refused(command: str) -> None:
    with pytest.raises(InputError, match="Input command is not plan"):
        parse_plan({"command": command})


def test_resolve_reads_branch_policy_and_token() -> None:
    resolved = parse_resolve(
        {
            "command": "resolve",
            "target-branch": "feature/100%-done",
            "target-repository": "paperclip/app",
            "selected-id-transport": "env",
            "require-hidden-id": "true",
            "github-token": "ghs_secret",
        }
    )

    assert (resolved.branch, resolved.repository) == ("feature/100%-done", "paperclip/app")
    assert (resolved.transport, resolved.require_hidden_id) == ("env", True)
    assert resolved.token == "ghs_secret"
    assert "ghs_secret" not in repr(resolved)
    assert resolved.listing is None


def test_resolve_asks_the_harness_only_where_it_is_the_targets() -> None:
    inputs = {"target-path": "/target", "harness-command": "node harness.js"}

    assert parse_resolve({**inputs, "harness": "command"}).listing == TargetCommand(
        Path("/target"), "node harness.js", ()
    )
    with pytest.raises(InputError, match="no use for: harness-command"):
        parse_resolve(inputs)


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        pytest.param({}, "No target is named", id="nothing"),
        pytest.param({"target-sha": SHA}, "No target is named", id="sha-alone"),
        pytest.param({"target-branch": "refs/heads/main"}, "Input target-branch", id="ref"),
        pytest.param({"target-branch": "a..b"}, "Input target-branch", id="dots"),
        pytest.param({"target-branch": "b" * 300}, "Input target-branch", id="long"),
        pytest.param({"target-branch": "main", "credential": "x" * 20}, "no use for: credential", id="paid"),
        pytest.param({"target-branch": "main", "all": "true"}, "no use for: all", id="selector"),
        pytest.param({"harness": "command", "target-branch": "main"}, "target-path", id="no-checkout"),
    ],
)
def test_resolve_refuses(inputs: dict[str, str], words: str) -> None:
    with pytest.raises(InputError, match=words):
        parse_resolve(inputs)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("chat features", id="blank"),
        pytest.param("chat\x00", id="nul"),
        pytest.param('"chat"', id="quotes"),
        pytest.param("chat\U0001f600", id="emoji"),
        pytest.param("::error::x", id="command"),
        pytest.param(",", id="empty-list"),
        pytest.param("Chat", id="upper-case"),
        pytest.param("-rf", id="option"),
    ],
)
@pytest.mark.parametrize("name", ["suite", "group", "profile", "environment", "id"])
def test_a_malformed_selector_is_refused_by_its_inputs_name(name: str, value: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_plan({name: value})

    assert caught.value.problem.startswith(f"Input {name}")
    assert caught.value.exit_code == 2
    assert value not in str(caught.value) or value == ","
