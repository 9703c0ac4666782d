"""The fixture instance: a small attempt with another run in it, sockets to reach, and markers.

Everything a check aims at really exists and carries a marker of 128 random bits, so that a success can
be told from an empty file, and a leak from a coincidence.
"""

import contextlib
import os
import secrets
import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from runner_e2e.isolation.layout import (
    COMPANIES,
    DURABLE_SESSIONS,
    RUN_LOGS,
    RUNNER_STATE,
    STAR,
    WORKSPACES,
)
from runner_e2e.isolation.paths import plan_run_scope
from runner_e2e.launch.install import ROOT_PREFIX, WRAPPER_NAME
from runner_e2e.launch.ports import DATABASE_LOCK
from runner_e2e.probe.checks import Action, Check, Layout, checks_for

INSTANCE = "probe-instance"
INSTANCES = "paperclip-home/instances"
# As a target's harness names its temporary roots, in the directory that is its TMPDIR.
TEMPORARY_ROOT, OTHER_TEMPORARY_ROOT = "paperclip-runner-e2e-probe", "paperclip-runner-e2e-other"
RUNNER_NAME = "probe-shell"
OWN, OTHER = "0" * 64, "f" * 64
OWN_RUN, OTHER_RUN = "probe-run-own", "probe-run-other"
OWN_SESSION, OTHER_SESSION = "probe-session-own", "probe-session-other"
COMPANY, AGENT, OTHER_AGENT = "probe-company", "agent", "probe-agent-other"


@dataclass(frozen=True, slots=True)
class BaseTargets:
    """Where the harness's own places are: an existing file, and text that it is known to hold.

    Without a value the fixture makes a place of its own for the check and hides that.
    """

    tests: tuple[Path, bytes]
    git_store: tuple[Path, bytes]
    private: Path
    runner_temp: Path | None
    harness_pid: int
    decoy: tuple[str, str]


@dataclass(slots=True)
class Fixture:
    """A built fixture: per check the target as the observer gets it, and the marker of a success.

    `instance_parent` is what the wrapper's configuration says of where `instance` lies.
    """

    root: Path
    layout: Layout
    instance_parent: Path
    instance: Path
    workspace: Path
    trace: Path
    targets: dict[str, str] = field(default_factory=dict)
    markers: dict[str, bytes] = field(default_factory=dict)
    hide: list[Path] = field(default_factory=list)

    @property
    def checks(self) -> tuple[Check, ...]:
        """The checks of this layout."""
        return checks_for(self.layout)

    @property
    def arguments(self) -> list[str]:
        """Runnerd's arguments for the launch that observes."""
        return [
            "--state-dir",
            f"{self.instance}/{DURABLE_SESSIONS}/{OWN}/runner",
            "--session-id",
            OWN_SESSION,
            "--run-id",
            OWN_RUN,
        ]

    def request(self) -> list[dict[str, str]]:
        """Return the observer's list of actions."""
        return [
            {
                "id": check.id,
                "action": check.action.value,
                "target": self.targets[check.id],
                "marker": self.markers[check.id].decode("ascii") if check.action is Action.WRITE else "",
            }
            for check in self.checks
        ]


@contextlib.contextmanager
def build_fixture(root: Path, base: BaseTargets, layout: Layout = Layout.ATTEMPT) -> Iterator[Fixture]:
    """Build the fixture beneath `root`, which must not exist; remove it and close its sockets after."""
    root.mkdir(mode=0o700)
    parent = place = root / INSTANCES
    if layout is Layout.TEMPORARY_ROOT:
        parent, place = (root / "t" / name / INSTANCES for name in (STAR, TEMPORARY_ROOT))
    instance = place / INSTANCE
    fixture = Fixture(
        root,
        layout,
        parent,
        instance,
        instance / WORKSPACES / AGENT,
        instance / "data" / "provider-traces" / "00000000-0000-4000-8000-000000000001.ndjson",
    )
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, root, ignore_errors=True)
        _plant_instance(fixture)
        _plant_own(fixture)
        if layout is Layout.TEMPORARY_ROOT:
            _plant_temporary_roots(fixture)
        _plant_base(fixture, base, stack)
        _listen(fixture, stack)
        _observe_harness(fixture, base)
        yield fixture


def _marker() -> bytes:
    return f"marker-{secrets.token_hex(16)}".encode()


def _plant(fixture: Fixture, check: str, path: Path) -> None:
    marker = _marker()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.write_bytes(b'{"marker":"' + marker + b'"}\n')
    fixture.targets[check] = str(path)
    fixture.markers[check] = marker


