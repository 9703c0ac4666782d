"""Execution ids, the patterns of their parts, and the form of the opaque keys that stand for them.

An id is `suite.profile.environment.case`. It is split at the first three dots only, because a case may
contain dots.
"""

import re
from dataclasses import dataclass

MAX_EXECUTION_ID = 512

SEGMENT = r"[a-z0-9][A-Za-z0-9_-]*"
CASE = r"[A-Za-z0-9][A-Za-z0-9._-]*"
OPAQUE_KEY = r"c-[0-9a-f]{12}"
EXECUTION_ID = (
    rf"(?=.{{1,{MAX_EXECUTION_ID}}}\Z)(?P<suite>{SEGMENT})\.(?P<profile>{SEGMENT})"
    rf"\.(?P<environment>local|daytona)\.(?P<case>{CASE})"
)

_EXECUTION_ID = re.compile(EXECUTION_ID)
_OPAQUE_KEY = re.compile(OPAQUE_KEY)


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


def is_key(text: str) -> bool:
    """Whether `text` has the form of an opaque key."""
    return _OPAQUE_KEY.fullmatch(text) is not None
