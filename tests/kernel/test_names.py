"""How a path is spelled: no spelling opens what is hidden, and none is read as anything else."""

import pytest

from kernel.harness import SECRET, Box

pytestmark = pytest.mark.kernel


AWKWARD_NAMES = ["a,b", "a b", "new\nline", "q'\"q", "-lead", "k=v", "*", "~", "--", "ünï", "\udcff"]


@pytest.mark.denies
@pytest.mark.parametrize("pattern", ["hi*", "~", "hid/**", "h?d", "{hid,ok}", "$HOME"])
def test_hidden_paths_are_literal(box: Box, pattern: str) -> None:
    """S-09."""
    box.refuses("hide-missing", "--hide", f"{box.root}/{pattern}")
    box.refuses("hide-missing", "--hide", pattern, cwd=box.root)


@pytest.mark.denies
def test_a_directory_named_like_a_pattern_hides_only_itself(box: Box) -> None:
    """S-09."""
    for name in ("*", "other"):
        (box.root / name).mkdir()
        (box.root / name / "s").write_text(SECRET)
    hiding = box.hiding(box.root / "*")

    hiding.denies(("read", box.root / "*" / "s"))
    assert hiding.allows(("read", box.root / "other" / "s")) == [SECRET]


@pytest.mark.denies
@pytest.mark.parametrize("form", ["two words", "one word", "relative"])
@pytest.mark.parametrize("name", AWKWARD_NAMES, ids=ascii)
def test_awkward_names_are_one_path_each(box: Box, name: str, form: str) -> None:
    """S-13: no option value is split, expanded or taken for another option."""
    for other in AWKWARD_NAMES:
        (box.root / "x" / other / "own").mkdir(parents=True)
        (box.root / "x" / other / "s").write_text(SECRET)
        (box.root / "x" / other / "own" / "o").write_text("o")
    here = box.root / "x" / name
    options = {
        "two words": ("--hide", here, "--expose", here / "own"),
        "one word": (b"--hide=" + bytes(here), b"--expose=" + bytes(here / "own")),
        "relative": (f"--hide=./{name}", f"--expose=./{name}/own"),
    }[form]
    hiding = box.with_options(*options)
    others = [("read", box.root / "x" / o / "s") for o in AWKWARD_NAMES if o != name]

    hiding.denies(("read", here / "s"), ("list", here), cwd=box.root / "x")
    values = hiding.allows(("read", here / "own" / "o"), *others, cwd=box.root / "x")
    assert values == ["o", *[SECRET] * len(others)]


@pytest.mark.denies
@pytest.mark.parametrize(
    "spelling",
    [
        "ok/../hid/secret",
        "hid/own/../secret",
        "./hid//secret",
        "link/secret",
        "hid/own/up/secret",
    ],
)
def test_no_spelling_of_a_hidden_path_opens_it(box: Box, spelling: str) -> None:
    (box.root / "link").symlink_to("hid")
    (box.own / "up").symlink_to("..")
    path = f"{box.root}/{spelling}"

    box.denies(
        ("read", path),
        ("read", f"/proc/self/root{path}"),
        ("reopen", path),
        ("read-from", box.root, spelling),
        ("read-from", box.own, "../secret"),
    )


@pytest.mark.denies
def test_relative_options_are_taken_from_the_working_directory(box: Box) -> None:
    relative = box.with_options("--hide", "../hid", "--expose", "../hid/own")

    relative.denies(("read", box.secret))
    assert relative.allows(("read", box.own / "mine")) == ["mine"]
