"""Find what a target's harness packaged of one attempt, hold it, and stage what of it is uploaded.

The tree was written by the target's code, and what that started may still change it: every step is one name
below an open directory, and no link is followed. No message holds a name of the tree: a cell may be hidden
behind a key, and whoever wrote a name may choose it.
"""

import json
import os
import re
import stat
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from runner_e2e.cell.harness_result import MOST_BYTES, SCHEMA, HarnessResult, Planned, parse_result
from runner_e2e.errors import FailureClass, HarnessFailureError
from runner_e2e.evidence.bundle import Bundle, Limits, stage_tree
from runner_e2e.evidence.redaction import Redactor
from runner_e2e.evidence.sanitize_json import sanitize_json
from runner_e2e.plan.ids import split_execution_id
from runner_e2e.sandbox.kernel import O_PATH

RESULT = "result.json"
SERVER_LOG = "server.log"
# What a harness packages, by upstream's list. Of images it names a few that are not published, so that any
# plain PNG is taken.
PACKAGED_DIRECTORIES = frozenset({"snapshots", "playwright-output", "blob-report", "html-report"})
PACKAGED_FILES = frozenset({RESULT, "provider-provenance.json", "playwright.log", "junit.xml"})
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\.png")
# What a pass needs, beside a ZIP of the blob report.
NEEDED = (
    "final-state.png",
    RESULT,
    "junit.xml",
    "html-report/index.html",
    "snapshots/fixtures.json",
    "snapshots/api-state.json",
)
NEEDED_ZIP = "blob-report/*.zip"

_ATTEMPT = re.compile(r"attempt-([1-9][0-9]{0,3})", re.ASCII)
# Files beside the directories, such as a campaign's summary; a harness has no reason for more.
MOST_BESIDE = 1_000
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LOOK = O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_REMEDY = "Let the target's harness leave exactly one attempt of the cell below results-path"

Named = Callable[[str], bool]


class NoResultsError(HarnessFailureError):
    """The harness left no attempt at all; whatever else is wrong with its results contradicts the plan."""

    def __init__(self, problem: str) -> None:
        super().__init__(FailureClass.PERMANENT_INFRASTRUCTURE, problem, _REMEDY)


@dataclass(frozen=True, slots=True)
class Results:
    """The results of one attempt, held open until the context of `finding_results` ends.

    `directory` is a descriptor. `server_log` is one that stands for the file that was found, whatever
    is done to its name. `missing` names what a pass needs and what is not there.
    """

    directory: int
    attempt: int
    result: HarnessResult | None
    server_log: int | None
    missing: tuple[str, ...]


@contextmanager
def finding_results(
    results: Path,
    *,
    execution_id: str,
    sha: str | None,
    campaign: str | None = None,
    below: Path | None = None,
) -> Iterator[Results]:
    """Hold the one attempt below a results directory that did not exist before the harness started.

    From `below` on, by default the directory that holds `results`, no part of the way may be a link. A
    `campaign` is the name that the campaign's directory must have. Files beside the directories on the
    way are ignored. Raises HarnessFailureError of the class permanent_infrastructure for anything but the
    planned cell's one attempt, NoResultsError when there is none.
    """
    parts = split_execution_id(execution_id)
    if parts is None:
        raise ValueError("the planned cell has no execution id")
    levels: tuple[tuple[str, Named], ...] = (
        ("campaign", lambda name: campaign is None or name == campaign),
        ("suite", parts.suite.__eq__),
        ("profile", parts.profile.__eq__),
        ("environment", parts.environment.__eq__),
        ("case", parts.case.__eq__),
        ("attempt", lambda name: _ATTEMPT.fullmatch(name) is not None),
    )
    with ExitStack() as held:
        directory, name = _open_results(held, results, below or results.parent), ""
        for level, is_planned in levels:
            directory, name = _descend(held, directory, level, is_planned)
        match = _ATTEMPT.fullmatch(name)
        attempt = int(match[1]) if match else 0
        result = None
        if content := _read_result(directory):
            result = parse_result(content, Planned(execution_id, sha, attempt))
        yield Results(
            directory,
            attempt,
            result,
            _hold_server_log(held, directory),
            find_missing(_list_needed(directory)),
        )


