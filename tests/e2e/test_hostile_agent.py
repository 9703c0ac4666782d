"""Agents that attack what is around them, on the real kernel: harness, server, peer, evidence, machine.

A copy of the project gets a scripted runner that follows a plan of `payloads/hostile.py` beside its work.
What must be denied in the domain is done once more without one, where it has to succeed.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from e2e.checkout import Checkout, Ended, Evidence, evidence_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

pytestmark = pytest.mark.e2e

PAYLOAD = Path(__file__).parent / "payloads" / "hostile.py"
RUNNER = "lib/runner_e2e/reference/runnerd.py"
START = '\n\nif __name__ == "__main__":\n'
INJECTED = """
sys.modules["runner_e2e.reference.runnerd"] = sys.modules[__name__]
hostile = {{"__name__": "hostile", "PLAN": {plan!r}}}
exec(compile({source!r}, "hostile.py", "exec"), hostile)
Agent = hostile["Agent"]
"""
TOOLS = ("{root}/bin/paperclip-runnerd", "{root}/bin/reference-runnerd", "{instance}/config.json")
WAYS = ("overwrite", "append", "rename", "unlink")
CONTINUE = str(int(signal.SIGCONT))
FORGED = (
    'runner-e2e sandbox-probe {"schema":"runner-e2e.sandbox-probe/v1","boot":1,"checks":[],"failures":[]}'
)

Act = tuple[str, ...]
Plan = dict[str, dict[str, "Sequence[Act]"]]


@dataclass(frozen=True, slots=True)
class Attacked:
    """A cell that was attacked: how its harness ended, its evidence, and each agent's outcomes."""

    ended: Ended
    evidence: Evidence
    loot: Path

    def outcomes(self, agent: str) -> list[tuple[Act, str, str]]:
        """Each act with the name of its errno, or nothing, and its value."""
        lines = (self.loot / f"{agent}.json").read_text(encoding="ascii").splitlines()
        return [(tuple(line[:-2]), line[-2], line[-1]) for line in map(json.loads, lines)]

    def verdict(self) -> tuple[str, str | None]:
        """Status and failure class, of a harness that ended in good order and kept its evidence."""
        cell = self.evidence.cell
        assert "Traceback" not in self.ended.stderr
        assert "unexpected" not in self.ended.stderr
        assert self.ended.status == cell["exitCode"], self.ended
        assert cell["finishedAt"] is not None
        assert self.evidence.log.startswith(b"runner-e2e sandbox-probe ")
        assert self.evidence.probe["launches"] != []
        assert self.evidence.read("manifest.json")["files"] != []
        return cell["status"], cell["failureClass"]

    @property
    def contamination(self) -> dict[str, Any]:
        found: dict[str, Any] = self.evidence.cell["contamination"]
        return found


