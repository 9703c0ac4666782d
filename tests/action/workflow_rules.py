"""What every workflow and action of this project keeps to, as rules over its text.

Each rule returns what breaks it; `test_workflow_rules.py` shows for each that it can be broken.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

PROJECT = Path(__file__).resolve().parents[2]
OWN_ACTION = "paperclip/runner-e2e-action@v1"

Document = dict[str, Any]
Rule = Callable[[str], list[str]]


def list_workflows() -> list[Path]:
    """Return the project's own workflows, the templates, and those the tests run."""
    folders = (".github/workflows", "workflows", "tests/action/workflows")
    return [path for folder in folders for path in sorted((PROJECT / folder).glob("*.yml"))]


def list_actions() -> list[Path]:
    """Return the action, and the stand-in that the tests give it."""
    return [PROJECT / "action.yml", *sorted((PROJECT / "tests/action").glob("*/action.yml"))]


def parse(text: str) -> Document:
    """Return a document; YAML reads the key `on` as a boolean, which is undone here."""
    document: dict[Any, Any] = yaml.safe_load(text)
    if True in document:
        document["on"] = document.pop(True)
    return document


def find_expressions_in_scripts(text: str) -> list[str]:
    """An expression is pasted into the script before the shell reads it."""
    return [step["run"] for step in _steps(parse(text)) if "${{" in step.get("run", "")]


def find_unpinned_actions(text: str) -> list[str]:
    """A tag moves; only a commit, with the version beside it for people, stays what it was."""
    found = []
    for reference, comment in re.findall(r"uses:\s*(\S+)[ \t]*(#.*)?", text):
        pinned = re.fullmatch(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}", reference)
        versioned = re.match(r"# v\d+\.\d+\.\d+", comment)
        if reference not in ("./", OWN_ACTION) and not (pinned and versioned):
            found.append(reference)
    return found


def find_broad_permissions(text: str) -> list[str]:
    """Nothing at the top, and what each job needs on the job."""
    document = parse(text)
    found = [] if document.get("permissions") == {} else ["top"]
    for name, job in document["jobs"].items():
        granted = job.get("permissions")
        if not isinstance(granted, dict) or set(granted.items()) - {("contents", "read")}:
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
        if step.get("uses", "").startswith("actions/checkout@")
        and step.get("with", {}).get("persist-credentials") is not False
    ]


def find_endless_jobs(text: str) -> list[str]:
    """A job without a deadline holds its runner for six hours."""
    return [name for name, job in parse(text)["jobs"].items() if "timeout-minutes" not in job]


def find_named_secrets(text: str) -> list[str]:
    """None of these needs a secret."""
    return re.findall(r"secrets\s*[.\[]\s*\S+", text)


def find_implicit_shells(text: str) -> list[str]:
    """A composite step does not start without one."""
    return [step["run"] for step in _steps(parse(text)) if "run" in step and "shell" not in step]


EVERYWHERE: tuple[Rule, ...] = (find_expressions_in_scripts, find_unpinned_actions)
IN_WORKFLOWS: tuple[Rule, ...] = (
    *EVERYWHERE,
    find_broad_permissions,
    find_refused_triggers,
    find_persisted_credentials,
    find_endless_jobs,
    find_named_secrets,
)
IN_TEMPLATES: tuple[Rule, ...] = (*IN_WORKFLOWS, find_paid_triggers)
IN_ACTIONS: tuple[Rule, ...] = (*EVERYWHERE, find_implicit_shells)


def _steps(document: Document) -> Iterator[dict[str, Any]]:
    for job in document.get("jobs", {}).values():
        yield from job.get("steps", [])
    yield from document.get("runs", {}).get("steps", [])
