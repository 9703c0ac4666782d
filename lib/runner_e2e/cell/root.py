"""The directories of one attempt."""

import contextlib
import secrets
import string
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from runner_e2e.cell.removal import remove_tree
from runner_e2e.errors import UnsupportedHostError
from runner_e2e.launch.install import ROOT_PREFIX

# Not /tmp: tools that ignore TMPDIR write there, and an ancestor of a hidden path takes no new entries.
PARENT = Path("/var/tmp")  # noqa: S108 - the contract names it; the rest is random
_NAME_CHARACTERS = string.ascii_lowercase + string.digits + "_"


@dataclass(frozen=True, slots=True)
class AttemptRoot:
    """`<root>` and the places beneath it; `instance` is the id of the server's instance."""

    path: Path
    instance: str

    @property
    def private(self) -> Path:
        """Hidden from every agent: journal, configuration, server output, the case."""
        return self.path / "private"

    @property
    def bin(self) -> Path:
        """Visible: the wrapper and, for the reference, the scripted runner."""
        return self.path / "bin"

    @property
    def home(self) -> Path:
        """PAPERCLIP_HOME."""
        return self.path / "paperclip-home"

    @property
    def instance_root(self) -> Path:
        """The instance that the server writes."""
        return self.home / "instances" / self.instance

    @property
    def scratch(self) -> Path:
        """The private directories of all launches, one beneath it for each durable session."""
        return self.path / "s"

    @property
    def temporary(self) -> Path:
        """TMPDIR of a target's harness, which makes its temporary roots and their instances in it."""
        return self.path / "t"

    @property
    def harness_home(self) -> Path:
        """HOME of a target's harness; hidden, as it may keep there what its tools were told."""
        return self.private / "home"

    @property
    def target(self) -> Path:
        """The reference's stand-in for the checkout under test."""
        return self.path / "target"


def create_root(
    instance: str, parent: Path = PARENT, announce: Callable[[Path], object] | None = None
) -> AttemptRoot:
    """Create `<root>`, mode 0700, by its canonical name: launches compare names as they stand.

    `announce` is told the name before there is anything of that name, so that who comes after a process
    that was killed knows what to remove.
    """
    try:
        root = AttemptRoot(_make_directory(parent.resolve(), announce or _ignore), instance)
        for path in (root.private, root.harness_home, root.bin, root.scratch, root.temporary):
            path.mkdir(mode=0o700)
        (root.home / "instances").mkdir(mode=0o700, parents=True)
    except OSError as error:
        raise UnsupportedHostError(
            f"No directory for the attempt can be made in {parent}: {error.strerror}",
            f"Make {parent} writable for this user, with free space",
        ) from error
    return root


def _make_directory(parent: Path, announce: Callable[[Path], object]) -> Path:
    while True:
        path = parent / (ROOT_PREFIX + "".join(secrets.choice(_NAME_CHARACTERS) for _ in range(8)))
        announce(path)
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=0o700)
            return path


def _ignore(_: Path) -> None:
    """Tell nobody."""


def remove_root(root: AttemptRoot) -> str | None:
    """Remove the attempt; return what is left of it, as words for people."""
    return remove_tree(root.path)
