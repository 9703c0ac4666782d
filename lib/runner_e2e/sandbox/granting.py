"""Grant everything that stays visible: a rule for each sibling on the way to a hidden path."""

from errno import ELOOP, ENOENT
from os import (
    O_CLOEXEC,
    O_DIRECTORY,
    O_NOFOLLOW,
    O_RDONLY,
    close,
    fsdecode,
    fsencode,
    fstat,
    lstat,
    scandir,
    stat_result,
    strerror,
)
from os import open as open_descriptor

from . import kernel
from .plan import Plan
from .refusal import Refusal
from .rules import Rights, additional_grants, is_device

_DIRECTORY_FLAGS = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC
_RULE_FLAGS = kernel.O_PATH | O_NOFOLLOW | O_CLOEXEC
_DIRECTORY_RULE_FLAGS = _RULE_FLAGS | O_DIRECTORY
_KIND, _DIRECTORY, _SYMLINK = 0o170000, 0o040000, 0o120000

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


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


def _unlistable(directory: bytes, error: OSError) -> Refusal:
    return Refusal(
        "ancestor-unlistable",
        f"a directory on the way to a hidden path cannot be listed: {strerror(error.errno or 0)}",
        "make it readable for this user, or hide the directory itself; a launcher inside another"
        " launcher's domain always ends here",
        path=directory,
        errno=error.errno,
    )
