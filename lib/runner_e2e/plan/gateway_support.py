"""Does a target's harness read where the spending gateway is? Judged from its source, without running it.

Without a read of the variable the gateway's token would be sent to the provider, which refuses it: a wrong
answer costs a cell, and never lets one spend past its limit.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from runner_e2e.errors import InputError
from runner_e2e.isolation.variables import GATEWAY_BASE_URL
from runner_e2e.plan.marker import HARNESS_DIRECTORY, is_harness_file
from runner_e2e.plan.objects import Found, Kind, Listing, ObjectSource, find_listing, judge_entry, read_file
from runner_e2e.plan.transport import Scan, ScannedFile
from runner_e2e.plan.ts_module import Module, read_module
from runner_e2e.plan.ts_scopes import TooDeepError
from runner_e2e.plan.ts_syntax import parse

MOST_FILES = 200
MOST_BYTES = 16_000_000
# Understanding dense code takes seconds for each megabyte.
MOST_PARSED = 80
MOST_PARSED_BYTES = 2_000_000

_WANTED = GATEWAY_BASE_URL.encode()
# Declarations run nothing, and unit tests are not the harness.
_SOURCE = re.compile(r"(?!.*\.(?:d|test)\.ts$).+\.ts", re.DOTALL)
_NOT_COUNTED = frozenset({Kind.DIRECTORY, Kind.IRREGULAR, Kind.SUBMODULE, Kind.SYMLINK})


@dataclass(slots=True)
class _Sources:
    """The harness's files as far as they could be read. `problems` are words for what could not."""

    files: dict[str, ScannedFile] = field(default_factory=dict)
    texts: dict[str, bytes] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def find_gateway_support(source: ObjectSource, sha: str) -> Scan:
    """Return whether code of the harness at commit `sha` reads the base URL of a gateway.

    Only regular files directly in the harness directory count. Unknown: what could not be read, or names
    the variable in another way, may read it.
    """
    listing = find_listing(source, sha, HARNESS_DIRECTORY)
    if isinstance(listing, Found):
        missing = listing.kind is Kind.MISSING
        return Scan("unsupported" if missing else "unknown", f"directory-{listing.kind}")
    sources = _read_sources(source, listing)
    result = _judge(sources)
    return Scan(
        result.result, result.reason, tuple(sources.files[name] for name in _find_naming(sources.texts))
    )


def require_gateway(support: Scan) -> None:
    """Refuse a spending limit that nothing would hold; only for cells that have one. Raises InputError."""
    if support.result == "supported":
        return
    problem = "does not read" if support.result == "unsupported" else "is not known to read"
    raise InputError(
        f"max-cost-usd and max-requests cannot be kept: the target's harness {problem} "
        f"{GATEWAY_BASE_URL} ({support.reason})",
        "Leave both out, or name a target whose harness sends its requests there",
    )


def _read_sources(source: ObjectSource, listing: Listing) -> _Sources:
    sources = _Sources(problems=[] if listing.complete else ["files-unlisted"])
    size = 0
    names = sorted(name for name in listing.entries if _SOURCE.fullmatch(name))
    if len(names) > MOST_FILES:
        sources.problems.append("too-many-files")
    for name in names[:MOST_FILES]:
        found = judge_entry(listing, name, f"{HARNESS_DIRECTORY}/{name}")
        if found.kind in _NOT_COUNTED or found.entry is None:
            continue
        content = read_file(source, found)
        if isinstance(content, Kind):
            sources.problems.append(f"file-{content}")
            continue
        size += len(content)
        if size > MOST_BYTES:
            sources.problems.append("too-much-text")
            break
        sources.texts[name] = content
        sources.files[name] = ScannedFile(found.path, found.entry.sha, len(content))
    return sources


def _find_naming(texts: Mapping[str, bytes]) -> list[str]:
    return [name for name, text in texts.items() if _WANTED in text]


def _judge(sources: _Sources) -> Scan:
    reader = _Reader()
    naming = _find_naming(sources.texts)
    modules: dict[str, Module] = {}
    for name in naming:
        module = reader.read(sources.texts[name], _watch_nothing, frozenset())
        if module is not None and _reads(module):
            return Scan("supported", "reads-variable")
        if module is not None:
            modules[name] = module
    for holder, text in _find_importers(modules, sources.texts):
        module = reader.read(text, _watch(holder), modules[holder].held)
        if module is not None and _reads(module):
            return Scan("supported", "reads-imported-name")
    for problem in (*sources.problems, *reader.problems):
        return Scan("unknown", problem)
    if any(_may_read(module) for module in modules.values()):
        return Scan("unknown", "name-used-otherwise")
    return Scan("unsupported", "not-read" if naming else "not-named")


def _find_importers(modules: Mapping[str, Module], texts: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
    """Yield each file that exports the name, with each other file that mentions that file."""
    for holder in (name for name, module in modules.items() if module.held):
        stem = holder.removesuffix(".ts").encode()
        for name, text in texts.items():
            if name != holder and stem in text:
                yield holder, text


def _watch_nothing(_source: str) -> bool:
    return False


def _watch(holder: str) -> Callable[[str], bool]:
    return lambda source: is_harness_file(source, holder)


class _Reader:
    """Reads files as modules, within bounds; `problems` are words for what was not understood."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self._files_left = MOST_PARSED
        self._bytes_left = MOST_PARSED_BYTES

    def read(self, text: bytes, watches: Callable[[str], bool], held: AbstractSet[str]) -> Module | None:
        """Return a file's module, None if it is not understood."""
        if not self._files_left or len(text) > self._bytes_left:
            self._note("too-much-text")
            return None
        self._files_left -= 1
        self._bytes_left -= len(text)
        try:
            text.decode("utf-8")
            program = parse(text)
            if program is not None:
                return read_module(program, GATEWAY_BASE_URL, watches, held)
            self._note("syntax-error")
        except UnicodeDecodeError:
            self._note("not-utf8")
        except TooDeepError:
            self._note("too-deep")
        return None

    def _note(self, problem: str) -> None:
        if problem not in self.problems:
            self.problems.append(problem)


def _reads(module: Module) -> bool:
    return any(piece.reads for piece in module.pieces)


def _may_read(module: Module) -> bool:
    return bool(module.held) or any(piece.unclear or piece.holds for piece in module.pieces)
