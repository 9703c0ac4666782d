"""The scripts in the paid templates: what they refuse, and that a refusal is a sentence."""

import hashlib
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from action.act import commit, git
from action.workflow_rules import CAMPAIGN, FULL, PRIVATE, jobs

pytestmark = pytest.mark.action

SHA = "0123456789abcdef" * 2 + "01234567"


@dataclass(frozen=True, slots=True)
class Done:
    """How a script ended, what it printed, and its outputs."""

    exit_code: int
    said: str
    outputs: str


def run_script(template: Path, job: str, name: str, place: Path, **environ: str) -> Done:
    """Run the script of a step in `place`, as the workspace, with its own shell and working directory."""
    (step,) = (
        step for step in jobs(template.read_text(encoding="utf-8"))[job]["steps"] if step.get("name") == name
    )
    output = place / "outputs"
    done = subprocess.run(
        ["bash", "-e", "-c", step["run"]],
        cwd=place / step.get("working-directory", "."),
        env={
            "PATH": f"{place / 'bin'}:{os.environ['PATH']}",
            "GITHUB_OUTPUT": str(output),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "RUNNER_TEMP": str(place),
            **environ,
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    said = output.read_text() if output.exists() else ""
    return Done(done.returncode, done.stdout + done.stderr, said)


def add_program(place: Path, name: str, script: str) -> None:
    """Put a program on the search path of the scripts."""
    path = place / "bin" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def read_head(repository: Path) -> str:
    return (repository / ".git/refs/heads/main").read_text().strip()


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """A workspace with the target's checkout."""
    path = tmp_path / "target"
    path.mkdir()
    (path / "package.json").write_text("{}\n")
    git(path, "init", "--quiet", "--initial-branch=main")
    commit(path)
    return path


@pytest.mark.parametrize(("template", "job"), [(FULL, "target_lock"), (PRIVATE, "target")])
def test_a_lock_is_resolved_and_nothing_else_changes(
    template: Path, job: str, tmp_path: Path, target: Path
) -> None:
    add_program(tmp_path, "pnpm", "echo lock >pnpm-lock.yaml")

    done = run_script(template, job, "Resolve the lock", tmp_path, ARTIFACT_NAME="lock-1-1")

    assert done.exit_code == 0, done.said
    if template == FULL:
        digest = hashlib.sha256(b"lock\n").hexdigest()
        assert done.outputs == f"sha256={digest}\nartifact-name=lock-1-1\n"


@pytest.mark.usefixtures("target")
@pytest.mark.parametrize(("template", "job"), [(FULL, "target_lock"), (PRIVATE, "target")])
@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        pytest.param("echo 1 >pnpm-lock.yaml; echo 2 >>package.json", "::error::Resolving", id="changed"),
        pytest.param("echo 1 >pnpm-lock.yaml; echo 2 >.pnpmfile.cjs", "::error::Resolving", id="added"),
        pytest.param("echo 1 >pnpm-lock.yaml; rm package.json", "::error::Resolving", id="removed"),
        pytest.param(
            "mkdir p; echo 1 >pnpm-lock.yaml; echo 2 >p/pnpm-lock.yaml",
            "::error::Resolving",
            id="second-lock",
        ),
        pytest.param("true", "", id="no-lock"),
        pytest.param(": >pnpm-lock.yaml", "", id="empty-lock"),
        pytest.param("echo 1 >pnpm-lock.yaml; exit 3", "", id="failed"),
    ],
)
def test_anything_else_than_a_new_lock_is_refused(
    template: Path, job: str, script: str, sentence: str, tmp_path: Path
) -> None:
    add_program(tmp_path, "pnpm", script)

    done = run_script(template, job, "Resolve the lock", tmp_path, ARTIFACT_NAME="lock-1-1")

    assert done.exit_code != 0
    assert sentence in done.said
    assert done.outputs == ""


def restore(place: Path, sha: str, digest: str) -> Done:
    return run_script(FULL, "cells", "Restore the lock", place, TARGET_SHA=sha, LOCK_SHA256=digest)


def test_the_lock_of_the_campaign_is_restored(tmp_path: Path, target: Path) -> None:
    (tmp_path / "target-lock").mkdir()
    (tmp_path / "target-lock/pnpm-lock.yaml").write_text("lock\n")

    done = restore(tmp_path, read_head(target), hashlib.sha256(b"lock\n").hexdigest())

    assert done.exit_code == 0, done.said
    assert (target / "pnpm-lock.yaml").read_text() == "lock\n"


