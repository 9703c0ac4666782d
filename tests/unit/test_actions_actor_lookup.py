"""The request for an account's id, and what each answer to it means."""

import json
from urllib.request import Request

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner_e2e.actions.actor_lookup import (
    MAX_ANSWER_BYTES,
    Answer,
    build_request,
    look_up_id,
    read_answer,
)
from runner_e2e.errors import InputError, RunnerE2EError, TransientInfrastructureError

API = "https://api.github.com"
TOKEN = "ghs_a-secret-token"


def answer(status: int = 200, body: object = None, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, named, json.dumps(body).encode())


@pytest.mark.parametrize(
    ("login", "api_url", "url"),
    [
        pytest.param("octo-cat", API, f"{API}/users/octo-cat", id="user"),
        pytest.param("hubot[bot]", API, f"{API}/users/hubot%5Bbot%5D", id="bot"),
        pytest.param("a_b", f"{API}/", f"{API}/users/a_b", id="slash-at-the-end"),
        pytest.param(
            "a", "https://ghe.example:8443/api/v3", "https://ghe.example:8443/api/v3/users/a", id="ghe"
        ),
        pytest.param("a", "http://127.0.0.1:80", "http://127.0.0.1:80/users/a", id="loopback"),
        pytest.param("a", "http://[::1]:80", "http://[::1]:80/users/a", id="loopback-6"),
    ],
)
def test_the_question_goes_to_the_api_with_the_token_in_its_header(
    login: str, api_url: str, url: str
) -> None:
    request = build_request(login, api_url, TOKEN)

    assert request.full_url == url
    assert request.get_method() == "GET"
    assert request.get_header("Authorization") == f"Bearer {TOKEN}"
    assert TOKEN not in request.full_url


@pytest.mark.parametrize(
    "api_url",
    [
        "",
        "api.github.com",
        "http://api.github.com",
        "http://127.0.0.1.example.com",
        "http://localhost.example.com",
        "http://127.0.0.1@example.com",
        "http://127.0.0.2",
        "https://user:word@api.github.com",
        "https://api.github.com?x=",
        "https://api.github.com#x",
        "https://api.github.com/a b",
        "https://api.github.com\n",
        "https://api.github.com\r\nX: y",
        "https://",
        "https:///users",
        "https://api.github.com:port",
        "HTTP://api.github.com",
        "file:///etc",
        "ftp://127.0.0.1",
        "data:,{}",
        "https://ap\u0456.github.com",
    ],
)
def test_an_address_that_is_no_https_one_is_refused(api_url: str) -> None:
    with pytest.raises(InputError, match="GITHUB_API_URL") as caught:
        build_request("octo-cat", api_url, TOKEN)

    assert TOKEN not in str(caught.value)
    assert not api_url or api_url not in str(caught.value)


@pytest.mark.parametrize("token", ["", "a b", "a\nX: y", "a\r", "t\u00f6ken", "\x7f", "\ud800", "x" * 4097])
def test_a_token_that_is_none_is_refused_without_repeating_it(token: str) -> None:
    with pytest.raises(InputError) as caught:
        build_request("octo-cat", API, token)

    assert "github-token" in caught.value.remedy
    assert not token or token not in str(caught.value)


@given(st.text(max_size=12))
def test_a_login_never_leads_to_another_resource(login: str) -> None:
    try:
        request = build_request(login, API, TOKEN)
    except InputError:
        return

    assert request.selector.count("/") == 2
    assert request.selector.startswith("/users/")
    assert not set("?#.;\\\r\n ") & set(request.selector)


def test_the_id_of_the_account_is_returned() -> None:
    body = {"login": "Octo-Cat", "id": 583231, "type": "User"}
    asked: list[Request] = []

    def fetch(request: Request) -> Answer:
        asked.append(request)
        return answer(body=body)

    assert look_up_id("octo-cat", API, TOKEN, fetch) == 583231
    assert len(asked) == 1


