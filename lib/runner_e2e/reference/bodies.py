"""Shapes of request bodies, parsed at the edge. Unknown fields are ignored, as the product does."""

import uuid
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, JsonValue, StringConstraints
from pydantic.alias_generators import to_camel

from runner_e2e.reference.records import IssueStatus

Name = Annotated[str, StringConstraints(min_length=1, max_length=500)]
# The kernel ends a variable and an argument at the first NUL.
Word = Annotated[str, StringConstraints(pattern=r"^[^\x00]*$")]
VariableName = Annotated[str, StringConstraints(pattern=r"^[^\x00=]+$")]


class Body(BaseModel):
    """What all bodies have in common."""

    model_config = ConfigDict(
        alias_generator=to_camel, hide_input_in_errors=True, frozen=True, extra="ignore"
    )


class NewCompany(Body):
    """Body of `POST /api/companies`."""

    name: Name


class NewAgent(Body):
    """Body of `POST /api/companies/{c}/agents`."""

    name: Name
    role: Name = "general"
    adapter_type: str
    adapter_config: dict[str, JsonValue] = Field(default_factory=dict)
    runtime_config: dict[str, JsonValue] = Field(default_factory=dict)


class ProcessAdapter(Body):
    """`adapterConfig` of a `process` agent."""

    command: Annotated[str, StringConstraints(pattern=r"^[^\x00]+$")]
    args: tuple[Word, ...] = ()
    cwd: Annotated[str, StringConstraints(pattern=r"^/[^\x00]*$")] | None = None
    env: dict[VariableName, Word] = Field(default_factory=dict)


class RunnerAdapter(Body):
    """`adapterConfig` of a `paperclip_runner` agent."""

    lifecycle_mode: Annotated[str, StringConstraints(pattern=r"^[a-z_]+$")] = "per_turn"
    opencode_permission_mode: Annotated[str, StringConstraints(pattern=r"^[a-z]+$")] = "ask"
    env: dict[VariableName, Word] = Field(default_factory=dict)


ADAPTERS: dict[str, type[ProcessAdapter] | type[RunnerAdapter]] = {
    "process": ProcessAdapter,
    "paperclip_runner": RunnerAdapter,
}


class NewIssue(Body):
    """Body of `POST /api/companies/{c}/issues`."""

    title: Name
    description: str = ""
    status: IssueStatus = IssueStatus.BACKLOG
    assignee_agent_id: str | None = None


class IssueChange(Body):
    """Body of `PATCH /api/issues/{i}`; what is left out stays."""

    title: Name | None = None
    description: str | None = None
    status: IssueStatus | None = None
    comment: Annotated[str, StringConstraints(min_length=1)] | None = None


class NewComment(Body):
    """Body of `POST /api/issues/{i}/comments`."""

    body: Annotated[str, StringConstraints(min_length=1)]
    client_request_id: uuid.UUID | None = None


class Wakeup(Body):
    """Body of `POST /api/agents/{a}/wakeup`."""

    source: Annotated[str, StringConstraints(pattern=r"^(timer|assignment|on_demand|automation)$")] = (
        "on_demand"
    )
    reason: str = "on_demand"


class RunnerResult(Body):
    """What a runner hands in."""

    status: Annotated[str, StringConstraints(pattern=r"^(done|blocked)$")]
    comment: Annotated[str, StringConstraints(min_length=1)]


class RunnerEvent(Body):
    """One line of a runner's events."""

    type: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_.]{0,63}$")]
    payload: dict[str, JsonValue] = Field(default_factory=dict)
