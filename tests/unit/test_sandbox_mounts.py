"""Where the mount table shows a hidden path again."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner_e2e.sandbox.names import MountTable, Resolver, is_beneath, overlay_layers, parse_mounts
from runner_e2e.sandbox.plan import Policy, build_plan
from runner_e2e.sandbox.refusal import Refusal

ROOT = b"1 0 8:1 / / rw - ext4 /dev/sda rw"


def table(*lines: bytes) -> MountTable:
    return parse_mounts(b"\n".join((ROOT, *lines, b"")))


def overlay(number: int, point: bytes, options: bytes, root: bytes = b"/") -> bytes:
    return b"%d 1 0:%d %b %b rw - overlay overlay rw,%b" % (number, number, root, point, options)


@pytest.mark.parametrize(
    ("lines", "path", "expected"),
    [
        pytest.param([], b"/a/b", set(), id="nothing-mounted"),
        pytest.param([b"2 1 8:1 /a /m rw - ext4 x rw"], b"/a", {b"/m"}, id="itself"),
        pytest.param([b"2 1 8:1 /a /m rw - ext4 x rw"], b"/a/b/c", {b"/m/b/c"}, id="parent"),
        pytest.param([b"2 1 8:1 /a/b /m rw - ext4 x rw"], b"/a", {b"/m"}, id="child"),
        pytest.param([b"2 1 8:1 /a /m rw - ext4 x rw"], b"/ab", set(), id="same-prefix"),
        pytest.param([b"2 1 8:1 /a /m rw - ext4 x rw"], b"/m/b", {b"/a/b"}, id="hidden-by-its-alias"),
        pytest.param([b"2 1 8:1 /a /m rw - ext4 x rw"], b"/m", {b"/a"}, id="hidden-mount-point"),
        pytest.param(
            [b"2 1 8:1 /a /m rw - ext4 x rw", b"3 2 8:1 /a/b /m/n rw - ext4 x rw"],
            b"/a/b/c",
            {b"/m/b/c", b"/m/n/c"},
            id="nested",
        ),
        pytest.param(
            [b"2 1 8:1 /a /m rw - ext4 x rw", b"3 1 8:1 /a/b /n rw - ext4 x rw"],
            b"/m/b/c",
            {b"/a/b/c", b"/n/c"},
            id="bind-of-a-bind",
        ),
        pytest.param([b"2 1 8:1 /a /a/m rw - ext4 x rw"], b"/a/b", {b"/a/m/b"}, id="into-itself"),
        pytest.param(
            [b"2 1 8:2 / /p/disk rw - ext4 y rw", b"3 1 8:2 /d /m rw - ext4 y rw"],
            b"/p",
            {b"/m"},
            id="of-a-mount-within",
        ),
        pytest.param([b"2 1 8:2 / /p/disk rw - ext4 y rw"], b"/p", set(), id="only-a-mount-within"),
        pytest.param(
            [b"2 1 8:1 /a /m rw - ext4 x rw", b"3 2 8:2 / /m rw - ext4 y rw"],
            b"/a/b",
            set(),
            id="covered-by-another-mount",
        ),
        pytest.param([b"2 1 8:2 /a /m rw - ext4 x rw"], b"/a", set(), id="another-device"),
        pytest.param(
            [b"2 1 0:5 /@ /m rw - btrfs x rw", b"3 1 0:5 /@home /h rw - btrfs x rw"],
            b"/m/a",
            set(),
            id="another-root-of-the-device",
        ),
        pytest.param(
            [b"2 1 0:5 /@ /m rw - btrfs x rw", b"3 1 0:5 / /all rw - btrfs x rw"],
            b"/m/a",
            {b"/all/@/a"},
            id="a-higher-root-of-the-device",
        ),
        pytest.param([b"2 1 8:1 /a /m\\040n rw - ext4 x rw"], b"/a", {b"/m n"}, id="blank"),
        pytest.param(
            [b"2 1 8:1 /a\\134040 /m rw - ext4 x rw"], b"/a\\040", {b"/m"}, id="backslash-in-a-name"
        ),
        pytest.param([b"2 1 8:1 /a\\012b /m rw - ext4 x rw"], b"/a\nb", {b"/m"}, id="newline"),
    ],
)
def test_a_bind_mount_shows_a_path_again(lines: list[bytes], path: bytes, expected: set[bytes]) -> None:
    assert table(*lines).aliases(path) == expected


@pytest.mark.parametrize(
    ("lines", "path", "expected"),
    [
        pytest.param([overlay(2, b"/m", b"lowerdir=/l")], b"/l/x", {b"/m/x"}, id="lower"),
        pytest.param([overlay(2, b"/m", b"lowerdir=/l")], b"/l", {b"/m"}, id="lower-itself"),
        pytest.param([overlay(2, b"/m", b"lowerdir=/p/l")], b"/p", {b"/m"}, id="holds-the-lower"),
        pytest.param(
            [overlay(2, b"/m", b"lowerdir=/l1:/l2,upperdir=/u,workdir=/w")],
            b"/u/x",
            {b"/m/x", b"/l1/x", b"/l2/x", b"/w/x"},
            id="upper",
        ),
        pytest.param(
            [overlay(2, b"/m", b"lowerdir=/l,upperdir=/u,workdir=/w")],
            b"/m/x",
            {b"/l/x", b"/u/x", b"/w/x"},
            id="hidden-in-the-overlay",
        ),
        pytest.param([overlay(2, b"/m", b"lowerdir=/l1::/d")], b"/d/x", {b"/m/x", b"/l1/x"}, id="data-layer"),
        pytest.param(
            [overlay(2, b"/m", b"lowerdir+=/l:1,datadir+=/d")], b"/l:1/x", {b"/m/x", b"/d/x"}, id="one-by-one"
        ),
        pytest.param(
            [overlay(2, b"/m", b"lowerdir=/l\\134:1:/l2")], b"/l:1/x", {b"/m/x", b"/l2/x"}, id="colon"
        ),
        pytest.param([overlay(2, b"/m", b"lowerdir=/l\\134\\0542")], b"/l,2/x", {b"/m/x"}, id="comma"),
        pytest.param([overlay(2, b"/m", b"lowerdir=/l\\134\\1345")], b"/l\\5/x", {b"/m/x"}, id="backslash"),
        pytest.param([overlay(2, b"/m", b"lowerdir=/l\\0404/")], b"/l 4/x", {b"/m/x"}, id="blank-and-slash"),
        pytest.param(
            [overlay(2, b"/m", b"lowerdir=/l", b"/part")], b"/l/part/x", {b"/m/x"}, id="a-part-shown"
        ),
        pytest.param(
            [overlay(2, b"/m", b"lowerdir=/l", b"/part")], b"/l/other", set(), id="another-part-shown"
        ),
        pytest.param([overlay(2, b"/m", b"lowerdir=/l", b"/part")], b"/l", {b"/m"}, id="part-of-the-hidden"),
        # The whole root as a layer: the overlay does not show itself.
        pytest.param([overlay(2, b"/m", b"lowerdir=/")], b"/a/x", {b"/m/a/x"}, id="root-as-layer"),
        pytest.param(
            [overlay(2, b"/m", b"lowerdir=/l"), b"3 1 8:2 / /l/sub rw - ext4 y rw"],
            b"/l/sub/x",
            set(),
            id="mounted-on-a-layer",
        ),
        pytest.param(
            [b"2 1 8:2 / /p/disk rw - ext4 y rw", overlay(3, b"/m", b"lowerdir=/p/disk/l")],
            b"/p",
            {b"/m"},
            id="layer-on-a-mount-in-the-hidden",
        ),
        pytest.param(
            [b"2 1 8:1 /l /b rw - ext4 x rw", overlay(3, b"/m", b"lowerdir=/b")],
            b"/l/x",
            {b"/b/x", b"/m/x"},
            id="layer-named-by-a-bind",
        ),
        pytest.param(
            [overlay(2, b"/m", b"lowerdir=/l"), overlay(3, b"/n", b"lowerdir=/m")],
            b"/l/x",
            {b"/m/x", b"/n/x"},
            id="overlay-of-an-overlay",
        ),
        pytest.param([overlay(2, b"/m", b"lowerdir=/m/l")], b"/a", set(), id="covers-its-own-layer"),
        pytest.param(
            [overlay(2, b"/m", b"lowerdir=/m/l"), b"3 1 8:1 /m/l /b rw - ext4 x rw"],
            b"/b/x",
            {b"/m/x"},
            id="a-covered-layer-by-another-name",
        ),
    ],
)
def test_an_overlay_shows_its_layers(lines: list[bytes], path: bytes, expected: set[bytes]) -> None:
    assert table(*lines).aliases(path) == expected


@pytest.mark.parametrize(
    ("path", "device"),
    [
        (b"/", b"8:1"),
        (b"/a", b"8:1"),
        (b"/m", b"8:2"),
        (b"/m/x/y", b"8:2"),
        (b"/mm", b"8:1"),
        (b"/m/n/x", b"8:3"),
    ],
)
def test_a_path_lies_on_the_nearest_mount(path: bytes, device: bytes) -> None:
    mounts = table(b"2 1 8:2 / /m rw - ext4 x rw", b"3 2 8:3 / /m/n rw - ext4 x rw")

    holder = mounts.holding(path)

    assert holder is not None
    assert holder.device == device


def test_a_mount_that_is_covered_holds_nothing() -> None:
    """In the order of the table or not: what counts is which mount covers which."""
    beneath, above = b"2 1 8:2 / /m/n rw - ext4 x rw", b"3 1 8:3 / /m rw - ext4 x rw"
    stacked = b"4 3 8:4 / /m rw - ext4 x rw"
    for mounts in (table(beneath, above), table(above, beneath)):
        holder = mounts.holding(b"/m/n/x")
        assert holder is not None
        assert holder.device == b"8:3"
    holder = table(stacked, beneath, above).holding(b"/m/n/x")
    assert holder is not None
    assert holder.device == b"8:4"


def test_a_bind_over_a_mount_is_found_where_it_came_from() -> None:
    lines = (b"2 1 8:2 / /m/n rw - ext4 x rw", b"3 1 8:1 /a /m rw - ext4 x rw")

    assert table(*lines).aliases(b"/m/n/x") == {b"/a/n/x"}


@pytest.mark.parametrize(
    ("line", "reliable"),
    [
        (b"2 1 8:2 / /m rw - ext4 x rw", True),
        (b"2 1 0:9 / /m rw - tmpfs - rw", True),
        (b"2 1 0:9 / /m rw - tmpfs  rw", True),
        (b"2 1 0:9 / /m rw - overlay overlay rw,lowerdir=/l", True),
        (b"2 1 0:9 / /m rw shared:7 master:1 - 9p host rw", False),
        (b"2 1 0:9 / /m rw - virtiofs host rw", False),
        (b"2 1 0:9 / /m rw - fuse x rw", False),
        (b"2 1 0:9 / /m rw - fuseblk /dev/sdb rw", False),
        (b"2 1 0:9 / /m rw - fuse.sshfs host:/ rw", False),
        (b"2 1 0:9 / /m rw - fuse.fuse-overlayfs - rw", False),
    ],
)
def test_file_systems_without_stable_files_are_known(line: bytes, *, reliable: bool) -> None:
    holder = table(line).holding(b"/m/x")

    assert holder is not None
    assert holder.reliable is reliable


def test_the_source_of_a_mount_may_be_anything() -> None:
    mounts = table(b"2 1 0:9 /l /m rw - tmpfs - rw", overlay(3, b"/o", b"lowerdir=/l"))

    assert mounts.aliases(b"/l") == {b"/o"}


@pytest.mark.parametrize(
    "text",
    [
        b"nonsense\n",
        b"1 0 8:1 / / rw\n",
        b"1 0 8:1 / / rw - ext4\n",
        b"1 0 8:1 / / rw ext4 /dev/sda rw\n",
        b"1 0 8:1 / /\\9 rw - ext4 /dev/sda rw\n",
        b"1 0 8:1 / /\\777 rw - ext4 /dev/sda rw\n",
        ROOT + b"\n\0\n",
    ],
)
def test_a_line_of_another_form_is_an_error(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        parse_mounts(text)


@pytest.mark.parametrize(
    ("options", "layers"),
    [
        (b"rw,lowerdir=l1:/l2:../l3,upperdir=u,xino=off,lowerdir", [b"/l2"]),
        (b"rw,redirect_dir=/x,lowerdir=/l,/y", [b"/l"]),
        (b"lowerdir=/", [b"/"]),
        (b"lowerdir=/l/,upperdir=/l", [b"/l"]),
        # Whether a backslash of these was meant as one cannot be told.
        (b"lowerdir+=/a\\134:b", [b"/a\\:b", b"/a:b"]),
        (b"rw", []),
    ],
)
def test_layers_are_read_from_the_options(options: bytes, layers: list[bytes]) -> None:
    assert overlay_layers(options) == layers


def test_a_layer_that_lies_nowhere_is_passed_over() -> None:
    assert parse_mounts(overlay(2, b"/m", b"lowerdir=/l")).aliases(b"/m/x") == set()


def test_the_root_may_be_its_own_parent() -> None:
    mounts = parse_mounts(b"1 1 0:1 / / rw - rootfs rootfs rw\n2 1 0:1 /a /m rw - rootfs rootfs rw\n")

    assert mounts.aliases(b"/a/x") == {b"/m/x"}


BELOW = (
    b"2 1 8:2 / /p/disk rw - ext4 x rw",
    b"3 2 8:3 / /p/disk/deep rw - ext4 x rw",
    b"4 1 8:4 / /pp rw - ext4 x rw",
    b"5 4 8:5 / /pp rw - ext4 x rw",
)


@pytest.mark.parametrize(
    ("path", "points"),
    [
        (b"/p", {b"/p/disk", b"/p/disk/deep"}),
        (b"/p/disk", {b"/p/disk/deep"}),
        (b"/p/disk/deep", set()),
        (b"/p/d", set()),
        # Of two at one place the lower is covered.
        (b"/", {b"/p/disk", b"/p/disk/deep", b"/pp"}),
    ],
)
def test_the_mounts_beneath_a_path_are_those_that_can_be_reached(path: bytes, points: set[bytes]) -> None:
    found = table(*BELOW).within(path)

    assert {mount.point for mount in found} == points
    assert len(found) == len(points)
    assert b"8:4" not in {mount.device for mount in found}


@pytest.mark.parametrize(
    ("path", "shown"),
    [(b"/a", True), (b"/a/b", True), (b"/a/b/c", True), (b"/", True), (b"/ab", False), (b"/x", False)],
)
def test_a_mount_shows_what_it_holds_or_lies_in(path: bytes, *, shown: bool) -> None:
    mounts = table(b"2 1 8:1 /a/b /m rw - ext4 x rw", b"3 1 8:2 /a/b /x rw - ext4 y rw")
    mount = mounts.holding(b"/m")

    assert mount is not None
    assert mounts.shows(mount, path) is shown
    assert not parse_mounts(b"").shows(mount, path)


@pytest.mark.parametrize(
    ("path", "other", "covered"),
    [
        (b"/a", b"/m", True),
        (b"/a/b", b"/m", True),
        (b"/a/b", b"/m/c", True),
        (b"/a/b/c", b"/m", False),
        (b"/m", b"/a", False),
        (b"/m", b"/a/b/c", True),
        (b"/a", b"/x", False),
        (b"/a", b"/a", True),
    ],
)
def test_a_path_covers_what_shows_nothing_else(path: bytes, other: bytes, *, covered: bool) -> None:
    mounts = table(b"2 1 8:1 /a/b /m rw - ext4 x rw", b"3 1 8:2 /a /x rw - ext4 y rw")

    assert mounts.covers(path, other) is covered
    assert not parse_mounts(b"").covers(path, other)


def test_overlays_that_lie_in_each_others_layers_end_in_a_refusal() -> None:
    """Such a table has no end of names; it must neither hang nor pass."""
    mounts = table(
        overlay(2, b"/no-such-a", b"lowerdir=/no-such-b/x"),
        overlay(3, b"/no-such-b", b"lowerdir=/no-such-a/y"),
    )
    with pytest.raises(ValueError, match="without end"):
        mounts.aliases(b"/no-such-a/secret")

    with pytest.raises(Refusal) as caught:
        build_plan(Policy([], [b"/no-such-a/secret"], []), Resolver(), mounts)

    assert caught.value.code == "mount-alias"
    assert caught.value.path == b"/no-such-a/secret"


def test_without_the_mount_of_the_root_aliases_cannot_be_excluded() -> None:
    mounts = parse_mounts(b"7 3 8:1 /jail/x /m rw - ext4 x rw\n")

    with pytest.raises(Refusal) as caught:
        build_plan(Policy([], [b"/no-such-x"], []), Resolver(), mounts)

    assert caught.value.code == "mount-alias"


NAMES = st.sampled_from([b"a", b"b", b"c"])
PLACES = st.lists(NAMES, max_size=3).map(lambda names: b"/" + b"/".join(names))


@st.composite
def mount_lines(draw: st.DrawFn) -> list[bytes]:
    lines = [ROOT]
    for number in range(2, draw(st.integers(2, 6))):
        root, point = draw(PLACES), draw(PLACES)
        parent = draw(st.integers(1, number - 1))
        device = draw(st.sampled_from([b"8:1", b"8:2", b"0:%d" % number]))
        kind = b"ext4 x rw"
        if device.startswith(b"0:"):
            kind = b"overlay o rw,lowerdir=%b:%b" % (draw(PLACES), draw(PLACES))
        lines.append(b"%d %d %b %b %b rw - %b" % (number, parent, device, root, point, kind))
    return lines


@settings(deadline=None)
@given(mount_lines(), PLACES.filter(lambda path: path != b"/"))
def test_the_search_for_aliases_ends(lines: list[bytes], path: bytes) -> None:
    try:
        found = parse_mounts(b"\n".join(lines)).aliases(path)
    except ValueError:
        return
    assert path not in found
    assert all(alias.startswith(b"/") and b"//" not in alias for alias in found)
    assert all(alias == b"/" or not alias.endswith(b"/") for alias in found)


@settings(deadline=None)
@given(st.lists(st.tuples(PLACES, PLACES), max_size=5), PLACES.filter(lambda path: path != b"/"))
def test_aliases_of_binds_are_complete(binds: list[tuple[bytes, bytes]], path: bytes) -> None:
    """Against a model that resolves every name of a small tree through the mounts."""
    lines = [ROOT]
    for number, (root, point) in enumerate(binds, 2):
        lines.append(b"%d 1 8:1 %b %b rw - ext4 x rw" % (number, root, point))
    mounts = parse_mounts(b"\n".join(lines))

    def content(name: bytes) -> bytes:
        holder = mounts.holding(name)
        assert holder is not None
        rest = name if holder.point == b"/" else name[len(holder.point) :]
        return (holder.root.rstrip(b"/") + b"/" + rest.strip(b"/")).rstrip(b"/") or b"/"

    hidden = {path, *mounts.aliases(path)}
    alphabet = (b"a", b"b", b"c")
    names = [b"/" + x for x in alphabet] + [b"/" + x + b"/" + y for x in alphabet for y in alphabet]
    for name in names:
        if is_beneath(content(name), content(path)):
            assert any(is_beneath(name, top) for top in hidden), name
