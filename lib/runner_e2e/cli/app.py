"""The command line as a whole: its commands, and how each ends."""

import errno
import importlib
import io
import sys
from collections.abc import Sequence
from typing import Final

import click

from runner_e2e import __version__
from runner_e2e.errors import FailureClass, RunnerE2EError

# Each in a module of its own, imported only when it is asked for: a listing needs no cell.
COMMANDS: Final = {
    "compare": ("runner_e2e.cli.compare", "compare_campaigns"),
    "demo": ("runner_e2e.cli.demo", "demo"),
    "doctor": ("runner_e2e.cli.doctor", "doctor"),
    "env": ("runner_e2e.cli.env", "explain_env"),
    "flakes": ("runner_e2e.cli.flakes", "flake_rates"),
    "list": ("runner_e2e.cli.listing", "list_cells"),
    "paperclip": ("runner_e2e.cli.paperclip", "paperclip"),
    "report": ("runner_e2e.cli.report", "report"),
    "scripted-model": ("runner_e2e.cli.scripted_model", "scripted_model"),
    "verify": ("runner_e2e.cli.verify", "verify"),
    "why-cell": ("runner_e2e.cli.why", "why_cell"),
}


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's signature
        cmd_name: str,
    ) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, name = COMMANDS[cmd_name]
        command = getattr(importlib.import_module(module), name)
        return command if isinstance(command, click.Command) else None


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="runner-e2e")
def cli() -> None:
    """Run end-to-end agent evaluations without the agent being able to see the evaluation."""


# Of these only writing dies that has no file of a name: what is printed.
_UNWRITABLE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; exit codes are those of `errors.py`, 2 for wrong usage."""
    try:
        result = cli.main(argv, standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()  # here a full disk is an error like any other
    except click.ClickException as error:
        error.show()
        return 2
    except click.Abort:
        return 130
    except RunnerE2EError as error:
        click.echo(f"runner-e2e: {error}", err=True)
        return error.exit_code
    except (SystemExit, BrokenPipeError) as end:
        if isinstance(end, SystemExit) and end.code != 1:
            raise
        return _give_up_output()  # click's 1 says that the reader has left; here 1 is a verdict
    except Exception as error:  # noqa: BLE001 - the last resort: an unexpected error is never the product's
        return _report_unexpected(error)
    return result if isinstance(result, int) else 0


def _report_unexpected(error: Exception) -> int:
    if isinstance(error, OSError) and error.filename is None and error.errno in _UNWRITABLE:
        problem = f"The output cannot be written: {error.strerror}. Send it elsewhere."
        click.echo(f"runner-e2e: {problem}", err=True)
        return _give_up_output()
    click.echo(f"runner-e2e: an unexpected {type(error).__name__}: {error}", err=True)
    return FailureClass.PERMANENT_INFRASTRUCTURE.exit_code


def _give_up_output() -> int:
    """Let what is still buffered go nowhere: the interpreter would fail on it too, with its own status."""
    sys.stdout = io.StringIO()
    return FailureClass.PERMANENT_INFRASTRUCTURE.exit_code
