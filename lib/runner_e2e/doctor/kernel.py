"""Judge the kernel: what it can isolate, and what it leaves open. Pure."""

from typing import Final

from runner_e2e.doctor.findings import Answer, Question, error, info, known, ok, warning
from runner_e2e.doctor.kernel_facts import KernelFacts
from runner_e2e.sandbox import rules
from runner_e2e.sandbox.explain import losses
from runner_e2e.sandbox.protections import FILTERED
from runner_e2e.sandbox.seccomp import build_filter

# What a launch has from each ABI on; `sandbox.explain` says what it lacks below.
GIVES: Final = {
    1: "files and directories are hidden, and writing ends at what is granted",
    2: "files can be renamed and linked between directories inside the domain",
    3: "a hidden file cannot be emptied either",
    4: "TCP ports can be closed, the database's first",
    5: "no device that is not granted takes an ioctl",
    6: "signals and abstract sockets end at the domain",
    7: "what the audit log records can be chosen (not used)",
    8: "all threads enter a domain at once (not needed)",
    9: "socket files beneath hidden places are closed by Landlock too",
}

_NEWER: Final = "Use a runner with Linux 6.12 or newer, such as ubuntu-24.04"
_FILTER_ACTIONS: Final = ("errno", "allow", "kill_process")


def judge_release(facts: KernelFacts) -> Answer:
    """Cells run on Linux."""
    name = f"{facts.system} {facts.release} on {facts.machine}"
    if facts.system != "Linux":
        return error(name, "Landlock, on which all isolation rests, exists on Linux only", _NEWER)
    return ok(name, "Cells can run on this system")


def judge_landlock(facts: KernelFacts) -> Answer:
    """The ABI against what is asked for, with what each level gives."""
    abi, least = facts.landlock.abi, facts.minimum_abi
    lacking = losses(abi)
    detail = (
        *(f"ABI {level} gives: {text}" for level, text in GIVES.items() if level <= abi),
        *(f"Missing here: {text}" for text in lacking),
    )
    if abi < 1:
        remedy = facts.landlock.remedy[:1].upper() + facts.landlock.remedy[1:]
        return error(
            f"There is no Landlock: {facts.landlock.problem}", "No cell runs here", remedy or _NEWER, detail
        )
    if abi < least:
        lower = abi >= rules.LOWEST_USABLE
        also = f", or set min-abi to {abi} and sandbox-preset to compatible" if lower else ""
        return error(
            f"Landlock has ABI {abi}, and min-abi asks for {least}",
            "Every launch is refused, so no cell runs here",
            f"{_NEWER}{also}",
            detail,
        )
    if abi < rules.DEFAULT_MINIMUM:
        return warning(
            f"Landlock has ABI {abi}, which min-abi {least} accepts",
            "An agent can signal its harness and reach abstract sockets; each launch records it as degraded",
            _NEWER,
            detail,
        )
    return ok(
        f"Landlock has ABI {abi}, and min-abi asks for {least}",
        "Launches get every protection"
        if abi >= rules.LATEST
        else "Launches get every protection; what Landlock lacks here, the system call filter does",
        detail,
    )


def judge_seccomp(facts: KernelFacts) -> Answer:
    """The filter needs known system call numbers and three actions."""
    try:
        build_filter(facts.machine, list(FILTERED))
    except OSError:
        return error(
            f"No system call filter is known for {facts.machine}",
            "Sockets, limits and keyrings stay open to agents, so every launch is refused",
            "Use a 64-bit x86 or ARM runner with a 64-bit Python",
        )
    actions = known(facts.seccomp_actions)
    if actions is None:
        return warning(
            "The kernel does not say what its system call filters can do",
            "Without them every launch is refused; the self-test shows whether they work",
            "Mount /proc/sys, and use a kernel with CONFIG_SECCOMP_FILTER",
        )
    missing = [action for action in _FILTER_ACTIONS if action not in actions.split()]
    if missing:
        return error(
            f"The kernel's system call filters lack {', '.join(missing)}",
            "Sockets, limits and keyrings stay open to agents, so every launch is refused",
            "Use a kernel with CONFIG_SECCOMP_FILTER, Linux 4.14 or newer",
        )
    return ok(
        "System call filters work on this machine", "Unix sockets, foreign limits and keyrings can be closed"
    )


def judge_ptrace(facts: KernelFacts) -> Answer:
    """Yama matters outside of domains only."""
    scope = known(facts.ptrace_scope)
    if scope in ("1", "2", "3"):
        return ok(
            f"Processes of one user cannot trace each other freely (Yama, scope {scope})", "One barrier more"
        )
    word = "There is no Yama" if scope is None else "Yama is off (scope 0)"
    return info(
        f"{word}: processes of one user can trace each other",
        "A domain ends that for agents; a target's own code, which runs outside of any, is not held by it",
        "Set kernel.yama.ptrace_scope=1 where the kernel has it",
    )


def judge_proc(facts: KernelFacts) -> Answer:
    """Command lines of other processes: Landlock does not close them."""
    options = known(facts.proc_mount)
    if options is None:
        return error(
            "/proc is not mounted",
            "The launcher cannot do its work without it",
            "Mount /proc in the container",
        )
    hidden = {"hidepid=2", "hidepid=4", "hidepid=invisible", "hidepid=ptraceable"} & set(options.split(","))
    if hidden:
        return ok(
            f"/proc shows no other user's processes ({min(hidden)})",
            "Their command lines are closed to agents",
        )
    return info(
        "/proc shows the command lines of all processes",
        "Agents can read them too; ids and secrets of a cell stand in none",
        "Keep secrets of other jobs off command lines, or mount /proc with hidepid=2",
    )


def judge_user_namespaces(facts: KernelFacts) -> Answer:
    """What sandboxes of others, such as bubblewrap, need outside of a domain."""
    allowed, most = known(facts.user_namespaces_allowed), known(facts.most_user_namespaces)
    why = {
        "kernel.unprivileged_userns_clone": allowed == "0",
        "user.max_user_namespaces": most == "0",
        "kernel.apparmor_restrict_unprivileged_userns": known(facts.apparmor_restricts) == "1",
    }
    closed = [name for name, is_closed in why.items() if is_closed]
    if not closed:
        return ok(
            "Users without privileges may make user namespaces",
            "Sandboxes of other programs (bubblewrap, Chromium's) can start outside of a domain",
        )
    return info(
        f"Users without privileges may not make user namespaces ({', '.join(closed)})",
        "Our isolation needs none; sandboxes of other programs (Codex's bubblewrap, Chromium's) cannot start",
        "Allow them with sysctl if a target's own harness or a browser needs its own sandbox",
    )


QUESTIONS: Final = (
    Question("kernel.release", "The kernel", judge_release),
    Question("kernel.landlock", "Landlock", judge_landlock),
    Question("kernel.seccomp", "Whether system call filters work", judge_seccomp),
    Question("kernel.ptrace", "The scope of ptrace", judge_ptrace),
    Question("kernel.proc", "How /proc is mounted", judge_proc),
    Question("kernel.user-namespaces", "Whether user namespaces are allowed", judge_user_namespaces),
)
