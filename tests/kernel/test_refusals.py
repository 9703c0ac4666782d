"""The launcher says no: with one JSON line, status 125, and before anything has started."""

import errno
from pathlib import Path

import pytest

from kernel.harness import Arg, Box, Identity, finish

pytestmark = pytest.mark.kernel

USAGE: dict[str, tuple[Arg, ...]] = {
    "unknown option": ("--hidden", "x"),
    "abbreviated option": ("--hid", "x"),
    "short option": ("-h", "x"),
    "stray word": ("x",),
    "hide without a value": ("--hide",),
    "hide with an empty value": ("--hide", ""),
    "hide= with nothing": ("--hide=",),
    "optional with an empty value": ("--hide-optional", ""),
    "expose without a value": ("--expose",),
    "descriptor without a value": ("--policy-fd",),
    "descriptor that is no number": ("--policy-fd", "x"),
    "descriptor with a sign": ("--policy-fd", "+3"),
    "descriptor below zero": ("--policy-fd", "-1"),
    "descriptor with blanks": ("--policy-fd", " 3"),
    "descriptor in other digits": ("--policy-fd", "٣"),
    "descriptor beyond every limit": ("--policy-fd", "99999999999999999999"),
    "flag with a value": ("--explain=yes",),
    "upper case": ("--HIDE", "x"),
    "not UTF-8": (b"--\xff",),
}


@pytest.mark.denies
@pytest.mark.parametrize("words", USAGE.values(), ids=USAGE)
def test_a_wrong_command_line_is_a_usage_refusal(box: Box, words: tuple[Arg, ...]) -> None:
    box.refuses("usage", *box.options, *words)
    box.refuses("usage", *words)


@pytest.mark.denies
@pytest.mark.parametrize("words", [(), ("--",), ("--", "")], ids=["nothing", "dashes", "empty"])
def test_a_command_is_needed(box: Box, words: tuple[Arg, ...]) -> None:
    """S-46."""
    box.run(*words, separator=False).refusal("usage")


@pytest.mark.denies
def test_a_command_needs_the_two_dashes(box: Box) -> None:
    result = box.run("touch", box.marker, separator=False)

    result.refusal("usage")
    assert not box.marker.exists()


def test_words_after_the_dashes_are_never_options(box: Box) -> None:
    command = ("echo", "--hide", "/", "--", "--explain", "--policy-fd=9")

    assert box.works(*command).text == "--hide / -- --explain --policy-fd=9\n"


@pytest.mark.denies
@pytest.mark.parametrize("option", ["--hide", "--hide-optional", "--expose"])
@pytest.mark.parametrize(
    ("spelling", "number"),
    [
        ("loop", errno.ELOOP),
        ("loop/x", errno.ELOOP),
        ("ok/a/x", errno.ENOTDIR),
        ("ok/a/", errno.ENOTDIR),
        ("ok/a/.", errno.ENOTDIR),
        ("n" * 256, errno.ENAMETOOLONG),
        ("long", errno.ENAMETOOLONG),
    ],
)
def test_a_path_that_cannot_be_resolved_is_refused(box: Box, option: str, spelling: str, number: int) -> None:
    (box.root / "loop").symlink_to("loop")
    path = f"{box.root}/{spelling}"
    if spelling == "long":
        path = f"{box.root}/" + "ok/../" * 800 + "hid/own"

    refusal = box.refuses("path-unresolvable", *box.options, option, path)

    assert refusal.errno == number
    assert refusal.path == path


@pytest.mark.denies
@pytest.mark.parametrize("identity", [Identity.USER], indirect=True)
def test_a_path_below_a_directory_that_cannot_be_searched_is_refused(box: Box) -> None:
    """Root is not stopped by modes, before it drops what lets it pass."""
    (box.ok / "shut" / "in").mkdir(parents=True)
    box.take_ownership()
    (box.ok / "shut").chmod(0o600)

    refusal = box.refuses("path-unresolvable", "--hide", box.ok / "shut" / "in")
    assert refusal.errno == errno.EACCES


@pytest.mark.denies
@pytest.mark.parametrize("identity", [Identity.USER], indirect=True)
def test_an_ancestor_whose_entries_cannot_be_listed_is_refused(box: Box) -> None:
    """The names of its other entries would be needed to grant them."""
    (box.ok / "dim" / "in").mkdir(parents=True)
    box.take_ownership()
    (box.ok / "dim").chmod(0o311)

    refusal = box.refuses("ancestor-unlistable", "--hide", box.ok / "dim" / "in")
    assert refusal.path == str(box.ok / "dim")
    assert refusal.errno == errno.EACCES


@pytest.mark.denies
def test_refusals_say_nothing_on_standard_output_and_name_non_utf8_paths_in_ascii(
    box: Box,
) -> None:
    missing = bytes(box.root) + b"/\xff\xfe-\n"

    refusal = box.refuses("hide-missing", "--hide", missing)
    assert refusal.path == str(box.root) + "/\udcff\udcfe-\n"


@pytest.mark.denies
@pytest.mark.parametrize("closed", [[2], [1, 2], [0, 1, 2]], ids=str)
def test_a_refusal_without_standard_error_still_has_its_status(box: Box, closed: list[int]) -> None:
    """And what should have been said lands in no other file."""
    stage = [("open", 7, str(box.ok / "a"), 2), ("close", *closed)]
    result = box.with_options("--hide", box.root / "nope").run("touch", box.marker, stage=stage)

    assert (result.status, result.stdout) == (125, b"")
    assert not box.marker.exists()
    assert (box.ok / "a").read_text() == "fine"


@pytest.mark.denies
def test_a_refusal_to_a_full_standard_error_still_has_its_status(box: Box) -> None:
    with Path("/dev/full").open("wb", buffering=0) as full:
        options = box.with_options("--hide", box.root / "nope")
        with options.start("touch", box.marker, stderr=full.fileno()) as process:
            assert finish(process).status == 125
    assert not box.marker.exists()


@pytest.mark.denies
def test_a_deleted_working_directory_is_refused(box: Box) -> None:
    refusal = box.refuses(
        "path-unresolvable", *box.options, stage=[("leave-directory", str(box.ok / "gone"))]
    )
    assert refusal.errno == errno.ENOENT


@pytest.mark.denies
def test_a_refused_launch_changes_nothing(box: Box) -> None:
    box.take_ownership()
    before = sorted((str(path), path.lstat().st_mtime_ns) for path in box.root.rglob("*"))

    box.refuses("expose-missing", "--hide", box.hid, "--expose", box.hid / "nope")
    box.refuses("hide-missing", "--hide", box.root / "nope")

    after = sorted((str(path), path.lstat().st_mtime_ns) for path in box.root.rglob("*"))
    assert after == before
