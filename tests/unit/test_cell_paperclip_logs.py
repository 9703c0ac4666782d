"""Run logs as evidence: where they lie, how they are cut, what is said of those that are not staged."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner_e2e.cell.paperclip_agents import Worker
from runner_e2e.cell.paperclip_logs import MOST_LOGS, cut, find_log, read_reduced, stage_logs
from runner_e2e.evidence.redaction import Redactor

if TYPE_CHECKING:
    from pathlib import Path

KEY, CANARY = "key-0123456789abcdef0123456789abcdef", "canary0123456789abcdef0123456789abcdef"
LINES = [json.dumps({"seq": number, "chunk": "x" * 50}).encode() + b"\n" for number in range(100)]


def make_worker(instance: Path, *logs: bytes | None) -> Worker:
    """Return an agent with a run for each log, the oldest first, and write those that are some."""
    worker = Worker("ada", KEY, CANARY, agent="agent-1")
    worker.runs = [{"id": f"run-{number}", "companyId": "company-1"} for number in range(len(logs), 0, -1)]
    place = instance / "data" / "run-logs" / "company-1" / "agent-1"
    place.mkdir(parents=True, exist_ok=True)
    for number, log in enumerate(logs, 1):
        if log is not None:
            (place / f"run-{number}.ndjson").write_bytes(log)
    return worker


def test_each_log_is_staged_without_keys_and_canaries_and_stays_json(tmp_path: Path) -> None:
    line = json.dumps({"seq": 1, "chunk": json.dumps({"text": f"{KEY} and {CANARY}", "apiKey": "other"})})
    worker = make_worker(tmp_path / "i", line.encode() + b"\n", b'{"seq":1}\n')

    staged = stage_logs(
        tmp_path / "i", [worker], tmp_path / "s", tmp_path / "run-logs", Redactor([KEY, CANARY])
    )

    first = (tmp_path / "run-logs" / "ada-1.ndjson").read_text()
    assert KEY not in first
    assert CANARY not in first
    assert json.loads(first)["seq"] == 1
    assert (tmp_path / "run-logs" / "ada-2.ndjson").read_text() == '{"seq":1}\n'
    assert [row["file"] for row in staged.rows] == ["run-logs/ada-1.ndjson", "run-logs/ada-2.ndjson"]
    assert [row["run"] for row in staged.rows] == ["run-1", "run-2"]


def test_a_run_without_a_log_or_with_another_thing_in_its_place_says_so(tmp_path: Path) -> None:
    worker = make_worker(tmp_path, None, None, b"\0" + KEY.encode())
    place = tmp_path / "data" / "run-logs" / "company-1" / "agent-1"
    (tmp_path / "secret").write_text("secret")
    (place / "run-2.ndjson").symlink_to(tmp_path / "secret")

    staged = stage_logs(tmp_path, [worker], tmp_path / "s", tmp_path / "run-logs", Redactor([KEY]))

    assert [row.get("file") for row in staged.rows] == [None, None, None]
    assert staged.rows[0]["reason"] == "No such file or directory"
    assert "symbolic" in str(staged.rows[1]["reason"])
    assert str(staged.rows[2]["reason"]).startswith("withheld: holds a known secret")
    assert list((tmp_path / "run-logs").iterdir()) == []


def test_there_are_no_more_logs_than_can_be_read(tmp_path: Path) -> None:
    worker = make_worker(tmp_path, *([b"{}\n"] * (MOST_LOGS + 2)))

    staged = stage_logs(tmp_path, [worker], tmp_path / "s", tmp_path / "run-logs", Redactor([]))

    assert (len(staged.rows), staged.unnamed) == (MOST_LOGS, 2)
    assert staged.describe()["unnamed"] == 2


@pytest.mark.parametrize("run", [None, 7, "", "../../x", "a/b", ".", "-" * 101, ".hidden"])
def test_a_name_that_the_product_does_not_give_leads_nowhere(tmp_path: Path, run: object) -> None:
    assert find_log(tmp_path, "company", "agent", run) is None
    assert find_log(tmp_path, run, "agent", "run") is None


def test_a_long_log_keeps_its_beginning_and_its_end_and_says_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"".join(LINES))

    reduced = read_reduced(path, 1000)

    assert reduced is not None
    assert reduced.content.startswith(LINES[0])
    assert reduced.content.endswith(LINES[-1])
    said = [json.loads(line) for line in reduced.content.splitlines()]
    (between,) = [line for line in said if "runner-e2e" in line]
    assert between == {"runner-e2e": {"leftOutBytes": reduced.left_out}}
    kept = len(reduced.content) - len(json.dumps(between)) - 1
    assert (reduced.size, reduced.left_out) == (path.stat().st_size, path.stat().st_size - kept)


@given(st.binary(max_size=200), st.binary(max_size=200), st.integers(0, 1000))
def test_whatever_is_cut_adds_up_and_has_whole_lines(head: bytes, tail: bytes, between: int) -> None:
    size = len(head) + between + len(tail)

    reduced = cut(head, tail, size)

    first, _, last = reduced.content.partition(b'{"runner-e2e": {"leftOutBytes": %d}}\n' % reduced.left_out)
    assert len(first) + len(last) + reduced.left_out == size
    assert head.startswith(first)
    assert tail.endswith(last)
    assert not first or first.endswith(b"\n")


def test_what_is_no_file_with_one_name_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"{}\n")
    os.link(tmp_path / "log", tmp_path / "other")
    os.mkfifo(tmp_path / "pipe")

    assert read_reduced(tmp_path / "log") is None
    assert read_reduced(tmp_path / "pipe") is None
