"""What a cell on the real product packages beside its records: run logs, a picture, its result."""

import contextlib
import json
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from runner_e2e.cell.attempt import Attempt, Conclusion
from runner_e2e.cell.packaged_results import RESULT, refuse_unpackaged
from runner_e2e.cell.paperclip_agents import Worker
from runner_e2e.cell.paperclip_logs import DIRECTORY, StagedLogs, stage_logs
from runner_e2e.cell.paperclip_owner import PaperclipOwner
from runner_e2e.cell.paperclip_picture import (
    FILE_NAME,
    Picture,
    PictureStatus,
    build_page,
    no_page,
    take_picture,
)
from runner_e2e.cell.paperclip_result import Cell, End, build_result
from runner_e2e.cell.paperclip_task import PaperclipTask
from runner_e2e.cell.record import write_json
from runner_e2e.errors import CancelledError, RunnerE2EError, SecretLeakError
from runner_e2e.evidence.bundle import Bundle, stage_tree
from runner_e2e.evidence.redaction import Redactor
from runner_e2e.evidence.sanitize_json import sanitize_json

RESULTS = "results"
_NAMES_CELL = "it names the cell, which a key hides"


class Package:
    """Gathers an attempt's package: `photographing` around the server's life, then `stage`, then `conclude`.

    `read_secrets` tells what must not be published as of when it is called, `picture` what there is so far.
    """

    def __init__(
        self, attempt: Attempt, read_secrets: Callable[[], Collection[str]], picture: Picture | None = None
    ) -> None:
        self._attempt = attempt
        self._read_secrets = read_secrets
        self._picture = picture or no_page("the attempt ended before there was an issue's page")
        self._logs = StagedLogs()
        self._bundles: list[Bundle] = []
        self._problems: list[str] = []

    @contextlib.contextmanager
    def photographing(self, owner: PaperclipOwner, workers: Sequence[Worker]) -> Iterator[None]:
        """Take a picture of the first agent's issue when this ends, however it ends, but for a stop."""
        try:
            yield
        except CancelledError:
            self._picture = no_page("the attempt was stopped")
            raise
        except BaseException:
            self._photograph(owner, workers)
            raise
        self._photograph(owner, workers)

    def stage(
        self, directory: Path, redactor: Redactor, instance: Path | None, workers: Sequence[Worker]
    ) -> RunnerE2EError | None:
        """Stage picture and logs; what keeps them from it is recorded. Return what of them leaks a secret."""
        with self._recording_problems("the picture"):
            self._stage_picture(directory, redactor)
        if instance is not None:
            with self._recording_problems("the run logs"):
                self._stage_logs(directory, redactor, instance, workers)
        count = sum(len(bundle.leaks) for bundle in self._bundles)
        if not count:
            return None
        return SecretLeakError(
            f"A secret stands in {count} file{'s' if count > 1 else ''} of the cell's evidence",
            "They were withheld; see evidence.leaks in cell.json",
        )

    def conclude(
        self,
        directory: Path,
        redactor: Redactor,
        conclusion: Conclusion,
        task: PaperclipTask,
        workers: Sequence[Worker],
    ) -> None:
        """Write `results/result.json`. Raises OSError."""
        request = self._attempt.request
        failure = conclusion.failure
        taken = self._picture.status is PictureStatus.TAKEN
        result = build_result(
            Cell(request.cell_id, request.key, request.definition, request.environ),
            task,
            workers,
            End(
                number=self._attempt.number,
                started=conclusion.started,
                finished=conclusion.finished,
                failure_class=None if failure is None else failure.failure_class.value,
                error=None if failure is None else str(failure),
                cleanup="passed" if conclusion.is_clean else "failed",
                screenshots=(FILE_NAME,) if taken else (),
            ),
        )
        content = sanitize_json(json.dumps(result).encode(), redactor)
        if content is None:
            self._problems.append("the result: it holds a secret that cannot be taken out")
            return
        (directory / RESULTS).mkdir(mode=0o700, exist_ok=True)
        write_json(directory / RESULTS / RESULT, json.loads(content))

    def describe(self) -> dict[str, object]:
        """Return the package's fields of cell.json."""
        whole = Bundle()
        for bundle in self._bundles:
            whole.files.update(bundle.files)
            whole.left_out += bundle.left_out
            whole.leaks += bundle.leaks
            whole.unnamed += bundle.unnamed
        fields: dict[str, object] = {
            "screenshot": self._picture.describe(),
            "runLogs": self._logs.describe(),
            "evidence": whole.describe(),
        }
        if self._problems:
            fields["notStaged"] = self._problems
        return fields

    def _photograph(self, owner: PaperclipOwner, workers: Sequence[Worker]) -> None:
        """Take the picture; whatever keeps it from that, but for a stop, is recorded and fails nothing."""
        attempt = self._attempt
        if attempt.request.hides_names:
            self._picture = Picture(PictureStatus.WITHHELD, _NAMES_CELL)
            return
        try:
            try:
                server, api = owner.running
            except RuntimeError:
                self._picture = no_page("the server did not run")
                return
            if server.exit_status is not None:
                self._picture = no_page("the server had ended")
                return
            if not workers or not workers[0].issue:
                return
            attempt.reporter.phase("Taking a picture of the issue's page")
            page = build_page(api.address("/"), api.issue(workers[0].issue))
            if page is None:
                self._picture = no_page("the issue has no page that can be named")
                return
            find = Redactor(self._read_secrets()).find
            self._picture = take_picture(
                page,
                attempt.request.environ.get("PATH", ""),
                attempt.root.private,
                lambda text: bool(find(text.encode("utf-8", "replace"))),
            )
        except CancelledError:
            self._picture = no_page("the attempt was stopped")
            raise
        except RunnerE2EError as error:
            self._picture = Picture(PictureStatus.FAILED, error.problem)
        except Exception as error:  # noqa: BLE001 - a picture is no reason for a cell to fail
            self._picture = Picture(PictureStatus.FAILED, f"an unexpected {type(error).__name__}")

    def _stage_picture(self, directory: Path, redactor: Redactor) -> None:
        if self._picture.status is not PictureStatus.TAKEN:
            return
        scratch = self._attempt.root.private / "package"
        scratch.mkdir(mode=0o700)
        (scratch / FILE_NAME).write_bytes(self._picture.content)
        bundle = stage_tree(scratch, directory / RESULTS, redactor, refuse=refuse_unpackaged)
        self._bundles.append(bundle)
        if FILE_NAME not in bundle.files:
            self._picture = Picture(PictureStatus.WITHHELD, "the picture's file may hold a secret")

    def _stage_logs(
        self, directory: Path, redactor: Redactor, instance: Path, workers: Sequence[Worker]
    ) -> None:
        if self._attempt.request.hides_names:
            self._problems.append(f"the run logs: {_NAMES_CELL}")
            return
        scratch = self._attempt.root.private / DIRECTORY
        self._logs = stage_logs(instance, workers, scratch, directory / DIRECTORY, redactor)
        if self._logs.bundle is not None:
            self._bundles.append(self._logs.bundle)

    @contextlib.contextmanager
    def _recording_problems(self, what: str) -> Iterator[None]:
        """Record what keeps something from being staged: the cell's own records matter more."""
        try:
            yield
        except (OSError, RunnerE2EError) as error:
            said = error.problem if isinstance(error, RunnerE2EError) else error.strerror
            self._problems.append(f"{what}: {said or type(error).__name__}")
