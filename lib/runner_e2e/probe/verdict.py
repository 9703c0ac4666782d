"""Judge observations: a denial counts only as EACCES or EPERM, and only beside a control. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from errno import EACCES, EPERM

from runner_e2e.probe.checks import CHECKS, Check, Expected


class Access(StrEnum):
    """What an observation amounts to; the last three prove nothing and fail a check."""

    ALLOWED = "allowed"
    DENIED = "denied"
    ABSENT = "absent"
    INCONCLUSIVE = "inconclusive"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Observation:
    """The kernel's answer to one action: `errno` 0 and the data obtained, or an errno."""

    errno: int
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """A check with what was observed inside the domain and, for control, outside."""

    check: Check
    observed: Access
    control: Access
    problem: str | None

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong with it."""
        return self.problem is None


def judge(
    inside: Mapping[str, Observation],
    outside: Mapping[str, Observation],
    markers: Mapping[str, bytes],
    degraded: frozenset[str] = frozenset(),
    checks: Sequence[Check] = CHECKS,
) -> tuple[CheckResult, ...]:
    """Return a result for every one of the `checks`, in their order.

    Checks of a protection in `degraded`, which the caller allowed to be missing, are recorded only.

    `markers` holds for each check what a success must contain: an open file without it is not the one
    that was meant. A marker of a denied check that turns up in any observation made inside is a leak,
    whatever the kernel said about it.
    """
    everything_inside = b"\n".join(observation.data for observation in inside.values())
    results = []
    for row in checks:
        check = row
        if row.protection in degraded:
            check = replace(row, expected=Expected.RECORDED, known=row.expected.value)
        marker = markers.get(check.id, b"")
        observed = classify(inside.get(check.id), marker)
        control = classify(outside.get(check.id), marker)
        leaked = check.expected is Expected.DENIED and len(marker) >= 16 and marker in everything_inside
        if leaked:
            observed = Access.ALLOWED
        results.append(CheckResult(check, observed, control, _problem(check, observed, control)))
    return tuple(results)


def classify(observation: Observation | None, marker: bytes) -> Access:
    """Reduce one observation to what it proves."""
    if observation is None:
        return Access.MISSING
    if observation.errno == 0:
        return Access.ALLOWED if marker and marker in observation.data else Access.INCONCLUSIVE
    if observation.errno in (EACCES, EPERM):
        return Access.DENIED
    return Access.ABSENT if observation.errno in (2, 20) else Access.INCONCLUSIVE


def _problem(check: Check, observed: Access, control: Access) -> str | None:
    if control is not Access.ALLOWED:
        return f"its control outside the domain was {control}, so nothing is proven"
    if check.expected is Expected.RECORDED:
        return None if observed in (Access.ALLOWED, Access.DENIED) else f"was {observed}"
    if observed.value != check.expected.value:
        return f"was {observed}, expected {check.expected}"
    return None
