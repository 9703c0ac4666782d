"""Why runs of the real product failed and why its server ended, as failure classes and sentences. Pure.

A run says of itself little more than that it failed; what its model's client met stands in the checkpoint of
its session. Texts are the product's, or come from a model's endpoint: they decide whether there is a second
attempt, and never that a cell passed.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from runner_e2e.cell.classification import classify_text
from runner_e2e.cell.paperclip_agents import Worker
from runner_e2e.errors import (
    CandidateFailureError,
    FailureClass,
    HarnessFailureError,
    RunnerE2EError,
    SandboxUnprovenError,
    TransientInfrastructureError,
)

_TRANSIENT: Final = FailureClass.TRANSIENT_INFRASTRUCTURE
_PERMANENT: Final = FailureClass.PERMANENT_INFRASTRUCTURE
QUARANTINED: Final = "native_session_cleanup_quarantined"
DAMAGED_RULE: Final = "installation-damaged"
_MOST_LINE: Final = 300
_MOST_FINGERPRINT: Final = 1 << 20
_LEAST_FREE: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Cause:
    """Why something failed; `rule` names what decided, `line` is the text that it decided by."""

    failure_class: FailureClass
    rule: str
    problem: str
    remedy: str
    line: str = ""

    def build_error(self, who: str = "") -> HarnessFailureError:
        """Return the error that ends the cell; `who` begins its sentence."""
        problem = f"{who}: {self.problem}" if who else self.problem
        return HarnessFailureError(self.failure_class, problem, self.remedy, rule=self.rule, line=self.line)


# What the product itself names as the reason, by its error code.
_BY_CODE: Final[Mapping[str, Cause]] = {
    QUARANTINED: Cause(
        _TRANSIENT,
        "run-quarantined",
        "Paperclip refuses every native run of this instance since it could not clean up after one",
        "Only a fresh instance recovers, and each attempt has one; read what failed before it in agents.json",
    ),
    "provider_transport_failed": Cause(
        _TRANSIENT,
        "run-transport",
        "the connection between runnerd and OpenCode broke",
        "Read the run's log; an opencodePermissionMode other than allow does this at the first shell call",
    ),
    "native_session_interrupted": Cause(
        _TRANSIENT,
        "run-interrupted",
        "its native session was interrupted: OpenCode did not start, not in time, or was ended",
        "See whether this machine is overloaded, and run `runner-e2e paperclip install --verify`",
    ),
    "provider_process_exited": Cause(
        _TRANSIENT,
        "run-opencode-ended",
        "OpenCode ended before its work was done, or could not be started",
        "See whether this machine has memory and disk left, and run `runner-e2e paperclip install --verify`",
    ),
    "process_lost": Cause(
        _TRANSIENT,
        "run-lost",
        "Paperclip lost the run's process",
        "See whether this machine has memory left, and run the cell again",
    ),
}
_OTHER_OPENCODE: Final = Cause(
    _PERMANENT,
    "opencode-version",
    "the OpenCode that was started is of another version than this Paperclip takes",
    "Run `runner-e2e paperclip install --verify`, which makes the installation anew",
)
_OTHER_OPENCODE_WORDS: Final = re.compile(r"OpenCode \S{1,40} is not the \S{0,60}qualified")
_BUSY: Final = Cause(
    _TRANSIENT,
    "model-unavailable",
    "the model's endpoint could not be reached, was overloaded or asked to wait, until the agent gave up",
    "See that the endpoint works, and run the cell again",
)
_GARBLED: Final = Cause(
    _TRANSIENT,
    "model-malformed",
    "the model's endpoint sent an answer that OpenCode could not read",
    "See what stands between OpenCode and its model, and run the cell again",
)
_KEY_REFUSED: Final = Cause(
    _PERMANENT,
    "model-refused",
    "the model's endpoint refused the agent's key",
    "See that the credential is valid, has credit, and may use this model",
)
_UNREADABLE: Final = re.compile(
    r"json pars(?:e|ing)|parsing failed|invalid json|type validation failed|no output generated"
    r"|unexpected (?:end of|token)",
    re.IGNORECASE,
)
DISK_FULL: Final = Cause(
    _PERMANENT,
    "disk-full",
    "The disk of the instance is full",
    "Free space below /var/tmp (an attempt needs some 200 MB), or find out what filled it",
)
_PORT_TAKEN: Final = Cause(
    _TRANSIENT,
    "port-taken",
    "The server found a port taken that was free when it was chosen",
    "Run the cell again; when it happens often, start fewer servers at once",
)
_NO_MEMORY: Final = Cause(
    _TRANSIENT,
    "no-memory",
    "The server got no memory",
    "Give this machine more memory, or start fewer servers at once",
)
_DAMAGED: Final = Cause(
    _PERMANENT,
    DAMAGED_RULE,
    "The server's own code cannot be read",
    "Run `runner-e2e paperclip install --verify`, which makes a damaged installation anew",
)
# The last is how the database says so of a write that came to an end half way.
_FULL_WORDS: Final = re.compile(
    r"no space left on device|\bENOSPC\b|\bEDQUOT\b|disk quota exceeded|\bwrote only \d{1,9} of \d{1,9} byte",
    re.IGNORECASE,
)
_OF_SERVERS: Final = (
    (_FULL_WORDS, DISK_FULL),
    (
        re.compile(r"Address already in use|\bEADDRINUSE\b|could not create any TCP/IP sockets"),
        _PORT_TAKEN,
    ),
    (
        re.compile(r"\bENOMEM\b|Cannot allocate memory|heap out of memory|could not map anonymous shared"),
        _NO_MEMORY,
    ),
    (
        re.compile(r"ERR_MODULE_NOT_FOUND|Cannot find (?:module|package)|\bSyntaxError:|MODULE_NOT_FOUND"),
        _DAMAGED,
    ),
)


def explain_run(run: Mapping[str, object]) -> Cause | None:
    """Return why a run failed when that is nothing that its agent did; None otherwise."""
    code, said = str(run.get("errorCode") or ""), str(run.get("error") or "")
    for words, cause in ((_FULL_WORDS, DISK_FULL), (_OTHER_OPENCODE_WORDS, _OTHER_OPENCODE)):
        if match := words.search(said):
            return _with_line(cause, _cut(said, match))
    if code in _BY_CODE:
        return _with_line(_BY_CODE[code], said)
    error = find_provider_error(run)
    if error is not None:
        return explain_provider_error(error)
    decided = classify_text(said)
    if decided.failure_class not in (_TRANSIENT, _PERMANENT):
        return None
    return Cause(
        decided.failure_class,
        f"run-{decided.rule}",
        f"Paperclip says that the run failed with {_shorten(said)}",
        "Read the run in agents.json and server.log",
        decided.line,
    )


def explain_provider_error(error: Mapping[str, object]) -> Cause | None:
    """Return what an error that OpenCode met at its model's endpoint means, None when it is the agent's."""
    found = error.get("data")
    data = found if isinstance(found, Mapping) else {}
    status, message = data.get("statusCode"), str(data.get("message") or "")
    number = status if type(status) is int else 0
    line = _shorten(f"{error.get('name')} {number or ''} {message}")
    if number in (401, 402, 403):
        return _with_line(_KEY_REFUSED, line)
    if number in (408, 429) or number >= 500 or data.get("isRetryable") is True:
        return _with_line(_BUSY, line)
    if not number and _UNREADABLE.search(message):
        return _with_line(_GARBLED, line)
    if not number and classify_text(message).failure_class is _TRANSIENT:
        return _with_line(_BUSY, line)
    return None


def find_provider_error(run: Mapping[str, object]) -> Mapping[str, object] | None:
    """Return the error of a run's last turn as OpenCode gave it, None when its checkpoint holds none."""
    turns = _descend(run, "runnerProfileJson", "sessionCheckpoint").get("terminalTurns")
    last = turns[-1] if isinstance(turns, list) and turns else None
    text = last.get("fingerprint") if isinstance(last, Mapping) else None
    if not isinstance(text, str) or len(text) > _MOST_FINGERPRINT:
        return None
    try:
        fingerprint = json.loads(text)
    except (ValueError, RecursionError):
        return None
    error = fingerprint.get("error") if isinstance(fingerprint, dict) else None
    return error if isinstance(error, dict) else None


