"""The programs that a launch becomes or starts: whether they are there, fit, and can be seen in a domain."""

import errno
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from runner_e2e.errors import InputError
from runner_e2e.isolation.base import BaseHidden
from runner_e2e.isolation.variables import RUNNER_BINARY

_SERVER = "node_modules/@paperclipai/server/dist/vendor"
# Where native runs look for OpenCode, and the package's own runnerd with its proxy.
_IN_TARGET = (
    "node_modules/opencode-ai/bin/opencode.exe",
    f"{_SERVER}/node_modules/opencode-ai/bin/opencode.exe",
    f"{_SERVER}/paperclip-runner",
)
_PACK_PREFIX = "PAPERCLIP_ACPX_"
_PACK = "PAPERCLIP_RUNNER_REMOTE_PROVIDER_PACK_PATH"

_MAX_LINKS = 40  # as many as Linux follows
_HEAD_BYTES = 256
# Class (64 bits), byte order (little) and e_machine of elf(5).
_MACHINES = {"x86_64": (2, 1, 62), "aarch64": (2, 1, 183)}
_BUILD = (
    f"Build it before the cell starts, or set {RUNNER_BINARY} to one for this machine and pass it to the cell"
)


def find_programs(target: Path, environ: Mapping[str, str], runner: Path | None) -> dict[str, Path]:
    """Return the programs that a launch needs, as far as they exist, by what a person can change.

    `runner` is the runnerd behind the wrapper. Interpreters of scripts are among them, and node, which
    runs the proxy and the target's harness.
    """
    search = environ.get("PATH", "")
    found: dict[str, Path] = {}
    if runner is not None:
        found[RUNNER_BINARY] = runner
    for name in _IN_TARGET:
        if os.access(target / name, os.F_OK):
            found[f"{name} of the target"] = target / name
    for name, value in sorted(environ.items()):
        if (name.startswith(_PACK_PREFIX) or name == _PACK) and value.startswith("/"):
            found[name] = Path(value)
    for label, path in list(found.items()):
        for interpreter in _find_interpreters(path, search):
            found[f"the interpreter of {label}"] = interpreter
    if node := shutil.which("node", path=search):
        found["node in PATH"] = target / node
    return found


def check_programs(programs: Mapping[str, Path], hidden: BaseHidden) -> None:
    """Refuse a program that lies beneath a hidden path, at any step of the symbolic links to it.

    In a domain it could not be started, or its files not be read, long after the first spending.
    """
    tops = {Path(path) for path in (*hidden.required, *hidden.optional)}
    tops |= {Path(os.path.realpath(path)) for path in tops}
    for label, path in programs.items():
        try:
            steps = list(list_steps(path))
        except OSError as error:
            raise InputError(
                f"The way to what every launch needs cannot be followed ({label}): {error.strerror}",
                f"Install it elsewhere and change {label}",
            ) from error
        for step in steps:
            top = next((place for place in (step, *step.parents) if place in tops), None)
            if top is not None:
                raise InputError(
                    f"What every launch needs lies where nothing can be seen: {label} leads to {step}, "
                    f"and {top} is hidden",
                    f"Install it elsewhere and change {label}, or take the place out of the input hide",
                )


def list_steps(path: Path) -> Iterator[Path]:
    """Yield each symbolic link on the way to an absolute path, and what the path really is."""
    current, rest, links = Path("/"), list(PurePosixPath(path).parts[1:]), 0
    while rest:
        part = rest.pop(0)
        place = current.parent if part == ".." else current / part
        if not place.is_symlink():
            current = place
            continue
        links += 1
        if links > _MAX_LINKS:
            raise InputError("The symbolic links to a program lead in a circle", "Install it again")
        yield place
        aim = PurePosixPath(place.readlink())
        if aim.is_absolute():
            current = Path("/")
        rest = [*(part for part in aim.parts if part != "/"), *rest]
    yield current


def check_runner(runner: Path | None, machine: str) -> None:
    """Refuse a native local cell without a runnerd that this machine (`uname -m`) can execute."""
    if runner is None:
        raise InputError("The cell is native, and there is no runnerd for it", _BUILD)
    if not runner.is_absolute():
        raise InputError(
            f"The runnerd is named by a relative path: {runner}", f"Give {RUNNER_BINARY} as an absolute path"
        )
    try:
        mode = runner.stat().st_mode
        if not stat.S_ISREG(mode) or not mode & 0o111 or not os.access(runner, os.X_OK):
            raise InputError(f"The runnerd is no file that can be executed: {runner}", _BUILD)
        head = _read_head(runner)
    except OSError as error:
        missing = error.errno in (errno.ENOENT, errno.ENOTDIR)
        reason = "does not exist" if missing else f"cannot be read ({error.strerror})"
        raise InputError(f"The runnerd {reason}: {runner}", _BUILD) from error
    if problem := judge_program(head, machine):
        raise InputError(f"The runnerd {problem}: {runner}", _BUILD)


def judge_program(head: bytes, machine: str) -> str | None:
    """Return what keeps a file with these first bytes from being executed here, None when nothing does."""
    if head.startswith(b"#!"):
        return None
    if not head.startswith(b"\x7fELF") or len(head) < 20:
        return "is neither a program nor a script"
    order = "little" if head[5] == 1 else "big"
    found = (head[4], head[5], int.from_bytes(head[18:20], order))  # type: ignore[arg-type]  # one of the two
    return None if found == _MACHINES.get(machine) else f"is a program for another machine than {machine}"


def _read_head(path: Path) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return os.read(descriptor, _HEAD_BYTES)
    finally:
        os.close(descriptor)


def _find_interpreters(path: Path, search: str) -> Iterator[Path]:
    """Yield what a script's first line names, and for env(1) what that looks up."""
    try:
        head = _read_head(path) if path.is_file() else b""
    except OSError:
        return  # whether it can be read is somebody else's question
    words = os.fsdecode(head[2:].partition(b"\n")[0]).split() if head.startswith(b"#!") else []
    if not words or not words[0].startswith("/"):
        return
    if PurePosixPath(words[0]).name == "env":
        named = next((word for word in words[1:] if not word.startswith("-") and "=" not in word), None)
        if named and (found := shutil.which(named, path=search)):
            yield Path(found).absolute()
    else:
        yield Path(words[0])
