"""What lies in the fixture's instance and in its server's directories: of others, and the launch's own."""

from pathlib import Path

from runner_e2e.isolation.command_scope import plan_command_scope
from runner_e2e.isolation.layout import (
    COMPANIES,
    DURABLE_SESSIONS,
    PROJECTS,
    RUN_LOGS,
    RUNNER_STATE,
    WORKSPACES,
)
from runner_e2e.isolation.paths import RunScope, plan_run_scope
from runner_e2e.probe.checks import Wrapper
from runner_e2e.probe.fixture import (
    AGENT,
    COMPANY,
    OTHER_AGENT,
    OTHER_RUN,
    OWN_RUN,
    Fixture,
    make_marker,
)

OWN, OTHER = "0" * 64, "f" * 64
OWN_SESSION, OTHER_SESSION = "probe-session-own", "probe-session-other"
# As the server names the directory with OpenCode's configuration of one run.
HANDED_PREFIX = "paperclip-opencode-config-"


def runner_arguments(fixture: Fixture) -> list[str]:
    """Return runnerd's arguments for the launch that observes."""
    return [
        "--state-dir",
        f"{fixture.instance}/{DURABLE_SESSIONS}/{OWN}/runner",
        "--session-id",
        OWN_SESSION,
        "--run-id",
        OWN_RUN,
    ]


def handed_home(fixture: Fixture) -> Path:
    """Return the XDG_CONFIG_HOME that the server makes for the command that observes."""
    return fixture.server_temporary / f"{HANDED_PREFIX}own"


def plant_instance(fixture: Fixture) -> None:
    """Plant what belongs to the server, and to other runs and agents."""
    instance = fixture.instance
    state = instance / RUNNER_STATE
    other = state / "durable-sessions" / OTHER
    fixture.plant("otherDurableSession", other / "runner" / "runner-state.json")
    fixture.aim("durableSessionListing", state / "durable-sessions", OTHER.encode())
    fixture.plant("otherRunnerState", state / "runner" / OTHER_RUN / "codex-provider-state.json")
    fixture.plant("controlPlaneState", state / "control-plane" / "control-plane-state.json")
    fixture.plant(
        "otherOpencodeSession", state / "opencode" / OTHER_SESSION / "data" / "opencode" / "opencode.db"
    )
    data = instance / "data"
    fixture.plant("otherRunLog", data / "run-logs" / COMPANY / OTHER_AGENT / f"{OTHER_RUN}.ndjson")
    fixture.plant("otherOperationLog", data / "workspace-operation-logs" / "company" / "1.ndjson")
    fixture.plant("otherProviderTrace", data / "provider-traces" / "other.ndjson")
    fixture.plant("backups", data / "backups" / "other.sql")
    fixture.plant("serverLogs", instance / "logs" / "server.log")
    fixture.plant("databaseWal", instance / "db" / "pg_wal" / "000000010000000000000001")
    fixture.plant("secrets", instance / "secrets" / "master.key")
    fixture.plant("instanceEnvFile", instance / ".env")
    fixture.plant("otherWorkspace", instance / WORKSPACES / OTHER_AGENT / "report.md")
    agents = instance / COMPANIES / COMPANY / "agents"
    fixture.plant("otherAgentHome", agents / OTHER_AGENT / "instructions" / "AGENTS.md")
    fixture.plant("companyProject", instance / PROJECTS / COMPANY / "project" / "note")
    for name, path in (
        ("instanceConfigWrite", instance / "config.json"),
        ("sharedAssetsWrite", instance / "runtime-context-assets" / "bundle"),
    ):
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.touch(mode=0o600)
        fixture.targets[name] = str(path)
    fixture.plant("otherInstance", instance.parent / "other-instance" / "secrets" / "master.key")
    secret = Path(fixture.targets["secrets"])
    fixture.aim("hiddenExistence", secret, str(secret.stat().st_size).encode())
    fixture.aim("hiddenMetadata", secret, b"changed")
    fixture.aim("ancestorListing", instance, b"secrets")


def plant_own(fixture: Fixture) -> None:
    """Make what belongs to the run that observes, or to the launches of all runs."""
    instance = fixture.instance
    state = instance / RUNNER_STATE
    fixture.workspace.mkdir(mode=0o700, parents=True)
    (instance / "data" / "provider-traces").mkdir(mode=0o700, parents=True, exist_ok=True)
    # By its log the launch knows which agent it is of.
    (instance / RUN_LOGS / COMPANY / AGENT).mkdir(mode=0o700, parents=True)
    (instance / RUN_LOGS / COMPANY / AGENT / f"{OWN_RUN}.ndjson").touch(mode=0o600)
    fixture.trace.touch(mode=0o600)
    scope = _plan_scope(fixture)
    fixture.plant("otherScratch", fixture.root / "s" / ("0" * 8) / "h" / "note")
    own = {
        "ownDurableSession": state / "durable-sessions" / OWN,
        "ownOpencodeSession": state / "opencode" / OWN_SESSION,
        "acpxRuntime": state / "acpx",
        "ownProviderTrace": fixture.trace,
        "ownScratch": Path(scope.temporary),
        "ownHome": Path(scope.home),
        "ownWorkspace": fixture.workspace,
    }
    for name, path in own.items():
        if name != "ownProviderTrace":
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        fixture.aim(name, path, make_marker())
    fixture.aim("sharedTmp", "/tmp", make_marker())  # noqa: S108 - whether it is shared is the question


def _plan_scope(fixture: Fixture) -> RunScope:
    parent, scratch = str(fixture.instance_parent), str(fixture.root / "s")
    if fixture.wrapper is Wrapper.COMMAND:
        return plan_command_scope(OWN_RUN, AGENT, str(fixture.instance), parent, scratch).scope
    return plan_run_scope(runner_arguments(fixture), str(fixture.trace), [parent], scratch)


def plant_server(fixture: Fixture) -> None:
    """Plant what the server keeps in directories of its own, some of it to be handed to one run."""
    fixture.plant("serverHome", fixture.server_home / "note")
    fixture.plant("otherHandedFile", fixture.server_temporary / f"{HANDED_PREFIX}other" / "opencode.json")
