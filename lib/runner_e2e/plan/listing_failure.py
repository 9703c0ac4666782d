"""What to say when the target's listing command does not answer. Pure."""

import re
import signal

from runner_e2e.errors import InputError, TransientInfrastructureError
from runner_e2e.plan.listing import ListingRefusedError

MAX_WORDS = 300
_LINES = 3
_LONGEST_LINE = 1000
_CUT_MARK = "..."

_BY_HAND = (
    "Run it by hand in the target's checkout (inputs harness-command, target-path); it gets no credential"
)
# The stack below an error, and the caret that points into code.
_NOT_SAID = re.compile(r"at (?:.*\(.*\)|.*:\d+:\d+|<anonymous>)$|Node\.js v\d|\^+$")
# What colours a terminal, sets its title, or shifts its character set.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])")


def read_last_words(*streams: bytes | bytearray) -> str:
    """Return the last lines of the first stream that says anything, as one printable line.

    More than one line, because the harness puts a hint below its error.
    """
    for stream in streams:
        text = _ESCAPES.sub("", stream.decode(errors="replace"))
        lines = [line.strip()[:_LONGEST_LINE] for line in text.splitlines()]
        said = [_make_printable(line) for line in lines if line and not _NOT_SAID.match(line)]
        if said:
            words = " / ".join(said[-_LINES:])
            return words if len(words) <= MAX_WORDS else words[: MAX_WORDS - len(_CUT_MARK)] + _CUT_MARK
    return ""


def build_failure(status: int, words: str) -> InputError:
    """Return the error for an exit status, which is negative for a signal, and the last words."""
    said = f": {words}" if words else ", and says nothing"
    if status < 0:
        return InputError(
            f"The target's listing command was ended by {_name_signal(-status)}{said}", _BY_HAND
        )
    if status in (126, 127):
        problem = f"The target's listing command cannot start what it needs (status {status}){said}"
        return InputError(problem, "Install the target's dependencies before the plan")
    return ListingRefusedError(f"The target's listing command ended with status {status}{said}", _BY_HAND)


def build_start_failure(program: str, reason: str) -> InputError:
    """Return the error for a command that did not start at all."""
    return InputError(
        f"The target's listing command cannot be started: {_make_printable(program)[:80]}: {reason}",
        "Install what it names, or give the whole command as input harness-command",
    )


def build_flood(cap: int) -> InputError:
    """Return the error for an answer above the cap, in bytes."""
    return InputError(
        f"The target's listing command prints more than {cap} bytes",
        "Narrow the selection, or mend the command",
    )


def build_timeout(timeout_s: float, words: str) -> TransientInfrastructureError:
    """Return the error for a command that does not end."""
    said = f"; its last words: {words}" if words else ""
    return TransientInfrastructureError(
        f"The target's listing command did not end within {timeout_s:g} seconds{said}",
        "Start the job again, or run the command by hand in the target's checkout to see where it waits",
    )


def _name_signal(number: int) -> str:
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"


def _make_printable(text: str) -> str:
    return "".join(char if char.isprintable() else "\ufffd" for char in text)
