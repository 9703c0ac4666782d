# ruff: noqa: PTH102, PTH108, PTH109, PTH114, PTH116, PTH120, PTH211 - pathlib cannot hold bytes
"""What a spelling leads to: symlinks, `..`, trailing slashes, missing names. Real files, in `tmp_path`."""

from __future__ import annotations

import errno
import os
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner_e2e.sandbox.names import Resolver, descriptor_path

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MOST_SYMLINKS = 40


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A directory with every kind of detour in it."""
    root = tmp_path_factory.mktemp("names").resolve()
    (root / "d" / "sub").mkdir(parents=True)
    for name in ("f", "d/f", "d/sub/f"):
        (root / name).touch()
    for name, target in {
        "ld": "d",
        "lf": "f",
        "lchain": "ld",
        "labs": f"{root}/d/sub",
        "lup": "d/sub/..",
        "lslash": "d/",
        "d/back": "..",
        "d/sub/top": "/",
        "d/sub/lf": "../../lf",
        "loop": "pool",
        "pool": "loop",
        "self": "self",
        "dangling": "missing",
        "dangling2": "missing/deeper",
        "through": "f/x",
    }.items():
        (root / name).symlink_to(target)
    return os.fsencode(root)


COMPONENTS = [
    *b"d sub f ld lf lchain labs lup lslash back loop self dangling dangling2 through missing".split()
]
COMPONENTS += [b"", b".", b"..", b".."]


def error_of(call: Callable[[], object]) -> int:
    try:
        call()
    except OSError as error:
        return error.errno or -1
    return 0


@settings(deadline=None, max_examples=500)
@given(names=st.lists(st.sampled_from(COMPONENTS), max_size=7))
def test_a_spelling_leads_where_the_kernel_goes(tree: bytes, names: list[bytes]) -> None:
    path = b"/".join((tree, *names))
    expected = error_of(lambda: os.stat(path))
    failure = error_of(lambda: Resolver().resolve(path))
    if failure:
        # A missing name followed by `..` has no promise; everything else fails as it does in the kernel.
        assert failure == expected
        return

    resolved = Resolver().resolve(path)

    assert expected == (0 if resolved.exists else errno.ENOENT)
    # Beyond a missing name there is nothing to follow, so the lenient answer is the only one.
    assert resolved.canonical == os.path.realpath(path)
    for link in resolved.links:
        assert os.path.islink(link)
        assert os.path.realpath(os.path.dirname(link)) == os.path.dirname(link)
    assert set(resolved.final_links) <= set(resolved.links)


@settings(deadline=None)
@given(paths=st.lists(st.lists(st.sampled_from(COMPONENTS), max_size=5), max_size=5))
def test_a_resolver_that_has_seen_other_paths_answers_the_same(tree: bytes, paths: list[list[bytes]]) -> None:
    shared = Resolver()

    def answer(resolver: Resolver, path: bytes) -> object:
        failure = error_of(lambda: resolver.resolve(path))
        if failure:
            return failure
        found = resolver.resolve(path)
        return found.canonical, found.links, found.final_links, found.exists

    for names in paths:
        path = b"/".join((tree, *names))
        assert answer(shared, path) == answer(Resolver(), path)


@pytest.mark.parametrize(
    ("spelling", "canonical", "links", "final"),
    [
        (b"d", b"d", [], []),
        (b"d/", b"d", [], []),
        (b"./d//sub/.", b"d/sub", [], []),
        (b"ld", b"d", [b"ld"], [b"ld"]),
        (b"ld/", b"d", [b"ld"], [b"ld"]),
        (b"ld/.", b"d", [b"ld"], [b"ld"]),
        (b"ld/f", b"d/f", [b"ld"], []),
        (b"lchain", b"d", [b"lchain", b"ld"], [b"lchain", b"ld"]),
        (b"lchain/sub", b"d/sub", [b"lchain", b"ld"], []),
        (b"labs/lf", b"f", [b"labs", b"d/sub/lf", b"lf"], [b"d/sub/lf", b"lf"]),
        # `..` is taken where the link led to, not where it stands.
        (b"labs/..", b"d", [b"labs"], []),
        (b"ld/back/f", b"f", [b"ld", b"d/back"], []),
        (b"lup", b"d", [b"lup"], [b"lup"]),
    ],
)
def test_every_symlink_passed_is_known(
    tree: bytes, spelling: bytes, canonical: bytes, links: list[bytes], final: list[bytes]
) -> None:
    resolved = Resolver().resolve(tree + b"/" + spelling)

    assert resolved.exists
    assert resolved.canonical == tree + b"/" + canonical
    assert resolved.links == [tree + b"/" + link for link in links]
    assert resolved.final_links == [tree + b"/" + link for link in final]


@pytest.mark.parametrize(
    ("spelling", "canonical", "final"),
    [
        (b"missing", b"missing", []),
        (b"missing/", b"missing", []),
        (b"missing/./a//b/", b"missing/a/b", []),
        (b"d/missing/a", b"d/missing/a", []),
        # Both names of a broken link have to be denied, whatever is created later.
        (b"dangling", b"missing", [b"dangling"]),
        (b"dangling/a", b"missing/a", []),
        (b"dangling2", b"missing/deeper", [b"dangling2"]),
    ],
)
def test_a_missing_path_ends_with_its_missing_names(
    tree: bytes, spelling: bytes, canonical: bytes, final: list[bytes]
) -> None:
    resolved = Resolver().resolve(tree + b"/" + spelling)

    assert not resolved.exists
    assert resolved.canonical == tree + b"/" + canonical
    assert resolved.final_links == [tree + b"/" + link for link in final]


@pytest.mark.parametrize(
    ("spelling", "number"),
    [
        (b"f/", errno.ENOTDIR),
        (b"f/.", errno.ENOTDIR),
        (b"f/..", errno.ENOTDIR),
        (b"f/x", errno.ENOTDIR),
        (b"lf/", errno.ENOTDIR),
        (b"lf/..", errno.ENOTDIR),
        (b"through", errno.ENOTDIR),
        (b"loop", errno.ELOOP),
        (b"loop/x", errno.ELOOP),
        (b"self", errno.ELOOP),
        (b"missing/..", errno.ENOENT),
        (b"missing/../d", errno.ENOENT),
        (b"dangling/../f", errno.ENOENT),
        (b"a" * 300, errno.ENAMETOOLONG),
    ],
)
def test_what_the_kernel_refuses_is_an_error(tree: bytes, spelling: bytes, number: int) -> None:
    with pytest.raises(OSError, match=r"\[Errno") as caught:
        Resolver().resolve(tree + b"/" + spelling)

    assert caught.value.errno == number


def test_a_path_longer_than_the_kernel_takes_is_an_error() -> None:
    longest = b"/no-such" * 511 + b"/no-suc"
    assert len(longest) == 4095

    assert Resolver().resolve(longest).canonical == longest
    with pytest.raises(OSError, match=r"\[Errno") as caught:
        Resolver().resolve(longest + b"h")
    assert caught.value.errno == errno.ENAMETOOLONG


@pytest.mark.skipif(sys.platform != "linux", reason="other kernels follow fewer symlinks")
@pytest.mark.parametrize("length", [MOST_SYMLINKS, MOST_SYMLINKS + 1])
def test_as_many_symlinks_are_followed_as_the_kernel_follows(tmp_path: Path, length: int) -> None:
    (tmp_path / "0").touch()
    for number in range(1, length + 1):
        (tmp_path / str(number)).symlink_to(str(number - 1))
    path = os.fsencode(tmp_path / str(length))

    if length > MOST_SYMLINKS:
        with pytest.raises(OSError, match="symbolic links") as ours:
            Resolver().resolve(path)
        with pytest.raises(OSError, match="symbolic links") as kernels:
            os.stat(path)
        assert ours.value.errno == kernels.value.errno == errno.ELOOP
    else:
        os.stat(path)
        assert Resolver().resolve(path).canonical == os.fsencode(tmp_path.resolve() / "0")


@pytest.mark.skipif(sys.platform == "darwin", reason="its file system holds UTF-8 names only")
@pytest.mark.parametrize("name", [b"\xff\xfe", b"a\nb", b"*", b"~", b"-x", b" ", b"\xc3\x28", "ü".encode()])
def test_a_name_is_bytes(tmp_path: Path, name: bytes) -> None:
    root = os.fsencode(tmp_path.resolve())
    os.mkdir(root + b"/" + name)
    os.symlink(name, root + b"/link")

    assert Resolver().resolve(root + b"/" + name).canonical == root + b"/" + name
    assert Resolver().resolve(root + b"/link/new").canonical == root + b"/" + name + b"/new"


def test_the_root_is_itself() -> None:
    for spelling in (b"/", b"//", b"/.", b"/..", b"/../.."):
        resolved = Resolver().resolve(spelling)
        assert (resolved.canonical, resolved.links, resolved.exists) == (b"/", [], True)


def test_a_relative_path_starts_in_the_working_directory() -> None:
    resolver = Resolver()

    assert resolver.absolute(b"a/../b") == os.getcwdb() + b"/a/../b"
    assert resolver.absolute(b"/a/../b") == b"/a/../b"
    assert resolver.resolve(b".").canonical == os.path.realpath(os.getcwdb())


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_descriptor_is_known_by_its_path(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path.resolve()) + b"/file (deleted)"
    reading, writing = os.pipe()
    kept = os.open(path, os.O_CREAT | os.O_RDWR)
    try:
        assert descriptor_path(reading) is None
        assert descriptor_path(kept) == path
        os.unlink(path)
        assert descriptor_path(kept) == path
    finally:
        for descriptor in (reading, writing, kept):
            os.close(descriptor)
    assert descriptor_path(kept) is None
