"""A launch through the production wrapper: what it may write, and what the wrapper's own policy withholds."""

import json
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernel.harness import SEARCH_PATH, SECRET, Act, Identity, Installation, finish, tool, wait_until
from kernel.launching import STATE, Launcher, install, write
from kernel.results import outcomes
from runner_e2e.launch.install import ROOT_PREFIX

pytestmark = pytest.mark.kernel

SERVER_FILES = ("config.json", "runtime-info.json")
# What agents of one company, or all, are given to go by.
FOR_ALL = ("runtime-context-assets/bundles/1/AGENTS.md", "skills/company/skill")


@pytest.fixture
def launcher(identity: Identity, installation: Installation) -> Iterator[Launcher]:
    home = Path("/srv") if os.geteuid() == 0 else Path.home()
    place = Path(tempfile.mkdtemp(prefix="writes-ü-", dir="/var/tmp"))
    outside = Path(tempfile.mkdtemp(prefix="writes-ü-", dir=home))
    try:
        made = Launcher(place, outside, identity, installation)
        write(made.root / "private" / "case.json")
        for name in (*SERVER_FILES, *FOR_ALL):
            write(made.instance / name, "{}")
        write(made.instance / "note", "of the server")
        write(outside / "file", "outside")
        write(outside / "moving", "outside")
        write(outside / "given" / "file", "outside")
        write(place / "beside" / "file", "beside")
        install(made)
        yield made
    finally:
        shutil.rmtree(place)
        shutil.rmtree(outside)


# What may be written.


@pytest.mark.denies
def test_whatever_is_not_named_is_read_only(launcher: Launcher) -> None:
    """A start-up file, a tool, another checkout: whatever this user owns elsewhere."""
    outside = launcher.outside

    assert launcher.allows(("read", outside / "file")) == ["outside"]
    launcher.denies(
        ("write", outside / "file", os.O_APPEND, "x"),
        ("write", outside / "file", os.O_TRUNC, "x"),
        ("truncate", outside / "file"),
        ("create", outside / "new"),
        ("mkdir", outside / "directory"),
        ("symlink", "/etc/passwd", outside / "link"),
        ("rename", outside / "moving", outside / "moved"),
        ("unlink", outside / "file"),
    )


def test_instance_temporary_places_and_what_is_named_are_writable(launcher: Launcher) -> None:
    launcher.configure(writable=[launcher.outside / "given"])
    scratch = launcher.root / "s"

    launcher.allows(
        ("create", launcher.workspace / "new"),
        ("create", launcher.instance / "companies/company/agents/agent" / "new"),
        ("create", launcher.instance / Path(STATE).parent / "new"),
        ("write", launcher.instance / "note", os.O_TRUNC, "by an agent"),
        ("create", launcher.place / "beside" / "new"),
        ("unlink", launcher.place / "beside" / "file"),
        ("create", launcher.outside / "given" / "new"),
        ("truncate", launcher.outside / "given" / "file"),
        ("create-and-remove", f"/tmp/{launcher.place.name}"),
        ("open", "/dev/null", os.O_WRONLY),
    )
    (own,) = [path for path in launcher.journal()[0]["exposed"] if path.startswith(str(scratch))]
    launcher.allows(("create", Path(own) / "t" / "new"), ("create", Path(own) / "h" / "new"))


@pytest.mark.denies
@pytest.mark.parametrize("name", [*SERVER_FILES, *FOR_ALL])
def test_what_the_server_or_other_agents_start_from_cannot_be_written(launcher: Launcher, name: str) -> None:
    file, note = launcher.instance / name, launcher.instance / "note"

    if name in FOR_ALL:
        assert launcher.allows(("read", file)) == ["{}"]
    else:
        launcher.denies(("read", file))
    launcher.denies(
        ("write", file, os.O_APPEND, " "),
        ("truncate", file),
        ("exchange", note, file),
        ("rename", note, file),
        ("unlink", file),
        ("create", file.parent / "new"),
    )


