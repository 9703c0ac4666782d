"""What a harness does in its domain: it works as outside, and reaches nobody outside."""

import json
import os
import shutil
import signal
import socket
import stat
import zipfile
from pathlib import Path

import pytest

from kernel.harness import ORDINARY_UID, Arg, Box, Identity, tool

pytestmark = pytest.mark.kernel

only_a_user = pytest.mark.parametrize("identity", [Identity.USER], indirect=True)
only_root = pytest.mark.parametrize("identity", [Identity.ROOT], indirect=True)


# What works as outside


def test_files_are_made_moved_and_removed_as_outside(held: Box) -> None:
    """Across directories too, both ways: a domain that does not handle REFER denies that to all."""
    one, two = held.ok, held.root / "other"
    for number, (source, target) in enumerate(((one, two), (two, one))):
        name = f"file-{number}"
        held.allows(
            ("create", source / name),
            ("write", source / name, os.O_APPEND, "content"),
            ("truncate", source / name),
            ("link", source / name, target / f"link-{number}"),
            ("rename", source / name, target / name),
            ("create", source / f"again-{number}"),
            ("exchange", source / f"again-{number}", target / name),
            ("mkdir", source / f"directory-{number}"),
            ("create", source / f"directory-{number}" / "file"),
            ("rename", source / f"directory-{number}", target / f"directory-{number}"),
            ("symlink", "/nowhere", source / f"symlink-{number}"),
            ("node", source / f"fifo-{number}", stat.S_IFIFO, 0),
            ("node", source / f"socket-{number}", stat.S_IFSOCK, 0),
            ("open", source, os.O_WRONLY | os.O_TMPFILE),
            ("unlink", target / f"link-{number}"),
            ("unlink", target / f"directory-{number}" / "file"),
            ("rmdir", target / f"directory-{number}"),
        )


def test_devices_memory_and_proc_are_as_outside(held: Box) -> None:
    name = f"re-{os.getpid()}"
    held.allows(
        ("open", "/dev/null", os.O_RDWR),
        ("create-and-remove", f"/dev/shm/{name}"),
        ("create-and-remove", f"/tmp/{name}"),
        ("write", "/proc/self/comm", 0, "name"),
        ("write", "/proc/self/oom_score_adj", 0, "500"),
        ("read", "/proc/self/environ"),
        ("list", "/"),
        ("list", "/proc/self/fd"),
        ("terminal",),
        ("kill-own-child",),
        ("talk-through-pair",),
        ("socket", socket.AF_UNIX, socket.SOCK_STREAM, 0),
        ("socket", socket.AF_INET, socket.SOCK_STREAM, 0),
        ("set-up-ring",),
    )


STREAMS = """
import os
for name in ("/dev/stdout", "/proc/self/fd/1", f"/proc/{os.getpid()}/fd/1"):
    with open(name, "w") as file:
        file.write(name.partition("fd")[2] + "\\n")
with open(f"/proc/self/fd/{os.memfd_create('x')}", "w+") as file:
    file.write("memory")
    file.seek(0)
    print(file.read())
"""


def test_streams_and_memory_can_be_opened_again_by_name(held: Box) -> None:
    result = held.works("sh", "-c", '"$1" -I -S -c "$2" | cat', "sh", held.installation.python, STREAMS)

    assert result.lines == ["", "/1", "/1", "memory"]


TOOLS = {
    "git": "git init -q r && cd r && git -c user.name=n -c user.email=e@x commit -q --allow-empty -m m"
    " && cd .. && git clone -q --no-hardlinks r c && git -C c log --format=%s",
    "tar": 'tar cf x.tar a && mkdir t && tar xf x.tar -C t && cat t/a && rm -r t "$PWD/x.tar"',
    "node": 'node -e \'const {execSync} = require("child_process"), fs = require("fs");'
    ' fs.writeFileSync("x", execSync("cat a")); fs.renameSync("x", "y");'
    ' console.log(`${fs.readFileSync("y")}`)\'',
    "npm": 'mkdir -p p/d && echo \'{"name":"d","version":"1.0.0"}\' >p/d/package.json && cd p'
    ' && echo \'{"name":"p","version":"1.0.0"}\' >package.json'
    " && npm install --silent --offline --no-audit --no-fund ./d && ls node_modules",
}


@pytest.mark.parametrize("name", TOOLS)
def test_tools_work_as_outside(held: Box, name: str) -> None:
    tool(name, optional=name in ("node", "npm"))
    script = f'cd "$(mktemp -d)" && cp "$1" a && {TOOLS[name]}'

    held.works("sh", "-ec", script, "sh", held.ok / "a")


