"""What a target's harness must not change: which places those are."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from runner_e2e.cell.protected import (
    PARTS,
    SYSTEM_PREFIXES,
    find_protected,
    find_runner_files,
    find_search_path,
)
from runner_e2e.cell.request import PROJECT


def make(*paths: Path) -> None:
    for path in paths:
        path.mkdir(parents=True)


def test_the_action_its_python_and_the_runners_files_are_protected(tmp_path: Path) -> None:
    work = tmp_path / "work"
    make(work / "_temp", work / "_actions", work / "commands", work / "target")
    (work / "commands" / "output").touch()
    environ = {"RUNNER_TEMP": str(work / "_temp"), "GITHUB_OUTPUT": str(work / "commands" / "output")}

    found = find_protected(environ, [work / "target"])

    assert {work / "_temp", work / "_actions", work / "commands"} <= set(found)
    assert {PROJECT / part for part in PARTS if (PROJECT / part).exists()} <= set(found)
    for prefix in {sys.prefix, sys.base_prefix} - set(SYSTEM_PREFIXES):
        assert any(Path(prefix).resolve().is_relative_to(place) for place in found)
    assert not any((work / "target").is_relative_to(place) for place in found)


def test_places_are_canonical_and_none_lies_in_another(tmp_path: Path) -> None:
    make(tmp_path / "real" / "commands")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    environ = {
        "RUNNER_TEMP": str(tmp_path / "link"),
        "GITHUB_ENV": str(tmp_path / "link" / "commands" / "x"),
        "GITHUB_OUTPUT": "relative/file",
    }

    found = find_protected(environ, [])

    assert tmp_path / "real" in found
    assert not any(place != other and place.is_relative_to(other) for place in found for other in found)
    assert found == [place.resolve() for place in found]


def test_beside_what_is_needed_everything_is_protected(tmp_path: Path) -> None:
    temporary = tmp_path / "_temp"
    make(temporary / "evidence", temporary / "a" / "target", temporary / "a" / "other")
    (temporary / "file").touch()
    (temporary / "link").symlink_to(tmp_path)

    found = find_protected({"RUNNER_TEMP": str(temporary)}, [temporary / "a" / "target"])

    assert {place for place in found if place.is_relative_to(tmp_path)} == {
        temporary / "evidence",
        temporary / "a" / "other",
        temporary / "file",
    }


def test_a_place_that_is_needed_itself_is_left_out(tmp_path: Path) -> None:
    make(tmp_path / "_temp" / "x")

    found = find_protected({"RUNNER_TEMP": str(tmp_path / "_temp")}, [tmp_path / "_temp"])

    assert not any(place.is_relative_to(tmp_path) for place in found)


@pytest.mark.parametrize(
    "environ", [{}, {"RUNNER_TEMP": ""}, {"RUNNER_TEMP": "temp"}, {"RUNNER_TEMP": "/no/such"}]
)
def test_without_a_runner_the_action_itself_is_protected(environ: dict[str, str]) -> None:
    found = find_protected(environ, [])

    assert PROJECT / "lib" in found
    assert Path("/no/such") not in found
    assert Path.cwd() not in found


def test_the_search_path_is_protected_where_it_does_not_exist_too(tmp_path: Path) -> None:
    make(tmp_path / "tools", tmp_path / "target" / "bin", tmp_path / "real")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    names = ("tools", "later/bin", "target/bin", "target", "link", ".")
    search = ":".join(["/usr/bin", "/bin", "", "relative", *(str(tmp_path / name) for name in names)])

    found = list(find_search_path(search, [tmp_path / "target", tmp_path / "target" / "x"]))

    assert found == [tmp_path / "tools", tmp_path / "later" / "bin", tmp_path / "real"]
    assert list(find_search_path(f"{tmp_path / 'loop' / 'bin'}", [])) == []  # leads nowhere
    assert tmp_path / "tools" in find_protected({"PATH": f"/bin:{tmp_path / 'tools'}"}, [])


def put(proc: Path, pid: int, parent: int, program: Path | None) -> None:
    make(proc / str(pid))
    (proc / str(pid) / "stat").write_text(f"{pid} (a) S 9 (b) S {parent} 1 1 0")
    if program is not None:
        (proc / str(pid) / "exe").symlink_to(program)


@pytest.mark.parametrize("name", ["Runner.Worker", "Runner.Listener"])
@pytest.mark.parametrize("binaries", ["bin", "bin.2.330.0"])
def test_the_runner_is_found_by_the_process_that_started_the_step(
    tmp_path: Path, name: str, binaries: str
) -> None:
    runner, proc = tmp_path / "runner", tmp_path / "proc"
    make(runner / binaries, runner / "externals", runner / "_work")
    put(proc, 30, 20, Path("/usr/bin/bash"))
    put(proc, 20, 10, None)  # another user's
    put(proc, 10, 1, runner / binaries / name)

    assert find_runner_files(30, proc) == sorted([runner / binaries, runner / "externals", runner / "_work"])


@pytest.mark.parametrize(
    ("stat", "program"),
    [
        pytest.param("30 (a) S 1 1", "/opt/Runner.Worker.copy/bin/sh", id="no-runner"),
        pytest.param("30 (a) S 20 1", "/usr/bin/bash", id="parent-gone"),
        pytest.param("", "/usr/bin/bash", id="gone"),
        pytest.param("30 (a) S x 1", "/usr/bin/bash", id="unreadable"),
        pytest.param("30 (a) S 1 1", "/no/such/bin/Runner.Worker", id="runner-replaced"),
    ],
)
def test_where_no_runner_is_above_there_is_nothing_of_it(tmp_path: Path, stat: str, program: str) -> None:
    put(tmp_path, 30, 1, Path(program))
    (tmp_path / "30" / "stat").write_text(stat)

    assert find_runner_files(30, tmp_path) == []


def test_what_runs_these_tests_is_no_runner_or_lies_in_one() -> None:
    assert all(os.path.lexists(path) for path in find_runner_files(os.getpid()))
