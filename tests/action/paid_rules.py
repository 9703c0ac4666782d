"""What a workflow keeps to that spends money: who starts it, where a credential is, what ends it. Pure.

Each rule takes the text of a template and returns what breaks it.
"""

import re

from action.workflow_rules import Job, Rule, Step, find_needs, flatten, is_own, is_use_of, jobs, parse

PAID_ENVIRONMENT = "runner-e2e-paid"
CELL_NAME = "${{ matrix.key || matrix.executionId }}"
ALLOWED_PEOPLE = "${{ vars.RUNNER_E2E_ALLOWED_ACTOR_IDS }}"
OWN_TOKEN = "${{ github.token }}"
CREDENTIALS = frozenset(
    {
        "ANTHROPIC_API_KEY",
        "COPILOT_GITHUB_TOKEN",
        "CURSOR_AUTH_TOKEN",
        "GEMINI_API_KEY",
        "GROK_AUTH_JSON",
        "KIMI_MODEL_API_KEY",
        "OPENAI_API_KEY",
        "OPENROUTER_API_KEY",
        "XAI_API_KEY",
    }
)

_CHOSEN = re.compile(r"matrix\.credentialName == '(\w+)' && secrets\.(\w+)")
_DAYTONA = "${{ matrix.environmentId == 'daytona' && secrets.DAYTONA_API_KEY || '' }}"
_APP_TOKEN = "actions/create-github-app-token"
# In which inputs of which kind of step a secret may stand.
_KEY_SECRET = "${{ secrets.RUNNER_E2E_KEY_SECRET }}"
_APP_KEY = "${{ secrets.RUNNER_E2E_CATALOG_APP_KEY }}"
_TOKEN = "github.token"
_ASKING = ("authorize", "resolve", "report")
_INSTALL = re.compile(r"\b(?:pnpm|npm|yarn)\s+(?:install|ci|i|add)\b[^\n]*")


def find_open_gates(text: str) -> list[str]:
    """The first job alone decides who goes on: it checks nothing out, and every other job waits for it."""
    all_jobs = jobs(text)
    found = [
        f"{name} does not wait for authorize"
        for name in all_jobs
        if "authorize" not in (name, *_waits_for(all_jobs, name))
    ]
    first = all_jobs.get("authorize", {"steps": [{}]})
    if not _is_gate(first["steps"][0]):
        found.append("authorize does not begin with the gate")
    found += [f"authorize uses {step['uses']}" for step in first["steps"] if _is_foreign(step)]
    return found


def find_skipped_gates(text: str) -> list[str]:
    """A re-run of failed jobs skips the first job: whoever holds a secret asks again, before all else."""
    return [
        name
        for name, job in jobs(text).items()
        if ("environment" in job or "secrets" in _text(job)) and not _is_gate(job["steps"][0])
    ]


def find_misordered_steps(text: str) -> list[str]:
    """Gate, checkout, then the one step with the credential, which is the last."""
    found = []
    for name, job in jobs(text).items():
        steps = job["steps"]
        cells = [number for number, step in enumerate(steps) if is_own(step, "run-cell")]
        gates = [number for number, step in enumerate(steps) if is_own(step, "authorize")]
        checkouts = [number for number, step in enumerate(steps) if is_use_of(step, "actions/checkout")]
        secret = [number for number, step in enumerate(steps) if "secrets" in _text(step)]
        if gates and checkouts and gates[0] > checkouts[0]:
            found.append(f"{name}: checkout before the gate")
        if gates and secret and gates[0] > secret[0]:
            found.append(f"{name}: secret before the gate")
        if cells and (not checkouts or cells[0] < checkouts[-1]):
            found.append(f"{name}: cell before the checkout")
        if cells and cells != [len(steps) - 1]:
            found.append(f"{name}: steps behind the cell")
    return found


