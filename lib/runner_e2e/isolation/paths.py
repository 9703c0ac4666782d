"""What one launch hides, exposes and needs created: from the instance root and runnerd's own words.

Source of the layout: Paperclip's instance directory as its server writes it, and the argument list it
gives to runnerd. The durable session's name is a hash that is never computed here: it is read off
`--state-dir`. Paths are `str` with surrogates for bytes that are not UTF-8.
"""

from zlib import crc32

RUNNER_STATE = "runtime/paperclip-runner"
DURABLE_SESSIONS = f"{RUNNER_STATE}/durable-sessions"
CODEX_STATE = f"{RUNNER_STATE}/runner"
OPENCODE_SESSIONS = f"{RUNNER_STATE}/opencode"
PROVIDER_TRACES = "data/provider-traces"

# Hidden from every launch, relative to the instance root. The first nine are the product's own list.
HIDDEN_IN_INSTANCE = (
    DURABLE_SESSIONS,
    CODEX_STATE,
    f"{RUNNER_STATE}/control-plane",
    OPENCODE_SESSIONS,
    "data/run-logs",
    PROVIDER_TRACES,
    "data/backups",
    "db",
    "secrets",
    ".env",
    "data/workspace-operation-logs",
    "logs",
)

# A domain cannot add an entry to an ancestor of a hidden path, so what agents create on first use in
# such a directory has to be there before.
SHARED_FIRST_USE = (
    f"{RUNNER_STATE}/acpx",
    "companies",
    "projects",
    "workspaces",
    "runtime-context-assets",
    "skills",
    "runtime/provider-packs",
)

# Where a target's harness makes the instance itself, it lies in a temporary root that the harness names:
# <fixed>/<temporary root>/paperclip-home/instances/<id>. Nothing of <fixed>, of that root or of its
# paperclip-home is shown but what stands here: other roots hold other runs, other runs' temporary
# directories lie beside them, and what a tool leaves there later is nobody's either.
#
# Of the own temporary root these are hidden by name as well, so that each launch proves it: results with
# the case's name and matchers, restart requests, attachments and database copies of all companies, and
# the cache of the server, from which that would load what an agent put there.
HIDDEN_IN_TEMPORARY_ROOT = ("artifacts-private", "control", "storage", "backups", "xdg-cache")
# Agents of project workspaces work here.
SHOWN_IN_TEMPORARY_ROOT = ("workspace",)
# The server makes `<prefix><issue>-<run>-<random>` beside the temporary root for what it hands one run.
RUN_DIRECTORY_PREFIX = "paperclip-run-"

# Stands for the temporary root in the parent of such instances.
STAR = "*"

# Programs that runnerd is told to start: hidden, they would only fail somewhere inside of it.
PROGRAM_OPTIONS = (
    "--opencode-executable",
    "--opencode-proxy-command",
    "--opencode-proxy-script",
    "--fake-harness-script",
)
PROGRAM_OPTION_PREFIX = "--acpx-sidecar-"

# Read by the server at its start: an agent that wrote them would decide what runs outside its domain.
READ_ONLY_IN_INSTANCE = ("config.json", "runtime-info.json")

PRIVATE_MODE, SHARED_MODE, TRACE_MODE = 0o700, 0o777, 0o600

_LONGEST_SESSION_NAME = 120
_SAFE = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")
_WANTED = ("--state-dir", "--session-id", "--run-id")


