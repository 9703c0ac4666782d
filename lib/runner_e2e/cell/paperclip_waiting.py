"""What an agent of the real product waits for: its question, or its plan, and the answer to it. Pure.

The product keeps both as interactions of an issue, which outlive the run that made them. A plan is the
issue's document `plan`, handed in by a confirmation that is bound to one of its revisions.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from runner_e2e.cell.control_plane import rows_of
from runner_e2e.cell.matchers import MatcherResult
from runner_e2e.cell.paperclip_agents import Worker

ASK, PLAN = "ask", "plan"
# What the product makes of an issue whose agent waits for an answer.
WAITING_ISSUE = "in_review"
PENDING = "pending"
_KINDS = {ASK: "ask_user_questions", PLAN: "request_confirmation"}
_ANSWERED = {ASK: "answered", PLAN: "approved"}
_WAKING = ("wake_assignee", "wake_assignee_on_accept")
_PLAN_KEY = "plan"
# Matchers of what an agent makes: that they hold already says that it did not wait.
_WORK = ("file_", "json_", "artifact_")
# Events of a run whose provider asks by a tool of its own: each request ends in one of several ways.
_REQUEST = "runtime_request."
_REQUESTED = f"{_REQUEST}created"
REMEDIES = {
    ASK: (
        "Have the agent ask by request_human_input, as questions with a continuationPolicy that wakes it, "
        "and end its run before it works; see interactions in agents.json"
    ),
    PLAN: (
        "Have the agent write the document plan, ask for its approval by request_human_input, as a "
        "confirmation of that revision, and end its run before it works; see interactions in agents.json"
    ),
}


@dataclass(frozen=True, slots=True)
class Interaction:
    """One card of an issue; `agent` and `run` made it, and `payload` is what the product shows of it."""

    id: str
    kind: str
    status: str
    policy: str
    agent: str | None
    run: str | None
    payload: Mapping[str, object] = field(repr=False)

    @property
    def revision(self) -> str | None:
        """The revision of the plan that it is bound to, if it is."""
        target = self.payload.get("target")
        if not isinstance(target, Mapping) or target.get("type") != "issue_document":
            return None
        return str(target.get("revisionId")) if target.get("key") == _PLAN_KEY else None

    def as_json(self) -> dict[str, object]:
        """Return an entry of `interactions` in agents.json, without what was asked."""
        return {"id": self.id, "kind": self.kind, "status": self.status, "run": self.run}


@dataclass(frozen=True, slots=True)
class Asked:
    """What stands on an issue when its agent's run has ended; `plan` is the plan's last revision."""

    interactions: tuple[Interaction, ...] = ()
    plan: str | None = None


def read_asked(issue: Mapping[str, object], interactions: object) -> Asked:
    """Return what the product answered of an issue and of its interactions."""
    document = issue.get("planDocument")
    revision = document.get("latestRevisionId") if isinstance(document, Mapping) else None
    return Asked(
        tuple(map(_read_interaction, rows_of(interactions))), None if revision is None else str(revision)
    )


def find_open(first: str, worker: Worker, asked: Asked) -> Interaction | None:
    """Return what the board has to answer, if exactly that is there."""
    own = _find_own(first, worker, asked)
    return own[0] if len(own) == 1 and own[0].status == PENDING else None


def find_shortfalls(first: str, worker: Worker, asked: Asked, matchers: Sequence[MatcherResult]) -> list[str]:
    """Return what an agent lacks that has to wait for an answer; `matchers` are its task's by then."""
    name, answered = worker.name, _ANSWERED[first]
    problems = _judge_plan(worker, asked) if first == PLAN else _judge_question(worker, asked)
    card = find_open(first, worker, asked)
    if card is not None and card.policy not in _WAKING:
        problems.append(f"what {name} waits for does not wake it ({card.policy})")
    others = sorted({one.kind for one in asked.interactions if one.status == PENDING and one is not card})
    if card is not None and others:
        problems.append(f"{name} waits for more than its flow answers: {', '.join(others)}")
    wrong = sorted({status for status in worker.statuses if status != "succeeded"})
    if wrong:
        problems.append(f"the run in which {name} was to wait is {', '.join(wrong)}")
    if len(worker.runs) > 1:
        problems.append(f"{name} ran {len(worker.runs)} times before it was {answered}")
    done = [row for row in matchers if row.passed and row.kind.startswith(_WORK)]
    if done:
        held = ", ".join(f"matchers[{row.index}] ({row.kind})" for row in done)
        problems.append(f"{name} worked before it was {answered}: {held} held by then")
    return problems


