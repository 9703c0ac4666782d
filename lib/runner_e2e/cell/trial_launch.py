"""A launch that only tries something out: through the production wrapper, and without it for control.

What is tried is an observer, a program of the standard library that answers a nonce with one JSON object. It
stands where runnerd would: in an instance of its own below an attempt's `probe` directory, which every
production launch hides.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from runner_e2e.evidence.journal import parse_journal
from runner_e2e.isolation.layout import DURABLE_SESSIONS, RUN_LOGS
from runner_e2e.launch.install import find_interpreter, install_wrapper, write_configuration
from runner_e2e.probe.asking import ask

TIMEOUT_S = 30.0
SEARCH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
_VARIABLES = {"PATH": SEARCH, "LANG": "C.UTF-8", "HOME": os.devnull}
_SHELL = """\
#!/bin/sh
exec {interpreter} -IS {observer} {place}
"""


@dataclass(frozen=True, slots=True)
class TrialRequest:
    """An attempt's directory with the production policy, as for a probe.

    `sandboxed` false launches without the wrapper, to show what a launcher that does nothing leaves open.
    """

    root: Path
    project: Path
    hide: Sequence[Path]
    hide_optional: Sequence[Path]
    minimum_abi: int
    levels: Mapping[str, str]
    sandboxed: bool = True
    timeout_s: float = TIMEOUT_S


@dataclass(frozen=True, slots=True)
class Trial:
    """The two command lines, where they start, and the journal of the launch."""

    outside: Sequence[Path | str]
    inside: Sequence[Path | str]
    workspace: Path
    timeout_s: float
    _journal: Path

    def ask(self, command: Sequence[Path | str], question: bytes) -> bytes | None:
        """Return what the observer answers, None without an answer in time."""
        try:
            answer, _ = ask(command, question, self.workspace, _VARIABLES, self.timeout_s)
        except (subprocess.TimeoutExpired, OSError):
            return None
        return answer

    def find_refusal(self) -> str:
        """Return why no launch was made, by the journal; empty when one was."""
        records = parse_journal(self._journal.read_bytes()) if self._journal.exists() else []
        refused = [record for record in records if "code" in record]
        if refused:
            return f"{refused[0]['code']}: {refused[0]['message']}"
        return "" if records else "it left no line in the journal"


@contextmanager
def prepared_trial(request: TrialRequest, name: str, observer: Path) -> Iterator[Trial]:
    """Lay a trial out, and remove it afterwards; `name` stands for its run. Raises OSError."""
    root = request.root / "probe"
    root.mkdir(mode=0o700)
    try:
        yield _lay_out(request, name, observer, root)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _lay_out(request: TrialRequest, name: str, observer: Path, root: Path) -> Trial:
    wrapper = install_wrapper(root, request.project)
    instance = root / "paperclip-home" / "instances" / name
    workspace = instance / "workspaces" / "agent"
    place = workspace / "place"
    place.mkdir(mode=0o700, parents=True)
    (root / "s").mkdir(mode=0o700)
    # As a server does before it starts runnerd: without it a launch sees no workspace.
    log = instance / RUN_LOGS / name / workspace.name / f"{name}.ndjson"
    log.parent.mkdir(mode=0o700, parents=True)
    log.touch(mode=0o600)
    copied, shell = root / "bin" / "observer.py", root / "bin" / "observer-shell"
    shutil.copyfile(observer, copied)
    text = _SHELL.format(interpreter=find_interpreter(), observer=copied, place=place)
    shell.write_text(text, encoding="utf-8")
    shell.chmod(0o755)
    journal = write_configuration(
        root,
        runner=shell,
        boot=1,
        instance_parents=[instance.parent],
        hide=[*request.hide, root / "private"],
        # Its own root is what the production policy hides; here it has to stay visible.
        hide_optional=[path for path in request.hide_optional if path != root],
        minimum_abi=request.minimum_abi,
        levels=request.levels,
    )
    session = f"{instance}/{DURABLE_SESSIONS}/{'0' * 64}/runner"
    arguments = ("--state-dir", session, "--session-id", name, "--run-id", name)
    first = wrapper if request.sandboxed else shell
    return Trial([shell], [first, *arguments], workspace, request.timeout_s, journal)
