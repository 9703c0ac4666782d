"""The file of the dashboard: what it holds, what may run in it, how large it is."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dashboard_samples import build_campaign, build_opaque, build_picture
from hostile_samples import HOSTILE, build_hostile
from report_samples import build_cell, build_mixed, build_results
from runner_e2e.report.dashboard import build_dashboard
from runner_e2e.report.dashboard.packing import MOST_DETAILS, pack
from runner_e2e.report.dashboard.page import SCRIPTS, read_part, read_script
from runner_e2e.report.dashboard.picture import is_picture
from runner_e2e.report.schemas import read_results_schema

MOST_BYTES = 5_000_000
DIRECTORY = Path(__file__).parents[2] / "lib/runner_e2e/report/dashboard"
NOTHING: dict[str, bytes] = {}


class Elements(HTMLParser):
    """Reads a page as its elements: tag, attributes, and the text of scripts and styles."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.contents: list[str] = []
        self.inside = False
        self.feed(page.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        self.contents.append("")
        self.inside = True

    def handle_endtag(self, tag: str) -> None:  # noqa: ARG002 - the base class names it
        self.inside = False

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.contents[-1] += data

    def select(self, tag: str) -> list[tuple[dict[str, str | None], str]]:
        pairs = zip(self.found, self.contents, strict=True)
        return [(attributes, content) for (name, attributes), content in pairs if name == tag]


def unpack(packed: str) -> Any:  # noqa: ANN401 - JSON of any shape
    return json.loads(gzip.decompress(base64.b64decode(packed)))


def read_data(page: bytes) -> dict[str, str]:
    scripts = Elements(page).select("script")
    return {str(one["id"]): content for one, content in scripts if one.get("type")}


def read_cells(page: bytes) -> list[Any]:
    """Return the details of all cells in the order of the index, None where the page has none."""
    data = read_data(page)
    blocks = {name: unpack(content) for name, content in data.items() if name.startswith("block-")}
    return [
        None if row["block"] is None else blocks[f"block-{row['block']}"][row["position"]]
        for row in unpack(data["index"])["cells"]
    ]


@pytest.mark.parametrize(
    "document",
    [
        pytest.param(build_mixed(), id="every-end"),
        pytest.param(build_campaign(), id="campaign"),
        pytest.param(build_opaque(), id="keys"),
        pytest.param(build_results(), id="empty"),
        pytest.param(build_hostile(), id="hostile"),
    ],
)
def test_the_page_holds_the_whole_document(document: dict[str, Any]) -> None:
    page = build_dashboard(document, NOTHING)

    index = unpack(read_data(page)["index"])
    assert read_cells(page) == document["cells"]
    assert {**index, "cells": None} == {**document, "cells": None}
    assert [row["name"] for row in index["cells"]] == [cell["name"] for cell in document["cells"]]


def test_the_same_campaign_gives_the_same_bytes() -> None:
    assert build_dashboard(build_mixed(), NOTHING) == build_dashboard(build_mixed(), NOTHING)


@pytest.mark.parametrize(
    "document", [pytest.param(build_campaign(), id="names"), pytest.param(build_opaque(), id="keys")]
)
def test_large_samples_keep_to_the_schema(document: dict[str, Any]) -> None:
    validator = jsonschema_rs.validator_for(read_results_schema())

    assert [error.message for error in validator.iter_errors(document)] == []


def test_only_the_pages_own_style_and_script_are_allowed_and_nothing_is_fetched() -> None:
    page = Elements(build_dashboard(build_hostile(), NOTHING))

    policies = [one["content"] for one, _ in page.select("meta") if "http-equiv" in one]
    assert len(policies) == 1
    rules = dict(rule.strip().split(" ", 1) for rule in str(policies[0]).split(";"))

    def sources(tag: str) -> str:
        contents = [content for one, content in page.select(tag) if not one.get("type")]
        digests = [hashlib.sha256(content.encode()).digest() for content in contents]
        return " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)

    assert rules == {
        "default-src": "'none'",
        "script-src": sources("script"),
        "style-src": sources("style"),
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }


def test_the_page_names_no_address_but_its_own_parts() -> None:
    page = Elements(build_dashboard(build_results(), NOTHING))

    addresses = [
        one[key] for _, one in page.found for key in ("src", "href", "action", "srcset") if key in one
    ]
    assert sorted(map(str, addresses)) == ["#cells", "data:,"]
    assert "url(" not in read_part("style.css")
    assert "@import" not in read_part("style.css")


@pytest.mark.parametrize(
    "word",
    [
        *("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function("),
        *("fetch(", "XMLHttpRequest", "import(", "</script", "<!--"),
    ],
)
def test_the_script_has_no_way_to_make_markup_or_code_of_text(word: str) -> None:
    assert word not in read_script()


def test_no_text_of_the_document_lies_in_the_page_as_text() -> None:
    empty, hostile = build_dashboard(build_results(), NOTHING), build_dashboard(build_hostile(), NOTHING)

    def without_data(page: bytes) -> str:
        data = r'(<script type="application/octet-stream" id="[a-z0-9-]+">)[A-Za-z0-9+/=]*</script>\n?'
        return re.sub(data, "", page.decode())

    assert without_data(empty) == without_data(hostile)
    assert HOSTILE[0] not in hostile.decode()


@settings(deadline=None, max_examples=60)
@given(text=st.text(st.characters(codec=None), max_size=200))
def test_any_text_comes_back_as_it_was(text: str) -> None:
    document = build_results(build_cell(message=text, log={"excerpt": text, "cut": False}))

    page = build_dashboard(document, NOTHING)

    assert read_cells(page) == document["cells"]


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_number_that_json_lacks_is_unknown(number: float) -> None:
    cell = build_cell()
    cell["cost"]["usd"] = number

    page = build_dashboard(build_results(cell), NOTHING)

    assert read_cells(page)[0]["cost"]["usd"] is None
    assert unpack(read_data(page)["index"])["cells"][0]["cost"]["usd"] is None


def test_a_large_campaign_with_its_pictures_keeps_the_budget() -> None:
    document = build_campaign(1024)
    pictures = {cell["name"]: build_picture() for cell in document["cells"]}

    page = build_dashboard(document, pictures)

    assert len(document["cells"]) == 1024
    assert len(page) < MOST_BYTES
    assert all(read_cells(page))
    assert [name for name in read_data(page) if name.startswith("picture-")]


def test_details_beyond_the_limit_are_left_out_of_cells_that_passed_first() -> None:
    document = build_campaign(240)
    whole = pack(document)

    some = pack(document, sum(map(len, whole.blocks)) // 2)

    assert sum(map(len, whole.blocks)) < MOST_DETAILS
    rows = unpack(some.index)["cells"]
    assert len(rows) == 240
    lacking = [row for row in rows if row["block"] is None]
    assert lacking
    assert {(row["status"], row["flaky"]) for row in lacking} == {("passed", False)}


def test_only_real_pictures_are_embedded_those_of_failed_cells_first() -> None:
    passed, failed, other = (
        build_cell("a.b.local.passed"),
        build_cell("a.b.local.failed", failureClass="candidate_failure"),
        build_cell("a.b.local.other"),
    )
    pictures = {
        passed["name"]: build_picture() + bytes(300_000),
        failed["name"]: build_picture() + bytes(3_200_000),
        other["name"]: b"<svg/>",
        "unknown": build_picture(),
    }

    data = read_data(build_dashboard(build_results(passed, failed, other), pictures))

    assert {name for name in data if name.startswith("picture-")} == {"picture-0", "picture-1"}
    assert base64.b64decode(data["picture-1"]) == pictures[failed["name"]]
    pictures[failed["name"]] += bytes(400_000)
    data = read_data(build_dashboard(build_results(passed, failed, other), pictures))
    assert [name for name in data if name.startswith("picture-")] == ["picture-1"]


def claim_size(width: int, height: int) -> bytes:
    picture = build_picture(8, 8)
    return picture[:16] + width.to_bytes(4) + height.to_bytes(4) + picture[24:]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(build_picture(), True, id="png"),
        pytest.param(claim_size(4000, 4000), True, id="large"),
        pytest.param(claim_size(8192, 8192), False, id="unpacks-to-hundreds-of-megabytes"),
        pytest.param(claim_size(100_000, 1), False, id="too-wide"),
        pytest.param(claim_size(0, 10), False, id="no-width"),
        pytest.param(build_picture()[:20], False, id="cut"),
        pytest.param(build_picture()[:8] + b"\0\0\0\rIDAT" + bytes(40), False, id="no-header"),
        pytest.param(b"\xff\xd8\xff\xe0JFIF" + bytes(40), False, id="jpeg"),
        pytest.param(b"<svg xmlns='http://www.w3.org/2000/svg'/>", False, id="svg"),
        pytest.param(b"", False, id="empty"),
    ],
)
def test_a_picture_is_a_png_of_a_size_that_can_be_shown(content: bytes, *, expected: bool) -> None:
    assert is_picture(content) is expected