def is_asking(worker: Worker, asked: Asked) -> bool:
    """Whether anything that an agent asked is open."""
    return any(one.status == PENDING for one in asked.interactions if one.agent == worker.agent)


def is_held(events: Iterable[Mapping[str, object]]) -> bool:
    """Whether a run waits for an answer to its provider, which the product may show on no issue."""
    kinds = [str(event.get("eventType")) for event in events]
    ends = [kind for kind in kinds if kind.startswith(_REQUEST) and kind != _REQUESTED]
    return kinds.count(_REQUESTED) > len(ends)


def find_second(first: str, worker: Worker, asked: Asked) -> list[str]:
    """Return what an agent asks once more, where its flow has nobody to answer it."""
    return [f"{worker.name} asked again after it was {_ANSWERED[first]}"] if is_asking(worker, asked) else []


def build_answer(first: str, card: Interaction) -> tuple[str, dict[str, object]]:
    """Return how the board answers a card: the end of the path, and the body."""
    if first == PLAN:
        return "accept", {}
    questions = card.payload.get("questions")
    rows = rows_of(questions) if isinstance(questions, list) else []
    return "respond", {"answers": [_answer(row) for row in rows]}


def _judge_question(worker: Worker, asked: Asked) -> list[str]:
    own = _find_own(ASK, worker, asked)
    if not own:
        return [f"no question of {worker.name} came before its run ended"]
    if len(own) > 1:
        return [f"{worker.name} asked {len(own)} questions, and its flow answers one"]
    if own[0].status != PENDING:
        return [f"the question of {worker.name} is {own[0].status}, and nobody has answered it"]
    return []


def _judge_plan(worker: Worker, asked: Asked) -> list[str]:
    name, own = worker.name, _find_own(PLAN, worker, asked)
    if asked.plan is None:
        return [f"no plan of {name} came before its run ended: its issue has no document {_PLAN_KEY}"]
    if not own:
        return [f"the plan of {name} was not handed in: nothing asks for its approval"]
    if len(own) > 1:
        return [f"{name} handed in {len(own)} plans, and its flow approves one"]
    if own[0].status != PENDING:
        return [f"the plan of {name} is {own[0].status}, and nobody has approved it"]
    if own[0].revision != asked.plan:
        return [f"what {name} handed in is not the last revision of its plan"]
    return []


def _find_own(first: str, worker: Worker, asked: Asked) -> list[Interaction]:
    return [
        one
        for one in asked.interactions
        if one.agent == worker.agent
        and one.kind == _KINDS[first]
        and (first == ASK or one.revision is not None)
    ]


def _answer(question: Mapping[str, object]) -> dict[str, object]:
    """Return yes to a question: the option that says so, else the first one, else the word."""
    options = rows_of(question.get("options"))
    given = [row for row in options if row.get("freeText") is not True]
    said = [row for row in given if str(row.get("label", "")).strip().casefold().startswith("yes")]
    chosen = (said or given or options)[:1]
    answer: dict[str, object] = {
        "questionId": str(question.get("id")),
        "optionIds": [str(row.get("id")) for row in chosen],
    }
    return answer if given else answer | {"otherText": "Yes."}


def _read_interaction(row: Mapping[str, object]) -> Interaction:
    agent, run, payload = row.get("createdByAgentId"), row.get("sourceRunId"), row.get("payload")
    return Interaction(
        id=str(row.get("id")),
        kind=str(row.get("kind")),
        status=str(row.get("status")),
        policy=str(row.get("continuationPolicy")),
        agent=None if agent is None else str(agent),
        run=None if run is None else str(run),
        payload=payload if isinstance(payload, Mapping) else {},
    )
