"""What a value in a TypeScript module may be: the wanted text, a process environment, something else."""

import re
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from enum import Enum
from typing import Literal

from tree_sitter import Node

from runner_e2e.plan.ts_scopes import WHOLE, Binding, Scope, is_module
from runner_e2e.plan.ts_syntax import (
    CLASSES,
    FUNCTIONS,
    children,
    key_of,
    name_of,
    parts_of,
    string_value,
    text_of,
    unwrap,
)

# Names are followed no further: each step costs time, and sources are hostile.
MAX_STEPS = 20

_ENVIRONMENT_NAME = re.compile(r"(?:^|_)env(?:$|[_A-Z])|Env(?:$|[_A-Z])|(?:^|_)ENV(?:$|_)")
_NO_ENVIRONMENT = (
    FUNCTIONS
    | CLASSES
    | {"array", "enum_body", "false", "null", "number", "regex", "string", "template_string", "true"}
)
_ACCESSES = frozenset({"member_expression", "subscript_expression"})
_NAMES = frozenset({"identifier", "shorthand_property_identifier"})
_CHOICES = frozenset({"await_expression", "binary_expression", "ternary_expression"})
# Calls that ask for a name, or remove it, and give no value of it.
_PRESENCE = frozenset({"deleteProperty", "has", "hasOwn", "hasOwnProperty"})
_COLLECTORS = frozenset({"entries", "keys", "values"})


class Kind(Enum):
    """What an object is: `GIVEN` may be anything, `UNSURE` comes from code that is not followed."""

    ENVIRONMENT = "environment"
    GIVEN = "given"
    UNSURE = "unsure"
    OTHER = "other"


