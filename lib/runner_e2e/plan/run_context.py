"""What the runner's variables, the event file and the allow-list say, checked one by one.

Standard library only: authorization runs before anything is installed. What is missing or malformed is
refused, never guessed. Whether the parts agree is for `authorize`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from runner_e2e.errors import InputError
from runner_e2e.strict_json import parse_strict

# Beyond this a JSON number may have lost digits on its way.
MAX_ID = 2**53
MAX_ALLOWED_ACTORS = 1000

_ID = re.compile(r"[1-9][0-9]{0,15}")
_LOGIN = re.compile(r"[A-Za-z0-9_-]{1,100}(?:\[bot\])?")
_REPOSITORY = re.compile(r"[A-Za-z0-9_-]{1,100}/[A-Za-z0-9._-]{1,100}")
_EVENT_NAME = re.compile(r"[a-z][a-z_]{0,99}")
_REF = re.compile(r"refs/[^\x00-\x20\x7f]{1,1000}")

_FROM_RUNNER = "Start the action as a step of a workflow run, on a runner that is up to date"
_FRESH_RUN = "Start a new run of the workflow, and let no step replace the runner's files"
_ALLOW_LIST = "Give a JSON array of numeric user ids, such as [583231, 1024025]"


@dataclass(frozen=True, slots=True)
class Account:
    """A user or app. Only the id stays the same when it is renamed."""

    login: str
    id: int

    def has_login(self, login: str) -> bool:
        """Whether `login` is this account's; the platform does not tell cases apart."""
        return self.login.lower() == login.lower()


@dataclass(frozen=True, slots=True)
class Repository:
    """The repository of the run, as the runner names it."""

    name: str
    id: int


@dataclass(frozen=True, slots=True)
class EventRepository:
    """The repository of the run, as the event describes it."""

    name: str
    id: int
    default_branch: str


@dataclass(frozen=True, slots=True)
class Event:
    """The event file: the names of everything in it, and the parts that matter, None when absent."""

    keys: frozenset[str]
    ref: str | None
    repository: EventRepository | None
    sender: Account | None


@dataclass(frozen=True, slots=True)
class Context:
    """A workflow run as its runner describes it.

    `head_ref` and `base_ref` belong to pull requests and are empty otherwise.
    """

    event_name: str
    ref: str
    ref_type: str
    head_ref: str
    base_ref: str
    repository: Repository
    actor: Account
    triggering_login: str
    run_attempt: int
    event: Event


def build_context(environ: Mapping[str, str], event_file: bytes) -> Context:
    """Return the run that `environ` and the content of `GITHUB_EVENT_PATH` describe."""
    return Context(
        event_name=_take(environ, "GITHUB_EVENT_NAME", _EVENT_NAME),
        ref=_take(environ, "GITHUB_REF", _REF),
        ref_type=_take(environ, "GITHUB_REF_TYPE", _EVENT_NAME),
        head_ref=environ.get("GITHUB_HEAD_REF", ""),
        base_ref=environ.get("GITHUB_BASE_REF", ""),
        repository=Repository(
            _take(environ, "GITHUB_REPOSITORY", _REPOSITORY), _take_id(environ, "GITHUB_REPOSITORY_ID")
        ),
        actor=Account(_take(environ, "GITHUB_ACTOR", _LOGIN), _take_id(environ, "GITHUB_ACTOR_ID")),
        triggering_login=_take(environ, "GITHUB_TRIGGERING_ACTOR", _LOGIN),
        run_attempt=_take_id(environ, "GITHUB_RUN_ATTEMPT"),
        event=parse_event(event_file),
    )


def parse_event(content: bytes) -> Event:
    """Return what an event file says."""
    try:
        payload = parse_strict(content)
    except ValueError:
        # Not chained: the original error carries the whole text.
        raise InputError("The event file is not JSON, or repeats a key", _FRESH_RUN) from None
    if not isinstance(payload, dict):
        raise _malformed_event("is not an object")
    ref = payload.get("ref")
    if "ref" in payload and not _matches(_REF, ref):
        raise _malformed_event("has a malformed ref")
    if "schedule" in payload and not isinstance(payload["schedule"], str):
        raise _malformed_event("has a malformed schedule")
    return Event(
        keys=frozenset(payload),
        ref=ref,
        repository=_parse_repository(payload["repository"]) if "repository" in payload else None,
        sender=_parse_sender(payload["sender"]) if "sender" in payload else None,
    )


def parse_allowed_actors(text: str) -> tuple[int, ...]:
    """Return the ids of the input `allowed-actor-ids`: a JSON array, each id once."""
    if not text.strip():
        raise InputError("Input allowed-actor-ids is empty: nobody may start paid cells", _ALLOW_LIST)
    try:
        ids = parse_strict(text)
    except ValueError:
        raise InputError("Input allowed-actor-ids is not JSON", _ALLOW_LIST) from None
    if not isinstance(ids, list) or not ids:
        raise InputError("Input allowed-actor-ids is not an array with at least one id", _ALLOW_LIST)
    if len(ids) > MAX_ALLOWED_ACTORS:
        raise InputError(f"Input allowed-actor-ids has more than {MAX_ALLOWED_ACTORS} ids", _ALLOW_LIST)
    if not all(is_id(one) for one in ids):
        raise InputError("Input allowed-actor-ids holds something that is not a positive id", _ALLOW_LIST)
    if len(set(ids)) != len(ids):
        raise InputError("Input allowed-actor-ids names an id twice", "Name each id once")
    return tuple(ids)


def is_id(value: object) -> bool:
    """Whether a JSON value is an id: a whole number, which a boolean or `1.0` is not."""
    return type(value) is int and 1 <= value <= MAX_ID


def is_login(value: object) -> bool:
    """Whether a JSON value has the form of a login."""
    return _matches(_LOGIN, value)


def _take(environ: Mapping[str, str], name: str, pattern: re.Pattern[str]) -> str:
    value = environ.get(name, "")
    if not pattern.fullmatch(value):
        raise InputError(f"{name} is {'malformed' if value else 'missing'}", _FROM_RUNNER)
    return value


def _take_id(environ: Mapping[str, str], name: str) -> int:
    number = int(_take(environ, name, _ID))
    if not is_id(number):
        raise InputError(f"{name} is malformed", _FROM_RUNNER)
    return number


def _parse_repository(value: object) -> EventRepository:
    match value:
        case {"full_name": str(name), "id": int(number), "default_branch": str(branch)} if (
            _matches(_REPOSITORY, name) and is_id(number) and branch
        ):
            return EventRepository(name, number, branch)
    raise _malformed_event("does not describe its repository")


def _parse_sender(value: object) -> Account:
    match value:
        case {"login": str(login), "id": int(number)} if is_login(login) and is_id(number):
            return Account(login, number)
    raise _malformed_event("does not describe its sender")


def _matches(pattern: re.Pattern[str], value: object) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def _malformed_event(what: str) -> InputError:
    return InputError(f"The event file {what}", _FRESH_RUN)
