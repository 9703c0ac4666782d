"""What a foreign file is, by its name and its first bytes, and what must never be bundled. Pure."""

import re
from enum import StrEnum
from typing import Literal

HEAD_BYTES = 64 << 10


class Kind(StrEnum):
    """How a file is searched."""

    TEXT = "text"
    JSON = "json"
    LINES = "lines"  # JSON in each line, or text
    ZIP = "zip"
    BINARY = "binary"


_NEVER_NAMES = re.compile(
    r"\.git|\.ssh|\.aws|\.gnupg|\.docker|\.kube|\.netrc|\.npmrc|\.pypirc|\.pgpass|\.git-credentials"
    r"|\.env(?:\..*)?|id_(?:rsa|dsa|ecdsa|ed25519).*",
    re.IGNORECASE,
)
_KEY_NAMES = re.compile(r".*\.(?:pem|key|p12|pfx|p8|jks|keystore|kdbx|ppk|gpg|pgp|age)", re.IGNORECASE)
_CORE_NAMES = re.compile(r"core(?:\.[0-9]+)?|.*\.(?:core|dmp|mdmp|heapsnapshot)", re.IGNORECASE)
_DATABASE_NAMES = re.compile(r".*\.(?:sqlite3?|db)(?:-wal|-shm|-journal)?", re.IGNORECASE)
_SVG = re.compile(rb"\A(?:\xef\xbb\xbf)?\s*<(?:[?!][^>]*>\s*<|)*(?:[a-z]+:)?svg[\s>]", re.IGNORECASE)
_PRIVATE_KEY = re.compile(
    rb"\A\s*-----BEGIN [A-Z0-9 ]{0,64}PRIVATE KEY|\AAGE-SECRET-KEY-|\APuTTY-User-Key-File"
)

_MAGIC_NEVER = (
    (b"SQLite format 3\0", "database"),
    (b"\x37\x7f\x06\x82", "database"),  # its write-ahead log, in either byte order
    (b"\x37\x7f\x06\x83", "database"),
    (b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7", "database"),  # its rollback journal
    (b"\xfe\xed\xfe\xed", "key"),  # Java's key store
    (b"\xce\xce\xce\xce", "key"),
    (b"\x03\xd9\xa2\x9a", "key"),  # KeePass
    (b"MDMP", "core-dump"),
    # What is packed cannot be searched.
    (b"\x1f\x8b", "packed"),
    (b"BZh", "packed"),
    (b"\xfd7zXZ\0", "packed"),
    (b"\x28\xb5\x2f\xfd", "packed"),
    (b"\x04\x22\x4d\x18", "packed"),
    (b"7z\xbc\xaf\x27\x1c", "packed"),
    (b"Rar!\x1a\x07", "packed"),
)
_ELF = b"\x7fELF"
_ELF_CORE = 4
_ZIPS = (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")
_BINARIES = (
    b"\x89PNG\r\n",
    b"\xff\xd8\xff",
    b"GIF8",
    b"\x1a\x45\xdf\xa3",
    b"%PDF-",
    b"RIFF",
    b"OggS",
    b"\0asm",
)


def refuse_name(name: str) -> str | None:
    """Return why a file or directory of this name is never bundled, None if it may be."""
    if _NEVER_NAMES.fullmatch(name):
        return "private-name"
    for pattern, reason in ((_KEY_NAMES, "key"), (_CORE_NAMES, "core-dump"), (_DATABASE_NAMES, "database")):
        if pattern.fullmatch(name):
            return reason
    return "svg" if name.lower().endswith((".svg", ".svgz")) else None


def refuse_content(head: bytes) -> str | None:
    """Return why a file that begins so is never bundled, None if it may be."""
    for magic, reason in _MAGIC_NEVER:
        if head.startswith(magic):
            return reason
    if head.startswith(_ELF):
        order: Literal["little", "big"] = "big" if head[5:6] == b"\2" else "little"
        return "core-dump" if int.from_bytes(head[16:18], order) == _ELF_CORE else None
    if _PRIVATE_KEY.match(head):
        return "key"
    return "svg" if _SVG.match(head) else None


def classify(name: str, head: bytes) -> Kind:
    """Return how a file that may be bundled is searched."""
    if head.startswith(_ZIPS):
        return Kind.ZIP
    if head.startswith(_BINARIES) or b"\0" in head:
        return Kind.BINARY
    lower = name.lower()
    if lower.endswith(".json"):
        return Kind.JSON
    if lower.endswith((".ndjson", ".jsonl")) or head.lstrip()[:1] == b"{":
        return Kind.LINES
    return Kind.TEXT
