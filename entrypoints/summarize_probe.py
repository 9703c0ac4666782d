"""Say what a `server.log` proves about isolation: by hand, for any log of any cell."""

import argparse
import json
import os
import stat
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, NoReturn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "lib"))

from runner_e2e.actions.entry import start
from runner_e2e.actions.surface import ActionSurface
from runner_e2e.errors import InputError, RunnerE2EError
from runner_e2e.evidence.plain_text import neutralise
from runner_e2e.evidence.server_log import ProbeStatus, Record, parse, summarize
from runner_e2e.report.markdown import probe_summary

EPILOG = """\
The probe counts when it is the action's own, or the target's before the first launch of an agent.
Files in DIR: probe-summary.json, probe-summary.md.

Exit status: 0 passed, 3 failed, absent or mismatch, 2 nothing could be read or written.
"""
FAILED = 3


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InputError(f"Wrong usage: {message}", "See --help")


def main(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """Summarize the log that the arguments name; return the exit status."""
    try:
        options = _parse(argv)
        summary = _read(options.file)
        if options.output is not None:
            _write(options.output, summary)
        _print(_format(summary, options))
    except SystemExit:
        return 0  # --help
    except RunnerE2EError as error:
        ActionSurface(environ, sys.stderr).error(str(error), "Runner E2E")
        return error.exit_code
    return 0 if summary["status"] == ProbeStatus.PASSED else FAILED


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = _Parser(
        prog="summarize_probe.py",
        description=__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("file", metavar="FILE", help="a server.log, or - for standard input")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print the whole summary as JSON")
    form.add_argument("--markdown", action="store_true", help="print it as Markdown")
    parser.add_argument("--output", metavar="DIR", type=Path, help="also write both into this directory")
    return parser.parse_args(argv)


def _read(name: str) -> Record:
    try:
        if name == "-":
            return summarize(parse(sys.stdin.buffer))
        with _open(name) as file:
            return summarize(parse(file))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "not a usable name"
        raise InputError(f"The log {name} cannot be read: {reason}", "Name a server.log") from error


def _open(name: str) -> BinaryIO:
    file = Path(name).open("rb", buffering=0)  # noqa: SIM115 - the caller closes it
    mode = os.fstat(file.fileno()).st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISFIFO(mode):
        file.close()
        raise InputError(f"The log {name} is no file", "Name a server.log, or a pipe that ends")
    return file


def _write(directory: Path, summary: Record) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        content = json.dumps(summary, indent=2) + "\n"
        (directory / "probe-summary.json").write_text(content, encoding="utf-8")
        (directory / "probe-summary.md").write_text(probe_summary(summary), encoding="utf-8")
    except (OSError, ValueError) as error:
        raise InputError(
            f"The summary cannot be written to {directory}", "Name a directory that can be written"
        ) from error


def _format(summary: Record, options: argparse.Namespace) -> str:
    if options.json:
        # Inside a quoted value the escape means the same, and is no command to the runner.
        return json.dumps(summary, indent=2).replace("##[", "##\\u005b")
    if options.markdown:
        return neutralise(probe_summary(summary)).rstrip("\n")
    return neutralise(_describe(summary))


def _describe(summary: Record) -> str:
    """Return status, reasons, each check that is no pass, and counts."""

    def rows(key: str) -> list[Record]:
        found = summary[key]
        return [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []

    reasons = summary["reasons"]
    lines = [f"probe: {summary['status']}", f"owner: {summary['owner'] or 'none'}"]
    lines += [f"reason: {reason}" for reason in (reasons if isinstance(reasons, list) else [])]
    lines += [f"failed: {row.get('id')}" for row in rows("failures")]
    lines += [f"{key}: {len(rows(key))}" for key in ("checks", "launches", "refusals")]
    return "\n".join(lines)


def _print(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    raise SystemExit(start(main, os.environ))
