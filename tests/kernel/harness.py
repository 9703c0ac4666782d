"""Start the launcher the way production does, and compare what works inside with outside.

It speaks the words of the cases: a command *works* inside as it does outside, an act is *denied*
while the same act outside succeeds, and the launcher *refuses* with a code before anything starts.
It decides no expectation.
"""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TypeAlias

import pytest

from kernel.results import Outcome, Plan, Refusal, Result, outcomes, parse_plan

SECRET = "SECRET"
ORDINARY_UID = 54987 if os.geteuid() == 0 else os.geteuid()
TIMEOUT_S = 15.0
SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

POLICY_SCHEMA = "runner-e2e.sandbox-policy/v1"

Arg: TypeAlias = str | bytes | Path
Act: TypeAlias = tuple[Arg | int, ...]
Step: TypeAlias = tuple[object, ...]


class Identity(StrEnum):
    """Who starts the launcher. CI is root, a hosted runner is not, and they fail differently."""

    USER = "user"
    ROOT = "root"

    @property
    def uid(self) -> int:
        """The uid that owns the fixture and runs the command."""
        return ORDINARY_UID if self is Identity.USER else 0


@dataclass(frozen=True, slots=True)
class Installation:
    """Readable copies of the launcher and of the test programs, and the Python they run under."""

    python: str
    launcher: Path
    programs: Path

    def program(self, name: str) -> tuple[str, ...]:
        """The command line of one of the test programs."""
        return (self.python, "-I", "-S", str(self.programs / name))

    @property
    def launch(self) -> tuple[str, ...]:
        """The command line of the launcher, before its options."""
        return (self.python, "-I", "-S", str(self.launcher))


