"""The step summary's budget and its escaping."""

import html
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from runner_e2e.actions.summary import (
    SUMMARY_BUDGET_BYTES,
    append_summary,
    choose_stage,
)
from runner_e2e.actions.surface import ActionSurface
from runner_e2e.report.markdown import escape_markdown

MARKDOWN = MarkdownIt("gfm-like", {"linkify": False})


@pytest.fixture
def summary_file(tmp_path: Path) -> Path:
    path = tmp_path / "step_summary"
    path.touch()
    return path


def test_the_fullest_stage_that_fits_is_taken_by_bytes_not_characters() -> None:
    full, counts, link = "é" * 100, "é" * 10, "link"

    assert choose_stage([full, counts, link], 201) == full
    assert choose_stage([full, counts, link], 200) == counts
    assert choose_stage([full, counts, link], 20) == link


def test_when_nothing_fits_a_fixed_sentence_says_where_to_look() -> None:
    assert "uploaded evidence" in choose_stage(["x" * 100], 50)


def test_summaries_of_one_step_share_the_budget(summary_file: Path) -> None:
    append_summary(summary_file, ["a" * (SUMMARY_BUDGET_BYTES - 20)])
    append_summary(summary_file, ["b" * 100, "short"])
    append_summary(summary_file, ["c" * 100])

    content = summary_file.read_text()
    assert content.endswith("a\nshort\n" + choose_stage(["c" * 100], 0))
    assert summary_file.stat().st_size < 1024 * 1024


def test_a_lone_surrogate_does_not_lose_the_summary(summary_file: Path) -> None:
    surface = ActionSurface(
        {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(summary_file)}, stream=_Refusing()
    )

    surface.summary("before \udc80 after")

    assert summary_file.read_text() == "before ? after\n"


class _Refusing(io.StringIO):
    """A stream that must not be written to."""

    def write(self, text: str, /) -> int:
        raise AssertionError(text)


@given(
    st.lists(
        st.one_of(
            st.sampled_from(
                [
                    "|",
                    "`",
                    "<b>",
                    "<!--",
                    "[a](b)",
                    "![i](j)",
                    "**b**",
                    "~~s~~",
                    "# h",
                    "\n\n",
                    "\\|",
                    "@someone",
                    "https://example.org",
                    "&lt;",
                    "- ",
                ]
            ),
            st.text(max_size=4),
        ),
        max_size=8,
    ).map("".join)
)
def test_escaped_text_is_one_cell_of_text_and_nothing_else(hostile: str) -> None:
    table = f"| a | b |\n| --- | --- |\n| x{escape_markdown(hostile)} | end |\n"

    tokens = MARKDOWN.parse(table)

    cells = [tokens[index + 1] for index, token in enumerate(tokens) if token.type == "td_open"]
    assert len(cells) == 2
    children = cells[0].children or []
    assert {child.type for child in children} <= {"text", "text_special"}
    shown = "".join(child.content for child in children)
    expected = ("x" + " ".join(hostile.split())).replace("@", "@\u200b").replace("\0", "\ufffd")
    assert html.unescape(shown).rstrip() == html.unescape(expected).rstrip()


def test_a_mention_notifies_nobody() -> None:
    assert "@some" not in html.unescape(escape_markdown("@someone"))
