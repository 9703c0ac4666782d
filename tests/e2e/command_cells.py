"""Cells of a target as the action runs them: `entrypoints/run_cell.py` in a process, on Actions or by hand.

Every run is checked for what holds however it ends: no secret of the job in anything that others can read,
no workflow command in the log but the product's own, evidence that `verify` accepts, and results that do
not stay in the checkout. It decides nothing else.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import time
import zipfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

import psutil

from action.runner_model import read_command_file, read_log
from e2e.checkout import Checkout, Ended, Evidence, Surroundings, finish, private_directory
from e2e.target_checkout import (
    CAMPAIGN,
    Target,
    Variant,
    catalog,
    find_cell,
    job_environment,
    make_target,
    write_mischief,
)
from e2e.target_job import NATIVE
from runner_e2e.evidence.redaction import Redactor
from runner_e2e.evidence.verify import verify_artifact

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

KEY_SECRET = "key-secret-of-the-command-tests"
# What a job may hold beside the cell's own; no child may get any of it.
FOREIGN = {
    "ACTIONS_RUNTIME_TOKEN": "foreign-actions-runtime-token",
    "ANTHROPIC_API_KEY": "foreign-credential-of-another-cell",
    "AWS_SECRET_ACCESS_KEY": "foreign-aws-secret-access-key",
    "DATABASE_URL": "postgres://foreign:database-password@127.0.0.1/x",
    "GH_TOKEN": "foreign-gh-token-of-the-job",
    "GITHUB_TOKEN": "foreign-github-token-of-the-job",
    "PAPERCLIP_SECRETS_MASTER_KEY": "foreign-master-key-of-the-job",
}
COMMAND_FILES = ("GITHUB_OUTPUT", "GITHUB_ENV", "GITHUB_PATH", "GITHUB_STATE", "GITHUB_STEP_SUMMARY")
# Written by the product alone, whatever a child prints.
OWN_COMMANDS = {"add-mask", "group", "endgroup", "error", "warning"}


def credential_of(name: str) -> str:
    """Return the value that these jobs have for a credential: one that URLs and JSON write in other ways."""
    return f"{name.lower().replace('_', '-')}+of&these%cells=="


@dataclass(frozen=True)
class Desk:
    """A job's own directory: RUNNER_TEMP, the runner's command files, and what tests put there."""

    path: Path

    @property
    def temporary(self) -> Path:
        """`RUNNER_TEMP`."""
        return self.path / "temp"

    @property
    def open(self) -> Path:
        """Where the harness may write: it can make no entry above a place that it must not change."""
        return self.path / "open"

    @property
    def parent(self) -> Path:
        """Where evidence lies."""
        return self.temporary / "runner-e2e-evidence"

    def file(self, variable: str) -> Path:
        """One of the runner's command files."""
        return self.path / "commands" / variable.lower()

    @property
    def records(self) -> list[Path]:
        """The evidence directories there are."""
        return sorted(path for path in self.parent.glob("*") if path.is_dir() and path.name[0] != ".")

    def record(self) -> dict[str, Any]:
        """`cell.json` of the one cell, as it is at this moment; empty when there is none yet."""
        for directory in self.records:
            with contextlib.suppress(FileNotFoundError):
                return Evidence(directory).cell
        return {}


@dataclass(frozen=True)
class Done:
    """A run that has ended."""

    ended: Ended
    desk: Desk
    secrets: frozenset[str]

    @property
    def status(self) -> int:
        return self.ended.status

    @property
    def log(self) -> str:
        """What the runner shows of it: masks are taken for commands."""
        lines = (self.ended.stdout + self.ended.stderr).splitlines(keepends=True)
        return "".join(line for line in lines if not line.startswith("::add-mask::"))

    @property
    def outputs(self) -> dict[str, str]:
        return dict(read_command_file(self.desk.file("GITHUB_OUTPUT").read_bytes()))

    @property
    def summary(self) -> str:
        return self.desk.file("GITHUB_STEP_SUMMARY").read_text(encoding="utf-8")

    @property
    def evidence(self) -> Evidence:
        (directory,) = self.desk.records
        return Evidence(directory)

    @property
    def cell(self) -> dict[str, Any]:
        return self.evidence.cell

    @property
    def verdict(self) -> tuple[int, str, str | None]:
        """Exit status, and status and failure class by the record, with which the outputs agree."""
        cell = self.cell
        outputs = self.outputs
        assert (outputs["status"], outputs["failure-class"]) == (cell["status"], cell["failureClass"] or "")
        assert cell["exitCode"] == self.status, self.ended
        return self.status, cell["status"], cell["failureClass"]

    def texts(self) -> Iterator[tuple[str, bytes]]:
        """Yield everything that others can read, by where it stands, archives taken apart."""
        yield "log", self.log.encode()
        for name in COMMAND_FILES:
            if self.desk.file(name).exists():
                yield name, self.desk.file(name).read_bytes()
        for directory in self.desk.records:
            yield from read_tree(directory)