def stage_results(
    results: Results,
    destination: Path,
    redactor: Redactor,
    limits: Limits | None = None,
    *,
    hides_names: bool = False,
) -> Bundle:
    """Copy what a harness packages into `destination`, which must not exist, without secrets.

    Everything else is left out as `not-packaged`. The server's log is left to whoever assembles it. With
    `hides_names`, for a cell behind a key, nothing is copied: its files hold the suite's, the profile's and
    the case's names in many forms; of the result what names none is written anew.
    """
    if not hides_names:
        return stage_tree(results.directory, destination, redactor, limits, refuse=refuse_unpackaged)
    bundle = stage_tree(results.directory, destination, redactor, limits, refuse=_refuse_named)
    bundle.unnamed += len(bundle.left_out)
    bundle.left_out.clear()
    if results.result is not None:
        content = sanitize_json(json.dumps(describe_unnamed(results.result)).encode(), redactor)
        if content is not None:
            (destination / RESULT).write_bytes(content + b"\n")
            bundle.files[RESULT] = RESULT
    return bundle


def _refuse_named(parts: Sequence[str]) -> str | None:
    return refuse_unpackaged(parts) or "names-the-cell"


def describe_unnamed(result: HarnessResult) -> dict[str, object]:
    """Return what of a result names neither the cell nor what its agents were asked."""
    return {
        "schema": SCHEMA,
        "attempt": result.attempt,
        "status": result.status,
        "cleanup": result.cleanup,
        "failureClass": result.failure_class,
        "runtimeMode": result.runtime_mode,
        "startedAt": result.started_at,
        "finishedAt": result.finished_at,
        "durationMs": result.duration_ms,
        "runIds": list(result.run_ids or ()),
        "usage": None if result.usage is None else dict(result.usage),
        "billing": None if result.billing is None else dict(result.billing),
    }


def refuse_unpackaged(parts: Sequence[str]) -> str | None:
    """Return why a path below an attempt's directory is not staged, None if it is."""
    if parts[0] in PACKAGED_DIRECTORIES:
        return None
    if len(parts) > 1:
        return "not-packaged"
    if parts[0] == SERVER_LOG:
        return "staged-apart"
    is_packaged = parts[0] in PACKAGED_FILES or _IMAGE.fullmatch(parts[0])
    return None if is_packaged else "not-packaged"


def find_missing(names: Collection[str]) -> tuple[str, ...]:
    """Return what a pass needs and is not among the paths of an attempt, such as those of its bundle."""
    missing = [name for name in NEEDED if name not in names]
    directory, _, ending = NEEDED_ZIP.partition("*")
    if not any(name.startswith(directory) and name.endswith(ending) for name in names):
        missing.append(NEEDED_ZIP)
    return tuple(missing)


