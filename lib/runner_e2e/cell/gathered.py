"""What an attempt has gathered so far; whatever ends it, this is staged. Pure data."""

from dataclasses import dataclass, field

from runner_e2e.probe.run import ProbeResult

# An agent decides how much there is of what it was not asked for.
MOST_NAMED = 20


@dataclass(slots=True)
class Gathered:
    """What every harness gathers.

    `probes` holds one for each server start that was probed by us. `changed` names what runs outside the
    domain and was changed, `aliases` hard links out of hidden trees, `leftovers` processes that were left
    running and ended, `spending` is a gateway's record.
    """

    probes: list[ProbeResult] = field(default_factory=list)
    aliases: list[str] = field(default_factory=list)
    leftovers: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    spending: dict[str, object] | None = None
