"""The gateway between a client and a scripted provider, over real loopback connections."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import socket
import threading
import time
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from runner_e2e.gateway.ledger import Limit
from runner_e2e.gateway.rates import Rate, RateCard
from runner_e2e.gateway.server import Gateway, running_gateway
from runner_e2e.gateway.settings import Bounds, GatewaySettings
from runner_e2e.gateway.upstream import build_upstream
from runner_e2e.serving import listening

from .scripted_provider import (
    JSON_TYPE,
    STREAM,
    STREAM_TYPE,
    USAGE,
    Answer,
    Provider,
    await_true,
    running_bytes,
    running_provider,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

KEY = "sk-real-key-never-to-be-seen"
# A request for 100 tokens of output costs a dollar; so does the usage of the script.
CARD = RateCard({"model": Rate(Decimal(0), Decimal(10_000), max_output_tokens=100)})
CHAT = "/v1/chat/completions"
BODY: dict[str, Any] = {"model": "model", "stream": True, "max_tokens": 100, "messages": []}


@dataclass
class Caller:
    """A client of the cell."""

    gateway: Gateway
    http: httpx.Client

    def post(self, path: str = CHAT, **options: Any) -> httpx.Response:  # noqa: ANN401 - httpx's
        options.setdefault("json", BODY)
        return self.http.post(path, **options)

    def settled(self) -> dict[str, Any]:
        """Return the record when nothing is in flight: a client may know the end a little earlier."""
        await_true(lambda: self.gateway.records()["inFlight"] == 0)
        return self.gateway.records()


@pytest.fixture
def provider() -> Iterator[Provider]:
    with running_provider() as provider:
        yield provider


@contextlib.contextmanager
def calling(
    base_url: str,
    name: str = "OPENAI_API_KEY",
    **options: Any,  # noqa: ANN401 - fields of the settings
) -> Iterator[Caller]:
    """Run a gateway with a caller of its own."""
    settings = GatewaySettings(build_upstream(name, KEY, base_url), CARD, **options)
    with (
        running_gateway(settings) as gateway,
        httpx.Client(
            base_url=gateway.base_url,
            headers={"authorization": f"Bearer {gateway.token}"},
            trust_env=False,
            timeout=20,
        ) as http,
    ):
        yield Caller(gateway, http)


def test_a_stream_passes_unbuffered_and_byte_for_byte(provider: Provider) -> None:
    gate = threading.Event()
    provider.answer = lambda _call: Answer(gate=gate)

    with calling(provider.base_url) as caller, caller.http.stream("POST", CHAT, json=BODY) as response:
        chunks = response.iter_raw()
        first = next(chunks)
        gate.set()
        rest = b"".join(chunks)
        record = caller.settled()

    assert first == STREAM[0]
    assert first + rest == b"".join(STREAM)
    assert response.headers["content-type"] == STREAM_TYPE[1].decode()
    assert record["status"] == "reported"
    assert record["tokens"]["output"] == 100
    assert record["costUsd"] == 1


def test_small_pieces_do_not_wait_for_each_other() -> None:
    with listening() as listener, socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.parametrize(
    ("name", "path", "usage", "key"),
    [
        pytest.param("OPENAI_API_KEY", CHAT, USAGE, ("authorization", f"Bearer {KEY}"), id="chat"),
        pytest.param(
            "OPENROUTER_API_KEY",
            "/v1/responses",
            {"input_tokens": 1000, "output_tokens": 100},
            ("authorization", f"Bearer {KEY}"),
            id="responses",
        ),
        pytest.param(
            "ANTHROPIC_API_KEY",
            "/v1/messages",
            {"input_tokens": 1000, "output_tokens": 100},
            ("x-api-key", KEY),
            id="messages",
        ),
    ],
)
def test_each_call_reaches_its_place_with_the_real_key_only(
    provider: Provider, name: str, path: str, usage: dict[str, int], key: tuple[str, str]
) -> None:
    content = json.dumps({"id": "1", "usage": usage}).encode()
    length = (b"content-length", str(len(content)).encode())
    provider.answer = lambda _call: Answer([content], headers=[JSON_TYPE, length])

    with calling(provider.base_url, name) as caller:
        response = caller.post(
            f"{path}?beta=true", headers={"x-api-key": caller.gateway.token, "cookie": "a=b"}
        )
        record = caller.settled()
        token = caller.gateway.token

    (call,) = provider.calls
    assert (response.status_code, response.content) == (200, content)
    assert (call.path, call.query) == (f"/api{path}", "beta=true")
    assert json.loads(call.body) == BODY
    assert key in call.headers
    assert not [header for header in call.headers if token in header[1] or header[0] == "cookie"]
    assert record["models"][0]["costUsd"] == 1


@pytest.mark.parametrize("status", [400, 401, 429, 500, 529])
def test_an_error_of_the_provider_passes_and_costs_nothing(provider: Provider, status: int) -> None:
    content = b'{"error": {"message": "slow down"}}'
    headers = [JSON_TYPE, (b"retry-after", b"7"), (b"set-cookie", b"a=b")]
    provider.answer = lambda _call: Answer([content], status, headers)

    with calling(provider.base_url, max_cost_usd=Decimal(1)) as caller:
        responses = [caller.post() for _ in range(3)]
        record = caller.settled()

    assert {(one.status_code, one.content, one.headers["retry-after"]) for one in responses} == {
        (status, content, "7")
    }
    assert "set-cookie" not in responses[0].headers
    assert (record["requests"], record["unbilled"], record["assumedUsd"]) == (3, 3, 0)


def test_a_client_that_leaves_ends_the_request_at_the_provider(provider: Provider) -> None:
    provider.answer = lambda _call: Answer(gate=threading.Event())

    with calling(provider.base_url, max_cost_usd=Decimal(5)) as caller:
        with caller.http.stream("POST", CHAT, json=BODY) as response:
            next(response.iter_raw())
        await_true(provider.left.is_set)
        record = caller.settled()

    assert (record["status"], record["withoutUsage"], record["assumedUsd"]) == ("unavailable", 1, 1)


def test_a_client_that_leaves_before_the_answer_ends_the_request_too(provider: Provider) -> None:
    provider.answer = lambda _call: Answer(gate=threading.Event(), silent=True)

    with calling(provider.base_url) as caller:
        with pytest.raises(httpx.ReadTimeout):
            caller.post(timeout=0.3)
        await_true(provider.left.is_set)

        assert caller.settled()["withoutUsage"] == 1


def test_an_answer_that_the_provider_cuts_is_cut_for_the_client(provider: Provider) -> None:
    provider.answer = lambda _call: Answer(STREAM[:2], cut=True)
    received: list[bytes] = []

    with calling(provider.base_url, max_cost_usd=Decimal(5)) as caller:
        with (
            pytest.raises(httpx.RemoteProtocolError),
            caller.http.stream("POST", CHAT, json=BODY) as response,
        ):
            received.extend(response.iter_raw())
        record = caller.settled()

    assert b"".join(received) == b"".join(STREAM[:2])
    assert (record["status"], record["assumedUsd"]) == ("unavailable", 1)


@pytest.mark.parametrize(
    ("silent", "expected"),
    [pytest.param(True, 504, id="before-the-answer"), pytest.param(False, None, id="inside-it")],
)
def test_a_provider_that_falls_silent_is_left(
    provider: Provider,
    silent: bool,
    expected: int | None,
) -> None:
    provider.answer = lambda _call: Answer(gate=threading.Event(), silent=silent)

    with calling(provider.base_url, bounds=Bounds(silence_s=0.3)) as caller:
        if expected:
            assert caller.post().status_code == expected
        else:
            with pytest.raises(httpx.RemoteProtocolError):
                caller.post()
        await_true(provider.left.is_set)

        assert caller.settled()["withoutUsage"] == 1


@pytest.mark.parametrize(
    ("content", "status"),
    [
        pytest.param(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
            b"3\r\nabc\r\nZZ\r\n",
            None,
            id="malformed-chunk",
        ),
        pytest.param(b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\nshort", None, id="short-body"),
        pytest.param(b"SSH-2.0-OpenSSH_9\r\n", 502, id="no-http"),
        pytest.param(b"", 502, id="nothing"),
    ],
)
def test_an_answer_that_is_no_http_is_not_made_whole(content: bytes, status: int | None) -> None:
    with running_bytes(content) as base_url, calling(base_url) as caller:
        if status:
            response = caller.post()
            assert (response.status_code, response.json()["error"]["code"]) == (status, "provider_failed")
        else:
            with pytest.raises(httpx.RemoteProtocolError):
                caller.post()

        assert caller.settled()["withoutUsage"] == 1


def test_events_that_are_malformed_pass_as_they_are(provider: Provider) -> None:
    chunks = [b'data: {"usage"\n\n', b"\xff\xfe\n\n", *STREAM]
    provider.answer = lambda _call: Answer(chunks)

    with calling(provider.base_url) as caller:
        assert caller.post().content == b"".join(chunks)
        assert caller.settled()["status"] == "unavailable"


def test_a_provider_that_cannot_be_reached_costs_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        base_url = f"http://127.0.0.1:{closed.getsockname()[1]}/v1"

    with calling(base_url) as caller:
        response = caller.post()
        record = caller.settled()

    assert response.status_code == 502
    assert response.headers["x-runner-e2e-gateway"] == "provider_unreachable"
    assert (record["unbilled"], record["costUsd"]) == (1, 0)


def test_two_hundred_streams_pass_at_once(provider: Provider) -> None:
    gate = threading.Event()
    provider.answer = lambda _call: Answer(gate=gate)

    async def stream_all(gateway: Gateway) -> list[bytes]:
        async def stream(client: httpx.AsyncClient) -> bytes:
            response = await client.post(CHAT, json=BODY)
            return response.content

        async def open_gate() -> None:
            while len(provider.calls) < 200:
                await asyncio.sleep(0.01)
            gate.set()

        async with async_client(gateway) as client:
            found = await asyncio.gather(open_gate(), *(stream(client) for _ in range(200)))
        return [one for one in found if one is not None]

    with calling(provider.base_url) as caller:
        contents = asyncio.run(stream_all(caller.gateway))
        record = caller.settled()

    assert contents == [b"".join(STREAM)] * 200
    assert (record["requests"], record["costUsd"]) == (200, 200)


def test_of_a_hundred_parallel_requests_only_the_limit_reaches_the_provider(provider: Provider) -> None:
    with calling(provider.base_url, max_requests=10) as caller:
        statuses = asyncio.run(post_many(caller.gateway, 100))

        assert caller.gateway.exceeded.wait(5)
        assert caller.gateway.limit is Limit.REQUESTS
        record = caller.settled()

    assert len(provider.calls) == 10
    assert sorted(statuses) == [200] * 10 + [402] * 90
    assert record["exceeded"] == "max-requests"
    assert record["refused"]["requests"] == 90


def test_parallel_requests_wait_for_what_others_hold_and_stop_at_the_limit(provider: Provider) -> None:
    with calling(provider.base_url, max_cost_usd=Decimal(10)) as caller:
        statuses = asyncio.run(post_many(caller.gateway, 30))

        assert caller.gateway.exceeded.wait(5)
        record = caller.settled()

    assert sorted(statuses) == [200] * 10 + [402] * 20
    assert (record["costUsd"], record["exceeded"]) == (10, "max-cost-usd")


def test_a_client_that_leaves_while_it_waits_never_reaches_the_provider(provider: Provider) -> None:
    gate = threading.Event()
    provider.answer = lambda _call: Answer(gate=gate)

    with calling(provider.base_url, max_cost_usd=Decimal(1)) as caller:
        with caller.http.stream("POST", CHAT, json={**BODY, "max_tokens": 60}) as first:
            await_true(lambda: provider.calls)
            with pytest.raises(httpx.ReadTimeout):
                caller.post(timeout=0.3)
            time.sleep(0.3)  # the gateway has to see it leave before the first one ends
            gate.set()
            first.read()
        record = caller.settled()

    assert (len(provider.calls), record["requests"]) == (1, 1)


def test_a_request_without_a_price_is_refused_before_it_is_sent(provider: Provider) -> None:
    with calling(provider.base_url, max_cost_usd=Decimal(1)) as caller:
        response = caller.post(json={**BODY, "model": "dear"})
        messages = caller.post("/v1/messages", json={**BODY, "speed": "fast"})

    assert not provider.calls
    assert (response.status_code, response.json()["error"]["code"]) == (402, "unpriced")
    assert (messages.status_code, messages.json()["type"]) == (402, "error")


def test_the_end_of_the_gateway_cancels_what_is_in_flight(provider: Provider) -> None:
    provider.answer = lambda _call: Answer(gate=threading.Event())
    before = threading.active_count()

    with calling(provider.base_url) as caller, caller.http.stream("POST", CHAT, json=BODY) as response:
        next(response.iter_raw())
        gateway = caller.gateway
        caller.http.close()

    await_true(provider.left.is_set)
    record = gateway.records()
    assert (record["requests"], record["inFlight"], record["withoutUsage"]) == (1, 0, 1)
    assert threading.active_count() == before
    with pytest.raises(httpx.ConnectError):
        httpx.get(gateway.base_url, trust_env=False)


def test_a_compressed_answer_is_unpacked_so_that_its_usage_counts(provider: Provider) -> None:
    packed = gzip.compress(b"".join(STREAM))
    headers = [STREAM_TYPE, (b"content-encoding", b"gzip"), (b"content-length", str(len(packed)).encode())]
    provider.answer = lambda _call: Answer([packed], headers=headers)

    with calling(provider.base_url) as caller:
        response = caller.post()
        record = caller.settled()

    assert response.content == b"".join(STREAM)
    assert "content-encoding" not in response.headers
    assert dict(provider.calls[0].headers)["accept-encoding"] == "identity"
    assert record["costUsd"] == 1


def async_client(gateway: Gateway) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        base_url=gateway.base_url,
        headers={"authorization": f"Bearer {gateway.token}"},
        trust_env=False,
        timeout=60,
        limits=httpx.Limits(max_connections=None),
    )


async def post_many(gateway: Gateway, count: int) -> list[int]:
    async with async_client(gateway) as client:
        responses = await asyncio.gather(*(client.post(CHAT, json=BODY) for _ in range(count)))
    return [response.status_code for response in responses]
