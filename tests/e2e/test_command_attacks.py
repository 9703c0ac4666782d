"""A target's harness that attacks what is around it: the runner's files, the record, the action, its guards.

What a domain cannot close is here too, as what it comes to.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from e2e.checkout import SEARCH_PATH
from e2e.command_cells import COMMAND_FILES, Desk, Done, Workshop, read_json, workshop_for
from e2e.target_job import LEGACY, NATIVE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PROGRAM = Path(__file__).parent / "programs" / "attacking_harness.py"
WARDEN, RUN_CELL, WORKER = 1, 2, 3


@pytest.fixture(scope="module", params=["present-user", "ordinary-user"])
def workshop(request: pytest.FixtureRequest) -> Iterator[Workshop]:
    """Copies of the project alone: an attack that succeeds changes what it runs on."""
    name = "editable" if request.param == "present-user" else "ordinary_checkout"
    with workshop_for(request.getfixturevalue(name)) as made:
        shutil.copyfile(PROGRAM, made.place / PROGRAM.name)
        (made.place / PROGRAM.name).chmod(0o644)
        yield made


@dataclass(frozen=True)
class Attack:
    """What is tried in one job, and what came of it."""

    workshop: Workshop
    desk: Desk

    @property
    def plan(self) -> Path:
        return self.desk.path / "plan.json"

    @property
    def project(self) -> Path:
        return self.workshop.checkout.project

    @property
    def tools(self) -> Path:
        """A directory of the search path in which this user can make programs."""
        return self.desk.temporary.with_name("tools")

    @property
    def program(self) -> Path:
        return self.workshop.place / PROGRAM.name

    def run(self, cell: str, *acts: Sequence[object]) -> Done:
        """Run a cell whose harness tries these, below a stand-in for the runner's worker."""
        self.plan.write_text(json.dumps({"attempts": [{"act": act} for act in acts]}))
        self.plan.chmod(0o666)
        python = str(self.workshop.checkout.python)
        words = [python, str(self.program), str(self.plan), *self.workshop.target.words]
        started = self.workshop.start(
            cell,
            desk=self.desk,
            inputs={"harness_command": shlex.join(words)},
            environ={"PATH": f"{self.tools}:{SEARCH_PATH}"},
            program=[str(self.program), "worker", str(self.project / "entrypoints/run_cell.py")],
        )
        with started:
            done = started.finish()
        assert "Traceback" not in done.log, done.log
        return done

    def came_of_it(self) -> set[str]:
        return {attempt["error"] for attempt in read_json(self.plan)["attempts"]}


@pytest.fixture
def attack(workshop: Workshop) -> Attack:
    made = Attack(workshop, workshop.desk())
    made.tools.mkdir()
    if workshop.checkout.uid is not None:
        os.chown(made.tools, workshop.checkout.uid, workshop.checkout.uid)
    return made


def test_command_files_the_record_and_the_action_are_out_of_reach(attack: Attack) -> None:
    desk, project = attack.desk, attack.project
    code = [project / "entrypoints/sweep_cell.py", project / "lib/runner_e2e/__init__.py"]
    (package,) = (project / ".venv").glob("lib/python3*/site-packages/project.pth")
    before = {path: path.read_bytes() for path in (*code, package)}
    evidence = desk.parent / LEGACY
    files = [str(desk.file(name)) for name in COMMAND_FILES]

    done = attack.run(
        LEGACY,
        *(("append", file, "FOREIGN=1\n") for file in files),
        *(("remove", file) for file in files),
        ("rename", str(desk.path / "commands"), str(desk.path / "elsewhere")),
        ("make", str(desk.path / "commands" / "more")),
        ("append", str(evidence / "cell.json"), "{}"),
        ("append", str(evidence / "manifest.json"), "{}"),
        ("remove", str(evidence / "cell.json")),
        ("rename", str(evidence), str(desk.path / "moved")),
        ("rename", str(evidence), str(desk.temporary / "moved")),
        ("rename", str(desk.temporary), str(desk.path / "moved")),
        ("link", "/nowhere", str(desk.temporary / "more")),
        *(("append", str(path), "raise SystemExit\n") for path in before),
        *(("remove", str(path)) for path in before),
        ("append", str(package.with_name("more.pth")), "import os\n"),
        ("append", str(project / "lib" / "more.py"), ""),
        ("rename", str(project / ".venv"), str(project / "moved")),
        ("append", str(attack.tools / "bash"), "#!/bin/sh\n"),
        ("rename", str(attack.tools), str(desk.path / "moved")),
    )

    assert attack.came_of_it() == {"EACCES"}
    assert done.verdict == (0, "passed", None), done.ended
    assert done.cell["harnessDomain"] == {"scopes": "enforced", "writes": "enforced"}
    assert {path: path.read_bytes() for path in before} == before
    assert all("FOREIGN" not in Path(file).read_text() for file in files)


