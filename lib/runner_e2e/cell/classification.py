"""Say which failure class a harness's failure is of, from what the harness said. Pure.

The ordered rules are upstream's (`failure_words` holds them). Text comes in redacted; the line that decided
goes into the cell's record, where it may name the case, so that whoever hides that name hides the line.
"""

import re
from dataclasses import dataclass

from runner_e2e.cell.failure_words import CLEANUP, HARMLESS, RULES, TRANSIENT, TROUBLE, Rule
from runner_e2e.cell.harness_result import HarnessResult
from runner_e2e.errors import FailureClass

MOST_LINE_CHARACTERS = 300
MOST_TEXT = 1 << 20  # bytes of output, or characters of an error, that are read from the end
OTHERWISE = "otherwise"

# What a harness may say of itself; our own further classes are never its to give.
_SAID = {
    one.value: one
    for one in (
        FailureClass.CANDIDATE_FAILURE,
        FailureClass.PROVIDER_VARIANCE,
        FailureClass.SECRET_LEAK,
        FailureClass.CLEANUP_FAILURE,
        FailureClass.PERMANENT_INFRASTRUCTURE,
        FailureClass.TRANSIENT_INFRASTRUCTURE,
    )
}
# Of a cleanup's error, so many lines after it still tell what went wrong with it.
_CAUSE_LINES = 3
_COLOURS = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
# A piece of JSON's `"key": "value"`, or what someone quotes; an escaped quote does not end it.
_QUOTED = re.compile(
    r"(?P<key>\"[\w.-]{1,64}\"\s{0,4}:\s{0,4})?(?P<text>\"(?>(?:[^\"\\]|\\.)*)\"?|`[^`]*+`?|“[^”]*+”?)"
    r"(?P<colon>\s{0,4}:)?"
)
_SINGLE_QUOTED = re.compile(r"(?<!\w)'[^']{1,300}'(?!\w)")
# Keys of JSON under which stands what was said to or by an agent, or asked of it.
_SPEECH = frozenset(
    {
        *(
            "prompt",
            "content",
            "text",
            "input",
            "output",
            "title",
            "description",
            "body",
            "comment",
            "instruction",
        ),
        *("expected", "received", "actual", "pattern"),
    }
)
_STAND_IN = " something "


@dataclass(frozen=True, slots=True)
class Decision:
    """A failure class, the short name of the rule that decided, and the line that it decided by.

    `line` is printable, at most 300 characters, and empty when nothing was said.
    """

    failure_class: FailureClass
    rule: str
    line: str


def classify_text(text: str) -> Decision:
    """Return the class of an error by the first rule that any of its lines matches.

    The line is the last that matches: what ended the harness is said last, and what was said before may
    have been overcome. What stands in quotes is not the harness's own word and counts for nothing; JSON's
    values count, but for those that are an agent's or a prompt's. Cleanup that failed is transient only
    when every line that tells of it goes on, within three lines, with transient words.
    """
    return _classify([line for line in _split(text) if line])


def classify_end(status: int, tail: bytes, *, timed_out: bool, spawn_failed: bool = False) -> Decision:
    """Return the class of a harness that ended with an exit status and left no result.

    Of its output, the last 1 MiB counts, and there, which is ours, only lines that tell of trouble: output
    also says what goes well.
    """
    kept = tail[-MOST_TEXT:]
    if len(tail) > MOST_TEXT:
        kept = kept.partition(b"\n")[2] or kept  # half a line may say what the whole does not
    lines = _split(kept.decode("utf-8", "replace"))
    last = next((line for line in reversed(lines) if line), "")
    if spawn_failed:
        return Decision(FailureClass.TRANSIENT_INFRASTRUCTURE, "spawn-error", _shorten(last))
    if timed_out:
        return Decision(FailureClass.TRANSIENT_INFRASTRUCTURE, "timeout", _shorten(last))
    if status == 0:
        return Decision(FailureClass.PERMANENT_INFRASTRUCTURE, "no-result", _shorten(last))
    found = _classify([line for line in lines if TROUBLE.search(line)])
    return found if found.line else Decision(found.failure_class, found.rule, _shorten(last))


