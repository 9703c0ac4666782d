"""Which ports a launch closes: those that the harness names, and that of the instance's database."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner_e2e.launch.ports import DATABASE_LOCK, find_ports, port_of
from runner_e2e.sandbox.refusal import Refusal

if TYPE_CHECKING:
    from pathlib import Path

# As PostgreSQL 17 writes it.
LOCK = b"""\
4321
/var/tmp/re-x/t/y/paperclip-home/instances/default/db
1796078000
54329
/tmp
127.0.0.1
  1000001    196608
ready   \n"""


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    path = tmp_path / DATABASE_LOCK
    path.parent.mkdir()
    return path


def refused(instance: Path) -> Refusal:
    with pytest.raises(Refusal) as caught:
        find_ports(str(instance), [])
    assert caught.value.code == "protection-unavailable"
    assert caught.value.path == os.fsencode(instance / DATABASE_LOCK)
    assert "restart the server" in caught.value.remedy
    return caught.value


def test_the_port_of_the_instances_database_is_closed(tmp_path: Path, lock: Path) -> None:
    lock.write_bytes(LOCK)

    assert find_ports(str(tmp_path), []) == (54329,)
    assert find_ports(str(tmp_path), [5432]) == (5432, 54329)


def test_an_instance_without_a_database_of_its_own_closes_what_is_named(tmp_path: Path) -> None:
    assert find_ports(str(tmp_path), []) == ()
    (tmp_path / "db").mkdir()
    assert find_ports(str(tmp_path), [5432]) == (5432,)


def test_a_launch_without_an_instance_closes_what_is_named() -> None:
    assert find_ports(None, [5432]) == (5432,)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\n\n\n\n", id="empty-lines"),
        pytest.param(LOCK[: LOCK.index(b"329\n")], id="cut-off-in-the-port"),
        pytest.param(LOCK[: LOCK.index(b"\n/tmp")], id="cut-off-after-the-port"),
        pytest.param(LOCK.replace(b"54329", b"0"), id="none"),
        pytest.param(LOCK.replace(b"54329", b"65536"), id="too-high"),
        pytest.param(LOCK.replace(b"54329", b"-1"), id="negative"),
        pytest.param(LOCK.replace(b"54329", b" 54329"), id="blank"),
        pytest.param(LOCK.replace(b"54329\n", b"54329\r\n"), id="carriage-return"),
        pytest.param(LOCK.replace(b"54329", b"\xff\xfe"), id="not-text"),
        pytest.param(LOCK.replace(b"4321\n", b"", 1), id="a-line-less"),
        pytest.param(b"0" * 70000 + LOCK, id="long"),
    ],
)
def test_a_lock_file_that_names_no_port_stops_the_launch(tmp_path: Path, lock: Path, content: bytes) -> None:
    lock.write_bytes(content)

    assert "names no port" in refused(tmp_path).message


def test_what_is_no_file_of_the_databases_stops_the_launch(tmp_path: Path, lock: Path) -> None:
    lock.mkdir()
    assert "names no port" in refused(tmp_path).message
    lock.rmdir()
    os.mkfifo(lock)
    assert "names no port" in refused(tmp_path).message
    lock.unlink()
    (tmp_path / "elsewhere").write_bytes(LOCK)
    lock.symlink_to(tmp_path / "elsewhere")
    assert "cannot be read" in refused(tmp_path).message
    lock.unlink()
    lock.parent.rmdir()
    lock.parent.touch()
    assert "cannot be read" in refused(tmp_path).message


@given(st.binary(max_size=200))
def test_any_bytes_name_a_port_or_none(content: bytes) -> None:
    port = port_of(content)

    assert port is None or (0 < port < 65536 and content.split(b"\n")[3].lstrip(b"0") == str(port).encode())
