"""Whether an artifact tells of the planned cell, and of nothing that contradicts itself. Pure.

The same rules as where cells are judged: a pass counts only where its isolation is proven, or does not apply.
"""

from collections.abc import Mapping
from datetime import UTC, datetime

from runner_e2e.errors import FailureClass
from runner_e2e.evidence.record_rules import check_cell, check_probe_summary
from runner_e2e.evidence.server_log import ProbeStatus
from runner_e2e.report.artifact import CELL, PROBE, RESULT, Content, RefusedArtifactError
from runner_e2e.report.planned import Planned, PlannedCell

LARGEST = (1 << 53) - 1  # beyond it readers of JSON round
_MOST_SAID = 3
_SIGNALS = range(129, 160)  # 128 and the number of the signal that ended a cell

Record = Mapping[str, object]


def require_usable(content: Content, cell: PlannedCell, planned: Planned) -> tuple[Record, Record | None]:
    """Return the cell's record and its probe summary, if there is one; raises RefusedArtifactError."""
    record, probe = content.records.get(CELL), content.records.get(PROBE)
    if record is None:
        raise RefusedArtifactError("no-record", f"It holds no {CELL}")
    _refuse_problems(CELL, check_cell(record))
    if probe is not None:
        _refuse_problems(PROBE, check_probe_summary(probe))
    if not isinstance(record, dict) or not (probe is None or isinstance(probe, dict)):
        raise TypeError("a record that keeps to its rules is an object")
    _require_name(record, content.records.get(RESULT), cell, planned)
    _require_sound(record)
    _require_target(record, cell, planned)
    if record["status"] == "passed":
        _require_pass(content, record, probe)
    return record, probe


def is_proven(record: Record, probe: Record | None) -> bool:
    """Whether the probe summary carries what the record says of the isolation of its agents."""
    sandbox = record["sandbox"]
    if sandbox == "not-applicable":
        return record["harness"] == "command"
    if probe is None or probe["status"] != ProbeStatus.PASSED:
        return False
    if sandbox == "enforced":
        return probe.get("owner") != "target" and bool(probe["launches"])
    target = probe.get("target")
    launched = isinstance(target, dict) and target.get("launchSeen") is True
    return sandbox == "target" and probe.get("owner") == "target" and launched


def read_time(value: object) -> str | None:
    """Return an ISO 8601 time with a zone in UTC, None for anything else."""
    try:
        time = datetime.fromisoformat(value) if isinstance(value, str) else None
        return None if time is None else time.astimezone(UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError):
        return None


def read_number(value: object) -> int | None:
    """Return a whole number from 0 on that every reader of JSON keeps, None for anything else."""
    return value if type(value) is int and 0 <= value <= LARGEST else None


def _refuse_problems(name: str, problems: list[str]) -> None:
    if problems:
        raise RefusedArtifactError("record", f"{name} {'; '.join(problems[:_MOST_SAID])}")


def _require_name(record: Record, result: object, cell: PlannedCell, planned: Planned) -> None:
    own = "key" if planned.opaque else "id"
    if record.get(own) != cell.name:
        raise RefusedArtifactError("forged-name", f"{CELL} is of another cell than the artifact's name says")
    named = result.get("executionId") if isinstance(result, dict) else None
    if named is not None and named != cell.name:
        raise RefusedArtifactError(
            "forged-name", f"{RESULT} is of another cell than the artifact's name says"
        )


def _require_sound(record: Record) -> None:
    """Refuse a record that no cell's end writes."""
    attempts = record["attempts"]
    rows = [row for row in attempts if isinstance(row, dict)] if isinstance(attempts, list) else []
    times = [row.get(name) for row in (record, *rows) for name in ("startedAt", "finishedAt")]
    if any(time is not None and read_time(time) is None for time in times):
        raise RefusedArtifactError("record", f"{CELL} has a time that is none")
    numbers = [record["durationMs"], *(row.get("number") for row in rows)]
    if any(number is not None and read_number(number) is None for number in numbers):
        raise RefusedArtifactError("record", f"{CELL} has a number that it cannot have")
    failure, code = record["failureClass"], record["exitCode"]
    if failure is None or record["status"] == "started":
        return
    ended = FailureClass(str(failure))
    if code != ended.exit_code and not (ended is FailureClass.CANCELLED and code in _SIGNALS):
        raise RefusedArtifactError("record", f"{CELL} has an exit code that is not its failure class's")


def _require_target(record: Record, cell: PlannedCell, planned: Planned) -> None:
    sha = record["targetSha"]
    if planned.target_sha is not None and record["harness"] == "command":
        unknown = sha is None and record["status"] != "passed"  # one that was refused never had a target
        if sha != planned.target_sha and not unknown:
            raise RefusedArtifactError("wrong-target", "It is of another commit than the planned one")
    definition = planned.definitions.get(cell.suite or "")
    if definition is not None and record.get("suiteDefinitionHash") != definition:
        raise RefusedArtifactError(
            "definition-drift", "The suite was defined otherwise than when the campaign was planned"
        )


def _require_pass(content: Content, record: Record, probe: Record | None) -> None:
    """Refuse a pass that lacks what every cell that passed leaves."""
    if probe is None or not content.has_manifest:
        lacking = PROBE if probe is None else "a manifest"
        raise RefusedArtifactError("unproven-pass", f"The cell passed, and its artifact lacks {lacking}")
    if not is_proven(record, probe):
        raise RefusedArtifactError(
            "unproven-pass", "The cell passed, and its probe summary does not carry that"
        )
