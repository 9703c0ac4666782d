"""Which of the files of an attempt are staged, and what a pass lacks."""

from __future__ import annotations

import pytest

from runner_e2e.cell.packaged_results import NEEDED, NEEDED_ZIP, find_missing, refuse_unpackaged

WHOLE = (*NEEDED, "blob-report/report.zip")


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        pytest.param("result.json", None, id="result"),
        pytest.param("provider-provenance.json", None, id="provenance"),
        pytest.param("playwright.log", None, id="log"),
        pytest.param("junit.xml", None, id="junit"),
        pytest.param("final-state.png", None, id="image"),
        pytest.param("plan-1.png", None, id="plan-image"),
        pytest.param("question-a.2.png", None, id="question-image"),
        pytest.param("snapshots", None, id="directory"),
        pytest.param("snapshots/a/b.json", None, id="in-a-directory"),
        pytest.param("html-report/data/x.zip", None, id="in-a-report"),
        pytest.param("server.log", "staged-apart", id="server-log"),
        pytest.param("server.log/x", "not-packaged", id="below-server-log"),
        pytest.param("result.json/x", "not-packaged", id="below-a-file"),
        pytest.param("final-state.png/x", "not-packaged", id="below-an-image"),
        pytest.param("Result.json", "not-packaged", id="other-case"),
        pytest.param("result.json.bak", "not-packaged", id="longer"),
        pytest.param("-x.png", "not-packaged", id="odd-image"),
        pytest.param("a b.png", "not-packaged", id="blank-in-image"),
        pytest.param("ä.png", "not-packaged", id="other-letters"),
        pytest.param("a.PNG", "not-packaged", id="upper-case-image"),
        pytest.param("a.png\n", "not-packaged", id="line-feed"),
        pytest.param(".png", "not-packaged", id="hidden-image"),
        pytest.param("a.svg", "not-packaged", id="svg"),
        pytest.param("other", "not-packaged", id="other"),
        pytest.param("other/snapshots/x", "not-packaged", id="nested"),
    ],
)
def test_only_what_a_harness_packages_is_staged(path: str, reason: str | None) -> None:
    assert refuse_unpackaged(path.split("/")) == reason


def test_a_whole_attempt_lacks_nothing() -> None:
    assert find_missing(WHOLE) == ()


@pytest.mark.parametrize("name", NEEDED)
def test_each_needed_file_is_missed(name: str) -> None:
    assert find_missing([one for one in WHOLE if one != name]) == (name,)


@pytest.mark.parametrize("name", ["blob-report/report.txt", "report.zip", "html-report/blob-report/a.zip"])
def test_a_zip_of_the_blob_report_is_missed(name: str) -> None:
    assert find_missing([*NEEDED, name]) == (NEEDED_ZIP,)


def test_nothing_lacks_everything() -> None:
    assert find_missing([]) == (*NEEDED, NEEDED_ZIP)
