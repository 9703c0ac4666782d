"""Which runs may spend: one that passes, and everything that turns it into a refusal."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from runner_e2e.errors import InputError, TransientInfrastructureError
from runner_e2e.plan.authorize import Authorization, authorize
from runner_e2e.plan.run_context import (
    MAX_ALLOWED_ACTORS,
    MAX_ID,
    Account,
    build_context,
    parse_allowed_actors,
    parse_event,
)
from runner_e2e.strict_json import parse_strict
from unit.authorized_run import (
    ABSENT,
    ACTOR_ID,
    ALLOWED,
    DISPATCH,
    ENVIRON,
    OTHER_ID,
    REPOSITORY,
    SCHEDULE,
    SENDER,
    change_payload,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

OCTO = Account("octo-cat", ACTOR_ID)
DISPATCHED = json.dumps(DISPATCH).encode()
SCHEDULED = json.dumps(SCHEDULE).encode()


def ask_nobody(login: str) -> int:
    raise AssertionError(login)


def decide(
    environ: Mapping[str, str] = ENVIRON, event: bytes = DISPATCHED, allowed: Sequence[int] = ALLOWED
) -> Authorization:
    return authorize(build_context(environ, event), allowed, ask_nobody)


def test_a_dispatch_of_the_default_branch_by_a_listed_person_is_authorized() -> None:
    assert decide() == Authorization("workflow_dispatch", OCTO, OCTO)


@pytest.mark.parametrize(
    "extra",
    [
        pytest.param({}, id="without-repository"),
        pytest.param({"repository": REPOSITORY}, id="with-repository"),
        pytest.param({"repository": REPOSITORY, "sender": SENDER}, id="with-sender"),
    ],
)
def test_a_schedule_is_authorized(extra: Mapping[str, object]) -> None:
    environ = {**ENVIRON, "GITHUB_EVENT_NAME": "schedule"}

    assert decide(environ, json.dumps({**SCHEDULE, **extra}).encode()).event_name == "schedule"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("GITHUB_TRIGGERING_ACTOR", "Octo-CAT", id="triggering-actor"),
        pytest.param("GITHUB_ACTOR", "OCTO-cat", id="actor"),
        pytest.param("GITHUB_REPOSITORY", "Octo-Org/Paid", id="repository"),
    ],
)
def test_the_case_of_a_name_does_not_matter(name: str, value: str) -> None:
    assert decide({**ENVIRON, name: value}).triggering_actor.id == ACTOR_ID


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        *(
            pytest.param("GITHUB_EVENT_NAME", event, f"Event {event} may not", id=event)
            for event in (
                "pull_request",
                "pull_request_target",
                "push",
                "repository_dispatch",
                "workflow_call",
                "workflow_run",
                "issue_comment",
                "workflow_dispatch_",
            )
        ),
        pytest.param("GITHUB_EVENT_NAME", "schedule", "not that of event schedule", id="dispatched-schedule"),
        pytest.param("GITHUB_EVENT_NAME", "Workflow_Dispatch", "NAME is malformed", id="event-in-capitals"),
        pytest.param("GITHUB_EVENT_NAME", "schedule\n", "NAME is malformed", id="event-with-line-end"),
        pytest.param("GITHUB_HEAD_REF", "fork", "pull request", id="head-of-a-pull-request"),
        pytest.param("GITHUB_BASE_REF", "main", "pull request", id="base-of-a-pull-request"),
        pytest.param("GITHUB_REF", "refs/heads/feature", "default branch", id="other-branch"),
        pytest.param("GITHUB_REF", "refs/heads/main2", "default branch", id="longer-branch"),
        pytest.param("GITHUB_REF", "refs/heads/Main", "default branch", id="branch-in-capitals"),
        pytest.param(
            "GITHUB_REF", "refs/heads/x/refs/heads/main", "default branch", id="branch-that-ends-so"
        ),
        pytest.param("GITHUB_REF", "refs/tags/main", "belong to a branch", id="tag"),
        pytest.param("GITHUB_REF", "refs/pull/1/merge", "belong to a branch", id="pull-request"),
        pytest.param("GITHUB_REF", "main", "GITHUB_REF is malformed", id="short-ref"),
        pytest.param("GITHUB_REF", "refs/heads/main\n", "GITHUB_REF is malformed", id="ref-with-line-end"),
        pytest.param("GITHUB_REF", "", "GITHUB_REF is missing", id="no-ref"),
        pytest.param("GITHUB_REF_TYPE", "tag", "belong to a branch", id="type-tag"),
        pytest.param("GITHUB_REF_TYPE", "", "GITHUB_REF_TYPE is missing", id="no-type"),
        pytest.param("GITHUB_REPOSITORY", "octo-org/other", "another repository", id="other-repository"),
        pytest.param("GITHUB_REPOSITORY", "octo-org", "REPOSITORY is malformed", id="no-repository-name"),
        pytest.param("GITHUB_REPOSITORY", "octo-org/a/b", "REPOSITORY is malformed", id="three-parts"),
        pytest.param("GITHUB_REPOSITORY_ID", "78", "another repository", id="other-repository-id"),
        pytest.param("GITHUB_REPOSITORY_ID", "", "REPOSITORY_ID is missing", id="no-repository-id"),
        pytest.param("GITHUB_ACTOR", "mallory", "another sender", id="other-actor"),
        pytest.param("GITHUB_ACTOR", "octo cat", "GITHUB_ACTOR is malformed", id="actor-with-blank"),
        pytest.param("GITHUB_ACTOR", "octo/cat", "GITHUB_ACTOR is malformed", id="actor-with-slash"),
        pytest.param("GITHUB_ACTOR", "octo-cat\n", "GITHUB_ACTOR is malformed", id="actor-with-line-end"),
        pytest.param("GITHUB_ACTOR", "\u043ecto-cat", "GITHUB_ACTOR is malformed", id="look-alike-letter"),
        pytest.param("GITHUB_ACTOR", "a" * 101, "GITHUB_ACTOR is malformed", id="endless-actor"),
        pytest.param("GITHUB_ACTOR", "", "GITHUB_ACTOR is missing", id="no-actor"),
        pytest.param("GITHUB_ACTOR_ID", str(OTHER_ID), "another sender", id="id-of-another-listed-person"),
        pytest.param("GITHUB_ACTOR_ID", "", "ACTOR_ID is missing", id="no-actor-id"),
        *(
            pytest.param("GITHUB_ACTOR_ID", number, "ACTOR_ID is malformed", id=f"actor-id-{name}")
            for name, number in {
                "zero": "0",
                "negative": "-583231",
                "signed": "+583231",
                "padded": "0583231",
                "blank": " 583231",
                "line-end": "583231\n",
                "float": "583231.0",
                "grouped": "583_231",
                "hexadecimal": "0x8e63f",
                "other-digits": "\uff15\uff18\uff13\uff12\uff13\uff11",
                "superscript": "58323¹",
                "too-large": str(MAX_ID + 1),
                "endless": "9" * 5000,
            }.items()
        ),
        pytest.param("GITHUB_RUN_ATTEMPT", "", "RUN_ATTEMPT is missing", id="no-attempt"),
        pytest.param("GITHUB_RUN_ATTEMPT", "0", "RUN_ATTEMPT is malformed", id="attempt-0"),
        pytest.param("GITHUB_TRIGGERING_ACTOR", "", "TRIGGERING_ACTOR is missing", id="no-triggering-actor"),
        pytest.param("GITHUB_TRIGGERING_ACTOR", "../x", "ACTOR is malformed", id="path-as-triggering-actor"),
        pytest.param("GITHUB_TRIGGERING_ACTOR", "octo-cat[bot]x", "ACTOR is malformed", id="odd-bot"),
        pytest.param("GITHUB_TRIGGERING_ACTOR", "octo-cat ", "ACTOR is malformed", id="trailing-blank"),
    ],
)
def test_another_variable_is_refused(name: str, value: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem) as caught:
        decide({**ENVIRON, name: value})

    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    "name", sorted(set(ENVIRON) - {"GITHUB_ACTIONS", "GITHUB_API_URL", "GITHUB_BASE_REF", "GITHUB_HEAD_REF"})
)
def test_a_variable_that_is_not_set_is_refused(name: str) -> None:
    environ = {key: value for key, value in ENVIRON.items() if key != name}

    with pytest.raises(InputError, match=f"{name} is missing"):
        decide(environ)


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        *(
            pytest.param(
                key, "x" if key == "schedule" else {}, "not that of event workflow_dispatch", id=f"with-{key}"
            )
            for key in (
                "action",
                "check_run",
                "client_payload",
                "comment",
                "deployment",
                "discussion",
                "forkee",
                "head_commit",
                "issue",
                "merge_group",
                "pull_request",
                "pusher",
                "registry_package",
                "release",
                "schedule",
                "workflow_run",
            )
        ),
        pytest.param("ref", "refs/heads/feature", "another ref", id="other-ref"),
        pytest.param("ref", "main", "malformed ref", id="short-ref"),
        pytest.param("ref", None, "malformed ref", id="null-ref"),
        pytest.param("ref", ABSENT, "lacks ref", id="no-ref"),
        pytest.param("repository", ABSENT, "lacks repository", id="no-repository"),
        pytest.param("repository", None, "its repository", id="null-repository"),
        pytest.param("repository", [], "its repository", id="list-as-repository"),
        pytest.param("repository.default_branch", "trunk", "default branch", id="other-default-branch"),
        pytest.param("repository.default_branch", "", "its repository", id="empty-default-branch"),
        pytest.param("repository.default_branch", ABSENT, "its repository", id="no-default-branch"),
        pytest.param("repository.default_branch", ["main"], "its repository", id="list-as-branch"),
        pytest.param("repository.full_name", "octo-org/other", "another repository", id="other-repository"),
        pytest.param("repository.full_name", ABSENT, "its repository", id="no-repository-name"),
        pytest.param("repository.id", 78, "another repository", id="other-repository-id"),
        pytest.param("repository.id", "77", "its repository", id="text-as-repository-id"),
        pytest.param("repository.id", 77.0, "its repository", id="float-as-repository-id"),
        pytest.param("sender", ABSENT, "lacks sender", id="no-sender"),
        pytest.param("sender", None, "its sender", id="null-sender"),
        pytest.param("sender", "octo-cat", "its sender", id="text-as-sender"),
        pytest.param("sender.login", "mallory", "another sender", id="other-sender"),
        pytest.param("sender.login", "octo-cat[bot]", "another sender", id="bot-of-that-name"),
        pytest.param("sender.login", ["octo-cat"], "its sender", id="list-as-login"),
        pytest.param("sender.login", "octo\ncat", "its sender", id="login-with-line-end"),
        pytest.param("sender.id", OTHER_ID, "another sender", id="same-login-other-id"),
        pytest.param("sender.id", True, "its sender", id="boolean-as-id"),
        pytest.param("sender.id", 0, "its sender", id="zero-as-id"),
        pytest.param("sender.id", -ACTOR_ID, "its sender", id="negative-id"),
        pytest.param("sender.id", str(ACTOR_ID), "its sender", id="text-as-id"),
        pytest.param("sender.id", float(ACTOR_ID), "its sender", id="float-as-id"),
        pytest.param("sender.id", ABSENT, "its sender", id="no-id"),
    ],
)
def test_another_event_file_is_refused(path: str, value: object, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        decide(event=change_payload(DISPATCH, path, value))


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        pytest.param("schedule", ABSENT, "lacks schedule", id="no-schedule"),
        pytest.param("inputs", {}, "not that of event schedule", id="inputs-of-a-dispatch"),
        pytest.param("pull_request", {}, "not that of event schedule", id="pull-request"),
        pytest.param("ref", "refs/heads/feature", "another ref", id="other-ref"),
        pytest.param("sender", {"login": "mallory", "id": 3}, "another sender", id="other-sender"),
        pytest.param("repository", {}, "its repository", id="empty-repository"),
        pytest.param(
            "repository",
            {**REPOSITORY, "default_branch": "trunk"},
            "default branch",
            id="other-default-branch",
        ),
        pytest.param("repository", {**REPOSITORY, "id": 78}, "another repository", id="other-repository"),
    ],
)
def test_another_event_file_of_a_schedule_is_refused(path: str, value: object, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        decide({**ENVIRON, "GITHUB_EVENT_NAME": "schedule"}, change_payload(SCHEDULE, path, value))


@pytest.mark.parametrize("ref", ["refs/tags/main", "refs/pull/1/merge", "refs/notes/x"])
def test_a_schedule_that_names_no_branch_is_refused(ref: str) -> None:
    with pytest.raises(InputError, match="belong to a branch"):
        decide({**ENVIRON, "GITHUB_EVENT_NAME": "schedule", "GITHUB_REF": ref}, SCHEDULED)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"{", id="cut-off"),
        pytest.param(b"\xff\xfe{}", id="not-utf-8"),
        pytest.param(b"\xef\xbb\xbf{}", id="byte-order-mark"),
        pytest.param('{"a": 1}'.encode("utf-16"), id="utf-16"),
        pytest.param(b'{"sender": 1, "sender": 2}', id="duplicate-key"),
        pytest.param(b'{"a": {"b": 1, "b": 1}}', id="inner-duplicate-key"),
        pytest.param(b'{"a": NaN}', id="nan"),
        pytest.param(b'{"a": ' + b"9" * 5000 + b"}", id="endless-number"),
        pytest.param(b"[" * 100_000, id="endless-nesting"),
        pytest.param(b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", id="deep-nesting"),
        pytest.param(b"[]", id="list"),
        pytest.param(b"null", id="null"),
        pytest.param(b'"text"', id="text"),
    ],
)
def test_an_event_file_that_is_no_object_is_refused_without_its_text(content: bytes) -> None:
    with pytest.raises(InputError, match="The event file is not") as caught:
        parse_event(content)

    assert caught.value.__cause__ is None


@pytest.mark.parametrize("allowed", [[], [OTHER_ID], [ACTOR_ID + 1, ACTOR_ID * 10]])
def test_an_actor_who_is_not_listed_is_refused_without_showing_the_list(allowed: list[int]) -> None:
    with pytest.raises(InputError, match=f"actor, octo-cat with id {ACTOR_ID}, is not in") as caught:
        decide(allowed=allowed)

    assert not [one for one in allowed if one != ACTOR_ID * 10 and str(one) in str(caught.value)]


AGAIN = build_context({**ENVIRON, "GITHUB_TRIGGERING_ACTOR": "Hubot[bot]"}, DISPATCHED)


def test_another_triggering_actor_is_asked_for_once_and_authorized_when_listed() -> None:
    asked: list[str] = []

    def answer(login: str) -> int:
        asked.append(login)
        return OTHER_ID

    authorization = authorize(AGAIN, ALLOWED, answer)

    assert authorization == Authorization("workflow_dispatch", OCTO, Account("Hubot[bot]", OTHER_ID))
    assert asked == ["Hubot[bot]"]


def test_a_later_attempt_by_the_same_login_is_asked_for() -> None:
    asked: list[str] = []

    def answer(login: str) -> int:
        asked.append(login)
        return ACTOR_ID

    context = build_context({**ENVIRON, "GITHUB_RUN_ATTEMPT": "2"}, DISPATCHED)

    assert authorize(context, ALLOWED, answer).triggering_actor.id == ACTOR_ID
    assert asked == ["octo-cat"]


def test_a_login_that_went_to_another_account_between_attempts_is_refused() -> None:
    context = build_context({**ENVIRON, "GITHUB_RUN_ATTEMPT": "2"}, DISPATCHED)

    with pytest.raises(InputError, match="belongs to another account"):
        authorize(context, ALLOWED, lambda _: OTHER_ID)


@pytest.mark.parametrize("number", [3, 0, -1, MAX_ID + 1])
def test_another_triggering_actor_who_is_not_listed_is_refused(number: int) -> None:
    with pytest.raises(InputError, match=r"triggering actor, Hubot\[bot\] with id"):
        authorize(AGAIN, ALLOWED, lambda _: number)


def test_nobody_is_asked_when_the_actor_is_not_listed() -> None:
    with pytest.raises(InputError, match="is not in allowed-actor-ids"):
        authorize(AGAIN, [OTHER_ID], ask_nobody)


def test_an_answer_that_does_not_come_is_no_authorization() -> None:
    def fail(_: str) -> int:
        raise TransientInfrastructureError("The API is down", "Start the job again")

    with pytest.raises(TransientInfrastructureError):
        authorize(AGAIN, ALLOWED, fail)


def test_a_renamed_person_keeps_the_id_and_so_the_authorization() -> None:
    assert authorize(AGAIN, [ACTOR_ID], lambda _: ACTOR_ID).triggering_actor.id == ACTOR_ID


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        pytest.param("[1]", (1,), id="one"),
        pytest.param(" [583231,\n 1024025] ", (583231, 1024025), id="several-lines"),
        pytest.param(f"[{MAX_ID}]", (MAX_ID,), id="largest"),
        pytest.param(
            json.dumps([*range(1, MAX_ALLOWED_ACTORS + 1)]), (*range(1, MAX_ALLOWED_ACTORS + 1),), id="most"
        ),
    ],
)
def test_a_list_of_ids_is_read(text: str, ids: tuple[int, ...]) -> None:
    assert parse_allowed_actors(text) == ids


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("", "is empty", id="empty"),
        pytest.param(" \n", "is empty", id="blank"),
        pytest.param("[]", "at least one id", id="empty-array"),
        pytest.param("583231", "not an array", id="bare-id"),
        pytest.param('{"583231": 1}', "not an array", id="object"),
        pytest.param('"[583231]"', "not an array", id="array-as-text"),
        pytest.param("null", "not an array", id="null"),
        pytest.param("583231,1024025", "is not JSON", id="commas"),
        pytest.param("[583231,]", "is not JSON", id="trailing-comma"),
        pytest.param("[583231] x", "is not JSON", id="more-behind-it"),
        pytest.param("[0583231]", "is not JSON", id="leading-zero"),
        pytest.param("[NaN]", "is not JSON", id="nan"),
        pytest.param("[Infinity]", "is not JSON", id="infinity"),
        pytest.param("[" * 100_000, "is not JSON", id="endless-nesting"),
        pytest.param(f"[{'9' * 5000}]", "is not JSON", id="endless-number"),
        pytest.param('["583231"]', "not a positive id", id="text"),
        pytest.param("[true]", "not a positive id", id="boolean"),
        pytest.param("[null]", "not a positive id", id="null-inside"),
        pytest.param("[1.0]", "not a positive id", id="float"),
        pytest.param("[1e3]", "not a positive id", id="exponent"),
        pytest.param("[0]", "not a positive id", id="zero"),
        pytest.param("[-1]", "not a positive id", id="negative"),
        pytest.param("[[583231]]", "not a positive id", id="nested"),
        pytest.param(f"[{MAX_ID + 1}]", "not a positive id", id="too-large"),
        pytest.param("[583231, 583231]", "an id twice", id="duplicate"),
        pytest.param(json.dumps([*range(1, MAX_ALLOWED_ACTORS + 2)]), "more than 1000", id="too-many"),
    ],
)
def test_a_list_that_is_no_list_of_ids_is_refused(text: str, problem: str) -> None:
    with pytest.raises(InputError, match=f"Input allowed-actor-ids .*{problem}") as caught:
        parse_allowed_actors(text)

    assert caught.value.__cause__ is None
    assert "[583231, 1024025]" in caught.value.remedy or "once" in caught.value.remedy


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)


@given(JSON_VALUES)
def test_a_list_is_read_exactly_when_it_holds_ids_each_once(value: object) -> None:
    ids = value if isinstance(value, list) else []
    good = ids and all(type(one) is int and 0 < one <= MAX_ID for one in ids) and len(set(ids)) == len(ids)

    try:
        parsed = parse_allowed_actors(json.dumps(value))
    except InputError:
        assert not good
    else:
        assert good
        assert list(parsed) == value


@given(path=st.sampled_from(["ref", "repository", "sender", "repository.id", "sender.id"]), value=JSON_VALUES)
def test_no_other_value_in_the_event_file_is_authorized(path: str, value: object) -> None:
    same = {
        "ref": DISPATCH["ref"],
        "repository": REPOSITORY,
        "sender": SENDER,
        "repository.id": 77,
        "sender.id": ACTOR_ID,
    }
    assume(value != same[path])

    with pytest.raises(InputError):
        decide(event=change_payload(DISPATCH, path, value))


@given(st.binary(max_size=60))
def test_any_bytes_are_an_event_file_or_refused(content: bytes) -> None:
    try:
        event = parse_event(content)
    except InputError:
        return

    assert isinstance(parse_strict(content), dict)
    assert event.sender is None


@pytest.mark.parametrize("value", [None, 1, {}, ["47 8 * * 0"]])
def test_a_schedule_that_is_no_text_is_refused(value: object) -> None:
    event = json.dumps({**SCHEDULE, "schedule": value}).encode()

    with pytest.raises(InputError, match="malformed schedule"):
        decide({**ENVIRON, "GITHUB_EVENT_NAME": "schedule"}, event)
