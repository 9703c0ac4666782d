"""What one launch hides, exposes and needs, read off runnerd's own words."""

from __future__ import annotations

import pytest

from runner_e2e.isolation.paths import (
    HIDDEN_IN_INSTANCE,
    PRIVATE_MODE,
    SHARED_FIRST_USE,
    SHARED_MODE,
    TRACE_MODE,
    RunScope,
    ScopeError,
    plan_run_scope,
    session_directory_name,
)

PARENT = "/var/tmp/re-1/paperclip-home/instances"
INSTANCE = f"{PARENT}/main"
STATE = f"{INSTANCE}/runtime/paperclip-runner"
SCRATCH = "/var/tmp/re-1/s"
SESSION = "5d" * 32
OWN = f"{STATE}/durable-sessions/{SESSION}"
TRACE = f"{INSTANCE}/data/provider-traces/00000000-0000-4000-8000-000000000001.ndjson"


def scope_of(*arguments: str, trace: str | None = None) -> RunScope:
    return plan_run_scope(list(arguments), trace, [PARENT], SCRATCH)


def refused(*arguments: str, trace: str | None = None) -> ScopeError:
    with pytest.raises(ScopeError) as caught:
        scope_of(*arguments, trace=trace)
    assert caught.value.message
    assert caught.value.remedy
    return caught.value


def test_a_durable_session_sees_its_own_parts() -> None:
    scope = scope_of(
        "--connect-url",
        "ws://127.0.0.1:1/api/runner/v1/connect/r1",
        "--state-dir",
        f"{OWN}/runner",
        "--runner-id",
        "x",
        "--run-id",
        "r1",
        "--session-id",
        "session-r1",
        trace=TRACE,
    )

    assert scope.instance == INSTANCE
    assert scope.owner == OWN
    assert (scope.run, scope.session) == ("r1", "session-r1")
    assert set(scope.exposed) == {
        OWN,
        f"{STATE}/runner/r1",
        f"{STATE}/opencode/session-r1",
        TRACE,
        scope.scratch,
    }
    assert scope.files == [(TRACE, TRACE_MODE)]


def test_the_whole_hidden_set_lies_below_the_instance() -> None:
    """The product's nine, and what leaked beside them."""
    nine = [
        f"runtime/paperclip-runner/{name}"
        for name in ("durable-sessions", "runner", "control-plane", "opencode")
    ]
    nine += ["data/run-logs", "data/provider-traces", "data/backups", "db", "secrets"]
    more = [".env", "data/workspace-operation-logs", "logs"]

    scope = scope_of("--state-dir", f"{OWN}/runner")

    assert set(HIDDEN_IN_INSTANCE) == {*nine, *more}
    assert set(scope.hidden) == {SCRATCH, *(f"{INSTANCE}/{place}" for place in (*nine, *more))}


def test_a_direct_codex_run_owns_its_state() -> None:
    scope = scope_of("--state-dir", f"{STATE}/runner/r1", "--run-id", "r1")

    assert scope.owner == f"{STATE}/runner/r1"
    assert set(scope.exposed) == {f"{STATE}/runner/r1", scope.scratch}


@pytest.mark.parametrize("run", [[], ["--run-id", "r2"]])
def test_a_direct_codex_run_must_be_the_run(run: list[str]) -> None:
    assert refused("--state-dir", f"{STATE}/runner/r1", *run).code == "usage"


def test_without_a_state_directory_every_instance_is_hidden() -> None:
    scope = scope_of("--build-metadata")

    assert scope.instance is None
    assert scope.hidden == [SCRATCH, PARENT]
    assert scope.exposed == [scope.scratch]
    assert [path for path, _ in scope.directories] == [SCRATCH, scope.scratch, scope.temporary, scope.home]
    assert scope.files == []


def test_a_call_without_a_state_directory_gets_no_trace_of_an_instance() -> None:
    scope = scope_of("--build-metadata", trace=TRACE)

    assert TRACE not in scope.exposed
    assert scope.files == []


def test_the_own_parts_come_after_the_directories_that_hold_them() -> None:
    scope = scope_of("--state-dir", f"{OWN}/runner", "--run-id", "r1", "--session-id", "s", trace=TRACE)
    created = [path for path, _ in scope.directories]

    for position, path in enumerate(created):
        parent = path.rpartition("/")[0]
        assert parent in created[:position] or parent in (INSTANCE, "/var/tmp/re-1", f"{INSTANCE}/runtime"), (
            path
        )
    for place in SHARED_FIRST_USE:
        assert (f"{INSTANCE}/{place}", SHARED_MODE) in scope.directories
    assert TRACE.rpartition("/")[0] in created


