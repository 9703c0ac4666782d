"""Runs a workflow of this project with `act` in host mode, as a runner would: steps, files, log.

The workflow sees a committed clone of the work tree, so that a test may change what it runs, and an
environment that already holds the locked packages, so that nothing is fetched.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from action.workflow_rules import PROJECT

# The actions that need GitHub's artifact service, and what takes their place.
STAND_INS = {
    "actions/upload-artifact@043fb46d1a93c77aae656e7c1c64a875d1fc6a0a": "upload_artifact",
    "actions/download-artifact@3e5f45b2cfb9172054b4087a40e8e0b5a5461e7c": "download_artifact",
}
LEFT_OUT = ("tests/browser/", "tests/kernel/", "tests/paperclip/", "tests/unit/")
RUNNER_LABEL = "ubuntu-24.04"
DEADLINE_S = 180


@dataclass(frozen=True, slots=True)
class Performance:
    """What one workflow run left behind; `events` are the lines of its log as `act` tells of them."""

    exit_code: int
    outcome: str
    outputs: Mapping[str, str]
    summary: str
    log: str
    annotations: Sequence[str]
    artifacts: Path
    later_environment: str
    events: Sequence[Mapping[str, Any]]

    @property
    def artifact_names(self) -> set[str]:
        """The names of the uploaded artifacts."""
        return {path.name for path in self.artifacts.iterdir() if path.is_dir()}

    def artifact_files(self, name: str) -> set[str]:
        """Return the names of an uploaded artifact's files."""
        directory = self.artifacts / name
        return {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}


def clone_work_tree(target: Path) -> None:
    """Copy what is tracked or would be, and commit it there: `act` reads the last commit.

    Tests that no workflow runs anything of stay away: `act` would copy them for each job.
    """
    listed = subprocess.run(
        # The checkout may belong to someone else than who runs the tests.
        ["git", "-c", "safe.directory=*", "ls-files", "-z", "-co", "--exclude-standard"],
        cwd=PROJECT,
        check=True,
        capture_output=True,
    ).stdout
    for name in filter(None, listed.decode().split("\0")):
        source = PROJECT / name
        if source.is_file() and not name.startswith(LEFT_OUT):
            copy = target / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, copy)
    git(target, "init", "--quiet", "--initial-branch=main")
    commit(target)


def commit(repository: Path) -> None:
    """Commit everything in `repository`."""
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "--message", "tested")


def git(repository: Path, *arguments: str) -> None:
    """Run git there, independent of a person's own settings."""
    identity = ["-c", "user.name=test", "-c", "user.email=test@localhost"]
    environ = {
        "PATH": os.environ["PATH"],
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
    }
    subprocess.run(["git", *identity, *arguments], cwd=repository, check=True, env=environ)


def copy_environment(target: Path) -> None:
    """Copy the environment the tests run in; `scripts/prepare` adopts it without fetching.

    It is a copy because preparing links an environment to the project that prepares it.
    """

    def skip(_: str, names: list[str]) -> set[str]:
        return {name for name in names if name.startswith(("runner-e2e.", "__pycache__"))}

    shutil.copytree(sys.prefix, target, symlinks=True, ignore=skip, copy_function=_link_or_copy)


def _link_or_copy(source: str, target: str) -> str:
    try:
        os.link(source, target)
    except OSError:  # another file system, or files of another user
        shutil.copy2(source, target)
    return target


def perform(
    repository: Path,
    home: Path,
    environment: Path,
    inputs: Mapping[str, str],
    *,
    workflow: str = "cell.yml",
    options: Sequence[str] = (),
    event: Path | None = None,
) -> Performance:
    """Dispatch a workflow and collect what it left.

    `workflow` is one of `tests/action/workflows`, or a path in the repository. `inputs` reach `act` in an
    event file, as the runner gets them: an argument could be read by every process. `event` is a whole event
    file instead. `options` are further ones of `act`.
    """
    record, artifacts = home / "record", home / "artifacts"
    for directory in (record, artifacts, home / "cache"):
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
    command = [
        f"{sys.prefix}/bin/act",
        "workflow_dispatch",
        "--json",
        f"--workflows={workflow if '/' in workflow else f'tests/action/workflows/{workflow}'}",
        f"--platform={RUNNER_LABEL}=-self-hosted",
        *(f"--local-repository={action}={PROJECT}/tests/action/{name}" for action, name in STAND_INS.items()),
        f"--env=RECORD_DIRECTORY={record}",
        f"--env=UPLOAD_STORE={artifacts}",
        f"--env=RUNNER_E2E_VENV={environment}",
        f"--eventpath={event or _write_event(home, inputs)}",
        *options,
    ]
    done = subprocess.run(
        command,
        cwd=repository,
        # Nothing of the surroundings but what finds programs: a person's CI may run this too.
        env={"PATH": os.environ["PATH"], "HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return Performance(
        exit_code=done.returncode,
        outcome=_read(record / "outcome"),
        outputs=json.loads(_read(record / "outputs.json") or "{}"),
        summary="".join(e["content"] for e in events if e.get("command") == "summary"),
        log="\n".join(str(event.get("msg", "")) for event in events) + done.stderr,
        annotations=[str(e.get("arg", "")) for e in events if e.get("command") == "error"],
        artifacts=artifacts,
        later_environment=_read(record / "environment"),
        events=events,
    )


def _write_event(home: Path, inputs: Mapping[str, str]) -> Path:
    path = home / "event.json"
    path.write_text(json.dumps({"inputs": dict(inputs)}), encoding="utf-8")
    return path


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""
