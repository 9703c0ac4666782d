"""What a record says of a running attempt, and nothing that it cannot say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner_e2e.cell.process_marks import ProcessMark
from runner_e2e.cell.running import MOST_PROCESSES, Running, build_running, parse_running

BOOT = "0f9c4f3a-6f9b-4c52-9df4-1d0c5fdc2a77"
HARNESS = ProcessMark(100, 5000)
GOOD: dict[str, Any] = build_running(Path("/var/tmp/re-abcdefgh"), HARNESS, [ProcessMark(101, 5001)], BOOT)
NO_LISTS: list[object] = [None, {}, [1], ["1"], [None], [[1, 2]]]
MARKS = st.builds(ProcessMark, st.integers(1, 1 << 22), st.integers(0, (1 << 63) - 1))


def test_null_says_that_nothing_runs() -> None:
    assert parse_running(None) is None


@given(st.one_of(st.none(), st.just(Path("/var/tmp/re-abcdefgh"))), MARKS, st.frozensets(MARKS))
def test_what_is_built_is_read_as_it_was(
    root: Path | None, harness: ProcessMark, processes: frozenset[ProcessMark]
) -> None:
    written = json.loads(json.dumps(build_running(root, harness, processes, BOOT)))

    found = parse_running(written)

    assert found is not None
    assert (found.root, found.boot_id) == (None if root is None else str(root), BOOT)
    assert found.marks == {harness, *processes}


def test_of_too_many_processes_the_oldest_are_named() -> None:
    flood = [ProcessMark(1 + number, 9 * MOST_PROCESSES - number) for number in range(2 * MOST_PROCESSES)]

    found: Running | None = parse_running(build_running(None, HARNESS, flood, BOOT))

    assert isinstance(found, Running)
    assert set(found.processes) == set(flood[MOST_PROCESSES:])


@pytest.mark.parametrize(
    "value",
    [
        *("x", 1, True, [], {}, {**GOOD, "more": 1}, {k: v for k, v in GOOD.items() if k != "root"}),
        *({**GOOD, "root": root} for root in (1, "", "var", "/a\0b", "/" + "a" * 5000, ["/"])),
        *({**GOOD, "bootId": boot} for boot in (None, "", BOOT + "\n", BOOT.upper(), 1, "../../boot")),
        *({**GOOD, "processes": rows} for rows in NO_LISTS),
        {**GOOD, "processes": [{"pid": 1, "started": 1}] * (MOST_PROCESSES + 1)},
        {**GOOD, "harness": None},
        *(
            {**GOOD, "harness": {"pid": pid, "started": started}}
            for pid, started in (
                (0, 1),
                (-1, 1),
                (True, 1),
                (1.0, 1),
                ("1", 1),
                (1 << 23, 1),
                (5, -1),
                (5, False),
                (5, 1 << 63),
            )
        ),
        {**GOOD, "harness": {"pid": 5}},
        {**GOOD, "harness": {"pid": 5, "started": 1, "more": 1}},
    ],
)
def test_anything_else_is_told_in_a_sentence(value: object) -> None:
    with pytest.raises(ValueError, match=r"^running \w+ .*\w$"):
        parse_running(value)
