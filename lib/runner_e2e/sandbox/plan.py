"""Turn the spellings of a policy into a plan: what is hidden, exposed, and how far each was found.

Reads the disk, changes nothing. Every conflict is refused here, before the first irreversible step.
"""

from errno import EACCES, ENOENT
from os import getcwdb, lstat, stat, strerror

from .names import (
    MountTable,
    Resolved,
    Resolver,
    descriptor_path,
    is_beneath,
    parents,
    parse_mounts,
    read_file,
)
from .refusal import Refusal
from .rules import Access, is_withheld, withheld_names

_KIND, _DIRECTORY, _REGULAR = 0o170000, 0o040000, 0o100000
_ANY_EXECUTE = 0o111


class Policy:
    """What a caller asks for, as spelled: byte strings, absolute or relative to the directory.

    `withhold` names canonical directories on the way to a hidden path, each with a prefix: entries
    whose name starts so are not granted, whenever they were made, unless `access` names them as
    writable. `access` says what may be written. `close_ports` are TCP ports, from 1 to 65535.
    """

    __slots__ = ("access", "close_ports", "expose", "hide", "hide_optional", "withhold")

    def __init__(
        self,
        hide: list[bytes],
        hide_optional: list[bytes],
        expose: list[bytes],
        access: Access | None = None,
        withhold: tuple[tuple[bytes, bytes], ...] = (),
    ) -> None:
        self.close_ports: tuple[int, ...] = ()
        self.hide = hide
        self.hide_optional = hide_optional
        self.expose = expose
        self.access = access or Access(set(), set())
        self.withhold = withhold


class Hidden:
    """One hidden path: canonical, the spellings that led to it, and what kind of entry it is.

    `kind` is `path`, `link` (a symlink that stood for a hidden path), or `alias` (another name of
    one, by the mount table).
    """

    __slots__ = ("exists", "kind", "optional", "path", "spellings")

    def __init__(self, path: bytes, spelling: bytes, kind: str, *, optional: bool, exists: bool) -> None:
        self.path = path
        self.spellings = [spelling] if spelling != path else []
        self.kind = kind
        self.optional = optional
        self.exists = exists


class Plan:
    """A policy that can be enforced. `withheld` is `rules.withheld_names` of the hidden paths."""

    __slots__ = (
        "access",
        "closed_ports",
        "exposed",
        "exposed_spellings",
        "hidden",
        "mounts",
        "withheld",
        "withhold",
    )

    def __init__(
        self,
        mounts: MountTable,
        access: Access | None = None,
        withhold: tuple[tuple[bytes, bytes], ...] = (),
    ) -> None:
        self.closed_ports: tuple[int, ...] = ()
        self.hidden: dict[bytes, Hidden] = {}
        self.exposed: set[bytes] = set()
        self.exposed_spellings: dict[bytes, bytes] = {}
        self.withheld: dict[bytes, set[bytes]] = {}
        self.mounts = mounts
        self.access = access or Access(set(), set())
        self.withhold = withhold

    def hidden_by(self, path: bytes) -> bytes | None:
        """Return the hidden or withheld path at or above a canonical path, unless that is shown."""
        for place in (path, *parents(path)):
            if place in self.exposed:
                return None
            if place in self.hidden:
                return place
            if self.withhold and place not in self.withheld and is_withheld(place, self.withhold):
                shown = self.access.writable
                return (
                    None if any(is_beneath(path, top) and is_beneath(top, place) for top in shown) else place
                )
        return None


def build_plan(policy: Policy, resolver: Resolver, mounts: MountTable | None = None) -> Plan:
    """Resolve and check a policy; raises Refusal. Without `mounts` this process's table is read."""
    plan = Plan(mounts or read_mounts(), policy.access, policy.withhold)
    plan.closed_ports = tuple(sorted(set(policy.close_ports)))
    for path in policy.hide:
        _add_hidden(plan, path, _resolve(resolver, path), optional=False)
    for path in policy.hide_optional:
        _add_hidden(plan, path, _resolve(resolver, path, optional=True), optional=True)
    _add_mount_aliases(plan)
    tops = set(plan.hidden)
    containing = {parent for path in tops for parent in parents(path)}
    for path in policy.expose:
        _add_exposed(plan, path, _resolve(resolver, path), containing)
    _forget_exposed_aliases(plan)
    plan.withheld = withheld_names(set(plan.hidden))
    # Entries of an ancestor are granted one by one anyway, each as `access` says.
    protected = {path for path in plan.access.protected() if parents(path)[0] not in plan.withheld}
    if protected:
        plan.withheld = withheld_names(set(plan.hidden), protected)
    return plan


