"""The database of a launch's instance: its port is closed, or the launch does not start."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kernel.harness import Identity, Installation
from kernel.launching import INSTANCES, Launcher, install, write
from kernel.tcp import Server, serving
from runner_e2e.launch.ports import DATABASE_LOCK

pytestmark = pytest.mark.kernel

SENT = b"by another way"
LAYOUTS = {
    "attempt": (INSTANCES, INSTANCES),
    "temporary-root": (f"t/paperclip-runner-e2e-own/{INSTANCES}", f"t/*/{INSTANCES}"),
}


@pytest.fixture(params=LAYOUTS)
def launcher(
    request: pytest.FixtureRequest, identity: Identity, installation: Installation
) -> Iterator[Launcher]:
    instances, parent = LAYOUTS[str(request.param)]
    place = Path(tempfile.mkdtemp(prefix="database-", dir="/var/tmp"))
    try:
        made = Launcher(place, place / "beside", identity, installation, instances=instances, parent=parent)
        install(made)
        write(made.outside / "file", "beside")
        write(made.instance / "data/run-logs/company/agent/r.ndjson", "")
        yield made
    finally:
        shutil.rmtree(place)


@pytest.fixture
def database() -> Iterator[Server]:
    with serving() as server:
        yield server


def lock_file(launcher: Launcher, text: str) -> Path:
    return write(launcher.instance / DATABASE_LOCK, text)


def lock_of(port: int) -> str:
    """What PostgreSQL writes of itself."""
    return f"4321\n/instance/db\n1796078000\n{port}\n/tmp\n127.0.0.1\n  1000001    196608\nready   \n"


def last_launch(launcher: Launcher) -> dict[str, Any]:
    return launcher.journal()[-1]


@pytest.mark.denies
def test_the_database_cannot_be_asked_and_the_record_says_so(launcher: Launcher, database: Server) -> None:
    lock_file(launcher, lock_of(database.port))

    launcher.denies(("deliver", "connect", database.port, 0))
    assert database.arrived() == [SENT]  # the control's
    launcher.denies(("deliver", "ipv6-mapped", database.port, 0))
    assert database.arrived() == [SENT]
    record = last_launch(launcher)
    assert record["closedPorts"] == [database.port]
    assert record["protections"]["ports"] == {"level": "required", "outcome": "enforced"}


@pytest.mark.denies
def test_a_port_that_the_harness_names_is_closed_beside_it(launcher: Launcher, database: Server) -> None:
    with serving() as other:
        launcher.configure(close_ports=[other.port])
        lock_file(launcher, lock_of(database.port))
        acts = [("deliver", "connect", port, 0) for port in (database.port, other.port)]
        launcher.denies(*acts)
        assert last_launch(launcher)["closedPorts"] == sorted([database.port, other.port])
        assert (database.arrived(), other.arrived()) == ([SENT], [SENT])


def test_without_a_database_nothing_is_closed_and_the_record_says_so(
    launcher: Launcher, database: Server
) -> None:
    launcher.allows(("deliver", "connect", database.port, 0))

    assert database.arrived() == [SENT]
    record = last_launch(launcher)
    assert record["closedPorts"] == []
    assert record["protections"]["ports"] == {"level": "required", "outcome": "off"}


@pytest.mark.denies
def test_a_database_that_starts_later_is_closed_to_the_next_launch(
    launcher: Launcher, database: Server
) -> None:
    launcher.allows(("deliver", "connect", database.port, 0))
    lock_file(launcher, lock_of(database.port))
    launcher.denies(("deliver", "connect", database.port, 0))

    assert [record["closedPorts"] for record in launcher.journal()] == [[], [database.port]]


def refused(launcher: Launcher) -> str:
    """Assert that a launch is refused for its database, and that the runner would have started there."""
    result = launcher.run("echo", "started")
    assert (result.status, result.stdout, result.stderr) == (125, b"", b""), result
    record = last_launch(launcher)
    assert record["code"] == "protection-unavailable", record
    assert record["path"] == str(launcher.instance / DATABASE_LOCK)
    assert record["remedy"]
    assert launcher.run("echo", "started", sandboxed=False).text == "started\n"
    return str(record["message"])


@pytest.mark.denies
@pytest.mark.parametrize(
    "text", ["", "garbage\n" * 8, lock_of(0), lock_of(70000), lock_of(5432).partition("2\n/tmp")[0]], ids=repr
)
def test_a_file_that_names_no_port_refuses_the_launch(launcher: Launcher, text: str) -> None:
    lock_file(launcher, text)

    assert "names no port" in refused(launcher)


@pytest.mark.denies
def test_a_file_that_leads_elsewhere_refuses_the_launch(launcher: Launcher) -> None:
    target = write(launcher.place / "planted", lock_of(1))
    lock = launcher.instance / DATABASE_LOCK
    lock.parent.mkdir()
    lock.symlink_to(target)
    assert "cannot be read" in refused(launcher)
    lock.unlink()
    os.mkfifo(lock)
    assert "names no port" in refused(launcher)


@pytest.mark.denies
def test_a_file_that_cannot_be_read_refuses_the_launch(launcher: Launcher) -> None:
    lock_file(launcher, lock_of(5432)).chmod(0)

    if launcher.identity is Identity.USER:
        assert "cannot be read" in refused(launcher)
    else:  # root reads what nobody may, as long as the wrapper has its capabilities
        launcher.allows(("create", launcher.workspace / "file"))
        assert last_launch(launcher)["closedPorts"] == [5432]


@pytest.mark.denies
def test_no_agent_changes_what_the_next_launch_reads(launcher: Launcher, database: Server) -> None:
    lock = lock_file(launcher, lock_of(database.port))
    inside = launcher.act(
        ("write", lock, os.O_APPEND, "x"),
        ("truncate", lock),
        ("unlink", lock),
        ("rename", lock, launcher.workspace / "lock"),
        ("rename", lock.parent, launcher.instance / "gone"),
        ("rename", lock.parent, launcher.workspace / "gone"),
    )

    assert {outcome.error for outcome in inside} <= {"EACCES", "EXDEV"}, inside
    assert lock.read_text() == lock_of(database.port)
    launcher.denies(("deliver", "connect", database.port, 0))
    launcher.allows(("create", launcher.workspace / "file"))  # in the workspace they may
