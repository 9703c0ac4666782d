"""Print a plan without enforcing it: `runner-e2e.sandbox-plan/v1`."""

import json
from os import fsdecode

from . import domain, granting, protections, rules
from .launcher import Settings, rights_of
from .plan import Plan

SCHEMA = "runner-e2e.sandbox-plan/v1"

# What a launch gives up on a kernel of exactly this ABI, compared with the next one.
_GAINED = {
    2: "renames and links between directories inside the domain (every one is refused before)",
    3: "denial of truncation: a hidden file could be emptied",
    4: "closing of TCP ports",
    5: "denial of device ioctls on devices that are not granted",
    6: "scopes: signals and abstract sockets would reach processes outside",
    7: "audit flags (not used by the launcher)",
    8: "restriction of all threads at once (not needed: the launcher has one)",
    9: "denial of connect() to socket files by Landlock; the system call filter refuses it meanwhile",
}


def losses(version: int) -> list[str]:
    """Return what a kernel of this ABI lacks, compared with the newest one known."""
    lowest = max(rules.clamp(version), 0)
    lost = [] if lowest else ["everything: this kernel has no Landlock"]
    return lost + [text for since, text in sorted(_GAINED.items()) if since > lowest]


def explain(plan: Plan, settings: Settings) -> bytes:
    """Return the plan as one JSON document: what would be hidden, exposed and granted, and how."""
    version = domain.landlock_version()
    rights = rights_of(version, settings.levels)
    grants: list[dict[str, object]] = []

    def add(allowed: int, _descriptor: int, name: str, directory: bytes) -> None:
        top = fsdecode(directory)
        grants.append(
            {
                "path": f"{top.rstrip('/')}/{name}",
                "access": "read" if not allowed & rules.WRITE_FILE else "full",
            }
        )

    granting.walk_grants(plan, rights, add)
    closed = [] if settings.levels["ports"] == protections.OFF else list(plan.closed_ports)
    unused = () if closed else ("ports",)
    document = {
        "schema": SCHEMA,
        "abi": version,
        "minimumAbi": settings.minimum_abi,
        "sufficient": version >= settings.minimum_abi,
        "losses": {str(row): losses(row) for row in range(rules.LATEST)},
        "hidden": [
            {
                "path": fsdecode(hidden.path),
                "spellings": [fsdecode(spelling) for spelling in hidden.spellings],
                "kind": hidden.kind,
                "optional": hidden.optional,
                "exists": hidden.exists,
            }
            for _, hidden in sorted(plan.hidden.items())
        ],
        "exposed": [
            {"path": fsdecode(path), "spelling": fsdecode(plan.exposed_spellings[path])}
            for path in sorted(plan.exposed)
        ],
        "closedPorts": closed,
        "ancestors": [fsdecode(path) for path in sorted(plan.withheld)],
        "grants": sorted(grants, key=lambda grant: str(grant["path"])),
        "protections": {
            name: {"level": level, "outcome": "off" if level == "off" or name in unused else "planned"}
            for name, level in settings.levels.items()
        },
        "privileged": plan.access.privileged,
        "keepsFileCapabilities": settings.keep_file_capabilities,
        "unixSockets": _unix_sockets(version, settings),
        "notRestricted": [
            "names, sizes, modes and times of hidden files, for those who know the path",
            "file names that appear in a hidden directory, through inotify",
            "command lines and status of other processes of the same user in /proc",
            "TCP to ports that are not closed, and UDP, loopback included",
            "priorities and affinity of other processes of the same user",
        ],
    }
    return json.dumps(document, indent=2).encode("ascii") + b"\n"


def _unix_sockets(version: int, settings: Settings) -> str:
    if settings.levels["sockets"] != protections.OFF:
        return "denied: socket(AF_UNIX) is refused by a system call filter, wherever the socket file lies"
    if rules.clamp(version) >= 9:
        return "denied beneath hidden paths by Landlock"
    return "connect() is not restricted below ABI 9: every socket file can be reached, hidden or not"
