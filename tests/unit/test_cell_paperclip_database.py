"""What an address of a database has to be, what of it is secret, and what its server's answers mean."""

from __future__ import annotations

import pytest

from runner_e2e.cell.paperclip_database import explain_code, read_database
from runner_e2e.errors import FailureClass, HostRefusedError

URL = "postgres://cells:pa%2Fssword-1@db.example:6432/postgres?sslmode=require"


def test_without_an_address_the_product_has_its_own() -> None:
    assert read_database({}) is None
    assert read_database({"DATABASE_URL": " "}) is None


def test_an_address_is_read_with_its_port_and_every_form_of_its_password() -> None:
    found = read_database({"DATABASE_URL": URL})

    assert found is not None
    assert found.port == 6432
    assert set(found.secrets) == {URL, "cells:pa%2Fssword-1@", "pa%2Fssword-1", "pa/ssword-1"}
    assert found.of("other") == "postgres://cells:pa%2Fssword-1@db.example:6432/other?sslmode=require"
    assert "ssword" not in repr(found)


def test_the_usual_port_is_taken_and_a_short_password_is_no_word_to_hide() -> None:
    found = read_database({"DATABASE_URL": "postgresql://u:pw@localhost/postgres"})

    assert found is not None
    assert found.port == 5432
    assert "pw" not in found.secrets
    assert "u:pw@" in found.secrets


@pytest.mark.parametrize(
    "url",
    [
        pytest.param("mysql://u:hidden-word@h/d", id="other-kind"),
        pytest.param("postgres:///d?user=hidden-word", id="no-host"),
        pytest.param("postgres://u:hidden-word@h", id="no-database"),
        pytest.param("postgres://u:hidden-word@h:x/d", id="no-port"),
        pytest.param("postgres://u:hidden-word@[h/d", id="broken"),
        pytest.param("postgres://u:hidden word@h/d", id="blank"),
        pytest.param("postgres://u:hidden-word\x01@h/d", id="control"),
        pytest.param("hidden-word", id="a-word"),
        pytest.param("postgres://u:hidden-word@h:1,i:2/d", id="two-hosts"),
        pytest.param("postgres://u:hidden-word@h,i:2/d", id="two-hosts-one-port"),
        pytest.param("postgres://u:hidden-word@h%2Ci:2/d", id="two-hosts-encoded"),
    ],
)
def test_what_is_no_address_is_refused_without_being_shown(url: str) -> None:
    with pytest.raises(HostRefusedError) as caught:
        read_database({"DATABASE_URL": url})

    assert "DATABASE_URL" in str(caught.value)
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize(
    ("code", "failure_class", "says"),
    [
        pytest.param("42501", FailureClass.REFUSED, "CREATEDB", id="no-right"),
        pytest.param("28P01", FailureClass.REFUSED, "refuses its user, password or database", id="password"),
        pytest.param("3D000", FailureClass.REFUSED, "refuses its user, password or database", id="database"),
        pytest.param("ECONNREFUSED", FailureClass.TRANSIENT_INFRASTRUCTURE, "ECONNREFUSED", id="down"),
        pytest.param("53300", FailureClass.TRANSIENT_INFRASTRUCTURE, "room for connections", id="full"),
        pytest.param("\x1b[31mred\n", FailureClass.TRANSIENT_INFRASTRUCTURE, "?[31mred?", id="hostile"),
    ],
)
def test_what_the_servers_answer_means(code: str, failure_class: FailureClass, says: str) -> None:
    error = explain_code(code)

    assert error.failure_class is failure_class
    assert says in str(error)
