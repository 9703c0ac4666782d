"""Gets Debian's packages from the archive that this host's apt is configured for, of a later release.

Nothing of the host changes: sources, lists and downloads lie in a directory of their own. The archive's
signature is checked with Debian's own keys, and files that are known are held to their digests.
"""

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from runner_e2e.errors import RunnerE2EError, UnsupportedHostError
from runner_e2e.product.progress import Progress
from runner_e2e.product.recipe import DEBIAN_PACKAGES, DEBIAN_SUITE
from runner_e2e.product.running import Tools

_KEYRING: Final = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_INDEX: Final = re.compile(r"'(?P<archive>\S+?)/dists/(?P<suite>[^/'\s]+)/InRelease' ")
_MOST_ARCHIVES: Final = 3
REMEDY: Final = "Use a host with glibc 2.39 or later, such as Ubuntu 24.04 or Debian 13"


def parse_archives(lines: Iterable[str], codename: str) -> list[str]:
    """Return the archives of a release in what `apt-get update --print-uris` says, likeliest first.

    A third party names its suites like Debian's; only Debian's keys tell them apart.
    """
    found: dict[str, None] = {}
    for line in lines:
        if (match := _INDEX.match(line)) and match["suite"] == codename:
            found.setdefault(match["archive"])
    return sorted(found, key=lambda archive: not archive.endswith("/debian"))[:_MOST_ARCHIVES]


def parse_release(text: str) -> tuple[str, str]:
    """Return id and codename in the text of an os-release file; empty where it names none."""
    pairs = (line.split("=", 1) for line in text.splitlines() if "=" in line)
    values = {name: value.strip().strip("\"'") for name, value in pairs}
    return values.get("ID", ""), values.get("VERSION_CODENAME", "")


def download_packages(tools: Tools, work: Path, progress: Progress) -> list[Path]:
    """Download the packages of `DEBIAN_PACKAGES` into `work`, and return their paths."""
    archives = _find_archives(tools, work)
    for number, archive in enumerate(archives, 1):
        place = work / f"archive-{number}"
        options = _prepare(place, archive)
        try:
            tools.run("apt-get update", ("apt-get", *options, "--quiet", "update"), place)
            names = [name.partition("_")[0] for name in DEBIAN_PACKAGES]
            tools.run("apt-get download", ("apt-get", *options, "--quiet", "download", *names), place)
        except RunnerE2EError:
            if number == len(archives):
                raise
            continue
        return [_check(path, progress) for path in sorted(place.glob("*.deb"))]
    raise UnsupportedHostError("apt knows no archive of Debian here", REMEDY)


def judge_package(name: str, digest: str) -> bool:
    """Whether a downloaded file is a known one; False when it is a later version of a known package.

    Raises when a known one has other content, or nobody asked for the file.
    """
    known = DEBIAN_PACKAGES.get(name)
    package, architecture = name.partition("_")[0], name.rpartition("_")[2]
    asked = {(one.partition("_")[0], one.rpartition("_")[2]) for one in DEBIAN_PACKAGES}
    if (known is not None and known != digest) or (package, architecture) not in asked:
        raise RunnerE2EError(
            f"apt delivered {name}, which is not the file that is known by that name",
            "Do not use that archive; nothing of it was run",
        )
    return known is not None


def _find_archives(tools: Tools, work: Path) -> list[str]:
    try:
        system, codename = parse_release(
            Path("/etc/os-release").read_text(encoding="utf-8", errors="replace")
        )
    except OSError:
        system = codename = ""
    needed = [name for name in ("apt-get", "dpkg-deb") if tools.find(name) is None]
    if system != "debian" or needed or not _KEYRING.exists():
        raise UnsupportedHostError(
            "runnerd needs glibc 2.39, this host's is older, and it is no Debian that could lend a later one",
            REMEDY,
        )
    listing: list[str] = []
    empty = work / "lists"
    (empty / "partial").mkdir(parents=True)  # with its own lists apt would leave out what it has already
    command = ("apt-get", "-o", f"Dir::State::lists={empty}", "update", "--print-uris")
    tools.run("apt-get update --print-uris", command, work, listing.append)
    archives = parse_archives(listing, codename)
    if not archives:
        raise UnsupportedHostError(f"apt is configured with no archive of Debian {codename}", REMEDY)
    return archives


def _prepare(place: Path, archive: str) -> list[str]:
    """Make a root for apt at `place`, and return the options that keep it there."""
    for directory in ("lists/partial", "cache/archives/partial", "sources", "state", "preferences"):
        (place / directory).mkdir(parents=True)
    (place / "sources" / "later.sources").write_text(
        f"Types: deb\nURIs: {archive}\nSuites: {DEBIAN_SUITE}\nComponents: main\nArchitectures: amd64\n"
        f"Signed-By: {_KEYRING}\n",
        encoding="utf-8",
    )
    settings = {
        "Dir::Etc::sourcelist": "/dev/null",
        "Dir::Etc::sourceparts": str(place / "sources"),
        "Dir::Etc::preferences": "/dev/null",
        "Dir::Etc::preferencesparts": str(place / "preferences"),
        "Dir::State": str(place / "state"),
        "Dir::State::lists": str(place / "lists"),
        "Dir::State::status": "/dev/null",
        "Dir::Cache": str(place / "cache"),
        "APT::Architecture": "amd64",
        "APT::Architectures": "amd64",
        "APT::Default-Release": DEBIAN_SUITE,
        "APT::Sandbox::User": "root",  # apt's own user may not enter a private directory
        "APT::Update::Error-Mode": "any",
        "APT::Get::AllowUnauthenticated": "false",
        "Acquire::AllowInsecureRepositories": "false",
        "Acquire::AllowWeakRepositories": "false",
        "Acquire::AllowDowngradeToInsecureRepositories": "false",
    }
    return [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]


def _check(path: Path, progress: Progress) -> Path:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if not judge_package(path.name, digest):
        progress.note(
            f"{path.name} is another version than the known one; the archive's signature vouches for it"
        )
    return path
