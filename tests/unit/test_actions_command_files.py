"""What code of the target did to the runner's command files is undone and refused."""

import os
import shutil
from pathlib import Path

import pytest

from runner_e2e.actions.command_files import unchanged_files
from runner_e2e.cell.kept_files import FILE_VARIABLES, FOLDER_NAME
from runner_e2e.errors import InputError, RunnerE2EError


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    paths = {name: tmp_path / name.lower() for name in FILE_VARIABLES}
    for path in paths.values():
        path.write_text("before=1\n", encoding="utf-8")
    return {name: str(path) for name, path in paths.items()}


def contents(files: dict[str, str]) -> list[str]:
    return [Path(path).read_text(encoding="utf-8") for path in files.values()]


def change(path: Path, how: str, elsewhere: Path) -> None:
    if how == "append":
        path.write_text("before=1\nartifact-name=x\n", encoding="utf-8")
    elif how == "cut":
        path.write_text("", encoding="utf-8")
    else:
        path.unlink()
    if how == "link":
        path.symlink_to(elsewhere)
    elif how == "fifo":
        os.mkfifo(path)


def test_files_that_stay_as_they_were_are_no_matter(files: dict[str, str]) -> None:
    with unchanged_files(files):
        Path(files["GITHUB_OUTPUT"]).read_bytes()

    assert contents(files) == ["before=1\n"] * len(FILE_VARIABLES)


@pytest.mark.parametrize("name", FILE_VARIABLES)
@pytest.mark.parametrize("how", ["append", "cut", "remove", "link", "fifo"])
def test_a_change_is_undone_and_refused(files: dict[str, str], tmp_path: Path, name: str, how: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("foreign", encoding="utf-8")

    with pytest.raises(RunnerE2EError, match=name), unchanged_files(files):
        change(Path(files[name]), how, elsewhere)

    assert contents(files) == ["before=1\n"] * len(FILE_VARIABLES)
    assert elsewhere.read_text(encoding="utf-8") == "foreign"


def test_a_change_is_undone_also_when_the_command_fails(files: dict[str, str]) -> None:
    def fail() -> None:
        Path(files["GITHUB_ENV"]).write_text("NODE_OPTIONS=x\n", encoding="utf-8")
        raise InputError("no", "no")

    with pytest.raises(InputError, match="no"), unchanged_files(files):
        fail()

    assert contents(files) == ["before=1\n"] * len(FILE_VARIABLES)


def test_what_cannot_be_undone_is_said_beside_what_was(files: dict[str, str], tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    files["GITHUB_ENV"] = str(place / "env")
    Path(files["GITHUB_ENV"]).write_text("before=1\n", encoding="utf-8")

    def act() -> None:
        shutil.rmtree(place)
        Path(files["GITHUB_PATH"]).write_text("/tmp/evil\n", encoding="utf-8")

    said = "GITHUB_ENV was changed, and it cannot be undone"
    with pytest.raises(RunnerE2EError, match=said) as caught, unchanged_files(files):
        act()

    assert "wrote to GITHUB_ENV, GITHUB_PATH" in caught.value.problem
    assert Path(files["GITHUB_PATH"]).read_text(encoding="utf-8") == "before=1\n"


def test_a_new_file_in_the_runners_folder_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / FOLDER_NAME
    folder.mkdir()
    (folder / "set_env_1").touch()

    files = {"GITHUB_ENV": str(folder / "set_env_1")}
    with pytest.raises(RunnerE2EError, match="set_env_2"), unchanged_files(files):
        (folder / "set_env_2").write_text("LD_PRELOAD=/tmp/evil.so\n", encoding="utf-8")

    assert [path.name for path in folder.iterdir()] == ["set_env_1"]


def test_outside_of_actions_there_is_nothing_to_keep() -> None:
    with unchanged_files({}):
        pass
