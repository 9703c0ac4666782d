"""A decoy in the harness's own environment, as the kernel shows it in `/proc/<pid>/environ`.

That block is fixed when a process is executed; setting a variable later does not change it. The probe
needs one known text there, so the program re-executes itself once with it.
"""

import os
import secrets
import sys
from collections.abc import Mapping

from runner_e2e.errors import SandboxUnprovenError

VARIABLE = "RUNNER_E2E_DECOY"


def ensure_decoy(environ: Mapping[str, str]) -> None:
    """Re-execute this program, same process id, with a random decoy unless there is one."""
    if environ.get(VARIABLE) or not sys.orig_argv:
        return
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # None when it was closed before the start
            stream.flush()
    os.execve(  # noqa: S606 - the same program with the same arguments
        sys.executable,
        [sys.executable, *sys.orig_argv[1:]],
        {**environ, VARIABLE: f"decoy-{secrets.token_hex(16)}"},
    )


def read_decoy(environ: Mapping[str, str]) -> tuple[str, str]:
    """Return name and value of the decoy; without one an environment check would prove nothing."""
    value = environ.get(VARIABLE, "")
    if not value:
        raise SandboxUnprovenError(
            f"The harness was started without {VARIABLE}",
            "Start the cell through the action, runner-e2e or entrypoints/run_cell.py",
        )
    return VARIABLE, value
