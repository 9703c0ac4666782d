"""Flake rates: what counts, how sure it is, and which campaigns may stand together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from report_samples import SHA, Document, build_cell, build_missing, build_results
from runner_e2e.errors import InputError
from runner_e2e.report.campaign import Campaign, read_campaign
from runner_e2e.report.flakes import Flakes, History, Rate, build_flakes

NAME = "chat.opus.local.turns.two"
PASSED: Document = {}
FLAKY: Document = {"flaky": True}
FAILED: Document = {"failureClass": "candidate_failure"}
BROKEN: Document = {"failureClass": "transient_infrastructure"}


def campaign(day: int, *cells: Document, **about: object) -> Campaign:
    document = build_results(*cells)
    document["campaign"] |= {"run": str(day)} | about
    document["generatedAt"] = f"2026-11-{day:02}T10:00:00.000+00:00"
    for cell in document["cells"]:
        cell["startedAt"] = cell["startedAt"] and f"2026-11-{day:02}T08:00:00.000+00:00"
    return read_campaign(document)


def history(*changes: Document) -> History:
    flakes = build_flakes([campaign(day, build_cell(**one)) for day, one in enumerate(changes, 1)])
    (found,) = flakes.histories
    return found


def test_a_history_counts_what_was_seen_judged_and_flaky() -> None:
    found = history(PASSED, FLAKY, FAILED, BROKEN, PASSED)

    assert (found.seen, found.judged, found.passed, found.failed, found.flaky) == (5, 4, 3, 1, 1)
    assert (found.rate.part, found.rate.whole) == (1, 4)


@pytest.mark.parametrize(
    ("ends", "flips"),
    [
        pytest.param([PASSED, PASSED], 0, id="never"),
        pytest.param([PASSED, FAILED, FAILED], 1, id="once"),
        pytest.param([PASSED, FAILED, PASSED], 2, id="and-back"),
        pytest.param([PASSED, BROKEN, PASSED], 0, id="what-is-not-judged-is-passed-over"),
        pytest.param([PASSED, BROKEN, FAILED], 1, id="over-what-is-not-judged"),
        pytest.param([FLAKY, PASSED], 0, id="both-passed"),
    ],
)
def test_a_flip_is_a_change_from_one_judged_campaign_to_the_next(ends: list[Document], flips: int) -> None:
    assert history(*ends).flips == flips


def test_flips_at_one_commit_are_apart_from_those_of_a_change() -> None:
    other = {"targetSha": "b" * 40}
    found = history(PASSED, FAILED, FAILED | other, PASSED | other, FAILED | {"targetSha": SHA})

    assert (found.flips, found.flips_at_one_commit) == (3, 2)


def test_without_a_known_commit_no_flip_is_at_one() -> None:
    campaigns = [
        campaign(day, build_cell(**one, targetSha=None), targetSha=None)
        for day, one in enumerate((PASSED, FAILED), 1)
    ]

    assert [(one.flips, one.flips_at_one_commit) for one in build_flakes(campaigns).histories] == [(1, 0)]


def test_campaigns_count_in_the_order_of_their_time_however_they_are_given() -> None:
    campaigns = [campaign(day, build_cell(**one)) for day, one in ((3, FAILED), (1, PASSED), (2, PASSED))]
    flakes = build_flakes(campaigns)

    assert [one.run for one in flakes.campaigns] == ["1", "2", "3"]
    assert flakes.histories[0].flips == 1


def test_a_report_made_again_later_keeps_its_campaigns_place() -> None:
    document = build_results(build_cell(**FAILED, startedAt="2026-10-01T08:00:00Z"))
    document["campaign"]["run"] = "old"
    old = read_campaign(document | {"generatedAt": "2026-12-31T00:00:00Z"})

    assert [one.run for one in build_flakes([campaign(1, build_cell()), old]).campaigns] == ["old", "1"]


def test_another_definition_is_another_cell() -> None:
    flakes = build_flakes(
        [campaign(1, build_cell()), campaign(2, build_cell(**FAILED, suiteDefinitionHash="ab" * 32))]
    )

    assert [(one.seen, one.flips) for one in flakes.histories] == [(1, 0), (1, 0)]
    assert flakes.notes == ("1 cell in more than one row: one for each suite definition.",)


def test_the_surest_flakes_come_first() -> None:
    def cells(day: int) -> list[Document]:
        failing = FAILED if day == 2 else PASSED
        return [
            build_cell("a.b.local.steady"),
            build_cell("a.b.local.flips", **failing),
            build_cell("a.b.local.often", flaky=day != 1),
            *([build_cell("a.b.local.once", flaky=True)] if day == 1 else []),
            build_missing("a.b.local.missing"),
        ]

    flakes: Flakes = build_flakes([campaign(day, *cells(day)) for day in range(1, 9)])

    assert [one.name.rpartition(".")[2] for one in flakes.histories] == [
        "often",
        "once",
        "flips",
        "missing",
        "steady",
    ]
    assert [one.rate.value for one in flakes.histories] == [7 / 8, 1, 0, None, 0]
    assert [one.steady for one in flakes.histories] == [False, False, False, True, True]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(campaign(1, build_cell()), campaign(1, build_cell()), id="the-same"),
        pytest.param(
            campaign(1, build_cell()),
            campaign(2, build_cell(), run="1", attempt=2),
            id="two-attempts-of-a-run",
        ),
        pytest.param(
            campaign(1, build_cell(), repository=None),
            campaign(1, build_cell(), repository=None, run="another"),
            id="one-execution-of-a-cell",
        ),
        pytest.param(
            campaign(1, build_cell(), repository=None, run="77"),
            campaign(2, build_cell(), repository=None, run="77"),
            id="a-run-whose-repository-is-not-told",
        ),
    ],
)
def test_a_campaign_that_is_there_twice_is_refused(first: Campaign, second: Campaign) -> None:
    with pytest.raises(InputError, match="given twice"):
        build_flakes([first, campaign(9, build_cell()), second])


def test_runs_of_other_repositories_may_have_one_number() -> None:
    flakes = build_flakes(
        [campaign(1, build_cell()), campaign(2, build_cell(), run="1", repository="other/fork")]
    )

    assert flakes.histories[0].seen == 2
    assert flakes.notes == ("The campaigns are of different repositories.",)


def test_campaigns_by_hand_without_a_repository_may_share_a_name() -> None:
    campaigns = [campaign(day, build_cell(), repository=None, run="local") for day in (1, 2)]

    assert build_flakes(campaigns).histories[0].seen == 2


def test_campaigns_behind_keys_stand_only_with_each_other() -> None:
    keyed = [campaign(day, build_cell("c-28b51f552c4c"), opaque=True) for day in (1, 2)]

    assert build_flakes(keyed).histories[0].seen == 2
    assert "key-secret" in build_flakes(keyed).notes[0]
    with pytest.raises(InputError, match="opaque keys"):
        build_flakes([*keyed, campaign(3, build_cell())])


@pytest.mark.parametrize(
    ("part", "whole", "low", "high"),
    [
        # Newcombe 1998, Statistics in Medicine 17:857, table I, method 3.
        pytest.param(81, 263, 0.2553, 0.3662, id="many"),
        pytest.param(15, 148, 0.0624, 0.1605, id="some"),
        pytest.param(0, 20, 0.0, 0.1611, id="none"),
        pytest.param(1, 29, 0.0061, 0.1718, id="one"),
    ],
)
def test_the_interval_is_wilsons(part: int, whole: int, low: float, high: float) -> None:
    assert Rate(part, whole).bounds == pytest.approx((low, high), abs=5e-5)


@given(st.integers(1, 10**6).flatmap(lambda whole: st.tuples(st.integers(0, whole), st.just(whole))))
def test_the_interval_holds_the_rate_and_ends_where_it_can(counts: tuple[int, int]) -> None:
    rate = Rate(*counts)
    assert rate.bounds is not None
    assert rate.value is not None
    low, high = rate.bounds

    assert 0 <= low <= rate.value <= high <= 1
    assert low < high
    assert (low == 0) is (rate.part == 0)
    assert (high == 1) is (rate.part == rate.whole)


def test_where_nothing_was_judged_there_is_no_rate() -> None:
    assert history(BROKEN).rate.value is None
    assert history(BROKEN).rate.bounds is None
