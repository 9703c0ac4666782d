"""One cell in `results.json`, from its artifact, or without one. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runner_e2e.errors import FailureClass
from runner_e2e.report.artifact import AGENTS, LOGS, PICTURE, RESULT, SPENDING, Content, RefusedArtifactError
from runner_e2e.report.artifact_rules import is_proven, read_number, read_time, require_usable
from runner_e2e.report.cell_costs import describe_cost, describe_usage, unknown_cost, unknown_usage
from runner_e2e.report.cell_details import (
    describe_agents,
    describe_contamination,
    describe_matchers,
    describe_probe,
)
from runner_e2e.report.foreign_text import SENTENCE, ForeignText
from runner_e2e.report.planned import Planned, PlannedCell
from runner_e2e.report.rows import records

MOST_EXCERPT, MOST_LISTED_FILES, LONGEST_PATH = 8000, 200, 1000

_MOST_ATTEMPTS = 10
_STATUSES = ("started", "passed", "failed", "refused", "not_run", "cancelled", "timed-out")
_LOST = FailureClass.PERMANENT_INFRASTRUCTURE
_NO_ARTIFACT = "The cell left no artifact. See the log of its job."
_NO_JOB = "No job has run the cell since it was planned. See why the workflow did not start its job."
_KILLED = "The cell's job ended before run-cell could say how the cell ended. See the log of the job."

Record = Mapping[str, object]
Document = dict[str, object]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a cell's artifact is: its name, if there is one, the attempt that counts, those before."""

    artifact: str | None
    run_attempt: int
    earlier: Sequence[Document] = ()


def build_cell(
    content: Content, cell: PlannedCell, planned: Planned, place: Place, texts: ForeignText
) -> Document:
    """Return the cell that an artifact tells of; raises RefusedArtifactError where it tells of another."""
    record, probe = require_usable(content, cell, planned)
    was_killed = record["status"] == "started"
    end = _read_end(record, texts)
    return {
        **_identify(cell, record.get("suiteDefinitionHash"), texts),
        "source": "artifact",
        **_describe_place(place),
        **(_build_end(_KILLED) if was_killed else end),
        "flaky": record.get("flaky") is True and record["status"] == "passed",
        "harness": texts.read_optional(record.get("harness")),
        "sandbox": record["sandbox"] if is_proven(record, probe) else "unproven",
        "transport": texts.read_optional(record.get("transport")),
        "targetSha": texts.read_optional(record.get("targetSha"), 64),
        "startedAt": read_time(record["startedAt"]),
        "finishedAt": read_time(record["finishedAt"]),
        "durationMs": read_number(record["durationMs"]),
        "attempts": _describe_attempts(record, texts),
        "earlier": list(place.earlier),
        "matchers": describe_matchers(content.records, texts, hides_names=planned.opaque),
        "probe": describe_probe(probe, texts),
        "agents": describe_agents(content.records.get(AGENTS), texts),
        "contamination": describe_contamination(record.get("contamination"), texts),
        "usage": describe_usage(record, content.records),
        "cost": describe_cost(record, content.records),
        **_describe_model(content, texts, hides_names=planned.opaque),
        "log": _describe_log(content, texts),
        # It shows the task's page.
        "screenshot": None if planned.opaque else _describe_picture(content),
        "files": [
            {"path": texts.read(path, LONGEST_PATH), "bytes": size}
            for path, size in list(content.files.items())[:MOST_LISTED_FILES]
        ],
    }


def build_missing(cell: PlannedCell, place: Place, texts: ForeignText, *, ran: bool = True) -> Document:
    """Return a cell whose attempt that counts left no artifact, or of which no job `ran`."""
    return _build_nothing(cell, place, "missing", _NO_ARTIFACT if ran else _NO_JOB, texts)


def build_rejected(
    cell: PlannedCell, place: Place, error: RefusedArtifactError, texts: ForeignText
) -> Document:
    """Return a cell whose artifact does not count."""
    message = f"The cell's artifact was refused. {error.message}"
    return _build_nothing(cell, place, "rejected", message, texts)


