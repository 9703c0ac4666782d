"""Selectors: what each rule keeps, what is refused, and what no selector can do."""

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from runner_e2e.errors import InputError
from runner_e2e.plan.cells import Catalog, Execution
from runner_e2e.plan.selection import (
    SELECTED_ID,
    Selectors,
    check_selectors,
    decide,
    describe_value,
    describe_values,
    select,
    take_selected_id,
)
from unit.plan_cells import build_catalog, build_cell

PLAIN = build_cell(
    "core.codex.local.hello", suite_groups=("core",), profile_groups=("native",), task_groups=("warm",)
)
REMOTE = build_cell("core.codex.daytona.hello", suite_groups=("core",), task_groups=("warm",))
DOTTED = build_cell("chat.opencode.local.agents.change-manager", suite_groups=("chat", "slow"))
MANUAL = build_cell("journeys.codex.local.tour", manual_only=True, task_groups=("onboarding",))
EXPLICIT = build_cell(
    "core.codex.local.marathon",
    suite_groups=("core",),
    task_groups=("slow", "endurance"),
    explicit_group="endurance",
)
# Slow by its suite alone: only the task's own groups open an explicit case.
NAMESAKE = build_cell("chat.opencode.local.flood", suite_groups=("chat", "slow"), explicit_group="flood-only")
BOTH = build_cell("journeys.codex.local.trek", manual_only=True, task_groups=("slow",), explicit_group="slow")
CATALOG = build_catalog(PLAIN, REMOTE, EXPLICIT, DOTTED, NAMESAKE, MANUAL, BOTH)


def change(selectors: Selectors, kind: str, values: tuple[str, ...]) -> Selectors:
    changes: dict[str, Any] = {kind: values}
    return replace(selectors, **changes)


def kept(selectors: Selectors, catalog: Catalog = CATALOG) -> list[Execution]:
    return list(select(catalog, selectors))


@pytest.mark.parametrize(
    ("environ", "selected"),
    [
        pytest.param({}, None, id="absent"),
        pytest.param({SELECTED_ID: ""}, None, id="empty"),
        pytest.param({SELECTED_ID: " \t\r\n\u00a0\ufeff\u2029"}, None, id="blank"),
        pytest.param({SELECTED_ID: "\ufeff a.b.local.c \n"}, "a.b.local.c", id="trimmed"),
        pytest.param({SELECTED_ID: "a\nb"}, "a\nb", id="inside-is-kept"),
        pytest.param({SELECTED_ID: "\x85a\x1c"}, "\x85a\x1c", id="not-blank-in-javascript"),
        pytest.param({SELECTED_ID: "--all"}, "--all", id="looks-like-a-flag"),
    ],
)
def test_the_selected_id_is_trimmed_and_always_taken_out(
    environ: dict[str, str], selected: str | None
) -> None:
    given_environ = {**environ, "PATH": "/bin"}

    assert take_selected_id(given_environ) == (selected, {"PATH": "/bin"})
    assert given_environ == {**environ, "PATH": "/bin"}