def read_mounts() -> MountTable:
    """Read this process's mount table; without it aliases cannot be excluded, so that is refused."""
    try:
        return parse_mounts(read_file(b"/proc/self/mountinfo"))
    except (OSError, ValueError) as error:
        raise Refusal(
            "protection-unavailable",
            "the mount table cannot be read, so other names of hidden paths cannot be found",
            "mount /proc, or run outside the container that withholds it",
            path=b"/proc/self/mountinfo",
            errno=getattr(error, "errno", None),
        ) from error


def check_process(plan: Plan) -> None:
    """Refuse a working directory or standard stream that would hand a hidden place on."""
    try:
        directory = getcwdb()  # canonical: the kernel walks up from the directory itself
    except OSError as error:
        raise _no_directory(error.errno or ENOENT) from error
    if not directory.startswith(b"/"):
        raise _no_directory(ENOENT)  # "(unreachable)": it lies outside this process's root
    if plan.hidden_by(directory) is not None:
        raise Refusal(
            "cwd-hidden",
            "the working directory lies beneath a hidden path",
            "start from a directory that stays visible, or expose it",
            path=directory,
        )
    for descriptor in (0, 1, 2):
        try:
            path = descriptor_path(descriptor)
        except OSError as error:
            raise Refusal(
                "stdio-hidden",
                f"what descriptor {descriptor} refers to cannot be read from /proc/self/fd",
                "mount /proc for the launcher",
                errno=error.errno,
            ) from error
        # A directory on the way to a hidden path could be listed through the open descriptor.
        if path is not None and (plan.hidden_by(path) is not None or path in plan.withheld):
            raise Refusal(
                "stdio-hidden",
                f"descriptor {descriptor} is open on a path that is to be hidden",
                "redirect the standard streams elsewhere, for example through a pipe",
                path=path,
            )


def find_command(name: bytes, search: bytes, plan: Plan, resolver: Resolver) -> list[bytes]:
    """Return the files to try for a command, in the order of the search path.

    Follows execvp: a name with a slash is itself, else every entry of `search` (an empty one is the
    working directory). What cannot be looked at is left out, so that one closed directory does not
    turn "not found" into "permission denied". A command that would come from a hidden path is refused.
    """
    if b"/" in name:
        found = [name]
    else:
        found = []
        for directory in search.split(b":"):
            candidate = (directory or b".") + b"/" + name
            try:
                if stat(candidate).st_mode & _KIND != _DIRECTORY:
                    found.append(candidate)
            except OSError:
                continue
    for candidate in found:
        try:
            mode = stat(candidate).st_mode
            canonical = resolver.resolve(candidate).canonical
        except OSError:
            continue
        if mode & _KIND != _REGULAR or not mode & _ANY_EXECUTE:
            continue
        if plan.hidden_by(canonical) is not None:
            raise Refusal(
                "command-hidden",
                "the command lies beneath a hidden path",
                "keep the command outside the hidden paths, or expose its directory",
                path=canonical,
            )
        break  # this one runs; later ones are not reached
    return found


def _no_directory(number: int) -> Refusal:
    return Refusal(
        "path-unresolvable",
        f"the working directory cannot be resolved: {strerror(number)}",
        "start from a directory that exists",
        errno=number,
    )


def _resolve(resolver: Resolver, path: bytes, *, optional: bool = False) -> Resolved:
    if not path:
        raise Refusal("usage", "a path is empty", "give every path option a value")
    if b"\0" in path:
        raise Refusal("usage", "a path contains a NUL byte", "no file can have such a name")
    try:
        return resolver.resolve(path)
    except OSError as error:
        if error.errno == ENOENT and not optional:
            return Resolved(path, [], [], exists=False)
        raise Refusal(
            "path-unresolvable",
            f"a path cannot be resolved: {strerror(error.errno or 0)}",
            "give a path whose directories exist and can be searched",
            path=path,
            errno=error.errno,
        ) from error


