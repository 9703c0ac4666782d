"""Run the probe of a project tree, and print its record as one JSON line.

Usage: probe_driver.py REQUEST, a JSON object: `project`, `root` of the attempt, and what `ProbeRequest`
may have besides. This process is the harness that the probe aims at: its decoy stands in the variable
RUNNER_E2E_DECOY. It decides no expectation.
"""

import json
import os
import sys
from pathlib import Path


def main(argv: list[str]) -> int:
    request = json.loads(argv[0])
    project, root = Path(request["project"]), Path(request["root"])
    sys.path.insert(0, str(project / "lib"))
    from runner_e2e.launch.install_command import CommandOrder  # noqa: PLC0415 - the same
    from runner_e2e.probe import run  # noqa: PLC0415 - from the tree that is asked for
    from runner_e2e.probe.checks import Layout  # noqa: PLC0415 - the same
    from runner_e2e.probe.fixture import BaseTargets  # noqa: PLC0415 - the same

    target, temporary = root / "target", root / "runner-temp"
    base = BaseTargets(
        tests=(target / "tests" / "grader", b"grader-with-a-long-enough-text"),
        git_store=(target / ".git" / "HEAD", b"ref: refs/heads/"),
        private=root / "private",
        runner_temp=temporary,
        harness_pid=os.getpid(),
        decoy=("RUNNER_E2E_DECOY", os.environ["RUNNER_E2E_DECOY"]),
    )
    optional = [root / "probe", target / "tests", target / ".git", temporary]
    required = [root / "private"]
    instances = root / "t" / "*" / "paperclip-home" / "instances"
    order = CommandOrder(
        command=Path("/bin/false"),
        instance=Path(str(instances).replace("*", "own"), "one"),
        instance_parent=instances,
        handed_in=root / "server-tmp",
        handed_files=["opencode/opencode.json"],
        handed_links=root / "server-home" / "skills",
        without_variables=["BETTER_AUTH_SECRET"],
    )
    shown = {root / name for name in request.get("shown", ())}
    result = run.run_probe(
        run.ProbeRequest(
            root=root,
            project=project,
            boot=1,
            hide=[path for path in required if path not in shown],
            hide_optional=[path for path in optional if path not in shown],
            minimum_abi=6,
            levels=request.get("levels", {}),
            base=base,
            sandboxed=request.get("sandboxed", True),
            observer=Path(request["observer"]) if "observer" in request else run.OBSERVER,
            timeout_s=request.get("timeout_s", run.TIMEOUT_S),
            layout=Layout(request.get("layout", Layout.ATTEMPT)),
            command=order if request.get("command") else None,
        )
    )
    print(json.dumps(result.record() | {"passed": result.passed}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
