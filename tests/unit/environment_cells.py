"""Cells for tests of environment rules, and what they expect of an explanation."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from runner_e2e.isolation.product import CellTraits

if TYPE_CHECKING:
    from runner_e2e.isolation.explain import Built

NATIVE = CellTraits(
    suite="core",
    case="single-turn",
    profile="runner-codex",
    generation="native",
    provider="codex",
    model="gpt-5",
)
LEGACY = replace(NATIVE, profile="legacy-opencode", generation="legacy", provider="opencode")
CHAT = replace(NATIVE, suite="chat-features", case="workspace.write-file")
REMOTE = replace(NATIVE, remote=True)
PI = replace(
    NATIVE, suite="pi-native", profile="runner-acpx-pi", model="pi-1", candidate="pi", manual_only=True
)


def actions(built: Built) -> dict[str, str]:
    """Return what became of each name; fails when one is explained twice."""
    found: dict[str, str] = {one.name: one.action for one in built.explained}
    assert len(found) == len(built.explained)
    return found


def rule(built: Built, name: str) -> str:
    """Return the rule that decided a name."""
    (found,) = (one.rule for one in built.explained if one.name == name)
    return found


def spell(name: str) -> st.SearchStrategy[str]:
    """Return a strategy for the spellings of a name in upper and lower case."""
    letters = [st.sampled_from(sorted({letter.upper(), letter.lower()})) for letter in name]
    return st.tuples(*letters).map("".join)
