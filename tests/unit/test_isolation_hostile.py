"""Whatever words a launch comes with: it sees its own or it does not start."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass

from hypothesis import event, given, settings
from hypothesis import strategies as st

from runner_e2e.isolation.paths import RunScope, plan_run_scope
from runner_e2e.isolation.words import ScopeError
from runner_e2e.launch.launching import refuse_shared_claims
from runner_e2e.sandbox.refusal import Refusal

PARENT = "/r/paperclip-home/instances"
SCRATCH = "/r/s"
RUNNER = "runtime/paperclip-runner"

SEGMENTS = st.sampled_from(
    ["a", "b", "a", "b", "a.b", "..", ".", "", "a b", "a\n", "\udcff", "ü", "a\0", "x" * 300]
)
NAMES = st.sampled_from(["i1", "i2", "i1", "..", "", "i 1"])
KINDS = st.sampled_from(
    ["durable-sessions", "runner", "durable-sessions", "opencode", "control-plane", "..", "db"]
)
STATES = st.one_of(
    st.builds(
        lambda name, kind, segment, rest: f"{PARENT}/{name}/{RUNNER}/{kind}/{segment}{rest}",
        NAMES,
        KINDS,
        SEGMENTS,
        st.sampled_from(["", "/", "/runner", "/runner/../../b", "/.", "//x"]),
    ),
    st.lists(st.one_of(SEGMENTS, KINDS, st.sampled_from([PARENT, RUNNER, "/"])), max_size=6).map("/".join),
)
SESSIONS = st.one_of(
    st.sampled_from(["s", "s/", "s_", "y" * 120, "y" * 121, "y" * 122, "..", "../a", "", "a", "b"]),
    st.text(max_size=4),
)
TRACES = st.one_of(
    st.none(),
    st.builds(
        lambda name, place, file: f"{PARENT}/{name}/data/{place}/{file}",
        NAMES,
        st.sampled_from(["provider-traces", "provider-traces", "run-logs", "provider-traces/..", ""]),
        st.sampled_from(["t1.ndjson", "t2.ndjson", "..", "", ".", "x/t1.ndjson", "t1.ndjson/", "\0"]),
    ),
)
OTHERS = st.one_of(
    st.sampled_from(
        ["--connect-url", "--build-metadata", "--state-dir", "--session-id=", "--run-id", "--", "x"]
    ),
    st.binary(max_size=4).map(lambda word: word.decode("utf-8", "surrogateescape")),
)


@st.composite
def launches(draw: st.DrawFn) -> tuple[list[str], str | None]:
    """Runnerd's words, mostly well-formed, in any order, with others strewn in."""
    groups: list[list[str]] = []
    for option, values in (("--state-dir", STATES), ("--session-id", SESSIONS), ("--run-id", SEGMENTS)):
        for _ in range(draw(st.sampled_from([1, 1, 1, 0, 2]))):
            value = draw(values)
            groups.append(draw(st.sampled_from([[option, value], [f"{option}={value}"], [option, value]])))
    groups += [[word] for word in draw(st.lists(OTHERS, max_size=2))]
    words = [word for group in draw(st.permutations(groups)) for word in group]
    return words, draw(TRACES)


# Well-formed words that name each other's parts: what a faulty or hostile server would send.
PLAIN = st.builds(
    lambda name, kind, segment, run, session, trace: (
        [
            "--state-dir",
            f"{PARENT}/{name}/{RUNNER}/{kind}/{segment}",
            "--run-id",
            run,
            "--session-id",
            session,
        ],
        trace and f"{PARENT}/{name}/data/provider-traces/{trace}",
    ),
    st.sampled_from(["i1", "i1", "i2"]),
    st.sampled_from(["durable-sessions", "durable-sessions", "runner"]),
    st.sampled_from(["a", "b", "c"]),
    st.sampled_from(["a", "b", "r1", "r2", "r3"]),
    st.sampled_from(["s1", "s2", "s/", "s_", "y" * 120, "y" * 121]),
    st.sampled_from([None, "t1", "t2"]),
)


def scope_of(launch: tuple[list[str], str | None]) -> RunScope | None:
    words, trace = launch
    try:
        scope = plan_run_scope(words, trace, [PARENT], SCRATCH)
    except ScopeError as error:
        event(f"refused: {error.code}")
        return None
    event("planned")
    return scope


def owner_of(words: list[str]) -> str:
    """Return the place of the session or direct run that accepted words name, without the code's help."""
    rest = list(words)
    while rest:
        name, joined, value = rest.pop(0).partition("=")
        if name in ("--state-dir", "--session-id", "--run-id") and not joined:
            value = rest.pop(0)
        if name == "--state-dir":
            return "/".join(value.split("/")[: PARENT.count("/") + 6])
    return ""


def is_beneath(path: str, top: str) -> bool:
    return path == top or path.startswith(top + "/")


@settings(deadline=None, max_examples=500)
@given(launches())
def test_what_a_launch_exposes_is_hidden_otherwise_and_shows_nothing_hidden(
    launch: tuple[list[str], str | None],
) -> None:
    scope = scope_of(launch)
    if scope is None:
        return

    for path in scope.exposed:
        assert path == posixpath.normpath(path)
        assert "\0" not in path
        assert any(path != top and is_beneath(path, top) for top in scope.hidden), path
        assert not any(is_beneath(top, path) for top in scope.hidden), path
    created = [path for path, _ in (*scope.directories, *scope.files)]
    allowed = [SCRATCH] if scope.instance is None else [SCRATCH, scope.instance]
    assert all(path == posixpath.normpath(path) for path in created)
    assert all(any(is_beneath(path, top) for top in allowed) for path in created)
    assert is_beneath(scope.temporary, scope.scratch)
    assert is_beneath(scope.home, scope.scratch)


@dataclass
class Machine:
    """A journal as the wrapper keeps it: who was launched, and what was given to whom."""

    records: list[dict[str, object]]
    given: list[tuple[str, list[str]]]

    def launch(self, scope: RunScope, owner: str) -> bool:
        try:
            refuse_shared_claims(scope, self.records)
        except Refusal:
            return False
        self.records.append({"owner": scope.owner, "session": scope.session, "claims": scope.claims})
        self.given.append((owner, scope.exposed))
        return True


@settings(deadline=None, max_examples=500)
@given(st.lists(st.one_of(PLAIN, PLAIN, launches()), min_size=2, max_size=6))
def test_nothing_is_ever_given_to_two_owners(several: list[tuple[list[str], str | None]]) -> None:
    machine = Machine([], [])
    for launch in several:
        scope = scope_of(launch)
        if scope is not None and not machine.launch(scope, owner_of(launch[0])):
            event("refused: claimed by another")

    for owner, exposed in machine.given:
        for other, theirs in machine.given:
            if owner != other:
                shared = [path for path in exposed for place in theirs if is_beneath(path, place)]
                assert not shared


@settings(deadline=None)
@given(st.one_of(PLAIN, launches()), st.integers(1, 3))
def test_a_launch_may_be_repeated(launch: tuple[list[str], str | None], times: int) -> None:
    scope = scope_of(launch)
    if scope is None:
        return
    machine = Machine([], [])

    assert all(machine.launch(scope, "") for _ in range(times))


@settings(deadline=None)
@given(st.lists(OTHERS, max_size=6), TRACES)
def test_any_words_give_a_scope_or_a_reason(words: list[str], trace: str | None) -> None:
    scope = scope_of((words, trace))

    assert scope is None or scope.instance is None
