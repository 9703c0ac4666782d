"""Build the ruleset of a plan, enter it, and prove it: the part that cannot be undone."""

from errno import E2BIG, EACCES, ELOOP, ENOENT, ENOSYS, EOPNOTSUPP, EPERM
from os import (
    O_CLOEXEC,
    O_DIRECTORY,
    O_NOCTTY,
    O_NOFOLLOW,
    O_NONBLOCK,
    O_RDONLY,
    close,
    fsdecode,
    fsencode,
    fstat,
    listdir,
    lstat,
    read,
    scandir,
    stat_result,
    strerror,
)
from os import open as open_descriptor

from . import kernel, rules
from .plan import Hidden, Plan
from .refusal import Refusal
from .rules import Rights, additional_grants, is_device

_DIRECTORY_FLAGS = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC
_RULE_FLAGS = kernel.O_PATH | O_NOFOLLOW | O_CLOEXEC
_DIRECTORY_RULE_FLAGS = _RULE_FLAGS | O_DIRECTORY
_PROOF_FLAGS = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC
_KIND, _DIRECTORY, _SYMLINK = 0o170000, 0o040000, 0o120000

# What a proof found: see `Proof.outcomes`.
LANDLOCK, FILE_MODE, ANCESTOR = "landlock", "file-mode", "ancestor"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def landlock_version() -> int:
    """Return the kernel's Landlock ABI; refuses, with three different remedies, where there is none."""
    try:
        version = kernel.landlock_version()
    except OSError as error:
        raise _unavailable(error) from error
    if rules.clamp(version) < 1:
        raise Refusal(
            "landlock-unavailable",
            f"the kernel reports Landlock ABI {version}, which does not exist",
            "use a kernel with Landlock, Linux 6.12 or newer",
        )
    return version


def require_version(version: int, minimum: int) -> None:
    """Refuse a kernel that is older than what the caller relies on."""
    if version < minimum:
        raise Refusal(
            "abi-too-old",
            f"the kernel offers Landlock ABI {version}, and at least {minimum} is needed",
            "use a newer kernel; the plan that --explain prints lists what each ABI would lose",
        )


def open_ruleset(version: int, *, scoped: int) -> int:
    """Return the descriptor of a ruleset which handles every file-system right of the ABI."""
    try:
        return kernel.create_ruleset(rules.filesystem_rights(version), scoped, rules.attribute_size(version))
    except OSError as error:
        raise _unavailable(error) from error


def walk_grants(plan: Plan, rights: Rights, add: "Callable[[int, int, str, bytes], None]") -> int:
    """Call `add(rights, descriptor, name, directory)` for everything that stays visible.

    Directories are opened without following any symlink, and entries relative to them, so that
    nothing can be swapped in between. Returns the number of grants. An entry that vanished is left
    out; anything else that cannot be opened is refused.
    """
    walk = _Walk(plan, rights, add)
    if not plan.withheld:
        # Nothing is hidden: the other protections hold, and everything else is as outside.
        walk.grant_path(b"/", rights.everything, read_only=plan.access.is_read_only(b"/"))
    for directory, names in plan.withheld.items():
        if plan.access.privileged and directory == b"/dev":
            continue  # only the usual nodes, by additional_grants
        walk.grant_entries(directory, names)
    additional = additional_grants(plan.withheld, set(plan.hidden), rights, plan.access, plan.withhold)
    for path, allowed, read_only in additional:
        walk.grant_path(path, allowed, read_only=read_only)
    for path in plan.exposed:
        if not walk.grant_path(path, rights.everything, read_only=False, exposed=True):
            raise Refusal(
                "expose-missing",
                "a path to expose vanished while the domain was built",
                "do not remove exposed paths while a launch starts",
                path=path,
                errno=ENOENT,
            )
    return walk.count


def _identities(paths: list[bytes]) -> set[tuple[int, int]]:
    """Return inode and device of those paths that are directories."""
    found = set()
    for path in paths:
        try:
            status = lstat(path)
        except OSError:
            continue  # missing, or to be refused when it is opened
        if status.st_mode & _KIND == _DIRECTORY:
            found.add((status.st_ino, status.st_dev))
    return found


