"""Which variables the harness gets: the product's rules, and what they do not know."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner_e2e.errors import InputError, RunnerE2EError
from runner_e2e.isolation.families import find_family
from runner_e2e.isolation.harness import (
    SUPPLIED,
    HarnessRequest,
    assert_harness_environment,
    build_attempt_overrides,
    build_harness_environment,
    choose_credentials,
    find_caches,
)
from runner_e2e.isolation.passing import DEFAULT_SEARCH, clean_search_path
from runner_e2e.isolation.product import CellTraits, ProductNames
from runner_e2e.isolation.variables import (
    AMBIENT_PAPERCLIP,
    CAMPAIGN_ID,
    CREDENTIAL_NAMES,
    DATABASE,
    GATEWAY_TOKEN,
    GENERATED_SECRETS,
    SELECTED_ID,
)
from unit.environment_cells import CHAT, LEGACY, NATIVE, PI, REMOTE, actions, rule, spell

if TYPE_CHECKING:
    from runner_e2e.isolation.explain import Built

SECRET = "hunter2-value"
NAMES = ProductNames(
    public_origin=frozenset({"CHAT_ORIGIN", "CHAT_RECEIPT"}),
    private_diagnostics=frozenset({"CHAT_DIAGNOSTICS"}),
    private_inputs=frozenset({"CHAT_KEY", "CHAT_OTHER"}),
    needed_inputs={"with-key": frozenset({"CHAT_KEY", "OPENAI_API_KEY"})},
    announcement_case="announcements.read",
    announcement_feed_url="http://127.0.0.1:1/feed",
    managed_hiring_cases=frozenset({"hiring.managed"}),
    api_tool_cases=frozenset({"tools.api"}),
)
ANNOUNCEMENTS = "PAPERCLIP_ANNOUNCEMENTS_ENABLED"
FEED = "PAPERCLIP_ANNOUNCEMENTS_FEED_URL"
QUALIFICATION = "PAPERCLIP_RUNNER_ACPX_QUALIFICATION"
TOOLS = "PAPERCLIP_RUNNER_API_TOOLS_ENABLED"
ALL_MODELS = "OPENCODE_ALLOW_ALL_MODELS"


def build(source: dict[str, str], *cells: CellTraits, passed: tuple[str, ...] = ()) -> Built:
    return build_harness_environment(source, HarnessRequest(cells=cells, passed=passed, names=NAMES))


@pytest.mark.parametrize(
    ("name", "cell", "why"),
    [
        pytest.param("AWS_REGION", CHAT, "chat cells get no vault", id="vault-of-a-chat-cell"),
        pytest.param("PAPERCLIP_SECRETS_AWS_KEY", CHAT, "chat cells get no vault", id="second-prefix"),
        pytest.param("AWS_REGION", NATIVE, "it opens a vault", id="vault-elsewhere"),
        pytest.param("CHAT_ORIGIN", CHAT, "public-origin control and receipt", id="public-origin"),
        pytest.param("CHAT_KEY", NATIVE, "a private input of other chat cases", id="chat-input"),
        pytest.param("CHAT_OTHER", CHAT, "a private input of other chat cases", id="input-not-needed"),
        pytest.param("CHAT_DIAGNOSTICS", CHAT, "not on the allow-list", id="diagnostics"),
        *(
            pytest.param(name, NATIVE, "private to the server or the gateway", id=name)
            for name in (
                "PAPERCLIP_RUNNER_E2E_POSTGRES_ADMIN_URL",
                "PAPERCLIP_SECRETS_MASTER_KEY",
                "PAPERCLIP_SECRETS_MASTER_KEY_FILE",
                "PAPERCLIP_E2E_GATEWAY_PHASE_PATH",
                "PAPERCLIP_E2E_OTLP_RELAY_URL",
                "PAPERCLIP_E2E_REMOTE_GATEWAY_ORIGIN",
            )
        ),
        *(
            pytest.param(name, NATIVE, "decided by the selected cells alone", id=name)
            for name in (ALL_MODELS, QUALIFICATION, "PAPERCLIP_ACPX_CANDIDATE_ADMISSION")
        ),
        pytest.param("DATABASE_URL", NATIVE, "a database of the caller's", id="database"),
        pytest.param("database_migration_url", NATIVE, "a database of the caller's", id="database-spelling"),
        *(
            pytest.param(name, NATIVE, "a credential that is not the cell's", id=name)
            for name in (*CREDENTIAL_NAMES, "openai_api_key", "BRAINTRUST_API_KEY", "Gemini_Api_Key")
        ),
        pytest.param("OPENAI_BASE_URL", NATIVE, "not on the allow-list", id="address-of-a-provider"),
        pytest.param("PAPERCLIP_API_KEY", NATIVE, "not on the allow-list", id="ambient-authority"),
        pytest.param("HOME", NATIVE, "not on the allow-list", id="home"),
        pytest.param("FOO", NATIVE, "not on the allow-list", id="anything"),
    ],
)
def test_a_name_is_taken_out_by_the_first_rule_that_says_so(name: str, cell: CellTraits, why: str) -> None:
    found = build({name: SECRET}, cell)

    assert name not in found.environment
    assert actions(found)[name] == "removed"
    assert rule(found, name) == why


@pytest.mark.parametrize(
    "name",
    [
        *sorted(SUPPLIED - {one for one in SUPPLIED if "INSTALLED" in one}),
        "CI",
        "LANG",
        "LC_TIME",
        "TZ",
        "SSL_CERT_FILE",
        "PLAYWRIGHT_BROWSERS_PATH",
        "COREPACK_HOME",
        "PNPM_HOME",
        "USER",
    ],
)
def test_what_starts_a_harness_stays_as_supplied(name: str) -> None:
    found = build({name: "as supplied "}, NATIVE)

    assert found.environment[name] == "as supplied "
    assert actions(found)[name] == "kept"


@pytest.mark.parametrize(
    ("cells", "enabled", "feed"),
    [
        pytest.param((), "false", "inherited", id="no-cell"),
        pytest.param((replace(CHAT, case="announcements.read"),), "true", "http://127.0.0.1:1/feed", id="it"),
        pytest.param((CHAT,), "false", "inherited", id="another-case"),
        pytest.param((replace(NATIVE, case="announcements.read"),), "false", "inherited", id="another-suite"),
        pytest.param(
            (replace(CHAT, case="announcements.read"), NATIVE), "false", "inherited", id="not-alone"
        ),
    ],
)
def test_only_the_announcement_cell_alone_has_announcements(
    cells: tuple[CellTraits, ...], enabled: str, feed: str
) -> None:
    found = build({ANNOUNCEMENTS: "maybe", FEED: "inherited"}, *cells).environment

    assert (found[ANNOUNCEMENTS], found[FEED]) == (enabled, feed)


def test_without_a_configured_case_nothing_is_announced() -> None:
    found = build_harness_environment({}, HarnessRequest(cells=(CHAT,)))

    assert found.environment[ANNOUNCEMENTS] == "false"
    assert FEED not in found.environment


def test_a_chat_case_keeps_the_private_input_that_it_needs() -> None:
    found = build({"CHAT_KEY": SECRET, "OPENAI_API_KEY": SECRET}, replace(CHAT, case="with-key"))

    assert found.environment["CHAT_KEY"] == SECRET
    assert "OPENAI_API_KEY" not in found.environment  # not one of the private inputs


@pytest.mark.parametrize(
    ("cells", "supplied", "expected"),
    [
        pytest.param((replace(CHAT, case="hiring.managed"),), None, "true", id="managed-hiring"),
        pytest.param((NATIVE, replace(CHAT, case="tools.api")), "false", "true", id="api-tools"),
        pytest.param((replace(NATIVE, case="tools.api"),), None, None, id="another-suite"),
        pytest.param((CHAT,), "0", "0", id="as-supplied"),
    ],
)
def test_api_tools_are_on_where_a_chat_case_uses_them(
    cells: tuple[CellTraits, ...], supplied: str | None, expected: str | None
) -> None:
    source = {} if supplied is None else {TOOLS: supplied}

    assert build(source, *cells).environment.get(TOOLS) == expected


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        pytest.param((LEGACY,), "true", id="legacy-opencode"),
        pytest.param((LEGACY, LEGACY), "true", id="two"),
        pytest.param((LEGACY, NATIVE), None, id="mixed"),
        pytest.param((replace(LEGACY, provider="codex"),), None, id="legacy-of-another-provider"),
        pytest.param((replace(LEGACY, generation="native"),), None, id="native-opencode"),
        pytest.param((), None, id="no-cell"),
    ],
)
def test_all_models_are_allowed_to_legacy_opencode_alone(
    cells: tuple[CellTraits, ...], expected: str | None
) -> None:
    assert build({ALL_MODELS: "true"}, *cells).environment.get(ALL_MODELS) == expected


def test_the_cells_own_credential_is_there_and_no_other() -> None:
    source = dict.fromkeys(CREDENTIAL_NAMES, SECRET)
    request = HarnessRequest(cells=(REMOTE,), credentials={"OPENAI_API_KEY": "k", "DAYTONA_API_KEY": "d"})

    found = build_harness_environment(source, request)

    held = {name: value for name, value in found.environment.items() if name in CREDENTIAL_NAMES}
    assert held == {"OPENAI_API_KEY": "k", "DAYTONA_API_KEY": "d"}
    assert rule(found, "OPENAI_API_KEY") == "the cell's credential"


@pytest.mark.parametrize(
    ("source", "given", "expected"),
    [
        pytest.param({"OPENAI_API_KEY": "own"}, {}, "own", id="callers"),
        pytest.param({}, {"OPENAI_API_KEY": "given"}, "given", id="given"),
        pytest.param({"OPENAI_API_KEY": "own"}, {"OPENAI_API_KEY": "given"}, "given", id="given-first"),
        pytest.param({"OPENAI_API_KEY": "own"}, {"OPENAI_API_KEY": " "}, "own", id="given-is-blank"),
        pytest.param({"OPENAI_API_KEY": "own"}, {"XAI_API_KEY": "given"}, "own", id="given-for-other-cells"),
    ],
)
def test_a_credential_is_chosen_by_name(source: dict[str, str], given: dict[str, str], expected: str) -> None:
    assert choose_credentials(source, ("OPENAI_API_KEY",), given) == {"OPENAI_API_KEY": expected}


def test_missing_credentials_are_one_error_with_names_alone() -> None:
    source = {"OPENAI_API_KEY": SECRET, "XAI_API_KEY": " "}

    with pytest.raises(InputError, match="XAI_API_KEY, DAYTONA_API_KEY") as refusal:
        choose_credentials(source, ("OPENAI_API_KEY", "XAI_API_KEY", "DAYTONA_API_KEY"))

    assert SECRET not in str(refusal.value)
    assert "OPENAI_API_KEY" not in str(refusal.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, SECRET) for name in (*CREDENTIAL_NAMES, *DATABASE, *AMBIENT_PAPERCLIP, "GITHUB_ENV")),
        ("NODE_OPTIONS", SECRET),
        ("npm_config_registry", SECRET),
        ("My_Token", SECRET),
        ("openai_api_key", SECRET),
        (SELECTED_ID, SECRET),
        ("HTTPS_PROXY", f"http://me:{SECRET}@proxy"),
        ("https_proxy", f"me:{SECRET}@proxy:1"),
    ],
)
def test_pass_env_cannot_name_what_agents_must_not_have(name: str, value: str) -> None:
    with pytest.raises(InputError, match=name) as refusal:
        build({name: value}, NATIVE, passed=("LANG", name))

    assert SECRET not in str(refusal.value)


def test_pass_env_adds_what_is_set_and_decided_names_stay_decided() -> None:
    source = {"MISE_DATA_DIR": "/opt/mise", "HTTPS_PROXY": "http://proxy:1", ALL_MODELS: "true"}

    found = build(source, NATIVE, passed=(*source, "NOT_SET"))

    assert found.environment.keys() >= {"MISE_DATA_DIR", "HTTPS_PROXY"}
    assert not {ALL_MODELS, "NOT_SET"} & found.environment.keys()
    assert rule(found, "MISE_DATA_DIR") == "pass-env names it"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param("/usr/bin:/bin", "/usr/bin:/bin", id="as-it-is"),
        pytest.param("/a:/b:/a", "/a:/b", id="twice"),
        pytest.param(".:/usr/bin:node_modules/.bin:~/bin", "/usr/bin", id="relative"),
        pytest.param(":/usr/bin:", "/usr/bin", id="empty-parts-mean-here"),
        pytest.param("", DEFAULT_SEARCH, id="empty"),
        pytest.param(".", DEFAULT_SEARCH, id="nothing-left"),
    ],
)
def test_a_search_path_depends_on_no_working_directory(value: str, expected: str) -> None:
    assert clean_search_path(value) == expected
    assert build({"PATH": value}, NATIVE).environment["PATH"] == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param(
            {"HOME": "/home/me"},
            {
                "COREPACK_HOME": "/home/me/.cache/node/corepack",
                "PLAYWRIGHT_BROWSERS_PATH": "/home/me/.cache/ms-playwright",
                "PNPM_HOME": "/home/me/.local/share/pnpm",
            },
            id="from-home",
        ),
        pytest.param(
            {"HOME": "/h", "XDG_CACHE_HOME": "/c", "XDG_DATA_HOME": "/d", "COREPACK_HOME": "/mine"},
            {"PLAYWRIGHT_BROWSERS_PATH": "/c/ms-playwright", "PNPM_HOME": "/d/pnpm"},
            id="moved-and-set",
        ),
        pytest.param({}, {}, id="homeless"),
        pytest.param({"HOME": "relative"}, {}, id="relative-home"),
    ],
)
def test_caches_of_the_real_home_are_found(source: dict[str, str], expected: dict[str, str]) -> None:
    assert find_caches(source) == expected


@pytest.mark.parametrize(("given_id", "there"), [("core.a.local.b", True), (None, False)])
def test_an_attempt_has_its_own_home_and_the_id_only_where_it_travels_here(
    given_id: str | None, there: bool
) -> None:
    own = build_attempt_overrides("/r/h", "/r/t", "c0ffee", given_id)
    request = HarnessRequest(cells=(NATIVE,), overrides=own)

    found = build_harness_environment({"HOME": "/home/me", SELECTED_ID: "inherited"}, request).environment

    assert (found["HOME"], found["TMPDIR"], found["XDG_CACHE_HOME"]) == ("/r/h", "/r/t", "/r/h/.cache")
    assert found[CAMPAIGN_ID] == "c0ffee"
    assert found.get(SELECTED_ID) == given_id
    assert (SELECTED_ID in found) is there


HOSTILE = st.sampled_from(
    [
        *CREDENTIAL_NAMES,
        *DATABASE,
        *AMBIENT_PAPERCLIP,
        *GENERATED_SECRETS,
        SELECTED_ID,
        CAMPAIGN_ID,
        "GITHUB_ENV",
        "AWS_SECRET_ACCESS_KEY",
        "LD_PRELOAD",
        "PGPASSWORD",
        "npm_config__authToken",
        "LANG",
    ]
).flatmap(spell)


@given(
    source=st.dictionaries(HOSTILE | st.text(min_size=1), st.text()), cell=st.sampled_from([NATIVE, CHAT, PI])
)
def test_nothing_denied_survives_whatever_the_source(source: dict[str, str], cell: CellTraits) -> None:
    frozen = MappingProxyType(dict(source))

    found = build_harness_environment(frozen, HarnessRequest(cells=(cell,), credentials={"XAI_API_KEY": "k"}))

    assert dict(frozen) == source
    assert not [name for name in found.environment if find_family(name) is not None]
    assert {name for name in found.environment if name in AMBIENT_PAPERCLIP} <= {GATEWAY_TOKEN}
    assert_harness_environment(found.environment, {"XAI_API_KEY"})
    explained = actions(found)
    assert explained.keys() == source.keys() | found.environment.keys()
    assert {name for name, action in explained.items() if action != "removed"} == found.environment.keys()


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "Github_Env", "DATABASE_URL", SELECTED_ID, "LD_PRELOAD"])
def test_the_assertion_names_the_variable_alone(name: str) -> None:
    assert_harness_environment({name: SECRET}, {name})
    assert_harness_environment({name: ""}, ())

    with pytest.raises(RunnerE2EError, match=name) as failure:
        assert_harness_environment({name: SECRET}, ())
    assert SECRET not in str(failure.value)
