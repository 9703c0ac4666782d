"""Which runnerd a harness starts, here and on a remote host. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runner_e2e.isolation.product import CellTraits
from runner_e2e.isolation.variables import REMOTE_RUNNER_BINARY, RUNNER_BINARY, is_blank

BUILT_BINARY = "packages/paperclip-runner/runner/target/debug/paperclip-runnerd"

_X64 = frozenset({"x64", "x86_64", "amd64"})


@dataclass(frozen=True, slots=True)
class Host:
    """The machine of the harness; `system` as in sys.platform, `machine` as the kernel or Node says it."""

    system: str
    machine: str

    @property
    def can_lend(self) -> bool:
        """Whether a binary of this machine runs on a remote host too."""
        return self.system == "linux" and self.machine.lower() in _X64


def resolve_local_binary(
    environ: Mapping[str, str], cells: Sequence[CellTraits], repository: str, host: Host
) -> str | None:
    """Return the runnerd of this machine: what is configured, as it is written, or what the target built.

    None when no cell is native. It is not said whether the file exists.
    """
    configured = environ.get(RUNNER_BINARY)
    if configured is not None and not is_blank(configured):
        return configured
    if not any(cell.generation == "native" for cell in cells):
        return None
    suffix = ".exe" if host.system == "win32" else ""
    return f"{repository.rstrip('/')}/{BUILT_BINARY}{suffix}"


def resolve_remote_binary(
    environ: Mapping[str, str], cells: Sequence[CellTraits], local: str | None, host: Host
) -> str | None:
    """Return the runnerd for remote hosts: what is configured, or the local one where both can run it."""
    configured = environ.get(REMOTE_RUNNER_BINARY)
    if configured is not None and not is_blank(configured):
        return configured
    if local is None or not host.can_lend:
        return None
    return local if any(cell.generation == "native" and cell.remote for cell in cells) else None
