"""A provider that answers as a test tells it, on a loopback port, and remembers what it was asked."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Route

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from starlette.types import Receive, Scope, Send

JSON_TYPE = (b"content-type", b"application/json")
STREAM_TYPE = (b"content-type", b"text/event-stream; charset=utf-8")
USAGE = {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}
STREAM = (
    b'data: {"choices":[{"index":0,"delta":{"content":"h\xc3\xa4"},"finish_reason":null}]}\n\n',
    b": a comment\n\n",
    b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n',
    b'data: {"choices":[],"usage":' + json.dumps(USAGE).encode() + b"}\n\n",
    b"data: [DONE]\n\n",
)


@dataclass(frozen=True)
class Answer:
    """What the provider sends: with `gate`, the rest waits for it behind the first chunk."""

    chunks: Sequence[bytes] = STREAM
    status: int = 200
    headers: Sequence[tuple[bytes, bytes]] = (STREAM_TYPE,)
    gate: threading.Event | None = None
    silent: bool = False  # even the headers wait for the gate
    cut: bool = False  # the end is missing


@dataclass(frozen=True)
class Call:
    """One request as it arrived."""

    path: str
    query: str
    headers: list[tuple[str, str]]
    body: bytes


@dataclass
class Provider:
    """The running provider."""

    port: int
    answer: Callable[[Call], Answer] = lambda _call: Answer()
    calls: list[Call] = field(default_factory=list)
    left: threading.Event = field(default_factory=threading.Event)  # a caller went before the end

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/api/v1"

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        body = await request.body()
        call = Call(request.url.path, request.url.query, request.headers.items(), body)
        self.calls.append(call)
        answer = self.answer(call)
        async with anyio.create_task_group() as group:
            group.start_soon(self._watch, receive, group.cancel_scope)
            await _send(answer, send)
            group.cancel_scope.cancel()

    async def _watch(self, receive: Receive, scope: anyio.CancelScope) -> None:
        await receive()
        self.left.set()
        scope.cancel()


class _Endpoint:
    """Routes take functions for those of a framework; an object is an application."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._provider.serve(scope, receive, send)


async def _send(answer: Answer, send: Send) -> None:
    if answer.gate and answer.silent:
        await _wait(answer.gate)
    await send({"type": "http.response.start", "status": answer.status, "headers": [*answer.headers]})
    for number, chunk in enumerate(answer.chunks):
        if answer.gate and number:
            await _wait(answer.gate)
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    if not answer.cut:
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _wait(gate: threading.Event) -> None:
    while not gate.is_set():
        await asyncio.sleep(0.005)


@contextlib.contextmanager
def running_provider() -> Iterator[Provider]:
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener, ThreadPoolExecutor(1) as executor:
        provider = Provider(listener.getsockname()[1])
        app = Starlette(routes=[Route("/{path:path}", _Endpoint(provider), methods=["GET", "POST"])])
        server = uvicorn.Server(
            uvicorn.Config(
                app, log_config=None, log_level="critical", lifespan="off", timeout_graceful_shutdown=0
            )
        )
        running = executor.submit(anyio.run, lambda: server.serve(sockets=[listener]))
        try:
            await_true(lambda: server.started)
            yield provider
        finally:
            server.should_exit = True
            running.result(10)


@contextlib.contextmanager
def running_bytes(content: bytes) -> Iterator[str]:
    """Answer the first request with bytes as they are, HTTP or not, and close; give the base URL."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            with contextlib.suppress(OSError):
                connection, _ = listener.accept()
                with connection:
                    connection.recv(65536)
                    connection.sendall(content)

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        thread.join(5)


def await_true(condition: Callable[[], object], within_s: float = 10) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.005)
