"""Writing a staged `server.log` of any size: each output is redacted once, measured, and put behind its head.

Outputs may come from a hostile target: what is no regular file is not opened, and the writing is bounded.
"""

import hashlib
import io
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from runner_e2e.errors import SandboxUnprovenError
from runner_e2e.evidence.log_records import (
    CLAIM,
    LAUNCH,
    OUTPUT,
    OUTPUT_SCHEMA,
    PROBE,
    REFUSAL,
    format_record,
)
from runner_e2e.evidence.redaction import Redactor
from runner_e2e.evidence.target_probe import Record
from runner_e2e.sandbox.kernel import O_PATH

LONGEST_OUTPUT = 4 << 30  # bytes of one output that are read
CUT_NOTE = b"\n[runner-e2e: what follows of this output was left out, as it is too long]\n"

_MARKED = b"runner-e2e[claimed] sandbox-"
_BLOCK = 256 << 10
_LOOK = O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Boot:
    """One server start: its probe, the journal lines of its launches, and what the server wrote.

    An output that is None, or a path at which nothing stands, is empty. A number is a descriptor that
    stands for a file (`O_PATH` will do), and stays the caller's.
    """

    number: int
    probe: Record | None
    journal: Sequence[Record]
    output: bytes | Path | int | None


def write_log(
    target: Path,
    boots: Iterable[Boot],
    redactor: Redactor,
    *,
    scratch: Path | None = None,
    longest: int = LONGEST_OUTPUT,
) -> None:
    """Write the staged log of an attempt at `target`, whole or not at all; memory does not grow with it.

    `scratch` is a directory for redacted copies, which have no name in it; without one they lie beside
    their source. An output is read up to `longest` bytes. Raises SandboxUnprovenError for an output that
    is no regular file, and OSError.
    """
    with tempfile.NamedTemporaryFile(dir=target.parent, prefix="new-", suffix=".log", delete=False) as file:
        temporary = Path(file.name)
        try:
            write_boots(file, boots, redactor, scratch=scratch, longest=longest)
            file.flush()
            os.fsync(file.fileno())
            temporary.chmod(0o644)
            temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def write_boots(
    log: IO[bytes],
    boots: Iterable[Boot],
    redactor: Redactor,
    *,
    scratch: Path | None = None,
    longest: int = LONGEST_OUTPUT,
) -> None:
    """Write the staged log of an attempt to an open file; see `write_log`."""
    for boot in boots:
        _write_boot(log, boot, redactor, scratch, longest)


def mark_claims(blocks: Iterable[bytes]) -> Iterator[tuple[bytes, int]]:
    """Yield a text with its claims to be ours marked, and how many there were in each piece."""
    held = b""
    for block in blocks:
        # What is held is too short for a claim, and the end of a marked one begins none.
        text = held + block
        claims = text.count(CLAIM)
        text = text.replace(CLAIM, _MARKED) if claims else text
        cut = max(0, len(text) - len(CLAIM) + 1)
        held = text[cut:]
        yield text[:cut], claims
    yield held, 0


def redact_blocks(source: IO[bytes], redactor: Redactor, longest: int) -> Iterator[bytes]:
    """Yield what a source holds without its secrets; behind `longest` bytes a note instead of the rest."""
    stream = redactor.stream()
    left = longest
    while block := source.read(min(_BLOCK, left)):
        left -= len(block)
        yield stream.feed(block)
    if left or not source.read(1):
        yield stream.finish()
    else:
        # What is not decided yet goes too: a secret that was cut in two is not recognised.
        yield CUT_NOTE


@dataclass(slots=True)
class _Measured:
    """A redacted output that lies in a file: what its head has to say, and its last byte."""

    size: int
    sha256: str
    claims: int
    last: bytes


def _write_boot(log: IO[bytes], boot: Boot, redactor: Redactor, scratch: Path | None, longest: int) -> None:
    if boot.probe is not None:
        log.write(format_record(PROBE, boot.probe))
    for record in boot.journal:
        log.write(format_record(REFUSAL if "code" in record else LAUNCH, record))
    with _open_output(boot) as source, _make_copy(source, boot, scratch) as copy:
        measured = _copy_redacted(source, copy, redactor, longest)
        head: Record = {
            "schema": OUTPUT_SCHEMA,
            "boot": boot.number,
            "bytes": measured.size,
            "sha256": measured.sha256,
            "claims": measured.claims,
        }
        log.write(format_record(OUTPUT, head))
        copy.seek(0)
        shutil.copyfileobj(copy, log, _BLOCK)
    if measured.last not in (b"", b"\n"):
        log.write(b"\n")


def _copy_redacted(source: IO[bytes], copy: IO[bytes], redactor: Redactor, longest: int) -> _Measured:
    digest = hashlib.sha256()
    measured = _Measured(0, "", 0, b"")
    for block, claims in mark_claims(redact_blocks(source, redactor, longest)):
        copy.write(block)
        digest.update(block)
        measured.size += len(block)
        measured.claims += claims
        measured.last = block[-1:] or measured.last
    measured.sha256 = digest.hexdigest()
    return measured


def _make_copy(source: IO[bytes], boot: Boot, scratch: Path | None) -> IO[bytes]:
    """Return a file without a name, or memory for an output that is in memory."""
    if isinstance(source, io.BytesIO):
        return io.BytesIO()
    beside = boot.output.parent if isinstance(boot.output, Path) else None
    return tempfile.TemporaryFile(dir=beside if scratch is None else scratch)


@contextmanager
def _open_output(boot: Boot) -> Iterator[IO[bytes]]:
    output = boot.output
    if output is None or isinstance(output, bytes):
        yield io.BytesIO(output or b"")
        return
    try:
        source = _reopen(output) if isinstance(output, int) else _open_regular(output)
    except (FileNotFoundError, NotADirectoryError):
        source = io.BytesIO()
    except OSError as error:
        raise _refuse(boot, f"cannot be read: {error.strerror}") from error
    if source is None:
        raise _refuse(boot, "is no regular file, so it is not read")
    with source:
        yield source


def _open_regular(path: Path) -> IO[bytes] | None:
    """Open what stands at a path without following a link there; None for anything but a regular file."""
    looked = os.open(path, _LOOK)
    try:
        return _reopen(looked)
    finally:
        os.close(looked)


def _reopen(looked: int) -> IO[bytes] | None:
    """Open the file that a descriptor stands for, whatever its name stands for meanwhile."""
    if not stat.S_ISREG(os.fstat(looked).st_mode):
        return None
    return os.fdopen(os.open(f"/proc/self/fd/{looked}", _READ), "rb")


def _refuse(boot: Boot, problem: str) -> SandboxUnprovenError:
    return SandboxUnprovenError(
        f"The server's output of start {boot.number} {problem}",
        "Find out what in the target changed it or put something else in its place",
    )