class Values:
    """Answers about the values of one module.

    `wanted` is the text, `watches` says whether an import's source is the watched module, and `held`
    are the exports of that module that have the text.
    """

    def __init__(self, wanted: str, watches: Callable[[str], bool], held: AbstractSet[str]) -> None:
        self.wanted = wanted
        self.watches = watches
        self.held = held
        self._parts: dict[int, tuple[bool, list[Node]]] = {}
        self._carrying: dict[int, bool] = {}
        self._kinds: dict[int, Kind] = {}

    def carries(self, node: Node, scope: Scope) -> bool:
        """Whether a value is the wanted text, or has it as a key or value, or is taken from what has it."""
        found = scope.find(text_of(node)) if node.type in _NAMES else None
        if found is None:
            return self._find_text(node, scope)
        known = id(found[1])
        if known not in self._carrying:
            self._carrying[known] = self._find_text(node, scope)
        return self._carrying[known]

    def _find_text(self, node: Node, scope: Scope) -> bool:
        waiting = [(node, scope)]
        for _ in range(MAX_STEPS):
            if not waiting:
                break
            node, scope = waiting.pop()
            found = self._follow(unwrap(node), scope)
            if isinstance(found, bool):
                return found
            waiting.extend(found)
        return False

    def _follow(self, value: Node, scope: Scope) -> list[tuple[Node, Scope]] | Literal[True]:
        """Return what a value is taken from; True when it has the text itself."""
        if value.type in _ACCESSES:
            source = value.child_by_field_name("object")
            if source is not None and self.is_module(source, scope):
                return self._name_of_access(value) in self.held or []
        elif value.type == "call_expression":
            source = collected_by(value)
        elif value.type in _NAMES:
            found = scope.find(text_of(value))
            if found is not None and found[1].imported in self.held:
                return True
            scope, source = (scope, None) if found is None else (found[0], found[1].carrier)
        else:
            holds, names = self._look_into(value)
            return holds or [(name, scope) for name in names]
        return [] if source is None else [(source, scope)]

    def _look_into(self, value: Node) -> tuple[bool, list[Node]]:
        """Return whether a literal has the wanted text in it, and the names in it."""
        if value.id not in self._parts:
            parts = list(parts_of(value))
            plain = {"property_identifier", "string", "template_string"}
            holds = any(part.type in plain and key_of(part) == self.wanted for part in parts)
            self._parts[value.id] = (holds, [part for part in parts if part.type in _NAMES])
        return self._parts[value.id]

    def is_module(self, node: Node, scope: Scope) -> bool:
        """Whether a value is the watched module."""
        value = unwrap(node)
        if value.type == "identifier":
            found = scope.find(text_of(value))
            return found is not None and found[1].imported == WHOLE
        return is_module(value, self.watches)

    def kind_of(self, node: Node, scope: Scope) -> Kind:
        """Return what an object is, an environment if any part that it may be or is made from is one."""
        found = scope.find(text_of(node)) if node.type == "identifier" else None
        if found is None:
            return self._find_kind(node, scope)
        known = id(found[1])
        if known not in self._kinds:
            self._kinds[known] = self._find_kind(node, scope)
        return self._kinds[known]

    def _find_kind(self, node: Node, scope: Scope) -> Kind:
        kinds: set[Kind] = set()
        stack = [(node, scope)]
        for _ in range(MAX_STEPS):
            if not stack:
                break
            node, scope = stack.pop()
            kind = self._read_kind(unwrap(node), scope, stack)
            if kind is Kind.ENVIRONMENT:
                return kind
            kinds |= {kind} if kind is not None else set()
        if stack or Kind.UNSURE in kinds:
            return Kind.UNSURE
        return Kind.OTHER if kinds == {Kind.OTHER} else Kind.GIVEN

    def _read_kind(self, value: Node, scope: Scope, stack: list[tuple[Node, Scope]]) -> Kind | None:
        """Return what is known of a value itself, and add to the stack what its kind depends on."""
        if value.type in _NO_ENVIRONMENT:
            return Kind.OTHER
        if value.type in _ACCESSES:
            return Kind.ENVIRONMENT if self._name_of_access(value) == "env" else Kind.UNSURE
        if value.type == "identifier":
            return self._read_binding(text_of(value), scope.find(text_of(value)), stack)
        parts, kind = _parts_of(value)
        stack.extend((part, scope) for part in parts)
        return kind

    def is_lent(self, call: Node, function: Node, scope: Scope) -> bool:
        """Whether a called function gets an environment, or is one's own. What a call gives is none."""
        arguments = call.child_by_field_name("arguments")
        parts = [function.child_by_field_name("object"), *(children(arguments) if arguments else [])]
        plain = [part for part in parts if part is not None and part.type != "call_expression"]
        return any(self.kind_of(part, scope) is Kind.ENVIRONMENT for part in plain)

    def _read_binding(
        self, name: str, found: tuple[Scope, Binding] | None, stack: list[tuple[Node, Scope]]
    ) -> Kind | None:
        if found is None:
            return Kind.ENVIRONMENT if _ENVIRONMENT_NAME.search(name) else Kind.GIVEN
        scope, binding = found
        if binding.origin == "value" and binding.carrier is not None:
            stack.append((binding.carrier, scope))
            is_literal = unwrap(binding.carrier).type in _NO_ENVIRONMENT | {"object"}
            return None if is_literal or not _ENVIRONMENT_NAME.search(name) else Kind.ENVIRONMENT
        if binding.origin == "environment" or _ENVIRONMENT_NAME.search(name):
            return Kind.ENVIRONMENT
        if binding.carrier is not None and binding.origin == "given":
            stack.append((binding.carrier, scope))
        return Kind.OTHER if binding.origin == "declared" else Kind.GIVEN

    def _name_of_access(self, access: Node) -> str | None:
        if access.type == "subscript_expression":
            return string_value(access.child_by_field_name("index"))
        return text_of(access.child_by_field_name("property"))


def _parts_of(value: Node) -> tuple[list[Node], Kind | None]:
    """Return what the kind of a value depends on, and what it is apart from that."""
    if value.type in _CHOICES:
        return children(value), None
    if value.type == "object":
        spreads = [part for part in children(value) if part.type == "spread_element"]
        return [part for spread in spreads for part in children(spread)], Kind.OTHER
    arguments = value.child_by_field_name("arguments")
    return children(arguments) if arguments is not None else [], Kind.UNSURE


def collected_by(call: Node) -> Node | None:
    """Return the object of `Object.keys(object)` and the like, None for other calls."""
    function, arguments = call.child_by_field_name("function"), call.child_by_field_name("arguments")
    if function is None or function.type != "member_expression" or arguments is None:
        return None
    is_collector = name_of(function.child_by_field_name("property")) in _COLLECTORS
    if name_of(function.child_by_field_name("object")) != "Object" or not is_collector:
        return None
    return next(iter(children(arguments)), None)


def is_quiet(function: Node) -> bool:
    """Whether a called function only shows its arguments, or asks for a name without its value."""
    whole = function.child_by_field_name("object")
    name = name_of(function if whole is None else function.child_by_field_name("property"))
    return name_of(whole) == "console" or name in _PRESENCE or name.endswith("Error")
