"""`runner-e2e doctor` as a person runs it, on the real kernel: real launches, and whatever it cannot read."""

from __future__ import annotations

import re
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from e2e.checkout import SEARCH_PATH, Checkout, Ended, Surroundings
from runner_e2e.doctor import isolation
from runner_e2e.doctor.findings import Level, answer_all
from runner_e2e.doctor.isolation_facts import observe_isolation
from runner_e2e.doctor.request import DoctorRequest
from runner_e2e.doctor.resource_facts import count_free_ports
from runner_e2e.doctor.runner_facts import can_connect, list_sockets

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = pytest.mark.e2e

KERNEL_OF_ABI = Path(__file__).resolve().parents[1] / "kernel" / "programs" / "kernel_of_abi.py"
SECRET = "ghs_the-value-of-a-secret"
PROVEN = ("isolation.launcher", "isolation.self-test", "isolation.privileges", "isolation.set-id")
HOSTILE = {
    "GITHUB_TOKEN": SECRET,
    "LD_BREAK\n::error::x\x1b[2J": SECRET,
    "RUNNER_TEMP": "/does/not/exist",
    "GITHUB_WORKSPACE": "/proc/self/fd",
    "RUNNER_WORKSPACE": "/proc/1/root",
    "DOCKER_HOST": f"unix:///{'x' * 300}",
    "XDG_RUNTIME_DIR": "/dev/null",
    "ImageOS": "\x1b[2J::error::x",
    "RUNNER_ENVIRONMENT": "\u202eself-hosted",
}


def examine(
    checkout: Checkout,
    desk: Path,
    *words: str,
    before: tuple[str, ...] = (),
    environ: Mapping[str, str] | None = None,
) -> tuple[Ended, dict[str, dict[str, Any]]]:
    """Run `doctor --json`; return how it ended, and its findings by id."""
    ended = checkout.run([*before, *checkout.command("doctor", "--json", *words)], desk, environ)
    assert "Traceback" not in ended.stderr
    document = ended.json()
    assert document["schema"] == "runner-e2e.doctor/v1"
    assert document["exitCode"] == ended.status
    return ended, {one["id"]: one for one in document["findings"]}


def test_a_machine_that_isolates_is_shown_to_by_real_launches(
    checkout: Checkout, desk: Path, surroundings: Surroundings
) -> None:
    ended, found = examine(checkout, desk)

    assert ended.status == 0, found
    assert {name: found[name]["level"] for name in PROVEN} == dict.fromkeys(PROVEN, "ok")
    assert found["secrets.git"]["level"] == "ok"
    assert list(desk.iterdir()) == [], "nothing is written"


def test_a_person_reads_the_same_without_options(checkout: Checkout, desk: Path) -> None:
    ended = checkout.run(checkout.command("doctor"), desk)

    assert ended.status == 0
    assert ended.stderr == ""
    said = " ".join(ended.stdout.split())  # lines end where the terminal's do
    assert "A real launch was kept out of" in said
    assert re.search(r"Cells can run here[^✓]* \([^)]*\bok\)$", said)


def test_hostile_surroundings_end_in_findings_and_show_no_value(checkout: Checkout, desk: Path) -> None:
    ended, found = examine(checkout, desk, environ=HOSTILE)
    shown = checkout.run(checkout.command("doctor", "--explain"), desk, HOSTILE)

    assert ended.status == 0, found
    assert found["resources.space"]["level"] == "warning"
    assert "RUNNER_TEMP" in found["resources.space"]["found"]
    assert "GITHUB_TOKEN" in found["secrets.variables"]["found"]
    assert found["isolation.self-test"]["level"] == "ok"
    for text in (ended.stdout, ended.stderr, shown.stdout, shown.stderr):
        assert SECRET not in text
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert not [line for line in text.splitlines() if line.startswith("::")]


@pytest.mark.parametrize(
    ("claimed", "words", "status", "level"),
    [
        pytest.param(0, (), 3, "error", id="none"),
        pytest.param(2, ("--min-abi", "3", "--preset", "compatible"), 3, "error", id="unusable"),
        pytest.param(5, (), 3, "error", id="too-old"),
        pytest.param(5, ("--min-abi", "5", "--preset", "compatible"), 0, "warning", id="compatible"),
    ],
)
def test_a_kernel_that_cannot_do_it_is_status_3(
    desk: Path, claimed: int, words: tuple[str, ...], status: int, level: str
) -> None:
    checkout = Checkout(Path(__file__).resolve().parents[2], Path(sys.executable))
    kernel = (sys.executable, "-I", str(KERNEL_OF_ABI), str(claimed), str(desk / "asked"))

    ended, found = examine(checkout, desk, *words, before=kernel)

    assert ended.status == status, found
    assert found["kernel.landlock"]["level"] == level
    assert f"ABI {claimed}" in found["kernel.landlock"]["found"]
    assert found["isolation.self-test"]["level"] == level


def test_a_launcher_that_does_nothing_is_found_out() -> None:
    facts = observe_isolation(DoctorRequest(environ={"PATH": SEARCH_PATH}), sandboxed=False)

    found = {one.id: one.level for one in answer_all(isolation.QUESTIONS, facts)}

    assert found["isolation.self-test"] is Level.ERROR
    assert found["isolation.privileges"] is Level.ERROR
    assert found["isolation.set-id"] is Level.ERROR
    assert facts.left == ""


def test_a_service_is_reachable_when_somebody_listens_and_not_by_its_file_alone(desk: Path) -> None:
    path = desk / "docker.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind(str(path))
        found = list(list_sockets({"DOCKER_HOST": f"unix://{path}"}, desk))
        assert found == [("Docker", path)]
        assert not can_connect(path)
        server.listen(1)
        assert can_connect(path)
    assert not can_connect(path)
    assert not can_connect(desk / ("x" * 200))


def test_the_loopback_interface_gives_all_ports_that_are_asked_for() -> None:
    assert count_free_ports() == 16


def test_an_unknown_option_is_status_2(checkout: Checkout, desk: Path) -> None:
    ended = checkout.run(checkout.command("doctor", "--min-abi", "4"), desk)

    assert ended.status == 2
    assert "strict protection needs 6" in ended.stderr