@pytest.mark.parametrize(
    ("selectors", "expected"),
    [
        pytest.param(Selectors(all=True), [PLAIN, REMOTE, DOTTED], id="all"),
        pytest.param(Selectors(matrix_json=True), [PLAIN, REMOTE, DOTTED], id="matrix-json-equals-all"),
        pytest.param(Selectors(all=True, matrix_json=True), [PLAIN, REMOTE, DOTTED], id="all-as-json"),
        pytest.param(Selectors(list=True), list(CATALOG.executions), id="unfiltered-list"),
        pytest.param(Selectors(list=True, all=True), list(CATALOG.executions), id="list-of-all"),
        pytest.param(Selectors(ids=(DOTTED.id,)), [DOTTED], id="dotted-case-by-id"),
        pytest.param(Selectors(ids=(MANUAL.id,)), [MANUAL], id="manual-only-by-id"),
        pytest.param(Selectors(ids=(EXPLICIT.id,)), [EXPLICIT], id="explicit-by-id"),
        pytest.param(Selectors(ids=(BOTH.id, PLAIN.id, BOTH.id)), [PLAIN, BOTH], id="ids-in-matrix-order"),
        pytest.param(Selectors(ids=(BOTH.id,), list=True), [BOTH], id="id-in-list"),
        pytest.param(Selectors(ids=(BOTH.id,), matrix_json=True), [BOTH], id="id-in-matrix-json"),
        pytest.param(Selectors(suites=("journeys",)), [MANUAL], id="manual-only-by-suite"),
        pytest.param(Selectors(suites=("core",)), [PLAIN, REMOTE], id="explicit-dropped-by-suite"),
        pytest.param(Selectors(suites=("chat", "core")), [PLAIN, REMOTE, DOTTED], id="suites-or"),
        pytest.param(Selectors(profiles=("codex",)), [PLAIN, REMOTE], id="manual-only-not-by-profile"),
        pytest.param(Selectors(profiles=("codex", "opencode")), [PLAIN, REMOTE, DOTTED], id="profiles-or"),
        pytest.param(
            Selectors(profiles=("codex",), matrix_json=True), [PLAIN, REMOTE], id="manual-only-not-in-json"
        ),
        pytest.param(
            Selectors(profiles=("codex",), list=True), [PLAIN, REMOTE, MANUAL], id="manual-only-listed"
        ),
        pytest.param(Selectors(suites=("core",), list=True), [PLAIN, REMOTE], id="filtered-list-no-explicit"),
        pytest.param(Selectors(cases=("tour", "hello")), [PLAIN, REMOTE], id="manual-only-not-by-case"),
        pytest.param(Selectors(groups=("local", "onboarding"), list=True), [MANUAL], id="group-in-list"),
        pytest.param(Selectors(environments=("daytona",)), [REMOTE], id="environment"),
        pytest.param(
            Selectors(environments=("daytona", "local")), [PLAIN, REMOTE, DOTTED], id="environments-or"
        ),
        pytest.param(Selectors(cases=("agents.change-manager",)), [DOTTED], id="dotted-case"),
        pytest.param(Selectors(cases=("marathon",)), [EXPLICIT], id="explicit-by-case"),
        pytest.param(Selectors(groups=("endurance",)), [EXPLICIT], id="explicit-by-its-group"),
        pytest.param(Selectors(groups=("slow",)), [EXPLICIT, DOTTED], id="explicit-by-a-group-of-the-task"),
        pytest.param(Selectors(groups=("slow", "core")), [EXPLICIT], id="explicit-by-one-of-two-groups"),
        pytest.param(Selectors(groups=("core",)), [PLAIN, REMOTE], id="explicit-not-by-its-suites-group"),
        pytest.param(Selectors(groups=("slow", "chat")), [DOTTED], id="explicit-not-by-its-suites-namesake"),
        pytest.param(
            Selectors(cases=("flood",), groups=("slow",)), [NAMESAKE], id="explicit-by-case-and-group"
        ),
        pytest.param(Selectors(suites=("journeys",), groups=("slow",)), [BOTH], id="manual-and-explicit"),
        pytest.param(Selectors(groups=("warm",)), [PLAIN, REMOTE], id="one-group"),
        pytest.param(Selectors(groups=("warm", "local")), [PLAIN], id="groups-and"),
        pytest.param(Selectors(groups=("core", "native", "warm")), [PLAIN], id="groups-of-all-parts"),
        pytest.param(
            Selectors(suites=("core",), environments=("local",), cases=("hello", "marathon")),
            [PLAIN, EXPLICIT],
            id="every-dimension-counts",
        ),
    ],
)
def test_the_rules_keep(selectors: Selectors, expected: list[Execution]) -> None:
    assert kept(selectors) == expected


