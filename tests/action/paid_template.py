"""Runs a paid template with `act`: its target lies on this machine, and its cells cost nothing.

What only GitHub and package registries have is replaced by stand-ins; of the template's own text, `CHANGES`
names all that a test has to change.
"""

from __future__ import annotations

import json
import shlex
import stat
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from action.act import Performance, commit, perform
from action.github_api import serving
from action.target_api import TargetApi
from action.workflow_rules import PROJECT
from e2e.target_checkout import Target, make_target, make_up_credential
from unit.authorized_run import ALLOWED, DISPATCH, ENVIRON, REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

CREDENTIAL = make_up_credential("OPENROUTER_API_KEY")
TOKEN = "ghs_a-secret-token"
STAND_INS = {
    "actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1": "checkout",
    "actions/create-github-app-token@bcd2ba49218906704ab6c1aa796996da409d3eb1": "app_token",
    "actions/setup-node@820762786026740c76f36085b0efc47a31fe5020": "set_up",
    "pnpm/action-setup@0977fd99725f1db4007ccb2928dbb4e90d06cc86": "set_up",
}
# Profiles of the tests' target have other names, and a test may run as root.
CHANGES = {
    '"profileId":"runner-\'': '"profileId":"native"\'',
    "command: run-cell\n": "command: run-cell\n          allow-root: 'true'\n",
}
_NAME, _NUMBER = str(REPOSITORY["full_name"]), int(str(REPOSITORY["id"]))


@dataclass(frozen=True, slots=True)
class Stage:
    """Where a template is run: the project, a directory of the test, an environment, and the target."""

    clone: Path
    place: Path
    environment: Path
    target: Target

    @property
    def repositories(self) -> Path:
        """Where the stand-in for checkouts looks, by owner and name."""
        return self.place / "repositories"


def set_stage(clone: Path, place: Path, environment: Path) -> Stage:
    """Make the target's repository, and the programs that the set-up actions put on the search path."""
    made = make_target(place)
    script = made.path / "packages/paperclip-runner/scripts/materialize-opencode-binary.mjs"
    script.parent.mkdir(parents=True)
    script.write_text("export {};\n")
    with (made.path / ".gitignore").open("a") as file:
        file.write("node_modules/\n")
    commit(made.path)
    repository = place / "repositories" / _NAME
    repository.parent.mkdir(parents=True)
    made.path.rename(repository)
    pnpm = [sys.executable, str(PROJECT / "tests/action/programs/pnpm.py"), str(PROJECT / "lib")]
    programs = {
        "pnpm": f'exec {shlex.join(pnpm)} "$@"',
        "sudo": 'exec "$@"',
        "google-chrome": "exit 1",
    }
    (place / "programs").mkdir()
    for name, line in programs.items():
        path = place / "programs" / name
        path.write_text(f"#!/bin/sh\n{line}\n")
        path.chmod(stat.S_IRWXU | stat.S_IRGRP | stat.S_IXGRP | stat.S_IROTH | stat.S_IXOTH)
    sha = (repository / ".git/refs/heads/main").read_text().strip()
    return Stage(clone, place, environment, replace(made, path=repository, sha=sha))


def perform_template(
    stage: Stage,
    template: Path,
    inputs: Mapping[str, str],
    *,
    variables: Mapping[str, str] | None = None,
    secrets: Mapping[str, str] | None = None,
    allowed: Sequence[int] = ALLOWED,
    cells: Sequence[str] = (),
) -> Performance:
    """Dispatch a template with `inputs`, and with variables and secrets of its repository.

    `cells` are the jobs that the API knows of the run.
    """
    text = template.read_text(encoding="utf-8")
    for kept, changed in CHANGES.items():
        text = text.replace(kept, changed)
    workflow = f"workflows/{template.name}"
    (stage.clone / workflow).write_text(text, encoding="utf-8")
    commit(stage.clone)
    event = stage.place / "event.json"
    event.write_text(json.dumps({**DISPATCH, "inputs": dict(inputs)}), encoding="utf-8")
    known = {"GITHUB_TOKEN": TOKEN, "OPENROUTER_API_KEY": CREDENTIAL, **(secrets or {})}
    secret_file = stage.place / "secrets"
    secret_file.write_text("".join(f"{name}={value}\n" for name, value in known.items()), encoding="utf-8")
    owner = _NAME.partition("/")[0]
    with serving(TargetApi(stage.target.path, _NAME, _NUMBER, cells).reply) as api:
        environ = {
            "GITHUB_ACTOR_ID": ENVIRON["GITHUB_ACTOR_ID"],
            "GITHUB_API_URL": api.url,
            "GITHUB_REF_NAME": "main",
            "GITHUB_REPOSITORY": _NAME,
            "GITHUB_REPOSITORY_ID": str(_NUMBER),
            "GITHUB_REPOSITORY_OWNER": owner,
            "GITHUB_TRIGGERING_ACTOR": ENVIRON["GITHUB_ACTOR"],
            "PROGRAMS": str(stage.place / "programs"),
            "REPOSITORIES": str(stage.repositories),
        }
        settings = {"RUNNER_E2E_ALLOWED_ACTOR_IDS": json.dumps(allowed), **(variables or {})}
        return perform(
            stage.clone,
            stage.place,
            stage.environment,
            {},
            workflow=workflow,
            event=event,
            options=[
                f"--actor={ENVIRON['GITHUB_ACTOR']}",
                f"--secret-file={secret_file}",
                f"--local-repository=paperclip/runner-e2e-action@v1={stage.clone}",
                *(f"--local-repository={name}={PROJECT}/tests/action/{at}" for name, at in STAND_INS.items()),
                *(f"--env={name}={value}" for name, value in environ.items()),
                *(f"--var={name}={value}" for name, value in settings.items()),
            ],
        )


def read_json(done: Performance, path: str) -> dict[str, Any]:
    """Return a JSON object of an uploaded artifact."""
    content: dict[str, Any] = json.loads((done.artifacts / path).read_bytes())
    return content


def find_uploads(done: Performance) -> set[str]:
    """Return the names of all artifacts."""
    return {path.name for path in done.artifacts.iterdir() if path.is_dir()}


def find_jobs(done: Performance) -> set[str]:
    """Return the ids of all jobs that had a step."""
    return {str(event["jobID"]) for event in done.events if "jobID" in event and "step" in event}


def holds(done: Performance, word: str) -> list[str]:
    """Return where a word stands: in the log, the summary, and files of artifacts."""
    found = [name for name, text in {"log": done.log, "summary": done.summary}.items() if word in text]
    encoded = word.encode()
    found += [
        str(path.relative_to(done.artifacts))
        for path in done.artifacts.rglob("*")
        if encoded in str(path.relative_to(done.artifacts)).encode()
        or (path.is_file() and encoded in path.read_bytes())
    ]
    return found
