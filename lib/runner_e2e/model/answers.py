"""The bytes of an answer, as a provider of OpenAI's chat calls sends them, and how one is spoilt. Pure."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from runner_e2e.model.conversation import Request
from runner_e2e.model.player import Refused
from runner_e2e.model.script import Step, Tool

JSON_TYPE = "application/json"
STREAM_TYPE = "text/event-stream; charset=utf-8"

_DONE = b"data: [DONE]\n\n"
_PIECE = 2048  # characters of one chunk
_CHARACTERS_OF_TOKEN = 4
_HTML = b"<!DOCTYPE html><html><title>502 Bad Gateway</title><h1>502 Bad Gateway</h1></html>\n"
_BROKEN = b'data: {"id":"chatcmpl","object":"chat.completion.chunk","choices":[{"index":0,"del'

NewId = Callable[[], str]


@dataclass(frozen=True, slots=True)
class Reply:
    """What is sent. When it is not `whole`, the connection is cut behind the last chunk."""

    status: int
    headers: tuple[tuple[str, str], ...]
    chunks: tuple[bytes, ...]
    whole: bool = True


@dataclass(frozen=True, slots=True)
class _Answer:
    """One completion before it is written out; the calls carry their ids."""

    head: Mapping[str, object]
    text: str | None
    calls: Sequence[tuple[str, Tool]]
    usage: Mapping[str, int]

    @property
    def finish_reason(self) -> str:
        return "tool_calls" if self.calls else "stop"


def build_reply(step: Step, request: Request, created: int, new_id: NewId) -> Reply:
    """Return what a step answers; `new_id` makes the ids, each of which must be unique."""
    if step.error is not None:
        return build_error(step.error.status, "scripted_error", step.error.message)
    if step.rate_limit is not None:
        return _build_rate_limit(step.rate_limit.retry_after_s)
    if step.malformed == "html":
        return Reply(200, (("content-type", "text/html"),), (_HTML,))
    answer = _Answer(
        {"id": f"chatcmpl-{new_id()}", "created": created, "model": request.model},
        step.text,
        [(f"call_{new_id()}", call) for call in step.calls],
        _count(step, request),
    )
    if request.streamed:
        chunks = tuple(_spoil_stream(step.malformed, answer, counted=request.counts_usage))
        reply = Reply(200, (("content-type", STREAM_TYPE), ("cache-control", "no-cache")), chunks)
    else:
        content = _dump(_build_completion(answer, step.malformed))
        reply = _spoil_content(step.malformed, content)
    return replace(reply, whole=step.malformed not in {"cut", "cut_at_once"})


def build_error(status: int, code: str, message: str, headers: tuple[tuple[str, str], ...] = ()) -> Reply:
    """Return an error in the shape of the provider's."""
    kind = (
        "rate_limit_error" if status == 429 else "server_error" if status >= 500 else "invalid_request_error"
    )
    content = _dump({"error": {"message": message, "type": kind, "param": None, "code": code}})
    reply = _build_json(status, content)
    return replace(reply, headers=(*reply.headers, *headers))


def build_refusal(refused: Refused) -> Reply:
    """Return the error for a request that gets no step."""
    return build_error(refused.status, refused.code, refused.message)


def _build_rate_limit(retry_after_s: float) -> Reply:
    # The header has whole seconds; clients that know the other one take it first.
    headers = (
        ("retry-after", str(-int(-retry_after_s // 1))),
        ("retry-after-ms", str(round(retry_after_s * 1000))),
    )
    return build_error(429, "rate_limit_exceeded", "The scripted model asks for patience", headers)


def _build_json(status: int, content: bytes) -> Reply:
    return Reply(status, (("content-type", JSON_TYPE), ("content-length", str(len(content)))), (content,))


def _count(step: Step, request: Request) -> dict[str, int]:
    if step.usage is not None:
        prompt, completion = step.usage.prompt_tokens, step.usage.completion_tokens
    else:
        written = len(step.text or "") + sum(len(_dump(call.arguments)) for call in step.calls)
        prompt, completion = (
            max(1, characters // _CHARACTERS_OF_TOKEN) for characters in (request.characters, written)
        )
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }


def _build_completion(answer: _Answer, malformed: str | None) -> dict[str, object]:
    message: dict[str, object] = {"role": "assistant", "content": answer.text}
    if answer.calls:
        message["tool_calls"] = [_build_call(name, call, _write(call)) for name, call in answer.calls]
    choice = {"index": 0, "message": message, "finish_reason": answer.finish_reason}
    if malformed == "missing_finish":
        choice["finish_reason"] = None
    choices = [] if malformed == "empty" else [choice]
    return {**answer.head, "object": "chat.completion", "choices": choices, "usage": answer.usage}


def _spoil_content(malformed: str | None, content: bytes) -> Reply:
    half = content[: len(content) // 2]
    if malformed in {"broken_chunk", "invalid_json"}:
        return _build_json(200, half)
    reply = _build_json(200, content)
    if malformed == "cut":
        return replace(reply, chunks=(half,))
    return replace(reply, chunks=()) if malformed == "cut_at_once" else reply


def _spoil_stream(malformed: str | None, answer: _Answer, *, counted: bool) -> Iterator[bytes]:
    """Yield the events of a stream, as many and as wrong as a malformation says."""
    if malformed == "cut_at_once":
        return
    content = [] if malformed == "empty" else [_build_chunk(answer, delta) for delta in _cut_deltas(answer)]
    if malformed == "cut":
        # A client has some of it, and cannot take it for all.
        yield from content[: max(1, len(content) // 2)]
        return
    yield from content
    if malformed == "broken_chunk":
        yield _BROKEN + b"\n\n"
    elif malformed == "invalid_json":
        yield b"data: this is not JSON\n\n"
    if malformed not in {"missing_finish", "empty"}:
        yield _build_chunk(answer, {}, answer.finish_reason)
    if counted:
        yield _event({**_chunk_head(answer), "choices": [], "usage": answer.usage})
    if malformed != "missing_done":
        yield _DONE


def _cut_deltas(answer: _Answer) -> Iterator[dict[str, object]]:
    yield {"role": "assistant", "content": ""}
    for piece in _cut(answer.text or ""):
        yield {"content": piece}
    for index, (name, call) in enumerate(answer.calls):
        yield {"tool_calls": [{"index": index, **_build_call(name, call, "")}]}
        for piece in _cut(_write(call)):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _build_call(name: str, call: Tool, arguments: str) -> dict[str, object]:
    return {"id": name, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _build_chunk(answer: _Answer, delta: Mapping[str, object], finish_reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return _event({**_chunk_head(answer), "choices": [choice]})


def _chunk_head(answer: _Answer) -> dict[str, object]:
    return {**answer.head, "object": "chat.completion.chunk"}


def _event(content: Mapping[str, object]) -> bytes:
    return b"data: " + _dump(content) + b"\n\n"


def _write(call: Tool) -> str:
    return json.dumps(call.arguments, separators=(",", ":"))


def _cut(text: str) -> Iterator[str]:
    for start in range(0, len(text), _PIECE):
        yield text[start : start + _PIECE]


def _dump(content: object) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode("ascii")
