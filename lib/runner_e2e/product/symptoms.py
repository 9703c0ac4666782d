"""Tells from the last words of a tool why it failed, and what helps. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from runner_e2e.errors import RunnerE2EError, TransientInfrastructureError


@dataclass(frozen=True, slots=True)
class Symptom:
    """Words of a tool, lower case and parted by bars, and what they mean; `transient` may go by itself."""

    words: str
    problem: str
    remedy: str
    transient: bool = False


# The first that fits: pip calls a package missing also when it could not ask for it.
SYMPTOMS: Final = (
    Symptom(
        "enospc|no space left|disk quota exceeded|edquot|enough free space",
        "the disk is full",
        "Free about 3 GiB, or set RUNNER_E2E_PAPERCLIP_DIR to a directory on another disk",
    ),
    Symptom(
        "eintegrity|do not match the hashes|hash mismatch|hash sum mismatch",
        "a downloaded package is not the one that was locked",
        "Do not use that registry; nothing of it was run",
    ),
    Symptom(
        "e401|e403|401 unauthorized|403 forbidden|authentication required",
        "the registry refuses access",
        "Give the tool the credentials of its registry, in its own configuration file",
    ),
    Symptom(
        "enotfound|eai_again|econnrefused|econnreset|etimedout|enetunreach|ehostunreach|err_socket_timeout"
        "|enotcached|network is unreachable|connection refused|timed out|temporary failure|name resolution"
        "|could not resolve|could not connect|failed to fetch|error sending request|newconnectionerror"
        "|self-signed certificate|certificate verify",
        "the registry cannot be reached",
        "Check the network, and the registry, proxy and certificate settings of the tool; then try again",
        transient=True,
    ),
    Symptom(
        "etarget|e404|404 not found|no matching distribution|no solution found|unable to locate",
        "the registry does not have a locked package",
        "Point the tool at a registry that mirrors the public one",
    ),
    Symptom(
        "eacces|eperm|erofs|permission denied|read-only file system",
        "a file cannot be written",
        "Make the directory of the installation writable, or set RUNNER_E2E_PAPERCLIP_DIR to another one",
    ),
)


def build_tool_error(tool: str, lines: Sequence[str], log: str) -> RunnerE2EError:
    """Return the error for a tool that failed with these last lines; `log` is the file that has them all.

    npm marks its own errors, and only those count where there are some.
    """
    said = "".join([line for line in lines if line.startswith("npm error")] or lines).lower()
    for symptom in SYMPTOMS:
        if re.search(rf"(?<![a-z0-9])(?:{symptom.words})(?![a-z0-9])", said):
            kind = TransientInfrastructureError if symptom.transient else RunnerE2EError
            return kind(f"{tool} failed: {symptom.problem}", f"{symptom.remedy}. Its output is in {log}")
    return RunnerE2EError(f"{tool} failed", f"Read what it said in {log}, mend it, and try again")
