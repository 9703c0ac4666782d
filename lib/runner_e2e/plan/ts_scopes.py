"""Which names a TypeScript module declares, where, and what they stand for.

Owns shadowing: a parameter called like an import is not the import.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from tree_sitter import Node

from runner_e2e.plan.ts_syntax import (
    CLASSES,
    FUNCTIONS,
    TYPES,
    children,
    has_token,
    iteration_of,
    names_of,
    string_value,
    text_of,
    unwrap,
)

# More than anybody writes; looking a name up takes time in proportion to it.
MAX_DEPTH = 200

WHOLE = "*"
DEFAULT = "default"
_CLAUSES = frozenset({"import_clause", "import_require_clause"})
# What `var` inside them does not leave.
_LIKE_FUNCTIONS = frozenset({"class_static_block", "internal_module"})
_BLOCKS = frozenset(
    {
        "catch_clause",
        "for_in_statement",
        "for_statement",
        "statement_block",
        "switch_body",
    }
)
# Whether the name of a thing is seen around it, or only inside it.
_NAMED_OUTSIDE = frozenset(
    {
        "abstract_class_declaration",
        "class_declaration",
        "function_declaration",
        "generator_function_declaration",
        "internal_module",
    }
)
_NAMED_INSIDE = frozenset({"class", "function_expression", "generator_function"})

Origin = Literal["declared", "environment", "given", "value"]


class TooDeepError(Exception):
    """Scopes are nested deeper than `MAX_DEPTH`."""


@dataclass(frozen=True, slots=True)
class Binding:
    """What a name stands for.

    `carrier` is a value that it is, or is a part or an element of. `origin` says what else is known:
    `value`, the carrier is its first value; `environment`, it is called or typed so; `declared`, a
    function, class, enumeration or import; `given`, whatever a caller or a pattern gives.
    `imported` is the name of an export of the watched module, `WHOLE` for the module itself.
    """

    carrier: Node | None = None
    origin: Origin = "given"
    imported: str | None = None


@dataclass(slots=True)
class Scope:
    """The names of one block, function or module."""

    parent: "Scope | None" = None
    is_function: bool = True
    depth: int = 0
    names: dict[str, Binding] = field(default_factory=dict)

    def find(self, name: str) -> "tuple[Scope, Binding] | None":
        """Return where `name` is declared, seen from here, and what it stands for."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope, scope.names[name]
            scope = scope.parent
        return None

    def open(self, *, is_function: bool) -> "Scope":
        """Return a scope inside this one."""
        if self.depth == MAX_DEPTH:
            raise TooDeepError
        return Scope(self, is_function, self.depth + 1)

    def function(self) -> "Scope":
        """Return the scope that takes what `var` declares here."""
        scope = self
        while not scope.is_function and scope.parent is not None:
            scope = scope.parent
        return scope


@dataclass(slots=True)
class Scopes:
    """All scopes of a module. `by_node` and `declaring` have the ids of nodes."""

    top: Scope
    by_node: dict[int, Scope]
    declaring: set[int]


def read_scopes(program: Node, watches: Callable[[str], bool]) -> Scopes:
    """Return what a module declares; `watches` says whether an import's source is the watched module.

    Raises `TooDeepError`.
    """
    reader = _ScopeReader(watches)
    stack = [(program, reader.found.top)]
    while stack:
        node, scope = stack.pop()
        if node.type in TYPES or node.type == "comment":
            continue
        inner = reader.enter(node, scope)
        reader.declare(node, scope, inner)
        stack.extend((child, inner) for child in node.named_children)
    reader.finish()
    return reader.found


def is_module(node: Node, watches: Callable[[str], bool]) -> bool:
    """Whether `node`'s value is the watched module: `await import("./m")` or `require("./m")`.

    Without `await` an import is a promise.
    """
    value, awaited = unwrap(node), False
    while value.type == "await_expression":
        value, awaited = unwrap(children(value)[0]), True
    return is_load(value, watches) and (awaited or _callee(value) == "require")


def is_load(node: Node, watches: Callable[[str], bool]) -> bool:
    """Whether `node` is a call of `import` or `require` for the watched module."""
    if node.type != "call_expression" or _callee(node) not in {"import", "require"}:
        return False
    arguments = node.child_by_field_name("arguments")
    first = children(arguments)[:1] if arguments is not None else []
    return bool(first) and watches(string_value(first[0]) or "")


def _callee(call: Node) -> str:
    function = call.child_by_field_name("function")
    return text_of(function) if function is not None and function.type in {"identifier", "import"} else ""


