"""What one launch hides, exposes and needs, read off runnerd's own words."""

from __future__ import annotations

from fnmatch import fnmatch

import pytest

from runner_e2e.isolation.layout import (
    EXPOSED,
    HIDDEN,
    HIDDEN_IN_INSTANCE,
    HIDDEN_IN_TEMPORARY_ROOT,
    PLACES,
    SHARED_FIRST_USE,
)
from runner_e2e.isolation.layout import (
    INSTANCE as IN_INSTANCE,
)
from runner_e2e.isolation.paths import (
    PRIVATE_MODE,
    SHARED_MODE,
    TRACE_MODE,
    RunScope,
    is_instance_parent,
    own_run_directories,
    plan_run_scope,
    show_agent,
)
from runner_e2e.isolation.words import ScopeError, session_directory_name

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
    """The product's nine, what leaked beside them, and what is another agent's or the server's own."""
    nine = [
        f"runtime/paperclip-runner/{name}"
        for name in ("durable-sessions", "runner", "control-plane", "opencode")
    ]
    nine += ["data/run-logs", "data/provider-traces", "data/backups", "db", "secrets"]
    more = [".env", "data/workspace-operation-logs", "logs", "config.json", "runtime-info.json"]
    agents = ["workspaces", "companies", "projects", "chat-workspaces"]
    logins = ["ai-local-logins", "codex-home", "grok-home", "claude-config-seed"]

    scope = scope_of("--state-dir", f"{OWN}/runner")

    assert {*nine, *more, *agents, *logins} <= set(HIDDEN_IN_INSTANCE)
    assert scope.hidden == [SCRATCH, *(f"{INSTANCE}/{place}" for place in HIDDEN_IN_INSTANCE)]
    assert (
        tuple(pattern for root, pattern, kind, _ in PLACES if (root, kind) == (IN_INSTANCE, HIDDEN))
        == HIDDEN_IN_INSTANCE
    )


def test_a_launch_of_no_known_agent_sees_no_agents_places() -> None:
    scope = scope_of("--state-dir", f"{OWN}/runner", "--run-id", "r1")

    for place in ("workspaces", "companies", "projects", "chat-workspaces"):
        assert f"{INSTANCE}/{place}" in scope.hidden
        assert not [path for path in scope.exposed if path.startswith(f"{INSTANCE}/{place}")]


def test_a_launch_sees_the_places_of_its_own_agent_and_company() -> None:
    scope = scope_of("--state-dir", f"{OWN}/runner", "--run-id", "r1")
    before, claims = set(scope.exposed), list(scope.claims)

    show_agent(scope, "c1", "a1")

    assert set(scope.exposed) - before == {
        f"{INSTANCE}/workspaces/a1",
        f"{INSTANCE}/companies/c1/agents/a1",
        f"{INSTANCE}/chat-workspaces/c1/a1",
        f"{INSTANCE}/projects/c1",
    }
    # Another session of the same agent has them as well.
    assert scope.claims == claims
    created = [path for path, _ in scope.directories]
    for path in scope.exposed:
        parents = {path.rpartition("/")[0], path} - {scope.scratch, SCRATCH.rpartition("/")[0]}
        assert parents <= {*created, f"{INSTANCE}/data/provider-traces"}, path
    assert created.index(f"{INSTANCE}/companies/c1") < created.index(f"{INSTANCE}/companies/c1/agents")


@pytest.mark.parametrize("names", [("..", "a"), ("c", ""), ("c", "a/b"), ("c", "."), ("c\0", "a")])
def test_an_agent_of_no_plain_name_is_refused(names: tuple[str, str]) -> None:
    with pytest.raises(ScopeError):
        show_agent(scope_of("--state-dir", f"{OWN}/runner", "--run-id", "r1"), *names)


def test_what_a_launch_is_shown_of_the_instance_stands_in_the_layout() -> None:
    scope = scope_of("--state-dir", f"{OWN}/runner", "--run-id", "r1", "--session-id", "s", trace=TRACE)
    show_agent(scope, "c1", "a1")
    patterns = [row[1] for row in PLACES if row[0] == IN_INSTANCE and "*" in row[1]]

    shown = {path.removeprefix(f"{INSTANCE}/") for path in scope.exposed if path.startswith(INSTANCE)}

    named = {path: [one for one in patterns if fnmatch(path, one)] for path in shown}
    assert all(named.values()), named
    assert {one for found in named.values() for one in found} == set(patterns)
    exposed = [row[1] for row in PLACES if row[0] == IN_INSTANCE and row[2] == EXPOSED]
    for pattern in exposed:
        assert any(pattern.startswith(f"{place}/") for place in HIDDEN_IN_INSTANCE), pattern


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


def test_other_instance_parents_are_hidden() -> None:
    scope = plan_run_scope(["--state-dir", OWN], None, ["/elsewhere/instances", PARENT, STARRED], SCRATCH)

    assert {"/elsewhere/instances", TEMPORARY} < set(scope.hidden)
    assert PARENT not in scope.hidden
    assert scope.withheld == [PARENT]


