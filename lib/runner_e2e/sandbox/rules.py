"""Landlock's rights by ABI version, and what to grant so that only hidden paths become unreachable.

Pure. The rights are those of the kernel's `include/uapi/linux/landlock.h` and
`Documentation/userspace-api/landlock.rst`; versions above the table behave as its last row, and a
version below 1 is no Landlock at all.

Landlock can only allow. Hiding a path therefore means: on every ancestor of it, from `/` down, grant
each entry except the hidden one and except the way to it. An ancestor itself is never granted.
"""

from .names import parents

_KIND, _DIRECTORY = 0o170000, 0o040000
_CHARACTER_DEVICE, _BLOCK_DEVICE, _SYMLINK = 0o020000, 0o060000, 0o120000

EXECUTE = 1 << 0
WRITE_FILE = 1 << 1
READ_FILE = 1 << 2
READ_DIR = 1 << 3
REFER = 1 << 13
TRUNCATE = 1 << 14
IOCTL_DEV = 1 << 15
RESOLVE_UNIX = 1 << 16

# The rights that the kernel accepts on something that is not a directory.
FILE_RIGHTS = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV | RESOLVE_UNIX
READ_ONLY_RIGHTS = EXECUTE | READ_FILE | READ_DIR

BIND_TCP = 1 << 0
CONNECT_TCP = 1 << 1

SCOPE_ABSTRACT_UNIX_SOCKET = 1 << 0
SCOPE_SIGNAL = 1 << 1

LATEST = 9

# Below 3 a hidden file can be truncated; nothing lower is ever accepted.
LOWEST_USABLE = 3
# Below 6 an agent can signal its harness; the launcher asks for it unless told otherwise.
DEFAULT_MINIMUM = 6


def clamp(version: int) -> int:
    """Return the row of the table for a kernel's version; 0 when there is no Landlock."""
    return max(0, min(version, LATEST))


def filesystem_rights(version: int) -> int:
    """Return every file-system right of an ABI; handling all of them denies what is not granted."""
    version = clamp(version)
    if version < 1:
        return 0
    rights = (1 << 13) - 1
    if version >= 2:
        rights |= REFER
    if version >= 3:
        rights |= TRUNCATE
    if version >= 5:
        rights |= IOCTL_DEV
    if version >= 9:
        rights |= RESOLVE_UNIX
    return rights


def network_rights(version: int) -> int:
    """Return the TCP rights an ABI knows: bind and connect, from ABI 4."""
    return 3 if clamp(version) >= 4 else 0


def scopes(version: int) -> int:
    """Return the scopes an ABI knows: abstract Unix sockets and signals, from ABI 6."""
    return SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL if clamp(version) >= 6 else 0


def attribute_size(version: int) -> int:
    """Return the size in bytes of `struct landlock_ruleset_attr` that an ABI accepts in full."""
    version = clamp(version)
    if version >= 6:
        return 24
    return 16 if version >= 4 else 8


# Root owns these trees, so that file modes do not protect them from an agent that runs as root even
# without capabilities: core_pattern, cgroup release_agent, cron tables, /etc/passwd, every program.
READ_ONLY_TREES = frozenset(
    b"/bin /boot /etc /lib /lib32 /lib64 /libx32 /opt /proc /run /sbin /sys /usr /var".split()
)
WRITABLE_WITHIN = frozenset({b"/var/tmp"})
USUAL_DEVICES = b"null zero full random urandom tty ptmx pts shm mqueue".split()


class Access:
    """Which of the visible places may be written: the nearest named place above a path decides.

    `everywhere_read_only` is the answer where no place is named. Root's own trees are always among the
    places when `privileged`.
    """

    __slots__ = ("everywhere_read_only", "privileged", "read_only", "writable")

    def __init__(
        self,
        read_only: set[bytes],
        writable: set[bytes],
        *,
        everywhere_read_only: bool = False,
        privileged: bool = False,
    ) -> None:
        self.read_only = read_only | READ_ONLY_TREES if privileged else read_only
        self.writable = (writable | WRITABLE_WITHIN if privileged else writable) - read_only
        self.read_only = self.read_only - self.writable
        self.everywhere_read_only = everywhere_read_only
        self.privileged = privileged

    def is_read_only(self, path: bytes) -> bool:
        """Tell how a canonical path is granted."""
        for place in (path, *parents(path)):
            if place in self.writable:
                return False
            if place in self.read_only:
                return True
        return self.everywhere_read_only

    def entries_of(self, directory: bytes) -> tuple[bool, set[bytes]]:
        """Tell how the entries of a directory are granted, and for which names it is the reverse."""
        usual = self.is_read_only(directory)
        reverse = self.writable if usual else self.read_only
        return usual, {
            path[path.rfind(b"/") + 1 :]
            for path in reverse
            if path != b"/" and (path[: path.rfind(b"/")] or b"/") == directory
        }

    def protected(self) -> set[bytes]:
        """Return the read-only places that lie in a writable one.

        Rules add up: the writable place above must not be granted whole, but entry by entry.
        """
        return {path for path in self.read_only if path != b"/" and not self.is_read_only(parents(path)[0])}


