"""Every answer of GitHub's API, and what the client makes of it. No answer comes from a network."""

from __future__ import annotations

import base64
import gzip
import json
import logging
import re
import threading
import tracemalloc
from itertools import count
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pytest
import requests
import responses
from hypothesis import given, settings
from hypothesis import strategies as st

from runner_e2e.actions.github_client import MAX_ANSWER_BYTES, MAX_BLOB_ANSWER_BYTES, GitHubClient
from runner_e2e.actions.github_transport import Transport
from runner_e2e.actions.github_waiting import BUDGET_S, DEADLINE_S, MAX_TRIES, Clock
from runner_e2e.errors import InputError, RunnerE2EError, TransientInfrastructureError
from runner_e2e.plan.branches import is_branch_name
from runner_e2e.plan.objects import MAX_FILE_BYTES, Entry, LargeObjectError
from runner_e2e.plan.target import Repository

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

API = "https://api.github.com"
SENT = "https://api.github.com:443"  # PyGithub always names the port
TOKEN = "ghs_" + "x1Y2" * 9
SHA = "a" * 40
OTHER = "b" * 40
HOME = Repository(7, "octo/app", "master")
APP = f"{SENT}/repos/octo/app"
REPOSITORY = {"id": 7, "full_name": "octo/app", "default_branch": "master", "private": True}
NOW = 1_800_000_000.0


class FakeTime:
    """A clock that only sleeping, and a slow server, move."""

    def __init__(self) -> None:
        self.slept: list[float] = []
        self.at = 0.0

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.at += seconds

    def clock(self, chance: float = 0.0) -> Clock:
        return Clock(self.sleep, lambda: self.at, lambda: NOW + self.at, lambda: chance)


@pytest.fixture
def api() -> Iterator[responses.RequestsMock]:
    with responses.RequestsMock() as mock:
        yield mock


@pytest.fixture
def time() -> FakeTime:
    return FakeTime()


@pytest.fixture
def client(time: FakeTime) -> GitHubClient:
    return GitHubClient(API, TOKEN, time.clock())


def branch(name: str = "main", sha: str = SHA) -> dict[str, object]:
    return {"name": name, "commit": {"sha": sha, "commit": {"tree": {"sha": OTHER}}}, "protected": False}


def test_a_repository_is_known_by_its_id(api: responses.RequestsMock, client: GitHubClient) -> None:
    api.get(APP, json=REPOSITORY)

    assert client.repository("octo/app") == HOME
    assert api.calls[0].request.headers["Authorization"] == f"token {TOKEN}"


def test_without_a_token_none_is_sent(api: responses.RequestsMock, time: FakeTime) -> None:
    api.get(APP, json=REPOSITORY)

    GitHubClient(API, None, time.clock()).repository("octo/app")

    assert "Authorization" not in api.calls[0].request.headers


@pytest.mark.parametrize(
    ("name", "encoded"),
    [
        pytest.param("main", "main", id="plain"),
        pytest.param("feature/a/b", "feature%2Fa%2Fb", id="slashes"),
        pytest.param("100%", "100%25", id="percent-sign"),
        pytest.param("a%2Fb", "a%252Fb", id="looks-encoded"),
        pytest.param("a%41", "a%2541", id="looks-encoded-letter"),
        pytest.param("fix#12", "fix%2312", id="fragment"),
        pytest.param("v1;x=2&y=3", "v1%3Bx%3D2%26y%3D3", id="parameters"),
        pytest.param("fröhlich/日本", "fr%C3%B6hlich%2F%E6%97%A5%E6%9C%AC", id="non-ascii"),
        pytest.param("👩‍💻", "%F0%9F%91%A9%E2%80%8D%F0%9F%92%BB", id="emoji"),
        pytest.param("a\"b'c|d{e}", "a%22b%27c%7Cd%7Be%7D", id="signs"),
        pytest.param("a+b@c!(d),e=f$g", "a%2Bb%40c%21%28d%29%2Ce%3Df%24g", id="more-signs"),
        pytest.param("1.x_y-z0", "1.x_y-z0", id="unreserved"),
    ],
)
def test_a_branch_is_asked_for_under_its_exact_name(
    api: responses.RequestsMock, client: GitHubClient, name: str, encoded: str
) -> None:
    api.get(f"{APP}/branches/{encoded}", json=branch(name))

    assert client.branch_sha(HOME, name) == SHA
    assert str(api.calls[0].request.url) == f"{APP}/branches/{encoded}"


