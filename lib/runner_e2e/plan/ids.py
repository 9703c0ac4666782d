"""Execution ids and the patterns of their parts.

An id is `suite.profile.environment.case`. It is split at the first three dots only, because a case may
contain dots.
"""

import re
from dataclasses import dataclass

MAX_EXECUTION_ID = 512

SEGMENT = r"[a-z0-9][A-Za-z0-9_-]*"
CASE = r"[A-Za-z0-9][A-Za-z0-9._-]*"
EXECUTION_ID = (
    rf"(?=.{{1,{MAX_EXECUTION_ID}}}\Z)(?P<suite>{SEGMENT})\.(?P<profile>{SEGMENT})"
    rf"\.(?P<environment>local|daytona)\.(?P<case>{CASE})"
)

_EXECUTION_ID = re.compile(EXECUTION_ID)


@dataclass(frozen=True, slots=True)
class IdParts:
    """The four parts of an execution id."""

    suite: str
    profile: str
    environment: str
    case: str


def split_execution_id(text: str) -> IdParts | None:
    """Return the parts of an execution id, None when `text` is none."""
    match = _EXECUTION_ID.fullmatch(text)
    return IdParts(**match.groupdict()) if match else None
