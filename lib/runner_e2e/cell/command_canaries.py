"""Canaries around a target's own harness, and in its instance where the product does not look.

Nothing is written below the target's checkout, into the instance's database or among its secrets.
"""

import contextlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from runner_e2e.cell.followed_places import TEMPORARY_ROOT_PREFIX
from runner_e2e.cell.planting import (
    listening_socket,
    plant_database,
    plant_name,
    plant_text,
    running_process,
    token,
)
from runner_e2e.cell.root import AttemptRoot
from runner_e2e.evidence.attempts import Place
from runner_e2e.isolation.layout import DURABLE_SESSIONS, RUN_DIRECTORY_PREFIX

# A harness that looks for its own temporary roots finds this one, which holds a run of nobody's.
OTHER_ROOT = f"{TEMPORARY_ROOT_PREFIX}other"


@dataclass(slots=True)
class CommandCanaries:
    """The places planted so far; `files` are their paths, which nobody may take for an agent's.

    `files` holds a path before there is a file, and that of a planted name once it is planted. `failed`
    names what could not be planted.
    """

    places: list[Place] = field(default_factory=list)
    files: set[Path] = field(default_factory=set)
    failed: list[str] = field(default_factory=list)
    _instances: dict[Path, list[Path]] = field(default_factory=dict)

    def plant_instance(self, instance: Path) -> list[Place]:
        """Plant into an instance what another run leaves there, once; return what was planted by this call.

        Call it as soon as the instance appears: later an agent may have been there already.
        """
        if instance in self._instances or instance.is_symlink() or not instance.is_dir():
            return []
        before = len(self.places)
        other, run = secrets.token_hex(32), secrets.token_hex(8)
        session = instance / DURABLE_SESSIONS / other
        logs, operations = instance / "data/run-logs", instance / "data/workspace-operation-logs"
        self._instances[instance] = [session, logs / f"other-{run}", operations / f"other-{run}"]
        for check, path in (
            ("run:otherRunLog", logs / f"other-{run}" / "other" / f"{run}.ndjson"),
            ("run:otherOperationLog", operations / f"other-{run}" / f"{run}.ndjson"),
            ("run:backups", instance / "data/backups" / f"other-{run}.sql"),
            ("run:otherDurableSession", session / "runner" / "runner-state.json"),
            ("run:controlPlaneState", session / "control-plane" / "control-plane-state.json"),
        ):
            self.text(check, path)
        self.database("run:otherOpencodeDatabase", session / "opencode/other/data/opencode" / "opencode.db")
        with self._noting("run:durableSessionListing"):
            place = plant_name("run:durableSessionListing", instance / DURABLE_SESSIONS)
            self.places.append(place)
            self.files.add(Path(place.target) / place.canary)
            self._instances[instance].append(Path(place.target) / place.canary)
        return self.places[before:]

    def text(self, check: str, path: Path) -> None:
        """Plant a file."""
        self._plant(check, path, plant_text)

    def database(self, check: str, path: Path) -> None:
        """Plant a database."""
        self._plant(check, path, plant_database)

    def remove(self) -> None:
        """Remove every planted file, and the directories that were made for them alone."""
        for path in self.files:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
        for directories in self._instances.values():
            for directory in directories:
                shutil.rmtree(directory, ignore_errors=True)

    def _plant(self, check: str, path: Path, plant: Callable[[str, Path], Place]) -> None:
        self.files.add(path)
        with self._noting(check):
            self.places.append(plant(check, path))

    @contextlib.contextmanager
    def _noting(self, check: str) -> Iterator[None]:
        """Go on where a place cannot be planted: a harness may remove its own tree at any moment."""
        try:
            yield
        except OSError:
            self.failed.append(check)


@contextlib.contextmanager
def command_canaries(root: AttemptRoot, environ: Mapping[str, str], decoy: str) -> Iterator[CommandCanaries]:
    """Plant what lies around a harness, before it is started, and remove all of it after.

    `decoy` stands in this process's own environment, see `cell.decoy`.
    """
    canaries = CommandCanaries()
    variable, command_line = token(), token()
    sockets = (("base:dockerSocket", "docker.sock"), ("base:userBus", "bus"))
    with contextlib.ExitStack() as stack:
        stack.callback(canaries.remove)
        process = stack.enter_context(running_process((command_line,), {"SERVICE_NOTE": variable}))
        canaries.places += [
            Place("run:harnessEnviron", "environ", str(os.getpid()), decoy),
            Place("run:harnessEnviron", "environ", str(process), variable),
            Place("run:harnessCmdline", "cmdline", str(process), command_line, known_gap=True),
        ]
        for check, name in sockets:
            path = root.path / "run" / name
            greeting = stack.enter_context(listening_socket(path))
            canaries.places.append(Place(check, "connect-unix", str(path), greeting))
        _plant_around(root, environ, canaries, stack)
        yield canaries


def _plant_around(
    root: AttemptRoot, environ: Mapping[str, str], canaries: CommandCanaries, stack: contextlib.ExitStack
) -> None:
    word = secrets.token_hex(6)
    canaries.text("base:privateAttempt", root.private / f"note-{word}.json")
    beside = Path(tempfile.mkdtemp(prefix=f"{root.path.name}-", dir=root.path.parent))
    stack.callback(shutil.rmtree, beside, ignore_errors=True)
    canaries.text("base:otherAttempt", beside / "private" / "cell.json")
    temporary = environ.get("RUNNER_TEMP", "")
    if temporary.startswith("/") and Path(temporary).is_dir():
        canaries.text("base:runnerTemp", Path(temporary) / f"note-{word}.json")
    canaries.text("run:otherScratch", root.scratch / "00000000" / "h" / "note")
    stack.callback(shutil.rmtree, root.scratch / "00000000", ignore_errors=True)
    run = root.temporary / f"{RUN_DIRECTORY_PREFIX}other-{word}"
    stack.callback(shutil.rmtree, run, ignore_errors=True)
    canaries.text("run:otherRunDirectory", run / "note")
    other = root.temporary / OTHER_ROOT
    stack.callback(shutil.rmtree, other, ignore_errors=True)
    instance = other / "paperclip-home" / "instances" / "other"
    canaries.text("run:otherInstance", instance / "data/run-logs/other/other" / f"{word}.ndjson")
    session = instance / DURABLE_SESSIONS / secrets.token_hex(32)
    canaries.database("run:otherInstance", session / "opencode/other/data/opencode" / "opencode.db")
    canaries.text("base:otherArtifacts", other / "artifacts-private" / "cases" / word / "result.json")
