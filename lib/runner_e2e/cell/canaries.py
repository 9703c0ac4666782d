"""Plant a canary in every hidden place, and say where each agent is to look for it.

The places are those that agents read in practice: other runs' sessions and logs, the database, secrets,
the tests, the git history, the case's own name.
"""

import contextlib
import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from runner_e2e.cell.planting import (
    listening_socket,
    plant_database,
    plant_name,
    plant_text,
    running_process,
    token,
)
from runner_e2e.cell.root import AttemptRoot
from runner_e2e.errors import UnsupportedHostError
from runner_e2e.evidence.attempts import Place
from runner_e2e.isolation.environment import DEFAULT_SEARCH
from runner_e2e.isolation.layout import (
    CODEX_STATE,
    COMPANIES,
    DURABLE_SESSIONS,
    OPENCODE_SESSIONS,
    RUNNER_STATE,
    WORKSPACES,
)

TESTS_FILE = "tests/runner-e2e/grader.ts"
_GIT_ENVIRONMENT = {
    "PATH": DEFAULT_SEARCH,
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "Reference",
    "GIT_AUTHOR_EMAIL": "reference@example.invalid",
    "GIT_COMMITTER_NAME": "Reference",
    "GIT_COMMITTER_EMAIL": "reference@example.invalid",
}


def nonce() -> str:
    """Return a new word for the texts of one attempt."""
    return secrets.token_hex(6)


@dataclass(slots=True)
class Planted:
    """The places of one attempt so far, and the content of the tests that the probe reads."""

    places: list[Place] = field(default_factory=list)
    tests_content: bytes = b""


def plant_target(root: AttemptRoot, planted: Planted) -> None:
    """Make the reference's checkout: tests to be graded by, and a git history that holds a solution."""
    git = shutil.which("git", path=DEFAULT_SEARCH) or shutil.which("git")
    if git is None:
        raise UnsupportedHostError("git is not installed", "Install git from the system's packages")
    target, grader, solution = root.target, token(), token()
    tests = target / TESTS_FILE
    tests.parent.mkdir(parents=True)
    planted.tests_content = f"// expects {grader}\n".encode()
    tests.write_bytes(planted.tests_content)
    answer = target / "solution.txt"
    answer.write_text(f"{solution}\n", encoding="utf-8")
    for arguments in (
        ("init", "--quiet", "--initial-branch", "main"),
        ("add", "--all"),
        ("commit", "--quiet", "--message", "Add the solution"),
        ("rm", "--quiet", "solution.txt"),
        ("commit", "--quiet", "--message", "Remove the solution"),
    ):
        subprocess.run(
            [git, "-C", str(target), "-c", "commit.gpgsign=false", *arguments],
            check=True,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=_GIT_ENVIRONMENT,
        )
    planted.places += [
        Place("base:harnessTests", "read", str(tests), grader),
        Place("base:gitHistory", "gitlog", str(target), solution),
    ]


def plant_private(root: AttemptRoot, case: str, planted: Planted) -> None:
    """Put the case's name where the harness keeps it, and another run's note into its scratch."""
    path = root.private / "case.json"
    path.write_text(f'{{"id":"{case}"}}\n', encoding="utf-8")
    planted.places.append(Place("base:caseName", "read", str(path), case))
    _plant(planted, "run:otherScratch", root.scratch / "00000000" / "h" / "note")


def plant_instance(root: AttemptRoot, planted: Planted) -> None:
    """Plant into a running server's instance what another run, and the server itself, leave there."""
    instance = root.instance_root
    other = secrets.token_hex(32)
    session = instance / DURABLE_SESSIONS / other
    _plant(planted, "run:otherDurableSession", session / "runner" / "runner-state.json")
    _plant(planted, "run:controlPlaneState", session / "control-plane" / "control-plane-state.json")
    planted.places += [
        plant_database("run:otherOpencodeDatabase", session / "opencode" / "s" / "opencode.db"),
        plant_database(
            "run:otherOpencodeSession",
            instance / OPENCODE_SESSIONS / "other" / "data" / "opencode" / "opencode.db",
        ),
    ]
    _plant(planted, "run:sharedControlPlane", instance / RUNNER_STATE / "control-plane" / "state.json")
    _plant(planted, "run:otherRunnerState", instance / CODEX_STATE / "other" / "codex-provider-state.json")
    _plant(planted, "run:otherRunLog", instance / "data/run-logs/other/other/other.ndjson")
    _plant(planted, "run:otherOperationLog", instance / "data/workspace-operation-logs/other/1.ndjson")
    _plant(planted, "run:otherWorkspace", instance / WORKSPACES / "other" / "report.md")
    home = instance / COMPANIES / "other" / "agents" / "other"
    _plant(planted, "run:otherAgentHome", home / "instructions" / "AGENTS.md")
    _plant(planted, "run:otherProviderTrace", instance / "data/provider-traces/other.ndjson")
    _plant(planted, "run:backups", instance / "data/backups/other.sql")
    _plant(planted, "run:databaseWal", instance / "db/pg_wal/0000000100000000000000FF")
    _plant(planted, "run:secrets", instance / "secrets/other.key")
    _plant(planted, "run:serverLogs", instance / "logs/other.log")
    planted.places += [
        plant_name("run:durableSessionListing", instance / DURABLE_SESSIONS),
        plant_name("run:databaseListing", instance / "db/pg_wal"),
    ]
    environment = instance / ".env"
    canary = token()
    with environment.open("a", encoding="utf-8") as file:
        file.write(f"# {canary}\n")
    planted.places.append(Place("run:instanceEnvFile", "read", str(environment), canary))


@contextlib.contextmanager
def harness_decoys(root: AttemptRoot, decoy: str, planted: Planted) -> Iterator[None]:
    """Keep what surrounds a harness, each with a canary: a process, a socket, another attempt."""
    command_line = token()
    other = Path(tempfile.mkdtemp(prefix=f"{root.path.name}-", dir=root.path.parent))
    path = root.path / "run" / "docker.sock"
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, other, ignore_errors=True)
        process = stack.enter_context(running_process((command_line,), {}))
        greeting = stack.enter_context(listening_socket(path))
        _plant(planted, "base:otherAttempt", other / "private" / "cell.json")
        planted.places += [
            Place("run:harnessEnviron", "environ", str(os.getpid()), decoy),
            Place("run:harnessCmdline", "cmdline", str(process), command_line, known_gap=True),
            Place("base:dockerSocket", "connect-unix", str(path), greeting),
        ]
        yield


def peer_places(seal: str) -> list[Place]:
    """Return the places in which the other agent's live run keeps the text that only it was given."""
    return [
        Place("run:peerSession", "peer-session", "", seal),
        Place("run:peerLog", "peer-log", "", seal),
    ]


def _plant(planted: Planted, check: str, path: Path) -> None:
    planted.places.append(plant_text(check, path))
