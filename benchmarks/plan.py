"""Measure planning: process time and memory of `plan_matrix.py`, with ratios, in one interleaved run.

    .venv/bin/python benchmarks/plan.py [--runs N] [--large]

Each figure is user plus system time of a whole process, interpreter start included, so that it does not
depend on what else the machine does; ratios compare with the same interpreter starting and importing
pydantic alone. `--large` adds 100,000 cells. Nothing here is a test.
"""

import argparse
import json
import math
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
ENTRYPOINT = PROJECT / "entrypoints" / "plan_matrix.py"
CELLS, MANY_CELLS = 10_000, 100_000
SELECTED = 1_000  # the most tasks of the selected group; four matrices hold 1,024 cells

HEAD = """\
schema: runner-e2e.catalog/v1
groups: [wanted]
environments:
  - id: local
    label: This machine
    groups: [local]
    driver: local
    provider: local
    lifecycle: {setup: instance_managed, probe: run_context_via_api, cleanup: instance_shutdown}
    expectedExecutionTarget: {kind: local}
"""
TASK = """\
  - id: area-%(number)05d.case-%(number)05d
    label: Case number %(number)d
    groups: [%(group)s]
    flow: single_turn
    expectedRunCount: 1
    attemptTimeoutMs: {local: 300000, daytona: 600000}
    expectedTerminalState: {issue: done, run: succeeded}
%(title)s\
    prompt: Write the word {nonce} into report.md and say that you are done.
    matchers:
      - {kind: message_contains, parameters: {text: '{nonce}'}}
"""
TITLE = """\
    title: Write the report of case number %(number)d and of nothing else
"""
PROFILE = """\
  - id: profile-%(number)03d
    label: Profile number %(number)d
    generation: native
    groups: [native]
    adapterType: paperclip_runner
    provider: opencode
    model: reference/scripted-%(number)d
    modelQualification: {source: adapter_constant, qualificationId: scripted}
    supportedEnvironments: [local]
    expectedRuntimeMode: native
    expectedRuntimeMetadata: {adapterType: paperclip_runner, provider: opencode}
"""


@dataclass(slots=True)
class Case:
    """One kind of process, with its process times in seconds and its peak memory in bytes."""

    name: str
    command: list[str]
    environ: Mapping[str, str]
    times: list[float] = field(default_factory=list)
    peak: int = 0

    @property
    def median_s(self) -> float:
        """Median process time in seconds; not a number before the first run."""
        return statistics.median(self.times) if self.times else math.nan


def write_catalog(path: Path, profiles: int, tasks: int) -> None:
    """Write a catalog of one suite with `profiles` times `tasks` cells."""
    wanted = max(SELECTED // profiles, 1)
    names = [f"area-{number:05d}.case-{number:05d}" for number in range(tasks)]
    with path.open("w", encoding="utf-8") as file:
        file.write(HEAD)
        file.write("profiles:\n")
        file.writelines(PROFILE % {"number": number} for number in range(profiles))
        file.write("tasks:\n")
        file.writelines(
            TASK
            % {
                "number": number,
                "group": "wanted" if number < wanted else "breadth",
                # 100,000 cells with titles would be more than a catalog may have.
                "title": TITLE % {"number": number} if tasks <= CELLS else "",
            }
            for number in range(tasks)
        )
        file.write(
            "suites:\n  - id: everything\n    label: Everything\n    description: Every cell there is\n"
        )
        file.write(f"    environments: [local]\n    expectedMatrixSize: {profiles * tasks}\n    profiles:\n")
        file.writelines(f"      - profile-{number:03d}\n" for number in range(profiles))
        file.write("    tasks:\n")
        file.writelines(f"      - {name}\n" for name in names)


def run_once(case: Case, output: Path) -> None:
    """Run the process once; its outputs have to be there, or the figure would mean nothing."""
    output.write_bytes(b"")
    actions = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    pid = os.posix_spawn(case.command[0], case.command, dict(case.environ), file_actions=actions)
    _, status, usage = os.wait4(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    if code != 0 or ("INPUT_GROUP" in case.environ and b"matrix-sha256" not in output.read_bytes()):
        raise SystemExit(f"{case.name} ended with status {code}")
    case.times.append(usage.ru_utime + usage.ru_stime)
    case.peak = max(case.peak, usage.ru_maxrss * 1024)


@contextmanager
def cases(large: bool) -> Iterator[tuple[list[Case], Path]]:
    """Make the catalogs and the processes that read them."""
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        output, summary = place / "output", place / "summary"
        summary.touch()
        environ = {
            "PATH": os.environ["PATH"],
            "GITHUB_ACTIONS": "true",
            "GITHUB_OUTPUT": str(output),
            "GITHUB_STEP_SUMMARY": os.devnull,
        }
        plain = {"PATH": os.environ["PATH"]}
        start = f"import sys; sys.path.insert(0, {str(PROJECT / 'entrypoints')!r}); "
        found = [
            Case("python and pydantic", [sys.executable, "-I", "-c", "import pydantic"], plain),
            Case("import plan_matrix", [sys.executable, "-I", "-c", f"{start}import plan_matrix"], plain),
        ]
        for name, profiles, tasks in shapes(large):
            path = place / f"{name}.yaml"
            write_catalog(path, profiles, tasks)
            title = f"{name}, {path.stat().st_size / 1e6:.1f} MB"
            inputs = {**environ, "INPUT_CATALOG": str(path), "INPUT_GROUP": "wanted"}
            found.append(Case(title, [sys.executable, "-I", str(ENTRYPOINT)], inputs))
        yield found, output


def shapes(large: bool) -> list[tuple[str, int, int]]:
    """Return name, profiles and tasks of each catalog."""
    sizes = [CELLS, MANY_CELLS] if large else [CELLS]
    return [
        (f"{size} cells, {how}", profiles, size // profiles)
        for size in sizes
        for how, profiles in (("compact", 100), ("spelled out", 1))
    ]


def describe(found: Sequence[Case]) -> list[dict[str, object]]:
    """Return the figures; ratios are to the first case."""
    base = found[0].median_s
    return [
        {
            "case": case.name,
            "seconds": round(case.median_s, 3),
            "ratio": round(case.median_s / base, 2),
            "peakMiB": round(case.peak / 2**20),
        }
        for case in found
    ]


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--large", action="store_true", help="also 100,000 cells")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with cases(options.large) as (found, output):
        for case in found:
            run_once(case, output)  # compiles bytecode and warms caches
            case.times.clear()
        for _ in range(options.runs):
            for case in found:
                run_once(case, output)
        rows = describe(found)
    if options.json:
        print(json.dumps(rows, indent=2))
        return 0
    print(f"{'case':<44} {'process s':>10} {'ratio':>7} {'peak MiB':>9}")
    for row in rows:
        print(f"{row['case']:<44} {row['seconds']:>10} {row['ratio']:>7} {row['peakMiB']:>9}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
