"""Reads what one piece of a TypeScript module does with the wanted text, with names and environments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner_e2e.plan.ts_piece import Piece, Use, Visit
from runner_e2e.plan.ts_scopes import WHOLE, Scopes, is_load
from runner_e2e.plan.ts_syntax import (
    PATTERNS,
    TYPES,
    children,
    has_token,
    is_wrapper,
    iteration_of,
    key_of,
    name_of,
    names_of,
    property_of,
    string_value,
    text_of,
    unwrap,
    wrapped,
)
from runner_e2e.plan.ts_values import Kind, Values, collected_by, is_quiet

if TYPE_CHECKING:
    from collections.abc import Callable

    from tree_sitter import Node

ASSIGNED_EXPORT = "export="
# Shorter parts of the name, such as `_ID`, are in every program.
_LEAST_PART = 8
_PROPERTIES = ("enum_assignment", "method_definition", "pair", "public_field_definition")


class PieceReader:
    """Enters into one piece what its nodes do; never recurses with their nesting."""

    def __init__(self, scopes: Scopes, values: Values, piece: Piece) -> None:
        self._scopes = scopes
        self._values = values
        self._piece = piece
        self._stack: list[Visit] = []
        self._readers: dict[str, Callable[[Visit], None]] = {
            "array": self._read_container,
            "assignment_expression": self._read_assignment,
            "augmented_assignment_expression": self._read_update,
            "binary_expression": self._read_binary,
            "call_expression": self._read_call,
            "enum_body": self._read_container,
            "expression_statement": self._read_statement,
            "for_in_statement": self._read_loop,
            "identifier": self._read_name,
            "member_expression": self._read_member,
            "new_expression": self._read_call,
            "object": self._read_container,
            "shorthand_property_identifier": self._read_name,
            "string": self._read_text,
            "subscript_expression": self._read_subscript,
            "template_string": self._read_text,
            "template_substitution": self._read_shown,
            "ternary_expression": self._read_ternary,
            "unary_expression": self._read_unary,
            "update_expression": self._read_update,
            "variable_declarator": self._read_variable,
            **dict.fromkeys(PATTERNS, self._read_pattern),
            **dict.fromkeys(_PROPERTIES, self._read_property),
        }

    def read(self, node: Node) -> None:
        """Enter into the piece what `node` and everything inside it does."""
        whole = Use.STORED if self._piece.declares else Use.VALUE
        self._stack.append(Visit(node, self._scopes.top, whole))
        while self._stack:
            visit = self._stack.pop()
            if visit.node.type in TYPES:
                continue
            scope = self._scopes.by_node.get(visit.node.id, visit.scope)
            visit = Visit(visit.node, scope, visit.use, visit.source)
            if is_wrapper(visit.node):
                self._push(visit, wrapped(visit.node), visit.use)
            else:
                self._readers.get(visit.node.type, self._push_all)(visit)

    def _push(self, visit: Visit, node: Node | None, use: Use = Use.VALUE) -> None:
        if node is not None:
            self._stack.append(Visit(node, visit.scope, use))

    def _push_all(self, visit: Visit, use: Use = Use.VALUE) -> None:
        for child in children(visit.node):
            self._push(visit, child, use)

    def _use_text(self, use: Use) -> None:
        self._piece.reads |= use is Use.KEY
        self._piece.unclear |= use in {Use.VALUE, Use.CHILD}

    def _read_text(self, visit: Visit) -> None:
        value = string_value(visit.node)
        if value == self._values.wanted:
            self._use_text(visit.use)
        elif visit.use not in {Use.IDLE, Use.SHOWN}:
            parts = [text_of(part) for part in children(visit.node) if part.type == "string_fragment"]
            self._piece.joins |= any(
                len(part) >= _LEAST_PART and part in self._values.wanted for part in parts
            )
        self._read_shown(visit)

    def _read_shown(self, visit: Visit) -> None:
        self._push_all(visit, Use.SHOWN if visit.use is Use.SHOWN else Use.VALUE)

    def _read_name(self, visit: Visit) -> None:
        name = text_of(visit.node)
        found = visit.scope.find(name)
        if found is None or visit.use is Use.IDLE or visit.node.id in self._scopes.declaring:
            return
        scope, binding = found
        if self._values.carries(visit.node, visit.scope):
            self._use_text(visit.use)
        if binding.imported is not None:
            self._piece.imports.add(ASSIGNED_EXPORT if binding.imported == WHOLE else binding.imported)
        if scope is self._scopes.top:
            self._piece.uses.add(name)

    def _read_member(self, visit: Visit) -> None:
        self._read_access(visit, text_of(visit.node.child_by_field_name("property")))

    def _read_subscript(self, visit: Visit) -> None:
        index, whole = visit.node.child_by_field_name("index"), visit.node.child_by_field_name("object")
        name = string_value(index)
        if index is not None and whole is not None and name is None:
            kind = self._values.kind_of(whole, visit.scope)
            is_read = visit.use is not Use.IDLE and kind is not Kind.OTHER
            if is_read and not self._values.carries(index, visit.scope):
                self._read_computed(kind, index)
            self._push(visit, index, Use.KEY if is_read else Use.SHOWN)
        self._read_access(visit, name or "")

    def _read_computed(self, kind: Kind, index: Node) -> None:
        if index.type != "number":
            self._piece.computes |= kind is Kind.ENVIRONMENT
            self._piece.indexes |= kind is not Kind.ENVIRONMENT

    def _read_access(self, visit: Visit, name: str) -> None:
        """Read `object.name`; on the watched module that is a use of its export."""
        whole, is_idle = visit.node.child_by_field_name("object"), visit.use is Use.IDLE
        if whole is None:
            return
        if self._values.is_module(whole, visit.scope):
            if not is_idle:
                self._piece.imports.add(name)
                self._piece.loads = True
                if name in self._values.held:
                    self._use_text(visit.use)
            return
        kind = Kind.OTHER
        if name == self._values.wanted and not is_idle:
            kind = self._values.kind_of(whole, visit.scope)
            self._read_property_of(kind)
        plain = is_idle or (name == self._values.wanted and kind is Kind.OTHER)
        self._push(visit, whole, Use.SHOWN if plain else visit.use)

    def _read_property_of(self, kind: Kind) -> None:
        """Enter a read of the wanted property of an object of this kind."""
        self._piece.reads |= kind in {Kind.ENVIRONMENT, Kind.GIVEN}
        self._piece.unclear |= kind is Kind.UNSURE

    def _read_call(self, visit: Visit) -> None:
        node = visit.node
        function = node.child_by_field_name("function") or node.child_by_field_name("constructor")
        arguments = node.child_by_field_name("arguments")
        self._piece.loads |= is_load(node, self._values.watches)
        if function is None or arguments is None or arguments.type != "arguments":
            self._push_all(visit)
            return
        iteration = iteration_of(node)
        if iteration is not None:
            gives = name_of(function.child_by_field_name("property")) in {"filter", "find"}
            is_used = gives and visit.use is not Use.IDLE
            self._push(visit, iteration[0], Use.VALUE if is_used else Use.STORED)
        else:
            self._push(visit, function)
        use = self._use_of_arguments(visit, function)
        for one in children(arguments):
            self._push(visit, one, self._pass(visit, function, one) if use is Use.VALUE else use)

    def _use_of_arguments(self, visit: Visit, function: Node) -> Use:
        """Return what a called function does with its arguments, as far as its name tells."""
        if is_quiet(function):
            return Use.SHOWN
        if collected_by(visit.node) is not None:
            return visit.use if visit.use in {Use.STORED, Use.KEY} else Use.VALUE
        if not self._values.is_lent(visit.node, function, visit.scope):
            return Use.VALUE
        self._piece.lends = True
        return Use.KEY if name_of(function.child_by_field_name("property")) == "get" else Use.VALUE

    def _pass(self, visit: Visit, function: Node, argument: Node) -> Use:
        """Return the use of an argument, and enter a function of the module that is given the text."""
        found = visit.scope.find(text_of(function)) if function.type == "identifier" else None
        is_own = found is not None and found[0] is self._scopes.top and found[1].imported is None
        value = unwrap(argument)
        is_text = value.type in {"identifier", "string", "template_string"}
        if not (is_own and is_text and self._values.carries(value, visit.scope)):
            return Use.VALUE
        self._piece.passes.add(text_of(function))
        return Use.SHOWN

    def _read_binary(self, visit: Visit) -> None:
        left, right = visit.node.child_by_field_name("left"), visit.node.child_by_field_name("right")
        is_key = visit.use is Use.KEY and (has_token(visit.node, "??") or has_token(visit.node, "||"))
        use = visit.use if is_key or visit.use is Use.SHOWN else Use.VALUE
        self._push(visit, left, Use.SHOWN if has_token(visit.node, "in") else use)
        self._push(visit, right, use)

    def _read_ternary(self, visit: Visit) -> None:
        condition = visit.node.child_by_field_name("condition")
        for child in children(visit.node):
            is_value = child != condition and visit.use in {Use.KEY, Use.SHOWN}
            self._push(visit, child, visit.use if is_value else Use.VALUE)

    def _read_statement(self, visit: Visit) -> None:
        self._push_all(visit, Use.IDLE)

    def _read_unary(self, visit: Visit) -> None:
        is_idle = any(has_token(visit.node, token) for token in ("delete", "typeof", "void"))
        self._push_all(visit, Use.IDLE if is_idle else Use.VALUE)

    def _read_update(self, visit: Visit) -> None:
        left = visit.node.child_by_field_name("left") or visit.node.child_by_field_name("argument")
        self._assign(left, visit)
        self._push_all(visit)

    def _read_container(self, visit: Visit) -> None:
        use = Use.STORED if visit.use is Use.STORED or visit.node.type == "enum_body" else Use.VALUE
        if visit.node.type == "object":
            spreads = [part for part in children(visit.node) if part.type == "spread_element"]
            is_child = visit.use is Use.CHILD or (
                bool(spreads) and self._values.kind_of(visit.node, visit.scope) is Kind.ENVIRONMENT
            )
            use = Use.CHILD if is_child else use
        self._push_all(visit, use)

    def _read_loop(self, visit: Visit) -> None:
        right = visit.node.child_by_field_name("right")
        for child in children(visit.node):
            self._push(visit, child, Use.STORED if child == right else Use.VALUE)

    def _read_variable(self, visit: Visit) -> None:
        pattern = visit.node.child_by_field_name("name")
        value = visit.node.child_by_field_name("value")
        self._assign(pattern, visit, value)
        self._push(visit, value, Use.STORED)

    def _read_assignment(self, visit: Visit) -> None:
        """Read what an assignment evaluates; its target is written, not read."""
        target = visit.node.child_by_field_name("left")
        value = visit.node.child_by_field_name("right")
        self._push(visit, value)
        if target is None:
            return
        target = unwrap(target)
        self._assign(target, visit, value)
        if target.type in {"member_expression", "subscript_expression"}:
            self._push(visit, target.child_by_field_name("object"))
            self._push(visit, target.child_by_field_name("index"), Use.SHOWN)

    def _assign(self, target: Node | None, visit: Visit, value: Node | None = None) -> None:
        """Enter the top-level names that a pattern gives values to, and read its keys and defaults."""
        if target is None:
            return
        for name in names_of(target):
            found = visit.scope.find(text_of(name.node))
            if found is not None and found[0] is self._scopes.top:
                self._piece.assigns.add(text_of(name.node))
        if target.type in PATTERNS:
            source = Kind.GIVEN if value is None else self._values.kind_of(value, visit.scope)
            self._stack.append(Visit(target, visit.scope, source=source))

    def _read_pattern(self, visit: Visit) -> None:
        """Read the keys and defaults of a pattern; the names in it are written."""
        for part in children(visit.node):
            if visit.node.type == "object_pattern" and property_of(part) == self._values.wanted:
                dropped = name_of(part.child_by_field_name("value")).startswith("_")
                self._read_property_of(Kind.UNSURE if dropped else visit.source)
            is_default = part == visit.node.child_by_field_name("right")
            if part.type == "pair_pattern":
                self._stack.append(Visit(part, visit.scope, source=visit.source))
            elif is_default or part.type in PATTERNS:
                self._push(visit, part)
            elif part.type == "computed_property_name":
                self._read_computed_part(visit, children(part)[0])

    def _read_computed_part(self, visit: Visit, key: Node) -> None:
        is_plain = string_value(key) is not None
        if not is_plain and not self._values.carries(key, visit.scope):
            self._read_computed(visit.source, key)
        self._push(visit, key, Use.SHOWN if is_plain or visit.source is Kind.OTHER else Use.KEY)

    def _read_property(self, visit: Visit) -> None:
        """Read the value of a property, and a key that others may look for."""
        key = visit.node.child_by_field_name("key") or visit.node.child_by_field_name("name")
        name = key_of(key) if key is not None else None
        stored = visit.use if visit.use is Use.STORED else Use.VALUE
        is_environment = visit.node.type == "pair" and name == "env"
        for child in children(visit.node):
            if child != key:
                self._push(visit, child, Use.CHILD if is_environment else stored)
        computed = children(key)[0] if key is not None and key.type == "computed_property_name" else None
        if visit.node.type == "pair" and visit.use is not Use.CHILD:
            is_wanted = name == self._values.wanted and visit.use is not Use.STORED
            by_name = computed is not None and name is None and self._values.carries(computed, visit.scope)
            self._piece.unclear |= is_wanted or (by_name and visit.use is not Use.STORED)
        self._push(visit, computed, Use.SHOWN)
