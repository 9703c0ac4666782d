"""Programs of a launch: found, fit for this machine, and nowhere beneath what is hidden."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import pytest

from runner_e2e.cell.programs import check_programs, check_runner, find_programs, judge_program, list_steps
from runner_e2e.errors import InputError
from runner_e2e.isolation.base import BaseHidden

if TYPE_CHECKING:
    from collections.abc import Callable


def elf(machine: int, size: int = 2, order: int = 1) -> bytes:
    """Return the start of a program: its class, byte order and machine."""
    name = "little" if order == 1 else "big"
    return b"\x7fELF" + bytes((size, order, 1)) + bytes(9) + b"\2\0" + machine.to_bytes(2, name) + bytes(44)  # type: ignore[arg-type]  # one of the two


X64, ARM64 = elf(62), elf(183)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A target without any program, and two directories: `hid` will be hidden, `ok` not."""
    for name in ("target", "hid", "ok"):
        (tmp_path / name).mkdir()
    return tmp_path.resolve()


def write(path: Path, content: bytes = X64, mode: int = 0o755) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(mode)
    return path


def hidden(*paths: Path, optional: tuple[Path, ...] = ()) -> BaseHidden:
    return BaseHidden(
        tuple(PurePosixPath(path) for path in paths), tuple(PurePosixPath(path) for path in optional)
    )


@pytest.mark.parametrize(
    ("head", "machine", "problem"),
    [
        pytest.param(X64, "x86_64", None, id="own"),
        pytest.param(ARM64, "aarch64", None, id="own-arm"),
        pytest.param(b"#!/bin/sh\n", "x86_64", None, id="script"),
        pytest.param(ARM64, "x86_64", "another machine than x86_64", id="arm-on-x64"),
        pytest.param(X64, "aarch64", "another machine than aarch64", id="x64-on-arm"),
        pytest.param(elf(3, size=1), "x86_64", "another machine", id="32-bit"),
        pytest.param(elf(62, size=1), "x86_64", "another machine", id="x32"),
        pytest.param(elf(183, order=2), "aarch64", "another machine", id="big-endian"),
        pytest.param(X64, "riscv64", "another machine", id="unknown-machine"),
        pytest.param(X64[:19], "x86_64", "neither", id="cut"),
        pytest.param(b"", "x86_64", "neither", id="empty"),
        pytest.param(b"\xcf\xfa\xed\xfe" + bytes(60), "x86_64", "neither", id="macos"),
        pytest.param(b"MZ" + bytes(60), "x86_64", "neither", id="windows"),
        pytest.param(b"version https://git-lfs\n", "x86_64", "neither", id="pointer-of-git-lfs"),
    ],
)
def test_a_program_is_judged_by_its_first_bytes(head: bytes, machine: str, problem: str | None) -> None:
    found = judge_program(head, machine)

    assert found is None if problem is None else found is not None and problem in found


def test_a_runnerd_that_can_be_executed_here_passes(place: Path) -> None:
    check_runner(write(place / "runnerd"), "x86_64")
    (place / "link").symlink_to(place / "runnerd")
    check_runner(place / "link", "x86_64")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        pytest.param(lambda place: place / "missing", "does not exist", id="missing"),
        pytest.param(lambda place: write(place / "file") / "below", "does not exist", id="below-a-file"),
        pytest.param(lambda place: place / "ok", "no file that can be executed", id="directory"),
        pytest.param(
            lambda place: write(place / "r", mode=0o644), "no file that can be", id="not-executable"
        ),
        pytest.param(lambda place: write(place / "r", ARM64), "another machine", id="foreign"),
        pytest.param(lambda place: write(place / "r", b""), "neither", id="empty"),
        pytest.param(lambda _place: Path("/dev/null"), "no file that can be executed", id="device"),
        pytest.param(lambda _place: None, "there is no runnerd", id="none"),
    ],
)
def test_a_native_cell_without_such_a_runnerd_is_refused_with_the_variable(
    place: Path, make: Callable[[Path], Path | None], said: str
) -> None:
    with pytest.raises(InputError) as caught:
        check_runner(make(place), "x86_64")

    assert said in caught.value.problem
    assert "PAPERCLIP_RUNNER_BINARY" in caught.value.remedy


