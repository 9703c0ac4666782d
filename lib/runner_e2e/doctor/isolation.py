"""Judge what real launches showed. A denial counts only beside a control that got through. Pure."""

from collections.abc import Iterator
from typing import Final

from runner_e2e.cell.codex import judge_codex_sandbox
from runner_e2e.doctor.findings import (
    Answer,
    NotToldError,
    Question,
    Unreadable,
    error,
    info,
    known,
    ok,
    warning,
)
from runner_e2e.doctor.isolation_facts import IsolationFacts
from runner_e2e.doctor.privilege_facts import PrivilegeFacts, Process, Reached, Refused

_MOST_NAMED: Final = 6
_AGAIN: Final = "Mend what the other findings name, and run the doctor again"
_READ_ON: Final = "Read the findings about the kernel; SECURITY.md says what each check stands for"


def judge_launcher(facts: IsolationFacts) -> Answer:
    """The interpreter that each launch starts with."""
    if isinstance(facts.interpreter, str):
        return ok(f"{facts.interpreter} runs the launcher", "Each launch of an agent begins in it")
    return error(
        f"No interpreter can run the launcher: {facts.interpreter.reason}",
        "No agent can be launched in a domain, so no cell runs here",
        "Install python3 (3.11 or newer, with ctypes) from the system's packages",
    )


def judge_self_test(facts: IsolationFacts) -> Answer:
    """The probe of a cell against a fixture instance; see SECURITY.md."""
    test = known(facts.self_test)
    if test.problem:
        return error(
            f"The isolation is not proven: {test.problem}",
            "A cell would not start its server here",
            _READ_ON,
        )
    if test.failures:
        return error(
            f"The isolation does not hold: {len(test.failures)} checks of the self-test failed",
            "Agents would reach what they must not see, or miss what is theirs; no cell would start",
            _READ_ON,
            _name_failures(test.failures),
        )
    if not test.denied:
        return error("The self-test denied nothing", "It proves nothing, and neither would a cell", _READ_ON)
    found = (
        f"A real launch was kept out of {test.denied} hidden places, each of them open outside of its domain"
    )
    if test.degraded:
        return warning(
            f"{found}; less strict than possible: {', '.join(test.degraded)}",
            "sandbox-preset compatible allows that, and each launch records it",
            "Use a runner with Linux 6.12 or newer, and sandbox-preset strict",
        )
    return ok(
        found, f"The isolation works, and what is an agent's own ({test.allowed} places) stays open to it"
    )


def judge_privileges(facts: IsolationFacts) -> Answer:
    """A process of a launch has no capability, and cannot get one."""
    seen = known(facts.privileges)
    inside, outside = seen.inside.own, seen.outside.own
    faults = list(_find_faults(inside))
    if faults:
        return error(
            f"A process inside a domain {', '.join(faults)}",
            "It could get privileges, and with them leave its domain",
            "Look into the launcher's protection `capabilities`; no cell may run like this",
        )
    control = (
        f"outside it has {outside.effective.bit_count()} of them"
        if outside.effective
        else "outside it has none either"
    )
    return ok(
        f"A process inside a domain has no capability and can get none; {control}",
        "Programs with set-id bits or file capabilities make nothing of an agent",
    )


def _find_faults(inside: Process) -> Iterator[str]:
    if not inside.no_new_privileges:
        yield "may gain privileges by exec"
    if inside.effective:
        yield f"has {inside.effective.bit_count()} capabilities"


def judge_set_id(facts: IsolationFacts) -> Answer:
    """Set-id programs start as root outside, and as the user inside."""
    seen = _tried(facts)
    outside, inside = seen.outside.programs, seen.inside.programs
    risen = [name for name, reached in inside.items() if _is_powerful(reached)]
    if risen:
        return error(
            f"Set-id programs start with privileges inside a domain: {', '.join(risen)}",
            "An agent could become root and leave its domain",
            "Look into the launcher: no_new_privs has to be set; no cell may run like this",
        )
    proven = [name for name, reached in outside.items() if _is_powerful(reached)]
    if not proven:
        return info(
            "No set-id program starts with privileges here, also outside of a domain",
            "There is nothing to try out, and nothing for an agent to use",
            "Nothing to do; where /usr is mounted nosuid this is expected",
        )
    if not_told := [name for name in proven if not isinstance(inside.get(name), (Process, Refused))]:
        return warning(
            f"What set-id programs become inside a domain could not be told: {', '.join(not_told)}",
            "Outside they start as root",
            "Run the doctor where /proc shows other users' processes",
        )
    return ok(
        f"{_join(proven)} start as root outside of a domain, and with no privilege inside",
        "Set-id programs are no way out for an agent",
    )


