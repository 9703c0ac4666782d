"""Workflows, templates and actions keep the rules, and each rule notices when they do not."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from action.handover_rules import IN_HANDOVERS
from action.paid_rules import IN_PAID_TEMPLATES, find_stray_tokens
from action.private_rules import IN_PRIVATE_TEMPLATES
from action.report_rules import find_lost_reports
from action.workflow_rules import (
    CAMPAIGN,
    FULL,
    IN_ACTIONS,
    IN_ALL_WORKFLOWS,
    IN_TEMPLATES,
    IN_WORKFLOWS,
    PRIVATE,
    PROJECT,
    TEMPLATES,
    Rule,
    find_broad_permissions,
    find_caches,
    find_cell_options,
    find_endless_jobs,
    find_expressions_in_scripts,
    find_implicit_shells,
    find_movable_labels,
    find_named_secrets,
    find_paid_triggers,
    find_persisted_credentials,
    find_refused_names,
    find_refused_triggers,
    find_unpinned_actions,
    list_actions,
    list_workflows,
    parse,
)

pytestmark = pytest.mark.action

TEMPLATE = TEMPLATES / "reference-cell.yml"
CI = PROJECT / ".github" / "workflows" / "ci.yml"
RELEASE = PROJECT / ".github" / "workflows" / "release.yml"
ACTION = PROJECT / "action.yml"
BIN = Path(sys.prefix) / "bin"


def rules_for(path: Path) -> tuple[Rule, ...]:
    if path.name == "action.yml":
        return IN_ACTIONS
    if path in (FULL, PRIVATE):
        private = IN_PRIVATE_TEMPLATES if path == PRIVATE else ()
        return (*IN_TEMPLATES, *IN_HANDOVERS, *IN_PAID_TEMPLATES, find_lost_reports, *private)
    if path == RELEASE:  # its one writing job has rules of its own in test_release.py
        return (*IN_ALL_WORKFLOWS, *IN_HANDOVERS, find_named_secrets)
    if path == CAMPAIGN:
        return (*IN_TEMPLATES, *IN_HANDOVERS, find_named_secrets, find_lost_reports, find_stray_tokens)
    if path.parent == TEMPLATES:
        return (*IN_TEMPLATES, *IN_HANDOVERS, find_named_secrets)
    return IN_WORKFLOWS


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
                (
                    find_expressions_in_scripts,
                    FULL,
                    'if [ "$SHARD_COUNT" != 1 ]',
                    "if [ ${{ steps.plan.outputs.shard-count }} != 1 ]",
                ),
                (find_unpinned_actions, ACTION, "043fb46d1a93c77aae656e7c1c64a875d1fc6a0a", "v7"),
                (find_unpinned_actions, ACTION, " # v7.0.1", ""),
                (find_unpinned_actions, TEMPLATE, "runner-e2e-action@v1", "runner-e2e-action@v2"),
                (find_unpinned_actions, FULL, "820762786026740c76f36085b0efc47a31fe5020", "820762786026"),
                (find_unpinned_actions, PRIVATE, " # v3.2.0", " # latest"),
                (find_broad_permissions, CI, "permissions: {}", "permissions: read-all"),
                (find_broad_permissions, CI, "permissions: {}\n", ""),
                (find_broad_permissions, CI, "contents: read", "contents: write"),
                (find_broad_permissions, TEMPLATE, "contents: read", "id-token: write"),
                (find_broad_permissions, FULL, "actions: read", "actions: write"),
                (find_refused_triggers, CI, "pull_request:", "pull_request_target:"),
                (find_refused_triggers, TEMPLATE, "workflow_dispatch:", "workflow_run:"),
                (find_paid_triggers, TEMPLATE, "workflow_dispatch:", "push:"),
                (find_paid_triggers, FULL, "  workflow_dispatch:", "  pull_request:\n  workflow_dispatch:"),
                (
                    find_paid_triggers,
                    PRIVATE,
                    "  workflow_dispatch:",
                    "  workflow_call:\n  workflow_dispatch:",
                ),
                (
                    find_persisted_credentials,
                    CI,
                    "persist-credentials: false",
                    "persist-credentials: true",
                ),
                (find_persisted_credentials, CI, "persist-credentials: false", "clean: true"),
                (find_persisted_credentials, FULL, "          persist-credentials: false\n", ""),
                (
                    find_persisted_credentials,
                    PRIVATE,
                    "persist-credentials: false",
                    "persist-credentials: 'false'",
                ),
                (find_endless_jobs, TEMPLATE, "    timeout-minutes: 10\n", ""),
                (find_endless_jobs, FULL, "timeout-minutes: 20", "timeout-minutes: 360"),
                (find_endless_jobs, FULL, "matrix.timeoutMinutes", "matrix.minutes"),
                (
                    find_named_secrets,
                    TEMPLATE,
                    "steps.cell.outputs.status",
                    "secrets.OPENAI_API_KEY",
                ),
                (find_named_secrets, RELEASE, "github.token", "secrets.RELEASE_TOKEN"),
                (find_movable_labels, FULL, "ubuntu-24.04 #", "${{ vars.LABEL }} #"),
                (find_movable_labels, PRIVATE, "runs-on: ubuntu-24.04", "runs-on: ubuntu-latest"),
                (find_caches, FULL, "package-manager-cache: false", "package-manager-cache: true"),
                (find_caches, FULL, "          package-manager-cache: false\n", ""),
                (find_caches, PRIVATE, "version: 9.15.4", "version: 9.15.4\n          cache: true"),
                (find_caches, FULL, "uses: pnpm/action-setup@", "uses: actions/cache@"),
                (
                    find_cell_options,
                    FULL,
                    "run: pnpm install --frozen-lockfile --ignore-scripts",
                    "run: pnpm test:e2e:runner -- --id x",
                ),
                (find_cell_options, PRIVATE, "command -v google-chrome", "pnpm e2e --case x"),
                (
                    find_cell_options,
                    FULL,
                    "PACK_SHA256: ${{ needs.provider_pack.outputs.sha256 }}",
                    "CELL: ${{ matrix.executionId }}",
                ),
                (
                    find_cell_options,
                    PRIVATE,
                    "SHARD_COUNT: ${{ steps.plan.outputs.shard-count }}",
                    "KEYS: ${{ inputs.keys }}",
                ),
                (find_refused_names, FULL, "provider_pack", "provider.pack"),
                (find_refused_names, FULL, "target_branch:", "'target branch':"),
                (find_refused_names, PRIVATE, "id: catalog-token", "id: 1-catalog-token"),
                (find_refused_names, PRIVATE, "target-sha: ${{", "target:sha: ${{"),
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
    assert {CI, RELEASE, TEMPLATE, CAMPAIGN, FULL, PRIVATE} <= set(list_workflows())
    assert len(list_actions()) >= 2


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


def expand(path: Path, target: Path) -> Path:
    """Write a workflow without anchors: not every tool looks behind each alias."""

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - its signature
            return True

    text = yaml.dump(parse(path.read_text(encoding="utf-8")), Dumper=Dumper, sort_keys=False)
    # The comment that allows the project's own moving tag is gone.
    pinned = text.replace("runner-e2e-action@v1", f"runner-e2e-action@{'0' * 40}")
    target.write_text(pinned, encoding="utf-8")
    return target


def test_actionlint_finds_nothing() -> None:
    check(BIN / "actionlint", *list_workflows())


def test_zizmor_finds_nothing() -> None:
    check(BIN / "zizmor", "--offline", "--no-progress", ".")
    # By itself it looks only where the platform looks.
    check(BIN / "zizmor", "--offline", "--no-progress", *list_workflows(), *list_actions())


@pytest.mark.parametrize("path", [FULL, PRIVATE], ids=["full-stack", "private-case"])
def test_the_tools_find_nothing_behind_anchors(path: Path, tmp_path: Path) -> None:
    written = expand(path, tmp_path / path.name)

    check(BIN / "actionlint", written)
    check(BIN / "zizmor", "--offline", "--no-progress", written)


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
