"""What a provider says it counted, read from its answers. Pure: nothing is guessed, missing is not zero.

Shapes: https://platform.openai.com/docs/api-reference/chat-streaming,
https://platform.openai.com/docs/api-reference/responses-streaming,
https://docs.anthropic.com/en/docs/build-with-claude/streaming
"""

import json
from dataclasses import dataclass

from runner_e2e.gateway.dialects import Dialect
from runner_e2e.gateway.events import EventReader

MAX_BODY_BYTES = 32 * 1024 * 1024
_MOST_TOKENS = 10**9

_LAST_OF_RESPONSES = frozenset({"response.completed", "response.incomplete", "response.failed"})


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one request, each counted in one field only.

    `has_extras`: the provider counted something else besides, such as audio or searches.
    """

    input: int = 0
    cached: int = 0
    cache_write: int = 0
    cache_write_1h: int = 0
    output: int = 0
    has_extras: bool = False

    @property
    def all_input(self) -> int:
        """Everything that was sent, cached or not."""
        return self.input + self.cached + self.cache_write + self.cache_write_1h


@dataclass(frozen=True, slots=True)
class Reading:
    """What an answer told. Not `final`: it was cut, so that `usage` is no more than a lower bound."""

    usage: Usage | None = None
    final: bool = False


class UnreadableUsageError(ValueError):
    """Counts that make no sense count as missing."""


def parse_usage(dialect: Dialect, counts: object) -> Usage:
    """Read a `usage` object of a provider. Raises `UnreadableUsageError` for anything but sensible counts."""
    if not isinstance(counts, dict):
        raise UnreadableUsageError
    match dialect:
        case Dialect.CHAT:
            return _parse_openai(counts, "prompt_tokens", "completion_tokens")
        case Dialect.RESPONSES:
            return _parse_openai(counts, "input_tokens", "output_tokens")
        case Dialect.MESSAGES:
            return _parse_anthropic(counts)


class UsageReader:
    """Reads one answer along while it passes."""

    def __init__(self, dialect: Dialect, *, streamed: bool) -> None:
        self._dialect = dialect
        self._events = EventReader() if streamed else None
        self._body: list[bytes] = []
        self._body_size = 0
        self._counts: dict[str, object] | None = None
        self._ended = False  # the provider said that no more counts follow
        self._broken = False

    def feed(self, chunk: bytes) -> None:
        """Read the next bytes of the answer."""
        if self._events is None:
            self._body_size += len(chunk)
            if self._body_size <= MAX_BODY_BYTES:
                self._body.append(chunk)
            else:
                self._body.clear()
        else:
            for data in self._events.feed(chunk):
                self._read_event(data)

    def conclude(self, *, whole: bool) -> Reading:
        """Return what was read. `whole`: the answer came to its regular end."""
        if self._events is None:
            self._counts = self._read_body() if whole and self._body else None
            self._ended = whole
        elif whole:
            for data in self._events.finish():
                self._read_event(data)
        lost = self._broken or (self._events is not None and self._events.lost)
        try:
            usage = parse_usage(self._dialect, self._counts)
        except UnreadableUsageError:
            return Reading()
        return Reading(usage, final=self._ended and not lost)

    def _read_body(self) -> dict[str, object] | None:
        return _get_dict(_parse_json(b"".join(self._body)), "usage")

    def _read_event(self, data: bytes) -> None:
        # Most events hold a piece of text and no counts: those are not worth parsing.
        if b'"usage"' not in data:
            return
        event = _parse_json(data)
        if not isinstance(event, dict):
            self._broken = True
            return
        match self._dialect:
            case Dialect.CHAT:
                self._read_chunk(event)
            case Dialect.RESPONSES:
                if event.get("type") in _LAST_OF_RESPONSES:
                    self._counts = _get_dict(event.get("response"), "usage")
                    self._ended = True
            case Dialect.MESSAGES:
                self._read_message_event(event)

    def _read_chunk(self, event: dict[str, object]) -> None:
        if counts := _get_dict(event, "usage"):
            self._counts = counts
            # Some providers count along in every chunk; the sum comes with no choice or with its end.
            choices = event.get("choices")
            self._ended = not choices or _has_finish_reason(choices)

    def _read_message_event(self, event: dict[str, object]) -> None:
        kind = event.get("type")
        if kind == "message_start":
            self._counts = _get_dict(event.get("message"), "usage")
        elif kind == "message_delta" and (counts := _get_dict(event, "usage")):
            # Counts are cumulative; what a delta does not repeat stays as the start said.
            told = {name: value for name, value in counts.items() if value is not None}
            self._counts = {**(self._counts or {}), **told}
            delta = _get_dict(event, "delta") or {}
            self._ended = delta.get("stop_reason") is not None


def _parse_openai(counts: dict[str, object], sent: str, made: str) -> Usage:
    details = _get_dict(counts, f"{sent}_details") or {}
    made_details = _get_dict(counts, f"{made}_details") or {}
    all_input, output = _count(counts, sent), _count(counts, made)
    cached, written = _count(details, "cached_tokens", 0), _count(details, "cache_write_tokens", 0)
    if cached + written > all_input:
        raise UnreadableUsageError
    # Providers that do not count reasoning as output count it in the total.
    output = max(output, _count(counts, "total_tokens", 0) - all_input)
    extras = _count(details, "audio_tokens", 0) + _count(made_details, "audio_tokens", 0)
    return Usage(all_input - cached - written, cached, written, 0, output, has_extras=extras > 0)


def _parse_anthropic(counts: dict[str, object]) -> Usage:
    written = _count(counts, "cache_creation_input_tokens", 0)
    by_age = _get_dict(counts, "cache_creation") or {}
    for_an_hour = _count(by_age, "ephemeral_1h_input_tokens", 0)
    if for_an_hour > written:
        raise UnreadableUsageError
    tools = _get_dict(counts, "server_tool_use") or {}
    return Usage(
        input=_count(counts, "input_tokens"),
        cached=_count(counts, "cache_read_input_tokens", 0),
        cache_write=written - for_an_hour,
        cache_write_1h=for_an_hour,
        output=_count(counts, "output_tokens"),
        has_extras=any(tools.values()),
    )


def _count(counts: dict[str, object], name: str, default: int | None = None) -> int:
    value = counts.get(name)
    if value is None and default is not None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MOST_TOKENS:
        raise UnreadableUsageError
    return value


def _has_finish_reason(choices: object) -> bool:
    return isinstance(choices, list) and any(
        isinstance(choice, dict) and choice.get("finish_reason") is not None for choice in choices
    )


def _get_dict(value: object, name: str) -> dict[str, object] | None:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else None


def _parse_json(text: bytes) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
