"""Print SECURITY.md's table of what stays readable, from the layout's data; with `--write`, replace it."""

import sys
from collections.abc import Sequence
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT / "lib"))

from runner_e2e.isolation.readable import build_table, replace_table


def main(argv: Sequence[str]) -> int:
    """Print the table, or write it."""
    if argv not in ([], ["--write"]):
        print("usage: scripts/render-readable [--write]", file=sys.stderr)
        return 2
    if not argv:
        print(build_table(), end="")
        return 0
    page = PROJECT / "SECURITY.md"
    try:
        text = replace_table(page.read_text(encoding="utf-8"))
    except ValueError as error:
        print(f"render-readable: {error}", file=sys.stderr)
        return 2
    page.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
