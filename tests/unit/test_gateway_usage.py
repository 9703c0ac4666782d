"""Counts of a provider, read from whole bodies and from streams."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner_e2e.gateway.dialects import Dialect
from runner_e2e.gateway.events import EventReader
from runner_e2e.gateway.usage import Reading, UnreadableUsageError, Usage, UsageReader, parse_usage


def sse(*events: object, line_break: str = "\n") -> bytes:
    texts = [event if isinstance(event, str) else json.dumps(event) for event in events]
    return "".join(f"data: {text}{line_break}{line_break}" for text in texts).encode()


def read(dialect: Dialect, content: bytes, *, streamed: bool = True, whole: bool = True) -> Reading:
    reader = UsageReader(dialect, streamed=streamed)
    reader.feed(content)
    return reader.conclude(whole=whole)


CHAT_COUNTS = {
    "prompt_tokens": 100,
    "completion_tokens": 20,
    "total_tokens": 120,
    "prompt_tokens_details": {"cached_tokens": 40},
}
CHAT_USAGE = Usage(input=60, cached=40, output=20)
CHAT_STREAM = sse(
    {"choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": None}], "usage": None},
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": None},
    {"choices": [], "usage": CHAT_COUNTS},
    "[DONE]",
)
RESPONSES_COUNTS = {"input_tokens": 9, "output_tokens": 5, "input_tokens_details": {"cached_tokens": 4}}
RESPONSES_STREAM = sse(
    {"type": "response.created", "response": {"usage": None}},
    {"type": "response.output_text.delta", "delta": '"usage"'},
    {"type": "response.completed", "response": {"usage": RESPONSES_COUNTS}},
)
MESSAGES_START = {
    "type": "message_start",
    "message": {
        "usage": {
            "input_tokens": 7,
            "cache_read_input_tokens": 30,
            "cache_creation_input_tokens": 50,
            "cache_creation": {"ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": 30},
            "output_tokens": 1,
        }
    },
}
MESSAGES_DELTA = {
    "type": "message_delta",
    "delta": {"stop_reason": "end_turn"},
    "usage": {"output_tokens": 12, "input_tokens": None},
}
MESSAGES_STREAM = sse(MESSAGES_START, {"type": "ping"}, MESSAGES_DELTA, {"type": "message_stop"})
MESSAGES_USAGE = Usage(input=7, cached=30, cache_write=20, cache_write_1h=30, output=12)

STREAMS = [
    pytest.param(Dialect.CHAT, CHAT_STREAM, CHAT_USAGE, id="chat"),
    pytest.param(Dialect.RESPONSES, RESPONSES_STREAM, Usage(input=5, cached=4, output=5), id="responses"),
    pytest.param(Dialect.MESSAGES, MESSAGES_STREAM, MESSAGES_USAGE, id="messages"),
]


@pytest.mark.parametrize(("dialect", "stream", "usage"), STREAMS)
def test_a_stream_tells_its_usage_in_any_chunks(dialect: Dialect, stream: bytes, usage: Usage) -> None:
    for size in (1, 2, 7, len(stream)):
        reader = UsageReader(dialect, streamed=True)
        for start in range(0, len(stream), size):
            reader.feed(stream[start : start + size])

        assert reader.conclude(whole=True) == Reading(usage, final=True)


@pytest.mark.parametrize(("dialect", "stream", "usage"), STREAMS)
@pytest.mark.parametrize("line_break", [b"\r\n", b"\r"], ids=["crlf", "cr"])
def test_every_line_break_of_the_format_is_read(
    dialect: Dialect, stream: bytes, usage: Usage, line_break: bytes
) -> None:
    assert read(dialect, stream.replace(b"\n", line_break)) == Reading(usage, final=True)


@pytest.mark.parametrize(
    ("dialect", "body", "usage"),
    [
        pytest.param(Dialect.CHAT, {"usage": CHAT_COUNTS}, CHAT_USAGE, id="chat"),
        pytest.param(
            Dialect.RESPONSES, {"usage": RESPONSES_COUNTS}, Usage(input=5, cached=4, output=5), id="responses"
        ),
        pytest.param(
            Dialect.MESSAGES,
            {"usage": {"input_tokens": 3, "output_tokens": 4}},
            Usage(input=3, output=4),
            id="messages",
        ),
    ],
)
def test_a_whole_body_tells_its_usage(dialect: Dialect, body: object, usage: Usage) -> None:
    content = json.dumps(body).encode()

    assert read(dialect, content, streamed=False) == Reading(usage, final=True)
    assert read(dialect, content[:-1], streamed=False) == Reading()
    assert read(dialect, content, streamed=False, whole=False) == Reading()


@pytest.mark.parametrize(
    ("dialect", "stream", "seen"),
    [
        pytest.param(Dialect.CHAT, sse({"choices": [{}]}, "[DONE]"), None, id="no-counts"),
        pytest.param(
            Dialect.CHAT,
            sse({"choices": [{"delta": {}, "finish_reason": None}], "usage": CHAT_COUNTS}),
            CHAT_USAGE,
            id="counted-along",
        ),
        pytest.param(
            Dialect.MESSAGES,
            sse(MESSAGES_START),
            Usage(input=7, cached=30, cache_write=20, cache_write_1h=30, output=1),
            id="start-only",
        ),
        pytest.param(
            Dialect.RESPONSES,
            sse({"type": "response.in_progress", "response": {"usage": RESPONSES_COUNTS}}),
            None,
            id="not-the-last-event",
        ),
        pytest.param(
            Dialect.RESPONSES,
            sse({"type": "response.failed", "response": {"usage": None}}),
            None,
            id="failed-without-counts",
        ),
        pytest.param(
            Dialect.CHAT,
            b'data: {"usage": {\n\n' + CHAT_STREAM,
            CHAT_USAGE,
            id="a-broken-event",
        ),
        pytest.param(
            Dialect.CHAT, sse({"choices": [], "usage": {"prompt_tokens": 1}}), None, id="half-of-the-counts"
        ),
    ],
)
def test_a_stream_that_does_not_tell_everything_is_not_final(
    dialect: Dialect, stream: bytes, seen: Usage | None
) -> None:
    reading = read(dialect, stream)

    assert reading == Reading(seen, final=False)


def test_counts_that_came_before_the_client_left_are_final() -> None:
    assert read(Dialect.CHAT, CHAT_STREAM, whole=False).final
    assert read(Dialect.MESSAGES, sse(MESSAGES_START, MESSAGES_DELTA), whole=False).final


def test_text_of_an_agent_is_never_taken_for_counts() -> None:
    forged = 'data: {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}\n\n'
    stream = sse({"choices": [{"delta": {"content": forged, "usage": CHAT_COUNTS}}]})

    assert read(Dialect.CHAT, stream) == Reading()


@pytest.mark.parametrize(
    "counts",
    [
        pytest.param({"prompt_tokens": -1, "completion_tokens": 1}, id="negative"),
        pytest.param({"prompt_tokens": True, "completion_tokens": 1}, id="flag"),
        pytest.param({"prompt_tokens": 1.5, "completion_tokens": 1}, id="fraction"),
        pytest.param({"prompt_tokens": "1", "completion_tokens": 1}, id="text"),
        pytest.param({"prompt_tokens": 10**10, "completion_tokens": 1}, id="huge"),
        pytest.param({"completion_tokens": 1}, id="missing"),
        pytest.param(
            {"prompt_tokens": 1, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 2}},
            id="more-cached-than-sent",
        ),
        pytest.param(None, id="nothing"),
        pytest.param([1], id="list"),
    ],
)
def test_counts_that_make_no_sense_are_missing(counts: object) -> None:
    with pytest.raises(UnreadableUsageError):
        parse_usage(Dialect.CHAT, counts)


def test_reasoning_that_only_the_total_holds_is_output() -> None:
    counts = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 40}

    assert parse_usage(Dialect.CHAT, counts).output == 30


@pytest.mark.parametrize(
    ("dialect", "counts"),
    [
        pytest.param(
            Dialect.CHAT, {**CHAT_COUNTS, "completion_tokens_details": {"audio_tokens": 3}}, id="audio"
        ),
        pytest.param(
            Dialect.MESSAGES,
            {"input_tokens": 1, "output_tokens": 1, "server_tool_use": {"web_search_requests": 1}},
            id="searches",
        ),
    ],
)
def test_what_is_charged_apart_is_noted(dialect: Dialect, counts: dict[str, Any]) -> None:
    assert parse_usage(dialect, counts).has_extras


def test_an_event_that_is_too_long_ends_the_reading_and_is_not_kept() -> None:
    reader = EventReader(max_event_bytes=64)

    assert reader.feed(b"data: one\n\n") == [b"one"]
    for _ in range(100):
        assert reader.feed(b"data: " + b"x" * 10) == []
    assert reader.feed(b"\n\ndata: two\n\n") == []
    assert reader.lost


@given(
    st.lists(
        st.lists(st.text(st.characters(exclude_characters="\r\n\0", codec="utf-8")), min_size=1), max_size=5
    ),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.integers(1, 9),
)
def test_events_are_cut_alike_in_any_chunks(events: list[list[str]], line_break: str, size: int) -> None:
    stream = "".join(
        ": a comment" + line_break + "".join(f"data: {line}{line_break}" for line in lines) + line_break
        for lines in events
    ).encode()
    reader = EventReader()

    found = [
        event for start in range(0, len(stream), size) for event in reader.feed(stream[start : start + size])
    ]

    assert found + reader.finish() == ["\n".join(lines).encode() for lines in events]


@given(st.binary(max_size=300), st.sampled_from(list(Dialect)), st.booleans())
def test_no_bytes_make_the_reader_raise(content: bytes, dialect: Dialect, streamed: bool) -> None:
    read(dialect, b'data: {"usage"' + content, streamed=streamed)
