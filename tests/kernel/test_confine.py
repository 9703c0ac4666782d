"""A harness in its domain: nothing changes beneath what is protected, and all else is as outside."""

import errno
import os
import shutil
import stat
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from kernel.harness import Act, Arg, Box, Identity, Step, tool
from kernel.programs.kernel_calls import (
    LANDLOCK_ADD,
    LANDLOCK_CREATE,
    LANDLOCK_RESTRICT,
    MS_BIND,
    call_number,
)

pytestmark = pytest.mark.kernel

mounting = pytest.mark.parametrize("identity", [Identity.ROOT], indirect=True)

PRIVATE: Step = ("unshare-mounts",)
UNNAMED = os.O_WRONLY | os.O_TMPFILE
CHANGES: Mapping[str, tuple[Act, str]] = {
    "write": (("write", "{}/hid/secret", os.O_APPEND, "x"), "EACCES"),
    "write-read": (("open", "{}/hid/secret", os.O_RDWR), "EACCES"),
    "write-deep": (("write", "{}/hid/own/mine", 0, "x"), "EACCES"),
    "write-roundabout": (("write", "{}/ok/../hid/./own/mine", 0, "x"), "EACCES"),
    "write-by-link": (("write", "{}/ok/link", 0, "x"), "EACCES"),
    "empty": (("open", "{}/hid/secret", os.O_WRONLY | os.O_TRUNC), "EACCES"),
    "truncate": (("truncate", "{}/hid/secret"), "EACCES"),
    "create": (("create", "{}/hid/own/new"), "EACCES"),
    "create-unnamed": (("open", "{}/hid/own", UNNAMED), "EACCES"),
    "mkdir": (("mkdir", "{}/hid/new"), "EACCES"),
    "rmdir": (("rmdir", "{}/hid/empty"), "EACCES"),
    "unlink": (("unlink", "{}/hid/secret"), "EACCES"),
    "symlink": (("symlink", "x", "{}/hid/new"), "EACCES"),
    "fifo": (("node", "{}/hid/new", stat.S_IFIFO, 0), "EACCES"),
    "socket": (("node", "{}/hid/new", stat.S_IFSOCK, 0), "EACCES"),
    "rename-within": (("rename", "{}/hid/secret", "{}/hid/new"), "EACCES"),
    "rename-deeper": (("rename", "{}/hid/secret", "{}/hid/own/new"), "EACCES"),
    "rename-out": (("rename", "{}/hid/secret", "{}/ok/new"), "EACCES"),
    "rename-in": (("rename", "{}/ok/a", "{}/hid/new"), "EACCES"),
    "rename-over": (("rename", "{}/ok/a", "{}/hid/secret"), "EACCES"),
    "exchange": (("exchange", "{}/ok/a", "{}/hid/secret"), "EACCES"),
    "link-out": (("link", "{}/hid/secret", "{}/ok/new"), "EXDEV"),
    "link-in": (("link", "{}/ok/a", "{}/hid/new"), "EACCES"),
    "rename-the-place": (("rename", "{}/hid", "{}/ok/hid"), "EACCES"),
    "create-beside": (("create", "{}/new"), "EACCES"),
    "mkdir-beside": (("mkdir", "{}/new"), "EACCES"),
    "symlink-beside": (("symlink", "ok", "{}/new"), "EACCES"),
    "rename-beside": (("rename", "{}/other", "{}/new"), "EACCES"),
    "rename-to-beside": (("rename", "{}/ok/a", "{}/new"), "EACCES"),
    "remove-beside": (("rmdir", "{}/other"), "EACCES"),
    "create-further-up": (("create-and-remove", "{}-new"), "EACCES"),
}


def filled(box: Box, act: Act) -> Act:
    return tuple(word.format(box.root) if isinstance(word, str) else word for word in act)


def told(box: Box, *prefix: Arg) -> str:
    """What `confine` told."""
    words: tuple[Arg, ...] = (*prefix, *box.installation.launch, *box.options, "--")
    return box.run(*words, "sh", "-c", 'echo "$DOMAIN"', sandboxed=False).text.strip()


def bind(source: Path | str, target: Path | str) -> Step:
    return ("mount", str(source), str(target), "", MS_BIND, "")


# What is protected


@pytest.mark.denies
@pytest.mark.parametrize("name", CHANGES)
def test_nothing_changes_in_a_protected_place_or_in_what_leads_to_it(held: Box, name: str) -> None:
    act, error = CHANGES[name]
    (held.hid / "empty").mkdir()
    (held.ok / "link").symlink_to(held.secret)
    # In /var/tmp, where the tree lies, nobody may change what is another's, but anybody make something.
    held.denies(filled(held, act), error=error)