@pytest.mark.denies
def test_the_attempt_is_read_only_in_a_writable_place(launcher: Launcher) -> None:
    """Also the wrapper itself, which the next launch would execute."""
    tools = [launcher.root / "bin" / name for name in ("runner", "paperclip-runnerd")]

    assert all(launcher.allows(*(("read", path) for path in tools)))
    launcher.denies(
        *(("write", path, os.O_APPEND, "\n") for path in tools),
        ("create", launcher.root / "bin" / "new"),
        ("create", launcher.root / "new"),
        ("create", launcher.place / "new"),
        ("read", launcher.root / "private" / "case.json"),
        ("create", launcher.root / "private" / "new"),
    )


@pytest.mark.denies
def test_a_place_that_is_named_writable_does_not_open_what_is_hidden_in_it(launcher: Launcher) -> None:
    hidden = write(launcher.outside / "given" / "hidden" / "file")
    launcher.configure(hide=[hidden.parent], writable=[launcher.outside / "given"])

    launcher.denies(("read", hidden), ("write", hidden, os.O_APPEND, "x"), ("create", hidden.parent / "new"))
    launcher.allows(("truncate", launcher.outside / "given" / "file"))


# Other attempts and other instances.


@pytest.mark.denies
def test_other_attempts_and_instances_are_withheld_whenever_they_appear(launcher: Launcher) -> None:
    """Before the configuration was written, or between that and the launch."""

    def make(when: str) -> list[Path]:
        return [
            write(launcher.place / f"{ROOT_PREFIX}{when}" / "private" / "cell.json"),
            write(launcher.instance.parent / when / "workspaces" / "agent" / "report"),
            write(launcher.instance.parent / when / "config.json"),
        ]

    earlier = make("earlier")
    launcher.configure()
    later = make("later")

    launcher.denies(
        *(("read", path) for path in (*earlier, *later)),
        *(("list", path.parent) for path in (*earlier, *later)),
        *(("create", path.parent / "new") for path in (*earlier, *later)),
    )
    assert launcher.allows(("read", launcher.place / "beside" / "file")) == ["beside"]


@pytest.mark.denies
def test_an_attempt_that_appears_while_a_launch_runs_is_not_shown(launcher: Launcher) -> None:
    ready, go = launcher.workspace / "ready", launcher.workspace / "go"
    new = launcher.place / f"{ROOT_PREFIX}new" / "private" / "cell.json"
    acts: tuple[Act, ...] = (("create", ready), ("wait-for", go), ("read", new))

    with launcher.start(*launcher.acting(*acts)) as process:
        wait_until(ready.exists)
        write(new)
        go.touch()
        inside = outcomes(finish(process))

    assert [outcome.error for outcome in inside] == ["", "", "EACCES"]
    assert launcher.act(("read", new), sandboxed=False)[0].value == SECRET


# What a system call filter withholds.

PAIRS = """
import errno, json, socket, sys
found = []
for kind in json.loads(sys.argv[1]):
    try:
        one, other = socket.socketpair(socket.AF_UNIX, kind)
        one.send(b"x")
        assert other.recv(1) == b"x"
        found.append("")
    except OSError as error:
        found.append(errno.errorcode[error.errno])
print(json.dumps(found))
"""


@pytest.mark.denies
def test_a_pair_of_datagram_sockets_is_refused_and_connected_ones_work(launcher: Launcher) -> None:
    """A datagram can be sent to any address, so one end of a pair would do for a way out."""
    flags = (0, socket.SOCK_CLOEXEC, socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    connected = [kind | flag for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET) for flag in flags]
    datagram = [socket.SOCK_DGRAM | flag for flag in flags]
    kinds = json.dumps([*connected, *datagram])

    assert launcher.python(PAIRS, kinds) == [""] * 6 + ["EACCES"] * 3
    assert launcher.python(PAIRS, kinds, sandboxed=False) == [""] * 9


