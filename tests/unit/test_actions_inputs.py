"""Inputs: every rule with what it refuses, and no value in any message."""

import traceback
from pathlib import Path

import pytest

from runner_e2e.actions.inputs import parse_inputs, read_inputs
from runner_e2e.errors import InputError

SHA = "0123456789abcdef0123456789abcdef01234567"


def test_inputs_are_read_by_variable_and_named_as_in_action_yml() -> None:
    environ = {
        "INPUT_MAX_PARALLEL": " 4 ",
        "INPUT_SUITE": "",
        "INPUT_CASE": "  \n",
        "INPUT_TARGET-SHA": "from a step that maps nothing",
        "input_all": "true",
        "PATH": "/bin",
        "INPUT_CREDENTIAL": " kept as it is\n",
    }

    assert read_inputs(environ) == {"max-parallel": "4", "credential": " kept as it is\n"}


@pytest.mark.parametrize(
    ("name", "value", "parsed"),
    [
        ("all", "true", True),
        ("all", "false", False),
        ("suite", "chat-features, core\nfirst,", ("chat-features", "core", "first")),
        ("case", "agents.change-manager", ("agents.change-manager",)),
        ("environment", "local,daytona", ("local", "daytona")),
        ("id", "a.b.local.c.d.e", ("a.b.local.c.d.e",)),
        ("id", "c-0123456789ab, a.b.local.c", ("c-0123456789ab", "a.b.local.c")),
        ("target-branch", "feature/100%-done", "feature/100%-done"),
        ("target-sha", SHA, SHA),
        ("target-repository", "paperclip/runner.e2e_x", "paperclip/runner.e2e_x"),
        ("max-parallel", "32", 32),
        ("hide", "/a,b\n /c d ", (Path("/a,b"), Path("/c d"))),
        ("allowed-actor-ids", "[1, 23]", (1, 23)),
        ("pass-env", "PNPM_HOME,_X", ("PNPM_HOME", "_X")),
    ],
)
def test_a_good_value_is_taken(name: str, value: str, parsed: object) -> None:
    assert getattr(parse_inputs({name: value}), name.replace("-", "_")) == parsed


def test_a_spending_limit_is_exact() -> None:
    assert str(parse_inputs({"max-cost-usd": "2.50"}).max_cost_usd) == "2.50"


@pytest.mark.parametrize("value", ["True", "TRUE", "yes", "1", "on", "truefalse", "ja"])
@pytest.mark.parametrize("name", ["all", "require-hidden-id", "opaque-keys"])
def test_only_true_and_false_are_booleans(name: str, value: str) -> None:
    with pytest.raises(InputError, match=f"Input {name}: must be true or false"):
        parse_inputs({name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("command", "run_cell"),
        ("target-repository", "paperclip"),
        ("target-repository", "a/b/c"),
        ("target-branch", "refs/heads/main"),
        ("target-branch", "a..b"),
        ("target-branch", "-x"),
        ("target-branch", "a b"),
        ("target-branch", "x" * 300),
        ("target-branch", "main\n::error::x"),
        ("target-sha", SHA[:39]),
        ("target-sha", SHA.upper()),
        ("target-sha", f"{SHA}\n"),
        ("target-path", "a\nb"),
        ("suite", ","),
        ("suite", "--all"),
        ("suite", "Chat"),
        ("group", "😀"),
        ("case", 'x"y'),
        ("environment", "remote"),
        ("id", "a.b.local"),
        ("id", "a.b.remote.c"),
        ("id", "a.b.local.--x"),
        ("id", "a.b.local." + "c" * 512),
        ("id", "a.b.local.c::error::x"),
        ("max-parallel", "0"),
        ("max-parallel", "-1"),
        ("max-parallel", "1.5"),
        ("max-parallel", "1e1"),
        ("max-parallel", "1_0"),
        ("max-parallel", "\uff11"),
        ("selected-id-transport", "ENV"),
        ("row", "{"),
        ("row", "[]"),
        ("row", "[" * 100_000),
        ("row", '{"key": "a", "key": "b"}'),
        ("row", '{"key": "a/b"}'),
        ("row", '{"timeoutMinutes": "25"}'),
        ("harness", "paperclip"),
        ("credential-name", "A-B"),
        ("pass-env", "A=B"),
        ("hide", "relative/path"),
        ("min-abi", "2"),
        ("max-infrastructure-retries", "4"),
        ("max-infrastructure-retries", "-1"),
        ("max-infrastructure-retries", "one"),
        ("max-cost-usd", "0"),
        ("max-cost-usd", "NaN"),
        ("max-cost-usd", "1e3"),
        ("allowed-actor-ids", "[]"),
        ("allowed-actor-ids", "1"),
        ("allowed-actor-ids", "[true]"),
        ("allowed-actor-ids", '["1"]'),
        ("allowed-actor-ids", "[0]"),
        ("allowed-actor-ids", "[1.0]"),
        ("retention-days", "0"),
        ("artifact-prefix", "a\x1bb"),
        ("python", "py\0thon"),
    ],
)
def test_a_bad_value_is_refused_by_its_name_alone(name: str, value: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_inputs({name: value})

    assert caught.value.problem.startswith(f"Input {name}")
    assert caught.value.exit_code == 2
    assert len(str(caught.value)) < 250


def test_all_bad_inputs_are_named_at_once_and_no_value_is_shown() -> None:
    marker = "hunter2marker"

    with pytest.raises(InputError) as caught:
        parse_inputs(
            {
                "all": marker,
                "row": f'{{"{marker}": 1, "key": "{marker}/"}}',
                "max-parallel": marker,
                "typo": marker,
                "credential": f"{marker}\udc80",
                "harness": marker,
                "allowed-actor-ids": f'["{marker}"]',
            }
        )

    shown = "".join(traceback.format_exception(caught.value))
    assert marker not in shown
    for name in ("all", "row", "max-parallel", "typo", "harness", "allowed-actor-ids"):
        assert f"Input {name}" in str(caught.value)


def test_secrets_are_hidden_in_the_representation() -> None:
    raw = parse_inputs({"credential": "hunter2", "key-secret": "hunter3", "github-token": "ghs_4"})

    assert raw.credential is not None
    assert raw.credential.get_secret_value() == "hunter2"
    assert not [text for text in ("hunter2", "hunter3", "ghs_4") if text in f"{raw!r} {raw}"]
