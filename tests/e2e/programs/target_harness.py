"""A target's own harness, as far as it lists cells: the published rules, written apart from the product's.

`target_harness.py [old] [slow] WORDS...` prints what WORDS select. `old` does not know the selected-id
variable; `slow` takes its time, so that others can look at it.
"""

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

VARIABLE = "PAPERCLIP_RUNNER_E2E_SELECTED_ID"
ATTENDED = {"provider_connection", "github_review_journey", "antigravity_agent_journey"}
KINDS = ("suite", "group", "profile", "environment", "case", "id")
VALUED = {f"--{kind}" for kind in KINDS} | {"--max-parallel", "--max-automatic-retries"}
SWITCHES = {"--all", "--matrix-json"}
SLOW_S = 0.5


@dataclass(frozen=True)
class Cell:
    suite: str
    profile: str
    environment: str
    case: str
    own_groups: tuple[str, ...] = ()
    explicit: str | None = None
    manual: bool = False
    flow: str = "single_turn"

    @property
    def id(self) -> str:
        return f"{self.suite}.{self.profile}.{self.environment}.{self.case}"

    @property
    def groups(self) -> tuple[str, ...]:
        return ("core", self.environment, *self.own_groups)

    @property
    def row(self) -> dict[str, object]:
        return {
            "executionId": self.id,
            "suiteId": self.suite,
            "profileId": self.profile,
            "credentialName": "OPENROUTER_API_KEY",
            "environmentId": self.environment,
            "caseId": self.case,
            "timeoutMinutes": 40 if self.environment == "daytona" else 25,
            "needsDaytona": self.environment == "daytona",
        }


CELLS = (
    Cell("core", "opencode", "local", "first-task"),
    Cell("core", "opencode", "daytona", "first-task"),
    Cell("core", "opencode", "local", "long-haul", ("slow",), explicit="slow"),
    Cell("breadth", "codex_native", "local", "first-task"),
    Cell("breadth", "codex", "local", "agents.change-manager"),
    Cell("chat-features", "opencode", "local", "agents.change-manager", manual=True),
    Cell("chat-features", "opencode", "local", "routines.pause-owned", manual=True),
    Cell("journeys", "opencode", "local", "connect", manual=True, flow="provider_connection"),
    Cell("journeys", "opencode", "local", "after-connect", manual=True),
)


class SelectorError(Exception):
    """What the harness refuses."""


def answer(words: Sequence[str], environ: Mapping[str, str], *, old: bool = False) -> str:
    """Return what is printed on standard output."""
    words = [word for word in words if word != "--"]
    selected = "" if old else environ.get(VARIABLE, "").strip()
    if selected:
        words += ["--id", selected]
    switches, given = scan(words)
    cells = select(switches, given)
    if any(cell.flow in ATTENDED for cell in cells):
        raise SelectorError("attended journeys need private setup and are not admitted to paid CI")
    return json.dumps(
        {
            "include": [cell.row for cell in sorted(cells, key=lambda cell: cell.id.replace("_", "\x01"))],
            "needsDaytona": any(cell.environment == "daytona" for cell in cells),
            "executionIds": [cell.id for cell in cells],
        }
    )


def scan(words: Sequence[str]) -> tuple[set[str], dict[str, list[str]]]:
    """Return the switches, and the values of each kind of selector."""
    switches: set[str] = set()
    given: dict[str, list[str]] = {kind: [] for kind in KINDS}
    rest = iter(words)
    for word in rest:
        if word in SWITCHES:
            switches.add(word)
        elif word in VALUED:
            value = next(rest, "")
            if not value or value.startswith("--"):
                raise SelectorError(f"{word} requires a value")
            given.setdefault(word[2:], []).append(value)
        else:
            raise SelectorError(f"unknown argument: {word}")
    return switches, given


def select(switches: set[str], given: Mapping[str, Sequence[str]]) -> list[Cell]:
    """Return the cells that the selectors keep."""
    dimensions = [kind for kind in KINDS[:-1] if given[kind]]
    if given["id"] and (dimensions or "--all" in switches):
        raise SelectorError("--id is exclusive with --all and the other selectors")
    if dimensions and "--all" in switches:
        raise SelectorError("--all is exclusive with the other selectors")
    if not (switches or dimensions or given["id"]):
        raise SelectorError("billable runs need --all or an explicit selector")
    for kind in KINDS:
        known = {name for cell in CELLS for name in names(cell, kind)}
        if unknown := [value for value in given[kind] if value not in known]:
            raise SelectorError(f"unknown {kind}: {', '.join(unknown)}")
    cells = [cell for cell in CELLS if keeps(cell, given)]
    if not cells:
        raise SelectorError("selectors matched zero executions")
    return cells


def names(cell: Cell, kind: str) -> Sequence[str]:
    """Return what a selector of this kind may be to keep the cell."""
    return cell.groups if kind == "group" else (str(getattr(cell, kind)),)


def keeps(cell: Cell, given: Mapping[str, Sequence[str]]) -> bool:
    """Apply the rules; the first that has something to say decides."""
    if given["id"]:
        return cell.id in given["id"]
    if cell.manual and cell.suite not in given["suite"]:
        return False
    opted_in = cell.case in given["case"] or any(
        group == cell.explicit or group in cell.own_groups for group in given["group"]
    )
    if cell.explicit and not opted_in:
        return False
    return set(given["group"]) <= set(cell.groups) and all(
        not given[kind] or names(cell, kind)[0] in given[kind]
        for kind in ("suite", "profile", "environment", "case")
    )


def main(words: Sequence[str], environ: Mapping[str, str]) -> int:
    """Print the answer, or the error and a hint."""
    modes = {word for word in words if word in ("old", "slow")}
    if "slow" in modes:
        time.sleep(SLOW_S)
    try:
        print(answer([word for word in words if word not in modes], environ, old="old" in modes))
    except SelectorError as error:
        print(f"{error}\nTry --list to see what can be selected.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:], os.environ))