@dataclass(frozen=True)
class Started:
    """A run that goes on."""

    process: subprocess.Popen[str]
    desk: Desk
    workshop: Workshop
    secrets: frozenset[str]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Stop what a test that failed left running."""
        with self.process:
            if self.process.poll() is None:
                self.process.terminate()
                finish(self.process)

    def watch(self) -> set[str]:
        """Return the command lines of all that runs below, from here to the end."""
        seen: set[str] = set()
        while self.process.poll() is None:
            with contextlib.suppress(psutil.NoSuchProcess):
                for one in psutil.Process(self.process.pid).children(recursive=True):
                    with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                        seen.add(" ".join(one.cmdline()))
            time.sleep(0.01)
        return seen

    def finish(self) -> Done:
        """Wait for the end, and check what holds for every end."""
        done = Done(finish(self.process), self.desk, self.secrets)
        assert_sound(done)
        if done.status != 2:  # what was there before a refusal stays
            assert not self.workshop.target.results.exists()
        return done


@dataclass(frozen=True)
class Workshop:
    """A target with its catalog, and who runs its cells; no cell leaves anything in it."""

    target: Target
    checkout: Checkout
    place: Path
    catalog: Path
    jobs: list[Path] = field(default_factory=list)

    def desk(self) -> Desk:
        """Make the directory of one more job."""
        desk = Desk(self.place / f"job-{len(self.jobs)}")
        self.jobs.append(desk.path)
        for path in (desk.path, desk.temporary, desk.open, desk.path / "commands"):
            path.mkdir(mode=0o755)
        for name in COMMAND_FILES:
            desk.file(name).touch()
        if self.checkout.uid is not None:
            for path in (desk.path, *desk.path.rglob("*")):
                os.chown(path, self.checkout.uid, self.checkout.uid)
        return desk

    def environment(self, desk: Desk, cell: str, inputs: Mapping[str, str | None]) -> dict[str, str]:
        """Return what the runner gives the step for a cell; an input of None is left out."""
        found = find_cell(cell)
        given = job_environment(self.target, cell)
        own = {name: credential_of(name) for name in found.credentials}
        files = {name: str(desk.file(name)) for name in COMMAND_FILES}
        chosen: dict[str, str | None] = {
            "command": "run-cell",
            "harness": "command",
            "target_path": str(self.target.path),
            "target_sha": self.target.sha,
            "harness_command": self.target.harness_command,
            "id": cell,
            "catalog": str(self.catalog),
            "credential_name": found.credential,
            "credential": own.pop(found.credential),
            "allow_root": "true",
            **inputs,
        }
        return {
            **{name: value for name, value in given.items() if name not in (*found.credentials, CAMPAIGN)},
            **FOREIGN,
            **own,
            **files,
            "GITHUB_ACTIONS": "true",
            "GITHUB_RUN_ID": "17",
            "GITHUB_RUN_ATTEMPT": "1",
            "GITHUB_WORKSPACE": str(self.place),
            "RUNNER_TEMP": str(desk.temporary),
            "RUNNER_TOOL_CACHE": str(desk.path),
            "HOME": str(desk.path),
            **{f"INPUT_{name.upper()}": value for name, value in chosen.items() if value is not None},
        }

    def start(
        self,
        cell: str = NATIVE,
        *starts: Mapping[str, object],
        desk: Desk | None = None,
        environ: Mapping[str, str | None] | None = None,
        program: Sequence[str] = (),
        inputs: Mapping[str, str | None] | None = None,
    ) -> Started:
        """Start `run_cell.py`; `starts` are the misbehaviours of the target's starts, one after the other.

        A variable of `environ` that is None is taken away. `program` takes the place of `run_cell.py`.
        """
        desk = desk or self.desk()
        chosen = dict(inputs or {})
        told: dict[str, str] = {}
        if starts:
            told = write_mischief(desk.open / "mischief.json", *starts)
            chosen["pass_env"] = ",".join([*told, chosen.get("pass_env") or ""]).rstrip(",")
        given = {**self.environment(desk, cell, chosen), **told, **(environ or {})}
        words = program or [str(self.checkout.project / "entrypoints/run_cell.py")]
        command = [str(self.checkout.python), "-I", *words]
        secrets = {credential_of(name) for name in find_cell(cell).credentials}
        return Started(
            self.checkout.start(
                command, desk.path, {name: value for name, value in given.items() if value is not None}
            ),
            desk,
            self,
            frozenset({*secrets, *FOREIGN.values(), KEY_SECRET}),
        )

    def run(
        self,
        cell: str = NATIVE,
        *starts: Mapping[str, object],
        desk: Desk | None = None,
        environ: Mapping[str, str | None] | None = None,
        inputs: Mapping[str, str | None] | None = None,
    ) -> Done:
        """Run a cell to its end."""
        started = self.start(cell, *starts, desk=desk, environ=environ, inputs=inputs)
        with started:
            return started.finish()


@contextlib.contextmanager
def workshop_for(checkout: Checkout, variant: Variant = "modern") -> Iterator[Workshop]:
    """Make a target; at the end nothing of its cells may be left on the machine."""
    surroundings = Surroundings()
    with private_directory("command") as place:
        target = make_target(place, variant=variant, checkout=checkout)
        found = catalog(target)
        found.chmod(0o644)
        yield Workshop(target, checkout, place, found)
        surroundings.assert_clean()


def assert_sound(done: Done) -> None:
    """Assert what holds for every run, however it ended."""
    assert_absent(done, *done.secrets)
    # Without a GITHUB_ACTIONS there is no group either, so that all that is said is text.
    commands = read_log(done.ended.stdout) + read_log(done.ended.stderr)
    assert {command.name for command in commands} <= OWN_COMMANDS, commands
    for directory in done.desk.records:
        assert not verify_artifact(directory, Redactor(done.secrets)).problems
        assert Evidence(directory).cell["status"] != "started"


def assert_absent(done: Done, *words: str) -> None:
    """Assert that nothing that others can read holds one of the words, plain or in an usual encoding."""
    forms = {form: word for word in words for form in encode(word)}
    found = [(place, forms[form]) for place, text in done.texts() for form in forms if form in text]
    assert not found


def encode(word: str) -> set[bytes]:
    """Return the ways in which a word may stand in a text."""
    plain = word.encode()
    coded = {base64.b64encode(plain), base64.urlsafe_b64encode(plain)}
    return {
        plain,
        quote(word, safe="").encode(),
        json.dumps(word)[1:-1].encode(),
        *(one.rstrip(b"=") for one in coded),
    }


def read_tree(directory: Path) -> Iterator[tuple[str, bytes]]:
    """Yield every name and every content below a directory; it holds nothing but files and directories."""
    for path in sorted(directory.rglob("*")):
        name = str(path.relative_to(directory))
        yield f"the name {name!r}", os.fsencode(name)
        assert path.is_dir() or (path.is_file() and not path.is_symlink()), path
        if path.is_file():
            content = path.read_bytes()
            yield name, content
            if name.endswith(".zip"):
                with zipfile.ZipFile(io.BytesIO(content)) as archive:
                    for member in archive.namelist():
                        yield f"{name}: the name {member!r}", member.encode()
                        yield f"{name}: {member}", archive.read(member)


def read_json(path: Path) -> Any:  # noqa: ANN401 - whatever was written
    """Return a document that a process of a test wrote."""
    return json.loads(path.read_text(encoding="utf-8"))
