"""Judge what there is for cells to use up. Pure."""

from typing import Final

from runner_e2e.doctor.findings import (
    Answer,
    NotToldError,
    Question,
    Unreadable,
    error,
    info,
    known,
    ok,
    warning,
)
from runner_e2e.doctor.resource_facts import Place, ResourceFacts

_MIB: Final = 1 << 20
_GIB: Final = 1 << 30
# A cell of the reference takes a few MiB, one of the product some hundred, and again for each retry.
LEAST_BYTES: Final = 256 * _MIB
ENOUGH_BYTES: Final = 2 * _GIB
LEAST_INODES: Final = 2_000
ENOUGH_INODES: Final = 50_000
ENOUGH_PORTS: Final = 4_096
LEAST_FILES: Final = 256
ENOUGH_FILES: Final = 1_024


def judge_space(facts: ResourceFacts) -> Answer:
    """Free bytes and inodes where cells write."""
    places, unread = _places(facts)
    if not places:
        raise NotToldError(unread)
    closed = [one.name for one in places if not one.writable]
    if closed:
        return error(
            f"{', '.join(closed)} cannot be written by this user",
            "No cell can make its directories",
            f"Open {', '.join(closed)} to it",
        )
    told = [f"{one.name} has {describe_bytes(one.free_bytes)}{_inodes(one)}" for one in places]
    found = f"{'; '.join(told)} free"
    least = min(one.free_bytes for one in places)
    fewest = min((one.inodes for one in places if one.inodes is not None), default=ENOUGH_INODES)
    if least < LEAST_BYTES or fewest < LEAST_INODES:
        return error(found, "A cell would run out of it and fail for nothing", "Free some space first")
    if least < ENOUGH_BYTES or fewest < ENOUGH_INODES:
        return warning(
            found, "Cells of the product, and several at once, may run out of it", "Free some space first"
        )
    if unread:
        return warning(
            f"{found}; {unread}",
            "What lies there is not known",
            "Make that directory, or leave its variable out",
        )
    return ok(found, "Enough for cells of every kind")


def judge_file_systems(facts: ResourceFacts) -> Answer:
    """What attempts lie on: rules have to bind there, and wrappers to be executable."""
    attempts = known(list(facts.places.values())[-1])
    told = "; ".join(
        f"{one.name} lies on {one.kind or 'an unknown file system'}" for one in _places(facts)[0]
    )
    if not attempts.can_execute:
        return error(
            f"{attempts.name} is mounted noexec",
            "The wrapper of every launch lies there and cannot be started",
            f"Mount {attempts.name} without noexec",
        )
    if not attempts.reliable:
        return warning(
            told,
            "The kernel may not bind rules to every name of a file there; a launch proves them, or refuses",
            f"Put {attempts.name} on a local file system such as ext4, xfs, btrfs or tmpfs",
        )
    return ok(told, "Rules bind there, and programs can be started")


def judge_ports(facts: ResourceFacts) -> Answer:
    """Loopback ports for servers, gateways and databases."""
    free, words = known(facts.free_ports), known(facts.port_range)
    if free < facts.wanted_ports:
        return error(
            f"The loopback interface gives {free} of {facts.wanted_ports} ports that were asked for",
            "Servers of a cell cannot listen",
            "Bring the interface lo up, and end what holds its ports",
        )
    first, last = (int(word) for word in (words or "32768 60999").split())
    found = f"The loopback interface gives ports, from {first} to {last}"
    if last - first + 1 < ENOUGH_PORTS:
        return warning(
            found,
            "Several cells at once, with their connections, may run out of them",
            "Widen net.ipv4.ip_local_port_range",
        )
    return ok(found, "Servers of a cell can listen")


def judge_open_files(facts: ResourceFacts) -> Answer:
    """Descriptors of one process."""
    limit = known(facts.open_files)
    unlimited = limit < 0
    found = "A process may open any number of files" if unlimited else f"A process may open {limit} files"
    if unlimited or limit >= ENOUGH_FILES:
        return ok(found, "Enough for servers and databases")
    if limit < LEAST_FILES:
        return error(found, "The servers of a cell need more", "Raise the soft limit: ulimit -n 4096")
    return info(found, "The product's servers may need more", "Raise the soft limit: ulimit -n 4096")


def describe_bytes(count: int) -> str:
    """Return an amount of storage for people."""
    return f"{count / _GIB:.1f} GiB" if count >= _GIB else f"{count / _MIB:.0f} MiB"


def _inodes(place: Place) -> str:
    return "" if place.inodes is None else f" and {place.inodes:,} inodes"


def _places(facts: ResourceFacts) -> tuple[list[Place], str]:
    """Return the places that could be looked at, and of the others why not."""
    seen = [place for place in facts.places.values() if isinstance(place, Place)]
    unread = (
        f"{name} could not be looked at: {place.reason}"
        for name, place in facts.places.items()
        if isinstance(place, Unreadable)
    )
    return seen, "; ".join(unread)


QUESTIONS: Final = (
    Question("resources.space", "The free space", judge_space),
    Question("resources.file-systems", "The file systems that cells lie on", judge_file_systems),
    Question("resources.ports", "The ports of the loopback interface", judge_ports),
    Question("resources.open-files", "The limit of open files", judge_open_files),
)
