"""Read what the target's own `--matrix-json` answers: foreign text until it is checked. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NoReturn

from pydantic import ConfigDict, FailFast, Field, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel
from pydantic.dataclasses import dataclass as checked_dataclass

from runner_e2e.errors import InputError
from runner_e2e.plan.definitions import DAYTONA_CREDENTIAL, CredentialName, EnvironmentId
from runner_e2e.plan.ids import split_execution_id
from runner_e2e.plan.matrix import Job
from runner_e2e.plan.selection import describe_value, describe_values
from runner_e2e.strict_json import StrictJsonError, parse_strict

MAX_ANSWER_BYTES = 45 * 1024 * 1024
MAX_ROWS = 100_000

_MEND = "Mend the target's --matrix-json, or plan from a catalog file (input catalog)"
_SILENCE = (
    "Let the command print only JSON on standard output: pnpm needs --silent before the script's name "
    "(input harness-command)"
)

# What each value must be, for people. The order is that of a row.
_RULES = {
    "executionId": "must be the id of a cell",
    "suiteId": "must be the suite of the row's id",
    "profileId": "must be the profile of the row's id",
    "credentialName": "must be a known credential's name, or null",
    "environmentId": "must be local or daytona",
    "caseId": "must be the case of the row's id",
    "timeoutMinutes": "must be a whole number from 1 to 1440",
    "needsDaytona": "must be true or false",
    "include": "must be a list of rows",
    "executionIds": "must be a list of ids",
}
_CONFIG = ConfigDict(extra="ignore", alias_generator=to_camel, hide_input_in_errors=True)

_Text = Annotated[str, Field(strict=True)]
_Flag = Annotated[bool, Field(strict=True)]


@checked_dataclass(frozen=True, slots=True, config=_CONFIG)
class _Row:
    execution_id: _Text
    suite_id: _Text
    profile_id: _Text
    environment_id: EnvironmentId
    case_id: _Text
    timeout_minutes: Annotated[int, Field(strict=True, ge=1, le=1440)]
    needs_daytona: _Flag
    credential_name: CredentialName | None = None  # JSON.stringify leaves out what is undefined


@checked_dataclass(frozen=True, slots=True, config=_CONFIG)
class _Answer:
    # A breach costs far more memory than a row, and one of them is enough to be told.
    include: Annotated[list[_Row], FailFast()]
    needs_daytona: _Flag
    execution_ids: Annotated[list[_Text], FailFast()]


_ANSWER = TypeAdapter(_Answer)
_ROW_KEYS = frozenset(to_camel(name) for name in _Row.__dataclass_fields__)
_ANSWER_KEYS = frozenset(to_camel(name) for name in _Answer.__dataclass_fields__)


@dataclass(frozen=True, slots=True)
class TargetMatrix:
    """The cells that a target lists: rows in the order of its matrix, ids in the order of its catalog.

    `notes` are sentences for people about what was not understood and did no harm.
    """

    jobs: tuple[Job, ...]
    execution_ids: tuple[str, ...]
    notes: tuple[str, ...] = ()


def parse_matrix(text: bytes) -> TargetMatrix:
    """Return the rows of an answer, each of which agrees with itself and with the whole.

    Anything else, and anything besides one JSON object, is an `InputError` that repeats no more of the
    answer than one id.
    """
    content = _parse_json(text)
    for name in ("include", "executionIds"):
        if isinstance(rows := content.get(name), list) and len(rows) > MAX_ROWS:
            _fail(f"is too long: {name} holds more than {MAX_ROWS} entries", "Narrow the selection")
    try:
        answer = _ANSWER.validate_python(content)
    except ValidationError as error:
        # Not chained: the original carries the answer's text.
        _fail(f"is wrong: {_describe(error, content)}")
    for index, row in enumerate(answer.include):
        if problem := _contradiction(row):
            _fail(f"is wrong: {_label(index, row.execution_id)}.{problem}")
    _check_whole(answer)
    rows = [(_ROW_KEYS, row) for row in content["include"]]
    return TargetMatrix(
        tuple(_build_job(row) for row in answer.include),
        tuple(answer.execution_ids),
        _note_unknown([(_ANSWER_KEYS, content), *rows]),
    )


def _fail(problem: str, remedy: str = _MEND) -> NoReturn:
    raise InputError(f"The target's answer to --matrix-json {problem}", remedy) from None


def _parse_json(text: bytes) -> dict[str, Any]:
    if len(text) > MAX_ANSWER_BYTES:
        _fail(f"is larger than {MAX_ANSWER_BYTES // 1024**2} MiB", "Narrow the selection")
    words = text.strip(b" \t\r\n")
    if not words:
        _fail("is empty", "Check that the command (input harness-command) takes --matrix-json")
    if words[:1] != b"{":
        _fail("does not begin with a JSON object", _SILENCE)
    try:
        content = parse_strict(words)
    except StrictJsonError as error:
        problem = "goes on after its JSON object" if error.goes_on else str(error)
        _fail(problem, _MEND if error.position is None else _SILENCE)
    if not isinstance(content, dict):
        _fail("is not one JSON object")
    return content


def _describe(error: ValidationError, content: Mapping[str, Any]) -> str:
    """Say what the first problem is, and how many more there are."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    match first["loc"]:
        case ("include", int(index)):
            problem = f"include[{index}] must be an object"
        case ("include", int(index), str(name)):
            label = _label(index, content["include"][index].get("executionId"))
            problem = f"{label}.{name} {_rule(name, first)}"
        case (str(name), *_):
            problem = f"{name} {_rule(name, first)}"
        case _:
            problem = "it has another shape"
    more = error.error_count() - 1
    return f"{problem} ({more} more problems)" if more else problem


