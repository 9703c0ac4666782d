"""Matchers of a JSON file in an agent's workspace: one value of it, or its shape. Pure.

The file is hostile: what is large, deep, or JSON that programs read differently, is no document, and
what a query or a schema may say is limited so that the work grows with the file and not faster.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from jsonschema_rs import Draft202012Validator, RegexOptions, ValidationError

from runner_e2e.cell.matchers_files import Thing
from runner_e2e.cell.matchers_observed import Condition, Judgement, Observed, count, show
from runner_e2e.cell.matchers_parameters import DEEPEST, Kind, Parameters
from runner_e2e.cell.matchers_query import Query, QueryError, compile_query
from runner_e2e.cell.matchers_schema import find_schema_problem
from runner_e2e.strict_json import StrictJsonError, parse_strict

if TYPE_CHECKING:
    from pydantic import JsonValue

MOST_BYTES = 1 << 20
_MOST_VALUES = 2  # of which there has to be one
_LONGEST_PLACE = 200
_MOST_EXPLAINED_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class JsonValueIs:
    """A query in a JSON file gives one value, and that is equal to the expected one.

    Numbers are equal by their value (1 and 1.0), and true is no number.
    """

    path: str
    query: Query
    equals: "JsonValue"

    def judge(self, observed: Observed) -> Judgement:
        """Return whether the query gives the value, or what kind of thing it gives."""
        document = _read_document(self.path, observed)
        if isinstance(document, Judgement):
            return document
        found = self.query.find(document.value, _MOST_VALUES)
        if not found:
            return Judgement(passed=False, detail="the query gives nothing")
        if len(found) > 1:
            return Judgement(passed=False, detail="the query gives more than one value")
        same = _is_equal(found[0], self.equals)
        return Judgement(same, f"the query gives {'the' if same else 'another'} value: {_kind(found[0])}")


@dataclass(frozen=True, slots=True)
class JsonFits:
    """A JSON file fits a schema of the draft 2020-12; a `format` in it has to hold, too."""

    path: str
    validator: Draft202012Validator = field(compare=False, repr=False)

    def judge(self, observed: Observed) -> Judgement:
        """Return whether the file fits, or which part of the schema it breaks first."""
        document = _read_document(self.path, observed)
        if isinstance(document, Judgement):
            return document
        if self.validator.is_valid(document.value):
            return Judgement(passed=True, detail="fits the schema")
        return Judgement(passed=False, detail=f"does not fit the schema{self._place(document)}")

    def _place(self, document: "Document") -> str:
        """Return where the schema is broken; of a large file it would take long to tell."""
        if document.size <= _MOST_EXPLAINED_BYTES:
            try:
                self.validator.validate(document.value)
            except ValidationError as error:
                place = "/".join(show(str(step)) for step in error.schema_path)
                return f" at {place[-_LONGEST_PLACE:]}"
        return ""


@dataclass(frozen=True, slots=True)
class Document:
    """A value that a JSON file of so many bytes holds."""

    value: "JsonValue"
    size: int


def parse_document(content: bytes) -> Document | str:
    """Return what a JSON file holds, or why it is no document: in words that quote nothing of it."""
    try:
        value = cast("JsonValue", parse_strict(content))
    except StrictJsonError as error:
        return str(error)
    return _find_unusable(value) or Document(value, len(content))


def _read_document(path: str, observed: Observed) -> Document | Judgement:
    found = Thing("file", path).read(observed, MOST_BYTES)
    if isinstance(found, Judgement):
        return found
    if not found.is_whole:
        return Judgement(passed=False, detail=f"file is larger than {MOST_BYTES >> 20} MiB")
    document = parse_document(found.data)
    return Judgement(passed=False, detail=f"file {document}") if isinstance(document, str) else document


def _find_unusable(value: "JsonValue") -> str | None:
    level: list[JsonValue] = [value]
    for _ in range(DEEPEST):
        below: list[JsonValue] = []
        for item in level:
            if isinstance(item, dict):
                below += item
                below += item.values()
            elif isinstance(item, list):
                below += item
            elif isinstance(item, str) and not item.isascii() and _is_broken(item):
                return "holds half a character"
        if not below:
            return None
        level = below
    return f"is nested more than {DEEPEST} deep"


def _is_broken(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _is_equal(found: "JsonValue", expected: "JsonValue") -> bool:
    if isinstance(found, dict) and isinstance(expected, dict):
        return found.keys() == expected.keys() and all(_is_equal(found[key], expected[key]) for key in found)
    if isinstance(found, list) and isinstance(expected, list):
        return len(found) == len(expected) and all(map(_is_equal, found, expected))
    return isinstance(found, bool) == isinstance(expected, bool) and found == expected


def _kind(value: "JsonValue") -> str:
    """Return what a value is, without the value."""
    if isinstance(value, str):
        return f"a text of {count(len(value), 'character')}"
    if isinstance(value, list):
        return f"a list of {count(len(value), 'item')}"
    if isinstance(value, dict):
        return f"an object of {count(len(value), 'key')}"
    if value is None:
        return "null"
    return "true or false" if isinstance(value, bool) else "a number"


def _read_query(given: Parameters) -> Condition:
    text = given.name("query")
    try:
        query = compile_query(text)
    except QueryError as error:
        raise given.refuse(f"query {error}") from None
    return JsonValueIs(given.path("path"), query, given.value("equals"))


def _read_schema(given: Parameters) -> Condition:
    schema = given.mapping("schema")
    problem = find_schema_problem(schema)
    if problem is not None:
        raise given.refuse(f"schema {problem}")
    try:
        validator = Draft202012Validator(
            schema,
            # In linear time, and without look-around.
            pattern_options=RegexOptions(),
            offline=True,
            validate_formats=True,
            ignore_unknown_formats=False,
            mask="a value",
        )
    except ValueError:
        # Not chained: the original quotes the schema.
        raise given.refuse("schema is none of the draft 2020-12, or has an unknown format") from None
    return JsonFits(given.path("path"), validator)


KINDS = {
    "json_path": Kind(("path", "query", "equals"), _read_query),
    "json_schema": Kind(("path", "schema"), _read_schema),
}
