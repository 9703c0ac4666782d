"""Read a policy from a descriptor, so that no path has to stand in a command line."""

import json
from os import read, strerror

from .plan import Policy
from .ports import is_port
from .refusal import Refusal

SCHEMA = "runner-e2e.sandbox-policy/v1"
_KEYS = {"schema", "hide", "hideOptional", "expose", "closePorts"}
_LONGEST = 64 << 20


def read_policy(descriptor: int) -> Policy:
    """Read and check `runner-e2e.sandbox-policy/v1`.

    Unknown or double keys are errors. Names are UTF-8 with lone surrogates for other bytes, whatever
    the locale: another encoding would hide a path that does not exist.
    """
    blocks = []
    length = 0
    try:
        while block := read(descriptor, 1 << 20):
            blocks.append(block)
            length += len(block)
            if length > _LONGEST:
                raise _broken(f"is longer than {_LONGEST} bytes")
    except OSError as error:
        raise Refusal(
            "usage",
            f"the policy cannot be read from descriptor {descriptor}: {strerror(error.errno or 0)}",
            "open the descriptor for reading and hand it on to the launcher",
            errno=error.errno,
        ) from error
    try:
        content = json.loads(b"".join(blocks).decode("utf-8"), object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise _broken("is not JSON in UTF-8") from error
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        raise _broken(f"has not the schema {SCHEMA}")
    unknown = set(content) - _KEYS
    if unknown:
        raise _broken("has a key that is not schema, hide, hideOptional, expose or closePorts")
    policy = Policy(_paths(content, "hide"), _paths(content, "hideOptional"), _paths(content, "expose"))
    policy.close_ports = _ports(content)
    return policy


def _paths(content: dict[str, object], key: str) -> list[bytes]:
    values = content.get(key, [])
    if not isinstance(values, list):
        raise _broken(f"has a {key} that is not a list")
    paths = []
    for value in values:
        if not isinstance(value, str) or not value or "\0" in value:
            raise _broken(f"has an entry of {key} that is not a path")
        try:
            paths.append(value.encode("utf-8", "surrogateescape"))
        except UnicodeEncodeError as error:
            raise _broken(f"has an entry of {key} that is no file name") from error
    return paths


def _ports(content: dict[str, object]) -> tuple[int, ...]:
    values = content.get("closePorts", [])
    if not isinstance(values, list):
        raise _broken("has a closePorts that is not a list")
    if not all(map(is_port, values)):
        raise _broken("has an entry of closePorts that is no number from 1 to 65535")
    return tuple(values)


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    content = dict(pairs)
    if len(content) != len(pairs):
        raise ValueError("a key stands twice")
    return content


def _broken(problem: str) -> Refusal:
    return Refusal(
        "usage",
        f"the policy {problem}",
        "write one JSON object with schema and lists: of paths hide, hideOptional and expose, of ports"
        " closePorts",
    )
