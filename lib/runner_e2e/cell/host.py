"""What this machine offers to isolate a cell."""

import os
import platform
import sys
from dataclasses import dataclass

from runner_e2e.errors import RunnerE2EError
from runner_e2e.launch.install import find_interpreter
from runner_e2e.sandbox import domain, protections
from runner_e2e.sandbox.refusal import Refusal


@dataclass(frozen=True, slots=True)
class Host:
    """The host as far as the launcher is concerned; `problems` is empty when a cell can run."""

    system: str
    abi: int
    interpreter: str
    user: str
    problems: tuple[str, ...]

    def rows(self) -> dict[str, str]:
        """Return the host as labelled lines."""
        rows = {
            "kernel": self.system,
            "Landlock": f"ABI {self.abi}" if self.abi else "not available",
            "launcher": self.interpreter or "no interpreter",
            "user": self.user,
        }
        return rows | {f"problem {number}": text for number, text in enumerate(self.problems, 1)}


def inspect_host(minimum_abi: int) -> Host:
    """Look at kernel, interpreter and user; raises nothing."""
    problems: list[str] = []
    version, interpreter = 0, ""
    if sys.platform == "linux":
        try:
            version = domain.landlock_version()
            domain.require_version(version, minimum_abi)
        except Refusal as error:
            problems.append(f"{error.message}: {error.remedy}")
        try:
            interpreter = str(find_interpreter())
        except RunnerE2EError as error:
            problems.append(str(error))
    else:
        problems.append("Landlock exists on Linux only")
    root = sys.platform == "linux" and protections.is_privileged()
    return Host(
        f"{platform.system()} {platform.release()} {platform.machine()}",
        version,
        interpreter,
        f"uid {os.getuid()}" + (", without capabilities inside the domain" if root else ""),
        tuple(problems),
    )