def test_private_directories_are_closed_to_others() -> None:
    modes = dict(scope_of("--state-dir", OWN, "--run-id", "r1", "--session-id", "s", trace=TRACE).directories)

    for path in (OWN, f"{STATE}/runner/r1", f"{STATE}/opencode/s", SCRATCH, TRACE.rpartition("/")[0]):
        assert modes[path] == PRIVATE_MODE == 0o700
    assert modes[f"{INSTANCE}/workspaces"] == 0o777


def test_scratch_names_are_short_and_its_owners() -> None:
    one = scope_of("--state-dir", f"{OWN}/runner")
    again = scope_of("--state-dir", f"{OWN}/runner/", "--run-id", "r2")
    other = scope_of("--state-dir", f"{STATE}/durable-sessions/{'6e' * 32}/runner")

    assert one.scratch == again.scratch != other.scratch
    # A socket below it has to fit into 107 bytes.
    assert len(f"{one.temporary}/{'x' * 60}") <= 107
    assert one.temporary != one.home
    assert one.temporary.startswith(f"{one.scratch}/")


@pytest.mark.parametrize("state", [OWN, f"{OWN}/", f"{OWN}/runner", f"{OWN}/runner//", f"{OWN}/a/b/c"])
def test_the_session_is_the_first_segment(state: str) -> None:
    assert scope_of("--state-dir", state).owner == OWN


@pytest.mark.parametrize(
    "state",
    [
        "",
        "relative",
        OWN[1:],
        f"//{OWN}",
        f"{STATE}//durable-sessions/x/runner",
        f"{OWN}/../other/runner",
        f"{OWN}/./runner",
        f"{STATE}/durable-sessions/../durable-sessions/x",
        f"{OWN}/..",
        f"{OWN}/run\0ner",
        f"{STATE}/durable-sessions/a b/runner",
        f"{STATE}/durable-sessions/a\nb/runner",
        f"{STATE}/durable-sessions/\udcff/runner",
        f"{STATE}/durable-sessions/ü/runner",
        f"{STATE}/durable-sessions/{'x' * 256}/runner",
    ],
)
def test_a_state_directory_that_is_not_plain_is_refused(state: str) -> None:
    assert refused("--state-dir", state).code == "usage"


@pytest.mark.parametrize(
    "state",
    [
        "/",
        STATE,
        f"{STATE}/durable-sessions",
        f"{STATE}/opencode/s",
        f"{STATE}/control-plane/x",
        f"{STATE}/durable-session/x",
        f"{STATE}/Durable-Sessions/x",
        f"{INSTANCE}/db/x/y/z/w",
        f"{INSTANCE}/secrets",
        PARENT,
        f"{PARENT}x/main/runtime/paperclip-runner/durable-sessions/x",
        f"/var/tmp/re-2/paperclip-home/instances/main/runtime/paperclip-runner/durable-sessions/{SESSION}",
        f"{INSTANCE}/deeper/runtime/paperclip-runner/durable-sessions/x",
        f"{PARENT}/runtime/paperclip-runner/durable-sessions/x",
    ],
)
def test_a_state_directory_elsewhere_is_refused(state: str) -> None:
    assert refused("--state-dir", state).code == "expose-outside-hidden"


@pytest.mark.parametrize(
    ("option", "form"),
    [
        (option, form)
        for option in ("--state-dir", "--session-id", "--run-id")
        for form in ("joined", "separate")
    ],
)
def test_both_forms_of_an_option_count(option: str, form: str) -> None:
    values = {"--state-dir": OWN, "--session-id": "s", "--run-id": "r1"}
    words = [f"{name}={value}" for name, value in values.items() if name != option]
    words += [f"{option}={values[option]}"] if form == "joined" else [option, values[option]]

    scope = scope_of(*words)

    assert (scope.owner, scope.session, scope.run) == (OWN, "s", "r1")


@pytest.mark.parametrize(
    "words",
    [
        ["--state-dir"],
        ["--state-dir", OWN, "--session-id"],
        ["--state-dir", OWN, "--state-dir", f"{OWN}x"],
        ["--state-dir", OWN, f"--state-dir={OWN}/runner"],
        ["--state-dir", OWN, "--run-id", "a", "--run-id=b"],
        ["--state-dir", OWN, "--session-id=a", "--session-id=b"],
        ["--state-dir="],
        ["--state-dir", OWN, "--run-id", ""],
        ["--state-dir", OWN, "--run-id", "."],
        ["--state-dir", OWN, "--run-id", ".."],
        ["--state-dir", OWN, "--run-id", "a/b"],
        ["--state-dir", OWN, "--run-id", "../other"],
        ["--state-dir", OWN, "--run-id", "a\0"],
        ["--state-dir", OWN, "--run-id", "\udcff"],
        ["--state-dir", OWN, "--run-id", "x" * 256],
        ["--state-dir", OWN, "--session-id", ""],
        ["--state-dir", OWN, "--session-id", "."],
        ["--state-dir", OWN, "--session-id", ".."],
    ],
)
def test_contradictory_and_hostile_words_are_refused(words: list[str]) -> None:
    assert refused(*words).code == "usage"


