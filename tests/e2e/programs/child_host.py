"""Stand for run-cell: `child_host.py LIBRARY UNRULY WAY TOKEN` runs a way of an unruly child to its end.

Prints one JSON line at the start, and one about the end. It and its warden may be killed at any time.
"""

import json
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, sys.argv[1])

from runner_e2e.cell.child import running_child
from runner_e2e.cell.processes import Family

NOWHERE = Path("/var/tmp/re-no-such-attempt")  # nothing is found by its path, only as a descendant


def main() -> None:
    """Do as run-cell does: adopt orphans, run, end what is left."""
    unruly, way, token = sys.argv[2:]
    family = Family()
    family.adopt_orphans()
    words = [sys.executable, "-I", "-S", unruly, way, token]
    with running_child(words, {"PATH": os.defpath, "SECRET": "x"}, Path.cwd()) as child:
        first = {"warden": child.warden.pid, "command": child.mark.pid}
        os.write(1, json.dumps(first).encode() + b"\n")
        while child.poll() is None:
            time.sleep(0.01)
        found: dict[str, object] = {"status": child.poll(), "lost": child.warden_lost}
        found["strays"] = child.end_strays()
        found["said"] = os.read(child.stdout, 65536).decode()
    found["left"] = family.end(NOWHERE)
    os.write(1, json.dumps(found).encode() + b"\n")


if __name__ == "__main__":
    main()
