"""A TypeScript module as pieces: what each one reads, uses and gives, and what the module exports.

A piece is a top-level declaration, one variable of it, or a statement. Types are left out; what a
function does counts for its whole piece.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from tree_sitter import Node

from runner_e2e.plan.ts_scopes import WHOLE, Scope, Scopes, is_module, read_scopes
from runner_e2e.plan.ts_syntax import (
    CLASSES,
    FUNCTIONS,
    TYPES,
    children,
    has_token,
    is_lazy,
    is_string,
    is_wrapper,
    names_of,
    property_of,
    string_value,
    text_of,
    unwrap,
    wrapped,
)

DEFAULT_PIECE = "*default*"  # no identifier: the value of `export default`
ASSIGNED_EXPORT = "export="
_PATTERNS = frozenset(
    {
        "array_pattern",
        "assignment_pattern",
        "object_assignment_pattern",
        "object_pattern",
        "pair_pattern",
        "rest_pattern",
    }
)


@dataclass(slots=True)
class Piece:
    """One piece of a module; all names are those of its top level.

    `eager` says that it runs when the module is loaded, `reads` that it reads the wanted property or
    uses the wanted text, `holds` that it stores the text for others. `imports` are the exports of the
    watched module that it uses.
    """

    declares: frozenset[str]
    eager: bool
    holds: bool = False
    reads: bool = False
    uses: set[str] = field(default_factory=set)
    assigns: set[str] = field(default_factory=set)
    imports: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Module:
    """The pieces of a module, and its exports: outer name to the name at its top level."""

    pieces: tuple[Piece, ...]
    exports: Mapping[str, str]


def read_module(program: Node, wanted: str, watches: Callable[[str], bool]) -> Module:
    """Return the pieces of a program that has no syntax error.

    `wanted` is the property to look for; `watches` says whether the source of an import is the module
    whose exports count. Raises `TooDeepError`.
    """
    scopes = read_scopes(program, wanted, watches)
    exports: dict[str, str] = {}
    pieces = []
    for statement in children(program):
        for node, declares, eager in _cut(statement, exports):
            holds = any(scopes.top.names[name].holds for name in declares if name in scopes.top.names)
            piece = Piece(frozenset(declares), eager, holds)
            _PieceReader(scopes, wanted, watches, piece).read(node)
            pieces.append(piece)
    return Module(tuple(pieces), exports)


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


@dataclass(frozen=True, slots=True)
class _Visit:
    """A node to read. `idle`: its value goes nowhere. `stored`: its value lands in a binding."""

    node: Node
    scope: Scope
    idle: bool = False
    stored: bool = False


class _PieceReader:
    def __init__(self, scopes: Scopes, wanted: str, watches: Callable[[str], bool], piece: Piece) -> None:
        self._scopes = scopes
        self._wanted = wanted
        self._watches = watches
        self._piece = piece
        self._stack: list[_Visit] = []
        properties = ("enum_assignment", "method_definition", "pair", "public_field_definition")
        self._readers: dict[str, Callable[[_Visit], None]] = {
            "array": self._read_container,
            "assignment_expression": self._read_assignment,
            "augmented_assignment_expression": self._read_update,
            "enum_body": self._read_container,
            "expression_statement": self._read_statement,
            "identifier": self._read_name,
            "member_expression": self._read_member,
            "object": self._read_container,
            "shorthand_property_identifier": self._read_name,
            "string": self._read_text,
            "subscript_expression": self._read_subscript,
            "unary_expression": self._read_unary,
            "update_expression": self._read_update,
            "variable_declarator": self._read_variable,
            **dict.fromkeys(_PATTERNS, self._read_pattern),
            **dict.fromkeys(properties, self._read_property),
        }

    def read(self, node: Node) -> None:
        """Enter into the piece what `node` and everything inside it does."""
        self._stack.append(_Visit(node, self._scopes.top))
        while self._stack:
            visit = self._stack.pop()
            if visit.node.type in TYPES:
                continue
            scope = self._scopes.by_node.get(visit.node.id, visit.scope)
            self._read_node(_Visit(visit.node, scope, visit.idle, visit.stored))

    def _read_node(self, visit: _Visit) -> None:
        if is_wrapper(visit.node):
            self._push(visit, wrapped(visit.node), idle=visit.idle, stored=visit.stored)
        else:
            self._readers.get(visit.node.type, self._push_all)(visit)

    def _read_text(self, visit: _Visit) -> None:
        unused = visit.idle or visit.stored
        self._piece.reads |= string_value(visit.node) == self._wanted and not unused

    def _read_member(self, visit: _Visit) -> None:
        self._read_access(visit, text_of(visit.node.child_by_field_name("property")))

    def _read_container(self, visit: _Visit) -> None:
        self._push_all(visit, stored=visit.stored or visit.node.type == "enum_body")

    def _read_statement(self, visit: _Visit) -> None:
        self._push_all(visit, idle=True)

    def _read_unary(self, visit: _Visit) -> None:
        self._push_all(visit, idle=has_token(visit.node, "void") or has_token(visit.node, "typeof"))

    def _read_update(self, visit: _Visit) -> None:
        left = visit.node.child_by_field_name("left") or visit.node.child_by_field_name("argument")
        self._assign(left, visit)
        self._push_all(visit)

    def _push(self, visit: _Visit, node: Node | None, *, idle: bool = False, stored: bool = False) -> None:
        if node is not None:
            self._stack.append(_Visit(node, visit.scope, idle, stored))

    def _push_all(self, visit: _Visit, *, idle: bool = False, stored: bool = False) -> None:
        for child in children(visit.node):
            self._push(visit, child, idle=idle, stored=stored)

    def _read_name(self, visit: _Visit) -> None:
        name = text_of(visit.node)
        found = visit.scope.find(name)
        if found is None or visit.idle or visit.node.id in self._scopes.declaring:
            return
        scope, binding = found
        self._piece.reads |= binding.holds
        if binding.imported is not None:
            self._piece.imports.add(ASSIGNED_EXPORT if binding.imported == WHOLE else binding.imported)
        if scope is self._scopes.top:
            self._piece.uses.add(name)

    def _read_access(self, visit: _Visit, name: str) -> None:
        """Read `object.name`; on the watched module that is a use of its export."""
        whole = visit.node.child_by_field_name("object")
        self._piece.reads |= name == self._wanted
        if whole is None or not self._is_module(whole, visit.scope):
            self._push(visit, whole)
        elif not visit.idle:
            self._piece.imports.add(name)

    def _read_subscript(self, visit: _Visit) -> None:
        index = visit.node.child_by_field_name("index")
        name = string_value(index)
        if index is not None and index.type == "template_string":
            parts = [part for part in children(index) if part.type != "template_substitution"]
            name = text_of(index)[1:-1] if len(parts) == index.named_child_count else None
        if name is None:
            self._push(visit, index)
        self._read_access(visit, name or "")

    def _is_module(self, node: Node, scope: Scope) -> bool:
        value = unwrap(node)
        if value.type == "identifier":
            found = scope.find(text_of(value))
            return found is not None and found[1].imported == WHOLE
        return is_module(value, self._watches)

    def _read_variable(self, visit: _Visit) -> None:
        pattern = visit.node.child_by_field_name("name")
        value = visit.node.child_by_field_name("value")
        self._assign(pattern, visit)
        self._push(visit, value, stored=pattern is not None and pattern.type == "identifier")

    def _read_assignment(self, visit: _Visit) -> None:
        """Read what an assignment evaluates; its target is written, not read."""
        target = visit.node.child_by_field_name("left")
        self._push(visit, visit.node.child_by_field_name("right"))
        if target is None:
            return
        target = unwrap(target)
        self._assign(target, visit)
        if target.type in {"member_expression", "subscript_expression"}:
            self._push(visit, target.child_by_field_name("object"))
            self._push_computed(visit, target.child_by_field_name("index"))

    def _assign(self, target: Node | None, visit: _Visit) -> None:
        """Enter the top-level names that a pattern gives values to, and read its keys and defaults."""
        if target is None:
            return
        for name in names_of(target):
            found = visit.scope.find(text_of(name.node))
            if found is not None and found[0] is self._scopes.top:
                self._piece.assigns.add(text_of(name.node))
        if target.type in _PATTERNS:
            self._push(visit, target)

    def _read_pattern(self, visit: _Visit) -> None:
        """Read the keys and defaults of a pattern; the names in it are written."""
        for part in children(visit.node):
            if visit.node.type == "object_pattern":
                self._piece.reads |= property_of(part) == self._wanted
            is_default = part == visit.node.child_by_field_name("right")
            if is_default or part.type in _PATTERNS:
                self._push(visit, part)
            elif part.type == "computed_property_name":
                self._push_all(_Visit(part, visit.scope))

    def _read_property(self, visit: _Visit) -> None:
        """Read the value of a property; a key is only a name, unless it is computed."""
        key = visit.node.child_by_field_name("key") or visit.node.child_by_field_name("name")
        for child in children(visit.node):
            if child != key:
                self._push(visit, child, stored=visit.stored)
        if key is not None and key.type == "computed_property_name":
            self._push_computed(visit, children(key)[0])

    def _push_computed(self, visit: _Visit, key: Node | None) -> None:
        """Read the expression of a key under which something is written; a plain one reads nothing."""
        if key is not None and not is_string(key) and key.type != "identifier":
            self._push(visit, key)