def _rule(name: str, problem: Mapping[str, Any]) -> str:
    return "is missing" if problem["type"] == "missing" else _RULES[name]


def _label(index: int, execution_id: object) -> str:
    return f"include[{index}]" + (
        f" ({describe_value(execution_id)})" if isinstance(execution_id, str) else ""
    )


def _contradiction(row: _Row) -> str | None:
    parts = split_execution_id(row.execution_id)
    if parts is None:
        return f"executionId {_RULES['executionId']}"
    for name, own, of_id in (
        ("suiteId", row.suite_id, parts.suite),
        ("profileId", row.profile_id, parts.profile),
        ("environmentId", row.environment_id, parts.environment),
        ("caseId", row.case_id, parts.case),
    ):
        if own != of_id:
            return f"{name} is another one than in the row's id"
    if row.needs_daytona != (row.environment_id == "daytona"):
        return "needsDaytona contradicts the row's environment"
    if row.credential_name == DAYTONA_CREDENTIAL:
        return "credentialName must be the profile's credential, not the environment's"
    return None


def _check_whole(answer: _Answer) -> None:
    included = [row.execution_id for row in answer.include]
    for name, ids in (("include", included), ("executionIds", answer.execution_ids)):
        if twice := _first_repeated(ids):
            _fail(f"is wrong: {name} holds a cell twice: {describe_value(twice)}")
    if odd := set(included) ^ set(answer.execution_ids):
        _fail(f"is wrong: only one of include and executionIds holds {describe_value(min(odd))}")
    if answer.needs_daytona != any(row.needs_daytona for row in answer.include):
        _fail("is wrong: needsDaytona contradicts the rows")


def _first_repeated(ids: Sequence[str]) -> str | None:
    if len(set(ids)) == len(ids):
        return None
    return next(name for name, count in Counter(ids).items() if count > 1)


def _build_job(row: _Row) -> Job:
    return Job(
        execution_id=row.execution_id,
        suite_id=row.suite_id,
        profile_id=row.profile_id,
        credential_name=row.credential_name,
        environment_id=row.environment_id,
        case_id=row.case_id,
        timeout_minutes=row.timeout_minutes,
        needs_daytona=row.needs_daytona,
    )


def _note_unknown(objects: Iterable[tuple[frozenset[str], Mapping[str, object]]]) -> tuple[str, ...]:
    unknown: set[str] = set()
    for known, content in objects:
        unknown.update(content.keys() - known)
    if not unknown:
        return ()
    return (f"The target's --matrix-json has keys that are ignored: {describe_values(sorted(unknown))}",)
