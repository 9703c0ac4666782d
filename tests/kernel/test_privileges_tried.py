"""The doctor tries privileges out with real launches: capabilities, set-id programs, sudo, with controls."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kernel.harness import SEARCH_PATH, Identity, Installation
from runner_e2e.doctor.findings import Level, Unreadable
from runner_e2e.doctor.isolation import judge_privileges, judge_set_id, judge_sudo
from runner_e2e.doctor.isolation_facts import IsolationFacts
from runner_e2e.doctor.privilege_facts import PrivilegeFacts, Process, Refused, Seen, find_set_id

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

pytestmark = pytest.mark.kernel

PROJECT = Path(__file__).resolve().parents[2]
ROOTS_STATUS = "Uid:\t0\t0\t0\t0\nCapEff:\t000001ffffffffff\nCapBnd:\t000001ffffffffff\nNoNewPrivs:\t0"
SHOW = f"printf '%s\\n' '{ROOTS_STATUS}'"
# What sudo says and does under no_new_privs, and without.
HONEST_SUDO = f"grep -q '^NoNewPrivs:.*1' /proc/self/status && exit 1\n{SHOW}\n"
SUDOS = {
    "honest": HONEST_SUDO,
    "escaping": f"{SHOW}\n",
    "refusing": "exit 1\n",
    "late": "exec sleep 30\n",
    "babbling": "echo '::error::x'\n",
}


@dataclass(frozen=True, slots=True)
class Attempt:
    """A copy of the project and an attempt of the identity's own."""

    place: Path
    identity: Identity
    installation: Installation

    def put_sudo(self, kind: str) -> str:
        """Make a stand-in for sudo, and return the search path that has it first."""
        sudo = self.place / "programs" / "sudo"
        sudo.parent.mkdir()
        sudo.write_text(f"#!/bin/sh\n{SUDOS[kind]}", encoding="utf-8")
        sudo.chmod(0o755)
        return f"{sudo.parent}:{SEARCH_PATH}"

    def run(self, **request: object) -> dict[str, Any]:
        """Return what the driver says, as the identity."""
        asked = {
            "project": str(self.place / "project"),
            "root": str(self.place / "re-tried"),
            "search": SEARCH_PATH,
            **request,
        }
        uid = self.identity.uid if os.geteuid() == 0 else None
        if uid is not None:
            for path in (self.place, *self.place.rglob("*")):
                os.chown(path, uid, uid, follow_symlinks=False)
        result = subprocess.run(
            [*self.installation.program("privilege_driver.py"), json.dumps(asked)],
            env={"PATH": SEARCH_PATH},
            cwd=self.place,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=False,
            user=uid,
            group=uid,
            extra_groups=None if uid is None else [],
        )
        assert (result.returncode, result.stderr) == (0, b""), result
        said: dict[str, Any] = json.loads(result.stdout)
        assert said.pop("left") == ["private"], "the attempt is as it was"
        return said

    def facts(self, **request: object) -> IsolationFacts:
        """Return what was seen, as the judges take it."""
        said = self.run(**request)
        seen = PrivilegeFacts(read_seen(said["outside"]), read_seen(said["inside"]), said["sudo"])
        nothing = Unreadable("not tried")
        return IsolationFacts("python3", nothing, seen, nothing)


def read_seen(row: Mapping[str, Any]) -> Seen:
    programs = {name: read_reached(one) for name, one in row["programs"].items()}
    return Seen(Process(**row["own"]), programs, read_reached(row["sudo"]))


def read_reached(row: dict[str, Any] | None) -> Process | Refused | None:
    if row is None:
        return None
    return Process(**row) if "user" in row else Refused(**row)


@pytest.fixture
def attempt(identity: Identity, installation: Installation) -> Iterator[Attempt]:
    place = Path(tempfile.mkdtemp(prefix="privilege-tests-", dir="/var/tmp"))
    try:
        place.chmod(0o755)
        for name in ("lib", "entrypoints"):
            shutil.copytree(
                PROJECT / name, place / "project" / name, ignore=shutil.ignore_patterns("__pycache__")
            )
        (place / "re-tried" / "private").mkdir(parents=True)
        yield Attempt(place, identity, installation)
    finally:
        shutil.rmtree(place)


def test_a_launch_has_no_privilege_and_set_id_programs_give_it_none(attempt: Attempt) -> None:
    assert find_set_id(SEARCH_PATH), "a set-id program has to be there to show anything"

    facts = attempt.facts()

    assert isinstance(facts.privileges, PrivilegeFacts)
    outside, inside = facts.privileges.outside, facts.privileges.inside
    assert outside.own.user == inside.own.user == attempt.identity.uid
    assert bool(outside.own.effective) == (attempt.identity is Identity.ROOT)
    assert inside.own == Process(attempt.identity.uid, 0, inside.own.bounding, no_new_privileges=True)
    risen = [name for name, one in outside.programs.items() if isinstance(one, Process) and one.effective]
    assert risen
    assert inside.programs.keys() == outside.programs.keys()
    for name in risen:
        became = inside.programs[name]
        assert isinstance(became, Process)
        assert (became.user, became.effective) == (attempt.identity.uid, 0)
    assert judge_privileges(facts).level is Level.OK
    assert judge_set_id(facts).level is Level.OK
    assert judge_sudo(facts).level is Level.OK


def test_without_the_wrapper_every_question_notices(attempt: Attempt) -> None:
    facts = attempt.facts(sandboxed=False, search=attempt.put_sudo("honest"))

    assert judge_privileges(facts).level is Level.ERROR
    assert judge_set_id(facts).level is Level.ERROR
    assert judge_sudo(facts).level is Level.ERROR


@pytest.mark.parametrize(
    ("kind", "level", "words"),
    [
        pytest.param("honest", Level.OK, "and nothing inside", id="honest"),
        pytest.param("escaping", Level.ERROR, "inside a domain root", id="escaping"),
        pytest.param("refusing", Level.OK, "does not let this user in", id="refusing"),
        pytest.param("late", Level.WARNING, "could not be told", id="late"),
        pytest.param("babbling", Level.WARNING, "could not be told", id="babbling"),
    ],
)
def test_what_sudo_does_inside_is_told_by_what_becomes_of_it(
    attempt: Attempt, kind: str, level: Level, words: str
) -> None:
    answer = judge_sudo(attempt.facts(search=attempt.put_sudo(kind)))

    assert answer.level is level, answer
    assert words in answer.found


def test_capabilities_that_a_launcher_leaves_are_noticed(attempt: Attempt) -> None:
    facts = attempt.facts(levels={"capabilities": "off"})

    # An ordinary user has none to leave.
    expected = Level.ERROR if attempt.identity is Identity.ROOT else Level.OK
    assert judge_privileges(facts).level is expected


def test_a_launch_that_is_refused_proves_nothing_and_says_why(attempt: Attempt) -> None:
    said = attempt.run(minimum_abi=90)

    assert said["error"] == "SandboxUnprovenError"
    assert "abi-too-old" in said["problem"]
