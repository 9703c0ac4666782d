"""Start the target's harness: `harness.py LIBRARY WORDS...`.

In the checkout it lies in `tests/runner-e2e`, with its modules below as `e2e.target`; `LIBRARY` is where the
reference server comes from.
"""

import os
import sys

if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])

    from e2e.target.launcher import main

    raise SystemExit(main(sys.argv[1], sys.argv[2:], dict(os.environ)))
