"""Root and capabilities: what is dropped, what root may still change, and what keeps working."""

import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from kernel.harness import SECRET, Act, Box, Identity, tool

pytestmark = pytest.mark.kernel

SETS = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
FILE_CAPABILITIES = 1 << 0 | 1 << 1 | 1 << 3 | 1 << 4  # CHOWN, DAC_OVERRIDE, FOWNER, FSETID

only_root = pytest.mark.parametrize("identity", [Identity.ROOT], indirect=True)


def capabilities(box: Box, *options: str) -> dict[str, int]:
    values = box.with_options(*box.options, *options).allows(*(("own-status", name) for name in SETS))
    return {name: int(value, 16) for name, value in zip(SETS, values, strict=True)}


@pytest.mark.denies
@only_root
def test_root_keeps_no_capability(box: Box) -> None:
    """S-26: any one of some would open what the domain closed."""
    assert capabilities(box) == dict.fromkeys(SETS, 0)
    outside = box.act(("own-status", "CapEff"), sandboxed=False)[0]
    assert int(outside.value, 16) != 0


@only_root
def test_exactly_four_capabilities_for_files_can_be_kept(box: Box) -> None:
    kept = capabilities(box, "--keep-file-capabilities")

    assert kept == {
        "CapInh": 0,
        "CapPrm": FILE_CAPABILITIES,
        "CapEff": FILE_CAPABILITIES,
        "CapBnd": FILE_CAPABILITIES,
        "CapAmb": 0,
    }


@pytest.mark.parametrize("identity", [Identity.USER], indirect=True)
@pytest.mark.parametrize("options", [(), ("--keep-file-capabilities",)], ids=str)
def test_a_user_has_no_capability_and_gains_none(box: Box, options: tuple[str, ...]) -> None:
    found = capabilities(box, *options)

    assert {name: found[name] for name in ("CapPrm", "CapEff", "CapAmb", "CapInh")} == {
        "CapPrm": 0,
        "CapEff": 0,
        "CapAmb": 0,
        "CapInh": 0,
    }


@pytest.mark.denies
@only_root
def test_a_user_with_ambient_capabilities_loses_them(box: Box) -> None:
    """Who starts the launcher with some hands none of them on."""
    uid = str(Identity.USER.uid)
    identity = ("--reuid", uid, "--regid", uid, "--clear-groups")
    raised = ("--inh-caps", "+dac_read_search,+sys_ptrace", "--ambient-caps", "+dac_read_search")
    prefix = (tool("setpriv"), *identity, *raised, "--")
    launch = (*box.installation.launch, *box.options, "--")
    look = ("grep", "Cap[PEAI]", "/proc/self/status")

    outside = box.control(*prefix, *look)
    inside = box.run(*prefix, *launch, *look, sandboxed=False)

    assert "0000000000000004" in outside.text
    assert {line.split()[1] for line in inside.lines} == {"0" * 16}


@only_root
def test_with_the_file_capabilities_foreign_files_can_be_handled(box: Box) -> None:
    foreign = box.ok / "foreign"
    foreign.write_text("foreign")
    box.take_ownership()
    os.chown(foreign, 4242, 4242)
    foreign.chmod(0o600)
    acts = (("read", foreign), ("chown", foreign, 4243, 4243))
    keeping = box.with_options(*box.options, "--keep-file-capabilities")

    assert [o.error for o in box.act(*acts, own_files=False)] == ["EACCES", "EPERM"]
    assert [o.error for o in keeping.act(*acts, own_files=False)] == ["", ""]


@pytest.mark.denies
@only_root
def test_the_file_capabilities_open_nothing_hidden(box: Box) -> None:
    keeping = box.with_options(*box.options, "--keep-file-capabilities")

    keeping.denies(("read", box.secret), ("reopen", box.secret), ("list", box.root), ("unlink", box.secret))


@pytest.mark.denies
@only_root
@pytest.mark.parametrize("options", [(), ("--keep-file-capabilities",)], ids=str)
def test_a_file_handle_opens_nothing_hidden(box: Box, options: tuple[str, ...]) -> None:
    with_options = box.with_options(*box.options, *options)

    with_options.denies(("read-by-handle", str(box.ok), box.secret), error="EPERM")


@pytest.mark.denies
@only_root
@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "/etc/ld.so.cache",
        "/usr/bin/env",
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/kernel/randomize_va_space",
        "/sys/class/net/lo/mtu",
    ],
)
def test_root_cannot_open_system_files_for_writing(box: Box, path: str) -> None:
    """File modes do not stop root, capabilities or not; the control only opens and closes."""
    box.denies(("open", path, os.O_WRONLY))


@pytest.mark.denies
@only_root
def test_root_cannot_reach_the_kernels_own_switches(box: Box) -> None:
    """Which of them there are depends on the kernel's configuration."""
    switches = [
        *Path("/sys/fs/cgroup").rglob("release_agent"),
        *Path("/sys/fs/cgroup").glob("*/cgroup.procs"),
        *Path("/sys/fs/cgroup").glob("cgroup.procs"),
        *Path("/proc/sys/kernel").glob("modprobe"),
        *Path("/proc").glob("sysrq-trigger"),
        *Path("/sys/kernel").glob("uevent_helper"),
        *Path("/sys/power").glob("state"),
    ]
    assert switches
    box.denies(*(("open", path, os.O_WRONLY) for path in switches[:50]))


