"""What an exposed path gives back, and every exposure that would give back too much."""

import itertools
from pathlib import Path

import pytest

from kernel.harness import SECRET, Arg, Box, finish, wait_until
from kernel.results import outcomes

pytestmark = pytest.mark.kernel


@pytest.mark.denies
def test_a_hidden_path_within_an_exposed_one_is_refused_in_every_order(box: Box) -> None:
    """S-07."""
    inner = box.own / "c"
    inner.mkdir()
    (inner / "s").write_text(SECRET)
    pairs: list[tuple[Arg, Arg]] = [("--hide", box.hid), ("--hide", inner), ("--expose", box.own)]

    for order in itertools.permutations(pairs):
        box.refuses("expose-reveals-hidden", *(word for pair in order for word in pair))
    assert box.control("cat", inner / "s").text == SECRET


@pytest.mark.denies
@pytest.mark.parametrize(
    "spelling", ["{}/hid", "{}/hid/", "{}/hid/.", "/{}//hid", "{}/hid/own/..", "{}", "/"]
)
def test_an_exposure_of_the_hidden_path_or_an_ancestor_is_refused(box: Box, spelling: str) -> None:
    """S-08."""
    exposed = spelling.format(box.root)

    box.refuses("expose-reveals-hidden", "--hide", box.hid, "--expose", exposed)
    box.refuses("expose-reveals-hidden", "--expose", exposed, "--hide", box.hid)


@pytest.mark.denies
def test_an_exposure_outside_every_hidden_path_is_refused(box: Box) -> None:
    """S-08: also when its name only begins like a hidden one."""
    (box.root / "hidden").mkdir()
    for name in ("ok", "hidden", "ok/a"):
        box.refuses("expose-outside-hidden", "--hide", box.hid, "--expose", box.root / name)


@pytest.mark.denies
def test_an_empty_exposure_is_a_usage_error(box: Box) -> None:
    """S-08."""
    box.refuses("usage", "--hide", box.hid, "--expose", "")
    box.refuses("usage", "--hide", box.hid, "--expose=")


@pytest.mark.denies
def test_an_exposure_has_to_exist(box: Box) -> None:
    """S-11a."""
    missing = box.hid / "nope"

    refusal = box.refuses("expose-missing", "--hide", box.hid, "--expose", missing)
    assert refusal.path == str(missing)


@pytest.mark.denies
def test_an_exposed_file_can_be_written_but_not_replaced(box: Box) -> None:
    """S-12."""
    trace = box.hid / "trace"
    trace.write_text("t")
    script = "f=$1/hid/trace; echo a >>$f; echo b >$f; cat $f; mv -f $1/ok/a $f; rm -f $f; cat $1/hid/secret"

    result = box.hiding(box.hid, expose=[trace]).run("sh", "-c", script, "sh", box.root)

    assert result.text == "b\n"
    assert result.complaints.count("Permission denied") == 3
    assert not result.shows(SECRET)
    assert trace.read_text() == "b\n"
    assert (box.ok / "a").read_text() == "fine"
    assert box.control("sh", "-c", script, "sh", box.root).text == "b\n" + SECRET
    assert not trace.exists()


@pytest.mark.denies
def test_a_vanished_exposure_never_leaves_the_secret_open(box: Box) -> None:
    """The sibling of an exposed file stays denied whatever happens to the exposure."""
    trace = box.hid / "trace"
    trace.write_text("t")

    box.hiding(box.hid, expose=[trace]).denies(
        ("create", box.hid / "trace-wal"), ("rename", trace, box.ok / "moved")
    )


@pytest.mark.denies
@pytest.mark.parametrize("kind", ["directory", "file"])
def test_an_exposure_that_cannot_be_read_is_refused(box: Box, kind: str) -> None:
    """S-14: root without its capabilities is no exception."""
    zero = box.hid / "zero"
    if kind == "directory":
        zero.mkdir()
    else:
        zero.touch()
    zero.chmod(0)

    refusal = box.refuses("expose-unreadable", "--hide", box.hid, "--expose", zero)

    assert refusal.path == str(zero)
    assert refusal.errno == 13


def test_files_can_be_made_changed_and_removed_in_an_exposed_directory(box: Box) -> None:
    (box.own / "deep").mkdir()

    box.allows(
        ("create", box.own / "new"),
        ("rename", box.own / "new", box.own / "deep" / "moved"),
        ("rename", box.own / "deep" / "moved", box.ok / "granted"),
        ("rename", box.ok / "granted", box.own / "back"),
        ("link", box.own / "back", box.ok / "linked"),
        ("truncate", box.own / "mine"),
        ("unlink", box.own / "mine"),
        ("list", box.own),
    )


@pytest.mark.denies
def test_an_exposure_itself_can_be_neither_moved_nor_removed(box: Box) -> None:
    (box.own / "mine").unlink()

    box.denies(("rename", box.own, box.ok / "taken"))
    (box.ok / "taken").rename(box.own)
    box.denies(("rmdir", box.own))


