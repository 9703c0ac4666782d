"""What every workflow and action of this project keeps to, as rules over its text.

Each rule returns what breaks it; `test_workflow_rules.py` shows for each that it can be broken. What holds
for paid templates alone is in `paid_rules` and `private_rules`, how jobs hand something on in
`handover_rules`, and what the action's surface and its documents say in `surface_rules`.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

PROJECT = Path(__file__).resolve().parents[2]
TEMPLATES = PROJECT / "workflows"
CAMPAIGN = TEMPLATES / "reference-campaign.yml"
FULL = TEMPLATES / "runner-full-stack-e2e.yml"
PRIVATE = TEMPLATES / "chat-catalog-testops-case.yml"
OWN_ACTION = "paperclip/runner-e2e-action@v1"

Document = dict[str, Any]
Job = dict[str, Any]
Step = dict[str, Any]
Rule = Callable[[str], list[str]]

_READABLE = frozenset({("actions", "read"), ("contents", "read")})
_LABELS = frozenset({"ubuntu-24.04"})
_LONGEST_JOB_MINUTES = 60
# What the platform takes for jobs, steps, inputs and outputs.
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,99}")
# A cell's id or case as an option of a command.
_CELL_OPTION = re.compile(r"--(?:id|case)\b")


def list_workflows() -> list[Path]:
    """Return the project's own workflows, the templates, and those the tests run."""
    folders = (".github/workflows", "workflows", "tests/action/workflows")
    return [path for folder in folders for path in sorted((PROJECT / folder).glob("*.yml"))]


def list_templates() -> list[Path]:
    """Return the workflows that people copy."""
    return sorted(TEMPLATES.glob("*.yml"))


def list_actions() -> list[Path]:
    """Return the action, and the stand-ins that the tests give it."""
    return [PROJECT / "action.yml", *sorted((PROJECT / "tests/action").glob("*/action.yml"))]


def parse(text: str) -> Document:
    """Return a document; YAML reads the key `on` as a boolean, which is undone here."""
    document: dict[Any, Any] = yaml.safe_load(text)
    if True in document:
        document["on"] = document.pop(True)
    return document


def jobs(text: str) -> dict[str, Job]:
    """Return the jobs of a workflow by name."""
    found: dict[str, Job] = parse(text)["jobs"]
    return found


def flatten(value: object) -> Iterator[str]:
    """Yield every text in a part of a document, keys too."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield str(key)
            yield from flatten(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from flatten(inner)
    else:
        yield str(value)


def is_own(step: Step, command: str | None = None) -> bool:
    """Whether a step is this action's, with a command if one is named."""
    return step.get("uses") == OWN_ACTION and command in (None, step.get("with", {}).get("command"))


def is_use_of(step: Step, action: str) -> bool:
    """Whether a step uses an action, in whatever version."""
    return str(step.get("uses", "")).startswith(f"{action}@")


def find_needs(job: Job) -> list[str]:
    """Return the jobs that one waits for."""
    needs = job.get("needs", [])
    return [needs] if isinstance(needs, str) else list(needs)


def find_expressions_in_scripts(text: str) -> list[str]:
    """An expression is pasted into the script before the shell reads it."""
    return [step["run"] for step in _steps(parse(text)) if "${{" in step.get("run", "")]


def find_unpinned_actions(text: str) -> list[str]:
    """A tag moves; only a commit, with the version beside it for people, stays what it was."""
    found = []
    for reference, comment in re.findall(r"uses:\s*(\S+)[ \t]*(#.*)?", text):
        pinned = re.fullmatch(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}", reference)
        versioned = re.match(r"# v\d+(\.\d+\.\d+)?$", comment)
        if reference not in ("./", OWN_ACTION) and not (pinned and versioned):
            found.append(reference)
    return found


def find_broad_permissions(text: str) -> list[str]:
    """Nothing at the top, and what each job needs on the job."""
    document = parse(text)
    found = [] if document.get("permissions") == {} else ["top"]
    for name, job in document["jobs"].items():
        granted = job.get("permissions")
        if not isinstance(granted, dict) or set(granted.items()) - _READABLE:
            found.append(name)
    return found


def find_refused_triggers(text: str) -> list[str]:
    """Only people and the clock start cells; changes start the project's own tests."""
    allowed = {"workflow_dispatch", "schedule", "push", "pull_request"}
    return sorted(set(parse(text)["on"]) - allowed)


