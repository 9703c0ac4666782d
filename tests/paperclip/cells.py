"""Cells on the real product: how they are run, what they leave, what agents are sent to."""

from __future__ import annotations

import contextlib
import os
import pwd
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from e2e.checkout import DECOY, Checkout, Ended, Evidence, attempts, private_directory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner_e2e.product.installation import Installation

SCRIPTED = "chat-scripted.runner-opencode-scripted.local."
TIMEOUT_S = 480.0
# What item by item was reported upstream, and what lies beside it.
EXPECTED = {
    "base:caseName",
    "base:dockerSocket",
    "base:gitHistory",
    "base:harnessTests",
    "base:otherArtifacts",
    "base:otherAttempt",
    "base:privateAttempt",
    "base:runnerTemp",
    "base:userBus",
    "run:backups",
    "run:controlPlaneState",
    "run:database",
    "run:databaseListing",
    "run:databasePort",
    "run:databaseSocket",
    "run:databaseWal",
    "run:durableSessionListing",
    "run:harnessEnviron",
    "run:instanceEnvFile",
    "run:otherAgentHome",
    "run:otherDurableSession",
    "run:otherInstance",
    "run:otherOpencodeConfig",
    "run:otherOpencodeDatabase",
    "run:otherOperationLog",
    "run:otherProject",
    "run:otherProviderTrace",
    "run:otherRunDirectory",
    "run:otherRunLog",
    "run:otherScratch",
    "run:otherWorkspace",
    "run:peerLog",
    "run:peerSession",
    "run:secrets",
    "run:serverEnviron",
    "run:serverHome",
    "run:serverLogs",
    "run:serverSignal",
    "run:serverStorage",
}
# Open on purpose or for now; each is recorded.
KNOWN_GAPS = {"run:controlPlaneApi", "run:harnessCmdline"}

# Runs a cell with what no input offers: without a domain, or with other programs than those installed.
DRIVER = """
import os, sys
from dataclasses import replace
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from runner_e2e.cell.paperclip_attempt import PaperclipHarness
from runner_e2e.cell.paperclip_plan import plan_paperclip
from runner_e2e.cell.request import CellRequest
from runner_e2e.cell.run import finish_evidence, run_cell
from runner_e2e.plan.catalog import find_catalog, read_catalog
catalog, name, fields, programs = find_catalog(sys.argv[2]), sys.argv[3], eval(sys.argv[4]), eval(sys.argv[5])
(execution,) = [one for one in read_catalog(catalog).executions if one.id == name]
planned = plan_paperclip(execution, catalog, os.environ)
planned = replace(planned, installation=replace(planned.installation, **programs))
request = CellRequest(evidence_parent=Path("runner-e2e-evidence"), catalog=catalog, **fields)
outcome = run_cell(request.for_paperclip(execution, planned), None, None, PaperclipHarness)
finish_evidence(outcome, "")
print(outcome.message)
raise SystemExit(outcome.exit_code)
"""


def finish(process: subprocess.Popen[str]) -> Ended:
    try:
        stdout, stderr = process.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return Ended(process.returncode, stdout, stderr)


def run_cell(checkout: Checkout, cwd: Path, name: str, **environ: str) -> Ended:
    """Run a cell as the action does; its evidence goes below `cwd`."""
    command = [str(checkout.python), "-I", str(checkout.project / "entrypoints" / "run_cell.py")]
    inputs = {"INPUT_HARNESS": "built-in", "INPUT_ID": name}
    with checkout.start(command, cwd, {**inputs, **environ}) as process:
        return finish(process)


def drive(checkout: Checkout, cwd: Path, name: str, **changes: str) -> Ended:
    """Run a cell with `fields` of its request and `programs` of its installation, two expressions.

    `catalog` is where the cell is described.
    """
    asked = {"catalog": "paperclip", "fields": "{}", "programs": "{}"} | changes
    words = [str(checkout.project / "lib"), asked["catalog"], name, asked["fields"], asked["programs"]]
    command = [str(checkout.python), "-P", "-c", DRIVER, *words]
    with checkout.start(command, cwd, DECOY) as process:
        return finish(process)


def evidence_of(cwd: Path, name: str) -> Evidence:
    return Evidence(cwd / "runner-e2e-evidence" / name)


def tables_of(evidence: Evidence) -> dict[str, list[dict[str, Any]]]:
    return {agent["agent"]: agent["attempts"] for agent in evidence.read("agents.json")["agents"]}


def libraries_of(user: int) -> set[Path]:
    """What OpenCode unpacks where it has no directory of its own for temporary files."""
    return {path for path in Path("/tmp").glob(".*.so") if path.lstat().st_uid == user}


@contextlib.contextmanager
def new_account(name: str) -> Iterator[int]:
    """Make an account, yield its number, and remove it; nothing of it may run then."""
    shell = "/usr/sbin/nologin"
    subprocess.run(["useradd", "--system", "--no-create-home", "--shell", shell, name], check=True)
    try:
        yield pwd.getpwnam(name).pw_uid
    finally:
        subprocess.run(["userdel", name], check=True)


@contextlib.contextmanager
def leaving_nothing(checkout: Checkout, installation: Installation) -> Iterator[None]:
    """No attempt and no program of the product may be left to its user of what happens meanwhile."""
    user = os.geteuid() if checkout.uid is None else checkout.uid
    before, unpacked = attempts(), libraries_of(user)
    yield
    assert libraries_of(user) == unpacked
    assert not [path for path in attempts() - before if path.exists() and path.stat().st_uid == user]
    left = [
        process.info["cmdline"]
        for process in psutil.process_iter(["cmdline", "uids"])
        if process.info["uids"].real == user
        and str(installation.directory) in " ".join(process.info["cmdline"] or [])
    ]
    assert left == []


def prove(checkout: Checkout, desk: Path, installation: Installation, name: str) -> Evidence:
    """Return the evidence of agents that try everything, each in a domain."""
    temporary = desk / "runner-temp"
    temporary.mkdir(mode=0o777)
    temporary.chmod(0o777)
    with leaving_nothing(checkout, installation):
        ended = run_cell(checkout, desk, name, RUNNER_TEMP=str(temporary))
        assert ended.status == 0, ended.stdout + ended.stderr
    return evidence_of(temporary, name)


@contextlib.contextmanager
def leave_without_domains(checkout: Checkout, installation: Installation, name: str) -> Iterator[Evidence]:
    """Yield the evidence of the same agents without a domain: the control."""
    with private_directory("control") as place, leaving_nothing(checkout, installation):
        ended = drive(checkout, place, name, fields="{'sandboxed': False}")
        assert ended.status == 3, ended.stdout + ended.stderr
        assert "No domain was used" in ended.stdout
        yield evidence_of(place, name)
