"""Where harness and test process ask each other for a server restart. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ControlPaths:
    """The request that a test writes, and what the harness answers; both in one directory."""

    directory: str
    request: str
    acknowledgement: str


def plan_control_paths(temporary_root: str) -> ControlPaths:
    """Return the product's places below an attempt's temporary root."""
    directory = f"{temporary_root}/control"
    return ControlPaths(
        directory, f"{directory}/server-restart.request.json", f"{directory}/server-restart.ack.json"
    )
