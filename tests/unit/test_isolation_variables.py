"""The names of environment rules: patterns, tables, and the families that no child sees."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner_e2e.isolation import variables
from runner_e2e.isolation.families import FAMILIES, find_family, find_id_token_names
from runner_e2e.isolation.variables import fold, is_blank, is_provider_authority, is_provider_name
from runner_e2e.plan import definitions, selection
from unit.environment_cells import spell


@pytest.mark.parametrize(
    ("name", "matches"),
    [
        *(
            pytest.param(name, True, id=name)
            for name in ("GITHUB_SHA", "GH", "GH_TOKEN", "OPENAI_BASE_URL", "GROK_AUTH_JSON", "BRAINTRUST_")
        ),
        *(
            pytest.param(name, False, id=name)
            for name in (
                "GHOST",
                "OPENAIX_KEY",
                "openai_api_key",
                "MY_OPENAI_KEY",
                "GEMINI_API_KEY",
                "GEMINI_MODEL",
                "GOOGLE_API_KEY",
            )
        ),
        pytest.param("GH\n", False, id="line-break-at-the-end"),
    ],
)
def test_a_provider_is_recognised_as_the_product_does(name: str, *, matches: bool) -> None:
    assert is_provider_name(name) is matches


@pytest.mark.parametrize(
    ("name", "matches"),
    [
        pytest.param("OPENAI_API_KEY", True, id="key"),
        pytest.param("GITHUB_TOKEN", True, id="token"),
        pytest.param("XAI_CLIENT_SECRET_ID", True, id="secret-within"),
        pytest.param("DAYTONA_PASSWORD", True, id="password"),
        pytest.param("OPENAI_MONKEYS", True, id="anywhere"),
        pytest.param("OPENAI_BASE_URL", False, id="address"),
        pytest.param("GITHUB_SHA", False, id="commit"),
        pytest.param("MY_TOKEN", False, id="no-provider"),
    ],
)
def test_a_providers_authority_says_so_in_its_name(name: str, *, matches: bool) -> None:
    assert is_provider_authority(name) is matches


def test_what_two_rooms_know_is_the_same() -> None:
    assert variables.CREDENTIAL_NAMES == definitions.CREDENTIAL_NAMES
    assert variables.DAYTONA_CREDENTIAL == definitions.DAYTONA_CREDENTIAL
    assert variables.SELECTED_ID == selection.SELECTED_ID
    assert variables.BLANKS == selection.BLANKS


def test_the_groups_have_the_sizes_of_the_product() -> None:
    groups = (
        variables.CREDENTIAL_NAMES,
        variables.DATABASE,
        variables.AMBIENT_PAPERCLIP,
        variables.GENERATED_SECRETS,
        variables.EXTERNAL_STATE,
        variables.INSTALLED_CLI,
        variables.INSTALLED_PLUGIN,
    )

    assert [len(set(group)) for group in groups] == [10, 3, 11, 4, 5, 4, 3]


DENIED_WORDS = """
    PAPERCLIP_RUNNER_E2E_SELECTED_ID PAPERCLIP_RUNNER_E2E_EXECUTION_IDS PAPERCLIP_E2E_CAMPAIGN_ID
    ACTIONS_RUNTIME_TOKEN ACTIONS_ID_TOKEN_REQUEST_TOKEN ACTIONS_ID_TOKEN_REQUEST_URL ACTIONS_RESULTS_URL
    ACTIONS_CACHE_URL RUNNER_TEMP RUNNER_TRACKING_ID INPUT_CREDENTIAL STATE_isPost
    GITHUB_ENV GITHUB_PATH GITHUB_OUTPUT GITHUB_STATE GITHUB_STEP_SUMMARY GITHUB_EVENT_PATH GITHUB_TOKEN
    GH_TOKEN GH_HOST GEMINI_MODEL GOOGLE_API_KEY GOOGLE_APPLICATION_CREDENTIALS MISTRAL_API_KEY GROQ_API_KEY
    DEEPSEEK_API_KEY COHERE_API_KEY TOGETHER_API_KEY MOONSHOT_API_KEY ZAI_API_KEY HF_TOKEN HUGGINGFACE_TOKEN
    AZURE_OPENAI_KEY CLAUDE_CODE_OAUTH_TOKEN CODEX_API_KEY AWS_SECRET_ACCESS_KEY AWS_PROFILE
    PAPERCLIP_SECRETS_AWS_REGION NPM_TOKEN NODE_AUTH_TOKEN npm_config_userconfig npm_config__authToken
    PIP_INDEX_URL UV_INDEX_URL TWINE_PASSWORD DOCKER_AUTH_CONFIG KUBECONFIG VAULT_TOKEN SSH_AUTH_SOCK
    GIT_ASKPASS SSH_ASKPASS GIT_CONFIG_COUNT GIT_CONFIG_GLOBAL GIT_CONFIG_KEY_0 GIT_CONFIG_PARAMETERS
    LD_PRELOAD LD_AUDIT LD_LIBRARY_PATH NODE_OPTIONS NODE_PATH BASH_ENV ENV ZDOTDIR PROMPT_COMMAND PYTHONPATH
    PYTHONSTARTUP PERL5LIB RUBYOPT JAVA_TOOL_OPTIONS GIT_SSH_COMMAND BASH_FUNC_ls%% PGHOST PGPASSWORD
    PGSERVICEFILE PAPERCLIP_RUNNER_STATE_DIR RUN_LOG_BASE_PATH WORKSPACE_OPERATION_LOG_BASE_PATH
    PROVIDER_TRACE_BASE_PATH PAPERCLIP_DB_BACKUP_DIR
