"""Which variables a server gets, and what has to hold for its final environment."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner_e2e.errors import InputError, RunnerE2EError
from runner_e2e.isolation.assertion import ServerExpectation, assert_server_environment, is_below
from runner_e2e.isolation.control import plan_control_paths
from runner_e2e.isolation.passing import DEFAULT_SEARCH
from runner_e2e.isolation.product import ProductNames
from runner_e2e.isolation.server import ServerPlaces, build_server_environment, build_server_overrides
from runner_e2e.isolation.variables import (
    AMBIENT_PAPERCLIP,
    CAMPAIGN_ID,
    CREDENTIAL_NAMES,
    DATABASE,
    EXECUTION_IDS,
    EXTERNAL_STATE,
    GENERATED_SECRETS,
    INSTALLED_CLI,
    INSTALLED_PLUGIN,
    MASTER_KEY,
    MASTER_KEY_FILE,
    SELECTED_ID,
    fold,
)
from unit.environment_cells import actions, rule, spell

SECRET = "hunter2-value"
ROOT = "/var/tmp/re-1"
PLACES = ServerPlaces(
    temporary_root=ROOT,
    paperclip_home=f"{ROOT}/paperclip-home",
    config_path=f"{ROOT}/paperclip-home/instances/e2e/config.json",
    instance="e2e",
    home=f"{ROOT}/private/server-home",
    temporary=f"{ROOT}/private/tmp",
)
GENERATED = dict.fromkeys(GENERATED_SECRETS, "generated")
OVERRIDES = build_server_overrides(PLACES, 4000, GENERATED)
EXPECTED = ServerExpectation(
    temporary_root=ROOT, paperclip_home=PLACES.paperclip_home, config_path=PLACES.config_path
)
NAMES = ProductNames(
    public_origin=frozenset({"CHAT_ORIGIN"}),
    private_diagnostics=frozenset({"CHAT_DIAGNOSTICS"}),
    private_inputs=frozenset({"CHAT_INPUT"}),
    needed_inputs={"a-case": frozenset({"CHAT_INPUT"})},
)
S3 = {
    "PAPERCLIP_STORAGE_PROVIDER": "s3",
    "PAPERCLIP_STORAGE_S3_BUCKET": "b",
    "PAPERCLIP_STORAGE_S3_ENDPOINT": "http://127.0.0.1:9000",
    "AWS_ACCESS_KEY_ID": "fixture",
    "AWS_SECRET_ACCESS_KEY": "fixture-secret",
}


def refusal(environment: dict[str, str], expected: ServerExpectation = EXPECTED) -> str:
    with pytest.raises(RunnerE2EError) as failure:
        assert_server_environment(environment, expected)
    assert SECRET not in str(failure.value)
    return failure.value.problem


@pytest.mark.parametrize(
    ("name", "why"),
    [
        pytest.param("CHAT_INPUT", "a private input of chat cases", id="chat-input-though-needed"),
        pytest.param("AWS_REGION", "servers get no vault", id="vault"),
        pytest.param("PAPERCLIP_SECRETS_AWS_X", "servers get no vault", id="second-vault-prefix"),
        pytest.param("CHAT_ORIGIN", "public-origin control and receipt", id="public-origin"),
        pytest.param("CHAT_DIAGNOSTICS", "private diagnostics", id="diagnostics"),
        pytest.param(DATABASE[2], "a database of the caller's", id="admin-database"),
        *(
            pytest.param(name, "a provider's or GitHub's", id=name)
            for name in ("GITHUB_SHA", "GH", "GH_HOST", "OPENAI_BASE_URL", "OPENAI_API_KEY", "CURSOR_X")
        ),
        pytest.param("GEMINI_API_KEY", "a credential; agents hold references", id="listed-credential"),
        *(pytest.param(name, "a database of the caller's", id=name) for name in DATABASE[:2]),
        *(pytest.param(name, "authority in another Paperclip", id=name) for name in AMBIENT_PAPERCLIP),
        *(pytest.param(name, "storage outside the attempt", id=name) for name in EXTERNAL_STATE),
        *(
            pytest.param(name, "a secret that each attempt makes itself", id=name)
            for name in GENERATED_SECRETS
        ),
        *(
            pytest.param(name, "the harness's own", id=name)
            for name in (*INSTALLED_CLI, *INSTALLED_PLUGIN, "PAPERCLIP_RUNNER_E2E_UPGRADE_ARTIFACTS")
        ),
        pytest.param("better_auth_secret", "another spelling of a name that is taken out", id="spelling"),
        pytest.param("openai_base_url", "it belongs to a provider or to GitHub", id="provider-spelling"),
        pytest.param("chat_Input", "it is private to chat cases", id="chat-spelling"),
        pytest.param("GEMINI_MODEL", "it belongs to a provider", id="provider-unknown-to-the-product"),
        pytest.param(SELECTED_ID, "it is the harness's own", id="selected-id"),
        pytest.param(EXECUTION_IDS, "it is the harness's own", id="execution-ids"),
        pytest.param(CAMPAIGN_ID, "it names the case", id="campaign"),
        pytest.param("RUN_LOG_BASE_PATH", "it moves a run's data out of what is hidden", id="data-mover"),
        pytest.param("GHOST", "not on the allow-list", id="no-provider"),
        pytest.param("HTTPS_PROXY", "not on the allow-list", id="proxy-unasked"),
    ],
)
def test_a_name_is_taken_out_by_the_first_rule_that_says_so(name: str, why: str) -> None:
    found = build_server_environment({name: SECRET}, {}, names=NAMES)

    assert found.environment == {"PATH": DEFAULT_SEARCH}
    assert rule(found, name) == why


def test_a_server_gets_locale_certificates_and_a_checked_path() -> None:
    source = {"LANG": "C", "LC_ALL": "C", "TZ": "UTC", "CI": "true", "SSL_CERT_DIR": "/c", "PATH": "/b:."}

    assert build_server_environment(source, {}).environment == {**source, "PATH": "/b"}


def test_an_override_sets_what_was_taken_out_save_private_diagnostics() -> None:
    overrides = {MASTER_KEY: "made", "CHAT_DIAGNOSTICS": "x"}

    found = build_server_environment({MASTER_KEY: "inherited"}, overrides, names=NAMES)

    assert found.environment == {"PATH": DEFAULT_SEARCH, MASTER_KEY: "made"}
    assert actions(found) == {"PATH": "set", MASTER_KEY: "set", "CHAT_DIAGNOSTICS": "removed"}


@pytest.mark.parametrize("name", ["OPENAI_BASE_URL", "DATABASE_URL", "NODE_OPTIONS", "CHAT_INPUT", "TWINE_X"])
def test_pass_env_cannot_name_what_a_server_must_not_have(name: str) -> None:
    with pytest.raises(InputError, match=name):
        build_server_environment({name: SECRET}, {}, passed=[name], names=NAMES)


def test_pass_env_gives_a_server_a_proxy() -> None:
    source = {"https_proxy": "http://proxy:3128"}

    assert build_server_environment(source, {}, passed=["https_proxy"]).environment.items() >= source.items()


def test_a_normal_attempt_sets_the_products_list() -> None:
    assert (
        OVERRIDES.items()
        >= {
            "NODE_ENV": "test",
            "PORT": "4000",
            "XDG_CACHE_HOME": f"{ROOT}/xdg-cache",
            "PAPERCLIP_HOME": PLACES.paperclip_home,
            "PAPERCLIP_INSTANCE_ID": "e2e",
            "PAPERCLIP_CONFIG": PLACES.config_path,
            **GENERATED,
            "PAPERCLIP_BIND": "loopback",
            "PAPERCLIP_BIND_HOST": "127.0.0.1",
            "PAPERCLIP_DEPLOYMENT_MODE": "local_trusted",
            "PAPERCLIP_DEPLOYMENT_EXPOSURE": "private",
            "SERVE_UI": "true",
            "PAPERCLIP_STORAGE_PROVIDER": "local_disk",
            "PAPERCLIP_STORAGE_LOCAL_DIR": f"{ROOT}/storage",
            "PAPERCLIP_SECRETS_PROVIDER": "local_encrypted",
            "PAPERCLIP_SECRETS_STRICT_MODE": "true",
            "PAPERCLIP_DB_BACKUP_ENABLED": "false",
            "PAPERCLIP_DB_BACKUP_DIR": f"{ROOT}/backups",
            "PAPERCLIP_OPEN_ON_LISTEN": "false",
        }.items()
    )


HOSTILE_NAMES = (
    *CREDENTIAL_NAMES,
    *DATABASE,
    *AMBIENT_PAPERCLIP,
    *GENERATED_SECRETS,
    *EXTERNAL_STATE,
    SELECTED_ID,
    EXECUTION_IDS,
    CAMPAIGN_ID,
    "GITHUB_ENV",
    "ACTIONS_RUNTIME_TOKEN",
    "PGPASSWORD",
    "NODE_OPTIONS",
    "PAPERCLIP_DB_BACKUP_DIR",
    "HOME",
    "XDG_RUNTIME_DIR",
    "PATH",
    "LC_ALL",
)
SOURCES = st.dictionaries(
    st.sampled_from(HOSTILE_NAMES).flatmap(spell) | st.text(min_size=1), st.text(min_size=1)
)


@given(SOURCES)
def test_no_listed_name_survives_in_any_spelling(source: dict[str, str]) -> None:
    frozen = MappingProxyType(dict(source))

    found = build_server_environment(frozen, {})

    assert dict(frozen) == source
    listed = set(HOSTILE_NAMES) - {"PATH", "LC_ALL"}
    assert not [name for name in found.environment if fold(name) in listed]
    assert actions(found).keys() == source.keys() | {"PATH"}


@given(SOURCES)
def test_the_assertion_accepts_what_the_builder_makes_of_any_source(source: dict[str, str]) -> None:
    found = build_server_environment(source, OVERRIDES, names=NAMES)

    assert_server_environment(found.environment, replace(EXPECTED, names=NAMES))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        pytest.param({"PAPERCLIP_HOME": "/other"}, "PAPERCLIP_HOME is not the attempt's", id="home"),
        pytest.param({"PAPERCLIP_CONFIG": ""}, "PAPERCLIP_CONFIG is not the attempt's", id="configuration"),
        pytest.param({"XDG_CACHE_HOME": "/home/me/.cache"}, "XDG_CACHE_HOME is not", id="cache"),
        *(
            pytest.param({name: SECRET}, f"{name} must not be set", id=name)
            for name in (*CREDENTIAL_NAMES, *DATABASE, *AMBIENT_PAPERCLIP, *EXTERNAL_STATE)
        ),
        *(pytest.param({name: ""}, f"{name} is missing or empty", id=name) for name in GENERATED_SECRETS),
        *(
            pytest.param({name: SECRET}, f"{name} must not be set: ", id=name)
            for name in (
                "OPENAI_BASE_URL",
                "GITHUB_SHA",
                "gh",
                "openai_api_key",
                "Paperclip_Secrets_Master_Key",
                "better_auth_secret",
                "AWS_REGION",
                SELECTED_ID,
                EXECUTION_IDS,
                CAMPAIGN_ID,
                "CHAT_INPUT",
                "CHAT_DIAGNOSTICS",
                "CHAT_ORIGIN",
                "ACTIONS_RUNTIME_TOKEN",
                "RUNNER_TEMP",
                "INPUT_CREDENTIAL",
                "PGHOST",
                "LD_PRELOAD",
                "paperclip_db_backup_dir",
                "PROVIDER_TRACE_BASE_PATH",
            )
        ),
        pytest.param(
            {"HTTPS_PROXY": f"http://me:{SECRET}@p"}, "HTTPS_PROXY must not be set", id="proxy-password"
        ),
        pytest.param({"PAPERCLIP_DB_BACKUP_DIR": "/srv"}, "PAPERCLIP_DB_BACKUP_DIR does not", id="backups"),
        pytest.param({"HOME": "/home/me"}, "HOME does not lie", id="real-home"),
        pytest.param({"TMPDIR": f"{ROOT}/../x"}, "TMPDIR does not lie", id="leaves-the-root"),
        pytest.param({"TMPDIR": "t"}, "TMPDIR does not lie", id="relative"),
        pytest.param({"PATH": "/bin:."}, "PATH holds", id="relative-search-path"),
        pytest.param({"PATH": "/bin:"}, "PATH holds", id="empty-search-path-part"),
    ],
)
def test_the_assertion_names_what_does_not_hold(change: dict[str, str], problem: str) -> None:
    assert problem in refusal({**OVERRIDES, **change}, replace(EXPECTED, names=NAMES))


@pytest.mark.parametrize(
    "name", ["OPENAI_API_KEY", "GITHUB_ENV", MASTER_KEY_FILE, "DATABASE_URL", "LD_AUDIT"]
)
def test_an_empty_value_gives_nothing_away(name: str) -> None:
    assert_server_environment({**OVERRIDES, name: ""}, EXPECTED)


@pytest.mark.parametrize(
    ("root", "home"),
    [
        pytest.param(ROOT, f"{ROOT}-2/paperclip-home", id="sibling-with-the-same-beginning"),
        pytest.param(ROOT, ROOT, id="the-root-itself"),
        pytest.param(ROOT, f"{ROOT}/../../../home/me", id="dots"),
        pytest.param(ROOT, f"{ROOT}/./home", id="one-dot"),
        pytest.param(ROOT, f"{ROOT}//home", id="two-slashes"),
        pytest.param(ROOT, f"{ROOT}/home/", id="slash-at-the-end"),
        pytest.param(ROOT, f"{ROOT}/a\0b", id="nul"),
        pytest.param(f"{ROOT}/x/..", f"{ROOT}/x/../home", id="root-with-dots"),
        pytest.param("", "/home/me", id="no-root"),
        pytest.param("/", "//home", id="whole-disk"),
        pytest.param("re-1", "re-1/home", id="relative"),
    ],
)
def test_a_place_outside_the_root_is_refused_however_it_is_spelled(root: str, home: str) -> None:
    expected = replace(EXPECTED, temporary_root=root, paperclip_home=home)

    assert not is_below(home, root)
    assert "PAPERCLIP_HOME does not lie" in refusal({**OVERRIDES, "PAPERCLIP_HOME": home}, expected)


@pytest.mark.parametrize(
    ("name", "value", "key", "accepted"),
    [
        pytest.param(MASTER_KEY, "made", "made", True, id="equal"),
        pytest.param(MASTER_KEY, SECRET, None, False, id="inherited"),
        pytest.param(MASTER_KEY, SECRET, "made", False, id="different"),
        pytest.param(MASTER_KEY, SECRET, "", False, id="empty-parameter"),
        pytest.param(MASTER_KEY_FILE, "made", "made", False, id="as-a-file"),
        pytest.param(MASTER_KEY.lower(), "made", "made", False, id="another-spelling"),
    ],
)
def test_a_master_key_is_admitted_on_exact_match_alone(
    name: str, value: str, key: str | None, *, accepted: bool
) -> None:
    expected = replace(EXPECTED, master_key=key)
    environment = {**OVERRIDES, name: value}

    if accepted:
        assert_server_environment(environment, expected)
    else:
        assert name in refusal(environment, expected)


@pytest.mark.parametrize(
    ("change", "storage", "problem"),
    [
        pytest.param({}, S3, None, id="its-own-s3"),
        pytest.param(
            {"PAPERCLIP_STORAGE_S3_BUCKET": SECRET}, S3, "PAPERCLIP_STORAGE_S3_BUCKET", id="another-bucket"
        ),
        pytest.param(
            {"PAPERCLIP_STORAGE_S3_PREFIX": SECRET}, S3, "PAPERCLIP_STORAGE_S3_PREFIX", id="not-its-own"
        ),
        pytest.param({"AWS_SESSION_TOKEN": SECRET}, S3, "AWS_SESSION_TOKEN", id="foreign-vault-name"),
        pytest.param(
            {"PAPERCLIP_STORAGE_PROVIDER": "local_disk"},
            {**S3, "PAPERCLIP_STORAGE_PROVIDER": "local_disk"},
            "PAPERCLIP_STORAGE_S3_BUCKET",
            id="no-s3",
        ),
        pytest.param({"OTHER": ""}, {**S3, "OTHER": "wanted"}, "OTHER is not", id="entry-missing"),
        pytest.param(
            {"OPENAI_API_KEY": SECRET}, {**S3, "OPENAI_API_KEY": SECRET}, "OPENAI_API_KEY", id="no-credential"
        ),
    ],
)
def test_storage_outside_is_admitted_only_as_the_attempts_own_s3(
    change: dict[str, str], storage: dict[str, str], problem: str | None
) -> None:
    environment = {**OVERRIDES, **S3, **change}
    expected = replace(EXPECTED, workspace_storage=storage)

    if problem is None:
        assert_server_environment(environment, expected)
    else:
        assert problem in refusal(environment, expected)


def test_a_vault_is_handed_to_a_server_with_exactly_the_values_meant() -> None:
    expected = replace(EXPECTED, vault={"AWS_REGION": "eu-1"})

    assert_server_environment({**OVERRIDES, "AWS_REGION": "eu-1"}, expected)
    assert "AWS_REGION" in refusal({**OVERRIDES, "AWS_REGION": SECRET}, expected)


def test_what_is_expected_shows_no_secret() -> None:
    expected = replace(
        EXPECTED, master_key=SECRET, vault={"AWS_X": SECRET}, workspace_storage={"AWS_Y": SECRET}
    )

    assert SECRET not in repr((expected, build_server_environment({"LANG": SECRET}, {})))


def test_restarts_are_asked_for_in_the_products_places() -> None:
    found = plan_control_paths(ROOT)

    assert found.directory == f"{ROOT}/control"
    assert found.request == f"{ROOT}/control/server-restart.request.json"
    assert found.acknowledgement == f"{ROOT}/control/server-restart.ack.json"
