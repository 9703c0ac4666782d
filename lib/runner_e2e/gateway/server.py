"""The gateway's life: a thread with its own event loop, from a free port to the last settled request."""

import contextlib
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

import anyio
import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from runner_e2e.errors import RunnerE2EError, TransientInfrastructureError
from runner_e2e.gateway.dialects import Dialect, find_dialect
from runner_e2e.gateway.exchange import Exchange, Till
from runner_e2e.gateway.guard import BodyReader, Guard
from runner_e2e.gateway.ledger import Ledger, Limit
from runner_e2e.gateway.problems import Problem
from runner_e2e.gateway.settings import GatewaySettings

_ADDRESS = "127.0.0.1"
_START_S = 10
_STOP_S = 15
_BACKLOG = 1024
_IDLE_S = 75  # clients keep connections: one that we close first costs them a failed request


@dataclass(frozen=True, slots=True)
class Gateway:
    """A running gateway, as the harness sees it.

    `base_url` has no version: a client of OpenAI's calls wants it with `/v1` behind, one of Anthropic's as
    it is. `exceeded` is set when a limit is passed, so that the cell can be ended. The record can be built
    at any time, and is final when the gateway has stopped.
    """

    base_url: str
    token: str = field(repr=False)
    exceeded: threading.Event
    ledger: Ledger

    @property
    def limit(self) -> Limit | None:
        """The limit that was passed."""
        return self.ledger.exceeded

    def records(self) -> dict[str, object]:
        """Return the record `runner-e2e.spending/v1`."""
        return self.ledger.build_record()


@contextlib.contextmanager
def running_gateway(settings: GatewaySettings) -> Iterator[Gateway]:
    """Serve on a free loopback port while the body runs; what is in flight at the end is cancelled."""
    exceeded = threading.Event()
    ledger = Ledger(settings.card, settings.max_cost_usd, settings.max_requests, exceeded.set)
    token = secrets.token_urlsafe(32)
    with listening() as listener, ThreadPoolExecutor(1, "spending-gateway") as executor:
        port = listener.getsockname()[1]
        client = build_client(settings)
        app = build_app(settings, ledger, client, token, (f"{_ADDRESS}:{port}", f"localhost:{port}"))
        server = uvicorn.Server(_configure(app))
        running = executor.submit(anyio.run, _serve, server, client, listener)
        try:
            _await_start(server, running)
            yield Gateway(f"http://{_ADDRESS}:{port}", token, exceeded, ledger)
        finally:
            server.should_exit = True
            wait([running], _STOP_S)
        if running.done() and running.exception():
            raise TransientInfrastructureError(
                "The spending gateway stopped by itself", "Start the cell again"
            ) from running.exception()


def build_app(
    settings: GatewaySettings, ledger: Ledger, client: httpx.AsyncClient, token: str, hosts: tuple[str, ...]
) -> ASGIApp:
    """Return the gateway's application, which answers only under one of `hosts` and with `token`."""
    till, bodies = Till(ledger), BodyReader(settings.bounds)
    routes = [
        Route(
            dialect.path,
            Exchange(dialect, settings.upstream, client, till, bodies, settings.bounds),
            methods=["POST"],
        )
        for dialect in Dialect
    ]
    app = Starlette(routes=routes, exception_handlers={HTTPException: _answer_http_error})
    app.router.redirect_slashes = False
    return Guard(app, token, hosts, settings.bounds)


def build_client(
    settings: GatewaySettings, transport: httpx.AsyncBaseTransport | None = None
) -> httpx.AsyncClient:
    """Return the client of the provider. Only the way to another machine may lead through a proxy."""
    return httpx.AsyncClient(
        transport=transport,
        follow_redirects=False,
        trust_env=not settings.upstream.is_loopback,
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=64),
    )


@contextlib.contextmanager
def listening() -> Iterator[socket.socket]:
    """Listen on a free loopback port. What is accepted sends at once: small pieces would wait 40 ms else."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.bind((_ADDRESS, 0))
        listener.listen(_BACKLOG)
        yield listener


async def _serve(server: uvicorn.Server, client: httpx.AsyncClient, listener: socket.socket) -> None:
    async with client:
        await server.serve(sockets=[listener])


def _configure(app: ASGIApp) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        log_config=None,
        log_level="critical",  # what it logs of a broken exchange holds the exchange
        access_log=False,
        lifespan="off",
        ws="none",
        interface="asgi3",
        proxy_headers=False,
        server_header=False,
        date_header=False,
        backlog=_BACKLOG,
        timeout_keep_alive=_IDLE_S,
        timeout_graceful_shutdown=0,
    )


def _await_start(server: uvicorn.Server, running: "Future[None]") -> None:
    deadline = time.monotonic() + _START_S
    while not server.started:
        if running.done() or time.monotonic() > deadline:
            cause = running.exception() if running.done() else None
            raise RunnerE2EError("The spending gateway did not start", "Start the cell again") from cause
        time.sleep(0.005)


def _answer_http_error(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    message = "The gateway passes on only POST to " + ", ".join(dialect.path for dialect in Dialect)
    return Problem(status, "not_found", message).answer(find_dialect(request.url.path))
