"""The pure rules of the gateway: what a request asks for, headers, the key's mask, providers."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner_e2e.errors import InputError
from runner_e2e.gateway.asks import parse_ask
from runner_e2e.gateway.dialects import Dialect
from runner_e2e.gateway.guard import is_token
from runner_e2e.gateway.headers import build_client_headers, build_provider_headers, find_encoding
from runner_e2e.gateway.masking import KeyMask
from runner_e2e.gateway.problems import Problem
from runner_e2e.gateway.upstream import build_upstream

KEY = "sk-real-0123456789"
TOKEN = b"scoped-token"


def body(**fields: Any) -> bytes:  # noqa: ANN401 - JSON
    return json.dumps({"model": "m", "messages": [], **fields}).encode()


@pytest.mark.parametrize(
    ("dialect", "fields", "most"),
    [
        pytest.param(Dialect.CHAT, {"max_tokens": 5, "max_completion_tokens": 7}, 7, id="chat"),
        pytest.param(Dialect.RESPONSES, {"max_output_tokens": 5}, 5, id="responses"),
        pytest.param(Dialect.RESPONSES, {"max_tokens": 5}, None, id="not-a-maximum-there"),
        pytest.param(Dialect.MESSAGES, {"max_tokens": 5}, 5, id="messages"),
        pytest.param(Dialect.CHAT, {}, None, id="none"),
    ],
)
def test_the_most_output_is_read_as_the_dialect_names_it(
    dialect: Dialect, fields: dict[str, Any], most: int | None
) -> None:
    assert parse_ask(dialect, body(**fields)).max_output == most


@pytest.mark.parametrize(
    ("fields", "changer"),
    [
        pytest.param({"models": ["dear"]}, "models", id="fallback-models"),
        pytest.param({"service_tier": "priority"}, "service_tier", id="tier"),
        pytest.param({"service_tier": "default"}, None, id="plain-tier"),
        pytest.param({"background": False, "plugins": []}, None, id="switched-off"),
        pytest.param({"tools": [{"type": "web_search_20250305"}]}, "tools", id="search"),
        pytest.param({"tools": [{"type": "function"}, {"name": "x"}]}, None, id="functions"),
        pytest.param({"tools": [{"type": "bash_20250124"}]}, None, id="tool-of-the-client"),
        pytest.param({"tools": [{"type": "bash_of_mine"}]}, "tools", id="alike"),
        pytest.param({"tools": {"type": "function"}}, "tools", id="no-list"),
        pytest.param({"modalities": ["text", "audio"]}, "modalities", id="audio"),
    ],
)
def test_what_changes_the_price_is_found(fields: dict[str, Any], changer: str | None) -> None:
    assert parse_ask(Dialect.CHAT, body(**fields)).changer == changer


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"{", id="cut"),
        pytest.param(b"[]", id="list"),
        pytest.param(b'{"messages": []}', id="no-model"),
        pytest.param(b'{"model": "cheap", "model": "dear"}', id="two-models"),
        pytest.param(b'{"model": "m", "x": [{"a": 1, "a": 2}]}', id="twins-inside"),
        pytest.param(b'{"model": "m", "x": NaN}', id="not-json"),
        pytest.param(body(model="m" * 201), id="long-model"),
        pytest.param(body(model="m\n::error::x"), id="line-break-in-model"),
        pytest.param(body(model=["m"]), id="model-list"),
        pytest.param(body(stream="yes"), id="stream"),
        pytest.param(body(max_tokens=-1), id="negative"),
        pytest.param(body(max_tokens=True), id="flag"),
        pytest.param(body(n=1000), id="too-many-choices"),
        pytest.param(b'{"model": "m", "x": ' + b"[" * 100_000, id="deep"),
        pytest.param(b'{"model": "m", "max_tokens": ' + b"9" * 5000 + b"}", id="endless-number"),
        pytest.param(b"\xff\xfe{\x00", id="not-utf-8"),
    ],
)
def test_a_body_that_could_be_read_in_two_ways_is_refused(content: bytes) -> None:
    with pytest.raises(Problem) as caught:
        parse_ask(Dialect.CHAT, content)

    assert caught.value.status == 400


@given(st.binary(max_size=200))
def test_no_body_makes_anything_but_a_refusal(content: bytes) -> None:
    with contextlib.suppress(Problem):
        parse_ask(Dialect.CHAT, content)


def test_only_listed_headers_and_the_real_key_reach_the_provider() -> None:
    upstream = build_upstream("OPENAI_API_KEY", KEY)
    hostile = [
        (b"host", b"127.0.0.1:1"),
        (b"authorization", b"Bearer scoped"),
        (b"x-api-key", b"scoped"),
        (b"cookie", b"a=b"),
        (b"accept-encoding", b"br"),
        (b"content-length", b"3"),
        (b"transfer-encoding", b"chunked"),
        (b"connection", b"keep-alive, X-Stainless-Arch"),
        (b"x-stainless-arch", b"x"),
        (b"x-forwarded-for", b"1.2.3.4"),
        (b"openai-organization", b"another"),
        (b"content-type", b"application/json"),
        (b"x-stainless-lang", b"js"),
    ]

    assert build_provider_headers(hostile, upstream) == [
        (b"content-type", b"application/json"),
        (b"x-stainless-lang", b"js"),
        (b"accept-encoding", b"identity"),
        (b"authorization", f"Bearer {KEY}".encode()),
    ]


def test_a_provider_gets_its_key_in_its_own_header() -> None:
    headers = build_provider_headers([], build_upstream("ANTHROPIC_API_KEY", KEY))

    assert (b"x-api-key", KEY.encode()) in headers
    assert all(name != b"authorization" for name, _ in headers)


def test_headers_of_one_hop_cookies_and_the_key_do_not_reach_the_client() -> None:
    headers = [
        (b"Content-Type", b"text/event-stream"),
        (b"Transfer-Encoding", b"chunked"),
        (b"Connection", b"close, X-Hop"),
        (b"X-Hop", b"1"),
        (b"Set-Cookie", b"a=b"),
        (b"Alt-Svc", b"h3"),
        (b"X-Echo", f"Bearer {KEY}".encode()),
        (b"Retry-After", b"7"),
        (b"Content-Length", b"9"),
    ]

    assert build_client_headers(headers, KEY.encode()) == [
        (b"content-type", b"text/event-stream"),
        (b"retry-after", b"7"),
        (b"content-length", b"9"),
    ]


def test_the_length_of_an_encoded_answer_goes_with_its_encoding() -> None:
    headers = [(b"Content-Encoding", b"gzip"), (b"Content-Length", b"9"), (b"X-Id", b"1")]

    assert build_client_headers(headers, KEY.encode()) == [(b"x-id", b"1")]
    assert find_encoding(headers) == b"gzip"
    assert find_encoding([(b"content-encoding", b"identity")]) is None


@given(
    st.lists(st.sampled_from([KEY, KEY[:4], KEY[4:], "s", "sk-", "text", "\n"]), max_size=12),
    st.integers(1, 30),
)
def test_the_key_is_covered_in_any_chunks_and_all_else_stays(parts: list[str], size: int) -> None:
    content = "".join(parts).encode()
    mask = KeyMask(KEY.encode())

    pieces = [mask.feed(content[start : start + size]) for start in range(0, len(content), size)]
    passed = b"".join(pieces) + mask.finish()

    assert passed == content.replace(KEY.encode(), b"*" * len(KEY))


def test_bytes_that_cannot_begin_the_key_never_wait() -> None:
    mask = KeyMask(KEY.encode())

    assert mask.feed(b"data: s is a letter\n\n") == b"data: s is a letter\n\n"
    assert mask.feed(b"sk-real") == b""
    assert mask.feed(b"ly\n") == b"sk-really\n"


@pytest.mark.parametrize(
    ("headers", "accepted"),
    [
        pytest.param([(b"authorization", b"Bearer scoped-token")], True, id="bearer"),
        pytest.param([(b"authorization", b"bearer  scoped-token")], True, id="other-case"),
        pytest.param([(b"x-api-key", TOKEN)], True, id="key-header"),
        pytest.param([(b"x-api-key", TOKEN), (b"authorization", b"Bearer scoped-token")], True, id="both"),
        pytest.param([], False, id="none"),
        pytest.param([(b"authorization", TOKEN)], False, id="no-scheme"),
        pytest.param([(b"authorization", b"Basic scoped-token")], False, id="other-scheme"),
        pytest.param([(b"authorization", b"Bearer scoped-toke")], False, id="cut"),
        pytest.param([(b"x-api-key", TOKEN), (b"x-api-key", b"x")], False, id="a-wrong-one-beside-it"),
        pytest.param([(b"x-api-key", b"")], False, id="empty"),
        pytest.param([(b"x-api-key", b"\xff\xfe")], False, id="not-ascii"),
        pytest.param([(b"x-goog-api-key", TOKEN)], False, id="other-header"),
    ],
)
def test_only_the_exact_token_is_accepted(headers: list[tuple[bytes, bytes]], *, accepted: bool) -> None:
    assert is_token(headers, TOKEN) is accepted


@pytest.mark.parametrize(
    ("name", "key", "url", "problem"),
    [
        pytest.param("CURSOR_AUTH_TOKEN", KEY, None, "cannot watch", id="no-api-key"),
        pytest.param("KIMI_MODEL_API_KEY", KEY, None, "no base URL", id="unknown-place"),
        pytest.param("OPENAI_API_KEY", "short", None, "no API key", id="short"),
        pytest.param("OPENAI_API_KEY", f"{KEY}\r\nx: y", None, "no API key", id="line-break"),
        pytest.param("OPENAI_API_KEY", KEY, "http://example.com/v1", "https://", id="plain-text"),
        pytest.param("OPENAI_API_KEY", KEY, "http://127.0.0.1.example.com", "https://", id="alike-host"),
        pytest.param("OPENAI_API_KEY", KEY, "https://u:p@example.com", "a host and a path", id="user"),
        pytest.param("OPENAI_API_KEY", KEY, "https://example.com/?a=b", "a host and a path", id="query"),
        pytest.param("OPENAI_API_KEY", KEY, "https://", "a host and a path", id="no-host"),
        pytest.param("OPENAI_API_KEY", KEY, "file:///etc", "a host and a path", id="file"),
        pytest.param("OPENAI_API_KEY", KEY, "https://a:b:c", "is not a URL", id="not-a-url"),
    ],
)
def test_a_provider_that_cannot_be_watched_is_refused_without_its_key(
    name: str, key: str, url: str | None, problem: str
) -> None:
    with pytest.raises(InputError, match=problem) as caught:
        build_upstream(name, key, url)

    assert key not in str(caught.value)


def test_the_key_is_not_in_the_description_of_a_provider() -> None:
    upstream = build_upstream("OPENAI_API_KEY", KEY, "http://[::1]:9/v1/")

    assert upstream.base_url == "http://[::1]:9/v1"
    assert KEY not in repr(upstream)


@pytest.mark.parametrize("dialect", list(Dialect))
@pytest.mark.parametrize("status", [400, 401, 402, 404, 405, 413, 429, 500, 502, 503, 504])
def test_an_error_has_the_shape_of_the_provider(dialect: Dialect, status: int) -> None:
    answer = Problem(status, "code", "Sentence").answer(dialect)
    content = json.loads(bytes(answer.body))

    assert answer.status_code == status
    assert content["error"]["message"] == "Sentence"
    assert content["error"]["type"]
    assert ("type" in content) is (dialect is Dialect.MESSAGES)
