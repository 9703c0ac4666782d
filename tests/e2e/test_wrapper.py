"""The wrapper by hand: what it hands on, what it writes down, and what it refuses in silence."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from e2e.by_hand import OTHER, RUN, SESSION, STATE, Answer, Attempt, make_attempt
from e2e.checkout import TIMEOUT_S, Checkout, private_directory

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.e2e


@pytest.fixture
def attempt(launching: Checkout) -> Iterator[Attempt]:
    with private_directory("attempt") as place:
        yield make_attempt(place, launching)


def test_the_runner_takes_the_wrappers_place(attempt: Attempt) -> None:
    """Same process, arguments and streams; of the environment only the private directories differ."""
    words = attempt.own("--session-id", "a b/c", "--odd", b"\xff\n", "", "--")

    with attempt.start(words, LANG="C.UTF-8") as process:
        stdout, stderr = process.communicate(timeout=TIMEOUT_S)

    said = stdout.split(b"\0")
    assert process.returncode == 7
    assert int(said[0]) == process.pid
    assert said[1] == os.fsencode(attempt.workspace)
    assert said[2 : 2 + len(words)] == [os.fsencode(word) for word in words]
    environ = dict(entry.split(b"=", 1) for entry in said[2 + len(words) :] if b"=" in entry)
    assert environ[b"KEPT"] == b"yes"
    assert environ[b"LANG"] == b"C.UTF-8"
    scratch = Path(os.fsdecode(environ[b"TMPDIR"])).parent
    assert scratch.parent == attempt.root / "s"
    for name in (b"TMP", b"TEMP", b"TMUX_TMPDIR"):
        assert environ[name] == environ[b"TMPDIR"]
    assert environ[b"HOME"] == os.fsencode(scratch / "h")
    assert set(environ) <= {
        *(b"PATH", b"HOME", b"TMPDIR", b"KEPT", b"LANG", b"TMP", b"TEMP", b"TMUX_TMPDIR"),
        *(b"PWD", b"OLDPWD", b"SHLVL", b"_"),  # the shell's own
    }
    assert b"Permission denied" in stderr
    assert b"SECRET" not in stdout + stderr


def test_a_launch_leaves_one_line_with_everything_it_consists_of(attempt: Attempt) -> None:
    trace = attempt.instance / "data" / "provider-traces" / "mine.ndjson"
    words = attempt.own("--run-id", "r1", "--session-id", "a b/c")
    lock = attempt.instance / "db" / "postmaster.pid"
    lock.parent.mkdir(exist_ok=True)
    lock.write_text("1\n/db\n2\n54329\n/tmp\n", encoding="utf-8")

    attempt.launch(words, PAPERCLIP_PROVIDER_TRACE_PATH=str(trace))

    (record,) = attempt.records
    assert record["closedPorts"] == [54329]
    assert record["schema"] == "runner-e2e.sandbox-launch/v1"
    assert (record["boot"], record["run"], record["session"]) == (1, "r1", "a b/c")
    session = attempt.instance / STATE / "durable-sessions" / SESSION
    assert record["owner"] == str(session)
    own = {
        session,
        attempt.instance / STATE / "runner" / "r1",
        attempt.instance / STATE / "opencode" / "a_b_c",
    }
    assert {Path(path) for path in record["exposed"]} > own | {trace}
    hidden = {Path(path) for path in record["hidden"]}
    assert {attempt.root / "private", attempt.root / "s", attempt.instance / "secrets"} < hidden
    assert record["proof"]["landlock"] >= 4
    assert {entry["outcome"] for entry in record["protections"].values()} == {"enforced"}
    assert stat.S_IMODE(attempt.journal.stat().st_mode) == 0o600
    for path in own:
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert stat.S_IMODE(trace.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("usage", ["--state-dir", "{own}", "--state-dir", "{other}"]),
        ("usage", ["--state-dir", "{own}/../{other}"]),
        ("usage", ["--state-dir", "{own}/.."]),
        ("usage", ["--state-dir", "relative/path"]),
        ("usage", ["--state-dir"]),
        ("usage", ["--state-dir="]),
        ("usage", ["--state-dir", "{own}", "--session-id", ".."]),
        ("usage", ["--state-dir", "{own}", "--session-id="]),
        ("usage", ["--state-dir", "{own}", "--run-id", "../../secrets"]),
        ("usage", ["--state-dir", "{own}", "--run-id", b"\xff"]),
        ("usage", ["--state-dir", "{instance}/runtime/paperclip-runner/runner/r1", "--run-id", "r2"]),
        ("expose-outside-hidden", ["--state-dir", "/"]),
        ("expose-outside-hidden", ["--state-dir", "{instance}/secrets"]),
        ("expose-outside-hidden", ["--state-dir", "{instance}/runtime/paperclip-runner/durable-sessions"]),
        ("expose-outside-hidden", ["--state-dir", "/etc/x/runtime/paperclip-runner/durable-sessions/a"]),
    ],
)
def test_hostile_words_are_refused_in_the_journal_and_nothing_is_created(
    code: str, words: list[str | bytes], attempt: Attempt
) -> None:
    places = {
        "instance": str(attempt.instance),
        "own": f"{attempt.instance}/{STATE}/durable-sessions/{SESSION}",
        "other": f"{attempt.instance}/{STATE}/durable-sessions/{OTHER}",
    }
    told = [word if isinstance(word, bytes) else word.format(**places) for word in words]
    attempt.give()
    before = attempt.tree()

    attempt.refused(code, told)

    assert attempt.tree() == before


@pytest.mark.parametrize(
    "trace", ["/etc/passwd", "{traces}/../../secrets/master.key", "{traces}/x/y", "relative"]
)
def test_a_trace_elsewhere_is_refused(trace: str, attempt: Attempt) -> None:
    traces = f"{attempt.instance}/data/provider-traces"
    before = attempt.tree()

    attempt.refused(
        "expose-outside-hidden", attempt.own(), PAPERCLIP_PROVIDER_TRACE_PATH=trace.format(traces=traces)
    )

    assert attempt.tree().keys() == before.keys()


def test_a_session_name_that_another_id_owns_is_refused(attempt: Attempt) -> None:
    """The raw ids stand in the journal, so that `a/b` and `a_b` can be told apart."""
    attempt.launch(attempt.own("--session-id", "a/b"))

    refusal = attempt.refused("expose-reveals-hidden", attempt.own("--session-id", "a_b"))

    assert attempt.records[0]["session"] == "a/b"
    assert refusal["path"] == str(attempt.instance / STATE / "opencode" / "a_b")
    assert attempt.launch(attempt.own("--session-id", "a/b")).status == 7


def test_the_run_and_the_trace_of_another_session_are_refused(attempt: Attempt) -> None:
    trace = str(attempt.instance / "data" / "provider-traces" / "mine.ndjson")
    other = ["--state-dir", f"{attempt.instance}/{STATE}/durable-sessions/{OTHER}/runner"]
    attempt.launch(attempt.own("--run-id", "r1"), PAPERCLIP_PROVIDER_TRACE_PATH=trace)

    attempt.refused("expose-reveals-hidden", [*other, "--run-id", "r1"])
    attempt.refused("expose-reveals-hidden", [*other, "--run-id", "r2"], PAPERCLIP_PROVIDER_TRACE_PATH=trace)
    assert attempt.launch([*other, "--run-id", "r2"]).status == 7


@pytest.mark.parametrize("place", [f"durable-sessions/{SESSION}", "runner/r1", "opencode/s"])
def test_a_planted_link_is_refused(place: str, attempt: Attempt) -> None:
    link = attempt.instance / STATE / place
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(attempt.instance / "secrets")

    refusal = attempt.refused("expose-symlink", attempt.own("--run-id", "r1", "--session-id", "s"))

    assert refusal["path"] == str(link)


def test_a_planted_trace_is_refused(attempt: Attempt) -> None:
    link = attempt.instance / "data" / "provider-traces" / "mine.ndjson"
    link.symlink_to("other.ndjson")

    attempt.refused("expose-symlink", attempt.own(), PAPERCLIP_PROVIDER_TRACE_PATH=str(link))


@pytest.mark.parametrize(
    ("code", "place"),
    [
        ("cwd-ancestor", ""),
        ("cwd-ancestor", "runtime"),
        ("cwd-hidden", "secrets"),
        ("cwd-hidden", f"{STATE}/durable-sessions/{OTHER}"),
    ],
)
def test_a_directory_in_which_nothing_works_is_refused(code: str, place: str, attempt: Attempt) -> None:
    cwd = attempt.instance / place

    assert attempt.refused(code, attempt.own(), cwd)["path"] == str(cwd)


def test_the_own_session_is_a_directory_to_work_in(attempt: Attempt) -> None:
    session = attempt.instance / STATE / "durable-sessions" / SESSION
    session.mkdir()

    assert attempt.launch(attempt.own(), session).status == 7


def test_a_call_without_a_session_sees_no_instance(attempt: Attempt) -> None:
    """And may stand where a server stands, on the way to everything that is hidden."""
    attempt.runner.write_text(f"#!/bin/sh\nls {attempt.instance}/workspaces; ls {attempt.instances}; pwd\n")

    answer = attempt.launch(["--build-metadata"], attempt.root)

    assert answer.status == 0
    assert answer.stderr.count(b"Permission denied") == 2
    assert Path(os.fsdecode(answer.stdout.strip())).parents[1] == attempt.root / "s"
    (record,) = attempt.records
    assert (record["run"], record["owner"]) == (None, "")


@pytest.mark.parametrize(
    ("content", "mode", "status", "number"),
    [
        (None, 0o755, 127, 2),
        ("#!/bin/sh\n", 0o644, 126, 13),
        ("#!/no/such/interpreter\n", 0o755, 127, 2),
        ("no program\n", 0o755, 126, 8),
    ],
)
def test_a_runner_that_cannot_run_is_said_to_be_so(
    content: str | None, mode: int, status: int, number: int, attempt: Attempt
) -> None:
    attempt.runner.unlink()
    if content is not None:
        attempt.runner.write_text(content)
        attempt.runner.chmod(mode)

    answer = attempt.launch(attempt.own())

    assert (answer.status, answer.stdout, answer.stderr) == (status, b"", b"")
    assert attempt.records[-1]["code"] == "exec-failed"
    assert attempt.records[-1]["errno"] == number


def test_the_workspace_of_another_agent_is_closed(attempt: Attempt) -> None:
    other = attempt.instance / "workspaces" / "other"
    other.mkdir()

    assert attempt.refused("cwd-hidden", attempt.own(), other)["path"] == str(other)


@pytest.mark.parametrize("log", ["link", "directory", "second", "absent"])
def test_a_run_whose_log_does_not_say_which_agent_it_is_of_sees_no_workspace(
    attempt: Attempt, log: str
) -> None:
    """Neither by a link nor by the word of two agents."""
    own = attempt.instance / "data" / "run-logs" / "company" / attempt.workspace.name / f"{RUN}.ndjson"
    if log == "second":
        second = own.parents[1] / "other" / own.name
        second.parent.mkdir()
        second.touch()
    else:
        own.unlink()
    if log == "link":
        own.symlink_to(attempt.instance / "secrets" / "master.key")
    if log == "directory":
        own.mkdir()

    assert attempt.refused("cwd-hidden", attempt.own())["path"] == str(attempt.workspace)


def test_launches_at_the_same_time_take_turns(attempt: Attempt) -> None:
    started = [
        attempt.start(
            ["--state-dir", f"{attempt.instance}/{STATE}/durable-sessions/{name}", "--session-id", name],
            Path("/usr"),
        )
        for name in "abcdef"
    ]
    for process in started:
        with process:
            process.communicate(timeout=TIMEOUT_S)
            assert process.returncode == 7

    assert sorted(record["session"] for record in attempt.records) == list("abcdef")
    assert len({record["owner"] for record in attempt.records}) == 6


# Without a journal there is only standard error, and it names no path.


def said_on_stderr(answer: Answer, attempt: Attempt) -> dict[str, Any]:
    assert (answer.status, answer.stdout) == (125, b"")
    assert answer.stderr.count(b"\n") == 1
    assert os.fsencode(attempt.root) not in answer.stderr
    line: dict[str, Any] = json.loads(answer.stderr)
    assert line["schema"] == "runner-e2e.sandbox-refusal/v1"
    assert line["path"] is None
    return line


@pytest.mark.parametrize(
    "content", [None, "", "{}", "[" * 10_000, '{"schema":"runner-e2e.runnerd-configuration/v1"}']
)
def test_without_a_configuration_nothing_starts(content: str | None, attempt: Attempt) -> None:
    path = attempt.root / "private" / "runnerd.json"
    path.unlink()
    if content is not None:
        path.write_text(content)

    assert said_on_stderr(attempt.launch(attempt.own()), attempt)["code"] == "usage"
    assert not attempt.journal.exists()


def test_without_a_library_nothing_starts(attempt: Attempt) -> None:
    (attempt.root / "private" / "library").write_text("/no/such/library\n")

    assert said_on_stderr(attempt.launch(attempt.own()), attempt)["code"] == "usage"


@pytest.mark.parametrize("kind", ["directory", "link"])
def test_without_a_journal_nothing_starts(kind: str, attempt: Attempt) -> None:
    if kind == "directory":
        attempt.journal.mkdir()
    else:
        (attempt.root / "elsewhere").touch()
        attempt.journal.symlink_to(attempt.root / "elsewhere")

    assert said_on_stderr(attempt.launch(attempt.own()), attempt)["code"] == "protection-unavailable"
    assert not (attempt.root / "elsewhere").exists() or not (attempt.root / "elsewhere").read_bytes()


def test_a_damaged_journal_stops_every_launch(attempt: Attempt) -> None:
    attempt.journal.write_text('{"schema":"runner-e2e.sandbox-launch/v1","claims":[')

    answer = attempt.launch(attempt.own())

    assert (answer.status, answer.stdout, answer.stderr) == (125, b"", b"")
    assert b"protection-unavailable" in attempt.journal.read_bytes()
