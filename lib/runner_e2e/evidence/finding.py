"""Where secrets stand in a text: one pass of a multi-pattern search, then a closer look at what it points to.

The search looks for every fixed form of the known secrets, and for three kinds of pointers: escapes (there
the text is unescaped and searched again), pieces of forms (there lines may have been wrapped), and openings
of known shapes. Text without pointers costs no more than the search.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ahocorasick_rs import BytesAhoCorasick, Implementation, MatchKind

from runner_e2e.evidence.escapes import Unescaped, join_lines, unescape_fully, unescaped_layers
from runner_e2e.evidence.pointers import pieces, plain_escapes, special_escapes
from runner_e2e.evidence.secret_forms import all_parts, breakable_forms, build_forms
from runner_e2e.evidence.shapes import SHAPES

KNOWN = "a known secret"
# No match of a shape is longer, but for that of an endless token.
SHAPE_REACH = 20 << 10
# What stands so many bytes before a match may decide whether it is one.
CONTEXT = 32
_URL_REACH = 512
# The fast automaton takes about half a KiB for each byte of its patterns.
_MOST_FAST_BYTES = 200 << 10

Hits = list[tuple[int, int, int]]


class Found(NamedTuple):
    """A part of a text that is a secret, and its kind."""

    start: int
    end: int
    kind: str


@dataclass(frozen=True, slots=True)
class _Shape:
    kind: str
    pattern: re.Pattern[bytes]
    loose: bool


class Finder:
    """Finds known secrets in all their forms and, unless told otherwise, known shapes.

    `forms` are the fixed forms; `reach` is the most bytes that a match of a known secret has.
    """

    def __init__(self, secrets: Iterable[str], *, shapes: bool = True) -> None:
        parts = all_parts(secrets)
        self.forms = frozenset(form for part in parts for form in build_forms(part))
        longest = max((*map(len, self.forms), *(8 * len(part) for part in parts)), default=0)
        self.reach = longest * 9 // 8 + CONTEXT
        openings = [(opening.encode(), shape) for shape in _SHAPES for opening in shape[1]] if shapes else []
        broken = {piece for part in parts for form in breakable_forms(part) for piece in pieces(form)}
        escaped = {escape for part in parts for escape in special_escapes(unescape_fully(part))}
        escaped |= set(plain_escapes()) if parts else set()
        patterns = [*sorted(self.forms), *sorted(broken), *sorted(escaped)]
        self._pieces_from = len(self.forms)
        self._escapes_from = self._pieces_from + len(broken)
        self._openings_from = len(patterns)
        self._openings = [shape[0] for _, shape in openings]
        self.patterns = [*patterns, *(opening for opening, _ in openings)]
        self._automaton = build_automaton(self.patterns)

    def find(self, text: bytes, *, loose: bool = True) -> list[Found]:
        """Return the secrets in a text, sorted, overlapping ones too; `loose` shapes are for text only."""
        hits = self._automaton.find_matches_as_indexes(text, overlapping=True)
        if not hits:
            return []
        known = [hit for hit in hits if hit[0] < self._pieces_from]
        found = [Found(start, end, KNOWN) for _, start, end in known]
        if len(known) < len(hits):
            broken = [hit for hit in hits if self._pieces_from <= hit[0] < self._escapes_from]
            escaped = [hit for hit in hits if self._escapes_from <= hit[0] < self._openings_from]
            opened = sorted((start, end, index) for index, start, end in hits if index >= self._openings_from)
            found += self._find_broken(text, _uncovered(broken, known))
            found += self._find_escaped(text, escaped)
            found += self._find_shapes(text, opened, loose=loose)
        return sorted(found)

    def _find_broken(self, text: bytes, hits: Hits) -> Iterator[Found]:
        for start, end in _windows(hits, self.reach, len(text)):
            layer = join_lines(Unescaped(text[start:end]))
            if layer.below is not None:
                yield from self._find_known(layer, start)

    def _find_escaped(self, text: bytes, hits: Hits) -> Iterator[Found]:
        for start, end in _windows(hits, self.reach, len(text)):
            layers = unescaped_layers(text[start:end])
            for layer in [*layers[1:], join_lines(layers[-1])]:
                if layer.below is not None:
                    yield from self._find_known(layer, start)

    def _find_known(self, layer: Unescaped, offset: int) -> Iterator[Found]:
        for index, start, end in self._automaton.find_matches_as_indexes(layer.text, overlapping=True):
            if index < self._pieces_from:
                first, last = layer.origin(start, end)
                yield Found(offset + first, offset + last, KNOWN)

    def _find_shapes(
        self, text: bytes, hits: Sequence[tuple[int, int, int]], *, loose: bool
    ) -> Iterator[Found]:
        covered = 0
        for start, end, index in hits:
            shape = self._openings[index - self._openings_from]
            if start < covered or (shape.loose and not loose):
                continue
            match = _match_shape(shape, text, start, end)
            if match is not None:
                covered = match.end()
                group = 1 if shape.pattern.groups else 0
                yield Found(match.start(group), match.end(group), shape.kind)


def build_automaton(patterns: Sequence[bytes]) -> BytesAhoCorasick:
    """Return a search for all occurrences of some patterns, the fast kind if that takes little memory."""
    fast = sum(map(len, patterns)) <= _MOST_FAST_BYTES
    kind = Implementation.DFA if fast else Implementation.ContiguousNFA
    return BytesAhoCorasick(patterns, MatchKind.Standard, kind)


def merge_found(found: Iterable[Found]) -> Iterator[tuple[int, int]]:
    """Yield sorted, separate stretches that cover what was found; those that only touch stay apart."""
    first = last = -1
    for start, end, _ in found:
        if start < last:
            last = max(last, end)
            continue
        if last >= 0:
            yield first, last
        first, last = start, end
    if last >= 0:
        yield first, last


_SHAPES = [
    (_Shape(shape.kind, re.compile(shape.pattern.encode()), shape.loose), shape.openings) for shape in SHAPES
]


def _match_shape(shape: _Shape, text: bytes, start: int, end: int) -> re.Match[bytes] | None:
    marker = text[end - 1]
    if marker == ord("@"):
        begin = text.rfind(b"://", max(0, start - _URL_REACH), start)
        match = shape.pattern.match(text, begin) if begin >= 0 else None
        return match if match is not None and match.end() == end else None
    return shape.pattern.match(text, end - 1 if marker == ord("=") else start)


def _uncovered(hits: Hits, known: Hits) -> Hits:
    """Return the hits that do not lie within a form that was found whole."""
    if not hits or not known:
        return hits
    covers = list(merge_found(sorted(Found(start, end, KNOWN) for _, start, end in known)))
    starts = [start for start, _ in covers]
    return [hit for hit in hits if not _is_within(hit, covers, starts)]


def _is_within(hit: tuple[int, int, int], covers: Sequence[tuple[int, int]], starts: Sequence[int]) -> bool:
    index = bisect_right(starts, hit[1]) - 1
    return index >= 0 and hit[2] <= covers[index][1]


def _windows(hits: Hits, reach: int, length: int) -> Iterator[tuple[int, int]]:
    """Yield separate windows of the text that reach so far to both sides of every hit."""
    spans = sorted(Found(max(0, start - reach), min(length, end + reach), "") for _, start, end in hits)
    yield from merge_found(spans)
