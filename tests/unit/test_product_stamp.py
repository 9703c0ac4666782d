"""When an installation counts as complete, and what is seen when it is not as it was."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from runner_e2e.errors import FailureClass, HostRefusedError
from runner_e2e.product.installation import find_damage, look, require_installation
from runner_e2e.product.recipe import compute_recipe_digest
from runner_e2e.product.stamp import (
    MANIFEST,
    STAMP,
    Difference,
    Stamp,
    compare_with_manifest,
    compute_digest,
    find_distrust,
    read_stamp,
    write_manifest,
    write_stamp,
)

if TYPE_CHECKING:
    from pathlib import Path

UID = os.geteuid()
OTHER = UID + 1 or 1


def make_stamp(directory: Path, manifest: str = "", recipe: str = "") -> Stamp:
    files = {name: compute_digest(directory / name) for name in ("node", "bin/runnerd")}
    return Stamp(
        recipe=recipe or compute_recipe_digest(),
        directory=str(directory),
        node="node",
        npm="npm-cli.js",
        node_version="24.19.0",
        paperclip_version="2026.916.1",
        opencode_version="1.18.29",
        packages=393,
        host_glibc="glibc 2.36",
        files=files,
        manifest=manifest,
    )


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    place = tmp_path / "installed"
    (place / "bin").mkdir(parents=True)
    (place / "node").write_text("node")
    (place / "bin" / "runnerd").write_text("runnerd")
    (place / "bin" / "a name\nwith  more").write_text("x")
    (place / "link").symlink_to("bin/runnerd")
    (place / "directory").symlink_to("bin")
    place.chmod(0o755)
    write_stamp(place, make_stamp(place, write_manifest(place)))
    return place


def test_a_complete_installation_is_found_with_its_programs(directory: Path) -> None:
    found = look(directory, UID, verify=True)

    assert found.problem == ""
    assert found.installation is not None
    assert found.installation.node == directory / "node"
    assert found.installation.runnerd == directory / "bin" / "paperclip-runnerd"
    assert found.installation.describe()["node"] == str(directory / "node")
    assert json.dumps(found.installation.describe())


def test_a_node_of_the_host_stays_where_it_is(directory: Path, tmp_path: Path) -> None:
    host = tmp_path / "host-node"
    host.write_text("node")
    stamp = make_stamp(directory).model_copy(
        update={"node": str(host), "files": {str(host): compute_digest(host)}}
    )
    write_stamp(directory, stamp)

    found = look(directory, UID)
    host.write_text("another")

    assert found.installation is not None
    assert found.installation.node == host
    assert look(directory, UID).problem == f"{host} is damaged or missing"


@pytest.mark.parametrize(
    ("record", "says"),
    [
        pytest.param({"opencode_version": "1.18.30"}, "its OpenCode is 1.18.30", id="opencode"),
        pytest.param({"node_version": "22.21.0"}, "its Node is 22.21.0", id="old-node"),
        pytest.param({"node_version": "none"}, "its Node is none", id="no-node"),
    ],
)
def test_a_record_of_other_versions_than_the_product_takes_is_a_problem(
    directory: Path, record: dict[str, str], says: str
) -> None:
    write_stamp(directory, make_stamp(directory).model_copy(update=record))

    assert look(directory, UID).problem.startswith(says)


def test_a_file_that_changed_is_found_when_all_are_compared(directory: Path) -> None:
    found = look(directory, UID).installation
    assert found is not None
    assert find_damage(found) == ""

    (directory / "bin" / "a name\nwith  more").write_text("y")

    assert "1 files are not as they were installed" in find_damage(found)


@pytest.mark.parametrize(
    ("stamped", "says"),
    [
        pytest.param(False, "No complete installation of Paperclip was found", id="none"),
        pytest.param(True, "cannot be used: bin/runnerd is damaged or missing", id="damaged"),
    ],
)
def test_what_is_wrong_with_an_installation_is_told_with_what_to_do(
    directory: Path, tmp_path: Path, stamped: bool, says: str
) -> None:
    if stamped:
        place = tmp_path / compute_recipe_digest()
        directory.rename(place)
        write_stamp(place, make_stamp(place))
        (place / "bin" / "runnerd").unlink()
    tmp_path.chmod(0o755)

    with pytest.raises(HostRefusedError, match=says) as caught:
        require_installation({"RUNNER_E2E_PAPERCLIP_DIR": str(tmp_path)})

    assert caught.value.failure_class is FailureClass.REFUSED
    assert "runner-e2e paperclip install" in caught.value.remedy


def test_nothing_is_neither_an_installation_nor_a_problem(tmp_path: Path) -> None:
    found = look(tmp_path / "absent", UID)

    assert (found.installation, found.problem) == (None, "")


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(None, id="none"),
        pytest.param(b"", id="empty"),
        pytest.param(b"\xff\x00", id="no-text"),
        pytest.param(b"[]", id="no-object"),
        pytest.param(b'{"schema": "runner-e2e.paperclip-installation/v1"}', id="half"),
        pytest.param(b'{"schema": "runner-e2e.paperclip-installation/v2"}', id="other-version"),
    ],
)
def test_without_a_whole_record_it_was_not_completed(directory: Path, record: bytes | None) -> None:
    if record is None:
        (directory / STAMP).unlink()
    else:
        (directory / STAMP).write_bytes(record)

    found = look(directory, UID)

    assert (found.installation, found.problem) == (None, "it was not completed")


def test_a_record_with_another_schema_is_not_read(directory: Path) -> None:
    stamp = json.loads((directory / STAMP).read_text())
    assert read_stamp(directory) is not None

    (directory / STAMP).write_text(json.dumps(stamp | {"schema": "runner-e2e.paperclip-installation/v2"}))

    assert read_stamp(directory) is None


def test_a_copy_in_another_place_is_not_used_because_runnerd_names_its_libraries_by_path(
    directory: Path, tmp_path: Path
) -> None:
    moved = directory.rename(tmp_path / "moved")

    assert look(moved, UID).problem == "it was made for another place"


def test_what_another_recipe_made_is_not_used(directory: Path) -> None:
    write_stamp(directory, make_stamp(directory, recipe="0" * 16))

    assert look(directory, UID).problem == "it was made for another place"


@pytest.mark.parametrize("change", ["write", "remove", "link"])
def test_a_program_that_changed_is_noticed_at_each_use(directory: Path, change: str) -> None:
    program = directory / "bin" / "runnerd"
    program.unlink()
    if change == "write":
        program.write_text("runnerD")
    elif change == "link":
        program.symlink_to("../node")

    assert look(directory, UID).problem == "bin/runnerd is damaged or missing"


def test_every_other_change_is_noticed_by_a_full_comparison(directory: Path) -> None:
    digest = json.loads((directory / STAMP).read_text())["manifest"]
    (directory / "link").unlink()
    (directory / "bin" / "a name\nwith  more").write_text("y")
    (directory / "bin" / "new").write_text("")
    (directory / "directory").unlink()
    (directory / "directory").symlink_to(".")

    found = compare_with_manifest(directory, digest)

    assert found == [
        Difference("missing", "link"),
        Difference("changed", "bin/a name\nwith  more"),
        Difference("changed", "directory"),
        Difference("added", "bin/new"),
    ]
    assert look(directory, UID).installation is not None
    assert look(directory, UID, verify=True).problem == (
        "4 files are not as they were installed, the first link (missing)"
    )


def test_a_list_that_is_gone_or_another_one_proves_nothing(directory: Path) -> None:
    digest = json.loads((directory / STAMP).read_text())["manifest"]

    (directory / MANIFEST).write_text("")
    assert compare_with_manifest(directory, digest) == [Difference("changed", MANIFEST)]
    (directory / MANIFEST).unlink()
    assert compare_with_manifest(directory, digest) == [Difference("missing", MANIFEST)]


def test_what_other_users_decide_about_is_not_run(directory: Path, tmp_path: Path) -> None:
    assert find_distrust(directory, UID) == ""

    directory.chmod(0o775)
    assert look(directory, UID).problem == "other users can write to it"
    directory.chmod(0o755)
    directory.parent.chmod(0o777)
    assert look(directory, UID).problem == "other users can write to it"
    directory.parent.chmod(0o700)
    link = tmp_path / "link"
    link.symlink_to(directory)
    assert look(link, UID).problem == "it is no directory"
    if UID != 0:
        assert look(directory, OTHER).problem == "it belongs to another user"