@settings(deadline=None)  # a busy machine is no failure
@given(st.text(max_size=40))
def test_no_branch_name_leads_to_another_place(name: str) -> None:
    if not is_branch_name(name):
        return
    with responses.RequestsMock() as api:
        api.get(re.compile(".*"), json=branch(name))

        assert GitHubClient(API, TOKEN, FakeTime().clock()).branch_sha(HOME, name) == SHA

        prefix, _, rest = str(api.calls[0].request.url).rpartition("/")
    assert prefix == f"{APP}/branches"
    assert unquote(rest) == name
    assert "?" not in rest


def test_the_address_of_an_enterprise_server_is_honoured(api: responses.RequestsMock, time: FakeTime) -> None:
    api.get("https://git.example.com:443/api/v3/repos/octo/app", json=REPOSITORY)

    client = GitHubClient("https://git.example.com/api/v3/", TOKEN, time.clock())

    assert client.repository("octo/app") == HOME


def test_a_server_on_this_machine_may_speak_plain_http(api: responses.RequestsMock, time: FakeTime) -> None:
    api.get("http://127.0.0.1:8080/api/v3/repos/octo/app", json=REPOSITORY)

    assert GitHubClient("http://127.0.0.1:8080/api/v3", TOKEN, time.clock()).repository("octo/app") == HOME


@pytest.mark.parametrize(
    "url",
    [
        "",
        "api.github.com",
        "http://api.github.com",
        "http://127.0.0.1.example.com",
        "http://localhost.example.com",
        "ftp://api.github.com",
        "file:///etc/passwd",
        "https://",
        "https://user:pass@api.github.com",
        "https://api.github.com@example.com",
        "https://api.github.com/?x=1",
        "https://api.github.com/#x",
        "https://api.github.com:99999",
        "https://api.github.com:0",
        "https://api.github.com\n",
        "https://[::1]",
        "https://api.github.com/a b",
        "https://api.github.com//x",
    ],
)
def test_an_address_that_is_no_api_is_refused(url: str) -> None:
    with pytest.raises(InputError, match="GITHUB_API_URL"):
        GitHubClient(url, TOKEN)


@pytest.mark.parametrize("token", ["a b", "a\nb", "a\r\nX-Other: 1", "é", "a\0", "x" * 5000, " ghs_x"])
def test_a_token_that_could_split_a_header_is_refused_without_showing_it(token: str) -> None:
    with pytest.raises(InputError) as caught:
        GitHubClient(API, token)

    assert token not in str(caught.value)


@pytest.mark.parametrize(
    "name", ["octo", "octo/", "/app", "octo/..", "../app", "a/b/c", "octo/app?x", "o/a\n"]
)
def test_a_repository_without_a_usable_name_is_not_asked_for(client: GitHubClient, name: str) -> None:
    with pytest.raises(InputError, match="owner/name"):
        client.repository(name)

    assert client.requests == 0


# Redirects


def test_a_renamed_repository_is_found_under_its_new_name(
    api: responses.RequestsMock, client: GitHubClient
) -> None:
    api.get(f"{SENT}/repos/octo/old", status=301, headers={"Location": f"{API}/repositories/7"})
    api.get(f"{SENT}/repositories/7", json=REPOSITORY)

    assert client.repository("octo/old") == HOME
    assert client.requests == 2


@pytest.mark.parametrize("status", [301, 302, 307, 308])
@pytest.mark.parametrize(
    "location",
    [
        pytest.param("https://api.github.com/repositories/7/branches/main", id="by-id"),
        pytest.param("/repositories/7/branches/main", id="relative"),
        pytest.param("https://api.github.com:443/repositories/7/branches/main", id="with-port"),
        pytest.param("https://API.github.com/repositories/7/branches/main", id="capitals"),
    ],
)
def test_a_redirect_within_the_repository_is_followed(
    api: responses.RequestsMock, client: GitHubClient, status: int, location: str
) -> None:
    api.get(f"{APP}/branches/main", status=status, headers={"Location": location})
    api.get(f"{SENT}/repositories/7/branches/main", json=branch())

    assert client.branch_sha(HOME, "main") == SHA


