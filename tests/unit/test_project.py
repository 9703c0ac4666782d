"""The project's own files agree: dependencies and locks, versions, licence, scripts."""

from __future__ import annotations

import os
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from runner_e2e import __version__

PROJECT = Path(__file__).resolve().parents[2]
RUNTIME, DEV = "runtime", "dev"

HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")
PIN = re.compile(
    r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)==(?P<version>[A-Za-z0-9.+!]+)"
    r"(?: ; (?P<marker>[^\\]+?))?(?P<hashes>(?: --hash=sha256:[0-9a-f]{64})*)"
)


@dataclass(frozen=True, slots=True)
class Pin:
    """One package of a lock."""

    version: str
    marker: str | None
    hashes: frozenset[str]


def parse_lock(text: str) -> dict[str, set[Pin]]:
    """Return the pins of a lock by name, several where markers tell them apart.

    Anything that is not a pin with a hash raises.
    """
    pins: dict[str, set[Pin]] = {}
    for line in text.replace("\\\n", "").splitlines():
        entry = " ".join(line.split())
        match = PIN.fullmatch(entry)
        if match is None or not match["hashes"]:
            raise ValueError(f"not a package with its version and hashes: {entry[:80]}")
        hashes = frozenset(HASH.findall(match["hashes"]))
        pin = Pin(match["version"], match["marker"], hashes)
        pins.setdefault(canonicalize_name(match["name"]), set()).add(pin)
    return pins


def read_lock(name: str) -> dict[str, set[Pin]]:
    return parse_lock((PROJECT / "requirements" / f"{name}.lock").read_text(encoding="utf-8"))


def read_requirements(name: str) -> list[Requirement]:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))
    lines: list[str] = list(project["project"]["dependencies"])
    if name == DEV:
        lines += project["dependency-groups"]["dev"]
    return [Requirement(line) for line in lines]


@pytest.mark.parametrize("name", [RUNTIME, DEV])
def test_a_lock_holds_every_dependency_in_a_version_that_it_allows(name: str) -> None:
    lock = read_lock(name)

    unmet = [
        str(requirement)
        for requirement in read_requirements(name)
        if not (pins := lock.get(canonicalize_name(requirement.name)))
        or not all(requirement.specifier.contains(pin.version) for pin in pins)
    ]

    assert unmet == []


def test_the_lock_for_tests_contains_the_lock_for_cells() -> None:
    runtime, dev = read_lock(RUNTIME), read_lock(DEV)

    assert {name: dev.get(name) for name in runtime} == runtime
    assert len(dev) > len(runtime)


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param("click==8.1.0", id="no-hash"),
        pytest.param(f"click>=8.1 --hash=sha256:{'0' * 64}", id="no-version"),
        pytest.param(f"click @ https://host/click.whl --hash=sha256:{'0' * 64}", id="address"),
        pytest.param(f"./click.whl --hash=sha256:{'0' * 64}", id="path"),
        pytest.param("--index-url https://host/simple", id="index"),
        pytest.param("--find-links wheels", id="links"),
        pytest.param("-e .", id="editable"),
        pytest.param(f"click==8.1.0 --hash=md5:{'0' * 32}", id="weak-hash"),
    ],
)
def test_a_lock_entry_other_than_a_hashed_pin_is_refused(entry: str) -> None:
    good = f"rich==14.0 ; python_version >= '3.11' \\\n    --hash=sha256:{'a' * 64}\n"
    assert parse_lock(good).keys() == {"rich"}

    with pytest.raises(ValueError, match="not a package"):
        parse_lock(good + entry)


@pytest.mark.parametrize("name", [RUNTIME, DEV])
def test_the_unrelated_package_named_like_the_product_is_no_dependency(name: str) -> None:
    """`pyactions` on PyPI is a hotkey library."""
    assert "pyactions" not in read_lock(name)
    assert "pyactions" not in {canonicalize_name(r.name) for r in read_requirements(name)}


def test_every_version_of_the_project_is_the_one_on_top_of_the_changelog() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    changelog = (PROJECT / "CHANGELOG.md").read_text(encoding="utf-8")
    released = re.findall(r"^## \[?v?(\d+\.\d+\.\d+)\]?", changelog, re.MULTILINE)

    assert released[0] == project["version"] == __version__


def test_the_licence_is_in_the_project() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    licence = (PROJECT / "LICENSE").read_text(encoding="utf-8")

    assert project["license"] == "MIT"
    assert licence.startswith("MIT License")
    assert "WITHOUT WARRANTY OF ANY KIND" in licence


def shell_scripts() -> list[Path]:
    scripts = [path for path in (PROJECT / "scripts").iterdir() if path.is_file()]
    return [*(path for path in scripts if not path.suffix), PROJECT / ".ci" / "run"]


@pytest.mark.parametrize("name", ["prepare", "demo", "test", "lock", "run"])
def test_the_commands_of_the_readme_and_ci_are_there(name: str) -> None:
    assert name in {path.name for path in shell_scripts()}


def test_every_script_starts_by_itself() -> None:
    unusable = [
        path.name
        for path in shell_scripts()
        if not os.access(path, os.X_OK)
        or path.read_text(encoding="utf-8").splitlines()[0] not in {"#!/bin/sh", "#!/usr/bin/env bash"}
    ]

    assert unusable == []


def test_no_pattern_has_a_possessive_group() -> None:
    """Before Python 3.11.5 such a group loses matches when it has alternatives; an atomic one does not."""
    sources = [*(PROJECT / "lib").rglob("*.py"), *(PROJECT / "entrypoints").glob("*.py")]

    assert [
        path.name for path in sources if re.search(r"(?<![\\\[(])\)[*+?]\+", path.read_text(encoding="utf-8"))
    ] == []
