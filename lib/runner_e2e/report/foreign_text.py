"""Foreign text as a report may hold it: short, without secrets, and with nothing in it that acts. Pure."""

import re

from runner_e2e.evidence.plain_text import escape_control
from runner_e2e.evidence.redaction import Redactor

NAME, SENTENCE = 300, 2000

# So much of a longer text is looked at: what is shown of it is far shorter.
_MOST_READ = 32 << 10
_MOST_KNOWN, _LONGEST_KNOWN = 20_000, 512
_LONGEST_LINE = 500  # of a log: records of launches have thousands
_CUT = "…"
# Characters that reorder what stands beside them, or that nobody sees.
_UNSEEN = re.compile(
    "[\u00ad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\ufffe\uffff]"
)


class ForeignText:
    """Reads texts of evidence for a report. Most of them come again and again, so that they are kept."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._known: dict[str, str] = {}

    def read(self, value: object, most: int = NAME) -> str:
        """Return a text, a number or a flag in at most so many characters; empty for anything else."""
        if isinstance(value, str):
            clean = self._known.get(value)
            if clean is None:
                clean = self._clean(value)
            return clean if len(clean) <= most else clean[: most - 1] + _CUT
        # A number of thousands of digits cannot be written.
        return str(value) if isinstance(value, bool | int | float) and abs(value) < 1e18 else ""

    def read_optional(self, value: object, most: int = NAME) -> str | None:
        """Return a text as `read` does, None where there is none."""
        return self.read(value, most) or None

    def read_list(self, value: object, most: int, most_items: int) -> list[str]:
        """Return the texts of a list, its first ones."""
        items = value[:most_items] if isinstance(value, list) else []
        return [self.read(item, most) for item in items]

    def read_tail(self, content: bytes, most: int, *, cut: bool) -> tuple[str, bool]:
        """Return the last lines of a text in at most so many characters, and whether anything is left out.

        With `cut`, the content itself is only the end of something. Of a long line the beginning is kept.
        """
        text = self._redact(content)
        if cut:  # its first line may begin within a secret
            text = text.partition("\n")[2] or text[self._redactor.finder.reach :]
        whole = _show(text)
        shown = "\n".join(_shorten(line) for line in whole.split("\n"))
        if len(shown) > most:
            shown = shown[-most:].partition("\n")[2] or shown[-most:]
        return shown, cut or shown != whole

    def _clean(self, value: str) -> str:
        begin = value[:_MOST_READ]
        text = self._redact(begin.encode("utf-8", "surrogatepass"))
        if len(begin) < len(value):
            # What was cut off may be the rest of a secret.
            text = text[: -(self._redactor.finder.reach + SENTENCE)]
        clean = _show(text)
        if len(value) <= _LONGEST_KNOWN:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[value] = clean
        return clean

    def _redact(self, content: bytes) -> str:
        if self._redactor.find(content):
            content = self._redactor.redact(content)
        return content.decode("utf-8", "replace")


def _show(text: str) -> str:
    shown = escape_control(text)
    return shown if shown.isascii() else _UNSEEN.sub(lambda match: ascii(match[0])[1:-1], shown)


def _shorten(line: str) -> str:
    return line if len(line) <= _LONGEST_LINE else line[: _LONGEST_LINE - 1] + _CUT