@pytest.mark.parametrize(
    ("cell", "selectors", "kept_by_rule", "reason"),
    [
        pytest.param(MANUAL, Selectors(ids=(MANUAL.id,)), (True, 1), "named by its id", id="id-kept"),
        pytest.param(MANUAL, Selectors(ids=(PLAIN.id,)), (False, 1), "not among them", id="id-dropped"),
        pytest.param(MANUAL, Selectors(all=True), (False, 2), "journeys is manual only", id="manual-only"),
        pytest.param(
            BOTH, Selectors(cases=("trek",)), (False, 2), "manual only", id="manual-only-before-explicit"
        ),
        pytest.param(EXPLICIT, Selectors(all=True), (False, 3), "marathon is explicit", id="explicit-of-all"),
        pytest.param(
            EXPLICIT, Selectors(suites=("core",)), (False, 3), "group endurance", id="explicit-of-suite"
        ),
        pytest.param(
            EXPLICIT, Selectors(cases=("hello",), list=True), (False, 3), "explicit", id="filtered-list"
        ),
        pytest.param(PLAIN, Selectors(all=True), (True, 4), "All cells", id="all"),
        pytest.param(BOTH, Selectors(list=True), (True, 4), "without filters", id="list"),
        pytest.param(PLAIN, Selectors(suites=("core",)), (True, 5), "matches every", id="matched"),
        pytest.param(PLAIN, Selectors(matrix_json=True), (True, 5), "No selector narrows", id="matrix-json"),
        pytest.param(PLAIN, Selectors(suites=("chat",)), (False, 5), "suite core is not", id="other-suite"),
        pytest.param(
            PLAIN, Selectors(profiles=("opencode",)), (False, 5), "profile codex is not", id="profile"
        ),
        pytest.param(
            PLAIN, Selectors(environments=("daytona",)), (False, 5), "environment local", id="environment"
        ),
        pytest.param(PLAIN, Selectors(cases=("tour",)), (False, 5), "case hello is not", id="case"),
        pytest.param(
            PLAIN, Selectors(groups=("warm", "slow")), (False, 5), "selected group: slow", id="group"
        ),
    ],
)
def test_a_decision_names_its_rule_and_says_why(
    cell: Execution, selectors: Selectors, kept_by_rule: tuple[bool, int], reason: str
) -> None:
    decision = decide(cell, selectors)

    assert (decision.kept, decision.rule) == kept_by_rule
    assert reason in decision.reason
    assert decision.reason.endswith(".")


@pytest.mark.parametrize(
    ("selectors", "problem"),
    [
        pytest.param(Selectors(ids=("x",), all=True), "id cannot be combined with all", id="id-all"),
        pytest.param(Selectors(ids=("x",), suites=("s",)), "id cannot be combined with suite", id="id-suite"),
        pytest.param(Selectors(ids=("x",), groups=("g",)), "id cannot be combined with group", id="id-group"),
        pytest.param(
            Selectors(ids=("x",), profiles=("p",)), "id cannot be combined with profile", id="id-profile"
        ),
        pytest.param(
            Selectors(ids=("x",), environments=("local",)),
            "id cannot be combined with environment",
            id="id-environment",
        ),
        pytest.param(Selectors(ids=("x",), cases=("c",)), "id cannot be combined with case", id="id-case"),
        pytest.param(
            Selectors(ids=("x",), all=True, cases=("c",), suites=("s",), list=True),
            "id cannot be combined with all, suite, case",
            id="id-before-all",
        ),
        pytest.param(Selectors(all=True, suites=("s",)), "all cannot be combined with suite", id="all-suite"),
        pytest.param(Selectors(all=True, groups=("g",)), "all cannot be combined with group", id="all-group"),
        pytest.param(
            Selectors(all=True, profiles=("p",)), "all cannot be combined with profile", id="all-profile"
        ),
        pytest.param(
            Selectors(all=True, environments=("e",), list=True),
            "all cannot be combined with environment",
            id="all-environment",
        ),
        pytest.param(Selectors(all=True, cases=("c",)), "all cannot be combined with case", id="all-case"),
        pytest.param(Selectors(), "billable runs need all or an explicit selector", id="nothing"),
    ],
)
def test_selectors_that_exclude_each_other_are_refused_before_names_are_looked_up(
    selectors: Selectors, problem: str
) -> None:
    with pytest.raises(InputError, match=problem) as caught:
        kept(selectors)

    assert "--list" in caught.value.remedy


ALL_UNKNOWN = Selectors(
    suites=("no-suite",),
    groups=("no-group",),
    profiles=("no-profile",),
    environments=("nowhere",),
    cases=("no-case",),
)


