"""Campaigns whose every text was chosen by somebody hostile; what the schema fixes stays as it is."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from report_samples import Document, build_mixed

if TYPE_CHECKING:
    from collections.abc import Iterator

NASTY = (
    "</system-out></testsuites>",
    "]]>",
    "<script>alert(1)</script>",
    "| a | b |",
    "```",
    "<details>",
    "![x](https://evil.example/p.png)",
    "[x](javascript:alert(1))",
    "@octocat",
    "https://evil.example www.evil.example",
    "\x1b[2J\x1b]0;title\x07\x9b31m",
    "\u202egnp.exe",
    "\x00\x08\x0b\x0c\x85\u2028",
    "\ufffe\uffff",
    "\ud800",
    "\r\n# heading\n\n- item",
    "&lt;b&gt; &#60;",
    "$x$ ~~y~~ __z__ *w*",
    "- 1. x",
    "",
    " ",
    "x" * 300,
)
_WORDS = st.one_of(st.sampled_from(NASTY), st.text(st.characters(exclude_categories=()), max_size=60))
TEXTS = st.lists(_WORDS, min_size=5, max_size=30)
# What the schema holds to a list of its own, or a form.
_FIXED = frozenset(
    {
        "schema",
        "generatedAt",
        "word",
        "status",
        "failureClass",
        "source",
        "sandbox",
        "reach",
        "startedAt",
        "finishedAt",
        "targetSha",
        "matrixSha256",
    }
)


def build_hostile(texts: list[str]) -> Document:
    """Return a campaign of every kind of end with these texts, in turn, in each place that takes one."""
    document: Document = build_mixed()
    document["problems"] = [{"artifact": "a", "code": "b", "message": "c"}]
    hostile: Document = _replace(document, cycle(texts))
    return hostile


def _replace(value: Any, texts: Iterator[str], key: str = "") -> Any:  # noqa: ANN401 - any JSON
    if isinstance(value, dict):
        return {name: _replace(one, texts, name) for name, one in value.items()}
    if isinstance(value, list):
        return [_replace(one, texts, key) for one in value]
    if isinstance(value, str) and key not in _FIXED:
        return next(texts)[: 128 if key == "suiteDefinitionHash" else 300]
    return value
