"""Environment of a harness behind the paid gateway: a scoped token instead of the provider's key. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from runner_e2e.errors import InputError
from runner_e2e.isolation.explain import Built, Draft
from runner_e2e.isolation.families import find_family
from runner_e2e.isolation.variables import (
    CREDENTIAL_NAMES,
    DAYTONA_CREDENTIAL,
    GATEWAY_BASE_URL,
    GATEWAY_PHASE_PATH,
    GATEWAY_TOKEN,
    RELAY_URL,
    REMOTE_GATEWAY_ORIGIN,
    fold,
    is_provider_authority,
    is_secret_name,
)

RELAY_CREDENTIAL = "BRAINTRUST_API_KEY"
# What a gateway may set beside the cell's credential.
GATEWAY_NAMES = frozenset(
    {
        GATEWAY_BASE_URL,
        GATEWAY_PHASE_PATH,
        GATEWAY_TOKEN,
        RELAY_CREDENTIAL,
        RELAY_URL,
        REMOTE_GATEWAY_ORIGIN,
    }
)


@dataclass(frozen=True, slots=True)
class Relay:
    """Where traces go, and the token that is good for nothing else."""

    url: str
    token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Gateway:
    """Where a cell's requests go, its scoped token, and the file that names the phase."""

    base_url: str
    token: str = field(repr=False)
    phase_path: str
    relay: Relay | None = None


def _never(_: str) -> bool:
    return False


def build_gateway_environment(
    base: Mapping[str, str] | Built,
    credential_name: str,
    gateway: Gateway,
    *,
    is_remote_origin: Callable[[str], bool] = _never,
) -> Built:
    """Return `base` with no provider's key in it, and the gateway's token under the name that is expected.

    Daytona's key goes too: who runs a Daytona cell sets it afterwards. `is_remote_origin` recognises the
    base URL of a gateway that remote agents can reach; which that is the product does not publish.
    """
    if credential_name not in CREDENTIAL_NAMES or credential_name == DAYTONA_CREDENTIAL:
        raise InputError(
            f"No gateway stands in for {ascii(credential_name)[1:-1][:80]}",
            f"Name one of {', '.join(name for name in CREDENTIAL_NAMES if name != DAYTONA_CREDENTIAL)}",
        )
    draft = Draft(base)
    draft.remove_where(_is_provider_key, "a provider's key stays with the gateway")
    draft.remove((RELAY_URL, REMOTE_GATEWAY_ORIGIN), "of another gateway")
    rule = "the gateway's"
    if is_remote_origin(gateway.base_url):
        draft.set(REMOTE_GATEWAY_ORIGIN, gateway.base_url, rule)
    draft.set(credential_name, gateway.token, "the gateway's token instead of the key")
    draft.set(GATEWAY_BASE_URL, gateway.base_url, rule)
    draft.set(GATEWAY_TOKEN, gateway.token, rule)
    draft.set(GATEWAY_PHASE_PATH, gateway.phase_path, rule)
    if gateway.relay is not None:
        draft.set(RELAY_CREDENTIAL, gateway.relay.token, "the trace relay's token instead of the key")
        draft.set(RELAY_URL, gateway.relay.url, "the trace relay's")
    return draft.build()


def _is_provider_key(name: str) -> bool:
    folded = fold(name)
    return (
        folded in CREDENTIAL_NAMES
        or is_provider_authority(folded)
        or (find_family(name) is not None and is_secret_name(name))
    )
