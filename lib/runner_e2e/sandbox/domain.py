"""Build a ruleset and enter it: the part that cannot be undone."""

from errno import E2BIG, ENOSYS, EOPNOTSUPP, EPERM
from os import listdir, strerror

from . import kernel, rules
from .refusal import Refusal


def landlock_version() -> int:
    """Return the kernel's Landlock ABI; refuses, with three different remedies, where there is none."""
    try:
        version = kernel.landlock_version()
    except OSError as error:
        raise _unavailable(error) from error
    if rules.clamp(version) < 1:
        raise Refusal(
            "landlock-unavailable",
            f"the kernel reports Landlock ABI {version}, which does not exist",
            "use a kernel with Landlock, Linux 6.12 or newer",
        )
    return version


def require_version(version: int, minimum: int) -> None:
    """Refuse a kernel that is older than what the caller relies on."""
    if version < minimum:
        raise Refusal(
            "abi-too-old",
            f"the kernel offers Landlock ABI {version}, and at least {minimum} is needed",
            "use a newer kernel; the plan that --explain prints lists what each ABI would lose",
        )


def open_ruleset(version: int, *, scoped: int, network: int = 0) -> int:
    """Return the descriptor of a ruleset which handles every file-system right of the ABI, and `network`."""
    try:
        filesystem, size = rules.filesystem_rights(version), rules.attribute_size(version)
        return kernel.create_ruleset(filesystem, scoped, size, network)
    except OSError as error:
        raise _unavailable(error) from error


def restrict(ruleset: int) -> None:
    """Enter the domain. Nothing else of the launcher runs outside it afterwards."""
    try:
        kernel.set_no_new_privileges()
        kernel.restrict_self(ruleset)
    except OSError as error:
        if error.errno == E2BIG:
            raise Refusal(
                "layer-limit",
                "this process already lies in 16 Landlock domains, and the kernel allows no more",
                "start the launcher outside the other sandboxes",
                errno=error.errno,
            ) from error
        raise _unavailable(error) from error


def refuse_threads() -> None:
    """Refuse when another thread runs: below ABI 8 a domain covers only the calling thread."""
    try:
        threads = len(listdir("/proc/self/task"))
    except OSError as error:
        raise Refusal(
            "protection-unavailable",
            "the threads of the launcher cannot be counted",
            "mount /proc for the launcher",
            path=b"/proc/self/task",
            errno=error.errno,
        ) from error
    if threads > 1:
        raise Refusal(
            "threads-running",
            f"{threads} threads run in the launcher, and a domain would cover only one",
            "start the launcher as a process of its own",
        )


def _unavailable(error: OSError) -> Refusal:
    remedy = {
        ENOSYS: "use a kernel built with CONFIG_SECURITY_LANDLOCK, Linux 6.12 or newer",
        EOPNOTSUPP: "add landlock to the kernel's lsm= boot parameter",
        EPERM: "let the container's seccomp profile pass the landlock system calls, or run outside it",
    }.get(
        error.errno or 0,
        "check the kernel's log; this launcher does not start a command unconfined",
    )
    return Refusal(
        "landlock-unavailable",
        f"Landlock refused to work: {strerror(error.errno or 0)}",
        remedy,
        errno=error.errno,
    )
