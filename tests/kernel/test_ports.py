"""Closed TCP ports: nothing arrives there in any way, and everything else works."""

import errno
import json
import os
import socket

import pytest

from kernel.harness import Box, Identity, tool
from kernel.programs.kernel_calls import call_number
from kernel.tcp import serving

pytestmark = pytest.mark.kernel

SENT = b"by another way"
# What a kernel answers that has a way not, or not now: then there is nothing to close. ENOTSUP is EOPNOTSUPP.
ABSENT = {"EPROTONOSUPPORT", "ENOPROTOOPT", "EAFNOSUPPORT", "ENOTSUP", "EADDRNOTAVAIL"}
WAYS = {
    "connect": "EACCES",
    "any-address": "EACCES",
    "bound": "EACCES",
    "connected-before": "EACCES",
    "ipv6": "EACCES",
    "ipv6-mapped": "EACCES",
    "fastopen-connect": "EACCES",
    "fastopen-sendto": "ENOTSUP",
    "fastopen-sendmsg": "ENOTSUP",
    "fastopen-sendmmsg": "ENOTSUP",
    "mptcp": "EPROTONOSUPPORT",
    "mptcp-fastopen-sendto": "EPROTONOSUPPORT",
}


def closing(box: Box, *ports: int) -> Box:
    return box.with_options(*box.options, *(f"--close-port={port}" for port in ports))


@pytest.mark.denies
@pytest.mark.parametrize("way", WAYS)
def test_nothing_arrives_at_a_closed_port_in_any_way(box: Box, way: str) -> None:
    with serving() as server, serving() as other:
        act = ("deliver", way, server.port, other.port)
        (inside,) = closing(box, server.port).act(act)
        assert server.arrived() == []
        (outside,) = box.act(act, sandboxed=False)
        assert server.arrived() == ([SENT] if outside.worked else []), outside

    assert outside.worked or outside.error in ABSENT, outside
    assert inside.error == WAYS[way] or inside == outside, inside


@pytest.mark.parametrize("way", [way for way in WAYS if "fastopen-s" not in way and "mptcp" not in way])
def test_everything_arrives_at_a_port_beside_a_closed_one(box: Box, way: str) -> None:
    with serving() as server, serving() as other:
        act = ("deliver", way, server.port, other.port)
        ports = {server.port - 1, server.port + 1} - {other.port}
        (inside,) = closing(box, *ports).act(act)
        (outside,) = box.act(act, sandboxed=False)
        assert inside == outside
        assert server.arrived() == [SENT] * 2 * outside.worked


def test_flags_in_a_message_connect_nothing(box: Box) -> None:
    """The filter need not read messages, which it could not: of sendmmsg, too, the call's flags count."""
    with serving() as server:
        act = ("deliver", "fastopen-in-the-message", server.port, 0)
        assert not box.act(act, sandboxed=False)[0].worked
        assert server.arrived() == []


def test_a_deferred_connection_goes_where_it_was_allowed_to(box: Box) -> None:
    """The first data may name another port; inside and outside, it is not listened to."""
    with serving() as server, serving() as other:
        act = ("deliver", "deferred-elsewhere", server.port, other.port)
        (inside,) = closing(box, server.port).act(act)
        (outside,) = box.act(act, sandboxed=False)
        assert (inside, server.arrived()) == (outside, [])
        assert other.arrived() == [SENT] * 2 * outside.worked


@pytest.mark.denies
def test_a_child_reaches_it_no_more_than_its_parent(box: Box) -> None:
    script = '"$@" | cat; (exec "$@") & wait'
    with serving() as server:
        act = box.acting(("deliver", "connect", server.port, 0))
        result = closing(box, server.port).run("sh", "-c", script, "sh", *act)
        assert result.text == "[('EACCES', '')]\n" * 2
        assert server.arrived() == []
        assert box.control("sh", "-c", script, "sh", *act).text == "[('', '')]\n" * 2
        assert server.arrived() == [SENT] * 2