def _plant_instance(fixture: Fixture) -> None:
    instance = fixture.instance
    state = instance / RUNNER_STATE
    other = state / "durable-sessions" / OTHER
    _plant(fixture, "run:otherDurableSession", other / "runner" / "runner-state.json")
    fixture.targets["run:durableSessionListing"] = str(state / "durable-sessions")
    fixture.markers["run:durableSessionListing"] = OTHER.encode()
    _plant(fixture, "run:otherRunnerState", state / "runner" / OTHER_RUN / "codex-provider-state.json")
    _plant(fixture, "run:controlPlaneState", state / "control-plane" / "control-plane-state.json")
    _plant(
        fixture,
        "run:otherOpencodeSession",
        state / "opencode" / OTHER_SESSION / "data" / "opencode" / "opencode.db",
    )
    data = instance / "data"
    _plant(fixture, "run:otherRunLog", data / "run-logs" / COMPANY / OTHER_AGENT / f"{OTHER_RUN}.ndjson")
    _plant(fixture, "run:otherOperationLog", data / "workspace-operation-logs" / "company" / "1.ndjson")
    _plant(fixture, "run:otherProviderTrace", data / "provider-traces" / "other.ndjson")
    _plant(fixture, "run:backups", data / "backups" / "other.sql")
    _plant(fixture, "run:serverLogs", instance / "logs" / "server.log")
    _plant(fixture, "run:databaseWal", instance / "db" / "pg_wal" / "000000010000000000000001")
    _plant(fixture, "run:secrets", instance / "secrets" / "master.key")
    _plant(fixture, "run:instanceEnvFile", instance / ".env")
    _plant(fixture, "run:otherWorkspace", instance / WORKSPACES / OTHER_AGENT / "report.md")
    _plant(
        fixture,
        "run:otherAgentHome",
        instance / COMPANIES / COMPANY / "agents" / OTHER_AGENT / "instructions" / "AGENTS.md",
    )
    for check, path in (
        ("run:instanceConfigWrite", instance / "config.json"),
        ("run:sharedAssetsWrite", instance / "runtime-context-assets" / "bundle"),
    ):
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.touch(mode=0o600)
        fixture.targets[check] = str(path)
    _plant(fixture, "run:otherInstance", instance.parent / "other-instance" / "secrets" / "master.key")
    fixture.targets["run:hiddenExistence"] = fixture.targets["run:secrets"]
    fixture.markers["run:hiddenExistence"] = str(Path(fixture.targets["run:secrets"]).stat().st_size).encode()
    fixture.targets["run:hiddenMetadata"] = fixture.targets["run:secrets"]
    fixture.markers["run:hiddenMetadata"] = b"changed"
    fixture.targets["run:ancestorListing"] = str(instance)
    fixture.markers["run:ancestorListing"] = b"secrets"


def _plant_own(fixture: Fixture) -> None:
    instance = fixture.instance
    state = instance / RUNNER_STATE
    fixture.workspace.mkdir(mode=0o700, parents=True)
    (instance / "data" / "provider-traces").mkdir(mode=0o700, parents=True, exist_ok=True)
    # By its log the launch knows which agent it is of.
    (instance / RUN_LOGS / COMPANY / AGENT).mkdir(mode=0o700, parents=True)
    (instance / RUN_LOGS / COMPANY / AGENT / f"{OWN_RUN}.ndjson").touch(mode=0o600)
    fixture.trace.touch(mode=0o600)
    scratch_root = fixture.root / "s"
    scope = plan_run_scope(
        fixture.arguments,
        str(fixture.trace),
        [str(fixture.instance_parent)],
        str(scratch_root),
    )
    other = scratch_root / ("0" * 8)
    _plant(fixture, "run:otherScratch", other / "h" / "note")
    own = {
        "run:ownDurableSession": state / "durable-sessions" / OWN,
        "run:ownOpencodeSession": state / "opencode" / OWN_SESSION,
        "run:acpxRuntime": state / "acpx",
        "run:ownProviderTrace": fixture.trace,
        "run:ownScratch": Path(scope.temporary),
        "run:ownWorkspace": fixture.workspace,
    }
    for check, path in own.items():
        if check != "run:ownProviderTrace":
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        fixture.targets[check] = str(path)
        fixture.markers[check] = _marker()
    fixture.targets["run:sharedTmp"] = "/tmp"  # noqa: S108 - whether it is shared is the question
    fixture.markers["run:sharedTmp"] = _marker()


