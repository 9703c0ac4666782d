"""Gaps that Landlock leaves and the cases record, and tools that must work all the same."""

import os
import shutil
from pathlib import Path

import pytest

from kernel.harness import SECRET, Box, Identity, finish, tool, wait_until
from kernel.results import outcomes

pytestmark = pytest.mark.kernel


@pytest.mark.denies
def test_the_existence_and_size_of_a_hidden_file_are_recorded_as_visible(box: Box) -> None:
    """S-37: `hiddenExistence`; what `access()` says is no evidence of anything."""
    inside = box.act(
        ("read", box.secret),
        ("read", box.hid / "nope"),
        ("size", box.secret),
        ("access", box.secret),
        ("size", box.hid / "nope"),
    )

    assert [outcome.error for outcome in inside] == ["EACCES", "ENOENT", "", "", "ENOENT"]
    assert (inside[2].value, inside[3].value) == ("6", "True")
    assert box.act(("read", box.secret), sandboxed=False)[0].value == SECRET


@pytest.mark.denies
def test_the_metadata_of_a_hidden_file_is_recorded_as_changeable_and_its_content_is_not(
    box: Box,
) -> None:
    """S-38: so the harness trusts no mode and no time."""
    assert box.allows(("chmod", box.secret, 0o640), ("mode", box.secret), ("touch-times", box.secret)) == [
        "",
        "0o640",
        "1",
    ]
    assert box.act(("set-xattr", box.secret))[0].error in ("", "EOPNOTSUPP")

    box.denies(("write", box.secret, os.O_TRUNC, "x"), ("unlink", box.secret))


@pytest.mark.denies
def test_a_shell_changes_the_mode_but_not_the_content_of_a_hidden_file(box: Box) -> None:
    """S-38."""
    script = 'chmod 600 "$1"; touch -d @1 "$1"; echo x >"$1"; rm -f "$1"'
    command = ("sh", "-c", script, "sh", box.secret)

    inside = box.run(*command)
    assert inside.complaints.count("ermission denied") == 2
    assert box.secret.read_text() == SECRET
    assert int(box.secret.stat().st_mtime) == 1
    assert box.control(*command).status == 0
    assert not box.secret.exists()


def test_names_of_new_files_in_a_hidden_directory_are_recorded_as_visible(box: Box) -> None:
    """S-39: through inotify, until a system call rule closes it; the plan admits it."""
    acts = box.acting(("watched-name", box.hid, box.ok / "ready"))

    with box.start(*acts) as process:
        wait_until((box.ok / "ready").exists)
        (box.hid / "case-42.json").touch()
        (name,) = outcomes(finish(process))

    assert name.value == "case-42.json"
    assert "inotify" in box.explain().text


WALKERS: dict[str, tuple[str, ...]] = {
    "git": ("git", "status", "--short"),
    "node": ("node", "-e", 'console.log(require("fs").realpathSync("."))'),
    "python": ("/usr/bin/python3", "-c", "import os; print(os.getcwd(), os.listdir())"),
    "find": ("find", ".", "-name", "x"),
    "grep": ("grep", "-r", "fine", "."),
    "tar": ("tar", "cf", "/dev/null", "."),
    "bash": ("bash", "-c", 'cd "$PWD/deep" && pwd'),
    "mkdir": ("mkdir", "-p", "deep/er"),
    "realpath": ("realpath", "deep/../a"),
}


@pytest.mark.parametrize("walker", WALKERS)
def test_tools_that_walk_from_the_root_work_in_a_granted_directory(box: Box, walker: str) -> None:
    """S-40."""
    name, *rest = WALKERS[walker]
    (box.ok / "deep").mkdir()
    (box.ok / "deep" / "x").touch()
    if name == "git":
        assert box.control("git", "init", "-q", ".").status == 0

    box.works(tool(name), *rest)


@pytest.mark.parametrize("walker", ["rg"])
def test_search_tools_work_in_a_granted_directory(box: Box, walker: str) -> None:
    """S-40."""
    box.works(tool(walker, optional=True), "--no-config", "fine", ".")


@pytest.mark.denies
@pytest.mark.parametrize(
    "command", [("find", "/", "-maxdepth", "1"), ("tar", "cf", "/dev/null", ".."), ("ls", "..")]
)
def test_tools_that_list_an_ancestor_are_denied(box: Box, command: tuple[str, ...]) -> None:
    """S-40."""
    inside = box.run(*command)

    assert inside.status != 0
    assert "Permission denied" in inside.complaints
    assert box.control(*command).status == 0


