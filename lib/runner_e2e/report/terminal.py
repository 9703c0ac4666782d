"""A cell as a person reads it in a terminal."""

from collections import Counter

from rich import box
from rich.console import Console, Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from runner_e2e.report.rows import (
    AgentRow,
    AttemptRow,
    Record,
    agent_rows,
    check_rows,
    protections,
    records,
    text,
)

_STYLES = {"reached": "bold red", "visible": "yellow", "tried": "green", "not-tried": "dim"}
_PROTECTION_NAMES = {
    "filesystem": "file system domain",
    "noNewPrivileges": "no new privileges",
    "scopes": "signal and abstract-socket scopes",
    "descriptors": "descriptor sweep",
    "capabilities": "capabilities dropped",
    "sockets": "Unix sockets refused",
    "limits": "limits of other processes refused",
    "keyrings": "kernel keyrings refused",
    "ports": "TCP ports closed",
}


def print_host(console: Console, host: Record) -> None:
    """Print what this machine offers."""
    table = Table(box=box.SIMPLE_HEAD, title="Host", title_justify="left", show_header=False)
    table.add_column(style="bold")
    table.add_column()
    for name, value in host.items():
        table.add_row(plain(name), plain(str(value)))
    console.print(table)


def print_probe(console: Console, probe: Record) -> None:
    """Print the probe table and the protections of the observing launch."""
    rows = check_rows(probe)
    if rows:
        table = Table(
            box=box.SIMPLE_HEAD,
            title="Probe: the production launcher against a fixture instance",
            title_justify="left",
        )
        for heading in ("", "check", "expected", "inside", "outside"):
            table.add_column(heading, no_wrap=True)
        for row in rows:
            mark, style = ("✗", "bold red") if row.problem else ("✓", "green")
            if row.expected == "recorded" and not row.problem:
                mark, style = ("!", "yellow") if row.changed else ("·", "dim")
            table.add_row(
                Text(mark, style=style),
                plain(row.id),
                plain(row.expected),
                plain(row.observed, style),
                plain(row.control),
            )
        console.print(table)
    for name, outcome in protections(probe).items():
        style = "green" if outcome == "enforced" else "bold yellow"
        console.print(plain(f"  {outcome:<9} {_PROTECTION_NAMES.get(name, name)}", style))


def print_agents(console: Console, agents: Record, probe: Record) -> None:
    """Print for each agent what it tried and what it got."""
    rows = agent_rows(agents)
    if not rows:
        return
    launches = [*records(probe.get("launches"))]
    table = Table(
        box=box.SIMPLE_HEAD,
        title=f"Agents: {len(rows)} in one instance, {len(launches)} launches in a domain of their own",
        title_justify="left",
    )
    for heading in ("place", "tried to", *(f"{agent.name} got" for agent in rows)):
        table.add_column(plain(heading), no_wrap=True)
    for places in zip(*(agent.attempts for agent in rows), strict=False):
        table.add_row(plain(places[0].id), plain(places[0].how), *(_attempt_cell(row) for row in places))
    console.print(table)
    for agent in rows:
        console.print(_agent_line(agent))


def print_verdict(console: Console, cell: Record, evidence: str, files: list[str]) -> None:
    """Print the verdict and where the evidence is."""
    status = text(cell, "status")
    good = status == "passed"
    failure = text(cell, "failureClass")
    head = plain(
        f"{status.upper()}{f' ({failure})' if failure else ''}", "bold green" if good else "bold red"
    )
    place = plain(f"Evidence: {evidence}")
    place.overflow = "fold"
    body = Group(
        head,
        plain(text(cell, "message")),
        Text(),
        place,
        plain(f"          {', '.join(files)}", "dim"),
    )
    console.print(Panel(body, border_style="green" if good else "red", expand=False))


def plain(words: str, style: str = "") -> Text:
    """Return text that a terminal shows as it is: an agent may have chosen it, with control characters."""
    return Text("".join(char if char.isprintable() else "\ufffd" for char in words), style=style)


def _attempt_cell(row: AttemptRow) -> Text:
    words = {"reached": "REACHED", "visible": "known gap"}.get(row.reach, row.got)
    return plain(words, _STYLES.get(row.reach, ""))


def _agent_line(agent: AgentRow) -> Text:
    counts = Counter(row.reach for row in agent.attempts)
    good = agent.done and not counts["reached"]
    work = "did its work" if agent.done else f"did not finish (issue {agent.issue or 'unknown'})"
    gaps = f", {counts['visible']} known gap" if counts["visible"] else ""
    return plain(
        f"  {agent.name} {work}; {counts['reached']} of {len(agent.attempts)} places reached{gaps}",
        "green" if good else "bold red",
    )