@pytest.mark.denies
def test_an_inherited_socket_is_asked_too(box: Box) -> None:
    """Standard input may be a socket that was made outside."""
    with serving() as server:
        for sandboxed in (True, False):
            with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as unconnected:
                act = box.acting(("connect-descriptor", 0, server.port))
                asked = closing(box, server.port).run(*act, sandboxed=sandboxed, stdin=unconnected.fileno())
            expected, arrived = ("EACCES", []) if sandboxed else ("", [SENT])
            assert (asked.text, server.arrived()) == (f"[('{expected}', '')]\n", arrived)


@pytest.mark.denies
def test_no_tcp_socket_becomes_another_kind_of_one(box: Box) -> None:
    """A layer of `smc` would; a kernel without it says something else than the filter."""
    with serving() as server:
        (inside,) = closing(box, server.port).act(("attach-layer", "smc"))
    (outside,) = box.act(("attach-layer", "smc"), sandboxed=False)

    assert inside.error == "ENOPROTOOPT"
    assert outside.error != "ENOPROTOOPT"


@pytest.mark.denies
@pytest.mark.parametrize(
    ("family", "kind", "protocol", "error"),
    [
        pytest.param(2, 3, 6, "EPROTONOSUPPORT", id="raw"),
        pytest.param(10, 3, 6, "EPROTONOSUPPORT", id="raw-ipv6"),
        pytest.param(17, 3, 0, "EAFNOSUPPORT", id="packets"),
    ],
)
def test_segments_cannot_be_made_by_hand(box: Box, family: int, kind: int, protocol: int, error: str) -> None:
    """As a user nobody can, and root loses what is needed; the filter does not rely on it."""
    act = ("socket", family, kind, protocol)
    (inside,) = closing(box, 1).act(act)
    (outside,) = box.act(act, sandboxed=False)

    assert inside.error == error
    assert outside.error == ("EPERM" if box.identity is Identity.USER else "")


def test_other_sockets_work_beside_a_closed_port(box: Box) -> None:
    kinds = [
        (2, 1, 0),
        (2, 1 | 0o2004000, 6),
        (10, 1, 0),
        (2, 2, 0),
        (2, 2, 17),
        (10, 2, 0),
        (16, 3, 0),  # netlink, by which addresses of interfaces are asked for
    ]
    closing(box, 1).allows(*(("socket", *kind) for kind in kinds), ("talk-through-pair",))


@pytest.mark.denies
def test_a_closed_port_cannot_be_waited_at_for_its_server_to_start_anew(box: Box) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_server(("127.0.0.1", 0)) as other:
        closed, beside = server.getsockname()[1], other.getsockname()[1]
    inside = closing(box, closed).act(("listen-at", closed), ("listen-at", beside), ("listen-at", 0))

    assert [outcome.error for outcome in inside] == ["EACCES", "", ""]
    box.allows(("listen-at", closed))


@pytest.mark.denies
def test_many_ports_are_closed_at_once_and_twice_is_once(box: Box) -> None:
    with serving() as one, serving() as two, serving() as three:
        closed = closing(box, one.port, two.port, 1, 65535, one.port)
        inside = closed.act(*(("deliver", "connect", server.port, 0) for server in (one, two, three)))
        assert [outcome.error for outcome in inside] == ["EACCES", "EACCES", ""]
        assert [server.arrived() for server in (one, two, three)] == [[], [], [SENT]]
        assert closed.explain().closed_ports == tuple(sorted({one.port, two.port, 1, 65535}))


