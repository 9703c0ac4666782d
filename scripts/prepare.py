"""Makes the environment the project runs in, from the locks, and prints its path.

Standard library only, because it runs before anything is installed. It writes the environment's
directory and the bytecode of `lib` and `entrypoints`, nothing else. Started by `scripts/prepare`.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import importlib.util
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT / "scripts"))  # -I leaves it out

from environment_rules import (
    ELSEWHERE,
    NO_ENVIRONMENT,
    NOT_DELIVERED,
    Action,
    Found,
    PrepareError,
    choose_action,
    choose_directory,
    clean_environ,
    deal_lock,
    names_own_index,
)
from tools import Tools

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

OWN_FILES = "runner-e2e."
STAMP = f"{OWN_FILES}json"
LOCK = f"{OWN_FILES}lock"
PIP_PROCESSES = 2
UV_PATIENCE_S = "20"
INSTALL_RULES = ("--require-hashes", "--no-deps", "--only-binary", ":all:")
# Compiling all packages takes as long as installing them, and a command imports a part.
NO_COMPILE = "--no-compile"
PIP_PLAIN = ("--no-user", NO_COMPILE, "--disable-pip-version-check", "--progress-bar", "off")
PIP_INSTALL = ("install", *PIP_PLAIN, *INSTALL_RULES)
SYSTEM_PYTHON = Path("/usr/bin/python3")  # the launcher starts under it


DESCRIBE = (
    "import json, sys, sysconfig;"
    "print(json.dumps(['%d.%d' % sys.version_info[:2], sysconfig.get_path('purelib')]))"
)
COMPILE = """
import compileall, os.path, py_compile, runpy, sys
mode = py_compile.PycInvalidationMode.TIMESTAMP  # so that editing a source takes effect
if sys.version_info >= (3, 11):
    done = [compileall.compile_dir(d, quiet=2, invalidation_mode=mode) for d in sys.argv[1:]]
    for linking in [d + "/runner_e2e/sandbox/linking.py" for d in sys.argv[1:]]:
        if os.path.exists(linking):
            runpy.run_path(linking, run_name="__main__")
    sys.exit(not all(done))
