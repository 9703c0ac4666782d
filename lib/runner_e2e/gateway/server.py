"""The gateway's life, from a free port to the last settled request."""

import contextlib
import secrets
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import httpx
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from runner_e2e.gateway.dialects import Dialect, find_dialect
from runner_e2e.gateway.exchange import Exchange, Till
from runner_e2e.gateway.guard import BodyReader, Guard
from runner_e2e.gateway.ledger import Ledger, Limit
from runner_e2e.gateway.problems import Problem
from runner_e2e.gateway.settings import GatewaySettings
from runner_e2e.serving import ADDRESS, listening, serving


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
    with listening() as listener:
        port = listener.getsockname()[1]
        client = build_client(settings)
        app = build_app(settings, ledger, client, token, (f"{ADDRESS}:{port}", f"localhost:{port}"))
        with serving(listener, app, "spending gateway", client):
            yield Gateway(f"http://{ADDRESS}:{port}", token, exceeded, ledger)


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


def _answer_http_error(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    message = "The gateway passes on only POST to " + ", ".join(dialect.path for dialect in Dialect)
    return Problem(status, "not_found", message).answer(find_dialect(request.url.path))
