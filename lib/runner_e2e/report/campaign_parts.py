"""What a cell of a campaign consists of: money, tokens, attempts, what agents reached. Pure."""

from dataclasses import dataclass

from runner_e2e.errors import FailureClass

_CANDIDATE_EXIT = 1


@dataclass(frozen=True, slots=True)
class Cost:
    """What was paid; `usd` is None where nobody knows, and never zero for that."""

    usd: float | None
    status: str
    source: str | None
    scripted: bool
    requests: int | None

    @property
    def known(self) -> bool:
        """Whether `usd` is all of it, and not what is known of it."""
        return self.usd is not None and self.status == "reported"


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens; None where nobody knows."""

    status: str
    input: int | None
    cached: int | None
    output: int | None


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt of a cell within its job."""

    number: int
    status: str
    failure: FailureClass | None
    rule: str | None
    line: str | None
    message: str | None


@dataclass(frozen=True, slots=True)
class Earlier:
    """What came of a cell in an earlier attempt of the workflow run; None where it is not told."""

    run_attempt: int
    status: str | None
    failure: FailureClass | None

    @property
    def judged(self) -> bool | None:
        """Whether the product passed there, None when nothing tells."""
        return None if self.status is None else judge(self.status, self.failure)


@dataclass(frozen=True, slots=True)
class Reach:
    """What the agents of a cell tried at hidden places, counted; `reached` names those they got into."""

    agents: int
    tried: int
    denied: int
    known_gaps: int
    reached: tuple[str, ...]


def judge(status: str, failure: FailureClass | None) -> bool | None:
    """Return whether the product passed, None when the end is not the product's."""
    if failure is None:
        return True if status == "passed" else None
    return False if failure.exit_code == _CANDIDATE_EXIT else None