@pytest.mark.denies
def test_ports_of_a_policy_are_closed(box: Box) -> None:
    with serving() as server:
        policy = {"schema": "runner-e2e.sandbox-policy/v1", "closePorts": [server.port]}
        reading, writing = os.pipe()
        os.write(writing, json.dumps(policy).encode())
        os.close(writing)
        try:
            asked = box.with_options(*box.options, "--policy-fd", str(reading))
            (inside,) = asked.act(("deliver", "connect", server.port, 0), pass_fds=[reading])
        finally:
            os.close(reading)
        assert (inside.error, server.arrived()) == ("EACCES", [])


def test_the_plan_says_which_ports_a_launch_closes(box: Box) -> None:
    plan = json.loads(closing(box, 5432, 80).explain().text)
    assert plan["closedPorts"] == [80, 5432]
    assert plan["protections"]["ports"] == {"level": "required", "outcome": "planned"}

    plan = json.loads(box.explain().text)
    assert plan["closedPorts"] == []
    assert plan["protections"]["ports"] == {"level": "required", "outcome": "off"}


@pytest.mark.denies
@pytest.mark.parametrize("port", ["0", "65536", "-1", "http", "80,81"])
def test_what_is_no_port_is_refused(box: Box, port: str) -> None:
    box.refuses("usage", *box.options, f"--close-port={port}")


@pytest.mark.denies
@pytest.mark.parametrize("number", [errno.EPERM, errno.EACCES, errno.ECONNREFUSED, errno.ENOSYS])
def test_where_connecting_is_answered_by_somebody_else_nothing_starts(box: Box, number: int) -> None:
    """A container's filter that forbids everything proves no domain, nor one that answers always the same."""
    stage = [("fail-calls", [call_number("connect")], number)]
    refusal = box.refuses("protection-unavailable", *closing(box, 5432).options, stage=stage)

    assert "not proven" in refusal.message
    assert refusal.errno == number


@pytest.mark.denies
def test_a_launcher_in_another_network_closes_the_port_there_too(box: Box) -> None:
    """Without a loopback interface nothing can be connected to, and the domain is asked before."""
    unshare = tool("unshare")
    words = [unshare, "--net"] if os.geteuid() == 0 else [unshare, "--user", "--net"]
    if os.geteuid() == 0 and box.identity is Identity.USER:
        words = [unshare, "--user", "--net"]
    control = box.control(*words, "true")
    if control.status != 0:
        words = []  # namespaces are not to be had: what is left is the ordinary case
    launch = (*box.installation.launch, *closing(box, 5432).options, "--")
    result = box.control(*words, *launch, *box.acting(("deliver", "connect", 5432, 0), ("read", box.secret)))

    assert result.text == "[('EACCES', ''), ('EACCES', '')]\n"


def test_node_serves_http_beside_a_closed_port(box: Box) -> None:
    node = tool("node")
    code = (
        "const h=require('http'),c=require('child_process'),d=require('dgram');"
        "d.createSocket('udp4').bind(0,function(){this.close()});"
        "require('os').networkInterfaces();"
        "console.log(c.execSync('echo child').toString());"
        "const s=h.createServer((q,r)=>r.end('served')).listen(0,()=>"
        "h.get({port:s.address().port,host:'localhost'},r=>r.on('data',d=>{console.log(''+d);"
        "s.close()})))"
    )
    result = closing(box, 1).works(node, "-e", code)

    assert result.text == "child\n\nserved\n"


@pytest.mark.denies
def test_a_connection_that_only_starts_is_refused_too(box: Box) -> None:
    """Without waiting: the kernel is asked at the start."""
    code = (
        "import errno,select,socket,sys; s=socket.socket(); s.setblocking(False);"
        " n=s.connect_ex(('127.0.0.1',int(sys.argv[1]))); select.select([],[s],[],5);"
        " print(errno.errorcode.get(n,'started'))"
    )
    with serving() as server:
        words = (box.installation.python, "-I", "-S", "-c", code, str(server.port))
        assert closing(box, server.port).run(*words).text == "EACCES\n"
        assert box.control(*words).text in {"started\n", "EINPROGRESS\n"}
