"""Judge who runs the doctor, and so the cells. Pure."""

from typing import Final

from runner_e2e.doctor.account_facts import AccountFacts
from runner_e2e.doctor.findings import Answer, Question, error, info, known, ok, warning


def judge_user(facts: AccountFacts) -> Answer:
    """Root is possible, an ordinary user better."""
    if facts.uid != 0:
        return ok(f"This is the ordinary user {facts.name} (uid {facts.uid})", "Cells run as this user")
    if facts.harness == "command":
        return warning(
            "This is root, and harness is command",
            "The cell is refused without allow-root; with it a target's own code runs as root",
            "Run the job as an ordinary user, or accept that with allow-root: true",
        )
    if facts.harness == "built-in":
        return ok("This is root", "It supervises; the product and its agents run as the service user")
    return info(
        "This is root",
        "Agents run as root without any capability; file modes do not hold them, the domain does",
        "Run cells as an ordinary user where you can",
    )


def judge_capabilities(facts: AccountFacts) -> Answer | None:
    """An ordinary user with capabilities is half a root."""
    count = known(facts.capabilities).bit_count()
    if facts.uid == 0 or not count:
        return None
    return warning(
        f"This ordinary user has {count} capabilities",
        "Launches drop them; a target's own code keeps them",
        "Start the runner without ambient capabilities",
    )


def judge_groups(facts: AccountFacts) -> Answer:
    """Groups that lead to root outside of domains."""
    groups = known(facts.groups)
    if facts.uid == 0 or not groups:
        return ok("No group of this user leads to root", "One way less out of the job")
    found = f"This user is in {', '.join(groups)}, whose members can act as root or read what is everybody's"
    means = "A domain closes the sockets and programs that this needs; a target's own code is not held by it"
    if facts.hosted:
        return info(
            found, means, "Nothing to do: the machine ends with the job. Do not do this on your own runners"
        )
    return warning(found, means, "Take the runner's user out of these groups")


def judge_service_user(facts: AccountFacts) -> Answer | None:
    """Who runs the product when root starts a cell of the built-in harness."""
    if facts.service is None:
        return None
    service = known(facts.service)
    if service.problem:
        build = error if facts.harness == "built-in" else warning
        return build(
            service.problem, "Cells of the built-in harness that root starts are refused", service.remedy
        )
    if service.exists:
        return ok(f"The service user {service.name} is there and has no privileges", "It runs cells for root")
    if service.can_be_made:
        return ok(
            f"The service user {service.name} is not there yet",
            "The first cell of the built-in harness that root starts makes it, and it stays",
        )
    build = error if facts.harness == "built-in" else info
    return build(
        f"There is no account {service.name}, and neither useradd nor adduser to make it",
        "Cells of the built-in harness that root starts are refused",
        "Install useradd, or name an account without privileges in service-user",
    )


QUESTIONS: Final = (
    Question("account.user", "Who this is", judge_user),
    Question("account.capabilities", "The capabilities of this user", judge_capabilities),
    Question("account.groups", "The groups of this user", judge_groups),
    Question("account.service-user", "The service user", judge_service_user),
)