@pytest.mark.parametrize("status", [301, 302, 307, 308])
@pytest.mark.parametrize(
    "location",
    [
        pytest.param("https://evil.example.com/repositories/7/branches/main", id="other-host"),
        pytest.param("//evil.example.com/repositories/7/branches/main", id="no-scheme"),
        pytest.param("http://api.github.com/repositories/7/branches/main", id="plain-http"),
        pytest.param("https://api.github.com:8443/repositories/7/branches/main", id="other-port"),
        pytest.param("https://x@api.github.com/repositories/7/branches/main", id="user"),
        pytest.param("https://api.github.com/repositories/8/branches/main", id="other-repository"),
        pytest.param("https://api.github.com/repositories/70/branches/main", id="longer-id"),
        pytest.param("https://api.github.com/repos/octo/app-fork/branches/main", id="other-name"),
        pytest.param("https://api.github.com/repositories/7/../8/branches/main", id="dots"),
        pytest.param("https://api.github.com/repositories/7/%2e%2e/8/branches/main", id="encoded-dots"),
        pytest.param("https://api.github.com/user", id="other-place"),
        pytest.param("https://[::1/repositories/7/branches/main", id="malformed"),
        pytest.param("https://api.github.com:x/repositories/7/branches/main", id="malformed-port"),
        pytest.param("", id="empty"),
    ],
)
def test_a_redirect_out_of_the_repository_is_not_followed(
    api: responses.RequestsMock, client: GitHubClient, status: int, location: str
) -> None:
    api.get(f"{APP}/branches/main", status=status, headers={"Location": location})

    with pytest.raises(RunnerE2EError, match="redirects"):
        client.branch_sha(HOME, "main")

    assert {call.request.url for call in api.calls} == {f"{APP}/branches/main"}


def test_a_redirect_without_a_location_is_not_followed(
    api: responses.RequestsMock, client: GitHubClient
) -> None:
    api.get(APP, status=301)

    with pytest.raises(RunnerE2EError, match="redirects"):
        client.repository("octo/app")


def test_redirects_in_a_circle_end(api: responses.RequestsMock, client: GitHubClient) -> None:
    api.get(f"{SENT}/repositories/1", status=301, headers={"Location": f"{API}/repositories/2"})
    api.get(f"{SENT}/repositories/2", status=301, headers={"Location": f"{API}/repositories/1"})
    api.get(APP, status=301, headers={"Location": f"{API}/repositories/1"})

    with pytest.raises(RunnerE2EError, match="too often"):
        client.repository("octo/app")

    assert client.requests == 4


def test_the_path_prefix_of_a_server_stays(api: responses.RequestsMock, time: FakeTime) -> None:
    client = GitHubClient("https://git.example.com/api/v3", TOKEN, time.clock())
    old = "https://git.example.com:443/api/v3/repos/octo/old"
    api.get(old, status=301, headers={"Location": "https://git.example.com/api/v3/repositories/7"})
    api.get("https://git.example.com:443/api/v3/repositories/7", json=REPOSITORY)

    assert client.repository("octo/old") == HOME

    api.get(old, status=301, headers={"Location": "https://git.example.com/repositories/7"})
    with pytest.raises(RunnerE2EError, match="redirects"):
        client.repository("octo/old")


def test_a_renamed_branch_is_refused(api: responses.RequestsMock, client: GitHubClient) -> None:
    api.get(
        f"{APP}/branches/old",
        status=301,
        headers={"Location": f"{API}/repositories/7/branches/new"},
    )
    api.get(f"{SENT}/repositories/7/branches/new", json=branch("new"))

    with pytest.raises(InputError, match="renamed"):
        client.branch_sha(HOME, "old")


# Refusals


@pytest.mark.parametrize(
    ("status", "words"),
    [
        pytest.param(401, ["does not accept the token", "github-token"], id="bad-credentials"),
        pytest.param(403, ["may not read", "contents: read"], id="forbidden"),
        pytest.param(404, ["branch main of octo/app", "private"], id="not-found"),
        pytest.param(409, ["does not give out"], id="empty-repository"),
        pytest.param(451, ["does not give out"], id="blocked"),
    ],
)
def test_what_the_caller_can_mend_is_not_asked_again(
    api: responses.RequestsMock, client: GitHubClient, time: FakeTime, status: int, words: list[str]
) -> None:
    api.get(f"{APP}/branches/main", status=status, json={"message": "Nope"})

    with pytest.raises(InputError) as caught:
        client.branch_sha(HOME, "main")

    assert all(word in str(caught.value) for word in words)
    assert TOKEN not in str(caught.value)
    assert (client.requests, time.slept) == (1, [])


def test_without_a_token_a_401_says_that_one_is_needed(api: responses.RequestsMock, time: FakeTime) -> None:
    api.get(APP, status=401, json={"message": "Requires authentication"})

    with pytest.raises(InputError, match="wants a token"):
        GitHubClient(API, None, time.clock()).repository("octo/app")


