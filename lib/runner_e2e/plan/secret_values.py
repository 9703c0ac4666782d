"""Which text looks like a secret: a closed set of key shapes, and names whose values are secrets.

Pure. It says where a secret seems to be and of which kind; it must never hand out the value itself.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

# Keys and indexes that lead to a value of the file.
Place = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class _Shape:
    kind: str
    marker: str
    pattern: re.Pattern[str]


def _shape(kind: str, marker: str, pattern: str) -> _Shape:
    return _Shape(kind, marker, re.compile(pattern))


# Every match holds its marker. Looking for that alone is many times cheaper than the pattern, and each
# pattern begins with a literal for the same reason: what stands before it is looked at afterwards.
_SHAPES = (
    _shape(
        "a provider's key (sk-...)",
        "sk-",
        r"sk-(?<![A-Za-z0-9]sk-)"
        r"(?:(?:ant|or|proj|svcacct|admin)-[A-Za-z0-9_-]{10,}"
        r"|(?=[A-Za-z_-]*[0-9])[A-Za-z0-9_-]{16,}|[A-Za-z0-9]{20,})",
    ),
    _shape("a GitHub token", "gh", r"gh[opsur]_(?<![A-Za-z0-9]gh[opsur]_)[A-Za-z0-9]{16,}"),
    _shape("a GitHub token", "github_pat_", r"github_pat_[A-Za-z0-9_]{16,}"),
    _shape("a GitLab token", "glpat-", r"glpat-[A-Za-z0-9_-]{16,}"),
    _shape("an AWS key id", "AKIA", r"AKIA(?<![A-Za-z0-9]AKIA)[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _shape("an AWS key id", "ASIA", r"ASIA(?<![A-Za-z0-9]ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _shape("a Google key", "AIza", r"AIza(?<![A-Za-z0-9]AIza)[A-Za-z0-9_-]{30,}"),
    _shape("an xAI key", "xai-", r"xai-(?<![A-Za-z0-9]xai-)[A-Za-z0-9]{16,}"),
    _shape("a Slack token", "xox", r"xox[abceoprs]-(?<![A-Za-z0-9]xox[abceoprs]-)[A-Za-z0-9-]{10,}"),
    _shape("a Daytona key", "dtn_", r"dtn_(?<![A-Za-z0-9]dtn_)[A-Za-z0-9]{16,}"),
    _shape("an npm token", "npm_", r"npm_(?<![A-Za-z0-9]npm_)[A-Za-z0-9]{30,}"),
    _shape("a Stripe key", "k_live_", r"k_live_(?<=[rs]k_live_)[A-Za-z0-9]{16,}"),
    _shape("a signed token (JWT)", "eyJ", r"eyJ(?<![A-Za-z0-9]eyJ)[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}"),
    _shape("a PEM block", "-----BEGIN ", r"-----BEGIN [A-Z0-9 ]{1,64}-----"),
    # `{user}:{password}` are placeholders, and `host:port` has no @.
    _shape("a URL with a password", "@", r"://(?!\{)[^\s/@:'\"]*:(?!\{)[^\s/@'\"]+@"),
    # A digit parts a token from prose such as "bearer authentication-is-required".
    _shape(
        "an authorization header",
        "earer ",
        r"earer (?<=[Bb]earer ) *(?=[A-Za-z._~+/-]*[0-9])[A-Za-z0-9._~+/-]{16,}",
    ),
    _shape(
        "an authorization header",
        "Basic ",
        r"Basic (?=[A-Za-z+/]*[0-9=])[A-Za-z0-9+/]{12,}={0,2}(?![A-Za-z0-9+/=])",
    ),
    _shape(
        "an assignment of a key, token or password",
        "=",
        r"=(?i:(?<=api_key=)|(?<=api-key=)|(?<=apikey=)|(?<=token=)|(?<=password=)|(?<=secret=))"
        r"['\"]?(?=[A-Za-z+/_.~-]*[0-9])[A-Za-z0-9+/_.~-]{16,}",
    ),
)

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_SECRET_WORDS = frozenset(
    {
        "accesstoken",
        "apikey",
        "apikeys",
        "apitoken",
        "authorization",
        "authtoken",
        "bearer",
        "passphrase",
        "passwd",
        "password",
        "passwords",
        "pwd",
        "secret",
        "secrets",
        "token",
        "tokens",
    }
)
_KEY_WORDS = frozenset({"access", "api", "auth", "encryption", "master", "private", "secret", "signing"})

_REFERENCE_KEY = "secretRef"
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]{0,127}")
_PLACEHOLDER = re.compile(r"(?:Bearer |Basic |token )?\{[A-Za-z][A-Za-z0-9_.-]*\}")
# A JSON schema's properties are named after fields and hold rules, not values.
_SCHEMA_KEYS = frozenset({"properties", "patternProperties", "$defs", "definitions"})


def find_secret_shape(text: str) -> str | None:
    """Return which kind of secret `text` seems to hold, such as "a PEM block"; None for none."""
    for shape in _SHAPES:
        if shape.marker in text and shape.pattern.search(text):
            return shape.kind
    return None


def find_shaped_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line, counted from 1, and the kind of everything in `text` that looks like a secret."""
    for shape in _SHAPES:
        if shape.marker in text:
            line, position = 1, 0
            for match in shape.pattern.finditer(text):
                line += text.count("\n", position, match.start())
                position = match.start()
                yield line, shape.kind


