"""What a command shows before any package is installed: standard library only.

The plain sibling of `surface` and `commands`. It escapes more than they do and knows fewer commands: every
text becomes one line in which neither syntax of a workflow command can stand.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

from runner_e2e.actions.summary import append_summary
from runner_e2e.errors import RunnerE2EError

# The runner cuts an annotation at 4096 UTF-16 units; no character takes more than two.
MAX_ANNOTATION_CHARACTERS = 2048

_CUT_MARK = " [...]"
_COMMAND = re.compile(r":(?=:)")
_LEGACY_COMMAND = re.compile(r"#(?=#\[)")


def escape_line(text: str) -> str:
    r"""Return `text` as one printable line (`\n`, `\u202e`) that holds neither `::` nor `##[`."""
    shown = "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)
    return _LEGACY_COMMAND.sub(r"#\\", _COMMAND.sub(r":\\", shown))


def build_error(message: str, title: str = "") -> str:
    """Return the one line that makes the runner show `message` beside the run."""
    data = _cut(escape_line(message)).replace("%", "%25")
    if not title:
        return f"::error::{data}"
    name = _cut(escape_line(title)).replace("%", "%25").replace(":", "%3A").replace(",", "%2C")
    return f"::error title={name}::{data}"


class BareSurface:
    """The runner's log and summary; in a terminal plain lines.

    Every text given to it is foreign. A log that cannot be written is let go: the exit status still tells.
    """

    __slots__ = ("_debug", "_stream", "_summary_path", "for_person", "on_actions")

    def __init__(self, environ: Mapping[str, str], stream: TextIO) -> None:
        self.on_actions = environ.get("GITHUB_ACTIONS") == "true"
        self._summary_path = environ.get("GITHUB_STEP_SUMMARY", "")
        self.for_person = not (self.on_actions or self._summary_path)
        self._debug = environ.get("RUNNER_DEBUG") == "1"
        self._stream = stream

    def error(self, message: str, title: str = "") -> None:
        """Say why the command does not succeed."""
        if self.on_actions:
            self._print(build_error(message, title))
        else:
            self.line(f"error: {f'{title}: ' if title else ''}{message}")

    def debug(self, *lines: str) -> None:
        """Print lines only when the run was started with debug logging."""
        if self._debug:
            for text in lines:
                self.line(text)

    def line(self, text: str) -> None:
        """Print text that the runner takes for nothing but text."""
        self._print(escape_line(text))

    def summary(self, *stages: str) -> None:
        """Add the fullest of `stages`, in Markdown, to the step summary; a terminal has only the log."""
        if self._summary_path:
            append_summary(Path(self._summary_path), stages)
        elif self.on_actions:
            raise RunnerE2EError(
                "GITHUB_STEP_SUMMARY is not set although this runs on Actions",
                "Start the action with `uses:`, not from a script that clears the environment",
            )

    def _print(self, text: str) -> None:
        try:
            self._stream.write(f"{text}\n")
            self._stream.flush()
        except OSError:
            return


def _cut(text: str) -> str:
    if len(text) <= MAX_ANNOTATION_CHARACTERS:
        return text
    return text[: MAX_ANNOTATION_CHARACTERS - len(_CUT_MARK)] + _CUT_MARK