# Where the instance lies in a temporary root that the target's harness made and named.

TEMPORARY = "/var/tmp/re-1/t"
STARRED = f"{TEMPORARY}/*/paperclip-home/instances"
ROOT = f"{TEMPORARY}/paperclip-runner-e2e-aB3.x_1"
IN_ROOT = f"{ROOT}/paperclip-home/instances/e2e"
SESSION_IN_ROOT = f"{IN_ROOT}/runtime/paperclip-runner/durable-sessions/{SESSION}"


def scope_in_root(state: str = f"{SESSION_IN_ROOT}/runner", *more: str) -> RunScope:
    return plan_run_scope(["--state-dir", state, *more], None, [PARENT, STARRED], SCRATCH)


def test_an_instance_in_a_temporary_root_is_what_the_state_directory_says() -> None:
    scope = scope_in_root()

    assert scope.instance == IN_ROOT
    assert scope.owner == SESSION_IN_ROOT
    assert scope.beside == TEMPORARY
    assert not any("*" in path for path in (*scope.hidden, *scope.exposed, *scope.withheld, *scope.writable))


def test_all_on_the_way_to_an_instance_in_a_temporary_root_is_closed_but_for_the_workspace() -> None:
    scope = scope_in_root()

    assert scope.withheld == [
        TEMPORARY,
        ROOT,
        f"{ROOT}/paperclip-home",
        f"{ROOT}/paperclip-home/instances",
    ]
    assert scope.writable == [f"{ROOT}/workspace"]
    names = {"artifacts-private", "control", "storage", "backups", "xdg-cache"}
    assert set(HIDDEN_IN_TEMPORARY_ROOT) == names
    assert {f"{ROOT}/{name}" for name in names} | {PARENT} < set(scope.hidden)
    assert {f"{IN_ROOT}/{place}" for place in HIDDEN_IN_INSTANCE} < set(scope.hidden)


def test_two_temporary_roots_of_one_instance_id_share_nothing() -> None:
    one, other = scope_in_root(), scope_in_root(SESSION_IN_ROOT.replace(ROOT, f"{TEMPORARY}/other"))

    assert not set(one.claims) & set(other.claims)
    assert one.scratch != other.scratch


def test_in_the_attempts_own_instance_nothing_of_temporary_roots_is_planned() -> None:
    scope = scope_of("--state-dir", OWN)

    assert (scope.withheld, scope.writable, scope.beside) == ([PARENT], [], None)


def test_without_a_state_directory_every_temporary_root_is_hidden() -> None:
    scope = plan_run_scope(["--build-metadata"], None, [PARENT, STARRED], SCRATCH)

    assert scope.hidden == [SCRATCH, PARENT, TEMPORARY]


@pytest.mark.parametrize("name", ["a", ".a", "...", "-", "a.b-c_d", "x" * 255])
def test_a_temporary_root_may_have_any_plain_name(name: str) -> None:
    assert scope_in_root(SESSION_IN_ROOT.replace(ROOT, f"{TEMPORARY}/{name}")).instance == IN_ROOT.replace(
        ROOT, f"{TEMPORARY}/{name}"
    )


@pytest.mark.parametrize(
    ("code", "root"),
    [
        ("usage", f"{TEMPORARY}/*"),
        ("usage", f"{TEMPORARY}/a*"),
        ("usage", f"{TEMPORARY}/a b"),
        ("usage", f"{TEMPORARY}/a\n"),
        ("usage", f"{TEMPORARY}/ü"),
        ("usage", f"{TEMPORARY}/\udcff"),
        ("usage", f"{TEMPORARY}/{'x' * 256}"),
        ("usage", f"{TEMPORARY}/."),
        ("usage", f"{TEMPORARY}/.."),
        ("usage", f"{TEMPORARY}/a/../b"),
        ("usage", f"{TEMPORARY}/"),
        ("usage", f"{TEMPORARY}/a\0"),
        ("expose-outside-hidden", TEMPORARY),
        ("expose-outside-hidden", f"{TEMPORARY}/a/b"),
        ("expose-outside-hidden", f"{TEMPORARY}x/a"),
        ("expose-outside-hidden", "/var/tmp/re-2/t/a"),
        ("expose-outside-hidden", "/a"),
    ],
)
def test_an_instance_in_no_temporary_root_of_this_attempt_is_refused(code: str, root: str) -> None:
    with pytest.raises(ScopeError) as caught:
        scope_in_root(SESSION_IN_ROOT.replace(ROOT, root))

    assert caught.value.code == code


