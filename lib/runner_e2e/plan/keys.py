"""Opaque keys: names for cells that tell nobody which case they are.

A key is `c-` and the first 12 hexadecimal digits of HMAC-SHA256(secret, execution id), both as UTF-8,
so that everyone with secret and catalog can compute it. No message here holds an id or a secret.
"""

import hmac
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from runner_e2e.errors import (
    CancelledError,
    FailureClass,
    HostRefusedError,
    InputError,
    NotRunError,
    RunnerE2EError,
)

MIN_SECRET_BYTES = 16
MIN_DISTINCT_BYTES = 8

_KEY_DIGITS = 12
_NEW_SECRET = "Make one with `openssl rand -hex 32` and give it as key-secret"  # noqa: S105 - a command


class KeyRefusedError(InputError):
    """A key or its secret cannot be used. The sentence names no cell, so it can be shown anywhere."""


def check_secret(secret: str) -> None:
    """Raise KeyRefusedError for a secret that no key can be made from."""
    _encode_secret(secret)


def build_key(secret: str, execution_id: str) -> str:
    """Return the opaque key of a cell."""
    return _build_key(_encode_secret(secret), execution_id)


def build_keys(secret: str, ids: Iterable[str]) -> dict[str, str]:
    """Return the key of each id; two ids that come to one key are refused."""
    encoded = _encode_secret(secret)
    keys = {execution_id: _build_key(encoded, execution_id) for execution_id in ids}
    if len(set(keys.values())) != len(keys):
        raise KeyRefusedError(
            "With this secret two cells of the catalog have the same opaque key",
            "Change key-secret wherever it is stored, then plan again",
        )
    return keys


def resolve_key(secret: str, key: str, ids: Iterable[str]) -> str:
    """Return the id that `key` stands for."""
    (execution_id,) = find_ids(build_keys(secret, ids), [key])
    return execution_id


def find_ids(keys: Mapping[str, str], wanted: Iterable[str]) -> tuple[str, ...]:
    """Return the ids that the wanted keys stand for; `keys` maps ids to keys."""
    ids = {key: execution_id for execution_id, key in keys.items()}
    try:
        return tuple(ids[key] for key in wanted)
    except KeyError:
        raise KeyRefusedError(
            "The key names no cell of this catalog",
            "Use the catalog and the key-secret that the plan was made with",
        ) from None


@contextmanager
def hidden_names(*, active: bool) -> Iterator[None]:
    """Replace, when `active`, every failure meanwhile by one that shows no text of catalog or target.

    Names of cells stand in both, and a log that has keys instead of names must not get them this way.
    """
    try:
        yield
    except (KeyRefusedError, CancelledError, HostRefusedError, NotRunError):
        raise
    except RunnerE2EError as error:
        if not active:
            raise
        # Not chained: the original error carries the text.
        raise _HiddenError(error.failure_class) from None


class _HiddenError(RunnerE2EError):
    def __init__(self, failure_class: FailureClass) -> None:
        super().__init__(
            "The cells cannot be read, and the reason could name them, so it is not shown",
            "Use the same catalog and selectors with runner-e2e list on a machine of your own",
        )
        self.failure_class = failure_class


def _build_key(secret: bytes, execution_id: str) -> str:
    digest = hmac.digest(secret, execution_id.encode("utf-8", "surrogatepass"), "sha256")
    return f"c-{digest.hex()[:_KEY_DIGITS]}"


def _encode_secret(secret: str) -> bytes:
    try:
        # Bytes that are no UTF-8 reach Python as surrogates; they count as what they were.
        encoded = secret.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        # Not chained: the original error carries the secret.
        raise KeyRefusedError("The secret of the opaque keys is not text", _NEW_SECRET) from None
    if len(encoded) < MIN_SECRET_BYTES:
        raise KeyRefusedError(
            f"The secret of the opaque keys has fewer than {MIN_SECRET_BYTES} bytes, so it could be guessed",
            _NEW_SECRET,
        )
    if len(set(encoded)) < MIN_DISTINCT_BYTES:
        raise KeyRefusedError(
            "The secret of the opaque keys repeats a few characters, so it could be guessed", _NEW_SECRET
        )
    return encoded
