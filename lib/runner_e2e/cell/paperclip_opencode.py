"""OpenCode behind a scripted model or a gateway: the script that is started instead of it. Pure.

The product strips the environment on the way to OpenCode, so what it has to be told stands in that script.
"""

import json
import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from pydantic import JsonValue

# The product's name of the provider whose place a scripted model or a gateway takes, and its key's variable.
PROVIDER = "openrouter"
KEY_VARIABLE = "OPENROUTER_API_KEY"
EXECUTABLE_OPTION = "--opencode-executable"
_KEY_PLACE = "key-of-the-agent"
OFFLINE = ("OPENCODE_DISABLE_AUTOUPDATE", "OPENCODE_DISABLE_LSP_DOWNLOAD", "OPENCODE_DISABLE_MODELS_FETCH")


def build_opencode(program: Path, base_url: str, models: Sequence[str]) -> str:
    """Return a script that becomes `program`, with a provider at `base_url` and no other way out.

    `models` are names as the product spells them, with the provider before the first slash. Each agent
    shows the key that it was given: by keys of their own a scripted model tells them apart.
    """
    settings = {"autoupdate": False, "provider": describe_providers(base_url, models, _KEY_PLACE)}
    before, after = json.dumps(settings).split(_KEY_PLACE)
    return "\n".join(
        (
            "#!/bin/sh",
            f'OPENCODE_CONFIG_CONTENT={shlex.quote(before)}"${{{KEY_VARIABLE}}}"{shlex.quote(after)}',
            "export OPENCODE_CONFIG_CONTENT",
            *(f"export {name}=1" for name in OFFLINE),
            # It unpacks a library of some MB at each start, and leaves it in /tmp without this.
            '[ ! -d "${XDG_CACHE_HOME:-}" ] || { TMPDIR=$XDG_CACHE_HOME; export TMPDIR; }',
            f'exec {shlex.quote(str(program))} "$@"',
            "",
        )
    )


def get_request_name(model: str) -> str:
    """Return the name that OpenCode's requests give a model, whose own name begins with its provider."""
    return model.removeprefix(f"{PROVIDER}/")


def describe_providers(base_url: str, models: Sequence[str], key: str) -> dict[str, JsonValue]:
    """Return OpenCode's setting of the provider at `base_url`, which is shown `key`."""
    names = list(map(get_request_name, models))
    return {
        PROVIDER: {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": base_url, "apiKey": key},
            "models": {name: {"name": name} for name in names},
        }
    }


def build_open_command(interpreter: str, library: Path, configuration: Path) -> str:
    """Return a script that becomes an agent's command as the wrapper would, without a domain: the control.

    `configuration` is the wrapper's.
    """
    return "\n".join(
        (
            f"#!{interpreter} -IS",
            "import os, sys",
            f"sys.path.append({str(library)!r})",
            "from runner_e2e.launch import agent_command, entries",
            "from runner_e2e.launch.command_configuration import read_command_configuration",
            "from runner_e2e.sandbox.execute import read_environment",
            f"settings = read_command_configuration({os.fsencode(configuration)!r})",
            "environment = read_environment()",
            "found = agent_command.scope_of(environment, settings)",
            "for path, mode in found.scope.directories:",
            "    entries.create_directory(path, mode)",
            "agent_command.take_over(environment, settings, found)",
            "agent_command.enter_workspace(found.workspace)",
            "environment = agent_command.command_environment(environment, settings, found)",
            "variables = dict(entry.partition(b'=')[::2] for entry in environment)",
            "os.execve(settings.command, [settings.command, *sys.argv[1:]], variables)",
            "",
        )
    )


def build_open_runner(interpreter: str, runner: Path, opencode: Path, digest: str) -> str:
    """Return a script that becomes runnerd with another OpenCode and without a domain: the control.

    `digest` is the SHA-256 of `opencode`.
    """
    replacements = {EXECUTABLE_OPTION: str(opencode), f"{EXECUTABLE_OPTION}-sha256": f"sha256:{digest}"}
    return "\n".join(
        (
            f"#!{interpreter} -IS",
            "import os, sys",
            f"replacements = {replacements!r}",
            "words = sys.argv[1:]",
            "for position, word in enumerate(words[:-1]):",
            "    if word in replacements:",
            "        words[position + 1] = replacements[word]",
            f"os.execv({str(runner)!r}, [{str(runner)!r}, *words])",
            "",
        )
    )
