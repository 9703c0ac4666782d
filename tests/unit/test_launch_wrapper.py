"""What the wrapper decides by itself: claims, variables, entries."""

from __future__ import annotations

import os
import stat
import uuid
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner_e2e.isolation.paths import RunScope, plan_run_scope
from runner_e2e.launch import wrapper
from runner_e2e.launch.entries import create_directory, create_file, list_directories
from runner_e2e.launch.launching import launch_id, own_environment, refuse_shared_claims
from runner_e2e.launch.wrapper import replace_programs
from runner_e2e.sandbox.refusal import Refusal

if TYPE_CHECKING:
    from pathlib import Path

PARENT = "/r/instances"
STATE = f"{PARENT}/i/runtime/paperclip-runner"
TRACES = f"{PARENT}/i/data/provider-traces"


def scope_of(owner: str, *, run: str = "r1", session: str = "s", trace: str | None = None) -> RunScope:
    words = ["--state-dir", f"{STATE}/{owner}", "--run-id", run, "--session-id", session]
    return plan_run_scope(words, trace and f"{TRACES}/{trace}", [PARENT], "/r/s")


def recorded(scope: RunScope) -> dict[str, object]:
    return {"owner": scope.owner, "session": scope.session, "claims": list(scope.claims)}


A, B = "durable-sessions/a", "durable-sessions/b"
LONG = "x" * 120


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(scope_of(A), scope_of(A), id="again"),
        pytest.param(scope_of(A), scope_of(A, run="r2"), id="another-run"),
        pytest.param(scope_of(A), scope_of(A, session="t"), id="another-session"),
        pytest.param(scope_of(A, trace="1"), scope_of(A, trace="1"), id="same-trace"),
        pytest.param(scope_of(A, trace="1"), scope_of(A, run="r2", trace="2"), id="another-trace"),
        pytest.param(scope_of(A), scope_of(B, run="r2", session="t"), id="two-sessions"),
        pytest.param(scope_of(A), plan_run_scope([], None, [PARENT], "/r/s"), id="metadata"),
        pytest.param(
            plan_run_scope([], None, [PARENT], "/r/s"), plan_run_scope([], None, [PARENT], "/r/s"), id="both"
        ),
    ],
)
def test_a_launch_with_its_own_parts_passes(first: RunScope, second: RunScope) -> None:
    refuse_shared_claims(second, [recorded(first)])


@pytest.mark.parametrize(
    ("first", "second", "shared"),
    [
        pytest.param(
            scope_of(A, session="a/b"),
            scope_of(A, session="a_b"),
            f"{STATE}/opencode/a_b",
            id="name-of-a-session",
        ),
        pytest.param(
            scope_of(A, session=LONG),
            scope_of(A, session=f"{LONG}y"),
            f"{STATE}/opencode/{LONG}",
            id="cut-off-name",
        ),
        pytest.param(
            scope_of(A), scope_of(B, run="r2"), f"{STATE}/opencode/s", id="session-of-another-owner"
        ),
        pytest.param(scope_of(A), scope_of(B, session="t"), f"{STATE}/runner/r1", id="run-of-another-owner"),
        pytest.param(
            scope_of(A),
            scope_of("runner/r1", session="t"),
            f"{STATE}/runner/r1",
            id="direct-run-of-another-owner",
        ),
        pytest.param(
            scope_of(A, trace="1"), scope_of(B, run="r2", session="t", trace="1"), f"{TRACES}/1", id="trace"
        ),
    ],
)
def test_what_belongs_to_another_is_refused(first: RunScope, second: RunScope, shared: str) -> None:
    for earlier, later in ((first, second), (second, first)):
        with pytest.raises(Refusal) as caught:
            refuse_shared_claims(later, [recorded(earlier)])
        assert caught.value.code == "expose-reveals-hidden"
        assert caught.value.path == os.fsencode(shared)


def test_short_names_that_collide_are_refused() -> None:
    one, other = scope_of(A), scope_of(B, run="r2", session="t")
    record = recorded(one) | {"claims": [other.scratch]}

    with pytest.raises(Refusal):
        refuse_shared_claims(other, [record])


