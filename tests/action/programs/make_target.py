"""Make the target of one job of `command.yml`; the step's outputs say where it lies.

`JOBS` says of each job what its harness does wrong: `starts`, as `e2e.target.mischief` takes them, and
whether it `meddles`. `JOB` is this one, and its target goes below `TARGETS`.
"""

import json
import os
import shlex
from pathlib import Path

from e2e.target.mischief import MISCHIEF
from e2e.target_checkout import catalog, make_target, write_mischief

MEDDLER = Path(__file__).with_name("meddle.py")


def main() -> None:
    jobs, job = json.loads(os.environ["JOBS"]), os.environ["JOB"]
    order = jobs.get(job, {})
    output = Path(os.environ["GITHUB_OUTPUT"])
    place = Path(os.environ["TARGETS"]) / job
    place.mkdir(mode=0o755)
    (place / "runner-temp").write_text(os.environ["RUNNER_TEMP"])
    target = make_target(place)
    command = target.words
    if order.get("meddles"):
        command = [command[0], str(MEDDLER), "CELL_WROTE", str(output.parent), *command]
    outputs = {
        "path": target.path,
        "sha": target.sha,
        "harness-command": shlex.join(command),
        "runner": target.runner,
        "catalog": catalog(target),
        "mischief": write_mischief(place / "mischief.json", *order.get("starts", [{}]))[MISCHIEF],
        "names": json.dumps(sorted(jobs)),
    }
    with output.open("a", encoding="utf-8") as file:
        file.writelines(f"{name}={value}\n" for name, value in outputs.items())


if __name__ == "__main__":
    main()
