"""The one question to GitHub's API before any package is installed: which id has a login.

Standard library only. One try, no redirect, one deadline for everything; the token stands in its header and
nowhere else.
"""

import http.client
import queue
import re
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import quote

from runner_e2e.errors import InputError, RunnerE2EError, TransientInfrastructureError
from runner_e2e.plan.run_context import is_id, is_login
from runner_e2e.strict_json import parse_strict

DEADLINE_S = 15.0
MAX_ANSWER_BYTES = 1024 * 1024

# Plain http would show the token to the network, so only a server on this machine may speak it.
_API_URL = re.compile(
    r"(?:https://[A-Za-z0-9][A-Za-z0-9.-]{0,252}|http://(?:127\.0\.0\.1|localhost|\[::1\]))"
    r"(?::[0-9]{1,5})?(?:/[A-Za-z0-9._~-]+)*/?"
)
_TOKEN = re.compile(r"[\x21-\x7e]{1,4096}")

_AGAIN = "Start the job again"
_TOKEN_REMEDY = "Give the action github-token: ${{ github.token }}"  # noqa: S105 - a sentence
_FRESH_RUN = "Start a new run of the workflow instead of repeating this one"


@dataclass(frozen=True, slots=True)
class Answer:
    """A response; names of headers are in lower case, and the body may be cut off at the limit."""

    status: int
    headers: Mapping[str, str]
    body: bytes


Fetch = Callable[[urllib.request.Request], Answer]


def look_up_id(login: str, api_url: str, token: str, fetch: Fetch) -> int:
    """Return the numeric id of the account that has `login`.

    Raises `InputError` when the caller can mend it, `TransientInfrastructureError` when another try may.
    """
    request = build_request(login, api_url, token)
    return read_answer(login, fetch(request))


def build_request(login: str, api_url: str, token: str) -> urllib.request.Request:
    """Return the request; a URL or token that could lead elsewhere or split a header is refused."""
    if not is_login(login):
        raise InputError("GITHUB_TRIGGERING_ACTOR is malformed", _FRESH_RUN)
    if not _API_URL.fullmatch(api_url):
        raise InputError(
            "GITHUB_API_URL is missing, or no https address that can be used",
            "Start the action as a step of a workflow run",
        )
    if not token:
        raise InputError(
            "Another account than the actor started this attempt, and its id cannot be asked without a token",
            _TOKEN_REMEDY,
        )
    if not _TOKEN.fullmatch(token):
        raise InputError("Input github-token holds characters that no token has", _TOKEN_REMEDY)
    return urllib.request.Request(  # noqa: S310 - the scheme is checked above
        f"{api_url.rstrip('/')}/users/{quote(login, safe='')}",
        headers={
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {token}",
            "User-Agent": "runner-e2e-action",
        },
    )


def read_answer(login: str, answer: Answer) -> int:
    """Return the id that an answer gives to `login`."""
    if answer.status != 200:
        raise _judge_refusal(login, answer)
    if len(answer.body) > MAX_ANSWER_BYTES:
        raise TransientInfrastructureError("GitHub's API answered more than 1 MiB about an account", _AGAIN)
    try:
        account = parse_strict(answer.body)
    except ValueError:
        raise TransientInfrastructureError("GitHub's API answered no JSON about an account", _AGAIN) from None
    match account:
        case {"login": str(name), "id": int(number)} if name.lower() == login.lower() and is_id(number):
            return number
    raise InputError(f"GitHub's API answered about something else than account {login}", _FRESH_RUN)


def _judge_refusal(login: str, answer: Answer) -> RunnerE2EError:
    status = answer.status
    told = f"GitHub's API answered {status} when asked for the id of {login}"
    exhausted = answer.headers.get("x-ratelimit-remaining") == "0" or "retry-after" in answer.headers
    if status == 404:
        return InputError(f"GitHub knows no account {login}", _FRESH_RUN)
    if status in (408, 429) or status >= 500 or (status == 403 and exhausted):
        return TransientInfrastructureError(told, _AGAIN)
    if status in (401, 403):
        return InputError(told, _TOKEN_REMEDY)
    if 300 <= status < 400:
        return InputError(f"{told}, a redirect that is not followed", _FRESH_RUN)
    return RunnerE2EError(told, _AGAIN)


def fetch_once(request: urllib.request.Request, deadline_s: float = DEADLINE_S) -> Answer:
    """Send a request and return its answer, also one that refuses.

    A socket's own timeout ends a pause only: a server that sends byte by byte is left to its thread, which
    ends with the process.
    """
    arrivals: queue.SimpleQueue[Answer | Exception] = queue.SimpleQueue()
    threading.Thread(target=_deliver, args=(request, deadline_s, arrivals), daemon=True).start()
    try:
        arrived = arrivals.get(timeout=deadline_s)
    except queue.Empty:
        raise TransientInfrastructureError(
            f"GitHub's API did not answer within {deadline_s:g} s", _AGAIN
        ) from None
    if isinstance(arrived, Answer):
        return arrived
    if isinstance(arrived, (OSError, http.client.HTTPException, ValueError)):
        # Not chained: the original error may carry what the server sent.
        raise TransientInfrastructureError(
            f"GitHub's API could not be asked ({_name_cause(arrived)})",
            f"{_AGAIN}; if it stays so, check the runner's network, proxy and certificates",
        ) from None
    raise arrived


def _deliver(
    request: urllib.request.Request, timeout_s: float, arrivals: "queue.SimpleQueue[Answer | Exception]"
) -> None:
    try:
        arrivals.put(_fetch(request, timeout_s))
    except Exception as error:  # noqa: BLE001 - judged by the thread that waits
        arrivals.put(error)


def _fetch(request: urllib.request.Request, timeout_s: float) -> Answer:
    handlers: list[urllib.request.BaseHandler] = [_KeepRedirects()]
    if request.type == "http":
        handlers.append(urllib.request.ProxyHandler({}))  # this machine is asked directly
    opener = urllib.request.build_opener(*handlers)
    try:
        with opener.open(request, timeout=timeout_s) as response:
            return Answer(
                response.status, _lower(response.headers.items()), response.read(MAX_ANSWER_BYTES + 1)
            )
    except urllib.error.HTTPError as refusal:
        with refusal:
            return Answer(refusal.code, _lower(refusal.headers.items()), b"")


class _KeepRedirects(urllib.request.HTTPRedirectHandler):
    """Leaves a redirect as the answer: it could take the question, or the token, to another place."""

    def redirect_request(self, *_: object) -> None:
        return None


def _lower(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers}


def _name_cause(error: Exception) -> str:
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    return type(reason).__name__
