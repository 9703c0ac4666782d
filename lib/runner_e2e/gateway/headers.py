"""Which headers pass, in both directions. Pure."""

from collections.abc import Iterable, Sequence

from runner_e2e.gateway.upstream import Upstream

Header = tuple[bytes, bytes]

# A list of what passes: credentials, cookies, addresses and everything of a single hop are not in it.
_TO_PROVIDER = frozenset(
    {
        b"accept",
        b"anthropic-beta",
        b"anthropic-version",
        b"content-type",
        b"http-referer",
        b"idempotency-key",
        b"openai-beta",
        b"user-agent",
        b"x-client-request-id",
        b"x-title",
    }
)
_TO_PROVIDER_PREFIX = b"x-stainless-"
# https://www.rfc-editor.org/rfc/rfc9110#section-7.6.1
_HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
# What would speak for the provider's host under ours.
_OF_PROVIDERS_HOST = frozenset({b"alt-svc", b"clear-site-data", b"set-cookie", b"strict-transport-security"})

READABLE_ENCODINGS = frozenset({b"gzip", b"x-gzip", b"deflate"})


def build_provider_headers(headers: Iterable[Header], upstream: Upstream) -> list[Header]:
    """Return the headers of a request to the provider: what passes of the client's, and the real key.

    The answer is asked for as it is: a compressed one would have to be read to be counted.
    """
    listed = list(headers)
    named = _list_connection(listed)
    passed = [
        (name, value)
        for name, value in listed
        if name not in named and (name in _TO_PROVIDER or name.startswith(_TO_PROVIDER_PREFIX))
    ]
    key_name, key_value = upstream.key_header
    return [*passed, (b"accept-encoding", b"identity"), (key_name.encode(), key_value.encode())]


def build_client_headers(headers: Sequence[Header], key: bytes) -> list[Header]:
    """Return the headers of an answer to the client. One that holds the real key is left out."""
    lowered = [(name.lower(), value) for name, value in headers]
    left_out = _HOP_BY_HOP | _OF_PROVIDERS_HOST | _list_connection(lowered)
    if find_encoding(lowered):  # it is taken away, and the length with it
        left_out |= {b"content-encoding", b"content-length"}
    return [
        (name, value)
        for name, value in lowered
        if name not in left_out and key not in value and key.lower() not in name
    ]


def find_encoding(headers: Iterable[Header]) -> bytes | None:
    """Return the encoding of an answer, or None when it is sent as it is."""
    values = [value.strip().lower() for name, value in headers if name.lower() == b"content-encoding"]
    joined = b",".join(value for value in values if value not in (b"", b"identity"))
    return joined or None


def _list_connection(headers: Iterable[Header]) -> frozenset[bytes]:
    return frozenset(
        part.strip().lower() for name, value in headers if name == b"connection" for part in value.split(b",")
    )