def find_paid_triggers(text: str) -> list[str]:
    """A template is copied to where credentials are: no change may start it."""
    return sorted(set(parse(text)["on"]) - {"workflow_dispatch", "schedule"})


def find_persisted_credentials(text: str) -> list[str]:
    """A persisted token lies in the checkout, where what runs there can read it."""
    return [
        step["uses"]
        for step in _steps(parse(text))
        if is_use_of(step, "actions/checkout")
        and step.get("with", {}).get("persist-credentials") is not False
    ]


def find_endless_jobs(text: str) -> list[str]:
    """A job without a deadline holds its runner for six hours; that of a cell is in its row."""
    found = []
    for name, job in jobs(text).items():
        deadline = job.get("timeout-minutes")
        of_row = "strategy" in job and deadline == "${{ matrix.timeoutMinutes }}"
        fixed = isinstance(deadline, int) and 1 <= deadline <= _LONGEST_JOB_MINUTES
        if not (of_row or fixed):
            found.append(name)
    return found


def find_named_secrets(text: str) -> list[str]:
    """None of these needs a secret."""
    return re.findall(r"secrets\s*[.\[]\s*\S+", text)


def find_movable_labels(text: str) -> list[str]:
    """A label that an input, an output or a variable decides is one that somebody else decides."""
    return [name for name, job in jobs(text).items() if job.get("runs-on") not in _LABELS]


def find_caches(text: str) -> list[str]:
    """What a cache holds was written by another run, perhaps of somebody else's branch."""
    found = []
    for name, job in jobs(text).items():
        for step in job["steps"]:
            given = step.get("with", {})
            cached = [key for key in given if "cache" in key and given[key] is not False]
            by_itself = is_use_of(step, "actions/setup-node") and "package-manager-cache" not in given
            if cached or by_itself or "/cache" in str(step.get("uses", "")):
                found.append(f"{name}: {step['uses']}")
    return found


def find_cell_options(text: str) -> list[str]:
    """A command line can be read by every process, so no cell is named on one."""
    found = _CELL_OPTION.findall(text)
    for name, job in jobs(text).items():
        for step in job["steps"]:
            given = " ".join(flatten(step.get("env", {}))) if "run" in step else ""
            found += [f"{name}: {word}" for word in _CELL_NAMES if word in given]
    return found


def find_refused_names(text: str) -> list[str]:
    """A name that the platform does not take makes the whole file invalid."""
    document = parse(text)
    names = list((document["on"].get("workflow_dispatch") or {}).get("inputs", {}))
    for name, job in document["jobs"].items():
        names += [name, *job.get("outputs", {}), *(step["id"] for step in job["steps"] if "id" in step)]
    return [name for name in names if not _IDENTIFIER.fullmatch(name)]


def find_implicit_shells(text: str) -> list[str]:
    """A composite step does not start without one."""
    return [step["run"] for step in _steps(parse(text)) if "run" in step and "shell" not in step]


# What would put a cell's name into a script, and from there onto a command line.
_CELL_NAMES = (
    "matrix.executionId",
    "matrix.caseId",
    "matrix.key",
    "toJSON(matrix)",
    "inputs.id",
    "inputs.case",
    "inputs.keys",
)

EVERYWHERE: tuple[Rule, ...] = (find_expressions_in_scripts, find_unpinned_actions)
IN_ALL_WORKFLOWS: tuple[Rule, ...] = (
    *EVERYWHERE,
    find_refused_triggers,
    find_persisted_credentials,
    find_endless_jobs,
    find_refused_names,
)
IN_WORKFLOWS: tuple[Rule, ...] = (*IN_ALL_WORKFLOWS, find_broad_permissions, find_named_secrets)
IN_TEMPLATES: tuple[Rule, ...] = (
    *IN_ALL_WORKFLOWS,
    find_broad_permissions,
    find_paid_triggers,
    find_movable_labels,
    find_caches,
    find_cell_options,
)
IN_ACTIONS: tuple[Rule, ...] = (*EVERYWHERE, find_implicit_shells)


def _steps(document: Document) -> Iterator[Step]:
    for job in document.get("jobs", {}).values():
        yield from job.get("steps", [])
    yield from document.get("runs", {}).get("steps", [])