@pytest.mark.denies
@only_root
@pytest.mark.parametrize("options", [(), ("--keep-file-capabilities",)], ids=str)
@pytest.mark.parametrize(
    "directory", ["/etc", "/usr/bin", "/usr/lib", "/var", "/var/spool", "/run", "/opt", "/boot"]
)
def test_root_creates_nothing_in_system_trees(box: Box, directory: str, options: tuple[str, ...]) -> None:
    new = f"{directory}/{box.root.name}"

    box.with_options(*box.options, *options).denies(("create-and-remove", new))


@pytest.mark.denies
@only_root
def test_root_opens_no_block_device_and_no_memory_device(box: Box) -> None:
    devices = [
        path
        for path in sorted(Path("/dev").iterdir())
        if stat.S_ISBLK(path.lstat().st_mode) or path.name in ("kmsg", "mem", "port", "fuse")
    ]
    assert devices
    acts: list[Act] = [("open", path, os.O_RDONLY | os.O_NONBLOCK) for path in devices]
    readable = [
        act for act, outcome in zip(acts, box.act(*acts, sandboxed=False), strict=True) if outcome.worked
    ]

    assert readable
    box.denies(*readable)


@pytest.mark.denies
@only_root
def test_root_makes_no_device_node(box: Box) -> None:
    box.denies(
        ("node", box.ok / "disk", stat.S_IFBLK, os.makedev(7, 0)),
        ("node", box.ok / "mem", stat.S_IFCHR, os.makedev(1, 1)),
        error="EPERM",
    )


@pytest.mark.denies
@only_root
@pytest.mark.parametrize("options", [(), ("--keep-file-capabilities",)], ids=str)
def test_root_cannot_change_its_root_directory(box: Box, options: tuple[str, ...]) -> None:
    box.with_options(*box.options, *options).denies(("chroot", str(box.ok)), error="EPERM")


@only_root
def test_the_usual_devices_stay_open_to_root(box: Box) -> None:
    both = os.O_RDWR
    box.allows(
        *(("open", f"/dev/{name}", both) for name in ("null", "zero", "full", "random", "urandom")),
        ("open", "/dev/ptmx", both | os.O_NOCTTY),
        ("write", f"/dev/shm/{box.root.name}", os.O_CREAT, "x"),
        ("unlink", f"/dev/shm/{box.root.name}"),
        ("list", "/dev/pts"),
    )


@only_root
def test_root_writes_where_work_is_done(box: Box) -> None:
    places = [place for place in ("/tmp", "/home", "/root") if Path(place).is_dir()]
    assert places
    box.allows(*(("create-and-remove", f"{place}/{box.root.name}") for place in places))


@only_root
def test_tools_work_as_root_without_capabilities(box: Box) -> None:
    script = (
        "set -e; git init -q r; cd r; echo x >f; git add f;"
        " git -c user.name=n -c user.email=e@x commit -q -m m; git log --oneline | wc -l;"
        ' "$1" -c "import json, ssl, subprocess; print(subprocess.getoutput(\'id -u\'))"'
    )
    result = box.run("sh", "-c", script, "sh", box.installation.python)

    assert (result.status, result.text.split()) == (0, ["1", "0"])
    node = 'console.log(require("child_process").execSync("echo child").toString())'
    assert box.run(tool("node"), "-e", node).text == "child\n\n"


@pytest.mark.denies
@only_root
def test_root_opens_nothing_hidden_by_modes_of_others(box: Box) -> None:
    """A tree of another user's is hidden for root by the domain alone, and that is the proof."""
    box.take_ownership()
    for path in (box.hid, box.secret):
        os.chown(path, 4242, 4242)
    box.hid.chmod(0o700)
    box.secret.chmod(0o600)

    hiding = box.hiding(box.hid)
    hiding.denies(("read", box.secret), ("list", box.hid), own_files=False)


@pytest.mark.denies
@only_root
def test_an_exposure_that_only_capabilities_could_read_is_refused(box: Box) -> None:
    """The agent will not have them."""
    box.take_ownership()
    os.chown(box.own, 4242, 4242)
    box.own.chmod(0o700)

    refusal = box.refuses("expose-unreadable", *box.options, own_files=False)
    assert refusal.path == str(box.own)
    keeping = (*box.options, "--keep-file-capabilities")
    assert box.with_options(*keeping).run("true", own_files=False).status == 0


@pytest.mark.denies
@only_root
def test_a_service_user_sees_as_little_as_root(box: Box) -> None:
    """One tree, two identities: the rules do not depend on who asks."""
    for identity in Identity:
        replace(box, identity=identity).denies(("read", box.secret), ("list", box.root))
    assert box.secret.read_text() == SECRET
