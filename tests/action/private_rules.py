"""What a workflow keeps to whose cells are private: no name in the clear, a token for one thing. Pure.

Each rule takes the text of a template and returns what breaks it.
"""

import re

from action.workflow_rules import Rule, Step, flatten, is_own, is_use_of, jobs, parse

CATALOG_SHA = "${{ inputs.catalog_sha }}"
CATALOG_NAME = "${{ vars.RUNNER_E2E_CATALOG_REPOSITORY }}"

_APP_TOKEN = "actions/create-github-app-token"
_TOKEN = "${{ steps.catalog-token.outputs.token }}"
_NAMING_INPUTS = frozenset({"case", "cell", "cells", "execution_id", "id", "suite"})
_NAMING_FIELDS = ("matrix.executionId", "matrix.caseId", "matrix.suiteId", "matrix.profileId")
_CELL_NAME = "${{ matrix.key || matrix.executionId }}"
_NEEDED = {
    "plan": {"opaque-keys": "true", "key-secret": "${{ secrets.RUNNER_E2E_KEY_SECRET }}"},
    "resolve": {"require-hidden-id": "true"},
    "run-cell": {
        "hide": "${{ github.workspace }}/catalog",
        "key-secret": "${{ secrets.RUNNER_E2E_KEY_SECRET }}",
        "require-hidden-id": "true",
    },
}
_TARGET_CODE = re.compile(r"\b(?:pnpm|npm|npx|yarn|corepack|playwright)\b|\bnode [^-\"]|\bcd target\b")

_UNPACK = re.compile(r"\btar --extract\b[^\n]*")
_NO_LINK = "test -d target -a ! -L target"


def find_named_cells(text: str) -> list[str]:
    """Inputs, jobs and artifacts carry keys; the action gets what it needs to make and to read them."""
    dispatched = parse(text)["on"]["workflow_dispatch"]["inputs"]
    found = sorted(_NAMING_INPUTS & set(dispatched))
    for name, job in jobs(text).items():
        parts = list(flatten(job))
        found += [f"{name}: {part}" for part in parts if part != _CELL_NAME and _names_cell(part)]
        for step in job["steps"]:
            needed = _NEEDED.get(step["with"]["command"], {}) if is_own(step) else {}
            found += [f"{name}: {key}" for key, value in needed.items() if step["with"].get(key) != value]
    return found


def find_loose_tokens(text: str) -> list[str]:
    """The app's token reads one repository, for one checkout, in a job that minted it and is protected."""
    found = []
    for name, job in jobs(text).items():
        mints = [number for number, step in enumerate(job["steps"]) if is_use_of(step, _APP_TOKEN)]
        for number in mints:
            found += [f"{name}: {problem}" for problem in _judge_mint(job["steps"][number])]
            if not any(_checks_request(step) for step in job["steps"][:number]):
                found.append(f"{name}: what the token is for was not checked")
        if mints and "environment" not in job:
            found.append(f"{name}: no environment")
        uses = [part for part in flatten(job) if "catalog-token.outputs" in part]
        checkouts = [step for step in job["steps"] if step.get("with", {}).get("token") == _TOKEN]
        if len(uses) != len(checkouts) or not all(is_use_of(step, "actions/checkout") for step in checkouts):
            found.append(f"{name}: the token goes elsewhere")
    return found


def find_moving_catalogs(text: str) -> list[str]:
    """The catalog is that of one commit: what a branch of such a name would hold is refused."""
    found = []
    for name, job in jobs(text).items():
        for number, step in enumerate(job["steps"]):
            if step.get("with", {}).get("token") != _TOKEN:
                continue
            after = job["steps"][number + 1]
            compared = 'test "$(git -C catalog rev-parse HEAD)" = "$CATALOG_SHA"' in after.get("run", "")
            exact = step["with"].get("ref") == CATALOG_SHA and step["with"].get("path") == "catalog"
            if not (exact and compared and after.get("env", {}).get("CATALOG_SHA") == CATALOG_SHA):
                found.append(f"{name}: {step['name']}")
    return found


def find_mixed_code(text: str) -> list[str]:
    """Where a secret or the catalog is, target code runs within the cell alone."""
    found = []
    for name, job in jobs(text).items():
        if "environment" not in job:
            continue
        for step in job["steps"]:
            own_checkout = is_use_of(step, "actions/checkout") and step["with"].get("token") != _TOKEN
            in_target = str(step.get("working-directory", "")).startswith("target")
            if own_checkout or in_target or _TARGET_CODE.search(step.get("run", "")):
                found.append(f"{name}: {step['name']}")
    return found


def find_overlaid_catalogs(text: str) -> list[str]:
    """What target code packed is unpacked while no catalog is there, and nothing beside the target with it.

    A hard link in an archive would be a second name of the catalog, open to agents; a member of its name
    would take its place.
    """
    found = []
    for name, job in jobs(text).items():
        steps = job["steps"]
        catalogs = [n for n, step in enumerate(steps) if step.get("with", {}).get("token") == _TOKEN]
        for number, step in enumerate(steps):
            unpacked = _UNPACK.findall(step.get("run", ""))
            alone = all(line.endswith(" -- target") for line in unpacked)
            is_late = any(catalog < number for catalog in catalogs)
            if unpacked and (is_late or not alone or _NO_LINK not in step["run"]):
                found.append(f"{name}: {step['name']}")
    return found


IN_PRIVATE_TEMPLATES: tuple[Rule, ...] = (
    find_named_cells,
    find_loose_tokens,
    find_moving_catalogs,
    find_mixed_code,
    find_overlaid_catalogs,
)


def _names_cell(part: str) -> bool:
    return any(field in part for field in _NAMING_FIELDS)


def _judge_mint(step: Step) -> list[str]:
    given = step["with"]
    permissions = {key: value for key, value in given.items() if key.startswith("permission-")}
    wrong = {
        "owner": given.get("owner") != "${{ github.repository_owner }}",
        "repositories": given.get("repositories") != CATALOG_NAME,
        "permissions": permissions != {"permission-contents": "read"},
        "skip-token-revoke": "skip-token-revoke" in given,
    }
    return [part for part, is_wrong in wrong.items() if is_wrong]


def _checks_request(step: Step) -> bool:
    """Whether a step refuses a commit that is none, and an empty name, which means every repository."""
    given, script = step.get("env", {}), step.get("run", "")
    return (
        given.get("CATALOG_SHA") == CATALOG_SHA
        and given.get("CATALOG_REPOSITORY") == CATALOG_NAME
        and '[[ "$CATALOG_SHA" =~ ^[0-9a-f]{40}$ ]] || refuse' in script
        and '[[ "$CATALOG_REPOSITORY" =~ ^[A-Za-z0-9._-]+$ ]] ||' in script
        and "exit 1" in script
        and "if" not in step
    )
