"""Run one cell from its first record to its staged evidence, at most two attempts."""

import contextlib
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from runner_e2e.cell.attempt import Attempt, AttemptEnd, Harness, Steps, Watch, run_attempt
from runner_e2e.cell.children import read_descendants
from runner_e2e.cell.command_request import CommandRequest
from runner_e2e.cell.full_disk import write_with_room
from runner_e2e.cell.judgement import agents_record
from runner_e2e.cell.limits import Spending, build_summary, subtract_spent
from runner_e2e.cell.modes import KeptModes
from runner_e2e.cell.process_marks import ProcessMark, read_boot_id, read_mark
from runner_e2e.cell.processes import Family
from runner_e2e.cell.record import FILE_NAME, CellRecord, write_json
from runner_e2e.cell.reference_attempt import ReferenceHarness
from runner_e2e.cell.request import CellOutcome, CellRequest, Reporter, SilentReporter
from runner_e2e.cell.retry import Retry, decide_retry
from runner_e2e.cell.root import AttemptRoot
from runner_e2e.cell.running import build_running
from runner_e2e.cell.stopping import Stopper
from runner_e2e.cell.verdict import describe_result
from runner_e2e.errors import CancelledError, HarnessFailureError, InputError, UnsupportedHostError
from runner_e2e.evidence import manifest
from runner_e2e.evidence.redaction import Redactor
from runner_e2e.sandbox import domain
from runner_e2e.sandbox.refusal import Refusal

if TYPE_CHECKING:
    from runner_e2e.cell.paperclip_request import PaperclipRequest

OpenCommand = Callable[[Attempt, CommandRequest, Spending], Harness]
OpenPaperclip = Callable[[Attempt, "PaperclipRequest"], Harness]


def run_cell(
    request: CellRequest,
    reporter: Reporter | None = None,
    open_command: OpenCommand | None = None,
    open_paperclip: OpenPaperclip | None = None,
) -> CellOutcome:
    """Run the cell and stage its evidence; every end but a refused start leaves a final `cell.json`.

    `open_command` makes the harness of a target's cell, `CommandHarness`, and `open_paperclip` that of one on
    an installed Paperclip, `PaperclipHarness`: what these import takes longer than the reference needs
    altogether. Raises InputError when nothing was started: the evidence directory
    is taken or cannot be made.
    """
    if request.command is not None and open_command is None:
        raise ValueError("a target's cell needs its harness")
    if request.built_in is not None and open_paperclip is None:
        raise ValueError("a cell on an installed Paperclip needs its harness")
    cell = _Cell(
        request, CellRecord.start(request), reporter or SilentReporter(), open_command, open_paperclip
    )
    with cell.stopper.guarding():
        return cell.run()


