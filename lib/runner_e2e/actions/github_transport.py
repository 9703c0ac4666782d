"""One request to GitHub's API at a time, carried by PyGithub; no retries, no redirects, no logs.

PyGithub's objects are not used: they ask again by themselves for what an answer lacks, and follow URLs
that an answer names. The token goes to the API's own address only, and into no message.
"""

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

import requests
from github import Auth, Github
from urllib3 import Retry

from runner_e2e.errors import InputError

DEFAULT_API_URL = "https://api.github.com"
TIMEOUT_S = 15
REDIRECTS = frozenset({301, 302, 307, 308})

# Plain http would show the token to the network, so only a server on this machine may speak it.
_API_URL = re.compile(
    r"(?:https://[A-Za-z0-9][A-Za-z0-9.-]{0,252}|http://(?:127\.0\.0\.1|localhost))"
    r"(?::(?P<port>[0-9]{1,5}))?(?:/[A-Za-z0-9._~-]+)*/?"
)
_TOKEN = re.compile(r"[\x21-\x7e]{1,4096}")
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer; names of headers are in lower case. A redirect has no body."""

    status: int
    headers: Mapping[str, str]
    body: str


class Transport:
    """Sends requests to one API with one token, or none. `sent` counts them."""

    def __init__(self, api_url: str, token: str | None) -> None:
        _check_url(api_url)
        if token and not _TOKEN.fullmatch(token):
            raise InputError(
                "Input github-token holds characters that no token has",
                "Give the token alone, without blanks or line ends",
            )
        _silence("github", "urllib3")
        self.has_token = bool(token)
        self.sent = 0
        self._base = api_url.rstrip("/")
        self._github = Github(
            auth=Auth.Token(token) if token else None,
            base_url=self._base,
            timeout=TIMEOUT_S,
            user_agent="runner-e2e-action",
            retry=_Intercepting(0, read=False),
            seconds_between_requests=None,
        )

    def close(self) -> None:
        """Close the connection."""
        self._github.close()

    def send(self, path: str) -> Answer | str:
        """Send one request; a connection that fails is the name of its error.

        Raises `ValueError` for headers that cannot be read.
        """
        self.sent += 1
        try:
            status, headers, body = self._github.requester.requestJson(
                "GET", path, headers={"Accept": "application/vnd.github+json"}
            )
        except _InterceptedError as answer:
            return Answer(answer.status, answer.headers, "")
        except requests.RequestException as error:
            return type(error).__name__
        except OverflowError as error:
            raise ValueError("a header's number has no end") from error
        return Answer(status, headers, body)

    def resolve(self, path: str, location: str) -> str | None:
        """Return the path of the API that a redirect of `path` leads to, None when it leads elsewhere."""
        base = urlsplit(self._base)
        try:
            target = urlsplit(urljoin(self._base + path, location))
            same = _address(target) == _address(base)
        except ValueError:
            return None
        inner = target.path.removeprefix(base.path)
        dots = {".", ".."} & set(unquote(inner).split("/"))
        if not same or not target.path.startswith(f"{base.path}/") or dots:
            return None
        return inner + (f"?{target.query}" if target.query else "")


def _check_url(api_url: str) -> None:
    found = _API_URL.fullmatch(api_url)
    if found is None or int(found["port"] or 1) not in range(1, 65536):
        raise InputError(
            "GITHUB_API_URL is no https address of an API",
            f"Give an address such as {DEFAULT_API_URL} or https://github.example.com/api/v3",
        )


def _address(url: SplitResult) -> tuple[str, str | None, int | None, str | None]:
    return url.scheme, url.hostname, url.port or _PORTS.get(url.scheme), url.username


class _InterceptedError(Exception):
    """An answer that PyGithub would act on by itself."""

    def __init__(self, status: int, headers: Mapping[str, str]) -> None:
        super().__init__(status)
        self.status = status
        self.headers = headers


class _Intercepting(Retry):
    """Takes answers away from PyGithub: it follows a 301 without end, and sleeps after each 202."""

    def is_retry(self, method: str, status_code: int, has_retry_after: bool = False) -> bool:  # noqa: ARG002 - urllib3's signature
        """Whether `increment` is to see the answer."""
        return status_code == 202 or status_code in REDIRECTS

    def increment(self, *arguments: Any, **options: Any) -> Self:  # noqa: ANN401 - urllib3's signature
        """Raise the answer; what is no answer is left to urllib3, which has no tries left."""
        response = options.get("response")
        if response is None:
            return super().increment(*arguments, **options)
        headers = {name.lower(): value for name, value in response.headers.items()}
        response.drain_conn()
        raise _InterceptedError(response.status, headers)


def _silence(*names: str) -> None:
    """Keep the libraries' records, which hold URLs and answers, out of every log.

    PyGithub brings a handler of its own that writes to standard error.
    """
    for name in names:
        logger = logging.getLogger(name)
        logger.propagate = False
        logger.handlers[:] = [logging.NullHandler()]
