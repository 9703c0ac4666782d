"""GitHub's API about the repository under test, from its git store on this machine."""

from __future__ import annotations

import base64
import subprocess
from typing import TYPE_CHECKING
from urllib.parse import unquote

from action.github_api import answer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from http.server import BaseHTTPRequestHandler
    from pathlib import Path


class TargetApi:
    """Answers for one repository: itself, its branch `main`, the objects of its git store, and run 1.

    Of that run, the jobs of `cells` have succeeded.
    """

    def __init__(self, checkout: Path, name: str, number: int, cells: Sequence[str]) -> None:
        self._checkout = checkout
        self._name = name
        self._number = number
        self._cells = cells

    def reply(self, handler: BaseHTTPRequestHandler) -> None:
        """Answer one request."""
        found = self._find(unquote(handler.path.partition("?")[0]))
        respond = answer(404, {"message": "Not Found"}) if found is None else answer(200, found)
        respond(handler)

    def _find(self, path: str) -> Mapping[str, object] | None:
        base = f"/repos/{self._name}"
        if path == base:
            return {"id": self._number, "full_name": self._name, "default_branch": "main"}
        if path == f"{base}/actions/runs/1/jobs":
            return {"total_count": len(self._cells), "jobs": [*map(_describe_job, range(1, 99), self._cells)]}
        return self._find_object(path, base)

    def _find_object(self, path: str, base: str) -> Mapping[str, object] | None:
        if path == f"{base}/branches/main":
            return {"name": "main", "commit": {"sha": self._ask("rev-parse", "main").decode().strip()}}
        kind, _, name = path.removeprefix(f"{base}/git/").partition("/")
        if kind == "commits":
            tree = self._ask("rev-parse", f"{name}^{{tree}}").decode().strip()
            return {"sha": name, "tree": {"sha": tree}}
        if kind == "trees":
            rows = self._ask("ls-tree", "-z", name).decode().split("\0")[:-1]
            return {"sha": name, "tree": [_describe(row) for row in rows], "truncated": False}
        if kind == "blobs":
            content = self._ask("cat-file", "blob", name)
            encoded = base64.encodebytes(content).decode()
            return {"sha": name, "content": encoded, "encoding": "base64", "size": len(content)}
        return None

    def _ask(self, *words: str) -> bytes:
        return subprocess.run(
            ["git", "-c", "safe.directory=*", *words], cwd=self._checkout, check=True, capture_output=True
        ).stdout


def _describe(row: str) -> Mapping[str, object]:
    fields, _, name = row.partition("\t")
    mode, kind, sha = fields.split()
    return {"path": name, "mode": mode, "type": kind, "sha": sha}


def _describe_job(number: int, cell: str) -> Mapping[str, object]:
    started = "2026-01-02T03:04:05Z"
    return {"id": number, "name": cell, "run_attempt": 1, "started_at": started, "conclusion": "success"}