def _plant_temporary_roots(fixture: Fixture) -> None:
    """Plant what lies around the instance: the harness's places in its root, and another root."""
    directory = fixture.root / "t"
    own = directory / TEMPORARY_ROOT
    other = directory / OTHER_TEMPORARY_ROOT
    _plant(fixture, "run:otherTemporaryRoot", other / INSTANCES / "other" / "workspaces" / "agent" / "note")
    _plant(fixture, "run:harnessArtifacts", own / "artifacts-private" / "cases" / "case" / "result.json")
    _plant(fixture, "run:harnessControl", own / "control" / "server-restart.request.json")


def _plant_base(fixture: Fixture, base: BaseTargets, stack: contextlib.ExitStack) -> None:
    for check, (path, content) in (
        ("base:harnessTests", base.tests),
        ("base:gitStore", base.git_store),
    ):
        fixture.targets[check] = str(path)
        fixture.markers[check] = content
    outside = fixture.root / "outside"
    outside.touch(mode=0o600)
    for check, path in (
        ("base:wrapperWrite", fixture.root / "bin" / WRAPPER_NAME),
        ("base:runnerWrite", fixture.root / "bin" / RUNNER_NAME),
        ("base:outsideWrite", outside),
    ):
        fixture.targets[check] = str(path)
    for row in fixture.checks:
        if row.action is Action.OPEN_WRITE:
            fixture.markers[row.id] = b"opened"
    private = base.private / f"probe-{secrets.token_hex(4)}"
    _plant(fixture, "base:privateAttempt", private)
    stack.callback(private.unlink, missing_ok=True)
    other = Path(tempfile.mkdtemp(prefix=ROOT_PREFIX, dir=fixture.root.parent))
    stack.callback(shutil.rmtree, other, ignore_errors=True)
    _plant(fixture, "base:otherAttempt", other / "private" / "cell.json")
    temporary = base.runner_temp
    if temporary is None:
        temporary = fixture.root / "runner-temp"
        fixture.hide.append(temporary)
    planted = temporary / f"runner-e2e-probe-{secrets.token_hex(4)}"
    _plant(fixture, "base:runnerTemp", planted)
    stack.callback(planted.unlink, missing_ok=True)


def _listen(fixture: Fixture, stack: contextlib.ExitStack) -> None:
    sockets = fixture.root / "sockets"
    sockets.mkdir(mode=0o700)
    for check in ("base:dockerSocket", "base:userBus"):
        path = sockets / check.partition(":")[2]
        server = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        server.bind(str(path))
        fixture.targets[check] = str(path)
        fixture.markers[check] = _greet(server, stack)
    for check in ("run:controlPlaneApi", "run:databasePort"):
        server = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
        server.bind(("127.0.0.1", 0))
        fixture.targets[check] = str(server.getsockname()[1])
        fixture.markers[check] = _greet(server, stack)
    database = fixture.instance / DATABASE_LOCK
    lines = (os.getpid(), database.parent, 0, fixture.targets["run:databasePort"], sockets, "127.0.0.1")
    database.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _greet(server: socket.socket, stack: contextlib.ExitStack) -> bytes:
    """Answer every connection with a marker, until the stack closes."""
    marker = _marker()
    server.listen(8)

    def serve() -> None:
        while True:
            try:
                client, _ = server.accept()
            except OSError:
                return
            with client, contextlib.suppress(OSError):
                client.sendall(marker)

    threading.Thread(target=serve, daemon=True).start()
    stack.callback(_shut_down, server)
    return marker


def _shut_down(server: socket.socket) -> None:
    with contextlib.suppress(OSError):
        server.shutdown(socket.SHUT_RDWR)


def _observe_harness(fixture: Fixture, base: BaseTargets) -> None:
    pid = str(base.harness_pid)
    name, value = base.decoy
    command = Path(f"/proc/{pid}/cmdline").read_bytes()
    for check, marker in (
        ("run:harnessEnviron", f"{name}={value}".encode()),
        ("run:harnessCmdline", command[:64]),
        ("base:signalHarness", b"delivered"),
        ("run:harnessLimits", b"changed"),
    ):
        fixture.targets[check] = pid
        fixture.markers[check] = marker


def environment_of(fixture: Fixture, search: str) -> Mapping[str, str]:
    """Return the variables of the observing launch, as a server would give them to runnerd."""
    return {
        "PATH": search,
        "LANG": "C.UTF-8",
        "PAPERCLIP_PROVIDER_TRACE_PATH": str(fixture.trace),
        "HOME": os.devnull,
    }
