"""Which variables the target's listing command gets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner_e2e.errors import InputError
from runner_e2e.isolation.environment import DEFAULT_SEARCH, build_listing_environment
from runner_e2e.plan.definitions import CREDENTIAL_NAMES
from runner_e2e.plan.selection import SELECTED_ID


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        *(
            pytest.param(name, True, id=name)
            for name in (
                "PATH",
                "HOME",
                "USER",
                "LOGNAME",
                "SHELL",
                "LANG",
                "LC_ALL",
                "TZ",
                "TMPDIR",
                "CI",
                "SSL_CERT_FILE",
                "SSL_CERT_DIR",
                "NODE_EXTRA_CA_CERTS",
                "HTTPS_PROXY",
                "http_proxy",
                "no_proxy",
                "COREPACK_HOME",
                "PNPM_HOME",
                "npm_config_cache",
                "XDG_CACHE_HOME",
                "XDG_DATA_HOME",
                "PLAYWRIGHT_BROWSERS_PATH",
                "PAPERCLIP_E2E_DAYTONA_IMAGE",
            )
        ),
        *(
            pytest.param(name, False, id=name)
            for name in (
                *CREDENTIAL_NAMES,
                SELECTED_ID,
                "PAPERCLIP_E2E_MAX_PARALLEL",
                "PAPERCLIP_RUNNER_E2E_EXECUTION_IDS",
                "PAPERCLIP_E2E_CAMPAIGN_ID",
                "GITHUB_TOKEN",
                "GITHUB_ENV",
                "GITHUB_ACTIONS",
                "ACTIONS_RUNTIME_TOKEN",
                "ACTIONS_ID_TOKEN_REQUEST_URL",
                "RUNNER_TEMP",
                "INPUT_CREDENTIAL",
                "INPUT_KEY_SECRET",
                "NODE_OPTIONS",
                "LD_PRELOAD",
                "BASH_ENV",
                "NPM_TOKEN",
                "npm_config_userconfig",
                "SSH_AUTH_SOCK",
                "lang",
                "path",
            )
        ),
    ],
)
def test_a_listing_gets_what_starts_a_program_and_nothing_else(name: str, *, kept: bool) -> None:
    found = build_listing_environment({name: "a value"}, (), {})

    assert (found.pop(name, None) == "a value") is kept
    assert found == {"TERM": "dumb"} | ({} if name == "PATH" else {"PATH": DEFAULT_SEARCH})


@pytest.mark.parametrize(
    ("proxy", "kept"),
    [
        pytest.param("http://proxy:3128", True, id="address"),
        pytest.param("proxy:3128", True, id="without-scheme"),
        pytest.param("http://proxy/?a@b", True, id="at-sign-elsewhere"),
        pytest.param("http://me:hunter2@proxy:3128", False, id="password"),
        pytest.param("me:hunter2@proxy:3128", False, id="password-without-scheme"),
        pytest.param("socks5h://me@proxy", False, id="user"),
    ],
)
def test_a_proxys_password_is_a_credential(proxy: str, *, kept: bool) -> None:
    found = build_listing_environment({"HTTPS_PROXY": proxy, "all_proxy": proxy}, (), {})

    assert ("HTTPS_PROXY" in found) is ("all_proxy" in found) is kept


def test_the_caller_may_pass_more_and_what_is_not_set_is_left_out() -> None:
    source = {"MISE_DATA_DIR": "/opt/mise", "OTHER": "not asked for"}

    found = build_listing_environment(source, ("MISE_DATA_DIR", "NOT_SET"), {})

    assert found == {"PATH": DEFAULT_SEARCH, "TERM": "dumb", "MISE_DATA_DIR": "/opt/mise"}


def test_a_selected_id_is_there_only_when_it_is_asked_for() -> None:
    inherited = {SELECTED_ID: "core.codex.local.inherited"}
    wanted = {SELECTED_ID: "core.codex.local.wanted"}

    assert SELECTED_ID not in build_listing_environment(inherited, (), {})
    assert build_listing_environment(inherited, (), wanted)[SELECTED_ID] == "core.codex.local.wanted"


@pytest.mark.parametrize(
    "name",
    [
        *CREDENTIAL_NAMES,
        SELECTED_ID,
        "PAPERCLIP_RUNNER_E2E_EXECUTION_IDS",
        "GITHUB_TOKEN",
        "GITHUB_OUTPUT",
        "ACTIONS_CACHE_URL",
        "RUNNER_TEMP",
        "INPUT_CATALOG",
        "github_env",
        "NPM_TOKEN",
        "npm_config__authToken",
        "NODE_AUTH_TOKEN",
        "BASICAUTH",
        "GH_PAT",
        "PGPASSWORD",
        "DB_PASS",
        "DB_PWD",
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "MYAPIKEY",
        "SIGNING_KEYS",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "GPG_PASSPHRASE",
        "SENTRY_DSN",
        "AZURE_SAS",
        "SESSION_COOKIE",
        "SSH_AUTH_SOCK",
        "HTTP_AUTHORIZATION",
        "SERVICE_JWT",
        *(f"{name}_2" for name in CREDENTIAL_NAMES),
    ],
)
def test_what_lets_somebody_in_cannot_be_passed(name: str) -> None:
    with pytest.raises(InputError, match=f"^The variable {name} of pass-env") as refusal:
        build_listing_environment({name: "hunter2-value"}, ("LANG", name), {})

    assert "hunter2-value" not in str(refusal.value)


@pytest.mark.parametrize(
    "name", ["MISE_DATA_DIR", "GIT_AUTHOR", "KEYBOARD", "PATTERN", "COMPASS_MODE", "NODE_OPTIONS", "PASSED"]
)
def test_a_name_that_only_looks_a_little_like_one_can_be_passed(name: str) -> None:
    assert build_listing_environment({name: "value"}, (name,), {})[name] == "value"


@given(
    source=st.dictionaries(
        st.sampled_from([*CREDENTIAL_NAMES, SELECTED_ID, "GITHUB_TOKEN", "HOME"]), st.text()
    ),
    passed=st.lists(st.sampled_from(["HOME", "MINE", *CREDENTIAL_NAMES])),
)
def test_no_credential_gets_through_whatever_is_asked(source: dict[str, str], passed: list[str]) -> None:
    try:
        found = build_listing_environment(source, passed, {})
    except InputError:
        assert set(passed) & set(CREDENTIAL_NAMES)
    else:
        assert found.keys() <= {"PATH", "TERM", "HOME"}
