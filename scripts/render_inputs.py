"""Print the README's table of inputs, made from `action.yml`; with `--write`, replace it there.

Needs the development environment (`scripts/prepare --dev`) for its YAML parser.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import yaml

PROJECT = Path(__file__).resolve().parent.parent
START, END = "<!-- inputs:start -->", "<!-- inputs:end -->"


def render_inputs(action: str) -> str:
    """Return the table for the text of an `action.yml`, in the order of its inputs."""
    inputs = yaml.safe_load(action)["inputs"]
    rows = ["| input | default | meaning |", "| --- | --- | --- |"]
    for name, fields in inputs.items():
        default = f"`{fields['default']}`" if fields.get("default") else ""
        if fields.get("required"):
            default = "required"
        rows.append(f"| `{name}` | {default} | {' '.join(fields['description'].split())} |")
    return "\n".join(rows) + "\n"


def read_table(readme: str) -> str:
    """Return what stands between the markers, or raise `ValueError` when they are not there."""
    _, start, rest = readme.partition(START)
    table, end, _ = rest.partition(END)
    if not start or not end:
        raise ValueError(f"README.md needs the lines {START} and {END}")
    return table.strip("\n") + "\n"


def replace_table(readme: str, table: str) -> str:
    """Return the README with `table` between the markers."""
    read_table(readme)
    before, _, rest = readme.partition(START)
    after = rest.partition(END)[2]
    return f"{before}{START}\n{table}{END}{after}"


def main(argv: Sequence[str]) -> int:
    """Print the table, or write it."""
    if argv not in ([], ["--write"]):
        print("usage: scripts/render-inputs [--write]", file=sys.stderr)
        return 2
    table = render_inputs((PROJECT / "action.yml").read_text(encoding="utf-8"))
    if not argv:
        print(table, end="")
        return 0
    readme = PROJECT / "README.md"
    try:
        text = replace_table(readme.read_text(encoding="utf-8"), table)
    except ValueError as error:
        print(f"render-inputs: {error}", file=sys.stderr)
        return 2
    readme.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
