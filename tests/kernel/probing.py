"""The probe of a copy of the project that a test may weaken."""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernel.harness import SEARCH_PATH, Identity, Installation

PROJECT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Probe:
    """A copy of the project that a test may weaken, and an attempt to probe."""

    place: Path
    identity: Identity
    installation: Installation

    @property
    def root(self) -> Path:
        """The attempt."""
        return self.place / "re-probed"

    def edit(self, name: str, *replacements: tuple[str, str]) -> None:
        """Change a file of the project; what is to be replaced has to stand there once."""
        path = self.place / "project" / name
        text = path.read_text()
        for old, new in replacements:
            assert text.count(old) == 1, (name, old)
            text = text.replace(old, new)
        path.write_text(text)

    def append(self, name: str, line: str) -> None:
        """Add a line to a file of the project."""
        with (self.place / "project" / name).open("a") as file:
            file.write(f"{line}\n")

    def run(self, **request: object) -> dict[str, Any]:
        """Run the probe as the identity and return its record."""
        asked = {"project": str(self.place / "project"), "root": str(self.root), **request}
        for path in (self.place, *self.place.rglob("*")):
            if os.geteuid() == 0:
                os.chown(path, self.identity.uid, self.identity.uid, follow_symlinks=False)
        is_root = os.geteuid() == 0
        result = subprocess.run(
            [*self.installation.program("probe_driver.py"), json.dumps(asked)],
            env={"PATH": SEARCH_PATH, "RUNNER_E2E_DECOY": "decoy-of-the-probe-tests"},
            cwd=self.place,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=False,
            user=self.identity.uid if is_root else None,
            group=self.identity.uid if is_root else None,
            extra_groups=[] if is_root else None,
        )
        assert result.returncode == 0, result.stderr.decode()
        record: dict[str, Any] = json.loads(result.stdout)
        assert not (self.root / "probe").exists()
        assert list((self.root / "runner-temp").iterdir()) == []
        assert list((self.root / "private").iterdir()) == []
        return record


@contextmanager
def weakenable_probe(identity: Identity, installation: Installation) -> Iterator[Probe]:
    """Yield the probe of a whole project, as one of the identities."""
    place = Path(tempfile.mkdtemp(prefix="probe-tests-", dir="/var/tmp"))
    try:
        place.chmod(0o755)
        for name in ("lib", "entrypoints"):
            shutil.copytree(
                PROJECT / name, place / "project" / name, ignore=shutil.ignore_patterns("__pycache__")
            )
        root = place / "re-probed"
        for name in ("private", "runner-temp", "target/tests", "target/.git"):
            (root / name).mkdir(parents=True)
        (root / "target" / "tests" / "grader").write_text("grader-with-a-long-enough-text")
        (root / "target" / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
        yield Probe(place, identity, installation)
    finally:
        shutil.rmtree(place)


def observed(record: dict[str, Any]) -> dict[str, str]:
    """Return what each check of a probe's record observed inside."""
    return {row["id"]: row["observed"] for row in record["checks"]}
