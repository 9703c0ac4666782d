"""Matchers of JSON files: what counts as a document, one value of it, and its shape."""

from __future__ import annotations

import json
import tracemalloc
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner_e2e.cell.matchers import check_matchers
from runner_e2e.cell.matchers_documents import MOST_BYTES, Document, parse_document
from runner_e2e.errors import InputError
from unit.matching import define, judge, leaves

if TYPE_CHECKING:
    from pydantic import JsonValue

ANSWER = "the-answer-nobody-may-read"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(), below, max_size=3),
    max_leaves=8,
)


def find(content: bytes | str, query: str = "$", equals: JsonValue = ANSWER) -> tuple[bool, str]:
    raw = content.encode() if isinstance(content, str) else content
    result = judge("json_path", {"path": "a.json", "query": query, "equals": equals}, leaves({"a.json": raw}))
    return result.passed, result.detail


def fit(content: str, schema: JsonValue) -> tuple[bool, str]:
    observed = leaves({"a.json": content.encode()})
    result = judge("json_schema", {"path": "a.json", "schema": schema}, observed)
    return result.passed, result.detail


# Documents.


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        pytest.param(b"", "is not JSON from its character 1 on", id="empty"),
        pytest.param(b"{", "is not JSON from its character 2 on", id="cut"),
        pytest.param(b"{'a': 1}", "is not JSON from its character 2 on", id="python"),
        pytest.param(b"[1,]", "is not JSON from its character 4 on", id="comma"),
        pytest.param(b"{} {}", "is not JSON from its character 4 on", id="two"),
        pytest.param(b"\xef\xbb\xbf{}", "is not JSON from its character 1 on", id="mark"),
        pytest.param(b"9" * 5000, "has a number that JSON does not have", id="long-number"),
        pytest.param(b'"\xff"', "is not UTF-8", id="bytes"),
        pytest.param('"é"'.encode("utf-16"), "is not UTF-8", id="other-encoding"),
        pytest.param(b'{"a": 1, "a": 2}', "has a key twice in one object", id="twice"),
        pytest.param(b'{"a": 1, "\\u0061": 2}', "has a key twice in one object", id="twice-escaped"),
        pytest.param(b"[NaN]", "has a number that JSON does not have", id="nan"),
        pytest.param(b"-Infinity", "has a number that JSON does not have", id="infinity"),
        pytest.param(b"1e999", "has a number that JSON does not have", id="overflow"),
        pytest.param(b'["\\ud800"]', "holds half a character", id="half"),
        pytest.param(b'{"\\udc00": 1}', "holds half a character", id="half-key"),
        pytest.param(b"[" * 65 + b"]" * 65, "is nested more than 64 deep", id="deep"),
        pytest.param(b"[" * 1_000_000, "is nested too deeply", id="deeper"),
        pytest.param(b'{"a":' * 200_000, "is nested too deeply", id="deeper-objects"),
    ],
)
def test_what_programs_read_differently_is_no_document(content: bytes, reason: str) -> None:
    assert parse_document(content) == reason
    assert find(content) == (False, f"file {reason}")


@given(JSON)
def test_every_json_value_is_a_document_that_is_equal_to_itself(value: JsonValue) -> None:
    content = json.dumps(value, ensure_ascii=True).encode()

    document = parse_document(content)

    assert isinstance(document, Document)
    assert document.value == value
    assert find(content, "$", value)[0]
    assert fit(content.decode(), {"const": value})[0]


@given(st.binary(max_size=60) | st.text(st.sampled_from('[]{}",:1e-\\u d8'), max_size=30).map(str.encode))
def test_whatever_a_file_holds_there_is_an_answer(content: bytes) -> None:
    assert find(content, "$..a")[1]
    assert judge("json_schema", {"path": "a", "schema": {"type": "array"}}, leaves({"a": content})).detail


@pytest.mark.parametrize(("more", "passed"), [(0, True), (1, False)])
def test_a_file_beyond_the_limit_is_no_document(more: int, passed: bool) -> None:
    content = b"[1]" + b" " * (MOST_BYTES - 3 + more)

    assert find(content, "$[0]", 1)[0] is passed
    assert "larger than 1 MiB" in find(content, "$[0]", 1)[1] or passed