def classify_result(result: HarnessResult) -> Decision:
    """Return the class of a result that says failed: its own class, or that of its error's text.

    Only so can a failure be `provider_variance`. A class that is none of upstream's six is not honoured.
    """
    error = result.error or ""
    said = _SAID.get(result.failure_class or "")
    if said is None:
        return classify_text(error)
    first = next((line for line in _split(error) if line), "")
    return Decision(said, "harness-result", _shorten(first))


def judge_result(result: HarnessResult, missing: tuple[str, ...]) -> Decision | None:
    """Return why a result is no pass, None for one that is.

    A pass needs that the harness says so, that it cleaned up, and that nothing is `missing` of its evidence.
    """
    if result.status == "failed":
        return classify_result(result)
    if result.cleanup != "passed":
        line = f"passed, but its cleanup is {result.cleanup}"
        return Decision(FailureClass.CLEANUP_FAILURE, "cleanup-not-passed", line)
    if missing:
        line = f"passed, but its evidence lacks {', '.join(missing)}"
        return Decision(FailureClass.PERMANENT_INFRASTRUCTURE, "evidence-missing", _shorten(line))
    return None


def _classify(lines: list[str]) -> Decision:
    scrubbed = [_scrub(line) for line in lines]
    for rule in RULES:
        found = [index for index, line in enumerate(scrubbed) if rule.matches(line)]
        if found and rule.name == CLEANUP:
            return _decide_cleanup(rule, found, lines, scrubbed)
        if found:
            return Decision(rule.failure_class, rule.name, _shorten(lines[found[-1]], rule))
    return Decision(FailureClass.CANDIDATE_FAILURE, OTHERWISE, _shorten(lines[-1] if lines else ""))


def _decide_cleanup(rule: Rule, found: list[int], lines: list[str], scrubbed: list[str]) -> Decision:
    transient = next(one for one in RULES if one.name == TRANSIENT)
    for index in reversed(found):
        if not any(map(transient.matches, scrubbed[index : index + 1 + _CAUSE_LINES])):
            return Decision(rule.failure_class, rule.name, _shorten(lines[index], rule))
    line = _shorten(lines[found[-1]], rule)
    return Decision(FailureClass.TRANSIENT_INFRASTRUCTURE, f"{CLEANUP}-{TRANSIENT}", line)


def _split(text: str) -> list[str]:
    """Return the lines without colours, each printable: a character that cannot be shown is a blank."""
    plain = _COLOURS.sub("", text[-MOST_TEXT:])
    return [
        (line if line.isprintable() else "".join(one if one.isprintable() else " " for one in line)).strip()
        for line in plain.splitlines()
    ]


def _scrub(line: str) -> str:
    """Take out of a line what someone else said, and what is harmless."""
    own = _SINGLE_QUOTED.sub(_STAND_IN, _QUOTED.sub(_keep_own, line))
    return HARMLESS.sub(_STAND_IN, own)


def _keep_own(match: re.Match[str]) -> str:
    key, text = match["key"], match["text"]
    is_closed = len(text) > 1 and text[-1] in '"`”'
    if not is_closed or (key is None and match["colon"] is not None):
        return match[0]
    if key is None or key.strip('": ').lower() in _SPEECH:
        return f"{_STAND_IN}{match['colon'] or ''}"
    return match[0]


def _shorten(line: str, rule: Rule | None = None) -> str:
    """Cut a long line to the part where a rule's words stand."""
    if len(line) <= MOST_LINE_CHARACTERS:
        return line
    match = rule.words.search(line) if rule is not None else None
    start = max(0, match.start() - MOST_LINE_CHARACTERS // 3) if match else 0
    return line[start : start + MOST_LINE_CHARACTERS].strip()