@pytest.mark.parametrize("wrong", ["commit", "digest", "no-digest", "second-file", "link"])
def test_another_lock_is_not_restored(wrong: str, tmp_path: Path, target: Path) -> None:
    lock = tmp_path / "target-lock/pnpm-lock.yaml"
    lock.parent.mkdir()
    lock.write_text("lock\n")
    sha, digest = read_head(target), hashlib.sha256(b"lock\n").hexdigest()
    if wrong == "commit":
        sha = SHA
    elif wrong == "digest":
        digest = hashlib.sha256(b"other\n").hexdigest()
    elif wrong == "no-digest":
        digest = ""
    elif wrong == "second-file":
        (lock.parent / ".npmrc").write_text("")
    else:
        lock.unlink()
        lock.symlink_to("/etc/hostname")

    done = restore(tmp_path, sha, digest)

    assert done.exit_code != 0
    assert not (target / "pnpm-lock.yaml").exists()


UNPACKS = [
    pytest.param(FULL, "Unpack what was built", "build/build.tar.gz", "BUNDLE_SHA256", id="bundle"),
    pytest.param(FULL, "Unpack the provider pack", "pack/pack.tar.gz", "PACK_SHA256", id="pack"),
    pytest.param(PRIVATE, "Unpack the target", "bundle/target.tar.gz", "TARGET_SHA256", id="target"),
]


@pytest.mark.parametrize(("template", "name", "file", "variable"), UNPACKS)
def test_a_bundle_is_unpacked_when_its_digest_is_that_of_the_job_that_made_it(
    template: Path, name: str, file: str, variable: str, tmp_path: Path
) -> None:
    source, archive, place = tmp_path / "source/target", tmp_path / file, tmp_path / "target"
    source.mkdir(parents=True)
    (source / "made").write_text("made\n")
    archive.parent.mkdir()
    above = template == PRIVATE
    place.mkdir()
    inside = ["--directory", str(source.parent), "target"] if above else ["--directory", str(source), "made"]
    subprocess.run(["tar", "--create", "--gzip", "--file", str(archive), *inside], check=True)
    for digest in ("", hashlib.sha256(b"").hexdigest()):
        refused = run_script(template, "cells", name, tmp_path, **{variable: digest})
        assert refused.exit_code != 0
        assert not (place / "made").exists()
    right = hashlib.sha256(archive.read_bytes()).hexdigest()

    done = run_script(template, "cells", name, tmp_path, **{variable: right})

    assert done.exit_code == 0, done.said
    assert (place / "made").exists()


def unpack_target(place: Path, archive: Path) -> Done:
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    return run_script(PRIVATE, "cells", "Unpack the target", place, TARGET_SHA256=digest)


def pack(place: Path, *members: str) -> Path:
    """Pack members of `place`/source as target code could: whatever it likes."""
    archive = place / "bundle" / "target.tar.gz"
    archive.parent.mkdir()
    source = place / "source"
    subprocess.run(
        ["tar", "--create", "--gzip", "--file", str(archive), "--directory", str(source), *members],
        check=True,
    )
    return archive


def test_nothing_beside_the_target_is_unpacked(tmp_path: Path) -> None:
    for name in ("target/made", "catalog/catalog.yaml"):
        (tmp_path / "source" / name).parent.mkdir(parents=True)
        (tmp_path / "source" / name).write_text("made\n")
    archive = pack(tmp_path, "target", "catalog")

    done = unpack_target(tmp_path, archive)

    assert done.exit_code == 0, done.said
    assert (tmp_path / "target/made").exists()
    assert not (tmp_path / "catalog").exists()


