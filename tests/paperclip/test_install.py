"""The installed product works, for every user, is used again at once, and is not trusted blindly."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from e2e.checkout import copy_sources, private_directory
from runner_e2e.product import npm
from runner_e2e.product.recipe import compute_recipe_digest, read_locked_packages
from runner_e2e.product.stamp import STAMP

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from runner_e2e.product.installation import Installation

PROJECT = Path(__file__).resolve().parents[2]
# Root also as the ordinary user as whom it starts the server.
USERS = [None, 54321] if os.geteuid() == 0 else [None]
CLOSED = "http://127.0.0.1:9/"


def ask(command: Sequence[str | Path], home: Path, *, user: int | None = None) -> str:
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(home), "TMPDIR": str(home)}
    done = subprocess.run(
        command, env=environ, user=user, cwd="/", capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def run_cli(*arguments: str, **changed: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        (sys.executable, "-m", "runner_e2e.cli", "paperclip", *arguments),
        env=os.environ | {"PYTHONPATH": str(PROJECT / "lib")} | changed,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def aim_at(registry: str, cache: Path) -> dict[str, str]:
    """Return the variables of an installation into `cache` that can ask no other registry."""
    return {
        "RUNNER_E2E_PAPERCLIP_DIR": str(cache),
        "PATH": "/usr/bin:/bin",
        "PIP_INDEX_URL": registry,
        "PIP_CONFIG_FILE": "/dev/null",
        "PIP_FIND_LINKS": "",
        "PIP_RETRIES": "1",
        "npm_config_registry": registry,
        "npm_config_fetch_retries": "0",
    }


@contextlib.contextmanager
def started_install(**changed: str) -> Iterator[subprocess.Popen[str]]:
    """Start an installation whose words can be read as they come."""
    command = (sys.executable, "-m", "runner_e2e.cli", "paperclip", "install")
    environ = os.environ | {"PYTHONPATH": str(PROJECT / "lib")} | changed
    with subprocess.Popen(command, env=environ, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def read_until(process: subprocess.Popen[str], words: str) -> None:
    assert process.stderr is not None
    said = []
    for line in process.stderr:
        said.append(line)
        if words in line:
            return
    raise AssertionError(f"{words!r} never came: {said}")


@pytest.fixture
def home() -> Iterator[Path]:
    """A home directory that any user can write to."""
    with private_directory("home") as place:
        place.chmod(0o777)
        yield place


@pytest.mark.parametrize("user", USERS)
def test_every_program_runs_and_is_of_the_locked_version(
    installation: Installation, home: Path, user: int | None
) -> None:
    node, server = installation.node, installation.server

    assert ask((node, server, "--version"), home, user=user) == "2026.916.1"
    assert ask((installation.opencode, "--version"), home, user=user) == "1.18.29"
    metadata = json.loads(ask((installation.runnerd, "--build-metadata"), home, user=user))
    assert metadata["binaryName"] == "paperclip-runnerd"
    for name in ("initdb", "pg_ctl", "postgres"):
        said = ask((installation.postgres / "bin" / name, "--version"), home, user=user)
        assert said.endswith("(PostgreSQL) 18.1")


def test_the_native_runner_finds_opencode_where_it_looks(installation: Installation) -> None:
    expected = installation.server.parents[2] / "@paperclipai/server/dist/vendor" / npm.OPENCODE

    assert expected.read_bytes() == installation.opencode.read_bytes()


@pytest.mark.parametrize("user", USERS)
def test_runnerd_and_opencode_run_inside_a_domain(
    installation: Installation, home: Path, user: int | None
) -> None:
    with private_directory("sources") as place:
        copy_sources(place)
        (place / "hidden").mkdir()
        launcher = ("/usr/bin/python3", "-I", "-S", place / "entrypoints" / "agent_filesystem_sandbox.py")
        inside = (*launcher, "--hide", place / "hidden", "--")

        metadata = ask((*inside, installation.runnerd, "--build-metadata"), home, user=user)
        assert json.loads(metadata)["binaryName"] == "paperclip-runnerd"
        assert ask((*inside, installation.opencode, "--version"), home, user=user) == "1.18.29"


def test_every_installed_package_is_in_the_lock(installation: Installation) -> None:
    record = json.loads((installation.packages / "node_modules" / ".package-lock.json").read_text())
    packages: Mapping[str, Mapping[str, object]] = record["packages"]

    assert len(packages) > 300
    assert npm.find_strangers(packages, read_locked_packages()) == []


def test_no_install_script_has_run(installation: Installation) -> None:
    modules = installation.packages / "node_modules"

    assert not (modules / "ssh2" / "lib" / "protocol" / "crypto" / "build").exists()
    assert not (modules / "cpu-features" / "build").exists()
    assert not (modules / "cpu-features" / "buildcheck.gypi").exists()


def test_a_complete_installation_is_used_again_at_once_and_without_a_registry(
    installation: Installation,
) -> None:
    started = time.monotonic()
    done = run_cli("install", "--json", npm_config_registry=CLOSED, PIP_INDEX_URL=CLOSED)
    took_s = time.monotonic() - started

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["directory"] == str(installation.directory)
    assert took_s < 15
    assert run_cli("path").stdout == f"{installation.directory}\n"


def test_every_file_is_as_it_was_installed(installation: Installation) -> None:
    done = run_cli("install", "--verify", "--json", npm_config_registry=CLOSED, PIP_INDEX_URL=CLOSED)

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["directory"] == str(installation.directory)
    assert "made again" not in done.stderr


def test_a_damaged_installation_is_made_again_and_without_a_network_that_is_said(
    installation: Installation, tmp_path: Path
) -> None:
    damaged = tmp_path / "cache" / compute_recipe_digest()
    damaged.mkdir(parents=True)
    damaged.chmod(0o755)
    stamp = json.loads((installation.directory / STAMP).read_text())
    (damaged / STAMP).write_text(json.dumps(stamp | {"directory": str(damaged)}))
    (tmp_path / "cache" / ".building-killed").mkdir()
    offline = aim_at(CLOSED, tmp_path / "cache")

    done = run_cli("install", **offline)

    assert done.returncode == 3
    assert "is damaged or missing" in done.stderr
    assert "cannot be reached" in done.stderr
    assert "Traceback" not in done.stderr
    left = {path.name for path in (tmp_path / "cache").iterdir()}
    assert left == {".lock", "install.log", damaged.name}
    assert run_cli("path", **offline).returncode == 2


def test_a_place_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    done = run_cli("install", RUNNER_E2E_PAPERCLIP_DIR=str(tmp_path / "file" / "cache"))

    assert done.returncode in {2, 3}
    assert "RUNNER_E2E_PAPERCLIP_DIR" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_second_installation_waits_for_the_first(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    with (cache / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with started_install(**aim_at(CLOSED, cache)) as process:
            read_until(process, "Waiting for another installation")
            assert not list(cache.glob(".building-*"))
            fcntl.flock(lock, fcntl.LOCK_UN)
            read_until(process, "cannot be reached")
            assert process.wait(60) == 3


def test_a_stopped_installation_leaves_neither_files_nor_processes(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(60)
        registry = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        with started_install(**aim_at(registry, cache)) as process:
            connection, _ = silent.accept()  # a tool is at work, and waits for an answer
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 128 + signal.SIGTERM
            connection.settimeout(60)
            while connection.recv(4096):
                pass  # its end of the connection closes only when the tool has ended
            connection.close()

    assert {path.name for path in cache.iterdir()} == {".lock", "install.log"}
    with (cache / ".lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_cache_that_others_can_change_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)

    done = run_cli("install", RUNNER_E2E_PAPERCLIP_DIR=str(tmp_path))

    assert done.returncode == 2
    assert "other users can write to it" in done.stderr
    assert list(tmp_path.iterdir()) == []
