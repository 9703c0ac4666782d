"""What the kernel says, and what it means for cells."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner_e2e.doctor.findings import Finding, Level, Unreadable, answer_all
from runner_e2e.doctor.kernel import GIVES, QUESTIONS
from runner_e2e.doctor.kernel_facts import KernelFacts, Landlock, observe_kernel, parse_proc_mount
from runner_e2e.sandbox.explain import losses
from runner_e2e.sandbox.rules import LATEST

if TYPE_CHECKING:
    from pathlib import Path

GOOD = KernelFacts(
    system="Linux",
    release="6.12.0",
    machine="x86_64",
    landlock=Landlock(6),
    minimum_abi=6,
    seccomp_actions="kill_process kill_thread trap errno trace log allow",
    ptrace_scope="1",
    user_namespaces_allowed="1",
    most_user_namespaces="96365",
    apparmor_restricts="0",
    proc_mount="rw,nosuid,rw,hidepid=invisible",
)
CLOSED = Unreadable("Permission denied")


def judge(**changes: Any) -> dict[str, Finding]:  # noqa: ANN401 - fields of many types
    return {one.id: one for one in answer_all(QUESTIONS, replace(GOOD, **changes))}


def test_a_good_kernel_asks_for_nothing() -> None:
    assert {one.level for one in judge().values()} == {Level.OK}


@pytest.mark.parametrize(
    ("name", "changes", "level", "words"),
    [
        pytest.param("release", {"system": "Darwin"}, "error", "Darwin", id="system"),
        pytest.param("landlock", {"landlock": Landlock(9), "minimum_abi": 6}, "ok", "ABI 9", id="newest"),
        pytest.param("landlock", {"landlock": Landlock(12)}, "ok", "ABI 12", id="newer-than-known"),
        pytest.param(
            "landlock",
            {"landlock": Landlock(0, "the kernel has none", "add it")},
            "error",
            "There is no Landlock: the kernel has none",
            id="none",
        ),
        pytest.param("landlock", {"landlock": Landlock(5)}, "error", "min-abi asks for 6", id="too-old"),
        pytest.param("landlock", {"landlock": Landlock(2)}, "error", "ABI 2", id="unusable"),
        pytest.param(
            "landlock", {"landlock": Landlock(4), "minimum_abi": 4}, "warning", "accepts", id="compatible"
        ),
        pytest.param(
            "landlock", {"landlock": Landlock(7), "minimum_abi": 8}, "error", "8", id="asked-for-more"
        ),
        pytest.param("seccomp", {"machine": "riscv64"}, "error", "riscv64", id="machine"),
        pytest.param("seccomp", {"machine": "aarch64"}, "ok", "work", id="arm"),
        pytest.param("seccomp", {"seccomp_actions": None}, "warning", "does not say", id="no-actions"),
        pytest.param("seccomp", {"seccomp_actions": "kill_thread allow"}, "error", "errno", id="few-actions"),
        pytest.param("seccomp", {"seccomp_actions": CLOSED}, "warning", "Permission denied", id="unreadable"),
        pytest.param("ptrace", {"ptrace_scope": None}, "info", "no Yama", id="no-yama"),
        pytest.param("ptrace", {"ptrace_scope": "0"}, "info", "off", id="yama-off"),
        pytest.param("ptrace", {"ptrace_scope": "3"}, "ok", "scope 3", id="yama-strict"),
        pytest.param(
            "ptrace", {"ptrace_scope": CLOSED}, "warning", "could not be told", id="yama-unreadable"
        ),
        pytest.param("proc", {"proc_mount": "rw,nosuid,rw"}, "info", "command lines", id="no-hidepid"),
        pytest.param("proc", {"proc_mount": "rw,rw,hidepid=1"}, "info", "command lines", id="weak-hidepid"),
        pytest.param("proc", {"proc_mount": "rw,rw,hidepid=2"}, "ok", "hidepid=2", id="old-hidepid"),
        pytest.param("proc", {"proc_mount": None}, "error", "not mounted", id="no-proc"),
        pytest.param("user-namespaces", {"apparmor_restricts": "1"}, "info", "apparmor", id="apparmor"),
        pytest.param(
            "user-namespaces", {"user_namespaces_allowed": "0"}, "info", "unprivileged", id="debian"
        ),
        pytest.param("user-namespaces", {"most_user_namespaces": "0"}, "info", "max_user", id="none-allowed"),
        pytest.param(
            "user-namespaces",
            {"user_namespaces_allowed": None, "most_user_namespaces": None, "apparmor_restricts": None},
            "ok",
            "may make",
            id="no-settings",
        ),
        pytest.param(
            "user-namespaces", {"most_user_namespaces": CLOSED}, "warning", "could not", id="ns-unreadable"
        ),
    ],
)
def test_each_fact_has_its_answer(name: str, changes: dict[str, Any], level: str, words: str) -> None:
    found = judge(**changes)[f"kernel.{name}"]

    assert found.level == level
    assert words in found.answer.found


def test_the_advice_for_an_old_kernel_names_a_setting_only_where_it_would_help() -> None:
    assert "set min-abi to 5" in judge(landlock=Landlock(5))["kernel.landlock"].answer.remedy
    assert "min-abi" not in judge(landlock=Landlock(2))["kernel.landlock"].answer.remedy


@pytest.mark.parametrize("abi", range(LATEST + 1))
def test_the_detail_says_what_each_level_gives_and_what_this_one_lacks(abi: int) -> None:
    detail = judge(landlock=Landlock(abi, "none", "add it"))["kernel.landlock"].answer.detail

    assert [line for line in detail if line.startswith("ABI ")] == [
        f"ABI {level} gives: {GIVES[level]}" for level in range(1, abi + 1)
    ]
    assert [line for line in detail if line.startswith("Missing")] == [
        f"Missing here: {text}" for text in losses(abi)
    ]


def test_every_level_of_the_launchers_table_is_explained() -> None:
    assert sorted(GIVES) == list(range(1, LATEST + 1))


@pytest.mark.parametrize(
    ("mountinfo", "options"),
    [
        pytest.param(
            "22 1 0:21 / /proc rw,nosuid - proc proc rw,hidepid=2", "rw,nosuid,rw,hidepid=2", id="plain"
        ),
        pytest.param("22 1 0:21 / /proc rw shared:2 - proc proc rw", "rw,rw", id="with-fields"),
        pytest.param(
            "22 1 0:21 / /proc rw - proc proc rw,hidepid=2\n23 22 0:22 / /proc ro - proc proc rw",
            "ro,rw",
            id="top",
        ),
        pytest.param("22 1 0:21 / /proc/x rw - proc proc rw", None, id="elsewhere"),
        pytest.param("22 1 0:21 / /proc rw - tmpfs none rw", None, id="other-kind"),
        pytest.param("", None, id="empty"),
    ],
)
def test_the_options_of_proc_are_those_of_the_mount_on_top(mountinfo: str, options: str | None) -> None:
    assert parse_proc_mount(mountinfo) == options


@given(st.text())
def test_any_mount_table_is_survived(text: str) -> None:
    assert parse_proc_mount(text) is None or text


def test_settings_are_read_where_they_are_and_missing_ones_are_told_from_closed_ones(tmp_path: Path) -> None:
    settings = tmp_path / "proc" / "sys" / "kernel"
    (settings / "yama").mkdir(parents=True)
    (settings / "yama" / "ptrace_scope").write_text("1\n", encoding="ascii")
    (settings / "unprivileged_userns_clone").mkdir()

    facts = observe_kernel(6, root=tmp_path)

    assert facts.ptrace_scope == "1"
    assert facts.apparmor_restricts is None
    assert facts.proc_mount is None
    assert isinstance(facts.user_namespaces_allowed, Unreadable)