def judge_runs(workers: Iterable[Worker], expected: str) -> HarnessFailureError | None:
    """Return the error of the first run that failed of something other than its agent, None without one.

    Runs that came to what the task expects are left out. What made Paperclip refuse later runs outranks that
    it did.
    """
    for worker in workers:
        rows = [row for row in reversed(worker.runs) if row.get("status") != expected or _is_refused(row)]
        causes = [cause for row in rows if (cause := explain_run(row)) is not None]
        if causes:
            refused = any(map(_is_refused, rows)) and causes[0].rule != "run-quarantined"
            after = f"; Paperclip then refused further runs ({QUARANTINED})" if refused else ""
            cause = causes[0]
            return Cause(
                cause.failure_class, cause.rule, f"{cause.problem}{after}", cause.remedy, cause.line
            ).build_error(f"A run of {worker.name} failed")
    return None


def explain_server(output: str) -> Cause | None:
    """Return what the last of a server's output tells of why it ended or hung; None when that is nothing."""
    for words, cause in _OF_SERVERS:
        matches = [match for line in output.splitlines() if (match := words.search(line))]
        if matches:
            return _with_line(cause, _cut(matches[-1].string, matches[-1]))
    return None


def explain_verdict(
    error: RunnerE2EError | None, *, launched: bool, output: str, free_bytes: int
) -> RunnerE2EError | None:
    """Return what a failed attempt comes to when its disk is full; every other verdict stays.

    `output` is the last of the server's, `free_bytes` what is left beside the attempt. A verdict on
    isolation stays when anything was `launched`.
    """
    kinds = (TransientInfrastructureError, CandidateFailureError, HarnessFailureError)
    stands = isinstance(error, SandboxUnprovenError) and not launched
    if not isinstance(error, kinds) and not stands:
        return error
    cause = explain_server(output)
    if free_bytes < _LEAST_FREE or (cause is not None and cause.rule == DISK_FULL.rule):
        line = cause.line if cause is not None and cause.rule == DISK_FULL.rule else ""
        return _with_line(DISK_FULL, line).build_error()
    return error


def explain_damage(problem: str) -> Cause:
    """Return why a server did not start whose installation has this problem."""
    return Cause(
        _PERMANENT,
        DAMAGED_RULE,
        f"The server did not start, and its installation is damaged: {problem}",
        "Run `runner-e2e paperclip install --verify`, which makes it anew",
    )


def _is_refused(run: Mapping[str, object]) -> bool:
    return run.get("errorCode") == QUARANTINED


def _descend(value: Mapping[str, object], *names: str) -> Mapping[str, object]:
    for name in names:
        found = value.get(name)
        if not isinstance(found, Mapping):
            return {}
        value = found
    return value


def _with_line(cause: Cause, line: str) -> Cause:
    return Cause(cause.failure_class, cause.rule, cause.problem, cause.remedy, _shorten(line))


def _cut(text: str, match: re.Match[str]) -> str:
    """Return a long text from shortly before the words that decided."""
    return text[max(0, match.start() - _MOST_LINE // 3) :]


def _shorten(text: str) -> str:
    shown: Sequence[str] = [char if char.isprintable() else " " for char in text[: 2 * _MOST_LINE]]
    return " ".join("".join(shown).split())[:_MOST_LINE]
