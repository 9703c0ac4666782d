"""Where a real server of an attempt lies: a temporary root as the product's own harness makes them.

The launches' rules for such roots (`isolation.paths`) hold for it then: nothing of it is shown to an agent
but its instance.
"""

import secrets
from dataclasses import dataclass
from pathlib import Path

from runner_e2e.cell.followed_places import TEMPORARY_ROOT_PREFIX
from runner_e2e.cell.root import AttemptRoot
from runner_e2e.isolation.layout import HIDDEN_IN_TEMPORARY_ROOT
from runner_e2e.isolation.server import ServerPlaces

_HOME, _CONFIGURATION = "paperclip-home", "config.json"
# Of the server alone: a native run gets its own directories for both from the launch.
_SERVER_HOME, _SERVER_TEMPORARY = "server-home", "server-tmp"
OPENCODE_NAME = "opencode"


@dataclass(frozen=True, slots=True)
class PaperclipPlaces:
    """The temporary root of one attempt's server, and what lies in it."""

    root: AttemptRoot
    temporary_root: Path

    @property
    def instance(self) -> Path:
        """The instance root, which the server makes."""
        return self.temporary_root / _HOME / "instances" / self.root.instance

    @property
    def opencode(self) -> Path:
        """The program that runnerd starts instead of the installed OpenCode."""
        return self.root.bin / OPENCODE_NAME

    def server(self) -> ServerPlaces:
        """Return what the rules for a server's environment need."""
        return ServerPlaces(
            temporary_root=str(self.temporary_root),
            paperclip_home=str(self.temporary_root / _HOME),
            config_path=str(self.instance / _CONFIGURATION),
            instance=self.root.instance,
            home=str(self.temporary_root / _SERVER_HOME),
            temporary=str(self.temporary_root / _SERVER_TEMPORARY),
        )


def create_places(root: AttemptRoot) -> PaperclipPlaces:
    """Make the temporary root of a server, with what the server does not make itself."""
    places = PaperclipPlaces(root, root.temporary / f"{TEMPORARY_ROOT_PREFIX}{secrets.token_hex(4)}")
    names = (_HOME, f"{_HOME}/instances", _SERVER_HOME, _SERVER_TEMPORARY, *HIDDEN_IN_TEMPORARY_ROOT)
    for path in (places.temporary_root, *(places.temporary_root / name for name in names)):
        path.mkdir(mode=0o700)
    return places