def find_stray_secrets(text: str) -> list[str]:
    """Outside of the few inputs that need one, no secret is named; `secrets` as a whole never is."""
    found = []
    document = parse(text)
    outside = {key: value for key, value in document.items() if key != "jobs"}
    found += [part for part in flatten(outside) if "secrets" in part and "${{" in part]
    for name, job in document["jobs"].items():
        found += [f"{name}: {part}" for part in flatten(_without_steps(job)) if _names_secret(part)]
        for step in job["steps"]:
            found += [f"{name}: {part}" for part in flatten(_without_known(step)) if _names_secret(part)]
    return found


def find_stray_tokens(text: str) -> list[str]:
    """The job's own token goes to the action's commands that ask the API, none of which runs target code."""
    document = parse(text)
    found = [part for part in flatten({**document, "jobs": {}}) if _TOKEN in part]
    for name, job in document["jobs"].items():
        asking = [step for step in job["steps"] if any(is_own(step, command) for command in _ASKING)]
        known = sum(_TOKEN in part for step in asking for part in flatten(step["with"]))
        if known != sum(_TOKEN in part for part in flatten(job)):
            found.append(name)
    return found


def find_loose_credentials(text: str) -> list[str]:
    """The row names the credential, and each name leads to the secret of that name alone."""
    found = []
    for step in (step for job in jobs(text).values() for step in job["steps"] if is_own(step, "run-cell")):
        given = step["with"]
        chain = " ".join(str(given.get("credential", "")).split())
        pairs = _CHOSEN.findall(chain)
        parts = [f"matrix.credentialName == '{name}' && secrets.{secret}" for name, secret in pairs]
        if chain != "${{ " + " || ".join([*parts, "''"]) + " }}":
            found.append(chain)
        found += [name for name, secret in pairs if name != secret]
        found += sorted(CREDENTIALS ^ {name for name, _ in pairs})
        if given.get("credential-name") != "${{ matrix.credentialName }}":
            found.append("credential-name")
        key = step.get("env", {}).get("DAYTONA_API_KEY", _DAYTONA)
        if key != _DAYTONA:
            found.append(key)
    return found


def find_second_cells(text: str) -> list[str]:
    """One step of one job runs cells, in the protected environment, under a name that `report` finds."""
    paid = [
        (name, job, step)
        for name, job in jobs(text).items()
        for step in job["steps"]
        if is_own(step, "run-cell")
    ]
    if len(paid) != 1:
        return [f"{len(paid)} steps run cells"]
    ((name, job, step),) = paid
    wrong = {
        "environment": job.get("environment") != PAID_ENVIRONMENT,
        "name": job.get("name") != CELL_NAME,
        "fail-fast": job.get("strategy", {}).get("fail-fast") is not False,
        "matrix": job.get("strategy", {}).get("matrix") != "${{ fromJSON(needs.plan.outputs.matrix) }}",
        "row": step["with"].get("row") != "${{ toJSON(matrix) }}",
        "harness": step["with"].get("harness") != "command",
        "timeout-minutes": job.get("timeout-minutes") != "${{ matrix.timeoutMinutes }}",
        "if": "if" in step,
        "continue-on-error": "continue-on-error" in step or "continue-on-error" in job,
    }
    return [f"{name}: {part}" for part, is_wrong in wrong.items() if is_wrong]


def find_inexact_permissions(text: str) -> list[str]:
    """Each job may do what its steps need, and nothing else."""
    return [name for name, job in jobs(text).items() if job.get("permissions") != _needed(job)]