@pytest.mark.parametrize("status", [204, 206, 300, 303, 304, 400, 405, 418, 422, 501])
def test_any_other_status_is_an_error_that_names_it(
    api: responses.RequestsMock, client: GitHubClient, status: int
) -> None:
    api.get(APP, status=status)

    with pytest.raises(RunnerE2EError, match=f"HTTP {status}") as caught:
        client.repository("octo/app")

    assert type(caught.value) is RunnerE2EError


# Waiting


def limited(status: int, message: str = "x", **headers: str) -> dict[str, Any]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return {"status": status, "headers": named, "json": {"message": message}}


def exhausted(status: int, resets_in: int, message: str = "x") -> dict[str, Any]:
    return limited(status, message, x_ratelimit_remaining="0", x_ratelimit_reset=str(int(NOW) + resets_in))


@pytest.mark.parametrize(
    ("answer", "waited"),
    [
        pytest.param(limited(429, retry_after="7"), 7, id="429-retry-after"),
        pytest.param(limited(403, retry_after="7"), 7, id="403-retry-after"),
        pytest.param(limited(403, retry_after="7.0"), 7, id="as-a-fraction"),
        pytest.param(exhausted(403, 20, "API rate limit exceeded for 1.2.3.4."), 21, id="primary"),
        pytest.param(exhausted(429, 20), 21, id="primary-as-429"),
        pytest.param(exhausted(429, -90), 1, id="past"),
        pytest.param(limited(429, retry_after="Fri, 15 Jan 2027 08:00:30 GMT"), 30, id="retry-after-date"),
    ],
)
def test_a_rate_limit_that_ends_soon_is_waited_for(
    api: responses.RequestsMock,
    client: GitHubClient,
    time: FakeTime,
    answer: Mapping[str, Any],
    waited: float,
) -> None:
    api.get(APP, **answer)
    api.get(APP, json=REPOSITORY)

    assert client.repository("octo/app") == HOME
    assert time.slept == [waited]


@pytest.mark.parametrize(
    ("answer", "until"),
    [
        pytest.param(limited(429, retry_after="61"), "2027-01-15T08:01:01", id="retry-after"),
        pytest.param(exhausted(403, 3600), "2027-01-15T09:00:01", id="primary"),
        pytest.param(
            limited(403, "You have exceeded a secondary rate limit. Please wait."),
            "2027-01-15T08:01:00",
            id="secondary",
        ),
        pytest.param(limited(429), "2027-01-15T08:01:00", id="bare-429"),
        pytest.param(limited(429, retry_after="soon"), "2027-01-15T08:01:00", id="unreadable"),
        pytest.param(limited(429, retry_after="-5"), "2027-01-15T08:01:00", id="negative"),
        pytest.param(limited(429, retry_after="9" * 11), "5195-", id="endless"),
        pytest.param(limited(429, retry_after="9" * 400), "2027-01-15T08:01:00", id="absurd"),
        pytest.param(limited(429, retry_after="Mon, 99 Foo 2027"), "2027-01-15T08:01:00", id="no-date"),
    ],
)
def test_a_rate_limit_beyond_the_budget_says_when_it_ends(
    api: responses.RequestsMock, time: FakeTime, answer: Mapping[str, Any], until: str
) -> None:
    # The request itself takes a moment, so that a whole minute no longer fits.
    ticks = count(0.0, 0.5)
    clock = Clock(time.sleep, lambda: next(ticks), lambda: NOW, lambda: 0.0)
    api.get(APP, **answer)

    with pytest.raises(TransientInfrastructureError) as caught:
        GitHubClient(API, TOKEN, clock).repository("octo/app")

    assert until in str(caught.value)
    assert time.slept == []


def test_a_limit_header_with_requests_left_is_no_rate_limit(
    api: responses.RequestsMock, client: GitHubClient
) -> None:
    message = "Resource not accessible by integration"
    answer = limited(403, message, x_ratelimit_remaining="4999", x_ratelimit_limit="5000")
    api.get(APP, **answer)

    with pytest.raises(InputError, match="contents: read"):
        client.repository("octo/app")


@pytest.mark.parametrize("status", [202, 408, 500, 502, 503, 504])
def test_a_server_that_recovers_is_asked_again(
    api: responses.RequestsMock, client: GitHubClient, time: FakeTime, status: int
) -> None:
    api.get(APP, status=status, body="<html>")
    api.get(APP, status=status, body="")
    api.get(APP, json=REPOSITORY)

    assert client.repository("octo/app") == HOME
    assert time.slept == [1, 2]