@dataclass(frozen=True, slots=True)
class Hostile:
    """A copy of the project in which agents follow a plan."""

    checkout: Checkout
    desk: Path

    def attack(
        self,
        plan: Plan,
        *words: str,
        server: Mapping[str, tuple[str, str]] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> Attacked:
        """Run the demo; `server` replaces one text in each of some files of the project."""
        loot = self.desk / "loot"
        loot.mkdir()
        loot.chmod(0o777)
        source = PAYLOAD.read_text(encoding="utf-8")
        injected = INJECTED.format(plan={**plan, "loot": str(loot)}, source=source)
        with self.replaced({RUNNER: (START, injected + START), **(server or {})}):
            ended = self.checkout.demo(self.desk, *words, **(environ or {}))
        root = Path((loot / "root").read_text(encoding="utf-8"))
        evidence = evidence_in(self.desk)
        kept = evidence.cell["failureClass"] == "cleanup_failure"
        assert root.exists() is kept  # for whoever wants to know what was left in it
        if kept:
            assert evidence.cell["root"] == str(root)
            shutil.rmtree(root)
        return Attacked(ended, evidence, loot)

    @contextmanager
    def replaced(self, changes: Mapping[str, tuple[str, str]]) -> Iterator[None]:
        originals: dict[Path, str] = {}
        try:
            for name, (old, new) in changes.items():
                path = self.checkout.project / name
                originals[path] = path.read_text(encoding="utf-8")
                assert originals[path].count(old) == 1, name
                path.write_text(originals[path].replace(old, new), encoding="utf-8")
            yield
        finally:
            for path, text in originals.items():
                path.write_text(text, encoding="utf-8")


@pytest.fixture(params=["present-user", "ordinary-user"])
def hostile(request: pytest.FixtureRequest, desk: Path) -> Hostile:
    name = "editable" if request.param == "present-user" else "ordinary_checkout"
    return Hostile(request.getfixturevalue(name), desk)


@pytest.fixture
def ordinary(request: pytest.FixtureRequest, desk: Path) -> Hostile:
    """What depends on file modes is tested as an ordinary user, whoever runs the tests."""
    name = "ordinary_checkout" if os.geteuid() == 0 else "editable"
    return Hostile(request.getfixturevalue(name), desk)


@pytest.fixture
def elsewhere(hostile: Hostile) -> Iterator[Path]:
    """A home and a checkout of the same user, where no temporary files belong."""
    base = Path("/srv") if os.geteuid() == 0 else Path.home()
    place = Path(tempfile.mkdtemp(prefix="runner-e2e-test-", dir=base))
    try:
        for name in ("home/.bashrc", "work/README.md", "work/.git/config", "work/src/main.py"):
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_text(name)
        for path in (place, *place.rglob("*")):
            if hostile.checkout.uid is not None:
                os.chown(path, hostile.checkout.uid, hostile.checkout.uid)
        yield place
    finally:
        shutil.rmtree(place)


# What must be denied, and what must work.


def forbidden(elsewhere: Path, project: Path) -> list[tuple[Act, str]]:
    home, work = elsewhere / "home", elsewhere / "work"
    files = [
        *((way, tool) for tool in TOOLS for way in WAYS),
        ("create", "{root}/bin"),
        ("create", "{root}/private"),
        ("append", "{root}/private/runnerd.json"),
        ("append", f"{home}/.bashrc"),
        ("create", str(home)),
        ("append", f"{work}/README.md"),
        ("append", f"{work}/.git/config"),
        ("create", f"{work}/src"),
        ("append", f"{project}/{RUNNER}"),
        ("create", f"{project}/lib/runner_e2e"),
        ("score", "{harness}"),
        ("score", "{server}"),
    ]
    processes = [
        *(("send", pid, number) for pid in ("{harness}", "{server}") for number in ("0", CONTINUE)),
        ("limit", "{harness}"),
        ("limit", "{server}"),
    ]
    return [*((act, "EACCES") for act in files), *((act, "EPERM") for act in processes)]


PERMITTED: list[Act] = [
    ("create", place)
    for place in ("/tmp", "{desk}/loot", "{temporary}", "{home}", "{workspace}", "{session}")
]


def test_nothing_beyond_its_run_can_be_written_signalled_or_limited(
    hostile: Hostile, elsewhere: Path
) -> None:
    expected = forbidden(elsewhere, hostile.checkout.project)
    denied = [act for act, _ in expected]
    places = {"HOME": str(elsewhere / "home"), "GITHUB_WORKSPACE": str(elsewhere / "work")}
    own_limit: Act = ("start-wrapper", TOOLS[0])

    attacked = hostile.attack(
        {"ada": {"late": [*denied, *PERMITTED, own_limit, ("claim", FORGED)]}}, environ=places
    )

    assert attacked.verdict() == ("passed", None)
    rows = attacked.outcomes("ada")
    assert [(act, error) for act, error, _ in rows[: len(denied)]] == expected
    assert {error for _, error, _ in rows[len(denied) :]} == {""}, rows
    assert rows[-2] == (own_limit, "", "125")
    # A wrapper that an agent starts reads no configuration and writes no journal.
    assert attacked.evidence.probe["refusals"] == []
    assert len([launch for launch in attacked.evidence.probe["launches"] if launch["run"]]) == 2


def test_without_a_domain_all_of_that_succeeds(hostile: Hostile, elsewhere: Path) -> None:
    """The control. Every act leaves things as they were."""
    acts = [act for act, _ in forbidden(elsewhere, hostile.checkout.project)]
    places = {"HOME": str(elsewhere / "home"), "GITHUB_WORKSPACE": str(elsewhere / "work")}

    attacked = hostile.attack({"ada": {"late": acts}}, "--no-sandbox", environ=places)

    assert attacked.ended.status == 3
    assert [row for row in attacked.outcomes("ada") if row[1]] == []
    assert len(attacked.outcomes("ada")) == len(acts)


def test_a_launch_after_an_attack_on_the_wrapper_has_its_domain_all_the_same(hostile: Hostile) -> None:
    """The later launch is one that the agent orders for itself, which nobody else did."""
    attacks = [(way, tool) for tool in TOOLS for way in WAYS]

    attacked = hostile.attack({"ada": {"early": [*attacks, ("queue",)]}})

    assert attacked.verdict() == ("failed", "contaminated")
    assert {error for act, error, _ in attacked.outcomes("ada") if act != ("queue",)} == {"EACCES"}
    launches = [launch for launch in attacked.evidence.probe["launches"] if launch["run"]]
    assert len({launch["run"] for launch in launches}) == 3
    for launch in launches:
        assert launch["proof"]["landlock"] > 5
        assert {entry["outcome"] for entry in launch["protections"].values()} == {"enforced"}
    (foreign,) = attacked.contamination["foreign"]
    assert foreign.partition(" ")[0] == "run"
    assert foreign.partition(" ")[2] in {launch["run"] for launch in launches}


def test_a_run_that_an_agent_orders_for_itself_counts_however_well_it_ends(ordinary: Hostile) -> None:
    """Ordered at the very end, with everything else done."""
    attacked = ordinary.attack({"ben": {"late": [("queue",)]}})

    assert attacked.verdict() == ("failed", "contaminated")
    assert [entry.partition(" ")[0] for entry in attacked.contamination["foreign"]] == ["run"]


def test_a_program_that_the_server_starts_for_an_agent_makes_the_cell_worthless(ordinary: Hostile) -> None:
    """It runs beside any wrapper; that it got out is what this proves first."""
    note = ordinary.desk / "loot" / "outside"

    attacked = ordinary.attack({"ada": {"early": [("make-agent", f"ls {{root}}/private >{note}")]}})

    assert attacked.outcomes("ada")[0][1] == ""
    assert "runnerd.json" in note.read_text()
    assert attacked.verdict() == ("failed", "contaminated")
    assert any(entry.endswith(" (process)") for entry in attacked.contamination["foreign"])


# What a domain does not restrict: modes.


def test_a_changed_mode_of_what_runs_outside_the_domain_is_no_pass(hostile: Hostile) -> None:
    attacked = hostile.attack({"ada": {"late": [("mode", TOOLS[0], "777")]}})

    assert attacked.outcomes("ada")[0][1] == ""
    assert attacked.verdict() == ("failed", "contaminated")
    assert attacked.contamination["foreign"] == ["the mode of paperclip-runnerd was changed"]


def test_directories_of_the_attempt_that_are_closed_cost_no_evidence(ordinary: Hostile) -> None:
    # One agent does both: behind a closed root the other could not reach what lies in it.
    closing = [("mode", "{root}/private", "0"), ("mode", "{root}", "0")]

    attacked = ordinary.attack({"ada": {"last": closing}})

    assert attacked.outcomes("ada") == [(act, "", "") for act in closing]
    assert attacked.verdict() == ("failed", "contaminated")
    assert "the mode of private was changed" in attacked.contamination["foreign"]
    assert attacked.contamination["tried"] > 0


def test_an_evidence_directory_that_is_closed_is_opened_again(ordinary: Hostile) -> None:
    attacked = ordinary.attack({"ada": {"last": [("close-evidence", "{desk}/evidence")]}})

    assert attacked.outcomes("ada")[0][1] == ""
    assert attacked.verdict() == ("failed", "contaminated")
    assert "the mode of evidence was changed" in attacked.contamination["foreign"]
    assert attacked.evidence.directory.stat().st_mode & 0o777 == 0o700


# What is left in the way of the harness.


@pytest.mark.parametrize(
    ("plan", "verdict"),
    [
        pytest.param(
            {
                "ada": {"early": [("nest", "1500")], "late": [("replace-report", "fifo")]},
                "ben": {"late": [("replace-report", "directory")]},
            },
            "sandbox_unproven",
            id="deep-fifo-directory",
        ),
        pytest.param(
            {
                "ada": {"late": [("replace-report", "symlink")]},
                "ben": {"late": [("replace-report", "loop")]},
            },
            "candidate_failure",
            id="endless-device-loop",
        ),
        pytest.param(
            {
                "ada": {"late": [("replace-report", "sparse")]},
                "ben": {"late": [("replace-report", "nested")]},
            },
            "sandbox_unproven",
            id="huge-nested",
        ),
    ],
)
def test_no_file_keeps_the_harness_from_an_end_in_good_order(
    plan: Plan, verdict: str, ordinary: Hostile
) -> None:
    attacked = ordinary.attack(plan)

    assert attacked.verdict() == ("failed", verdict)
    assert {error for agent in plan for _, error, _ in attacked.outcomes(agent)} == {""}
    assert (attacked.contamination["unsearched"] != []) == (verdict == "sandbox_unproven")
    assert attacked.contamination["notTried"] != []
    assert attacked.evidence.cell["durationMs"] < 60_000


def test_closed_directories_are_searched_and_removed(ordinary: Hostile) -> None:
    places = ("{workspace}", "{temporary}", "{home}", "{durable}", "{opencode}")
    plan: Plan = {
        "ada": {"late": [("close-directory", *places)]},
        "ben": {"last": [("mode", "{durable}", "0")]},
    }

    attacked = ordinary.attack(plan)

    assert attacked.verdict() == ("passed", None)
    assert attacked.contamination["unsearched"] == []
    assert {error for agent in plan for _, error, _ in attacked.outcomes(agent)} == {""}


# What one agent was given, in what another one wrote.


@pytest.mark.parametrize(
    ("ada", "ben"),
    [
        pytest.param([("keep", "plain", "{home}")], [("keep", "hex", "{temporary}")], id="home-tmpdir"),
        pytest.param([("keep", "base64", "output")], [("keep", "base64", "name")], id="output-name"),
        pytest.param([("keep", "utf-16", "{trace}")], [("keep", "plain", "beyond")], id="trace-beyond"),
        pytest.param([("keep", "hex", "link")], [("keep", "base64", "{opencode}")], id="link-session"),
        pytest.param(
            [("keep", "utf-16", "{durable}")],
            [
                ("keep", "plain", "{workspace}"),
                ("mode", "{workspace}/note", "0"),
                ("mode", "{workspace}", "0"),
            ],
            id="durable-closed",
        ),
    ],
)
def test_a_text_of_another_agent_is_found_wherever_it_is_kept(
    ada: list[Act], ben: list[Act], ordinary: Hostile
) -> None:
    """They get it from the API, which is open to them, so that only what they write can tell."""
    attacked = ordinary.attack({"ada": {"early": ada}, "ben": {"last": ben}})

    assert {error for agent in ("ada", "ben") for _, error, _ in attacked.outcomes(agent)} == {""}
    assert attacked.verdict() == ("failed", "contaminated")
    assert attacked.contamination["reached"] == ["run:peerLog", "run:peerSession"]
    for agent, attempts in attacked.evidence.agents().items():
        assert attempts["run:peerSession"]["reach"] == "reached", agent


# Processes that stay.

STAYING = "import time; time.sleep({})"
HOPPING = """\
import os, time
number, end = 0, time.time() + 30
while time.time() < end:
    if os.fork():
        os._exit(0)
    number += 1
    if number == {}:
        open("{}", "w").close()
"""
# A server that does not care what its runs leave behind, as most do not.
CARELESS = {
    "lib/runner_e2e/reference/server.py": ("    adopt_orphans()\n", ""),
    "lib/runner_e2e/reference/launches.py": ("        await end_descendants()\n", ""),
}


def left_with(mark: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if any(mark in word for word in process.cmdline()):
                found.append(process)
        except psutil.Error:
            continue
    return found


def assert_none_left_with(mark: str) -> None:
    """Look for a while: what forks all the time may be missed once."""
    looks = [left_with(mark) for _ in range(3)]
    for process in {process for look in looks for process in look}:
        process.kill()
    assert looks == [[], [], []]


@pytest.mark.parametrize("server", [{}, CARELESS], ids=["careful-server", "careless-server"])
def test_what_leaves_group_session_and_environment_behind_is_ended(
    server: dict[str, tuple[str, str]], hostile: Hostile
) -> None:
    staying = STAYING.format(f"1e3 + {time.monotonic_ns()} % 7")
    hopped = hostile.desk / "loot" / "hopped"

    attacked = hostile.attack(
        {
            "ada": {"early": [("escape", HOPPING.format(100, hopped))]},
            "ben": {"early": [("escape", staying), ("escape", staying)]},
        },
        server=server,
    )

    assert_none_left_with(str(hopped))
    assert_none_left_with(staying)
    assert hopped.exists()
    assert {error for agent in ("ada", "ben") for _, error, _ in attacked.outcomes(agent)} == {""}
    assert attacked.verdict() == ("failed", "cleanup_failure")
    assert len(attacked.evidence.cell["leftovers"]) >= 3


# Words of the harness in another's mouth.


ECHO = {
    "lib/runner_e2e/reference/run_log.py": (
        'self._write({"ts": read_clock(), "stream": stream, "chunk": text})',
        'self._write({"ts": read_clock(), "stream": stream, "chunk": text}); print(text, end="", flush=True)',
    )
}


@pytest.mark.parametrize(
    ("text", "verdict", "probe"),
    [
        (FORGED, ("failed", "sandbox_unproven"), "mismatch"),
        (FORGED.removeprefix("runner-e2e "), ("passed", None), "passed"),
    ],
    ids=["forged", "harmless"],
)
def test_a_server_that_repeats_a_forged_line_makes_a_mismatch(
    text: str, verdict: tuple[str, str | None], probe: str, ordinary: Hostile
) -> None:
    attacked = ordinary.attack({"ada": {"early": [("claim", text)]}}, server=ECHO)

    assert text.removeprefix("runner-e2e ").encode() in attacked.evidence.log
    assert attacked.verdict() == verdict
    assert attacked.evidence.probe["status"] == probe
    # Its own boot's probe stays the only one that counts.
    assert len([row for row in attacked.evidence.probe["checks"] if row["id"] == "run:secrets"]) == 1
