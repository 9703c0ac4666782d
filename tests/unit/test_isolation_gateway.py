"""What a paid gateway changes in the environment of a harness."""

from __future__ import annotations

from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner_e2e.errors import InputError
from runner_e2e.isolation.gateway import Gateway, Relay, build_gateway_environment
from runner_e2e.isolation.harness import HarnessRequest, build_harness_environment
from runner_e2e.isolation.variables import CREDENTIAL_NAMES
from unit.environment_cells import NATIVE, actions, rule, spell

SECRET = "hunter2-value"
GATEWAY = Gateway("http://127.0.0.1:1/v1", "scoped", "/r/private/phase")
SET = {
    "OPENAI_API_KEY": "scoped",
    "PAPERCLIP_E2E_GATEWAY_BASE_URL": "http://127.0.0.1:1/v1",
    "PAPERCLIP_E2E_GATEWAY_TOKEN": "scoped",
    "PAPERCLIP_E2E_GATEWAY_PHASE_PATH": "/r/private/phase",
}


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        *(pytest.param(name, False, id=name) for name in CREDENTIAL_NAMES if name != "OPENAI_API_KEY"),
        *(
            pytest.param(name, False, id=name)
            for name in (
                "GITHUB_TOKEN",
                "BRAINTRUST_API_KEY",
                "OPENAI_MONKEY_URL",
                "XAI_PASSWORD_FILE",
                "openai_api_key",
                "Daytona_Api_Key",
                "MISTRAL_API_KEY",
                "AWS_SECRET_ACCESS_KEY",
                "PAPERCLIP_E2E_OTLP_RELAY_URL",
                "PAPERCLIP_E2E_REMOTE_GATEWAY_ORIGIN",
            )
        ),
        *(
            pytest.param(name, True, id=name)
            for name in ("OPENAI_BASE_URL", "GITHUB_SHA", "GHOST_KEY", "MY_TOKEN", "GEMINI_MODEL", "PATH")
        ),
    ],
)
def test_no_providers_key_stays(name: str, *, kept: bool) -> None:
    source = MappingProxyType({name: SECRET})

    found = build_gateway_environment(source, "OPENAI_API_KEY", GATEWAY)

    assert found.environment == ({name: SECRET} if kept else {}) | SET
    assert source == {name: SECRET}


def test_the_key_is_replaced_and_the_explanation_says_so() -> None:
    request = HarnessRequest(cells=(NATIVE,), credentials={"OPENAI_API_KEY": SECRET})
    harness = build_harness_environment({"OPENAI_API_KEY": SECRET, "FOO": "x"}, request)

    found = build_gateway_environment(harness, "OPENAI_API_KEY", GATEWAY)

    assert harness.environment["OPENAI_API_KEY"] == SECRET
    assert SECRET not in found.environment.values()
    assert rule(found, "OPENAI_API_KEY") == "the gateway's token instead of the key"
    assert rule(found, "FOO") == "not on the allow-list"


@pytest.mark.parametrize(("remote", "there"), [(True, True), (False, False)])
def test_a_remote_origin_is_named_only_where_it_is_one(remote: bool, there: bool) -> None:
    found = build_gateway_environment({}, "OPENAI_API_KEY", GATEWAY, is_remote_origin=lambda _: remote)

    assert ("PAPERCLIP_E2E_REMOTE_GATEWAY_ORIGIN" in found.environment) is there


def test_a_trace_relay_has_a_token_of_its_own() -> None:
    gateway = Gateway("http://g", "scoped", "/p", Relay("http://relay", "relay-token"))

    found = build_gateway_environment({"BRAINTRUST_API_KEY": SECRET}, "OPENAI_API_KEY", gateway).environment

    assert found["BRAINTRUST_API_KEY"] == "relay-token"
    assert found["PAPERCLIP_E2E_OTLP_RELAY_URL"] == "http://relay"
    assert "token" not in repr(gateway).replace("token=", "")
    assert "scoped" not in repr(gateway)


@pytest.mark.parametrize("name", ["DAYTONA_API_KEY", "MISTRAL_API_KEY", "PATH", ""])
def test_a_gateway_stands_in_for_known_providers_alone(name: str) -> None:
    with pytest.raises(InputError, match="No gateway"):
        build_gateway_environment({}, name, GATEWAY)


@given(
    st.dictionaries(st.sampled_from(CREDENTIAL_NAMES).flatmap(spell) | st.text(min_size=1), st.just(SECRET))
)
def test_no_credential_survives_in_any_spelling(source: dict[str, str]) -> None:
    found = build_gateway_environment(source, "XAI_API_KEY", GATEWAY)

    held = {name: value for name, value in found.environment.items() if name.upper() in CREDENTIAL_NAMES}
    assert held == {"XAI_API_KEY": "scoped"}
    assert actions(found).keys() == source.keys() | found.environment.keys()
