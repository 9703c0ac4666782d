"""Secrets in every form, in any surroundings, and cut at any place."""

from __future__ import annotations

import base64
import html
import json
import random
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner_e2e.evidence.escapes import unescape_fully, unescaped_layers
from runner_e2e.evidence.finding import KNOWN
from runner_e2e.evidence.redaction import Redactor
from runner_e2e.evidence.secret_forms import all_parts, build_forms, split_secret
from runner_e2e.evidence.shapes import SHAPES, names_secret

PLAIN = "s3cretValue_0123-abcXYZ"
SPECIAL = 'p@ss/w+rd="ü&<é>% 9'
MARK = b"[redacted]"
LETTERS = "abcdefghijklmnopqrstuvwxyz"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.c2lnbmF0dXJl"


def lower_percent(text: str) -> str:
    return "".join(f"%{byte:02x}" for byte in text.encode())


def json_text(text: str, *, ascii_only: bool = True) -> str:
    return json.dumps(text, ensure_ascii=ascii_only)[1:-1]


@pytest.mark.parametrize("secret", [PLAIN, SPECIAL])
@pytest.mark.parametrize(
    "write",
    [
        pytest.param(lambda s: s, id="raw"),
        pytest.param(lambda s: quote(s, safe=""), id="url"),
        pytest.param(quote, id="url-path"),
        pytest.param(quote_plus, id="form"),
        pytest.param(lower_percent, id="url-everything-lower-case"),
        pytest.param(lambda s: quote(quote(s, safe=""), safe=""), id="url-twice"),
        pytest.param(lambda s: lower_percent(s[:5]) + s[5:], id="url-partly"),
        pytest.param(json_text, id="json"),
        pytest.param(lambda s: json_text(s, ascii_only=False), id="json-unicode"),
        pytest.param(lambda s: json_text(json_text(s)), id="json-in-json"),
        pytest.param(lambda s: json_text(json_text(json_text(s))), id="json-in-json-in-json"),
        pytest.param(lambda s: json_text(s).replace("/", "\\/"), id="json-slashes"),
        pytest.param(lambda s: "".join(f"\\u{ord(c):04X}" for c in s), id="json-everything"),
        pytest.param(lambda s: quote(json_text(s), safe=""), id="json-in-url"),
        pytest.param(lambda s: json_text(quote(s, safe="")), id="url-in-json"),
        pytest.param(html.escape, id="html"),
        pytest.param(lambda s: "".join(f"&#{ord(c)};" for c in s), id="html-everything"),
        pytest.param(lambda s: s.encode().hex(), id="hex"),
        pytest.param(lambda s: s.encode().hex().upper(), id="hex-upper-case"),
    ],
)
def test_a_secret_goes_in_every_form(secret: str, write: object) -> None:
    assert callable(write)
    written = write(secret).encode()

    assert Redactor([secret]).redact(b"a=" + written + b";b") == b"a=" + MARK + b";b"


@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
@pytest.mark.parametrize("secret", [PLAIN, SPECIAL])
def test_base64_of_a_secret_within_anything_goes(secret: str, encode: object) -> None:
    assert callable(encode)
    raw = secret.encode()
    for before in (b"", b"u:", b"user:", b"x" * 30):
        for after in (b"", b"\n", b"@host"):
            redacted = Redactor([secret]).redact(b" " + encode(before + raw + after) + b" ")
            assert MARK in redacted
            # What is left are at most the neighbours, and bits of the first and last byte.
            assert len(redacted) <= len(MARK) + (len(before) + len(after)) * 2 + 10


def test_base64_of_base64_goes() -> None:
    twice = base64.b64encode(base64.b64encode(PLAIN.encode()))

    assert Redactor([PLAIN]).redact(twice + b"\n") == MARK + b"\n"


@pytest.mark.parametrize("width", [60, 64, 76])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\\n"])
def test_base64_in_wrapped_lines_goes(width: int, end: bytes) -> None:
    secret = "k-" + "0123456789abcdef" * 5
    encoded = base64.b64encode(b"token: " + secret.encode() + b", and so on")
    wrapped = end.join(encoded[start : start + width] for start in range(0, len(encoded), width))
    redacted = Redactor([secret]).redact(wrapped)

    left = redacted.replace(MARK, b"").replace(end, b"")
    assert MARK in redacted
    assert len(left) < len(encoded) - len(secret)


