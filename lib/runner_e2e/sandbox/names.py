"""Every name of a path: what a spelling leads to, and where the mount table shows it again.

`os.path.realpath` answers neither question this launcher has: where the symlinks lie that a spelling
passes through, and how far a path exists that may be created later.

Mount table format: `proc_pid_mountinfo(5)`. A mount of the same file system (device) whose root
contains, equals or lies beneath a hidden path shows it a second time; so does an overlay with a layer
there.
"""

from errno import ELOOP, ENAMETOOLONG, ENOENT, ENOTDIR
from os import O_CLOEXEC, O_RDONLY, close, fstat, getcwdb, lstat, read, readlink, strerror
from os import open as open_descriptor

_KIND, _DIRECTORY, _SYMLINK = 0o170000, 0o040000, 0o120000
_NOTHING = (b"", b".")
_LONGEST_PATH = 4095  # PATH_MAX less the final NUL: no system call takes a longer one
_MOST_SYMLINKS = 40  # the kernel's MAXSYMLINKS

# Landlock needs stable inodes; these file systems may serve a path by a new one at each look-up.
UNRELIABLE = frozenset({b"9p", b"virtiofs", b"fuse", b"fuseblk"})

_MOST_STEPS = 12  # from overlay to layer to overlay; the kernel stacks no more than two

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
        if len(path) > _LONGEST_PATH:
            raise OSError(ENAMETOOLONG, strerror(ENAMETOOLONG))
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

    `parent` is the `number` of the mount that this one covers a directory of. The end of the line is
    parsed when it is asked for: most launches do not need it.
    """

    __slots__ = ("_rest", "device", "number", "parent", "point", "root")

    def __init__(self, fields: list[bytes]) -> None:
        self.number, self.parent, self.device, self.root, self.point, self._rest = fields

    @property
    def overlay(self) -> bool:
        """Whether this is an overlay of other directories."""
        return b" - overlay " in self._rest and self.kind == b"overlay"

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
    """The mount table with the look-ups that aliases need.

    What a path shows is named by a device and a path inside its file system: each mount of the device
    may show it again, and so may an overlay that has a part of it for a layer.
    """

    __slots__ = ("_at", "_by_device", "_held_layers", "_layers", "_mounts", "_overlays", "_points")

    def __init__(self, mounts: list[Mount]) -> None:
        numbers = {mount.number for mount in mounts}
        self._at: dict[tuple[bytes, bytes], Mount] = {}
        self._by_device: dict[bytes, list[Mount]] = {}
        self._mounts = mounts
        # One text of all mount points, in which most look-ups find nothing.
        self._points = b"\0" + b"\0".join([mount.point for mount in mounts])
        self._overlays: dict[bytes, set[tuple[bytes, bytes]]] = {}  # the layers of an overlay
        self._layers: dict[tuple[bytes, bytes], set[bytes]] = {}  # the overlays of a layer
        self._held_layers: dict[tuple[bytes, bytes], set[bytes]] = {}  # and of the directories above it
        for mount in mounts:
            # The topmost mount has itself or one outside this root as its parent.
            top = mount.parent == mount.number or mount.parent not in numbers
            self._at[b"" if top else mount.parent, mount.point] = mount
            self._by_device.setdefault(mount.device, []).append(mount)
        for mount in mounts:
            if mount.overlay:
                self._add_layers(mount)

    def _add_layers(self, overlay: Mount) -> None:
        for layer in overlay_layers(overlay.options):
            # The overlay may cover the directory that names its layer.
            holder = self.holding(layer, without=overlay)
            if holder is None:
                continue
            device, inside = holder.device, _inside(holder, layer)
            self._overlays.setdefault(overlay.device, set()).add((device, inside))
            self._layers.setdefault((device, inside), set()).add(overlay.device)
            for parent in parents(inside):
                self._held_layers.setdefault((device, parent), set()).add(overlay.device)

    def within(self, path: bytes) -> list[Mount]:
        """Return the mounts that can be reached beneath a canonical path."""
        top = b"/" if path == b"/" else path + b"/"
        if b"\0" + top not in self._points:
            return []
        return [
            mount
            for mount in self._mounts
            if mount.point != path and mount.point.startswith(top) and self.holding(mount.point) is mount
        ]

    def shows(self, mount: Mount, path: bytes) -> bool:
        """Tell whether a mount shows a canonical path, a part of it, or something that contains it."""
        holder = self.holding(path)
        if holder is None or holder.device != mount.device:
            return False
        inside = _inside(holder, path)
        return is_beneath(inside, mount.root) or is_beneath(mount.root, inside)

    def covers(self, path: bytes, other: bytes) -> bool:
        """Tell whether canonical `other` shows nothing but what lies at or beneath canonical `path`."""
        holder, holder_of_other = self.holding(path), self.holding(other)
        return (
            holder is not None
            and holder_of_other is not None
            and holder.device == holder_of_other.device
            and is_beneath(_inside(holder_of_other, other), _inside(holder, path))
        )

    def holding(self, path: bytes, *, without: Mount | None = None) -> Mount | None:
        """Return the mount that a canonical path lies on, as a look-up from the root finds it."""
        holder: Mount | None = None
        number = b""
        for place in reversed((path, *parents(path))):
            while (mount := self._at.get((number, place))) is not None and mount is not without:
                holder, number = mount, mount.number
        return holder

    def aliases(self, path: bytes) -> set[bytes]:
        """Return the places outside a canonical path where its content can be reached.

        Raises ValueError when there is no end of them, as between overlays that cover each other's layers.
        """
        holder = self.holding(path)
        if holder is None:
            return set()
        # What is mounted beneath the path is its content too.
        within = self.within(path)
        if not within and not self._overlays and len(self._by_device[holder.device]) == 1:
            return set()
        pending = [(holder.device, _inside(holder, path))]
        pending += [(mount.device, mount.root) for mount in within]
        known = set(pending)
        found: set[bytes] = set()
        for _ in range(_MOST_STEPS):
            through: set[tuple[bytes, bytes]] = set()
            for device, inside in pending:
                for mount in self._by_device[device]:
                    name = _shown(inside, mount.root, mount.point)
                    # A name that another mount covers reaches nothing of this one.
                    if name is not None and not is_beneath(name, path) and self.holding(name) is mount:
                        found.add(name)
                through.update(self._through_overlays(device, inside))
            pending = list(through - known)
            if not pending:
                return found
            known |= through
        raise ValueError("the mount table shows a path at places without end")

    def _through_overlays(self, device: bytes, inside: bytes) -> list[tuple[bytes, bytes]]:
        """Return what shows the same content by way of one overlay, down to its layers or up."""
        found = [(below, _join(layer, inside)) for below, layer in self._overlays.get(device, ())]
        if not self._layers:
            return found
        for place in (inside, *parents(inside)):
            rest = _join(b"/", inside[len(place) :])
            found += [(overlay, rest) for overlay in self._layers.get((device, place), ())]
        found += [(overlay, b"/") for overlay in self._held_layers.get((device, inside), ())]
        return found


def parse_mounts(text: bytes) -> MountTable:
    """Parse the content of `/proc/self/mountinfo`; lines that do not parse are an error."""
    mounts = []
    for line in text.split(b"\n"):
        if not line:
            continue
        fields = line.split(b" ", 5)
        # Three more follow the dash; the second, the source, may be anything, a dash too.
        if len(fields) < 6 or fields[5].partition(b" - ")[2].count(b" ") < 2:
            raise ValueError("a line of mountinfo has an unknown form")
        if b"\\" in line:
            fields[3], fields[4] = _unescape(fields[3]), _unescape(fields[4])
        mounts.append(Mount(fields))
    return MountTable(mounts)


def overlay_layers(options: bytes) -> list[bytes]:
    r"""Return the layer directories among an overlay's mount options.

    In `lowerdir` a colon separates layers and `\:` is a colon; a double colon starts data layers. Whether
    another option was given with backslashes of that kind cannot be told: then both readings count.
    """
    layers: dict[bytes, None] = {}
    for option in options.split(b","):
        name, separator, value = option.partition(b"=")
        if not separator or name not in _LAYER_OPTIONS:
            continue
        value = _unescape(value)
        parts = _split(value, b":") if name == b"lowerdir" else [value, *_split(value, b"\0")]
        layers |= dict.fromkeys(part.rstrip(b"/") or b"/" for part in parts if part.startswith(b"/"))
    return list(layers)


def _shown(inside: bytes, root: bytes, point: bytes) -> bytes | None:
    """Where a mount of `root` at `point` shows the file system's `inside`: there, as a part, or not."""
    if is_beneath(inside, root):
        return _join(point, inside[len(root) :])
    return point if is_beneath(root, inside) else None


def _join(top: bytes, rest: bytes) -> bytes:
    rest = rest.strip(b"/")
    if not rest:
        return top
    return (b"" if top == b"/" else top) + b"/" + rest


def _inside(mount: Mount, path: bytes) -> bytes:
    """Return a path as its mount's file system knows it."""
    return _join(mount.root, path[len(mount.point) :] if mount.point != b"/" else path)


def _split(text: bytes, separator: bytes) -> list[bytes]:
    """Split at separators that no backslash precedes, and undo the backslashes."""
    if b"\\" not in text:
        return text.split(separator)
    parts = [b""]
    escaped = False
    for index in range(len(text)):
        byte = text[index : index + 1]
        if escaped or byte not in (b"\\", separator):
            parts[-1] += byte
            escaped = False
        elif byte == separator:
            parts.append(b"")
        else:
            escaped = True
    return parts


def _unescape(text: bytes) -> bytes:
    """Undo the kernel's octal escapes: a backslash and three digits for what would break the line."""
    head, *rest = text.split(b"\\")
    return head + b"".join(bytes((int(part[:3], 8),)) + part[3:] for part in rest)