LIMITS = """
import errno, json, resource, subprocess, sys
def attempt(*words):
    try:
        resource.prlimit(*words)
        return ""
    except OSError as error:
        return errno.errorcode[error.errno]
pid, own = int(sys.argv[1]), resource.getrlimit(resource.RLIMIT_NOFILE)
lower = (64, own[1])
print(json.dumps({
    "other": attempt(pid, resource.RLIMIT_NOFILE, (256, own[1])),
    "own": attempt(0, resource.RLIMIT_NOFILE, lower),
    "lowered": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
    "inherited": subprocess.run(["/bin/sh", "-c", "ulimit -n"], capture_output=True).stdout.decode().strip(),
}))
"""


@pytest.fixture
def bystander(launcher: Launcher) -> Iterator[int]:
    """The pid of a process of the same user that no domain holds."""
    with launcher.start("sleep", "600", sandboxed=False) as process:
        yield process.pid


@pytest.mark.denies
def test_limits_can_be_set_for_oneself_and_for_nobody_else(launcher: Launcher, bystander: int) -> None:
    """A lower limit of another process could make it dump its memory, or end it."""
    own = {"own": "", "lowered": 64, "inherited": "64"}

    inside = launcher.python(LIMITS, str(bystander))
    outside = launcher.python(LIMITS, str(bystander), sandboxed=False)

    assert inside == {"other": "EPERM", **own}
    assert outside == {"other": "", **own}


KEYS = """
import ctypes, errno, json, os
add, request, control = {"x86_64": (248, 249, 250), "aarch64": (217, 218, 219)}[os.uname().machine]
call = ctypes.CDLL(None, use_errno=True).syscall
call.restype = ctypes.c_long
process = ctypes.c_long(-2)  # the process's own keyring, which ends with it
def attempt(*words):
    result = call(*words)
    return "" if result >= 0 else errno.errorcode[ctypes.get_errno()]
found = [
    attempt(control, 0, process, 1),
    attempt(add, b"user", b"writes", b"x", ctypes.c_size_t(1), process),
    attempt(request, b"user", b"writes", None, 0),
    attempt(control, 10, process, b"user", b"writes", 0),
]
print(json.dumps(found))
"""


@pytest.mark.denies
def test_keys_of_the_kernel_can_be_neither_made_nor_found(launcher: Launcher) -> None:
    assert launcher.python(KEYS) == ["EPERM"] * 4
    assert launcher.python(KEYS, sandboxed=False) == [""] * 4


# Names that the locale cannot spell.


@pytest.fixture(scope="session", params=["C", "POSIX", "ISO-8859-1"])
def locale_variables(request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    if request.param != "ISO-8859-1":
        yield {"LC_ALL": request.param}
        return
    place = Path(tempfile.mkdtemp(prefix="locale-", dir="/var/tmp"))
    try:
        place.chmod(0o755)
        command = [tool("localedef"), "-i", "de_DE", "-f", "ISO-8859-1", str(place / "de_DE.ISO-8859-1")]
        subprocess.run(command, check=True, env={"PATH": SEARCH_PATH})
        yield {"LC_ALL": "de_DE.ISO-8859-1", "LOCPATH": str(place)}
    finally:
        shutil.rmtree(place)


@pytest.mark.denies
def test_names_that_the_locale_cannot_spell_are_hidden(
    launcher: Launcher, locale_variables: dict[str, str]
) -> None:
    names = ("geheim-é", "秘密", os.fsdecode(b"geheim-\xe9"))
    hidden = [write(launcher.outside / name / "file") for name in names]
    writable = launcher.outside / "offen-é"
    write(writable / "file", "open")
    launcher.configure(hide=[path.parent for path in hidden], writable=[writable])

    encoding = "import sys; print(sys.getfilesystemencoding())"
    command = (launcher.installation.python, "-I", "-S", "-c", encoding)
    spoken = launcher.run(*command, environ=locale_variables, sandboxed=False).text.strip()

    assert (spoken == "iso8859-1") == ("LOCPATH" in locale_variables)
    launcher.denies(*(("read", path) for path in hidden), environ=locale_variables)
    launcher.denies(*(("create", path.parent / "new") for path in hidden), environ=locale_variables)
    launcher.allows(("read", writable / "file"), ("create", writable / "new"), environ=locale_variables)
    assert {str(path.parent) for path in hidden} <= set(launcher.journal()[0]["hidden"])
