"""What a command shows and hands on, on Actions or in a terminal.

Owns the choice between workflow commands and plain text. It counts annotations, because the runner
drops those beyond its limit. It must not decide what is said.
"""

import html
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from runner_e2e.actions.commands import (
    MAX_ANNOTATIONS_PER_LEVEL,
    Level,
    build_annotation,
    build_endgroup,
    build_group,
    build_masks,
)
from runner_e2e.actions.outputs import append_outputs
from runner_e2e.actions.summary import append_summary
from runner_e2e.errors import RunnerE2EError
from runner_e2e.evidence.plain_text import neutralise


class ActionSurface:
    """The runner's log, outputs and summary; in a terminal their plain-text form.

    Every text given to it is foreign: only the methods themselves make workflow commands. `for_person` says
    that nothing but a terminal is there to take what is handed on.
    """

    __slots__ = (
        "_annotated",
        "_debug",
        "_in_group",
        "_output_path",
        "_stream",
        "_summary_path",
        "for_person",
        "on_actions",
    )

    def __init__(self, environ: Mapping[str, str], stream: TextIO) -> None:
        self.on_actions = environ.get("GITHUB_ACTIONS") == "true"
        self._output_path = environ.get("GITHUB_OUTPUT", "")
        self._summary_path = environ.get("GITHUB_STEP_SUMMARY", "")
        self.for_person = not (self.on_actions or self._output_path or self._summary_path)
        self._debug = environ.get("RUNNER_DEBUG") == "1"
        self._stream = stream
        self._annotated: Counter[Level] = Counter()
        self._in_group = False

    def output(self, name: str, value: str) -> None:
        """Set a step output; in a terminal, print it."""
        self.outputs({name: value})

    def outputs(self, values: Mapping[str, str]) -> None:
        """Set step outputs that belong together, all or none; in a terminal, print them."""
        if self._output_path:
            append_outputs(Path(self._output_path), values)
        elif self.on_actions:
            raise _missing_file("GITHUB_OUTPUT")
        else:
            for name, value in values.items():
                self.line(f"{name}: {value}")

    def summary(self, *stages: str) -> None:
        """Add the fullest of `stages` that fits to the step summary; in a terminal, print the shortest.

        Markdown of more than a few lines is not for reading as it stands.
        """
        if self._summary_path:
            append_summary(Path(self._summary_path), stages)
        elif self.on_actions:
            raise _missing_file("GITHUB_STEP_SUMMARY")
        else:
            self.line(html.unescape(stages[-1]))

    def error(self, message: str, title: str = "") -> None:
        """Say why the command does not succeed."""
        self._annotate(Level.ERROR, message, title)

    def warning(self, message: str, title: str = "") -> None:
        """Say what a person should look at although the command goes on."""
        self._annotate(Level.WARNING, message, title)

    def notice(self, message: str, title: str = "") -> None:
        """Say something worth knowing."""
        self._annotate(Level.NOTICE, message, title)

    def mask(self, secret: str) -> None:
        """Have the runner hide `secret` in the log from here on; refuse what is too short for that.

        In a terminal nothing is printed: the command itself would show the secret.
        """
        commands = build_masks(secret)
        if self.on_actions:
            self._print("\n".join(commands))

    @contextmanager
    def group(self, title: str) -> Iterator[None]:
        """Fold what is printed meanwhile. Groups do not nest; an inner one is a plain line."""
        if not self.on_actions or self._in_group:
            self.line(title)
            yield
            return
        self._in_group = True
        self._print(build_group(title))
        try:
            yield
        finally:
            self._in_group = False
            self._print(build_endgroup())

    def debug(self, *lines: str) -> None:
        """Print lines only when the run was started with debug logging."""
        if self._debug:
            for text in lines:
                self.line(text)

    def line(self, text: str) -> None:
        """Print text that the runner takes for nothing but text."""
        self._print(neutralise(text))

    def _annotate(self, level: Level, message: str, title: str) -> None:
        self._annotated[level] += 1
        if self.on_actions and self._annotated[level] <= MAX_ANNOTATIONS_PER_LEVEL:
            self._print(build_annotation(level, message, title))
        else:
            self.line(f"{level}: {f'{title}: ' if title else ''}{message}")

    def _print(self, text: str) -> None:
        # Flushed at once: children share the stream's descriptor and must not overtake. A log that cannot
        # be written is let go: outputs, evidence and the exit status still tell.
        with suppress(OSError):
            self._stream.write(f"{text}\n")
            self._stream.flush()


def _missing_file(variable: str) -> RunnerE2EError:
    return RunnerE2EError(
        f"{variable} is not set although this runs on Actions",
        "Start the action with `uses:`, not from a script that clears the environment",
    )
