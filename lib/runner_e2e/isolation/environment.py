"""Which variables a child gets: built from an allow-list, never scrubbed from the harness's own. Pure.

A variable that is deleted in a running process stays in `/proc/<pid>/environ`; one that was never given
does not.
"""

import re
from collections.abc import Iterable, Mapping

from runner_e2e.errors import InputError

_PASSED = frozenset({"LANG", "LANGUAGE", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"})
_PASSED_PREFIX = "LC_"
DEFAULT_SEARCH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

GENERATED_SECRETS = (
    "PAPERCLIP_AGENT_JWT_SECRET",
    "PAPERCLIP_DECISION_SIGNING_SECRET",
    "PAPERCLIP_TOOL_ACTION_SIGNING_SECRET",
    "BETTER_AUTH_SECRET",
)

# What a package manager and the program behind it need to start: who they are, where their caches lie.
_PASSED_TO_LISTING = _PASSED | {
    "CI",
    "COREPACK_HOME",
    "HOME",
    "LOGNAME",
    "PAPERCLIP_E2E_DAYTONA_IMAGE",
    "PATH",
    "PLAYWRIGHT_BROWSERS_PATH",
    "PNPM_HOME",
    "SHELL",
    "TMPDIR",
    "USER",
    "XDG_CACHE_HOME",
    "XDG_DATA_HOME",
    "npm_config_cache",
}
# Read in both spellings; curl reads the first in lower case only.
_PROXIES = frozenset({"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"})
_USER_IN_URL = re.compile(r"[^/?#]*@|[^/?#]*//[^/?#]*@")

_WORKFLOW_PREFIXES = ("ACTIONS_", "GITHUB_", "INPUT_", "RUNNER_")
# The harness's own: the selected id among them, which would narrow a list unasked.
_HARNESS_PREFIX = "PAPERCLIP_RUNNER_E2E_"
# Words of a name whose value lets somebody in; short ones only where they are a word of their own.
_SECRET_WORDS = re.compile(
    r"TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|COOKIE|PRIVATE|SIGNATURE|JWT"
    r"|AUTH(?!ORS?(?![A-Z]))|KEYS?(?![A-Z])|(?<![A-Z])(PASS|PWD|PATS?|SAS|DSN)(?![A-Z])"
)


def build_child_environment(source: Mapping[str, str], overrides: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a server: locale, certificates, a plain search path, and the overrides."""
    kept = {
        name: value for name, value in source.items() if name in _PASSED or name.startswith(_PASSED_PREFIX)
    }
    return {"PATH": DEFAULT_SEARCH, **kept, **overrides}


def build_listing_environment(
    source: Mapping[str, str], passed: Iterable[str], overrides: Mapping[str, str]
) -> dict[str, str]:
    """Return the variables of the target's listing command, which needs no credential and gets none.

    `passed` are names that the caller adds (`pass-env`); one that is not set is left out. A name of the
    workflow's own, of the harness's own, or of something that lets somebody in is an `InputError`.
    A proxy that is reached with a password is left out unless it is named: listing needs no network.
    """
    names = tuple(passed)
    for name in names:
        if reason := _refuse_passing(name):
            raise InputError(
                f"The variable {ascii(name)[1:-1][:80]} of pass-env is not for listing cells: {reason}",
                "Leave it out of pass-env; listing needs no credential",
            )
    kept = {name: value for name, value in source.items() if name in names or _is_for_listing(name, value)}
    return {"PATH": DEFAULT_SEARCH, **kept, "TERM": "dumb", **overrides}


def _is_for_listing(name: str, value: str) -> bool:
    if name.upper() in _PROXIES:
        return _USER_IN_URL.match(value) is None
    return name in _PASSED_TO_LISTING or name.startswith(_PASSED_PREFIX)


def _refuse_passing(name: str) -> str | None:
    upper = name.upper()
    if upper.startswith(_WORKFLOW_PREFIXES):
        return "the workflow's own variables stay with it"
    if upper.startswith(_HARNESS_PREFIX):
        return "the harness sets it itself"
    if _SECRET_WORDS.search(upper):
        return "its name is that of a secret"
    return None
