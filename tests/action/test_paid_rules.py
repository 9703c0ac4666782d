"""What guards money and private cases is in the templates, and each rule notices when it is taken out."""

from pathlib import Path

import pytest

from action.paid_rules import (
    IN_PAID_TEMPLATES,
    find_inexact_permissions,
    find_loose_credentials,
    find_misordered_steps,
    find_open_gates,
    find_running_scripts,
    find_second_cells,
    find_shared_groups,
    find_skipped_gates,
    find_stray_secrets,
    find_stray_tokens,
    find_unscheduled_switches,
)
from action.private_rules import (
    IN_PRIVATE_TEMPLATES,
    find_loose_tokens,
    find_mixed_code,
    find_moving_catalogs,
    find_named_cells,
    find_overlaid_catalogs,
)
from action.report_rules import find_lost_reports
from action.workflow_rules import CAMPAIGN, FULL, PRIVATE, Rule

pytestmark = pytest.mark.action

CELL_STEPS = (
    "    steps:\n"
    "      # Whoever re-runs failed jobs does not pass the first gate again.\n"
    "      - *authorize\n"
)
FIRST_GATE = "    steps:\n      - &authorize\n        name: Authorize\n"
LEAK = "        env:\n          KEY: ${{ secrets.OPENAI_API_KEY }}\n"
INSTALL = "        run: pnpm install --frozen-lockfile --ignore-scripts\n"
CHECKOUT = "uses: actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1 # v7.0.1"
CONDITION = "${{ always() && !cancelled() && needs.plan.result == 'success' }}"
OPENAI = "${{ matrix.credentialName == 'OPENAI_API_KEY' && secrets.OPENAI_API_KEY"
XAI = "            || matrix.credentialName == 'XAI_API_KEY' && secrets.XAI_API_KEY\n"
DAYTONA = "${{ matrix.environmentId == 'daytona' && secrets.DAYTONA_API_KEY || '' }}"
FETCH_AGAIN = "        if: steps.fetch-plan.outcome == 'failure'\n"


def use(action: str) -> str:
    return f"      - uses: {action}@{'0' * 40} # v1.0.0\n"