@pytest.mark.denies
def test_an_open_descriptor_of_a_protected_directory_is_no_way_in(held: Box) -> None:
    script = 'exec 9<"$1"; for to in /proc/self/fd/9/new /dev/fd/9/secret "/proc/self/root$1/own/mine"; do'
    script += ' (echo x >>"$to") && echo wrote; done; cd "$1" && (echo x >>secret) && echo wrote'

    inside = held.run("sh", "-c", script, "sh", held.hid)

    assert (inside.text, inside.complaints.count("Permission denied")) == ("", 4), inside
    assert held.control("sh", "-c", script, "sh", held.hid).lines == ["wrote"] * 4


@pytest.mark.denies
@pytest.mark.parametrize("identity", [Identity.ROOT], indirect=True)
def test_root_makes_no_device_in_a_protected_place(held: Box) -> None:
    for kind in (stat.S_IFCHR, stat.S_IFBLK):
        held.denies(("node", held.hid / f"device-{kind}", kind, os.makedev(1, 3)))


@pytest.mark.denies
def test_what_is_protected_can_be_read_listed_and_executed(held: Box) -> None:
    shutil.copy(tool("true"), held.hid / "true")

    assert held.allows(("read", held.secret), ("list", held.root)) == ["SECRET", "hid\nok\nother"]
    assert held.run(held.hid / "true").status == 0
    held.denies(("write", held.hid / "true", 0, ""))


@pytest.mark.denies
def test_modes_times_and_attributes_are_not_the_domains(held: Box) -> None:
    """Which SECURITY.md says: Landlock has no right for them."""
    held.allows(("chmod", held.secret, 0o640), ("touch-times", held.secret))
    held.denies(("write", held.secret, 0, "x"))


@pytest.mark.denies
def test_a_single_file_is_protected_with_the_names_beside_it(held: Box) -> None:
    file, beside = held.ok / "a", held.ok / "b"
    beside.write_text("b")
    box = held.with_options("--protect", file)

    for act in (
        ("write", file, 0, "x"),
        ("rename", beside, file),
        ("unlink", file),
        ("create", held.ok / "c"),
    ):
        box.denies_inside(act)
    box.allows(("write", beside, 0, "x"), ("create", held.hid / "new"))
    assert [one.error for one in box.act(("rename", beside, file), sandboxed=False)] == [""]


@pytest.mark.denies
def test_a_protected_path_that_does_not_exist_cannot_come_to_be(held: Box) -> None:
    box = held.with_options("--protect", held.ok / "later" / "place")

    box.denies(("mkdir", held.ok / "later"))
    box.allows(("write", held.ok / "a", 0, "x"))


@pytest.mark.denies
def test_a_place_in_another_one_adds_nothing(held: Box) -> None:
    box = held.with_options("--protect", held.own, "--protect", held.hid, "--protect", held.hid)

    box.denies(("create", held.own / "new"), ("create", held.hid / "new"))


@pytest.mark.denies
def test_with_the_root_directory_protected_nothing_changes(held: Box) -> None:
    box = held.with_options("--protect", "/")

    box.denies(("create", held.ok / "new"), ("open", "/dev/null", os.O_WRONLY))
    assert box.allows(("read", held.secret)) == ["SECRET"]


@pytest.mark.denies
def test_a_symlink_is_refused_since_what_it_leads_to_would_stay_open(held: Box) -> None:
    (held.ok / "link").symlink_to(held.hid)

    for spelling in (held.ok / "link", held.ok / "link" / "own", f"{held.ok}/../hid", f"{held.hid}/"):
        refusal = held.refuses("path-unresolvable", "--protect", spelling)
        assert refusal.path == str(spelling)


# Other names


@pytest.mark.denies
@mounting
@pytest.mark.parametrize(
    ("source", "name"),
    [
        pytest.param("hid", "secret", id="place"),
        pytest.param("hid", "own/mine", id="place-deep"),
        pytest.param("hid/own", "mine", id="part"),
        pytest.param("", "hid/secret", id="what-holds-it"),
    ],
)
def test_what_is_mounted_a_second_time_is_protected_there_too(
    held: Box, tmp_path: Path, source: str, name: str
) -> None:
    stage = [PRIVATE, bind(held.root / source, tmp_path)]

    held.denies(
        ("write", tmp_path / name, 0, "x"),
        ("create", (tmp_path / name).parent / "new"),
        # A rule that grants the second name would grant the first.
        ("write", held.hid / "own" / "mine", 0, "x"),
        stage=stage,
    )
    held.allows(("write", held.ok / "a", 0, "x"), stage=stage)


