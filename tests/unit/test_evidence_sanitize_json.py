"""JSON without secrets stays JSON, of the same structure and in the same words."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner_e2e.evidence.redaction import Redactor
from runner_e2e.evidence.sanitize_json import sanitize_json, sanitize_line

SECRET = 's3cr/et"kéy+value\n'
NUMBER = "987654321012"
REDACTOR = Redactor([SECRET, NUMBER])
KEY = "sk-ant-abcdefghijkl"


def sanitized(value: object) -> object:
    out = sanitize_json(json.dumps(value).encode(), REDACTOR)
    assert out is not None
    return json.loads(out)


@pytest.mark.parametrize(
    ("value", "left"),
    [
        pytest.param({"a": f"x {SECRET} y"}, {"a": "x [redacted] y"}, id="in-a-text"),
        pytest.param({f"a{SECRET}": 1}, {"a[redacted]": 1}, id="in-a-key"),
        pytest.param([KEY], ["[redacted]"], id="shape"),
        pytest.param([int(NUMBER)], ["[redacted]"], id="number"),
        pytest.param({"apiKey": "short"}, {"apiKey": "[redacted]"}, id="sensitive-key"),
        pytest.param({"password": 1234}, {"password": "[redacted]"}, id="sensitive-number"),
        pytest.param({"token": 4096, "tokens": [1, 2]}, {"token": 4096, "tokens": [1, 2]}, id="counts"),
        pytest.param({"token": None, "secret": True}, {"token": None, "secret": True}, id="words"),
        pytest.param(
            {"secrets": {"a": {"b": ["x", 1.5]}}},
            {"secrets": {"a": {"b": ["[redacted]", "[redacted]"]}}},
            id="all-below-a-sensitive-key",
        ),
        pytest.param(
            {"token": "{token}", "secret": ""}, {"token": "{token}", "secret": ""}, id="placeholder"
        ),
        pytest.param(
            {"token": {"secretRef": "OPENAI_API_KEY"}},
            {"token": {"secretRef": "OPENAI_API_KEY"}},
            id="reference",
        ),
        pytest.param({"A": {"secretRef": "hunter2"}}, {"A": {"secretRef": "[redacted]"}}, id="no-reference"),
        pytest.param(
            [{"name": "Authorization", "value": "x"}],
            [{"name": "Authorization", "value": "[redacted]"}],
            id="pair",
        ),
        pytest.param(
            [{"value": "x", "name": "Authorization"}],
            [{"value": "[redacted]", "name": "Authorization"}],
            id="pair-in-the-other-order",
        ),
        pytest.param([{"name": "model", "value": "x"}], [{"name": "model", "value": "x"}], id="other-pair"),
        pytest.param(
            {"properties": {"token": {"type": "string"}}},
            {"properties": {"token": {"type": "string"}}},
            id="schema",
        ),
        pytest.param(json.dumps({"a": SECRET}), '{"a": "[redacted]"}', id="json-in-json"),
    ],
)
def test_secrets_go_value_by_value(value: object, left: object) -> None:
    assert sanitized(value) == left


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1,"a":2,"a":{"b":[]}}',
        f"[{'9' * 6000}, 1e999, -0.0, 1E+2]",
        "[NaN, Infinity, -Infinity]",
        ' {\r\n\t"b" : [ 1 , 2 ] ,\n "a":"\\u00e9\\/\\ud800" } \n',
        '"text"',
        "null",
        "[" * 100_000 + "]" * 100_000,
        '{"":{"":""}}',
    ],
)
def test_json_without_secrets_is_unchanged_to_the_byte(text: str) -> None:
    assert sanitize_json(text.encode(), REDACTOR) == text.encode()


def test_repeated_keys_are_all_kept_and_all_searched() -> None:
    assert sanitize_json(b'{"token":"a","token":"b","n":1e5}', REDACTOR) == (
        b'{"token":"[redacted]","token":"[redacted]","n":1e5}'
    )


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b" ", b"[1,]", b'{"a"}', b'{"a":1,}', b"[1 2]", b"1 2", b"{1:2}", b"[", b"]", b"{]", b"nul"),
        *(
            b'"\\x"',
            b"[01]",
            b'"\xff"',
            b'\xef\xbb\xbf"a"',
            b'{"a" 1}',
            b"[:]",
            b'"a\nb"',
            b"'a'",
            b"[1}",
            b"{}{}",
        ),
    ],
)
def test_what_is_no_json_is_told(content: bytes) -> None:
    assert sanitize_json(content, REDACTOR) is None


def test_of_a_secret_across_several_values_all_of_them_go() -> None:
    redactor = Redactor(['"a": [1, 2]'])

    assert sanitize_json(b'{"a": [1, 2]}', redactor) == b'{"*redacted*": ["*redacted*", "*redacted*"]}'


def test_a_secret_that_is_nothing_but_structure_is_left_to_the_redaction_of_text() -> None:
    redactor = Redactor(["[[[[[["])

    assert sanitize_json(b"[[[[[[]]]]]]", redactor) is None
    assert sanitize_line(b"[[[[[[]]]]]]", redactor) == b"*redacted*]]]]]]"


def test_a_line_that_is_no_json_is_redacted_as_text() -> None:
    assert sanitize_line(f"{{ {KEY}".encode(), REDACTOR) == b"{ [redacted]"


LEAVES = st.one_of(
    *(st.none(), st.booleans(), st.integers(), st.floats(), st.text()),
    st.sampled_from([SECRET, f"x{SECRET}", KEY, int(NUMBER)]),
)
KEYS = st.one_of(
    st.text(max_size=5),
    st.sampled_from(["token", "password", "name", "value", "properties", "secretRef", f"a{SECRET}"]),
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(KEYS, inner, max_size=4)),
    max_leaves=20,
)


def structure(value: object) -> object:
    """Return a value with its texts and numbers blotted out; keys are counted, not compared."""
    if isinstance(value, list):
        return ["list", *map(structure, value)]
    if isinstance(value, Pairs):
        return ["object", *(structure(item) for _, item in value.pairs)]
    return value if value is None or isinstance(value, bool) else "leaf"


class Pairs:
    """An object with all its keys, also those that are equal."""

    def __init__(self, pairs: list[tuple[str, object]]) -> None:
        self.pairs = pairs


@settings(deadline=None, max_examples=200)
@given(TREES, st.sampled_from([None, 2]), st.booleans())
def test_any_json_stays_json_of_the_same_structure(
    value: object, indent: int | None, ascii_only: bool
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode("utf-8", "replace")

    out = sanitize_json(text, REDACTOR)

    assert out is not None
    before, after = (json.loads(one, object_pairs_hook=Pairs) for one in (text, out))
    assert structure(before) == structure(after)
    assert not [form for form in REDACTOR.finder.forms if form in out]


@settings(deadline=None, max_examples=500)
@given(st.text('[]{}:,"a1 \\n-.eE0tru', max_size=12))
def test_what_counts_as_json_is_what_python_reads(text: str) -> None:
    try:
        json.loads(text)
        is_json = True
    except ValueError:
        is_json = False

    assert (sanitize_json(text.encode(), REDACTOR) is not None) == is_json