def test_the_pause_that_a_busy_server_asks_for_is_kept(
    api: responses.RequestsMock, client: GitHubClient, time: FakeTime
) -> None:
    api.get(APP, status=503, headers={"Retry-After": "9"})
    api.get(APP, json=REPOSITORY)

    client.repository("octo/app")

    assert time.slept == [9]


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(requests.ConnectionError(f"refused {TOKEN}"), id="connection"),
        pytest.param(requests.ReadTimeout("slow"), id="read-timeout"),
        pytest.param(requests.ConnectTimeout("slow"), id="connect-timeout"),
        pytest.param(requests.exceptions.SSLError("bad certificate"), id="certificate"),
        pytest.param(requests.exceptions.ProxyError("proxy"), id="proxy"),
        pytest.param(requests.exceptions.ChunkedEncodingError("cut"), id="cut-off"),
        pytest.param(requests.exceptions.ContentDecodingError("gzip"), id="encoding"),
        pytest.param(requests.TooManyRedirects("loop"), id="redirects"),
    ],
)
def test_a_connection_that_never_works_ends_in_a_transient_error(
    api: responses.RequestsMock, client: GitHubClient, time: FakeTime, failure: Exception
) -> None:
    api.get(APP, body=failure)

    with pytest.raises(TransientInfrastructureError) as caught:
        client.repository("octo/app")

    assert type(failure).__name__ in str(caught.value)
    assert TOKEN not in str(caught.value)
    assert client.requests == MAX_TRIES
    assert time.slept == [1, 2, 4, 8, 16]


def test_a_server_that_stays_down_is_given_up_with_its_status(
    api: responses.RequestsMock, client: GitHubClient
) -> None:
    api.get(APP, status=502)

    with pytest.raises(TransientInfrastructureError, match="HTTP 502"):
        client.repository("octo/app")


def test_all_requests_share_one_budget(api: responses.RequestsMock, time: FakeTime) -> None:
    client = GitHubClient(API, TOKEN, time.clock(chance=0.99))
    busy = {"status": 503, "headers": {"Retry-After": "25"}}
    for answer in (busy, {"json": REPOSITORY}, busy):
        api.get(APP, **answer)

    assert client.repository("octo/app") == HOME
    with pytest.raises(TransientInfrastructureError, match="HTTP 503"):
        client.repository("octo/app")

    assert 25 <= sum(time.slept) <= BUDGET_S


def test_pauses_are_spread_by_chance(api: responses.RequestsMock, time: FakeTime) -> None:
    api.get(APP, status=503, headers={"Retry-After": "10"})
    api.get(APP, json=REPOSITORY)

    GitHubClient(API, TOKEN, time.clock(chance=0.5)).repository("octo/app")

    assert time.slept == [12.5]


def test_tries_that_take_long_use_the_budget_up(api: responses.RequestsMock) -> None:
    time = FakeTime()

    def hang(_: requests.PreparedRequest) -> tuple[int, dict[str, str], str]:
        time.at += 15
        raise requests.ReadTimeout

    api.add_callback(responses.GET, APP, callback=hang)

    with pytest.raises(TransientInfrastructureError, match="ReadTimeout"):
        GitHubClient(API, TOKEN, time.clock()).repository("octo/app")

    assert time.at <= BUDGET_S + 15


# Malformed answers


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("", id="empty"),
        pytest.param("{", id="cut-off"),
        pytest.param("<html>Sign in</html>", id="html"),
        pytest.param("null", id="null"),
        pytest.param("[]", id="list"),
        pytest.param("{}", id="no-fields"),
        pytest.param("[" * 100_000, id="nested"),
        pytest.param('{"name": "main"}', id="no-commit"),
        pytest.param('{"name": "main", "commit": null}', id="null-commit"),
        pytest.param('{"name": "main", "commit": {"sha": null}}', id="null-sha"),
        pytest.param('{"name": "main", "commit": {"sha": 1}}', id="number"),
        pytest.param(json.dumps(branch(sha="a" * 39)), id="short-sha"),
        pytest.param(json.dumps(branch(sha="a" * 64)), id="sha-256"),
        pytest.param(json.dumps(branch(sha="A" * 40)), id="capitals"),
        pytest.param(json.dumps(branch(sha="a" * 40 + "\n")), id="line-end"),
        pytest.param(json.dumps(branch(sha="g" * 40)), id="no-hexadecimal"),
    ],
)
def test_a_malformed_answer_is_an_error_and_not_asked_again(
    api: responses.RequestsMock, client: GitHubClient, body: str
) -> None:
    api.get(f"{APP}/branches/main", body=body, content_type="application/json; charset=utf-8")

    with pytest.raises(RunnerE2EError, match="malformed") as caught:
        client.branch_sha(HOME, "main")

    assert type(caught.value) is RunnerE2EError
    assert client.requests == 1