def _add_hidden(plan: Plan, spelling: bytes, resolved: Resolved, *, optional: bool) -> None:
    path = resolved.canonical
    if path == b"/":
        raise Refusal(
            "hide-root",
            "the root directory cannot be hidden",
            "hide what lies beneath it",
            path=spelling,
        )
    if not resolved.exists and not optional:
        raise Refusal(
            "hide-missing",
            "a path to hide does not exist",
            "correct the path, or use --hide-optional for one that may come later",
            path=spelling,
            errno=ENOENT,
        )
    known = plan.hidden.get(path)
    if known is None:
        plan.hidden[path] = Hidden(path, spelling, "path", optional=optional, exists=resolved.exists)
        if resolved.exists:
            _refuse_second_name(path)
    else:
        known.optional = known.optional and optional
        if spelling != path and spelling not in known.spellings:
            known.spellings.append(spelling)
    for link in resolved.final_links:
        plan.hidden.setdefault(link, Hidden(link, link, "link", optional=optional, exists=True))


def _refuse_second_name(path: bytes) -> None:
    status = lstat(path)
    if status.st_mode & _KIND != _DIRECTORY and status.st_nlink > 1:
        raise Refusal(
            "hard-link-alias",
            f"a file to hide has {status.st_nlink} names, and only one of them would be hidden",
            "remove its other names, or hide a copy",
            path=path,
        )


def _add_mount_aliases(plan: Plan) -> None:
    for hidden in list(plan.hidden.values()):
        for alias in _mount_aliases(plan, hidden.path):
            if alias in plan.hidden:
                continue
            if alias == b"/":
                raise Refusal(
                    "mount-alias",
                    "a path to hide is also mounted as the root directory",
                    "hide a part of it, or unmount the other place",
                    path=hidden.path,
                )
            plan.hidden[alias] = Hidden(alias, hidden.path, "alias", optional=True, exists=_is_there(alias))


def _mount_aliases(plan: Plan, path: bytes) -> set[bytes]:
    try:
        if plan.mounts.holding(path) is not None:
            return plan.mounts.aliases(path)
    except ValueError as error:
        raise _uncountable(path) from error
    # In a changed root that is no mount point, the table leaves the mount below it out.
    raise _uncountable(path)


def _uncountable(path: bytes) -> Refusal:
    return Refusal(
        "mount-alias",
        "where else a path to hide is mounted cannot be told from the mount table",
        "make the root directory a mount point, and undo overlays that lie in each other",
        path=path,
    )


def _is_there(path: bytes) -> bool:
    try:
        lstat(path)
    except OSError as error:
        return error.errno == EACCES
    return True


def _add_exposed(plan: Plan, spelling: bytes, resolved: Resolved, containing: set[bytes]) -> None:
    path = resolved.canonical
    if not resolved.exists:
        raise Refusal(
            "expose-missing",
            "a path to expose does not exist",
            "create it before the launch: an agent cannot create it in a hidden directory",
            path=spelling,
            errno=ENOENT,
        )
    if path == b"/" or path in plan.hidden or path in containing:
        below = [hidden for hidden in plan.hidden.values() if is_beneath(hidden.path, path)]
        by_alias = bool(below) and all(hidden.kind == "alias" for hidden in below)
        raise Refusal(
            "mount-alias" if by_alias else "expose-reveals-hidden",
            "a path to expose shows a hidden one" + (" that is mounted beneath it" if by_alias else ""),
            "expose only directories that lie beneath a hidden path and contain none",
            path=spelling,
        )
    for link in resolved.links:
        if any(parent in plan.hidden for parent in parents(link)):
            raise Refusal(
                "expose-symlink",
                "a path to expose passes through a symlink beneath a hidden path",
                "expose the real directory: whoever could write there may have planted the link",
                path=link,
            )
    if not any(parent in plan.hidden for parent in parents(path)):
        raise Refusal(
            "expose-outside-hidden",
            "a path to expose does not lie beneath a hidden one",
            "what is not hidden is visible anyway: remove the option, or hide a parent",
            path=spelling,
        )
    plan.exposed.add(path)
    plan.exposed_spellings[path] = spelling
    _refuse_mounts_within(plan, path)


def _forget_exposed_aliases(plan: Plan) -> None:
    """Leave out other names of hidden content that show only what is exposed anyway."""
    for hidden in list(plan.hidden.values()):
        if hidden.kind == "alias" and any(plan.mounts.covers(path, hidden.path) for path in plan.exposed):
            del plan.hidden[hidden.path]


def _refuse_mounts_within(plan: Plan, exposed: bytes) -> None:
    """Refuse an exposure beneath which hidden content is mounted that is not its own."""
    for mount in plan.mounts.within(exposed):
        if any(plan.mounts.shows(mount, path) for path in plan.hidden) and not plan.mounts.covers(
            exposed, mount.point
        ):
            raise Refusal(
                "mount-alias",
                "hidden content is mounted beneath a path to expose",
                "unmount it",
                path=mount.point,
            )
