"""What processes of the kernel tests answer: results, refusals, outcomes of acts, and plans.

It checks form, such as that a refusal is one well-made line; what was to be expected is the tests'.
"""

import ast
import json
from dataclasses import dataclass
from pathlib import Path

REFUSED = 125
REFUSAL_SCHEMA = "runner-e2e.sandbox-refusal/v1"
PLAN_SCHEMA = "runner-e2e.sandbox-plan/v1"


@dataclass(frozen=True, slots=True)
class Refusal:
    """The one JSON line of a launcher that did not become the command."""

    code: str
    message: str
    remedy: str
    path: str | None
    errno: int | None


@dataclass(frozen=True, slots=True)
class Result:
    """How one process ended. A negative status is the signal that ended it."""

    status: int
    stdout: bytes
    stderr: bytes

    @property
    def text(self) -> str:
        """Standard output, with bytes that are not UTF-8 made visible."""
        return self.stdout.decode("utf-8", "backslashreplace")

    @property
    def lines(self) -> list[str]:
        """Standard output by line."""
        return self.text.splitlines()

    @property
    def complaints(self) -> str:
        """Standard error as text."""
        return self.stderr.decode("utf-8", "backslashreplace")

    def shows(self, text: str) -> bool:
        """Whether either stream contains `text`."""
        return text.encode() in self.stdout + self.stderr

    def refusal(self, code: str, *, status: int = REFUSED) -> Refusal:
        """Assert that this is a well-formed refusal with `code`, and return it."""
        assert self.status == status, self
        assert self.stdout == b"", self
        assert self.stderr.endswith(b"\n"), self
        assert self.stderr.count(b"\n") == 1, self
        assert self.stderr.isascii(), self
        line = json.loads(self.stderr)
        assert isinstance(line, dict), self
        assert line["schema"] == REFUSAL_SCHEMA, self
        assert isinstance(line["code"], str), self
        assert line["code"] == code, self
        assert isinstance(line["message"], str), self
        assert line["message"], self
        assert isinstance(line["remedy"], str), self
        assert line["remedy"], self
        path, number = line.get("path"), line.get("errno")
        assert path is None or isinstance(path, str), self
        assert number is None or isinstance(number, int), self
        return Refusal(line["code"], line["message"], line["remedy"], path, number)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the kernel said to one act: the name of an errno, or nothing and a value."""

    error: str
    value: str

    @property
    def worked(self) -> bool:
        """Whether the act succeeded."""
        return not self.error


@dataclass(frozen=True, slots=True)
class Plan:
    """What `--explain` promises."""

    abi: int
    hidden: tuple[Path, ...]
    spellings: tuple[Path, ...]
    exposed: tuple[Path, ...]
    closed_ports: tuple[int, ...]
    ancestors: tuple[Path, ...]
    grants: tuple[Path, ...]
    protections: tuple[str, ...]
    text: str


def outcomes(result: Result) -> list[Outcome]:
    """What the acting program printed."""
    assert result.status == 0, result
    return [Outcome(error, value) for error, value in ast.literal_eval(result.text)]


def parse_plan(text: bytes) -> Plan:
    """Check the shape of an `--explain` answer."""
    plan = json.loads(text)
    assert plan["schema"] == PLAN_SCHEMA, plan
    hidden, exposed, grants = plan["hidden"], plan["exposed"], plan["grants"]
    return Plan(
        abi=plan["abi"],
        hidden=tuple(Path(entry["path"]) for entry in hidden),
        spellings=tuple(Path(text) for entry in hidden for text in entry["spellings"]),
        exposed=tuple(Path(entry["path"]) for entry in exposed),
        closed_ports=tuple(plan["closedPorts"]),
        ancestors=tuple(Path(path) for path in plan["ancestors"]),
        grants=tuple(Path(entry["path"]) for entry in grants),
        protections=tuple(sorted(plan["protections"])),
        text=text.decode("ascii"),
    )
