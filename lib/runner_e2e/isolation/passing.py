"""What a child may take over from its caller: the allow-lists, and the names that `pass-env` adds. Pure."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping

from runner_e2e.errors import InputError
from runner_e2e.isolation.explain import Draft
from runner_e2e.isolation.families import CODE_INJECTION, HARNESS_OWN, find_family
from runner_e2e.isolation.variables import fold, is_secret_name

LOCALE = frozenset({"LANG", "LANGUAGE", "TZ"})
LOCALE_PREFIX = "LC_"
CERTIFICATES = frozenset({"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"})
# Read in both spellings; curl reads the first in lower case only.
PROXIES = frozenset({"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"})
DEFAULT_SEARCH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

ALLOWED = "on the allow-list"
ASKED = "pass-env names it"
NOT_ALLOWED = "not on the allow-list"
SEARCH = "the absolute directories of the search path, each once"

_WORKFLOW_PREFIXES = ("ACTIONS_", "GITHUB_", "INPUT_", "RUNNER_")
_USER_IN_URL = re.compile(r"[^/?#]*@|[^/?#]*//[^/?#]*@")
_LONGEST_SHOWN = 80


def show_name(name: str) -> str:
    """Return a name as printable text of bounded length."""
    return ascii(name)[1:-1][:_LONGEST_SHOWN]


def find_refusal(name: str, *, code: bool = False) -> str | None:
    """Return why `pass-env` must not name a variable; `code` admits what makes a program run other code."""
    folded = fold(name)
    if folded.startswith(_WORKFLOW_PREFIXES):
        return "the workflow's own variables stay with it"
    if HARNESS_OWN.has(folded):
        return "the harness sets it itself"
    if is_secret_name(name):
        return "its name is that of a secret"
    family = find_family(name)
    if family is None or (code and family is CODE_INJECTION):
        return None
    return family.reason


def check_passed(
    names: Iterable[str], source: Mapping[str, str], find_denial: Callable[[str], str | None]
) -> None:
    """Refuse names of `pass-env` that the child of `find_denial` must not have, or no process near an agent.

    A proxy with a user or a password is one: agents can read it.
    """
    for name in names:
        reason = find_refusal(name) or find_denial(name)
        if reason is None and has_user(name, source.get(name, "")):
            reason = "its value holds a user or a password, which agents could read"
        if reason is not None:
            raise InputError(
                f"The variable {show_name(name)} of pass-env cannot be passed: {reason}",
                "Leave it out of pass-env",
            )


def has_user(name: str, value: str) -> bool:
    """Whether a variable is a proxy's, and its value names a user, with or without a password."""
    return fold(name) in PROXIES and _USER_IN_URL.match(value) is not None


def is_locale(name: str) -> bool:
    """Whether a variable says how text, times and numbers are written."""
    return name in LOCALE or (name.startswith(LOCALE_PREFIX) and not is_secret_name(name))


def allow_only(draft: Draft, allowed: Collection[str], passed: Collection[str]) -> None:
    """Take out what neither a rule has set, nor a list or the caller names; locale and certificates stay."""
    for name in draft.names():
        if draft.was_set(name):
            continue
        if name in passed:
            draft.keep(name, ASKED)
        elif name in allowed or name in CERTIFICATES or is_locale(name):
            draft.keep(name, ALLOWED)
        else:
            draft.remove([name], NOT_ALLOWED)


def set_search_path(draft: Draft) -> None:
    """Give a child the caller's search path, as far as it cannot depend on a working directory."""
    value = draft.get("PATH") or ""
    cleaned = clean_search_path(value)
    if cleaned == value:
        draft.keep("PATH", ALLOWED)
    else:
        draft.set("PATH", cleaned, SEARCH)


def clean_search_path(value: str) -> str:
    """Return the absolute directories of a search path, each once; the system's own when there are none."""
    found = [part for part in value.split(":") if part.startswith("/")]
    return ":".join(dict.fromkeys(found)) or DEFAULT_SEARCH


def build_directories(home: str, temporary: str) -> dict[str, str]:
    """Return the variables that keep a process within a home and a temporary directory of its own."""
    return {
        "HOME": home,
        "TMPDIR": temporary,
        "TMP": temporary,
        "TEMP": temporary,
        "XDG_CONFIG_HOME": f"{home}/.config",
        "XDG_DATA_HOME": f"{home}/.local/share",
        "XDG_STATE_HOME": f"{home}/.local/state",
        "XDG_CACHE_HOME": f"{home}/.cache",
    }
