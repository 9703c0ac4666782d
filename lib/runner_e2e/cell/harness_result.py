"""Read the `result.json` of a target's harness: foreign text until it is checked against the plan. Pure.

No message holds an id or a value of the file: cells may be hidden behind a key.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel
from pydantic.dataclasses import dataclass as checked_dataclass

from runner_e2e.errors import FailureClass, HarnessFailureError
from runner_e2e.plan.ids import split_execution_id
from runner_e2e.strict_json import StrictJsonError, parse_strict

SCHEMA = "paperclip.runner-e2e.result/v2"
MOST_BYTES = 8 << 20

_REMEDY = "Read the harness's output; the target's harness has to write a result of one cell as result/v2"
_CONFIG = ConfigDict(extra="ignore", alias_generator=to_camel, hide_input_in_errors=True)
# Under which key the schema's name stands is not published.
_SCHEMA_KEYS = ("schema", "schemaVersion")


def _mend(value: object) -> object:
    """Replace halves of surrogate pairs, which JavaScript leaves where it cuts a text."""
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return value


_Text = Annotated[str, BeforeValidator(_mend), Field(strict=True)]
_Number = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]
_Attempt = Annotated[int, Field(strict=True, ge=0, le=9_999)]
_Object = Annotated[Mapping[str, object], Field(strict=True)]


@checked_dataclass(frozen=True, slots=True, kw_only=True, config=_CONFIG)
class Source:
    """What was tested, as far as the harness says."""

    sha: _Text | None = None
    ref: _Text | None = None
    workflow_run_url: _Text | None = None


@checked_dataclass(frozen=True, slots=True, kw_only=True, config=_CONFIG)
class HarnessResult:
    """What a harness says of one attempt. What it does not say is None, also of money: never zero."""

    execution_id: _Text
    suite_id: _Text
    profile_id: _Text
    environment_id: _Text
    case_id: _Text
    attempt: _Attempt
    status: Literal["passed", "failed"]
    cleanup: Literal["not_started", "passed", "failed"]
    source: Source | None = None
    suite_definition_hash: _Text | None = None
    failure_class: _Text | None = None
    error: _Text | None = None
    provider: _Text | None = None
    model: _Text | None = None
    runtime_mode: _Text | None = None
    run_ids: Annotated[tuple[_Text, ...], Field(fail_fast=True)] | None = None
    started_at: _Text | None = None
    finished_at: _Text | None = None
    duration_ms: _Number | None = None
    usage: _Object | None = None
    billing: _Object | None = None
    matcher_results: Annotated[tuple[_Object, ...], Field(fail_fast=True)] | None = None
    screenshots: Annotated[tuple[object, ...], Field(fail_fast=True)] | None = None


@dataclass(frozen=True, slots=True)
class Planned:
    """What a result has to be of. A `sha` of None is not compared; `attempt` is the harness's own number."""

    execution_id: str
    sha: str | None
    attempt: int


_RESULT = TypeAdapter(HarnessResult)


def parse_result(content: bytes, planned: Planned) -> HarnessResult:
    """Return the result that a file holds; raises HarnessFailureError for anything but the planned cell's.

    Further keys are tolerated, a key that stands twice is not. A commit that the result does not name
    contradicts nothing: the harness is not given the variables that it reads it from.
    """
    parsed = _parse_json(content)
    for key in _SCHEMA_KEYS:
        if key in parsed and parsed[key] != SCHEMA:
            raise _wrong(f"is not of {SCHEMA}")
    try:
        result = _RESULT.validate_python(parsed)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        # Only the names of our own fields: the rest of a place may be the file's.
        verb = "is missing" if first["type"] == "missing" else "is not what it must be"
        problem = f"{first['loc'][0]} {verb}" if first["loc"] else "it has another shape"
        # Not chained, here and below: the original may carry the file's text.
        raise _wrong(f"cannot be used: {problem}") from None
    _require_planned(result, planned)
    return result


def _require_planned(result: HarnessResult, planned: Planned) -> None:
    parts = split_execution_id(planned.execution_id)
    if parts is None:
        raise ValueError("the planned cell has no execution id")
    for name, own, expected in (
        ("executionId", result.execution_id, planned.execution_id),
        ("suiteId", result.suite_id, parts.suite),
        ("profileId", result.profile_id, parts.profile),
        ("environmentId", result.environment_id, parts.environment),
        ("caseId", result.case_id, parts.case),
    ):
        if own != expected:
            raise _wrong(f"is of another cell than the planned one: {name} differs")
    if result.attempt != planned.attempt:
        raise _wrong("is of another attempt than its directory: attempt differs")
    sha = result.source.sha if result.source is not None else None
    if planned.sha is not None and sha is not None and sha != planned.sha:
        raise _wrong("is of another commit than the planned one: source.sha differs")


def _parse_json(content: bytes) -> dict[str, object]:
    if len(content) > MOST_BYTES:
        raise _wrong(f"is larger than {MOST_BYTES >> 20} MiB")
    try:
        parsed = parse_strict(content)
    except StrictJsonError as error:
        raise _wrong(str(error)) from None
    if not isinstance(parsed, dict):
        raise _wrong("is not one JSON object")
    return parsed


def _wrong(problem: str) -> HarnessFailureError:
    return HarnessFailureError(
        FailureClass.PERMANENT_INFRASTRUCTURE, f"The harness's result.json {problem}", _REMEDY
    )
