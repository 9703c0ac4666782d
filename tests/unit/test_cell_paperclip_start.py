"""What a server of the real product begins with: its ports, its configuration, an installation that runs."""

from __future__ import annotations

import json

import pytest

from runner_e2e.cell.paperclip_ports import CHOSEN, choose_port, pick_own
from runner_e2e.cell.paperclip_settings import build_settings
from runner_e2e.errors import FailureClass, HostRefusedError
from runner_e2e.isolation.server import ServerPlaces
from runner_e2e.product.installation import judge_node, refuse_host

INSTANCE = "/r/t/p/paperclip-home/instances/i"
PLACES = ServerPlaces(
    temporary_root="/r/t/p",
    paperclip_home="/r/t/p/paperclip-home",
    config_path=f"{INSTANCE}/config.json",
    instance="i",
    home="/r/t/p/server-home",
    temporary="/r/t/p/server-tmp",
)


@pytest.mark.parametrize(
    ("listening", "own"),
    [
        pytest.param((), None, id="none-yet"),
        pytest.param((4000,), 4000, id="as-told"),
        pytest.param((4001,), 4001, id="taken-meanwhile"),
        pytest.param((3999, 4000), 4000, id="one-of-several"),
    ],
)
def test_a_server_is_asked_where_it_listens_itself(listening: tuple[int, ...], own: int | None) -> None:
    assert pick_own(listening, 4000) == own


def test_a_port_is_chosen_that_is_free_and_that_no_connection_is_given() -> None:
    choices = iter([11_000, 11_001, 11_002])

    assert choose_port(lambda _: next(choices), lambda port: port == 11_001) == 11_001
    assert choose_port(lambda ports: ports[0], lambda _: False) is None
    assert CHOSEN[-1] < 32_768
    assert not {44_329, 54_329, 64_329} & set(CHOSEN)


def test_an_instance_begins_with_a_database_port_of_its_own_and_without_a_secret() -> None:
    settings = build_settings(PLACES, INSTANCE, 4000, 11_000)

    database = settings["database"]
    assert isinstance(database, dict)
    assert (database["mode"], database["embeddedPostgresPort"]) == ("embedded-postgres", 11_000)
    assert "connectionString" not in json.dumps(settings)
    places = [word for word in json.dumps(settings).split('"') if word.startswith("/")]
    assert all(place.startswith("/r/t/p/") for place in places)


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        pytest.param("v24.19.0", "", id="as-recorded"),
        pytest.param("v24.20.0", "is not the one it was made with", id="another"),
        pytest.param("v22.21.0", "is no Node 24.11 or later", id="old"),
        pytest.param("Python 3.11", "is no Node 24.11 or later", id="no-node"),
        pytest.param("", "is no Node 24.11 or later", id="silent"),
        pytest.param(None, "does not run here", id="cannot-be-run"),
    ],
)
def test_a_node_is_taken_at_its_word(said: str | None, problem: str) -> None:
    assert judge_node(said, "24.19.0") == problem


def test_another_architecture_is_refused_and_told_which_one_it_takes() -> None:
    with pytest.raises(HostRefusedError, match="built for x86-64 Linux, and this is aarch64") as caught:
        refuse_host("linux", "aarch64")

    assert caught.value.failure_class is FailureClass.REFUSED
    refuse_host("linux", "x86_64")
