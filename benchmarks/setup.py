"""Measure the action's own set-up step as a runner starts it, with an empty wheel cache and a warm one.

    .venv/bin/python benchmarks/setup.py [--rounds N]

Runs the command `plan` through `act`, each time without an environment, and takes the step's time from `act`;
the stages are those that the step itself prints. Needs a package index. Nothing here is a test.
"""

import argparse
import os
import re
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from action.act import Performance, clone_work_tree, perform

CELL = "isolation.scripted.local.one-agent"
STEP = ["plan", "0"]
TRUST = ("PIP_CERT", "SSL_CERT_FILE")
READY = re.compile(r"prepare: ready: (.*)")


def measure(clone: Path, home: Path) -> tuple[float, str]:
    """Return the seconds of one set-up step, and what it says of its stages."""
    environment = home / "environment"
    shutil.rmtree(environment, ignore_errors=True)
    done = perform(
        clone,
        home,
        environment,
        {"id": CELL, "opaque-keys": "false", "shard": "matrix"},
        workflow="campaign.yml",
        # As on a hosted runner: no settings of pip but how it trusts the index.
        options=[
            "--env=PIP_CONFIG_FILE=/dev/null",
            *(f"--env={name}={os.environ[name]}" for name in TRUST if name in os.environ),
        ],
    )
    stages = READY.search(done.log)
    if done.exit_code or stages is None:
        raise SystemExit(f"the set-up did not succeed:\n{done.log[-4000:]}")
    return read_step(done), stages[1]


def read_step(done: Performance) -> float:
    """Return how long the set-up took, in seconds, by the runner's own measure."""
    (took_ns,) = [
        event["executionTime"]
        for event in done.events
        if event.get("stepID") == STEP and "executionTime" in event
    ]
    return float(took_ns) / 1e9


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="benchmark-", dir="/var/tmp") as place:
        clone, home = Path(place, "repository"), Path(place, "home")
        clone.mkdir()
        clone_work_tree(clone)
        home.mkdir()
        took_s, stages = measure(clone, home)
        print(f"empty cache: {took_s:.1f} s ({stages})", flush=True)
        warm = []
        for _ in range(options.rounds):
            took_s, stages = measure(clone, home)
            warm.append(took_s)
            print(f"warm cache:  {took_s:.1f} s ({stages})", flush=True)
    print(f"warm cache, median of {len(warm)}: {statistics.median(warm):.1f} s")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
