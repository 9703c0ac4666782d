"""The name of a cell's artifact: unique per attempt, and one that the artifact service takes."""

import hashlib
import re
from collections.abc import Mapping

# Names become directories and `<name>.zip` files when they are downloaded.
MAX_NAME_BYTES = 200

# What the service refuses in a name, and control characters, which no file listing survives. Each
# becomes an underscore; whenever that or the length changes a name, a hash of the original follows.
_REFUSED = re.compile(r"[\"<>|*?\\/:\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_HASH_CHARACTERS = 12


def build_artifact_name(prefix: str, run: str, attempt: str, key: str) -> str:
    """Return `prefix-run-attempt-key`, mapped where the service would refuse it.

    A mapped name ends in a hash of the wanted one, so that names that differ only in what is
    mapped or cut off stay apart.
    """
    wanted = f"{prefix}-{run}-{attempt}-{key}"
    mapped = _REFUSED.sub("_", wanted)
    if mapped == wanted and len(mapped.encode()) <= MAX_NAME_BYTES:
        return wanted
    digest = hashlib.sha256(wanted.encode(errors="surrogatepass")).hexdigest()[:_HASH_CHARACTERS]
    room = MAX_NAME_BYTES - len(digest) - 1
    return f"{mapped.encode()[:room].decode(errors='ignore')}-{digest}"


def read_run_id(environ: Mapping[str, str]) -> str:
    """Return the workflow run's id, or `local` outside of one."""
    return environ.get("GITHUB_RUN_ID") or "local"


def read_run_attempt(environ: Mapping[str, str]) -> str:
    """Return which attempt of the workflow run this is, counted from 1."""
    return environ.get("GITHUB_RUN_ATTEMPT") or "1"