@pytest.mark.parametrize(
    "change",
    [
        {"id": "7"},
        {"id": 0},
        {"id": True},
        {"id": 7.0},
        {"full_name": "octo"},
        {"full_name": "octo/app/../x"},
        {"full_name": None},
        {"default_branch": ""},
    ],
)
def test_a_repository_without_a_proper_identity_is_malformed(
    api: responses.RequestsMock, client: GitHubClient, change: Mapping[str, object]
) -> None:
    api.get(APP, json={**REPOSITORY, **change})

    with pytest.raises(RunnerE2EError, match="malformed"):
        client.repository("octo/app")


@pytest.mark.parametrize("value", ["x", "nan", "inf", ""])
def test_a_malformed_rate_limit_header_is_no_traceback(
    api: responses.RequestsMock, client: GitHubClient, value: str
) -> None:
    api.get(APP, json=REPOSITORY, headers={"x-ratelimit-remaining": value, "x-ratelimit-limit": "5000"})

    with pytest.raises(RunnerE2EError, match="malformed"):
        client.repository("octo/app")


# Git objects


def item(path: str, mode: str = "100644", size: int | None = 3) -> dict[str, Any]:
    kind = {"040000": "tree", "160000": "commit"}.get(mode, "blob")
    return {"path": path, "mode": mode, "type": kind, "sha": SHA, **({} if size is None else {"size": size})}


def test_a_commit_leads_to_its_tree(api: responses.RequestsMock, client: GitHubClient) -> None:
    api.get(f"{APP}/git/commits/{SHA}", json={"sha": SHA, "tree": {"sha": OTHER}})

    assert client.objects(HOME).tree_of(SHA) == OTHER


def test_a_tree_lists_modes_and_sizes(api: responses.RequestsMock, client: GitHubClient) -> None:
    items = [
        item("a.ts"),
        item("dir", "040000", None),
        item("link", "120000", 9),
        item("sub", "160000", None),
    ]
    api.get(f"{APP}/git/trees/{SHA}", json={"sha": SHA, "tree": items, "truncated": False})

    listing = client.objects(HOME).entries(SHA)

    assert listing.complete
    assert listing.entries == {
        "a.ts": Entry(0o100644, SHA, 3),
        "dir": Entry(0o040000, SHA),
        "link": Entry(0o120000, SHA, 9),
        "sub": Entry(0o160000, SHA),
    }


def test_a_truncated_tree_is_not_complete(api: responses.RequestsMock, client: GitHubClient) -> None:
    api.get(f"{APP}/git/trees/{SHA}", json={"sha": SHA, "tree": [item("a")], "truncated": True})

    assert not client.objects(HOME).entries(SHA).complete


@pytest.mark.parametrize(
    "tree",
    [
        pytest.param({"sha": SHA, "tree": []}, id="unknown-whether-complete"),
        pytest.param({"sha": OTHER, "tree": [], "truncated": False}, id="another-tree"),
        pytest.param({"sha": SHA, "tree": [item("a"), item("a")], "truncated": False}, id="twice"),
        pytest.param({"sha": SHA, "tree": [item("a", mode="100999")], "truncated": False}, id="mode"),
        pytest.param({"sha": SHA, "tree": [item("a", size=-1)], "truncated": False}, id="negative-size"),
        pytest.param({"sha": SHA, "tree": [item("")], "truncated": False}, id="empty-name"),
        pytest.param({"sha": SHA, "tree": {}, "truncated": False}, id="no-list"),
    ],
)
def test_a_tree_that_contradicts_itself_is_malformed(
    api: responses.RequestsMock, client: GitHubClient, tree: Mapping[str, object]
) -> None:
    api.get(f"{APP}/git/trees/{SHA}", json=tree)

    with pytest.raises(RunnerE2EError, match="malformed"):
        client.objects(HOME).entries(SHA)


