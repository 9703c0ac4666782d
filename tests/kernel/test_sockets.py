"""Sockets: below ABI 9 Landlock lets anybody connect to any socket file, so the filter must not."""

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kernel.harness import SECRET, Box, tool
from kernel.results import outcomes

pytestmark = pytest.mark.kernel

MPTCP = 262


@contextmanager
def answering(listener: socket.socket) -> Iterator[list[int]]:
    """Answer every connection with the secret; yields the list of connections served."""
    served: list[int] = []

    def serve() -> None:
        while True:
            try:
                connection, _address = listener.accept()
            except OSError:
                return
            served.append(1)
            with connection:
                connection.sendall(SECRET.encode())

    with listener:
        listener.listen()
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield served
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


@contextmanager
def answering_at(path: Path) -> Iterator[list[int]]:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    path.chmod(0o777)
    with answering(listener) as served:
        yield served


@pytest.mark.denies
@pytest.mark.parametrize("name", ["ok/svc", "hid/.s.PGSQL.5432", "hid/own/svc", "svc"])
def test_no_service_socket_can_be_asked_wherever_it_lies(box: Box, name: str) -> None:
    """S-33, S-35: granted, hidden, exposed, or in an ancestor."""
    with answering_at(box.root / name) as served:
        box.denies_inside(("ask-unix", box.root / name))
        assert served == []
        control = box.act(("ask-unix", box.root / name), sandboxed=False)
        assert [outcome.value for outcome in control] == [SECRET]


@pytest.mark.denies
@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET], ids=str)
def test_no_kind_of_unix_socket_can_be_made(box: Box, kind: int) -> None:
    """S-33: with or without flags, since the filter reads the family alone."""
    flags = (0, socket.SOCK_CLOEXEC, socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)

    box.denies(*(("socket", int(socket.AF_UNIX), int(kind) | flag, 0) for flag in flags))


@pytest.mark.denies
def test_the_plan_says_about_socket_files_what_a_launch_does(box: Box) -> None:
    """S-34: never "denied" while the service answers."""
    plan = box.explain()

    with answering_at(box.ok / "docker.sock") as served:
        answer = box.act(("ask-unix", box.ok / "docker.sock"))[0]
        assert served == []
    assert "sockets" in plan.protections
    assert ("unixSockets" in plan.text, "denied" in plan.text) == (True, True)
    assert answer.error == "EACCES"


@pytest.mark.denies
def test_an_abstract_socket_cannot_be_asked(box: Box) -> None:
    name = f"@{box.root.name}"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("\0" + name[1:])
    with answering(listener) as served:
        box.denies_inside(("ask-unix", name))
        assert served == []
        assert box.act(("ask-unix", name), sandboxed=False)[0].value == SECRET


@pytest.mark.denies
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="only x86-64 has a second call table")
def test_the_second_table_of_system_calls_is_no_way_around(box: Box) -> None:
    """The filter knows one architecture's numbers and ends a process that uses another's."""
    acts = box.acting(("socket-by-the-other-table", int(socket.AF_UNIX)))
    inside, outside = box.run(*acts), box.control(*acts)

    if outside.status == 0:  # else the kernel has no such table, and any use of it is a fault
        assert outcomes(outside)[0].worked
    assert inside.status == -signal.SIGSYS


def test_socket_pairs_work(box: Box) -> None:
    """Node makes them for its children's streams."""
    assert box.allows(("talk-through-pair",)) == ["pair"]


def test_internet_sockets_work(box: Box) -> None:
    kinds = (
        ("socket", int(socket.AF_INET), int(socket.SOCK_STREAM), 0),
        ("socket", int(socket.AF_INET), int(socket.SOCK_DGRAM), 0),
        ("socket", int(socket.AF_INET6), int(socket.SOCK_STREAM), 0),
    )
    box.allows(*kinds)


@pytest.mark.parametrize("protocol", [0, MPTCP], ids=["tcp", "mptcp"])
def test_a_local_tcp_service_is_reachable_whose_port_is_not_closed(box: Box, protocol: int) -> None:
    """S-36: and the plan says so."""
    listener = socket.socket(socket.AF_INET)
    listener.bind(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    with answering(listener):
        control = box.act(("ask-tcp", port, protocol), sandboxed=False)[0]
        inside = box.act(("ask-tcp", port, protocol))[0]
    assert inside == control
    assert inside.value == SECRET or protocol == MPTCP
    assert "TCP" in box.explain().text


@pytest.mark.denies
def test_no_ring_can_be_set_up_to_make_sockets_without_the_system_call(box: Box) -> None:
    disabled = Path("/proc/sys/kernel/io_uring_disabled")
    inside = box.act(("set-up-ring",))[0]

    assert inside.error == "ENOSYS"
    control = box.act(("set-up-ring",), sandboxed=False)[0]
    if not disabled.exists() or disabled.read_text().strip() == "0":
        assert control.worked


@pytest.mark.denies
def test_children_cannot_make_unix_sockets_either(box: Box) -> None:
    script = (
        'python="$1"; shift; "$python" -I -S -c '
        "'import socket; socket.socket(socket.AF_UNIX)' 2>&1 | grep -c PermissionError"
    )
    result = box.run("sh", "-c", script, "sh", box.installation.python)

    assert result.text == "1\n"
    assert box.control("sh", "-c", script, "sh", box.installation.python).text == "0\n"


def test_node_starts_children_and_serves_http(box: Box) -> None:
    node = tool("node")
    code = (
        "const h=require('http'),c=require('child_process');"
        "console.log(c.execSync('echo child').toString());"
        "const s=h.createServer((q,r)=>r.end('served')).listen(0,()=>"
        "h.get({port:s.address().port,host:'127.0.0.1'},r=>r.on('data',d=>{console.log(''+d);"
        "s.close()})))"
    )
    result = box.works(node, "-e", code)

    assert result.text == "child\n\nserved\n"
