"""Callers that are not the cell, cells that try more than the gateway passes, and a provider that echoes."""

from __future__ import annotations

import logging
import re
import socket
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from runner_e2e.gateway.settings import Bounds

from .scripted_provider import JSON_TYPE, STREAM, Answer, Call, Provider, running_provider
from .test_gateway import BODY, CHAT, KEY, calling

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .test_gateway import Caller


@pytest.fixture
def provider() -> Iterator[Provider]:
    with running_provider() as provider:
        yield provider


@pytest.fixture
def caller(provider: Provider) -> Iterator[Caller]:
    with calling(provider.base_url, bounds=Bounds(body_bytes=10_000)) as caller:
        assert caller.post().status_code == 200  # control
        provider.calls.clear()
        yield caller


def send_raw(caller: Caller, head: str, body: bytes = b"") -> bytes:
    """Send a request as written; `{host}` and `{token}` stand for the right ones."""
    url = httpx.URL(caller.gateway.base_url)
    text = head.format(host=f"{url.host}:{url.port}", token=caller.gateway.token)
    with socket.create_connection((url.host, url.port or 0), timeout=10) as connection:
        connection.sendall(text.replace("\n", "\r\n").encode("latin-1") + body)
        return connection.recv(65536)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        pytest.param({"authorization": ""}, 401, id="no-token"),
        pytest.param({"authorization": "Bearer wrong"}, 401, id="wrong-token"),
        pytest.param({"authorization": f"Bearer {KEY}"}, 401, id="the-real-key"),
        pytest.param({"x-api-key": "wrong"}, 401, id="a-wrong-one-beside-it"),
        pytest.param({"host": "attacker.example"}, 403, id="other-name"),
        pytest.param({"host": "127.0.0.1"}, 403, id="no-port"),
        pytest.param({"content-encoding": "gzip"}, 415, id="compressed-body"),
    ],
)
def test_a_caller_that_is_not_the_cell_is_refused(
    caller: Caller, provider: Provider, headers: dict[str, str], status: int
) -> None:
    assert caller.post(headers=headers).status_code == status
    assert not provider.calls


def test_a_token_opens_only_its_own_gateway(caller: Caller, provider: Provider) -> None:
    with calling(provider.base_url) as other:
        headers = {"authorization": f"Bearer {other.gateway.token}"}

        assert caller.post(headers=headers).status_code == 401
        assert other.post().status_code == 200


def test_the_gateway_listens_on_one_loopback_address_only(caller: Caller) -> None:
    port = httpx.URL(caller.gateway.base_url).port or 0
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", port), timeout=5)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        pytest.param("GET", "/v1/models", 404, id="other-call"),
        pytest.param("GET", CHAT, 405, id="other-method"),
        pytest.param("POST", f"{CHAT}/", 404, id="slash"),
        pytest.param("POST", "/v1/batches", 404, id="batches"),
        pytest.param("POST", "/v1/chat/completions/../../organization", 404, id="dots"),
        pytest.param("POST", f"{CHAT}?key=x", 400, id="query"),
        pytest.param("POST", "//v1/chat/completions", 404, id="double-slash"),
    ],
)
def test_only_listed_calls_pass(
    caller: Caller, provider: Provider, method: str, path: str, status: int
) -> None:
    head = (
        f"{method} {path} HTTP/1.1\nhost: {{host}}\nauthorization: Bearer {{token}}\n"
        "content-length: 2\nconnection: close\n\n"
    )

    assert send_raw(caller, head, b"{}").startswith(f"HTTP/1.1 {status} ".encode())
    assert not provider.calls


@pytest.mark.parametrize(
    ("extra", "status"),
    [
        pytest.param("host: attacker.example", 400, id="second-host"),
        pytest.param("transfer-encoding: chunked", None, id="two-lengths"),
        pytest.param("x-long: " + "x" * 100_000, 400, id="too-long"),
        pytest.param("bad header: 1", 400, id="no-header"),
    ],
)
def test_a_request_that_could_be_read_in_two_ways_does_not_reach_the_provider_twice(
    caller: Caller, provider: Provider, extra: str, status: int | None
) -> None:
    head = (
        f"POST {CHAT} HTTP/1.1\nhost: {{host}}\nauthorization: Bearer {{token}}\n"
        f"content-length: 4\n{extra}\n\n"
    )
    smuggled = b"0\r\n\r\nPOST /v1/responses HTTP/1.1\r\nhost: x\r\n\r\n"

    answer = send_raw(caller, head, smuggled)

    assert re.match(rb"HTTP/1\.1 (400|403)", answer)
    assert status is None or answer.startswith(f"HTTP/1.1 {status}".encode())
    assert not provider.calls


@pytest.mark.parametrize("chunked", [False, True], ids=["with-a-length", "chunked"])
def test_a_body_that_is_too_large_is_refused(caller: Caller, provider: Provider, *, chunked: bool) -> None:
    content = b"x" * 20_000

    response = caller.post(
        json=None, content=iter([content[:9_000], content[9_000:]]) if chunked else content
    )

    assert (response.status_code, response.json()["error"]["code"]) == (413, "request_too_large")
    assert not provider.calls
    assert caller.post().status_code == 200


def test_a_redirect_is_neither_followed_nor_passed_on(caller: Caller, provider: Provider) -> None:
    target = f"{provider.base_url}/elsewhere"
    provider.answer = lambda _call: Answer([b""], 307, [(b"location", target.encode())])

    response = caller.post(follow_redirects=True)

    assert (response.status_code, len(provider.calls)) == (502, 1)
    assert "location" not in response.headers


def test_a_provider_that_echoes_the_key_does_not_give_it_to_the_cell(
    caller: Caller, provider: Provider, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG, "runner_e2e")

    def echo(call: Call) -> Answer:
        sent = dict(call.headers)["authorization"].encode()
        pieces = [sent[:12], sent[12:], b"\n\n", *STREAM]
        return Answer(
            pieces, 401, [JSON_TYPE, (b"x-echo", sent)], cut=call.body.startswith(b'{"model":"cut"')
        )

    provider.answer = echo
    response = caller.post()
    with pytest.raises(httpx.RemoteProtocolError):
        caller.post(json={**BODY, "model": "cut"})

    assert response.content.startswith(b"Bearer " + b"*" * len(KEY) + b"\n\n" + STREAM[0])
    assert "x-echo" not in response.headers
    seen: list[Any] = [caller.gateway, caller.gateway.records(), caplog.text, *capfd.readouterr()]
    assert not [one for one in seen if KEY in str(one)]
    assert caller.gateway.token not in repr(caller.gateway)
