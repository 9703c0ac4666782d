"""What is known about one piece of a TypeScript module, and what a reader of it keeps in mind."""

from dataclasses import dataclass, field
from enum import Enum

from tree_sitter import Node

from runner_e2e.plan.ts_scopes import Scope
from runner_e2e.plan.ts_values import Kind


@dataclass(slots=True)
class Piece:
    """One piece of a module; all names are those of its top level.

    `eager` says that it runs when the module is loaded, `holds` that it stores the wanted text for
    others, `reads` that it reads the wanted property, `unclear` that it uses the text in a way that may
    read it. `computes` and `indexes` say that it reads properties that are known only when it runs: of an
    environment, or of something unknown. `lends` says that it hands an environment to a function,
    `joins` that it has parts of the text. `imports` are the exports of the watched module that it uses,
    `loads` says that it loads that module, and `passes` are functions that it calls with the text.
    """

    declares: frozenset[str]
    eager: bool
    holds: bool = False
    reads: bool = False
    unclear: bool = False
    computes: bool = False
    indexes: bool = False
    lends: bool = False
    joins: bool = False
    loads: bool = False
    uses: set[str] = field(default_factory=set)
    assigns: set[str] = field(default_factory=set)
    imports: set[str] = field(default_factory=set)
    passes: set[str] = field(default_factory=set)


class Use(Enum):
    """What becomes of a value."""

    VALUE = "anything"
    IDLE = "nothing"
    STORED = "a binding, whose uses count"
    KEY = "a key to read by"
    SHOWN = "text for people, or a name to write or to ask for"
    CHILD = "the environment of a child process"


@dataclass(frozen=True, slots=True)
class Visit:
    """A node to read. `source` is for a pattern: what it takes its parts from."""

    node: Node
    scope: Scope
    use: Use = Use.VALUE
    source: Kind = Kind.GIVEN
