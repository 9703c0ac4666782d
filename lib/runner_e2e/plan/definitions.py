"""What a catalog file may say: the shapes of suites, profiles, environments and tasks.

Names in the file are camelCase, as the product spells them. Values are checked one by one here, and
against each other in `catalog_rules`. Everything is frozen once it is read.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, ConfigDict, FailFast, Field, JsonValue
from pydantic.alias_generators import to_camel
from pydantic.dataclasses import dataclass

from runner_e2e.plan.ids import CASE, SEGMENT, split_execution_id

CATALOG_SCHEMA = "runner-e2e.catalog/v1"

# Groups every catalog may use; a file declares further ones of its own, so that a misspelt one is noticed.
KNOWN_GROUPS = frozenset(
    {
        "breadth",
        "chat",
        "context-integrity",
        "core",
        "daytona",
        "legacy",
        "local",
        "native",
        "onboarding",
        "slow",
        "stock-harness",
        "warm",
    }
)

# The product's attended journeys: a person has to be there, so no CI matrix admits them.
ATTENDED_FLOWS = frozenset({"provider_connection", "github_review_journey", "antigravity_agent_journey"})
DAYTONA_CREDENTIAL = "DAYTONA_API_KEY"

EnvironmentId = Literal["local", "daytona"]
CredentialName = Literal[
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "OPENROUTER_API_KEY",
    "KIMI_MODEL_API_KEY",
    "XAI_API_KEY",
    "GROK_AUTH_JSON",
    "GEMINI_API_KEY",
    "DAYTONA_API_KEY",
    "CURSOR_AUTH_TOKEN",
    "COPILOT_GITHUB_TOKEN",
]
CREDENTIAL_NAMES: tuple[CredentialName, ...] = get_args(CredentialName)

Flow = Literal[
    "agent_chat",
    "antigravity_agent_journey",
    "blocker_guidance",
    "context_integrity",
    "continuation",
    "continuation_accounting",
    "copilot_protection",
    "cursor_native",
    "everyday_workflow",
    "first_task",
    "github_review_journey",
    "governed_tool_review",
    "instruction_persistence",
    "multi_turn",
    "native_active_stop",
    "native_provider_loss",
    "pi_native",
    "plan_approval",
    "plan_approval_completion",
    "plan_revision_acceptance",
    "plan_task_guidance",
    "provider_connection",
    "public_mcp",
    "question_resume",
    "question_resume_completion",
    "restart_server",
    "single_turn",
    "two_agents",
    "warm_three_turn",
]
MatcherKind = Literal[
    "artifact_exact",
    "artifact_exists",
    "environment",
    "file_contains",
    "file_exact",
    "file_exists",
    "issue_status",
    "json_path",
    "json_schema",
    "message_contains",
    "message_exact",
    "message_occurrences",
    "message_ordered",
    "message_regex",
    "run_status",
    "runtime_mode",
]


# What the validators below say; `catalog_wording` adds what to do.
ONE_LINE = "must be one line of printable text"
PLAIN_PROSE = "must hold no control characters but line ends and tabs"
EXECUTION_ID_FORM = (
    "must be suite.profile.environment.case with environment local or daytona, at most 512 characters"
)

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def _check_line(text: str) -> str:
    if not text.isprintable():
        raise ValueError(ONE_LINE)
    return text


def _check_prose(text: str) -> str:
    if _CONTROL.search(text):
        raise ValueError(PLAIN_PROSE)
    return text


def _check_execution_id(text: str) -> str:
    if split_execution_id(text) is None:
        raise ValueError(EXECUTION_ID_FORM)
    return text


# YAML brings numbers and booleans of their own, so text that looks like one is a mistake.
Flag = Annotated[bool, Field(strict=True)]
# Two attempts with their margins end within a day: see compute_timeout_minutes in `matrix`.
# Below a second, seconds were meant.
Milliseconds = Annotated[int, Field(strict=True, ge=1000, le=42_960_000)]
Count = Annotated[int, Field(strict=True, ge=1, le=1000)]
Size = Annotated[int, Field(strict=True, ge=0)]
Line = Annotated[str, Field(min_length=1, max_length=512), AfterValidator(_check_line)]
Prose = Annotated[str, Field(min_length=1, max_length=65_536), AfterValidator(_check_prose)]
Name = Annotated[str, Field(pattern=rf"^{SEGMENT}$", max_length=128)]
CaseName = Annotated[str, Field(pattern=rf"^{CASE}$", max_length=256)]
ExecutionId = Annotated[str, AfterValidator(_check_execution_id)]
# A long list of wrong names is one mistake, and a breach costs far more memory than a name.
Names = Annotated[tuple[Name, ...], FailFast()]
SomeNames = Annotated[Names, Field(min_length=1)]

_CONFIG = ConfigDict(
    extra="forbid",
    alias_generator=to_camel,
    validate_by_name=True,
    validate_by_alias=True,
    hide_input_in_errors=True,
)


@dataclass(frozen=True, slots=True, kw_only=True, config=_CONFIG)
class ModelQualification:
    """Why a profile uses its model."""

    source: Literal[
        "adapter_constant",
        "candidate_runner_profile",
        "openrouter_rankings_snapshot",
        "qualified_runner_profile",
    ]
    qualification_id: Line


@dataclass(frozen=True, slots=True, kw_only=True, config=_CONFIG)
class RuntimeMetadata:
    """What the product has to report about the runtime it used."""

    adapter_type: Name
    provider: Line


@dataclass(frozen=True, slots=True, kw_only=True, config=_CONFIG)
class Ranking:
    """Where a model stood in a public ranking when it was chosen."""

    rank: Count
    canonical_model_id: Line
    snapshot_id: Line
    captured_at: Line
    source_url: Line


@dataclass(frozen=True, slots=True, kw_only=True, config=_CONFIG)
class Profile:
    """One way to run an agent. Without `credential` it spends nothing."""

    id: Name
    label: Line
    generation: Literal["legacy", "native"]
    groups: Names = ()
    adapter_type: Name
    provider: Line
    model: Line
    model_qualification: ModelQualification
    credential: CredentialName | None = None
    supported_environments: Annotated[tuple[EnvironmentId, ...], FailFast(), Field(min_length=1)]
    expected_runtime_mode: Name
    expected_runtime_metadata: RuntimeMetadata
    qualification_candidate: Literal["copilot", "cursor", "kimi", "pi"] | None = None
    ranking: Ranking | None = None
    adapter_config: Mapping[str, JsonValue] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, config=_CONFIG)
class Lifecycle:
    """How an environment is made, checked and removed."""

    setup: Literal["create_via_api", "instance_managed"]
    probe: Literal["run_context_via_api"]
    cleanup: Literal["delete_via_api_and_destroy_leases", "instance_shutdown"]


@dataclass(frozen=True, slots=True, kw_only=True, config=_CONFIG)
class ExecutionTarget:
    """Where the product has to say that a run took place."""

    kind: Literal["local", "remote"]
    transport: Literal["sandbox"] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, config=_CONFIG)
class Environment:
    """Where agents run. `configuration_key` tells two configurations of one id apart."""

    id: EnvironmentId
    label: Line
    groups: Names = ()
    driver: Literal["local", "sandbox"]
    provider: Literal["daytona", "local"]
    lifecycle: Lifecycle
    expected_execution_target: ExecutionTarget
    configuration_key: Name | None = None
    credential: Literal["DAYTONA_API_KEY"] | None = None

    @property
    def reference(self) -> str:
        """How a suite names this environment: `local`, or `daytona:large` with a configuration key."""
        return f"{self.id}:{self.configuration_key}" if self.configuration_key else self.id


@dataclass(frozen=True, slots=True, kw_only=True, config=_CONFIG)
class AttemptTimeout:
    """Milliseconds that one attempt may take, by environment."""

    local: Milliseconds
    daytona: Milliseconds

    def of(self, environment: str) -> int:
        """Return the milliseconds for an environment's id."""
        return self.daytona if environment == "daytona" else self.local


