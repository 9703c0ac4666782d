"""Every name of a path: what a spelling leads to, and where the mount table shows it again.

`os.path.realpath` answers neither question this launcher has: where the symlinks lie that a spelling
passes through, and how far a path exists that may be created later.

Mount table format: `proc_pid_mountinfo(5)`. A mount of the same file system (device) whose root
contains, equals or lies beneath a hidden path shows it a second time; so does an overlay with a layer
there.
"""

from errno import ELOOP, ENOENT, ENOTDIR
from os import O_CLOEXEC, O_RDONLY, close, fstat, getcwdb, lstat, read, readlink, strerror
from os import open as open_descriptor

_KIND, _DIRECTORY, _SYMLINK = 0o170000, 0o040000, 0o120000
_NOTHING = (b"", b".")
_MOST_SYMLINKS = 40  # the kernel's MAXSYMLINKS

# Landlock needs stable inodes; these file systems may serve a path by a new one at each look-up.
UNRELIABLE = frozenset({b"9p", b"virtiofs", b"fuse", b"fuseblk"})

_LAYER_OPTIONS = frozenset({b"lowerdir", b"lowerdir+", b"datadir+", b"upperdir", b"workdir"})


class Resolved:
    """What a spelling leads to.

    `canonical` has no symlink, `.` or `..`; `links` are the canonical places of all symlinks passed;
    `final_links` those of them that stand for the whole path; `exists` is false when the path or a
    parent of it is missing, and `canonical` then ends with the missing names.
    """

    __slots__ = ("canonical", "exists", "final_links", "links")

    def __init__(
        self, canonical: bytes, links: list[bytes], final_links: list[bytes], *, exists: bool
    ) -> None:
        self.canonical = canonical
        self.links = links
        self.final_links = final_links
        self.exists = exists


class Resolver:
    """Resolves many paths that share parents; a directory is looked at once."""

    __slots__ = ("_directories", "_start")

    def __init__(self) -> None:
        self._start: bytes | None = None
        self._directories: set[bytes] = {b""}

    def absolute(self, path: bytes) -> bytes:
        """Return the spelling made absolute, otherwise as it is."""
        if path.startswith(b"/"):
            return path
        if self._start is None:
            self._start = getcwdb()
        return self._start + b"/" + path

    def resolve(self, path: bytes) -> Resolved:
        """Follow `path`; raises OSError for anything but a missing name."""
        remaining = self.absolute(path).split(b"/")
        remaining.reverse()
        # A trailing slash or dot asks for a directory.
        wants_directory = remaining[0] in _NOTHING and len(remaining) > 1
        current = b""  # the root, so that joining needs no special case
        links: list[bytes] = []
        final_links: list[bytes] = []
        is_directory = True
        while remaining:
            name = remaining.pop()
            if name in _NOTHING:
                continue
            if not is_directory:
                raise OSError(ENOTDIR, strerror(ENOTDIR))
            if name == b"..":
                current = current[: current.rfind(b"/")] if current else b""
                continue
            current += b"/" + name
            if current in self._directories:
                continue
            try:
                kind = lstat(current).st_mode & _KIND
            except FileNotFoundError:
                return Resolved(_missing(current, remaining), links, final_links, exists=False)
            if kind == _SYMLINK:
                links.append(current)
                if all(part in _NOTHING for part in remaining):
                    final_links.append(current)
                current = _follow(current, len(links), remaining)
                continue
            is_directory = kind == _DIRECTORY
            if is_directory:
                self._directories.add(current)
        if wants_directory and not is_directory:
            raise OSError(ENOTDIR, strerror(ENOTDIR))
        return Resolved(current or b"/", links, final_links, exists=True)


def _follow(link: bytes, count: int, remaining: list[bytes]) -> bytes:
    """Put a symlink's target on the (reversed) names to come; return where they start from."""
    if count > _MOST_SYMLINKS:
        raise OSError(ELOOP, strerror(ELOOP))
    target = readlink(link)
    remaining.extend(reversed(target.split(b"/")))
    return b"" if target.startswith(b"/") else link[: link.rfind(b"/")]


