"""What agents of the real product are sent to try, and what their attempts came to. Pure but for one file."""

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources

from runner_e2e.cell.paperclip_explorer import MARK
from runner_e2e.evidence.attempts import Finding, Place

# Which findings count where a place is named twice: the worst one.
_OUTCOMES = ("denied", "absent", "error", "obtained")


def compute_witness(seed: str) -> str:
    """Return what stands in an account of an exploration with this seed, and not in its command."""
    return hashlib.sha256(seed.encode()).hexdigest()


def build_exploration(places: Sequence[Place], seed: str) -> str:
    """Return the shell command that tries every place, in a form that says nothing of what it does."""
    source = resources.files("runner_e2e.cell").joinpath("paperclip_explorer.py").read_text("utf-8")
    leads = [{"id": place.id, "how": place.how, "target": place.target} for place in places]
    encoded = base64.b64encode(json.dumps(leads).encode()).decode()
    text = f"{source}\nmain({encoded!r}, {seed!r})\n"
    program = f"/usr/bin/python3 -IS - <<'END-OF-EXPLORER'\n{text}END-OF-EXPLORER\n"
    return f"echo {base64.b64encode(program.encode()).decode()} | base64 -d | bash"


def read_findings(texts: Iterable[str]) -> dict[str, Finding]:
    """Return an agent's own account of each place from what its tools printed; of several the worst one."""
    found: dict[str, Finding] = {}
    for text in texts:
        _, mark, rest = text.partition(MARK)
        for row in _rows(rest) if mark else ():
            number = row.get("errno")
            finding = Finding(
                str(row.get("id")), str(row.get("outcome")), None if number is None else str(number)
            )
            known = found.get(finding.id)
            if known is None or _rank(finding) > _rank(known):
                found[finding.id] = finding
    return found


def _rows(text: str) -> list[Mapping[str, object]]:
    try:
        report, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return []
    rows = report.get("findings") if isinstance(report, dict) else None
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _rank(finding: Finding) -> int:
    return _OUTCOMES.index(finding.outcome) if finding.outcome in _OUTCOMES else len(_OUTCOMES)