"""
# -I: neither PYTHONPATH nor a file in the current directory may stand in for a module.
CONSOLE_SCRIPT = """#!/bin/sh
exec {python} -I -c 'import sys
from runner_e2e.cli import main
sys.argv[0] = "runner-e2e"
sys.exit(main())' "$@"
"""


class Preparation:
    """One preparation of `venv`: the tools it may start, and the variables they get."""

    def __init__(self, venv: Path, environ: Mapping[str, str]) -> None:
        self._venv = venv
        self._python = venv / "bin" / "python"
        self._tools = Tools(PROJECT, clean_environ(environ))
        if not is_cache_writable(environ):
            self._tools.environ["UV_NO_CACHE"] = "1"
        self._stages: dict[str, float] = {}

    @property
    def built(self) -> bool:
        """Whether anything was installed."""
        return "packages" in self._stages

    def describe_stages(self) -> str:
        """Return how long each stage took, in seconds, those that took none left out."""
        return ", ".join(f"{name} {took_s:.1f} s" for name, took_s in self._stages.items())

    @contextlib.contextmanager
    def _timed(self, stage: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self._stages[stage] = self._stages.get(stage, 0.0) + time.monotonic() - began

    def ensure(self, locks: Mapping[str, str], python: str | None) -> None:
        """Bring the environment to `locks`; at most one process does so at a time."""

        def choose() -> Action:
            return choose_action(found, venv=self._venv, locks=locks, python=python)

        found = self._look()
        if choose() is not Action.REUSE:
            with self._locked():
                found = self._look()  # another process may have done it meanwhile
                if (action := choose()) is not Action.REUSE:
                    found = self._build(action, found, locks)
        self._link(Path(found.site))

    def compile(self) -> None:
        """Write the bytecode of our own sources for both interpreters that read them."""
        sources = [str(PROJECT / name) for name in ("lib", "entrypoints")]
        readers = [self._python]
        if sys.platform == "linux" and SYSTEM_PYTHON.exists():
            readers.append(SYSTEM_PYTHON)
        with self._timed("bytecode"):
            for python in {os.path.realpath(reader): reader for reader in readers}.values():
                if not self._tools.succeeds(python, "-I", "-c", COMPILE, *sources):
                    say(f"no bytecode of some sources for {python}: it compiles them at each start")

    def _look(self) -> Found:
        entries = {entry.name for entry in self._venv.iterdir()} if self._venv.exists() else set()
        if all(name.startswith(OWN_FILES) for name in entries):
            return Found(empty=True)
        stamp: object = None
        with contextlib.suppress(OSError, ValueError):
            stamp = json.loads((self._venv / STAMP).read_text(encoding="utf-8"))
        known = stamp if isinstance(stamp, dict) else None
        if "pyvenv.cfg" in entries:
            with contextlib.suppress(OSError, ValueError, subprocess.CalledProcessError):
                python, site = json.loads(self._tools.output(self._python, "-I", "-c", DESCRIBE))
                packages = frozenset(path.name for path in Path(site).glob("*.dist-info"))
                return Found(empty=False, stamp=known, python=python, site=site, packages=packages)
        return Found(empty=False, stamp=known)

    def _build(self, action: Action, found: Found, locks: Mapping[str, str]) -> Found:
        was = found.stamp or {"adopted": action is Action.EXTEND}
        stamp: dict[str, object] = {"complete": False, "adopted": was.get("adopted") is True}
        if action is Action.REBUILD:
            say(f"clearing {self._venv}, which is unfinished, broken or out of date")
            clear_directory(self._venv, keep=LOCK)
        # Until the last write says otherwise, whoever looks here finds an unfinished environment.
        self._write_stamp(stamp)
        if action is not Action.EXTEND:
            say(f"creating {self._venv}")
            with self._timed("environment"):
                self._create()
        lock = lock_file("dev" if "dev" in locks else "runtime")
        say(f"installing the packages of {lock.relative_to(PROJECT)}")
        with self._timed("packages"):
            self._install(lock, compiled="dev" in locks)
        built = self._look()
        stamp |= {"complete": True, "venv": str(self._venv), "python": built.python}
        stamp |= {"locks": dict(locks), "packages": sorted(built.packages)}
        self._write_stamp(stamp)
        return built

    def _create(self) -> None:
        command: tuple[str | Path, ...]
        if self._uv:
            options = ("--quiet", "--no-project", "--allow-existing", "--python", sys.executable)
            command = (self._uv, "venv", *options, self._venv)
        elif has_module("venv") and (has_module("ensurepip") or self._has_able_pip()):
            command = (sys.executable, "-I", "-m", "venv", "--without-pip", self._venv)
        elif virtualenv := self._find("virtualenv"):
            command = (virtualenv, "--no-download", "--python", sys.executable, self._venv)
        else:
            fail_without_venv()
        self._tools.run(*command, otherwise=NO_ENVIRONMENT)

    def _install(self, lock: Path, *, compiled: bool) -> None:
        """Install what the lock names, `compiled` where other users will import it, who cannot keep bytecode.

        uv reads all indexes at once. pip reads one after the other, which takes it longer than everything
        else: where its settings name no index of their own, it fetches uv, else it works in two halves.
        """
        if self._uv:
            self._tools.run(*self._command_uv(self._uv, lock, compiled=compiled), otherwise=NOT_DELIVERED)
            return
        with tempfile.TemporaryDirectory(prefix="runner-e2e-") as directory:
            uv = self._fetch_uv(Path(directory, "uv"))
            if uv and self._tools.succeeds(*self._command_uv(uv, lock, compiled=compiled)):
                return
            pip = (
                *self._find_pip(),
                *(name for name in PIP_INSTALL if not (compiled and name == NO_COMPILE)),
            )
            halves = [Path(directory, f"{number}.lock") for number in range(PIP_PROCESSES)]
            for half, text in zip(halves, deal_lock(lock.read_text("utf-8"), PIP_PROCESSES), strict=True):
                half.write_text(text, encoding="utf-8")
            commands = [(*pip, "--requirement", half) for half in halves if half.stat().st_size]
            self._tools.run_together(commands, NOT_DELIVERED)

    def _command_uv(self, uv: str, lock: Path, *, compiled: bool) -> tuple[str | Path, ...]:
        more = ("--compile-bytecode",) if compiled else ()
        return (uv, "pip", "install", "--python", self._python, *INSTALL_RULES, *more, "--requirement", lock)

    def _fetch_uv(self, target: Path) -> str | None:
        """Return a uv that pip put into a directory of its own, None where that would not do."""
        pip = (sys.executable, "-I", "-m", "pip")
        try:
            settings = self._tools.output(*pip, "config", "list")
        except (OSError, subprocess.CalledProcessError):
            return None
        if names_own_index(settings):
            return None
        lock = lock_file("installer")
        if not self._tools.succeeds(*pip, *PIP_INSTALL, "--target", target, "--requirement", lock):
            return None
        self._tools.environ.setdefault("UV_HTTP_TIMEOUT", UV_PATIENCE_S)
        return str(target / "bin" / "uv")

    def _find_pip(self) -> tuple[str | Path, ...]:
        """Return the pip that installs into the environment."""
        own: tuple[str | Path, ...] = (self._python, "-I", "-m", "pip")
        outer = (sys.executable, "-I", "-m", "pip", "--python", self._python)
        pip = next((pip for pip in (own, outer) if self._tools.succeeds(*pip, "--version")), None)
        if pip is None:
            if not has_module("ensurepip"):
                fail_without_venv()
            self._tools.run(self._python, "-I", "-m", "ensurepip", otherwise=NO_ENVIRONMENT)
            pip = own
        return pip

    @cached_property
    def _uv(self) -> str | None:
        return self._find("uv")

    def _find(self, tool: str) -> str | None:
        """Return the path of an optional `tool` if it works: a shim on PATH may not."""
        path = shutil.which(tool, path=self._tools.environ.get("PATH"))
        return path if path and self._tools.succeeds(path, "--version") else None

    def _has_able_pip(self) -> bool:
        """Whether the chosen Python has a pip that can install into another one (22.3)."""
        pip = (sys.executable, "-I", "-m", "pip", "--python", sys.executable)
        return self._tools.succeeds(*pip, "--version")

    def _link(self, site: Path) -> None:
        """Make the project importable, and give it its command, without building a package."""
        write_if_changed(site / "_runner_e2e_action.pth", os.fsencode(PROJECT / "lib"), 0o644)
        script = CONSOLE_SCRIPT.format(python=shlex.quote(str(self._python)))
        write_if_changed(self._venv / "bin" / "runner-e2e", os.fsencode(script), 0o755)

    def _write_stamp(self, stamp: Mapping[str, object]) -> None:
        write_if_changed(self._venv / STAMP, json.dumps(stamp, indent=1).encode(), 0o644)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        while True:
            self._venv.mkdir(parents=True, exist_ok=True)
            with (self._venv / LOCK).open("a") as lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    say(f"waiting for another preparation of {self._venv}")
                    fcntl.flock(lock, fcntl.LOCK_EX)
                if is_same_file(lock.fileno(), self._venv / LOCK):
                    self._tools.lock_fd = lock.fileno()
                    yield
                    return
            # The directory was removed while we waited: the lock no longer guards anything.


def read_locks(*, dev: bool) -> dict[str, str]:
    """Return the digest of each lock that the environment has to hold."""
    names = ("runtime", "dev") if dev else ("runtime",)
    return {name: hashlib.sha256(lock_file(name).read_bytes()).hexdigest() for name in names}


def lock_file(name: str) -> Path:
    """Return the path of the lock called `name`."""
    return PROJECT / "requirements" / f"{name}.lock"


def is_cache_writable(environ: Mapping[str, str]) -> bool:
    """Whether uv can keep its cache: it fails when it cannot, where pip does without."""
    home = environ.get("HOME", "")
    places = [environ.get("UV_CACHE_DIR"), environ.get("XDG_CACHE_HOME"), home and f"{home}/.cache"]
    path = Path(next(filter(None, places), "/nonexistent"))
    while not os.access(path, os.F_OK) and path != path.parent:
        path = path.parent
    return os.access(path, os.W_OK | os.X_OK)


def fail_without_venv() -> NoReturn:
    """Name what is missing in Debian's spelling, because Debian is what leaves it out."""
    version = short_version()
    raise PrepareError(
        f"Python {version} ({sys.executable}) cannot make a virtual environment",
        f"On Debian or Ubuntu run `apt install python3-venv` (or python{version}-venv); on any"
        " system, uv or virtualenv on PATH is enough",
    )


