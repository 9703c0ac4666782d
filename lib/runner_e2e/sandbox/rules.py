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
WRITABLE_WITHIN = (b"/var/tmp",)
USUAL_DEVICES = b"null zero full random urandom tty ptmx pts shm mqueue".split()


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


def withheld_names(hidden: set[bytes]) -> dict[bytes, set[bytes]]:
    """Return for each ancestor of a hidden path the names in it that are not to be granted.

    These are the hidden entries and the ancestors among the entries. A hidden path beneath another
    one adds nothing: there nothing is granted anyway.
    """
    withheld: dict[bytes, set[bytes]] = {}
    for path in hidden:
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


def read_only_entries(directory: bytes, *, privileged: bool) -> tuple[bool, frozenset[bytes]]:
    """Tell how the entries of an ancestor are granted: read only by default, and the exceptions.

    The exceptions are names for which the default is reversed.
    """
    if not privileged:
        return False, frozenset()
    if directory == b"/":
        return False, frozenset(tree[1:] for tree in READ_ONLY_TREES)
    for place in (directory, *parents(directory)):
        if place in WRITABLE_WITHIN:
            return False, frozenset()
        if place in READ_ONLY_TREES:
            prefix = directory + b"/"
            return True, frozenset(
                path[len(prefix) :]
                for path in WRITABLE_WITHIN
                if path.startswith(prefix) and b"/" not in path[len(prefix) :]
            )
    return False, frozenset()


def is_device(mode: int) -> bool:
    """Tell whether `st_mode` is a device node's."""
    return mode & _KIND in (_CHARACTER_DEVICE, _BLOCK_DEVICE)


def additional_grants(
    withheld: dict[bytes, set[bytes]], hidden: set[bytes], rights: Rights, *, privileged: bool
) -> list[tuple[bytes, int, bool]]:
    """Return the grants below a read-only tree for root: path, rights for a directory, read only.

    Rules add up, so a writable place inside a read-only tree takes a second rule. `/dev` may be
    listed, but of its nodes only the usual ones opened.
    """
    if not privileged:
        return []
    extra: list[tuple[bytes, int, bool]] = []

    def is_free(path: bytes) -> bool:
        return (
            path not in withheld
            and path not in hidden
            and not any(parent in hidden for parent in parents(path))
        )

    extra += [(path, rights.everything, False) for path in WRITABLE_WITHIN if is_free(path)]
    if is_free(b"/dev"):
        extra.append((b"/dev", READ_DIR, True))
    for name in USUAL_DEVICES:
        path = b"/dev/" + name
        if is_free(path):
            extra.append((path, rights.everything, False))
    return extra
