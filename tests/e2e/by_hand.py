"""Start the wrapper by hand, in an attempt as the harness makes it. It decides no expectation."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from e2e.checkout import SEARCH_PATH, TIMEOUT_S, Checkout
from runner_e2e.launch.install import install_wrapper, write_configuration

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

STATE = "runtime/paperclip-runner"
SESSION = "5d" * 32
OTHER = "6e" * 32
RUN, OTHER_RUN = "r1", "r2"

# Stands where the product has runnerd. What it says goes to its own streams.
RUNNER = """\
#!/bin/sh
printf '%s\\0' "$$" "$PWD" "$@"
env -0
cat {other} >&2
exit 7
"""


@dataclass(frozen=True, slots=True)
class Answer:
    """How one launch ended."""

    status: int
    stdout: bytes
    stderr: bytes

    @property
    def words(self) -> list[bytes]:
        """What the runner said of itself."""
        return self.stdout.split(b"\0")


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt with the wrapper in it, as the harness makes it before a server starts."""

    root: Path
    checkout: Checkout

    @property
    def instances(self) -> Path:
        return self.root / "paperclip-home" / "instances"

    @property
    def instance(self) -> Path:
        return self.instances / "main"

    @property
    def workspace(self) -> Path:
        return self.instance / "workspaces" / "agent"

    @property
    def wrapper(self) -> Path:
        return self.root / "bin" / "paperclip-runnerd"

    @property
    def runner(self) -> Path:
        return self.root / "bin" / "real-runnerd"

    @property
    def journal(self) -> Path:
        return self.root / "private" / "launches.ndjson"

    @property
    def records(self) -> list[dict[str, Any]]:
        """The lines of the journal."""
        if not self.journal.exists():
            return []
        return [json.loads(line) for line in self.journal.read_bytes().splitlines()]

    def own(self, *more: str | bytes) -> list[str | bytes]:
        """The words of a good launch."""
        state = f"{self.instance}/{STATE}/durable-sessions/{SESSION}/runner"
        return ["--state-dir", state, *(() if "--run-id" in more else ("--run-id", RUN)), *more]

    def give(self) -> None:
        """Make the user who launches the owner of everything."""
        if self.checkout.uid is not None:
            for path in (self.root, *self.root.rglob("*")):
                os.chown(path, self.checkout.uid, self.checkout.uid, follow_symlinks=False)

    def start(
        self, words: Sequence[str | bytes], cwd: Path | None = None, **environ: str
    ) -> subprocess.Popen[bytes]:
        self.give()
        uid = self.checkout.uid
        return subprocess.Popen(
            [os.fsencode(self.wrapper), *(os.fsencode(word) for word in words)],
            cwd=cwd or self.workspace,
            env={"PATH": SEARCH_PATH, "HOME": "/root", "TMPDIR": "/tmp", "KEPT": "yes", **environ},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            user=uid,
            group=uid,
            extra_groups=None if uid is None else [],
        )

    def launch(self, words: Sequence[str | bytes], cwd: Path | None = None, **environ: str) -> Answer:
        with self.start(words, cwd, **environ) as process:
            stdout, stderr = process.communicate(timeout=TIMEOUT_S)
        return Answer(process.returncode, stdout, stderr)

    def refused(
        self, code: str, words: Sequence[str | bytes], cwd: Path | None = None, **environ: str
    ) -> dict[str, Any]:
        """Assert that a launch is refused with `code`: in the journal, and nowhere else."""
        before = len(self.records)
        answer = self.launch(words, cwd, **environ)
        assert (answer.status, answer.stdout, answer.stderr) == (125, b"", b""), answer
        (record,) = self.records[before:]
        assert record["schema"] == "runner-e2e.sandbox-refusal/v1"
        assert record["code"] == code, record
        assert record["boot"] == 1
        assert record["launch"]
        assert record["message"]
        assert record["remedy"]
        return record

    def tree(self) -> dict[str, tuple[int, int]]:
        """Every entry with its mode and size, but for the journal."""
        return {
            str(path): (path.lstat().st_mode, path.lstat().st_size if path.is_file() else 0)
            for path in self.root.rglob("*")
            if path != self.journal
        }


def make_attempt(place: Path, checkout: Checkout) -> Attempt:
    """Make an attempt in which another run has a session, a secret and a trace."""
    found = Attempt(place / "re-by-hand", checkout)
    found.workspace.mkdir(parents=True)
    for path in (
        found.instance / STATE / "durable-sessions" / OTHER / "runner" / "state.json",
        found.instance / "secrets" / "master.key",
        found.instance / "data" / "provider-traces" / "other.ndjson",
        # By its log a launch knows which agent its run is of.
        *(
            found.instance / "data" / "run-logs" / "company" / found.workspace.name / f"{run}.ndjson"
            for run in (RUN, OTHER_RUN)
        ),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("SECRET")
    install_wrapper(found.root, checkout.project)
    found.runner.write_text(RUNNER.format(other=found.instance / "secrets" / "master.key"))
    found.runner.chmod(0o755)
    write_configuration(
        found.root,
        runner=found.runner,
        boot=1,
        instance_parents=[found.instances],
        hide=[found.root / "private"],
        hide_optional=[],
        minimum_abi=6,
        levels={},
    )
    return found
