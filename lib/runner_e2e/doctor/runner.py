"""Judge the machine as a CI runner. Pure."""

from typing import Final

from runner_e2e.doctor.findings import Answer, Question, info, known, ok, warning
from runner_e2e.doctor.runner_facts import RunnerFacts


def judge_kind(facts: RunnerFacts) -> Answer:
    """A machine that ends with its job keeps nothing for the next."""
    image = f" ({facts.image})" if facts.image else ""
    if facts.environment == "github-hosted":
        return ok(
            f"This is a runner of GitHub's own{image}",
            "It ends with the job, and nothing is left for another",
        )
    if facts.environment == "self-hosted" or facts.on_actions:
        return warning(
            f"This is a runner of your own{image}",
            "What a job leaves, later ones find: processes, files of the same user, caches, logins",
            "Use a fresh machine for each job (an ephemeral runner), with a user for nothing else",
        )
    return info(
        "This is no job of GitHub Actions",
        "Findings about the runner are those of this machine as it is",
        "Run command doctor in a job as well, on the runner that runs cells",
    )


def judge_others(facts: RunnerFacts) -> Answer | None:
    """Workspaces of other repositories are readable in every domain."""
    others, attempts = known(facts.others), known(facts.attempts)
    if not others and not attempts:
        return ok("Nothing of earlier jobs was found", "No agent can meet what another job left")
    found = [f"{others} workspaces of other repositories"] if others else []
    found += [f"{attempts} directories of cells in /var/tmp"] if attempts else []
    return warning(
        f"Earlier jobs left {' and '.join(found)}",
        "Directories of cells are closed to agents; other workspaces of the same user can be read",
        "Use a fresh machine for each job; remove what no running cell needs",
    )


def judge_sockets(facts: RunnerFacts) -> Answer:
    """Docker and a user's systemd start anything outside of any domain."""
    reachable = [one for one in facts.sockets if one.reachable]
    if not reachable:
        return ok(
            "Neither Docker nor a service manager of this user can be reached",
            "Nothing here starts programs outside of a domain",
        )
    found = f"This user reaches {', '.join(f'{one.service} ({one.path})' for one in reachable)}"
    means = (
        "It starts programs outside of any domain. Launches cannot speak to it, which the self-test tries;"
        " a target's own code can"
    )
    if facts.environment == "github-hosted":
        return info(found, means, "Nothing to do: the machine ends with the job")
    return warning(found, means, "Stop what is not needed, or give the runner a user that may not use it")


QUESTIONS: Final = (
    Question("runner.kind", "Whose runner this is", judge_kind),
    Question("runner.leftovers", "What earlier jobs left", judge_others),
    Question("runner.sockets", "Which services can be reached", judge_sockets),
)
