"""Staged logs in memory, as the writer makes them."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from runner_e2e.evidence.log_writer import write_boots
from runner_e2e.evidence.redaction import Redactor

if TYPE_CHECKING:
    from collections.abc import Iterable

    from runner_e2e.evidence.log_writer import Boot


def stage(boots: Iterable[Boot], secrets: Iterable[str] = ()) -> bytes:
    log = io.BytesIO()
    write_boots(log, boots, Redactor(secrets))
    return log.getvalue()