@dataclass(frozen=True, slots=True)
class Box:
    """One fixture tree, one identity, and the launcher options that hide a part of the tree."""

    root: Path
    identity: Identity
    installation: Installation
    options: tuple[Arg, ...]

    @property
    def hid(self) -> Path:
        """The hidden directory."""
        return self.root / "hid"

    @property
    def own(self) -> Path:
        """The part of the hidden directory that is exposed."""
        return self.root / "hid" / "own"

    @property
    def ok(self) -> Path:
        """A granted directory: the working directory, HOME and TMPDIR of every command."""
        return self.root / "ok"

    @property
    def secret(self) -> Path:
        """A hidden file that says SECRET."""
        return self.root / "hid" / "secret"

    @property
    def marker(self) -> Path:
        """The file that exists once a command ran that had to be refused."""
        return self.root / "ok" / "ran"

    @property
    def environment(self) -> dict[str, str]:
        """The whole environment of every process, unless a test gives another."""
        home = str(self.ok)
        return {"PATH": SEARCH_PATH, "HOME": home, "TMPDIR": home, "LC_ALL": "C"}

    def with_options(self, *options: Arg) -> "Box":
        """The same tree with other launcher options."""
        return replace(self, options=options)

    def hiding(self, *paths: Arg, expose: Sequence[Arg] = ()) -> "Box":
        """The same tree with other paths hidden and exposed."""
        hide: list[Arg] = [word for path in paths for word in ("--hide", path)]
        show: list[Arg] = [word for path in expose for word in ("--expose", path)]
        return self.with_options(*hide, *show)

    # Commands.

    @contextmanager
    def start(
        self,
        *command: Arg,
        sandboxed: bool = True,
        stage: Sequence[Step] = (),
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        stdin: int = subprocess.DEVNULL,
        stdout: int = subprocess.PIPE,
        stderr: int = subprocess.PIPE,
        pass_fds: Sequence[int] = (),
        separator: bool = True,
        own_files: bool = True,
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Run a command while the block runs, in a session of its own that ends with the block.

        `stage` prepares the process before the launcher starts; with it the process starts as
        root, so that namespaces and mounts can be made before the identity is taken on.
        """
        if own_files:
            self.take_ownership()
        words: list[Arg] = list(command)
        if sandboxed:
            dashes: list[Arg] = ["--"] if separator else []
            words = [*self.installation.launch, *self.options, *dashes, *words]
        uid = None
        if stage and os.geteuid() == 0:
            steps = [*stage, ("become", self.identity.uid)] if self.identity.uid else list(stage)
            words = [*self.installation.program("stage.py"), encoded(steps), *words]
        elif stage:
            words = [*self.installation.program("stage.py"), encoded(stage), *words]
        elif os.geteuid() == 0:
            uid = self.identity.uid
        process = subprocess.Popen(
            [os.fsencode(word) for word in words],
            cwd=self.ok if cwd is None else cwd,
            env=self.environment if env is None else env,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            pass_fds=pass_fds,
            start_new_session=True,
            user=uid,
            group=uid,
            extra_groups=None if uid is None else [],
        )
        try:
            yield process
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()

    def run(
        self,
        *command: Arg,
        sandboxed: bool = True,
        stage: Sequence[Step] = (),
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        stdin: int = subprocess.DEVNULL,
        pass_fds: Sequence[int] = (),
        separator: bool = True,
        own_files: bool = True,
    ) -> Result:
        """Run a command inside the sandbox to its end."""
        with self.start(
            *command,
            sandboxed=sandboxed,
            stage=stage,
            cwd=cwd,
            env=env,
            stdin=stdin,
            pass_fds=pass_fds,
            separator=separator,
            own_files=own_files,
        ) as process:
            return finish(process)

    def control(
        self,
        *command: Arg,
        stage: Sequence[Step] = (),
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Result:
        """Run the same command with the same identity and no launcher."""
        return self.run(*command, sandboxed=False, stage=stage, cwd=cwd, env=env)

    def works(
        self,
        *command: Arg,
        stage: Sequence[Step] = (),
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Result:
        """Assert that a command succeeds inside with the output it has outside."""
        inside = self.run(*command, stage=stage, cwd=cwd, env=env)
        outside = self.control(*command, stage=stage, cwd=cwd, env=env)
        assert outside.status == 0, outside
        assert (inside.status, inside.stdout) == (0, outside.stdout), (inside, outside)
        return inside

    def refuses(
        self,
        code: str,
        *options: Arg,
        stage: Sequence[Step] = (),
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        pass_fds: Sequence[int] = (),
        own_files: bool = True,
    ) -> Refusal:
        """Assert that the launcher refuses these options and that no command started."""
        result = self.with_options(*options).run(
            "touch",
            self.marker,
            stage=stage,
            cwd=cwd,
            env=env,
            pass_fds=pass_fds,
            own_files=own_files,
        )
        assert not self.marker.exists(), result
        return result.refusal(code)

    def explain(self, *, stage: Sequence[Step] = (), pass_fds: Sequence[int] = ()) -> Plan:
        """Read the plan for the present options."""
        result = self.with_options(*self.options, "--explain").run(
            stage=stage, pass_fds=pass_fds, separator=False
        )
        assert (result.status, result.stderr) == (0, b""), result
        assert result.stdout.isascii(), result
        return parse_plan(result.stdout)

    # Acts: single system calls whose errno is the result.

    def acting(self, *acts: Act) -> tuple[Arg, ...]:
        """The command that tries these acts."""
        words: list[Arg] = []
        for act in acts:
            if words:
                words.append("+")
            words += [f"={word}" if isinstance(word, int) else word for word in act]
        return (*self.installation.program("actor.py"), *words)

    def act(
        self,
        *acts: Act,
        sandboxed: bool = True,
        stage: Sequence[Step] = (),
        cwd: Path | None = None,
        pass_fds: Sequence[int] = (),
        own_files: bool = True,
    ) -> list[Outcome]:
        """Try the acts in one process and return what the kernel said to each."""
        result = self.run(
            *self.acting(*acts),
            sandboxed=sandboxed,
            stage=stage,
            cwd=cwd,
            pass_fds=pass_fds,
            own_files=own_files,
        )
        return outcomes(result)

    def allows(self, *acts: Act, stage: Sequence[Step] = (), cwd: Path | None = None) -> list[str]:
        """Assert that every act works inside, and return the values."""
        inside = self.act(*acts, stage=stage, cwd=cwd)
        assert [outcome.error for outcome in inside] == [""] * len(acts), inside
        return [outcome.value for outcome in inside]

    def denies(
        self,
        *acts: Act,
        error: str = "EACCES",
        stage: Sequence[Step] = (),
        cwd: Path | None = None,
        own_files: bool = True,
    ) -> None:
        """Assert that every act fails inside with `error` and that each succeeds outside."""
        self.denies_inside(*acts, error=error, stage=stage, cwd=cwd, own_files=own_files)
        outside = self.act(*acts, sandboxed=False, stage=stage, cwd=cwd, own_files=own_files)
        assert [outcome.error for outcome in outside] == [""] * len(acts), outside

    def denies_inside(
        self,
        *acts: Act,
        error: str = "EACCES",
        stage: Sequence[Step] = (),
        cwd: Path | None = None,
        own_files: bool = True,
    ) -> None:
        """The first half of `denies`, for acts whose control needs another arrangement."""
        inside = self.act(*acts, stage=stage, cwd=cwd, own_files=own_files)
        assert [outcome.error for outcome in inside] == [error] * len(acts), inside
        assert not any(SECRET in outcome.value for outcome in inside), inside

    def take_ownership(self) -> None:
        """Give the tree to the identity: the test process may be root, the command may not."""
        if os.geteuid() != 0:
            return
        device = self.root.stat().st_dev
        for path in (self.root, *self.root.rglob("*")):
            found = path.lstat()
            if found.st_dev == device and found.st_uid != self.identity.uid:
                os.chown(path, self.identity.uid, self.identity.uid, follow_symlinks=False)


def encoded(value: object) -> str:
    """JSON for a test program's argument; bytes and paths as Python spells them in `os.fsdecode`."""

    def spell(item: object) -> object:
        return os.fsdecode(item) if isinstance(item, bytes | os.PathLike) else item

    def spelled(item: object) -> object:
        if isinstance(item, tuple | list):
            return [spelled(part) for part in item]
        return spell(item)

    return json.dumps(spelled(value))


def finish(process: subprocess.Popen[bytes], *, interrupted: bool = False) -> Result:
    """Wait for a process, and never take a traceback for an answer.

    `interrupted` allows one: SIGINT may arrive while the interpreter itself is still starting.
    """
    stdout, stderr = process.communicate(timeout=TIMEOUT_S)
    result = Result(process.returncode, stdout or b"", stderr or b"")
    assert interrupted or "Traceback" not in result.complaints, result.complaints
    return result


def tool(name: str, *, optional: bool = False) -> str:
    """Return a program the machine must have; CI must have it too, a person's machine may not."""
    found = shutil.which(name, path=SEARCH_PATH)
    if found is None:
        if os.environ.get("CI") == "true" and not optional:
            pytest.fail(f"{name} is not installed, and CI has to run this test")
        pytest.skip(f"{name} is not installed")
    return found


def wait_until(condition: Callable[[], bool]) -> None:
    """Poll until something outside has happened."""
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, "nothing happened"
        time.sleep(0.005)