@pytest.mark.parametrize(
    ("selectors", "problem"),
    [
        pytest.param(ALL_UNKNOWN, "Unknown suite: no-suite", id="suite-first"),
        pytest.param(replace(ALL_UNKNOWN, suites=()), "Unknown group: no-group", id="then-group"),
        pytest.param(
            replace(ALL_UNKNOWN, suites=("core",), groups=()),
            "Unknown profile: no-profile",
            id="then-profile",
        ),
        pytest.param(
            replace(ALL_UNKNOWN, suites=(), groups=("slow",), profiles=()),
            "Unknown environment: nowhere",
            id="then-environment",
        ),
        pytest.param(
            Selectors(cases=("no-case",), environments=("local",)), "Unknown case: no-case", id="case"
        ),
        pytest.param(Selectors(ids=("what.is.local.this",)), "Unknown id: what.is.local.this", id="id"),
        pytest.param(
            Selectors(suites=("zzz", "core", "xxx", "zzz", "yyy")),
            "Unknown suite: zzz, xxx, yyy",
            id="in-order",
        ),
        pytest.param(Selectors(suites=("",)), "Unknown suite: ''", id="empty"),
        pytest.param(Selectors(environments=("Local",)), r"Local \(did you mean local\?\)", id="hint-case"),
        pytest.param(
            Selectors(suites=("qqqqqq", "journey", "cor")),
            r"qqqqqq, journey \(did you mean journeys\?\), cor \(did you mean core\?\)",
            id="hint-per-value",
        ),
        pytest.param(
            Selectors(ids=("chat.opencode.local.agents.change-manger",)),
            r"\(did you mean chat.opencode.local.agents.change-manager\?\)",
            id="hint-id",
        ),
        # A group that only stands on a case as its explicit one is carried by no cell.
        pytest.param(
            Selectors(groups=("flood-only",)), "Unknown group: flood-only", id="group-nobody-carries"
        ),
        pytest.param(Selectors(ids=("core.codex.local",)), "Unknown id: core.codex.local", id="three-parts"),
        pytest.param(Selectors(ids=(f"{PLAIN.id} ",)), "Unknown id: 'core.codex.local.hello '", id="blank"),
    ],
)
def test_unknown_names_are_refused_by_kind_all_at_once(selectors: Selectors, problem: str) -> None:
    with pytest.raises(InputError, match=problem) as caught:
        kept(selectors)

    assert "--list" in caught.value.remedy


def test_only_the_first_unknown_names_come_with_a_hint() -> None:
    with pytest.raises(InputError) as caught:
        kept(Selectors(suites=tuple(f"core{number}" for number in range(9))))

    assert caught.value.problem.count("did you mean core?") == 5
    assert caught.value.problem.endswith("core4 (did you mean core?), core5, core6, core7, core8")


def test_manual_only_and_explicit_cells_are_known() -> None:
    check_selectors(CATALOG, Selectors(suites=("journeys",), cases=("trek", "flood"), groups=("endurance",)))
    check_selectors(CATALOG, Selectors(ids=(BOTH.id, NAMESAKE.id)))


@pytest.mark.parametrize(
    ("selectors", "held_back"),
    [
        pytest.param(Selectors(suites=("chat",), environments=("daytona",)), 0, id="no-such-pair"),
        pytest.param(Selectors(groups=("chat", "core")), 0, id="groups-and"),
        pytest.param(Selectors(cases=("tour",)), 1, id="manual-only-by-case"),
        pytest.param(Selectors(groups=("slow", "local"), profiles=("codex",), cases=("trek",)), 1, id="both"),
        pytest.param(Selectors(suites=("journeys",), profiles=("opencode",)), 0, id="no-such-profile"),
    ],
)
def test_a_selection_of_nothing_is_refused_and_says_what_is_held_back(
    selectors: Selectors, held_back: int
) -> None:
    with pytest.raises(InputError) as caught:
        kept(selectors)

    apart = f", apart from {held_back} that run only when they are named" if held_back else ""
    assert caught.value.problem == f"The selectors match zero cells{apart}"
    assert "--list" in caught.value.remedy


