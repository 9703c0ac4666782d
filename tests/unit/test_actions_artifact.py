"""Names of artifacts: accepted by the service, and unique."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner_e2e.actions.artifact import read_run_attempt, read_run_id
from runner_e2e.evidence.artifact_names import MAX_NAME_BYTES, build_artifact_name

REFUSED_BY_THE_SERVICE = '":<>|*?\r\n\\/'
TEXT = st.text(st.characters(exclude_categories=()), max_size=300)


def test_an_ordinary_name_is_not_changed() -> None:
    name = build_artifact_name("runner-e2e", "123", "2", "chat.opencode.local.agents.manager")

    assert name == "runner-e2e-123-2-chat.opencode.local.agents.manager"


@pytest.mark.parametrize("refused", REFUSED_BY_THE_SERVICE)
def test_what_the_service_refuses_becomes_an_underscore_and_a_hash(refused: str) -> None:
    name = build_artifact_name("p", "1", "1", f"a{refused}b")

    assert name.startswith("p-1-1-a_b-")
    assert len(name) == len("p-1-1-a_b-") + 12


def test_names_that_map_alike_stay_apart() -> None:
    names = {build_artifact_name("p", "1", "1", key) for key in ("a/b", "a:b", "a_b", "a\\b")}

    assert len(names) == 4


@given(prefix=TEXT, key=TEXT)
def test_every_name_is_accepted_and_short_enough(prefix: str, key: str) -> None:
    name = build_artifact_name(prefix, "1", "1", key)

    assert not set(name) & set(REFUSED_BY_THE_SERVICE)
    assert 0 < len(name.encode()) <= MAX_NAME_BYTES
    assert name == build_artifact_name(prefix, "1", "1", key)


def test_long_names_that_differ_at_the_end_stay_apart() -> None:
    first = build_artifact_name("p", "1", "1", "x" * 500 + "1")
    second = build_artifact_name("p", "1", "1", "x" * 500 + "2")

    assert first != second


def test_outside_a_workflow_the_name_says_local() -> None:
    assert (read_run_id({}), read_run_attempt({})) == ("local", "1")
    environ = {"GITHUB_RUN_ID": "77", "GITHUB_RUN_ATTEMPT": "3"}
    assert (read_run_id(environ), read_run_attempt(environ)) == ("77", "3")
