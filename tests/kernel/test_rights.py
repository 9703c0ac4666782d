"""Every right a domain handles is denied beneath a hidden path and works beside it."""

import os
import stat

import pytest

from kernel.harness import SECRET, Act, Box, tool

pytestmark = pytest.mark.kernel

# Each act names the place it is tried in as {}: beneath the hidden path, then in a granted one.
RIGHTS: dict[str, Act] = {
    "read": ("read", "{}/file"),
    "read-through-o-path": ("reopen", "{}/file"),
    "write": ("open", "{}/file", os.O_WRONLY),
    "append": ("write", "{}/file", os.O_APPEND, "more"),
    "empty": ("write", "{}/file", os.O_TRUNC, ""),
    "truncate": ("truncate", "{}/file"),
    "list": ("list", "{}"),
    "execute": ("execute", "{}/program"),
    "create": ("create", "{}/new"),
    "mkdir": ("mkdir", "{}/new"),
    "symlink": ("symlink", "target", "{}/new"),
    "fifo": ("node", "{}/new", stat.S_IFIFO, 0),
    "socket-file": ("node", "{}/new", stat.S_IFSOCK, 0),
    "unlink": ("unlink", "{}/file"),
    "rmdir": ("rmdir", "{}/empty"),
    "rename-within": ("rename", "{}/file", "{}/new"),
}


def fill(box: Box) -> None:
    for place in (box.hid, box.ok):
        (place / "file").write_text(SECRET)
        (place / "empty").mkdir()
        program = place / "program"
        program.write_text("#!/bin/sh\nexit 0")
        program.chmod(0o755)


def at(act: Act, place: object) -> Act:
    return tuple(word.format(place) if isinstance(word, str) else word for word in act)


@pytest.mark.denies
@pytest.mark.parametrize("right", RIGHTS)
def test_a_right_is_denied_beneath_a_hidden_path_and_works_beside_it(box: Box, right: str) -> None:
    """S-18: a right that the ruleset forgot to handle would be allowed everywhere."""
    fill(box)

    box.allows(at(RIGHTS[right], box.ok))
    box.denies(at(RIGHTS[right], box.hid))


@pytest.mark.denies
@pytest.mark.parametrize("direction", ["in", "out"])
@pytest.mark.parametrize("kind", ["file", "empty"])
def test_nothing_moves_across_the_border_of_a_hidden_path(box: Box, direction: str, kind: str) -> None:
    fill(box)
    source, target = (box.ok, box.hid) if direction == "in" else (box.hid, box.ok)

    box.denies(("rename", source / kind, target / "moved"))


@pytest.mark.denies
def test_nothing_is_exchanged_or_linked_into_a_hidden_path(box: Box) -> None:
    fill(box)

    box.denies(("link", box.ok / "file", box.hid / "new"))
    box.denies(("exchange", box.ok / "file", box.hid / "file"))
    box.denies(("exchange", box.hid / "empty", box.ok / "file"))


@pytest.mark.denies
def test_a_hidden_file_cannot_be_linked_out(box: Box) -> None:
    """S-04b."""
    box.denies(("link", box.secret, box.ok / "x"), error="EXDEV")


@pytest.mark.denies
def test_ln_leaves_no_new_file(box: Box) -> None:
    """S-04b."""
    command = ("ln", box.secret, box.ok / "x")
    inside = box.run(*command)

    assert inside.status == 1
    assert "Invalid cross-device link" in inside.complaints
    assert not (box.ok / "x").exists()
    assert box.control(*command).status == 0


@pytest.mark.denies
def test_an_ancestor_takes_no_new_entries_and_loses_none(box: Box) -> None:
    (box.root / "file").touch()
    (box.root / "empty").mkdir()

    box.denies(
        ("create", box.root / "new"),
        ("mkdir", box.root / "newer"),
        ("symlink", "ok", box.root / "link"),
        ("rename", box.root / "file", box.ok / "moved"),
        ("rmdir", box.root / "empty"),
    )


@pytest.mark.denies
def test_the_hidden_directory_cannot_be_moved_into_sight(box: Box) -> None:
    box.denies(("rename", box.hid, box.ok / "taken"))


@pytest.mark.denies
def test_a_sibling_of_a_hidden_path_cannot_be_renamed(box: Box) -> None:
    box.denies(("rename", box.ok, box.root / "renamed"))


def test_files_move_between_granted_directories(box: Box) -> None:
    """S-21: EXDEV here would mean a second layer without the right to refer."""
    tool("git")
    script = (
        'cd "$1/ok"; mkdir d e; echo x >d/f; mv d/f e/f; git init -q r; cd r;'
        " git -c user.name=n -c user.email=e@x commit -q --allow-empty -m m; git log --oneline"
    )
    result = box.run("sh", "-c", script, "sh", box.root)

    assert result.status == 0, result
    assert result.complaints == ""
    assert len(result.lines) == 1
    assert (box.ok / "e" / "f").exists()


def test_directories_move_and_files_link_between_granted_siblings(box: Box) -> None:
    (box.root / "other").mkdir()
    (box.ok / "d").mkdir()

    box.allows(
        ("rename", box.ok / "d", box.root / "other" / "d"),
        ("link", box.ok / "a", box.root / "other" / "a"),
    )


@pytest.mark.denies
def test_a_descriptor_opened_with_o_path_before_a_move_opens_nothing_hidden(box: Box) -> None:
    """A granted file stays what it is; a hidden one cannot become one by moving its parent."""
    (box.root / "mid").mkdir()
    (box.root / "mid" / "s").write_text(SECRET)
    hiding = box.hiding(box.root / "mid" / "s")

    hiding.denies(
        ("reopen", box.root / "mid" / "s"),
        ("rename", box.root / "mid", box.ok / "mid"),
    )
