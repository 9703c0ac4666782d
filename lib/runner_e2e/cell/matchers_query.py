"""JSONPath queries (RFC 9535) whose cost grows with the document and not faster. Pure.

Left out is what would make it grow faster, or let the document decide how it is searched: more than one
`..`, filters that look at more than one value at a time, and the functions but `length`.
"""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from jsonpath import JSONPath, JSONPathEnvironment, JSONPathError, JSONPathMatch, function_extensions
from jsonpath.filter import BaseExpression, FilterQuery
from jsonpath.segments import JSONPathRecursiveDescentSegment
from jsonpath.selectors import Filter

if TYPE_CHECKING:
    from pydantic import JsonValue


class QueryError(ValueError):
    """A query cannot be used; says why in words that follow `query`, and quotes nothing of it."""


@dataclass(frozen=True, slots=True)
class Query:
    """A query that is ready to be asked."""

    text: str
    compiled: JSONPath = field(compare=False, repr=False)

    def find(self, document: "JsonValue", most: int) -> "list[JsonValue]":
        """Return the first values that the query gives, in the document's order, and at most so many."""
        if not isinstance(document, (dict, list)):
            # The library takes a text for a document of its own.
            return [document] if self.compiled.empty() else []
        nodes: Iterable[JSONPathMatch] = [_begin(document)]
        for segment in self.compiled.segments:
            nodes = segment.resolve(nodes)
        return [node.obj for node in itertools.islice(nodes, most)]  # type: ignore[misc]  # parts of a JSON value


class _Node(JSONPathMatch):
    """A place in a document that knows neither its path nor its children.

    A path is as long as its keys: hostile ones would take gigabytes.
    """

    __slots__ = ()

    def add_child(self, *children: JSONPathMatch) -> None:
        """Forget a child."""

    def new_child(self, obj: object, key: int | str) -> JSONPathMatch:  # noqa: ARG002 - as the library has it
        """Return a place below this one."""
        return _Node(
            filter_context=self.filter_context(), obj=obj, parent=None, parts=(), path="", root=self.root
        )


def _begin(document: "dict[str, JsonValue] | list[JsonValue]") -> _Node:
    return _Node(filter_context={}, obj=document, parent=None, parts=(), path="", root=document)


class _Environment(JSONPathEnvironment):
    def setup_function_extensions(self) -> None:
        """Leave out `match` and `search`, whose pattern may come from the document, `count` and `value`."""
        self.function_extensions["length"] = function_extensions.Length()


_ENVIRONMENT = _Environment(strict=True)


def compile_query(text: str) -> Query:
    """Return a query; raises QueryError for what is none, or could cost too much."""
    try:
        compiled = _ENVIRONMENT.compile(text)
    except (JSONPathError, RecursionError):
        # Not chained: the original quotes the query.
        raise QueryError("is no JSONPath of RFC 9535, or uses a function other than length") from None
    if not isinstance(compiled, JSONPath):
        raise QueryError("is more than one JSONPath")
    descents = sum(isinstance(segment, JSONPathRecursiveDescentSegment) for segment in compiled.segments)
    if descents > 1:
        raise QueryError("has .. more than once")
    if not all(inner.path.singular_query() for inner in _inner_queries(compiled)):
        raise QueryError("has a filter that looks at more than one value: no .., *, slice or filter in it")
    return Query(text, compiled)


def _inner_queries(query: JSONPath) -> Iterator[FilterQuery]:
    left: list[BaseExpression] = [
        selector.expression
        for segment in query.segments
        for selector in segment.selectors
        if isinstance(selector, Filter)
    ]
    while left:
        expression = left.pop()
        if isinstance(expression, FilterQuery):
            yield expression
        left += expression.children()
