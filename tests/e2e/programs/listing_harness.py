"""A target's own harness, as far as `--list` goes: the published rules over the cells of `target_harness`.

`listing_harness.py [old] WORDS...` prints the list that WORDS select; `old` does not know the
selected-id variable, and so needs no selector to list everything.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # a target finds its own files

from e2e.programs.target_harness import CELLS, VARIABLE, Cell, SelectorError, scan, select

HEADER = ("ID", "SUITE", "GENERATION", "PROVIDER", "MODEL", "CREDENTIALS")


def answer(words: Sequence[str], environ: Mapping[str, str], *, old: bool) -> str:
    """Return what is printed on standard output."""
    words = [word for word in words if word != "--"]
    selected = "" if old else environ.get(VARIABLE, "").strip()
    if "--list" not in words:
        raise SelectorError("billable runs need --all or an explicit selector")
    words.remove("--list")
    _, given = scan([*words, *(["--id", selected] if selected else [])])
    cells = select({"--list"}, given) if given["id"] else list(CELLS)
    return "".join("\t".join(line) + "\n" for line in (HEADER, *map(row, cells)))


def row(cell: Cell) -> tuple[str, ...]:
    """Return the columns of a cell."""
    native = cell.profile == "codex_native"
    keys = ["OPENROUTER_API_KEY", *(["DAYTONA_API_KEY"] if cell.environment == "daytona" else [])]
    provider = "codex" if cell.profile.startswith("codex") else "opencode"
    return (cell.id, cell.suite, "native" if native else "legacy", provider, "any/model", ", ".join(keys))


def main(words: Sequence[str], environ: Mapping[str, str]) -> int:
    """Print the list, or the error and a hint."""
    try:
        sys.stdout.write(answer([word for word in words if word != "old"], environ, old="old" in words))
    except SelectorError as error:
        print(f"{error}\nTry --list to see what can be selected.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:], os.environ))
