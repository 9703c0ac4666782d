"""What a fixture of the probe is: a small attempt, with a target and a marker for each check.

Everything a check aims at really exists and carries a marker of 128 random bits, so that a success can
be told from an empty file, and a leak from a coincidence.
"""

import secrets
from dataclasses import dataclass, field
from pathlib import Path

from runner_e2e.isolation.layout import WORKSPACES
from runner_e2e.probe.checks import Action, Check, Layout, Wrapper, checks_for

INSTANCE = "probe-instance"
INSTANCES = "paperclip-home/instances"
RUNNER_NAME = "probe-shell"
OWN_RUN, OTHER_RUN = "probe-run-own", "probe-run-other"
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
    """A fixture for launches of one wrapper: the target and the marker of a success by a check's name.

    `instance_parent` is what the wrapper's configuration says of where `instance` lies; `server_home` and
    `server_temporary` are the server's own, of which an agent's command is handed something.
    """

    root: Path
    layout: Layout
    wrapper: Wrapper
    instance_parent: Path
    instance: Path
    server_home: Path
    server_temporary: Path
    targets: dict[str, str] = field(default_factory=dict)
    markers: dict[str, bytes] = field(default_factory=dict)
    hide: list[Path] = field(default_factory=list)

    @property
    def checks(self) -> tuple[Check, ...]:
        """The checks of this layout, of this wrapper's launches."""
        return checks_for(self.layout, self.wrapper)

    @property
    def workspace(self) -> Path:
        """The working directory of the agent whose launch observes."""
        return self.instance / WORKSPACES / AGENT

    @property
    def trace(self) -> Path:
        """The provider trace of the launch that observes."""
        return self.instance / "data" / "provider-traces" / "00000000-0000-4000-8000-000000000001.ndjson"

    def plant(self, name: str, path: Path) -> None:
        """Make a file with a marker the target of a check."""
        marker = make_marker()
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_bytes(b'{"marker":"' + marker + b'"}\n')
        self.aim(name, path, marker)

    def aim(self, name: str, target: object, marker: bytes) -> None:
        """Make anything the target of a check; `marker` is what a success has to contain."""
        self.targets[name] = str(target)
        self.markers[name] = marker

    def expected_markers(self) -> dict[str, bytes]:
        """Return the marker of a success by a check's id."""
        return {check.id: self.markers[check.name] for check in self.checks}

    def request(self) -> list[dict[str, str]]:
        """Return the observer's list of actions."""
        return [
            {
                "id": check.id,
                "action": check.action.value,
                "target": self.targets[check.name],
                "marker": self.markers[check.name].decode("ascii") if check.action is Action.WRITE else "",
            }
            for check in self.checks
        ]


def make_marker() -> bytes:
    """Return a text that stands nowhere else."""
    return f"marker-{secrets.token_hex(16)}".encode()
