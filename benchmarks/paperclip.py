"""Compare the real product with and without domains: one agent alone, and ten at once in one instance.

    .venv/bin/python benchmarks/paperclip.py [--rounds N] [--case CASE]... [--json FILE]

Needs `runner-e2e paperclip install` and an ordinary user. The model plays a script, so that every run does
the same; with ten agents all sessions are open before one of them goes on. Cells with and without domains
take turns. Nothing here is a test: times depend on the machine, and only the ratios of one run mean
something.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from runner_e2e.cell.allowance import RetryPolicy
from runner_e2e.cell.paperclip_attempt import PaperclipHarness
from runner_e2e.cell.paperclip_plan import plan_paperclip
from runner_e2e.cell.request import CellRequest
from runner_e2e.cell.run import finish_evidence, run_cell
from runner_e2e.plan.catalog import find_catalog, read_catalog

CATALOG, CELLS = "paperclip", "chat-scripted.runner-opencode-scripted.local."
CASES = ("chat.single-turn", "isolation.ten-agents")
# Without a domain a cell is never passed: it is unproven, or its agents reached what is hidden.
UNPROVEN = 3


@dataclass(slots=True)
class Figures:
    """Seconds of all rounds of one case, with domains or without."""

    run_s: list[float] = field(default_factory=list)
    wall_s: list[float] = field(default_factory=list)
    agents: int = 0
    reached: int = 0

    def add(self, runs: Sequence[Mapping[str, str]], reached: int) -> None:
        """Add what one cell came to."""
        begun = [datetime.fromisoformat(run["startedAt"]) for run in runs]
        ended = [datetime.fromisoformat(run["finishedAt"]) for run in runs]
        self.run_s += [(last - first).total_seconds() for first, last in zip(begun, ended, strict=True)]
        self.wall_s.append((max(ended) - min(begun)).total_seconds())
        self.agents, self.reached = len(runs), self.reached + reached


def run_one(case: str, evidence: Path, *, sandboxed: bool) -> int:
    """Run one cell in this process; its evidence goes below `evidence`."""
    catalog = find_catalog(CATALOG)
    (execution,) = [one for one in read_catalog(catalog).executions if one.id == CELLS + case]
    planned = plan_paperclip(execution, catalog, os.environ)
    request = CellRequest(evidence_parent=evidence, catalog=catalog, sandboxed=sandboxed)
    # A second attempt would be one measurement of two.
    request = replace(request.for_paperclip(execution, planned), retries=RetryPolicy(single_attempt=True))
    outcome = run_cell(request, None, None, PaperclipHarness)
    finish_evidence(outcome, "")
    print(outcome.message, file=sys.stderr)
    return outcome.exit_code


def measure(case: str, *, sandboxed: bool, into: Figures) -> None:
    """Run one cell in a process of its own, and add what its agents took."""
    with tempfile.TemporaryDirectory(prefix="benchmark-", dir="/var/tmp") as place:
        words = [sys.executable, "-P", __file__, "--one", case, "--evidence", place]
        environ = {**os.environ, "RUNNER_E2E_DECOY": "decoy-for-a-benchmark"}
        done = subprocess.run(
            words + ([] if sandboxed else ["--open"]),
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != (0 if sandboxed else UNPROVEN):
            raise SystemExit(f"{case} ended with {done.returncode}: {done.stderr.strip()}")
        content = json.loads(Path(place, CELLS + case, "agents.json").read_text(encoding="utf-8"))
    agents = content["agents"]
    runs = [run for agent in agents for run in agent["runs"]]
    if [run["status"] for run in runs] != ["succeeded"] * len(agents):
        raise SystemExit(f"{case}: not every agent had one run that succeeded")
    into.add(runs, sum(row["reach"] == "reached" for agent in agents for row in agent["attempts"]))


def describe(case: str, closed: Figures, free: Figures) -> dict[str, object]:
    """Return the figures of one case."""

    def pair(name: str) -> dict[str, float]:
        inside, outside = (statistics.median(getattr(one, name)) for one in (closed, free))
        return {"inDomains": inside, "without": outside, "ratio": inside / outside, "more": inside - outside}

    return {
        "case": case,
        "agents": closed.agents,
        "rounds": len(closed.wall_s),
        "runSeconds": pair("run_s"),
        "wallSeconds": pair("wall_s"),
        "reached": {"inDomains": closed.reached, "without": free.reached},
    }


def show(row: Mapping[str, object]) -> None:
    """Print the figures of one case."""
    print(f"{row['case']}: {row['agents']} agents, {row['rounds']} rounds")
    for title, name in (("one run", "runSeconds"), ("all of them", "wallSeconds")):
        figures = row[name]
        assert isinstance(figures, dict)
        print(
            f"  {title:<12} {figures['inDomains']:6.2f} s in domains, {figures['without']:6.2f} s without:"
            f" {figures['ratio']:.2f} times, {figures['more']:+.2f} s"
        )
    print(f"  hidden places that were reached: {row['reached']}")


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--case", action="append", choices=CASES)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", choices=CASES, help=argparse.SUPPRESS)
    parser.add_argument("--evidence", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--open", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        return run_one(options.one, options.evidence, sandboxed=not options.open)
    rows = []
    for case in options.case or CASES:
        closed, free = Figures(), Figures()
        for _ in range(options.rounds):
            measure(case, sandboxed=True, into=closed)
            measure(case, sandboxed=False, into=free)
        rows.append(describe(case, closed, free))
        show(rows[-1])
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