@pytest.mark.parametrize(
    "body",
    [
        pytest.param({"login": "mallory", "id": 1}, id="other-account"),
        pytest.param({"login": "octo-cat[bot]", "id": 1}, id="bot-of-that-name"),
        pytest.param({"id": 1}, id="no-login"),
        pytest.param({"login": None, "id": 1}, id="null-login"),
        pytest.param({"login": "octo-cat"}, id="no-id"),
        pytest.param({"login": "octo-cat", "id": 0}, id="zero"),
        pytest.param({"login": "octo-cat", "id": -1}, id="negative"),
        pytest.param({"login": "octo-cat", "id": True}, id="boolean"),
        pytest.param({"login": "octo-cat", "id": "1"}, id="text"),
        pytest.param({"login": "octo-cat", "id": 1.0}, id="float"),
        pytest.param({"login": "octo-cat", "id": 2**53 + 1}, id="too-large"),
        pytest.param([{"login": "octo-cat", "id": 1}], id="list"),
        pytest.param(None, id="null"),
    ],
)
def test_an_answer_about_something_else_is_refused(body: object) -> None:
    with pytest.raises(InputError, match="something else than account octo-cat"):
        read_answer("octo-cat", answer(body=body))


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"<html>", id="page"),
        pytest.param(b'{"login": "octo-cat", "id": 1', id="cut-off"),
        pytest.param(b'{"login": "octo-cat", "id": 2, "id": 1}', id="duplicate-key"),
        pytest.param(b"\xff", id="not-utf-8"),
        pytest.param(b"[" * 100_000, id="endless-nesting"),
        pytest.param(b'{"login": "octo-cat", "id": 1}' + b" " * MAX_ANSWER_BYTES, id="too-large"),
    ],
)
def test_an_answer_that_is_no_json_is_worth_another_try_without_its_text(body: bytes) -> None:
    with pytest.raises(TransientInfrastructureError, match="GitHub's API answered") as caught:
        read_answer("octo-cat", Answer(200, {}, body))

    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("refusal", "kind", "exit_code", "remedy"),
    [
        pytest.param(answer(404), InputError, 2, "Start a new run", id="unknown"),
        pytest.param(answer(401), InputError, 2, "github-token", id="bad-token"),
        pytest.param(answer(403), InputError, 2, "github-token", id="forbidden"),
        pytest.param(
            answer(403, x_ratelimit_remaining="4999"), InputError, 2, "github-token", id="forbidden-with-rate"
        ),
        pytest.param(
            answer(403, x_ratelimit_remaining="0"), TransientInfrastructureError, 3, "again", id="exhausted"
        ),
        pytest.param(
            answer(403, retry_after="60"), TransientInfrastructureError, 3, "again", id="secondary-limit"
        ),
        pytest.param(answer(429, retry_after="60"), TransientInfrastructureError, 3, "again", id="too-many"),
        pytest.param(answer(429), TransientInfrastructureError, 3, "again", id="too-many-without-header"),
        pytest.param(answer(408), TransientInfrastructureError, 3, "again", id="timed-out"),
        pytest.param(answer(500), TransientInfrastructureError, 3, "again", id="broken"),
        pytest.param(answer(503), TransientInfrastructureError, 3, "again", id="unavailable"),
        pytest.param(answer(301, location="https://x"), InputError, 2, "new run", id="moved"),
        pytest.param(answer(304), InputError, 2, "new run", id="not-modified"),
        pytest.param(answer(204), RunnerE2EError, 3, "again", id="no-content"),
        pytest.param(answer(418), RunnerE2EError, 3, "again", id="something-else"),
    ],
)
def test_a_refusal_is_told_apart_by_who_can_mend_it(
    refusal: Answer, kind: type[RunnerE2EError], exit_code: int, remedy: str
) -> None:
    with pytest.raises(kind) as caught:
        read_answer("octo-cat", refusal)

    assert type(caught.value) is kind
    assert caught.value.exit_code == exit_code
    assert remedy in caught.value.remedy


@given(st.integers(100, 599).filter(lambda status: status != 200))
def test_no_other_status_gives_an_id(status: int) -> None:
    with pytest.raises(RunnerE2EError):
        read_answer("octo-cat", answer(status, {"login": "octo-cat", "id": 583231}))
