"""What a test tells the harness to do wrong, and how it does that.

The variable `TARGET_MISCHIEF` names a JSON file: a list of objects whose keys are the fields of `Mischief`,
one for each start of the harness that runs cells. A start takes the first one off unless it is the last.
In every text `{credential}` stands for the value of the cell's first credential, and `{credential-base64}`
and `{credential-url}` for what usual encodings make of that.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MISCHIEF = "TARGET_MISCHIEF"
LONG_S = 600.0
MOMENTS = ("start", "serving", "packaged")
_BLOCK = b"\0" * 65536


@dataclass(frozen=True)
class Mischief:
    """One start's misbehaviour; nothing by default.

    * `failure`: these keys go into `result.json` of a cell that failed, such as `error` and `failureClass`.
    * `crash`: instead of running anything, print this to standard error and exit with status 7.
    * `exit_status`: end with this status, whatever the cell came to.
    * `stdout`, `stderr`: print these texts first, as they are.
    * `show_environment`, `show_server_environment`: write what the harness and its server have as JSON.
    * `show_ancestors`: write as JSON what can be read of each process above: its words, its variables.
    * `hang`: sleep at this moment, one of `MOMENTS`; `ignore_signals`: take no notice of SIGTERM and others.
    * `daemon`: leave a process of another session, without any variable, that sleeps; it writes its id here.
    * `pipe_holder`: the same, but it keeps standard output and standard error open.
    * `rename`, `link`: first give files other names, then make symbolic links: each is a name and its aim.
    * `append`: then append texts to files, such as a guessed `GITHUB_ENV`, and make directories for them.
      What of this is refused is told on standard error.
    * `fill`: write into this directory until it is full, or holds `fill_bytes` more.
    * `runner`: start agents by this program instead of the one that the job names.
    * `leads`: what scripted agents try: a list of `id`, `how`, `target`. `{root}`, `{instance}`, `{server}`
      and `{harness}` stand for the attempt's root, the instance, and two process ids.
    * `asks`: so many calls of the model through the gateway that the job names, before agents start.
    * `log_first`, `log_last`: lines before and after everything else in `server.log`.
    * `plant`: what of `e2e.target.plants` goes into the evidence.
    * `move_results`: give the results directory this name beside itself when all is packaged.
    * `results_twice`: package a second set under another campaign.
    * `without`: leave these out of the packaged files.
    * `keep_root`: leave the temporary root.
    """

    failure: Mapping[str, Any] = field(default_factory=dict)
    crash: str | None = None
    exit_status: int | None = None
    stdout: str = ""
    stderr: str = ""
    show_environment: str | None = None
    show_server_environment: str | None = None
    show_ancestors: str | None = None
    hang: str | None = None
    ignore_signals: bool = False
    daemon: str | None = None
    pipe_holder: str | None = None
    rename: Mapping[str, str] = field(default_factory=dict)
    link: Mapping[str, str] = field(default_factory=dict)
    append: Mapping[str, str] = field(default_factory=dict)
    fill: str | None = None
    fill_bytes: int = 1 << 30
    runner: str | None = None
    leads: tuple[Mapping[str, str], ...] = ()
    asks: int = 0
    log_first: tuple[str, ...] = ()
    log_last: tuple[str, ...] = ()
    plant: tuple[str, ...] = ()
    move_results: str | None = None
    results_twice: bool = False
    without: tuple[str, ...] = ()
    keep_root: bool = False

    def pause(self, moment: str) -> None:
        """Sleep if this is the moment to hang."""
        deadline = time.monotonic() + LONG_S
        while self.hang == moment and time.monotonic() < deadline:
            time.sleep(1)


def take_mischief(environ: dict[str, str], credential: str) -> Mischief:
    """Return this start's part of the list; an unknown key is a mistake of the test."""
    name = environ.get(MISCHIEF)
    if not name:
        return Mischief()
    path = Path(name)
    first, *rest = _insert(json.loads(path.read_text(encoding="utf-8")), credential)
    if unknown := first.keys() - {one.name for one in fields(Mischief)}:
        raise ValueError(f"unknown mischief: {sorted(unknown)}")
    if first.get("hang") not in (None, *MOMENTS):
        raise ValueError(f"no moment to hang at: {first['hang']}")
    if rest:
        # The credential must not be written where it was a placeholder.
        path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8"))[1:]), encoding="utf-8")
    values: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in first.items()
    }
    return Mischief(**values)