def describe_earlier(
    record: object, cell: PlannedCell, planned: Planned, run_attempt: int, artifact: str
) -> Document:
    """Return an artifact of an attempt that does not count; what of its record is none is null."""
    found: Record = record if isinstance(record, dict) else {}
    if found.get("key" if planned.opaque else "id") != cell.name:
        found = {}
    status, failure = found.get("status"), found.get("failureClass")
    return {
        "runAttempt": run_attempt,
        "artifact": artifact,
        "status": status if status in _STATUSES else None,
        "failureClass": failure if isinstance(failure, str) and failure in list(FailureClass) else None,
    }


def _build_nothing(
    cell: PlannedCell, place: Place, source: str, message: str, texts: ForeignText
) -> Document:
    return {
        **_identify(cell, None, texts),
        "source": source,
        **_describe_place(place),
        **_build_end(texts.read(message, SENTENCE)),
        "flaky": False,
        "harness": None,
        "sandbox": "unproven",
        "transport": None,
        "targetSha": None,
        "startedAt": None,
        "finishedAt": None,
        "durationMs": None,
        "attempts": [],
        "earlier": list(place.earlier),
        "matchers": [],
        "probe": describe_probe(None, texts),
        "agents": [],
        "contamination": None,
        "usage": unknown_usage(),
        "cost": unknown_cost(),
        "model": None,
        "provider": None,
        "log": None,
        "screenshot": None,
        "files": [],
    }


def _identify(cell: PlannedCell, definition: object, texts: ForeignText) -> Document:
    """Return the cell's names as they were planned: behind a key its artifact adds none."""
    return {
        "name": cell.name,
        "suite": cell.suite,
        "profile": cell.profile,
        "environment": cell.environment,
        "case": cell.case,
        "suiteDefinitionHash": None if cell.suite is None else texts.read_optional(definition, 128),
    }


def _describe_place(place: Place) -> Document:
    return {"artifact": place.artifact, "runAttempt": place.run_attempt}


def _build_end(message: str) -> Document:
    return {
        "status": "failed",
        "failureClass": _LOST.value,
        "exitCode": _LOST.exit_code,
        "message": message,
    }


def _read_end(record: Record, texts: ForeignText) -> Document:
    return {
        "status": record["status"],
        "failureClass": record["failureClass"],
        "exitCode": record["exitCode"],
        "message": texts.read_optional(record["message"], SENTENCE),
    }


def _describe_attempts(record: Record, texts: ForeignText) -> list[Document]:
    rows = [*records(record["attempts"])][-_MOST_ATTEMPTS:]
    return [
        {
            "number": read_number(row["number"]),
            "status": row["status"],
            "failureClass": row["failureClass"],
            "startedAt": read_time(row["startedAt"]),
            "finishedAt": read_time(row["finishedAt"]),
            **{
                name: texts.read_optional(row.get(name), SENTENCE)
                for name in ("rule", "line", "message", "retry")
            },
        }
        for row in rows
    ]


def _describe_model(content: Content, texts: ForeignText, *, hides_names: bool) -> Document:
    """Return model and provider; behind a key neither, since they tell the profile."""
    result, spent = content.records.get(RESULT), content.records.get(SPENDING)
    said: Record = result if isinstance(result, dict) and not hides_names else {}
    model = said.get("model")
    if not model and not hides_names and isinstance(spent, dict):
        asked = [row.get("model") for row in records(spent.get("models"))]
        model = asked[0] if len(asked) == 1 else None
    return {"model": texts.read_optional(model), "provider": texts.read_optional(said.get("provider"))}


def _describe_log(content: Content, texts: ForeignText) -> Document | None:
    """Return the end of the server's log, or of the harness's where there was no server."""
    for name in LOGS:
        if tail := content.tails.get(name):
            is_cut = content.files[name] > len(tail)
            excerpt, cut = texts.read_tail(tail, MOST_EXCERPT, cut=is_cut)
            return {"excerpt": excerpt, "cut": cut}
    return None


def _describe_picture(content: Content) -> Document | None:
    size = content.picture_bytes
    return None if size is None else {"path": PICTURE, "bytes": size}
