"""What the environment rules have to know of a cell and of the product. Pure data."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

CHAT_SUITE = "chat-features"

Candidate = Literal["copilot", "cursor", "kimi", "pi"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CellTraits:
    """One cell as far as its environment depends on it.

    `candidate` is set for a profile that is still being qualified; `status` is what the product's list of
    qualified profiles says of that agent. `remote` tells where it has to run.
    """

    suite: str
    case: str
    profile: str
    generation: Literal["legacy", "native"]
    provider: str
    model: str
    manual_only: bool = False
    remote: bool = False
    candidate: Candidate | None = None
    status: str = "pending"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductNames:
    """Names and cases that the product does not publish: empty until they are configured.

    `private_inputs` are variables that chat cases read and nobody else may; `needed_inputs` says which of
    them a case needs. Only in suite chat-features does a case name mean anything here.
    """

    public_origin: frozenset[str] = frozenset()
    private_diagnostics: frozenset[str] = frozenset()
    private_inputs: frozenset[str] = frozenset()
    needed_inputs: Mapping[str, frozenset[str]] = field(default_factory=dict)
    announcement_case: str | None = None
    announcement_feed_url: str | None = None
    managed_hiring_cases: frozenset[str] = frozenset()
    api_tool_cases: frozenset[str] = frozenset()


UNCONFIGURED = ProductNames()
