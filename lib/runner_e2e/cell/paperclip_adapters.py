"""The product's adapters that this harness can drive, and what an agent of each is configured with. Pure.

Of `paperclip_runner` the server starts runnerd, whatever the agent's configuration says. Of the others it
starts the `command` of that configuration, in whose place the harness puts its own wrapper.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from runner_e2e.cell.paperclip_opencode import (
    KEY_VARIABLE,
    OFFLINE,
    PROVIDER,
    describe_providers,
    get_request_name,
)

if TYPE_CHECKING:
    from runner_e2e.plan.definitions import Profile

# In adapterConfig of a profile: the directory beside the catalog that holds a script for each of its cases.
SCRIPTS_KEY = "scriptedModel"
COMMAND_KEY = "command"
RUNNER, OPENCODE, PROCESS = "paperclip_runner", "opencode_local", "process"


@dataclass(frozen=True, slots=True)
class Adapter:
    """One of the product's adapters. `needed` is what adapterConfig has to say, `known` what it may.

    `known` is None where the product checks it. `handed` are files below XDG_CONFIG_HOME that the server
    makes for each run, `handed_links` the directory in its home where it links skills. `check` says what has
    to hold for a run to have a launch. Without `resumes` an agent's later run cannot go on with the
    conversation of the one before.
    """

    type: str
    generation: str
    check: str
    scripted: bool = True
    commands: bool = True
    needed: Mapping[str, JsonValue] = field(default_factory=dict)
    known: frozenset[str] | None = None
    handed_links: str | None = None
    resumes: bool = True
    handed: tuple[str, ...] = ()


ADAPTERS = {
    one.type: one
    for one in (
        Adapter(
            RUNNER,
            "native",
            "the server starts runnerd by PAPERCLIP_RUNNER_BINARY",
            commands=False,
            needed={"provider": "opencode", "lifecycleMode": "per_turn", "opencodePermissionMode": "allow"},
        ),
        Adapter(
            OPENCODE,
            "legacy",
            "the agents' adapterConfig still names the wrapper as their command",
            # Without it the server makes no configuration for a run, and OpenCode asks nobody.
            needed={"dangerouslySkipPermissions": True},
            known=frozenset(
                {"model", "variant", "timeoutSec", "graceSec", "dangerouslySkipPermissions", "env"}
            ),
            handed=("opencode/opencode.json",),
            handed_links=".claude/skills",
            resumes=False,  # the conversation lies in the home of the run that had it
        ),
        Adapter(
            PROCESS,
            "legacy",
            "the agents' adapterConfig still names the wrapper as their command",
            scripted=False,
            known=frozenset({COMMAND_KEY, "args", "timeoutSec", "graceSec"}),
        ),
    )
}


def find_problem(profile: "Profile") -> str | None:
    """Return why this harness cannot drive agents of a profile; None when it can. Names no value of it."""
    adapter = ADAPTERS.get(profile.adapter_type)
    if adapter is None or profile.generation != adapter.generation:
        pairs = ", ".join(f"{one.generation} with the adapter {one.type}" for one in ADAPTERS.values())
        return f"its profile is not {pairs}"
    config = profile.adapter_config
    if profile.credential is not None:
        problem = _find_credential_problem(adapter, profile.credential, config)
    else:
        problem = _find_script_problem(config) if adapter.scripted else _find_command_problem(config)
    return problem or _find_unfit(adapter, config)


def _find_unfit(adapter: Adapter, config: Mapping[str, JsonValue]) -> str | None:
    if any(config.get(name) != value for name, value in adapter.needed.items()):
        needed = ", ".join(f"{name}: {_spell(value)}" for name, value in adapter.needed.items())
        return f"adapterConfig of its profile does not say {needed}"
    if adapter.scripted and config.get("env") != {KEY_VARIABLE: {"secretRef": KEY_VARIABLE}}:
        return f"adapterConfig of its profile does not give agents {KEY_VARIABLE}, as a secretRef, alone"
    if adapter.known is not None and config.keys() - adapter.known - {SCRIPTS_KEY}:
        return f"adapterConfig of its profile says more than {', '.join(sorted(adapter.known))}"
    return None


def _find_credential_problem(
    adapter: Adapter, credential: str, config: Mapping[str, JsonValue]
) -> str | None:
    if not adapter.scripted:
        return "its profile needs a credential, and its agents have no model that it could pay"
    if SCRIPTS_KEY in config:
        return f"its profile has both {SCRIPTS_KEY} and a credential, and a model is played or paid for"
    if credential != KEY_VARIABLE:
        return f"its profile needs another credential than {KEY_VARIABLE}"
    model = config.get("model")
    if not isinstance(model, str) or get_request_name(model) in ("", model):
        return f"model in adapterConfig of its profile is none of {PROVIDER}/, which its credential pays"
    return None


def _find_script_problem(config: Mapping[str, JsonValue]) -> str | None:
    if is_plain_name(config.get(SCRIPTS_KEY)):
        return None
    return f"adapterConfig of its profile has no {SCRIPTS_KEY}, the name of a directory beside the catalog"


def _spell(value: JsonValue) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _find_command_problem(config: Mapping[str, JsonValue]) -> str | None:
    command, words = config.get(COMMAND_KEY), config.get("args", [])
    if SCRIPTS_KEY in config:
        return f"adapterConfig of its profile has {SCRIPTS_KEY}, and its agents have no model"
    if not isinstance(command, str) or not command or "\0" in command:
        return f"adapterConfig of its profile has no {COMMAND_KEY}, the program that its agents are"
    if "/" in command and not command.startswith("/"):
        return f"{COMMAND_KEY} in adapterConfig of its profile is neither a plain name nor an absolute path"
    if not isinstance(words, list) or not all(isinstance(word, str) and "\0" not in word for word in words):
        return "args in adapterConfig of its profile is no list of texts"
    return None


def is_plain_name(value: object) -> bool:
    """Whether a value names one entry of a directory."""
    return isinstance(value, str) and bool(value) and "/" not in value and value not in (".", "..")


def build_config(
    adapter: Adapter, config: Mapping[str, JsonValue], wrapper: Path, base_url: str
) -> dict[str, JsonValue]:
    """Return an agent's adapterConfig as the server gets it.

    `wrapper` stands in the place of its command, and `base_url` is a scripted model's or a gateway's.
    """
    built = dict(config)
    if adapter.commands:
        built[COMMAND_KEY] = str(wrapper)
    if adapter.type == OPENCODE:
        model = str(config.get("model", ""))
        variables = config.get("env")
        built["env"] = {
            **(variables if isinstance(variables, dict) else {}),
            "OPENCODE_ALLOW_ALL_MODELS": "true",
            # The server writes this into the configuration of each run, with the agent's own key.
            "PAPERCLIP_OPENCODE_PROVIDERS": json.dumps(
                describe_providers(base_url, [model], f"{{env:{KEY_VARIABLE}}}")
            ),
            "PAPERCLIP_OPENCODE_SMALL_MODEL": model,
            **dict.fromkeys(OFFLINE, "1"),
        }
    return built