class _Walk:
    """One walk over all that is granted; `count` is the number of grants so far.

    A rule belongs to an inode, whatever it is called: granting another name of an ancestor would grant
    the ancestor, and with it what is hidden below. The mount table tells of hidden paths' other names;
    `_guarded` holds what must not be granted by any.
    """

    __slots__ = (
        "_access",
        "_add",
        "_guarded",
        "_inodes",
        "_mounts",
        "_never",
        "_rights",
        "_withhold",
        "count",
    )

    def __init__(self, plan: Plan, rights: Rights, add: "Callable[[int, int, str, bytes], None]") -> None:
        self._access = plan.access
        self._rights = rights
        self._add = add
        self._withhold = plan.withhold
        self._mounts = plan.mounts
        # Another name of an exposed directory is hidden by that name; the directory itself is granted.
        named = [hidden.path for hidden in plan.hidden.values() if hidden.kind != "alias"]
        self._never = _identities([*plan.withheld, *named])
        self._guarded = self._never | _identities([*plan.hidden])
        self._inodes = {inode for inode, _ in self._guarded}
        self.count = 0

    def grant_entries(  # noqa: C901, PLR0912, PLR0915 - the loop runs once per sibling: no calls to tidy it up
        self, directory: bytes, names: set[bytes]
    ) -> None:
        """Grant the entries of an ancestor, but for some names."""
        read_only, reverse = self._access.entries_of(directory)
        skipped = {fsdecode(name) for name in names}
        reversed_names = {fsdecode(name) for name in reverse}
        if self._access.privileged and directory == b"/":
            skipped.add("dev")
        prefixes = tuple(fsdecode(prefix) for place, prefix in self._withhold if place == directory)
        rights, add, inodes = self._rights, self._add, self._inodes
        usual = rights.read if read_only else rights.everything
        usual_file = rights.read_file if read_only else rights.everything_file
        privileged = self._access.privileged
        # Where nothing is mounted on an entry, its inode is known from the listing, and for a directory
        # the open itself decides what it is: with O_DIRECTORY it fails for anything else.
        count = 0
        unmounted = not self._mounts.within(directory)
        try:
            parent = kernel.open_without_symlinks(directory, _DIRECTORY_FLAGS)
        except OSError as error:
            if error.errno == ENOENT:
                return  # a missing optional path: nothing can be created in a missing parent
            raise _unlistable(directory, error) from error
        try:
            with scandir(parent) as entries:
                for entry in entries:
                    name = entry.name
                    if name in skipped or entry.is_symlink() or (prefixes and name.startswith(prefixes)):
                        continue
                    is_directory = (
                        unmounted
                        and entry.is_dir(follow_symlinks=False)
                        and entry.inode() not in inodes
                        and name not in reversed_names
                    )
                    try:
                        descriptor = open_descriptor(
                            name, _DIRECTORY_RULE_FLAGS if is_directory else _RULE_FLAGS, dir_fd=parent
                        )
                    except (FileNotFoundError, NotADirectoryError):
                        continue  # it vanished, and something else may have its name now
                    if is_directory:
                        add(usual, descriptor, name, directory)
                        count += 1
                        close(descriptor)
                        continue
                    status = fstat(descriptor)
                    kind = status.st_mode & _KIND
                    if status.st_ino in inodes:
                        self._refuse_guarded(status, name, directory)
                    if name in reversed_names:
                        allowed = rights.on(kind, read_only=not read_only)
                    elif kind == _DIRECTORY:
                        allowed = usual
                    elif kind == _SYMLINK or (privileged and is_device(kind)):
                        allowed = 0  # it became a symlink after it was listed, or is no place for a device
                    else:
                        allowed = usual_file
                    if allowed:
                        add(allowed, descriptor, name, directory)
                        count += 1
                    close(descriptor)
        except OSError as error:
            raise _unlistable(directory, error) from error
        finally:
            close(parent)
        self.count += count

    def grant_path(self, path: bytes, allowed: int, *, read_only: bool, exposed: bool = False) -> bool:
        """Grant one canonical path, at most with the `allowed` rights; False when it does not exist."""
        try:
            descriptor = kernel.open_without_symlinks(path, _RULE_FLAGS)
        except OSError as error:
            if error.errno == ENOENT:
                return False
            if error.errno == ELOOP:
                return False  # a symlink is judged by its target
            raise Refusal(
                "path-unresolvable",
                f"a path to grant cannot be opened: {strerror(error.errno or 0)}",
                "check that no part of it became a symlink or lost its permissions",
                path=path,
                errno=error.errno,
            ) from error
        try:
            status = fstat(descriptor)
            cut = path.rfind(b"/")
            name, directory = fsdecode(path[cut + 1 :]), path[:cut] or b"/"
            if not exposed or (status.st_ino, status.st_dev) in self._never:
                self._refuse_guarded(status, name, directory)
            allowed &= self._rights.on(status.st_mode, read_only=read_only)
            if allowed:
                self._add(allowed, descriptor, name, directory)
                self.count += 1
        finally:
            close(descriptor)
        return True

    def _refuse_guarded(self, status: stat_result, name: str, directory: bytes) -> None:
        if (status.st_ino, status.st_dev) not in self._guarded:
            return
        raise Refusal(
            "mount-alias",
            "a directory on the way to a hidden path, or a hidden one, is mounted a second time here",
            "unmount it, or hide this place too",
            path=(b"" if directory == b"/" else directory) + b"/" + fsencode(name),
        )


