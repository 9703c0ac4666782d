"""Which cells may run with an installed command line, and which with an agent not yet qualified."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from runner_e2e.errors import InputError
from runner_e2e.isolation.admission import INSTALLED_SUITES, REFUSED_WITH_INSTALLED, admit_candidates
from runner_e2e.isolation.harness import HarnessRequest, build_harness_environment
from runner_e2e.isolation.variables import INSTALLED_CLI, INSTALLED_PLUGIN, QUALIFICATION
from unit.environment_cells import CHAT, NATIVE, PI

if TYPE_CHECKING:
    from runner_e2e.isolation.product import Candidate, CellTraits

INSTALLED = dict.fromkeys(INSTALLED_CLI, "/opt/it")
SUITES = (
    "kimi-qualification",
    "extended-harnesses",
    "rich-acp-warm-continuity",
    "pi-native",
    "pi-controls",
    "cursor-native",
    "native-provider-loss",
    "native-active-stop",
    "copilot-protection",
    "copilot-provider-death",
    "core",
)
ADMITTED: dict[Candidate, str] = {
    "kimi": "yes no no no no no no no no no no",
    "pi": "no yes yes yes yes no no no no no no",
    "cursor": "no yes yes no no yes yes yes no no no",
    "copilot": "no yes yes no no no no yes yes yes no",
}


def candidate(
    name: Candidate, suite: str, *, model: str = "m1", manual: bool = True, status: str = "pending"
) -> CellTraits:
    return replace(
        NATIVE,
        suite=suite,
        profile=f"runner-acpx-{name}",
        candidate=name,
        model=model,
        manual_only=manual,
        status=status,
    )


def qualification(source: dict[str, str], *cells: CellTraits) -> str | None:
    return build_harness_environment(source, HarnessRequest(cells=cells)).environment.get(QUALIFICATION)


@pytest.mark.parametrize(
    ("name", "suite", "admitted"),
    [
        pytest.param(name, suite, word == "yes", id=f"{name}-{suite}")
        for name, words in ADMITTED.items()
        for suite, word in zip(SUITES, words.split(), strict=True)
    ],
)
def test_a_candidate_runs_in_its_own_suites(name: Candidate, suite: str, *, admitted: bool) -> None:
    cell = candidate(name, suite)

    if admitted:
        expected = () if name == "kimi" else ((name, "m1"),)
        assert admit_candidates([cell]) == expected
    else:
        with pytest.raises(InputError, match="qualification suite"):
            admit_candidates([cell])


@pytest.mark.parametrize(
    "cell",
    [
        pytest.param(candidate("pi", "pi-native", manual=False), id="suite-is-not-manual"),
        pytest.param(
            replace(candidate("kimi", "kimi-qualification"), profile="runner-kimi"), id="kimi-profile"
        ),
        pytest.param(candidate("pi", "core", status="qualified"), id="qualified-but-not-admitted"),
    ],
)
def test_admission_needs_a_manual_suite_and_the_right_profile(cell: CellTraits) -> None:
    with pytest.raises(InputError, match=cell.profile):
        build_harness_environment({}, HarnessRequest(cells=(cell,)))


def test_candidates_are_announced_once_each_as_they_are_first_seen() -> None:
    cells = (
        NATIVE,
        candidate("pi", "pi-native", model='z "1"'),
        candidate("kimi", "kimi-qualification"),
        candidate("cursor", "extended-harnesses", status="qualified"),
        candidate("copilot", "copilot-protection", model="ä"),
        candidate("pi", "pi-controls", model='z "1"'),
    )

    announced = qualification({QUALIFICATION: "inherited"}, *cells)

    assert announced == '[{"agent":"pi","model":"z \\"1\\""},{"agent":"copilot","model":"ä"}]'
    assert json.loads(announced) == [{"agent": "pi", "model": 'z "1"'}, {"agent": "copilot", "model": "ä"}]


def test_two_models_of_one_agent_conflict() -> None:
    cells = (candidate("pi", "pi-native"), candidate("pi", "pi-native", model="m2"))

    with pytest.raises(InputError, match="agent pi with conflicting models"):
        admit_candidates(cells)


def test_a_qualified_agent_conflicts_with_nothing() -> None:
    cells = (candidate("pi", "pi-native"), candidate("pi", "pi-native", model="m2", status="qualified"))

    assert admit_candidates(cells) == (("pi", "m1"),)


@pytest.mark.parametrize("suite", sorted(INSTALLED_SUITES))
def test_an_installed_command_line_is_kept_and_announces_nothing(suite: str) -> None:
    plugin = dict.fromkeys(INSTALLED_PLUGIN, "/opt/plugin")

    found = build_harness_environment(
        INSTALLED | plugin, HarnessRequest(cells=(replace(PI, suite=suite),))
    ).environment

    assert found.items() >= (INSTALLED | plugin).items()
    assert QUALIFICATION not in found


@pytest.mark.parametrize("name", INSTALLED_CLI)
@pytest.mark.parametrize(
    "change", [pytest.param(True, id="alone-and-empty"), pytest.param(False, id="missing-in-part")]
)
def test_an_installed_command_line_is_described_whole(name: str, *, change: bool) -> None:
    source = {name: ""} if change else {key: value for key, value in INSTALLED.items() if key != name}

    with pytest.raises(InputError, match=name):
        build_harness_environment(source, HarnessRequest(cells=(PI,)))


@pytest.mark.parametrize(
    "cells",
    [
        pytest.param((), id="no-cell"),
        pytest.param((PI, NATIVE), id="one-of-another-kind"),
        pytest.param((replace(PI, profile="runner-acpx-pi-2"),), id="profile"),
        pytest.param((replace(PI, candidate=None),), id="no-candidate"),
        pytest.param((replace(PI, candidate="cursor"),), id="another-candidate"),
        pytest.param((replace(PI, manual_only=False),), id="suite-is-not-manual"),
        pytest.param((replace(PI, suite="cursor-native"),), id="another-suite"),
        pytest.param((CHAT,), id="chat"),
    ],
)
def test_an_installed_command_line_runs_no_other_cells(cells: tuple[CellTraits, ...]) -> None:
    with pytest.raises(InputError, match="only cells of its own"):
        build_harness_environment(INSTALLED, HarnessRequest(cells=cells))


@pytest.mark.parametrize("name", REFUSED_WITH_INSTALLED)
@pytest.mark.parametrize("value", ["hunter2-value", ""])
def test_an_installed_command_line_is_not_changed_in_part(name: str, value: str) -> None:
    with pytest.raises(InputError, match=name) as refusal:
        build_harness_environment({**INSTALLED, name: value}, HarnessRequest(cells=(PI,)))

    assert "hunter2-value" not in str(refusal.value)
