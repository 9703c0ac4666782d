"""Other processes: what a command can learn of them, and what it can do to them."""

import json
import os
import secrets
import shlex
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from kernel.harness import POLICY_SCHEMA, SECRET, Box, Identity, tool
from kernel.results import Result

pytestmark = pytest.mark.kernel


def is_running(pid: int) -> bool:
    state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
    return state in "SRD"


@pytest.mark.denies
@pytest.mark.parametrize("number", [0, signal.SIGTERM, signal.SIGSTOP, signal.SIGKILL], ids=str)
def test_no_signal_reaches_a_process_outside(box: Box, bystander: int, number: int) -> None:
    """S-23: nor its process group. A landed signal would be the control's last act, so 0 is it."""
    box.denies_inside(("kill", bystander, int(number)), ("kill-group", bystander, int(number)), error="EPERM")

    assert is_running(bystander)
    control = box.act(("kill", bystander, 0), ("kill-group", bystander, 0), sandboxed=False)
    assert [outcome.error for outcome in control] == ["", ""]


@pytest.mark.denies
def test_kill_says_not_permitted(box: Box, bystander: int) -> None:
    """S-23: as the shell's own command."""
    script = "kill -0 $1; kill -TERM $1; kill -STOP $1; kill -9 $1; kill -9 -$1"
    result = box.run("sh", "-c", script, "sh", str(bystander))

    assert result.complaints.count("not permitted") == 5
    assert is_running(bystander)


def test_own_children_can_be_signalled(box: Box) -> None:
    """S-23."""
    assert box.allows(("kill-own-child",)) == ["-9"]


@pytest.mark.denies
@pytest.mark.parametrize("name", ["pid", "mnt", "net", "user", "ipc"])
def test_namespaces_of_a_process_outside_are_denied(box: Box, bystander: int, name: str) -> None:
    """S-24: as a denial, which a tool can report."""
    box.denies(("size", f"/proc/{bystander}/ns/{name}"))


@pytest.mark.denies
def test_stat_reports_the_denial_of_a_foreign_namespace(box: Box, bystander: int) -> None:
    """S-24."""
    command = ("stat", "-L", f"/proc/{bystander}/ns/pid")

    inside = box.run(*command)
    assert inside.status == 1
    assert "Permission denied" in inside.complaints
    assert box.control(*command).status == 0


@pytest.mark.denies
@pytest.mark.parametrize("entry", ["cwd", "exe", "root", "fd/0"])
def test_links_of_a_process_outside_are_denied(box: Box, bystander: int, entry: str) -> None:
    """S-25."""
    box.denies(("readlink", f"/proc/{bystander}/{entry}"))


@pytest.mark.denies
def test_a_process_outside_is_no_way_around_the_domain(box: Box, bystander: int) -> None:
    """S-25: its root and its working directory lead to the same files without our rules."""
    box.denies(
        ("read", f"/proc/{bystander}/root{box.secret}"),
        ("read", f"/proc/{bystander}/cwd/../hid/secret"),
    )


@pytest.mark.parametrize("entry", ["cmdline", "task/{}/cmdline", "status", "stat", "limits"])
def test_texts_of_a_process_outside_are_recorded_as_readable(box: Box, bystander: int, entry: str) -> None:
    """S-25: without process isolation. A change of value has to be reported."""
    (text,) = box.allows(("read", f"/proc/{bystander}/{entry.format(bystander)}"))

    assert ("case-arg" in text) == ("cmdline" in entry)


def test_descriptor_numbers_of_a_process_outside_are_recorded_as_listable(box: Box, bystander: int) -> None:
    """S-25."""
    assert box.allows(("list", f"/proc/{bystander}/fd")) == ["0\n1\n2"]


@pytest.mark.denies
@pytest.mark.parametrize("entry", ["environ", "task/{}/environ"])
def test_the_environment_of_a_process_outside_is_denied(box: Box, bystander: int, entry: str) -> None:
    """S-26: for root too, because its capabilities are dropped."""
    act = ("read", f"/proc/{bystander}/{entry.format(bystander)}")

    box.denies(act)
    assert "CASE=x9" in box.act(act, sandboxed=False)[0].value


@pytest.mark.denies
@pytest.mark.parametrize("identity", [Identity.ROOT], indirect=True)
def test_capabilities_for_files_do_not_open_an_environment(box: Box, bystander: int) -> None:
    """S-26: with what `--keep-file-capabilities` leaves."""
    keeping = box.with_options(*box.options, "--keep-file-capabilities")

    keeping.denies(("read", f"/proc/{bystander}/environ"))


