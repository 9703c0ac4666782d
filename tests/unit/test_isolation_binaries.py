"""Which runnerd a harness starts, here and on a remote host."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from runner_e2e.isolation.binaries import Host, resolve_local_binary, resolve_remote_binary
from unit.environment_cells import LEGACY, NATIVE, REMOTE

if TYPE_CHECKING:
    from runner_e2e.isolation.product import CellTraits

LINUX = Host("linux", "x86_64")
BUILT = "/repo/packages/paperclip-runner/runner/target/debug/paperclip-runnerd"
LOCAL, REMOTELY = "PAPERCLIP_RUNNER_BINARY", "PAPERCLIP_RUNNER_REMOTE_BINARY_PATH"


@pytest.mark.parametrize(
    ("environ", "cells", "system", "expected"),
    [
        pytest.param({LOCAL: " /x y "}, (LEGACY,), "linux", " /x y ", id="as-written"),
        pytest.param({LOCAL: " \ufeff"}, (NATIVE,), "linux", BUILT, id="blank"),
        pytest.param({}, (LEGACY, NATIVE), "linux", BUILT, id="built"),
        pytest.param({}, (NATIVE,), "darwin", BUILT, id="another-system"),
        pytest.param({}, (NATIVE,), "win32", f"{BUILT}.exe", id="windows"),
        pytest.param({LOCAL: ""}, (LEGACY,), "linux", None, id="nothing-native"),
        pytest.param({}, (), "linux", None, id="no-cell"),
    ],
)
def test_the_local_binary(
    environ: dict[str, str], cells: tuple[CellTraits, ...], system: str, expected: str | None
) -> None:
    for repository in ("/repo", "/repo/"):
        assert resolve_local_binary(environ, cells, repository, Host(system, "x64")) == expected


@pytest.mark.parametrize(
    ("environ", "cells", "local", "host", "expected"),
    [
        pytest.param({REMOTELY: " /r "}, (), None, Host("darwin", "arm64"), " /r ", id="as-written"),
        pytest.param({REMOTELY: " "}, (REMOTE,), "/l", LINUX, "/l", id="blank"),
        pytest.param({}, (NATIVE, REMOTE), "/l", LINUX, "/l", id="the-local-one"),
        pytest.param({}, (REMOTE,), "/l", Host("linux", "x64"), "/l", id="as-node-says-it"),
        pytest.param({}, (REMOTE,), None, LINUX, None, id="no-local-one"),
        pytest.param({}, (REMOTE,), "/l", Host("darwin", "x64"), None, id="no-linux"),
        pytest.param({}, (REMOTE,), "/l", Host("linux", "aarch64"), None, id="no-x64"),
        pytest.param({}, (NATIVE,), "/l", LINUX, None, id="nothing-remote"),
        pytest.param({}, (NATIVE, replace(LEGACY, remote=True)), "/l", LINUX, None, id="remote-is-legacy"),
    ],
)
def test_the_remote_binary(
    environ: dict[str, str],
    cells: tuple[CellTraits, ...],
    local: str | None,
    host: Host,
    expected: str | None,
) -> None:
    assert resolve_remote_binary(environ, cells, local, host) == expected
