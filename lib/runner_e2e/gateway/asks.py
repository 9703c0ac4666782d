"""What a request asks for, as far as its price depends on it. Pure.

Anything that changes the price in a way that a rate card does not tell makes a request unpriced: it would
let a cell spend past its limit.
"""

from dataclasses import dataclass

from runner_e2e.gateway.dialects import Dialect
from runner_e2e.gateway.problems import Problem
from runner_e2e.strict_json import StrictJsonError, parse_strict

_MOST_TOKENS = 10**9
_MOST_CHOICES = 128

_MAXIMUM_FIELDS = {
    Dialect.CHAT: ("max_completion_tokens", "max_tokens"),
    Dialect.RESPONSES: ("max_output_tokens",),
    Dialect.MESSAGES: ("max_tokens",),
}
_PLAIN_TIERS = ("auto", "default", "standard", "standard_only")
# Fields that choose another model, another price list, or work that is charged apart.
_PRICE_CHANGERS = (
    "audio",
    "background",
    "container",
    "inference_geo",
    "mcp_servers",
    "models",
    "plugins",
    "preset",
    "prompt",
    "provider",
    "route",
    "speed",
    "web_search_options",
)
# Tools that the client runs; every other kind may be run, and charged, by the provider.
_CLIENT_TOOLS = (
    "apply_patch",
    "bash",
    "computer",
    "custom",
    "function",
    "local_shell",
    "memory",
    "text_editor",
)


@dataclass(frozen=True, slots=True)
class Ask:
    """One request: the model it names, its size, and the most output that it allows.

    `changer` names a field that makes the price unknown. `max_output` None: the request sets no maximum.
    """

    model: str
    streamed: bool
    size: int
    choices: int = 1
    max_output: int | None = None
    changer: str | None = None


def parse_ask(dialect: Dialect, body: bytes) -> Ask:
    """Read a request's body. Raises `Problem` for what a provider might read otherwise than we do."""
    try:
        content = parse_strict(body)
    except StrictJsonError as error:
        raise _invalid(f"The body {error}") from None
    if not isinstance(content, dict):
        raise _invalid("The body is not a JSON object")
    model, streamed = content.get("model"), content.get("stream")
    if not isinstance(model, str) or not model or len(model) > 200 or not _is_plain(model):
        raise _invalid("The field model must be a short text")
    if streamed is not None and not isinstance(streamed, bool):
        raise _invalid("The field stream must be true or false")
    maxima = [
        maximum
        for name in _MAXIMUM_FIELDS[dialect]
        if (maximum := _read_number(content, name, _MOST_TOKENS)) is not None
    ]
    return Ask(
        model=model,
        streamed=bool(streamed),
        size=len(body),
        choices=_read_number(content, "n", _MOST_CHOICES) or 1,
        max_output=max(maxima, default=None),
        changer=_find_changer(content),
    )


def _find_changer(content: dict[str, object]) -> str | None:
    for name in _PRICE_CHANGERS:
        if content.get(name) not in (None, False, [], {}):
            return name
    if content.get("service_tier") not in (None, *_PLAIN_TIERS):
        return "service_tier"
    modalities = content.get("modalities")
    if modalities not in (None, ["text"]):
        return "modalities"
    tools = content.get("tools")
    if tools is not None and not (isinstance(tools, list) and all(map(_is_run_by_client, tools))):
        return "tools"
    return None


def _is_run_by_client(tool: object) -> bool:
    if not isinstance(tool, dict):
        return False
    kind = tool.get("type", "custom")  # Anthropic's own tools of a client have no type
    return isinstance(kind, str) and any(
        kind == known or (kind.startswith(f"{known}_") and kind[len(known) + 1 :].isdigit())
        for known in _CLIENT_TOOLS
    )


def _read_number(content: dict[str, object], name: str, most: int) -> int | None:
    value = content.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise _invalid(f"The field {name} must be a whole number")
    return value


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable() and " " not in text


def _invalid(message: str) -> Problem:
    return Problem(400, "invalid_request", message)