def test_a_file_that_is_not_there_is_told_as_such() -> None:
    schema: dict[str, JsonValue] = {"path": "a.json", "schema": {"type": "null"}}

    assert judge("json_schema", schema, leaves()).detail == "file missing"
    assert (
        judge("json_path", {"path": "b", "query": "$", "equals": 1}, leaves({"a": b"1"})).detail
        == "file missing"
    )


# One value.


@pytest.mark.parametrize(
    ("content", "query", "equals", "passed", "detail"),
    [
        pytest.param(
            '{"a": "b"}', "$.a", "b", True, "the query gives the value: a text of 1 character", id="text"
        ),
        pytest.param(
            '{"a": "B"}', "$.a", "b", False, "the query gives another value: a text of 1 character", id="case"
        ),
        pytest.param('{"a": 1.0}', "$.a", 1, True, "the query gives the value: a number", id="number"),
        pytest.param(
            '{"a": true}',
            "$.a",
            1,
            False,
            "the query gives another value: true or false",
            id="true-is-no-number",
        ),
        pytest.param("[0]", "$[0]", False, False, "the query gives another value: a number", id="zero"),
        pytest.param(
            '{"a": "1"}', "$.a", 1, False, "the query gives another value: a text of 1 character", id="one"
        ),
        pytest.param('{"a": null}', "$.a", None, True, "the query gives the value: null", id="null"),
        pytest.param("{}", "$.a", None, False, "the query gives nothing", id="absent-is-not-null"),
        pytest.param("[1, 1]", "$[*]", 1, False, "the query gives more than one value", id="two"),
        pytest.param("[1, [1]]", "$[1]", [1], True, "the query gives the value: a list of 1 item", id="list"),
        pytest.param(
            "[2, 1]", "$", [1, 2], False, "the query gives another value: a list of 2 items", id="order"
        ),
        pytest.param(
            '{"b": 1, "a": [true]}',
            "$",
            {"a": [True], "b": 1},
            True,
            "the query gives the value: an object of 2 keys",
            id="keys",
        ),
        pytest.param(
            '{"a": [1]}',
            "$",
            {"a": [True]},
            False,
            "the query gives another value: an object of 1 key",
            id="inside",
        ),
        pytest.param(
            '{"a": 1, "b": 2}',
            "$",
            {"a": 1},
            False,
            "the query gives another value: an object of 2 keys",
            id="more",
        ),
        pytest.param('"[1]"', "$[0]", 1, False, "the query gives nothing", id="text-is-no-document"),
        pytest.param(
            '"[1]"', "$", "[1]", True, "the query gives the value: a text of 3 characters", id="root-text"
        ),
        pytest.param(
            '[{"n": "x", "v": 1}, {"n": "y", "v": 2}]',
            "$[?@.n == 'y'].v",
            2,
            True,
            "the query gives the value: a number",
            id="filter",
        ),
        pytest.param(
            '[{"n": true, "v": 1}, {"n": 1, "v": 2}]',
            "$[?@.n == 1].v",
            2,
            True,
            "the query gives the value: a number",
            id="filter-number",
        ),
        pytest.param(
            '[{"n": "abc", "v": 1}]',
            "$[?length(@.n) == 3].v",
            1,
            True,
            "the query gives the value: a number",
            id="length",
        ),
        pytest.param(
            '{"a": {"b": {"c": 1}}}', "$..c", 1, True, "the query gives the value: a number", id="below"
        ),
        pytest.param('{"a": 1}', "$['a']", 1, True, "the query gives the value: a number", id="brackets"),
        pytest.param("[1, 2]", "$[-1]", 2, True, "the query gives the value: a number", id="from-the-end"),
        pytest.param('{"0": 1}', "$[0]", 1, False, "the query gives nothing", id="index-is-no-key"),
    ],
)
def test_a_query_gives_one_value_that_is_the_expected_one(
    content: str, query: str, equals: JsonValue, passed: bool, detail: str
) -> None:
    assert find(content, query, equals) == (passed, detail)


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        pytest.param("", "empty", id="empty"),
        pytest.param(ANSWER, "no JSONPath", id="no-root"),
        pytest.param(f"${ANSWER}", "no JSONPath", id="no-step"),
        pytest.param("$[", "no JSONPath", id="open"),
        pytest.param("$.a ", "no JSONPath", id="blank"),
        pytest.param("$.a | $.b", "no JSONPath", id="union"),
        pytest.param("$[?@ =~ /a/]", "no JSONPath", id="extension"),
        pytest.param("$[99999999999999999999]", "no JSONPath", id="index"),
        pytest.param("$[?" + "(" * 500, "no JSONPath", id="nested"),
        pytest.param("$[?match(@.a, @.b)]", "function other than length", id="pattern-of-the-document"),
        pytest.param("$[?search(@.a, 'b')]", "function other than length", id="search"),
        pytest.param("$[?count(@.*) > 1]", "function other than length", id="count"),
        pytest.param("$..a..b", "more than once", id="descents"),
        pytest.param("$[?@..a]", "more than one value", id="filter-descent"),
        pytest.param("$[?@.*]", "more than one value", id="filter-wildcard"),
        pytest.param("$[?$[0:2]]", "more than one value", id="filter-slice"),
        pytest.param("$[?@[?@.a]]", "more than one value", id="filter-in-filter"),
        pytest.param("$[?!(@.a == 1 && @..b)]", "more than one value", id="filter-inside"),
        pytest.param("$.a\n", "single line", id="line"),
        pytest.param("$." + "a" * 512, "more than 512", id="long"),
    ],
)
def test_a_query_that_is_none_or_could_cost_too_much_is_refused(query: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason) as caught:
        check_matchers([define("json_path", {"path": "a", "query": query, "equals": 1})])

    assert ANSWER not in str(caught.value)