def test_programs_are_found_by_what_a_person_can_change(place: Path) -> None:
    target = place / "target"
    node = write(place / "ok" / "node")
    opencode = write(target / "node_modules/opencode-ai/bin/opencode.exe", b"#!/usr/bin/env -S node --x\n")
    runner = write(place / "ok" / "runnerd", b"#! /bin/sh -e\n")
    environ = {
        "PATH": f"{place}/none:{place}/ok",
        "PAPERCLIP_ACPX_PROVIDER_PACKAGE_ROOT": "/packs",
        "PAPERCLIP_ACPX_PROVIDER_RECOVERY_POLICY": "once",
        "PAPERCLIP_RUNNER_REMOTE_PROVIDER_PACK_PATH": "/remote",
        "PAPERCLIP_HOME": "/no-program",
    }

    assert find_programs(target, environ, runner) == {
        "PAPERCLIP_RUNNER_BINARY": runner,
        "node_modules/opencode-ai/bin/opencode.exe of the target": opencode,
        "PAPERCLIP_ACPX_PROVIDER_PACKAGE_ROOT": Path("/packs"),
        "PAPERCLIP_RUNNER_REMOTE_PROVIDER_PACK_PATH": Path("/remote"),
        "the interpreter of PAPERCLIP_RUNNER_BINARY": Path("/bin/sh"),
        "the interpreter of node_modules/opencode-ai/bin/opencode.exe of the target": node,
        "node in PATH": node,
    }


def test_of_an_empty_target_nothing_is_found(place: Path) -> None:
    assert find_programs(place / "target", {}, None) == {}


def test_the_packages_own_runnerd_is_found_with_its_opencode(place: Path) -> None:
    vendor = "node_modules/@paperclipai/server/dist/vendor"
    write(place / "target" / vendor / "node_modules/opencode-ai/bin/opencode.exe")
    write(place / "target" / vendor / "paperclip-runner/bin/paperclip-runnerd")

    assert list(find_programs(place / "target", {}, None)) == [
        f"{vendor}/node_modules/opencode-ai/bin/opencode.exe of the target",
        f"{vendor}/paperclip-runner of the target",
    ]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("hid/runnerd", id="beneath"),
        pytest.param("hid", id="itself"),
        pytest.param("hid/deep/er/runnerd", id="deep"),
        pytest.param("ok/../hid/runnerd", id="by-dots"),
        pytest.param("link", id="link-into"),
        pytest.param("chain", id="link-to-a-link"),
        pytest.param("through", id="link-by-a-hidden-link"),
        pytest.param("directory/runnerd", id="directory-link"),
        pytest.param("relative", id="relative-link"),
        pytest.param("hid/not-there", id="missing"),
    ],
)
@pytest.mark.parametrize("required", [True, False], ids=["required", "optional"])
@pytest.mark.parametrize("spelled", ["hid", "alias-of-hid"])
def test_a_program_beneath_a_hidden_path_is_refused(
    place: Path, name: str, spelled: str, *, required: bool
) -> None:
    for path in ("hid/runnerd", "hid/deep/er/runnerd", "ok/runnerd"):
        write(place / path)
    for link, aim in (
        ("link", place / "hid/runnerd"),
        ("chain", place / "link"),
        ("through", place / "hid/out"),
        ("hid/out", place / "ok/runnerd"),
        ("directory", place / "hid"),
        ("relative", Path("ok/../hid/runnerd")),
        ("alias-of-hid", place / "hid"),
    ):
        (place / link).symlink_to(aim)
    top = place / spelled

    with pytest.raises(InputError) as caught:
        check_programs({"VARIABLE": place / name}, hidden(top) if required else hidden(optional=(top,)))

    assert "is hidden" in caught.value.problem
    assert "VARIABLE" in caught.value.remedy


@pytest.mark.parametrize("name", ["ok/runnerd", "hidden/runnerd", "hid/../ok/runnerd", "link", "missing"])
def test_a_program_elsewhere_passes(place: Path, name: str) -> None:
    write(place / "ok/runnerd")
    write(place / "hidden/runnerd")
    (place / "link").symlink_to("ok/runnerd")

    check_programs({"VARIABLE": place / name}, hidden(place / "hid", optional=(place / "not-made",)))


def test_links_in_a_circle_are_refused(place: Path) -> None:
    (place / "a").symlink_to("b")
    (place / "b").symlink_to("a")

    with pytest.raises(InputError, match="circle"):
        list(list_steps(place / "a"))


def test_the_steps_are_each_link_and_what_the_path_really_is(place: Path) -> None:
    (place / "a").symlink_to("ok/b")
    (place / "ok" / "b").symlink_to(place / "hid")

    assert list(list_steps(place / "a" / "x" / ".." / "y")) == [
        place / "a",
        place / "ok" / "b",
        place / "hid/y",
    ]
