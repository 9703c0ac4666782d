"""What `scripts/test` runs for which arguments, and when it calls that a success."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from run_tiers import TIERS, Outcome, build_environ, parse_argv, print_summary, read_counts

if TYPE_CHECKING:
    from pathlib import Path

ALL = ["unit", "kernel", "action", "e2e", "browser"]


@pytest.mark.parametrize(
    ("argv", "checks", "tiers"),
    [
        pytest.param([], True, ALL, id="everything"),
        pytest.param(["--fast"], True, ["unit"], id="fast"),
        pytest.param(["--full"], True, [*ALL, "paperclip"], id="the-real-product-too"),
        pytest.param(["--full", "--unit"], True, [*ALL, "paperclip"], id="full-and-a-tier"),
        pytest.param(["--kernel"], False, ["kernel"], id="one-tier"),
        pytest.param(["--e2e", "--unit"], False, ["unit", "e2e"], id="two-tiers-in-order"),
        pytest.param(["--fast", "--kernel"], True, ["unit", "kernel"], id="fast-and-a-tier"),
        pytest.param(["-k", "probe"], True, ALL, id="only-pytest-arguments"),
        pytest.param(["tests/kernel/test_x.py::test_y"], False, ["kernel"], id="path"),
        pytest.param(["tests"], True, ALL, id="all-tests"),
        pytest.param(["--browser"], False, ["browser"], id="pages"),
        pytest.param(["--paperclip"], False, ["paperclip"], id="the-real-product-when-asked"),
        pytest.param(["tests/paperclip/test_x.py"], False, ["paperclip"], id="path-of-the-real-product"),
    ],
)
def test_arguments_choose_checks_and_tiers(argv: list[str], *, checks: bool, tiers: list[str]) -> None:
    request = parse_argv(argv)

    assert request.checks is checks
    assert [tier.name for tier in request.tiers] == tiers


def test_other_arguments_and_paths_go_to_pytest() -> None:
    request = parse_argv(["--kernel", "--unit", "-x", "tests/kernel/test_x.py", "-k", "probe"])

    assert request.pytest_args == ("-x", "-k", "probe")
    assert [request.paths_of(tier) for tier in request.tiers] == [
        ("tests/unit",),
        ("tests/kernel/test_x.py",),
    ]


@pytest.mark.parametrize(
    ("argv", "extended"),
    [([], True), (["--paperclip"], True), (["--full"], False), (["--full", "--paperclip"], True)],
)
def test_only_a_full_run_leaves_out_what_takes_long(argv: list[str], *, extended: bool) -> None:
    assert parse_argv(argv).extended is extended


def test_every_tier_has_its_directory_and_only_unit_runs_elsewhere() -> None:
    assert [tier.directory for tier in TIERS] == [f"tests/{name}" for name in [*ALL, "paperclip"]]
    assert [tier.name for tier in TIERS if not tier.linux_only] == ["unit"]


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        pytest.param({"CI": "true"}, "6", id="ci"),
        pytest.param({"CI": "true", "EXPECT_ABI": "4"}, "4", id="ci-with-a-choice"),
        pytest.param({"EXPECT_ABI": "7"}, "7", id="choice"),
        pytest.param({}, None, id="developer"),
    ],
)
def test_ci_expects_a_kernel_that_can_do_what_the_tests_show(
    environ: dict[str, str], expected: str | None
) -> None:
    assert build_environ(environ, platform="linux").get("EXPECT_ABI") == expected
    assert "EXPECT_ABI" not in build_environ({"CI": "true"}, platform="darwin")


def test_tests_see_our_programs_first_and_nothing_that_redirects_python() -> None:
    child = build_environ({"PATH": "/bin", "PYTHONPATH": "/x", "HOME": "/h"}, platform="linux")

    assert child["PATH"].endswith("/bin:/bin")
    assert child["HOME"] == "/h"
    assert not [name for name in child if name.startswith("PYTHON")]


def test_counts_come_from_pytests_report(tmp_path: Path) -> None:
    report = tmp_path / "junit.xml"
    report.write_text(
        '<testsuites><testsuite tests="9" failures="2" errors="1" skipped="3"/></testsuites>',
        encoding="utf-8",
    )

    assert read_counts(report) == (3, 3, 3)
    assert read_counts(tmp_path / "absent.xml") == (0, 0, 0)


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        pytest.param([Outcome("mypy", ok=True), Outcome("unit", ok=True, passed=3)], True, id="ok"),
        pytest.param(
            [Outcome("mypy", ok=False), Outcome("unit", ok=True, passed=3)], False, id="check-failed"
        ),
        pytest.param([Outcome("unit", ok=False, passed=3, failed=1)], False, id="test-failed"),
        pytest.param([Outcome("unit", ok=True)], False, id="no-test-in-any-tier"),
        pytest.param(
            [Outcome("unit", ok=True), Outcome("kernel", ok=True, passed=1)], True, id="one-tier-ran"
        ),
        pytest.param([], False, id="nothing-ran"),
    ],
)
def test_success_needs_every_step_and_at_least_one_test(
    outcomes: list[Outcome], *, expected: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    assert print_summary(outcomes) is expected

    counts = capsys.readouterr().out.splitlines()[-1]
    passed, failed = (sum(getattr(o, name) for o in outcomes) for name in ("passed", "failed"))
    assert counts == f"{passed} passed, {failed} failed, 0 skipped"


@pytest.mark.parametrize("processors", [None, 1, 2, 64])
def test_a_tier_that_waits_has_a_worker_more_than_processors_up_to_a_limit(processors: int | None) -> None:
    by_name = {tier.name: tier.count_workers(processors) for tier in TIERS}

    assert by_name["unit"] == min(4, processors or 1)
    assert by_name["e2e"] == min(4, (processors or 1) + 1)
