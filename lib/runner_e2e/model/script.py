"""What a script may say: agents, how their requests are told apart, and the steps they get. Pure.

Values are checked one by one and within their step; what agents mean to each other is for `reading`.
Everything is frozen once it is read.
"""

import json
from typing import Annotated, Literal, Self, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, model_validator
from pydantic_core import PydanticCustomError

SCRIPT_SCHEMA = "runner-e2e.scripted-model/v1"
DEFAULT_TITLE = "Scripted task"

# How an answer is spoilt; docs/scripted-model.md describes each.
Malformation = Literal[
    "broken_chunk", "invalid_json", "missing_done", "missing_finish", "empty", "html", "cut", "cut_at_once"
]
MALFORMATIONS: tuple[Malformation, ...] = get_args(Malformation)


def _check_json(arguments: dict[str, JsonValue]) -> dict[str, JsonValue]:
    try:
        json.dumps(arguments, allow_nan=False)
    except ValueError:
        raise _broken("has a number that JSON does not know", "write a finite number") from None
    return arguments


def _broken(says: str, remedy: str) -> PydanticCustomError:
    return PydanticCustomError("rule", "{says}", {"says": says, "remedy": remedy})


_Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]
_Text = Annotated[str, Field(max_length=1024 * 1024)]
_Needle = Annotated[str, Field(min_length=1, max_length=64 * 1024)]
_Seconds = Annotated[float, Field(ge=0, le=3600, allow_inf_nan=False)]
_Tokens = Annotated[int, Field(ge=0, le=10**9)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)


class Tool(_Part):
    """A call that the agent is told to make."""

    name: Annotated[str, Field(min_length=1, max_length=200)]
    arguments: Annotated[dict[str, JsonValue], AfterValidator(_check_json)]


class Condition(_Part):
    """A text that must stand in what came since the last answer: in a tool's result, or anywhere."""

    tool_result_contains: _Needle | None = None
    contains: _Needle | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.tool_result_contains is None and self.contains is None:
            raise _broken("asks for nothing", "write {tool_result_contains: a text}")
        return self


class Expectation(Condition):
    """A condition that is recorded; when it is `required` and does not hold, the step is refused."""

    required: bool = False


class Failure(_Part):
    """An error of the provider."""

    status: Annotated[int, Field(ge=400, le=599)]
    message: _Text = "The scripted model answers with an error"


class RateLimit(_Part):
    """A refusal that asks for patience."""

    retry_after_s: _Seconds


class Meeting(_Part):
    """A point that this agent passes when every agent with a meeting of that name is there."""

    name: _Name
    within_s: _Seconds = 60.0


class TokenCount(_Part):
    """What an answer says it cost; without one it is estimated from the texts."""

    prompt_tokens: _Tokens
    completion_tokens: _Tokens


class Taken(_Part):
    """A part of a tool's result, by a name: what stands first between two texts."""

    name: _Name
    after: _Needle
    before: _Needle


class Step(_Part):
    """One answer, or one failure; `repeat` is how often it is given, with `until` at most.

    It is passed over where `unless` holds, and may never be asked for.
    """

    text: _Text | None = None
    tool: Tool | None = None
    tools: Annotated[list[Tool], Field(min_length=1, max_length=64)] | None = None
    error: Failure | None = None
    rate_limit: RateLimit | None = None
    malformed: Malformation | None = None
    delay_s: _Seconds = 0.0
    meet: Meeting | None = None
    expect: Expectation | None = None
    until: Condition | None = None
    unless: Condition | None = None
    take: Annotated[list[Taken], Field(min_length=1, max_length=64)] | None = None
    repeat: Annotated[int, Field(ge=1, le=100_000)] = 1
    usage: TokenCount | None = None

    @property
    def calls(self) -> tuple[Tool, ...]:
        """The calls of this answer."""
        return tuple(self.tools or ([self.tool] if self.tool else []))

    @property
    def is_answer(self) -> bool:
        """Whether a client can go on from it: then a request for the same place gets it again."""
        return self.error is None and self.rate_limit is None and self.malformed is None

    @property
    def action(self) -> str:
        """Return what it does, in one word."""
        if self.malformed or self.error or self.rate_limit:
            return (
                f"malformed:{self.malformed}" if self.malformed else "error" if self.error else "rate_limit"
            )
        return "tool" if self.calls else "text"

    @model_validator(mode="after")
    def _check(self) -> Self:
        speaks = self.text is not None or bool(self.calls)
        kinds = [speaks or self.malformed is not None, self.error is not None, self.rate_limit is not None]
        if sum(kinds) == 0:
            raise _broken("does nothing", "give it text, tool, tools, error, rate_limit or malformed")
        if sum(kinds) > 1:
            raise _broken("does several things at once", "make a step of each")
        if self.tool is not None and self.tools is not None:
            raise _broken("has tool and tools", "put all calls of one answer into tools")
        if self.until is not None and (not self.is_answer or self.repeat == 1):
            raise _broken(
                "has until, which goes with an answer that is repeated",
                "add repeat, the most times that it is given",
            )
        if self.take is not None and not speaks:
            raise _broken("has take, and nothing that could hold what is taken", "give it text or a tool")
        if len({one.name for one in self.take or ()}) != len(self.take or ()):
            raise _broken("takes twice by one name", "give each part its own name")
        return self


class Match(_Part):
    """How requests of an agent are recognised; all that is given must hold.

    A key is long enough not to stand in ordinary text: it is replaced wherever the log would show it.
    """

    key: Annotated[str, Field(min_length=8, max_length=1024)] | None = None
    model: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    contains: _Needle | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.key is None and self.model is None and self.contains is None:
            raise _broken("asks for nothing", "write {key: the agent's API key}")
        return self


class Agent(_Part):
    """What one agent is answered, step after step in each of its conversations.

    Without `otherwise`, a conversation that goes on after the last step is refused.
    """

    id: _Name
    match: Match | None = None
    steps: Annotated[list[Step], Field(min_length=1, max_length=10_000)]
    otherwise: Step | None = None

    def step(self, index: int) -> Step | None:
        """Return a step by its index; behind the last one it is what is answered otherwise."""
        return self.steps[index] if index < len(self.steps) else self.otherwise


class Script(_Part):
    """A whole file. `title` answers the requests without tools, with which clients name a conversation."""

    schema_: Annotated[Literal["runner-e2e.scripted-model/v1"], Field(alias="schema")]
    values: Annotated[list[_Name], Field(max_length=1000)] = []
    title: _Text = DEFAULT_TITLE
    agents: Annotated[list[Agent], Field(min_length=1, max_length=1000)]
