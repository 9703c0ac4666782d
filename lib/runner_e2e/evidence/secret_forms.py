"""Every form in which a known secret is looked for: as it is, quoted, and encoded. Pure."""

import base64
import html
import json
from collections.abc import Iterable, Iterator
from urllib.parse import quote_from_bytes

from runner_e2e.evidence.escapes import unescape_fully
from runner_e2e.evidence.shapes import names_secret

SHORTEST = 6  # bytes; shorter values would hit ordinary text
_SHORTEST_LINE = 8
_SHORTEST_LEAF = 20
# A longer secret is looked for in parts, which bounds how much text has to be held at once.
_LONGEST = 1024
_URL_SAFE = bytes.maketrans(b"+/", b"-_")


def split_secret(secret: str) -> frozenset[bytes]:
    """Return what is looked for because of one secret: itself, its lines, and the values of a JSON one.

    Nothing is shorter than `SHORTEST` or longer than 1,024 bytes.
    """
    texts = {secret, secret.strip()}
    if "\n" in secret.strip() or "\r" in secret.strip():
        lines = (line.strip() for line in secret.splitlines())
        texts |= {line for line in lines if len(line) >= _SHORTEST_LINE}
    if secret.lstrip().startswith(("{", "[")):
        texts |= set(_json_leaves(secret))
    return frozenset(
        part
        for text in texts
        for part in _cut(text.encode("utf-8", "surrogateescape"))
        if len(part) >= SHORTEST
    )


def build_forms(part: bytes) -> frozenset[bytes]:
    """Return every form in which a part of a secret, as `split_secret` returns them, is written."""
    written = _quoted(part)
    # What undoing escapes makes of the secret itself, in whatever order.
    forms = set(written) | {unescape_fully(part), unescape_fully(part.replace(b"\\", b""))}
    for text in written:
        forms |= {text.hex().encode(), text.hex().upper().encode()}
        forms |= _base64(text)
    # Encoded twice, as in a header that holds a document that holds the secret.
    forms |= _base64(base64.b64encode(part))
    # UTF-16 of either byte order holds this.
    text16 = part.decode("utf-8", "surrogateescape").encode("utf-16-le", "surrogatepass")
    if part.isascii():
        forms.add(text16[:-1])
    return frozenset(form for form in forms if len(form) >= SHORTEST)


def breakable_forms(part: bytes) -> frozenset[bytes]:
    """Return the forms that a program may wrap into lines."""
    return frozenset({part, *_base64(part)})


def _cut(raw: bytes) -> Iterator[bytes]:
    count = -(-len(raw) // _LONGEST) or 1
    size = -(-len(raw) // count)
    for number in range(count):
        yield raw[number * size : (number + 1) * size]


def _json_leaves(text: str) -> Iterator[str]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return
    pending: list[tuple[str, object]] = [("", value)]
    while pending:
        name, item = pending.pop()
        if isinstance(item, dict):
            pending += item.items()
        elif isinstance(item, list):
            pending += [(name, one) for one in item]
        elif isinstance(item, str):
            opaque = len(item) >= _SHORTEST_LEAF and not any(mark in item for mark in (" ", "://"))
            if opaque or (names_secret(name) and len(item) >= SHORTEST):
                yield item


def _quoted(raw: bytes) -> set[bytes]:
    """Return a text as URLs, forms, JSON, JSON in JSON and HTML write it in full."""
    percent = {
        quote_from_bytes(raw, safe=safe).encode() for safe in ("", "/", "-_.!~*'()", ";,/?:@&=+$-_.!~*'()#")
    }
    found = {raw, *percent, *map(_lower_escapes, percent)}
    found |= {form.replace(b"%20", b"+") for form in found if b"%20" in form}
    text = raw.decode("utf-8", "surrogateescape")
    for ascii_only in (True, False):
        once = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
        twice = json.dumps(once, ensure_ascii=ascii_only)[1:-1]
        found |= {form.encode("utf-8", "surrogateescape") for form in (once, twice, once.replace("/", "\\/"))}
    found.add(html.escape(text).encode("utf-8", "surrogateescape"))
    return found


def _lower_escapes(text: bytes) -> bytes:
    pieces = text.split(b"%")
    return b"%".join([pieces[0], *(piece[:2].lower() + piece[2:] for piece in pieces[1:])])


def _base64(raw: bytes) -> set[bytes]:
    """Return Base64 at each of the three alignments in both alphabets, and as it is when it stands alone."""
    whole = base64.b64encode(raw)
    found = {whole, whole.rstrip(b"=")}
    for offset, first in ((0, 0), (1, 2), (2, 3)):
        # Characters that also hold bits of what stands before or after are left out.
        found.add(base64.b64encode(bytes(offset) + raw)[first : (offset + len(raw)) * 8 // 6])
    return found | {form.translate(_URL_SAFE) for form in found}


def all_parts(secrets: Iterable[str]) -> list[bytes]:
    """Return what is looked for because of some secrets, longest first."""
    return sorted(
        {part for secret in secrets for part in split_secret(secret)}, key=lambda one: (-len(one), one)
    )