@pytest.mark.parametrize("query", ["$..*.x", "$..[?@.a == -1]", "$[*].a"])
@pytest.mark.parametrize(
    "content",
    [
        pytest.param("[" + ",".join(["0"] * 100_000) + "]", id="flat"),
        pytest.param("[" + ",".join(["[" * 30 + "]" * 30] * 2000) + "]", id="deep"),
    ],
)
def test_the_search_of_a_hostile_document_ends(query: str, content: str) -> None:
    assert find(content, query) == (False, "the query gives nothing")


@pytest.mark.parametrize("query", ["$..*.x", "$..[?@.a == -1]", "$.*.*.a"])
def test_a_search_takes_no_more_memory_when_keys_are_long(query: str) -> None:
    places, key = 5_000, 50_000  # the paths of all places would take 250 million bytes
    content = '{"' + "k" * key + '":[' + ",".join(["{}"] * places) + "]}"

    tracemalloc.start()
    try:
        assert find(content, query) == (False, "the query gives nothing")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 20_000_000


# Its shape.

MODELS: JsonValue = {
    "type": "object",
    "required": ["models", "word"],
    "properties": {
        "models": {"type": "array", "minItems": 1, "items": {"type": "string", "minLength": 1}},
        "word": {"const": ANSWER},
    },
}


