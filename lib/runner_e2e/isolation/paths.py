"""What one launch hides, exposes and needs created: from the instance root and runnerd's own words.

The layout is `layout`'s, the words are read by `words`. The durable session's name is a hash that is never
computed here: it is read off `--state-dir`. Paths are `str` with surrogates for bytes that are not UTF-8.
"""

from zlib import crc32

from .layout import (
    CHAT_WORKSPACES,
    CODEX_STATE,
    COMPANIES,
    DURABLE_SESSIONS,
    HIDDEN_IN_INSTANCE,
    HIDDEN_IN_TEMPORARY_ROOT,
    OPENCODE_SESSIONS,
    PROJECTS,
    PROVIDER_TRACES,
    RUN_DIRECTORY_PREFIX,
    RUNNER_STATE,
    SHARED_FIRST_USE,
    SHOWN_IN_TEMPORARY_ROOT,
    STAR,
    WORKSPACES,
)
from .words import ScopeError, read_words, require_segment, session_directory_name

PRIVATE_MODE, SHARED_MODE, TRACE_MODE = 0o700, 0o777, 0o600


class RunScope:
    """The paths of one launch, absolute.

    `directories` and `files` are to be created if missing, in order, with their modes. `scratch` is
    the launch's private directory; `owner` names the durable session (or direct run) by its place, and
    `claims` what only one owner may ever be given. `session_claim` is the one among them that its raw
    session id has to own as well. `withheld` directories show none of their entries but those on the way
    to the instance and the `writable` ones; `beside` is the one among them that may hold directories of
    the launch's run, see `own_run_directories`. `programs` are the options with the absolute paths that
    runnerd is told to start.
    """

    __slots__ = (
        "beside",
        "claims",
        "directories",
        "exposed",
        "files",
        "hidden",
        "instance",
        "owner",
        "programs",
        "run",
        "scratch",
        "session",
        "session_claim",
        "withheld",
        "writable",
    )

    def __init__(self, instance: str | None, owner: str, scratch: str) -> None:
        self.instance = instance
        self.owner = owner
        self.scratch = scratch
        self.run: str | None = None
        self.session: str | None = None
        self.session_claim: str | None = None
        self.hidden: list[str] = []
        self.exposed: list[str] = [scratch]
        self.directories: list[tuple[str, int]] = []
        self.files: list[tuple[str, int]] = []
        self.claims: list[str] = []
        self.withheld: list[str] = []
        self.writable: list[str] = []
        self.beside: str | None = None
        self.programs: list[tuple[str, str]] = []

    @property
    def temporary(self) -> str:
        """The launch's TMPDIR; short, because socket names hold 107 bytes."""
        return f"{self.scratch}/t"

    @property
    def home(self) -> str:
        """The launch's HOME."""
        return f"{self.scratch}/h"


def plan_run_scope(
    arguments: list[str], trace_path: str | None, instance_parents: list[str], scratch_root: str
) -> RunScope:
    """Return what a runnerd call may see; raises ScopeError for hostile or contradictory words.

    One segment of an instance parent may be `*`: any plain name, see `is_instance_parent`. Without
    `--state-dir` (as in `--build-metadata`) no instance is concerned, and all of them are hidden.
    """
    words, programs = read_words(arguments)
    state = words.get("--state-dir")
    if state is None:
        scope = RunScope(None, "", f"{scratch_root}/{short_name('')}")
        scope.hidden = [scratch_root, *(_fixed_part(parent) for parent in instance_parents)]
        scope.claims = [scope.scratch]
        scope.directories = scratch_directories(scope, scratch_root)
        scope.programs = programs
        return scope
    run = words.get("--run-id")
    if run is not None:
        require_segment("--run-id", run)
    parent, instance, kind, segment = _split_state(state, instance_parents)
    if kind == CODEX_STATE and segment != run:
        raise ScopeError(
            "usage",
            "--state-dir names the state of another run than --run-id",
            "give both the same run",
        )
    owner = f"{instance}/{kind}/{segment}"
    scope = RunScope(instance, owner, f"{scratch_root}/{short_name(owner)}")
    scope.run = run
    scope.session = words.get("--session-id")
    scope.programs = programs
    scope.hidden = [scratch_root, *(f"{instance}/{place}" for place in HIDDEN_IN_INSTANCE)]
    close_parents(scope, instance, parent, instance_parents)
    private = [f"{instance}/{RUNNER_STATE}", f"{instance}/{DURABLE_SESSIONS}", f"{instance}/{CODEX_STATE}"]
    private.append(f"{instance}/{OPENCODE_SESSIONS}")
    own = [owner]
    if run is not None and kind != CODEX_STATE:
        own.append(f"{instance}/{CODEX_STATE}/{run}")
    if scope.session is not None:
        scope.session_claim = f"{instance}/{OPENCODE_SESSIONS}/{session_directory_name(scope.session)}"
        own.append(scope.session_claim)
    scope.claims = [scope.scratch, *own]
    scope.exposed += own
    scope.directories = [
        (f"{instance}/runtime", SHARED_MODE),
        *((path, PRIVATE_MODE) for path in (*private, *own)),
        (f"{instance}/data", SHARED_MODE),
        *((f"{instance}/{place}", SHARED_MODE) for place in SHARED_FIRST_USE),
        *scratch_directories(scope, scratch_root),
    ]
    if trace_path:
        traces = f"{instance}/{PROVIDER_TRACES}"
        _require_trace(trace_path, traces)
        scope.directories.append((traces, PRIVATE_MODE))
        scope.files.append((trace_path, TRACE_MODE))
        scope.claims.append(trace_path)
        scope.exposed.append(trace_path)
    return scope


