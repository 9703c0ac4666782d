"""The modules that a TypeScript module loads, in whatever way it does."""

import re
from collections.abc import Iterator

from tree_sitter import Node

from runner_e2e.plan.ts_syntax import TYPES, children, has_token, name_of, string_value

# A dependency: `name`, `@scope/name`, a path in one, or a module of the runtime.
_PACKAGE = re.compile(r"(?:node:|(?:@[A-Za-z0-9_][\w.-]*/))?[A-Za-z0-9_][\w.-]*(?:/.*)?")
_LOADERS = frozenset({"import", "require"})


def is_package(source: str) -> bool:
    """Whether an import's source is a dependency: no path, alias or address."""
    return _PACKAGE.fullmatch(source) is not None


def find_sources(program: Node) -> Iterator[str | None]:
    """Yield the source of every import and re-export that is not for types only.

    None for one that only running code could tell.
    """
    stack = [program]
    while stack:
        node = stack.pop()
        if node.type in TYPES:
            continue
        stack.extend(node.named_children)
        if node.type == "call_expression":
            function, arguments = node.child_by_field_name("function"), node.child_by_field_name("arguments")
            if function is not None and arguments is not None and name_of(function) in _LOADERS:
                yield string_value(next(iter(children(arguments)), None))
        elif node.type == "import_require_clause":
            yield string_value(node.child_by_field_name("source"))
        elif node.type in {"import_statement", "export_statement"} and not has_token(node, "type"):
            source = node.child_by_field_name("source")
            if source is not None:
                yield string_value(source)


def loads_on_its_own(statement: Node) -> str | None:
    """Return the source of a statement that loads a module without use of a name, None for another."""
    is_import = statement.type == "import_statement"
    named = is_import and any(
        child.type in {"import_clause", "import_require_clause"} for child in children(statement)
    )
    if (
        named
        or statement.type not in {"import_statement", "export_statement"}
        or has_token(statement, "type")
    ):
        return None
    return string_value(statement.child_by_field_name("source"))