@pytest.mark.denies
def test_several_and_nested_exposures_show_just_themselves(box: Box) -> None:
    deep = box.hid / "a" / "b"
    deep.mkdir(parents=True)
    (deep / "file").write_text("deep")
    (deep / "other").write_text(SECRET)
    (box.hid / "a" / "s").write_text(SECRET)
    shown = box.hiding(box.hid, expose=[box.own, deep / "file", box.own])

    shown.denies(("read", deep / "other"), ("read", box.hid / "a" / "s"), ("list", deep))
    assert shown.allows(("read", deep / "file"), ("read", box.own / "mine")) == ["deep", "mine"]


@pytest.mark.denies
def test_an_exposure_within_an_exposure_is_no_conflict(box: Box) -> None:
    shown = box.hiding(box.hid, expose=[box.own, box.own / "mine"])

    shown.denies(("read", box.secret))
    assert shown.allows(("read", box.own / "mine")) == ["mine"]


@pytest.mark.denies
@pytest.mark.parametrize("kind", ["whole", "component", "chain"])
def test_an_exposure_through_a_symlink_beneath_the_hidden_path_is_refused(box: Box, kind: str) -> None:
    """An earlier run may have planted it."""
    (box.hid / "other").mkdir()
    (box.hid / "other" / "s").write_text(SECRET)
    (box.hid / "planted").symlink_to("other")
    (box.root / "outer").symlink_to("hid/planted")
    exposed = {
        "whole": box.hid / "planted",
        "component": box.hid / "planted" / "s",
        "chain": box.root / "outer",
    }[kind]

    box.refuses("expose-symlink", "--hide", box.hid, "--expose", exposed)


@pytest.mark.denies
def test_a_symlink_from_an_exposure_to_a_granted_place_is_refused_too(box: Box) -> None:
    """It stands for nothing that needs exposing, and what it stands for can change."""
    (box.hid / "planted").symlink_to(box.ok)

    result = box.hiding(box.hid, expose=[box.hid / "planted"]).run("touch", box.marker)
    assert result.status == 125
    assert b"expose-" in result.stderr
    assert not box.marker.exists()


@pytest.mark.denies
def test_symlinks_above_the_hidden_path_are_followed(box: Box) -> None:
    (box.root / "way").symlink_to(".")
    way = box.root / "way"
    shown = box.hiding(way / "hid", expose=[way / "hid" / "own"])

    shown.denies(("read", box.secret), ("read", way / "hid" / "secret"))
    assert shown.allows(("read", box.own / "mine"), ("read", way / "hid/own/mine")) == ["mine"] * 2


@pytest.mark.denies
def test_a_recreated_exposure_is_denied(box: Box) -> None:
    """S-42: a rule binds to the directory, not to its name."""
    acts = box.acting(("create", box.ok / "ready"), ("wait-for", box.ok / "go"), ("read", box.own / "mine"))

    with box.start(*acts) as process:
        wait_until((box.ok / "ready").exists)
        (box.own / "mine").unlink()
        box.own.rmdir()
        box.own.mkdir()
        (box.own / "mine").write_text("2")
        (box.ok / "go").touch()
        inside = outcomes(finish(process))

    assert [outcome.error for outcome in inside] == ["", "", "EACCES"]
    box.take_ownership()
    assert box.act(("read", box.own / "mine"), sandboxed=False)[0].value == "2"


@pytest.mark.denies
def test_an_exposed_sibling_session_is_not_shown_to_a_second_launch(box: Box) -> None:
    """Two launches over the same tree see only their own part."""
    (box.hid / "two").mkdir()
    (box.hid / "two" / "mine").write_text(SECRET)
    (box.own / "mine").write_text(SECRET)
    first, second = (box.hiding(box.hid, expose=[box.hid / name]) for name in ("own", "two"))

    first.denies(("read", box.hid / "two" / "mine"))
    second.denies(("read", box.own / "mine"))
    assert first.allows(("read", box.own / "mine")) == [SECRET]


@pytest.mark.denies
def test_an_exposure_swapped_for_a_symlink_while_launching_shows_nothing_else(box: Box) -> None:
    """Whatever the launcher saw, the other session stays closed."""
    other = box.hid / "two"
    other.mkdir()
    (other / "s").write_text(SECRET)
    kept, spare = box.hid / "kept", box.hid / "spare"
    spare.symlink_to("two")
    box.take_ownership()
    acts = box.acting(("read", other / "s"), ("list", other), ("read", box.own / "s"))
    for swapped in [True, False] * 4:
        with box.start(*acts, own_files=False) as process:
            if swapped:
                exchange(box.own, kept, spare)
            raced = finish(process)
        assert not raced.shows(SECRET)
        if swapped:
            exchange(box.own, spare, kept)
        if raced.status == 0:
            assert [outcome.error for outcome in outcomes(raced)][:2] == ["EACCES", "EACCES"]
        else:
            assert raced.status == 125


def exchange(name: Path, away: Path, coming: Path) -> None:
    """Move `name` away and put `coming` in its place."""
    name.rename(away)
    coming.rename(name)
