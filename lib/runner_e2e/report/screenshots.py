"""Read the screenshots of a campaign out of its artifacts, as many as a page can hold."""

import os
from collections.abc import Mapping
from pathlib import Path

from runner_e2e.report.artifact import opening_artifact, read_picture
from runner_e2e.report.rows import records

MOST_BYTES, MOST_TOTAL_BYTES = 400_000, 2_000_000
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def read_screenshots(
    directory: Path,
    document: Mapping[str, object],
    most_bytes: int = MOST_BYTES,
    most_total_bytes: int = MOST_TOTAL_BYTES,
) -> dict[str, bytes]:
    """Return PNGs by the name of their cell, those of cells that did not pass first.

    `document` is what `merge_campaign` returned for the same directory. One that is too large, or cannot
    be read, is left out.
    """
    found: dict[str, bytes] = {}
    left = most_total_bytes
    cells = [cell for cell in records(document.get("cells")) if cell.get("screenshot") is not None]
    try:
        top = os.open(directory, _DIRECTORY)
    except OSError:
        return found
    try:
        for cell in sorted(cells, key=lambda one: one.get("status") == "passed"):
            content = _read(top, str(cell["artifact"]), min(most_bytes, left))
            if content is not None:
                found[str(cell["name"])] = content
                left -= len(content)
    finally:
        os.close(top)
    return found


def _read(top: int, artifact: str, most_bytes: int) -> bytes | None:
    try:
        with opening_artifact(top, artifact) as opened:
            return read_picture(opened, most_bytes)
    except OSError:
        return None
