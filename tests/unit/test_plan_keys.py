"""Opaque keys: computable by everyone who has the secret, silent about the case to everyone else."""

import traceback

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner_e2e.errors import (
    CancelledError,
    HostRefusedError,
    InputError,
    NotRunError,
    RunnerE2EError,
    TransientInfrastructureError,
)
from runner_e2e.plan.ids import is_key
from runner_e2e.plan.keys import (
    KeyRefusedError,
    build_key,
    build_keys,
    find_ids,
    hidden_names,
    resolve_key,
)

SECRET = "0123456789abcdef"
DOTTED = "chat-features.runner-opencode.local.agents.change-manager"
IDS = (DOTTED, "core.opencode.local.hello", "core.opencode.daytona.hello")
ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=20)


@pytest.mark.parametrize(
    ("secret", "execution_id", "key"),
    [
        # printf %s "$id" | openssl dgst -sha256 -hmac "$secret"
        pytest.param(SECRET, DOTTED, "c-2b3d1e6d68a7", id="ascii"),
        pytest.param("éàüöñçßø", "s.p.local.c", "c-c51e76da74a5", id="utf-8-secret"),
    ],
)
def test_a_key_is_the_plain_hmac_of_the_id(secret: str, execution_id: str, key: str) -> None:
    assert build_key(secret, execution_id) == key


def test_keys_are_made_for_every_id_in_its_order() -> None:
    keys = build_keys(SECRET, IDS)

    assert list(keys) == list(IDS)
    assert all(key == build_key(SECRET, execution_id) for execution_id, key in keys.items())
    assert all(is_key(key) for key in keys.values())


def test_another_secret_gives_other_keys() -> None:
    assert not {*build_keys(SECRET, IDS).values()} & {*build_keys(SECRET[::-1], IDS).values()}


def test_an_id_that_is_given_twice_is_no_collision() -> None:
    assert build_keys(SECRET, [DOTTED, DOTTED]) == {DOTTED: build_key(SECRET, DOTTED)}


@pytest.mark.parametrize("execution_id", IDS)
def test_a_key_leads_back_to_its_id(execution_id: str) -> None:
    assert resolve_key(SECRET, build_key(SECRET, execution_id), iter(IDS)) == execution_id


@pytest.mark.parametrize(
    ("key", "ids"),
    [
        pytest.param("c-000000000000", IDS, id="unknown"),
        pytest.param(DOTTED, IDS, id="an-id"),
        pytest.param("", IDS, id="empty"),
        pytest.param("c-2B3D1E6D68A7", IDS, id="upper-case"),
        pytest.param("c-2b3d1e6d68a7\n", IDS, id="newline"),
        pytest.param("\ud800😀", IDS, id="surrogate"),
        pytest.param("c-2b3d1e6d68a7", IDS[1:], id="a-cell-of-another-catalog"),
        pytest.param("c-2b3d1e6d68a7", (), id="no-cells"),
    ],
)
def test_a_key_of_no_cell_is_refused_without_naming_one(key: str, ids: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match="names no cell of this catalog") as caught:
        resolve_key(SECRET, key, ids)

    assert "key-secret" in caught.value.remedy
    assert not any(part in str(caught.value) for part in (*IDS, "change-manager", SECRET))


@pytest.mark.parametrize(
    "secret",
    [
        pytest.param("", id="empty"),
        pytest.param("fifteen-bytes-x", id="fifteen"),
        pytest.param("é" * 7, id="fourteen-bytes-of-utf-8"),
    ],
)
def test_a_secret_that_could_be_guessed_is_refused(secret: str) -> None:
    for refused in (
        lambda: build_key(secret, DOTTED),
        lambda: build_keys(secret, IDS),
        lambda: resolve_key(secret, "c-2b3d1e6d68a7", IDS),
    ):
        with pytest.raises(InputError, match="fewer than 16 bytes") as caught:
            refused()

        assert "openssl rand -hex 32" in caught.value.remedy
        assert not secret or secret not in str(caught.value)


