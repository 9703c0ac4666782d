"""From spellings to a plan: conflicts are refused whatever their order. Real files, a made-up mount table."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner_e2e.sandbox.aliases import refuse_aliases, scan_aliases
from runner_e2e.sandbox.execute import search_path
from runner_e2e.sandbox.names import MountTable, Resolver, is_beneath, parents, parse_mounts
from runner_e2e.sandbox.plan import Plan, Policy, build_plan, find_command
from runner_e2e.sandbox.refusal import Refusal
from runner_e2e.sandbox.rules import Access

if TYPE_CHECKING:
    from collections.abc import Sequence

MOUNTS = parse_mounts(b"1 0 8:1 / / rw - ext4 /dev/sda rw\n")


@pytest.fixture(scope="module")
def top(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A hidden directory with parts to expose, and what stands beside it."""
    root = tmp_path_factory.mktemp("plan").resolve()
    for name in ("hid/own/deep", "hid/other", "ok", "hidden"):
        (root / name).mkdir(parents=True)
    for name in ("hid/file", "hid/own/mine", "ok/a", "twice"):
        (root / name).touch()
    (root / "hid" / "planted").symlink_to("own")
    (root / "link").symlink_to("hid")
    (root / "broken").symlink_to("later")
    os.link(root / "twice", root / "ok" / "again")
    return os.fsencode(root)


def plan_of(
    top: bytes,
    hide: Sequence[bytes],
    expose: Sequence[bytes] = (),
    optional: Sequence[bytes] = (),
    mounts: MountTable = MOUNTS,
) -> Plan:
    def placed(paths: Sequence[bytes]) -> list[bytes]:
        return [path if path.startswith(b"/") or not path else top + b"/" + path for path in paths]

    policy = Policy(placed(hide), placed(optional), placed(expose), Access(set(), set()))
    return build_plan(policy, Resolver(), mounts)


def code_of(
    top: bytes, hide: Sequence[bytes], expose: Sequence[bytes] = (), optional: Sequence[bytes] = ()
) -> str:
    with pytest.raises(Refusal) as caught:
        plan_of(top, hide, expose, optional)
    return caught.value.code


def names(top: bytes, paths: object) -> set[bytes]:
    assert isinstance(paths, dict | set)
    return {path.removeprefix(top + b"/") for path in paths}


def test_a_plan_holds_what_is_hidden_exposed_and_on_the_way(top: bytes) -> None:
    plan = plan_of(top, [b"hid"], [b"hid/own"], [b"later"])

    assert names(top, plan.hidden) == {b"hid", b"later"}
    assert names(top, plan.exposed) == {b"hid/own"}
    assert plan.withheld[top] == {b"hid", b"later"}
    assert set(plan.withheld) == {top, *parents(top)}


@pytest.mark.parametrize(
    ("spelling", "hidden", "kinds"),
    [
        (b"hid", {b"hid"}, {"path"}),
        (b"hid/", {b"hid"}, {"path"}),
        (b"./ok/../hid/.", {b"hid"}, {"path"}),
        # Both the spelling and the target: whoever follows the link later must find it closed too.
        (b"link", {b"hid", b"link"}, {"path", "link"}),
        (b"link/file", {b"hid/file"}, {"path"}),
    ],
)
def test_every_spelling_hides_its_target(
    spelling: bytes, hidden: set[bytes], kinds: set[str], top: bytes
) -> None:
    plan = plan_of(top, [spelling])

    assert names(top, plan.hidden) == hidden
    assert {entry.kind for entry in plan.hidden.values()} == kinds


def test_a_broken_link_hides_both_its_ends(top: bytes) -> None:
    assert names(top, plan_of(top, [], optional=[b"broken"]).hidden) == {b"broken", b"later"}


def test_a_path_hidden_twice_is_required_if_it_is_once(top: bytes) -> None:
    for hide, optional in (([b"hid"], [b"hid/"]), ([b"hid/", b"hid"], [b"link"])):
        entry = plan_of(top, hide, optional=optional).hidden[top + b"/hid"]
        assert not entry.optional
        assert entry.exists


