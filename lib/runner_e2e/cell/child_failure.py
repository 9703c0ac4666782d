"""Why the target's command did not start, in words. Pure."""

import errno
import os
import stat

from runner_e2e.errors import InputError, RunnerE2EError, SandboxUnprovenError, TransientInfrastructureError

_SHORT_OF = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)
_REMEDY = "Install it in an earlier step, or correct input harness-command"
_REASONS = {
    errno.ENOENT: ("was not found", _REMEDY),
    errno.ENOTDIR: ("was not found", _REMEDY),
    errno.EACCES: ("may not be executed", "Make it executable for the user of this job (chmod +x)"),
    errno.ENOEXEC: (
        "is no program that this machine can execute",
        "Begin a script with a line such as #!/bin/sh, and use programs of this machine's kind",
    ),
    errno.E2BIG: (
        "cannot be started with so long an environment or command line",
        "Pass fewer or shorter variables (input pass-env) and words (input harness-command)",
    ),
    errno.ETXTBSY: ("is being written", "Let an earlier step finish it"),
}


def build_start_failure(step: str, number: int, path: str, kind: int | None) -> RunnerE2EError:
    """Return the error for a command that the warden could not start.

    `path` is what step `directory`, `search` or `program` is about, and why there is no step `domain`;
    `kind` is the type of that file (`stat.S_IFMT`), None when there is none.
    """
    reason = os.strerror(number)
    if number in _SHORT_OF:
        return TransientInfrastructureError(
            f"The command cannot be started: {reason}", "Try again with less running on this machine"
        )
    if step == "warden":
        return RunnerE2EError(
            f"The command cannot be supervised: {reason}", "Use Linux, with /proc mounted and prctl allowed"
        )
    if step == "domain":
        return SandboxUnprovenError(
            f"The command cannot be confined: {_show(path)}",
            "Use a kernel with Landlock and seccomp; mount no directory of the action or the runner twice",
        )
    if step == "directory":
        return InputError(
            f"The directory of the command cannot be entered: {_show(path)}: {reason}",
            "Check out the target, and give its directory as input target-path",
        )
    if step == "search":
        return InputError(f"The command {_show(path)} was not found on its search path (PATH)", _REMEDY)
    return _build_program_failure(number, path, kind)


def _build_program_failure(number: int, path: str, kind: int | None) -> InputError:
    if kind == stat.S_IFDIR:
        return InputError(f"The command is a directory: {_show(path)}", _REMEDY)
    if kind is not None and number in (errno.ENOENT, errno.ENOTDIR):
        return InputError(
            f"The command cannot be started: the interpreter of {_show(path)} was not found",
            "Install what its first line names (a line end of Windows is part of that name)",
        )
    problem, remedy = _REASONS.get(number, (f"cannot be started: {os.strerror(number)}", _REMEDY))
    return InputError(f"The command {_show(path)} {problem}", remedy)


def build_malformed(what: str) -> InputError:
    """Return the error for a command or an environment that no process can have; never the value."""
    return InputError(
        f"The command cannot be started: {what}", "Correct inputs harness-command, target-path and pass-env"
    )


def build_lost() -> RunnerE2EError:
    """Return the error for a warden that ended before the command had started."""
    return TransientInfrastructureError(
        "The process that supervises the command ended before the command had started",
        "Try again, and look for what ends processes on this machine, such as a lack of memory",
    )


def _show(text: str) -> str:
    return f"{text!r:.200}"
