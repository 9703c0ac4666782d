"""Measure summarising and staging a `server.log` against `grep -F` of three strings, in one interleaved run.

    .venv/bin/python benchmarks/logs.py [--runs N] [--gib N] [--directory DIR] [--json]

The last row is the writing of the staged log from a server's output, with a cell's secrets to redact.

Each figure is user plus system time, and elapsed time, of a whole process, interpreter start included;
ratios compare with grep on the same file. The files are read once before, so that they come from the
cache where it is large enough. Nothing here is a test.
"""

import argparse
import hashlib
import json
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from runner_e2e.evidence.log_writer import Boot
from runner_e2e.evidence.log_writer import write_log as write_staged
from runner_e2e.evidence.redaction import Redactor

PROJECT = Path(__file__).resolve().parents[1]
ENTRYPOINT = PROJECT / "entrypoints" / "summarize_probe.py"
SECRETS = tuple(hashlib.sha256(b"%d" % number).hexdigest() for number in range(8))
SEARCHED = ("runner-e2e sandbox-probe", "runner-e2e sandbox-launch", "run:otherDurableSession")
MIXED = 16 << 20  # bytes of text before it repeats
PROBE: dict[str, object] = {
    "schema": "runner-e2e.sandbox-probe/v1",
    "boot": 1,
    "checks": [{"id": "run:secrets", "expected": "denied", "observed": "denied", "control": "allowed"}],
    "failures": [],
    "abi": 7,
}
TARGET = b'{"level":30,"msg":"sandbox probe","checks":{"run:secrets":"denied"},"failures":[]}\n'
LAUNCH = b'{"level":30,"msg":"launching runnerd","run":"1"}\n'
WORDS = ("request", "completed", "issue", "agent", "heartbeat", "run", "company", "workspace", "runner")


@dataclass(slots=True)
class Case:
    """One kind of process, with its process and elapsed times in seconds and its peak memory in bytes."""

    name: str
    command: list[str]
    status: int
    times: list[float] = field(default_factory=list)
    elapsed: list[float] = field(default_factory=list)
    peak: int = 0


def server_text(seed: int) -> bytes:
    """Return what a server may write: JSON lines, and now and then a long one or plain text."""
    source = random.Random(seed)
    lines: list[str] = []
    size = 0
    while size < MIXED:
        message = " ".join(source.choices(WORDS, k=source.randint(3, 12)))
        identity = source.randbytes(8).hex()
        line = f'{{"level":30,"time":{source.randrange(10**12)},"reqId":"{identity}","msg":"{message}"}}\n'
        if source.random() < 0.02:
            line = f"    at {message} (/srv/{identity}.js:{source.randint(1, 999)}:7)\n"
        lines.append(line)
        size += len(line)
    return "".join(lines).encode("ascii")


