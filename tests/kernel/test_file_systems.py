"""File systems of other kinds: the launcher proves its denial on each, or refuses."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kernel.harness import SECRET, Arg, Box, Identity, Step
from kernel.results import Result, outcomes

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.parametrize("identity", [Identity.ROOT], indirect=True),
]

as_both = pytest.mark.parametrize("who", list(Identity), ids=str)


def on_fuse(box: Box, who: Identity, *command: Arg) -> Result:
    """Run a command that sees our FUSE file system at `mnt`."""
    (box.root / "mnt").mkdir(exist_ok=True)
    program = box.installation.program("fuse_mount.py")
    return box.run(*program, box.root / "mnt", str(who.uid), *command, sandboxed=False)


@pytest.mark.denies
@as_both
def test_a_hidden_path_on_fuse_is_denied_or_refused(box: Box, who: Identity) -> None:
    """S-22: whichever, by one real denial there; never a launch whose rules do not bind."""
    point = box.root / "mnt"
    launch: tuple[Arg, ...] = (*box.installation.launch, "--hide", point / "hid", "--")
    acts = box.acting(("read", point / "hid" / "secret"), ("read", point / "ok" / "a"))

    outside = on_fuse(box, who, *acts)
    inside = on_fuse(box, who, *launch, *acts)

    assert [outcome.value for outcome in outcomes(outside)] == [SECRET, "fine"]
    assert not inside.shows(SECRET)
    if inside.status == 125:
        assert b'"unsupported-filesystem"' in inside.stderr or b'"hidden-readable"' in inside.stderr
    else:
        assert [outcome.error for outcome in outcomes(inside)] == ["EACCES", ""]


@as_both
def test_a_fuse_mount_that_holds_nothing_hidden_is_no_obstacle(box: Box, who: Identity) -> None:
    """S-22."""
    launch = (*box.installation.launch, *box.options, "--")
    acts = box.acting(("read", box.root / "mnt" / "ok" / "a"), ("read", box.ok / "a"))

    inside = outcomes(on_fuse(box, who, *launch, *acts))
    assert [outcome.value for outcome in inside] == ["fine", "fine"]


@pytest.mark.denies
@as_both
@pytest.mark.parametrize("kind", ["tmpfs", "ramfs", "overlay"])
def test_a_hidden_directory_on_another_file_system_is_denied(box: Box, who: Identity, kind: str) -> None:
    """S-22: a tree of the same shape on each kind."""
    point = box.root / "mnt"
    for name in ("mnt", "upper", "work", "lower/hid/own"):
        (box.root / name).mkdir(parents=True)
    data = ""
    if kind == "overlay":
        layers = {"lowerdir": "lower", "upperdir": "upper", "workdir": "work"}
        data = ",".join(f"{option}={box.root / name}" for option, name in layers.items())
    stage: list[Step] = [("unshare-mounts",), ("mount", "none", str(point), kind, 0, data)]
    if kind != "overlay":
        stage += [("mkdir", str(point / "hid"), 0o755), ("mkdir", str(point / "hid" / "own"), 0o755)]
    stage.append(("chmod", str(point), 0o755))
    hiding = replace(box, identity=who).hiding(point / "hid", expose=[point / "hid" / "own"])

    hiding.denies(("list", point / "hid"), ("list", point), stage=stage)
    assert hiding.allows(("list", point / "hid" / "own"), stage=stage) == [""]


HIDDEN_ELSEWHERE: dict[str, Callable[[], Path]] = {
    "proc": lambda: Path("/proc/sys/kernel"),
    "sysfs": lambda: Path("/sys/kernel"),
    "devtmpfs": lambda: Path("/dev/shm"),
    "root file system": lambda: Path("/usr/share"),
}


@pytest.mark.denies
@as_both
@pytest.mark.parametrize("place", HIDDEN_ELSEWHERE)
def test_a_directory_of_the_system_can_be_hidden(box: Box, who: Identity, place: str) -> None:
    """S-22: kernel file systems too, whose other entries stay readable."""
    path = HIDDEN_ELSEWHERE[place]()
    hiding = replace(box, identity=who).hiding(path)

    hiding.denies(("list", path), ("list", path.parent))
    hiding.allows(("read", "/proc/self/status"), ("list", "/etc"))
