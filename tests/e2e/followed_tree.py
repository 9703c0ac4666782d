"""A tree that is followed, with a clock that every look moves on."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from runner_e2e.evidence.follow import Follower
from runner_e2e.evidence.scans import Top
from runner_e2e.evidence.search import Search

if TYPE_CHECKING:
    from pathlib import Path

    from runner_e2e.evidence.coverage import Coverage

CANARY = "canary0123456789abcdef0123456789abcdef"


class Followed:
    """A tree with its follower, whose clock every look moves on."""

    def __init__(self, place: Path, **limits: int) -> None:
        self.tree = place / "tree"
        self.tree.mkdir()
        self.tops = [Top(self.tree)]
        self.ignored: set[Path] = set()
        self.now = 0.0
        self.search = Search.of([CANARY])
        self.follower = Follower(
            lambda: self.tops,
            place / "copies",
            self.search,
            ignored=self.ignored,
            clock=self.clock,
            **limits,
        )

    def clock(self) -> float:
        self.now += 0.0001
        return self.now

    def step(self, later_s: float = 5.0) -> None:
        self.now += later_s
        self.follower.step()

    def text(self, name: str | bytes) -> list[bytes]:
        source = self.tree / os.fsdecode(name)
        return [copy.path.read_bytes() for copy in self.follower.copies if copy.source == source]

    def finish(self) -> Coverage:
        return self.follower.finish()

    @property
    def found(self) -> bool:
        """Whether the canary was seen by the follower itself."""
        return CANARY in self.search.found
