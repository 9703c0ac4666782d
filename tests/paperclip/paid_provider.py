"""The provider of a paid cell in tests, which knows its client by the credential, and who has that."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from runner_e2e.model.reading import parse_script
from runner_e2e.model.server import Model, running_model

if TYPE_CHECKING:
    from e2e.checkout import Evidence

NAME = "OPENROUTER_API_KEY"
CELL = "chat-features.runner-opencode.local.chat.single-turn"
# In no shape that is taken for a secret without being told.
CREDENTIAL = f"paid{secrets.token_hex(16)}"
# What an agent finds of it: in its variables, in every process and file that it may look at. No program that
# looks for it has it among its words.
LOOK = f"""
sought='[{CREDENTIAL[0]}]{CREDENTIAL[1:]}'
variables=$(env | grep -c "$sought")
blocks=$(cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n')
processes=$(grep -c "$sought" <<< "$blocks")
files=$(timeout 60 grep -rls "$sought" "$PWD/../../../../.." /tmp/opencode /dev/shm 2>/dev/null | wc -l)
key=$(printf %s "${NAME}" | sha256sum | cut -c -64)
asked=$(grep -aoh 'Answer with the word [0-9a-f]*' "$XDG_DATA_HOME"/opencode/opencode.db* | head -1)
echo "variables=$variables processes=$processes files=$files key=$key word=<${{asked##* }}>"
"""
# OpenCode's own rules refuse what they can read.
RUN = f"echo {base64.b64encode(LOOK.encode()).decode()} | base64 -d | bash"
NOTHING_FOUND = "variables=0 processes=0 files=0"
LOOKING = {
    "tool": {"name": "bash", "arguments": {"command": RUN, "description": f"Look for {CREDENTIAL}"}},
    "delay_s": 8,
}
ANSWERING = {"text": "The word is {word}.", "take": [{"name": "word", "after": "word=<", "before": ">"}]}


def provider(place: Path, *steps: dict[str, Any]) -> contextlib.AbstractContextManager[Model]:
    """Play steps to whoever shows the credential, and refuse everybody else."""
    agent = {"id": "gateway", "match": {"key": CREDENTIAL}, "steps": list(steps)}
    script = {"schema": "runner-e2e.scripted-model/v1", "agents": [agent]}
    return running_model(parse_script(json.dumps(script), "provider.yaml", {}), place / "provider.ndjson")


def find_holders(cell: int) -> list[str]:
    """Return the processes with the credential in their variables or words: the cell itself as `cell`."""
    found = []
    for process in psutil.process_iter(["pid", "name"]):
        with contextlib.suppress(psutil.Error, OSError):
            about = Path(f"/proc/{process.pid}")
            if CREDENTIAL.encode() in (about / "cmdline").read_bytes():
                found.append(f"words of {process.name()} ({process.pid})")
            if CREDENTIAL.encode() in (about / "environ").read_bytes():
                found.append("cell" if process.pid == cell else f"{process.name()} ({process.pid})")
    return found


def find_files(cell: int) -> list[str]:
    """Return the files that hold the credential of all attempts of the cell's user.

    `cell` is the process whose own, or whose child's, these are.
    """
    users = {process.uids().real for process in (psutil.Process(cell), *psutil.Process(cell).children())}
    found = []
    for top in Path("/var/tmp").glob("re-*"):
        with contextlib.suppress(OSError):
            if top.stat().st_uid not in users:
                continue
        for directory, _, names in os.walk(top):
            for path in (Path(directory, name) for name in names):
                with contextlib.suppress(OSError):
                    if path.is_file() and not path.is_symlink() and CREDENTIAL.encode() in path.read_bytes():
                        found.append(str(path))
    return found


def assert_absent(evidence: Evidence) -> None:
    """No file of the evidence may hold the credential."""
    for path in evidence.directory.rglob("*"):
        assert path.is_dir() or CREDENTIAL.encode() not in path.read_bytes(), path