@pytest.mark.denies
@pytest.mark.parametrize("entry", ["auxv", "maps", "smaps", "pagemap", "mem"])
def test_the_memory_of_a_process_outside_cannot_be_opened(box: Box, bystander: int, entry: str) -> None:
    box.denies(("open", f"/proc/{bystander}/{entry}", os.O_RDONLY))


@pytest.mark.denies
def test_the_counters_of_a_process_outside_are_denied(box: Box, bystander: int) -> None:
    box.denies(("read", f"/proc/{bystander}/io"), ("list", f"/proc/{bystander}/map_files"))


@pytest.mark.denies
def test_a_process_outside_cannot_be_traced_or_read(box: Box, bystander: int) -> None:
    start = int(Path(f"/proc/{bystander}/maps").read_text().partition("-")[0], 16)

    box.denies(
        ("ptrace-attach", bystander),
        ("read-memory", bystander, start),
        ("take-descriptor", bystander, 0),
        error="EPERM",
    )


@pytest.mark.denies
def test_no_command_line_and_no_environment_within_reach_names_the_case(box: Box) -> None:
    """S-27: the id travels by environment, the names of hidden paths by descriptor.

    The tree is a shell that holds the id, `timeout`, and the launcher. The agent prints the command
    line of every process, its own environment and, if it can, the shell's.
    """
    name = secrets.token_hex(6)
    grader = box.root / f"case-{name}"
    grader.mkdir()
    policy = {"schema": POLICY_SCHEMA, "hide": [str(grader), str(box.hid)]}
    (grader / "policy").write_text(json.dumps(policy))
    agent = box.ok / "agent"
    agent.write_text(
        '#!/bin/sh\nfor p in /proc/[0-9]*; do tr "\\0" " " <$p/cmdline; echo; done\n'
        'env; echo; cat "/proc/$1/environ"; cat ../case-*/policy ../hid/secret\n'
    )
    agent.chmod(0o755)
    variable = "PAPERCLIP_RUNNER_E2E_SELECTED_ID"
    start = f"timeout 20 env -u {variable}"
    wrapped = f"{start} {shlex.join(box.installation.launch)} --policy-fd 5 -- ./agent $$"
    plain = f"{start} ./agent $$"
    env = {**box.environment, variable: name}

    def from_harness(command: str) -> Result:
        script = f'cd ok; {command} 5<"../case-${variable}/policy"; :'
        return box.run("sh", "-c", script, sandboxed=False, cwd=box.root, env=env)

    inside, outside = from_harness(wrapped), from_harness(plain)

    assert "./agent" in inside.text
    assert f"{variable}=" not in inside.text
    assert not inside.shows(name)
    assert not inside.shows(SECRET)
    assert f"{variable}={name}" in outside.text
    assert outside.shows(SECRET)


@pytest.mark.parametrize("identity", [Identity.ROOT], indirect=True)
@pytest.mark.parametrize(
    ("mode", "who", "error"),
    [
        (4, Identity.USER, "ENOENT"),
        (4, Identity.ROOT, "ENOENT"),
        (2, Identity.USER, "ENOENT"),
        (2, Identity.ROOT, ""),
        (1, Identity.USER, "EPERM"),
        (1, Identity.ROOT, ""),
    ],
)
def test_hidepid_protects_root_only_in_its_strictest_mode(
    box: Box, mode: int, who: Identity, error: str
) -> None:
    """S-28: and the plan calls none of them isolation, because the launcher sets none of them up."""
    own = replace(box, identity=who)
    stage = [("unshare-mounts",), ("mount", "proc", "/proc", "proc", 0, f"hidepid={mode}")]
    code = "import time; print(flush=True); time.sleep(600)"
    sleeper = (own.installation.python, "-I", "-S", "-c", code)
    with own.start(*sleeper, sandboxed=False) as process:
        assert process.stdout is not None
        process.stdout.readline()
        act = ("read", f"/proc/{process.pid}/cmdline")

        assert own.act(act, stage=stage)[0].error == error
        assert own.act(act, sandboxed=False, stage=stage)[0].worked
        listed = own.allows(("list", "/proc"), stage=stage)[0].splitlines()
        assert (str(process.pid) in listed) == (error != "ENOENT")
        if mode == 4:
            assert len([name for name in listed if name.isdigit()]) == 1
    plan = own.explain(stage=stage)
    assert not any(word in name.lower() for name in plan.protections for word in ("pid", "proc"))


