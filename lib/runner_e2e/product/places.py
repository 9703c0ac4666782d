"""Where installations lie, and which host can have one. Pure."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from runner_e2e.errors import InputError, UnsupportedHostError
from runner_e2e.product.recipe import MACHINE

DIRECTORY_VARIABLE: Final = "RUNNER_E2E_PAPERCLIP_DIR"
# Root starts the server as an ordinary user, who cannot enter root's home directory.
SHARED_CACHE: Final = Path("/var/cache/runner-e2e/paperclip")


def choose_root(environ: Mapping[str, str], uid: int) -> Path:
    """Return the directory that holds installations for this user."""
    if chosen := environ.get(DIRECTORY_VARIABLE):
        return _absolute(DIRECTORY_VARIABLE, chosen)
    cache = environ.get("XDG_CACHE_HOME", "")
    if Path(cache).is_absolute():  # its specification says to ignore another one
        return _absolute("XDG_CACHE_HOME", cache) / "runner-e2e" / "paperclip"
    if uid == 0:
        return SHARED_CACHE
    home = environ.get("HOME", "")
    if not home:
        raise InputError("There is no HOME to keep Paperclip in", f"Set {DIRECTORY_VARIABLE} to a directory")
    return _absolute("HOME", home) / ".cache" / "runner-e2e" / "paperclip"


def list_roots(environ: Mapping[str, str], uid: int) -> list[Path]:
    """Return where to look for an installation, best first: one that root made serves everybody."""
    own = choose_root(environ, uid)
    return [own] if environ.get(DIRECTORY_VARIABLE) or own == SHARED_CACHE else [own, SHARED_CACHE]


def check_host(system: str, machine: str) -> None:
    """Refuse a host on which the product's own binaries cannot run."""
    if system != "linux" or machine.lower() not in {MACHINE, "amd64"}:
        raise UnsupportedHostError(
            f"Paperclip's runnerd is built for x86-64 Linux, and this is {machine} {system}",
            "Use an x86-64 Linux host for cells of the real product",
        )


def _absolute(variable: str, text: str) -> Path:
    if not Path(text).is_absolute() or any(char in text for char in "\0\n:"):
        raise InputError(
            f"{variable} is not a path that Paperclip can be installed below",
            "Use an absolute path without line breaks and colons",
        )
    return Path(text)