class Rights:
    """The rights of one ABI, by kind of grant."""

    __slots__ = ("everything", "everything_file", "read", "read_file")

    def __init__(self, handled: int, withheld: int) -> None:
        self.everything = handled & ~withheld
        self.everything_file = self.everything & FILE_RIGHTS
        self.read = self.everything & READ_ONLY_RIGHTS
        self.read_file = self.read & FILE_RIGHTS

    def on(self, mode: int, *, read_only: bool) -> int:
        """Return the rights for a file of `mode` (`st_mode`); 0 when it gets no rule."""
        kind = mode & _KIND
        if kind == _SYMLINK:
            return 0  # judged by its target, which has its own place in the tree
        if kind == _DIRECTORY:
            return self.read if read_only else self.everything
        return self.read_file if read_only else self.everything_file


def withheld_names(hidden: set[bytes], protected: set[bytes] = frozenset()) -> dict[bytes, set[bytes]]:  # type: ignore[assignment]  # only read
    """Return for each ancestor of a hidden path the names in it that are not to be granted.

    These are the hidden entries and the ancestors among the entries. A hidden path beneath another
    one adds nothing: there nothing is granted anyway. `protected` places are withheld in the same way,
    and granted on their own.
    """
    withheld: dict[bytes, set[bytes]] = {}
    for path in hidden | protected:
        above = parents(path)
        if any(parent in hidden for parent in above):
            continue
        child = path
        for parent in above:
            known = withheld.get(parent)
            name = child[child.rfind(b"/") + 1 :]
            if known is None:
                withheld[parent] = {name}
            elif name in known:
                break  # and so are all ancestors above
            else:
                known.add(name)
            child = parent
    return withheld


def is_device(mode: int) -> bool:
    """Tell whether `st_mode` is a device node's."""
    return mode & _KIND in (_CHARACTER_DEVICE, _BLOCK_DEVICE)


def is_withheld(path: bytes, withhold: "tuple[tuple[bytes, bytes], ...]") -> bool:
    """Tell whether a path is an entry that its directory's prefix keeps from being granted with others."""
    cut = path.rfind(b"/")
    directory, name = path[:cut] or b"/", path[cut + 1 :]
    return any(place == directory and name.startswith(prefix) for place, prefix in withhold)


def additional_grants(
    withheld: dict[bytes, set[bytes]],
    hidden: set[bytes],
    rights: Rights,
    access: Access,
    withhold: "tuple[tuple[bytes, bytes], ...]" = (),
) -> list[tuple[bytes, int, bool]]:
    """Return the grants beside those of the ancestors' entries: path, rights for a directory, read only.

    Rules add up, so a writable place inside a read-only tree takes a second rule; a read-only place
    inside a writable one was withheld there. A writable place that `withhold` keeps from being granted
    with its siblings is granted here. For root `/dev` may be listed, but of its nodes only the
    usual ones opened.
    """

    def is_free(path: bytes) -> bool:
        return (
            path not in withheld
            and path not in hidden
            and not any(parent in hidden for parent in parents(path))
        )

    def is_entry(path: bytes) -> bool:
        """Tell whether the path is granted with the other entries of an ancestor."""
        names = None if path == b"/" else withheld.get(parents(path)[0])
        return names is not None and path[path.rfind(b"/") + 1 :] not in names

    extra = [
        (path, rights.everything, False)
        for path in sorted(access.writable)
        if is_free(path) and (not is_entry(path) or is_withheld(path, withhold))
    ]
    extra += [
        (path, rights.read, True)
        for path in sorted(access.protected())
        if is_free(path) and not is_entry(path)
    ]
    if access.privileged:
        if is_free(b"/dev"):
            extra.append((b"/dev", READ_DIR, True))
        for name in USUAL_DEVICES:
            path = b"/dev/" + name
            if is_free(path):
                extra.append((path, rights.everything, False))
    return extra
