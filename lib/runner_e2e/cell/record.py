"""`cell.json`: written as `started` before anything else happens, replaced whole at every change."""

import json
import os
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from runner_e2e.cell.request import CellRequest, Status
from runner_e2e.errors import FailureClass, InputError

SCHEMA = "runner-e2e.cell/v1"
FILE_NAME = "cell.json"


class CellRecord:
    """The record of one cell in its evidence directory."""

    def __init__(self, directory: Path, content: dict[str, object]) -> None:
        self.directory = directory
        self.content = content

    @classmethod
    def start(cls, request: CellRequest) -> "CellRecord":
        """Create the evidence directory, which must not exist, and write the first record."""
        directory = request.evidence_parent / request.directory
        try:
            request.evidence_parent.mkdir(parents=True, exist_ok=True)
            directory.mkdir(mode=0o700)
        except OSError as error:
            if isinstance(error, FileExistsError) and directory.is_dir():
                raise InputError(
                    f"Results of an earlier run lie in {directory}",
                    "Remove it, or choose another place: RUNNER_TEMP for run_cell.py, --evidence for demo",
                ) from None
            raise InputError(
                f"The evidence directory {directory} cannot be made: {error.strerror}",
                "Name a directory that can be written",
            ) from error
        # Behind a key the definition's hash would tell the suite.
        identity: dict[str, object] = {"key": request.key}
        if request.key == request.cell_id:
            identity = {"id": request.cell_id, "suiteDefinitionHash": request.definition}
        record = cls(
            directory,
            {
                "schema": SCHEMA,
                **identity,
                "status": Status.STARTED.value,
                "failureClass": None,
                "exitCode": None,
                "message": None,
                "harness": request.harness,
                "sandbox": "unproven",
                # The reference is driven by this process, which gets its cell in its environment.
                "transport": "env",
                "targetSha": None,
                "startedAt": now(),
                "finishedAt": None,
                "durationMs": None,
                "attempts": [],
            },
        )
        record.write()
        return record

    def update(self, **fields: object) -> None:
        """Change fields and write."""
        self.content.update(fields)
        self.write()

    def finish(self, status: Status, failure: FailureClass | None, exit_code: int, message: str) -> None:
        """Write the final state."""
        started = datetime.fromisoformat(str(self.content["startedAt"]))
        finished = now()
        elapsed = datetime.fromisoformat(finished) - started
        self.update(
            status=status.value,
            failureClass=failure.value if failure else None,
            exitCode=exit_code,
            message=message,
            finishedAt=finished,
            durationMs=round(elapsed.total_seconds() * 1000),
        )

    def write(self) -> None:
        """Write the record so that a reader sees the old one or the new one, whole."""
        write_json(self.directory / FILE_NAME, self.content)


def write_json(path: Path, content: object) -> None:
    """Replace a JSON file atomically."""
    text = json.dumps(content, indent=2) + "\n"
    with tempfile.NamedTemporaryFile(
        "w", dir=path.parent, prefix="new-", suffix=".json", delete=False, encoding="ascii"
    ) as file:
        temporary = Path(file.name)
        try:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
            temporary.chmod(0o644)
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def now() -> str:
    """Return the time as ISO 8601 in UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
