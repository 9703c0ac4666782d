"""The launcher's flow: plan, enforce, become. The order of the steps is forced by the kernel."""

from os import close, write

from . import domain, execute, granting, kernel, options, plan, ports, proof, protections, rules
from .names import Resolver
from .refusal import SCHEMA, Refusal
from .rules import Rights


class Settings:
    """How strictly to enforce: the minimum ABI, a level per protection, and what root may keep."""

    __slots__ = ("keep_file_capabilities", "levels", "minimum_abi")

    def __init__(
        self,
        minimum_abi: int = rules.DEFAULT_MINIMUM,
        levels: dict[str, str] | None = None,
        *,
        keep_file_capabilities: bool = False,
    ) -> None:
        self.minimum_abi = max(minimum_abi, rules.LOWEST_USABLE)
        self.levels = protections.default_levels() | (levels or {})
        self.levels |= dict.fromkeys(protections.ALWAYS, protections.REQUIRED)
        self.keep_file_capabilities = keep_file_capabilities


class Enforced:
    """What was done to this process: the ABI, each protection's outcome, each proof, each closed port."""

    __slots__ = ("abi", "closed_ports", "grants", "kept_file_capabilities", "outcomes", "proof")

    def __init__(self, version: int, grants: int) -> None:
        self.abi = version
        self.grants = grants
        self.outcomes: dict[str, str] = {}
        self.proof: dict[bytes, str] = {}
        self.kept_file_capabilities = False
        self.closed_ports: tuple[int, ...] = ()


def enforce(the_plan: plan.Plan, settings: Settings) -> Enforced:
    """Restrict this process, for good, and prove the plan; raises Refusal at the first doubt.

    The file opens of the proof run with every privilege on both sides of the restriction, so that a
    denial is Landlock's and not a file mode's. Exposed paths are read without them, as the command
    will. The system call filter comes last: nothing after it may need what it forbids.
    """
    version = domain.landlock_version()
    domain.require_version(version, settings.minimum_abi)
    domain.refuse_threads()
    levels = settings.levels
    scoped = protections.wanted_scopes(version, levels["scopes"])
    closing = the_plan.closed_ports and levels["ports"] != protections.OFF
    network = ports.wanted_network(version, levels["ports"]) if closing else 0
    ruleset = domain.open_ruleset(version, scoped=scoped, network=network)
    rights = rights_of(version, levels)
    add = kernel.RuleAdder(ruleset).add
    done = Enforced(version, granting.walk_grants(the_plan, rights, add))
    if network:
        ports.grant_others(ruleset, the_plan.closed_ports)
    proven = proof.Proof(the_plan)
    domain.restrict(ruleset)
    close(ruleset)
    proven.complete(the_plan)
    if network:
        ports.prove_closed(the_plan.closed_ports)
        done.closed_ports = the_plan.closed_ports
    done.proof = proven.outcomes
    done.outcomes["filesystem"] = done.outcomes["noNewPrivileges"] = protections.ENFORCED
    done.outcomes["scopes"] = (
        protections.ENFORCED
        if scoped
        else protections.OFF
        if levels["scopes"] == protections.OFF
        else protections.DEGRADED
    )
    done.outcomes["descriptors"] = protections.mark_descriptors(levels["descriptors"])
    done.outcomes["capabilities"], done.kept_file_capabilities = protections.drop_capabilities(
        levels["capabilities"], keep_file_capabilities=settings.keep_file_capabilities
    )
    proof.check_exposed(the_plan)
    filtered = levels if network else levels | {"ports": protections.OFF}
    done.outcomes |= protections.install_filter(filtered)
    if closing and not network:
        done.outcomes["ports"] = protections.DEGRADED
    return done


def rights_of(version: int, levels: dict[str, str]) -> Rights:
    """Return the rights to grant; with the socket protection on, none to reach a socket file."""
    withheld = 0 if levels["sockets"] == protections.OFF else rules.RESOLVE_UNIX
    return Rights(rules.filesystem_rights(version), withheld)


def main(arguments: list[str]) -> int:
    """Run the launcher on the words after its name; returns only when the command did not start."""
    kernel.restore_signals()
    try:
        parsed = options.parse_options(arguments)
        if "--help" in parsed.flags:
            write(1, options.USAGE.encode())
            return 0
        refusal = _launch(parsed)
        if refusal is None:
            return 0
    except Refusal as error:
        refusal = error
    except MemoryError:
        refusal = Refusal("usage", "the policy does not fit into memory", "hide fewer paths")
    except OSError as error:
        # A system call that has no refusal of its own: fail closed, and say which.
        refusal = Refusal(
            "protection-unavailable",
            f"the launcher could not finish: {error.strerror}",
            "report this; the command was not started",
            errno=error.errno,
        )
    _report(refusal)
    return refusal.status


def _launch(parsed: options.Options) -> Refusal | None:
    paths = parsed.paths
    access = rules.Access(set(), set(), privileged=protections.is_privileged())
    policy = plan.Policy(paths["--hide"], paths["--hide-optional"], paths["--expose"], access)
    policy.close_ports = tuple(parsed.ports)
    for descriptor in parsed.policy_descriptors:
        from .policy import read_policy

        more = read_policy(descriptor)
        policy.hide += more.hide
        policy.hide_optional += more.hide_optional
        policy.expose += more.expose
        policy.close_ports += more.close_ports
    settings = Settings(keep_file_capabilities="--keep-file-capabilities" in parsed.flags)
    resolver = Resolver()
    the_plan = plan.build_plan(policy, resolver)
    if "--scan-aliases" in parsed.flags:
        from .aliases import refuse_aliases

        refuse_aliases(the_plan)
    if "--explain" in parsed.flags:
        from .explain import explain

        _write_all(1, explain(the_plan, settings))
        return None
    plan.check_process(the_plan)
    environment = execute.read_environment()
    candidates = plan.find_command(parsed.command[0], execute.search_path(environment), the_plan, resolver)
    enforce(the_plan, settings)
    return execute.become(candidates, parsed.command, environment)


def _report(refusal: Refusal) -> None:
    try:
        import json

        line = json.dumps(refusal.fields())
    except (ImportError, OSError, MemoryError):
        # Without descriptors or memory even that fails; these texts need no escaping.
        line = (
            f'{{"schema":"{SCHEMA}","code":"{refusal.code}","path":null,'
            f'"message":"{refusal.message}","remedy":"{refusal.remedy}"}}'
        )
    try:
        _write_all(2, line.encode("ascii", "replace") + b"\n")
    except OSError:
        return  # no standard error: the status alone has to tell


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[write(descriptor, data) :]
