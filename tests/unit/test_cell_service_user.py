"""Which account may run a cell for root, its mark, and the variables of its processes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner_e2e.cell.service_user import (
    PRIVILEGED_GROUPS,
    Account,
    build_environ,
    check_account,
    check_name,
    choose_mark,
    find_privilege,
    has_passwordless_sudo,
    plan_creation,
)
from runner_e2e.errors import InputError, UnsupportedHostError

PLAIN = Account("ada", 990, 991, frozenset({"ada", "users"}))
WHOLE = "         0          0 4294967295\n"
ROOTLESS = "0 1000 1\n1 100000 65536\n"


@pytest.mark.parametrize("name", ["runner-e2e", "nobody", "_x", "a" * 32])
def test_a_usual_name_is_taken(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize("name", ["", "-o", "Ada", "a b", "a" * 33, "0", "a\nb", "a:b", "../x", "ä"])
def test_what_is_no_name_of_an_account_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="no name of an account"):
        check_name(name)


@pytest.mark.parametrize(
    ("account", "says"),
    [
        pytest.param(Account("toor", 0, 991), "is root", id="uid-0"),
        pytest.param(Account("ada", 990, 0), "has root's group", id="gid-0"),
        *(
            pytest.param(
                Account("ada", 990, 991, frozenset({"ada", group})), f"in the group {group}", id=group
            )
            for group in ("docker", "sudo", "wheel", "adm", "disk", "shadow", "lxd")
        ),
    ],
)
def test_an_account_with_privileges_is_refused_with_the_reason(account: Account, says: str) -> None:
    with pytest.raises(InputError, match=says):
        check_account(account, "")


def test_an_account_without_privileges_is_taken() -> None:
    check_account(PLAIN, "root ALL=(ALL:ALL) ALL\n%sudo ALL=(ALL) NOPASSWD: ALL\n")


def test_every_privileged_group_counts() -> None:
    for group in PRIVILEGED_GROUPS:
        assert find_privilege(Account("ada", 990, 991, frozenset({group})), "") == f"is in the group {group}"


@pytest.mark.parametrize(
    "rules",
    [
        pytest.param("ada ALL=(ALL) NOPASSWD: ALL", id="name"),
        pytest.param("ada\tALL=(ALL)\tNOPASSWD:ALL", id="tabs"),
        pytest.param("#990 ALL=(ALL) NOPASSWD: ALL", id="number"),
        pytest.param("%users ALL=(ALL) NOPASSWD: ALL", id="group"),
        pytest.param("%#991 ALL=(ALL) NOPASSWD: ALL", id="group-number"),
        pytest.param("ALL ALL=(ALL) NOPASSWD: ALL", id="everybody"),
        pytest.param("ben, ada ALL = NOPASSWD: /bin/x", id="list"),
        pytest.param("ada ALL=(ALL) \\\n  NOPASSWD: ALL", id="continued"),
        pytest.param("User_Alias TEAM = ben, ada\nTEAM ALL=(ALL) NOPASSWD: ALL", id="alias"),
        pytest.param("Defaults !authenticate\nada ALL=(ALL) ALL", id="nobody-is-asked"),
        pytest.param("Defaults:ada !authenticate\n%users ALL=(ALL) ALL", id="this-one-is-not-asked"),
    ],
)
def test_a_rule_that_asks_for_no_password_is_seen(rules: str) -> None:
    assert has_passwordless_sudo(PLAIN, f"# a file\nDefaults env_reset\n{rules}\n")


@pytest.mark.parametrize(
    "rules",
    [
        pytest.param("", id="none"),
        pytest.param("ada ALL=(ALL) ALL", id="with-a-password"),
        pytest.param("# ada ALL=(ALL) NOPASSWD: ALL", id="comment"),
        pytest.param("adam ALL=(ALL) NOPASSWD: ALL", id="another-name"),
        pytest.param("%ada2 ALL=(ALL) NOPASSWD: ALL", id="another-group"),
        pytest.param("Defaults:ben !authenticate\nada ALL=(ALL) ALL", id="another-is-not-asked"),
        pytest.param("User_Alias TEAM = ben\nTEAM ALL=(ALL) NOPASSWD: ALL", id="another-alias"),
    ],
)
def test_other_rules_do_not_count(rules: str) -> None:
    assert not has_passwordless_sudo(PLAIN, rules)


@given(st.text())
def test_no_text_of_rules_is_too_strange_to_be_read(rules: str) -> None:
    has_passwordless_sudo(PLAIN, rules)


def test_an_account_is_made_by_the_program_that_is_there() -> None:
    both = {"useradd": "/usr/sbin/useradd", "adduser": "/usr/sbin/adduser"}

    assert plan_creation("runner-e2e", both, "/sbin/nologin") == [
        "/usr/sbin/useradd",
        "--system",
        "--no-create-home",
        "--shell",
        "/sbin/nologin",
        "--",
        "runner-e2e",
    ]
    assert plan_creation("runner-e2e", {"adduser": "/usr/sbin/adduser"}, "/sbin/nologin") == [
        "/usr/sbin/adduser",
        *("-S", "-D", "-H", "-s", "/sbin/nologin"),
        "runner-e2e",
    ]
    with pytest.raises(InputError, match="neither useradd nor adduser"):
        plan_creation("runner-e2e", {}, "/sbin/nologin")


def test_a_mark_is_far_from_the_groups_of_accounts_where_there_is_room() -> None:
    assert choose_mark(WHOLE, set(), lambda _: 5) == (1 << 30) + 5
    assert 61184 <= choose_mark(ROOTLESS, set(), lambda n: n - 1) < 65536


def test_a_mark_is_no_group_that_exists() -> None:
    draws = iter([0, 0, 7])

    assert choose_mark(WHOLE, {1 << 30}, lambda _: next(draws)) == (1 << 30) + 7


@pytest.mark.parametrize(
    "gid_map",
    [pytest.param("", id="none"), pytest.param("0 1000 1\n", id="root-alone")],
)
def test_a_user_namespace_without_groups_is_refused(gid_map: str) -> None:
    with pytest.raises(UnsupportedHostError, match="no group number"):
        choose_mark(gid_map, set(), lambda _: 0)


def test_a_user_namespace_whose_groups_are_all_taken_is_refused() -> None:
    with pytest.raises(UnsupportedHostError, match="no group number"):
        choose_mark("1000 0 1\n", {1000}, lambda _: 0)


@given(st.integers(0, 1 << 31), st.integers(1, 1 << 31), st.randoms(use_true_random=False))
def test_a_mark_is_one_that_the_namespace_has(start: int, count: int, random: object) -> None:
    draw = getattr(random, "randrange")  # noqa: B009 - hypothesis gives it no type
    try:
        mark = choose_mark(f"{start} 0 {count}\n", set(), draw)
    except UnsupportedHostError:
        assert not any(
            max(low, start) < min(high, start + count) for low, high in ((1000, 65520), (1 << 30, 2**31 - 1))
        )
    else:
        assert start <= mark < start + count
        assert mark >= 1000


def test_the_cells_process_gets_what_it_reads_and_nothing_else_of_roots() -> None:
    environ = {
        "PATH": "/bin",
        "INPUT_ID": "a.b.local.c",
        "INPUT_SERVICE_USER": "ada",
        "INPUT_GITHUB_TOKEN": "secret",
        "RUNNER_E2E_DECOY": "decoy",
        "RUNNER_E2E_PAPERCLIP_DIR": "/opt/p",
        "PAPERCLIP_RUNNER_E2E_SELECTED_ID": "a.b.local.c",
        "LC_ALL": "C",
        "GITHUB_SHA": "0" * 40,
        "HOME": "/root",
        "RUNNER_TEMP": "/w/_temp",
        "GITHUB_OUTPUT": "/w/_temp/out",
        "GITHUB_TOKEN": "secret",
        "ACTIONS_RUNTIME_TOKEN": "secret",
        "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "secret",
        "OPENAI_API_KEY": "secret",
        "LD_PRELOAD": "/x.so",
        "PYTHONPATH": "/x",
    }

    built = build_environ(environ, {"HOME": "/h", "INPUT_HIDE": "/x"})

    assert built == {
        "PATH": "/bin",
        "INPUT_ID": "a.b.local.c",
        "RUNNER_E2E_PAPERCLIP_DIR": "/opt/p",
        "PAPERCLIP_RUNNER_E2E_SELECTED_ID": "a.b.local.c",
        "LC_ALL": "C",
        "GITHUB_SHA": "0" * 40,
        "HOME": "/h",
        "INPUT_HIDE": "/x",
    }