"""
DENIED = DENIED_WORDS.split()


@given(st.sampled_from(DENIED).flatmap(spell))
def test_a_denied_name_is_denied_in_any_spelling(name: str) -> None:
    assert find_family(name) is not None, name


@pytest.mark.parametrize("name", DENIED)
def test_a_denied_name_is_denied_as_it_is_written(name: str) -> None:
    assert find_family(name) is not None


@pytest.mark.parametrize(
    "name",
    [
        "PATH",
        "HOME",
        "LANG",
        "ENVIRONMENT",
        "PAGER",
        "MY_GITHUB_TOKEN",
        "GHOST",
        "PIPELINE",
        "UVICORN_PORT",
        "STATEFUL",
        "RUNNERS",
        "NODE_EXTRA_CA_CERTS",
        "npm_config_cache",
        "PAPERCLIP_RUNNER_BINARY",
    ],
)
def test_a_name_that_only_begins_alike_is_not_denied(name: str) -> None:
    assert find_family(name) is None


def test_the_tables_of_families_are_folded() -> None:
    for family in FAMILIES:
        assert {*family.names, *family.prefixes} == {fold(one) for one in (*family.names, *family.prefixes)}


@pytest.mark.parametrize(
    ("environ", "found"),
    [
        pytest.param({"ACTIONS_ID_TOKEN_REQUEST_TOKEN": "x"}, ["ACTIONS_ID_TOKEN_REQUEST_TOKEN"], id="token"),
        pytest.param({"actions_id_token_request_url": "x"}, ["actions_id_token_request_url"], id="spelling"),
        pytest.param({"ACTIONS_ID_TOKEN_REQUEST_URL": ""}, [], id="empty"),
        pytest.param({"ACTIONS_RUNTIME_TOKEN": "x"}, [], id="another-token"),
    ],
)
def test_what_asks_for_the_jobs_identity_is_found(environ: dict[str, str], found: list[str]) -> None:
    assert list(find_id_token_names(environ)) == found


@pytest.mark.parametrize(
    ("value", "blank"),
    [
        pytest.param(None, True, id="missing"),
        pytest.param("", True, id="empty"),
        pytest.param(" \t\ufeff", True, id="what-javascript-trims"),
        pytest.param("\x1c", False, id="what-only-python-trims"),
        pytest.param(" x ", False, id="text"),
    ],
)
def test_a_value_is_blank_as_the_product_sees_it(value: str | None, *, blank: bool) -> None:
    assert is_blank(value) is blank
