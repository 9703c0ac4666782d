"""The project's release: who may start it, what it refuses, and which tags it makes and moves."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from action.release_rules import find_loose_releases
from action.workflow_rules import PROJECT, jobs

pytestmark = pytest.mark.action

TEXT = (PROJECT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
OLD, NEW = "a" * 40, "b" * 40


@dataclass(frozen=True, slots=True)
class Done:
    """How a step ended, and what there is on the server then."""

    exit_code: int
    said: str
    state: dict[str, Any]

    @property
    def tags(self) -> dict[str, str]:
        return {ref.removeprefix("refs/tags/"): sha for ref, sha in self.state["refs"].items()}


def run_step(place: Path, name: str, state: Mapping[str, object], **environ: str) -> Done:
    """Run the script of a step as the runner does, with a stand-in for `gh`."""
    (script,) = (
        step["run"] for job in jobs(TEXT).values() for step in job["steps"] if step.get("name") == name
    )
    program = PROJECT / "tests/action/programs/gh.py"
    command = place / "gh"
    command.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, str(program)])} "$@"\n')
    command.chmod(0o755)
    (place / "notes.md").write_text("The notes.")
    (place / "state.json").write_text(json.dumps({"refs": {}, "releases": {}, "passed": [], **state}))
    done = subprocess.run(
        ["bash", "-e", "-c", script],
        cwd=PROJECT,
        env={
            "PATH": f"{place}:{os.environ['PATH']}",
            "GH_STATE": str(place / "state.json"),
            "GH_TOKEN": "t",
            "GITHUB_REPOSITORY": "owner/project",
            "RUNNER_TEMP": str(place),
            **environ,
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return Done(done.returncode, done.stdout + done.stderr, json.loads((place / "state.json").read_bytes()))


def publish(
    place: Path, version: str, sha: str, tags: Mapping[str, str], releases: Sequence[str] = ()
) -> Done:
    state = {
        "refs": {f"refs/tags/{tag}": at for tag, at in tags.items()},
        "releases": dict.fromkeys(releases, "Older notes."),
    }
    return run_step(place, "Publish", state, VERSION=version, SHA=sha)


def test_the_first_release_makes_its_tag_and_the_major_one(tmp_path: Path) -> None:
    done = publish(tmp_path, "1.0.0", NEW, {})

    assert done.exit_code == 0, done.said
    assert done.tags == {"v1.0.0": NEW, "v1": NEW}
    assert done.state["releases"] == {"v1.0.0": "The notes."}


def test_a_later_release_moves_the_major_tag_and_no_other(tmp_path: Path) -> None:
    there = {"v0.9.0": OLD, "v0": OLD, "v1.9.0": OLD, "v1": OLD}

    done = publish(tmp_path, "1.10.0", NEW, there)

    assert done.exit_code == 0, done.said
    assert done.tags == {**there, "v1.10.0": NEW, "v1": NEW}


def test_a_new_major_version_leaves_the_old_major_tag(tmp_path: Path) -> None:
    done = publish(tmp_path, "2.0.0", NEW, {"v1.0.0": OLD, "v1": OLD})

    assert done.tags == {"v1.0.0": OLD, "v1": OLD, "v2.0.0": NEW, "v2": NEW}


def test_a_version_that_was_published_from_another_commit_is_refused(tmp_path: Path) -> None:
    there = {"v1.0.0": OLD, "v1": OLD}

    done = publish(tmp_path, "1.0.0", NEW, there, ["v1.0.0"])

    assert done.exit_code == 1
    assert "published already" in done.said
    assert (done.tags, done.state["releases"]) == (there, {"v1.0.0": "Older notes."})


@pytest.mark.parametrize("releases", [[], ["v1.1.0"]], ids=["without-release", "with-release"])
def test_a_release_that_stopped_in_the_middle_is_finished(tmp_path: Path, releases: list[str]) -> None:
    there = {"v1.0.0": OLD, "v1": OLD, "v1.1.0": NEW}

    done = publish(tmp_path, "1.1.0", NEW, there, releases)

    assert done.exit_code == 0, done.said
    assert done.tags == {**there, "v1": NEW}
    assert list(done.state["releases"]) == ["v1.1.0"]


def test_an_old_release_that_is_run_again_does_not_move_the_major_tag_back(tmp_path: Path) -> None:
    there = {"v1.9.0": OLD, "v1.10.0": NEW, "v1": NEW}

    done = publish(tmp_path, "1.9.0", OLD, there, ["v1.9.0", "v1.10.0"])

    assert done.exit_code == 0, done.said
    assert done.tags == there


@pytest.mark.parametrize(("passed", "exit_code"), [([NEW], 0), ([OLD], 1), ([], 1)])
def test_only_a_commit_that_ci_passed_is_released(tmp_path: Path, passed: list[str], exit_code: int) -> None:
    done = run_step(tmp_path, "Refuse a commit that CI did not pass", {"passed": passed}, SHA=NEW)

    assert done.exit_code == exit_code, done.said
    assert ("::error::" in done.said) == (exit_code == 1)


@pytest.mark.parametrize(
    ("ref", "exit_code"),
    [("refs/heads/main", 0), ("refs/heads/other", 1), ("refs/tags/main", 1), ("refs/heads/main2", 1)],
)
def test_only_main_is_released(tmp_path: Path, ref: str, exit_code: int) -> None:
    assert run_step(tmp_path, "Refuse anything but main", {}, REF=ref).exit_code == exit_code


def test_a_version_that_the_project_does_not_have_is_refused(tmp_path: Path) -> None:
    name = "Refuse a version that the project does not agree on"

    done = run_step(tmp_path, name, {}, VERSION="99.0.0")

    assert done.exit_code == 2
    assert "pyproject.toml has version" in done.said


def test_the_release_keeps_its_rules() -> None:
    assert find_loose_releases(TEXT) == []


@pytest.mark.parametrize(
    ("kept", "broken"),
    [
        pytest.param("  workflow_dispatch:", "  push:\n  workflow_dispatch:", id="trigger"),
        pytest.param("permissions: {}", "permissions: {contents: write}", id="top-permissions"),
        pytest.param("actions: read #", "actions: write #", id="check-writes"),
        pytest.param(
            "contents: write #", "contents: write\n      packages: write #", id="publish-writes-more"
        ),
        pytest.param("    needs: check\n", "", id="no-check"),
        pytest.param("    environment: release\n", "", id="no-environment"),
        pytest.param("    needs: check\n", "    needs: check\n    if: always()\n", id="check-ignored"),
        pytest.param("cancel-in-progress: false", "cancel-in-progress: true", id="cancelled"),
        pytest.param(
            "      - name: Write the notes\n",
            f"      - uses: some/release@{'0' * 40} # v1.0.0\n      - name: Write the notes\n",
            id="third-party",
        ),
        pytest.param(
            "      - name: Write the notes\n        env:\n",
            "      - name: Write the notes\n        env:\n          GH_TOKEN: ${{ github.token }}\n",
            id="second-token",
        ),
    ],
)
def test_the_rule_notices_a_breach(kept: str, broken: str) -> None:
    assert kept in TEXT

    assert find_loose_releases(TEXT.replace(kept, broken)) != []
