"""What runnerd is told, read without believing it. Pure.

Source of the options: the argument list that Paperclip's server gives to runnerd.
"""

# Programs that runnerd is told to start: hidden, they would only fail somewhere inside of it.
PROGRAM_OPTIONS = (
    "--opencode-executable",
    "--opencode-proxy-command",
    "--opencode-proxy-script",
    "--fake-harness-script",
)
PROGRAM_OPTION_PREFIX = "--acpx-sidecar-"

_LONGEST_SESSION_NAME = 120
_SAFE = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")
_WANTED = ("--state-dir", "--session-id", "--run-id")


class ScopeError(Exception):
    """Arguments that contradict the layout or each other; `code` is a refusal code."""

    def __init__(self, code: str, message: str, remedy: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.remedy = remedy


def read_words(arguments: list[str]) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Return the values of the options that decide the scope, and the programs with absolute paths."""
    words: dict[str, str] = {}
    programs: list[tuple[str, str]] = []
    position = 0
    while position < len(arguments):
        name, joined, value = arguments[position].partition("=")
        position += 1
        if name in PROGRAM_OPTIONS or name.startswith(PROGRAM_OPTION_PREFIX):
            if not joined:
                value = arguments[position] if position < len(arguments) else ""
            if value.startswith("/"):
                programs.append((name, value))
            continue
        if name not in _WANTED:
            continue
        if not joined:
            if position == len(arguments):
                raise ScopeError("usage", f"{name} has no value", "give it one")
            value = arguments[position]
            position += 1
        if words.setdefault(name, value) != value:
            raise ScopeError("usage", f"{name} is given twice with different values", "give it once")
    return words, programs


def require_segment(option: str, value: str) -> None:
    """Raise ScopeError unless a value can be the name of one entry, and of no other."""
    if not value or value in (".", "..") or len(value) > 255 or not _SAFE.issuperset(value):
        raise ScopeError(
            "usage",
            f"{option} holds a name with other characters than letters, digits, dot, dash and underscore",
            "give the id as the server makes it",
        )


def session_directory_name(session: str) -> str:
    """Return the OpenCode driver's directory name for a raw session id.

    Each character outside `[A-Za-z0-9._-]` becomes `_`, and the name is cut to 120 characters, so that
    two ids may share a directory: see `RunScope.claims`.
    """
    name = "".join(char if char in _SAFE else "_" for char in session)[:_LONGEST_SESSION_NAME]
    if name in ("", ".", ".."):
        raise ScopeError(
            "usage", "--session-id maps to no directory name", "give an id with at least one letter or digit"
        )
    return name
