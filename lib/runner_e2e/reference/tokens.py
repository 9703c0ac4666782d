"""Bearer tokens of runners and agents, derived from the instance's own secret. Pure.

Derived and not stored, so that a runner which outlives its server is still recognised.
"""

import hashlib
import hmac


def mint_ticket(secret: str, run_id: str) -> str:
    """Return the ticket with which the runner of `run_id` reports."""
    return _mac(secret, f"runner:{run_id}")


def mint_agent_key(secret: str, agent_id: str, run_id: str) -> str:
    """Return the key with which an agent calls the API during one run."""
    return f"{agent_id}.{run_id}.{_mac(secret, f'agent:{agent_id}:{run_id}')}"


def judge_ticket(secret: str, run_id: str, header: str) -> bool:
    """Say whether an Authorization header holds the ticket of `run_id`."""
    return _equal(header, f"Bearer {mint_ticket(secret, run_id)}")


def judge_agent_key(secret: str, header: str) -> tuple[str, str] | None:
    """Return agent and run of an Authorization header, or None if it holds no valid key."""
    agent_id, _, rest = header.removeprefix("Bearer ").partition(".")
    run_id = rest.partition(".")[0]
    if not _equal(header, f"Bearer {mint_agent_key(secret, agent_id, run_id)}"):
        return None
    return agent_id, run_id


def _mac(secret: str, text: str) -> str:
    return hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest()


def _equal(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(), expected.encode())