def test_bytes_that_are_no_utf_8_count_as_they_are() -> None:
    odd = "".join(chr(0xDC80 + number) for number in range(16))

    assert build_key(odd, DOTTED) != build_key(odd[::-1], DOTTED)
    with pytest.raises(InputError, match="fewer than 16 bytes"):
        build_key(odd[1:], DOTTED)


@pytest.mark.parametrize("secret", ["a" * 64, "ab" * 16, "password" * 3])
def test_a_secret_of_a_few_characters_is_refused(secret: str) -> None:
    with pytest.raises(KeyRefusedError, match="repeats a few characters"):
        build_key(secret, DOTTED)


def test_a_secret_that_is_no_text_is_refused_without_showing_it() -> None:
    word = "hunter"  # not whole in the source: a traceback shows the line that failed

    with pytest.raises(InputError, match="not text") as caught:
        build_keys(f"{word}2" * 4 + "\ud800", IDS)

    assert f"{word}2" not in "".join(traceback.format_exception(caught.value))


def test_two_cells_with_one_key_are_refused_without_naming_them() -> None:
    # Found by trying 30 million ids with this secret.
    colliding = ("s.p.local.c7527301", "s.p.local.c7925696")
    assert build_key(SECRET, colliding[0]) == build_key(SECRET, colliding[1]) == "c-138520233c51"

    for refused in (
        lambda: build_keys(SECRET, (*IDS, *colliding)),
        lambda: resolve_key(SECRET, "c-2b3d1e6d68a7", (*IDS, *colliding)),
    ):
        with pytest.raises(InputError, match="same opaque key") as caught:
            refused()

        assert "Change key-secret" in caught.value.remedy
        assert "local" not in str(caught.value)
        assert "c-1385" not in str(caught.value)


@given(extra=ANY_TEXT, ids=st.lists(ANY_TEXT, max_size=4))
def test_any_ids_have_keys_that_lead_back(extra: str, ids: list[str]) -> None:
    secret = SECRET + extra.encode("utf-8", "replace").decode()

    keys = build_keys(secret, ids)

    assert keys.keys() == set(ids)
    assert [resolve_key(secret, key, ids) for key in keys.values()] == list(keys)


@given(ANY_TEXT)
def test_any_text_as_a_key_names_no_cell(key: str) -> None:
    with pytest.raises(InputError, match="names no cell"):
        resolve_key(SECRET, key, IDS)


@pytest.mark.parametrize(
    ("error", "exit_code"),
    [
        pytest.param(InputError("Unknown case: agents.secret", "Use agents.secret"), 2, id="refused"),
        pytest.param(TransientInfrastructureError("agents.secret hangs", "Wait"), 3, id="transient"),
        pytest.param(RunnerE2EError("agents.secret broke", "Look"), 3, id="broken"),
    ],
)
def test_behind_keys_a_failure_shows_no_name_and_keeps_its_exit_code(
    error: RunnerE2EError, exit_code: int
) -> None:
    with pytest.raises(RunnerE2EError) as caught, hidden_names(active=True):
        raise error

    assert "agents.secret" not in "".join(traceback.format_exception(caught.value))
    assert caught.value.exit_code == exit_code
    assert caught.value.failure_class is error.failure_class


@pytest.mark.parametrize(
    ("active", "error"),
    [
        pytest.param(False, InputError("Unknown case: agents.b", "Use agents.a"), id="without-keys"),
        pytest.param(True, KeyRefusedError("The key names no cell", "Use another"), id="about-keys"),
        pytest.param(True, CancelledError(15), id="cancelled"),
        pytest.param(True, HostRefusedError("Nothing is installed", "Install it"), id="about-the-host"),
        pytest.param(True, NotRunError("It takes place elsewhere", "Go there"), id="not-run"),
    ],
)
def test_a_failure_that_names_no_cell_is_shown_as_it_is(active: bool, error: RunnerE2EError) -> None:
    with pytest.raises(RunnerE2EError) as caught, hidden_names(active=active):
        raise error

    assert caught.value is error


def test_ids_are_found_by_their_keys_in_the_order_asked() -> None:
    keys = build_keys(SECRET, ["a.b.local.c", "a.b.local.d"])

    assert find_ids(keys, [keys["a.b.local.d"], keys["a.b.local.c"]]) == ("a.b.local.d", "a.b.local.c")