def find_shaped_values(value: object, path: Place = ()) -> Iterator[tuple[Place, str]]:
    """Yield place and kind of every text below `value` that looks like a secret.

    The place of a key that looks like one is the mapping it stands in.
    """
    if isinstance(value, str):
        if kind := find_secret_shape(value):
            yield path, kind
    elif isinstance(value, dict):
        for key, item in value.items():
            if kind := find_secret_shape(str(key)):
                yield path, f"{kind} as a key"
            else:
                yield from find_shaped_values(item, (*path, str(key)))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from find_shaped_values(item, (*path, index))


@lru_cache(maxsize=4096)
def names_secret(name: str) -> bool:
    """Whether a value of this name is a secret: `apiKey`, `OPENAI_API_KEY`, `authToken`; not `tokenUrl`."""
    words = ["", *(word.lower() for word in _WORDS.findall(name))]
    return words[-1] in _SECRET_WORDS or (words[-1] in {"key", "keys"} and words[-2] in _KEY_WORDS)


def find_named_secrets(value: object, path: Place = ()) -> Iterator[Place]:
    """Yield the places of values below `value` whose name says that they are secrets.

    A reference `{secretRef: NAME}` and a whole `{placeholder}` are none. Everything below a secret name
    counts, and so does `value` beside such a `name`.
    """
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from find_named_secrets(item, (*path, index))
    elif isinstance(value, dict):
        in_schema = bool(path) and path[-1] in _SCHEMA_KEYS
        named = value.get("name", value.get("key"))
        for key, item in value.items():
            place = (*path, str(key))
            if (
                (key == _REFERENCE_KEY and not in_schema)
                or (isinstance(key, str) and names_secret(key) and not in_schema)
                or (key == "value" and isinstance(named, str) and names_secret(named))
            ):
                yield from _find_raw(key, item, place)
            else:
                yield from find_named_secrets(item, place)


def _find_raw(name: object, value: object, path: Place) -> Iterator[Place]:
    if name == _REFERENCE_KEY:
        if not (isinstance(value, str) and _VARIABLE.fullmatch(value)):
            yield path
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _find_raw(key, item, (*path, str(key)))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _find_raw(name, item, (*path, index))
    elif isinstance(value, str):
        if value and not _PLACEHOLDER.fullmatch(value):
            yield path
    elif isinstance(value, int | float) and not isinstance(value, bool) and "token" not in str(name).lower():
        yield path  # a number of tokens is a count