def test_the_same_value_twice_is_no_contradiction() -> None:
    assert scope_of("--state-dir", OWN, f"--state-dir={OWN}", "--run-id=a", "--run-id", "a").run == "a"


def test_an_option_that_takes_another_as_its_value_does_not_hide_it() -> None:
    """Whatever the real runnerd makes of such words, two readings of a name are a contradiction."""
    words = ["--item-id", "--state-dir", f"{STATE}/durable-sessions/other", "--state-dir", OWN]

    assert refused(*words).code == "usage"


def test_a_value_that_looks_like_an_option_is_a_value() -> None:
    scope = scope_of("--state-dir", OWN, "--session-id", "--run-id", "r1")

    assert (scope.session, scope.run) == ("--run-id", None)


def test_without_a_run_and_a_session_only_the_own_state_is_shown() -> None:
    scope = scope_of("--state-dir", OWN)

    assert set(scope.exposed) == {OWN, scope.scratch}


def test_a_name_may_be_as_long_as_a_file_name() -> None:
    assert scope_of("--state-dir", OWN, "--run-id", "x" * 255).run == "x" * 255


@pytest.mark.parametrize(
    "words", [["--state-directory", OWN], ["--State-Dir", OWN], ["-state-dir", OWN], [OWN]]
)
def test_other_words_are_not_ours(words: list[str]) -> None:
    assert scope_of(*words).instance is None


@pytest.mark.parametrize(
    ("session", "name"),
    [
        ("session-1", "session-1"),
        ("A.b_c-9", "A.b_c-9"),
        ("a/b", "a_b"),
        ("../escape", ".._escape"),
        ("...", "..."),
        ("/", "_"),
        ("a b:c", "a_b_c"),
        ("ü日本", "___"),
        ("\udcff", "_"),
        ("a\0b\n", "a_b_"),
        ("x" * 120, "x" * 120),
        ("x" * 121, "x" * 120),
        ("x" * 119 + "/y", "x" * 119 + "_"),
    ],
)
def test_a_session_directory_has_the_drivers_name(session: str, name: str) -> None:
    assert session_directory_name(session) == name


@pytest.mark.parametrize("session", ["", ".", ".."])
def test_a_session_that_is_no_name_is_refused(session: str) -> None:
    with pytest.raises(ScopeError, match="no directory name"):
        session_directory_name(session)


@pytest.mark.parametrize(
    "trace",
    [
        f"{INSTANCE}/data/provider-traces/a.ndjson.rehydration",
        f"{INSTANCE}/data/provider-traces/...",
        f"{INSTANCE}/data/provider-traces/a b\nc",
    ],
)
def test_a_trace_is_one_file_of_the_traces(trace: str) -> None:
    scope = scope_of("--state-dir", OWN, trace=trace)

    assert scope.exposed[-1] == trace
    assert scope.files == [(trace, 0o600)]


@pytest.mark.parametrize(
    "trace",
    [
        "a.ndjson",
        "/",
        "/etc/passwd",
        f"{INSTANCE}/data/provider-traces",
        f"{INSTANCE}/data/provider-traces/",
        f"{INSTANCE}/data/provider-traces/.",
        f"{INSTANCE}/data/provider-traces/..",
        f"{INSTANCE}/data/provider-traces/../../secrets/master.key",
        f"{INSTANCE}/data/provider-traces/sub/a.ndjson",
        f"{INSTANCE}/data//provider-traces/a.ndjson",
        f"{INSTANCE}/data/./provider-traces/a.ndjson",
        f"{INSTANCE}/data/provider-traces/a\0b",
        f"{INSTANCE}/data/run-logs/a.ndjson",
        f"{PARENT}/other/data/provider-traces/a.ndjson",
    ],
)
def test_a_trace_elsewhere_is_refused(trace: str) -> None:
    assert refused("--state-dir", OWN, trace=trace).code == "expose-outside-hidden"


@pytest.mark.parametrize("trace", [None, ""])
def test_without_a_trace_there_is_none(trace: str | None) -> None:
    assert scope_of("--state-dir", OWN, trace=trace).files == []


def test_any_of_several_instance_parents_serves() -> None:
    scope = plan_run_scope(["--state-dir", OWN], None, ["/elsewhere/instances", PARENT], SCRATCH)

    assert scope.instance == INSTANCE
