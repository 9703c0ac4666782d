"""Ten native agents at once on one server, each in a domain of its own: none reads what is another's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from e2e.checkout import private_directory

from .cells import SCRIPTED, evidence_of, leaving_nothing, run_cell, tables_of

if TYPE_CHECKING:
    from e2e.checkout import Checkout
    from runner_e2e.product.installation import Installation

NAME = f"{SCRIPTED}isolation.ten-agents"
AGENTS = 10


@pytest.mark.extended
def test_ten_agents_work_at_once_and_none_reads_anothers(
    ordinary: Checkout, installation: Installation
) -> None:
    with private_directory("ten") as place, leaving_nothing(ordinary, installation):
        ended = run_cell(ordinary, place, NAME)

        assert ended.status == 0, ended.stdout + ended.stderr
        evidence = evidence_of(place, NAME)
        agents = evidence.read("agents.json")["agents"]
        runs = [run for agent in agents for run in agent["runs"]]
        assert [run["status"] for run in runs] == ["succeeded"] * AGENTS
        # The first had not ended when the last began.
        assert max(run["startedAt"] for run in runs) < min(run["finishedAt"] for run in runs)
        tables = tables_of(evidence)
        assert len(tables) == AGENTS
        for rows in tables.values():
            closed = {row["id"]: row["outcome"] for row in rows if not row["knownGap"]}
            assert closed["run:peerSession"] == "denied"
            assert set(closed.values()) == {"denied"}
        assert evidence.log.count(b"runner-e2e sandbox-launch ") == AGENTS
        assert evidence.cell["contamination"]["reached"] == []
