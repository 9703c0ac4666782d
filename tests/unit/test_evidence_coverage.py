"""What is left out stays said, however much else is left out beside it."""

from __future__ import annotations

from pathlib import Path

from runner_e2e.evidence.coverage import Coverage, LeftOut


def test_a_flood_of_what_is_not_required_hides_nothing_that_is() -> None:
    left_out = LeftOut()
    for number in range(5000):
        left_out.add(Path(f"/work/{number}"), "too-large", required=False)
    left_out.add(Path("/run/log"), "too-large", required=True)

    assert left_out.describe(required=True) == ["too-large: /run/log"]
    assert left_out.describe(required=False)[-1] == "at least 980 more"


def test_the_first_reason_stays_and_what_is_required_is_not_taken_back() -> None:
    left_out = LeftOut()
    path = Path("/run/log")
    left_out.add(path, "too-large", required=True)
    left_out.add(path, "unreadable", required=True)
    left_out.add(path, "earlier-states", required=False)

    assert left_out.describe(required=True) == ["too-large: /run/log"]
    assert left_out.describe(required=False) == ["earlier-states: /run/log"]


def test_more_is_added_to_what_was_said() -> None:
    left_out = LeftOut()
    left_out.add(Path("/a"), "budget", required=True)
    left_out.add(Path("/b"), "rows-unreadable", required=False)

    coverage = Coverage(2, 30, ["x: /c"], ["y: /d"]).with_more(left_out)
    assert coverage == Coverage(2, 30, ["x: /c", "budget: /a"], ["y: /d", "rows-unreadable: /b"])
