"""The wrapper, its interpreter and its configuration, as the harness puts them into an attempt."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import sys
from pathlib import Path

import pytest

from runner_e2e.errors import UnsupportedHostError
from runner_e2e.launch.configuration import FILE_NAME, SCHEMA, Configuration, read_configuration
from runner_e2e.launch.install import find_interpreter, install_wrapper, write_configuration
from runner_e2e.sandbox.refusal import Refusal

PROJECT = Path(__file__).resolve().parents[2]
ENTRYPOINT = PROJECT / "entrypoints" / "sandboxed_runnerd.py"
SYSTEM = Path("/usr/bin/python3")


def configure(root: Path, **changes: object) -> Path:
    (root / "private").mkdir(exist_ok=True)
    fields: dict[str, object] = {
        "runner": root / "bin" / "real",
        "boot": 2,
        "instance_parents": [root / "instances"],
        "hide": [Path("/a"), Path("/b c\n")],
        "hide_optional": [Path(os.fsdecode(b"/\xff"))],
        "minimum_abi": 6,
        "levels": {"scopes": "preferred"},
    }
    write_configuration(root, **(fields | changes))  # type: ignore[arg-type]  # one of several types each
    return root / "private" / FILE_NAME


def read(path: Path) -> Configuration:
    return read_configuration(os.fsencode(path))


def refused(path: Path) -> Refusal:
    with pytest.raises(Refusal) as caught:
        read(path)
    assert caught.value.code == "usage"
    return caught.value


def test_what_is_written_is_read(tmp_path: Path) -> None:
    found = read(configure(tmp_path, keep_file_capabilities=True))

    assert found.runner == str(tmp_path / "bin" / "real")
    assert found.journal == str(tmp_path / "private" / "launches.ndjson")
    assert (found.boot, found.minimum_abi) == (2, 6)
    assert found.instance_parents == [str(tmp_path / "instances")]
    assert found.scratch_root == str(tmp_path / "s")
    assert found.hide == ["/a", "/b c\n"]
    assert os.fsencode(found.hide_optional[0]) == b"/\xff"
    assert found.levels == {"scopes": "preferred"}
    assert found.keep_file_capabilities is True


def test_a_new_configuration_replaces_the_old_one_and_leaves_nothing_else(tmp_path: Path) -> None:
    configure(tmp_path)
    path = configure(tmp_path, boot=3)

    assert read(path).boot == 3
    assert [entry.name for entry in path.parent.iterdir()] == [FILE_NAME]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_an_instance_parent_may_hold_a_star(tmp_path: Path) -> None:
    parent = tmp_path / "t" / "*" / "paperclip-home" / "instances"

    assert read(configure(tmp_path, instance_parents=[parent])).instance_parents == [str(parent)]


def test_a_replacement_is_known_by_the_digest_of_its_program(tmp_path: Path) -> None:
    program = tmp_path / "opencode"
    program.write_bytes(b"#!/bin/sh\n")
    digest = hashlib.sha256(b"#!/bin/sh\n").hexdigest()

    found = read(configure(tmp_path, replacements={"--opencode-executable": program}))

    assert found.replacements == {"--opencode-executable": (str(program), digest)}
    assert read(configure(tmp_path)).replacements == {}


def test_ports_to_close_are_read(tmp_path: Path) -> None:
    assert read(configure(tmp_path, close_ports=[5432, 1])).close_ports == [5432, 1]
    assert read(configure(tmp_path)).close_ports == []


def change(path: Path, **fields: object) -> Path:
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))
    return path


def test_a_configuration_without_any_of_its_fields_is_refused(tmp_path: Path) -> None:
    path = configure(tmp_path)
    whole = json.loads(path.read_text())
    assert whole["schema"] == SCHEMA

    for name in whole:
        path.write_text(json.dumps({key: value for key, value in whole.items() if key != name}))
        assert SCHEMA in refused(path).message, name
    path.write_text(json.dumps(whole))
    read(path)


def test_a_field_of_another_type_is_refused(tmp_path: Path) -> None:
    path = configure(tmp_path)
    whole = json.loads(path.read_text())

    for name, value in whole.items():
        wrong = None if not isinstance(value, str) else 1
        refused(change(path, **{name: wrong}))
        change(path, **{name: value})


@pytest.mark.parametrize(
    "fields",
    [
        {"unknown": 1},
        {"schema": "runner-e2e.runnerd-configuration/v0"},
        {"hide": ["/a", 1]},
        {"hideOptional": [None]},
        {"instanceParents": [["/a"]]},
        {"instanceParents": ["a"]},
        {"instanceParents": ["/a", "/*/b"]},
        {"instanceParents": ["/a/*/b/*"]},
        {"instanceParents": ["/a/../b"]},
        {"levels": {"scopes": "prefered"}},
        {"levels": {"scopes": None}},
        {"levels": {"scope": "off"}},
        {"closePorts": None},
        {"closePorts": 5432},
        {"closePorts": ["5432"]},
        {"closePorts": [0]},
        {"closePorts": [65536]},
        {"closePorts": [True]},
        {"replacements": None},
        {"replacements": {"--opencode-executable": "/a"}},
        {"replacements": {"--opencode-executable": {"path": "a", "sha256": "0"}}},
        {"replacements": {"--opencode-executable": {"path": "/a\0", "sha256": "0"}}},
        {"replacements": {"--opencode-executable": {"path": "/a", "sha256": 0}}},
        {"replacements": {"--opencode-executable": {"path": "/a"}}},
        {"replacements": {"--run-id": {"path": "/a", "sha256": "0"}}},
    ],
)
def test_a_configuration_with_a_slip_is_refused_and_not_read_generously(
    tmp_path: Path, fields: dict[str, object]
) -> None:
    refused(change(configure(tmp_path), **fields))


@pytest.mark.parametrize("content", [b"", b"[]", b"null", b"{", b"\xff", b"[" * 100_000])
def test_what_is_no_configuration_is_refused(tmp_path: Path, content: bytes) -> None:
    path = configure(tmp_path)
    path.write_bytes(content)

    refused(path)


def test_a_missing_or_linked_configuration_is_refused(tmp_path: Path) -> None:
    path = configure(tmp_path)
    link = tmp_path / "link"
    link.symlink_to(path)

    assert refused(link).errno
    assert refused(tmp_path / "missing").errno


def test_the_systems_interpreter_comes_first() -> None:
    tried: list[Path] = []

    def works(candidate: Path) -> bool:
        tried.append(candidate)
        return True

    assert find_interpreter(works) == SYSTEM
    assert tried == [SYSTEM]


def test_the_interpreter_that_runs_this_is_the_other_choice() -> None:
    own = Path(getattr(sys, "_base_executable", "") or sys.executable).resolve()
    tried: list[Path] = []

    def works(candidate: Path) -> bool:
        tried.append(candidate)
        return len(tried) == 2

    assert find_interpreter(works) == own
    assert tried == [SYSTEM, own]
    assert own.is_absolute()


def test_without_a_usable_interpreter_nothing_can_be_isolated() -> None:
    with pytest.raises(UnsupportedHostError, match=r"Install python3 \(3\.11 or newer\)"):
        find_interpreter(lambda _: False)


def test_the_wrapper_is_the_entrypoint_unchanged(tmp_path: Path) -> None:
    """Its digest goes into the product's own arguments."""
    wrapper = install_wrapper(tmp_path, PROJECT, SYSTEM)

    assert wrapper == tmp_path / "bin" / "paperclip-runnerd"
    assert wrapper.read_bytes() == ENTRYPOINT.read_bytes()
    assert stat.S_IMODE(wrapper.stat().st_mode) == 0o755
    assert (tmp_path / "private" / "library").read_text() == f"{PROJECT / 'lib'}\n"


def test_with_another_interpreter_only_the_first_line_differs(tmp_path: Path) -> None:
    wrapper = install_wrapper(tmp_path, PROJECT, Path("/opt/python/bin/python3.13"))

    first, _, rest = wrapper.read_bytes().partition(b"\n")
    assert first == b"#!/opt/python/bin/python3.13 -ISXutf8"
    assert rest == ENTRYPOINT.read_bytes().partition(b"\n")[2]


def test_the_entrypoints_run_isolated_and_without_site() -> None:
    """With one blank in the first line, the kernel hands on a single argument."""
    for name in ("sandboxed_runnerd.py", "agent_filesystem_sandbox.py"):
        path = PROJECT / "entrypoints" / name
        assert path.read_bytes().startswith(b"#!/usr/bin/python3 -ISXutf8\n")