@pytest.mark.parametrize(
    ("content", "detail"),
    [
        pytest.param({"models": ["a"], "word": ANSWER}, "fits the schema", id="fits"),
        pytest.param({"models": [], "word": ANSWER}, "at properties/models/minItems", id="none"),
        pytest.param({"models": [""], "word": ANSWER}, "at properties/models/items/minLength", id="empty"),
        pytest.param({"models": "a", "word": ANSWER}, "at properties/models/type", id="no-list"),
        pytest.param({"models": ["a"], "word": ANSWER.upper()}, "at properties/word/const", id="other"),
        pytest.param({"models": ["a"]}, "at required", id="missing"),
        pytest.param([], "at type", id="list"),
    ],
)
def test_a_file_fits_a_schema_or_breaks_it_somewhere(content: JsonValue, detail: str) -> None:
    passed, found = fit(json.dumps(content), MODELS)

    assert passed is (detail == "fits the schema")
    assert found == (detail if passed else f"does not fit the schema {detail}")
    assert ANSWER not in found


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        pytest.param({"format": "date"}, '"2026-01-31"', '"2026-02-31"', id="format"),
        pytest.param({"pattern": "^a+$"}, '"aa"', '"ab"', id="pattern"),
        pytest.param({"type": "integer"}, "1.0", "1.5", id="integer"),
        pytest.param({"const": 1}, "1", "true", id="true-is-no-number"),
        pytest.param({"uniqueItems": True}, "[1, true]", "[1, 1.0]", id="unique"),
        pytest.param({"not": {"type": "string"}}, "1", '"1"', id="not"),
        pytest.param(
            {"additionalProperties": False, "properties": {"a": True}}, '{"a": 1}', '{"b": 1}', id="closed"
        ),
        pytest.param(
            {"properties": {"$ref": {"const": 1}}}, '{"$ref": 1}', '{"$ref": 2}', id="key-like-a-keyword"
        ),
        pytest.param({"minimum": 10**30}, "1" + "0" * 31, "1", id="large"),
        pytest.param(
            {"$schema": "https://json-schema.org/draft/2020-12/schema", "prefixItems": [{"const": 1}]},
            "[1]",
            "[2]",
            id="draft",
        ),
    ],
)
def test_a_schema_holds_as_its_draft_says(schema: JsonValue, good: str, bad: str) -> None:
    assert (fit(good, schema)[0], fit(bad, schema)[0]) == (True, False)


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        pytest.param(True, "no mapping", id="no-mapping"),
        pytest.param({}, "empty", id="takes-anything"),
        pytest.param({"requird": ["a"]}, "keyword that is not taken", id="misspelt"),
        pytest.param(
            {"properties": {"a": {"typ": "string"}}}, "keyword that is not taken", id="misspelt-below"
        ),
        pytest.param(
            {"anyOf": [{"type": "null"}, {"typ": ""}]}, "keyword that is not taken", id="misspelt-in-list"
        ),
        pytest.param({"items": {"not": {ANSWER: 1}}}, "keyword that is not taken", id="misspelt-in-not"),
        pytest.param({"$ref": "#"}, "keyword that is not taken", id="itself"),
        pytest.param({"$ref": "http://127.0.0.1:9/a"}, "keyword that is not taken", id="network"),
        pytest.param({"items": {"$ref": "file:///etc/passwd"}}, "keyword that is not taken", id="file"),
        pytest.param({"$dynamicRef": "#a"}, "keyword that is not taken", id="dynamic"),
        pytest.param({"$schema": "http://json-schema.org/draft-07/schema#"}, "another draft", id="draft"),
        pytest.param({"then": {"type": "null"}}, "then without if", id="then-alone"),
        pytest.param({"minContains": 1}, "minContains without contains", id="contains-alone"),
        pytest.param({"type": ANSWER}, "none of the draft", id="type"),
        pytest.param({"minItems": -1}, "none of the draft", id="negative"),
        pytest.param({"properties": [ANSWER]}, "none of the draft", id="wrong-kind"),
        pytest.param({"items": 1}, "none of the draft", id="no-schema"),
        pytest.param({"anyOf": []}, "none of the draft", id="nothing-of-nothing"),
        pytest.param({"pattern": f"({ANSWER}"}, "none of the draft", id="pattern"),
        pytest.param({"pattern": "(?=a)"}, "none of the draft", id="look-around"),
        pytest.param({"format": ANSWER}, "unknown format", id="format"),
    ],
)
def test_a_schema_that_could_not_be_judged_is_refused(schema: JsonValue, reason: str) -> None:
    with pytest.raises(InputError, match=reason) as caught:
        check_matchers([define("json_schema", {"path": "a", "schema": schema})])

    assert ANSWER not in str(caught.value)


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param({"anyOf": [{"items": {"type": "string"}}, {"contains": {"const": 1}}]}, id="any"),
        pytest.param({"oneOf": [{"items": {"oneOf": [{"type": "null"}, {"const": 1}]}}]}, id="nested"),
        pytest.param({"items": {"pattern": "^(a+)+$", "type": "string"}}, id="pattern"),
    ],
)
def test_of_a_large_document_it_is_not_told_where_it_breaks_a_schema(schema: JsonValue) -> None:
    content = "[" + ",".join(["0"] * 500_000) + "]"

    assert fit(content, schema) == (False, "does not fit the schema")


@given(JSON, JSON)
def test_a_value_equals_another_one_as_a_schema_says(found: JsonValue, expected: JsonValue) -> None:
    content = json.dumps(found)

    assert find(content, "$", expected)[0] is fit(content, {"const": expected})[0]
