"""A request as a place in a conversation: whose it is, how far it is, what came since the last answer. Pure.

The place is read from the messages, never from a clock or a counter, so that parallel conversations of one
agent do not disturb each other and a repeated request is recognised.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from runner_e2e.model.script import Condition, Match

# What clients name a conversation with: https://opencode.ai sends both.
SESSION_HEADERS = ("x-session-id", "x-session-affinity")

_INSTRUCTIONS = ("system", "developer")
_ROLES = (*_INSTRUCTIONS, "user", "assistant", "tool")


class Role(Enum):
    """Who wrote a text."""

    INSTRUCTION = "instruction"
    USER = "user"
    TOOL = "tool"


@dataclass(frozen=True, slots=True)
class Said:
    """One text that is not the model's."""

    role: Role
    text: str


@dataclass(frozen=True, slots=True)
class Conversation:
    """The messages of one request, cut at the answers.

    `said[0]` is what came before the first answer, `said[n]` what came since answer `n`; the last one is
    what the request is about. `calls[n]` holds the ids of the calls in answer `n`, counted from 0.
    """

    said: tuple[tuple[Said, ...], ...]
    calls: tuple[tuple[str, ...], ...]
    session: str | None = None

    @property
    def position(self) -> int:
        """How many answers the client has and goes on from."""
        return len(self.calls)

    @property
    def identity(self) -> str:
        """What stays the same while a conversation goes on: its session, else its first texts."""
        head = [["session", self.session]]
        if self.session is None:
            head = [[one.role.value, one.text] for one in self.said[0] if one.role is not Role.INSTRUCTION]
        return hashlib.sha256(json.dumps(head).encode()).hexdigest()[:16]

    def key(self, position: int) -> tuple[str, ...]:
        """Return what tells the place `position` of this conversation from that of every other one.

        The calls' ids are unique, so conversations that begin alike part with the first call.
        """
        ids = [name for calls in self.calls[:position] for name in calls]
        return (self.identity, str(position), *ids)

    @property
    def results(self) -> tuple[str, ...]:
        """What tools answered since the last answer."""
        return _results_of(self.said[self.position])

    def holds(self, condition: Condition, position: int | None = None) -> bool:
        """Whether a condition holds for what was said at a place, by default the present one."""
        said = self.said[self.position if position is None else position]
        results = _results_of(said)
        needle = condition.tool_result_contains
        if needle is not None and not any(needle in text for text in results):
            return False
        anything = condition.contains
        return anything is None or any(anything in one.text for one in said)


@dataclass(frozen=True, slots=True)
class Request:
    """What a request asks for, as far as a script can depend on it."""

    model: str
    streamed: bool
    counts_usage: bool
    messages: int
    characters: int
    tools: tuple[str, ...]
    conversation: Conversation
    key: str | None = None

    def is_of(self, match: Match | None) -> bool:
        """Whether it is a request of the agent with this match. None matches everything.

        Texts count only before the first answer: later ones may quote another agent.
        """
        if match is None:
            return True
        return (
            (match.key is None or match.key == self.key)
            and (match.model is None or match.model == self.model)
            and (
                match.contains is None or any(match.contains in one.text for one in self.conversation.said[0])
            )
        )


def parse_request(body: bytes, headers: Mapping[str, str]) -> Request:
    """Return what a request says; a ValueError tells the client what is wrong with it."""
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        raise ValueError("The body is not JSON") from None
    if not isinstance(content, dict):
        raise ValueError("The body is not a JSON object")  # noqa: TRY004 - one kind for all refusals
    model, messages, options = (content.get(name) for name in ("model", "messages", "stream_options"))
    if not isinstance(model, str) or not model:
        raise ValueError("The field model must be a text")
    if not isinstance(messages, list) or not messages:
        raise ValueError("The field messages must be a list that is not empty")
    session = next((value for name in SESSION_HEADERS if (value := headers.get(name))), None)
    conversation = _cut(messages, session)
    return Request(
        model=model,
        streamed=content.get("stream") is True,
        counts_usage=not isinstance(options, dict) or options.get("include_usage") is not False,
        messages=len(messages),
        characters=sum(len(one.text) for said in conversation.said for one in said),
        tools=_name_tools(content.get("tools")),
        conversation=conversation,
        key=_find_key(headers),
    )


def _cut(messages: Sequence[object], session: str | None) -> Conversation:
    """Cut at the answers that the client goes on from.

    An answer that broke off may stand there as a message of its own, in front of the one that replaced
    it or at the end. So messages of the model in a row are one answer, and at the end they are none.
    """
    said: list[list[Said]] = [[]]
    calls: list[tuple[str, ...]] = []
    answering: list[str] | None = None
    for message in messages:
        role = message.get("role") if isinstance(message, dict) else None
        if not isinstance(message, dict) or role not in _ROLES:
            raise ValueError("Each message must have a known role")
        if role == "assistant":
            answering = [*(answering or ()), *_name_calls(message.get("tool_calls"))]
            continue
        if role not in _INSTRUCTIONS and answering is not None:
            calls.append(tuple(answering))
            said.append([])
            answering = None
        kind = Role.INSTRUCTION if role in _INSTRUCTIONS else Role(role)
        said[-1].append(Said(kind, _read_text(message.get("content"))))
    return Conversation(tuple(map(tuple, said)), tuple(calls), session)


def _results_of(said: Sequence[Said]) -> tuple[str, ...]:
    return tuple(one.text for one in said if one.role is Role.TOOL)


def _read_text(content: object) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = [part.get("text") for part in content if isinstance(part, dict)]
    return "".join(text for text in parts if isinstance(text, str))


def _name_calls(calls: object) -> list[str]:
    listed = calls if isinstance(calls, list) else []
    names = [call.get("id") for call in listed if isinstance(call, dict)]
    return [name for name in names if isinstance(name, str)]


def _name_tools(tools: object) -> tuple[str, ...]:
    listed = tools if isinstance(tools, list) else []
    functions = [tool.get("function") for tool in listed if isinstance(tool, dict)]
    names = [function.get("name") for function in functions if isinstance(function, dict)]
    return tuple(name for name in names if isinstance(name, str))


def _find_key(headers: Mapping[str, str]) -> str | None:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token.strip():
        return token.strip()
    return headers.get("x-api-key")
