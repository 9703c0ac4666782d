"""`runner-e2e paperclip`: the real product on this machine."""

import json
import os
import signal
import sys

import click
from rich.console import Console

from runner_e2e.errors import InputError
from runner_e2e.product.install import install
from runner_e2e.product.installation import Installation, find_installation


class _Progress:
    """Says on standard error what is going on; a terminal gets a spinner, a file gets lines."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status = console.status("Looking for an installation") if console.is_terminal else None
        if self._status:
            self._status.start()

    def phase(self, text: str) -> None:
        if self._status:
            self._status.update(f"{text} …")
        else:
            self.note(f"{text} …")

    def note(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def stop(self) -> None:
        """Clear the spinner."""
        if self._status:
            self._status.stop()


@click.group("paperclip", short_help="Install the real Paperclip, and find it.")
def paperclip() -> None:
    """Install the real Paperclip server, its runnerd and OpenCode from committed locks, and find them.

    They lie in a cache outside the project: RUNNER_E2E_PAPERCLIP_DIR, or runner-e2e/paperclip below
    XDG_CACHE_HOME, /var/cache (for root), or ~/.cache.
    """


@paperclip.command("install", short_help="Install what is not there yet.")
@click.option("--verify", is_flag=True, help="Compare every file, not only the programs.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def install_paperclip(*, verify: bool, as_json: bool) -> None:
    """Install Node where the host's is too old, Paperclip and OpenCode by npm, and what runnerd needs.

    A complete installation is used as it is when its programs have their recorded digests; a damaged one is
    made again. npm holds each archive to the committed lock and runs no install script. Takes some minutes,
    3 GiB, and a network.
    """
    for stop in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(stop) is not signal.SIG_IGN:  # nohup
            signal.signal(stop, lambda signum, _: sys.exit(128 + signum))  # tools end with us
    progress = _Progress(Console(stderr=True))
    try:
        found = install(os.environ, progress, verify=verify)
    finally:
        progress.stop()
    if as_json:
        schema = {"schema": "runner-e2e.paperclip-install/v1", "verified": verify}
        click.echo(json.dumps({**schema, **found.describe()}, indent=2))
    else:
        click.echo("".join(f"{name:<10} {value}\n" for name, value in _rows(found).items()), nl=False)


@paperclip.command("path", short_help="Print where it is installed.")
def print_path() -> None:
    """Print the directory of the installation; exits with 2 when there is none that can be used."""
    found = find_installation(os.environ)
    if found is None:
        raise InputError("Paperclip is not installed, or damaged", "Run `runner-e2e paperclip install`")
    click.echo(os.fspath(found.directory))


def _rows(found: Installation) -> dict[str, str]:
    return {
        "directory": str(found.directory),
        "node": f"{found.node_version}  {found.node}",
        "paperclip": f"{found.paperclip_version}  {found.server}",
        "opencode": f"{found.opencode_version}  {found.opencode}",
        "runnerd": str(found.runnerd),
    }
