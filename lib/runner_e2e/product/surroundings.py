"""The variables that npm, pip, uv and apt get: built from a list, so that no secret of a cell is among them.

Where packages come from is the caller's choice; what is installed, and how, is not. Pure.
"""

from collections.abc import Mapping
from typing import Final

_KEPT_NAMES: Final = (
    "PATH HOME USER LOGNAME LANG LANGUAGE TZ TMPDIR TEMP TMP XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME"
    " SSL_CERT_FILE SSL_CERT_DIR NODE_EXTRA_CA_CERTS REQUESTS_CA_BUNDLE CURL_CA_BUNDLE NETRC"
)
_PROXY_NAMES: Final = "http_proxy https_proxy no_proxy all_proxy ftp_proxy"
_PIP_NAMES: Final = (
    "INDEX_URL EXTRA_INDEX_URL FIND_LINKS NO_INDEX CERT CLIENT_CERT TRUSTED_HOST PROXY CONFIG_FILE"
    " DEFAULT_TIMEOUT TIMEOUT RETRIES CACHE_DIR NO_CACHE_DIR KEYRING_PROVIDER"
)
_UV_NAMES: Final = (
    "INDEX INDEX_URL DEFAULT_INDEX EXTRA_INDEX_URL FIND_LINKS NO_INDEX INDEX_STRATEGY OFFLINE"
    " KEYRING_PROVIDER NATIVE_TLS SYSTEM_CERTS INSECURE_HOST HTTP_TIMEOUT HTTP_RETRIES CACHE_DIR"
    " NO_CACHE CONFIG_FILE"
)
_NPM_NAMES: Final = (
    "registry proxy https_proxy noproxy ca cafile cert key strict_ssl cache userconfig globalconfig offline"
    " prefer_offline maxsockets fetch_retries fetch_timeout fetch_retry_mintimeout fetch_retry_maxtimeout"
)
_KEPT: Final = frozenset(_KEPT_NAMES.split())
_PROXIES: Final = frozenset(_PROXY_NAMES.split())
_PIP: Final = frozenset(_PIP_NAMES.split())
_UV: Final = frozenset(_UV_NAMES.split())
_NPM: Final = frozenset(_NPM_NAMES.split())  # as npm spells its settings in variables, lower-cased


def build_tool_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what an installing tool may see of `environ`, and that nobody is there to be asked."""
    kept = {name: value for name, value in environ.items() if _is_kept(name)}
    return kept | {
        "CI": "true",
        "DEBIAN_FRONTEND": "noninteractive",
        # Node brings authorities of its own; a host behind a proxy that signs anew knows others.
        "NODE_USE_SYSTEM_CA": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_INPUT": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "UV_LINK_MODE": "copy",
        "UV_PYTHON_DOWNLOADS": "never",
    }


def build_check_environment(home: str) -> dict[str, str]:
    """Return what an installed program gets when it is only asked for its version."""
    return {"PATH": "/usr/bin:/bin", "HOME": home, "TMPDIR": home, "LANG": "C.UTF-8"}


def _is_kept(name: str) -> bool:
    lower = name.lower()
    if name in _KEPT or lower in _PROXIES or name.startswith("LC_"):
        return True
    if lower.startswith("npm_config_"):
        setting = lower.removeprefix("npm_config_")
        # A setting of one registry, such as its token, or the registry of one scope.
        return setting in _NPM or setting.startswith(("//", "@"))
    if name.startswith("PIP_"):
        return name.removeprefix("PIP_") in _PIP
    # UV_INDEX_*: user name and password of a named index.
    return name.startswith("UV_") and (name.removeprefix("UV_") in _UV or name.startswith("UV_INDEX_"))
