"""What a job hands to the target's harness, and what it finds of it afterwards. It decides no expectation."""

from __future__ import annotations

import contextlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from e2e.checkout import PROJECT, Checkout, Ended, finish, private_directory
from e2e.target.cells import VARIABLE
from e2e.target_checkout import (
    Target,
    Variant,
    job_environment,
    make_target,
    make_up_credential,
    write_mischief,
)

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator, Mapping

NATIVE = "core.native.local.first-task"
LEGACY = "core.legacy.local.first-task"
DAYTONA = "core.native.daytona.first-task"
CREDENTIAL = make_up_credential("OPENROUTER_API_KEY")
PACKAGED = {
    "blob-report/report.zip",
    "final-state.png",
    "html-report/index.html",
    "junit.xml",
    "playwright.log",
    "provider-provenance.json",
    "result.json",
    "server.log",
    "snapshots/api-state.json",
    "snapshots/fixtures.json",
}


@dataclass(frozen=True)
class Job:
    """A target on a desk, and what a job hands to its harness."""

    target: Target
    checkout: Checkout
    desk: Path

    @property
    def temporary(self) -> Path:
        """`TMPDIR` of the harness."""
        return self.desk / "t"

    def environment(self, cell: str, environ: Mapping[str, str]) -> dict[str, str]:
        given = {**job_environment(self.target, cell), VARIABLE: cell}
        return {**given, "HOME": str(self.desk), "TMPDIR": str(self.temporary), **environ}

    def start(
        self, cell: str = NATIVE, *starts: Mapping[str, object], **environ: str
    ) -> subprocess.Popen[str]:
        if starts:
            environ |= write_mischief(self.desk / "mischief.json", *starts)
        words = [*self.target.words, "--max-automatic-retries", "0"]
        return self.checkout.start(words, self.target.path, self.environment(cell, environ))

    def run(self, cell: str = NATIVE, *starts: Mapping[str, object], **environ: str) -> Ended:
        with self.start(cell, *starts, **environ) as process:
            return finish(process)

    def ask(self, *words: str, **environ: str) -> Ended:
        """Call the harness with other words, without anything that a paid cell needs."""
        return self.checkout.run([*self.target.words, *words], self.target.path, environ)

    def result(self) -> dict[str, Any]:
        """`result.json` of the only attempt."""
        (attempt,) = self.target.attempts()
        content: dict[str, Any] = json.loads((attempt / "result.json").read_text())
        return content


@contextlib.contextmanager
def job_on(checkout: Checkout | None = None, variant: Variant = "modern") -> Iterator[Job]:
    """Make a target on a desk of its own; without `checkout` the present user runs it."""
    checkout = checkout or Checkout(PROJECT, Path(sys.executable))
    with private_directory("target") as desk:
        target = make_target(desk, variant=variant, checkout=checkout)
        (desk / "t").mkdir()
        desk.chmod(0o777)
        (desk / "t").chmod(0o777)
        yield Job(target, checkout, desk)


def files_below(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*") if not path.is_dir()}