def judge_sudo(facts: IsolationFacts) -> Answer:
    """Sudo must not be reachable inside; whether it is outside is the control."""
    seen = _tried(facts)
    if _is_powerful(seen.inside.sudo):
        return error(
            "sudo makes a process inside a domain root",
            "An agent could leave its domain, whatever else is closed to it",
            "Look into the launcher: no_new_privs has to be set; no cell may run like this",
        )
    if seen.sudo is None:
        return ok("There is no sudo on PATH", "There is nothing for an agent to use")
    if seen.inside.sudo is None:
        return warning(
            "What sudo does inside a domain could not be told: it did not answer in time, or not usably",
            "The set-id test beside this one shows the same from another side",
            "See why sudo is slow on this machine (a directory service?), and run the doctor again",
        )
    if not _is_powerful(seen.outside.sudo):
        return ok(
            "sudo does not let this user in without a password, inside a domain or outside",
            "There is nothing for an agent to use",
        )
    return ok(
        "sudo -n makes this user root outside of a domain, and nothing inside",
        "Agents cannot use it; a target's own code, which runs outside of any domain, can",
    )


def judge_codex(facts: IsolationFacts) -> Answer:
    """Codex starts its tools in a sandbox of its own, which no domain that hides files lets mount."""
    tried = known(facts.codex)
    refusal = judge_codex_sandbox(tried.outside, tried.inside)
    if refusal is None:
        return ok("Codex's own sandbox starts inside a domain", "Local cells of Codex can run")
    return info(
        refusal.problem,
        "Local cells of Codex are refused here before anything is spent; no other cell needs it",
        "Run cells of Codex on daytona, or on a target that brings its own sandbox",
    )


def judge_cleanup(facts: IsolationFacts) -> Answer | None:
    """What the self-test made is gone again."""
    if not facts.left:
        return None
    return warning(
        "The self-test could not remove its own directory",
        "Cells would leave theirs too, and end as cleanup_failure",
        f"Find out what holds it, and remove {facts.left}",
    )


def _tried(facts: IsolationFacts) -> PrivilegeFacts:
    if isinstance(facts.privileges, Unreadable):
        raise NotToldError("the launch that tries it was not made, see isolation.privileges")
    return facts.privileges


def _is_powerful(reached: Reached) -> bool:
    return isinstance(reached, Process) and reached.effective != 0


def _name_failures(failures: tuple[str, ...]) -> tuple[str, ...]:
    more = len(failures) - _MOST_NAMED
    return (*failures[:_MOST_NAMED], f"and {more} more") if more > 0 else failures


def _join(names: list[str]) -> str:
    return ", ".join(names)


QUESTIONS: Final = (
    Question("isolation.launcher", "The launcher's interpreter", judge_launcher, reopen=_AGAIN),
    Question(
        "isolation.self-test", "Whether the isolation holds", judge_self_test, essential=True, reopen=_AGAIN
    ),
    Question(
        "isolation.privileges",
        "The privileges inside a domain",
        judge_privileges,
        essential=True,
        reopen=_AGAIN,
    ),
    Question("isolation.set-id", "What set-id programs do inside a domain", judge_set_id, reopen=_AGAIN),
    Question("isolation.sudo", "Whether sudo can be reached inside a domain", judge_sudo, reopen=_AGAIN),
    Question("isolation.codex", "Whether Codex's own sandbox starts", judge_codex, reopen=_AGAIN),
    Question("isolation.cleanup", "Whether the self-test left something", judge_cleanup, reopen=_AGAIN),
)
