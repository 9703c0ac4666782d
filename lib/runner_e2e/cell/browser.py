"""A headless Chromium: found, started apart from everything else, ended with all that it started."""

import contextlib
import os
import shutil
import signal
import stat
import subprocess
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from runner_e2e.cell.children import read_children
from runner_e2e.cell.devtools import BrowserError, DevTools
from runner_e2e.cell.processes import concerns, wait_until
from runner_e2e.cell.programs import list_steps
from runner_e2e.errors import InputError
from runner_e2e.isolation.environment import DEFAULT_SEARCH

NAMES = ("chromium", "chromium-browser", "google-chrome")
# What a browser may take to end, beside the time for its work.
END_S = 5.0
_CLOSE_S = 2.0
_TAIL_BYTES = 2000
_OUTPUT = "browser.log"
# As documented for headless use; nothing of it looks for updates, accounts or a network.
_FLAGS = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-breakpad",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-sync",
    "--disk-cache-size=16777216",
    "--hide-scrollbars",
    "--no-default-browser-check",
    "--no-first-run",
    "--password-store=basic",
    "--use-mock-keychain",
)
# The browser reads its commands from descriptor 3 and writes to 4.
_PIPES = 'exec "$@" 3<&0 4>&1 </dev/null >&2'


@dataclass(frozen=True, slots=True)
class FoundBrowser:
    """A browser's program, or None and the reason, for people."""

    program: Path | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Launch:
    """How a browser is started: its new and empty `profile` lies in a private directory.

    It reaches nothing but `origin`, such as `127.0.0.1:3100`. `size` is its window's in pixels. Without
    `sandboxed`, its own sandbox is off, for a machine that has none to offer.
    """

    program: Path
    profile: Path
    origin: str
    size: tuple[int, int]
    sandboxed: bool = True


def find_browser(search: str, names: Sequence[str] = NAMES) -> FoundBrowser:
    """Return the first browser on a search path that only root can change.

    Agents are this user and work before the picture is taken: what they can write is not started outside of
    their domains.
    """
    refused = ""
    for name in names:
        found = shutil.which(name, path=search)
        if found is None or not found.startswith("/"):
            continue
        changeable = _find_changeable(Path(found))
        if changeable is None:
            return FoundBrowser(Path(found))
        refused = refused or f"{found} is not used, because others than root can change {changeable}"
    return FoundBrowser(None, refused or f"none of {', '.join(names)} is on PATH")


def _find_changeable(program: Path) -> Path | None:
    """Return what others than root could change on the way to a program, None when there is nothing."""
    try:
        steps = list(list_steps(program))
        places = dict.fromkeys(place for step in steps for place in (step, *step.parents))
        return next((place for place in places if not _is_roots(place)), None)
    except (OSError, InputError):
        return program


def _is_roots(place: Path) -> bool:
    status = place.lstat()
    if status.st_uid != 0:
        return False
    # The mode of a link says nothing, and in a sticky directory entries belong to their owners.
    is_open = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISLNK(status.st_mode) or not is_open or bool(status.st_mode & stat.S_ISVTX)


def build_words(launch: Launch) -> list[str]:
    """Return the command line of a browser."""
    return [
        str(launch.program),
        *_FLAGS,
        *(() if launch.sandboxed else ("--no-sandbox",)),
        f"--user-data-dir={launch.profile}",
        f"--window-size={launch.size[0]},{launch.size[1]}",
        # Whatever a page names, also by address: there is no proxy of this name.
        "--proxy-server=http://nothing.invalid:9",
        f"--proxy-bypass-list=<-loopback>;{launch.origin}",
        "about:blank",
    ]


@contextlib.contextmanager
def running_browser(launch: Launch, deadline: float) -> Iterator[DevTools]:
    """Run a browser with nothing of this process's environment; nothing of it is left afterwards.

    `deadline` is monotonic; ending it may take `END_S` more. Raises BrowserError when it cannot be started.
    """
    before = read_children(os.getpid())
    process = _start(launch)
    try:
        if process.stdin is None or process.stdout is None:
            raise BrowserError("the browser has no pipes")
        output = launch.profile / _OUTPUT
        yield DevTools(
            process.stdout.fileno(), process.stdin.fileno(), deadline, lambda: _explain(process, output)
        )
    finally:
        _end(process, {*before, process.pid}, launch.profile)


def _start(launch: Launch) -> subprocess.Popen[bytes]:
    launch.profile.mkdir(mode=0o700)
    place = str(launch.profile)
    environment = {
        "HOME": place,
        "TMPDIR": place,
        "PATH": DEFAULT_SEARCH,
        "LANG": "C.UTF-8",
        # There is no bus for it, and it is not to start one.
        "DBUS_SESSION_BUS_ADDRESS": "unix:path=/dev/null",
    }
    try:
        with (launch.profile / _OUTPUT).open("wb") as output:
            return subprocess.Popen(
                ["/bin/sh", "-c", _PIPES, "sh", *build_words(launch)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                bufsize=0,
                cwd=launch.profile,
                env=environment,
                start_new_session=True,
            )
    except OSError as error:
        raise BrowserError(f"the browser could not be started: {error.strerror}") from error


def _explain(process: subprocess.Popen[bytes], output: Path) -> str:
    """Say how a browser ended, and what it printed last."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_CLOSE_S)
    text = ""
    with contextlib.suppress(OSError):
        content = output.read_bytes()[-_TAIL_BYTES:].decode("utf-8", "replace")
        lines = [line for line in content.splitlines() if line.strip() and "dbus" not in line]
        text = "".join(one if one.isprintable() else "?" for one in lines[-1])[:300] if lines else ""
    status = process.poll()
    return f"the browser ended with status {status}{f': {text}' if text else ''}"


def _end(process: subprocess.Popen[bytes], before: Collection[int], profile: Path) -> None:
    """End a browser, its group, and what of it has left that; collect what was left to this process.

    It ends by itself when its pipes are closed, which loses the fewest of its processes.
    """
    deadline = time.monotonic() + END_S
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_CLOSE_S)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(max(0.0, deadline - time.monotonic()))
    while _end_strays(profile) and wait_until(deadline, 0.02):
        pass
    _collect(before)


def _end_strays(profile: Path) -> bool:
    """Kill what was given a browser's profile; tell whether there was any.

    A browser's helpers leave its group, and lose their parents.
    """
    strays = [process for process in psutil.process_iter() if concerns(process, str(profile))]
    for process in strays:
        with contextlib.suppress(psutil.Error):
            process.kill()
    return bool(strays)


def _collect(before: Collection[int]) -> None:
    """Collect the dead that were left to this process meanwhile: a browser's are nobody else's."""
    for pid in set(read_children(os.getpid())).difference(before):
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
