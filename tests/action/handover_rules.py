"""How jobs hand something on: outputs that exist, artifacts with digests and names of their own. Pure.

Each rule takes the text of a workflow and returns what breaks it.
"""

import re
from collections.abc import Iterator

import yaml

from action.workflow_rules import PROJECT, Job, Rule, Step, flatten, is_own, is_use_of, jobs

_OUTPUT = re.compile(r"\bsteps\.([\w-]+)\.(outputs|outcome|conclusion)(?:\.([\w-]+))?")
_NEED = re.compile(r"\bneeds\.([\w-]+)\.(outputs|result)(?:\.([\w-]+))?")
# Of the actions that templates use.
_KNOWN = {
    "actions/create-github-app-token": frozenset({"token", "installation-id", "app-slug"}),
    "actions/download-artifact": frozenset({"download-path"}),
    "actions/upload-artifact": frozenset({"artifact-id", "artifact-url", "artifact-digest"}),
}
_REFUSED_IN_ARTIFACTS = re.compile(r"[\"<>|*?:\r\n\\/]")
_EXPRESSION = re.compile(r"\$\{\{.*?\}\}")
_UNPACKS = re.compile(r"\btar\b[^\n]*(?:--extract\b|\s-?x)|\bunzip\b")
_CHECKS = re.compile(r"\| sha256sum --check --strict\n")


def find_missing_outputs(text: str) -> list[str]:
    """An output that nobody sets is empty, and an empty one is not noticed."""
    all_jobs = jobs(text)
    found = []
    for name, job in all_jobs.items():
        found += [f"{name}: {problem}" for problem in _find_missing_of_steps(job)]
        found += [f"{name}: {problem}" for problem in _find_missing_of_jobs(job, all_jobs)]
    return found


def find_unchecked_archives(text: str) -> list[str]:
    """What another job made is unpacked once its digest, from that job's outputs, was compared."""
    found = []
    for name, job in jobs(text).items():
        for step in job["steps"]:
            script = step.get("run", "")
            first = _UNPACKS.search(script)
            if first is None:
                continue
            check = _CHECKS.search(script)
            digests = [
                v for v in step.get("env", {}).values() if re.search(r"needs\.\w+\.outputs\.sha256", v)
            ]
            if check is None or check.start() > first.start() or not digests or "set -e" not in script:
                found.append(f"{name}: {step['name']}")
    return found


def find_refused_artifacts(text: str) -> list[str]:
    """A name is taken once in a run, and some characters never: each has the run and its attempt in it."""
    found = []
    for step in (step for job in jobs(text).values() for step in job["steps"]):
        if not is_use_of(step, "actions/upload-artifact"):
            continue
        name = str(step["with"].get("name", ""))
        fixed = _EXPRESSION.sub("", name)
        unique = "github.run_id" in name and "github.run_attempt" in name
        if not unique or _REFUSED_IN_ARTIFACTS.search(fixed):
            found.append(name)
        if step["with"].get("if-no-files-found") != "error":
            found.append(f"{name}: if-no-files-found")
        if "overwrite" in step["with"]:
            found.append(f"{name}: overwrite")
    return found


IN_HANDOVERS: tuple[Rule, ...] = (find_missing_outputs, find_unchecked_archives, find_refused_artifacts)


def _find_missing_of_steps(job: Job) -> Iterator[str]:
    for number, step in enumerate(job["steps"]):
        before = {one["id"]: one for one in job["steps"][:number] if "id" in one}
        yield from _find_missing(step, before)
    yield from _find_missing(job.get("outputs", {}), {s["id"]: s for s in job["steps"] if "id" in s})


def _find_missing(part: object, known: dict[str, Step]) -> Iterator[str]:
    for step_id, kind, output in _OUTPUT.findall("\n".join(flatten(part))):
        step = known.get(step_id)
        if step is None or (kind == "outputs" and not _sets(step, output)):
            yield f"steps.{step_id}.{kind}.{output}"


def _sets(step: Step, output: str) -> bool:
    if is_own(step):
        return output in _own_outputs()
    if "uses" in step:
        return output in _KNOWN.get(step["uses"].partition("@")[0], ())
    return re.search(rf"\"{re.escape(output)}=[^\n]*>>\"\$GITHUB_OUTPUT\"", step["run"]) is not None


def _find_missing_of_jobs(job: Job, all_jobs: dict[str, Job]) -> Iterator[str]:
    needs = job.get("needs", [])
    needed = [needs] if isinstance(needs, str) else needs
    for other, kind, output in _NEED.findall("\n".join(flatten(job))):
        outputs = all_jobs[other].get("outputs", {}) if other in all_jobs else {}
        if other not in needed or (kind == "outputs" and output not in outputs):
            yield f"needs.{other}.{kind}.{output}"


def _own_outputs() -> frozenset[str]:
    return frozenset(yaml.safe_load((PROJECT / "action.yml").read_text(encoding="utf-8"))["outputs"])
