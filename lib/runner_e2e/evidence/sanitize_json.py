"""Redact JSON value by value, so that it stays JSON of the same structure. Pure.

Works on the tokens of the text: numbers of any size, repeated keys, order and layout stay as they are, and
any depth is read. What is no JSON is for the redaction of text.
"""

import json
import re
from dataclasses import dataclass, field

from runner_e2e.evidence.finding import merge_found
from runner_e2e.evidence.redaction import Redactor
from runner_e2e.evidence.shapes import names_secret

LONGEST = 64 << 20  # bytes; longer JSON is redacted as text
_TOKEN = re.compile(
    rb"[ \t\r\n]*+(?:(?P<string>\"(?>(?:[^\"\\\x00-\x1f]|\\(?:[\"\\/bfnrt]|u[0-9A-Fa-f]{4}))*)\")"
    rb"|(?P<number>-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?|-?Infinity|NaN)"
    rb"|(?P<word>true|false|null)|(?P<mark>[\[\]{},:]))"
)
_PLACEHOLDER = re.compile(r"(?:Bearer |Basic |token )?\{[A-Za-z][A-Za-z0-9_.-]*\}")
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]{0,127}")
# A JSON schema's properties are named after fields and hold rules, not values.
_SCHEMA_KEYS = frozenset({"properties", "patternProperties", "$defs", "definitions"})
_REFERENCE_KEY = "secretRef"
_NAMING_KEYS = ("name", "key")  # as in {"name": "Authorization", "value": "..."}


class _NotJsonError(Exception):
    """The text is no JSON."""


@dataclass(slots=True)
class _Token:
    """A string, number or key of the text; `secret` is the name that makes a secret of it."""

    start: int
    end: int
    kind: str
    secret: str | None = None


@dataclass(slots=True)
class _Frame:
    """An open object or array, what may come next in it, and whose secret all in it is."""

    is_object: bool
    secret: str | None
    in_schema: bool = False
    expects: str = "first"
    key: str = ""
    names: str | None = None
    values: list[_Token] = field(default_factory=list)


def sanitize_json(content: bytes, redactor: Redactor) -> bytes | None:
    """Return a JSON text without secrets, or None if it is no JSON, or cannot be mended as JSON.

    Known secrets and shapes go from strings and keys; a value whose name says that it is a secret goes
    whole, and so does all below such a name. A number that is a secret becomes a string.
    """
    if len(content) > LONGEST or not _is_text(content):
        return None
    try:
        tokens = _Reader(content).read()
    except _NotJsonError:
        return None
    hits = list(merge_found(redactor.find(content)))
    parts: list[bytes] = []
    position = index = 0
    for token in tokens:
        while index < len(hits) and hits[index][1] <= token.start:
            index += 1
        is_hit = index < len(hits) and hits[index][0] < token.end
        if token.secret is None and not is_hit:
            continue
        written = content[token.start : token.end]
        replaced = _replace(written, token, redactor, is_hit=is_hit)
        if replaced != written:
            parts += (content[position : token.start], replaced)
            position = token.end
    if not parts:
        return None if hits else content
    result = b"".join((*parts, content[position:]))
    return None if redactor.find(result) else result


def sanitize_line(line: bytes, redactor: Redactor) -> bytes:
    """Return one line of NDJSON without secrets; a line that is no JSON is redacted as text."""
    sanitized = sanitize_json(line, redactor)
    return redactor.redact(line) if sanitized is None else sanitized


def _is_text(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def _replace(written: bytes, token: _Token, redactor: Redactor, *, is_hit: bool) -> bytes:
    mark = b'"' + redactor.mark + b'"'
    if token.kind == "number":
        is_count = token.secret is not None and "token" in token.secret.lower()
        return mark if is_hit or (token.secret is not None and not is_count) else written
    text = json.loads(written)
    if token.secret is not None and not _is_harmless(text, token.secret):
        return mark
    if not is_hit:
        return written
    redacted = redactor.redact(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")
    replaced = json.dumps(redacted).encode()
    # A secret across the border of the string, or only in how it is written.
    return mark if redacted == text or redactor.find(replaced) else replaced


def _is_harmless(text: str, name: str) -> bool:
    if name == _REFERENCE_KEY:
        return _VARIABLE.fullmatch(text) is not None
    return not text or _PLACEHOLDER.fullmatch(text) is not None


class _Reader:
    """Reads a text token by token with an explicit stack, so that no depth is too deep."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._tokens: list[_Token] = []
        self._stack: list[_Frame] = []
        self._ended = False

    def read(self) -> list[_Token]:
        """Return the strings, keys and numbers in order; raises _NotJsonError."""
        position = 0
        while match := _TOKEN.match(self._content, position):
            position = match.end()
            if self._ended:
                raise _NotJsonError
            kind = match.lastgroup or ""
            if kind == "mark":
                self._take_mark(match["mark"])
            else:
                self._take_scalar(_Token(match.start(kind), position, kind))
        if not self._ended or self._content[position:].strip(b" \t\r\n"):
            raise _NotJsonError
        return self._tokens

    def _take_mark(self, mark: bytes) -> None:
        if mark in b"[{":
            secret, in_schema = self._begin_value()
            self._stack.append(_Frame(mark == b"{", secret, in_schema))
            return
        if not self._stack:
            raise _NotJsonError
        frame = self._stack[-1]
        if mark == b":" and frame.expects == "colon":
            frame.expects = "value"
        elif mark == b"," and frame.expects == "end":
            frame.expects = "key" if frame.is_object else "value"
        elif mark == (b"}" if frame.is_object else b"]") and frame.expects in ("first", "end"):
            self._close(frame)
        else:
            raise _NotJsonError

    def _close(self, frame: _Frame) -> None:
        if frame.names is not None:
            for token in frame.values:
                token.secret = token.secret or frame.names
        self._stack.pop()
        self._end_value()

    def _take_scalar(self, token: _Token) -> None:
        frame = self._stack[-1] if self._stack else None
        if frame is not None and frame.is_object and frame.expects in ("first", "key"):
            if token.kind != "string":
                raise _NotJsonError
            frame.key = json.loads(self._content[token.start : token.end])
            frame.expects = "colon"
            self._tokens.append(token)
            return
        token.secret, _ = self._begin_value()
        if frame is not None and frame.is_object:
            self._note_pair(frame, token)
        if token.kind != "word":
            self._tokens.append(token)
        self._end_value()

    def _note_pair(self, frame: _Frame, token: _Token) -> None:
        """Notice objects such as `{"name": "Authorization", "value": "..."}`, in either order."""
        if frame.key in _NAMING_KEYS and token.kind == "string":
            name = json.loads(self._content[token.start : token.end])
            if names_secret(name):
                frame.names = name
        elif frame.key == "value" and token.kind != "word":
            frame.values.append(token)

    def _begin_value(self) -> tuple[str | None, bool]:
        """Return whose secret the value that begins is, and whether its keys are fields of a schema."""
        if not self._stack:
            return None, False
        frame = self._stack[-1]
        if frame.expects not in (("value",) if frame.is_object else ("first", "value")):
            raise _NotJsonError
        if not frame.is_object:
            return frame.secret, False
        is_named = not frame.in_schema and (frame.key == _REFERENCE_KEY or names_secret(frame.key))
        secret = frame.key if is_named else frame.secret
        return secret, secret is None and frame.key in _SCHEMA_KEYS

    def _end_value(self) -> None:
        if self._stack:
            self._stack[-1].expects = "end"
        else:
            self._ended = True