class _ScopeReader:
    def __init__(self, watches: Callable[[str], bool]) -> None:
        self._watches = watches
        self.found = Scopes(Scope(), {}, set())
        self._receivers: set[int] = set()
        self._collections: dict[int, Node] = {}
        self._late: list[tuple[Node, str, Scope]] = []

    def enter(self, node: Node, scope: Scope) -> Scope:
        """Return the scope of what is inside `node`."""
        is_function = node.type in FUNCTIONS or node.type in _LIKE_FUNCTIONS
        named_class = node.type in CLASSES
        if not (is_function or named_class or node.type in _BLOCKS):
            return scope
        inner = self.found.by_node[node.id] = scope.open(is_function=is_function)
        return inner

    def declare(self, node: Node, scope: Scope, inner: Scope) -> None:
        """Enter what `node` itself declares into `scope`, or into the scope `inner` that it opens."""
        match node.type:
            case "import_statement":
                self._declare_imports(node, scope)
            case "lexical_declaration":
                self._declare_variables(node, scope)
            case "variable_declaration":
                self._declare_variables(node, scope.function())
            case kind if kind in _NAMED_OUTSIDE:
                self._declare_name(node, scope)
            case kind if kind in _NAMED_INSIDE:
                self._declare_name(node, inner)
            case "enum_declaration":
                self._declare_enum(node, scope)
            case "import_alias":
                self._bind(children(node)[0], scope, Binding())
            case "for_in_statement":
                self._declare_loop(node, inner)
            case "catch_clause":
                self._bind_pattern(node.child_by_field_name("parameter"), inner)
            case "call_expression":
                self._expect_receiver(node)
        if node.type in FUNCTIONS:
            self._declare_parameters(node, inner)

    def finish(self) -> None:
        """Let `const { x } = m` stand for exports, where `m` turned out to be the watched module."""
        for pattern, name, scope in self._late:
            found = scope.find(name)
            if found is not None and found[1].imported == WHOLE:
                self._bind_pattern(pattern, scope, module=True)

    def _declare_imports(self, statement: Node, scope: Scope) -> None:
        clause = next((child for child in children(statement) if child.type in _CLAUSES), None)
        if clause is None or has_token(statement, "type"):
            return
        source = statement.child_by_field_name("source") or clause.child_by_field_name("source")
        watched = source is not None and self._watches(string_value(source) or "")
        for part in children(clause):
            match part.type:
                case "identifier":
                    whole = clause.type == "import_require_clause"
                    self._import(part, scope, WHOLE if whole else DEFAULT, watched)
                case "namespace_import":
                    self._import(children(part)[0], scope, WHOLE, watched)
                case "named_imports":
                    self._declare_named(part, scope, watched)

    def _declare_named(self, names: Node, scope: Scope, watched: bool) -> None:
        for one in children(names):
            if not has_token(one, "type"):
                name = one.child_by_field_name("name")
                local = one.child_by_field_name("alias") or name
                self._import(local, scope, string_value(name) or text_of(name), watched)

    def _import(self, local: Node | None, scope: Scope, exported: str, watched: bool) -> None:
        if local is not None:
            origin: Origin = "environment" if exported == "env" else "declared"
            self._bind(local, scope, Binding(None, origin, exported if watched else None))

    def _declare_variables(self, statement: Node, scope: Scope) -> None:
        for one in children(statement):
            value = one.child_by_field_name("value")
            pattern = one.child_by_field_name("name")
            module = value is not None and is_module(value, self._watches)
            self._bind_pattern(pattern, scope, module=module, carrier=value, origin="value")
            if pattern is not None and value is not None and unwrap(value).type == "identifier":
                self._late.append((pattern, text_of(unwrap(value)), scope))

    def _declare_enum(self, node: Node, scope: Scope) -> None:
        self._declare_name(node, scope, Binding(node.child_by_field_name("body"), "declared"))

    def _declare_loop(self, node: Node, inner: Scope) -> None:
        kind = node.child_by_field_name("kind")
        if kind is not None:
            target = inner.function() if kind.type == "var" else inner
            right = node.child_by_field_name("right")
            self._bind_pattern(node.child_by_field_name("left"), target, carrier=right)

    def _declare_name(self, node: Node, scope: Scope, binding: Binding | None = None) -> None:
        if name := node.child_by_field_name("name"):
            self._bind(name, scope, binding or Binding(origin="declared"))

    def _declare_parameters(self, function: Node, inner: Scope) -> None:
        parameters = function.child_by_field_name("parameters")
        module, carrier = function.id in self._receivers, self._collections.get(function.id)
        for one in [] if parameters is None else children(parameters):
            typed = "Env" in text_of(one.child_by_field_name("type"))
            self._bind_pattern(
                one.child_by_field_name("pattern"),
                inner,
                module=module,
                carrier=carrier or one.child_by_field_name("value"),
                origin="environment" if typed else "given",
            )
            module, carrier = False, None
        self._bind_pattern(function.child_by_field_name("parameter"), inner, module=module, carrier=carrier)

    def _expect_receiver(self, call: Node) -> None:
        """Remember what `list.map(...)` and `import("./m").then(...)` call, and with what."""
        if (iteration := iteration_of(call)) is not None:
            self._collections[iteration[1].id] = iteration[0]
        function, arguments = call.child_by_field_name("function"), call.child_by_field_name("arguments")
        if function is None or function.type != "member_expression" or arguments is None:
            return
        promise = function.child_by_field_name("object")
        if text_of(function.child_by_field_name("property")) != "then" or promise is None:
            return
        if is_load(unwrap(promise), self._watches):
            self._receivers.update(unwrap(one).id for one in children(arguments)[:1])

    def _bind_pattern(
        self,
        pattern: Node | None,
        scope: Scope,
        *,
        module: bool = False,
        carrier: Node | None = None,
        origin: Origin = "given",
    ) -> None:
        if pattern is None:
            return
        for name in names_of(pattern):
            known: Origin = origin if pattern.type == "identifier" else "given"
            known = "environment" if name.key == "env" else known
            self._bind(name.node, scope, Binding(carrier, known, name.key if module else None))

    def _bind(self, name: Node, scope: Scope, binding: Binding) -> None:
        self.found.declaring.add(name.id)
        scope.names[text_of(name)] = binding