@pytest.mark.parametrize(
    ("code", "hide", "expose", "optional"),
    [
        ("usage", [b""], [], []),
        ("usage", [b"hid\0"], [], []),
        ("usage", [b"hid"], [b""], []),
        ("hide-root", [b"/"], [], []),
        ("hide-root", [b"/.."], [], []),
        ("hide-root", [], [], [b"/"]),
        ("hide-missing", [b"nope"], [], []),
        ("hide-missing", [b"hi*"], [], []),
        ("hide-missing", [b"nope/../hid"], [], []),
        ("hide-missing", [b"broken"], [], []),
        ("path-unresolvable", [b"hid/file/x"], [], []),
        ("path-unresolvable", [b"ok/a/"], [], []),
        ("path-unresolvable", [b"x" * 256], [], []),
        ("path-unresolvable", [], [], [b"nope/../hid"]),
        ("hard-link-alias", [b"twice"], [], []),
        ("hard-link-alias", [], [], [b"twice"]),
        ("expose-missing", [b"hid"], [b"hid/nope"], []),
        ("expose-missing", [b"hid"], [b"nope"], []),
        ("expose-outside-hidden", [b"hid"], [b"ok"], []),
        ("expose-outside-hidden", [b"hid"], [b"hidden"], []),
        ("expose-outside-hidden", [], [b"ok"], []),
        ("expose-reveals-hidden", [b"hid"], [b"hid"], []),
        ("expose-reveals-hidden", [b"hid"], [b"hid/own/.."], []),
        ("expose-reveals-hidden", [b"hid"], [b"link"], []),
        ("expose-reveals-hidden", [b"hid"], [b"/"], []),
        ("expose-reveals-hidden", [b"hid", b"hid/own/deep"], [b"hid/own"], []),
        ("expose-reveals-hidden", [b"hid"], [b"hid/own"], [b"hid/own/later"]),
        ("expose-symlink", [b"hid"], [b"hid/planted"], []),
        ("expose-symlink", [b"hid"], [b"hid/planted/deep"], []),
    ],
)
def test_a_conflict_has_its_code(
    code: str, hide: list[bytes], expose: list[bytes], optional: list[bytes], top: bytes
) -> None:
    assert code_of(top, hide, expose, optional) == code


SPELLINGS = [
    b"hid",
    b"hid/",
    b"hid/own",
    b"hid/own/deep",
    b"hid/own/mine",
    b"hid/other",
    b"hid/file",
    b"link/own",
    b"ok",
    b"ok/a",
    b"hidden",
]
PATHS = st.lists(st.sampled_from(SPELLINGS), max_size=3)


def outcome(top: bytes, hide: Sequence[bytes], expose: Sequence[bytes], optional: Sequence[bytes]) -> object:
    try:
        plan = plan_of(top, hide, expose, optional)
    except Refusal as refusal:
        return refusal.code
    withheld = frozenset((parent, frozenset(names)) for parent, names in plan.withheld.items())
    return frozenset(plan.hidden), frozenset(plan.exposed), withheld


@settings(deadline=None)
@given(PATHS, PATHS, PATHS)
def test_the_order_of_a_policy_does_not_matter(
    top: bytes, hide: list[bytes], expose: list[bytes], optional: list[bytes]
) -> None:
    found = {
        outcome(top, some_hide, some_expose, optional)
        for some_hide in itertools.permutations(hide)
        for some_expose in itertools.permutations(expose)
    }

    # Of several conflicts any may be named, but it is never a plan in one order and a refusal in another.
    assert len(found) == 1 or all(isinstance(item, str) for item in found)


@settings(deadline=None)
@given(PATHS, PATHS, PATHS)
def test_a_plan_never_exposes_more_than_it_may(
    top: bytes, hide: list[bytes], expose: list[bytes], optional: list[bytes]
) -> None:
    try:
        plan = plan_of(top, hide, expose, optional)
    except Refusal:
        return
    for path in plan.exposed:
        assert any(parent in plan.hidden for parent in parents(path))
        assert not any(is_beneath(hidden, path) for hidden in plan.hidden)
    for path in (os.path.realpath(top + b"/" + spelling) for spelling in SPELLINGS):
        shown = any(is_beneath(path, own) for own in plan.exposed)
        covered = any(is_beneath(path, hidden) for hidden in plan.hidden)
        assert (plan.hidden_by(path) is not None) is (covered and not shown)


