"""The matchers of a task: read from a catalog's definitions, judged on what an agent's issue left. Pure.

One table holds every kind; the modules `matchers_*` beside this one hold what each kind takes and does:

* `message_exact`, `message_contains`: `text`. `message_regex`: `pattern`. `message_ordered`: `texts`.
  `message_occurrences`: `text`, `count`. Of messages, only the agent's own count.
* `issue_status`, `run_status`: `status`, of every run. `runtime_mode`: `mode`, of every run.
  `environment`: one or more of `id`, `driver`, `provider`, `kind`, `transport`.
* `file_exists`: `path`. `file_exact`, `file_contains`: `path`, `text`. `artifact_exists`: `name`.
  `artifact_exact`: `name`, `text`.
* `json_path`: `path`, `query`, `equals`. `json_schema`: `path`, `schema`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runner_e2e.cell import matchers_documents, matchers_files, matchers_messages, matchers_states
from runner_e2e.cell.matchers_observed import Condition, Observed
from runner_e2e.cell.matchers_parameters import Kind, Parameters, fill_nonce

if TYPE_CHECKING:
    from pydantic import JsonValue

    from runner_e2e.plan.definitions import Matcher as Definition

KINDS: Mapping[str, Kind] = {
    **matchers_messages.KINDS,
    **matchers_states.KINDS,
    **matchers_files.KINDS,
    **matchers_documents.KINDS,
}
# What stands for the word of an attempt when a definition is checked: it may begin with either.
_TRIAL_NONCES = ("a0", "0a")


@dataclass(frozen=True, slots=True)
class Matcher:
    """One condition of a task, which stands at `index` among them.

    Its parameters stay out of its representation: they may be the answer.
    """

    index: int
    kind: str
    parameters: "Mapping[str, JsonValue]" = field(repr=False)
    condition: Condition = field(compare=False, repr=False)

    def with_nonce(self, nonce: str) -> "Matcher":
        """Return the matcher with an attempt's nonce, letters and digits, wherever it has `{nonce}`."""
        filled = fill_nonce(dict(self.parameters), nonce)
        if not isinstance(filled, dict):
            raise TypeError("a mapping is filled as one")
        return _parse(self.index, self.kind, filled)


@dataclass(frozen=True, slots=True)
class MatcherResult:
    """What came of a matcher; `detail` is one printable line of at most 300 characters."""

    index: int
    kind: str
    passed: bool
    detail: str

    def as_json(self) -> dict[str, int | str | bool]:
        """Return an entry of `matcherResults` in a cell's result."""
        return {"index": self.index, "kind": self.kind, "passed": self.passed, "detail": self.detail}


def parse_matchers(definitions: "Sequence[Definition]") -> tuple[Matcher, ...]:
    """Return a task's matchers, checked as they stand and with a nonce in them.

    Raises InputError for parameters that are missing, unknown or wrong: it names the matcher by its index
    and kind, and quotes nothing of its parameters.
    """
    matchers = tuple(
        _parse(index, definition.kind, definition.parameters) for index, definition in enumerate(definitions)
    )
    for matcher in matchers:
        for nonce in _TRIAL_NONCES:
            matcher.with_nonce(nonce)
    return matchers


def check_matchers(definitions: "Sequence[Definition]") -> None:
    """Refuse matchers that could not be judged; to be called before anything starts or is paid for."""
    parse_matchers(definitions)


def judge_matchers(matchers: Sequence[Matcher], observed: Observed) -> tuple[MatcherResult, ...]:
    """Return what every matcher says of one agent's issue, in their order; none is left out."""
    results = []
    for matcher in matchers:
        judgement = matcher.condition.judge(observed)
        results.append(MatcherResult(matcher.index, matcher.kind, judgement.passed, judgement.detail))
    return tuple(results)


def _parse(index: int, kind: str, parameters: "Mapping[str, JsonValue]") -> Matcher:
    condition = KINDS[kind].parse(Parameters(f"matchers[{index}] ({kind})", parameters))
    return Matcher(index, kind, parameters, condition)
