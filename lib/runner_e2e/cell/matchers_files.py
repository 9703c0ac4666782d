"""Matchers of files in an agent's workspace, and of artifacts it handed in with its issue. Pure.

Both are bytes that an agent wrote, compared with the UTF-8 of a text as they stand.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import takewhile

from runner_e2e.cell.matchers_observed import Content, Judgement, Observed, Reader, Unreadable, count
from runner_e2e.cell.matchers_parameters import Kind, Parameters

MOST_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class Thing:
    """A file of the workspace, or an artifact: what it is called, and where it is read."""

    noun: str
    name: str

    def read(self, observed: Observed, most_bytes: int) -> Content | Judgement:
        """Return its beginning, or the judgement that there is nothing to read."""
        found = self.reader(observed).read(self.name, most_bytes)
        if isinstance(found, Unreadable):
            return Judgement(passed=False, detail=f"{self.noun} {found.reason}")
        return found

    def reader(self, observed: Observed) -> Reader:
        """Return what reads it."""
        return observed.files if self.noun == "file" else observed.artifacts


@dataclass(frozen=True, slots=True)
class Exists:
    """It is there, and is a regular file."""

    thing: Thing

    def judge(self, observed: Observed) -> Judgement:
        """Return whether it is there, or what stands in its place."""
        absent = self.thing.reader(observed).look(self.thing.name)
        return Judgement(
            absent is None, f"{self.thing.noun} {'is there' if absent is None else absent.reason}"
        )


@dataclass(frozen=True, slots=True)
class IsExactly:
    """It holds the text and nothing else, not even a line end."""

    thing: Thing
    text: bytes

    def judge(self, observed: Observed) -> Judgement:
        """Return whether it holds just that, or where it begins to differ."""
        found = self.thing.read(observed, len(self.text))
        if isinstance(found, Judgement):
            return found
        same = sum(1 for _ in takewhile(bool, map(int.__eq__, found.data, self.text)))
        if same < len(found.data):
            return Judgement(passed=False, detail=f"{self.thing.noun} differs from byte {same + 1:,} on")
        if same < len(self.text):
            return Judgement(passed=False, detail=f"{self.thing.noun} ends after {count(same, 'byte')}")
        if not found.is_whole:
            return Judgement(passed=False, detail=f"{self.thing.noun} goes on after {count(same, 'byte')}")
        return Judgement(passed=True, detail=f"{self.thing.noun} of {count(same, 'byte')}")


@dataclass(frozen=True, slots=True)
class HasInIt:
    """It has the text in its first 8 MiB."""

    thing: Thing
    text: bytes

    def judge(self, observed: Observed) -> Judgement:
        """Return whether the text is there, and in how much it was looked for."""
        found = self.thing.read(observed, MOST_BYTES)
        if isinstance(found, Judgement):
            return found
        extent = count(len(found.data), "byte") if found.is_whole else f"the first {MOST_BYTES >> 20} MiB"
        is_in = self.text in found.data
        return Judgement(is_in, f"{'in' if is_in else 'not in'} {extent}")


def _of_file(given: Parameters) -> Thing:
    return Thing("file", given.path("path"))


def _of_artifact(given: Parameters) -> Thing:
    return Thing("artifact", given.name("name"))


def _exact(thing: Callable[[Parameters], Thing]) -> Callable[[Parameters], IsExactly]:
    return lambda given: IsExactly(thing(given), given.text("text", may_be_empty=True).encode())


KINDS = {
    "file_exists": Kind(("path",), lambda given: Exists(_of_file(given))),
    "file_exact": Kind(("path", "text"), _exact(_of_file)),
    "file_contains": Kind(
        ("path", "text"), lambda given: HasInIt(_of_file(given), given.text("text").encode())
    ),
    "artifact_exists": Kind(("name",), lambda given: Exists(_of_artifact(given))),
    "artifact_exact": Kind(("name", "text"), _exact(_of_artifact)),
}
