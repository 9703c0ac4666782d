"""What every wrapper does with a launch: its entries, its domain, its journal line, its refusal."""

import os
import time

from runner_e2e.evidence import journal
from runner_e2e.isolation.layout import READ_ONLY_IN_INSTANCE
from runner_e2e.isolation.paths import RunScope
from runner_e2e.isolation.words import ScopeError
from runner_e2e.sandbox import kernel, launcher, plan
from runner_e2e.sandbox.names import Resolver
from runner_e2e.sandbox.refusal import Refusal
from runner_e2e.sandbox.rules import Access

from . import entries, ports
from .configuration import Common

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    Settings = TypeVar("Settings", bound=Common)


def run_wrapper(
    program: str,
    name: str,
    read: "Callable[[bytes], Settings]",
    launch: "Callable[[bytes, Settings, int, str], Refusal]",
) -> int:
    """Run the wrapper at `program` (`<root>/bin/…`), whose configuration is `<root>/private/<name>`.

    `launch` is given the root, what `read` made of the configuration, the open journal and the launch's
    id. Returns only when nothing was started. The refusal goes into the journal; only when that cannot
    be opened does a line without any path go to standard error.
    """
    kernel.restore_signals()
    root = os.path.dirname(os.path.dirname(os.path.realpath(os.fsencode(program))))
    settings = None
    descriptor = -1
    identity = launch_id()
    try:
        settings = read(root + b"/private/" + os.fsencode(name))
        descriptor = journal.open_journal(settings.journal)
        refusal = launch(root, settings, descriptor, identity)
    except Refusal as error:
        refusal = error
    except ScopeError as error:
        refusal = Refusal(error.code, error.message, error.remedy)
    except (OSError, ValueError, MemoryError) as error:
        refusal = Refusal(
            "protection-unavailable",
            f"the wrapper could not finish: {getattr(error, 'strerror', None) or type(error).__name__}",
            "report this; nothing was started",
            errno=getattr(error, "errno", None),
        )
    _report(refusal, descriptor, {"boot": settings.boot if settings else 0, "launch": identity})
    return refusal.status


def make_entries(scope: RunScope, descriptor: int) -> Resolver:
    """Create what the launch needs and may have; refuses what belongs to another one."""
    refuse_shared_claims(scope, journal.read_descriptor(descriptor))
    resolver = Resolver()
    if scope.instance is not None:
        _refuse_links(resolver, os.fsencode(scope.instance))
    for path, mode in scope.directories:
        entries.create_directory(path, mode)
    for path, mode in scope.files:
        entries.create_file(path, mode)
    return resolver


def plan_domain(
    root: bytes, settings: Common, scope: RunScope, access: Access, resolver: Resolver
) -> plan.Plan:
    """Plan the domain of a launch; refuses one in which it could not work."""
    policy = plan.Policy(
        [os.fsencode(path) for path in settings.hide],
        [os.fsencode(path) for path in (*settings.hide_optional, *scope.hidden)],
        [os.fsencode(path) for path in scope.exposed],
        access,
        (
            (os.path.dirname(root), os.fsencode(settings.withhold_prefix)),
            *((os.fsencode(directory), b"") for directory in scope.withheld),
        ),
    )
    policy.close_ports = ports.find_ports(scope.instance, settings.close_ports)
    the_plan = plan.build_plan(policy, resolver)
    plan.check_process(the_plan)
    _refuse_ancestors(the_plan, resolver, scope)
    return the_plan


def enter_domain(settings: Common, launch: str, scope: RunScope, the_plan: plan.Plan) -> dict[str, object]:
    """Restrict this process, for good; return what the journal is to say of it."""
    strictness = launcher.Settings(
        settings.minimum_abi, settings.levels, keep_file_capabilities=settings.keep_file_capabilities
    )
    done = launcher.enforce(the_plan, strictness)
    return _build_record(settings.boot, launch, scope, the_plan, strictness, done)


def refuse_shared_claims(scope: RunScope, records: list[dict[str, object]]) -> None:
    """Refuse what an earlier launch of another owner, or a directory that another session, was given.

    Two raw session ids may map to one directory name, short scratch names may collide, and the run or
    the trace may be another's.
    """
    for record in records:
        claims = record.get("claims")
        if not isinstance(claims, list):
            continue
        for path in scope.claims:
            if path not in claims:
                continue
            same_session = path != scope.session_claim or record.get("session") == scope.session
            if record.get("owner") == scope.owner and same_session:
                continue
            raise Refusal(
                "expose-reveals-hidden",
                "a path of this launch belongs to another session",
                "use session ids that differ in their first 120 letters and digits, and a run and a trace"
                " for one session only",
                path=os.fsencode(path),
            )


