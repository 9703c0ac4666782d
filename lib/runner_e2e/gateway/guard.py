"""Who may speak to the gateway: only the cell, only under our own address, and not without measure."""

import hmac
from collections.abc import Collection, Iterable

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from runner_e2e.gateway.dialects import find_dialect
from runner_e2e.gateway.headers import Header
from runner_e2e.gateway.problems import Problem
from runner_e2e.gateway.settings import Bounds

_BEARER = b"bearer "
_PLAIN_QUERIES = (b"", b"beta=true")  # the second is what a client of Anthropic adds


class Guard:
    """Lets a request through to `app` that names our address and holds the token."""

    def __init__(self, app: ASGIApp, token: str, hosts: Collection[str], bounds: Bounds) -> None:
        self._app = app
        self._token = token.encode()
        self._hosts = frozenset(host.encode() for host in hosts)
        self._bounds = bounds
        self._in_flight = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer what is refused; only HTTP is served."""
        if scope["type"] != "http":
            return
        try:
            self._check(scope)
        except Problem as problem:
            await problem.answer(find_dialect(scope["path"]))(scope, receive, send)
            return
        self._in_flight += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._in_flight -= 1

    def _check(self, scope: Scope) -> None:
        headers: list[Header] = scope["headers"]
        hosts = [value.lower() for name, value in headers if name == b"host"]
        # A page in a browser can make its own name point here, but not ours.
        if len(hosts) != 1 or hosts[0] not in self._hosts:
            raise Problem(403, "host_not_allowed", "Use the gateway's address as it was given")
        if not is_token(headers, self._token):
            raise Problem(401, "invalid_api_key", "The gateway's token is missing or wrong")
        if scope["query_string"] not in _PLAIN_QUERIES:
            raise Problem(400, "invalid_request", "The gateway passes no query on")
        if self._in_flight >= self._bounds.in_flight:
            raise Problem(429, "too_many_requests", "Too many requests are in flight")


def is_token(headers: Iterable[Header], token: bytes) -> bool:
    """Whether a request holds the token, and no other credential beside it."""
    given = [
        value[len(_BEARER) :].strip() if value.lower().startswith(_BEARER) else b""
        for name, value in headers
        if name == b"authorization"
    ]
    given += [value for name, value in headers if name == b"x-api-key"]
    matches = [hmac.compare_digest(value, token) for value in given]
    return bool(matches) and all(matches)


class BodyReader:
    """Reads whole bodies, none too large, and not too much of all at once."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._held = 0

    async def read(self, request: Request) -> bytes:
        """Return the body; `release` must follow. Raises `Problem`, and starlette's `ClientDisconnect`."""
        if request.headers.get("content-encoding", "identity").lower() != "identity":
            raise Problem(415, "invalid_request", "The gateway reads no compressed body")
        body = bytearray()
        try:
            async for chunk in request.stream():
                body += chunk
                self._held += len(chunk)
                self._check(len(body))
        except BaseException:
            self.release(len(body))
            raise
        return bytes(body)

    def release(self, size: int) -> None:
        """Give back the room of a body."""
        self._held -= size

    def _check(self, size: int) -> None:
        if size > self._bounds.body_bytes:
            raise Problem(413, "request_too_large", "The body is too large")
        if self._held > self._bounds.all_bodies_bytes:
            raise Problem(429, "too_many_requests", "Too much is in flight")
