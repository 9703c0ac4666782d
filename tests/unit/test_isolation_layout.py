"""The layout as data, what a walk finds that it does not name, and the table that is made from it."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from runner_e2e.isolation.drift import (
    DIRECTORY,
    FILE,
    LINK,
    MOST_ENTRIES,
    MOST_UNNAMED,
    OTHER,
    find_unnamed,
    find_unnamed_in_tmp,
)
from runner_e2e.isolation.layout import (
    BESIDE,
    CHECKED_AGAINST,
    EXPOSED,
    HIDDEN,
    HIDDEN_IN_INSTANCE,
    HIDDEN_IN_TEMPORARY_ROOT,
    INSTANCE,
    PLACES,
    READ_ONLY_IN_INSTANCE,
    READABLE,
    SHARED,
    SHARED_FIRST_USE,
    SHARED_IN_INSTANCE,
    SHOWN_IN_TEMPORARY_ROOT,
    TEMPORARY_ROOT,
    TMP,
)
from runner_e2e.isolation.readable import BEGIN, END, build_table, replace_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

PROJECT = Path(__file__).resolve().parents[2]


def listing(*paths: str) -> Callable[[str], Iterable[tuple[str, str]]]:
    """List a tree; a path ends in `/` for a directory and in `@` for a link."""
    tree: dict[str, set[tuple[str, str]]] = {}
    for path in paths:
        plain = path.rstrip("/@=")
        kind = {"/": DIRECTORY, "@": LINK, "=": OTHER}.get(path[-1], FILE)
        while plain:
            parent, _, name = plain.rpartition("/")
            tree.setdefault(parent, set()).add((name, kind))
            plain, kind = parent, DIRECTORY

    def entries(place: str) -> Iterable[tuple[str, str]]:
        return tree.get(place, set())

    return entries


def unnamed(*paths: str) -> list[str]:
    return [str(one) for one in find_unnamed(listing(*paths))]


# A real instance of the product, but for what lies in places that a row covers.
REAL = (
    ".env",
    "chat-workspaces/c/a/",
    "companies/c/agents/a/instructions/AGENTS.md",
    "config.json",
    "data/backups/",
    "data/provider-traces/",
    "data/run-logs/c/a/r.ndjson",
    "data/workspace-operation-logs/c/o.ndjson",
    "db/pg_wal/",
    "locks/directory-merge/",
    "logs/",
    "projects/c/",
    "runtime/paperclip-runner/acpx/",
    "runtime/paperclip-runner/durable-sessions/s/runner/runner-state.json",
    "runtime/paperclip-runner/opencode/s/",
    "runtime/paperclip-runner/runner/r/",
    "runtime/provider-packs/",
    "runtime-context-assets/bundles/d/AGENTS.md",
    "runtime-info.json",
    "secrets/master.key",
    "skills/c/",
    "workspaces/a/.paperclip-inbound/",
)


def test_a_real_instance_has_nothing_unnamed() -> None:
    assert unnamed(*REAL) == []


@pytest.mark.parametrize(
    ("path", "says"),
    [
        pytest.param("transcripts/r.json", "transcripts (directory)", id="directory"),
        pytest.param("state.json", "state.json (file)", id="file"),
        pytest.param("data/answers/r.json", "data/answers (directory)", id="below-one-that-is-listed"),
        pytest.param("data/index.db", "data/index.db (file)", id="file-there"),
        pytest.param("runtime/cache/", "runtime/cache (directory)", id="beside-the-runner"),
        pytest.param(
            "runtime/paperclip-runner/replays/r", "runtime/paperclip-runner/replays (directory)", id="deep"
        ),
        pytest.param("db2/", "db2 (directory)", id="longer-name"),
        pytest.param("DB/", "DB (directory)", id="other-spelling"),
        pytest.param("logs@", "logs (link)", id="link-of-a-known-name"),
        pytest.param("data@", "data (link)", id="link-on-the-way"),
        pytest.param("server.sock=", "server.sock (other)", id="socket"),
        pytest.param("runtime", "runtime (file)", id="file-where-a-directory-leads-on"),
    ],
)
def test_what_no_rule_names_is_found_where_it_begins(path: str, says: str) -> None:
    assert unnamed(path) == [says]


def test_a_row_covers_all_that_lies_below_it() -> None:
    assert unnamed("db/anything/at/all", "workspaces/a/link@", "logs/x@") == []


def test_more_than_is_looked_at_is_said() -> None:
    found = find_unnamed(listing(*(f"data/n{number}" for number in range(MOST_ENTRIES + 10))))

    assert "more entries than are looked at" in str(found[0])
    assert len(found) > MOST_UNNAMED


def test_a_directory_that_cannot_be_listed_is_unnamed() -> None:
    def refuse(place: str) -> Iterable[tuple[str, str]]:
        if place == "data":
            raise PermissionError(13, "Permission denied")
        return [("data", DIRECTORY)] if not place else []

    assert [str(one) for one in find_unnamed(refuse)] == ["data (cannot be listed: Permission denied)"]


def test_in_tmp_only_what_looks_like_the_products_is_asked_for() -> None:
    names = [
        "paperclip-run-i-r-x", "paperclip-opencode-config-1", ".s.PGSQL.54329", ".s.PGSQL.54329.lock",
        "opencode", "somebody-elses", "paperclip-transcripts-1", "opencode-cache",
    ]  # fmt: skip

    assert find_unnamed_in_tmp(names) == ["opencode-cache", "paperclip-transcripts-1"]


# The data.


def test_every_row_says_why_and_stands_once() -> None:
    assert len({(root, pattern) for root, pattern, _, _ in PLACES}) == len(PLACES)
    for root, pattern, kind, why in PLACES:
        assert root in {INSTANCE, TEMPORARY_ROOT, BESIDE, TMP}
        assert kind in {HIDDEN, EXPOSED, SHARED, READABLE}
        assert why
        assert "|" not in why
        assert not pattern.startswith("/")
        assert all(part not in {"", ".", ".."} for part in pattern.split("/"))
    assert CHECKED_AGAINST


def test_hidden_places_do_not_lie_in_each_other_and_hold_every_exposed_one() -> None:
    for place in HIDDEN_IN_INSTANCE:
        assert not any(place.startswith(f"{other}/") for other in HIDDEN_IN_INSTANCE), place
    for root, pattern, kind, _ in PLACES:
        if (root, kind) == (INSTANCE, EXPOSED):
            assert any(pattern.startswith(f"{place}/") for place in HIDDEN_IN_INSTANCE), pattern


def test_what_is_made_before_a_launch_is_named() -> None:
    known = {pattern for root, pattern, _, _ in PLACES if root == INSTANCE}

    assert set(SHARED_FIRST_USE) <= known


def test_the_sets_of_the_launches_follow_from_the_rows() -> None:
    assert SHARED_IN_INSTANCE == ("projects", "runtime/paperclip-runner/acpx", "runtime/provider-packs")
    assert SHOWN_IN_TEMPORARY_ROOT == ("workspace",)
    assert set(HIDDEN_IN_TEMPORARY_ROOT) == {
        "artifacts-private", "control", "storage", "backups", "xdg-cache",
    }  # fmt: skip
    assert {"skills", "runtime-context-assets", "config.json"} <= set(READ_ONLY_IN_INSTANCE)


# The page.


def test_the_security_page_lists_what_stays_readable_as_the_layout_has_it() -> None:
    page = (PROJECT / "SECURITY.md").read_text(encoding="utf-8")

    assert replace_table(page) == page, "run scripts/render-readable --write"


def test_every_shared_place_and_no_hidden_one_stands_in_the_table() -> None:
    table = build_table()
    for _, pattern, kind, why in PLACES:
        assert (f"{pattern}` |" in table and f"| {why} |" in table) is (kind in {SHARED, READABLE}), pattern


def test_a_page_without_its_marks_is_told() -> None:
    for text in ("", BEGIN, END):
        with pytest.raises(ValueError, match="has no"):
            replace_table(text)


def test_only_what_stands_between_the_marks_is_replaced() -> None:
    assert replace_table(f"a\n{BEGIN}\nold\n{END}\nb") == f"a\n{BEGIN}\n\n{build_table()}\n{END}\nb"


def test_the_script_prints_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    script = runpy.run_path(str(PROJECT / "scripts" / "render_readable.py"))

    assert script["main"]([]) == 0
    assert capsys.readouterr().out == build_table()
    assert script["main"](["--other"]) == 2
