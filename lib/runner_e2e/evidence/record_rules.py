"""What `cell.json` and `probe-summary.json` must hold: names and types, and what must agree. Pure.

Fields beyond these are left to later versions.
"""

from collections.abc import Callable, Mapping
from datetime import datetime

from runner_e2e.errors import FailureClass
from runner_e2e.evidence.server_log import SUMMARY_SCHEMA, ProbeStatus

CELL_SCHEMA = "runner-e2e.cell/v1"
_MOST_PROBLEMS = 100
_STATUSES = frozenset({"started", "passed", "failed", "refused", "not_run", "cancelled", "timed-out"})
_FAILURES = frozenset(FailureClass)

Rule = Callable[[object], bool]


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_time(value: object) -> bool:
    if not isinstance(value, str):
        return False
    try:
        return datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False


def _is_number(value: object) -> bool:
    return type(value) is int


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _is_list(value: object) -> bool:
    return isinstance(value, list)


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def _or_null(rule: Rule) -> Rule:
    return lambda value: value is None or rule(value)


def _is_restart(value: object) -> bool:
    return isinstance(value, dict) and not _check_fields(value, _RESTART)


def _is_domain(value: object) -> bool:
    return isinstance(value, dict) and not _check_fields(value, _DOMAIN)


def _word_of(words: frozenset[str]) -> Rule:
    return lambda value: isinstance(value, str) and value in words


def _list_of(rule: Rule) -> Rule:
    return lambda value: isinstance(value, list) and all(map(rule, value))


_ATTEMPT: Mapping[str, Rule] = {
    "number": _is_number,
    "startedAt": _is_time,
    "finishedAt": _is_time,
    "status": _word_of(_STATUSES),
    "failureClass": _or_null(_word_of(_FAILURES)),
}
_ATTEMPT_OPTIONAL: Mapping[str, Rule] = {
    "message": _or_null(_is_text),
    "retry": _is_text,
    "rule": _is_text,
    "line": _is_text,
}
_RESTART: Mapping[str, Rule] = {
    "requestId": _is_text,
    "status": _word_of(frozenset({"ready", "failed"})),
    "completedAt": _is_time,
}
_DOMAIN: Mapping[str, Rule] = {
    "scopes": _word_of(frozenset({"enforced", "degraded"})),
    "writes": _word_of(frozenset({"enforced", "off"})),
}
_CELL: Mapping[str, Rule] = {
    "status": _word_of(_STATUSES),
    "failureClass": _or_null(_word_of(_FAILURES)),
    "exitCode": _or_null(_is_number),
    "message": _or_null(_is_text),
    "harness": _is_text,
    "sandbox": _word_of(frozenset({"enforced", "target", "not-applicable", "unproven"})),
    "transport": _or_null(_is_text),
    "targetSha": _or_null(_is_text),
    "startedAt": _is_time,
    "finishedAt": _or_null(_is_time),
    "durationMs": _or_null(_is_number),
    "attempts": _list_of(_is_object),
}
_CELL_OPTIONAL: Mapping[str, Rule] = {
    "contamination": _is_object,
    "aliases": _list_of(_is_text),
    "leftovers": _list_of(_is_text),
    "dropped": _list_of(_is_text),
    "flaky": _is_flag,
    "harnessStatus": _or_null(_is_number),
    "harnessDomain": _is_domain,
    "evidence": _is_object,
    "spending": _is_object,
    "root": _is_text,
    "running": _or_null(_is_object),
    "database": _is_text,
    "sweep": _is_object,
    "restarts": _list_of(_is_restart),
}
_PROBE: Mapping[str, Rule] = {
    "status": _word_of(frozenset(ProbeStatus)),
    "reasons": _list_of(_is_text),
    "abi": _or_null(_is_number),
    "protections": _or_null(_is_object),
    "checks": _list_of(_is_object),
    "failures": _is_list,
    "launches": _list_of(_is_object),
    "refusals": _list_of(_is_object),
}


def check_cell(record: object) -> list[str]:
    """Return a sentence for everything that is wrong with a cell's record, none for a good one.

    Of endless attempts that are none the first are told.
    """
    if not isinstance(record, dict) or record.get("schema") != CELL_SCHEMA:
        return [f"does not have the schema {CELL_SCHEMA}"]
    problems = [*_check_fields(record, _CELL), *_check_fields(record, _CELL_OPTIONAL, optional=True)]
    names = [name for name in ("id", "key") if name in record]
    if len(names) != 1 or not (isinstance(record[names[0]], str) and record[names[0]]):
        problems.append("needs either an id or a key")
    if not problems:
        for attempt in record["attempts"]:
            found = [
                *_check_fields(attempt, _ATTEMPT),
                *_check_fields(attempt, _ATTEMPT_OPTIONAL, optional=True),
            ]
            problems += [f"an attempt: {problem}" for problem in found]
            if len(problems) >= _MOST_PROBLEMS:
                break
        problems += _check_end(record)
    return problems


def check_probe_summary(record: object) -> list[str]:
    """Return a sentence for everything that is wrong with a probe summary, none for a good one."""
    if not isinstance(record, dict) or record.get("schema") != SUMMARY_SCHEMA:
        return [f"does not have the schema {SUMMARY_SCHEMA}"]
    problems = _check_fields(record, _PROBE)
    if (
        not problems
        and record["status"] == ProbeStatus.PASSED
        and (record["failures"] or not record["checks"])
    ):
        problems.append("says passed, with failures or without checks")
    return problems


def _check_fields(
    record: Mapping[str, object], rules: Mapping[str, Rule], *, optional: bool = False
) -> list[str]:
    problems = []
    for name, rule in rules.items():
        if name not in record:
            problems += [] if optional else [f"{name} is missing"]
        elif not rule(record[name]):
            problems.append(f"{name} has a value that it cannot have")
    return problems


def _check_end(record: Mapping[str, object]) -> list[str]:
    """Return how the fields that tell how the cell ended contradict each other."""
    ended = [record[name] is not None for name in ("exitCode", "finishedAt", "durationMs")]
    status, failure = record["status"], record["failureClass"]
    if status == "started":
        return ["says started, and how it ended"] if any(ended) else []
    problems = [] if all(ended) else ["does not say how it ended"]
    if record.get("running") is not None:
        problems.append("says how it ended, and that it is running")
    if (status == "passed") != (record["exitCode"] == 0) or (status == "passed") != (failure is None):
        problems.append("status, failureClass and exitCode contradict each other")
    return problems
