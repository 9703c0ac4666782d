"""Find what a cell on the real product needs, and refuse what cannot be run before anything is made."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from runner_e2e.cell.paperclip_command import find_command
from runner_e2e.cell.paperclip_database import read_database
from runner_e2e.cell.paperclip_paid import PaymentOrder, plan_paid
from runner_e2e.cell.paperclip_request import PaperclipRequest
from runner_e2e.cell.paperclip_server import require_ordinary_user
from runner_e2e.cell.paperclip_task import PaperclipTask, find_script, plan_task
from runner_e2e.errors import InputError
from runner_e2e.model.reading import MAX_SCRIPT_BYTES, parse_script
from runner_e2e.product.installation import require_installation

if TYPE_CHECKING:
    from runner_e2e.model.script import Script
    from runner_e2e.plan.cells import Execution

# The value of a script that stands for the harness's own command, which tries what is hidden.
EXPLORE = "explore"


def plan_paperclip(
    execution: "Execution", catalog: Path, environ: Mapping[str, str], *, for_another: bool = False
) -> PaperclipRequest:
    """Return what the cell needs but for what it pays with, which `pay_for` adds.

    Raises InputError, which names no cell, for what is missing or refused.

    With `for_another` a service user is to run it, not the user of this process.
    """
    task = plan_task(execution)
    script = find_script(catalog.resolve(), task) if task.scripts else None
    explores = script is not None and EXPLORE in check_script(script, task).values
    command = None if task.command is None else find_command(task.command)
    if explores and task.turns > 1:
        raise InputError(
            f"The script of the cell asks for the value {EXPLORE}, which is true for one start of one server",
            "Use it in a flow of one turn, single_turn or two_agents",
        )
    if not for_another:
        require_ordinary_user()
    database = read_database(environ)
    return PaperclipRequest(require_installation(environ), task, script, explores, command, database)


def pay_for(request: PaperclipRequest, order: PaymentOrder, environ: Mapping[str, str]) -> PaperclipRequest:
    """Return a planned cell with what it pays with; raises InputError as `plan_paid` does."""
    return replace(request, paid=plan_paid(request.task.credential, order, environ))


def check_script(script: Path, task: PaperclipTask) -> "Script":
    """Return the cell's script, its values not filled in yet.

    Refuses one that is missing, is none, or asks for values that this harness does not have.
    """
    if not script.is_file() or not os.access(script, os.R_OK):
        # Its name is the case's, which may have to stay hidden.
        raise InputError(
            "The cell's scripted model has no script beside its catalog",
            f"Add the case's own file <case>.yaml to the directory {task.scripts} beside the catalog",
        )
    names = ("nonce", EXPLORE, *(f"{one}_key" for one in task.names))
    try:
        text = script.read_bytes()[: MAX_SCRIPT_BYTES + 1].decode()
    except (OSError, UnicodeDecodeError):
        text = ""
    if not text or len(text.encode()) > MAX_SCRIPT_BYTES:
        raise InputError(
            "The script of the cell's scripted model is no UTF-8 text of at most 8 MiB",
            "Write it as docs/scripted-model.md says",
        )
    # The values come later, and differ.
    return parse_script(text, f"{task.scripts}/<case>.yaml", {name: f"the-later-{name}" for name in names})
