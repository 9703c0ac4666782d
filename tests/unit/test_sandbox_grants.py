"""What has to be granted so that only the hidden paths become unreachable."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner_e2e.sandbox import rules
from runner_e2e.sandbox.names import is_beneath, parents
from runner_e2e.sandbox.rules import Access, Rights, additional_grants, is_withheld, withheld_names

RIGHTS = Rights(rules.filesystem_rights(7), 0)
PLAIN = Access(set(), set())
ROOT = Access(set(), set(), privileged=True)
LAUNCH = Access(
    {b"/var/tmp/re-1", b"/var/tmp/re-1/i/config.json"},
    {b"/var/tmp/re-1/i", b"/tmp", b"/var/tmp"},
    everywhere_read_only=True,
)

NAMES = st.sampled_from([b"a", b"ab", b"b", b"c", b"\xff", b" ", b"a.b"])
PATHS = st.lists(NAMES, min_size=1, max_size=4).map(lambda names: b"/" + b"/".join(names))


@pytest.mark.parametrize(
    ("hidden", "expected"),
    [
        pytest.param(set(), {}, id="nothing"),
        pytest.param({b"/a"}, {b"/": {b"a"}}, id="top-level"),
        pytest.param({b"/a/b/c"}, {b"/": {b"a"}, b"/a": {b"b"}, b"/a/b": {b"c"}}, id="deep"),
        pytest.param({b"/a/x", b"/a/y"}, {b"/": {b"a"}, b"/a": {b"x", b"y"}}, id="siblings"),
        pytest.param({b"/a", b"/a/b/c"}, {b"/": {b"a"}}, id="inside-another"),
        pytest.param({b"/a/b", b"/ab/c"}, {b"/": {b"a", b"ab"}, b"/a": {b"b"}, b"/ab": {b"c"}}, id="prefix"),
        pytest.param({b"/a/b/c", b"/a/d"}, {b"/": {b"a"}, b"/a": {b"b", b"d"}, b"/a/b": {b"c"}}, id="fork"),
        pytest.param({b"/\xff/\n"}, {b"/": {b"\xff"}, b"/\xff": {b"\n"}}, id="odd-names"),
    ],
)
def test_each_ancestor_withholds_the_way_to_what_is_hidden(
    hidden: set[bytes], expected: dict[bytes, set[bytes]]
) -> None:
    assert withheld_names(hidden) == expected


@given(st.sets(PATHS, max_size=12), st.sets(PATHS, min_size=1, max_size=4))
def test_the_grants_show_everything_but_what_is_hidden(tree: set[bytes], hidden: set[bytes]) -> None:
    """Against a model that looks at every path of a tree, whether its hidden paths exist or not."""
    places = tree | {parent for path in tree for parent in parents(path)} | {b"/"}
    withheld = withheld_names(hidden)
    grants = {
        path
        for path in places - {b"/"}
        if parents(path)[0] in withheld and path.rpartition(b"/")[2] not in withheld[parents(path)[0]]
    }

    for path in places:
        is_hidden = any(is_beneath(path, top) for top in hidden)
        is_granted = any(is_beneath(path, grant) for grant in grants)
        is_ancestor = any(is_beneath(top, path) for top in hidden)
        assert is_granted is (not is_hidden and not is_ancestor), path
    assert not any(is_beneath(top, grant) for top in hidden for grant in grants)


@given(st.sets(PATHS, min_size=1, max_size=8))
def test_exactly_the_ancestors_withhold_something(hidden: set[bytes]) -> None:
    outermost = {path for path in hidden if not hidden.intersection(parents(path))}

    assert set(withheld_names(hidden)) == {parent for path in outermost for parent in parents(path)}


@pytest.mark.parametrize("directory", [b"/", b"/usr", b"/var", b"/var/tmp/x", b"/home"])
def test_an_ordinary_user_needs_no_read_only_trees(directory: bytes) -> None:
    assert PLAIN.entries_of(directory) == (False, set())
    assert PLAIN.protected() == set()
    withheld = withheld_names({b"/var/tmp/x"})
    assert additional_grants(withheld, {b"/var/tmp/x"}, RIGHTS, PLAIN) == []


@pytest.mark.parametrize(
    ("directory", "read_only", "exceptions"),
    [
        (b"/usr", True, set()),
        (b"/usr/lib/x", True, set()),
        (b"/proc", True, set()),
        (b"/sys/kernel", True, set()),
        (b"/etc", True, set()),
        (b"/var", True, {b"tmp"}),
        (b"/var/lib", True, set()),
        (b"/var/tmp", False, set()),
        (b"/var/tmp/re-1/private", False, set()),
        (b"/home", False, set()),
        (b"/home/usr", False, set()),
        (b"/usrlocal", False, set()),
        (b"/tmp", False, set()),
    ],
)
def test_root_writes_no_system_tree(directory: bytes, exceptions: set[bytes], *, read_only: bool) -> None:
    found, reversed_names = ROOT.entries_of(directory)

    assert found is read_only
    assert reversed_names == exceptions


def test_at_the_top_root_gets_the_system_trees_read_only_and_the_rest_whole() -> None:
    read_only, exceptions = ROOT.entries_of(b"/")

    assert not read_only
    assert {
        b"bin",
        b"boot",
        b"etc",
        b"lib",
        b"opt",
        b"proc",
        b"run",
        b"sbin",
        b"sys",
        b"usr",
        b"var",
    } <= exceptions
    assert not exceptions & {b"home", b"root", b"tmp", b"srv", b"work", b"dev"}


def grants_for_root(hidden: set[bytes]) -> dict[bytes, tuple[int, bool]]:
    withheld = withheld_names(hidden, ROOT.protected())
    found = additional_grants(withheld, hidden, RIGHTS, ROOT)
    assert len({path for path, _, _ in found}) == len(found)
    return {path: (allowed, read_only) for path, allowed, read_only in found}


def test_root_lists_devices_and_opens_the_usual_ones() -> None:
    found = grants_for_root({b"/home/x"})

    assert found[b"/dev"] == (rules.READ_DIR, True)
    assert found[b"/dev/null"] == (RIGHTS.everything, False)
    assert {b"/dev/" + name for name in b"zero full random urandom tty ptmx pts shm mqueue".split()} < set(
        found
    )
    assert not any(b"sda" in path or b"kmsg" in path or b"loop" in path for path in found)


def test_a_writable_place_within_a_read_only_tree_is_granted_whole() -> None:
    assert grants_for_root({b"/home/x"})[b"/var/tmp"] == (RIGHTS.everything, False)


@pytest.mark.parametrize(
    ("hidden", "missing"),
    [
        ({b"/var/tmp/re-1"}, b"/var/tmp"),
        ({b"/var"}, b"/var/tmp"),
        ({b"/var/tmp"}, b"/var/tmp"),
        ({b"/dev/shm/x"}, b"/dev"),
        ({b"/dev/shm/x"}, b"/dev/shm"),
        ({b"/dev/shm"}, b"/dev/shm"),
        ({b"/dev/null"}, b"/dev/null"),
    ],
)
def test_an_additional_grant_never_shows_a_hidden_path(hidden: set[bytes], missing: bytes) -> None:
    found = grants_for_root(hidden)

    assert missing not in found
    assert not any(is_beneath(top, path) for top in hidden for path in found)
    if missing != b"/dev/null":
        assert b"/dev/null" in found


def test_hiding_the_devices_grants_none_of_them() -> None:
    assert not any(is_beneath(path, b"/dev") for path in grants_for_root({b"/dev"}))


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (b"/", []),
        (b"/a", [b"/"]),
        (b"/a/b/c", [b"/a/b", b"/a", b"/"]),
        (b"/a b/\n", [b"/a b", b"/"]),
    ],
)
def test_parents_come_nearest_first(path: bytes, expected: list[bytes]) -> None:
    assert parents(path) == expected


@pytest.mark.parametrize(
    ("path", "top", "expected"),
    [
        (b"/a/b", b"/a", True),
        (b"/a", b"/a", True),
        (b"/ab", b"/a", False),
        (b"/a", b"/a/b", False),
        (b"/a", b"/", True),
        (b"/", b"/", True),
        (b"/", b"/a", False),
    ],
)
def test_beneath_is_judged_by_whole_names(path: bytes, top: bytes, *, expected: bool) -> None:
    assert is_beneath(path, top) is expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (b"/", True),
        (b"/home/someone/.bashrc", True),
        (b"/usr/bin/git", True),
        (b"/proc/self", True),
        (b"/tmp/x", False),
        (b"/var/tmp/x", False),
        (b"/var/tmp/re-1", True),
        (b"/var/tmp/re-1/bin/paperclip-runnerd", True),
        (b"/var/tmp/re-1/i", False),
        (b"/var/tmp/re-1/i/workspaces/a", False),
        (b"/var/tmp/re-1/i/config.json", True),
        (b"/var/tmp/re-10", False),
    ],
)
def test_the_nearest_named_place_decides_what_a_launch_may_write(path: bytes, *, expected: bool) -> None:
    assert LAUNCH.is_read_only(path) is expected


def test_a_read_only_place_in_a_writable_one_is_withheld_and_granted_on_its_own() -> None:
    hidden = {b"/var/tmp/re-1/private", b"/var/tmp/re-1/i/secrets"}
    withheld = withheld_names(hidden, LAUNCH.protected())
    found = {path: only for path, _, only in additional_grants(withheld, hidden, RIGHTS, LAUNCH)}

    assert LAUNCH.protected() == {b"/var/tmp/re-1", b"/var/tmp/re-1/i/config.json"}
    assert withheld[b"/var/tmp/re-1/i"] == {b"secrets", b"config.json"}
    assert found == {b"/var/tmp/re-1/i/config.json": True}
    assert LAUNCH.entries_of(b"/") == (True, {b"tmp"})
    assert LAUNCH.entries_of(b"/var/tmp/re-1") == (True, {b"i"})


def test_of_withheld_entries_only_the_writable_ones_are_granted() -> None:
    top = b"/var/tmp/re-1/t"
    named = {top + b"/own/workspace", top + b"/run-1", top + b"/deep/er", top + b"/own/i/secrets"}
    access = Access({b"/var/tmp/re-1", top + b"/run-2"}, named, everywhere_read_only=True)
    hidden = {top + b"/own/i/secrets", top + b"/own/control"}
    withheld = withheld_names(hidden, access.protected())
    withhold = ((top, b""), (top + b"/own", b""), (b"/var/tmp", b"re-"))

    found = additional_grants(withheld, hidden, RIGHTS, access, withhold)

    assert sorted(found) == [
        (path, RIGHTS.everything, False) for path in sorted(named - {top + b"/own/i/secrets"})
    ]
    # Without that, an entry is granted with its siblings, once.
    assert [path for path, _, _ in additional_grants(withheld, hidden, RIGHTS, access)] == [top + b"/deep/er"]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (b"/a/x", True),
        (b"/a/", True),
        (b"/a", False),
        (b"/a/x/y", False),
        (b"/ab/x", False),
        (b"/b/re-1", True),
        (b"/b/re-", True),
        (b"/b/re", False),
        (b"/re-1", False),
        (b"/top-1", True),
        (b"/", False),
    ],
)
def test_a_withheld_entry_stands_in_its_directory_and_starts_with_its_prefix(
    path: bytes, *, expected: bool
) -> None:
    assert is_withheld(path, ((b"/a", b""), (b"/b", b"re-"), (b"/", b"top-"))) is expected
    assert is_withheld(path, ()) is False


@given(
    st.sets(PATHS, max_size=4),
    st.sets(PATHS, max_size=4),
    st.sets(PATHS, min_size=1, max_size=3),
    st.booleans(),
)
def test_every_visible_path_is_granted_and_no_read_only_one_for_writing(
    read_only: set[bytes],
    writable: set[bytes],
    hidden: set[bytes],
    everywhere: bool,
) -> None:
    """Rules add up: the rights of a path are those of every grant above it."""
    access = Access(read_only, writable, everywhere_read_only=everywhere)
    withheld = withheld_names(hidden, access.protected())
    granted = {path: only for path, _, only in additional_grants(withheld, hidden, RIGHTS, access)}
    places = read_only | writable | hidden
    places |= {parent for path in places for parent in parents(path)}
    for directory, names in withheld.items():
        usual, reverse = access.entries_of(directory)
        for path in places:
            name = path.rpartition(b"/")[2]
            if path != b"/" and parents(path)[0] == directory and name not in names:
                granted[path] = granted.get(path, True) and usual ^ (name in reverse)

    for path in places:
        rights = [only for grant, only in granted.items() if is_beneath(path, grant)]
        if rights and not all(rights):
            assert not access.is_read_only(path), path
        is_hidden = any(is_beneath(path, top) for top in hidden)
        # And what is neither hidden nor on the way to it can be used as it is meant to be.
        assert bool(rights) is (not is_hidden and path not in withheld), path
        if rights:
            assert all(rights) is access.is_read_only(path), path
