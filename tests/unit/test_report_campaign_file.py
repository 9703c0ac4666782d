"""A downloaded `results.json` is read as far as its shape can be believed, and refused in a sentence."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from report_samples import build_cell, build_mixed, build_results
from runner_e2e.errors import InputError
from runner_e2e.report.campaign_file import MOST_BYTES, find_results, parse_campaign, read_campaign_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

GOOD = json.dumps(build_mixed()).encode()


def edited(**changes: object) -> bytes:
    return json.dumps(build_mixed() | changes).encode()


def test_what_the_report_wrote_is_read() -> None:
    campaign = parse_campaign(GOOD, "results.json")

    assert (campaign.run, campaign.verdict, len(campaign.cells)) == ("7", "failed", 8)
    assert campaign.cells[2].reach.reached == ("run:secrets",)


def spoil(change: Callable[[Any], object]) -> bytes:
    document = json.loads(GOOD)
    change(document)
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param(b"", "is not JSON from its character 1 on", id="empty"),
        pytest.param(GOOD[:-1], "is not JSON from", id="cut"),
        pytest.param(b"\xff\xfe{}", "not UTF-8", id="not-utf-8"),
        pytest.param(b"[]", "no JSON object", id="a-list"),
        pytest.param(b"{}", "is no report", id="another-thing"),
        pytest.param(edited(schema="runner-e2e.results/v2"), "of another version", id="another-version"),
        pytest.param(edited(schema=["runner-e2e.results/v1"]), "is no report", id="odd-version"),
        pytest.param(b"[" * 100_000, "nested too deeply", id="bomb"),
        pytest.param(
            b'{"schema":"runner-e2e.results/v1","a":' + b"[" * 500 + b"]" * 500 + b"}",
            "deeper than any report",
            id="deep",
        ),
        pytest.param(b'{"a":1,"a":2}', "a key twice", id="twin-keys"),
        pytest.param(b'{"a":NaN}', "a number that JSON does not have", id="nan"),
        pytest.param(b'{"a":1e999}', "a number that JSON does not have", id="infinite"),
        pytest.param(b'{"a":' + b"9" * 40 + b"}", "a number that programs read differently", id="huge"),
        pytest.param(
            b'{"a":' + b"9" * 5000 + b"}", "a number that JSON does not have", id="thousands-of-digits"
        ),
        pytest.param(edited(cells=[{}]), "contradicts runner-e2e.results/v1 at /cells/0", id="schema"),
        pytest.param(edited(generatedAt="yesterday"), "a time that is none", id="no-time"),
        pytest.param(edited(generatedAt="2026-11-29T09:10:00"), "a time that is none", id="no-zone"),
        pytest.param(
            spoil(lambda one: one["cells"][0].update(startedAt="2026-99-99T00:00:00Z")),
            "a time that is none",
            id="no-day",
        ),
        pytest.param(
            spoil(lambda one: one["cells"].append(one["cells"][0])), "tells one cell twice", id="twin-cells"
        ),
    ],
)
def test_what_is_no_report_is_refused(content: bytes, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        parse_campaign(content, "results.json")


def test_a_refusal_holds_no_text_of_the_file() -> None:
    content = spoil(lambda one: one["cells"][0].update(status="\x1b[2Jsecret"))

    with pytest.raises(InputError) as caught:
        parse_campaign(content, "results.json")

    assert "/cells/0/status" in caught.value.problem
    assert "secret" not in str(caught.value)


@given(
    st.one_of(
        st.binary(max_size=200), st.integers(0, len(GOOD) - 1).map(lambda at: GOOD[:at] + GOOD[at + 1 :])
    )
)
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    with suppress(InputError):
        parse_campaign(content, "results.json")


@pytest.mark.parametrize("place", ["results.json", "", ".."])
def test_a_file_its_directory_and_a_directory_of_artifacts_stand_for_a_campaign(
    tmp_path: Path, place: str
) -> None:
    directory = tmp_path / "runner-e2e-report-7-1"
    directory.mkdir()
    (directory / "results.json").write_bytes(GOOD)
    (tmp_path / "runner-e2e-7-1-cell").mkdir()

    assert read_campaign_file(directory / place).run == "7"


def test_among_several_reports_none_is_chosen(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "results.json").write_bytes(GOOD)

    with pytest.raises(InputError, match="holds 2 directories"):
        find_results(tmp_path)


def test_what_cannot_be_a_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    large = tmp_path / "large"
    large.touch()
    os.truncate(large, MOST_BYTES + 1)
    refusals = {
        "pipe": "no regular file",
        "large": "larger than 64 MiB",
        "nothing": "cannot be read: No such file",
        "loop": "cannot be read",
        "a\x00b": "a character that no path can have",
    }
    for name, problem in refusals.items():
        with pytest.raises(InputError, match=problem):
            read_campaign_file(tmp_path / name)
    with pytest.raises(InputError, match=r"holds no results\.json"):
        read_campaign_file(tmp_path)


def test_the_name_of_a_directory_does_nothing_to_a_terminal(tmp_path: Path) -> None:
    directory = tmp_path / "x\x1b[2J\n"
    directory.mkdir()
    (directory / "results.json").write_bytes(b"")

    with pytest.raises(InputError) as caught:
        read_campaign_file(tmp_path)

    assert r"x\x1b[2J\n/results.json" in caught.value.problem
    assert str(caught.value).isprintable()


def test_a_campaign_without_cells_is_one() -> None:
    assert parse_campaign(json.dumps(build_results()).encode(), "x").cells == ()
    assert parse_campaign(json.dumps(build_results(build_cell(startedAt=None))).encode(), "x").cells