def _missing(path: bytes, remaining: list[bytes]) -> bytes:
    """Return the path that a missing name and the (reversed) names after it would have."""
    rest = [part for part in reversed(remaining) if part not in _NOTHING]
    if b".." in rest:
        # Where it would lead depends on what is created; nothing can be promised.
        raise FileNotFoundError(ENOENT, strerror(ENOENT))
    return b"/".join([path, *rest])


def parents(path: bytes) -> list[bytes]:
    """Return the proper ancestors of a canonical path, nearest first, `/` last; none of `/`."""
    found = []
    end = path.rfind(b"/")
    while end > 0:
        found.append(path[:end])
        end = path.rfind(b"/", 0, end)
    if path != b"/":
        found.append(b"/")
    return found


def is_beneath(path: bytes, top: bytes) -> bool:
    """Tell whether canonical `path` is `top` or lies beneath it."""
    return top in (path, b"/") or path.startswith(top + b"/")


def descriptor_path(descriptor: int) -> bytes | None:
    """Return the path an open descriptor was opened by; None for a pipe, a socket or a closed one.

    Raises OSError when that cannot be known, as without `/proc`.
    """
    try:
        target = readlink(b"/proc/self/fd/%d" % descriptor)
    except OSError:
        try:
            fstat(descriptor)
        except OSError:
            return None
        raise
    if not target.startswith(b"/"):
        return None
    if target.endswith(b" (deleted)") and fstat(descriptor).st_nlink == 0:
        target = target.removesuffix(b" (deleted)")
    return target


def read_file(path: bytes) -> bytes:
    """Return the content of a file of `/proc`, without the cost of a buffered file object."""
    descriptor = open_descriptor(path, O_RDONLY | O_CLOEXEC)
    try:
        blocks = []
        while block := read(descriptor, 1 << 16):
            blocks.append(block)
    finally:
        close(descriptor)
    return b"".join(blocks)


class Mount:
    """One line of mountinfo; `root` is the mounted directory inside its file system.

    The end of the line is parsed when it is asked for: most launches only need device and point.
    """

    __slots__ = ("_rest", "device", "point", "root")

    def __init__(self, device: bytes, root: bytes, point: bytes, rest: bytes) -> None:
        self.device = device
        self.root = root
        self.point = point
        self._rest = rest

    @property
    def overlay(self) -> bool:
        """Whether this is an overlay of other directories."""
        return b" - overlay " in self._rest

    @property
    def kind(self) -> bytes:
        """The file system's type."""
        return self._rest.partition(b" - ")[2].split(b" ")[0]

    @property
    def options(self) -> bytes:
        """The options of the file system, comma separated, as the kernel escapes them."""
        return self._rest.partition(b" - ")[2].split(b" ")[2]

    @property
    def reliable(self) -> bool:
        """Whether Landlock rules are known to bind on this kind of file system."""
        return self.kind not in UNRELIABLE and not self.kind.startswith(b"fuse.")