def start_mischief(mischief: Mischief, environ: Mapping[str, str]) -> None:
    """Do everything that comes before a cell is run."""
    if mischief.ignore_signals:
        for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(signum, signal.SIG_IGN)
    if mischief.show_environment:
        write_json(Path(mischief.show_environment), describe_process(environ))
    for stream, text in ((sys.stdout, mischief.stdout), (sys.stderr, mischief.stderr)):
        stream.write(text)
        stream.flush()
    if mischief.show_ancestors:
        write_json(Path(mischief.show_ancestors), _describe_ancestors())
    for name, aim in mischief.rename.items():
        with _refusable():
            Path(name).rename(aim)
    for name, aim in mischief.link.items():
        with _refusable():
            Path(name).symlink_to(aim)
    for name, text in mischief.append.items():
        with _refusable():
            Path(name).parent.mkdir(parents=True, exist_ok=True)
            with Path(name).open("a", encoding="utf-8") as file:
                file.write(text)
    if mischief.daemon:
        _leave_process(Path(mischief.daemon), holds_streams=False)
    if mischief.pipe_holder:
        _leave_process(Path(mischief.pipe_holder), holds_streams=True)
    if mischief.fill:
        _fill(Path(mischief.fill), mischief.fill_bytes)
    mischief.pause("start")


def describe_process(environ: Mapping[str, str]) -> dict[str, object]:
    """Return what a supervisor decides about a child: variables, words, directory, session, files."""
    return {
        "environment": dict(environ),
        "words": sys.argv,
        "directory": str(Path.cwd()),
        "leads": os.getpid() == os.getsid(0) == os.getpgid(0),
        "input": str(Path("/proc/self/fd/0").readlink()),
        "files": sorted(int(path.name) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()),
    }


def write_json(path: Path, content: object) -> None:
    """Write a document."""
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _insert(value: Any, credential: str) -> Any:  # noqa: ANN401 - any JSON
    if isinstance(value, str):
        coded = base64.b64encode(credential.encode()).decode()
        for name, text in (("", credential), ("-base64", coded), ("-url", quote(credential, safe=""))):
            value = value.replace(f"{{credential{name}}}", text)
        return value
    if isinstance(value, list):
        return [_insert(item, credential) for item in value]
    if isinstance(value, dict):
        return {key: _insert(item, credential) for key, item in value.items()}
    return value


def _describe_ancestors() -> list[dict[str, object]]:
    """Return them from the parent up; what cannot be read is None."""
    found: list[dict[str, object]] = []
    pid = os.getppid()
    while pid > 0:
        place = Path(f"/proc/{pid}")
        parts = {name: _read_parts(place / name) for name in ("cmdline", "environ")}
        found.append({"pid": pid, **parts})
        pid = int((place / "stat").read_text().rpartition(")")[2].split()[1])
    return found


def _read_parts(path: Path) -> list[str] | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").split("\0")
    except OSError:
        return None


@contextlib.contextmanager
def _refusable() -> Iterator[None]:
    """Say so if something is refused."""
    try:
        yield
    except OSError as error:
        sys.stderr.write(f"refused: {error.strerror}\n")


def _leave_process(pid_file: Path, *, holds_streams: bool) -> None:
    """Start a process that outlives its parent, in a session of its own; return once its id is written."""
    quiet = "" if holds_streams else ">/dev/null 2>&1"
    # The shell in between ends at once, so that nobody knows whose child the sleeper is.
    script = f'env -i sleep {LONG_S:.0f} {quiet} & echo $! >"$1.new" && mv "$1.new" "$1"'
    subprocess.run(
        ["/bin/sh", "-c", script, "sh", pid_file],
        env={},
        cwd="/",
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        check=True,
    )


def _fill(directory: Path, most: int) -> None:
    try:
        with (directory / "filling").open("wb", buffering=0) as file:
            for _ in range(0, most, len(_BLOCK)):
                file.write(_BLOCK)
    except OSError as error:
        sys.stderr.write(f"{directory.name}: {error.strerror}\n")