def write_log(path: Path, size: int, start: bytes, *, staged: bool) -> None:
    """Write a log of `size` bytes; a staged one with the head that its text needs."""
    text = server_text(1)

    def blocks() -> Iterator[bytes]:
        yield start
        for _ in range(size // len(text)):
            yield text

    with path.open("wb") as file:
        if staged:
            digest, length = hashlib.sha256(), 0
            for block in blocks():
                digest.update(block)
                length += len(block)
            head = {
                "schema": "runner-e2e.server-output/v1",
                "boot": 1,
                "bytes": length,
                "sha256": digest.hexdigest(),
                "claims": 0,
            }
            file.write(b"runner-e2e sandbox-probe " + json.dumps(PROBE).encode() + b"\n")
            file.write(b"runner-e2e server-output " + json.dumps(head).encode() + b"\n")
        file.writelines(blocks())


def write_log_apart(path: Path, size: int, start: bytes, *, staged: bool) -> None:
    """Write a log in another process: what this one uses would count as its children's peak memory."""
    pid = os.fork()
    if pid == 0:
        write_log(path, size, start, staged=staged)
        os._exit(0)
    if os.waitpid(pid, 0)[1] != 0:
        raise SystemExit(f"{path} could not be written")


def cases(place: Path, size: int) -> list[Case]:
    """Write the logs; return for each grep and the summary, with the exit status that each must have."""
    grep = shutil.which("grep")
    if grep is None:
        raise SystemExit("grep is needed")
    found = []
    for name, start, staged, status in (
        ("no probe", b"", False, 3),
        ("target's probe", TARGET + LAUNCH, False, 0),
        ("staged by us", b"", True, 0),
    ):
        path = place / f"{name.replace(' ', '-')}.log"
        write_log_apart(path, size, start, staged=staged)
        patterns = [word for text in SEARCHED for word in ("-e", text)]
        found.append(Case(f"{name}: grep -F", [grep, "-F", "-c", *patterns, str(path)], 0 if staged else 1))
        found.append(Case(f"{name}: summary", [sys.executable, "-I", str(ENTRYPOINT), str(path)], status))
    source, target = place / "no-probe.log", place / "server.log"
    found.append(Case("no probe: grep -F", found[0].command, 1))
    staging = [sys.executable, "-I", __file__, "--stage", str(source), str(target)]
    found.append(Case("no probe: staging", staging, 0))
    return found


def stage(source: Path, target: Path) -> int:
    """Write the staged log of a server's output: this is what the process of the last row does."""
    write_staged(target, [Boot(1, PROBE, [], source)], Redactor(SECRETS))
    return 0


def run_once(case: Case, output: int) -> None:
    """Run the process once; it has to end as expected, or the figure would mean nothing."""
    # Not to /dev/null, for which grep stops at the first line that it finds.
    actions = [(os.POSIX_SPAWN_DUP2, output, 1)]
    started = time.perf_counter()
    pid = os.posix_spawn(case.command[0], case.command, {"PATH": os.environ["PATH"]}, file_actions=actions)
    _, status, usage = os.wait4(pid, 0)
    case.elapsed.append(time.perf_counter() - started)
    code = os.waitstatus_to_exitcode(status)
    if code != case.status:
        raise SystemExit(f"{case.name} ended with status {code}")
    case.times.append(usage.ru_utime + usage.ru_stime)
    case.peak = max(case.peak, usage.ru_maxrss * 1024)


def describe(found: Sequence[Case]) -> list[dict[str, object]]:
    """Return the figures; ratios are to grep on the same log."""
    rows = []
    for base, case in zip(found[::2], found[1::2], strict=True):
        rows += [
            {
                "case": one.name,
                "seconds": round(statistics.median(one.times), 3),
                "ratio": round(statistics.median(one.times) / statistics.median(base.times), 2),
                "elapsedSeconds": round(statistics.median(one.elapsed), 3),
                "elapsedRatio": round(statistics.median(one.elapsed) / statistics.median(base.elapsed), 2),
                "peakMiB": round(one.peak / 2**20),
            }
            for one in (base, case)
        ]
    return rows


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument(
        "--gib", type=float, default=1.0, help="size of each of three logs; staging needs two more"
    )
    parser.add_argument("--directory", help="where the logs go; they are removed afterwards")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--stage", nargs=2, type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.stage:
        return stage(*options.stage)
    with tempfile.TemporaryDirectory(dir=options.directory) as directory, tempfile.TemporaryFile() as file:
        output = file.fileno()
        found = cases(Path(directory), int(options.gib * 2**30))
        for case in found:
            run_once(case, output)  # compiles bytecode and warms caches
            case.times.clear()
            case.elapsed.clear()
        for _ in range(options.runs):
            for case in found:
                run_once(case, output)
    rows = describe(found)
    if options.json:
        print(json.dumps(rows, indent=2))
        return 0
    columns = ("process s", "ratio", "elapsed s", "ratio", "peak MiB")
    print(f"{'case':<26}" + "".join(f"{column:>11}" for column in columns))
    for row in rows:
        name, *figures = row.values()
        print(f"{name:<26}" + "".join(f"{figure:>11}" for figure in figures))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