def _open_results(held: ExitStack, results: Path, below: Path) -> int:
    """Open the results directory step by step; `below` itself is trusted."""
    try:
        directory = _hold(held, os.open(below, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        for name in results.relative_to(below).parts:
            if name == "..":
                raise _wrong("The harness's results are not where they are looked for")
            directory = _hold(held, os.open(name, _DIRECTORY, dir_fd=directory))
    except FileNotFoundError:
        raise NoResultsError("The harness left no results") from None
    except OSError as error:
        raise _wrong(f"The harness's results cannot be opened as directories: {error.strerror}") from error
    return directory


def _descend(held: ExitStack, directory: int, level: str, is_planned: Named) -> tuple[int, str]:
    """Open the one directory of a level."""
    try:
        name = _choose(directory, level)
        if not is_planned(name):
            raise _wrong(f"The harness's results are of another {level} than the planned one")
        return _hold(held, os.open(name, _DIRECTORY, dir_fd=directory)), name
    except OSError as error:
        raise _wrong(f"The harness's results cannot be read at the {level}: {error.strerror}") from error


def _choose(directory: int, level: str) -> str:
    """Return the name of the only directory; nothing but regular files may stand beside it."""
    found: list[str] = []
    with os.scandir(directory) as entries:
        for number, entry in enumerate(entries):
            if number > MOST_BESIDE:
                raise _wrong(f"The harness's results hold too much at the {level}")
            if entry.is_symlink():
                raise _wrong(f"The harness's results hold a link at the {level}")
            if entry.is_dir(follow_symlinks=False):
                found.append(entry.name)
            elif not entry.is_file(follow_symlinks=False):
                raise _wrong(f"The harness's results hold a pipe, a socket or a device at the {level}")
            if len(found) > 1:
                raise _wrong(f"The harness's results hold more than one {level}")
    if not found:
        raise NoResultsError(f"The harness left no results: there is no {level}")
    return found[0]


def _read_result(directory: int) -> bytes | None:
    """Return the result's content, None when there is none."""
    looked = _look(directory, RESULT)
    if looked is None:
        return None
    try:
        size = _require_regular(looked, RESULT).st_size
        if size > MOST_BYTES:
            raise _wrong(f"The harness's {RESULT} is larger than {MOST_BYTES >> 20} MiB")
        with _reopen(looked) as file:
            return file.read(MOST_BYTES + 1)
    except OSError as error:
        raise _wrong(f"The harness's {RESULT} cannot be read: {error.strerror}") from error
    finally:
        os.close(looked)


def _hold_server_log(held: ExitStack, directory: int) -> int | None:
    looked = _look(directory, SERVER_LOG)
    if looked is None:
        return None
    _require_regular(_hold(held, looked), SERVER_LOG)
    return looked


def _look(directory: int, name: str) -> int | None:
    """Return a descriptor that stands for a name and does nothing yet, None when there is none."""
    try:
        return os.open(name, _LOOK, dir_fd=directory)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _wrong(f"The harness's {name} cannot be looked at: {error.strerror}") from error


def _require_regular(looked: int, name: str) -> os.stat_result:
    found = os.fstat(looked)
    # The other name of a file may be anywhere, also where nothing may be read from.
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        raise _wrong(f"The harness's {name} is no regular file with one name")
    return found


def _reopen(looked: int) -> IO[bytes]:
    return Path(f"/proc/self/fd/{looked}").open("rb")


def _list_needed(directory: int) -> frozenset[str]:
    """Return which of the paths that a pass needs are regular files that hold something."""
    names = {name for name in NEEDED if _holds_file(directory, name.split("/"))}
    place = NEEDED_ZIP.partition("/")[0]
    names |= {
        f"{place}/{name}" for name in _list_names(directory, place) if _holds_file(directory, [place, name])
    }
    return frozenset(names)


def _holds_file(directory: int, parts: Sequence[str]) -> bool:
    with ExitStack() as held:
        try:
            for name in parts[:-1]:
                directory = _hold(held, os.open(name, _DIRECTORY, dir_fd=directory))
            found = os.stat(parts[-1], dir_fd=directory, follow_symlinks=False)
        except OSError:
            return False
    return stat.S_ISREG(found.st_mode) and found.st_nlink == 1 and found.st_size > 0


def _list_names(directory: int, place: str) -> list[str]:
    """Return the first names in a directory, none when there is no such directory."""
    with ExitStack() as held:
        try:
            opened = _hold(held, os.open(place, _DIRECTORY, dir_fd=directory))
            entries = held.enter_context(os.scandir(opened))
            return [entry.name for _, entry in zip(range(MOST_BESIDE), entries, strict=False)]
        except OSError:
            return []


def _hold(held: ExitStack, descriptor: int) -> int:
    held.callback(os.close, descriptor)
    return descriptor


def _wrong(problem: str) -> HarnessFailureError:
    return HarnessFailureError(FailureClass.PERMANENT_INFRASTRUCTURE, problem, _REMEDY)