def test_a_secret_of_several_lines_goes_whole_and_line_by_line() -> None:
    key = "-- FIRST LINE --\nAAAABBBBCCCCDDDD\nEEEEFFFFGGGG\n"
    redactor = Redactor([key])

    assert redactor.redact(key.encode()) == MARK
    assert redactor.redact(b"1: EEEEFFFFGGGG, 2: AAAABBBBCCCCDDDD.") == b"1: [redacted], 2: [redacted]."


def test_the_values_in_a_json_secret_go() -> None:
    secret = json.dumps({"tokens": {"access_token": "abcdef123", "url": "https://auth.example.com/path"}})

    assert Redactor([secret]).redact(b"got abcdef123 from https://auth.example.com/path") == (
        b"got [redacted] from https://auth.example.com/path"
    )


def test_utf_16_of_either_order_goes() -> None:
    for codec in ("utf-16-le", "utf-16-be"):
        assert PLAIN.encode(codec)[2:-2] not in Redactor([PLAIN]).redact(f"a {PLAIN} b".encode(codec))


def test_a_very_long_secret_goes_in_parts() -> None:
    secret = random.Random(1).randbytes(5000).hex()

    assert max(map(len, split_secret(secret))) <= 1024
    assert set(Redactor([secret]).redact(secret.encode()).replace(MARK, b"")) == set()


def test_secrets_that_overlap_leave_nothing_of_either() -> None:
    assert Redactor(["abcdef", "defghi"]).redact(b"-abcdefghi-") == b"-[redacted]-"


@pytest.mark.parametrize("secret", ["redacted", "[redacted]", "[secret", "secret]", "ed]abc", "][|*~^!;#"])
def test_a_mark_never_makes_a_secret_of_its_surroundings(secret: str) -> None:
    redactor = Redactor([secret, "XYZ123"])
    text = f"XYZ123{secret}abcXYZ123abc [XYZ123] se{secret}".encode()

    assert secret.encode() not in redactor.redact(text)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        pytest.param(f"key sk-ant-api03-{LETTERS}-01.", "key [redacted].", id="provider"),
        pytest.param(f"ghp_{LETTERS}0123456789,", "[redacted],", id="github"),
        pytest.param(f'"{JWT}"', '"[redacted]"', id="jwt"),
        pytest.param("https://me:hunter2@example.com/x", "https://me:[redacted]@example.com/x", id="url"),
        pytest.param(
            "Authorization: Bearer 0123456789abcdef=", "Authorization: Bearer [redacted]", id="bearer"
        ),
        pytest.param("Basic dXNlcjpodW50ZXI= x", "Basic [redacted] x", id="basic"),
        pytest.param("MY_TOKEN='0123456789abcdef'", "MY_TOKEN='[redacted]'", id="assignment"),
        pytest.param(
            f"AWS_SECRET_ACCESS_KEY={LETTERS}0123\n", "AWS_SECRET_ACCESS_KEY=[redacted]\n", id="aws-secret"
        ),
        pytest.param(
            "x\n-----BEGIN RSA PRIVATE KEY-----\nMIIE\nAAAA==\n-----END RSA PRIVATE KEY-----\ny",
            "x\n[redacted]\ny",
            id="pem",
        ),
        pytest.param(
            r"-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\n", r"[redacted]\n", id="pem-json"
        ),
    ],
)
def test_a_known_shape_goes_and_what_names_it_stays(text: str, left: str) -> None:
    assert Redactor([]).redact(text.encode()) == left.encode()


@pytest.mark.parametrize(
    "text",
    [
        "Ask for the secret, and never print the token or the password.",
        "Bearer authentication-and-authorization is explained in RFC 6750.",
        "http://127.0.0.1:3100/api and git@github.com:owner/name.git, mail to a@example.com:",
        "risk-assessment-2026-01-report.md, max_tokens=4096, token=abc, password={nonce}",
        "openrouter/deepseek/deepseek-v4-flash-0731 and 3f2504e0-4f89-11d3-9a0c-0305e82c3301",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "https://{user}:{password}@example.com",
        "%41%42 \\u0041 &#65; a\\/b",
    ],
)
def test_text_without_secrets_is_unchanged(text: str) -> None:
    assert Redactor([PLAIN, SPECIAL]).redact(text.encode()) == text.encode()


def test_every_shape_begins_with_what_is_looked_for() -> None:
    for shape in SHAPES:
        assert shape.openings
        assert all(shape.marker.lower() in opening.lower() for opening in shape.openings)


