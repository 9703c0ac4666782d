"""What keeps a version from being released, and the notes that it gets."""

from dataclasses import replace

import pytest

import release_notes
from release_notes import Files, find_disagreements, main, read_notes

NOTES = "### Added\n\n* A thing."
FILES = Files(
    pyproject='[project]\nname = "x"\nversion = "1.2.3"\n',
    package='"""Doc."""\n\n__version__ = "1.2.3"\n',
    changelog=f"# Changelog\n\nText\n\n## 1.2.3 (2026-12-01)\n\n{NOTES}\n\n## 1.2.2 (2026-11-01)\n\nOlder.\n",
)


def test_a_version_that_all_files_agree_on_may_be_released() -> None:
    assert find_disagreements("1.2.3", FILES) == []
    assert read_notes(FILES.changelog) == NOTES


def test_the_only_section_of_a_changelog_has_notes_too() -> None:
    assert read_notes("## 0.1.0 (2026-12-01)\nFirst.\n") == "First."


@pytest.mark.parametrize(
    "wanted", ["1.2", "v1.2.3", "1.2.3-rc1", "01.2.3", "1.2.3\n", "", "1.2.3; id", "\uff11.2.3"]
)
def test_what_is_no_version_is_refused_alone(wanted: str) -> None:
    assert find_disagreements(wanted, FILES) == ["The version is not three numbers, such as 1.2.3."]


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        pytest.param(
            replace(FILES, pyproject='[project]\nversion = "1.2.4"\n'), "pyproject.toml has", id="pyproject"
        ),
        pytest.param(replace(FILES, package='__version__ = "1.2.2"\n'), "has version 1.2.2", id="package"),
        pytest.param(replace(FILES, package=""), "has version none", id="no-package-version"),
        pytest.param(
            replace(FILES, package=FILES.package * 2), "has version 1.2.3, 1.2.3", id="two-package-versions"
        ),
        pytest.param(
            replace(FILES, changelog=FILES.changelog.replace("1.2.3 (", "1.2.4 (")),
            "that of 1.2.4",
            id="newer",
        ),
        pytest.param(replace(FILES, changelog="# Changelog\n"), "that of none", id="no-section"),
        pytest.param(
            replace(FILES, changelog=FILES.changelog.replace("2026-12-01", "unreleased")),
            "no date",
            id="unreleased",
        ),
        pytest.param(
            replace(FILES, changelog=FILES.changelog.replace(" (2026-12-01)", "")), "no date", id="undated"
        ),
        pytest.param(replace(FILES, changelog=FILES.changelog.replace(NOTES, "")), "is empty", id="empty"),
    ],
)
def test_a_file_that_does_not_agree_is_named(files: Files, sentence: str) -> None:
    (found,) = find_disagreements("1.2.3", files)

    assert sentence in found


def test_the_projects_own_files_agree_but_for_a_date() -> None:
    files = Files(
        *(
            (release_notes.PROJECT / name).read_text(encoding="utf-8")
            for name in ("pyproject.toml", "lib/runner_e2e/__init__.py", "CHANGELOG.md")
        )
    )
    version = files.package.partition('__version__ = "')[2].partition('"')[0]
    dated = replace(files, changelog=files.changelog.replace("(unreleased)", "(2026-12-01)", 1))

    assert find_disagreements(version, dated) == []


@pytest.mark.parametrize("argv", [[], ["1.2.3", "1.2.3"]])
def test_anything_but_one_version_is_a_usage_error(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == 2
    assert capsys.readouterr().err.startswith("usage: ")


def test_a_refusal_prints_nothing_of_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["::set-output name=x::y"]) == 2

    printed = capsys.readouterr()
    assert printed.out == ""
    assert "set-output" not in printed.err
