"""A campaign's rows: who is judged by what, what makes a cell flaky, and how figures are said."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from report_samples import Document, build_agent, build_attempt, build_cell, build_missing, build_results
from runner_e2e.errors import FailureClass
from runner_e2e.report.campaign import Cell, read_campaign
from runner_e2e.report.campaign_parts import Cost, Usage
from runner_e2e.report.figures import (
    bill,
    dollars,
    duration,
    price,
    share,
    signed_dollars,
    signed_duration,
    tokens,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


def read_cell(document: Document) -> Cell:
    return read_campaign(build_results(document)).cells[0]


@pytest.mark.parametrize(
    ("cell", "judged"),
    [
        pytest.param(build_cell(), True, id="passed"),
        *(
            pytest.param(
                build_cell(failureClass=kind.value), False if kind.exit_code == 1 else None, id=kind.value
            )
            for kind in FailureClass
        ),
        pytest.param(build_missing("a.b.local.c"), None, id="missing"),
        pytest.param(build_cell(source="rejected"), None, id="rejected-though-it-says-passed"),
        pytest.param(build_cell(exitCode=1), None, id="passed-with-another-exit-code"),
        pytest.param(build_cell() | {"status": "started"}, None, id="killed"),
        pytest.param(build_cell(failureClass="candidate_failure", status="passed"), False, id="both"),
    ],
)
def test_only_an_end_of_the_product_judges_it(cell: Document, judged: bool | None) -> None:
    assert read_cell(cell).judged is judged


def earlier(*ends: tuple[str | None, str | None]) -> list[Document]:
    return [
        {"runAttempt": number, "artifact": "a", "status": status, "failureClass": failure}
        for number, (status, failure) in enumerate(ends, 1)
    ]


@pytest.mark.parametrize(
    ("changes", "flaky"),
    [
        pytest.param({}, False, id="at-once"),
        pytest.param({"flaky": True}, True, id="says-so"),
        pytest.param(
            {"attempts": [build_attempt(1, "failed", "transient_infrastructure"), build_attempt(2)]},
            True,
            id="tried-again",
        ),
        pytest.param({"attempts": [build_attempt(1), build_attempt(2)]}, False, id="passed-twice"),
        pytest.param({"earlier": earlier(("failed", "candidate_failure"))}, True, id="failed-before"),
        pytest.param({"earlier": earlier(("failed", "sandbox_unproven"))}, False, id="not-judged-before"),
        pytest.param({"earlier": earlier((None, None))}, False, id="untold-before"),
        pytest.param(
            {"failureClass": "candidate_failure", "earlier": earlier(("passed", None))},
            True,
            id="passed-before",
        ),
        pytest.param(
            {"failureClass": "candidate_failure", "earlier": earlier(("failed", "contaminated"))},
            False,
            id="failed-twice",
        ),
        pytest.param({"failureClass": "candidate_failure", "flaky": True}, False, id="failed-in-the-end"),
        pytest.param(
            {"failureClass": "cleanup_failure", "earlier": earlier(("passed", None))}, False, id="unjudged"
        ),
    ],
)
def test_a_cell_is_flaky_when_only_another_try_passed_or_it_was_judged_both_ways(
    changes: Document, flaky: bool
) -> None:
    assert read_cell(build_cell(**changes)).flaky is flaky


def test_what_agents_tried_is_counted_by_what_they_were_sent_to() -> None:
    reach = read_cell(build_cell(agents=[build_agent("ada", "run:secrets"), build_agent("bob")])).reach

    assert (reach.agents, reach.tried, reach.denied, reach.reached) == (2, 8, 7, ("run:secrets",))


def test_where_agents_were_sent_nowhere_their_words_are_counted() -> None:
    access = {"place": "run:db", "outcome": "denied", "count": 1, "line": "cat db"}
    found = build_cell()["contamination"] | {
        "reached": ["run:db"],
        "accesses": [access, access | {"outcome": "tried"}],
    }

    reach = read_cell(build_cell(agents=[], contamination=found)).reach

    assert (reach.agents, reach.tried, reach.denied, reach.reached) == (0, 2, 1, ("run:db",))


def test_an_integer_may_be_written_as_json_allows() -> None:
    assert read_cell(build_cell(durationMs=2000.0)).duration_ms == 2000


COST = Cost(0.5, "reported", "gateway", scripted=False, requests=3)
UNKNOWN = Cost(None, "unavailable", None, scripted=False, requests=None)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        pytest.param(
            [duration(value) for value in (None, 0, 1234)], ["unknown", "0.0 s", "1.2 s"], id="short"
        ),
        pytest.param([duration(9_960), duration(59_600)], ["10 s", "1 min 00 s"], id="seconds"),
        pytest.param([duration(3_599_600), duration(90_061_000)], ["1 h 00 min", "25 h 01 min"], id="hours"),
        pytest.param(
            [dollars(value) for value in (0, 0.00001, 0.0123, 1.5, 12345)],
            ["0.00 USD", "<0.0001 USD", "0.0123 USD", "1.50 USD", "12,345.00 USD"],
            id="dollars",
        ),
        pytest.param(
            [signed_dollars(value) for value in (0.5, -0.5, 0)],
            ["+0.5000 USD", "-0.5000 USD", "0.00 USD"],
            id="signed-dollars",
        ),
        pytest.param(
            [signed_duration(value) for value in (1500, -61_000, 0)],
            ["+1.5 s", "-1 min 01 s", "0.0 s"],
            id="signed-time",
        ),
        pytest.param(
            [share(1, 4), share(-1, 4), share(1, 0), share(0, 4)], [" (+25%)", " (-25%)", "", ""], id="share"
        ),
        pytest.param(
            [price(COST), price(UNKNOWN), price(dataclasses.replace(COST, status="partial"))],
            ["0.5000 USD", "unknown", "at least 0.5000 USD"],
            id="price",
        ),
        pytest.param(
            [bill(UNKNOWN), bill(dataclasses.replace(COST, scripted=True))],
            ["cost unknown", "cost 0.5000 USD at scripted prices, nobody's bill"],
            id="bill",
        ),
        pytest.param(
            [
                tokens(Usage("unavailable", None, None, None)),
                tokens(Usage("partial", 0, None, 12_000)),
                tokens(Usage("reported", 10, 4, None)),
            ],
            [
                "tokens unknown",
                "tokens: 0 in, 12,000 out, not all of them are known",
                "tokens: 10 in (4 of them cached), unknown out",
            ],
            id="tokens",
        ),
    ],
)
def test_a_figure_is_said_so_that_unknown_is_no_zero(said: Sequence[str], words: Sequence[str]) -> None:
    assert said == words
