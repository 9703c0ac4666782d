"""Inside a domain, and outside for control: which privileges does a process get here, also through others?

Reads `{"nonce", "programs": [...], "sudo": ...}` from standard input and writes one JSON object. Standard
library only. It asks for nothing but help texts and a status, and decides nothing.
"""

import json
import os
import subprocess
import sys
import time

_SUDO_S = 1.0
_HELP_S = 1.0
_END_S = 0.5
_ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}
_MOST_BYTES = 1 << 16


def read_status(text: str) -> dict[str, int]:
    """Return user, capabilities and no_new_privs of a `/proc/<pid>/status`."""
    rows = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    return {
        "user": int(rows["Uid"].split()[1]),
        "effective": int(rows["CapEff"], 16),
        "bounding": int(rows["CapBnd"], 16),
        "noNewPrivileges": int(rows.get("NoNewPrivs", "0")),
    }


def read_process(name: str) -> dict[str, int]:
    """Return the status of a process by its name in /proc."""
    with open(f"/proc/{name}/status", encoding="ascii", errors="replace") as file:  # noqa: PTH123 - one import less
        return read_status(file.read(_MOST_BYTES))


def ask_program(program: str) -> dict[str, int] | None:
    """Start a set-id program for its help text and return whom the kernel made of it.

    Looked at when it has ended, before its parent takes note: that the program was found is told before
    the kernel gives the process the rights of its file.
    """
    try:
        process = subprocess.Popen(
            [program, "--help"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=_ENVIRONMENT,
        )
    except OSError as error:
        return {"errno": error.errno or -1}
    try:
        if not has_ended(process.pid):
            return None
        return read_process(str(process.pid))
    except (OSError, KeyError, ValueError, IndexError):
        return None
    finally:
        end(process)


def has_ended(pid: int) -> bool:
    """Wait for a program, and leave what is known of it to be read."""
    deadline = time.monotonic() + _HELP_S
    while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


def end(process: "subprocess.Popen[bytes]") -> None:
    """End a program; one that is root by now cannot be, and is left to itself."""
    try:
        process.kill()
        process.wait(_END_S)
    except (OSError, subprocess.TimeoutExpired):
        return


def ask_sudo(sudo: str) -> dict[str, int] | None:
    """Have sudo show the status of what it starts, without a password; its exit status when it does not."""
    try:
        process = subprocess.Popen(
            [sudo, "-n", "--", "cat", "/proc/self/status"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_ENVIRONMENT,
        )
    except OSError as error:
        return {"errno": error.errno or -1}
    try:
        said, _ = process.communicate(timeout=_SUDO_S)
    except subprocess.TimeoutExpired:
        end(process)
        return None
    if process.returncode != 0:
        return {"exit": process.returncode}
    try:
        return read_status(said[:_MOST_BYTES].decode("ascii", "replace"))
    except (KeyError, ValueError, IndexError):
        return None


def main() -> int:
    """Answer one request."""
    request = json.load(sys.stdin)
    answer = {
        "nonce": request["nonce"],
        "own": read_process("self"),
        "programs": {program: ask_program(program) for program in request["programs"]},
        "sudo": ask_sudo(request["sudo"]) if request["sudo"] else None,
    }
    json.dump(answer, sys.stdout)
    sys.stdout.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
