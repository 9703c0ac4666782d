"""A target to run command cells on: a git checkout with a harness of its own, and a catalog of its cells.

Its harness is `e2e.target`, whose `mischief` says how a test makes it misbehave.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from action.act import commit, git
from e2e.checkout import PROJECT, Checkout
from e2e.target.cells import CELLS, TargetCell
from e2e.target.mischief import MISCHIEF
from e2e.target.results import RESULTS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# `modern` reads the selected-id variable, `old` knows arguments alone, `own-sandbox` is modern and brings a
# file that makes it the owner of its sandbox, `gateway` is modern and reads where a gateway is.
Variant = Literal["modern", "old", "own-sandbox", "gateway"]

HARNESS = "tests/runner-e2e"
CAMPAIGN = "PAPERCLIP_E2E_CAMPAIGN_ID"
IMAGE = f"registry.example/paperclip@sha256:{'0' * 64}"
SOURCES = Path(__file__).resolve().parent / "target"
# What a harness needs of the tests beside its own modules.
_SHARED = ("e2e/programs/target_harness.py",)
_EXTRA: Mapping[Variant, tuple[str, ...]] = {
    "modern": (),
    "old": ("old/selectors.ts", "old/launch.ts"),
    "own-sandbox": ("own_sandbox/agent-filesystem-sandbox.ts",),
    "gateway": ("with_gateway/gateway.ts",),
}
_IGNORED = f"__pycache__/\n/{RESULTS}*/\n"
_TIMEOUTS = {"local": 300_000, "daytona": 600_000}


@dataclass(frozen=True, slots=True)
class Target:
    """A checkout at commit `sha`; `runner` is the program that stands for the product's own runnerd."""

    path: Path
    sha: str
    harness_command: str
    runner: Path
    uid: int | None = None

    @property
    def words(self) -> list[str]:
        """The harness command as a list."""
        return shlex.split(self.harness_command)

    @property
    def results(self) -> Path:
        """Where the harness leaves its results."""
        return self.path / RESULTS

    def attempts(self) -> list[Path]:
        """Return the directories of all packaged attempts."""
        return sorted(path.parent for path in self.results.glob("*/*/*/*/*/attempt-*/playwright.log"))


def make_target(place: Path, *, variant: Variant = "modern", checkout: Checkout | None = None) -> Target:
    """Make the checkout as `place/target` and commit it, and put its runner into `place/bin`.

    `place` must not lie below /tmp: see `e2e.checkout.private_directory`. `checkout` says which
    interpreter and library the harness uses, and who owns what is made.
    """
    with_what = checkout or Checkout(PROJECT, Path(sys.executable))
    path = place / "target"
    _write_harness(path / HARNESS, variant)
    (path / ".gitignore").write_text(_IGNORED)
    (path / "package.json").write_text('{"name": "target", "private": true}\n')
    git(path, "init", "--quiet", "--initial-branch=main")
    commit(path)
    runner = place / "bin" / "paperclip-runnerd"
    runner.parent.mkdir()
    shutil.copyfile(PROJECT / "lib/runner_e2e/reference/runnerd.py", runner)
    runner.chmod(stat.S_IRWXU | stat.S_IRGRP | stat.S_IXGRP | stat.S_IROTH | stat.S_IXOTH)
    if with_what.uid is not None:
        for owned in (path, *path.rglob("*"), runner.parent, runner):
            os.chown(owned, with_what.uid, with_what.uid, follow_symlinks=False)
    return Target(
        path=path,
        sha=(path / ".git/refs/heads/main").read_text().strip(),
        harness_command=shlex.join(
            [str(with_what.python), f"{HARNESS}/harness.py", str(with_what.project / "lib")]
        ),
        runner=runner,
        uid=with_what.uid,
    )


def write_mischief(path: Path, *starts: Mapping[str, object]) -> dict[str, str]:
    """Write what each start of the harness does wrong, one after the other; return the variable for it.

    Give its name to `pass-env` too. The last one holds for all further starts.
    """
    path.write_text(json.dumps(list(starts)))
    path.chmod(0o666)  # the harness may run as another user
    return {MISCHIEF: str(path)}


def job_environment(target: Target, cell: str) -> dict[str, str]:
    """Return what a job gives a harness for a cell: a runner, its credentials, a campaign."""
    found = find_cell(cell)
    environ = {name: make_up_credential(name) for name in found.credentials}
    if found.environment == "daytona":
        environ |= {"PAPERCLIP_E2E_DAYTONA_IMAGE": IMAGE}
        environ |= {"PAPERCLIP_RUNNER_REMOTE_BINARY_PATH": str(target.runner)}
    return {**environ, "PAPERCLIP_RUNNER_BINARY": str(target.runner), CAMPAIGN: "c-0123456789abcdef"}


def make_up_credential(name: str) -> str:
    """Return the value that a test's job has for a credential."""
    return f"{name.lower().replace('_', '-')}-of-the-target-test"


