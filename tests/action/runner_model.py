"""A model of how the Actions runner reads command files and log lines on Linux.

Written from the runner's observable behaviour, so that the property tests have a second opinion
that shares no code with the product. It is deliberately as lenient as the runner: whatever the
runner would take for a command must be one here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


class RejectedFileError(Exception):
    """The runner fails the step over this file."""


def read_command_file(content: bytes) -> list[tuple[str, str]]:
    """Return the settings of a file in order; of two with one name the last counts.

    Only a line feed ends a line; `=` and `<<` compete by position; blank lines part settings.
    """
    rest = content.decode("utf-8-sig", errors="replace")
    settings: list[tuple[str, str]] = []
    while rest:
        line, _, rest = rest.partition("\n")
        if not line:
            continue
        equals, heredoc = line.find("="), line.find("<<")
        if heredoc >= 0 and (equals < 0 or heredoc < equals):
            name, _, delimiter = line.partition("<<")
            if not name or not delimiter:
                raise RejectedFileError(line)
            value, rest = _take_block(rest, delimiter)
        elif equals >= 0:
            name, _, value = line.partition("=")
            if not name:
                raise RejectedFileError(line)
        else:
            raise RejectedFileError(line)
        settings.append((name, value))
    return settings


def _take_block(rest: str, delimiter: str) -> tuple[str, str]:
    lines: list[str] = []
    while rest:
        line, _, rest = rest.partition("\n")
        if line == delimiter:
            return "\n".join(lines), rest
        lines.append(line)
    raise RejectedFileError(delimiter)


@dataclass(frozen=True, slots=True)
class LogCommand:
    """One workflow command found in a log."""

    name: str
    message: str
    properties: Mapping[str, str] = field(default_factory=dict)


COMMANDS = frozenset(
    {
        "add-mask",
        "add-matcher",
        "add-path",
        "debug",
        "echo",
        "endgroup",
        "error",
        "group",
        "internal-set-repo-path",
        "notice",
        "remove-matcher",
        "save-state",
        "set-env",
        "set-output",
        "stop-commands",
        "warning",
    }
)

# What .NET counts as white space, written out because Python's own idea differs.
_WHITE_SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)


def read_log(text: str) -> list[LogCommand]:
    """Return the commands in what a step printed to either stream.

    A line ends at a line feed, a carriage return or both, as .NET reads them.
    """
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    found = (_read_line(line) or _read_legacy(line) for line in lines)
    return [command for command in found if command is not None]


def _read_line(line: str) -> LogCommand | None:
    line = line.lstrip(_WHITE_SPACE)
    if not line.startswith("::"):
        return None
    head, separator, data = line[2:].partition("::")
    name, _, properties = head.partition(" ")
    if not separator or name.lower() not in COMMANDS:
        return None
    return LogCommand(name.lower(), _unescape(data), _read_properties(properties, ","))


def _read_legacy(line: str) -> LogCommand | None:
    _, prefix, rest = line.partition("##[")
    head, bracket, data = rest.partition("]")
    name, _, properties = head.partition(" ")
    if not prefix or not bracket or name.lower() not in COMMANDS:
        return None
    return LogCommand(name.lower(), _unescape(data), _read_properties(properties, ";"))


def _read_properties(text: str, separator: str) -> dict[str, str]:
    pairs = (part.partition("=") for part in text.split(separator))
    return {
        name.strip(): _unescape(value).replace("%3A", ":").replace("%2C", ",")
        for name, equals, value in pairs
        if equals
    }


def _unescape(text: str) -> str:
    return text.replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%")