@pytest.mark.denies
@mounting
def test_a_file_that_is_mounted_a_second_time_is_protected_there_too(held: Box) -> None:
    (held.ok / "again").touch()

    held.denies(("write", held.ok / "again", 0, "x"), stage=[PRIVATE, bind(held.secret, held.ok / "again")])


@pytest.mark.denies
@mounting
@pytest.mark.parametrize(
    ("source", "target"),
    [pytest.param("/", "hid/own", id="root-in-the-place"), pytest.param("{}", "ok/again", id="in-itself")],
)
def test_mounts_that_leave_no_place_to_grant_are_refused(held: Box, source: str, target: str) -> None:
    (held.root / target).mkdir(exist_ok=True)
    stage = [PRIVATE, bind(source.format(held.root), held.root / target)]

    held.refuses("mount-alias", *held.options, stage=stage)


def test_a_hard_link_that_was_there_before_is_another_file_to_the_domain(held: Box) -> None:
    """Which SECURITY.md says; the domain makes none."""
    os.link(held.secret, held.ok / "link")

    held.allows(("write", held.ok / "link", 0, "x"))


# Kernels


def old_kernel(box: Box, abi: int) -> tuple[Arg, ...]:
    return (*box.installation.program("kernel_of_abi.py"), str(abi), box.ok / "asked")


@pytest.mark.denies
@pytest.mark.parametrize(
    ("claimed", "scopes"), [(3, "degraded"), (5, "degraded"), (6, "enforced"), (7, "enforced")]
)
def test_an_older_kernel_protects_files_and_says_that_it_does_not_scope(
    held: Box, bystander: int, claimed: int, scopes: str
) -> None:
    assert told(held, *old_kernel(held, claimed)) == f"{scopes} enforced"

    launch: tuple[Arg, ...] = (*old_kernel(held, claimed), *held.installation.launch, *held.options, "--")
    acts = held.acting(("write", held.secret, 0, "x"), ("kill", bystander, 0))
    found = held.run(*launch, *acts, sandboxed=False).text
    assert "EACCES" in found
    assert ("EPERM" in found) is (scopes == "enforced")


@pytest.mark.denies
@pytest.mark.parametrize("claimed", [1, 2])
def test_a_kernel_on_which_a_protected_file_can_be_truncated_is_refused(held: Box, claimed: int) -> None:
    launch = (*old_kernel(held, claimed), *held.installation.launch, *held.options, "--")
    result = held.run(*launch, "touch", held.marker, sandboxed=False)

    assert str(claimed) in result.refusal("abi-too-old").message
    assert not held.marker.exists()


@pytest.mark.denies
@pytest.mark.parametrize("options", [(), None], ids=["nothing-protected", "protected"])
@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM])
def test_without_landlock_nothing_starts(held: Box, options: tuple[Arg, ...] | None, number: int) -> None:
    stage = [("fail-calls", [LANDLOCK_CREATE], number)]

    held.refuses("landlock-unavailable", *(held.options if options is None else options), stage=stage)


@pytest.mark.denies
@pytest.mark.parametrize(
    "call",
    [LANDLOCK_ADD, LANDLOCK_RESTRICT, call_number("openat2"), call_number("prctl")],
    ids=["add", "restrict", "openat2", "prctl"],
)
@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOMEM])
def test_a_late_failure_starts_nothing(held: Box, call: int, number: int) -> None:
    result = held.run("touch", held.marker, stage=[("fail-calls", [call], number)])

    assert (result.status, held.marker.exists()) == (125, False), result


@pytest.mark.denies
def test_a_domain_that_was_entered_and_holds_nothing_is_refused(held: Box) -> None:
    """The system call says yes and does nothing: only a real attempt tells."""
    held.refuses("unsupported-filesystem", *held.options, stage=[("fail-calls", [LANDLOCK_RESTRICT], 0)])


@pytest.mark.denies
@pytest.mark.parametrize(
    ("options", "expected"),
    [(lambda box: box.options, "enforced enforced"), (lambda _: (), "enforced off")],
    ids=["protected", "nothing-protected"],
)
def test_what_is_enforced_is_told(
    held: Box, options: Callable[[Box], tuple[Arg, ...]], expected: str
) -> None:
    assert told(held.with_options(*options(held))) == expected