def find_cell(cell: str) -> TargetCell:
    """Return a cell of the target by its id."""
    (found,) = (one for one in CELLS if one.id == cell)
    return found


def catalog(target: Target) -> Path:
    """Write a catalog of exactly the target's cells beside its checkout."""
    path = target.path.parent / "catalog.yaml"
    path.write_text(json.dumps(build_catalog(CELLS), indent=1))  # JSON is YAML
    return path


def build_catalog(cells: Sequence[TargetCell]) -> dict[str, Any]:
    """Return the catalog of some cells."""
    return {
        "schema": "runner-e2e.catalog/v1",
        "expectedMatrixSize": len(cells),
        "suites": [_describe_suite(name, cells) for name in _unique(cell.suite for cell in cells)],
        "profiles": [_describe_profile(name, cells) for name in _unique(cell.profile for cell in cells)],
        "environments": [_ENVIRONMENTS[name] for name in _unique(cell.environment for cell in cells)],
        "tasks": [_describe_task(name, cells) for name in _unique(cell.case for cell in cells)],
    }


_ENVIRONMENTS: Mapping[str, Mapping[str, Any]] = {
    "local": {
        "id": "local",
        "label": "This machine",
        "groups": ["local"],
        "driver": "local",
        "provider": "local",
        "lifecycle": {
            "setup": "instance_managed",
            "probe": "run_context_via_api",
            "cleanup": "instance_shutdown",
        },
        "expectedExecutionTarget": {"kind": "local"},
    },
    "daytona": {
        "id": "daytona",
        "label": "A sandbox elsewhere",
        "groups": ["daytona"],
        "driver": "sandbox",
        "provider": "daytona",
        "lifecycle": {
            "setup": "create_via_api",
            "probe": "run_context_via_api",
            "cleanup": "delete_via_api_and_destroy_leases",
        },
        "expectedExecutionTarget": {"kind": "remote", "transport": "sandbox"},
        "credential": "DAYTONA_API_KEY",
    },
}


def _write_harness(directory: Path, variant: Variant) -> None:
    modules = directory / "e2e" / "target"
    modules.mkdir(parents=True)
    for source in SOURCES.glob("*.py"):
        shutil.copyfile(source, modules / source.name)
    for name in _SHARED:
        (directory / name).parent.mkdir(parents=True)
        shutil.copyfile(SOURCES.parents[1] / name, directory / name)
    (modules / "harness.py").rename(directory / "harness.py")
    for name in ("selectors.ts", "launch.ts", *_EXTRA[variant]):
        shutil.copyfile(SOURCES / name, directory / Path(name).name)


def _unique(names: Any) -> list[str]:  # noqa: ANN401 - an iterable of names
    return list(dict.fromkeys(names))


def _describe_suite(name: str, cells: Sequence[TargetCell]) -> dict[str, Any]:
    """Return a suite; what its profiles, environments and tasks make beside its cells is left out."""
    own = [cell for cell in cells if cell.suite == name]
    profiles = _unique(cell.profile for cell in own)
    tasks = _unique(cell.case for cell in own)
    environments = _unique(cell.environment for cell in own)
    supported = {(cell.profile, cell.environment) for cell in cells}
    made = [
        f"{name}.{profile}.{environment}.{task}"
        for profile in profiles
        for environment in environments
        if (profile, environment) in supported
        for task in tasks
    ]
    ids = {cell.id for cell in own}
    return {
        "id": name,
        "label": f"Suite {name}",
        "description": "Cells of a target for tests",
        "groups": ["core"],
        "profiles": profiles,
        "environments": environments,
        "tasks": tasks,
        "expectedMatrixSize": len(own),
        "excludedExecutionIds": [one for one in made if one not in ids],
        "manualOnly": own[0].manual,
    }


def _describe_profile(name: str, cells: Sequence[TargetCell]) -> dict[str, Any]:
    own = [cell for cell in cells if cell.profile == name]
    first = own[0]
    adapter = "paperclip_runner" if first.generation == "native" else "opencode_local"
    return {
        "id": name,
        "label": f"Profile {name}",
        "generation": first.generation,
        "adapterType": adapter,
        "provider": first.provider,
        "model": first.model,
        "modelQualification": {"source": "adapter_constant", "qualificationId": name},
        "credential": first.credential,
        "supportedEnvironments": _unique(cell.environment for cell in own),
        "expectedRuntimeMode": first.generation,
        "expectedRuntimeMetadata": {"adapterType": adapter, "provider": first.provider},
        **({"qualificationCandidate": first.candidate} if first.candidate else {}),
    }


def _describe_task(name: str, cells: Sequence[TargetCell]) -> dict[str, Any]:
    first = next(cell for cell in cells if cell.case == name)
    return {
        "id": name,
        "label": f"Case {name}",
        "flow": first.flow,
        "expectedRunCount": first.agents,
        "attemptTimeoutMs": _TIMEOUTS,
        "expectedTerminalState": {"issue": "done", "run": "succeeded"},
        **({"automaticRetryPolicy": "single_attempt"} if first.single_attempt else {}),
    }
