"""Where a product's instance keeps what, and what a launch is shown of it: data, and no more.

Every place is a row of `PLACES`. The launches' hidden sets are taken from it, a walk of the real instance
after its runs compares with it (`isolation.drift`), and SECURITY.md lists from it what stays readable
(`scripts/render-readable`). To add a place: look at what it holds and who writes it, add a
row, and write the version that was looked at into `CHECKED_AGAINST`.
"""

# Versions of npm's `paperclipai` whose instance was walked with nothing unnamed in it.
CHECKED_AGAINST = ("2026.916.1",)

# What a place lies in: the instance, the temporary root around it where a target's harness makes one, the
# directory that holds such roots, and /tmp.
INSTANCE, TEMPORARY_ROOT, BESIDE, TMP = "instance", "temporary-root", "beside", "tmp"

# No launch sees it; only its own part of it; every launch reads and writes it; every launch reads it.
HIDDEN, EXPOSED, SHARED, READABLE = "hidden", "exposed", "shared", "readable"

# Within a segment of a pattern: any characters. As a whole segment also: any temporary root.
STAR = "*"

RUNNER_STATE = "runtime/paperclip-runner"
DURABLE_SESSIONS = f"{RUNNER_STATE}/durable-sessions"
CODEX_STATE = f"{RUNNER_STATE}/runner"
OPENCODE_SESSIONS = f"{RUNNER_STATE}/opencode"
PROVIDER_TRACES = "data/provider-traces"
RUN_LOGS = "data/run-logs"
WORKSPACES = "workspaces"
COMPANIES = "companies"
PROJECTS = "projects"
CHAT_WORKSPACES = "chat-workspaces"

# Where agents work: hidden, and each of them shown a part. A second name in there for something else that is
# hidden shows that thing to somebody.
WORKED_IN = (WORKSPACES, COMPANIES, PROJECTS, CHAT_WORKSPACES)

# The server makes `<prefix><issue>-<run>-<random>` beside the temporary root for what it hands one run.
RUN_DIRECTORY_PREFIX = "paperclip-run-"

