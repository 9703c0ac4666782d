"""The one line that says why a command was not started."""

from __future__ import annotations

import ast
import errno
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner_e2e.sandbox import refusal as module
from runner_e2e.sandbox.refusal import CODES, Refusal

LIBRARY = Path(module.__file__).parents[1]

# The contract's list; a code is what callers and journals match on.
CONTRACT = (
    "usage",
    "hide-missing",
    "hide-root",
    "path-unresolvable",
    "ancestor-unlistable",
    "expose-missing",
    "expose-outside-hidden",
    "expose-reveals-hidden",
    "expose-symlink",
    "expose-unreadable",
    "cwd-hidden",
    "cwd-ancestor",
    "stdio-hidden",
    "command-hidden",
    "hard-link-alias",
    "mount-alias",
    "unsupported-filesystem",
    "threads-running",
    "landlock-unavailable",
    "abi-too-old",
    "layer-limit",
    "hidden-readable",
    "protection-unavailable",
    "exec-failed",
)


def raised_codes() -> dict[str, set[str]]:
    """Return the literal codes of all refusals in the rooms that make them, and where they stand."""
    found: dict[str, set[str]] = {}
    for path in (
        *(LIBRARY / "sandbox").glob("*.py"),
        *(LIBRARY / "launch").glob("*.py"),
        LIBRARY / "isolation/paths.py",
        LIBRARY / "isolation/words.py",
    ):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            if node.func.id not in ("Refusal", "ScopeError") or not node.args:
                continue
            for part in ast.walk(node.args[0]):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    found.setdefault(part.value, set()).add(path.name)
    return found


def test_the_codes_are_those_of_the_contract() -> None:
    assert set(CONTRACT) == CODES


def test_every_code_is_raised_somewhere_and_no_other() -> None:
    assert set(raised_codes()) == set(CONTRACT)


@pytest.mark.parametrize("code", CONTRACT)
def test_a_refusal_has_the_fields_of_its_schema(code: str) -> None:
    fields = Refusal(code, "what", "do", path=b"/a").fields()

    assert fields == {
        "schema": "runner-e2e.sandbox-refusal/v1",
        "code": code,
        "path": "/a",
        "message": "what",
        "remedy": "do",
    }


def test_a_code_that_is_none_is_a_fault_of_the_program() -> None:
    with pytest.raises(AssertionError):
        Refusal("hide-mising", "what", "do")


def test_an_errno_comes_with_its_name() -> None:
    fields = Refusal("exec-failed", "what", "do", errno=errno.ENOEXEC, status=126).fields()

    assert (fields["errno"], fields["errnoName"]) == (errno.ENOEXEC, "ENOEXEC")
    assert Refusal("usage", "what", "do", errno=9999).fields()["errnoName"] == "9999"


def test_without_path_and_errno_there_is_none() -> None:
    fields = Refusal("usage", "what", "do").fields()

    assert fields["path"] is None
    assert "errno" not in fields
    assert Refusal("usage", "what", "do").status == 125


@settings(deadline=None)
@given(st.binary(min_size=1).map(lambda tail: b"/" + tail))
def test_a_path_of_any_bytes_fits_in_one_ascii_line(path: bytes) -> None:
    line = json.dumps(Refusal("hide-missing", "what", "do", path=path).fields())

    assert line.isascii()
    assert "\n" not in line
    back = json.loads(line)["path"]
    assert back.encode("utf-8", "surrogateescape") == path
