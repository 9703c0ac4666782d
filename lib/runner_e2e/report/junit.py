"""A campaign as JUnit XML, in the form that Jenkins, GitLab and publish-unit-test-result read. Pure.

The product's own failures are failures, all that kept a cell from being judged is an error, and only what
was not run is skipped. What is not known is left out, because readers take a missing time as none and a
zero as a measurement. A campaign that did not pass never has a report that is all green.
"""

import re
from collections.abc import Iterable
from datetime import datetime
from xml.etree import ElementTree as ET

from runner_e2e.errors import FailureClass
from runner_e2e.report.campaign import Campaign, Cell, read_campaign
from runner_e2e.report.campaign_parts import Attempt
from runner_e2e.report.campaign_words import came_to, cut, why_flaky
from runner_e2e.report.rows import Record

_LONGEST_EXCERPT, _LONGEST_TEXT, _LONGEST_ATTRIBUTE = 2000, 2000, 500
_MOST_PROBLEMS, _MOST_RERUNS = 50, 10
_MOST_EXCERPTS = 2 << 20  # characters in all: some readers refuse a file of tens of megabytes
_OPAQUE_SUITE = "cells"
_REPORT_SUITE = "report"
# https://www.w3.org/TR/xml/#charsets; a reference cannot stand for the others either.
_NO_XML = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_LINE_ENDS = re.compile("\r\n?|\x85|\u2028|\u2029")


def build_junit(document: Record) -> bytes:
    """Return the JUnit XML of a `results.json`, as UTF-8."""
    campaign = read_campaign(document)
    top = ET.Element("testsuites", {"name": "runner-e2e"})
    suites: dict[str, list[Cell]] = {}
    for cell in campaign.cells:
        suites.setdefault(cell.suite or _OPAQUE_SUITE, []).append(cell)
    for name, cells in suites.items():
        _add_suite(top, name, campaign, cells)
    _add_excerpts(top, [cell for cells in suites.values() for cell in cells])
    _add_campaign(top, campaign)
    _sum_up(top)
    ET.indent(top, "  ")
    content: bytes = ET.tostring(top, encoding="utf-8", xml_declaration=True)
    return content + b"\n"


def _add_suite(top: ET.Element, name: str, campaign: Campaign, cells: Iterable[Cell]) -> None:
    suite = _element(top, "testsuite", name=name, timestamp=_timestamp(campaign))
    _add_properties(
        suite,
        ("run", campaign.run),
        ("run-attempt", str(campaign.attempt)),
        ("repository", campaign.repository),
        ("target-sha", campaign.target_sha),
        ("target-ref", campaign.target_ref),
    )
    for cell in cells:
        _add_cell(suite, cell)
    _count(suite)


def _add_cell(suite: ET.Element, cell: Cell) -> None:
    place = ".".join(filter(None, (cell.suite or _OPAQUE_SUITE, cell.profile, cell.environment)))
    row = _element(suite, "testcase", classname=place, name=cell.case or cell.name, time=_seconds(cell))
    _add_properties(
        row,
        ("cell", cell.name),
        ("outcome", came_to(cell)),
        ("sandbox", cell.sandbox),
        ("attempts", str(len(cell.attempts))),
        ("run-attempt", str(cell.run_attempt)),
        ("flaky", "true" if cell.flaky else "false"),
        ("model", cell.model),
        *_cost(cell),
    )
    if cell.judged is not True:
        _add_end(row, cell)
    elif cell.flaky:
        _add_flaky(row, cell)


def _add_excerpts(top: ET.Element, cells: Iterable[Cell]) -> None:
    """Add the end of the log of each cell that asks for a look, as long as there is room."""
    room = _MOST_EXCERPTS
    for row, cell in zip(top.iter("testcase"), cells, strict=True):
        if cell.excerpt and room > 0 and (cell.judged is not True or cell.flaky):
            words = clean(_tail(cell.excerpt))
            room -= len(words)
            _element(row, "system-out").text = words


def _add_end(row: ET.Element, cell: Cell) -> None:
    message = cell.message or came_to(cell)
    if cell.failure is FailureClass.NOT_RUN:
        _element(row, "skipped", type=cell.outcome, message=message)
        return
    end = _element(row, "error" if cell.judged is None else "failure", type=cell.outcome, message=message)
    lines = [f"{cell.name}: {came_to(cell)}", *(_tell(one) for one in cell.attempts)]
    if cell.reach.reached:
        lines.append(f"agents reached: {', '.join(cell.reach.reached)}")
    end.text = _text(lines)


