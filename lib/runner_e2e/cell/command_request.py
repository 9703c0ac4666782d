"""What a cell that the target's own harness drives needs to know beside its name. Pure data."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import Literal

from runner_e2e.cell.limits import Spending
from runner_e2e.isolation.admission import is_installed_lane
from runner_e2e.isolation.product import CellTraits

DEFAULT_RESULTS = PurePosixPath("tests/runner-e2e/results")


class Sandbox(StrEnum):
    """Who restricts the launches of a cell, and whether it has any that could be restricted."""

    ACTION = "action"
    TARGET = "target"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandOrder:
    """What the caller says of a target's cell beside its name, before anything is read.

    `command` is a command line, empty for the usual one; `catalog` is None for the target's own list.
    """

    target: Path
    sha: str
    branch: str | None = None
    command: str = ""
    catalog: str | None = None
    transport: Literal["auto", "env", "argv"] = "auto"
    require_hidden_id: bool = False
    credential_name: str | None = None
    credential: str | None = field(default=None, repr=False)
    pass_env: tuple[str, ...] = ()
    results: PurePosixPath = DEFAULT_RESULTS
    allow_root: bool = False
    spending: Spending = field(default_factory=Spending)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRequest:
    """One cell of a target.

    `words` start the target's harness in `target`, its checkout at commit `sha`; `results` is where it
    leaves its results, relative to that. `owner` is who ships the sandbox, `credentials` what the cell
    needs, by name; `secrets` are further values that no evidence may hold. `task` is what the agents are
    told, as far as it is known. `source_ref` is told to the target, for its own records. A harness that has
    packaged a result and does not end is ended after `results_grace_s`; the product allows as much.
    """

    target: Path
    sha: str
    words: tuple[str, ...]
    transport: Literal["env", "argv"]
    owner: Literal["action", "target"]
    traits: CellTraits
    credentials: Mapping[str, str] = field(default_factory=dict, repr=False)
    credential_name: str | None = None
    passed: tuple[str, ...] = ()
    results: PurePosixPath = DEFAULT_RESULTS
    allow_root: bool = False
    spending: Spending = field(default_factory=Spending)
    source_ref: str | None = None
    secrets: tuple[str, ...] = field(default=(), repr=False)
    task: str = ""
    results_grace_s: float = 120.0

    def sandbox(self, environ: Mapping[str, str]) -> Sandbox:
        """Return who restricts the launches: only those of a local native cell go through a wrapper.

        An installed command line starts what it brings.
        """
        if self.traits.generation != "native" or self.traits.remote or is_installed_lane(environ):
            return Sandbox.NONE
        return Sandbox.ACTION if self.owner == "action" else Sandbox.TARGET