def test_every_earlier_launch_counts() -> None:
    records = [recorded(scope_of(f"durable-sessions/{name}", run=name, session=name)) for name in "abcdef"]

    for name in "abcdef":
        with pytest.raises(Refusal):
            refuse_shared_claims(scope_of("durable-sessions/z", run="z", session=name), records)
    refuse_shared_claims(scope_of("durable-sessions/z", run="z", session="z"), records)


@pytest.mark.parametrize(
    "record", [{}, {"code": "usage"}, {"claims": None}, {"claims": "x"}, {"claims": [1, None]}]
)
def test_a_record_without_claims_claims_nothing(record: dict[str, object]) -> None:
    refuse_shared_claims(scope_of(A), [record])


def test_a_launch_gets_its_own_temporary_and_home_directory_and_all_else_as_it_came() -> None:
    scope = scope_of(A)
    came = [
        b"B=2",
        b"HOME=/root",
        b"A=1",
        b"A=again",
        b"noequals",
        b"=odd",
        b"",
        b"\xff=\xfe",
        b"TMPDIR=/tmp",
        b"HOMEX=kept",
        b"XHOME=kept",
        b"home=kept",
        b"TMP=",
        b"TEMP",
        b"HOME=/twice",
        b"TMUX_TMPDIR=/tmp",
    ]

    got = own_environment(came, scope)

    kept = [b"B=2", b"A=1", b"A=again", b"noequals", b"=odd", b"", b"\xff=\xfe"]
    kept += [b"HOMEX=kept", b"XHOME=kept", b"home=kept"]
    assert got[: len(kept)] == kept
    temporary, home = os.fsencode(scope.temporary), os.fsencode(scope.home)
    own = {b"%b=%b" % (name, temporary) for name in (b"TMPDIR", b"TMP", b"TEMP", b"TMUX_TMPDIR")}
    assert set(got[len(kept) :]) == own | {b"HOME=" + home}
    assert len(got) == len(kept) + 5


ENTRIES = st.lists(
    st.one_of(
        st.binary(max_size=8).filter(lambda entry: b"\0" not in entry),
        st.sampled_from([b"HOME=/x", b"TMPDIR=/x", b"TMP=/x", b"TEMP=/x", b"TMUX_TMPDIR=/x", b"HOME"]),
    ),
    max_size=8,
)


@settings(deadline=None)
@given(ENTRIES)
def test_each_of_the_five_variables_stands_once_in_any_environment(came: list[bytes]) -> None:
    got = own_environment(came, scope_of(A))
    names = [entry.partition(b"=")[0] for entry in got]
    five = [b"TMPDIR", b"TMP", b"TEMP", b"TMUX_TMPDIR", b"HOME"]

    assert all(names.count(name) == 1 for name in five)
    assert not any(b"/x" in entry for entry in got if entry.partition(b"=")[0] in five)
    assert [entry for entry in got if entry.partition(b"=")[0] not in five] == [
        entry for entry in came if entry.partition(b"=")[0] not in five
    ]


def test_the_trace_is_read_from_the_environment() -> None:
    assert wrapper._trace_path([b"A=1", b"PAPERCLIP_PROVIDER_TRACE_PATH=/t\xff", b"B"]) == "/t\udcff"
    assert (
        wrapper._trace_path([b"XPAPERCLIP_PROVIDER_TRACE_PATH=/t", b"PAPERCLIP_PROVIDER_TRACE_PATHS=/t"])
        is None
    )


def test_every_launch_has_another_random_id() -> None:
    ids = {launch_id() for _ in range(100)}

    assert len(ids) == 100
    for text in ids:
        found = uuid.UUID(text)
        assert str(found) == text
        assert (found.version, found.variant) == (4, uuid.RFC_4122)


