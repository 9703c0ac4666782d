"""What an entrypoint says when it is started outside the project's environment. Standard library only."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[3]


def require_packages(program: str) -> None:
    """End the program with status 2 and one sentence when its interpreter has not what it needs.

    Called before pydantic is imported, it also keeps that from asking every installed package for plugins,
    which takes a tenth of a plan and lets foreign code in.
    """
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    if find_spec("pydantic") is None:
        sys.stderr.write(
            f"{program}: this Python lacks the project's packages. Run {PROJECT}/scripts/prepare, and start "
            f"{program} with bin/python of the directory that it prints.\n"
        )
        raise SystemExit(2)