@pytest.mark.parametrize("place", ["catalog", "/etc"])
def test_a_target_that_is_a_link_is_refused(place: str, tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source/target").symlink_to(place)

    done = unpack_target(tmp_path, pack(tmp_path, "target"))

    assert done.exit_code != 0


GOOD = {"CATALOG_SHA": SHA, "CATALOG_REPOSITORY": "cases", "CATALOG_FILE": "chat/catalog.yaml"}


@pytest.mark.parametrize(
    ("changed", "exit_code"),
    [
        pytest.param({}, 0, id="good"),
        pytest.param({"CATALOG_REPOSITORY": "my.cases_2"}, 0, id="other-name"),
        pytest.param({"CATALOG_SHA": "main"}, 1, id="branch"),
        pytest.param({"CATALOG_SHA": SHA.upper()}, 1, id="upper-case"),
        pytest.param({"CATALOG_SHA": SHA[:39]}, 1, id="short"),
        pytest.param({"CATALOG_SHA": f"{SHA}0"}, 1, id="long"),
        pytest.param({"CATALOG_SHA": f"{SHA}\n"}, 1, id="line-break"),
        pytest.param({"CATALOG_SHA": f"main\n{SHA}"}, 1, id="two-lines"),
        pytest.param({"CATALOG_SHA": ""}, 1, id="no-commit"),
        pytest.param({"CATALOG_REPOSITORY": ""}, 1, id="no-repository"),
        pytest.param({"CATALOG_REPOSITORY": "owner/cases"}, 1, id="owner"),
        pytest.param({"CATALOG_REPOSITORY": "cases,others"}, 1, id="several"),
        pytest.param({"CATALOG_REPOSITORY": "cases\nothers"}, 1, id="several-lines"),
        pytest.param({"CATALOG_FILE": ""}, 1, id="no-file"),
        pytest.param({"CATALOG_FILE": "../target/catalog.yaml"}, 1, id="above"),
        pytest.param({"CATALOG_FILE": "chat/../../target/catalog.yaml"}, 1, id="above-later"),
        pytest.param({"CATALOG_FILE": "/etc/catalog.yaml"}, 1, id="absolute"),
    ],
)
def test_a_private_catalog_is_named_exactly(changed: dict[str, str], exit_code: int, tmp_path: Path) -> None:
    done = run_script(PRIVATE, "cells", "Check what was asked for", tmp_path, **{**GOOD, **changed})

    assert done.exit_code == exit_code, done.said
    assert done.said.startswith("::error::") == (exit_code == 1)


@pytest.mark.parametrize(
    ("template", "shards", "exit_code"),
    [(FULL, "1", 0), (FULL, "2", 1), (PRIVATE, "", 1), (CAMPAIGN, "1", 0), (CAMPAIGN, "2", 1)],
)
def test_what_one_matrix_cannot_hold_is_refused(
    template: Path, shards: str, exit_code: int, tmp_path: Path
) -> None:
    done = run_script(template, "plan", "Refuse what one matrix cannot hold", tmp_path, SHARD_COUNT=shards)

    assert done.exit_code == exit_code
    assert done.said.startswith("::error::More than 256 cells") == (exit_code == 1)


@pytest.mark.parametrize(("failures", "exit_code"), [(0, 0), (2, 0), (3, 1)])
def test_the_browser_is_tried_three_times(
    failures: int, exit_code: int, tmp_path: Path, target: Path
) -> None:
    add_program(tmp_path, "sleep", "true")
    add_program(tmp_path, "pnpm", f'echo x >>../tries; [ "$(wc -l <../tries)" -gt {failures} ]')

    done = run_script(FULL, "cells", "Install the browser", tmp_path)

    assert done.exit_code == exit_code, done.said
    assert (tmp_path / "tries").read_text().count("x") == min(failures + 1, 3)
    assert ("::error::" in done.said) == (exit_code == 1)


def test_a_bundle_holds_what_was_built_and_runnerd_where_it_was(tmp_path: Path, target: Path) -> None:
    packages = target / "packages"
    for name in (
        "paperclip-eval-kernel/dist",
        "paperclip-runner/dist",
        "paperclip-runner/runner/target/debug",
    ):
        (packages / name).mkdir(parents=True)
        (packages / name / "file").write_text("x")
    runnerd = packages / "paperclip-runner/runner/target/debug/paperclip-runnerd"
    runnerd.write_text("x")
    runnerd.chmod(0o755)

    done = run_script(FULL, "bundle", "Pack them", tmp_path, ARTIFACT_NAME="build-1-1")

    assert done.exit_code == 0, done.said
    archive = tmp_path / "build.tar.gz"
    listed = subprocess.run(
        ["tar", "--list", "--file", str(archive)], check=True, capture_output=True, text=True
    ).stdout.split()
    assert {name for name in listed if not name.endswith("/")} == {
        "packages/paperclip-eval-kernel/dist/file",
        "packages/paperclip-runner/dist/file",
        "packages/paperclip-runner/runner/target/debug/paperclip-runnerd",
    }
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    assert done.outputs == f"sha256={digest}\nartifact-name=build-1-1\n"


def test_a_catalog_of_another_commit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "catalog"
    path.mkdir()
    (path / "catalog.yaml").write_text("x")
    git(path, "init", "--quiet", "--initial-branch=main")
    commit(path)

    same = run_script(PRIVATE, "plan", "Check the catalog's commit", tmp_path, CATALOG_SHA=read_head(path))
    other = run_script(PRIVATE, "plan", "Check the catalog's commit", tmp_path, CATALOG_SHA=SHA)

    assert (same.exit_code, other.exit_code != 0) == (0, True)