class _Cell:
    def __init__(
        self,
        request: CellRequest,
        record: CellRecord,
        reporter: Reporter,
        open_command: OpenCommand | None,
        open_paperclip: OpenPaperclip | None,
    ) -> None:
        self.stopper = Stopper(self._note_stop)
        self._request = request
        self._record = record
        self._reporter = reporter
        self._open_command = open_command
        self._open_paperclip = open_paperclip
        self._family = Family()
        self._spent: list[Mapping[str, object]] = []
        self._rows: list[dict[str, object]] = []
        self._secrets: set[str] = set()
        self._root: Path | None = None
        self._spending = request.spending
        self._boot_id = read_boot_id()
        self._deadline = time.monotonic() + request.total_s

    def run(self) -> CellOutcome:
        """Run attempts until one counts."""
        self._note_running([])
        number = 1
        end = self._attempt(number)
        while (retry := self._decide_retry(number, end)).again:
            self._note_attempt(number, end, retry)
            self._record.set_aside(f"attempt-{number}")
            number += 1
            end = self._attempt(number)
        self._note_attempt(number, end, retry)
        return self._finish(end)

    def _attempt(self, number: int) -> AttemptEnd:
        # What an earlier attempt had to keep is gone with it.
        watch = Watch(KeptModes(), self._family)
        evidence = self._record.directory.resolve()
        watch.modes.keep([evidence, *evidence.parents])

        def announce(root: Path) -> None:
            self._root = root
            self._note_running([])

        def open_harness(root: AttemptRoot) -> Harness:
            command = self._request.command
            attempt = Attempt(
                request=self._request,
                number=number,
                root=root,
                watch=watch,
                reporter=self._reporter,
                deadline=min(self._deadline, time.monotonic() + self._request.deadline_s),
                note_running=self._note_running,
                note_database=self._note_database,
            )
            if self._request.built_in is not None and self._open_paperclip is not None:
                built_in = self._request.built_in
                if self._spending is not None:
                    built_in = built_in.with_spending(self._spending)
                return self._open_paperclip(attempt, built_in)
            if command is None or self._spending is None or self._open_command is None:
                return ReferenceHarness(attempt)
            return self._open_command(attempt, command, self._spending)

        def prepare() -> None:
            if self._request.refusal is not None:
                raise self._request.refusal
            require_host(self._request)
            self._family.adopt_orphans()

        is_reference = self._request.harness == "reference"
        nobody = agents_record(self._request.flow, []) if is_reference else {}
        steps = Steps(prepare, announce, open_harness, nobody)
        end = run_attempt(steps, watch, self.stopper, self._record)
        self._secrets.update(end.secrets)
        self._root = None
        return end

    def _decide_retry(self, number: int, end: AttemptEnd) -> Retry:
        """Decide; a further attempt may spend what this one has left, and meets nothing that it left."""
        if self._spending is not None and end.spent is not None:
            self._spent.append(end.spent)
            self._spending = subtract_spent(self._spending, end.spent)
            if self._spending is None:
                return Retry(again=False, reason="Nothing is left to spend.")
        if end.failure is not None and end.fields.get("leftovers"):
            return Retry(again=False, reason="Processes of the attempt were left running.")
        policy = self._request.retries
        retry = decide_retry(
            number,
            None if end.failure is None else end.failure.failure_class,
            candidate=policy.candidate,
            single_attempt=policy.single_attempt,
            infrastructure_retries=self._request.infrastructure_retries,
            known=policy.known,
            needed_s=self._request.needed_s,
            left_s=self._deadline - time.monotonic(),
        )
        if retry.again and self._request.refusal is not None:
            return Retry(again=False, reason="Nothing of the cell was run.")
        return retry

    def _note_attempt(self, number: int, end: AttemptEnd, retry: Retry) -> None:
        status, failure_class, _, message = describe_result(end.failure, end.success)
        row: dict[str, object] = {
            "number": number,
            "startedAt": end.started,
            "finishedAt": end.finished,
            "status": status.value,
            "failureClass": failure_class.value if failure_class else None,
            "message": self._clean(message),
            "retry": retry.reason,
        }
        if isinstance(end.failure, HarnessFailureError) and end.failure.rule:
            row |= {"rule": end.failure.rule, "line": self._clean(end.failure.line)}
        if retry.again:
            row["found"] = dict(end.fields)  # the cell's own fields will be those of the next attempt
        self._rows.append(row)
        self._record.update(attempts=self._rows)
        if retry.again:
            self._reporter.phase(f"Attempt {number} failed ({row['failureClass']}); starting another one")

    def _note_running(self, processes: Sequence[ProcessMark]) -> None:
        """Keep in the record what a sweep has to end if this process is killed."""
        restored = self._record.restore_directory()
        own = read_mark(os.getpid())
        if own is None:
            return
        below = (read_mark(pid) for pid in read_descendants(os.getpid()))
        known = {*processes, *(mark for mark in below if mark is not None)}
        running = build_running(self._root, own, known, self._boot_id)
        if restored or self._record.content.get("running") != running:
            self._record.update(running=running)

    def _note_database(self, name: str | None) -> None:
        """Keep in the record which database is left if this process is killed."""
        if name is not None:
            self._record.update(database=name)
            return
        self._record.content.pop("database", None)
        with contextlib.suppress(OSError):  # it is written once more at the end
            self._record.write()

    def _note_stop(self, error: CancelledError) -> None:
        self._record.finish(*describe_result(error, ""))

    def _finish(self, end: AttemptEnd) -> CellOutcome:
        status, failure_class, exit_code, message = describe_result(end.failure, end.success)
        message = self._clean(message)
        self._record.content.update(
            {
                "sandbox": "unproven",
                **end.fields,
                **({"spending": build_summary(*self._spent)} if self._spent else {}),
                "flaky": end.failure is None and len(self._rows) > 1,
                "running": None,
            }
        )
        self._record.finish(status, failure_class, exit_code, message)
        return CellOutcome(
            status,
            failure_class,
            exit_code,
            message,
            self._record.directory,
            self._record.content,
            end.summary,
            end.agents,
        )

    def _clean(self, text: str) -> str:
        return Redactor(self._secrets).redact_name(text)


def require_host(request: CellRequest) -> None:
    """Refuse a machine on which nothing could be isolated, before anything is made."""
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"):
        raise InputError(
            f"A cell cannot be isolated on {sys.platform} {platform.machine()}",
            "Run it on Linux, x86-64 or aarch64",
        )
    if not request.is_sandboxed_here:
        return
    try:
        version = domain.landlock_version()
        domain.require_version(version, request.minimum_abi)
    except Refusal as error:
        raise UnsupportedHostError(error.message, error.remedy) from error


def finish_evidence(outcome: CellOutcome, probe_markdown: str) -> None:
    """Add the readable summary and, last, the manifest over all files."""

    def write(dropped: Sequence[str]) -> None:
        if dropped:
            write_json(outcome.evidence / FILE_NAME, {**outcome.cell, "dropped": list(dropped)})
        (outcome.evidence / "probe-summary.md").write_text(probe_markdown, encoding="utf-8")
        manifest.write_manifest(outcome.evidence)

    write_with_room(outcome.evidence, write)
