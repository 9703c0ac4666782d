"""One request and its answer: from the cell to the provider and back, byte for byte, counted on the way."""

import asyncio
from dataclasses import dataclass, field

import anyio
import httpx
from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope, Send

from runner_e2e.gateway.asks import Ask, parse_ask
from runner_e2e.gateway.dialects import Dialect
from runner_e2e.gateway.guard import BodyReader
from runner_e2e.gateway.headers import (
    READABLE_ENCODINGS,
    build_client_headers,
    build_provider_headers,
    find_encoding,
)
from runner_e2e.gateway.ledger import Billing, Later, Ledger, Refusal, Ticket
from runner_e2e.gateway.masking import KeyMask
from runner_e2e.gateway.problems import Problem
from runner_e2e.gateway.settings import Bounds
from runner_e2e.gateway.upstream import Upstream
from runner_e2e.gateway.usage import Reading, UsageReader

_CLOSE_S = 5
_REFUSALS = {
    Refusal.COST_REACHED: ("budget_exceeded", "This cell has reached max-cost-usd"),
    Refusal.REQUESTS_REACHED: ("budget_exceeded", "This cell has reached max-requests"),
    Refusal.UNPRICED: (
        "unpriced",
        "The rate card does not tell what this request costs, and max-cost-usd is set",
    ),
}


class Till:
    """The ledger as the requests of one event loop use it: they can wait for each other."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._settled = asyncio.Event()

    async def admit(self, ask: Ask) -> Ticket:
        """Return a ticket, after a wait if requests in flight hold what is left. Raises `Problem`."""
        while isinstance(decision := self._ledger.admit(ask), Later):
            await self._settled.wait()
        if isinstance(decision, Refusal):
            raise Problem(402, *_REFUSALS[decision])
        return decision

    def settle(self, ticket: Ticket, billing: Billing, reading: Reading) -> None:
        """Settle, and let those who wait ask again."""
        self._ledger.settle(ticket, billing, reading)
        self._settled.set()
        self._settled = asyncio.Event()


@dataclass(slots=True)
class _Passage:
    """How far a request came; what it costs follows from that, however it ends."""

    billing: Billing = Billing.DUE
    usage: UsageReader | None = None
    whole: bool = False

    def conclude(self) -> tuple[Billing, Reading]:
        return self.billing, self.usage.conclude(whole=self.whole) if self.usage else Reading()


@dataclass(frozen=True, slots=True)
class Exchange:
    """Answers the calls of one dialect, as an ASGI application."""

    dialect: Dialect
    upstream: Upstream
    client: httpx.AsyncClient
    till: Till
    bodies: BodyReader
    bounds: Bounds = field(default_factory=Bounds)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; its end at the client is the end of it at the provider."""
        request = Request(scope, receive)
        try:
            with anyio.fail_after(self.bounds.body_s):
                body = await self.bodies.read(request)
        except ClientDisconnect:
            return
        except TimeoutError:
            await self._refuse(Problem(408, "invalid_request", "The body did not come"), scope, receive, send)
            return
        except Problem as problem:
            await self._refuse(problem, scope, receive, send)
            return
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(_cancel_on_disconnect, receive, group.cancel_scope)
                await self._serve(request, body, send)
                group.cancel_scope.cancel()
        finally:
            self.bodies.release(len(body))

    async def _serve(self, request: Request, body: bytes, send: Send) -> None:
        try:
            ask = parse_ask(self.dialect, body)
            ticket = await self.till.admit(ask)
            passage = _Passage()
            try:
                await self._forward(request, body, send, passage)
            finally:
                self.till.settle(ticket, *passage.conclude())
        except Problem as problem:
            await self._refuse(problem, request.scope, request.receive, send)
            return
        if passage.whole:
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        # Otherwise the answer stays without its end, as the provider left it.

    async def _forward(self, request: Request, body: bytes, send: Send, passage: _Passage) -> None:
        response = await self._open(request, body, passage)
        try:
            raw_headers = response.headers.raw
            self._check_answer(response, passage)
            key = self.upstream.key.encode()
            await send(
                {
                    "type": "http.response.start",
                    "status": response.status_code,
                    "headers": build_client_headers(raw_headers, key),
                }
            )
            await _pass_on(response, KeyMask(key), passage, send)
        finally:
            with anyio.move_on_after(_CLOSE_S, shield=True):
                await response.aclose()

    async def _open(self, request: Request, body: bytes, passage: _Passage) -> httpx.Response:
        """Send the request and return when the answer's headers are there."""
        query = f"?{request.url.query}" if request.url.query else ""
        outgoing = httpx.Request(
            "POST",
            f"{self.upstream.base_url}{self.dialect.value}{query}",
            headers=build_provider_headers(request.scope["headers"], self.upstream),
            content=body,
            extensions={"timeout": self._build_timeout().as_dict()},
        )
        try:
            return await self.client.send(outgoing, stream=True, follow_redirects=False)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout):
            passage.billing = Billing.NONE  # nothing was sent
            raise Problem(502, "provider_unreachable", "The provider cannot be reached") from None
        except httpx.TimeoutException:
            raise Problem(504, "provider_timeout", "The provider did not answer in time") from None
        except httpx.HTTPError:
            raise Problem(502, "provider_failed", "The provider's answer broke off") from None

    def _check_answer(self, response: httpx.Response, passage: _Passage) -> None:
        """Prepare the count, and refuse an answer that would lead the client past us or hide its usage."""
        if response.status_code >= 400:
            passage.billing = Billing.NONE
        elif 300 <= response.status_code < 400:
            passage.billing = Billing.NONE
            raise Problem(502, "provider_redirect", "The provider redirects, which is not followed")
        encoding = find_encoding(response.headers.raw)
        if encoding is not None and encoding not in READABLE_ENCODINGS:
            raise Problem(502, "provider_encoding", "The provider's answer is encoded in an unknown way")
        kind = response.headers.get("content-type", "").split(";")[0].strip().lower()
        passage.usage = UsageReader(self.dialect, streamed=kind == "text/event-stream")

    def _build_timeout(self) -> httpx.Timeout:
        bounds = self.bounds
        return httpx.Timeout(bounds.silence_s, connect=bounds.connect_s, pool=None)

    async def _refuse(self, problem: Problem, scope: Scope, receive: Receive, send: Send) -> None:
        await problem.answer(self.dialect)(scope, receive, send)


async def _pass_on(response: httpx.Response, mask: KeyMask, passage: _Passage, send: Send) -> None:
    """Send each piece as it comes, until the provider ends or breaks off."""
    try:
        async for chunk in response.aiter_bytes():
            if passage.usage:
                passage.usage.feed(chunk)
            if clean := mask.feed(chunk):
                await send({"type": "http.response.body", "body": clean, "more_body": True})
        passage.whole = True
    except httpx.HTTPError:
        pass  # the client sees an answer that breaks off, too
    if rest := mask.finish():
        await send({"type": "http.response.body", "body": rest, "more_body": True})


async def _cancel_on_disconnect(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()
