"""What points to a secret in none of its fixed forms: escapes, and halves of wrapped lines. Pure.

A pointer costs a closer look wherever it stands, so that each is as rare in ordinary text as it can be.
"""

import string
from collections.abc import Iterator

# No usual program escapes these; who does so gives itself away at any place.
_PLAIN = (string.ascii_letters + string.digits + "_.-").encode()
_MOST_BESIDE = 3
_SHORTEST_PIECE = 8
# Half of a wrapped line of 60 or more: wherever lines break, one such piece is whole.
_LONGEST_PIECE = 30
_SHORT_ESCAPES = {b"\n": b"n", b"\r": b"r", b"\t": b"t", b"\b": b"b", b"\f": b"f"}
_NAMED = {b"&": b"amp", b"<": b"lt", b">": b"gt", b'"': b"quot", b"'": b"apos"}


def plain_escapes() -> Iterator[bytes]:
    """Yield what stands where someone escaped a letter, a digit, or an escape itself."""
    yield from (b"%2525", b"amp;#")
    for number in _PLAIN:
        for code in _hexadecimal(f"{number:02x}"):
            yield from (
                b"%" + code,
                b"%25" + code,
                b"\\x" + code,
                b"\\u00" + code,
                b"&#x" + code,
                b"&#X" + code,
            )
        yield b"&#%d;" % number


def special_escapes(part: bytes) -> Iterator[bytes]:
    """Yield what stands at the first escape of a secret some of whose special characters are escaped.

    `part` has no escapes of its own left. What stands before the escape is as the secret has it, which
    keeps these rare; the first character has only what follows it.
    """
    text = part.decode("utf-8", "surrogateescape")
    characters = [one.encode("utf-8", "surrogateescape") for one in text]
    for index, character in enumerate(characters):
        if character in _PLAIN:
            continue
        before = b"".join(characters[max(0, index - _MOST_BESIDE) : index])
        if before:
            yield from (before + b"\\", before + b"&", before + b"%25")
            yield from (before + b"%" + code for code in _hexadecimal(f"{character[0]:02x}"))
        else:
            following = {b"%", b"\\", b"&", b"".join(characters[1:2])}
            yield from (escape + after for escape in _escapes(character) for after in following)


def pieces(form: bytes) -> Iterator[bytes]:
    """Yield parts of a form, of which one stays whole when the form is wrapped into lines."""
    size = min(len(form) // 2, _LONGEST_PIECE)
    if size >= _SHORTEST_PIECE:
        for start in range(0, len(form), size):
            piece = form[start : start + size]
            if len(piece) >= _SHORTEST_PIECE:
                yield piece


def _escapes(character: bytes) -> Iterator[bytes]:
    """Yield the ends of all escapes of a character."""
    for code in _hexadecimal(f"{character[-1]:02x}"):
        yield from (b"%" + code, b"%25" + code, b"\\x" + code)
    point = ord(character.decode("utf-8", "surrogateescape"))
    low = point if point < 0x10000 else 0xDC00 + (point - 0x10000) % 0x400
    yield from (b"\\u" + code for code in _hexadecimal(f"{low:04x}"))
    yield b"&#%d;" % point
    yield from (b"&#" + x + code + b";" for x in (b"x", b"X") for code in _hexadecimal(f"{point:x}"))
    if character in _SHORT_ESCAPES:
        yield b"\\" + _SHORT_ESCAPES[character]
    elif character in b"\"'/\\":
        yield b"\\" + character
    if character in _NAMED:
        yield from (b"&" + _NAMED[character] + b";", b"amp;" + _NAMED[character] + b";")


def _hexadecimal(code: str) -> set[bytes]:
    """Return a hexadecimal number in lower case, in upper case, and, of two letters, in both mixtures."""
    found = {code.lower(), code.upper()}
    if len(code) == 2:
        found |= {code[0].lower() + code[1].upper(), code[0].upper() + code[1].lower()}
    return {one.encode() for one in found}
