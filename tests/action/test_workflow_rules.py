"""Workflows, templates and actions keep the rules, and each rule notices when they do not."""

import subprocess
import sys
from pathlib import Path

import pytest

from action.workflow_rules import (
    IN_ACTIONS,
    IN_TEMPLATES,
    IN_WORKFLOWS,
    PROJECT,
    Rule,
    find_broad_permissions,
    find_endless_jobs,
    find_expressions_in_scripts,
    find_implicit_shells,
    find_named_secrets,
    find_paid_triggers,
    find_persisted_credentials,
    find_refused_triggers,
    find_unpinned_actions,
    list_actions,
    list_workflows,
)

pytestmark = pytest.mark.action

TEMPLATE = PROJECT / "workflows" / "reference-cell.yml"
CI = PROJECT / ".github" / "workflows" / "ci.yml"
ACTION = PROJECT / "action.yml"
BIN = Path(sys.prefix) / "bin"


def rules_for(path: Path) -> tuple[Rule, ...]:
    if path.name == "action.yml":
        return IN_ACTIONS
    return IN_TEMPLATES if path.parent == PROJECT / "workflows" else IN_WORKFLOWS


@pytest.mark.parametrize(
    ("path", "rule"),
    [
        pytest.param(path, rule, id=f"{path.relative_to(PROJECT)}-{rule.__name__}")
        for path in [*list_workflows(), *list_actions()]
        for rule in rules_for(path)
    ],
)
def test_the_rule_is_kept(path: Path, rule: Rule) -> None:
    assert rule(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("rule", "path", "kept", "broken"),
    [
        pytest.param(rule, path, kept, broken, id=f"{rule.__name__}-{number}")
        for number, (rule, path, kept, broken) in enumerate(
            [
                (find_expressions_in_scripts, TEMPLATE, '"$STATUS"', "${{ github.actor }}"),
                (
                    find_expressions_in_scripts,
                    ACTION,
                    'exec "$GITHUB_ACTION_PATH/',
                    'exec "${{ github.action_path }}/',
                ),
                (find_unpinned_actions, ACTION, "043fb46d1a93c77aae656e7c1c64a875d1fc6a0a", "v7"),
                (find_unpinned_actions, ACTION, " # v7.0.1", ""),
                (find_unpinned_actions, TEMPLATE, "runner-e2e-action@v1", "runner-e2e-action@v2"),
                (find_broad_permissions, CI, "permissions: {}", "permissions: read-all"),
                (find_broad_permissions, CI, "permissions: {}\n", ""),
                (find_broad_permissions, CI, "contents: read", "contents: write"),
                (find_broad_permissions, TEMPLATE, "contents: read", "id-token: write"),
                (find_refused_triggers, CI, "pull_request:", "pull_request_target:"),
                (find_refused_triggers, TEMPLATE, "workflow_dispatch:", "workflow_run:"),
                (find_paid_triggers, TEMPLATE, "workflow_dispatch:", "push:"),
                (
                    find_persisted_credentials,
                    CI,
                    "persist-credentials: false",
                    "persist-credentials: true",
                ),
                (find_persisted_credentials, CI, "persist-credentials: false", "clean: true"),
                (find_endless_jobs, TEMPLATE, "    timeout-minutes: 10\n", ""),
                (
                    find_named_secrets,
                    TEMPLATE,
                    "steps.cell.outputs.status",
                    "secrets.OPENAI_API_KEY",
                ),
                (find_implicit_shells, ACTION, "      shell: bash\n", ""),
            ]
        )
    ],
)
def test_the_rule_notices_a_breach(rule: Rule, path: Path, kept: str, broken: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert kept in text

    assert rule(text) == []
    assert rule(text.replace(kept, broken)) != []


def test_there_are_workflows_templates_and_actions_to_check() -> None:
    assert {CI, TEMPLATE} <= set(list_workflows())
    assert len(list_actions()) == 2


def check(*command: str | Path) -> None:
    done = subprocess.run(
        command,
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_actionlint_finds_nothing() -> None:
    check(BIN / "actionlint", *list_workflows())


def test_zizmor_finds_nothing() -> None:
    check(BIN / "zizmor", "--offline", "--no-progress", ".")
    # By itself it looks only where the platform looks.
    check(BIN / "zizmor", "--offline", "--no-progress", *list_workflows(), *list_actions())


@pytest.mark.parametrize("tool", ["actionlint", "zizmor"])
def test_the_tools_find_an_expression_in_a_script(tool: str, tmp_path: Path) -> None:
    broken = tmp_path / "broken.yml"
    text = TEMPLATE.read_text(encoding="utf-8").replace(
        "run: printf", "run: printf ${{ github.event.issue.title }}"
    )
    broken.write_text(text, encoding="utf-8")
    options = ["--offline", "--no-progress"] if tool == "zizmor" else []

    with pytest.raises(AssertionError, match="title"):
        check(BIN / tool, *options, broken)