def find_shared_groups(text: str) -> list[str]:
    """A run that is paid for has a concurrency group of its own, which no other run can evict."""
    concurrency = parse(text).get("concurrency", {})
    group = " ".join(str(concurrency.get("group", "")).split())
    cancels = concurrency.get("cancel-in-progress")
    if "github.run_id" not in group:
        return [group or "none"]
    if cancels is False:
        # Nothing in such a group may depend on anything but the run.
        return [] if re.findall(r"\$\{\{.*?\}\}", group) == ["${{ github.run_id }}"] else [group]
    condition = " ".join(str(cancels).split()).removeprefix("${{").removesuffix("}}").strip()
    shared, _, own = group.removeprefix("${{").removesuffix("}}").strip().partition(" || ")
    kept = shared.startswith(f"{condition} && format(") and "github.run_id" not in shared
    return [] if kept and "protected" in own and "github.run_id" in own else [group]


def find_unscheduled_switches(text: str) -> list[str]:
    """The clock starts nothing until a variable says so."""
    if "schedule" not in parse(text)["on"]:
        return []
    condition = jobs(text)["authorize"].get("if", "")
    switch = re.fullmatch(r"github\.event_name != 'schedule' \|\| vars\.\w+ == 'true'", condition)
    return [] if switch else ["authorize"]


def find_running_scripts(text: str) -> list[str]:
    """A package's install scripts are code that nobody reviewed; a lock that gives way is no lock."""
    found = []
    for step in (step for job in jobs(text).values() for step in job["steps"]):
        for command in _INSTALL.findall(step.get("run", "")):
            frozen = "--frozen-lockfile" in command or "--lockfile-only" in command
            if "--ignore-scripts" not in command or not frozen:
                found.append(command)
    return found


IN_PAID_TEMPLATES: tuple[Rule, ...] = (
    find_open_gates,
    find_skipped_gates,
    find_misordered_steps,
    find_stray_secrets,
    find_stray_tokens,
    find_loose_credentials,
    find_second_cells,
    find_inexact_permissions,
    find_shared_groups,
    find_unscheduled_switches,
    find_running_scripts,
)


def _waits_for(all_jobs: dict[str, Job], name: str) -> set[str]:
    found: set[str] = set()
    pending = find_needs(all_jobs[name])
    while pending:
        one = pending.pop()
        if one not in found:
            found.add(one)
            pending += find_needs(all_jobs[one])
    return found


def _is_gate(step: Step) -> bool:
    """Whether a step is the gate, with nothing that could skip it or forgive its refusal."""
    given = step.get("with", {})
    return (
        is_own(step, "authorize")
        and given.get("allowed-actor-ids") == ALLOWED_PEOPLE
        and given.get("github-token") == OWN_TOKEN
        and not {"if", "continue-on-error", "env"} & step.keys()
    )


def _is_foreign(step: Step) -> bool:
    return "uses" in step and not is_own(step)


def _text(part: object) -> str:
    return "\n".join(flatten(part))


def _names_secret(part: str) -> bool:
    return re.search(r"\bsecrets\b", part) is not None


def _without_steps(job: Job) -> Job:
    return {key: value for key, value in job.items() if key != "steps"}


def _without_known(step: Step) -> Step:
    """Return a step without the values in which a secret may stand."""
    given, variables = dict(step.get("with", {})), dict(step.get("env", {}))
    if is_own(step, "run-cell"):
        given.pop("credential", None)
        if variables.get("DAYTONA_API_KEY") == _DAYTONA:
            variables.pop("DAYTONA_API_KEY")
    if (is_own(step, "plan") or is_own(step, "run-cell")) and given.get("key-secret") == _KEY_SECRET:
        given.pop("key-secret")
    if is_use_of(step, _APP_TOKEN) and given.get("private-key") == _APP_KEY:
        given.pop("private-key")
    return {**step, "with": given, "env": variables}


def _needed(job: Job) -> dict[str, str]:
    needed = {}
    for step in job["steps"]:
        own_checkout = is_use_of(step, "actions/checkout") and "token" not in step.get("with", {})
        by_api = is_own(step, "resolve") and "github-token" in step["with"]
        if own_checkout or by_api:
            needed["contents"] = "read"
        if is_own(step, "report"):
            needed["actions"] = "read"
    return needed
