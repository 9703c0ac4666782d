"""What the README quotes is what the programs say."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from runner_e2e.errors import FailureClass

PROJECT = Path(__file__).resolve().parents[2]
README = (PROJECT / "README.md").read_text(encoding="utf-8")


def read_messages() -> list[str]:
    """Return the messages of the troubleshooting table; `…` stands for what varies."""
    section = README.partition("## Troubleshooting")[2].partition("\n## ")[0]
    return re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)


def read_literals() -> set[str]:
    """Return every text of the programs as it stands there, `…` in place of what is filled in."""
    texts = set()
    for folder in ("lib", "entrypoints"):
        for path in (PROJECT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    texts.add(node.value)
                elif isinstance(node, ast.JoinedStr):
                    texts.add("".join(_show(value) for value in node.values))
    return texts


def _show(value: ast.expr) -> str:
    return str(value.value) if isinstance(value, ast.Constant) else "…"


LITERALS = {re.sub("…+", "…", text) for text in read_literals()}


@pytest.mark.parametrize("message", read_messages())
def test_each_message_of_the_troubleshooting_table_is_one_that_is_given(message: str) -> None:
    assert message in LITERALS | set(FailureClass)


def test_the_table_is_there() -> None:
    assert len(read_messages()) >= 10
    assert "The moon is missing" not in LITERALS


@pytest.mark.parametrize("path", sorted([PROJECT / "README.md", *(PROJECT / "docs").glob("*.md")]))
def test_every_file_that_a_page_links_to_exists(path: Path) -> None:
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8"))

    assert [target for target in targets if not (path.parent / target).exists()] == []
