"""Which variables a child gets: built from an allow-list, never scrubbed from the harness's own. Pure.

A variable that is deleted in a running process stays in `/proc/<pid>/environ`; one that was never given
does not.
"""

from collections.abc import Mapping

_PASSED = frozenset({"LANG", "LANGUAGE", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"})
_PASSED_PREFIX = "LC_"
DEFAULT_SEARCH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

GENERATED_SECRETS = (
    "PAPERCLIP_AGENT_JWT_SECRET",
    "PAPERCLIP_DECISION_SIGNING_SECRET",
    "PAPERCLIP_TOOL_ACTION_SIGNING_SECRET",
    "BETTER_AUTH_SECRET",
)


def build_child_environment(source: Mapping[str, str], overrides: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a server: locale, certificates, a plain search path, and the overrides."""
    kept = {
        name: value for name, value in source.items() if name in _PASSED or name.startswith(_PASSED_PREFIX)
    }
    return {"PATH": DEFAULT_SEARCH, **kept, **overrides}