def test_directories_and_files_are_created_once(tmp_path: Path) -> None:
    directory, file = str(tmp_path / "d"), str(tmp_path / "f")
    create_directory(directory, 0o700)
    create_file(file, 0o600)
    (tmp_path / "d" / "kept").touch()
    (tmp_path / "f").write_text("kept")
    (tmp_path / "d").chmod(0o750)

    create_directory(directory, 0o700)
    create_file(file, 0o600)

    assert stat.S_IMODE((tmp_path / "d").stat().st_mode) == 0o750
    assert (tmp_path / "d" / "kept").exists()
    assert (tmp_path / "f").read_text() == "kept"


@pytest.mark.parametrize("target", ["directory", "file", "missing", "link"])
def test_a_planted_symlink_is_refused_wherever_it_leads(tmp_path: Path, target: str) -> None:
    (tmp_path / "directory").mkdir()
    (tmp_path / "file").write_text("secret")
    link = tmp_path / "link"
    link.symlink_to(tmp_path / target)

    for create, mode in ((create_directory, 0o700), (create_file, 0o600)):
        with pytest.raises(Refusal) as caught:
            create(str(link), mode)
        assert caught.value.code == "expose-symlink"
        assert caught.value.path == os.fsencode(link)
    assert not (tmp_path / "missing").exists()


def test_something_else_in_the_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "f").touch()
    os.mkfifo(tmp_path / "p")

    for create, name in (
        (create_directory, "f"),
        (create_file, "d"),
        (create_directory, "p"),
        (create_file, "p"),
    ):
        with pytest.raises(Refusal) as caught:
            create(str(tmp_path / name), 0o700)
        assert caught.value.code == "expose-symlink"


def test_what_cannot_be_created_is_refused_with_its_error(tmp_path: Path) -> None:
    for create in (create_directory, create_file):
        with pytest.raises(Refusal) as caught:
            create(str(tmp_path / "missing" / "x"), 0o700)
        assert caught.value.code == "path-unresolvable"
        assert caught.value.errno == 2


def test_only_real_directories_are_listed(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / ".e").mkdir()
    (tmp_path / "f").touch()
    (tmp_path / "link").symlink_to("d")
    (tmp_path / "broken").symlink_to("nowhere")

    assert sorted(list_directories(str(tmp_path))) == [".e", "d"]


def test_a_directory_that_cannot_be_listed_is_refused(tmp_path: Path) -> None:
    (tmp_path / "f").touch()

    for name in ("f", "missing"):
        with pytest.raises(Refusal) as caught:
            list_directories(str(tmp_path / name))
        assert caught.value.code == "ancestor-unlistable"
        assert caught.value.path == os.fsencode(tmp_path / name)


OPTION = "--opencode-executable"
REPLACEMENTS = {OPTION: ("/r/bin/opencode", "ab12")}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(
            ["--run-id", "r", OPTION, "/v/opencode", f"{OPTION}-sha256", "sha256:00", "--x"],
            ["--run-id", "r", OPTION, "/r/bin/opencode", f"{OPTION}-sha256", "sha256:ab12", "--x"],
            id="two-words",
        ),
        pytest.param(
            [f"{OPTION}=/v/opencode", f"{OPTION}-sha256=sha256:00"],
            [f"{OPTION}=/r/bin/opencode", f"{OPTION}-sha256=sha256:ab12"],
            id="one-word",
        ),
        pytest.param([OPTION, OPTION], [OPTION, "/r/bin/opencode"], id="a-value-that-looks-like-it"),
        pytest.param(
            [OPTION, "/a", OPTION, "/b"], [OPTION, "/r/bin/opencode", OPTION, "/r/bin/opencode"], id="twice"
        ),
    ],
)
def test_a_replaced_program_goes_with_its_digest(given: list[str], expected: list[str]) -> None:
    before = list(given)

    assert replace_programs(given, REPLACEMENTS) == (expected, {OPTION: "/r/bin/opencode"})
    assert given == before


@pytest.mark.parametrize(
    "given", [[], ["--build-metadata"], ["--opencode-proxy-command", "/n"], [f"{OPTION}-shaX", "/n"]]
)
def test_an_option_that_is_not_there_is_not_added(given: list[str]) -> None:
    assert replace_programs(given, REPLACEMENTS) == (given, {})
