"""Whose run a launch is: read where the server keeps the run's log, which no agent can write.

Neither runnerd's arguments nor its environment name the agent, and its working directory is the product's
own. What the server leaves in the run's session names it, but there the agent may have written. The log is
made before runnerd is started, as `<company>/<agent>/<run>.ndjson`.
"""

import os


def find_agent(run_logs: str, run: str | None) -> tuple[str, str] | None:
    """Return company and agent of a run; nothing for one without a log, or with two.

    No link is followed. `run` is a plain name, see `isolation.words.require_segment`.
    """
    found = []
    if run is not None:
        for company in _directories(run_logs):
            for agent in _directories(f"{run_logs}/{company}"):
                try:
                    kind = os.lstat(f"{run_logs}/{company}/{agent}/{run}.ndjson").st_mode & 0o170000
                except OSError:
                    continue
                if kind == 0o100000:
                    found.append((company, agent))
    return found[0] if len(found) == 1 else None


def _directories(path: str) -> list[str]:
    try:
        with os.scandir(path) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []
