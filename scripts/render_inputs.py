"""Print the README's tables of inputs and outputs, made from `action.yml`; with `--write`, replace them.

Needs the development environment (`scripts/prepare --dev`) for its YAML parser.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import yaml

PROJECT = Path(__file__).resolve().parent.parent


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


def render_outputs(action: str) -> str:
    """Return the table for the text of an `action.yml`, in the order of its outputs."""
    outputs = yaml.safe_load(action)["outputs"]
    rows = ["| output | meaning |", "| --- | --- |"]
    rows += [f"| `{name}` | {' '.join(fields['description'].split())} |" for name, fields in outputs.items()]
    return "\n".join(rows) + "\n"


def render_tables(action: str) -> dict[str, str]:
    """Return both tables by what they hold."""
    return {"inputs": render_inputs(action), "outputs": render_outputs(action)}


def read_table(readme: str, kind: str = "inputs") -> str:
    """Return what stands between the markers of a kind, or raise `ValueError` when they are not there."""
    first, last = _markers(kind)
    _, start, rest = readme.partition(first)
    table, end, _ = rest.partition(last)
    if not start or not end:
        raise ValueError(f"README.md needs the lines {first} and {last}")
    return table.strip("\n") + "\n"


def replace_table(readme: str, table: str, kind: str = "inputs") -> str:
    """Return the README with `table` between the markers of a kind."""
    read_table(readme, kind)
    first, last = _markers(kind)
    before, _, rest = readme.partition(first)
    after = rest.partition(last)[2]
    return f"{before}{first}\n{table}{last}{after}"


def _markers(kind: str) -> tuple[str, str]:
    return f"<!-- {kind}:start -->", f"<!-- {kind}:end -->"


def main(argv: Sequence[str]) -> int:
    """Print the tables, or write them."""
    if argv not in ([], ["--write"]):
        print("usage: scripts/render-inputs [--write]", file=sys.stderr)
        return 2
    tables = render_tables((PROJECT / "action.yml").read_text(encoding="utf-8"))
    if not argv:
        print("\n".join(tables.values()), end="")
        return 0
    readme = PROJECT / "README.md"
    try:
        text = readme.read_text(encoding="utf-8")
        for kind, table in tables.items():
            text = replace_table(text, table, kind)
    except ValueError as error:
        print(f"render-inputs: {error}", file=sys.stderr)
        return 2
    readme.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
