"""Fixtures of the kernel tests: the installed launcher, the identities, the tree, an outsider.

A kernel without Landlock fails these tests on Linux; it does not skip them. `EXPECT_ABI` makes a
kernel that is weaker than the one CI means to test fail too.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

# What asserts for the tests has to be named before it is imported.
pytest.register_assert_rewrite(
    "kernel.harness", "kernel.launching", "kernel.probing", "kernel.results", "kernel.tcp"
)

from kernel.harness import SEARCH_PATH, Box, Identity, Installation  # noqa: E402 - see above
from kernel.probing import Probe, weakenable_probe  # noqa: E402 - see above
from kernel.programs.kernel_calls import landlock_abi  # noqa: E402 - see above

PROJECT = Path(__file__).resolve().parents[2]
ROOMS = ("sandbox", "isolation", "launch", "evidence")
SCRATCH = "/var/tmp"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "denies: something inside must be refused or denied, so an inert launcher fails the test",
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With RUNNER_E2E_TEST_ONE_OF_EACH, keep a test's first parameters: they differ in data only."""
    if os.environ.get("RUNNER_E2E_TEST_ONE_OF_EACH"):
        first = {item.nodeid.partition("[")[0]: item for item in reversed(items)}
        items[:] = [item for item in items if item in first.values()]


@pytest.fixture(scope="session")
def abi() -> int:
    """The running kernel's Landlock version; too low a version fails every test that needs one."""
    if sys.platform != "linux":
        pytest.skip("Landlock exists on Linux only")
    found = landlock_abi()
    expected = int(os.environ.get("EXPECT_ABI") or 1)
    if found < expected:
        pytest.fail(f"the kernel has Landlock ABI {found}, these tests need {expected}")
    return found


def chosen_python() -> str:
    """The interpreter production uses: the system's, unless it is too old."""
    override = os.environ.get("RUNNER_E2E_TEST_PYTHON")
    if override:
        return override
    system = "/usr/bin/python3"
    check = "import sys; raise SystemExit(sys.version_info < (3, 11))"
    if Path(system).exists() and subprocess.call([system, "-I", "-c", check]) == 0:
        return system
    return sys.executable


@pytest.fixture(scope="session")
def installation(abi: int) -> Iterator[Installation]:
    """Copies that an ordinary user can read: the checkout may lie in root's home."""
    place = Path(tempfile.mkdtemp(prefix="kernel-tests-", dir=SCRATCH))
    try:
        place.chmod(0o755)
        shutil.copytree(PROJECT / "entrypoints", place / "entrypoints")
        package = PROJECT / "lib" / "runner_e2e"
        copied = place / "lib" / "runner_e2e"
        copied.mkdir(parents=True)
        shutil.copy(package / "__init__.py", copied)
        for room in ROOMS:
            if (package / room).is_dir():
                shutil.copytree(package / room, copied / room)
        programs = place / "kernel" / "programs"
        shutil.copytree(Path(__file__).parent / "programs", programs)
        launcher = place / "entrypoints" / "agent_filesystem_sandbox.py"
        other = os.environ.get("RUNNER_E2E_TEST_LAUNCHER")
        if other:
            launcher = Path(shutil.copy(other, place / "launcher.py"))
        readable(place)
        python = chosen_python()
        compiler = [python, "-I", "-m", "compileall", "-q", "-f", str(place)]
        subprocess.run(compiler, env={"PATH": SEARCH_PATH}, check=True)
        linker = [python, "-I", str(copied / "sandbox" / "linking.py")]
        subprocess.run(linker, env={"PATH": SEARCH_PATH}, check=True)
        readable(place)
        yield Installation(python, launcher, programs)
    finally:
        shutil.rmtree(place)


def readable(place: Path) -> None:
    for path in place.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)


@pytest.fixture(params=list(Identity), ids=str)
def identity(request: pytest.FixtureRequest) -> Identity:
    wanted = Identity(request.param)
    if wanted is Identity.ROOT and os.geteuid() != 0:
        pytest.skip("only root can test what the launcher does as root")
    return wanted


@pytest.fixture
def box(identity: Identity, installation: Installation) -> Iterator[Box]:
    """The tree of the cases, of which `hid` is hidden and `hid/own` exposed."""
    root = Path(tempfile.mkdtemp(prefix="re-", dir=SCRATCH))
    try:
        root.chmod(0o755)
        (root / "hid" / "own").mkdir(parents=True)
        (root / "ok").mkdir()
        (root / "hid" / "secret").write_text("SECRET")
        (root / "hid" / "own" / "mine").write_text("mine")
        (root / "ok" / "a").write_text("fine")
        hidden = Box(root, identity, installation, ())
        yield hidden.hiding(hidden.hid, expose=[hidden.own])
    finally:
        remove(root)


@pytest.fixture
def held(box: Box) -> Box:
    """The same tree for a harness: its `hid` is protected, and can be read; so can all else."""
    # Beside an inert launcher there is no domain for a harness either.
    inert = bool(os.environ.get("RUNNER_E2E_TEST_LAUNCHER"))
    program = box.installation.launcher if inert else box.installation.programs / "confined.py"
    (box.root / "other").mkdir()
    return replace(
        box, installation=replace(box.installation, launcher=program), options=("--protect", box.hid)
    )


def remove(root: Path) -> None:
    """Remove a tree although a test closed some of its directories."""
    for directory, _names, _files in os.walk(root):
        for name in _names:
            path = Path(directory, name)
            if not path.is_symlink() and path.stat().st_mode & 0o700 != 0o700:
                path.chmod(0o700)
    shutil.rmtree(root)


@pytest.fixture
def bystander(box: Box) -> Iterator[int]:
    """The pid of a process outside, of the same user, with an id in its environment.

    It lets anybody trace it, so that only the domain stands in the way where Yama would too.
    """
    code = (
        "import ctypes, time; ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_long(-1), 0, 0, 0);"
        " print(flush=True); time.sleep(600)"
    )
    command = (box.installation.python, "-I", "-S", "-c", code, "case-arg")
    with box.start(*command, sandboxed=False, env={**box.environment, "CASE": "x9"}) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid


@pytest.fixture
def probe(identity: Identity, installation: Installation) -> Iterator[Probe]:
    """The probe of a copy of the project, to be weakened."""
    with weakenable_probe(identity, installation) as made:
        yield made