def test_what_is_withheld_counts_as_hidden_but_for_the_ways_through_and_the_writable(top: bytes) -> None:
    def at(*names: bytes) -> list[bytes]:
        return [b"/".join((os.path.realpath(top), name)) for name in names]

    (directory,), (hidden,), shown = at(b"hid"), at(b"hid/own/deep"), at(b"hid/given", b"hid/x/given")
    policy = Policy(
        [], [hidden], [], Access(set(), set(shown), everywhere_read_only=True), ((directory, b""),)
    )
    plan = build_plan(policy, Resolver(), MOUNTS)

    for path in at(b"hid/other", b"hid/other/deep", b"hid/later", b"hid/x", b"hid/x/y", b"hid/givenn"):
        assert plan.hidden_by(path) == directory + b"/" + path[len(directory) + 1 :].partition(b"/")[0]
    assert plan.hidden_by(hidden) == hidden
    for path in (*at(b"hid", b"hid/own", b"hid/own/mine", b"hid/x/given", b"ok/a"), shown[0] + b"/new/er"):
        assert plan.hidden_by(path) is None


# Other names by the mount table.


def bound(top: bytes, *binds: tuple[bytes, bytes]) -> MountTable:
    """A table in which parts of the tree are mounted a second time."""
    lines = [b"1 0 8:1 / / rw - ext4 /dev/sda rw"]
    for number, (source, point) in enumerate(binds, 2):
        lines.append(b"%d 1 8:1 %b/%b %b/%b rw - ext4 /dev/sda rw" % (number, top, source, top, point))
    return parse_mounts(b"\n".join(lines))


def test_another_name_of_what_is_hidden_is_hidden_too(top: bytes) -> None:
    plan = plan_of(top, [b"hid"], mounts=bound(top, (b"hid", b"hidden"), (b"hid/own", b"ok")))

    kinds = {path.removeprefix(top + b"/"): entry.kind for path, entry in plan.hidden.items()}
    assert kinds == {b"hid": "path", b"hidden": "alias", b"ok": "alias"}
    alias = plan.hidden[top + b"/ok"]
    assert (alias.optional, alias.exists, alias.spellings) == (True, True, [top + b"/hid"])
    assert plan.withheld[top] == {b"hid", b"hidden", b"ok"}


def test_a_path_that_is_hidden_by_name_stays_what_it_is(top: bytes) -> None:
    plan = plan_of(top, [b"hid", b"hidden"], mounts=bound(top, (b"hid", b"hidden")))

    assert {entry.kind for entry in plan.hidden.values()} == {"path"}


def test_what_is_also_the_root_cannot_be_hidden(top: bytes) -> None:
    mounts = parse_mounts(
        b"1 0 8:1 %b/hid / rw - ext4 /dev/sda rw\n2 1 8:1 / /m rw - ext4 /dev/sda rw\n" % top
    )

    with pytest.raises(Refusal) as caught:
        build_plan(Policy([], [b"/m" + top + b"/hid"], []), Resolver(), mounts)

    assert caught.value.code == "mount-alias"
    assert "root directory" in caught.value.message


def test_an_exposure_may_not_hold_another_name_of_what_is_hidden(top: bytes) -> None:
    mounts = bound(top, (b"ok", b"hid/own/deep"))
    with pytest.raises(Refusal) as caught:
        plan_of(top, [b"hid", b"ok"], [b"hid/own"], mounts=mounts)

    assert caught.value.code == "mount-alias"


def test_another_name_of_what_is_exposed_anyway_need_not_be_hidden(top: bytes) -> None:
    mounts = bound(top, (b"hid/own", b"ok"))

    assert names(top, plan_of(top, [b"hid"], [b"hid/own"], mounts=mounts).hidden) == {b"hid"}
    assert names(top, plan_of(top, [b"hid"], [b"hid/other"], mounts=mounts).hidden) == {b"hid", b"ok"}


def test_every_spelling_is_kept_once(top: bytes) -> None:
    plan = plan_of(top, [b"hid", b"hid/", b"link", b"hid/", b"./hid"])

    spellings = plan.hidden[top + b"/hid"].spellings
    assert spellings == [top + b"/" + spelling for spelling in (b"hid/", b"link", b"./hid")]


# Hard links.


