"""The endpoint's life: requests in, scripted answers out, a line in the log for each."""

import asyncio
import contextlib
import secrets
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.types import Receive, Scope, Send

from runner_e2e.model.answers import Reply, build_error, build_refusal, build_reply
from runner_e2e.model.conversation import Request, parse_request
from runner_e2e.model.log import RequestLog, build_record
from runner_e2e.model.meetings import Meetings
from runner_e2e.model.player import Player, Refused, Turn
from runner_e2e.model.reading import read_script
from runner_e2e.model.script import Script, Step
from runner_e2e.serving import ADDRESS, listening, serving

CHAT_PATH = "/v1/chat/completions"
MAX_BODY_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Model:
    """A running scripted model; `base_url` ends with the version, as clients want it."""

    base_url: str
    _player: Player
    _log: RequestLog

    @property
    def requests(self) -> tuple[dict[str, object], ...]:
        """The log's records since the start."""
        return tuple(self._log.read())

    @property
    def asked(self) -> frozenset[str]:
        """The agents that have asked for something, also those that wait for their answer."""
        return self._player.asked

    @property
    def unmet(self) -> tuple[str, ...]:
        """What was scripted and has not come to pass, and what came that was not scripted."""
        lost = [f"the log is not whole: {self._log.failure}"] if self._log.failure else []
        return (*lost, *self._player.find_unmet())


@contextlib.contextmanager
def running_model(
    script: Script | Path, log: Path, values: Mapping[str, str] | None = None, *, port: int = 0
) -> Iterator[Model]:
    """Play a script on a loopback port while the body runs; 0 is a free one.

    `values` fill the placeholders of a script that is a file. A script, value, log or port that cannot be
    used is an `InputError`.
    """
    if isinstance(script, Path):
        script = read_script(script, values or {})
    player = Player(script)
    with RequestLog(log) as opened, listening(port) as listener:
        url = f"http://{ADDRESS}:{listener.getsockname()[1]}/v1"
        with serving(listener, Endpoint(player, opened), "scripted model"):
            yield Model(url, player, opened)


class Endpoint:
    """Answers chat calls, as an ASGI application of one event loop."""

    def __init__(self, player: Player, log: RequestLog) -> None:
        self._player = player
        self._log = log
        self._meetings = Meetings(player.script.agents)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; only HTTP is served."""
        if scope["type"] != "http":
            return
        try:
            reply = await self._answer(HttpRequest(scope, receive))
        except ClientDisconnect:
            return
        await _send(reply, send)

    async def _answer(self, http: HttpRequest) -> Reply:
        if (http.method, http.url.path) != ("POST", CHAT_PATH):
            return build_error(404, "not_found", f"The scripted model answers only POST {CHAT_PATH}")
        body = await _read_body(http)
        if body is None:
            return build_error(413, "request_too_large", "The body is larger than 32 MiB")
        try:
            request = parse_request(body, http.headers)
        except ValueError as error:
            self._player.note("a request could not be read")
            return build_error(400, "invalid_request", str(error))
        return await self._play(request) if request.tools else self._name(request)

    def _name(self, request: Request) -> Reply:
        """Answer a request without tools: it asks for a title, and takes no step."""
        agents = self._player.find_agents(request)
        turn = Turn(Step(text=self._player.script.title), agents[0] if len(agents) == 1 else None)
        return self._record(request, turn, "title")

    async def _play(self, request: Request) -> Reply:
        turn = self._player.play(request)
        step = turn.outcome
        if isinstance(step, Refused):
            return self._record(request, turn, step.code)
        reply = self._record(request, turn, step.action)
        if turn.agent and step.meet and not await self._meetings.attend(turn.agent, step.meet):
            self._player.note(f"{turn.agent.id}: not all came to {step.meet.name} in time")
        await asyncio.sleep(step.delay_s)
        return reply

    def _record(self, request: Request, turn: Turn, played: str) -> Reply:
        """Return the reply, with its line in the log before it: who has read the answer finds the line."""
        if isinstance(turn.outcome, Refused):
            reply = build_refusal(turn.outcome)
        else:
            reply = build_reply(turn.outcome, request, int(time.time()), _new_id)
        self._log.write(build_record(request, turn, reply.status, played))
        return reply


async def _read_body(http: HttpRequest) -> bytes | None:
    """Return the body, or None when it is too large; the rest of such a one is read and dropped."""
    body, size = bytearray(), 0
    async for chunk in http.stream():
        size += len(chunk)
        if size <= MAX_BODY_BYTES:
            body += chunk
    return bytes(body) if size <= MAX_BODY_BYTES else None


async def _send(reply: Reply, send: Send) -> None:
    headers = [(name.encode(), value.encode()) for name, value in reply.headers]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    for chunk in reply.chunks:
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    if reply.whole:
        await send({"type": "http.response.body", "body": b"", "more_body": False})
    # Otherwise the server ends the connection without the answer's end.


def _new_id() -> str:
    return secrets.token_hex(12)
