"""One request to GitHub's API at a time, carried by PyGithub; no retries, no redirects, no logs.

PyGithub's objects are not used: they ask again by themselves for what an answer lacks, and follow URLs
that an answer names. The token goes to the API's own address only, and into no message. What a server
may take is limited here: the seconds of a request, and the bytes of its answer.
"""

import logging
import queue
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

import requests
from github import Auth, Github
from github.Requester import HTTPSRequestsConnectionClass, RequestsResponse
from urllib3 import Retry

from runner_e2e.errors import InputError

DEFAULT_API_URL = "https://api.github.com"
TIMEOUT_S = 15  # of one pause of the server; `send` limits the whole
REDIRECTS = frozenset({301, 302, 307, 308})

# Plain http would show the token to the network, so only a server on this machine may speak it.
_API_URL = re.compile(
    r"(?:https://[A-Za-z0-9][A-Za-z0-9.-]{0,252}|http://(?:127\.0\.0\.1|localhost))"
    r"(?::(?P<port>[0-9]{1,5}))?(?:/[A-Za-z0-9._~-]+)*/?"
)
_TOKEN = re.compile(r"[\x21-\x7e]{1,4096}")
_PORTS = {"http": 80, "https": 443}
_CHUNK_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer; names of headers are in lower case. A redirect has no body.

    `complete` is false when the body was cut off at the limit of its bytes.
    """

    status: int
    headers: Mapping[str, str]
    body: str
    complete: bool = True


@dataclass(frozen=True, slots=True)
class _Task:
    """A request on its way to the thread that sends it, and where its outcome goes."""

    path: str
    max_bytes: int
    outcome: "queue.SimpleQueue[Answer | Exception]"


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
            retry=0,
            seconds_between_requests=None,
        )
        self._connection = _Connection(urlsplit(self._base))

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
        self._github.close()

    def send(self, path: str, within_s: float, max_bytes: int) -> Answer | str:
        """Send one request; a connection that fails is the name of its error.

        At most `max_bytes` of the decoded body are read. Raises `TimeoutError` when the answer is not
        there within the time, after which nothing else can be sent, and `ValueError` for headers that
        cannot be read.
        """
        self.sent += 1
        # A socket's own timeout ends a pause only: a server that sends byte by byte is left to its thread,
        # which ends with the process.
        task = _Task(path, max_bytes, queue.SimpleQueue())
        threading.Thread(target=self._deliver, args=(task,), daemon=True).start()
        try:
            outcome = task.outcome.get(timeout=within_s)
        except queue.Empty:
            raise TimeoutError from None
        if isinstance(outcome, Answer):
            return outcome
        if isinstance(outcome, OSError):  # also every error of `requests`
            return type(outcome).__name__
        raise outcome

    def _deliver(self, task: _Task) -> None:
        try:
            task.outcome.put(self._fetch(task))
        except Exception as error:  # noqa: BLE001 - judged by the thread that waits
            task.outcome.put(error)

    def _fetch(self, task: _Task) -> Answer:
        self._connection.max_bytes = task.max_bytes
        try:
            status, headers, body = self._github.requester.requestJson(
                "GET",
                task.path,
                headers={"Accept": "application/vnd.github+json"},
                cnx=self._connection,
            )
        except _InterceptedError as intercepted:
            return intercepted.answer
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
    """An answer that PyGithub would act on by itself, or read on."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.status)
        self.answer = answer


class _Connection(HTTPSRequestsConnectionClass):
    """PyGithub's connection, over either scheme, with a limit to what it reads into memory."""

    def __init__(self, base: SplitResult) -> None:
        port = base.port or _PORTS[base.scheme]
        super().__init__(base.hostname or "", port, timeout=TIMEOUT_S, retry=_Intercepting(0, read=False))
        self.max_bytes = 0
        self.session.stream = True
        if base.scheme == "http":
            # The server is on this machine: a proxy of the environment would only learn the token.
            self.session.trust_env = False
            self.protocol = base.scheme
            self.session.mount("http://", self.adapter)

    def getresponse(self) -> RequestsResponse:
        """Return the response with its body; one above the limit is intercepted, and cut off there."""
        with super().getresponse().response as response:
            body = bytearray()
            for chunk in response.iter_content(_CHUNK_BYTES):
                body += chunk
                if len(body) > self.max_bytes:
                    text = _decode(body[: self.max_bytes])
                    raise _InterceptedError(
                        Answer(response.status_code, _lower(response.headers), text, complete=False)
                    )
        return _ReadResponse(response, _decode(body))


class _ReadResponse(RequestsResponse):
    """A response whose body was read."""

    def __init__(self, response: requests.Response, body: str) -> None:
        super().__init__(response)
        self._body = body

    def read(self) -> str:
        return self._body


class _Intercepting(Retry):
    """Takes answers away before anything follows them or reads their bodies without a limit.

    PyGithub follows a 301 without end, and sleeps after each 202; requests reads the body of a redirect.
    """

    def is_retry(self, method: str, status_code: int, has_retry_after: bool = False) -> bool:  # noqa: ARG002 - urllib3's signature
        """Whether `increment` is to see the answer."""
        return status_code in {202, 303} or status_code in REDIRECTS

    def increment(self, *arguments: Any, **options: Any) -> Self:  # noqa: ANN401 - urllib3's signature
        """Raise the answer; what is no answer is left to urllib3, which has no tries left."""
        response = options.get("response")
        if response is None:
            return super().increment(*arguments, **options)
        response.close()
        raise _InterceptedError(Answer(response.status, _lower(response.headers), ""))


def _lower(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _decode(body: bytes | bytearray) -> str:
    # JSON is UTF-8. Bytes that are not leave a mark, which no name, id or content survives unnoticed.
    return body.decode("utf-8", "replace")


def _silence(*names: str) -> None:
    """Keep the libraries' records, which hold URLs and answers, out of every log.

    PyGithub brings a handler of its own that writes to standard error.
    """
    for name in names:
        logger = logging.getLogger(name)
        logger.propagate = False
        logger.handlers[:] = [logging.NullHandler()]
