"""A campaign in which foreign text tries what it can, for the tests of what people read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from report_samples import build_cell, build_results

if TYPE_CHECKING:
    from report_samples import Document

HOSTILE = (
    "<img src=x onerror=\"window.ran='img'\"><script>window.ran='script'</script>",
    "</script><script>window.ran='closed'</script><!--",
    "{{ 7*7 }} ${window.ran='template'} @DATA@ @SCRIPT@ #{1+1} <%= 1 %>",
    "safe\u202egnp.exe\u2066 turned\u200b around\u061c",
    "W" * 10_000,
    "lone \ud800 surrogate \udfff, null \x00, escape \x1b[31m, bell \x07",
    "javascript:window.ran='url'",
    "' onmouseover='window.ran=1' \" autofocus onfocus=\"window.ran=2",
    "__proto__",
)


def build_hostile() -> Document:
    """Return a campaign in which hostile text stands in every string that is not of a fixed set."""
    cells = []
    for position, text in enumerate(HOSTILE):
        cell = build_cell(f"chat.p.local.{position}", failureClass="candidate_failure", flaky=True)
        cell["log"] = {"excerpt": "x", "cut": True}
        cell["screenshot"] = {"path": "x", "bytes": 10}
        cell["earlier"] = [{"runAttempt": 1, "artifact": "x", "status": "failed", "failureClass": None}]
        cell["probe"]["reasons"] = ["x"]
        cell["probe"]["checks"][0]["problem"] = "x"
        cell["attempts"] = [{**cell["attempts"][0], "line": "x", "retry": "x"}] * 2
        cell["contamination"] |= {"reached": ["x"], "foreign": ["x"], "unsearched": ["x"], "verdict": "x"}
        cells.append(_replace_texts(cell, text) | {"name": f"{text}.{position}"})
    results = build_results(*cells)
    texts = iter(HOSTILE * 100)
    results["campaign"] |= {
        "run": HOSTILE[0],
        "repository": HOSTILE[3],
        "targetRef": HOSTILE[4],
        "url": HOSTILE[6],
    }
    results["verdict"]["reasons"] = list(HOSTILE)
    results["problems"] = [{key: next(texts) for key in ("artifact", "code", "message")} for _ in HOSTILE]
    return results


_FIXED = frozenset(
    {"status", "failureClass", "source", "sandbox", "reach", "startedAt", "finishedAt", "schema", "targetSha"}
)


def _replace_texts(value: Any, text: str, key: str = "") -> Any:  # noqa: ANN401 - JSON of any shape
    if isinstance(value, dict):
        return {name: _replace_texts(item, text, name) for name, item in value.items()}
    if isinstance(value, list):
        return [_replace_texts(item, text, key) for item in value]
    return text if isinstance(value, str) and key not in _FIXED else value
