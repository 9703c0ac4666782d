"""What jobs hand on is there, unchanged and unmistakable, and each rule notices when it is not."""

from pathlib import Path

import pytest

from action.handover_rules import (
    find_missing_outputs,
    find_refused_artifacts,
    find_unchecked_archives,
)
from action.workflow_rules import FULL, PRIVATE, Rule

pytestmark = pytest.mark.action

CHECK_TARGET = "printf '%s  bundle/target.tar.gz\\n' \"$TARGET_SHA256\" | sha256sum --check --strict"
CHECK_PACK = "printf '%s  pack/pack.tar.gz\\n' \"$PACK_SHA256\" | sha256sum --check --strict"
UNPACK_TARGET = "tar --extract --gzip --no-same-owner --file bundle/target.tar.gz -- target"


# That the templates keep these rules is in test_workflow_rules.py.
@pytest.mark.parametrize(
    ("rule", "path", "kept", "broken"),
    [
        pytest.param(rule, path, kept, broken, id=f"{rule.__name__}-{number}")
        for number, (rule, path, kept, broken) in enumerate(
            [
                (find_missing_outputs, FULL, "steps.plan.outputs.matrix }}", "steps.plan.outputs.rows }}"),
                (find_missing_outputs, FULL, "steps.lock.outputs.sha256", "steps.locks.outputs.sha256"),
                (find_missing_outputs, FULL, 'echo "sha256=', 'echo "digest='),
                (find_missing_outputs, FULL, "needs.bundle.outputs.sha256", "needs.bundle.outputs.digest"),
                (find_missing_outputs, FULL, "needs: [authorize, plan, cells]", "needs: [plan, cells]"),
                (
                    find_missing_outputs,
                    PRIVATE,
                    "steps.catalog-token.outputs.token",
                    "steps.catalog-token.outputs.key",
                ),
                (
                    find_missing_outputs,
                    PRIVATE,
                    "needs: [authorize, target, plan]",
                    "needs: [authorize, plan]",
                ),
                (
                    find_unchecked_archives,
                    FULL,
                    f"          {CHECK_PACK}\n",
                    "",
                ),
                (find_unchecked_archives, FULL, "sha256sum --check --strict", "sha256sum"),
                (
                    find_unchecked_archives,
                    FULL,
                    "PACK_SHA256: ${{ needs.provider_pack.outputs.sha256 }}",
                    "PACK_SHA256: pack.sha256",
                ),
                (
                    find_unchecked_archives,
                    PRIVATE,
                    f"          {CHECK_TARGET}\n          {UNPACK_TARGET}\n",
                    f"          {UNPACK_TARGET}\n          {CHECK_TARGET}\n",
                ),
                (
                    find_unchecked_archives,
                    PRIVATE,
                    "          set -euo pipefail\n          printf '%s  bundle",
                    "          printf '%s  bundle",
                ),
                (
                    find_refused_artifacts,
                    FULL,
                    "name: runner-e2e-target-pnpm-lock-${{ github.run_id }}-${{ github.run_attempt }}",
                    "name: runner-e2e-target-pnpm-lock-${{ github.run_id }}",
                ),
                (find_refused_artifacts, FULL, "name: runner-e2e-target-pnpm-lock", "name: runner/lock"),
                (find_refused_artifacts, PRIVATE, "if-no-files-found: error", "if-no-files-found: warn"),
                (find_refused_artifacts, PRIVATE, "retention-days: 1", "overwrite: true"),
            ]
        )
    ],
)
def test_the_rule_notices_a_breach(rule: Rule, path: Path, kept: str, broken: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert kept in text

    assert rule(text) == []
    assert rule(text.replace(kept, broken)) != []