class ScopeError(Exception):
    """Arguments that contradict the layout or each other; `code` is a refusal code."""

    def __init__(self, code: str, message: str, remedy: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.remedy = remedy


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
    words, programs = _read_words(arguments)
    state = words.get("--state-dir")
    if state is None:
        scope = RunScope(None, "", f"{scratch_root}/{_short_name('')}")
        scope.hidden = [scratch_root, *(_fixed_part(parent) for parent in instance_parents)]
        scope.claims = [scope.scratch]
        scope.directories = _scratch_directories(scope, scratch_root)
        scope.programs = programs
        return scope
    run = words.get("--run-id")
    if run is not None:
        _require_segment("--run-id", run)
    parent, instance, kind, segment = _split_state(state, instance_parents)
    if kind == CODEX_STATE and segment != run:
        raise ScopeError(
            "usage",
            "--state-dir names the state of another run than --run-id",
            "give both the same run",
        )
    owner = f"{instance}/{kind}/{segment}"
    scope = RunScope(instance, owner, f"{scratch_root}/{_short_name(owner)}")
    scope.run = run
    scope.session = words.get("--session-id")
    scope.programs = programs
    scope.hidden = [scratch_root, *(f"{instance}/{place}" for place in HIDDEN_IN_INSTANCE)]
    _close_parents(scope, instance, parent, instance_parents)
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
        *_scratch_directories(scope, scratch_root),
    ]
    if trace_path:
        traces = f"{instance}/{PROVIDER_TRACES}"
        _require_trace(trace_path, traces)
        scope.directories.append((traces, PRIVATE_MODE))
        scope.files.append((trace_path, TRACE_MODE))
        scope.claims.append(trace_path)
        scope.exposed.append(trace_path)
    return scope


def session_directory_name(session: str) -> str:
    """Return the OpenCode driver's directory name for a raw session id.

    Each character outside `[A-Za-z0-9._-]` becomes `_`, and the name is cut to 120 characters, so that
    two ids may share a directory: see `RunScope.claims`.
    """
    name = "".join(char if char in _SAFE else "_" for char in session)[:_LONGEST_SESSION_NAME]
    if name in ("", ".", ".."):
        raise ScopeError(
            "usage", "--session-id maps to no directory name", "give an id with at least one letter or digit"
        )
    return name


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


def _close_parents(scope: RunScope, instance: str, parent: str, instance_parents: list[str]) -> None:
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


def _read_words(arguments: list[str]) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Return the values of the options that decide the scope, and the programs with absolute paths."""
    words: dict[str, str] = {}
    programs: list[tuple[str, str]] = []
    position = 0
    while position < len(arguments):
        name, joined, value = arguments[position].partition("=")
        position += 1
        if name in PROGRAM_OPTIONS or name.startswith(PROGRAM_OPTION_PREFIX):
            if not joined:
                value = arguments[position] if position < len(arguments) else ""
            if value.startswith("/"):
                programs.append((name, value))
            continue
        if name not in _WANTED:
            continue
        if not joined:
            if position == len(arguments):
                raise ScopeError("usage", f"{name} has no value", "give it one")
            value = arguments[position]
            position += 1
        if words.setdefault(name, value) != value:
            raise ScopeError("usage", f"{name} is given twice with different values", "give it once")
    return words, programs


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
                _require_segment("--state-dir", parts[star])
            _require_segment("--state-dir", parts[depth + 4])
            return parent, "/".join(parts[: depth + 1]), kind, parts[depth + 4]
    raise ScopeError(
        "expose-outside-hidden",
        "--state-dir does not lie in a session of an instance that this cell allows",
        "keep the runner's state beneath the instance root",
    )


def _require_segment(option: str, value: str) -> None:
    if not value or value in (".", "..") or len(value) > 255 or not _SAFE.issuperset(value):
        raise ScopeError(
            "usage",
            f"{option} holds a name with other characters than letters, digits, dot, dash and underscore",
            "give the id as the server makes it",
        )


def _require_trace(path: str, traces: str) -> None:
    directory, _, name = path.rpartition("/")
    if directory != traces or name in ("", ".", "..") or "\0" in name:
        raise ScopeError(
            "expose-outside-hidden",
            "PAPERCLIP_PROVIDER_TRACE_PATH does not name a file of this instance's data/provider-traces",
            "keep provider traces where the server puts them",
        )


def _short_name(owner: str) -> str:
    return f"{crc32(owner.encode('utf-8', 'surrogateescape')):08x}"


def _scratch_directories(scope: RunScope, scratch_root: str) -> list[tuple[str, int]]:
    return [(path, PRIVATE_MODE) for path in (scratch_root, scope.scratch, scope.temporary, scope.home)]
