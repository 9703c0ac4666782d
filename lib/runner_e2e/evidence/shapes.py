"""What a secret looks like when nobody said which one it is: a closed set of shapes and of names. Pure.

A shape is written once, for text and for bytes: its pattern is ASCII.
"""

import re
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True, slots=True)
class Shape:
    """A kind of secret and its pattern; the first group, or all of a match, is the secret part.

    Every match holds `marker`, and begins with one of `openings` (`@` stands at the end of its match).
    Looking for those is many times cheaper than the pattern. A `loose` shape may stand in random bytes.
    Every part that can match and then fail is bounded, so that a hostile text costs no quadratic time.
    """

    kind: str
    marker: str
    pattern: str
    openings: tuple[str, ...]
    loose: bool = False


_ASSIGNED = (
    *("api_key", "api-key", "apikey", "access_key", "private_key", "secret_key"),
    *("token", "password", "passwd", "secret"),
)
_ASSIGNMENTS = tuple(
    f"{spelled}=" for name in _ASSIGNED for spelled in (name, name.upper(), name.capitalize(), name.title())
)
_BEFORE_ASSIGNED = "|".join(f"(?<={re.escape(name)}=)" for name in _ASSIGNED)

# Each pattern begins with a literal; what stands before that is looked at afterwards.
SHAPES = (
    Shape(
        "a provider's key (sk-...)",
        "sk-",
        r"sk-(?<![A-Za-z0-9]sk-)"
        r"(?:(?:ant|or|proj|svcacct|admin)-[A-Za-z0-9_-]{10,}"
        r"|(?=[A-Za-z_-]{0,128}[0-9])[A-Za-z0-9_-]{16,}|[A-Za-z0-9]{20,})",
        ("sk-",),
    ),
    Shape(
        "a GitHub token",
        "gh",
        r"gh[opsur]_(?<![A-Za-z0-9]gh[opsur]_)[A-Za-z0-9]{16,}",
        tuple(f"gh{letter}_" for letter in "opsur"),
    ),
    Shape("a GitHub token", "github_pat_", r"github_pat_[A-Za-z0-9_]{16,}", ("github_pat_",)),
    Shape("a GitLab token", "glpat-", r"glpat-[A-Za-z0-9_-]{16,}", ("glpat-",)),
    Shape("an AWS key id", "AKIA", r"AKIA(?<![A-Za-z0-9]AKIA)[A-Z0-9]{16}(?![A-Za-z0-9])", ("AKIA",)),
    Shape("an AWS key id", "ASIA", r"ASIA(?<![A-Za-z0-9]ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])", ("ASIA",)),
    Shape("a Google key", "AIza", r"AIza(?<![A-Za-z0-9]AIza)[A-Za-z0-9_-]{30,}", ("AIza",)),
    Shape("an xAI key", "xai-", r"xai-(?<![A-Za-z0-9]xai-)[A-Za-z0-9]{16,}", ("xai-",)),
    Shape(
        "a Slack token",
        "xox",
        r"xox[abceoprs]-(?<![A-Za-z0-9]xox[abceoprs]-)[A-Za-z0-9-]{10,}",
        tuple(f"xox{letter}-" for letter in "abceoprs"),
    ),
    Shape("a Daytona key", "dtn_", r"dtn_(?<![A-Za-z0-9]dtn_)[A-Za-z0-9]{16,}", ("dtn_",)),
    Shape("an npm token", "npm_", r"npm_(?<![A-Za-z0-9]npm_)[A-Za-z0-9]{30,}", ("npm_",)),
    Shape("a Hugging Face token", "hf_", r"hf_(?<![A-Za-z0-9_]hf_)[A-Za-z0-9]{30,}", ("hf_",)),
    Shape("a Groq key", "gsk_", r"gsk_(?<![A-Za-z0-9_]gsk_)[A-Za-z0-9]{30,}", ("gsk_",)),
    Shape("a Perplexity key", "pplx-", r"pplx-(?<![A-Za-z0-9]pplx-)[A-Za-z0-9]{30,}", ("pplx-",)),
    Shape("a Replicate token", "r8_", r"r8_(?<![A-Za-z0-9_]r8_)[A-Za-z0-9]{30,}", ("r8_",)),
    Shape("an NVIDIA key", "nvapi-", r"nvapi-(?<![A-Za-z0-9]nvapi-)[A-Za-z0-9_-]{40,}", ("nvapi-",)),
    Shape("a Stripe key", "k_live_", r"k_live_(?<=[rs]k_live_)[A-Za-z0-9]{16,}", ("k_live_",)),
    Shape(
        "a signed token (JWT)",
        "eyJ",
        r"eyJ(?<![A-Za-z0-9]eyJ)[A-Za-z0-9_-]{8,1024}\.eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]+)?",
        ("eyJ",),
    ),
    # Certificates and public keys are for everyone.
    Shape(
        "a PEM block",
        "-----BEGIN ",
        r"-----BEGIN (?:[A-Z0-9]{1,32} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:[A-Za-z0-9+/=\s:,.()\\-]{0,16384}?-----END [A-Z0-9 ]{1,64}-----"
        r"|(?:[A-Za-z0-9+/=\s]|\\[nr]){0,16384})",
        ("-----BEGIN ",),
    ),
    # `{user}:{password}` are placeholders, and `host:port` has no @.
    Shape("a URL with a password", "@", r"://(?!\{)[^\s/@:'\"]*:(?!\{)([^\s/@'\"]+)@", ("@",), loose=True),
    # A digit parts a token from prose such as "bearer authentication-is-required".
    Shape(
        "an authorization header",
        "earer ",
        r"earer (?<=[Bb]earer ) {0,8}((?=[A-Za-z._~+/-]{0,128}[0-9])[A-Za-z0-9._~+/=-]{16,})",
        ("earer ",),
        loose=True,
    ),
    Shape(
        "an authorization header",
        "Basic ",
        r"Basic ((?=[A-Za-z+/]{0,128}[0-9=])[A-Za-z0-9+/]{12,}={0,2}(?![A-Za-z0-9+/=]))",
        ("Basic ",),
        loose=True,
    ),
    Shape(
        "an assignment of a key, token or password",
        "=",
        rf"=(?i:{_BEFORE_ASSIGNED})['\"]?((?=[A-Za-z+/_.~-]{{0,128}}[0-9])[A-Za-z0-9+/_.~-]{{16,}}={{0,2}})",
        _ASSIGNMENTS,
        loose=True,
    ),
)

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_SECRET_WORDS = frozenset(
    (
        *("accesstoken", "apikey", "apikeys", "apitoken", "authorization", "authtoken", "bearer"),
        *("cookie", "cookies", "credentials"),
        *("passphrase", "passwd", "password", "passwords", "pwd", "secret", "secrets", "token", "tokens"),
    )
)
_VARIABLE_OF_SECRET = re.compile(r"(?<!PUBLIC)_(KEYS?|AUTH(_JSON)?|PATS?|DSN)$")
_KEY_WORDS = frozenset({"access", "api", "auth", "encryption", "master", "private", "secret", "signing"})


@lru_cache(maxsize=4096)
def names_secret(name: str) -> bool:
    """Whether a value of this name is a secret: `apiKey`, `OPENAI_API_KEY`, `authToken`; not `tokenUrl`.

    A name in capitals is a variable's, and ends in `KEY` or `AUTH_JSON` for secrets alone.
    """
    if name.isupper() and _VARIABLE_OF_SECRET.search(name):
        return True
    words = ["", *(word.lower() for word in _WORDS.findall(name))]
    return words[-1] in _SECRET_WORDS or (words[-1] in {"key", "keys"} and words[-2] in _KEY_WORDS)