def test_all_of_a_catalog_that_holds_everything_back_says_so() -> None:
    with pytest.raises(InputError, match="apart from 2 that run only when they are named") as caught:
        kept(Selectors(all=True), build_catalog(MANUAL, EXPLICIT))

    assert "suite of a manual-only cell" in caught.value.remedy


def test_an_empty_catalog_is_refused_whatever_is_asked() -> None:
    for selectors in (Selectors(all=True), Selectors(list=True), Selectors(matrix_json=True)):
        with pytest.raises(InputError, match="match zero cells"):
            kept(selectors, build_catalog())


HOSTILE = st.one_of(
    st.text(st.characters(exclude_categories=()), max_size=200),
    st.sampled_from(
        ["a,b", "a\nb", '"', "'", "😀", "::error::x", "\x1b[31m", "\u202ereversed", "--all", "a" * 9999]
    ),
)


@given(values=st.lists(HOSTILE, min_size=1, max_size=20), kind=st.sampled_from(["suites", "cases", "ids"]))
def test_hostile_names_give_one_printable_line_that_names_the_kind(values: list[str], kind: str) -> None:
    values = [value for value in values if value not in {"core", "chat", "hello"}] or ["\n"]

    with pytest.raises(InputError) as caught:
        kept(change(Selectors(), kind, tuple(values)))

    assert caught.value.problem.startswith(f"Unknown {kind[:-1]}: ")
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 4096


def test_ten_thousand_unknown_names_are_shown_in_part_and_counted() -> None:
    values = tuple(f"name-{number}\n" for number in range(10_000))

    with pytest.raises(InputError) as caught:
        kept(Selectors(groups=values))

    problem = caught.value.problem
    shown = problem.count("name-")
    assert problem.startswith(r"Unknown group: 'name-0\n', 'name-1\n'")
    assert problem.endswith(f" and {10_000 - shown} more")
    assert len(problem) < 2200


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        pytest.param("agents.change-manager_2", "agents.change-manager_2", id="a-name"),
        pytest.param("a,b", "'a,b'", id="comma"),
        pytest.param("it's", '"it\'s"', id="quote"),
        pytest.param("", "''", id="empty"),
        pytest.param("😀 é", "'😀 é'", id="emoji"),
        pytest.param("a\r\n\x1b\x7f\u202e\udc80", r"'a\r\n\x1b\x7f\u202e\udc80'", id="control"),
        pytest.param("n" * 121, f"{'n' * 120}...", id="long"),
        pytest.param(" " * 121, f"'{' ' * 120}'...", id="long-and-odd"),
    ],
)
def test_a_value_is_shown_so_that_it_can_be_read(value: str, shown: str) -> None:
    assert describe_value(value) == shown


def test_values_that_grow_when_they_are_escaped_are_counted_rather_than_shown() -> None:
    shown = describe_values(["\U000e0001" * 5000] * 3)

    assert shown == repr("\U000e0001" * 120) + "... and 2 more"


CELLS = st.builds(
    lambda names, suite_groups, task_groups, manual, explicit: build_cell(
        ".".join(names),
        suite_groups=tuple(suite_groups),
        task_groups=tuple(task_groups),
        manual_only=manual,
        explicit_group=explicit,
    ),
    st.tuples(
        st.sampled_from(["s1", "s2"]),
        st.sampled_from(["p1", "p2"]),
        st.sampled_from(["local", "daytona"]),
        st.sampled_from(["c1", "c2", "c.3"]),
    ),
    st.sets(st.sampled_from(["g1", "g2"])),
    st.sets(st.sampled_from(["g1", "g2", "g3"])),
    st.booleans(),
    st.sampled_from([None, None, "g1", "g3"]),
)
CATALOGS = st.lists(CELLS, min_size=1, max_size=8, unique_by=lambda cell: cell.id).map(
    lambda cells: build_catalog(*cells)
)
VALUES = {
    "suites": ["s1", "s2"],
    "groups": ["g1", "g2", "g3"],
    "profiles": ["p1", "p2"],
    "environments": ["local", "daytona"],
    "cases": ["c1", "c2", "c.3"],
}
SELECTORS = st.builds(
    Selectors,
    list=st.booleans(),
    matrix_json=st.just(True),
    **{kind: st.lists(st.sampled_from(values), max_size=2).map(tuple) for kind, values in VALUES.items()},
)


