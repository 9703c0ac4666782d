"""Which JSON schemas a matcher takes: those of the draft 2020-12 without references. Pure.

A misspelt keyword would be ignored by the standard, and the matcher would pass with anything. A reference
may lead to itself, and then a hostile document decides how long it takes.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import JsonValue

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_VALUES = frozenset(
    {
        *("$comment", "$schema", "title", "description", "default", "examples"),
        *("type", "enum", "const", "format", "pattern", "minLength", "maxLength"),
        *("multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
        *("minItems", "maxItems", "uniqueItems", "minContains", "maxContains"),
        *("minProperties", "maxProperties", "required", "dependentRequired"),
    }
)
_SCHEMAS = frozenset(
    {
        *("not", "if", "then", "else", "items", "contains", "unevaluatedItems"),
        *("additionalProperties", "propertyNames", "unevaluatedProperties"),
    }
)
_LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_MAPPINGS = frozenset({"properties", "patternProperties", "dependentSchemas"})
_KNOWN = _VALUES | _SCHEMAS | _LISTS | _MAPPINGS
# Without the other one, these mean nothing.
_TOGETHER = (("then", "if"), ("else", "if"), ("minContains", "contains"), ("maxContains", "contains"))


def find_schema_problem(schema: "JsonValue") -> str | None:
    """Return why a schema is not taken, in words that follow `schema`, or nothing.

    Whether the keywords have values of the right kind is the library's to say.
    """
    left: list[JsonValue] = [schema]
    while left:
        part = left.pop()
        if not isinstance(part, dict):
            continue
        if not _KNOWN.issuperset(part):
            return "has a keyword that is not taken: a misspelt one, a reference, or one without effect"
        if part.get("$schema", _DRAFT) != _DRAFT:
            return "is of another draft than 2020-12"
        for name, other in _TOGETHER:
            if name in part and other not in part:
                return f"has {name} without {other}"
        left += _below(part)
    return None


def _below(schema: "dict[str, JsonValue]") -> "Iterator[JsonValue]":
    for keyword, value in schema.items():
        if keyword in _SCHEMAS:
            yield value
        elif keyword in _LISTS and isinstance(value, list):
            yield from value
        elif keyword in _MAPPINGS and isinstance(value, dict):
            yield from value.values()
