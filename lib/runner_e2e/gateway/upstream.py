"""Where a credential's provider is, and how it wants its key. Pure."""

import ipaddress
import re
from dataclasses import dataclass, field

import httpx

from runner_e2e.errors import InputError

# Each with its version, so that a dialect's path follows.
BASE_URLS = {
    "ANTHROPIC_API_KEY": "https://api.anthropic.com/v1",
    "GEMINI_API_KEY": "https://generativelanguage.googleapis.com/v1beta/openai",
    "OPENAI_API_KEY": "https://api.openai.com/v1",
    "OPENROUTER_API_KEY": "https://openrouter.ai/api/v1",
    "XAI_API_KEY": "https://api.x.ai/v1",
}
_WITH_BASE_URL_ONLY = ("KIMI_MODEL_API_KEY",)
_KEY_HEADERS = {"ANTHROPIC_API_KEY": ("x-api-key", "")}
_BEARER = ("authorization", "Bearer ")

_KEY = re.compile(r"[!-~]{8,4096}")


@dataclass(frozen=True, slots=True)
class Upstream:
    """One provider with the real key of a cell."""

    credential_name: str
    base_url: str
    key: str = field(repr=False)

    @property
    def key_header(self) -> tuple[str, str]:
        """Name and value of the header that holds the key."""
        name, prefix = _KEY_HEADERS.get(self.credential_name, _BEARER)
        return name, prefix + self.key

    @property
    def is_loopback(self) -> bool:
        """Whether the provider is on this machine, as a scripted one is."""
        return _is_loopback(httpx.URL(self.base_url).host)


def build_upstream(credential_name: str, key: str, base_url: str | None = None) -> Upstream:
    """Return the provider of a credential; `base_url` replaces the known one. Raises `InputError`."""
    if credential_name not in BASE_URLS and credential_name not in _WITH_BASE_URL_ONLY:
        raise InputError(
            f"The spending limit cannot watch what is bought with {ascii(credential_name)[1:-1][:80]}",
            f"Use one of {', '.join(BASE_URLS)}, or leave max-cost-usd and max-requests out",
        )
    if _KEY.fullmatch(key) is None:
        raise InputError(
            "The credential is no API key: it has spaces or control characters, or under 8 characters",
            "Check the secret that credential comes from",
        )
    url = base_url or BASE_URLS.get(credential_name)
    if url is None:
        raise InputError(f"There is no base URL for {credential_name}", "Give one")
    return Upstream(credential_name, _check_url(url), key)


def _check_url(text: str) -> str:
    try:
        url = httpx.URL(text)
    except (httpx.InvalidURL, ValueError):
        raise _refuse_url("is not a URL") from None
    if not url.host or url.userinfo or url.query or url.fragment:
        raise _refuse_url("must be a host and a path, and nothing else")
    if url.scheme != "https" and not (url.scheme == "http" and _is_loopback(url.host)):
        raise _refuse_url("must begin with https://, as it receives the key")
    return str(url).rstrip("/")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _refuse_url(problem: str) -> InputError:
    return InputError(f"The provider's base URL {problem}", "Write it as https://host/v1")
