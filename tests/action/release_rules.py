"""What the workflow keeps to that publishes this project. Pure, over its text."""

from action.workflow_rules import jobs, parse

_WRITES = {"contents": "write"}
_READS = {"actions": "read", "contents": "read"}


def find_loose_releases(text: str) -> list[str]:
    """A person starts it, one job writes, after one that looks, and only its last step has a token."""
    document = parse(text)
    found = [] if list(document["on"]) == ["workflow_dispatch"] else ["on"]
    if document.get("permissions") != {}:
        found.append("permissions")
    if document.get("concurrency") != {"group": "release", "cancel-in-progress": False}:
        found.append("concurrency")
    all_jobs = jobs(text)
    if {name: job.get("permissions") for name, job in all_jobs.items()} != {
        "check": _READS,
        "publish": _WRITES,
    }:
        found.append("permissions of jobs")
    publish = all_jobs.get("publish", {"steps": []})
    if publish.get("needs") != "check" or publish.get("environment") != "release" or "if" in publish:
        found.append("publish")
    for name, job in all_jobs.items():
        steps = job["steps"]
        others = [
            step["uses"]
            for step in steps
            if not step.get("uses", "actions/checkout@").startswith("actions/checkout@")
        ]
        found += [f"{name}: {action}" for action in others]
        with_token = [number for number, step in enumerate(steps) if "github.token" in str(step)]
        if with_token != [len(steps) - 1]:
            found.append(f"{name}: token")
    return found
