"""Two campaigns side by side: which cells are joined, what became of each, and what may be summed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from report_samples import Document, build_attempt, build_cell, build_missing, build_results
from runner_e2e.errors import InputError
from runner_e2e.report.campaign import Campaign, read_campaign
from runner_e2e.report.comparison import Change, Comparison, Flaky, Pair, Unlike, compare

NAME = "chat.opus.local.turns.two"
PASSED = build_cell()
FAILED = build_cell(failureClass="candidate_failure")
BROKEN = build_cell(failureClass="transient_infrastructure")
MISSING = build_missing(NAME)
COST: Document = build_cell()["cost"]


def campaign(*cells: Document, **about: object) -> Campaign:
    document = build_results(*cells)
    document["campaign"] |= about
    return read_campaign(document)


def opaque(*cells: Document) -> Campaign:
    return campaign(*cells, opaque=True)


def join(before: Document, after: Document) -> Comparison:
    return compare(campaign(before, run="1"), campaign(after, run="2"))


def only(comparison: Comparison) -> Pair:
    (pair,) = comparison.pairs
    return pair


@pytest.mark.parametrize(
    ("before", "after", "change", "status"),
    [
        pytest.param(PASSED, PASSED, Change.STILL_PASSING, 0, id="passed-twice"),
        pytest.param(PASSED, FAILED, Change.REGRESSION, 1, id="got-worse"),
        pytest.param(FAILED, PASSED, Change.FIXED, 0, id="got-better"),
        pytest.param(FAILED, FAILED, Change.STILL_FAILING, 0, id="failed-twice"),
        pytest.param(
            FAILED, build_cell(failureClass="contaminated"), Change.STILL_FAILING, 0, id="failed-otherwise"
        ),
        pytest.param(PASSED, BROKEN, Change.UNJUDGED, 2, id="infrastructure-after"),
        pytest.param(BROKEN, FAILED, Change.UNJUDGED, 2, id="infrastructure-before"),
        pytest.param(PASSED, MISSING, Change.UNJUDGED, 2, id="missing-after"),
        pytest.param(
            PASSED, build_cell(status="not_run", failureClass="not_run"), Change.UNJUDGED, 2, id="not-run"
        ),
        pytest.param(PASSED, build_cell(flaky=True), Change.STILL_PASSING, 0, id="passed-by-a-retry"),
        pytest.param(build_cell(flaky=True), FAILED, Change.REGRESSION, 1, id="was-flaky"),
        pytest.param(
            PASSED, FAILED | {"suiteDefinitionHash": "ab" * 32}, Change.REDEFINED, 2, id="another-definition"
        ),
        pytest.param(
            PASSED, FAILED | {"suiteDefinitionHash": None}, Change.REDEFINED, 2, id="definition-untold-once"
        ),
        pytest.param(
            PASSED | {"suiteDefinitionHash": None},
            FAILED | {"suiteDefinitionHash": None},
            Change.REGRESSION,
            1,
            id="definition-untold-twice",
        ),
        pytest.param(PASSED, build_cell("a.b.local.c"), Change.NEW, 2, id="another-cell"),
    ],
)
def test_a_cell_becomes_what_both_ends_tell(
    before: Document, after: Document, change: Change, status: int
) -> None:
    comparison = join(before, after)

    assert comparison.pairs[0].change is change
    assert comparison.exit_code == status


def test_cells_stand_in_the_order_of_the_later_plan_and_those_that_are_gone_last() -> None:
    names = [f"a.b.local.c{number}" for number in range(4)]
    before = campaign(*(build_cell(name) for name in (names[3], names[1], names[0])))
    after = campaign(*(build_cell(name) for name in (names[0], names[2], names[1])))

    assert [(pair.name, pair.change) for pair in compare(before, after).pairs] == [
        (names[0], Change.STILL_PASSING),
        (names[2], Change.NEW),
        (names[1], Change.STILL_PASSING),
        (names[3], Change.GONE),
    ]


def test_what_is_judged_elsewhere_lets_an_unjudged_cell_be() -> None:
    names = ("a.b.local.c", "a.b.local.d")
    before = campaign(*(build_cell(name) for name in names))
    after = campaign(build_cell(names[0]), build_missing(names[1]))

    comparison = compare(before, after)

    assert (comparison.joined, comparison.judged, comparison.exit_code) == (2, 1, 0)


@pytest.mark.parametrize(
    ("before", "after", "flaky"),
    [
        pytest.param(PASSED, FAILED, Flaky.NEITHER, id="changed-between-campaigns"),
        pytest.param(build_cell(flaky=True), PASSED, Flaky.BEFORE, id="before"),
        pytest.param(
            PASSED,
            build_cell(attempts=[build_attempt(1, "failed", "contaminated"), build_attempt(2)]),
            Flaky.AFTER,
            id="after",
        ),
        pytest.param(build_cell(flaky=True), build_cell(flaky=True), Flaky.BOTH, id="both"),
    ],
)
def test_flaky_is_said_of_a_side(before: Document, after: Document, flaky: Flaky) -> None:
    comparison = join(before, after)

    assert only(comparison).flaky is flaky
    assert len(comparison.flakes) == (flaky is not Flaky.NEITHER)


@pytest.mark.parametrize(
    ("before", "after", "costs"),
    [
        pytest.param({}, {"usd": 0.02}, (0.0123, 0.02), id="known-twice"),
        pytest.param({"usd": None, "status": "unavailable"}, {}, Unlike.UNKNOWN, id="unknown-before"),
        pytest.param({}, {"usd": None, "status": "unpriced"}, Unlike.UNKNOWN, id="unpriced-after"),
        pytest.param({}, {"status": "partial"}, Unlike.UNKNOWN, id="known-in-part"),
        pytest.param({"scripted": True}, {}, Unlike.SCRIPTED, id="scripted-before"),
        pytest.param({"scripted": True}, {"scripted": True}, (0.0123, 0.0123), id="scripted-twice"),
        pytest.param({"source": "harness"}, {}, Unlike.SOURCE, id="another-source"),
    ],
)
def test_costs_are_compared_only_where_both_are_known_and_alike(
    before: Document, after: Document, costs: tuple[float, float] | Unlike
) -> None:
    assert only(join(build_cell(cost=COST | before), build_cell(cost=COST | after))).costs == costs


def test_real_and_scripted_prices_have_sums_of_their_own_over_the_cells_that_both_sides_know() -> None:
    def cells(factor: float) -> list[Document]:
        costs = [
            COST | {"usd": 0.1 * factor},
            COST | {"usd": 0.2 * factor},
            COST | {"usd": 5 * factor, "scripted": True},
            COST | ({"usd": None, "status": "unavailable"} if factor > 1 else {"usd": 9.0}),
        ]
        return [
            build_cell(
                f"a.b.local.c{number}", cost=cost, durationMs=None if number == 3 else int(1000 * factor)
            )
            for number, cost in enumerate(costs)
        ]

    comparison = compare(campaign(*cells(1)), campaign(*cells(2)))

    real, scripted = comparison.cost(scripted=False), comparison.cost(scripted=True)
    assert (real.before, real.after, real.cells) == pytest.approx((0.3, 0.6, 2))
    assert (scripted.before, scripted.after, scripted.cells) == (5, 10, 1)
    assert (comparison.duration.before, comparison.duration.change, comparison.duration.cells) == (
        3000,
        3000,
        3,
    )


def test_what_is_not_joined_is_in_no_sum() -> None:
    comparison = join(PASSED, PASSED | {"suiteDefinitionHash": "ab" * 32})

    assert comparison.duration.cells == comparison.cost(scripted=False).cells == 0


def test_campaigns_behind_keys_join_only_each_other() -> None:
    cell = build_cell("c-28b51f552c4c")
    comparison = compare(opaque(cell), opaque(cell | {"failureClass": "candidate_failure"}))

    assert only(comparison).change is Change.REGRESSION
    assert any("key-secret" in note for note in comparison.notes)
    for pair in ((opaque(cell), campaign(PASSED)), (campaign(PASSED), opaque(cell))):
        with pytest.raises(InputError, match="opaque keys"):
            compare(*pair)


@pytest.mark.parametrize(
    ("before", "after", "note"),
    [
        pytest.param(campaign(PASSED), campaign(PASSED), "are the same campaign", id="same"),
        pytest.param(
            campaign(PASSED), campaign(PASSED, repository="other/fork"), "different repositories", id="fork"
        ),
        pytest.param(campaign(PASSED), campaign(run="2"), "share no cell", id="nothing-in-common"),
        pytest.param(campaign(PASSED), campaign(BROKEN, run="2"), "No cell was judged", id="nothing-judged"),
        pytest.param(
            campaign(PASSED | {"suiteDefinitionHash": None}),
            campaign(PASSED | {"suiteDefinitionHash": None}, run="2"),
            "1 of 1 joined cells have no suite definition",
            id="by-name",
        ),
    ],
)
def test_a_note_says_what_a_comparison_rests_on(before: Campaign, after: Campaign, note: str) -> None:
    assert [note in one for one in compare(before, after).notes] == [True]


ENDS = st.sampled_from([PASSED, FAILED, BROKEN, MISSING, build_cell(flaky=True)])
CELLS = st.dictionaries(st.sampled_from([f"a.b.local.c{at}" for at in range(6)]), ENDS)


@given(CELLS, CELLS)
def test_each_cell_is_in_one_group_and_a_regression_alone_ends_with_1(
    before: dict[str, Document], after: dict[str, Document]
) -> None:
    sides = [campaign(*(cell | {"name": name} for name, cell in cells.items())) for cells in (before, after)]
    comparison = compare(*sides)

    assert sorted(pair.name for pair in comparison.pairs) == sorted(before.keys() | after.keys())
    worse = [
        name
        for name, cell in after.items()
        if cell is FAILED and before.get(name, FAILED)["status"] == "passed"
    ]
    assert [pair.name for pair in comparison.of(Change.REGRESSION)] == worse
    assert (comparison.exit_code == 1) is bool(worse)
