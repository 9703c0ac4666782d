"""TypeScript source as a syntax tree, and the few questions that a reader of it asks.

Nothing of the source runs. Sources are hostile: no function here recurses with their nesting.
"""

import threading
from collections.abc import Iterator
from dataclasses import dataclass

import tree_sitter_typescript
from tree_sitter import Language, Node, Parser

# The parser itself recurses with nesting: a megabyte of it needs about 90 MB of stack, and a stack that
# overflows ends the process.
_STACK_BYTES = 256 * 1024 * 1024
_BOM = b"\xef\xbb\xbf"

# Nodes that say something about types only: the compiler drops them.
TYPES = frozenset(
    {
        "abstract_method_signature",
        "adding_type_annotation",
        "ambient_declaration",
        "asserts_annotation",
        "extends_type_clause",
        "function_signature",
        "implements_clause",
        "index_signature",
        "interface_declaration",
        "method_signature",
        "omitting_type_annotation",
        "opting_type_annotation",
        "type_alias_declaration",
        "type_annotation",
        "type_arguments",
        "type_parameters",
        "type_predicate_annotation",
    }
)
FUNCTIONS = frozenset(
    {
        "arrow_function",
        "function_declaration",
        "function_expression",
        "generator_function",
        "generator_function_declaration",
        "method_definition",
    }
)
PATTERNS = frozenset(
    {
        "array_pattern",
        "assignment_pattern",
        "object_assignment_pattern",
        "object_pattern",
        "pair_pattern",
        "rest_pattern",
    }
)
CLASSES = frozenset({"abstract_class_declaration", "class", "class_declaration"})
# Around a value these change nothing at run time.
_WRAPPERS = frozenset(
    {
        "as_expression",
        "non_null_expression",
        "parenthesized_expression",
        "satisfies_expression",
        "type_assertion",
    }
)
_ITERATIONS = frozenset({"every", "filter", "find", "flatMap", "forEach", "map", "some"})
_LITERALS = frozenset({"array", "object"})


@dataclass(frozen=True, slots=True)
class PatternName:
    """A name that a pattern gives a value to.

    `key` is the property of the whole value that it takes: `*` for the value itself or the rest of it,
    None when it lies deeper.
    """

    node: Node
    key: str | None


def parse(source: bytes) -> Node | None:
    """Return the program, None when the source has a syntax error."""
    source = source.removeprefix(_BOM)
    results: list[Node] = []

    def work() -> None:
        parser = Parser(Language(tree_sitter_typescript.language_typescript()))
        results.append(parser.parse(source).root_node)

    before = threading.stack_size(_STACK_BYTES)
    try:
        thread = threading.Thread(target=work, name="typescript-parser")
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    return None if results[0].has_error else results[0]


def children(node: Node) -> list[Node]:
    """Return the named children without comments."""
    return [child for child in node.named_children if child.type != "comment"]


def text_of(node: Node | None) -> str:
    """Return a node's source text, empty for no node."""
    return "" if node is None or node.text is None else node.text.decode("utf-8", "replace")


def name_of(node: Node | None) -> str:
    """Return the text of a plain name, empty for no node and for anything that can be long."""
    is_name = node is not None and node.type in {"identifier", "import", "property_identifier"}
    return text_of(node) if is_name else ""


def string_value(node: Node | None) -> str | None:
    """Return the text of a string or of a template that only has text.

    None for any other node, and for one with escapes.
    """
    if node is None or node.type not in {"string", "template_string"}:
        return None
    parts = children(node)
    if len(parts) > 1 or any(part.type != "string_fragment" for part in parts):
        return None
    return text_of(parts[0]) if parts else ""


def has_token(node: Node, token: str) -> bool:
    """Whether a keyword or sign stands directly in the node."""
    return any(child.type == token for child in node.children)


def is_wrapper(node: Node) -> bool:
    """Whether the node stands for the value inside it: parentheses, `as`, `satisfies`, `!`, `<T>`."""
    return node.type in _WRAPPERS


def wrapped(node: Node) -> Node:
    """Return the value inside a wrapper."""
    parts = children(node)
    return parts[-1] if node.type == "type_assertion" else parts[0]


def unwrap(node: Node) -> Node:
    """Return the value inside all wrappers."""
    while is_wrapper(node):
        node = wrapped(node)
    return node


def key_of(node: Node) -> str | None:
    """Return the name of a property, None when it is computed."""
    if node.type == "computed_property_name":
        return string_value(children(node)[0])
    return string_value(node) if node.type in {"string", "template_string"} else text_of(node)


def is_lazy(value: Node | None) -> bool:
    """Whether a variable's first value runs no code when it is made."""
    if value is None:
        return True
    kind = unwrap(value).type
    return kind in FUNCTIONS or kind in CLASSES or kind in _LITERALS


def parts_of(value: Node) -> Iterator[Node]:
    """Yield the keys and values in a literal collection, however deep; for another value the value itself."""
    stack = [value]
    while stack:
        node = unwrap(stack.pop())
        if node.type in {"array", "enum_body", "object"}:
            stack.extend(child for child in children(node) if child.type != "spread_element")
        elif node.type in {"enum_assignment", "pair"}:
            inner, key = node.child_by_field_name("value"), node.child_by_field_name("key")
            stack.extend([inner] if inner is not None else [])
            if key is not None:
                yield children(key)[0] if key.type == "computed_property_name" else key
        else:
            yield node


def names_of(pattern: Node) -> Iterator[PatternName]:
    """Yield the names in the target of a declaration, parameter or assignment."""
    stack: list[tuple[Node, str | None, bool]] = [(pattern, "*", True)]
    while stack:
        node, key, outermost = stack.pop()
        match node.type:
            case "identifier" | "shorthand_property_identifier_pattern":
                yield PatternName(node, key)
            case "object_pattern":
                for child in children(node):
                    key = property_of(child) if outermost else None
                    stack.append((child, key if _is_flat(child) else None, False))
            case "array_pattern":
                stack.extend((child, None, False) for child in children(node))
            case "pair_pattern":
                if value := node.child_by_field_name("value"):
                    stack.append((value, key, False))
            case "assignment_pattern" | "object_assignment_pattern":
                if left := node.child_by_field_name("left"):
                    stack.append((left, key, outermost))
            case "rest_pattern":
                stack.extend((child, key, False) for child in children(node))


def property_of(part: Node) -> str | None:
    """Return the property that a part of an object pattern takes: `*` for the rest, None when computed."""
    match part.type:
        case "shorthand_property_identifier_pattern":
            return text_of(part)
        case "object_assignment_pattern":
            return text_of(part.child_by_field_name("left"))
        case "pair_pattern":
            key = part.child_by_field_name("key")
            return None if key is None else key_of(key)
        case "rest_pattern":
            return "*"
    return None


def _is_flat(part: Node) -> bool:
    value = part.child_by_field_name("value")
    return value is None or value.type not in {"object_pattern", "array_pattern"}


def iteration_of(call: Node) -> tuple[Node, Node] | None:
    """Return the collection and the function of `collection.forEach(function)` and the like."""
    function, arguments = call.child_by_field_name("function"), call.child_by_field_name("arguments")
    first = children(arguments)[:1] if arguments is not None else []
    if function is None or function.type != "member_expression" or not first:
        return None
    collection, callback = function.child_by_field_name("object"), unwrap(first[0])
    is_iteration = name_of(function.child_by_field_name("property")) in _ITERATIONS
    if collection is None or not is_iteration or callback.type not in FUNCTIONS:
        return None
    return collection, callback
