"""Does a target's source read the selected-id variable? Judged from two files, without running them.

The variable has to be read in code, and the launcher has to do that or use what does. What lies in
further files is not followed: a launcher that gets there through one of those is unsupported.
"""

import posixpath
from collections import defaultdict
from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from runner_e2e.plan.objects import MAX_FILE_BYTES
from runner_e2e.plan.selection import SELECTED_ID
from runner_e2e.plan.transport import Scan
from runner_e2e.plan.ts_module import Module, Piece, read_module
from runner_e2e.plan.ts_scopes import TooDeepError
from runner_e2e.plan.ts_syntax import parse

HARNESS_DIRECTORY = "tests/runner-e2e"
SELECTORS = "selectors.ts"
LAUNCH = "launch.ts"

_SOURCES = frozenset(f"{HARNESS_DIRECTORY}/selectors{suffix}" for suffix in ("", ".js", ".ts"))


def scan(selectors: bytes | None, launch: bytes | None) -> Scan:
    """Return whether the launcher reads the variable; None stands for a file that does not exist.

    Whatever keeps a file from being understood makes the answer unknown.
    """
    modules: list[Module] = []
    for name, source in ((SELECTORS, selectors), (LAUNCH, launch)):
        module = _read(source)
        if isinstance(module, str):
            return Scan("unknown", describe(name, module))
        modules.append(module)
    return _judge(*modules)


def describe(name: str, problem: str) -> str:
    """Return the word for a file's problem, as in `launch-missing`."""
    return f"{name.removesuffix('.ts')}-{problem}"


def _read(source: bytes | None) -> Module | str:
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
        return read_module(program, SELECTED_ID, _is_selectors)
    except TooDeepError:
        return "too-deep"


def _is_selectors(source: str) -> bool:
    relative = source.startswith(("./", "../"))
    return relative and posixpath.normpath(f"{HARNESS_DIRECTORY}/{source}") in _SOURCES


def _judge(selectors: Module, launch: Module) -> Scan:
    consumers = find_consumers(selectors)
    running = list(find_running(launch))
    if any(piece.imports & consumers for piece in running):
        return Scan("supported", "launch-uses-consumer")
    if any(piece.reads for piece in running):
        return Scan("supported", "launch-reads-variable")
    if any(piece.reads or piece.holds for piece in selectors.pieces):
        return Scan("unsupported", "launch-uses-no-consumer")
    return Scan("unsupported", "not-read")


def find_consumers(module: Module) -> AbstractSet[str]:
    """Return the exports that read the variable, by themselves or through other pieces of the module."""
    users: dict[str, list[Piece]] = defaultdict(list)
    for piece in module.pieces:
        for name in piece.uses:
            users[name].append(piece)
    marked: set[str] = set()
    waiting = [piece for piece in module.pieces if piece.reads or piece.holds]
    while waiting:
        piece = waiting.pop()
        for name in (piece.declares | piece.assigns) - marked:
            marked.add(name)
            waiting.extend(users[name])
    return {outer for outer, inner in module.exports.items() if inner in marked}


def find_running(module: Module) -> Iterable[Piece]:
    """Return the pieces that run when the module is loaded or that others may call, and what those use."""
    declaring: dict[str, list[Piece]] = defaultdict(list)
    for piece in module.pieces:
        for name in piece.declares:
            declaring[name].append(piece)
    exported = set(module.exports.values())
    waiting = [piece for piece in module.pieces if piece.eager or piece.declares & exported]
    reached: dict[int, Piece] = {}
    while waiting:
        piece = waiting.pop()
        if id(piece) not in reached:
            reached[id(piece)] = piece
            waiting.extend(other for name in piece.uses for other in declaring[name])
    return reached.values()
