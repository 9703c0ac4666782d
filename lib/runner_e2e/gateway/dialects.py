"""The calls that the gateway passes on, each with its place at the provider. Pure."""

from enum import Enum


class Dialect(Enum):
    """One kind of call. The value is its path behind `/v1`, here and behind a provider's base URL."""

    CHAT = "/chat/completions"
    RESPONSES = "/responses"
    MESSAGES = "/messages"

    @property
    def path(self) -> str:
        """Path of the call at the gateway."""
        return f"/v1{self.value}"


def find_dialect(path: str) -> Dialect:
    """Return the dialect to answer a path in, which may be none of ours."""
    return Dialect.MESSAGES if path.startswith(Dialect.MESSAGES.path) else Dialect.CHAT
