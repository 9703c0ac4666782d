"""A TypeScript module as pieces: what each one reads, uses and gives, and what the module exports.

A piece is a top-level declaration, one variable of it, or a statement. Types are left out; what a
function does counts for its whole piece.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from tree_sitter import Node

from runner_e2e.plan.ts_imports import find_sources, loads_on_its_own
from runner_e2e.plan.ts_piece import Piece
from runner_e2e.plan.ts_reader import ASSIGNED_EXPORT, PieceReader
from runner_e2e.plan.ts_scopes import Scope, read_scopes
from runner_e2e.plan.ts_syntax import (
    CLASSES,
    FUNCTIONS,
    children,
    has_token,
    is_lazy,
    names_of,
    string_value,
    text_of,
)
from runner_e2e.plan.ts_values import Values

DEFAULT_PIECE = "*default*"  # no identifier: the value of `export default`


@dataclass(frozen=True, slots=True)
class Module:
    """The pieces of a module, and its exports: outer name to the name at its top level.

    `held` are the outer names of what has the wanted text. `sources` are the sources of its imports,
    None for one that is made when it runs. `loads` says that a statement of its loads the watched module
    for no name in it.
    """

    pieces: tuple[Piece, ...]
    exports: Mapping[str, str]
    held: frozenset[str]
    sources: frozenset[str | None]
    loads: bool


def read_module(
    program: Node, wanted: str, watches: Callable[[str], bool], held: AbstractSet[str] = frozenset()
) -> Module:
    """Return the pieces of a program that has no syntax error.

    `wanted` is the property to look for; `watches` says whether the source of an import is the module
    whose exports count, and `held` which of those have the wanted text. Raises `TooDeepError`.
    """
    scopes = read_scopes(program, watches)
    values = Values(wanted, watches, held)
    exports: dict[str, str] = {}
    pieces = []
    for statement in children(program):
        for node, declares, eager in _cut(statement, exports):
            piece = Piece(frozenset(declares), eager, _holds(node, declares, scopes.top, values))
            PieceReader(scopes, values, piece).read(node)
            pieces.append(piece)
    _settle_passes(pieces)
    holding = {name for piece in pieces if piece.holds for name in piece.declares}
    return Module(
        tuple(pieces),
        exports,
        frozenset(outer for outer, inner in exports.items() if inner in holding),
        frozenset(find_sources(program)),
        any(watches(loads_on_its_own(statement) or "") for statement in children(program)),
    )


def _holds(node: Node, declares: Iterable[str], top: Scope, values: Values) -> bool:
    if declares == {DEFAULT_PIECE}:
        return values.carries(node, top)
    carriers = (top.names[name].carrier for name in declares if name in top.names)
    return any(carrier is not None and values.carries(carrier, top) for carrier in carriers)


def _settle_passes(pieces: Iterable[Piece]) -> None:
    """Decide on the pieces that hand the wanted text to a function of the module: does that look it up?"""
    called: dict[str, list[Piece]] = defaultdict(list)
    for piece in pieces:
        for name in piece.declares:
            called[name].append(piece)
    for piece in pieces:
        for name in piece.passes:
            looks_up = any(one.computes or (one.indexes and piece.lends) for one in called[name])
            piece.reads |= looks_up
            piece.unclear |= not looks_up


def _cut(statement: Node, exports: dict[str, str]) -> Iterator[tuple[Node, set[str], bool]]:
    """Yield the pieces of a statement as node, declared names, eagerness; enter what it exports."""
    if statement.type == "import_statement":
        return
    if statement.type != "export_statement":
        yield from _cut_declaration(statement)
        return
    declaration = statement.child_by_field_name("declaration")
    value = statement.child_by_field_name("value")
    if declaration is not None:
        for node, declares, eager in _cut_declaration(declaration):
            default = has_token(statement, "default")
            exports.update({"default" if default else name: name for name in declares})
            yield node, declares, eager
    elif value is not None:
        exports["default"] = DEFAULT_PIECE
        yield value, {DEFAULT_PIECE}, True
    elif has_token(statement, "="):
        value = children(statement)[-1]
        exports.update({"default": DEFAULT_PIECE, ASSIGNED_EXPORT: DEFAULT_PIECE})
        yield value, {DEFAULT_PIECE}, True
    elif statement.child_by_field_name("source") is None and not has_token(statement, "type"):
        exports.update(_read_clause(statement))


def _read_clause(statement: Node) -> Iterator[tuple[str, str]]:
    for clause in children(statement):
        for one in children(clause) if clause.type == "export_clause" else []:
            if not has_token(one, "type"):
                name = one.child_by_field_name("name")
                alias = one.child_by_field_name("alias") or name
                yield string_value(alias) or text_of(alias), text_of(name)


def _cut_declaration(node: Node) -> Iterator[tuple[Node, set[str], bool]]:
    inner = children(node)[0] if node.type == "expression_statement" else node
    if node.type in {"lexical_declaration", "variable_declaration"}:
        for one in children(node):
            pattern = one.child_by_field_name("name")
            names = {text_of(name.node) for name in names_of(pattern)} if pattern is not None else set()
            yield one, names, not is_lazy(one.child_by_field_name("value"))
    elif inner.type in FUNCTIONS | CLASSES | {"enum_declaration", "internal_module"}:
        yield inner, {text_of(inner.child_by_field_name("name"))}, False
    elif inner.type == "import_alias":
        yield inner, {text_of(children(inner)[0])}, True
    else:
        yield node, set(), True