def show_agent(scope: RunScope, company: str, agent: str) -> None:
    """Show a launch the places of the agent that its run is of, and of that agent's company.

    Without a call no launch sees any agent's: see `launch.agent` for who says which agent it is. The places
    are nobody's claim, since sessions of one agent share them.
    """
    require_segment("the run's log", company)
    require_segment("the run's log", agent)
    homes = f"{scope.instance}/{COMPANIES}/{company}"
    chats = f"{scope.instance}/{CHAT_WORKSPACES}/{company}"
    own = [f"{scope.instance}/{PROJECTS}/{company}", f"{scope.instance}/{WORKSPACES}/{agent}"]
    own += [f"{homes}/agents/{agent}", f"{chats}/{agent}"]
    scope.exposed += own
    scope.directories += [
        (homes, PRIVATE_MODE),
        (f"{homes}/agents", SHARED_MODE),
        (chats, PRIVATE_MODE),
        *((path, SHARED_MODE) for path in own),
    ]


def own_run_directories(names: list[str], run: str | None) -> list[str]:
    """Return those of a directory's names that the server gave to a run.

    The run stands last or before one random part. Anywhere else it may come from the name of an issue,
    which an agent can choose.
    """
    if run is None:
        return []
    found = []
    for name in names:
        if name.startswith(RUN_DIRECTORY_PREFIX):
            # The dash that ends the prefix may be the one before the run.
            rest = name[len(RUN_DIRECTORY_PREFIX) - 1 :]
            if rest.endswith(f"-{run}") or rest.rpartition("-")[0].endswith(f"-{run}"):
                found.append(name)
    return found


def is_instance_parent(path: str) -> bool:
    """Tell whether a path can hold instances: absolute, plain, with at most one segment `*`.

    That one is not the first: what lies before it is hidden from calls that concern no instance.
    """
    top, *parts = path.split("/")
    plain = not any(part in ("", ".", "..") or "\0" in part for part in parts)
    return not top and bool(parts) and plain and STAR not in parts[:1] and parts.count(STAR) <= 1


def _fixed_part(parent: str) -> str:
    """Return an instance parent up to its `*`."""
    parts = parent.split("/")
    return "/".join(parts[: parts.index(STAR)]) if STAR in parts else parent


def close_parents(scope: RunScope, instance: str, parent: str, instance_parents: list[str]) -> None:
    """Withhold what lies beside the instance, up to the fixed part of its parent, and hide all others."""
    for other in instance_parents:
        top = _fixed_part(other)
        if not instance.startswith(f"{top}/"):
            scope.hidden.append(top)
        elif top not in scope.withheld:
            scope.withheld.append(top)
    if STAR not in parent.split("/"):
        return
    parts = instance.split("/")
    scope.beside = _fixed_part(parent)
    depth = scope.beside.count("/") + 1
    scope.withheld += ["/".join(parts[:end]) for end in range(depth + 1, len(parts))]
    own = "/".join(parts[: depth + 1])
    scope.hidden += [f"{own}/{name}" for name in HIDDEN_IN_TEMPORARY_ROOT]
    scope.writable += [f"{own}/{name}" for name in SHOWN_IN_TEMPORARY_ROOT]


def _split_state(state: str, instance_parents: list[str]) -> tuple[str, str, str, str]:
    """Return parent and root of the instance, the part of the layout, and the segment of the owner."""
    parts = state.rstrip("/").split("/")
    if not state.startswith("/") or any(part in ("", ".", "..") for part in parts[1:]) or "\0" in state:
        raise ScopeError(
            "usage",
            "--state-dir is not an absolute path free of empty, . and .. parts",
            "give the path as the server creates it",
        )
    for parent in instance_parents:
        pattern = parent.split("/")
        depth = len(pattern)
        if len(parts) < depth + 5:
            continue
        star = pattern.index(STAR) if STAR in pattern else 0  # segment 0 is empty on both sides
        pattern[star] = parts[star]
        if pattern != parts[:depth]:
            continue
        kind = "/".join(parts[depth + 1 : depth + 4])
        if kind in (DURABLE_SESSIONS, CODEX_STATE):
            if star:
                require_segment("--state-dir", parts[star])
            require_segment("--state-dir", parts[depth + 4])
            return parent, "/".join(parts[: depth + 1]), kind, parts[depth + 4]
    raise ScopeError(
        "expose-outside-hidden",
        "--state-dir does not lie in a session of an instance that this cell allows",
        "keep the runner's state beneath the instance root",
    )


def _require_trace(path: str, traces: str) -> None:
    directory, _, name = path.rpartition("/")
    if directory != traces or name in ("", ".", "..") or "\0" in name:
        raise ScopeError(
            "expose-outside-hidden",
            "PAPERCLIP_PROVIDER_TRACE_PATH does not name a file of this instance's data/provider-traces",
            "keep provider traces where the server puts them",
        )


def short_name(owner: str) -> str:
    """Return the name of an owner's scratch directory; another owner's may be the same, see `claims`."""
    return f"{crc32(owner.encode('utf-8', 'surrogateescape')):08x}"


def scratch_directories(scope: RunScope, scratch_root: str) -> list[tuple[str, int]]:
    """Return the launch's private directories, in the order to create them, with their modes."""
    return [(path, PRIVATE_MODE) for path in (scratch_root, scope.scratch, scope.temporary, scope.home)]