def short_version() -> str:
    """Return the chosen Python's version as far as environments differ by it."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def has_module(name: str) -> bool:
    """Whether this Python has `name`; Debian ships `venv` and leaves `ensurepip` out."""
    return importlib.util.find_spec(name) is not None


def is_same_file(descriptor: int, path: Path) -> bool:
    """Whether `path` still names the file that `descriptor` has open."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), path.stat())
    return False


def clear_directory(directory: Path, *, keep: str) -> None:
    """Remove everything in `directory` except the entry `keep`."""
    for entry in directory.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        elif entry.name != keep:
            entry.unlink()


def write_if_changed(path: Path, content: bytes, mode: int) -> None:
    """Give `path` this content in one step, so that no reader sees half of it."""
    with contextlib.suppress(OSError):
        if path.read_bytes() == content:
            return
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    temporary.write_bytes(content)
    temporary.chmod(mode)
    temporary.replace(path)


def say(message: str) -> None:
    """Tell a person what happens; standard output is for the path alone."""
    print(f"prepare: {message}", file=sys.stderr, flush=True)


def main(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """Prepare the environment and print its path as the last line."""
    parser = argparse.ArgumentParser(prog="scripts/prepare", description=__doc__)
    parser.add_argument("--dev", action="store_true", help="with everything the tests need")
    dev = parser.parse_args(argv).dev
    for stop in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(stop) is not signal.SIG_IGN:  # nohup
            signal.signal(stop, lambda signum, _: sys.exit(128 + signum))
    if sys.platform != "linux":
        say("this is not Linux: run-cell refuses here, unit tests work.")
    try:
        locks = read_locks(dev=dev)
        venv = choose_directory(environ, project=PROJECT, locks=locks, python=sys.version).absolute()
        preparation = Preparation(venv, environ)
        preparation.ensure(locks, short_version() if environ.get("RUNNER_E2E_PYTHON") else None)
        preparation.compile()
        if preparation.built:
            say(f"ready: {preparation.describe_stages()}")
    except PrepareError as error:
        say(str(error))
        return error.exit_code
    except OSError as error:
        say(f"{error.filename}: {error.strerror}. Make that path usable, {ELSEWHERE}.")
        return 2
    except KeyboardInterrupt:
        say("interrupted; the next run starts over.")
        return 130
    print(venv)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:], os.environ))
