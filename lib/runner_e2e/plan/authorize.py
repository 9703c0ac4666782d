"""Who may start paid cells, and from where: the decision over one workflow run.

Standard library only: authorization runs before anything is installed. The decision is pure but for one
question, the id of a login, which `lookup` answers and which is asked at most once. Whatever contradicts
itself is refused.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from runner_e2e.errors import InputError
from runner_e2e.plan.run_context import Account, Context

Lookup = Callable[[str], int]

DISPATCH, SCHEDULE = "workflow_dispatch", "schedule"

# Top-level names that only payloads of other events have.
_OTHER_EVENTS = frozenset(
    {
        "action",
        "after",
        "answer",
        "base_ref",
        "before",
        "branch",
        "branches",
        "build",
        "check_run",
        "check_suite",
        "client_payload",
        "comment",
        "commit",
        "commits",
        "deployment",
        "deployment_status",
        "discussion",
        "forkee",
        "head_commit",
        "issue",
        "label",
        "master_branch",
        "merge_group",
        "milestone",
        "pages",
        "project",
        "project_card",
        "project_column",
        "pull_request",
        "pusher",
        "pusher_type",
        "ref_type",
        "registry_package",
        "release",
        "review",
        "rule",
        "sha",
        "state",
        "workflow_job",
        "workflow_run",
    }
)
# What the payload of an event must have, and what belongs to the other of the two.
_REQUIRED = {DISPATCH: frozenset({"ref", "repository", "sender"}), SCHEDULE: frozenset({"schedule"})}
_UNFITTING = {DISPATCH: frozenset({"schedule"}), SCHEDULE: frozenset({"inputs"})}

_DISPATCH_AGAIN = "Dispatch the workflow anew, from the default branch"
_FROM_DEFAULT = "Dispatch the workflow from the default branch; the branch to test is input target-branch"


@dataclass(frozen=True, slots=True)
class Authorization:
    """A run that may spend: who started it, and who started this attempt of it."""

    event_name: str
    actor: Account
    triggering_actor: Account


def authorize(context: Context, allowed: Sequence[int], lookup: Lookup) -> Authorization:
    """Return the authorization of a run, or raise `InputError` saying what to change.

    `lookup` returns the id of the account with a login. It is asked for a later attempt, and when another
    account than the actor started this one, and only for an actor who is allowed.
    """
    _check_event(context)
    _check_repository(context)
    _check_ref(context)
    _check_sender(context)
    _check_allowed(context.actor, allowed, "actor")
    triggering = _identify_triggering_actor(context, lookup)
    _check_allowed(triggering, allowed, "triggering actor")
    return Authorization(context.event_name, context.actor, triggering)


def _check_event(context: Context) -> None:
    name, keys = context.event_name, context.event.keys
    if name not in _REQUIRED:
        raise InputError(
            f"Event {name} may not start paid cells",
            f"Let the workflow be started by {DISPATCH} or {SCHEDULE} only",
        )
    if context.head_ref or context.base_ref:
        raise InputError(f"Event {name} comes with the branches of a pull request", _DISPATCH_AGAIN)
    if keys & (_OTHER_EVENTS | _UNFITTING[name]):
        raise InputError(f"The event file is not that of event {name}", _DISPATCH_AGAIN)
    if missing := sorted(_REQUIRED[name] - keys):
        raise InputError(f"The event file lacks {', '.join(missing)}", _DISPATCH_AGAIN)


def _check_repository(context: Context) -> None:
    told, described = context.repository, context.event.repository
    if described is None:  # a schedule; a dispatch without it was refused
        return
    if told.id != described.id or told.name.lower() != described.name.lower():
        raise InputError("The event file is that of another repository", _DISPATCH_AGAIN)


def _check_ref(context: Context) -> None:
    if context.ref_type != "branch" or not context.ref.startswith("refs/heads/"):
        raise InputError("The run does not belong to a branch", _FROM_DEFAULT)
    described = context.event.repository
    # The platform runs schedules from the default branch only, and may not name it.
    if described is not None and context.ref != f"refs/heads/{described.default_branch}":
        raise InputError("The run does not belong to the default branch", _FROM_DEFAULT)
    if context.event.ref is not None and context.event.ref != context.ref:
        raise InputError("The event file names another ref than GITHUB_REF", _DISPATCH_AGAIN)


def _check_sender(context: Context) -> None:
    actor, sender = context.actor, context.event.sender
    if sender is not None and (sender.id != actor.id or not sender.has_login(actor.login)):
        raise InputError("The event file names another sender than the run's actor", _DISPATCH_AGAIN)


def _identify_triggering_actor(context: Context, lookup: Lookup) -> Account:
    actor, login = context.actor, context.triggering_login
    if actor.has_login(login) and context.run_attempt == 1:
        return actor
    # Between two attempts a login can have gone to somebody else.
    found = Account(login, lookup(login))
    if actor.has_login(login) and found.id != actor.id:
        raise InputError(
            f"The login {login} belongs to another account than when the run was started", _DISPATCH_AGAIN
        )
    return found


def _check_allowed(account: Account, allowed: Sequence[int], role: str) -> None:
    if account.id not in allowed:
        raise InputError(
            f"The run's {role}, {account.login} with id {account.id}, is not in allowed-actor-ids",
            "Have someone who is in the list start the run, or add that id to it",
        )
