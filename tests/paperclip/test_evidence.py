"""What a cell on the real product leaves as evidence: its picture, its run logs, its result."""

from __future__ import annotations

import json
import re
import shutil
import struct
import zlib
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from e2e.checkout import SEARCH_PATH, private_directory
from runner_e2e.cell.browser import NAMES
from runner_e2e.cell.harness_result import Planned, parse_result
from runner_e2e.isolation.layout import CHECKED_AGAINST

from .cells import SCRIPTED, drive, evidence_of, leaving_nothing, run_cell

if TYPE_CHECKING:
    from e2e.checkout import Checkout, Evidence
    from runner_e2e.product.installation import Installation

pytestmark = pytest.mark.usefixtures("clean")

ONE = f"{SCRIPTED}chat.single-turn"
PICTURE = "results/final-state.png"
NEVER_ENDS = """schema: runner-e2e.scripted-model/v1
values: [nonce, ada_key]
agents:
  - id: ada
    match: {key: '{ada_key}'}
    steps:
      - delay_s: 600
        text: 'The word is {nonce}.'
"""


@pytest.fixture(scope="module")
def left(ordinary: Checkout, desk: Path, installation: Installation) -> Evidence:
    """The evidence of a cell with one agent that passed, and left nothing else."""
    with leaving_nothing(ordinary, installation):
        ended = run_cell(ordinary, desk, ONE)
    assert ended.status == 0, ended.stdout + ended.stderr
    return evidence_of(desk, ONE)


def read_colours(content: bytes) -> Counter[bytes]:
    """Return how many pixels of a PNG, 8 bits a channel and not interlaced, have each colour."""
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    chunks, position = [], 8
    while position < len(content):
        (length,) = struct.unpack(">I", content[position : position + 4])
        chunks.append((content[position + 4 : position + 8], content[position + 8 : position + 8 + length]))
        position += length + 12
    width, height, depth, kind, _, _, interlaced = struct.unpack(">IIBBBBB", chunks[0][1])
    assert (depth, interlaced) == (8, 0)
    size = {2: 3, 6: 4}[kind]
    raw = zlib.decompress(b"".join(data for name, data in chunks if name == b"IDAT"))
    colours: Counter[bytes] = Counter()
    above = bytearray(width * size)
    for row in range(height):
        start = row * (width * size + 1)
        above = unfilter(raw[start], bytearray(raw[start + 1 : start + 1 + width * size]), above, size)
        colours.update(bytes(above[at : at + 3]) for at in range(0, len(above), size))
    return colours


def unfilter(kind: int, line: bytearray, above: bytearray, size: int) -> bytearray:
    """Return a line of a PNG as it is before it is packed."""
    if kind == 2:  # the line above is its guess, and needs nothing from the left
        return bytearray((value + up) & 0xFF for value, up in zip(line, above, strict=True))
    for at in range(len(line) if kind else 0):
        left, up = line[at - size] if at >= size else 0, above[at]
        if kind == 1:
            guess = left
        elif kind == 3:
            guess = (left + up) // 2
        else:
            corner = above[at - size] if at >= size else 0
            to_left, to_up, to_corner = abs(up - corner), abs(left - corner), abs(left + up - 2 * corner)
            guess = (
                left if to_left <= to_up and to_left <= to_corner else up if to_up <= to_corner else corner
            )
        line[at] = (line[at] + guess) & 0xFF
    return line


def test_a_cell_with_one_agent_passes(left: Evidence) -> None:
    (agent,) = left.read("agents.json")["agents"]

    assert (left.cell["status"], left.cell["sandbox"]) == ("passed", "enforced")
    assert {row["kind"] for row in agent["matcherResults"]} >= {"message_contains", "runtime_mode"}
    assert agent["attempts"] == []


def test_the_instance_had_nothing_that_no_rule_names(left: Evidence, installation: Installation) -> None:
    assert left.cell["layout"] == {
        "checkedAgainst": list(CHECKED_AGAINST),
        "paperclip": installation.paperclip_version,
        "unnamed": [],
        "unnamedInTmp": [],
    }


def test_the_picture_shows_the_issues_page(left: Evidence) -> None:
    screenshot = left.cell["screenshot"]
    colours = read_colours((left.directory / PICTURE).read_bytes())

    assert screenshot["status"] == "taken", screenshot
    assert re.fullmatch(r"Say a word \([0-9a-z]+\) \(ada [0-9a-f]{8}\)", screenshot["title"])
    # A page of text: one background, and many shades of letters.
    assert len(colours) > 100
    assert colours.most_common(1)[0][1] < 0.95 * colours.total()
    assert colours.total() > 1_000_000