def test_second_names_outside_are_found(tmp_path: Path) -> None:
    for name in ("hid/deep", "hid/own", "out"):
        (tmp_path / name).mkdir(parents=True)
    secret, inside, shown = (tmp_path / "hid" / name for name in ("deep/secret", "inside", "shown"))
    for path in (secret, inside, shown):
        path.touch()
    os.link(secret, tmp_path / "out" / "one")
    os.link(secret, tmp_path / "out" / "two")
    os.link(inside, tmp_path / "hid" / "deep" / "again")
    os.link(shown, tmp_path / "hid" / "own" / "name")
    (tmp_path / "hid" / "link").symlink_to(tmp_path / "out")
    hid, own = os.fsencode(tmp_path / "hid"), os.fsencode(tmp_path / "hid" / "own")

    found = {alias.path: alias.outside for alias in scan_aliases([hid], {own})}

    assert found == {os.fsencode(secret): 2, os.fsencode(shown): 1}


def test_missing_trees_and_files_have_no_second_names(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    assert scan_aliases([os.fsencode(tmp_path / name) for name in ("missing", "file", "file/x")], set()) == []


def test_a_plan_with_a_second_name_is_refused_and_names_one(top: bytes, tmp_path: Path) -> None:
    plan = plan_of(top, [b"hid"])
    refuse_aliases(plan)
    os.link(top + b"/hid/file", os.fsencode(tmp_path) + b"/name")
    try:
        with pytest.raises(Refusal) as caught:
            refuse_aliases(plan)
    finally:
        (tmp_path / "name").unlink()

    assert caught.value.code == "hard-link-alias"
    assert caught.value.path == top + b"/hid/file"


# The command.


@pytest.fixture
def programs(tmp_path: Path) -> bytes:
    for name, mode in {"a/run": 0o755, "b/run": 0o755, "c/run": 0o644, "d/run/x": 0o755}.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        path.touch()
        path.chmod(mode)
    return os.fsencode(tmp_path.resolve())


def found_in(programs: bytes, *directories: bytes, hide: Sequence[bytes] = ()) -> list[bytes]:
    plan = plan_of(programs, hide)
    search = b":".join(programs + b"/" + directory for directory in directories)
    found = find_command(b"run", search, plan, Resolver())
    return [path.removeprefix(programs + b"/").removesuffix(b"/run") for path in found]


def test_a_command_is_searched_in_the_order_of_the_path(programs: bytes) -> None:
    assert found_in(programs, b"b", b"a") == [b"b", b"a"]
    assert found_in(programs, b"missing", b"c", b"d", b"a") == [b"c", b"a"]
    assert found_in(programs, b"missing") == []


@pytest.mark.parametrize("mode", [0o100, 0o010, 0o001])
def test_any_execute_bit_makes_a_command(programs: bytes, mode: int) -> None:
    Path(os.fsdecode(programs), "c", "run").chmod(mode)

    with pytest.raises(Refusal):
        found_in(programs, b"c", b"b", hide=[b"c"])


def test_an_empty_entry_of_the_path_is_the_working_directory() -> None:
    here = os.fsencode(next(path.name for path in Path.cwd().iterdir() if path.is_file()))

    assert find_command(here, b"", Plan(MOUNTS), Resolver()) == [b"./" + here]
    assert find_command(here, b"/no-such:", Plan(MOUNTS), Resolver()) == [b"./" + here]


def test_a_command_with_a_slash_is_itself(programs: bytes) -> None:
    plan = plan_of(programs, [])

    assert find_command(b"./run", b"/usr/bin", plan, Resolver()) == [b"./run"]
    assert find_command(b"/no/such", b"", plan, Resolver()) == [b"/no/such"]


def test_a_command_that_would_come_from_a_hidden_place_is_refused(programs: bytes) -> None:
    for directories in ((b"a",), (b"a", b"b"), (b"missing", b"c", b"a")):
        with pytest.raises(Refusal) as caught:
            found_in(programs, *directories, hide=[b"a"])
        assert caught.value.code == "command-hidden"
        assert caught.value.path == programs + b"/a/run"
    # What is found first runs; a later one is never reached.
    assert found_in(programs, b"b", b"a", hide=[b"a"]) == [b"b", b"a"]


@pytest.mark.parametrize(
    ("environment", "search"),
    [
        ([], b"/bin:/usr/bin"),
        ([b"A=1", b"PATH=/x:", b"PATH=/y"], b"/x:"),
        ([b"PATH="], b""),
        ([b"PATHS=/x", b"XPATH=/y"], b"/bin:/usr/bin"),
    ],
)
def test_the_search_path_is_the_first_that_is_set(environment: list[bytes], search: bytes) -> None:
    assert search_path(environment) == search
