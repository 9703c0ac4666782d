"""Start the reference server: `python -I .../reference/__main__.py`, configured by environment."""

import os
import sys
from pathlib import Path

if __name__ == "__main__":
    # Isolated mode leaves the package's own directory off the import path.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

    from runner_e2e.reference.server import main

    raise SystemExit(main(dict(os.environ)))
