"""Codex's own sandbox inside a domain of the production wrapper: tried, and refused before spending."""

import errno
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kernel.harness import SEARCH_PATH, Identity, Installation, Step, encoded

pytestmark = pytest.mark.kernel

PROJECT = Path(__file__).resolve().parents[2]
CLONE = {"x86_64": 272, "aarch64": 97}[os.uname().machine]  # unshare


@dataclass(frozen=True, slots=True)
class Codex:
    """A copy of the project and an attempt of the identity's own."""

    place: Path
    identity: Identity
    installation: Installation

    @property
    def root(self) -> Path:
        return self.place / "re-codex"

    def run(self, *, stage: Sequence[Step] = (), **request: object) -> dict[str, Any]:
        asked = {"project": str(self.place / "project"), "root": str(self.root), **request}
        command = [*self.installation.program("codex_driver.py"), json.dumps(asked)]
        if stage:
            command = [*self.installation.program("stage.py"), encoded(stage), *command]
        uid = self.identity.uid if os.geteuid() == 0 else None
        if uid is not None:
            for path in (self.place, *self.place.rglob("*")):
                os.chown(path, uid, uid, follow_symlinks=False)
        result = subprocess.run(
            command,
            env={"PATH": SEARCH_PATH},
            cwd=self.place,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=False,
            user=uid,
            group=uid,
            extra_groups=None if uid is None else [],
        )
        assert (result.returncode, result.stderr) == (0, b""), result
        said: dict[str, Any] = json.loads(result.stdout)
        assert said.pop("left") == ["private"], "the attempt is as it was"
        return said


@pytest.fixture
def codex(identity: Identity, installation: Installation) -> Iterator[Codex]:
    place = Path(tempfile.mkdtemp(prefix="codex-tests-", dir="/var/tmp"))
    try:
        place.chmod(0o755)
        for name in ("lib", "entrypoints"):
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(PROJECT / name, place / "project" / name, ignore=ignored)
        (place / "re-codex" / "private").mkdir(parents=True)
        yield Codex(place, identity, installation)
    finally:
        shutil.rmtree(place)


def test_codex_is_refused_where_its_sandbox_starts_outside_of_a_domain_and_not_inside(codex: Codex) -> None:
    said = codex.run()

    assert said["outside"] == ["done", 0], "the control: this machine allows user namespaces"
    assert said["inside"] in (["maps", errno.EACCES], ["private", errno.EPERM], ["memory", errno.EPERM])
    assert said["error"] == "InputError"
    assert "cannot start inside the cell's sandbox" in said["problem"]


def test_a_launch_without_a_domain_lets_codex_start(codex: Codex) -> None:
    assert codex.run(sandboxed=False) == {"outside": ["done", 0], "inside": ["done", 0]}


def test_a_machine_without_user_namespaces_is_refused_as_such(codex: Codex) -> None:
    said = codex.run(stage=[("fail-calls", [CLONE], errno.EPERM)], sandboxed=False)

    assert said["outside"] == said["inside"] == ["namespaces", errno.EPERM]
    assert said["error"] == "InputError"
    assert "cannot start on this machine at all" in said["problem"]


def test_a_launch_that_the_wrapper_refuses_says_nothing_about_codex(codex: Codex) -> None:
    said = codex.run(minimum_abi=99)

    assert said["error"] == "SandboxUnprovenError"
    assert "abi-too-old" in said["problem"]