def restrict(ruleset: int) -> None:
    """Enter the domain. Nothing else of the launcher runs outside it afterwards."""
    try:
        kernel.set_no_new_privileges()
        kernel.restrict_self(ruleset)
    except OSError as error:
        if error.errno == E2BIG:
            raise Refusal(
                "layer-limit",
                "this process already lies in 16 Landlock domains, and the kernel allows no more",
                "start the launcher outside the other sandboxes",
                errno=error.errno,
            ) from error
        raise _unavailable(error) from error


def refuse_threads() -> None:
    """Refuse when another thread runs: below ABI 8 a domain covers only the calling thread."""
    try:
        threads = len(listdir("/proc/self/task"))
    except OSError as error:
        raise Refusal(
            "protection-unavailable",
            "the threads of the launcher cannot be counted",
            "mount /proc for the launcher",
            path=b"/proc/self/task",
            errno=error.errno,
        ) from error
    if threads > 1:
        raise Refusal(
            "threads-running",
            f"{threads} threads run in the launcher, and a domain would cover only one",
            "start the launcher as a process of its own",
        )


class Proof:
    """Opens each hidden path before and after restricting and judges the difference.

    `outcomes` maps each hidden path to `landlock` (open before, EACCES after), `file-mode` (closed by
    file modes already: recorded, never a proof) or `ancestor` (a missing optional path).
    """

    __slots__ = ("_before", "outcomes")

    def __init__(self, plan: Plan) -> None:
        self.outcomes: dict[bytes, str] = {}
        self._before: list[tuple[Hidden, bytes, int, int]] = []
        for hidden in plan.hidden.values():
            follow = 0 if hidden.kind == "link" else O_NOFOLLOW
            self._before.append((hidden, hidden.path, follow, _try_open(hidden.path, follow)))
            self._before += [
                (hidden, spelling, 0, _try_open(spelling, 0))
                for spelling in hidden.spellings
                if hidden.kind == "path"
            ]

    def complete(self, plan: Plan) -> None:
        """Open everything again, inside the domain; refuses whatever is not denied."""
        # With only missing paths hidden, this is all that shows the domain to be real.
        for directory in (b"/",) if b"/" in plan.withheld else ():
            if _try_open(directory, O_DIRECTORY) != EACCES:
                raise Refusal(
                    "hidden-readable",
                    "the root directory can still be listed inside the domain, so nothing is enforced",
                    "report this; something answers in the kernel's place",
                    path=directory,
                )
        for hidden, path, follow, before in self._before:
            after = _try_open(path, follow)
            outcome = _judge(hidden, before, after)
            if outcome is None:
                raise _unproven(plan, hidden, path, after)
            if outcome != LANDLOCK and before == EACCES:
                holder = plan.mounts.holding(hidden.path)
                if holder is not None and not holder.reliable:
                    raise _unreliable(hidden.path, holder.kind)
            known = self.outcomes.get(hidden.path)
            if known is None or outcome == LANDLOCK:
                self.outcomes[hidden.path] = outcome