def test_every_part_lies_in_the_package_and_in_the_script() -> None:
    parts = {path.name for path in DIRECTORY.iterdir() if path.suffix in {".css", ".html", ".js"}}

    assert parts == {"template.html", "style.css", "theme.js", *(f"{name}.js" for name in SCRIPTS)}
    for name in parts:
        assert read_part(name) == (DIRECTORY / name).read_text(encoding="utf-8")


def read_colours() -> dict[str, tuple[str, str]]:
    pattern = re.compile(r"--([a-z-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);")
    return {name: (light, dark) for name, light, dark in pattern.findall(read_part("style.css"))}


def contrast(one: str, other: str) -> float:
    """Return the ratio of WCAG 2."""

    def luminance(colour: str) -> float:
        parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
        red, green, blue = (
            part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
        )
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", [pytest.param(0, id="light"), pytest.param(1, id="dark")])
@pytest.mark.parametrize(
    ("ink", "paper", "least"),
    [
        *((ink, "paper", 4.5) for ink in ("ink", "soft", "link", "good", "bad", "note", "held-ink")),
        *((ink, "card", 4.5) for ink in ("ink", "soft", "held-ink")),
        *((f"{kind}-ink", kind, 4.5) for kind in ("pass", "fail", "safety", "infra")),
        *((ink, "bad-paper", 4.5) for ink in ("ink", "soft", "bad", "good", "note")),
        *((ink, "sunk", 4.5) for ink in ("ink", "soft")),
        *((kind, "paper", 3.0) for kind in ("fail", "safety", "infra", "edge")),
    ],
)
def test_colours_differ_enough_to_be_read(ink: str, paper: str, least: float, scheme: int) -> None:
    colours = read_colours()

    assert contrast(colours[ink][scheme], colours[paper][scheme]) >= least