@pytest.mark.denies
def test_an_agents_own_mount_sandbox_cannot_start(box: Box) -> None:
    """S-43: what bwrap does first is not permitted in a domain."""
    inside = box.act(("mount-in-own-namespace",))[0]

    assert inside.error == "EPERM"
    if box.identity is Identity.ROOT:
        assert box.act(("mount-in-own-namespace",), sandboxed=False)[0].worked


def test_a_bwrap_of_the_agents_fails_as_the_commands_own_error(box: Box) -> None:
    """S-43."""
    result = box.run(tool("bwrap", optional=True), "--dev-bind", "/", "/", "true")

    assert result.status not in (0, 125)
    assert "runner-e2e" not in result.complaints


def test_terminals_work_beside_a_directory_hidden_in_dev_shm(box: Box) -> None:
    """S-44: a pty is made, set raw, made the controlling terminal, and opened as /dev/tty."""
    shared = Path("/dev/shm") / box.root.name
    shared.mkdir()
    try:
        for hiding in (box, box.with_options(*box.options, "--hide", shared)):
            inside = hiding.act(("terminal",))
            assert inside == hiding.act(("terminal",), sandboxed=False)
            assert inside[0].value == "/dev/pts"
    finally:
        shared.rmdir()


def test_script_records_a_terminal(box: Box) -> None:
    """S-44."""
    script = tool("script")

    result = box.run(script, "-qec", "stty -a >/dev/null && tty", "/dev/null")
    assert result.status == 0
    assert result.text.startswith("/dev/pts/")


def test_a_terminal_given_as_standard_stream_stays_one(box: Box) -> None:
    """S-44."""
    master, slave = os.openpty()
    try:
        code = "import sys, tty; tty.setraw(0); print(sys.stdin.isatty(), sys.stdout.isatty())"
        command = (box.installation.python, "-I", "-c", code)
        with box.start(*command, stdin=slave, stdout=slave) as process:
            assert finish(process).status == 0
        assert os.read(master, 100).split() == [b"True", b"True"]
    finally:
        os.close(master)
        os.close(slave)


@pytest.mark.denies
def test_no_new_privileges_are_to_be_had(box: Box) -> None:
    """S-45."""
    assert box.allows(("own-status", "NoNewPrivs")) == ["1"]
    assert box.act(("own-status", "NoNewPrivs"), sandboxed=False)[0].value == "0"


@pytest.mark.denies
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a set-uid program of root's")
@pytest.mark.parametrize("identity", [Identity.USER], indirect=True)
def test_a_set_uid_program_stays_the_users(box: Box) -> None:
    """S-45: which is how sudo ends."""
    program = box.ok / "id"
    shutil.copy("/usr/bin/id", program)
    box.take_ownership()
    os.chown(program, 0, 0)
    program.chmod(0o4755)

    inside = box.run(program, "-u", own_files=False)
    outside = box.run(program, "-u", sandboxed=False, own_files=False)
    assert (inside.text, outside.text) == (f"{box.identity.uid}\n", "0\n")


@pytest.mark.parametrize("identity", [Identity.ROOT], indirect=True)
def test_a_tmpfs_mounted_for_the_run_is_usable(box: Box) -> None:
    """S-49: it was mounted before the rules were made."""
    (box.ok / "scratch").mkdir()
    stage = [
        ("unshare-mounts",),
        ("mount", "tmpfs", str(box.ok / "scratch"), "tmpfs", 0, "mode=777"),
    ]
    values = box.allows(
        ("write", box.ok / "scratch" / "new", os.O_CREAT, "kept"),
        ("read", box.ok / "scratch" / "new"),
        stage=stage,
    )
    assert values[1] == "kept"


@pytest.mark.denies
@pytest.mark.parametrize("number", [1, 28], ids=["EPERM", "ENOSPC"])
def test_without_namespaces_the_domain_holds_and_no_isolation_is_claimed(box: Box, number: int) -> None:
    """S-49: Landlock needs no namespace, and the plan promises none."""
    unshare, clone3 = {"x86_64": (272, 435), "aarch64": (97, 435)}[os.uname().machine]
    stage = [("fail-calls", [unshare, clone3], number)]

    box.denies(("read", box.secret), ("list", box.root), stage=stage)
    plan = box.explain(stage=stage)
    assert plan.protections == (
        "capabilities",
        "descriptors",
        "filesystem",
        "keyrings",
        "limits",
        "noNewPrivileges",
        "ports",
        "scopes",
        "sockets",
    )
