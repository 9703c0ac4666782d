"""What looks like a secret, and what only sounds like one."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner_e2e.evidence.shapes import names_secret
from runner_e2e.plan.definitions import CredentialName
from runner_e2e.plan.secret_values import (
    find_named_secrets,
    find_secret_shape,
    find_shaped_lines,
    find_shaped_values,
)

HEX = "0123456789abcdef"
LETTERS = "abcdefghijklmnopqrstuvwxyz"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.c2lnbmF0dXJl"

SHAPES = [
    pytest.param(f"sk-{HEX}{HEX}", "a provider's key (sk-...)", id="openai"),
    pytest.param(f"sk-{LETTERS}", "a provider's key (sk-...)", id="openai-without-digits"),
    pytest.param(f"sk-proj-{LETTERS}", "a provider's key (sk-...)", id="openai-project"),
    pytest.param(f"sk-svcacct-{HEX}", "a provider's key (sk-...)", id="openai-service"),
    pytest.param(f"sk-ant-api03-{LETTERS}-{HEX}", "a provider's key (sk-...)", id="anthropic"),
    pytest.param("sk-ant-abcdefghij", "a provider's key (sk-...)", id="anthropic-short"),
    pytest.param(f"sk-or-v1-{HEX}{HEX}", "a provider's key (sk-...)", id="openrouter"),
    pytest.param(f"ghp_{LETTERS}0123456789", "a GitHub token", id="ghp"),
    pytest.param(f"gho_{LETTERS}0123456789", "a GitHub token", id="gho"),
    pytest.param(f"ghs_{LETTERS}0123456789", "a GitHub token", id="ghs"),
    pytest.param(f"ghu_{LETTERS}0123456789", "a GitHub token", id="ghu"),
    pytest.param(f"ghr_{LETTERS}0123456789", "a GitHub token", id="ghr"),
    pytest.param(f"github_pat_11ABCDEFG0_{LETTERS}", "a GitHub token", id="fine-grained"),
    pytest.param(f"glpat-{LETTERS}", "a GitLab token", id="gitlab"),
    pytest.param("AKIAIOSFODNN7EXAMPLE", "an AWS key id", id="akia"),
    pytest.param("ASIAIOSFODNN7EXAMPLE", "an AWS key id", id="asia"),
    pytest.param(f"AIza{HEX}{HEX}abc", "a Google key", id="google"),
    pytest.param(f"xai-{LETTERS}", "an xAI key", id="xai"),
    pytest.param("xoxb-1234567890-abcdef", "a Slack token", id="slack-bot"),
    pytest.param("xoxp-1234567890-abcdef", "a Slack token", id="slack-person"),
    pytest.param(f"dtn_{HEX}{HEX}", "a Daytona key", id="daytona"),
    pytest.param(f"npm_{LETTERS}0123456789", "an npm token", id="npm"),
    pytest.param(f"hf_{LETTERS}01234567", "a Hugging Face token", id="hugging-face"),
    pytest.param(f"gsk_{LETTERS}{HEX}", "a Groq key", id="groq"),
    pytest.param(f"pplx-{LETTERS}{HEX}", "a Perplexity key", id="perplexity"),
    pytest.param(f"r8_{LETTERS}{HEX}", "a Replicate token", id="replicate"),
    pytest.param(f"nvapi-{LETTERS}_-{HEX}", "an NVIDIA key", id="nvidia"),
    pytest.param(f"sk_live_{LETTERS}", "a Stripe key", id="stripe"),
    pytest.param(JWT, "a signed token (JWT)", id="jwt"),
    pytest.param("-----BEGIN OPENSSH PRIVATE KEY-----", "a PEM block", id="openssh"),
    pytest.param("-----BEGIN PRIVATE KEY-----\nMIIE", "a PEM block", id="pkcs8"),
    pytest.param("https://me:hunter2@example.com/x", "a URL with a password", id="https"),
    pytest.param("postgres://app:pa55@db:5432/app", "a URL with a password", id="postgres"),
    pytest.param("redis://:pa55@cache", "a URL with a password", id="no-user"),
    pytest.param(f"Authorization: Bearer {HEX}{HEX}", "an authorization header", id="bearer"),
    pytest.param(f"authorization: bearer {LETTERS}1", "an authorization header", id="small-bearer"),
    pytest.param("Basic dXNlcjpodW50ZXIy", "an authorization header", id="basic"),
    pytest.param("Basic dXNlcjpodW50ZXI=", "an authorization header", id="basic-padded"),
    pytest.param(f"curl -d api_key={HEX}", "an assignment of a key, token or password", id="assignment"),
    pytest.param(f"MY_TOKEN='{HEX}'", "an assignment of a key, token or password", id="shell-assignment"),
]
PROSE = [
    "Ask for the secret, and never print the token or the password.",
    "Use the API key that the harness gives you.",
    "Bearer authentication-and-authorization is explained in RFC 6750.",
    "Basic authentication is not enough; basic Authentication neither.",
    "Set Authorization: Bearer {token} and https://{user}:{password}@example.com.",
    "http://127.0.0.1:3100/api and http://localhost:54329, mail to a@example.com:",
    "git@github.com:owner/name.git and ssh://git@github.com/owner/name",
    "Write risk-assessment-2026-01-report.md and task-list-of-the-week-number-12.",
    "sk-learn and desk-1234567890123456 and sk-short-1",
    "openrouter/deepseek/deepseek-v4-flash-0731",
    "max_tokens=4096, token=abc, password={nonce}, api_key=$OPENROUTER_API_KEY",
    "eyJ is how a JWT begins, and AKIA how a key id does; ghp_ and dtn_ are others.",
    "xoxo-hugs and foxox-1234567890123",
    "-----BEGIN of a line-----",
    "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
    "3f2504e0-4f89-11d3-9a0c-0305e82c3301",
]


@pytest.mark.parametrize(("text", "kind"), SHAPES)
def test_a_known_shape_is_found_wherever_it_stands(text: str, kind: str) -> None:
    for whole in (text, f"before {text} after", f'"{text}"', f"a\n{text}\nb", f"key: {text}", f"({text})"):
        assert find_secret_shape(whole) == kind
        assert [found for _, found in find_shaped_lines(whole)] == [kind]


@pytest.mark.parametrize("text", PROSE)
def test_prose_about_secrets_is_no_secret(text: str) -> None:
    assert find_secret_shape(text) is None


def test_lines_are_counted_from_one() -> None:
    text = f"a\nghp_{LETTERS}\n\nb ghp_{LETTERS} c\nsk-{LETTERS}"

    assert sorted(line for line, _ in find_shaped_lines(text)) == [2, 4, 5]


def test_values_and_keys_are_searched_at_any_depth() -> None:
    key = f"sk-{LETTERS}"
    value = {"a": [{"b": key}, {key: 1}], "c": {"d": "plain"}, "e": key}

    assert list(find_shaped_values(value, ("top",))) == [
        (("top", "a", 0, "b"), "a provider's key (sk-...)"),
        (("top", "a", 1), "a provider's key (sk-...) as a key"),
        (("top", "e"), "a provider's key (sk-...)"),
    ]


@pytest.mark.parametrize(
    "name",
    [
        *("apiKey", "api_key", "api-key", "APIKey", "apikey", "OPENROUTER_API_KEY", "x-api-key", "token"),
        *(
            "accessToken",
            "authToken",
            "GITHUB_TOKEN",
            "tokens",
            "secret",
            "clientSecret",
            "password",
            "PASSWORD",
        ),
        *("dbPassword", "passwd", "passphrase", "authorization", "Authorization", "Proxy-Authorization"),
        *("privateKey", "private_key", "secretKey", "accessKey", "signingKey", "masterKey", "token2"),
    ],
)
def test_a_name_says_that_its_value_is_a_secret(name: str) -> None:
    assert names_secret(name)


@pytest.mark.parametrize(
    "name",
    [
        *("", "7", "key", "primaryKey", "configurationKey", "publicKey", "keyboard", "tokenUrl", "tokenizer"),
        *(
            "secretRef",
            "secretName",
            "passwordPolicy",
            "authorizationUrl",
            "credential",
            "text",
            "monkey",
            "äöü",
        ),
    ],
)
def test_a_name_that_only_sounds_like_one_does_not(name: str) -> None:
    assert not names_secret(name)


@pytest.mark.parametrize(
    ("value", "places"),
    [
        pytest.param({"apiKey": "x"}, [("apiKey",)], id="text"),
        pytest.param({"password": 1234}, [("password",)], id="number"),
        pytest.param({"a": [{"token": "x"}]}, [("a", 0, "token")], id="deep"),
        pytest.param({"tokens": ["x", "{nonce}"]}, [("tokens", 0)], id="list"),
        pytest.param({"secrets": {"a": {"b": "x"}}}, [("secrets", "a", "b")], id="everything-below"),
        pytest.param(
            {"token": {"secretRef": "not a name"}}, [("token", "secretRef")], id="reference-to-text"
        ),
        pytest.param({"FOO": {"secretRef": "hunter2"}}, [("FOO", "secretRef")], id="reference-elsewhere"),
        pytest.param({"token": {"secretRef": ["A"]}}, [("token", "secretRef")], id="reference-to-list"),
        pytest.param([{"name": "API_KEY", "value": "x"}], [(0, "value")], id="pair"),
        pytest.param([{"key": "authToken", "value": "x"}], [(0, "value")], id="key-pair"),
        pytest.param({"token": "x {nonce}"}, [("token",)], id="more-than-a-placeholder"),
        pytest.param({"token": "Bearer x"}, [("token",)], id="bearer"),
        pytest.param(
            {"token": {"secretRef": "A", "value": "x"}}, [("token", "value")], id="beside-a-reference"
        ),
        pytest.param({"token": {"secretRef": "OPENAI_API_KEY"}}, [], id="reference"),
        pytest.param({"token": "{token}", "authorization": "Bearer {token}"}, [], id="placeholder"),
        pytest.param({"token": "", "password": None, "secret": True}, [], id="no-value"),
        pytest.param({"token": 4096, "maxTokens": 1}, [], id="count"),
        pytest.param({"name": "MODEL", "value": "x"}, [], id="other-pair"),
        pytest.param({"type": "object", "properties": {"token": {"type": "string"}}}, [], id="schema"),
        pytest.param({"properties": {"a": {"token": "x"}}}, [("properties", "a", "token")], id="in-a-schema"),
        pytest.param("token", [], id="no-mapping"),
    ],
)
def test_raw_values_under_secret_names_are_found(value: object, places: list[tuple[str | int, ...]]) -> None:
    assert list(find_named_secrets(value)) == places


@settings(deadline=None)
@given(st.text("sk-ghp_eyJ.AIza=Bearer BasicToken@:/{}0123abc \n'\"", max_size=80))
def test_a_text_holds_a_shape_exactly_when_a_line_is_told(text: str) -> None:
    lines = list(find_shaped_lines(text))

    assert bool(lines) == (find_secret_shape(text) is not None)
    assert all(1 <= line <= text.count("\n") + 1 for line, _ in lines)


NAMES_OF_SECRETS = (
    *("FOO_KEY", "SIGNING_KEYS", "REGISTRY_AUTH", "COOKIE", "SESSION_COOKIE"),
    *("sessionCookie", "credentials", "AWS_CREDENTIALS"),
)


@pytest.mark.parametrize("name", [*get_args(CredentialName), "GITHUB_PAT", "SENTRY_DSN", *NAMES_OF_SECRETS])
def test_a_variable_of_a_secret_is_known_by_its_name(name: str) -> None:
    assert names_secret(name)


@pytest.mark.parametrize(
    "name",
    ["MY_PUBLIC_KEY", "KEYBOARD", "AUTHOR", "MONKEY", "AUTH_URL", "PAT", "PATH", "MY_PATH", "COOKIE_NAME"],
)
def test_a_variable_that_only_sounds_like_one_does_not(name: str) -> None:
    assert not names_secret(name)
