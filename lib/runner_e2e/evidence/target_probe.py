"""The isolation probe of a target that brings its own sandbox, from its lines in a `server.log`. Pure.

A line counts only before the first sign of a launch: from then on an agent may have written it. A later
line that names a check is therefore never a proof, and makes the log contradict itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from runner_e2e.evidence.check_lines import ALLOWED, DENIED, read_check_line

Record = dict[str, object]

CHECK_SIGN = b"run:"
LAUNCH_SIGNS = (b"runnerd", b"/api/runner/v1/connect/")
# What the product's own probe is known to expect; its names are published, its line format is not.
EXPECTED: Mapping[str, str | None] = {
    **dict.fromkeys(
        (
            "run:otherDurableSession",
            "run:durableSessionListing",
            "run:otherRunnerState",
            "run:controlPlaneState",
            "run:otherOpencodeSession",
            "run:otherRunLog",
            "run:databaseWal",
            "run:secrets",
            "run:otherProviderTrace",
            "run:harnessEnviron",
        ),
        DENIED,
    ),
    **dict.fromkeys(
        ("run:ownDurableSession", "run:ownOpencodeSession", "run:acpxRuntime", "run:ownProviderTrace"),
        ALLOWED,
    ),
    "run:harnessCmdline": None,
}
_MOST_CHECKS = 1000
# Beyond these, lines are not read any more: nobody's honest log has as many, and reading costs time.
_MOST_LINES = 10_000
_MOST_LATE_LINES = 100


class ProbeStatus(StrEnum):
    """What a log proves; only `passed` is a pass."""

    PASSED = "passed"
    FAILED = "failed"
    ABSENT = "absent"
    MISMATCH = "mismatch"


@dataclass(slots=True)
class TargetProbe:
    """What the lines read so far say."""

    observed: dict[str, str] = field(default_factory=dict)
    expected: dict[str, str | None] = field(default_factory=dict)
    contradicted: set[str] = field(default_factory=set)
    failures: list[str] = field(default_factory=list)
    lines: int = 0
    unreadable_lines: int = 0
    late_lines: int = 0
    launch_seen: bool = False

    @property
    def present(self) -> bool:
        """Whether any line, at whatever place, tells of a check."""
        return bool(self.observed or self.failures or self.unreadable_lines or self.late_lines)

    def read_line(self, line: bytes, whole: bool) -> None:
        """Read a line that holds one of the signs; a piece of a line can only be a sign of a launch."""
        launching = any(sign in line for sign in LAUNCH_SIGNS)
        told = whole and CHECK_SIGN in line and self._read_checks(line)
        # A line that tells of checks may name the program it started for them, but no connection of it.
        if launching and (not told or LAUNCH_SIGNS[1] in line):
            self.launch_seen = True

    def _read_checks(self, line: bytes) -> bool:
        if self.launch_seen:
            self.late_lines += self.late_lines < _MOST_LATE_LINES and self._is_late(line)
            return False
        self.lines += 1
        if self.lines > _MOST_LINES:
            self.unreadable_lines += self.lines == _MOST_LINES + 1
            return False
        found = read_check_line(line)
        told = bool(found.seen or found.failures or not found.readable)
        self.unreadable_lines += not found.readable
        self.failures = [*dict.fromkeys((*self.failures, *found.failures))][:_MOST_CHECKS]
        for one in found.seen:
            if self.observed.get(one.name, one.observed) != one.observed:
                self.contradicted.add(one.name)
            elif len(self.observed) < _MOST_CHECKS or one.name in self.observed:
                self.observed[one.name] = one.observed
                self.expected[one.name] = EXPECTED.get(one.name, one.expected)
            else:
                self.unreadable_lines += 1
        return told

    def _is_late(self, line: bytes) -> bool:
        # Other names stand in an agent's words by chance, such as a script `run:lint`.
        if not any(name.encode() in line for name in (*EXPECTED, *self.observed)):
            return False
        found = read_check_line(line)
        return bool(found.seen or found.failures or not found.readable)

    def judge(self) -> tuple[ProbeStatus, list[str]]:
        """Return what the lines prove, and why it is no pass."""
        doubts = [f"{name} is both denied and allowed" for name in sorted(self.contradicted)]
        if self.late_lines:
            doubts.append(
                f"{self.late_lines} line(s) name checks after the first sign of a launch: "
                "an agent may have written them"
            )
        if doubts:
            return ProbeStatus.MISMATCH, doubts
        reasons = [f"a check of the target failed: {name}" for name in self.failed()]
        if self.unreadable_lines:
            reasons.append(f"{self.unreadable_lines} line(s) that name checks cannot be read")
        if not any(EXPECTED.get(name) == DENIED == value for name, value in self.observed.items()):
            reasons.append("the target's probe shows no denial")
        return (ProbeStatus.FAILED if reasons else ProbeStatus.PASSED), reasons

    def rows(self) -> list[Record]:
        """Return the checks as rows of a probe summary."""
        failed = set(self.failed())
        return [
            {
                "id": name,
                "expected": self.expected[name] or "recorded",
                "observed": value,
                "control": "unknown",
                "problem": "the target's probe failed" if name in failed else None,
            }
            for name, value in self.observed.items()
        ]

    def failed(self) -> list[str]:
        """Return the names of failed checks, those that a list of failures names included."""
        wrong = [
            name
            for name, value in self.observed.items()
            if self.expected[name] is not None and self.expected[name] != value
        ]
        return [*dict.fromkeys((*wrong, *self.failures))]

    def missing(self) -> list[str]:
        """Return the known checks with an expected outcome that no trusted line tells of."""
        return [name for name, value in EXPECTED.items() if value and name not in self.observed]
