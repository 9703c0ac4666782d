"""What agents left: canaries in everything they wrote, their own reports, the conditions of the cell.

Everything read here was written by an agent, so nothing is followed, nothing blocks and no size is
trusted.
"""

import json
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from runner_e2e.cell.agent_run import AgentRun, Coverage
from runner_e2e.cell.flow import Condition, Flow
from runner_e2e.cell.root import AttemptRoot
from runner_e2e.evidence.attempts import Finding, judge_attempts
from runner_e2e.evidence.search import Search
from runner_e2e.isolation.layout import SHARED_IN_INSTANCE

_LONGEST_TEXT = 8 << 20  # bytes of an agent's file that are read
# From the best news to the worst: of several findings about one place the worst one counts.
_OUTCOMES = ("denied", "absent", "error", "obtained")


def judge_agents(
    root: AttemptRoot,
    flow: Flow,
    company: str,
    agents: Sequence[AgentRun],
    launches: Sequence[Mapping[str, object]],
) -> Coverage:
    """Search everything each agent wrote for canaries, and read its own account of its last turn.

    What all agents may write is nobody's in particular: a canary there counts for each of them, but a
    text that one agent was given may well stand there by its own hand.
    """
    seals = {run.seal for run in agents}
    places = {run.name: [place for turn in run.turns for place in turn.places] for run in agents}
    shared = Search.of({place.canary for asked in places.values() for place in asked} - seals)
    for place in SHARED_IN_INSTANCE:
        shared.search_tree(root.instance_root / place)
    searches = [shared]
    for run in agents:
        search = Search.of({place.canary for place in places[run.name]})
        for comment in run.comments:
            search.search_bytes(comment.encode("utf-8", "surrogateescape"))
        for path in _places_of(root, company, run, launches):
            search.search_tree(Path(path))
        # After the search, which opens what was closed.
        read_reports(root, [run])
        run.attempts = judge_attempts(
            list({(place.id, place.canary): place for place in places[run.name]}.values()),
            merge_findings([_findings(turn.report) for turn in run.turns]),
            search.found | shared.found,
        )
        met = [_is_met(root, run, one) for one in flow.conditions]
        run.matchers = [
            {"index": index, "kind": one.kind, "passed": passed, "detail": one.path}
            for index, (one, passed) in enumerate(zip(flow.conditions, met, strict=True))
        ]
        run.unmet = [
            f"matchers[{index}] ({one.name})" for index, one in enumerate(flow.conditions) if not met[index]
        ]
        searches.append(search)
    return Coverage(
        sum(search.searched_bytes for search in searches),
        [path for search in searches for path in search.unsearched],
    )


def read_reports(root: AttemptRoot, agents: Sequence[AgentRun]) -> None:
    """Read each agent's report of its last turn; the next one would replace it.

    A report of another run is none: one that failed early leaves that of the turn before.
    """
    for run in agents:
        if run.turns:
            turn, report = run.turns[-1], _parse(_read_file(root, run, "report.json"))
            turn.report = report if turn.run and report.get("runId") == turn.run else {}


def merge_findings(turns: Sequence[Mapping[str, Finding]]) -> dict[str, Finding]:
    """Return one finding for each place: the worst of all turns, and none that any turn left out."""
    merged: dict[str, Finding] = {}
    for name in set.intersection(*(set(findings) for findings in turns)) if turns else ():
        found = [findings[name] for findings in turns]
        merged[name] = max(found, key=_rank)
    return merged


def _rank(finding: Finding) -> int:
    return _OUTCOMES.index(finding.outcome) if finding.outcome in _OUTCOMES else len(_OUTCOMES)


def _is_met(root: AttemptRoot, run: AgentRun, condition: Condition) -> bool:
    if condition.kind == "message_contains":
        return any(condition.text in comment for comment in run.comments)
    content = _read_file(root, run, condition.path)
    return content is not None and condition.text.encode() in content


def _workspace(root: AttemptRoot, run: AgentRun) -> Path:
    return root.instance_root / "workspaces" / run.agent


def _read_file(root: AttemptRoot, run: AgentRun, name: str) -> bytes | None:
    """Return the beginning of a regular file of an agent's workspace, or nothing."""
    path = _workspace(root, run) / name
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            return file.read(_LONGEST_TEXT) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
    except OSError:
        return None


def _parse(content: bytes | None) -> Mapping[str, object]:
    try:
        report = json.loads(content or b"{}")
    except (ValueError, RecursionError):
        return {}
    return report if isinstance(report, dict) else {}


def _findings(report: Mapping[str, object]) -> dict[str, Finding]:
    rows = report.get("findings")
    findings = {}
    for row in rows if isinstance(rows, list) else []:
        if isinstance(row, dict):
            number = row.get("errno")
            findings[str(row.get("id"))] = Finding(
                str(row.get("id")), str(row.get("outcome")), None if number is None else str(number)
            )
    return findings


def _places_of(
    root: AttemptRoot, company: str, run: AgentRun, launches: Sequence[Mapping[str, object]]
) -> list[str]:
    """Return where the agent could write: its workspace, its run logs, what its launches were shown."""
    places = {
        str(_workspace(root, run)),
        str(root.instance_root / "data" / "run-logs" / company / run.agent),
    }
    own = {row.get("id") for row in run.runs}
    for row in run.runs:
        context = row.get("contextSnapshot")
        state = context.get("stateDir") if isinstance(context, dict) else None
        if isinstance(state, str) and Path(state).is_relative_to(root.instance_root):
            places.add(str(Path(state).parent))
    for launch in launches:
        exposed = launch.get("exposed")
        if launch.get("run") in own and isinstance(exposed, list):
            places.update(str(path) for path in exposed)
    return sorted(places)
