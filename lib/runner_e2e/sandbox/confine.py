"""Confine a harness: it reads what it likes, and neither writes what others run nor signals or traces them.

Unlike a launch's domain this one handles no right to read, so that launchers can nest in it: they have to
list what is on the way to a hidden path. A process of a domain can signal, trace and look into only what
is in the same domain or below (Linux, security/landlock/task.c), whatever its user.
"""

from errno import EOPNOTSUPP
from os import O_CLOEXEC, O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_WRONLY, close, strerror
from os import open as open_descriptor

from . import domain, granting, kernel, plan, protections, rules
from .names import MountTable, Resolver
from .protections import DEGRADED, ENFORCED, OFF, REQUIRED
from .refusal import Refusal
from .rules import Access, Rights

_READING = rules.EXECUTE | rules.READ_FILE | rules.READ_DIR | rules.IOCTL_DEV | rules.RESOLVE_UNIX
_FILTER = {**dict.fromkeys(protections.FILTERED, OFF), "limits": REQUIRED}
_O_TMPFILE = 0o20000000 | O_DIRECTORY  # os.O_TMPFILE, which only Linux has


def writing_rights(version: int) -> int:
    """Return the file-system rights of an ABI that change something.

    REFER is one of them: whoever is in a domain that does not handle it can move nothing.
    """
    return rules.filesystem_rights(version) & ~_READING


def confine(protected: list[bytes]) -> tuple[str, str]:
    """Restrict this process for good; tell how far scopes and writes are (`enforced`, `degraded`, `off`).

    `protected` holds canonical paths; beneath them, by whatever name the mount table has for them, nothing
    can be made, changed or removed, and in the directories above them no entry. Modes, times and extended
    attributes are not Landlock's. Without any, only signals and tracing are restricted, which leaves
    mounting possible. The limits of other processes are closed in both cases: with them one outside could
    be killed, or made to leave its memory in a file. Raises Refusal and OSError.
    """
    version = domain.landlock_version()
    if protected:
        domain.require_version(version, rules.LOWEST_USABLE)
    scoped = rules.scopes(version)
    handled = writing_rights(version) if protected else 0
    if handled or scoped:
        ruleset = kernel.create_ruleset(handled, scoped, rules.attribute_size(version))
        if protected:
            mounts = plan.read_mounts()
            places = find_places(protected, mounts)
            policy = plan.Policy([], [], [], Access(places, set()))
            the_plan = plan.build_plan(policy, Resolver(), mounts)
            granting.walk_grants(the_plan, Rights(handled, 0), kernel.RuleAdder(ruleset).add)
            domain.restrict(ruleset)
            for place in places:
                _prove(place, mounts)
        else:
            domain.restrict(ruleset)
    else:
        kernel.set_no_new_privileges()
    protections.install_filter(_FILTER)
    return ENFORCED if scoped else DEGRADED, ENFORCED if protected else OFF


def find_places(protected: list[bytes], mounts: MountTable) -> set[bytes]:
    """Return paths and all names that the mount table has for them or for parts of them.

    Refuses a path that is not canonical, since what it leads to would stay open, and mounts that would
    make nearly everything a part of it.
    """
    resolver = Resolver()
    found = set()
    for path in protected:
        try:
            canonical = resolver.resolve(path).canonical
        except OSError as error:
            raise Refusal(
                "path-unresolvable",
                f"a path to protect cannot be resolved: {strerror(error.errno or 0)}",
                "give one whose directories can be searched",
                path=path,
                errno=error.errno,
            ) from error
        if canonical != path:
            raise Refusal(
                "path-unresolvable",
                "a path to protect leads somewhere else",
                "give its canonical form; somebody may have put a symlink in its place",
                path=path,
            )
        aliases = _find_aliases(path, mounts)
        if b"/" in aliases and path != b"/":
            raise Refusal(
                "mount-alias",
                "a path to protect is also mounted as the root directory, or the root directory beneath it",
                "unmount it",
                path=path,
            )
        found |= {path, *aliases}
    return found


def _find_aliases(path: bytes, mounts: MountTable) -> set[bytes]:
    problem = "where else a path to protect is mounted cannot be told from the mount table"
    remedy = "make the root directory a mount point, and undo overlays that lie in each other"
    if mounts.holding(path) is None:
        raise Refusal("mount-alias", problem, remedy, path=path)
    try:
        return mounts.aliases(path)
    except ValueError as error:
        raise Refusal("mount-alias", problem, remedy, path=path) from error


def _prove(place: bytes, mounts: MountTable) -> None:
    """Try to write in a protected place, in a way that leaves nothing behind; refuses if that works.

    Some file systems cannot tell: those on which rules may not bind are refused then.
    """
    for kind in (_O_TMPFILE, 0):  # if it is a directory, and if it is anything else
        try:
            close(open_descriptor(place, O_WRONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC | kind))
        except OSError as error:
            holder = mounts.holding(place)
            if error.errno != EOPNOTSUPP or holder is None or holder.reliable:
                continue
        raise Refusal(
            "unsupported-filesystem",
            "nothing shows that a protected path cannot be written inside the domain",
            "keep it on a local file system",
            path=place,
        )