def test_a_name_says_that_its_value_is_a_secret() -> None:
    assert all(map(names_secret, ("apiKey", "OPENAI_API_KEY", "x-api-key", "Authorization", "dbPassword")))
    assert not any(map(names_secret, ("", "key", "publicKey", "tokenUrl", "secretRef", "credential")))


def test_shapes_are_not_looked_for_when_told() -> None:
    assert Redactor([], shapes=False).redact(JWT.encode()) == JWT.encode()


def test_a_token_without_end_goes_whole_in_bounded_memory() -> None:
    stream = Redactor([PLAIN]).stream()
    out = stream.feed(b"a sk-ant-")
    held = 0
    for _ in range(40):
        out += stream.feed(b"0123456789abcdef" * 4096)
        held = max(held, stream._size)
    out += stream.feed(b" b") + stream.finish()

    assert out == b"a [redacted] b"
    assert held < 1 << 20
    assert stream.kinds == {"a provider's key (sk-...)"}


def test_text_full_of_openings_takes_no_quadratic_time() -> None:
    redactor = Redactor([PLAIN])
    for opening in ("sk-", "eyJ-", "earer ", "://a:", "-----BEGIN ", "\\u0041", "%25", "token="):
        text = (opening * (400_000 // len(opening))).encode()
        assert len(redactor.redact(text)) <= len(text)


SECRETS = st.one_of(
    st.text("XYZ019abz_-./+=%&\"\\\n <ü😀'[]", min_size=6, max_size=30),
    st.text(min_size=6, max_size=20),
    st.binary(min_size=6, max_size=20).map(lambda raw: base64.b64encode(raw).decode()),
)
PIECES = st.one_of(st.binary(max_size=8), st.sampled_from([b"%", b"\\", MARK, b"sk-", b"ed]", b"[re"]))


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_whatever_the_secrets_and_surroundings_no_form_is_left_and_cuts_do_not_matter(
    data: st.DataObject,
) -> None:
    secrets = data.draw(st.lists(SECRETS, min_size=1, max_size=3))
    forms = sorted({form for part in all_parts(secrets) for form in build_forms(part)}) or [b"none"]
    text = b"".join(data.draw(st.lists(st.one_of(st.sampled_from(forms), PIECES), max_size=8)))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=4)))
    redactor = Redactor(secrets)

    redacted = redactor.redact(text)

    assert not [form for form in redactor.finder.forms if form in redacted]
    assert redactor.redact(redacted) == redacted
    # A stream decides of little at once, so that cuts fall into what it holds.
    stream = redactor.stream()
    stream._hold = redactor.finder.reach
    out = b""
    for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        out += stream.feed(text[start:end])
        if stream._size > stream._hold:
            out += stream._decide(last=False)
    assert out + stream.finish() == redacted


FAMILIES = (("%", lambda c: quote(c, safe="")), ("%", lower_percent), ("&", lambda c: f"&#{ord(c)};"))


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_a_secret_escaped_only_in_places_goes(data: st.DataObject) -> None:
    secrets = SECRETS.filter(
        lambda s: "\\" not in s and s == s.strip() and unescape_fully(s.encode()) == s.encode()
    )
    secret = data.draw(secrets)
    own, escape = data.draw(st.sampled_from(FAMILIES))
    text = "".join(escape(c) if c == own or data.draw(st.booleans()) else c for c in secret)
    if data.draw(st.booleans()):
        text = json_text(text)

    redacted = Redactor([secret], shapes=False).redact(f"xx {text} yy".encode())

    assert redacted.startswith(b"xx ")
    assert redacted.endswith(b" yy")
    assert len(redacted) <= len(b"xx  yy") + len(MARK)


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_text_in_which_nothing_is_found_is_unchanged(content: bytes) -> None:
    redactor = Redactor([PLAIN, SPECIAL])

    if not redactor.find(content):
        assert redactor.redact(content) == content


def test_what_was_unescaped_is_traced_back_to_where_it_stood() -> None:
    layers = unescaped_layers(b"a%2541b")

    assert layers[-1].text == b"aAb"
    assert layers[-1].origin(1, 2) == (1, 6)
    assert layers[-1].origin(2, 3) == (6, 7)


def test_what_is_found_has_a_kind() -> None:
    found = Redactor([PLAIN]).find(f"{PLAIN} ghp_{LETTERS}".encode())

    assert [one.kind for one in found] == [KNOWN, "a GitHub token"]