def check_exposed(plan: Plan) -> None:
    """Open and read each exposed path as the command will, inside the domain and without privileges."""
    for path in plan.exposed:
        try:
            descriptor = open_descriptor(path, _PROOF_FLAGS | O_NOFOLLOW)
            try:
                if fstat(descriptor).st_mode & _KIND == _DIRECTORY:
                    with scandir(descriptor) as entries:
                        next(entries, None)
                else:
                    read(descriptor, 1)
            finally:
                close(descriptor)
        except BlockingIOError:
            continue  # an empty FIFO answers so: it is open
        except OSError as error:
            raise Refusal(
                "expose-unreadable",
                f"a path to expose cannot be read inside the domain: {strerror(error.errno or 0)}",
                "give the agent's user read permission on it",
                path=path,
                errno=error.errno,
            ) from error


def _try_open(path: bytes, follow: int) -> int:
    """Return 0 when the path can be opened for reading, else the errno."""
    try:
        close(open_descriptor(path, _PROOF_FLAGS | follow))
    except OSError as error:
        return error.errno or EACCES
    return 0


def _judge(hidden: Hidden, before: int, after: int) -> str | None:
    if before == EACCES:
        return FILE_MODE if after == EACCES else None
    if hidden.optional and (after == ENOENT or (before == ENOENT and after == EACCES)):
        return ANCESTOR
    # Before, a socket answers ENXIO and a broken link ENOENT: the change to EACCES is the domain's.
    return LANDLOCK if after == EACCES else None


def _unproven(plan: Plan, hidden: Hidden, path: bytes, after: int) -> Refusal:
    holder = plan.mounts.holding(hidden.path)
    if holder is not None and not holder.reliable:
        return _unreliable(hidden.path, holder.kind)
    if after == ENOENT:
        return Refusal(
            "hide-missing",
            "a hidden path vanished while the domain was entered, so its denial is not proven",
            "do not remove hidden paths while a launch starts, or use --hide-optional",
            path=path,
            errno=after,
        )
    return Refusal(
        "hidden-readable",
        "a hidden path can still be opened inside the domain"
        if after == 0
        else f"a hidden path is not denied inside the domain: {strerror(after)}",
        "report this with the output of --explain: the domain does not hold here",
        path=path,
        errno=after or None,
    )


def _unreliable(path: bytes, kind: bytes) -> Refusal:
    return Refusal(
        "unsupported-filesystem",
        f"a hidden path lies on {fsdecode(kind)}, where its denial could not be proven",
        "keep what is to be hidden on a local file system",
        path=path,
    )


def _unlistable(directory: bytes, error: OSError) -> Refusal:
    return Refusal(
        "ancestor-unlistable",
        f"a directory on the way to a hidden path cannot be listed: {strerror(error.errno or 0)}",
        "make it readable for this user, or hide the directory itself; a launcher inside another"
        " launcher's domain always ends here",
        path=directory,
        errno=error.errno,
    )


def _unavailable(error: OSError) -> Refusal:
    remedy = {
        ENOSYS: "use a kernel built with CONFIG_SECURITY_LANDLOCK, Linux 6.12 or newer",
        EOPNOTSUPP: "add landlock to the kernel's lsm= boot parameter",
        EPERM: "let the container's seccomp profile pass the landlock system calls, or run outside it",
    }.get(
        error.errno or 0,
        "check the kernel's log; this launcher does not start a command unconfined",
    )
    return Refusal(
        "landlock-unavailable",
        f"Landlock refused to work: {strerror(error.errno or 0)}",
        remedy,
        errno=error.errno,
    )
