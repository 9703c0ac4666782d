"""Does a target's source read the selected-id variable? Judged from two files, without running them.

The variable has to be read in code, and the launcher has to do that or use what does. What lies in
further files of the target is not followed, and neither is a name that only running code knows: where
the reader may be there, the answer is unknown.
"""

import posixpath
from collections import defaultdict
from collections.abc import Set as AbstractSet

from runner_e2e.plan.objects import MAX_FILE_BYTES
from runner_e2e.plan.selection import SELECTED_ID
from runner_e2e.plan.transport import Scan
from runner_e2e.plan.ts_imports import is_package
from runner_e2e.plan.ts_module import Module, read_module
from runner_e2e.plan.ts_piece import Piece
from runner_e2e.plan.ts_scopes import TooDeepError
from runner_e2e.plan.ts_syntax import parse

HARNESS_DIRECTORY = "tests/runner-e2e"
SELECTORS = "selectors.ts"
LAUNCH = "launch.ts"

_SUFFIXES = ("", ".js", ".mjs", ".mts", ".ts")


def scan(selectors: bytes | None, launch: bytes | None) -> Scan:
    """Return whether the launcher reads the variable; None stands for a file that does not exist.

    Whatever keeps a file from being understood makes the answer unknown.
    """
    first = _read(selectors, frozenset())
    if isinstance(first, str):
        return Scan("unknown", describe(SELECTORS, first))
    second = _read(launch, first.held)
    if isinstance(second, str):
        return Scan("unknown", describe(LAUNCH, second))
    return _judge(first, second)


def describe(name: str, problem: str) -> str:
    """Return the word for a file's problem, as in `launch-missing`."""
    return f"{name.removesuffix('.ts')}-{problem}"


def _read(source: bytes | None, held: AbstractSet[str]) -> Module | str:
    if source is None:
        return "missing"
    if len(source) > MAX_FILE_BYTES:
        return "too-large"
    try:
        source.decode("utf-8")
    except UnicodeDecodeError:
        return "not-utf8"
    program = parse(source)
    if program is None:
        return "syntax-error"
    try:
        return read_module(program, SELECTED_ID, _is_selectors, held)
    except TooDeepError:
        return "too-deep"


def _is_selectors(source: str) -> bool:
    return is_harness_file(source, SELECTORS)


def is_harness_file(source: str, name: str) -> bool:
    """Whether an import's source, seen from the harness directory, is this file of it."""
    relative = source.startswith(("./", "../"))
    stem = f"{HARNESS_DIRECTORY}/{name.removesuffix('.ts')}"
    path = posixpath.normpath(f"{HARNESS_DIRECTORY}/{source}")
    return relative and path in {stem + suffix for suffix in _SUFFIXES}


def _judge(selectors: Module, launch: Module) -> Scan:
    consumers = find_consumers(selectors)
    running = find_running(launch)
    if any(piece.imports & consumers for piece in running):
        return Scan("supported", "launch-uses-consumer")
    if any(piece.reads for piece in running):
        return Scan("supported", "launch-reads-variable")
    is_loaded = launch.loads or any(piece.loads or piece.imports for piece in running)
    if is_loaded and any(piece.reads for piece in find_running(selectors, exports=False)):
        return Scan("supported", "launch-loads-reader")
    doubt = find_doubt(selectors, launch)
    return Scan("unsupported", "not-read") if doubt is None else Scan("unknown", doubt)


def find_doubt(selectors: Module, launch: Module) -> str | None:
    """Return the word for what may read the variable without being seen to; None when nothing may."""
    pieces = [*selectors.pieces, *launch.pieces]
    if selectors.held or any(piece.reads for piece in pieces):
        return "launch-uses-no-consumer"
    if any(piece.unclear for piece in pieces):
        return "name-used-otherwise"
    if any(piece.joins for piece in pieces):
        return "name-in-parts"
    computed = any(piece.computes for piece in pieces)
    if computed or (any(piece.lends for piece in pieces) and any(piece.indexes for piece in pieces)):
        return "computed-name"
    followed = all(_is_followed(source) for source in selectors.sources | launch.sources)
    return None if followed else "import-not-followed"


def _is_followed(source: str | None) -> bool:
    if source is None:
        return False
    return is_package(source) or is_harness_file(source, SELECTORS) or is_harness_file(source, LAUNCH)


def find_consumers(module: Module) -> AbstractSet[str]:
    """Return the exports that read the variable, by themselves or through other pieces of the module."""
    users: dict[str, list[Piece]] = defaultdict(list)
    for piece in module.pieces:
        for name in piece.uses:
            users[name].append(piece)
    marked: set[str] = set()
    waiting = [piece for piece in module.pieces if piece.reads]
    while waiting:
        piece = waiting.pop()
        for name in (piece.declares | piece.assigns) - marked:
            marked.add(name)
            waiting.extend(users[name])
    return {outer for outer, inner in module.exports.items() if inner in marked}


def find_running(module: Module, *, exports: bool = True) -> list[Piece]:
    """Return the pieces that run when the module is loaded, and what those use.

    With `exports` also those that others may call.
    """
    declaring: dict[str, list[Piece]] = defaultdict(list)
    for piece in module.pieces:
        for name in piece.declares:
            declaring[name].append(piece)
    exported = set(module.exports.values()) if exports else set()
    waiting = [piece for piece in module.pieces if piece.eager or piece.declares & exported]
    reached: dict[int, Piece] = {}
    while waiting:
        piece = waiting.pop()
        if id(piece) not in reached:
            reached[id(piece)] = piece
            waiting.extend(other for name in piece.uses for other in declaring[name])
    return list(reached.values())