def test_nobody_above_is_ended_read_or_written_to(attack: Attack) -> None:
    acts: list[tuple[Any, ...]] = []
    for distance in (WARDEN, RUN_CELL, WORKER):
        acts += [("end", distance, number) for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP)]
        acts += [("read", distance, name) for name in ("environ", "mem", "maps", "fd/0", "cwd/.")]
        acts += [("limit", distance)]
    acts += [("pipes", WORKER)]

    done = attack.run(LEGACY, *acts)

    assert attack.came_of_it() == {"EACCES", "EPERM"}
    assert done.verdict == (0, "passed", None), done.ended


def test_without_a_domain_the_same_attacks_succeed(attack: Attack) -> None:
    """Else they would prove nothing."""
    acts = [
        ("append", str(attack.desk.file("GITHUB_ENV")), "FOREIGN=1\n"),
        ("append", str(attack.project / "entrypoints/sweep_cell.py"), "#\n"),
        ("append", str(attack.tools / "bash"), "#!/bin/sh\n"),
        ("end", WARDEN, 0),
        ("read", WARDEN, "environ"),
        ("read", RUN_CELL, "environ"),
        ("pipes", WARDEN),
        ("limit", RUN_CELL),
    ]
    attack.plan.write_text(json.dumps({"attempts": [{"act": act} for act in acts]}))
    attack.plan.chmod(0o666)
    words = [str(attack.workshop.checkout.python), str(attack.program), str(attack.plan), "true"]
    nested = f"{shlex.join(['/bin/sh', '-c', f'{shlex.join(words)}; :'])} 2>/dev/null | cat; :"
    ended = attack.workshop.checkout.run(["/bin/sh", "-c", nested], attack.desk.path, {"TMPDIR": "/tmp/x"})

    assert ended.status == 0, ended
    assert attack.came_of_it() == {""}


def test_a_launch_of_another_cell_does_not_stand_for_one_of_this(attack: Attack, workshop: Workshop) -> None:
    """The journal lies below the harness's own wrapper, and no domain can keep the harness from it."""
    earlier = workshop.run(NATIVE)
    assert earlier.verdict == (0, "passed", None), earlier.ended
    lines = earlier.evidence.log.decode(errors="replace").splitlines()
    journalled = next(line[line.index("{") :] for line in lines if "sandbox-launch" in line)

    done = attack.run(
        NATIVE,
        ("append", "{private}/launches.ndjson", f"{journalled}\n"),
        ("set", "PAPERCLIP_RUNNER_BINARY", "PAPERCLIP_RUNNER_REMOTE_BINARY_PATH"),
    )

    assert attack.came_of_it() == {""}
    assert done.verdict == (3, "failed", "sandbox_unproven"), done.ended


def test_permissions_that_are_taken_away_do_not_make_a_cell_pass(attack: Attack) -> None:
    """Modes are not the domain's."""
    desk = attack.desk
    places = [desk.parent / LEGACY, *(desk.file(name) for name in COMMAND_FILES)]

    done = attack.run(LEGACY, *(("mode", str(place), 0) for place in places))

    assert attack.came_of_it() == {""}
    assert done.verdict == (1, "failed", "contaminated"), done.ended
    assert f"the mode of {LEGACY} was changed" in done.cell["message"]
    assert all(place.stat().st_mode & 0o600 == 0o600 for place in places)
