"""Foreign text as a job log may show it: nothing in it acts, and nothing printable is lost. Pure."""

import re

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
# The runner trims any white space before `::`, and by its own idea of white space. Whatever is
# not visible ASCII therefore counts as white space here. A line feed does not: the search would begin
# again at each of many empty lines and go through all of them.
_COMMAND_START = re.compile(r"^([^\x21-\x7e\n]*)::", re.MULTILINE)
_LEGACY_COMMAND = "##["


def escape_control(text: str) -> str:
    r"""Make control characters visible (`\x1b`), keeping line feeds and tabs.

    A carriage return ends a line for the runner, an escape sequence rewrites a terminal, and a lone
    surrogate cannot be encoded.
    """
    # Most text is printable, and known to be in a fraction of the time.
    return text if text.isprintable() else _CONTROL.sub(lambda match: ascii(match[0])[1:-1], text)


def neutralise(text: str) -> str:
    """Return `text` so that no line of it is a workflow command, in either syntax."""
    shown = escape_control(text)
    if "::" in shown:
        shown = _COMMAND_START.sub(r"\1\\::", shown)
    return shown.replace(_LEGACY_COMMAND, "##\\[")