class MountTable:
    """The mount table with the look-ups that aliases need."""

    __slots__ = ("_at", "_by_device", "_overlays")

    def __init__(self, mounts: list[Mount]) -> None:
        # A later line at the same point covers the earlier one.
        self._at = {mount.point: mount for mount in mounts}
        self._by_device: dict[bytes, list[Mount]] = {}
        for mount in mounts:
            self._by_device.setdefault(mount.device, []).append(mount)
        self._overlays = [
            (mount, layer) for mount in mounts if mount.overlay for layer in overlay_layers(mount.options)
        ]

    def holding(self, path: bytes) -> Mount | None:
        """Return the mount that a canonical path lies on."""
        mount = self._at.get(path)
        if mount is not None:
            return mount
        for parent in parents(path):
            mount = self._at.get(parent)
            if mount is not None:
                return mount
        return None

    def aliases(self, path: bytes) -> set[bytes]:
        """Return the other places where the content of a canonical path can be reached."""
        found: set[bytes] = set()
        pending = [path]
        while pending:
            for alias in self._direct(pending.pop()):
                if alias != path and alias not in found:
                    found.add(alias)
                    pending.append(alias)
        return found

    def _direct(self, path: bytes) -> list[bytes]:
        found: list[bytes] = []
        holder = self.holding(path)
        if holder is not None:
            sharing = self._by_device[holder.device]
            inside = _join(holder.root, path[len(holder.point) :] if holder.point != b"/" else path)
            if len(sharing) > 1:
                for mount in sharing:
                    found += _shown(inside, mount.root, mount.point)
            if holder.overlay:
                found += [_join(layer, inside) for layer in overlay_layers(holder.options)]
        for mount, layer in self._overlays:
            # A path beneath a layer shows inside the overlay, which itself may show only a part.
            if is_beneath(path, layer):
                found += _shown(_join(b"/", path[len(layer) :]), mount.root, mount.point)
            elif is_beneath(layer, path):
                found.append(mount.point)
        return found


def parse_mounts(text: bytes) -> MountTable:
    """Parse the content of `/proc/self/mountinfo`; lines that do not parse are an error."""
    mounts = []
    for line in text.split(b"\n"):
        if not line:
            continue
        fields = line.split(b" ", 5)
        if len(fields) < 6 or fields[5].count(b" - ") != 1:
            raise ValueError("a line of mountinfo has an unknown form")
        _, _, device, root, point, rest = fields
        if b"\\" in line:
            root, point = _unescape(root), _unescape(point)
        mounts.append(Mount(device, root, point, rest))
    return MountTable(mounts)


def overlay_layers(options: bytes) -> list[bytes]:
    r"""Return the layer directories among an overlay's mount options.

    In `lowerdir` a colon separates layers and `\:` is a colon; a double colon starts data layers.
    """
    layers = []
    for option in _split(options, b","):
        name, separator, value = option.partition(b"=")
        if not separator or name not in _LAYER_OPTIONS:
            continue
        parts = _split(value, b":") if name == b"lowerdir" else [value]
        layers += [
            _unescape(part).replace(b"\\:", b":").replace(b"\\,", b",").replace(b"\\\\", b"\\")
            for part in parts
            if part.startswith(b"/")
        ]
    return [layer.rstrip(b"/") or b"/" for layer in layers]


def _shown(inside: bytes, root: bytes, point: bytes) -> list[bytes]:
    """Where a mount of `root` at `point` shows the file system's `inside`: there, whole, or not."""
    if is_beneath(inside, root):
        rest = inside if root == b"/" else inside[len(root) :]
        return [_join(point, rest)]
    if is_beneath(root, inside):
        return [point]
    return []


def _join(top: bytes, rest: bytes) -> bytes:
    rest = rest.strip(b"/")
    if not rest:
        return top
    return (b"" if top == b"/" else top) + b"/" + rest


def _split(text: bytes, separator: bytes) -> list[bytes]:
    """Split at separators that no backslash precedes."""
    parts = [b""]
    escaped = False
    for index in range(len(text)):
        byte = text[index : index + 1]
        if escaped or byte == b"\\":
            escaped = not escaped
            parts[-1] += byte
        elif byte == separator:
            parts.append(b"")
        else:
            parts[-1] += byte
    return parts


def _unescape(text: bytes) -> bytes:
    """Undo the kernel's octal escapes for blank, tab, newline and backslash."""
    if b"\\" not in text:
        return text
    for escape, byte in ((b"\\040", b" "), (b"\\011", b"\t"), (b"\\012", b"\n"), (b"\\043", b"#")):
        text = text.replace(escape, byte)
    return text.replace(b"\\134", b"\\")
