"""Judge what lets somebody in and lies within reach of the job. Pure."""

from typing import Final

from runner_e2e.doctor.findings import Answer, Question, error, info, known, ok, warning
from runner_e2e.doctor.secret_facts import SecretFacts

_MOST_NAMED: Final = 6


def judge_git(facts: SecretFacts) -> Answer:
    """Credentials that a checkout keeps; the cell of a target refuses them."""
    if facts.git is None:
        return ok("The checkout keeps no git credentials", "An agent's git has nothing to push with")
    if facts.git_open:
        return warning(
            f"Whether the checkout keeps git credentials could not be told: {facts.git}",
            "Cells with harness command are refused until it can",
            facts.git_remedy,
        )
    build = error if facts.harness == "command" else warning
    return build(
        facts.git,
        "Cells with harness command are refused: a target's own code could push with them",
        facts.git_remedy,
    )


def judge_files(facts: SecretFacts) -> Answer:
    """Credential files in the home directory."""
    files = known(facts.files)
    if not files:
        return ok(
            "HOME holds none of the usual credential files", "No program can log in with what lies there"
        )
    found = f"HOME holds {_name(files)}"
    means = "They are closed to every agent; a target's own code can read them"
    if facts.harness == "command":
        return warning(found, means, "Log out (docker logout, npm logout ...), or give the job a fresh HOME")
    return info(found, means, "Keep logins out of the account that runs cells")


def judge_identity(facts: SecretFacts) -> Answer:
    """With an identity token the job could be anybody that trusts the workflow."""
    if not facts.identity:
        return ok(
            "The job cannot ask for an identity token", "Nobody can act in the workflow's name elsewhere"
        )
    build = error if facts.harness == "command" else warning
    return build(
        f"The job can ask for an identity token ({', '.join(facts.identity)})",
        "Cells with harness command are refused: a target's own code could act in the workflow's name",
        "Set permissions: id-token: none on the job that runs cells",
    )


def judge_credentials(facts: SecretFacts) -> Answer:
    """A credential in the job's environment reaches more than the one step that needs it."""
    if not facts.credentials:
        return ok("The environment holds no known credential", "Only the step that is given one has it")
    return warning(
        f"The environment of this step holds {_name(facts.credentials)}",
        "Launches never get them, but every program of the step does, and so does a core dump of one",
        "Set env: on the one step that needs it, and give run-cell its credential as input credential",
    )


def judge_injections(facts: SecretFacts) -> Answer:
    """Variables that make programs run foreign code."""
    if not facts.injections:
        return ok("No variable makes programs here run foreign code", "What runs is what was started")
    return warning(
        f"Variables make programs of this step run foreign code: {_name(facts.injections)}",
        "Launches never get them; the programs around them do",
        "Find the step that wrote them to GITHUB_ENV, and leave them out",
    )


def _name(names: tuple[str, ...]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


QUESTIONS: Final = (
    Question("secrets.git", "Whether the checkout keeps git credentials", judge_git),
    Question("secrets.files", "Whether HOME holds credentials", judge_files),
    Question("secrets.identity", "Whether the job has an identity", judge_identity),
    Question("secrets.variables", "Which credentials the environment holds", judge_credentials),
    Question("secrets.injection", "Which variables run foreign code", judge_injections),
)
