"""Judge the programs that cells use. Pure."""

from typing import Final

from runner_e2e.doctor.findings import Answer, Question, Unreadable, error, info, known, ok, warning
from runner_e2e.doctor.program_facts import Program, ProgramFacts

LEAST_PYTHON: Final = (3, 11, 0)


def judge_python(facts: ProgramFacts) -> Answer:
    """The interpreter of the action itself."""
    version = ".".join(map(str, facts.python))
    if facts.python < LEAST_PYTHON:
        return error(
            f"This runs in Python {version}",
            "The action needs 3.11 or newer",
            "Name a newer one in input python",
        )
    return ok(f"This runs in Python {version} ({facts.executable})", "The action can use it")


def judge_git(facts: ProgramFacts) -> Answer:
    """Git is for the workflow around cells; ours reads repositories by itself."""
    git = known(facts.git)
    if git is not None:
        return _describe("git", git, "Workflows can check out with it; the action itself runs no git")
    return info("There is no git on PATH", "actions/checkout then downloads without history", "Install git")


def judge_node(facts: ProgramFacts) -> Answer:
    """A target's own harness runs in Node; the product brings its own where the host's is too old."""
    node = known(facts.node)
    if node is not None:
        return _describe("node", node, "A target's own harness can run in it")
    if facts.harness == "command":
        return error(
            "There is no node on PATH",
            "A target's own harness cannot start",
            "Add actions/setup-node to the job",
        )
    means = (
        "The installed Paperclip brings its own" if facts.harness == "built-in" else "This harness needs none"
    )
    return info("There is no node on PATH", means, "Add actions/setup-node to jobs that use harness command")


def judge_browser(facts: ProgramFacts) -> Answer:
    """The picture of a cell's final state."""
    if facts.browser is not None:
        return ok(f"{facts.browser} can take pictures", "Cells of the product keep one of their final state")
    return info(
        f"No browser can be used: {facts.browser_reason}",
        "Cells run without a picture of their final state",
        "Install chromium from the system's packages",
    )


def judge_paperclip(facts: ProgramFacts) -> Answer | None:
    """The installed product, only where cells run on it."""
    found = facts.paperclip
    if found is None:
        return None
    if isinstance(found, Unreadable):
        return error(
            found.reason,
            "Cells with harness built-in are refused",
            "Run `runner-e2e paperclip install` on this machine",
        )
    return ok(f"{found} is complete and unchanged", "Cells with harness built-in can run")


def _describe(name: str, program: Program, means: str) -> Answer:
    if program.version is None:
        return warning(
            f"{program.path} does not say its version",
            f"It may not be {name}, or not work",
            f"Install {name} again",
        )
    return ok(f"{name} {program.version} ({program.path})", means)


QUESTIONS: Final = (
    Question("programs.python", "Which Python this is", judge_python),
    Question("programs.git", "Which git there is", judge_git),
    Question("programs.node", "Which node there is", judge_node),
    Question("programs.browser", "Whether a browser can be used", judge_browser),
    Question("programs.paperclip", "Which Paperclip is installed", judge_paperclip),
)