@pytest.mark.parametrize(
    ("state", "trace"),
    [
        (SESSION_IN_ROOT.replace("instances/e2e", "instances"), None),
        (SESSION_IN_ROOT.replace("instances/e2e", "instances/e2e/deeper"), None),
        (SESSION_IN_ROOT.replace("paperclip-home", "Paperclip-Home"), None),
        (f"{IN_ROOT}/secrets/a/b/c/d", None),
        (SESSION_IN_ROOT, f"{TEMPORARY}/other/paperclip-home/instances/e2e/data/provider-traces/a.ndjson"),
        (SESSION_IN_ROOT, f"{STARRED}/e2e/data/provider-traces/a.ndjson"),
    ],
)
def test_a_place_elsewhere_in_a_temporary_root_is_refused(state: str, trace: str | None) -> None:
    with pytest.raises(ScopeError) as caught:
        plan_run_scope(["--state-dir", state], trace, [STARRED], SCRATCH)

    assert caught.value.code == "expose-outside-hidden"


def test_a_star_is_nothing_special_in_a_longer_segment() -> None:
    with pytest.raises(ScopeError):
        plan_run_scope(
            ["--state-dir", SESSION_IN_ROOT], None, [STARRED.replace("*", "paperclip-runner-e2e-*")], SCRATCH
        )


@pytest.mark.parametrize(
    "path", ["/a", PARENT, STARRED, "/a/*", "/a/*/b", "/a/x*/*/b", "/a/**", "/a b/\udcff", "/a/.../b"]
)
def test_an_absolute_plain_path_with_one_star_can_hold_instances(path: str) -> None:
    assert is_instance_parent(path)


@pytest.mark.parametrize(
    "path",
    ["", "/", "a", "*/a", "/*", "/*/a", "/a/*/*", "/a/*/b/*", "/a/../*", "/a/./b", "/a//b", "/a/", "/a\0/b"],
)
def test_other_paths_hold_no_instances(path: str) -> None:
    assert not is_instance_parent(path)


RUN = "9f1c4c52-7c1b-4a1e-9d57-1d5a3a4f7b10"
ANOTHER = "0e8d3b41-6b0a-4f0d-8c46-0c492938e6af"


@pytest.mark.parametrize(
    "name",
    [
        f"paperclip-run-PAP-12-{RUN}-aB3xYz",
        f"paperclip-run-{ANOTHER}-{RUN}-aB3xYz",
        f"paperclip-run-PAP-12-{RUN}",
        f"paperclip-run-{RUN}-aB3xYz",
        f"paperclip-run-{RUN}",
    ],
)
def test_a_directory_that_ends_with_the_run_is_its_own(name: str) -> None:
    assert own_run_directories(["other", name, f"paperclip-run-1-{ANOTHER}-a"], RUN) == [name]


@pytest.mark.parametrize(
    "name",
    [
        f"paperclip-run-PAP-12-{ANOTHER}-aB3xYz",
        f"paperclip-run-{RUN}-{ANOTHER}-aB3xYz",
        f"paperclip-run-PAP-{RUN}x-aB3xYz",
        f"paperclip-run-PAP-x{RUN}-aB3xYz",
        f"paperclip-run-PAP-{RUN.upper()}-aB3xYz",
        f"paperclip-opencode-config-{RUN}",
        f"x-paperclip-run-{RUN}-a",
        f"paperclip-run{RUN}",
        f"paperclip-run-{RUN[:-1]}-a",
        "paperclip-run-",
        RUN,
        "",
    ],
)
def test_a_directory_of_another_run_is_not_own_also_when_its_issue_is_named_after_this_one(name: str) -> None:
    assert own_run_directories([name], RUN) == []


@pytest.mark.parametrize("run", ["run", "paperclip", "paperclip-run", "1"])
def test_the_words_of_the_prefix_and_of_an_issue_are_no_run(run: str) -> None:
    assert own_run_directories([f"paperclip-run-PAP-1-{ANOTHER}-aB3xYz"], run) == []


def test_a_launch_without_a_run_has_no_directories() -> None:
    assert own_run_directories(["paperclip-run-None-a", "paperclip-run--a"], None) == []


# Programs that runnerd is told to start.


def test_absolute_programs_are_found_in_both_forms_and_as_often_as_they_stand() -> None:
    words = ["--opencode-executable", "/a", "--opencode-proxy-command=/b", "--opencode-proxy-script", "/c"]
    words += ["--acpx-sidecar-command", "/d", "--acpx-sidecar-script=/e", "--fake-harness-script", "/f"]
    words += ["--opencode-executable=/g"]

    found = scope_of("--state-dir", OWN, *words).programs

    assert [path for _, path in found] == ["/a", "/b", "/c", "/d", "/e", "/f", "/g"]
    assert found[1] == ("--opencode-proxy-command", "/b")
    assert scope_of("--build-metadata", *words).programs == found


def test_what_is_no_absolute_program_is_left_alone() -> None:
    words = ["--opencode-executable", "node", "--opencode-proxy-script=./a", "--acpx-sidecar-command="]
    words += ["--opencode-executable-sha256", "/a", "--diagnostics-directory", "/b", "--fake-harness", "/c"]

    assert scope_of("--state-dir", OWN, *words, "--fake-harness-script").programs == []


def test_a_program_option_takes_no_other_option_away() -> None:
    scope = scope_of("--opencode-executable", "--state-dir", OWN)

    assert (scope.owner, scope.programs) == (OWN, [])
