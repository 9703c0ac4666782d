"""A whole fixture instance: what an agent finds when it looks around without hints."""

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from kernel.harness import SECRET, Box, tool

pytestmark = pytest.mark.kernel

RUNTIME = "runtime/paperclip-runner"
FOREIGN = [
    f"{RUNTIME}/durable-sessions/case-other/state.json",
    f"{RUNTIME}/runner/case-other/codex.json",
    f"{RUNTIME}/control-plane/queue.json",
    f"{RUNTIME}/opencode/case-other/session.json",
    "data/run-logs/case-other.ndjson",
    "data/provider-traces/case-other.ndjson",
    "data/backups/case.sql.gz",
    "data/workspace-operation-logs/case.log",
    "db/case.db",
    "db/pg_wal/0001",
    "secrets/master.key",
    "logs/server-case.log",
    ".env",
]
OWN = [
    f"{RUNTIME}/durable-sessions/own/state.json",
    f"{RUNTIME}/runner/own/codex.json",
    f"{RUNTIME}/opencode/own/session.json",
]
TRACE = "data/provider-traces/own.ndjson"
HIDDEN = [
    *(f"{RUNTIME}/{name}" for name in ("durable-sessions", "runner", "control-plane", "opencode")),
    *(f"data/{name}" for name in ("run-logs", "provider-traces", "backups")),
    "data/workspace-operation-logs",
    "db",
    "secrets",
    "logs",
    ".env",
]


@dataclass(frozen=True, slots=True)
class Instance:
    """A box whose options hide what a launch hides, and the places of the tree."""

    box: Box
    root: Path
    workspace: Path
    foreign: tuple[Path, ...]


COMMIT = ("git", "-c", "user.name=n", "-c", "user.email=e@x", "commit", "-q", "--allow-empty", "-m")


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture
def instance(box: Box) -> Instance:
    """Another run's traces, credentials, a grader, a Git store and harness sources beside our own."""
    box.secret.unlink()
    root = box.root / "home" / "instances" / "i1"
    target, private = box.root / "target", box.root / "private"
    workspace = root / "workspaces" / "own"
    foreign = [write(root / name, f"{SECRET} of another case") for name in FOREIGN]
    for name in (*OWN, TRACE):
        write(root / name, "own")
    foreign.append(write(target / "tests" / "case-grader.py", f"# {SECRET} grader"))
    box.control(tool("git"), "init", "-q", target)
    box.control(*COMMIT, f"{SECRET} case", cwd=target)
    foreign.append(target / ".git" / "HEAD")
    foreign.append(write(target / ".git" / "case-branch", SECRET))
    foreign.append(write(private / "launches.ndjson", f"{SECRET} case"))
    foreign.append(write(box.root / "credentials.json", f"{SECRET} token"))
    write(target / "package.json", "{}")
    write(workspace / "README.md", "work here")
    box.control("git", "init", "-q", workspace)
    hidden = [
        *(root / name for name in HIDDEN),
        target / "tests",
        target / ".git",
        private,
        box.root / "credentials.json",
    ]
    exposed = [(root / name).parent for name in OWN] + [root / TRACE]
    return Instance(box.hiding(*hidden, expose=exposed), root, workspace, tuple(foreign))


@pytest.mark.denies
def test_every_foreign_file_is_denied(instance: Instance) -> None:
    """S-50."""
    instance.box.denies(*(("read", path) for path in instance.foreign))


@pytest.mark.denies
def test_searching_by_name_finds_no_trace_of_another_case(instance: Instance) -> None:
    """S-50: from the root, and from every granted directory of the tree."""
    box = instance.box
    wanted = ("-name", "*case*", "-o", "-name", "*.db")
    granted = [path for path in box.explain().grants if path.is_relative_to(box.root)]

    from_root = box.run("find", "/", *wanted, cwd=instance.workspace)
    from_grants = box.run("find", *granted, *wanted, cwd=instance.workspace)
    outside = box.control("find", box.root, *wanted, cwd=instance.workspace)

    assert not any(str(box.root) in line for line in from_root.lines)
    assert from_grants.stdout == b""
    assert len(outside.lines) >= 10


@pytest.mark.denies
def test_searching_for_content_finds_no_secret(instance: Instance) -> None:
    """S-50."""
    box = instance.box
    granted = [path for path in box.explain().grants if path.is_relative_to(box.root)]
    head = box.root / "target" / ".git" / "HEAD"

    for place in (box.root, *granted):
        assert not box.run("grep", "-r", SECRET, place, cwd=instance.workspace).shows(SECRET)
    outside = box.control("grep", "-rl", SECRET, box.root, cwd=instance.workspace)
    assert set(map(Path, outside.lines)) >= set(instance.foreign) - {head}


@pytest.mark.denies
def test_git_works_in_the_workspace_and_not_on_the_targets_store(instance: Instance) -> None:
    """S-50."""
    box = instance.box
    script = f"{' '.join(COMMIT)} own && git log --format=%s"
    log = box.run("sh", "-c", script, cwd=instance.workspace)
    assert log.text == "own\n"

    read_store = ("git", "-C", box.root / "target", "log", "--all", "--format=%s")
    inside = box.run(*read_store, cwd=instance.workspace)
    assert inside.status == 128
    assert inside.stdout == b""
    assert box.control(*read_store, cwd=instance.workspace).text == f"{SECRET} case\n"


def test_own_session_trace_and_workspace_are_writable(instance: Instance) -> None:
    """S-50."""
    root = instance.root
    instance.box.allows(
        *(("write", root / name, os.O_TRUNC, "more") for name in (*OWN, TRACE)),
        *(("create", (root / name).parent / "new") for name in OWN),
        ("create", instance.workspace / "new"),
        ("write", root / TRACE, os.O_APPEND, "line"),
        cwd=instance.workspace,
    )


@pytest.mark.denies
def test_a_session_that_starts_later_is_not_shown(instance: Instance) -> None:
    """A later run's directories appear beneath a hidden one, where nothing was granted."""
    sessions = instance.root / RUNTIME / "durable-sessions"
    instance.box.denies(("mkdir", sessions / "mine"), cwd=instance.workspace)
    write(sessions / "later" / "state.json", SECRET)

    instance.box.denies(("read", sessions / "later" / "state.json"), cwd=instance.workspace)
