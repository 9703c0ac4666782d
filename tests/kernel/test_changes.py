"""Paths that come, go or change hands before, during and after a launch."""

import threading

import pytest

from kernel.harness import SECRET, Box, finish, wait_until
from kernel.results import outcomes

pytestmark = pytest.mark.kernel


@pytest.mark.denies
def test_a_hidden_path_has_to_exist(box: Box) -> None:
    """S-10a."""
    refusal = box.refuses("hide-missing", "--hide", box.root / "later")

    assert refusal.path == str(box.root / "later")


@pytest.mark.denies
@pytest.mark.parametrize("form", ["directory", "file", "symlink"])
@pytest.mark.parametrize("place", ["later", "missing/later"])
def test_an_optional_path_that_appears_later_is_denied(box: Box, form: str, place: str) -> None:
    """S-10b: whatever it is, and also when the directory it was to lie in was missing too."""
    later = box.root / place
    target = later / "s" if form == "directory" else later
    hiding = box.with_options("--hide-optional", later)
    acts = hiding.acting(("create", box.ok / "ready"), ("wait-for", box.ok / "go"), ("read", target))

    with hiding.start(*acts) as process:
        wait_until((box.ok / "ready").exists)
        later.parent.mkdir(exist_ok=True)
        if form == "directory":
            later.mkdir()
            target.write_text(SECRET)
        elif form == "file":
            target.write_text(SECRET)
        else:
            (later.parent / "elsewhere").write_text(SECRET)
            target.symlink_to("elsewhere")
        (box.ok / "go").touch()
        inside = outcomes(finish(process))

    assert [outcome.error for outcome in inside] == ["", "", "EACCES"]
    box.take_ownership()
    assert box.act(("read", target), sandboxed=False)[0].value == SECRET


@pytest.mark.denies
@pytest.mark.parametrize("link_to", ["ok", "ok/missing"])
def test_an_optional_path_through_a_symlink_is_denied_where_it_would_appear(box: Box, link_to: str) -> None:
    """S-10b: the directory that the link leads to takes no new entries, though it was granted."""
    (box.root / "way").symlink_to(link_to)
    hiding = box.with_options("--hide-optional", box.root / "way" / "later")

    hiding.denies(("mkdir", box.ok / "missing"), ("create", box.ok / "later"))


@pytest.mark.denies
def test_a_hidden_file_replaced_by_a_rename_stays_denied(box: Box) -> None:
    victim = box.ok / "a"
    hiding = box.hiding(victim)
    (box.root / "room").mkdir()
    acts = hiding.acting(
        ("create", box.root / "room" / "ready"),
        ("wait-for", box.root / "room" / "go"),
        ("read", victim),
    )

    with hiding.start(*acts) as process:
        wait_until((box.root / "room" / "ready").exists)
        (box.ok / "new").write_text(SECRET)
        (box.ok / "new").rename(victim)
        (box.root / "room" / "go").touch()
        inside = outcomes(finish(process))

    assert [outcome.error for outcome in inside] == ["", "", "EACCES"]


def test_siblings_that_vanish_meanwhile_are_skipped(box: Box) -> None:
    """S-11b."""
    stop = threading.Event()

    def churn() -> None:
        while not stop.is_set():
            for number in range(1, 9):
                (box.root / f"v{number}").mkdir()
            for number in range(1, 9):
                (box.root / f"v{number}").rmdir()

    box.take_ownership()
    thread = threading.Thread(target=churn)
    thread.start()
    try:
        results = [box.run("true", own_files=False) for _ in range(40)]
    finally:
        stop.set()
        thread.join()
    assert [result.status for result in results] == [0] * 40


@pytest.mark.denies
def test_a_hidden_directory_cannot_be_swapped_for_a_granted_one_by_the_launch_race(
    box: Box,
) -> None:
    """A sibling that flips between a directory and a symlink to the hidden one grants nothing."""
    stop = threading.Event()
    sibling, spare = box.root / "flip", box.root / "spare"
    spare.symlink_to("hid")
    sibling.mkdir()
    box.take_ownership()

    def flip() -> None:
        while not stop.is_set():
            sibling.rename(box.root / "kept")
            spare.rename(sibling)
            sibling.rename(spare)
            (box.root / "kept").rename(sibling)

    thread = threading.Thread(target=flip)
    thread.start()
    try:
        acts = box.acting(("read", box.secret), ("reopen", box.secret), ("list", box.hid))
        results = [box.run(*acts, own_files=False) for _ in range(15)]
    finally:
        stop.set()
        thread.join()
    for result in results:
        assert [outcome.error for outcome in outcomes(result)] == ["EACCES"] * 3
