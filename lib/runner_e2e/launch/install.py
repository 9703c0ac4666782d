"""Put the wrapper and its configuration into an attempt; runs in the harness, not in a launch."""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from runner_e2e.errors import UnsupportedHostError
from runner_e2e.launch.configuration import CLOSE_PORTS, FILE_NAME, REPLACEMENTS, SCHEMA

WRAPPER_NAME = "paperclip-runnerd"
JOURNAL_NAME = "launches.ndjson"
# Every attempt's root has this prefix, so that a launch can be kept out of all the others.
ROOT_PREFIX = "re-"

_SYSTEM_PYTHON = Path("/usr/bin/python3")
_CAN_LAUNCH = "import sys, ctypes, zlib, fcntl; sys.exit(sys.version_info < (3, 11))"


def find_interpreter(works: Callable[[Path], bool] | None = None) -> Path:
    """Return the interpreter of the launcher: the system's, else the one that runs this.

    A version manager's interpreter may lie in a home that the agent's user cannot enter, so the
    system's comes first wherever it is new enough. One whose path holds a blank cannot stand in a
    script's first line.
    """
    own = Path(getattr(sys, "_base_executable", "") or sys.executable).resolve()
    for candidate in (_SYSTEM_PYTHON, own):
        if not any(char.isspace() for char in str(candidate)) and (works or _works)(candidate):
            return candidate
    raise UnsupportedHostError(
        "No Python 3.11 or newer with ctypes can run the sandbox launcher",
        "Install python3 (3.11 or newer) from the system's packages",
    )


def install_wrapper(root: Path, project: Path, interpreter: Path | None = None) -> Path:
    """Copy runnerd's wrapper to `<root>/bin/`, see `install_program`; return its path."""
    return install_program(root, project, "sandboxed_runnerd.py", WRAPPER_NAME, interpreter)


def install_program(
    root: Path, project: Path, entrypoint: str, name: str, interpreter: Path | None = None
) -> Path:
    """Copy an entrypoint to `<root>/bin/`, unchanged where the system's Python serves; return its path.

    With another interpreter only the first line differs.
    """
    source = (project / "entrypoints" / entrypoint).read_bytes()
    interpreter = interpreter or find_interpreter()
    if interpreter != _SYSTEM_PYTHON:
        source = b"#!" + os.fsencode(interpreter) + b" -ISXutf8\n" + source.partition(b"\n")[2]
    for directory in ("bin", "private"):
        (root / directory).mkdir(mode=0o700, parents=True, exist_ok=True)
    wrapper = root / "bin" / name
    wrapper.write_bytes(source)
    wrapper.chmod(0o755)
    (root / "private" / "library").write_bytes(os.fsencode(project / "lib") + b"\n")
    return wrapper


def write_configuration(  # noqa: PLR0913 - the fields of one file, keyword only
    root: Path,
    *,
    runner: Path,
    boot: int,
    instance_parents: Sequence[Path],
    hide: Sequence[Path],
    hide_optional: Sequence[Path],
    minimum_abi: int,
    levels: Mapping[str, str],
    writable: Sequence[Path] = (),
    keep_file_capabilities: bool = False,
    replacements: Mapping[str, Path] | None = None,
    close_ports: Sequence[int] = (),
) -> Path:
    """Write the wrapper's configuration for one server start, atomically; return the journal's path.

    An instance parent is canonical. Where the instance comes later, in a temporary root whose name the
    target chooses, the segment of that name is `*`. `replacements` are programs that runnerd starts
    instead of those that the server names, by its option; each is taken as it is at this moment. Launches
    reach none of the TCP ports in `close_ports`, nor that of the instance's own database.
    """
    private = root / "private"
    journal = private / JOURNAL_NAME
    content: dict[str, object] = {
        "schema": SCHEMA,
        "runner": str(runner),
        "journal": str(journal),
        "boot": boot,
        "instanceParents": [str(path) for path in instance_parents],
        "scratchRoot": str(root / "s"),
        "hide": [str(path) for path in hide],
        "hideOptional": [str(path) for path in hide_optional],
        "writable": [str(path) for path in writable],
        "withholdPrefix": ROOT_PREFIX,
        "minimumAbi": minimum_abi,
        "levels": dict(levels),
        "keepFileCapabilities": keep_file_capabilities,
    }
    if close_ports:
        content[CLOSE_PORTS] = list(close_ports)
    if replacements:
        content[REPLACEMENTS] = {
            option: {"path": str(path), "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
            for option, path in replacements.items()
        }
    write_document(private / FILE_NAME, content)
    return journal


def write_document(path: Path, content: Mapping[str, object]) -> None:
    """Write a configuration, atomically."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="ascii") as file:
        json.dump(content, file)
    Path(file.name).replace(path)


def _works(interpreter: Path) -> bool:
    try:
        result = subprocess.run(
            [interpreter, "-I", "-S", "-c", _CAN_LAUNCH],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=30,
            check=False,
            env={"PATH": os.defpath},
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return result.returncode == 0
