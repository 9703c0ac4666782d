"""Whatever code of a target does to the runner's command files, each of them is as before."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from runner_e2e.cell.kept_files import FILE_VARIABLES, FOLDER_NAME, MOST_KEPT_BYTES, MOST_NAMED, KeptFiles
from runner_e2e.errors import CancelledError, RunnerE2EError

if TYPE_CHECKING:
    from collections.abc import Callable

NAMES = {
    "GITHUB_OUTPUT": "set_output_1",
    "GITHUB_ENV": "set_env_1",
    "GITHUB_PATH": "add_path_1",
    "GITHUB_STATE": "save_state_1",
    "GITHUB_STEP_SUMMARY": "step_summary_1",
}
SPARSE_BYTES = 15 << 40
NAMES_OF_STEP_AROUND = ("set_env_0", "set_output_0")


class Runner:
    """The folder of a step's command files, with those of the step around it."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.folder = place / FOLDER_NAME
        self.folder.mkdir(mode=0o755)
        self.environ = {variable: str(self.folder / name) for variable, name in NAMES.items()}
        for name in (*NAMES.values(), *NAMES_OF_STEP_AROUND):
            (self.folder / name).write_text(f"of {name}\n", encoding="utf-8")
        self.before = self.contents()

    def path(self, variable: str) -> Path:
        return Path(self.environ[variable])

    def keep(self, remove: Callable[[Path], str | None] | None = None, *, fresh: bool = False) -> KeptFiles:
        return KeptFiles(self.environ, fresh=fresh, remove=remove or remove_as_told)

    def contents(self) -> dict[str, tuple[str, int]]:
        paths = sorted(self.folder.iterdir())
        assert [path for path in paths if path.is_symlink() or not path.is_file()] == []
        return {
            path.name: (path.read_text(encoding="utf-8"), stat.S_IMODE(path.stat().st_mode)) for path in paths
        }

    def poison(self) -> None:
        with self.path("GITHUB_ENV").open("a", encoding="utf-8") as file:
            file.write("LD_PRELOAD=/tmp/evil.so\n")


def remove_as_told(path: Path) -> str | None:
    shutil.rmtree(path)
    return None


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(tmp_path)


def put(path: Path, how: str) -> None:
    """Put something else in the place of a file, or change it."""
    if how == "append":
        with path.open("a", encoding="utf-8") as file:
            file.write("status=passed\n")
    elif how == "same-length":
        path.write_text("x" * len(path.read_text(encoding="utf-8")), encoding="utf-8")
    elif how == "sparse":
        os.truncate(path, SPARSE_BYTES)
    elif how == "read-only":
        path.chmod(0o444)
    elif how == "closed":
        path.chmod(0)
    else:
        path.unlink(missing_ok=True)
        _put_anew(path, how)


def _put_anew(path: Path, how: str) -> None:
    if how == "directory":
        (path / "in").mkdir(parents=True)
    elif how == "link":
        (path.parent.parent / "elsewhere").write_text("foreign", encoding="utf-8")
        path.symlink_to(path.parent.parent / "elsewhere")
    elif how == "link-to-nothing":
        path.symlink_to("/nonexistent")
    elif how == "link-to-itself":
        path.symlink_to(path)
    elif how == "pipe":
        os.mkfifo(path)
    elif how == "another-file":
        path.write_text("status=passed\n", encoding="utf-8")


CHANGES = [
    *("append", "same-length", "sparse", "read-only", "closed", "removed", "directory", "link"),
    *("link-to-nothing", "link-to-itself", "pipe", "another-file"),
]


@pytest.mark.parametrize("variable", ["GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"])
@pytest.mark.parametrize("how", CHANGES)
def test_whatever_was_done_to_one_file_all_are_restored(runner: Runner, variable: str, how: str) -> None:
    kept = runner.keep()
    put(runner.path(variable), how)
    runner.poison()

    changed = kept.restore()

    assert runner.contents() == runner.before
    assert (sorted(changed), kept.problems) == (sorted([variable, "GITHUB_ENV"]), [])
    elsewhere = runner.place / "elsewhere"
    assert not elsewhere.exists() or elsewhere.read_text(encoding="utf-8") == "foreign"


@pytest.mark.parametrize("how", ["another-file", "directory", "link", "link-to-nothing", "pipe"])
@pytest.mark.parametrize("variable", FILE_VARIABLES)
def test_what_was_not_there_is_not_there_afterwards(runner: Runner, variable: str, how: str) -> None:
    runner.path(variable).unlink()
    before = runner.contents()
    kept = runner.keep()
    put(runner.path(variable), how)

    assert (kept.restore(), kept.problems) == ([variable], [])
    assert runner.contents() == before


@pytest.mark.parametrize("how", ["another-file", "directory", "link", "pipe"])
def test_a_new_file_beside_them_is_removed_and_named(runner: Runner, how: str) -> None:
    kept = runner.keep()
    put(runner.folder / "set_env_2", how)

    assert (kept.restore(), kept.problems) == (["set_env_2"], [])
    assert runner.contents() == runner.before


@pytest.mark.parametrize("how", CHANGES)
def test_a_file_of_the_step_around_is_restored_too(runner: Runner, how: str) -> None:
    kept = runner.keep()
    put(runner.folder / "set_env_0", how)

    assert kept.restore() == ["set_env_0"]
    assert runner.contents() == runner.before


def replace_by_directory(folder: Path) -> None:
    folder.rename(folder.with_name("moved"))
    folder.mkdir()
    (folder / "set_env_1").write_text("LD_PRELOAD=/tmp/evil.so\n", encoding="utf-8")


