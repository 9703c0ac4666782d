"""The tables of a cell in `results.json`: its probe, its agents, what they reached, its matchers. Pure.

Records are foreign: what is not of the shape that is expected is left out, and all that is taken is capped.
"""

from collections.abc import Mapping, Sequence
from itertools import islice

from runner_e2e.evidence.server_log import ProbeStatus
from runner_e2e.report.artifact import AGENTS, RESULT
from runner_e2e.report.artifact_rules import read_number
from runner_e2e.report.foreign_text import NAME, SENTENCE, ForeignText
from runner_e2e.report.rows import AgentRow, agent_rows, records

Record = Mapping[str, object]
Document = dict[str, object]

_MOST_AGENTS, _MOST_TRIED, _MOST_CHECKS, _MOST_MATCHERS = 64, 500, 500, 500
_MOST_REASONS = _MOST_PROTECTIONS = 50
_MOST_LISTED = 100
_REACHES = frozenset({"reached", "visible", "tried", "not-tried"})
_ATTEMPT_FIELDS = ("id", "how", "outcome", "errno", "reach")
_CHECK_FIELDS = ("id", "expected", "observed", "control")


def describe_probe(probe: Record | None, texts: ForeignText) -> Document:
    """Return a probe summary; `absent` where there is none."""
    probe = {} if probe is None else probe
    checks = islice(records(probe.get("checks")), _MOST_CHECKS)
    return {
        "status": str(probe.get("status", ProbeStatus.ABSENT.value)),
        "owner": texts.read_optional(probe.get("owner")),
        "abi": read_number(probe.get("abi")),
        "reasons": texts.read_list(probe.get("reasons"), SENTENCE, _MOST_REASONS),
        "launches": _count(probe.get("launches")),
        "refusals": _count(probe.get("refusals")),
        "protections": _describe_protections(probe.get("protections"), texts),
        "checks": [
            {
                "boot": read_number(row.get("boot")) or 0,
                **{name: texts.read(row.get(name)) for name in _CHECK_FIELDS},
                "problem": texts.read_optional(row.get("problem"), SENTENCE),
            }
            for row in checks
        ],
    }


def describe_agents(agents: object, texts: ForeignText) -> list[Document]:
    """Return what each agent of an `agents.json` was sent to, and what it got."""
    rows = agent_rows({"agents": [_read_agent(row, texts) for row in _agents_of(agents)]})
    return [_describe_agent(row, texts) for row in rows]


def describe_matchers(content: Record, texts: ForeignText, *, hides_names: bool) -> list[Document]:
    """Return what the task's matchers came to; behind a key without details, which quote the task."""
    result = content.get(RESULT)
    said = result.get("matcherResults") if isinstance(result, dict) else None
    rows: list[Record] = [*records(said)]
    if not rows:
        rows = [
            {"agent": agent.get("agent"), **row}
            for agent in _agents_of(content.get(AGENTS))
            for row in records(agent.get("matcherResults"))
        ]
    return [
        {
            "agent": texts.read_optional(row.get("agent")),
            "kind": texts.read(row.get("kind")),
            "passed": row.get("passed") is True,
            "detail": "" if hides_names else texts.read(row.get("detail"), SENTENCE),
        }
        for row in rows[:_MOST_MATCHERS]
        if isinstance(row.get("passed"), bool)
    ]


def describe_contamination(value: object, texts: ForeignText) -> Document | None:
    """Return what the agents reached or tried to, None where nothing is known of it."""
    if not isinstance(value, dict) or not value:
        return None
    accesses = islice(records(value.get("accesses")), _MOST_LISTED)
    return {
        "verdict": texts.read_optional(value.get("verdict")),
        "reached": texts.read_list(value.get("reached"), SENTENCE, _MOST_LISTED),
        "knownGaps": texts.read_list(value.get("knownGaps"), SENTENCE, _MOST_LISTED),
        "foreign": texts.read_list(value.get("foreign"), SENTENCE, _MOST_LISTED),
        "accesses": [
            {
                "place": texts.read(row.get("place"), SENTENCE),
                "outcome": texts.read(row.get("outcome")),
                "count": read_number(row.get("count")) or 0,
                "line": texts.read(row.get("line"), SENTENCE),
            }
            for row in accesses
        ],
        "searchedBytes": read_number(value.get("searchedBytes")) or 0,
        "unsearched": texts.read_list(value.get("unsearched"), SENTENCE, _MOST_LISTED),
    }


def _describe_protections(value: object, texts: ForeignText) -> list[Document]:
    items = value.items() if isinstance(value, dict) else ()
    return [
        {
            "name": texts.read(name),
            "level": texts.read_optional(entry.get("level")),
            "outcome": texts.read(entry.get("outcome")),
        }
        for name, entry in islice(items, _MOST_PROTECTIONS)
        if isinstance(entry, dict)
    ]


def _read_agent(row: Record, texts: ForeignText) -> Document:
    """Return an agent's row in which everything is a short text."""
    attempts = islice(records(row.get("attempts")), _MOST_TRIED)
    return {
        "agent": texts.read(row.get("agent")),
        "done": row.get("done"),
        "issueStatus": texts.read(row.get("issueStatus")),
        "attempts": [
            {name: texts.read_optional(one.get(name)) for name in _ATTEMPT_FIELDS} for one in attempts
        ],
    }


def _describe_agent(row: AgentRow, texts: ForeignText) -> Document:
    return {
        "name": row.name,
        "done": row.done,
        "issueStatus": row.issue or None,
        "tried": [
            {
                "id": one.id,
                "how": one.how,
                "got": texts.read(one.got, NAME),
                "reach": one.reach if one.reach in _REACHES else "not-tried",
            }
            for one in row.attempts
        ],
    }


def _agents_of(value: object) -> Sequence[Record]:
    rows = value.get("agents") if isinstance(value, dict) else None
    return [*islice(records(rows), _MOST_AGENTS)]


def _count(value: object) -> int:
    return len(value) if isinstance(value, list) else 0