def test_another_commit_than_asked_for_is_malformed(
    api: responses.RequestsMock, client: GitHubClient
) -> None:
    api.get(f"{APP}/git/commits/{SHA}", json={"sha": OTHER, "tree": {"sha": SHA}})

    with pytest.raises(RunnerE2EError, match="malformed"):
        client.objects(HOME).tree_of(SHA)


@pytest.mark.parametrize(
    ("encoding", "encode"),
    [
        pytest.param("base64", lambda data: base64.encodebytes(data).decode(), id="base64-in-lines"),
        pytest.param("utf-8", lambda data: data.decode(), id="utf-8"),
    ],
)
def test_a_file_arrives_as_its_bytes(
    api: responses.RequestsMock, client: GitHubClient, encoding: str, encode: Callable[[bytes], str]
) -> None:
    content = "näh\r\n".encode() * 100
    api.get(
        f"{APP}/git/blobs/{SHA}",
        json={"sha": SHA, "content": encode(content), "encoding": encoding, "size": len(content)},
    )

    assert client.objects(HOME).blob(Entry(0o100644, SHA, len(content))) == content


@pytest.mark.parametrize(
    "blob",
    [
        pytest.param({"sha": SHA, "content": "***", "encoding": "base64"}, id="no-base64"),
        pytest.param({"sha": SHA, "content": "YQ", "encoding": "base64"}, id="cut-off"),
        pytest.param({"sha": SHA, "content": "é", "encoding": "base64"}, id="non-ascii"),
        pytest.param({"sha": SHA, "content": "a", "encoding": "none"}, id="unknown-encoding"),
        pytest.param({"sha": SHA, "content": None, "encoding": "base64"}, id="no-content"),
        pytest.param({"sha": OTHER, "content": "", "encoding": "base64"}, id="another-file"),
    ],
)
def test_a_file_that_cannot_be_decoded_is_malformed(
    api: responses.RequestsMock, client: GitHubClient, blob: Mapping[str, object]
) -> None:
    api.get(f"{APP}/git/blobs/{SHA}", json=blob)

    with pytest.raises(RunnerE2EError, match="malformed"):
        client.objects(HOME).blob(Entry(0o100644, SHA, 1))


def test_a_file_that_is_listed_as_too_large_is_not_asked_for(client: GitHubClient) -> None:
    with pytest.raises(LargeObjectError):
        client.objects(HOME).blob(Entry(0o100644, SHA, MAX_FILE_BYTES + 1))

    assert client.requests == 0


# Limits


def test_all_requests_together_have_one_deadline(api: responses.RequestsMock, time: FakeTime) -> None:
    def dawdle(_: requests.PreparedRequest) -> tuple[int, dict[str, str], str]:
        time.at += DEADLINE_S / 3
        return 200, {}, json.dumps(REPOSITORY)

    api.add_callback(responses.GET, APP, callback=dawdle)
    client = GitHubClient(API, TOKEN, time.clock())
    time.at = 9_000.0  # what happens before the first request does not count
    for _ in range(3):
        assert client.repository("octo/app") == HOME

    with pytest.raises(TransientInfrastructureError, match="120 s"):
        client.repository("octo/app")

    assert client.requests == 3


def test_no_pause_reaches_beyond_the_deadline(api: responses.RequestsMock, time: FakeTime) -> None:
    api.get(APP, status=503, headers={"Retry-After": "20"})

    with pytest.raises(TransientInfrastructureError, match="within the 25 s"):
        GitHubClient(API, TOKEN, time.clock(chance=0.99), deadline_s=25).repository("octo/app")

    assert (time.slept, time.at) == ([25], 25)


@pytest.mark.parametrize("within_s", [0.0, 0.01])
def test_an_answer_that_does_not_come_is_not_waited_for(api: responses.RequestsMock, within_s: float) -> None:
    asked, gate, answered = threading.Event(), threading.Event(), threading.Event()

    def hang(_: requests.PreparedRequest) -> tuple[int, dict[str, str], str]:
        asked.set()
        gate.wait(2)
        answered.set()
        return 200, {}, ""

    api.add_callback(responses.GET, f"{SENT}/x", callback=hang)
    try:
        with pytest.raises(TimeoutError):
            Transport(API, TOKEN).send("/x", within_s, 1000)
    finally:
        # The thread of the request must have come to its end before the mock goes away.
        assert asked.wait(10)
        gate.set()
        assert answered.wait(10)