def keep(catalog: Catalog, selectors: Selectors) -> list[Execution]:
    """Return what is kept without the checks, so that an empty selection can be compared too."""
    return [cell for cell in catalog.executions if decide(cell, selectors).kept]


def add(selectors: Selectors, kind: str, value: str) -> Selectors:
    return change(selectors, kind, (*getattr(selectors, kind), value))


def is_held_back(cell: Execution) -> bool:
    return cell.suite.manual_only or cell.task.explicit_group is not None


@given(CATALOGS, SELECTORS, st.data())
def test_a_filter_of_another_kind_only_adds_held_back_cells_that_it_names(
    catalog: Catalog, selectors: Selectors, data: st.DataObject
) -> None:
    kind = data.draw(st.sampled_from([kind for kind in VALUES if not getattr(selectors, kind)] or ["groups"]))
    value = data.draw(st.sampled_from(VALUES[kind]))

    before, after = keep(catalog, selectors), keep(catalog, add(selectors, kind, value))

    for cell in after:
        assert cell in before or is_held_back(cell)
        own = {cell.suite.id, cell.task.id, *cell.task.groups, cell.task.explicit_group}
        assert cell in before or value in own


@given(CATALOGS, SELECTORS, st.sampled_from(["suites", "profiles", "environments", "cases"]), st.data())
def test_another_name_of_a_kind_that_is_given_never_narrows(
    catalog: Catalog, selectors: Selectors, kind: str, data: st.DataObject
) -> None:
    selectors = add(selectors, kind, data.draw(st.sampled_from(VALUES[kind])))
    wider = add(selectors, kind, data.draw(st.sampled_from(VALUES[kind])))

    wide = keep(catalog, wider)

    assert all(cell in wide for cell in keep(catalog, selectors))


@given(CATALOGS, SELECTORS)
def test_a_filtered_cell_has_every_group_and_one_name_of_each_other_kind(
    catalog: Catalog, selectors: Selectors
) -> None:
    for cell in keep(catalog, selectors):
        assert set(selectors.groups) <= set(cell.groups)
        assert not selectors.suites or cell.suite.id in selectors.suites
        assert not selectors.profiles or cell.profile.id in selectors.profiles
        assert not selectors.environments or cell.environment.id in selectors.environments
        assert not selectors.cases or cell.task.id in selectors.cases


@given(CATALOGS, SELECTORS)
def test_a_selection_is_part_of_the_matrix_in_its_order_and_equals_the_decisions(
    catalog: Catalog, selectors: Selectors
) -> None:
    known = {name for cell in catalog.executions for name in (cell.suite.id, cell.profile.id, cell.task.id)}
    known |= {name for cell in catalog.executions for name in (cell.environment.id, *cell.groups)}
    for kind in VALUES:
        names = getattr(selectors, kind)
        selectors = change(selectors, kind, tuple(name for name in names if name in known))
    expected = keep(catalog, selectors)
    assume(expected)

    chosen = list(select(catalog, selectors))

    assert chosen == expected
    positions = [catalog.executions.index(cell) for cell in chosen]
    assert positions == sorted(set(positions))


@given(CATALOGS, st.data())
def test_ids_keep_exactly_what_they_name(catalog: Catalog, data: st.DataObject) -> None:
    ids = data.draw(st.lists(st.sampled_from([cell.id for cell in catalog.executions]), min_size=1))

    chosen = select(catalog, Selectors(ids=tuple(ids)))

    assert {cell.id for cell in chosen} == set(ids)
    assert len(chosen) == len(set(ids))


def test_a_large_catalog_and_ten_thousand_names_are_looked_up_once() -> None:
    cells = [
        replace(PLAIN, id=f"s{suite}.p.local.c{case}") for suite, case in product(range(100), range(300))
    ]
    catalog = build_catalog(*cells)
    ids = tuple(cell.id for cell in cells[:10_000])

    assert select(catalog, Selectors(ids=ids)) == catalog.executions[:10_000]
    with pytest.raises(InputError, match=r"did you mean s99.p.local.c299\?"):
        select(catalog, Selectors(ids=(*ids, "s99.p.locl.c299")))
