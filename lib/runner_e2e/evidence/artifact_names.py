"""Names that the artifact service takes, and that survive a download to any system. Pure."""

import hashlib
import re
import unicodedata
from collections.abc import Sequence

# What the service refuses in a name, and control characters, which no file listing survives. Each
# becomes an underscore; whenever that or the length changes a name, a hash of the original follows.
_REFUSED = re.compile(r"[\"<>|*?\\/:\x00-\x1f\x7f-\x9f\ud800-\udfff]")
# Hidden files are not uploaded, and some systems drop blanks and dots at the end.
_REFUSED_ENDS = re.compile(r"^\.|[. ]+$")
_SUFFIX = re.compile(r"\.[A-Za-z0-9]{1,12}$")
_HASH_CHARACTERS = 12
# Names become directories and `<name>.zip` files when they are downloaded.
MAX_NAME_BYTES = 200


def build_artifact_name(prefix: str, run: str, attempt: str, key: str) -> str:
    """Return `prefix-run-attempt-key`, the name of a cell's artifact: unique per attempt of the workflow."""
    return map_name(f"{prefix}-{run}-{attempt}-{key}", MAX_NAME_BYTES)


def map_name(wanted: str, most_bytes: int) -> str:
    """Return a name for an artifact or a directory, mapped where the service would refuse it.

    A mapped name ends in a hash of the wanted one, so that names that differ only in what is mapped or
    cut off stay apart.
    """
    return _shorten(wanted, _REFUSED.sub("_", wanted), "", most_bytes)


def replace_refused(text: str) -> str:
    """Return what a beginning of a name becomes in one that is mapped; it stays as it is where nothing is."""
    return _REFUSED.sub("_", text)


def map_path(parts: Sequence[str], most_bytes: int = 200) -> str:
    """Return a path in an artifact, each part mapped as by `map_name`; a file keeps its ending."""
    mapped = []
    for part in parts:
        suffix = _SUFFIX.search(part)
        ending = suffix[0] if suffix is not None and suffix.start() > 0 else ""
        clean = _REFUSED_ENDS.sub("_", _REFUSED.sub("_", part)) or "_"
        mapped.append(_shorten(part, clean, ending, most_bytes))
    return "/".join(mapped)


def add_hash(path: str, wanted: str) -> str:
    """Return a path whose last part has a hash of something, for a name that is taken."""
    suffix = _SUFFIX.search(path)
    stem = path if suffix is None else path[: suffix.start()]
    return f"{stem}-{_digest(wanted)}{'' if suffix is None else suffix[0]}"


def collision_key(path: str) -> str:
    """Return what is equal for paths that some file system takes for the same."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


def _shorten(wanted: str, mapped: str, ending: str, most_bytes: int) -> str:
    if mapped == wanted and len(mapped.encode()) <= most_bytes:
        return wanted
    digest = _digest(wanted)
    stem = mapped.removesuffix(ending).encode()
    room = most_bytes - len(digest) - 1 - len(ending)
    return f"{stem[:room].decode(errors='ignore')}-{digest}{ending}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:_HASH_CHARACTERS]