@pytest.mark.parametrize(
    ("limit", "complete"),
    [pytest.param(9, False, id="above"), pytest.param(10, True, id="at"), pytest.param(11, True, id="below")],
)
def test_a_body_is_cut_off_at_the_limit_of_its_decoded_bytes(
    api: responses.RequestsMock, limit: int, complete: bool
) -> None:
    api.get(f"{SENT}/x", body=gzip.compress(b"0123456789"), headers={"Content-Encoding": "gzip", "X-A": "b"})

    answer = Transport(API, None).send("/x", 60, limit)

    assert not isinstance(answer, str)
    assert (answer.status, answer.headers["x-a"], answer.complete) == (200, "b", complete)
    assert answer.body == "0123456789"[:limit]


def test_a_body_that_explodes_does_not_fill_the_memory(
    api: responses.RequestsMock, client: GitHubClient
) -> None:
    bomb = gzip.compress(bytes(16 * MAX_ANSWER_BYTES))
    api.get(APP, body=bomb, headers={"Content-Encoding": "gzip"})

    tracemalloc.start()
    try:
        with pytest.raises(RunnerE2EError, match=f"more than {MAX_ANSWER_BYTES} bytes") as caught:
            client.repository("octo/app")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert type(caught.value).exit_code == RunnerE2EError.exit_code
    assert not isinstance(caught.value, InputError | TransientInfrastructureError)
    assert peak < 5 * MAX_ANSWER_BYTES
    assert client.requests == 1


def test_an_error_page_without_end_is_judged_by_its_status(
    api: responses.RequestsMock, client: GitHubClient
) -> None:
    api.get(APP, status=404, body=b"x" * (MAX_ANSWER_BYTES + 1))

    with pytest.raises(InputError, match="HTTP 404"):
        client.repository("octo/app")


@pytest.mark.parametrize(
    ("size", "kind"),
    [
        pytest.param(None, LargeObjectError, id="unlisted"),
        pytest.param(3, RunnerE2EError, id="listed-as-small"),
    ],
)
def test_a_file_that_arrives_too_large_is_not_read_on(
    api: responses.RequestsMock, client: GitHubClient, size: int | None, kind: type[RunnerE2EError]
) -> None:
    body = json.dumps({"sha": SHA, "content": "A" * MAX_BLOB_ANSWER_BYTES, "encoding": "base64"})
    api.get(f"{APP}/git/blobs/{SHA}", body=body)

    with pytest.raises(kind) as caught:
        client.objects(HOME).blob(Entry(0o100644, SHA, size))

    assert isinstance(caught.value, InputError) == (size is None)


def test_a_file_at_the_limit_fits_into_its_answer(api: responses.RequestsMock, client: GitHubClient) -> None:
    content = b"x" * MAX_FILE_BYTES
    encoded = base64.b64encode(content).decode()
    lines = "\n".join(encoded[start : start + 60] for start in range(0, len(encoded), 60)) + "\n"
    api.get(
        f"{APP}/git/blobs/{SHA}",
        json={"sha": SHA, "content": lines, "encoding": "base64", "url": "x" * 500, "size": len(content)},
    )

    assert client.objects(HOME).blob(Entry(0o100644, SHA, len(content))) == content


@pytest.mark.parametrize(
    ("url", "used"),
    [
        pytest.param("http://127.0.0.1:8080", None, id="this-machine"),
        pytest.param(API, "http://proxy.example.com:3128", id="https"),
    ],
)
def test_only_https_goes_through_a_proxy(
    api: responses.RequestsMock, monkeypatch: pytest.MonkeyPatch, url: str, used: str | None
) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name.upper(), raising=False)
        monkeypatch.setenv(name, "" if name in {"no_proxy", "all_proxy"} else "http://proxy.example.com:3128")
    api.get(re.compile(".*"), json=REPOSITORY)

    assert GitHubClient(url, TOKEN, FakeTime().clock()).repository("octo/app") == HOME

    proxies = api.calls[0].request.req_kwargs["proxies"]  # type: ignore[attr-defined] # of `responses`
    assert proxies.get(url.partition(":")[0]) == used


# Silence


def test_nothing_of_a_request_is_logged_or_printed(
    api: responses.RequestsMock,
    time: FakeTime,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    logging.getLogger("github.Requester").setLevel(logging.DEBUG)
    api.get(APP, status=500, body=TOKEN)
    api.get(APP, json=REPOSITORY)

    GitHubClient(API, TOKEN, time.clock()).repository("octo/app")

    assert [record for record in caplog.records if record.name.startswith(("github", "urllib3"))] == []
    assert TOKEN not in caplog.text + "".join(capsys.readouterr())