def test_pip_installs_into_an_environment_of_its_own(held: Box) -> None:
    python = held.installation.python
    if held.control(python, "-I", "-c", "import ensurepip").status != 0:
        pytest.skip("this Python has no pip to put into an environment")
    wheel = held.ok / "thing-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("thing.py", "print('thing')\n")
        archive.writestr("thing-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: thing\nVersion: 1\n")
        archive.writestr("thing-1.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr("thing-1.dist-info/RECORD", "")
    script = (
        '"$1" -m venv "$2" && "$2/bin/pip" install -q --no-index "$3" && "$2/bin/python" -c "import thing"'
    )

    with held.start("sh", "-ec", script, "sh", python, held.ok / "environment", wheel) as process:
        printed, said = process.communicate(timeout=60)

    assert (process.returncode, printed) == (0, b"thing\n"), said


@only_a_user
def test_a_set_id_program_runs_without_its_effect(held: Box) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make one that is root's")
    held.take_ownership()
    program = Path(shutil.copy(tool("id"), held.ok / "id"))
    program.chmod(0o4755)

    assert held.run(program, "-u", sandboxed=False, own_files=False).text == "0\n"
    assert held.run(program, "-u", own_files=False).text == f"{ORDINARY_UID}\n"


# Who is outside


@pytest.mark.denies
@pytest.mark.parametrize("protects", [True, False], ids=["protected", "nothing-protected"])
def test_nobody_outside_is_signalled_traced_or_limited(held: Box, bystander: int, *, protects: bool) -> None:
    box = held if protects else held.with_options()
    place = f"/proc/{bystander}"
    words = Path(place, "stat").read_bytes().rpartition(b")")[2].split()
    address = int(words[25])  # startstack: mapped as long as it lives

    for number in (0, signal.SIGTERM, signal.SIGSTOP, signal.SIGKILL):
        box.denies_inside(
            ("kill", bystander, int(number)), ("kill-group", bystander, int(number)), error="EPERM"
        )
    box.denies(
        ("kill", bystander, 0),
        ("ptrace-attach", bystander),
        ("read-memory", bystander, address),
        ("take-descriptor", bystander, 0),
        ("limit-files", bystander, 200),
        error="EPERM",
    )
    box.denies(
        ("open", f"{place}/mem", os.O_RDONLY),
        ("open", f"{place}/fd/0", os.O_RDONLY),
        ("list", f"{place}/cwd"),
        ("read", f"{place}/exe"),
    )


@pytest.mark.denies
@only_a_user
def test_environment_and_maps_of_nobody_outside_are_read(held: Box, bystander: int) -> None:
    """Root's capabilities would read them; its warden drops those."""
    held.denies(("read", f"/proc/{bystander}/environ"), ("read", f"/proc/{bystander}/maps"))


BELOW = """
import ctypes, json, os, signal, subprocess
child = subprocess.Popen(["sleep", "60"], env={"OWN": "child"})
inner = subprocess.Popen(["sh", "-c", "exec sleep 60"], start_new_session=True)
libc = ctypes.CDLL(None, use_errno=True)
found = {"environ": open(f"/proc/{child.pid}/environ").read()}
found["mem"] = bool(open(f"/proc/{child.pid}/mem", "rb"))
found["attached"] = libc.ptrace(16, child.pid, None, None)
os.waitpid(child.pid, 0)
found["detached"] = libc.ptrace(17, child.pid, None, None)
found["descriptor"] = libc.syscall(438, os.pidfd_open(child.pid), 1, 0) > 0
os.killpg(inner.pid, signal.SIGTERM)
child.terminate()
print(json.dumps({**found, "ends": [child.wait(), inner.wait()]}))
"""


def test_what_is_below_is_signalled_and_traced(held: Box) -> None:
    result = held.works(held.installation.python, "-I", "-S", "-c", BELOW)

    assert json.loads(result.text) == {
        "environ": "OWN=child\0",
        "mem": True,
        "attached": 0,
        "detached": 0,
        "descriptor": True,
        "ends": [-signal.SIGTERM, -signal.SIGTERM],
    }


@pytest.mark.denies
def test_limits_are_set_for_oneself_alone(held: Box) -> None:
    """A filter cannot tell a process below from one outside: neither can be limited."""
    script = "ulimit -S -n 64; sleep 60 & prlimit --nofile=64 --pid $! && echo other; ulimit -S -n; kill $!"
    tool("prlimit")

    inside, outside = held.run("sh", "-c", script), held.control("sh", "-c", script)

    assert (inside.lines, outside.lines) == (["64"], ["other", "64"])
    assert "Operation not permitted" in inside.complaints


# Domains in it


@pytest.mark.denies
def test_a_launcher_nests_and_proves_what_it_hides(held: Box, box: Box) -> None:
    inner: tuple[Arg, ...] = (*box.installation.launch, *box.options, "--")
    acts = held.acting(
        ("read", held.secret),
        ("list", held.hid),
        ("read", held.own / "mine"),
        ("write", held.ok / "a", 0, "x"),
        ("write", held.own / "mine", 0, "x"),
    )

    inside = held.run(*inner, *acts)
    alone = box.run(*acts)

    assert inside.text == "[('EACCES', ''), ('EACCES', ''), ('', 'mine'), ('', ''), ('EACCES', '')]\n", inside
    assert alone.text.endswith(
        "('', '')]\n"
    )  # what a launch exposes may be written, but for the harness's domain
    other = held.run(
        *box.installation.launch, "--hide", held.ok / "a", "--", *held.acting(("read", held.ok / "a"))
    )
    assert other.text == "[('EACCES', '')]\n", other


@pytest.mark.denies
@only_root
def test_mounts_can_be_made_only_where_nothing_is_protected(held: Box) -> None:
    """Codex mounts in its own sandbox, so that its harness has nothing protected."""
    held.denies(("mount-in-own-namespace",), error="EPERM")

    assert held.with_options().allows(("mount-in-own-namespace",)) == [""]


@only_root
def test_root_gets_out_by_the_systems_own_files(held: Box) -> None:
    """Which SECURITY.md says: do not run paid cells as root."""
    held.allows(
        ("open", "/proc/sys/kernel/core_pattern", os.O_WRONLY),
        ("open", "/etc/passwd", os.O_WRONLY | os.O_APPEND),
        ("open", "/usr/bin/env", os.O_WRONLY | os.O_APPEND),
    )
