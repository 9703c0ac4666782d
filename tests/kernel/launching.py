"""Start the production wrapper the way a server starts runnerd, and compare it with the bare runner.

It decides no expectation.
"""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernel.harness import SEARCH_PATH, SECRET, Act, Arg, Identity, Installation, finish
from kernel.results import Outcome, Result, outcomes
from runner_e2e.launch.install import ROOT_PREFIX, install_wrapper, write_configuration

STATE = "runtime/paperclip-runner/durable-sessions/own/runner"
INSTANCES = "paperclip-home/instances"
# Takes the wrapper's arguments off, and becomes what comes after them.
RUNNER = '#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\nshift\nexec "$@"\n'


@dataclass(frozen=True, slots=True)
class Launcher:
    """An attempt with a wrapper, beside `place/beside` and apart from `outside`.

    Relative to the attempt, `instances` is where the instance lies and `parent` what the wrapper is told
    of it. `words` stand for those of an ordinary launch, `cwd` for the workspace, and `wrapper` for that of
    runnerd.
    """

    place: Path
    outside: Path
    identity: Identity
    installation: Installation
    instances: str = INSTANCES
    parent: str = INSTANCES
    words: tuple[Arg, ...] = ()
    cwd: Path | None = None
    stdin: int = subprocess.DEVNULL
    wrapper: str = "paperclip-runnerd"

    @property
    def root(self) -> Path:
        """The attempt."""
        return self.place / f"{ROOT_PREFIX}own"

    @property
    def instance(self) -> Path:
        """The instance of the launch."""
        return self.root / self.instances / "own"

    @property
    def workspace(self) -> Path:
        """The working directory of every command."""
        return self.instance / "workspaces" / "agent"

    @property
    def own_words(self) -> tuple[Arg, ...]:
        """The words of an ordinary launch, of the run `r` in the session `s`."""
        return ("--state-dir", self.instance / STATE, "--session-id", "s", "--run-id", "r")

    def configure(
        self,
        *,
        hide: Sequence[Path] = (),
        writable: Sequence[Path] = (),
        close_ports: Sequence[int] = (),
    ) -> None:
        """Write the wrapper's configuration, as a harness does once before its server starts."""
        write_configuration(
            self.root,
            runner=self.root / "bin" / "runner",
            boot=1,
            instance_parents=[self.root / self.parent],
            hide=[self.root / "private", *hide],
            hide_optional=[],
            minimum_abi=6,
            levels={},
            writable=writable,
            close_ports=close_ports,
        )

    @contextmanager
    def start(
        self, *command: Arg, sandboxed: bool = True, environ: Mapping[str, str] | None = None
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Start a command as runnerd, through the wrapper or without it."""
        self.hand_over()
        # Beside an inert launcher there is no wrapper either.
        inert = bool(os.environ.get("RUNNER_E2E_TEST_LAUNCHER"))
        name = self.wrapper if sandboxed and not inert else "runner"
        words = [self.root / "bin" / name, *(self.words or self.own_words), "--", *command]
        uid = self.identity.uid if os.geteuid() == 0 else None
        with subprocess.Popen(
            [os.fsencode(word) for word in words],
            cwd=self.cwd or self.workspace,
            env={"PATH": SEARCH_PATH, "HOME": str(self.workspace), "LC_ALL": "C", **(environ or {})},
            stdin=self.stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            user=uid,
            group=uid,
            extra_groups=None if uid is None else [],
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def run(self, *command: Arg, sandboxed: bool = True, environ: Mapping[str, str] | None = None) -> Result:
        """Run a command to its end."""
        with self.start(*command, sandboxed=sandboxed, environ=environ) as process:
            return finish(process)

    def python(self, code: str, *words: Arg, sandboxed: bool = True) -> Any:  # noqa: ANN401 - printed JSON
        """Run some Python, and return the one JSON document that it prints."""
        command = (self.installation.python, "-I", "-S", "-c", code, *words)
        result = self.run(*command, sandboxed=sandboxed)
        assert result.status == 0, (result, self.journal())
        return json.loads(result.stdout)

    def act(
        self, *acts: Act, sandboxed: bool = True, environ: Mapping[str, str] | None = None
    ) -> list[Outcome]:
        """Try some acts in one process."""
        result = self.run(*self.acting(*acts), sandboxed=sandboxed, environ=environ)
        assert result.status == 0, (result, self.journal())
        return outcomes(result)

    def acting(self, *acts: Act) -> tuple[Arg, ...]:
        """The command that tries some acts."""
        words: list[Arg] = []
        for act in acts:
            words += ["+"] if words else []
            words += [f"={word}" if isinstance(word, int) else word for word in act]
        return (*self.installation.program("actor.py"), *words)

    def denies(self, *acts: Act, error: str = "EACCES", environ: Mapping[str, str] | None = None) -> None:
        """Assert that every act fails inside, and that each succeeds without the wrapper."""
        inside = self.act(*acts, environ=environ)
        assert [outcome.error for outcome in inside] == [error] * len(acts), inside
        control = self.act(*acts, sandboxed=False, environ=environ)
        assert [outcome.error for outcome in control] == [""] * len(acts), control

    def allows(self, *acts: Act, environ: Mapping[str, str] | None = None) -> list[str]:
        """Assert that every act works inside, and return the values."""
        inside = self.act(*acts, environ=environ)
        assert [outcome.error for outcome in inside] == [""] * len(acts), inside
        return [outcome.value for outcome in inside]

    def journal(self) -> list[dict[str, Any]]:
        """Return the lines that launches left."""
        path = self.root / "private" / "launches.ndjson"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def hand_over(self) -> None:
        """Give everything to the identity: the test process may be root, the command may not."""
        if os.geteuid() != 0:
            return
        for top in (self.place, self.outside):
            for path in (top, *top.rglob("*")):
                os.chown(path, self.identity.uid, self.identity.uid, follow_symlinks=False)


def write(path: Path, text: str = SECRET) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def make_workspace(launcher: Launcher) -> None:
    """Make the workspace, and the run's log as the server does: by it a launch knows which agent it is of."""
    launcher.workspace.mkdir(parents=True, exist_ok=True)
    write(launcher.instance / "data/run-logs/company" / launcher.workspace.name / "r.ndjson", "")


def install(launcher: Launcher) -> None:
    """Put the wrapper, its configuration and a runner into the attempt, and make the workspace."""
    project = launcher.installation.programs.parents[1]
    install_wrapper(launcher.root, project, Path(launcher.installation.python))
    write(launcher.root / "bin" / "runner", RUNNER).chmod(0o755)
    make_workspace(launcher)
    launcher.configure()