def replace_by_link(folder: Path) -> None:
    replace_by_directory(folder)
    folder.rename(folder.with_name("evil"))
    folder.symlink_to("evil")


def replace_by_file(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_text("", encoding="utf-8")


@pytest.mark.parametrize(
    "act",
    [
        replace_by_directory,
        replace_by_link,
        replace_by_file,
        pytest.param(shutil.rmtree, id="remove"),
        pytest.param(lambda folder: folder.chmod(0o500), id="close"),
    ],
)
def test_a_folder_that_was_replaced_or_closed_is_made_anew(
    runner: Runner, act: Callable[[Path], object]
) -> None:
    kept = runner.keep()
    act(runner.folder)

    changed = kept.restore()

    assert (changed[0], kept.problems) == (FOLDER_NAME, [])
    assert runner.contents() == runner.before
    assert stat.S_IMODE(runner.folder.stat().st_mode) == 0o755
    assert not runner.folder.is_symlink()


def test_who_has_the_old_file_open_writes_to_it_in_vain(runner: Runner) -> None:
    kept = runner.keep()
    with runner.path("GITHUB_ENV").open("a", encoding="utf-8") as file:
        file.write("A=b\n")
        file.flush()
        assert kept.restore() == ["GITHUB_ENV"]
        file.write("LD_PRELOAD=/tmp/evil.so\n")

    assert runner.contents() == runner.before


def test_elsewhere_than_in_the_runners_folder_only_the_files_themselves_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "output"
    path.write_text("before", encoding="utf-8")
    kept = KeptFiles({"GITHUB_OUTPUT": str(path), "GITHUB_ENV": ""})
    (tmp_path / "evidence").mkdir()
    (tmp_path / "neighbour").touch()
    path.write_text("after", encoding="utf-8")

    assert kept.restore() == ["GITHUB_OUTPUT"]
    assert {one.name for one in tmp_path.iterdir()} == {"output", "evidence", "neighbour"}


@pytest.mark.parametrize("how", ["directory", "link", "pipe"])
def test_what_is_no_file_from_the_start_is_left_alone(runner: Runner, how: str) -> None:
    for path in (runner.path("GITHUB_ENV"), runner.folder / "set_env_3"):
        put(path, how)

    assert runner.keep().restore() == []
    assert os.path.lexists(runner.path("GITHUB_ENV"))
    assert os.path.lexists(runner.folder / "set_env_3")


def test_one_that_cannot_be_restored_keeps_none_from_it(runner: Runner) -> None:
    kept = runner.keep(remove=lambda path: f"{path} (mounted there)")
    put(runner.path("GITHUB_OUTPUT"), "directory")
    put(runner.folder / "set_env_2", "directory")
    runner.poison()

    changed = kept.restore()

    assert sorted(changed) == ["GITHUB_ENV", "GITHUB_OUTPUT", "set_env_2"]
    assert len(kept.problems) == 2
    assert kept.problems[0].startswith("set_env_2 was changed, and it cannot be undone (there stays ")
    assert runner.path("GITHUB_ENV").read_text(encoding="utf-8") == "of set_env_1\n"


def test_a_stop_that_comes_meanwhile_is_raised_when_all_is_restored(runner: Runner) -> None:
    stops = [CancelledError(15)]

    def remove(path: Path) -> None:
        if stops:
            raise stops.pop()
        shutil.rmtree(path)

    kept = runner.keep(remove)
    put(runner.path("GITHUB_OUTPUT"), "directory")
    put(runner.folder / "set_env_2", "another-file")
    runner.poison()

    with pytest.raises(CancelledError):
        kept.restore()

    assert runner.contents() == runner.before


def test_a_file_that_cannot_be_remembered_is_an_error_before_anything_is_started(runner: Runner) -> None:
    os.truncate(runner.path("GITHUB_STEP_SUMMARY"), SPARSE_BYTES)

    with pytest.raises(RunnerE2EError, match=f"GITHUB_STEP_SUMMARY holds more than {MOST_KEPT_BYTES >> 20}"):
        runner.keep()


def test_what_stands_in_a_fresh_steps_files_at_its_beginning_is_no_ones_to_keep(runner: Runner) -> None:
    runner.path("GITHUB_PATH").write_text("", encoding="utf-8")
    os.truncate(runner.path("GITHUB_STEP_SUMMARY"), SPARSE_BYTES)
    kept = runner.keep(fresh=True)

    changed = kept.restore()

    assert {content for content, _ in runner.contents().values()} == {""}
    assert sorted(changed) == sorted({*NAMES, *NAMES_OF_STEP_AROUND} - {"GITHUB_PATH"})


def test_elsewhere_a_fresh_step_keeps_what_stands_there(tmp_path: Path) -> None:
    path = tmp_path / "output"
    path.write_text("before", encoding="utf-8")

    assert KeptFiles({"GITHUB_OUTPUT": str(path)}, fresh=True).restore() == []
    assert path.read_text(encoding="utf-8") == "before"


def test_names_are_one_line_each_and_not_too_many(runner: Runner) -> None:
    kept = runner.keep()
    (runner.folder / "!\n::error::x\x1b[0m").touch()
    (runner.folder / "#".ljust(250, "y")).touch()
    for number in range(50):
        (runner.folder / f"set_env_x{number}").touch()

    changed = kept.restore()

    assert len(changed) == MOST_NAMED + 1
    assert changed[-1] == "32 more"
    assert all(name.isprintable() and len(name) < 110 for name in changed)
    assert runner.contents() == runner.before
