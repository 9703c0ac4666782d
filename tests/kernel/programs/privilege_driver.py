"""Try privileges out as the doctor does, with the project tree that is asked for; print one JSON line.

Usage: privilege_driver.py REQUEST, a JSON object: `project`, `root` of the attempt, and what
`TrialRequest` may have besides, and `search`. It decides no expectation.
"""

import dataclasses
import json
import sys
from pathlib import Path


def main(argv: list[str]) -> int:
    request = json.loads(argv[0])
    project, root = Path(request.pop("project")), Path(request.pop("root"))
    sys.path.insert(0, str(project / "lib"))
    from runner_e2e.cell.trial_launch import TrialRequest  # noqa: PLC0415 - from the tree that is asked for
    from runner_e2e.doctor import privilege_facts  # noqa: PLC0415 - the same
    from runner_e2e.errors import RunnerE2EError  # noqa: PLC0415 - the same

    search = request.pop("search")
    asked = TrialRequest(
        root=root,
        project=project,
        hide=[root / "private"],
        hide_optional=[root / "probe"],
        **{"minimum_abi": 6, "levels": {}, **request},
    )
    try:
        said = dataclasses.asdict(privilege_facts.observe_privileges(asked, search))
    except RunnerE2EError as error:
        said = {"error": type(error).__name__, "problem": error.problem}
    print(json.dumps(said | {"left": sorted(path.name for path in root.iterdir())}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