def plan_access(
    root: bytes, scope: RunScope, writable: list[str], *, privileged: bool, whole_instance: bool = True
) -> Access:
    """Return what the launch may write: its instance and what the scope adds, temporary places, devices.

    Whatever the harness or the server executes or reads lies outside the domain's reach this way: the
    wrapper itself, the instance's configuration, tools and start-up files of the same user. Without
    `whole_instance` nothing in the instance is writable but what the scope exposes.
    """
    places = {b"/tmp", b"/var/tmp", *(os.fsencode(path) for path in (*writable, *scope.writable))}
    if not privileged:
        places.add(b"/dev")  # root gets the usual devices one by one
    read_only = {root}
    if scope.instance is not None and whole_instance:
        instance = os.fsencode(scope.instance)
        places.add(instance)
        read_only |= {instance + b"/" + os.fsencode(name) for name in READ_ONLY_IN_INSTANCE}
    return Access(read_only, places, everywhere_read_only=True, privileged=privileged)


def own_environment(environment: list[bytes], scope: RunScope) -> list[bytes]:
    """Return the environment with the launch's own temporary and home directories, else unchanged."""
    temporary, home = os.fsencode(scope.temporary), os.fsencode(scope.home)
    own = {
        b"TMPDIR": temporary,
        b"TMP": temporary,
        b"TEMP": temporary,
        b"TMUX_TMPDIR": temporary,
        b"HOME": home,
    }
    kept = [entry for entry in environment if entry.partition(b"=")[0] not in own]
    return kept + [name + b"=" + value for name, value in own.items()]


def launch_id() -> str:
    """Return a random UUID (version 4); the uuid module costs more than the launch's other imports."""
    raw = bytearray(os.urandom(16))
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    text = raw.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def _refuse_links(resolver: Resolver, instance: bytes) -> None:
    """Refuse an instance whose name is not where it lies: what is planned by name would miss it."""
    try:
        found = resolver.resolve(instance)
    except OSError as error:
        raise Refusal(
            "path-unresolvable",
            f"the instance cannot be resolved: {os.strerror(error.errno or 0)}",
            "check that every part of its path is a directory that can be searched",
            path=instance,
            errno=error.errno,
        ) from error
    if found.links:
        raise Refusal(
            "expose-symlink",
            "the way to the instance passes through a symlink",
            "name the instance by its real directory",
            path=found.links[0],
        )


def _refuse_ancestors(the_plan: plan.Plan, resolver: Resolver, scope: RunScope) -> None:
    """Refuse a working or home directory in which nothing could be listed or created."""
    home = resolver.resolve(os.fsencode(scope.home)).canonical
    for place in (os.getcwdb(), home):
        if place in the_plan.withheld:
            raise Refusal(
                "cwd-ancestor",
                "the working directory or HOME of this launch contains a hidden path, so nothing"
                " could be listed or created in it",
                "give the agent a workspace that contains none",
                path=place,
            )


def _build_record(  # noqa: PLR0913, PLR0917 - one record of everything the launch consists of
    boot: int,
    launch: str,
    scope: RunScope,
    the_plan: plan.Plan,
    strictness: launcher.Settings,
    done: launcher.Enforced,
) -> dict[str, object]:
    by_outcome: dict[str, list[str]] = {}
    for path, outcome in sorted(done.proof.items()):
        by_outcome.setdefault(outcome, []).append(os.fsdecode(path))
    return {
        "schema": journal.LAUNCH_SCHEMA,
        "boot": boot,
        "launch": launch,
        "run": scope.run,
        "session": scope.session,
        "owner": scope.owner,
        "claims": scope.claims,
        "pid": os.getpid(),
        "time": round(time.time(), 3),
        "writable": sorted(os.fsdecode(path) for path in the_plan.access.writable),
        "hidden": sorted(os.fsdecode(path) for path in the_plan.hidden),
        "exposed": sorted(os.fsdecode(path) for path in the_plan.exposed),
        "closedPorts": list(done.closed_ports),
        "abi": done.abi,
        "grants": done.grants,
        "proof": {name: len(paths) for name, paths in by_outcome.items()},
        "unproven": by_outcome.get("file-mode", []) + by_outcome.get("ancestor", []),
        "protections": {
            name: {"level": strictness.levels[name], "outcome": outcome}
            for name, outcome in done.outcomes.items()
        },
        "keptFileCapabilities": done.kept_file_capabilities,
    }


def _report(refusal: Refusal, descriptor: int, place: dict[str, object]) -> None:
    if descriptor >= 0:
        try:
            journal.append_record(descriptor, refusal.fields() | place)
        except OSError:
            pass
        else:
            return
    fields = refusal.fields()
    fields["path"] = None
    import json

    try:
        os.write(2, json.dumps(fields).encode("ascii") + b"\n")
    except OSError:
        return