def test_each_runs_log_is_there_without_keys_and_canaries(left: Evidence) -> None:
    (run,) = left.cell["runLogs"]["runs"]
    (agent,) = left.read("agents.json")["agents"]
    content = (left.directory / run["file"]).read_bytes()
    lines = [json.loads(line) for line in content.splitlines()]

    assert (run["agent"], run["run"], run["file"]) == ("ada", agent["runs"][0]["id"], "run-logs/ada-1.ndjson")
    assert run["leftOut"] == 0
    # The server writes lines of one moment in any order.
    assert sorted(line["seq"] for line in lines) == list(range(1, len(lines) + 1))
    assert "run.terminal" in content.decode()
    assert not re.search(rb"key-[0-9a-f]{32}|canary[0-9a-f]{32}", content)
    # The agent's note, whose text is a canary, stood there.
    assert b"Your note, for you alone: [redacted]" in content


def test_the_result_is_one_that_readers_of_results_accept(left: Evidence) -> None:
    result = parse_result((left.directory / "results/result.json").read_bytes(), Planned(ONE, None, 1))
    (agent,) = left.read("agents.json")["agents"]

    assert (result.status, result.failure_class, result.cleanup) == ("passed", None, "passed")
    assert (result.runtime_mode, result.provider) == ("native", "opencode")
    assert result.run_ids == (agent["runs"][0]["id"],)
    assert result.screenshots == ("final-state.png",)
    assert [row["passed"] for row in result.matcher_results or ()] == [True] * 4
    assert all(row["detail"] for row in result.matcher_results or ())
    assert result.usage is not None
    assert result.usage["status"] == "reported"
    assert int(str(result.usage["outputTokens"])) > 0


def test_the_manifest_lists_all_of_it(left: Evidence) -> None:
    listed = {row["path"] for row in left.read("manifest.json")["files"]}

    assert {PICTURE, "results/result.json", "run-logs/ada-1.ndjson", "server.log"} <= listed


@pytest.mark.extended
def test_a_cell_without_a_browser_says_so_and_passes(ordinary: Checkout) -> None:
    with private_directory("no-browser") as place:
        programs = place / "programs"
        programs.mkdir(mode=0o755)
        for directory in SEARCH_PATH.split(":"):
            for path in Path(directory).glob("*"):
                if path.name not in NAMES and not (programs / path.name).is_symlink():
                    (programs / path.name).symlink_to(path)

        ended = run_cell(ordinary, place, ONE, PATH=str(programs))

        assert ended.status == 0, ended.stdout + ended.stderr
        evidence = evidence_of(place, ONE)
        assert evidence.cell["screenshot"] == {
            "status": "absent",
            "reason": f"none of {', '.join(NAMES)} is on PATH",
        }
        assert not (evidence.directory / PICTURE).exists()
        assert evidence.read("results/result.json")["screenshots"] == []


@pytest.mark.extended
def test_a_cell_that_fails_has_its_picture_and_its_result_too(ordinary: Checkout) -> None:
    with private_directory("failed") as place:
        catalogs = place / "catalogs"
        shutil.copytree(ordinary.project / "catalogs", catalogs)
        text = (catalogs / "paperclip.yaml").read_text(encoding="utf-8")
        head, mark, tail = text.partition("  - id: chat.single-turn\n")
        tail = tail.replace("expectedRunCount: 1\n", "expectedRunCount: 1\n    turnTimeoutMs: 12000\n", 1)
        (catalogs / "paperclip.yaml").write_text(head + mark + tail, encoding="utf-8")
        (catalogs / "paperclip-model" / "chat.single-turn.yaml").write_text(NEVER_ENDS, encoding="utf-8")

        ended = drive(ordinary, place, ONE, catalog=str(catalogs / "paperclip.yaml"))

        assert ended.status != 0
        evidence = evidence_of(place, ONE)
        result = evidence.read("results/result.json")
        assert evidence.cell["screenshot"]["status"] == "taken", evidence.cell["screenshot"]
        assert (evidence.directory / PICTURE).is_file()
        assert (result["status"], result["failureClass"]) == ("failed", evidence.cell["failureClass"])
        assert result["error"] == evidence.cell["message"]
        assert result["usage"]["status"] == "unavailable"
        assert result["usage"]["inputTokens"] is None
