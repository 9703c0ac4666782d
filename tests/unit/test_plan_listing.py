"""How the target's own harness is asked, and what comes of its answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2e.programs import target_harness
from e2e.programs.target_harness import CELLS, VARIABLE
from runner_e2e.errors import InputError, TransientInfrastructureError
from runner_e2e.plan.listing import (
    DEFAULT_COMMAND,
    MAX_SINGLE_LISTINGS,
    Listing,
    ListingRefusedError,
    Transport,
    list_target,
    plan_listings,
    plan_single_listings,
    split_command,
)
from runner_e2e.plan.selection import SELECTED_ID, Selectors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FIRST = "core.opencode.local.first-task"
EXPLICIT = "core.opencode.local.long-haul"
MANUAL = "chat-features.opencode.local.agents.change-manager"
OTHER_MANUAL = "chat-features.opencode.local.routines.pause-owned"
BESIDE_ATTENDED = "journeys.opencode.local.after-connect"
ATTENDED = "journeys.opencode.local.connect"


class Target:
    """A target that runs the published rules, and remembers how it was asked."""

    def __init__(self, *, old: bool = False) -> None:
        self.old = old
        self.asked: list[tuple[list[str], str | None]] = []

    def run(self, argv: Sequence[str], variables: Mapping[str, str]) -> bytes:
        assert variables.keys() <= {VARIABLE}
        self.asked.append((list(argv), variables.get(VARIABLE)))
        try:
            return target_harness.answer(argv, variables, old=self.old).encode()
        except target_harness.SelectorError as error:
            raise ListingRefusedError(str(error), "as the process room says it") from error

    def list(self, transport: Transport = "env", **selectors: object) -> tuple[str, ...]:
        chosen = Selectors(**selectors)  # type: ignore[arg-type]  # each test gives what it means
        return list_target(self.run, chosen, transport).execution_ids


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("", DEFAULT_COMMAND, id="not-given"),
        pytest.param(" \n", DEFAULT_COMMAND, id="blank"),
        pytest.param("npx tsx launch.ts", ("npx", "tsx", "launch.ts"), id="words"),
        pytest.param("'/my tools/pnpm' --silent", ("/my tools/pnpm", "--silent"), id="quotes"),
        pytest.param("run $HOME `id` | cat", ("run", "$HOME", "`id`", "|", "cat"), id="no-shell"),
        pytest.param("sh -c 'exec tsx \"$@\"' sh", ("sh", "-c", 'exec tsx "$@"', "sh"), id="own-shell"),
        pytest.param("run\n  launch.ts", ("run", "launch.ts"), id="lines"),
    ],
)
def test_a_command_line_is_parted_as_a_shell_does_it(text: str, words: tuple[str, ...]) -> None:
    assert split_command(text) == words


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("pnpm 'hunter2", id="open-quote"),
        pytest.param("pnpm \\", id="open-escape"),
        pytest.param("'' hunter2", id="no-program"),
        pytest.param("pnpm\0hunter2", id="nul"),
    ],
)
def test_what_is_no_command_line_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(InputError, match="harness-command") as refusal:
        split_command(text)

    assert "hunter2" not in str(refusal.value)


@given(st.text())
def test_any_command_line_is_parted_or_refused(text: str) -> None:
    try:
        words = split_command(text)
    except InputError:
        return
    assert words[0]
    assert not any("\0" in word for word in words)


@pytest.mark.parametrize(
    ("selectors", "argv"),
    [
        pytest.param(Selectors(all=True), ["--all"], id="all"),
        pytest.param(Selectors(matrix_json=True), [], id="unfiltered"),
        pytest.param(Selectors(suites=("a", "b", "a")), ["--suite", "a", "--suite", "b"], id="suites"),
        pytest.param(
            Selectors(
                cases=("x.y",), environments=("local",), profiles=("p",), groups=("g", "h"), suites=("s",)
            ),
            [
                *("--suite", "s", "--group", "g", "--group", "h"),
                *("--profile", "p", "--environment", "local", "--case", "x.y"),
            ],
            id="every-dimension",
        ),
        pytest.param(Selectors(ids=(FIRST, EXPLICIT)), ["--suite", "core"], id="ids-of-one-suite"),
        pytest.param(
            Selectors(ids=(FIRST, MANUAL)), ["--suite", "core", "--suite", "chat-features"], id="ids"
        ),
    ],
)
def test_selectors_become_flags_and_ids_only_the_names_of_their_suites(
    selectors: Selectors, argv: list[str]
) -> None:
    (listing,) = plan_listings(selectors)

    assert listing == Listing(("--matrix-json", *argv))
    assert listing.variables == {}


@pytest.mark.parametrize(
    ("selectors", "problem"),
    [
        pytest.param(Selectors(), "Nothing is selected", id="nothing"),
        pytest.param(Selectors(all=True, suites=("a",)), "cannot be combined", id="all-with-suite"),
        pytest.param(Selectors(ids=(FIRST,), cases=("a",)), "cannot be combined", id="id-with-case"),
        pytest.param(Selectors(ids=("core.opencode.local",)), "Not the id of a cell", id="three-parts"),
        pytest.param(Selectors(ids=("--all",)), "Not the id of a cell", id="flag-as-id"),
        pytest.param(Selectors(suites=("--all",)), "Not the name of a suite", id="flag-as-suite"),
        pytest.param(Selectors(suites=("a;reboot",)), "Not the name of a suite", id="shell-as-suite"),
        pytest.param(Selectors(groups=("",)), "Not the name of a group", id="empty-group"),
        pytest.param(Selectors(profiles=("a,b",)), "Not the name of a profile", id="comma"),
        pytest.param(Selectors(environments=("local\n",)), "Not the name of a env", id="line-end"),
        pytest.param(Selectors(cases=("a\0b",)), "Not the name of a case", id="nul"),
        pytest.param(Selectors(cases=("\ud800🐈",)), "Not the name of a case", id="no-text"),
        pytest.param(
            Selectors(cases=tuple(f"case-{number}" for number in range(10_000))),
            "too many for one command line",
            id="ten-thousand",
        ),
    ],
)
def test_what_cannot_stand_on_a_command_line_is_refused(selectors: Selectors, problem: str) -> None:
    with pytest.raises(InputError) as refusal:
        plan_listings(selectors)

    assert problem in str(refusal.value)
    assert str(refusal.value).isprintable()


def test_cells_that_are_asked_for_alone_travel_in_the_variable() -> None:
    assert plan_single_listings([EXPLICIT], "env") == (Listing(("--matrix-json",), EXPLICIT),)
    assert Listing(("--matrix-json",), EXPLICIT).variables == {SELECTED_ID: EXPLICIT}
    assert SELECTED_ID == VARIABLE


def test_the_product_and_the_target_agree_on_what_selectors_keep() -> None:
    target = Target()

    assert target.list(suites=("core",), environments=("local",)) == (FIRST,)
    assert target.list(cases=("long-haul",)) == (EXPLICIT,)
    assert target.list(groups=("slow",)) == (EXPLICIT,)
    assert MANUAL not in target.list(all=True)
    assert target.asked[0] == (["--matrix-json", "--suite", "core", "--environment", "local"], None)


def test_rows_are_sorted_as_javascript_sorts_and_ids_keep_the_order_of_the_catalog() -> None:
    found = list_target(Target().run, Selectors(suites=("breadth",)), "env")

    assert found.execution_ids == (
        "breadth.codex_native.local.first-task",
        "breadth.codex.local.agents.change-manager",
    )
    assert [job.execution_id for job in found.jobs] == list(found.execution_ids)

    jobs = list_target(Target().run, Selectors(suites=("core",)), "env").jobs
    assert [job.environment_id for job in jobs] == ["daytona", "local"]


@pytest.mark.parametrize(
    ("ids", "calls"),
    [
        pytest.param((FIRST,), 1, id="ordinary"),
        pytest.param((FIRST, FIRST), 1, id="twice"),
        pytest.param((MANUAL, FIRST), 1, id="manual-only"),
        pytest.param((EXPLICIT,), 2, id="explicit"),
        pytest.param((EXPLICIT, MANUAL, FIRST), 2, id="mixed"),
        pytest.param((BESIDE_ATTENDED,), 2, id="in-a-suite-that-is-refused"),
        pytest.param((FIRST, BESIDE_ATTENDED), 3, id="in-two-suites-one-refused"),
    ],
)
@pytest.mark.parametrize("transport", ["env", "auto"])
def test_ids_are_found_wherever_they_are_held_back_and_never_as_an_argument(
    ids: tuple[str, ...], calls: int, transport: Transport
) -> None:
    target = Target()

    found = target.list(transport, ids=ids)

    assert sorted(found) == sorted(set(ids))
    assert len(target.asked) == calls
    assert not any(cell.id in word for argv, _ in target.asked for word in argv for cell in CELLS)


def test_a_target_with_arguments_only_still_lists_ids_by_their_suites() -> None:
    assert Target(old=True).list("argv", ids=(FIRST, MANUAL)) == (FIRST, MANUAL)


@pytest.mark.parametrize(
    ("ids", "named"),
    [
        pytest.param((EXPLICIT, FIRST), EXPLICIT, id="explicit"),
        pytest.param((FIRST, "core.opencode.local.nope"), "core.opencode.local.nope", id="unknown"),
    ],
)
def test_with_arguments_only_a_held_back_cell_is_refused_by_name(ids: tuple[str, ...], named: str) -> None:
    target = Target(old=True)

    with pytest.raises(InputError, match="takes an id only as an argument") as refusal:
        target.list("argv", ids=ids)

    assert named in str(refusal.value)
    assert FIRST not in str(refusal.value)
    assert "suite and case" in refusal.value.remedy
    assert len(target.asked) == 1


def test_with_arguments_only_a_refused_suite_stays_refused() -> None:
    with pytest.raises(ListingRefusedError, match="attended"):
        Target(old=True).list("argv", ids=(BESIDE_ATTENDED,))


@pytest.mark.parametrize(
    "unknown",
    [
        pytest.param("core.opencode.local.nope", id="case"),
        pytest.param("nope.opencode.local.first-task", id="suite"),
        pytest.param("core.opencode.daytona.long-haul-2", id="combination"),
        pytest.param(ATTENDED, id="attended"),
    ],
)
def test_every_unknown_id_is_named_at_once(unknown: str) -> None:
    with pytest.raises(InputError, match="Unknown id") as refusal:
        Target().list(ids=(FIRST, unknown, "core.opencode.local.never"))

    assert unknown in str(refusal.value)
    assert "core.opencode.local.never" in str(refusal.value)
    assert FIRST not in str(refusal.value)


def test_a_variable_that_is_ignored_is_noticed() -> None:
    with pytest.raises(InputError, match="lists 4 cells where a variable selects") as refusal:
        Target(old=True).list("auto", ids=(EXPLICIT,))

    assert "argv" in refusal.value.remedy


def test_more_cells_than_can_be_asked_for_alone_are_refused_before_any_is() -> None:
    target = Target()
    ids = tuple(f"core.opencode.local.nope-{number}" for number in range(MAX_SINGLE_LISTINGS + 1))

    with pytest.raises(InputError, match=f"{MAX_SINGLE_LISTINGS + 1} of the ids"):
        target.list(ids=ids)

    assert len(target.asked) == 1


@pytest.mark.parametrize("error", [InputError("not found", "x"), TransientInfrastructureError("late", "x")])
def test_a_harness_that_does_not_run_is_asked_once(error: Exception) -> None:
    calls = 0

    def run(_argv: Sequence[str], _variables: Mapping[str, str]) -> bytes:
        nonlocal calls
        calls += 1
        raise error

    with pytest.raises(type(error), match=r"not found|late"):
        list_target(run, Selectors(ids=(FIRST,)), "env")

    assert calls == 1


@pytest.mark.parametrize(
    "selectors",
    [
        pytest.param(Selectors(suites=("core",)), id="suite"),
        pytest.param(Selectors(profiles=("opencode",)), id="profile"),
        pytest.param(Selectors(environments=("daytona",)), id="environment"),
        pytest.param(Selectors(cases=("long-haul",)), id="case"),
    ],
)
def test_a_command_that_drops_its_arguments_cannot_widen_a_selection(selectors: Selectors) -> None:
    with pytest.raises(InputError, match="which was not asked for"):
        list_target(lambda _argv, _variables: Target().run(["--all"], {}), selectors, "env")


def test_a_command_that_ignores_groups_cannot_widen_a_selection() -> None:
    with pytest.raises(InputError, match="ignores groups"):
        list_target(lambda _argv, _variables: Target().run(["--all"], {}), Selectors(groups=("slow",)), "env")


def test_no_cell_at_all_is_refused() -> None:
    with pytest.raises(InputError, match="lists no cell"):
        list_target(
            lambda _argv, _variables: b'{"include":[],"needsDaytona":false,"executionIds":[]}',
            Selectors(all=True),
            "env",
        )


@given(
    st.lists(st.sampled_from([cell.id for cell in CELLS if cell.flow == "single_turn"]), min_size=1),
)
def test_any_ids_of_the_target_come_back_exactly(ids: list[str]) -> None:
    found = list_target(Target().run, Selectors(ids=tuple(ids)), "env")

    assert {job.execution_id for job in found.jobs} == set(found.execution_ids) == set(ids)
    assert len(found.jobs) == len(found.execution_ids) == len(set(ids))
