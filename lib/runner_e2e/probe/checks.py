"""The table of checks: what a launch is asked to do, and what has to come back. Pure.

Names with the prefix `run:` follow the product's own probe; `base:` ones concern the harness. Both go through
the wrapper of runnerd. `command:` ones go through the wrapper of agents' own commands. To add a check, add a
row here, its target to `planting.py` or `planting_instance.py`, and a line to SECURITY.md.
"""

from dataclasses import dataclass, replace
from enum import StrEnum


class Expected(StrEnum):
    """What must be observed: a refusal, access, or (recorded) either, as long as it is clear."""

    DENIED = "denied"
    ALLOWED = "allowed"
    RECORDED = "recorded"


class Layout(StrEnum):
    """Where a cell's instance lies: in the attempt, or in a temporary root of the target's harness."""

    ATTEMPT = "attempt"
    TEMPORARY_ROOT = "temporary-root"


class Wrapper(StrEnum):
    """Whose launches are asked: those of runnerd, or of the commands that agents' configurations name."""

    RUNNER = "runner"
    COMMAND = "command"


class Action(StrEnum):
    """What the observer does with a target; each has a positive outcome that carries a marker."""

    READ = "read"
    LIST = "list"
    STAT = "stat"
    WRITE = "write"
    OPEN_WRITE = "open-write"
    CHMOD = "chmod"
    CONNECT_UNIX = "connect-unix"
    CONNECT_TCP = "connect-tcp"
    SIGNAL = "signal"
    ENVIRON = "environ"
    CMDLINE = "cmdline"
    LIMITS = "limits"


@dataclass(frozen=True, slots=True)
class Check:
    """One row.

    `known` is the value that a recorded check has had so far, so that a change is seen. `protection`
    names the one that a check depends on where it may be missing: see `sandbox.protections`.
    """

    id: str
    action: Action
    expected: Expected
    known: str | None = None
    protection: str | None = None

    @property
    def name(self) -> str:
        """What the fixture knows the check's target by: the same for the launches of every wrapper."""
        return self.id.partition(":")[2]


def _denied(name: str, action: Action = Action.READ) -> Check:
    return Check(name, action, Expected.DENIED)


def _allowed(name: str) -> Check:
    return Check(name, Action.WRITE, Expected.ALLOWED)


def _recorded(name: str, action: Action, known: str = "allowed") -> Check:
    return Check(name, action, Expected.RECORDED, known)


CHECKS: tuple[Check, ...] = (
    _denied("run:otherDurableSession"),
    _denied("run:durableSessionListing", Action.LIST),
    _denied("run:otherRunnerState"),
    _denied("run:controlPlaneState"),
    _denied("run:otherOpencodeSession"),
    _denied("run:otherRunLog"),
    _denied("run:databaseWal"),
    _denied("run:secrets"),
    _denied("run:otherProviderTrace"),
    _denied("run:harnessEnviron", Action.ENVIRON),
    _denied("run:instanceEnvFile"),
    _denied("run:otherOperationLog"),
    _denied("run:otherWorkspace"),
    _denied("run:otherAgentHome"),
    _denied("run:backups"),
    _denied("run:serverLogs"),
    _denied("run:otherScratch"),
    _denied("base:harnessTests"),
    _denied("base:gitStore"),
    _denied("base:privateAttempt"),
    _denied("base:otherAttempt"),
    _denied("base:runnerTemp"),
    _denied("base:dockerSocket", Action.CONNECT_UNIX),
    _denied("base:userBus", Action.CONNECT_UNIX),
    _denied("base:wrapperWrite", Action.OPEN_WRITE),
    _denied("base:runnerWrite", Action.OPEN_WRITE),
    _denied("base:outsideWrite", Action.OPEN_WRITE),
    _denied("run:instanceConfigWrite", Action.OPEN_WRITE),
    _denied("run:sharedAssetsWrite", Action.OPEN_WRITE),
    _denied("run:otherInstance"),
    _denied("run:harnessLimits", Action.LIMITS),
    Check("run:databasePort", Action.CONNECT_TCP, Expected.DENIED, protection="ports"),
    Check("base:signalHarness", Action.SIGNAL, Expected.DENIED, protection="scopes"),
    _allowed("run:ownDurableSession"),
    _allowed("run:ownOpencodeSession"),
    _allowed("run:acpxRuntime"),
    _allowed("run:ownProviderTrace"),
    _allowed("run:ownScratch"),
    _allowed("run:ownWorkspace"),
    _recorded("run:harnessCmdline", Action.CMDLINE),
    _recorded("run:sharedTmp", Action.WRITE),
    _recorded("run:controlPlaneApi", Action.CONNECT_TCP),
    _recorded("run:ancestorListing", Action.LIST, "denied"),
    _recorded("run:hiddenExistence", Action.STAT),
    _recorded("run:hiddenMetadata", Action.CHMOD),
)

# Beside those above where the instance lies in a temporary root of the target's harness.
TEMPORARY_ROOT_CHECKS: tuple[Check, ...] = (
    _denied("run:otherTemporaryRoot"),
    _denied("run:harnessArtifacts"),
    _denied("run:harnessControl"),
)

# Such a launch has no durable session, no trace and no runner: nothing of these is its own.
_OF_SESSIONS = ("ownDurableSession", "ownOpencodeSession", "acpxRuntime", "ownProviderTrace")


def _of_commands(checks: tuple[Check, ...]) -> tuple[Check, ...]:
    return tuple(
        replace(check, id=f"command:{check.name}") for check in checks if check.name not in _OF_SESSIONS
    )


COMMAND_CHECKS: tuple[Check, ...] = (
    *_of_commands(CHECKS),
    # What launches of runnerd share, or share within a company.
    _denied("command:acpxRuntime", Action.WRITE),
    _denied("command:companyProject"),
    _denied("command:otherHandedFile"),
    _allowed("command:ownHome"),
)
COMMAND_TEMPORARY_ROOT_CHECKS: tuple[Check, ...] = (
    *_of_commands(TEMPORARY_ROOT_CHECKS),
    _denied("command:serverHome"),
)

_TABLES = {
    Wrapper.RUNNER: (CHECKS, TEMPORARY_ROOT_CHECKS),
    Wrapper.COMMAND: (COMMAND_CHECKS, COMMAND_TEMPORARY_ROOT_CHECKS),
}


def checks_for(layout: Layout, wrapper: Wrapper = Wrapper.RUNNER) -> tuple[Check, ...]:
    """Return the checks of a layout and of a wrapper's launches, in the order of every table."""
    everywhere, more = _TABLES[wrapper]
    return everywhere + more if layout is Layout.TEMPORARY_ROOT else everywhere
