"""What tests of matchers share: one matcher, judged on what an agent left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runner_e2e.cell.matchers import MatcherResult, judge_matchers, parse_matchers
from runner_e2e.cell.matchers_observed import HeldReader, Message, Observed
from runner_e2e.plan.definitions import Matcher as Definition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import JsonValue

AGENT = "agent-1"


def says(*texts: str) -> Observed:
    """Return what is observed of an agent that wrote these messages."""
    return Observed(AGENT, tuple(Message(AGENT, text) for text in texts))


def leaves(
    files: Mapping[str, bytes] | None = None, artifacts: Mapping[str, bytes] | None = None
) -> Observed:
    """Return what is observed of an agent that left these files and artifacts."""
    return Observed(AGENT, files=HeldReader(files or {}), artifacts=HeldReader(artifacts or {}))


def define(kind: Any, parameters: Mapping[str, JsonValue]) -> Definition:  # noqa: ANN401 - wrong on purpose
    """Return a definition; its kind may be none that a catalog takes."""
    return Definition(kind=kind, parameters=dict(parameters))


def judge(kind: str, parameters: Mapping[str, JsonValue], observed: Observed) -> MatcherResult:
    """Return the result of one matcher."""
    (result,) = judge_matchers(parse_matchers([define(kind, parameters)]), observed)
    return result
