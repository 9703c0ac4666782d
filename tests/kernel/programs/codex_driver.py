"""Try Codex's sandbox as a cell does, with the project tree that is asked for; print one JSON line.

Usage: codex_driver.py REQUEST, a JSON object: `project`, `root` of the attempt, and what `TrialRequest` may
have besides. It decides no expectation.
"""

import json
import sys
from pathlib import Path


def main(argv: list[str]) -> int:
    request = json.loads(argv[0])
    project, root = Path(request["project"]), Path(request["root"])
    sys.path.insert(0, str(project / "lib"))
    from runner_e2e.cell import codex  # noqa: PLC0415 - from the tree that is asked for
    from runner_e2e.cell.trial_launch import TrialRequest  # noqa: PLC0415 - the same
    from runner_e2e.errors import RunnerE2EError  # noqa: PLC0415 - the same

    asked = TrialRequest(
        root=root,
        project=project,
        hide=[root / "private"],
        hide_optional=[root / "probe"],
        minimum_abi=request.get("minimum_abi", 6),
        levels={},
        sandboxed=request.get("sandboxed", True),
    )
    said: dict[str, object] = {}
    try:
        outside, inside = codex.observe_codex_sandbox(asked)
        said = {
            "outside": None if outside is None else [outside.step, outside.number],
            "inside": None if inside is None else [inside.step, inside.number],
        }
        codex.check_codex_sandbox(asked)
    except RunnerE2EError as error:
        said |= {"error": type(error).__name__, "problem": error.problem}
    print(json.dumps(said | {"left": sorted(path.name for path in root.iterdir())}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