@pytest.mark.denies
def test_process_listings_show_no_environment(box: Box, bystander: int) -> None:
    """S-29: the words of a command line are visible without process isolation (recorded)."""
    script = '"$2" eww -p "$1"; "$3" -af case-arg'
    command = ("sh", "-c", script, "sh", str(bystander), tool("ps"), tool("pgrep"))

    inside, outside = box.run(*command), box.control(*command)

    assert "CASE=x9" in outside.text
    assert not inside.shows("CASE=x9")
    assert inside.text.count("case-arg") >= 2


def test_limits_of_a_process_outside_are_closed_and_its_scheduling_recorded(box: Box, bystander: int) -> None:
    """S-30: limits by the system call filter; scheduling until process isolation closes it.

    Scheduling a process that has more capabilities takes one of them, so there root is held back.
    """
    acts = (("limit-files", bystander, 64), ("pin", bystander), ("renice", bystander))
    inside = box.act(*acts)

    scheduling = "EPERM" if box.identity is Identity.ROOT else ""
    assert [outcome.error for outcome in inside] == ["EPERM", scheduling, scheduling]
    assert all(outcome.worked for outcome in box.act(*acts, sandboxed=False))


def test_the_oom_score_of_a_process_outside_is_recorded(box: Box, bystander: int) -> None:
    """S-30: for root `/proc` is granted without write, for a user it is not."""
    act = ("write", f"/proc/{bystander}/oom_score_adj", 0, "500")

    expected = "EACCES" if box.identity is Identity.ROOT else ""
    assert box.act(act)[0].error == expected
    assert box.act(act, sandboxed=False)[0].worked


def test_a_command_can_lower_its_own_limits(box: Box) -> None:
    """S-30."""
    assert box.works("sh", "-c", "ulimit -n 64; ulimit -n").text == "64\n"


@pytest.mark.denies
def test_inherited_descriptors_are_closed(box: Box) -> None:
    """S-31: files, directories, sockets and O_PATH handles, low and high."""
    stage = [
        ("open", 3, str(box.secret), os.O_RDONLY),
        ("open", 9, str(box.hid), os.O_RDONLY),
        ("open", 250, str(box.secret), os.O_RDWR),
        ("open", 999, "/", os.O_PATH),
    ]
    acts = (
        ("read-descriptor", 3),
        ("read-beneath-descriptor", 9, "secret"),
        ("read-descriptor", 250),
        ("read-beneath-descriptor", 999, str(box.secret).removeprefix("/")),
    )

    box.denies(*acts, error="EBADF", stage=stage)
    (targets,) = box.allows(("descriptor-targets",), stage=stage)
    assert str(box.root) not in targets
    assert [line.split()[0] for line in targets.splitlines()] == ["0", "1", "2"]


@pytest.mark.denies
def test_a_shell_finds_an_inherited_descriptor_closed(box: Box) -> None:
    """S-31."""
    stage = [("open", 3, str(box.secret), os.O_RDONLY), ("open", 9, str(box.hid), os.O_RDONLY)]
    script = "cat <&3; ls -l /proc/self/fd"

    inside = box.run("sh", "-c", script, stage=stage)
    assert "ad file descriptor" in inside.complaints
    assert str(box.hid) not in inside.text
    assert not inside.shows(SECRET)
    assert box.control("sh", "-c", script, stage=stage).shows(SECRET)


@pytest.mark.denies
def test_a_policy_descriptor_is_not_handed_on(box: Box) -> None:
    descriptor = os.memfd_create("policy", 0)
    try:
        os.write(descriptor, json.dumps({"schema": POLICY_SCHEMA, "hide": [str(box.hid)]}).encode())
        os.lseek(descriptor, 0, os.SEEK_SET)
        by_descriptor = box.with_options("--policy-fd", str(descriptor))
        acts = (("descriptor-targets",), ("read", box.secret))
        targets, secret = by_descriptor.act(*acts, pass_fds=[descriptor])
    finally:
        os.close(descriptor)
    assert [line.split()[0] for line in targets.value.splitlines()] == ["0", "1", "2"]
    assert secret.error == "EACCES"