# What it lies in, pattern, kind, and why. The first row that fits a path decides.
PLACES = (
    # The first nine are the product's own list.
    (INSTANCE, DURABLE_SESSIONS, HIDDEN, "sessions of all runs with their databases"),
    (INSTANCE, CODEX_STATE, HIDDEN, "runner state of all runs"),
    (INSTANCE, f"{RUNNER_STATE}/control-plane", HIDDEN, "state of the control plane"),
    (INSTANCE, OPENCODE_SESSIONS, HIDDEN, "OpenCode sessions of all runs"),
    (INSTANCE, RUN_LOGS, HIDDEN, "logs of all runs"),
    (INSTANCE, PROVIDER_TRACES, HIDDEN, "traces of all runs"),
    (INSTANCE, "data/backups", HIDDEN, "copies of the database"),
    (INSTANCE, "db", HIDDEN, "the database"),
    (INSTANCE, "secrets", HIDDEN, "keys of the server"),
    (INSTANCE, ".env", HIDDEN, "secrets of the server"),
    (INSTANCE, "data/workspace-operation-logs", HIDDEN, "what was done to all workspaces"),
    (INSTANCE, "logs", HIDDEN, "logs of the server"),
    (INSTANCE, WORKSPACES, HIDDEN, "what agents write into their working directories"),
    (INSTANCE, COMPANIES, HIDDEN, "agent homes, and homes of provider programs with their logins"),
    (INSTANCE, PROJECTS, HIDDEN, "checkouts of all companies"),
    (INSTANCE, CHAT_WORKSPACES, HIDDEN, "working directories of all chats"),
    (INSTANCE, "config.json", HIDDEN, "configuration of the server, an external database's password in it"),
    (INSTANCE, "runtime-info.json", HIDDEN, "where the server listens"),
    (INSTANCE, "data/storage", HIDDEN, "attachments of all companies"),
    (INSTANCE, "data/sandbox-orphan-cleanup", HIDDEN, "remote sandboxes that the server has to end"),
    (INSTANCE, f"{RUNNER_STATE}/sessions", HIDDEN, "checkpoints of all sessions"),
    (INSTANCE, "locks", HIDDEN, "what parts of the server wait for"),
    (INSTANCE, "ai-local-logins", HIDDEN, "logins to providers"),
    (INSTANCE, "codex-home", HIDDEN, "login and sessions of local adapters"),
    (INSTANCE, "grok-home", HIDDEN, "login of local adapters"),
    (INSTANCE, "claude-config-seed", HIDDEN, "login of local adapters"),
    (INSTANCE, "import-transfers", HIDDEN, "companies on their way in"),
    (INSTANCE, "telemetry", HIDDEN, "the server's own"),
    (INSTANCE, "runtime-services", HIDDEN, "services that runs have started"),
    (INSTANCE, "runtime-service-logs", HIDDEN, "output of services that runs have started"),
    (INSTANCE, f"{DURABLE_SESSIONS}/*", EXPOSED, "the launch's session"),
    (INSTANCE, f"{CODEX_STATE}/*", EXPOSED, "the run's"),
    (INSTANCE, f"{OPENCODE_SESSIONS}/*", EXPOSED, "the session's"),
    (INSTANCE, f"{PROVIDER_TRACES}/*", EXPOSED, "the launch's trace"),
    (INSTANCE, f"{WORKSPACES}/*", EXPOSED, "the agent's working directory"),
    (INSTANCE, f"{COMPANIES}/*/agents/*", EXPOSED, "the agent's home"),
    (INSTANCE, f"{CHAT_WORKSPACES}/*/*", EXPOSED, "working directories of the agent's chats"),
    (INSTANCE, f"{PROJECTS}/*", SHARED, "checkouts that the agents of one company work in together"),
    (INSTANCE, "skills", READABLE, "skills, which agents are given by their company"),
    (
        INSTANCE,
        "runtime-context-assets",
        READABLE,
        "instructions and skills of all agents: each reads its own there, by the digest of the content",
    ),
    (INSTANCE, f"{RUNNER_STATE}/acpx", SHARED, "ACPX directories, which the product shares between runs"),
    (INSTANCE, "runtime/provider-packs", SHARED, "provider programs that runners install and use together"),
    # Results with the case's name and matchers, restart requests, attachments and database copies of all
    # companies, and the cache of the server, from which that would load what an agent put there. Hidden by
    # name, so that each launch proves it; of whatever else lies there nothing is granted.
    (TEMPORARY_ROOT, "artifacts-private", HIDDEN, "results with the case's name and matchers"),
    (TEMPORARY_ROOT, "control", HIDDEN, "restart requests"),
    (TEMPORARY_ROOT, "storage", HIDDEN, "attachments of all companies"),
    (TEMPORARY_ROOT, "backups", HIDDEN, "copies of the database"),
    (TEMPORARY_ROOT, "xdg-cache", HIDDEN, "cache of the server"),
    (TEMPORARY_ROOT, "workspace", SHARED, "where agents of project workspaces work"),
    (TEMPORARY_ROOT, "paperclip-home/instances/*", EXPOSED, "the launch's instance, by the rows above"),
    (TEMPORARY_ROOT, STAR, HIDDEN, "not granted"),
    (BESIDE, f"{RUN_DIRECTORY_PREFIX}*", EXPOSED, "what the server hands the launch's run"),
    (BESIDE, STAR, HIDDEN, "not granted: other temporary roots, what tools leave"),
    (TMP, f"{RUN_DIRECTORY_PREFIX}*", SHARED, "what a server without a TMPDIR of its own hands one run"),
    (TMP, "paperclip-opencode-config-*", SHARED, "OpenCode's configuration for one run, likewise"),
    (TMP, "opencode", SHARED, "what an OpenCode without a TMPDIR of its own leaves"),
    (TMP, ".s.PGSQL.*", SHARED, "the database's socket, which no launch can make a socket for"),
)


def _named(root: str, kind: str) -> tuple[str, ...]:
    """Return the patterns of one kind that are plain paths."""
    return tuple(row[1] for row in PLACES if row[0] == root and row[2] == kind and STAR not in row[1])


# Hidden from every launch, relative to the instance root.
HIDDEN_IN_INSTANCE = _named(INSTANCE, HIDDEN)

# Where a target's harness makes the instance itself, it lies in a temporary root that the harness names:
# <fixed>/<temporary root>/paperclip-home/instances/<id>. Nothing of <fixed>, of that root or of its
# paperclip-home is shown but what `PLACES` names.
HIDDEN_IN_TEMPORARY_ROOT = _named(TEMPORARY_ROOT, HIDDEN)
SHOWN_IN_TEMPORARY_ROOT = _named(TEMPORARY_ROOT, SHARED)

# Read by the server at its start, or by other agents as what they have to do: who wrote them would decide
# what runs outside a domain, or in another one.
READ_ONLY_IN_INSTANCE = ("config.json", "runtime-info.json", *_named(INSTANCE, READABLE))

# Where launches of several agents write, relative to the instance root.
SHARED_IN_INSTANCE = tuple(
    row[1].removesuffix("/*") for row in PLACES if row[0] == INSTANCE and row[2] == SHARED
)

# A domain cannot add an entry to an ancestor of a hidden path, so what agents create on first use in
# such a directory has to be there before.
SHARED_FIRST_USE = (
    f"{RUNNER_STATE}/acpx",
    COMPANIES,
    PROJECTS,
    WORKSPACES,
    CHAT_WORKSPACES,
    "runtime-context-assets",
    "skills",
    "runtime/provider-packs",
)