def _add_flaky(row: ET.Element, cell: Cell) -> None:
    """Add what failed before the cell passed, as Surefire does for what it runs again."""
    for attempt in cell.attempts[:-1][:_MOST_RERUNS]:
        candidate = attempt.failure is not None and attempt.failure.exit_code == 1
        kind = attempt.failure.value if attempt.failure else attempt.status
        words = attempt.message or why_flaky(cell)
        _add_rerun(row, kind, words, _tell(attempt), candidate=candidate)
    for one in cell.earlier[-_MOST_RERUNS:]:
        if one.judged is False and one.failure is not None:
            told = f"run attempt {one.run_attempt}: {one.failure.value}"
            _add_rerun(row, one.failure.value, why_flaky(cell), told, candidate=True)
    if row.find("flakyFailure") is None and row.find("flakyError") is None:
        _add_rerun(row, "unknown", why_flaky(cell), "the earlier attempt is not recorded", candidate=True)


def _add_rerun(row: ET.Element, kind: str, message: str, told: str, *, candidate: bool) -> None:
    again = _element(row, "flakyFailure" if candidate else "flakyError", type=kind, message=message)
    _element(again, "stackTrace").text = _text([told])


def _tell(attempt: Attempt) -> str:
    kind = attempt.failure.value if attempt.failure else attempt.status
    words = " | ".join(filter(None, (attempt.rule, attempt.line, attempt.message)))
    return f"attempt {attempt.number}: {kind}{f': {words}' if words else ''}"


def _add_campaign(top: ET.Element, campaign: Campaign) -> None:
    """Add what no cell tells: refused artifacts, and a verdict that would not show."""
    # A reader takes what was skipped for nothing bad.
    shown = {row.tag for case in top.iter("testcase") for row in case} & {"failure", "error"}
    if not campaign.problems and (campaign.exit_code == 0 or shown):
        return
    suite = _element(top, "testsuite", name=_REPORT_SUITE, timestamp=_timestamp(campaign))
    row = _element(suite, "testcase", classname=_REPORT_SUITE, name="campaign")
    first = campaign.problems[:_MOST_PROBLEMS]
    lines = [*campaign.reasons[:_MOST_PROBLEMS]]
    lines += [f"{one.artifact}: {one.code}: {one.message}" for one in first]
    if len(campaign.problems) > len(first):
        lines.append(f"and {len(campaign.problems) - len(first)} more")
    number = len(campaign.problems)
    message = (
        f"{number} artifacts were refused" if number else f"the campaign's verdict is {campaign.verdict}"
    )
    error = _element(row, "error", type=campaign.verdict, message=message)
    error.text = _text(lines)
    _count(suite)


def _sum_up(top: ET.Element) -> None:
    for key in ("tests", "failures", "errors", "skipped"):
        top.set(key, str(sum(int(suite.get(key, "0")) for suite in top)))
    top.set("time", f"{sum(float(suite.get('time', '0')) for suite in top):.3f}")


def _count(suite: ET.Element) -> None:
    cases = suite.findall("testcase")
    suite.set("tests", str(len(cases)))
    for key, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(key, str(sum(case.find(tag) is not None for case in cases)))
    suite.set("time", f"{sum(float(case.get('time', '0')) for case in cases):.3f}")


def _cost(cell: Cell) -> tuple[tuple[str, str | None], ...]:
    if cell.cost.usd is None:
        return (("cost-usd", "unknown"),)
    partly = (("cost-partial", "true"),) if not cell.cost.known else ()
    scripted = (("cost-scripted", "true"),) if cell.cost.scripted else ()
    return (("cost-usd", f"{cell.cost.usd:.6f}"), *partly, *scripted)


def _add_properties(parent: ET.Element, *pairs: tuple[str, str | None]) -> None:
    known = [(name, value) for name, value in pairs if value is not None]
    properties = _element(parent, "properties")
    for name, value in known:
        _element(properties, "property", name=name, value=value)


def _element(parent: ET.Element, tag: str, **attributes: str | None) -> ET.Element:
    known = {name: _attribute(value) for name, value in attributes.items() if value is not None}
    return ET.SubElement(parent, tag, known)


def _attribute(value: str) -> str:
    """Return text for an attribute: one line, because readers turn its line ends into spaces."""
    return cut(" ".join(clean(value).split()), _LONGEST_ATTRIBUTE) or "-"


def _text(lines: Iterable[str]) -> str:
    return clean(cut("\n".join(lines), _LONGEST_TEXT))


def clean(words: str) -> str:
    """Return text in which every character is one of XML 1.0, and each line ends alike."""
    return _NO_XML.sub("\ufffd", _LINE_ENDS.sub("\n", words))


def _tail(words: str) -> str:
    return words if len(words) <= _LONGEST_EXCERPT else f"[cut]\n{words[-_LONGEST_EXCERPT:]}"


def _seconds(cell: Cell) -> str | None:
    return None if cell.duration_ms is None else f"{cell.duration_ms / 1000:.3f}"


def _timestamp(campaign: Campaign) -> str | None:
    try:
        return datetime.fromisoformat(campaign.generated_at).isoformat(timespec="seconds")
    except ValueError:
        return None