@dataclass(frozen=True, slots=True, kw_only=True, config=_CONFIG)
class TerminalState:
    """What issue and run have to come to."""

    issue: Literal["blocked", "done", "in_progress", "in_review"]
    run: Literal["cancelled", "failed", "succeeded"]


@dataclass(frozen=True, slots=True, kw_only=True, config=_CONFIG)
class Matcher:
    """One condition on what an attempt left; which parameters a kind takes is the harness's rule."""

    kind: MatcherKind
    parameters: Mapping[str, JsonValue] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, config=_CONFIG)
class Task:
    """A case: its id is the part that stays hidden from the agent.

    `{nonce}` in `title`, `prompt` and matchers stands for a random word of the attempt.
    `expected_run_count` is the most runs that it costs. With `explicit_group` the case is left out of
    every selection that does not ask for it.
    """

    id: CaseName
    label: Line
    groups: Names = ()
    work_mode: Literal["ask", "planning", "standard"] = "standard"
    flow: Flow
    expected_run_count: Count
    minimum_expected_run_count: Count | None = None
    attempt_timeout_ms: AttemptTimeout
    turn_timeout_ms: Milliseconds | None = None
    automatic_retry_policy: Literal["single_attempt"] | None = None
    restart_server_before_question_answer: Flag = False
    tool_review_decision: Literal["always", "approve", "decline", "restart"] | None = None
    explicit_group: Name | None = None
    expected_terminal_state: TerminalState
    title: Line | None = None
    prompt: Prose | None = None
    matchers: Annotated[tuple[Matcher, ...], FailFast()] = ()


@dataclass(frozen=True, slots=True, kw_only=True, config=_CONFIG)
class Suite:
    """A durable testing purpose: profiles, environments and tasks, named by their ids.

    A `manual_only` suite runs only when it, or an exact execution id, is named.
    """

    id: Name
    label: Line
    description: Line
    groups: Names = ()
    profiles: SomeNames
    environments: Annotated[tuple[Line, ...], FailFast(), Field(min_length=1)]
    tasks: Annotated[tuple[CaseName, ...], FailFast(), Field(min_length=1)]
    expected_matrix_size: Size
    excluded_execution_ids: Annotated[tuple[ExecutionId, ...], FailFast()] = ()
    definition_metadata: Mapping[str, JsonValue] | None = None
    manual_only: Flag = False


@dataclass(frozen=True, slots=True, kw_only=True, config=_CONFIG)
class CatalogFile:
    """A whole file. `groups` are those of its own, beside the known ones."""

    schema: Literal["runner-e2e.catalog/v1"]
    groups: Names = ()
    suites: Annotated[tuple[Suite, ...], Field(min_length=1)]
    profiles: Annotated[tuple[Profile, ...], Field(min_length=1)]
    environments: Annotated[tuple[Environment, ...], Field(min_length=1)]
    tasks: Annotated[tuple[Task, ...], Field(min_length=1)]
    expected_matrix_size: Size | None = None