BREACHES: list[tuple[Rule, Path, str, str]] = [
    # Who starts it
    (find_open_gates, FULL, "    needs: authorize\n", ""),
    (find_open_gates, FULL, FIRST_GATE, f"    steps:\n      - {CHECKOUT}\n{FIRST_GATE[11:]}"),
    (find_open_gates, PRIVATE, FIRST_GATE, f"    steps:\n      - run: 'true'\n{FIRST_GATE[11:]}"),
    (find_open_gates, PRIVATE, "      - name: Find the commit\n", f"{use('some/tool')}      - name: Find\n"),
    (find_open_gates, FULL, "command: authorize", "command: resolve"),
    (find_open_gates, FULL, "vars.RUNNER_E2E_ALLOWED_ACTOR_IDS", "github.actor_id"),
    (find_skipped_gates, FULL, CELL_STEPS, "    steps:\n"),
    (
        find_skipped_gates,
        FULL,
        CELL_STEPS,
        f"{CELL_STEPS[:11]}      - *checkout-target\n      - *authorize\n",
    ),
    (find_skipped_gates, PRIVATE, "    steps:\n      - *authorize\n", "    steps:\n"),
    (
        find_skipped_gates,
        FULL,
        "        name: Authorize\n",
        "        name: Authorize\n        if: success()\n",
    ),
    (
        find_skipped_gates,
        PRIVATE,
        "        name: Authorize\n",
        "        name: Authorize\n        continue-on-error: true\n",
    ),
    (find_skipped_gates, FULL, "        working-directory: target\n        env:\n", f"{LEAK}        x:\n"),
    (find_unscheduled_switches, FULL, "    if: github.event_name != 'schedule' ||", "    if: true ||"),
    (find_unscheduled_switches, FULL, "_NIGHTLY_ENABLED == 'true'\n    runs", "_NIGHTLY_ENABLED\n    runs"),
    # In which order
    (
        find_misordered_steps,
        FULL,
        f"{CELL_STEPS}      - *checkout-target\n",
        f"{CELL_STEPS[:11]}      - *checkout-target\n      - *authorize\n",
    ),
    (
        find_misordered_steps,
        PRIVATE,
        "      - *authorize\n      - *check-request\n      - *pnpm\n",
        "      - *catalog-token\n      - *authorize\n      - *check-request\n      - *pnpm\n",
    ),
    (
        find_misordered_steps,
        FULL,
        "            || '' }}\n",
        "            || '' }}\n      - name: Look around\n        run: env\n",
    ),
    (
        find_misordered_steps,
        PRIVATE,
        "            || '' }}\n",
        f"            || '' }}}}\n      - {CHECKOUT}\n        with:\n          persist-credentials: false\n",
    ),
    # Where secrets are
    (find_stray_secrets, FULL, INSTALL, f"{LEAK}{INSTALL}"),
    (find_stray_secrets, FULL, "permissions: {}\n", f"permissions: {{}}\nenv:{LEAK[12:]}"),
    (
        find_stray_secrets,
        FULL,
        "    environment: runner-e2e-paid\n",
        "    environment: runner-e2e-paid\n    env:\n      KEY: ${{ secrets.XAI_API_KEY }}\n",
    ),
    (find_stray_secrets, FULL, DAYTONA, "${{ secrets.DAYTONA_API_KEY }}"),
    (find_stray_secrets, FULL, "row: ${{ toJSON(matrix) }}", "row: ${{ toJSON(secrets) }}"),
    (
        find_stray_secrets,
        PRIVATE,
        "private-key: ${{ secrets.RUNNER_E2E_CATALOG_APP_KEY }}",
        "private-key: ${{ secrets.XAI_API_KEY }}",
    ),
    (
        find_stray_secrets,
        PRIVATE,
        "token: ${{ steps.catalog-token.outputs.token }}",
        "token: ${{ secrets.PAT }}",
    ),
    (
        find_stray_tokens,
        FULL,
        "          row: ${{ toJSON(matrix) }}\n",
        "          row: ${{ toJSON(matrix) }}\n          github-token: ${{ github.token }}\n",
    ),
    (find_stray_tokens, PRIVATE, "PAPERCLIP_PLAYWRIGHT_CHANNEL: chrome", "GH_TOKEN: ${{ github.token }}"),
    (find_stray_tokens, FULL, "permissions: {}\n", "permissions: {}\nenv:\n  T: ${{ github.token }}\n"),
    (find_loose_credentials, FULL, OPENAI, "${{ secrets[matrix.credentialName]"),
    (find_loose_credentials, FULL, OPENAI, OPENAI.replace("secrets.OPENAI", "secrets.XAI")),
    (find_loose_credentials, FULL, OPENAI, "${{ secrets.OPENAI_API_KEY"),
    (find_loose_credentials, PRIVATE, XAI, ""),
    (find_loose_credentials, PRIVATE, XAI, XAI.replace("XAI_API_KEY", "APP_KEY")),
    (find_loose_credentials, FULL, "credential-name: ${{ matrix.credentialName }}", "credential-name: X"),
    (find_loose_credentials, FULL, DAYTONA, DAYTONA.replace("matrix.environmentId == 'daytona' && ", "")),
    # What runs cells
    (find_second_cells, FULL, "command: run-cell", "command: plan"),
    (find_second_cells, FULL, "command: report", "command: run-cell"),
    (find_second_cells, FULL, "    environment: runner-e2e-paid\n", ""),
    (find_second_cells, PRIVATE, "environment: runner-e2e-paid\n    permissions: {} #", "permissions: {} #"),
    (find_second_cells, FULL, "matrix.key || matrix.executionId", "matrix.executionId"),
    (find_second_cells, PRIVATE, "fail-fast: false", "fail-fast: true"),
    (find_second_cells, FULL, "      - name: Run the cell\n", "      - name: Run\n        if: always()\n"),
    (
        find_second_cells,
        PRIVATE,
        "      - name: Run the cell\n",
        "      - name: Run\n        continue-on-error: true\n",
    ),
    (find_second_cells, FULL, "row: ${{ toJSON(matrix) }}", "id: x.y.local.z"),
    (find_running_scripts, FULL, " --frozen-lockfile --ignore-scripts", " --frozen-lockfile"),
    (find_running_scripts, FULL, " --frozen-lockfile --ignore-scripts", " --ignore-scripts"),
    (find_running_scripts, PRIVATE, "command -v google-chrome", "npm install --global chrome"),
    # What a job may do
    (find_inexact_permissions, FULL, "      actions: read #", "      contents: read #"),
    (find_inexact_permissions, FULL, "      actions: read #", "      actions: read\n      contents: read #"),
    (find_inexact_permissions, FULL, "    permissions:\n      contents: read\n", ""),
    (find_inexact_permissions, PRIVATE, "    permissions: {} #", "    permissions: {contents: read} #"),
    # What ends it
    (find_shared_groups, FULL, "github.run_id) }}", "github.ref) }}"),
    (find_shared_groups, FULL, "runner-e2e-protected-{0}', github.run_id", "x-{0}', github.run_id"),
    (find_shared_groups, FULL, "  cancel-in-progress: >-\n", "  cancel-in-progress: true\n  x: >-\n"),
    (
        find_shared_groups,
        FULL,
        " && inputs.target_branch != github.event.repository.default_branch }}",
        " }}",
    ),
    (find_shared_groups, PRIVATE, "protected-${{ github.run_id }}", "protected-${{ github.ref }}"),
    (find_shared_groups, PRIVATE, "cancel-in-progress: false", "cancel-in-progress: true"),
    # What comes out of it
    (find_lost_reports, FULL, CONDITION, "${{ !cancelled() }}"),
    (find_lost_reports, FULL, CONDITION, "${{ always() }}"),
    (find_lost_reports, PRIVATE, f"    if: {CONDITION}\n", ""),
    (find_lost_reports, PRIVATE, "needs: [authorize, plan, cells]", "needs: [authorize, plan]"),
    (find_lost_reports, FULL, "command: report", "command: doctor"),
    (find_lost_reports, FULL, "        continue-on-error: true\n", ""),
    (find_lost_reports, FULL, FETCH_AGAIN, ""),
    (find_lost_reports, FULL, "runner-e2e-plan-${{ github.run_id }}-*", "runner-e2e-plan-*"),
    (find_lost_reports, PRIVATE, "runner-e2e-${{ github.run_id }}-*", "runner-e2e-*-*"),
    (
        find_lost_reports,
        PRIVATE,
        "          path: artifacts\n",
        "          path: artifacts\n          merge-multiple: true\n",
    ),
    (find_lost_reports, FULL, "      - name: Report\n", "      - name: Report\n        if: success()\n"),
    (
        find_lost_reports,
        FULL,
        "          matrix-sha256: ${{ needs.plan.outputs.matrix-sha256 }}\n          cell-count",
        "          cell-count",
    ),
    (
        find_lost_reports,
        CAMPAIGN,
        "cell-count: ${{ needs.plan.outputs.cell-count }}",
        "cell-count: '1'",
    ),
    (
        find_lost_reports,
        CAMPAIGN,
        "      - name: Report\n",
        "      - name: Report\n        continue-on-error: true\n",
    ),
    (
        find_lost_reports,
        CAMPAIGN,
        "    permissions:\n      actions: read # which",
        "    permissions: {} # which",
    ),
    (find_lost_reports, CAMPAIGN, CONDITION, "${{ needs.plan.result == 'success' }}"),
    (find_lost_reports, CAMPAIGN, "needs: [plan, cells]", "needs: plan"),
    (
        find_stray_tokens,
        CAMPAIGN,
        "          row: ${{",
        "          github-token: ${{ github.token }}\n          row: ${{",
    ),
    # What nobody may see
    (find_named_cells, PRIVATE, "      keys:\n", "      case:\n"),
    (find_named_cells, PRIVATE, "opaque-keys: 'true'", "opaque-keys: 'false'"),
    (find_named_cells, PRIVATE, "          require-hidden-id: 'true'\n", ""),
    (find_named_cells, PRIVATE, "          key-secret: ${{ secrets.RUNNER_E2E_KEY_SECRET }}\n", ""),
    (find_named_cells, PRIVATE, "          hide: ${{ github.workspace }}/catalog\n", ""),
    (find_named_cells, PRIVATE, "path: bundle", "path: ${{ matrix.executionId }}"),
    (find_named_cells, PRIVATE, "matrix.key || matrix.executionId", "matrix.key || matrix.caseId"),
    (find_loose_tokens, PRIVATE, "permission-contents: read", "permission-contents: write"),
    (find_loose_tokens, PRIVATE, "          permission-contents: read\n", ""),
    (
        find_loose_tokens,
        PRIVATE,
        "repositories: ${{ vars.RUNNER_E2E_CATALOG_REPOSITORY }}",
        "repositories: ''",
    ),
    (find_loose_tokens, PRIVATE, "owner: ${{ github.repository_owner }}", "owner: ${{ vars.OWNER }}"),
    (
        find_loose_tokens,
        PRIVATE,
        "permission-contents: read",
        "permission-contents: read\n          skip-token-revoke: true",
    ),
    (find_loose_tokens, PRIVATE, "      - *check-request\n", ""),
    (find_loose_tokens, PRIVATE, '[[ "$CATALOG_REPOSITORY" =~ ^[A-Za-z0-9._-]+$ ]] ||', "true ||"),
    (
        find_loose_tokens,
        PRIVATE,
        "      matrix: ${{ steps.plan.outputs.matrix }}\n",
        "      matrix: ${{ steps.catalog-token.outputs.token }}\n",
    ),
    (find_loose_tokens, PRIVATE, "    environment: runner-e2e-paid\n", ""),
    (find_moving_catalogs, PRIVATE, "ref: ${{ inputs.catalog_sha }}", "ref: main"),
    (find_moving_catalogs, PRIVATE, "      - *check-catalog\n", ""),
    (find_moving_catalogs, PRIVATE, 'run: test "$(git -C catalog rev-parse HEAD)"', 'run: test "x"'),
    (find_mixed_code, PRIVATE, "command -v google-chrome", "pnpm exec playwright install"),
    (
        find_mixed_code,
        PRIVATE,
        "      - name: Prepare the host\n",
        "      - name: Prepare the host\n        working-directory: target\n",
    ),
    (
        find_mixed_code,
        PRIVATE,
        "      - *catalog-token\n",
        f"      - name: Target\n        {CHECKOUT}\n        with: {{path: target}}\n      - *catalog-token\n",
    ),
    (
        find_overlaid_catalogs,
        PRIVATE,
        "      - *check-request\n      - *pnpm\n",
        "      - *check-request\n      - *checkout-catalog\n      - *pnpm\n",
    ),
    (find_overlaid_catalogs, PRIVATE, "target.tar.gz -- target\n", "target.tar.gz\n"),
    (find_overlaid_catalogs, PRIVATE, "          test -d target -a ! -L target\n", ""),
]


# That the templates keep these rules is in test_workflow_rules.py.
@pytest.mark.parametrize(
    ("rule", "path", "kept", "broken"),
    [pytest.param(*breach, id=f"{breach[0].__name__}-{number}") for number, breach in enumerate(BREACHES)],
)
def test_the_rule_notices_a_breach(rule: Rule, path: Path, kept: str, broken: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert kept in text

    assert rule(text) == []
    assert rule(text.replace(kept, broken)) != []


def test_every_rule_has_a_breach() -> None:
    assert {breach[0] for breach in BREACHES} == {
        *IN_PAID_TEMPLATES,
        *IN_PRIVATE_TEMPLATES,
        find_lost_reports,
    }
