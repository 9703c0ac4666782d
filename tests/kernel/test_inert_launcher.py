"""The suite itself: it fails with a launcher that restricts nothing, and it leaves no case out."""

import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from kernel.harness import SECRET, Box

pytestmark = pytest.mark.kernel

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[1]
INERT = HERE / "programs" / "inert_launcher.py"
MODULES = sorted(
    path.name for path in HERE.glob("test_*.py") if "\n@pytest.mark.denies\n" in path.read_text()
)


def suite(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run pytest on its own, without the plugins and variables of the run that asks."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTEST_", "RUNNER_E2E_TEST_"))
    }
    words = ("-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", "--color=no", *arguments)
    return subprocess.run(
        [sys.executable, *words],
        cwd=PROJECT,
        env=environment | variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def is_for_root_only(case: ET.Element) -> bool:
    skipped = case.find("skipped")
    return skipped is not None and str(skipped.get("message")).startswith("only root can")


@pytest.mark.parametrize("shard", [0, 1])
def test_every_denial_is_missed_with_an_inert_launcher(shard: int, tmp_path: Path) -> None:
    """S-48: each test that expects a denial fails, by name; none passes, none is skipped."""
    report = tmp_path / "report.xml"
    run = suite(
        "-q",
        "--tb=no",
        f"--junit-xml={report}",
        *("-m", "denies"),
        *(f"tests/kernel/{module}" for module in MODULES[shard::2]),
        RUNNER_E2E_TEST_LAUNCHER=str(INERT),
        RUNNER_E2E_TEST_ONE_OF_EACH="1",
    )

    assert run.returncode == 1, run.stdout + run.stderr
    cases = list(ET.parse(report).iter("testcase"))
    others = [case for case in cases if case.find("failure") is None]
    if os.geteuid() != 0:
        others = [case for case in others if not is_for_root_only(case)]
    assert [case.get("name") for case in others] == []
    modules = {str(case.get("classname")).rpartition(".")[2] for case in cases}
    assert modules == {Path(module).stem for module in MODULES[shard::2]}


@pytest.mark.denies
def test_an_inert_launcher_is_caught_by_the_simplest_denial(box: Box) -> None:
    """S-48: the table of one, in this process."""
    box.denies(("read", box.secret))
    assert box.control("cat", box.secret).text == SECRET


def test_a_kernel_weaker_than_expected_fails_every_test() -> None:
    """S-48: and is not skipped."""
    test = "tests/kernel/test_paths.py::test_a_hidden_directory_lies_next_to_ordinary_files"
    run = suite("-q", "--tb=line", test, EXPECT_ABI="999")

    assert run.returncode == 1, run.stdout + run.stderr
    assert "these tests need 999" in run.stdout
    assert not re.search(r"\d+ (passed|skipped)", run.stdout)


def test_every_case_is_tested() -> None:
    """S-01 to S-50, by their numbers in the docstrings."""
    texts = [path.read_text() for path in HERE.glob("test_*.py") if path != Path(__file__)]
    named = set(re.findall(r"S-\d\d", "\n".join(texts))) | {"S-48"}

    assert [f"S-{number:02}" for number in range(1, 51) if f"S-{number:02}" not in named] == []
