"""OpenCode behind a scripted model: the script that is started instead of it. Pure.

The product strips the environment on the way to OpenCode, so what it has to be told stands in that script.
"""

import json
import shlex
from collections.abc import Sequence
from pathlib import Path

# The product's name of the provider whose place the scripted model takes, and the variable of its key.
PROVIDER = "openrouter"
KEY_VARIABLE = "OPENROUTER_API_KEY"
EXECUTABLE_OPTION = "--opencode-executable"
_KEY_PLACE = "key-of-the-agent"
_OFFLINE = ("OPENCODE_DISABLE_AUTOUPDATE", "OPENCODE_DISABLE_LSP_DOWNLOAD", "OPENCODE_DISABLE_MODELS_FETCH")


def build_opencode(program: Path, base_url: str, models: Sequence[str]) -> str:
    """Return a script that becomes `program`, with a provider at `base_url` and no other way out.

    `models` are names as the product spells them, with the provider before the first slash. Each agent
    shows the key of its own, so that the model can tell them apart.
    """
    names = [model.removeprefix(f"{PROVIDER}/") for model in models]
    settings = {
        "autoupdate": False,
        "provider": {
            PROVIDER: {
                "npm": "@ai-sdk/openai-compatible",
                "options": {"baseURL": base_url, "apiKey": _KEY_PLACE},
                "models": {name: {"name": name} for name in names},
            }
        },
    }
    before, after = json.dumps(settings).split(_KEY_PLACE)
    return "\n".join(
        (
            "#!/bin/sh",
            f'OPENCODE_CONFIG_CONTENT={shlex.quote(before)}"${{{KEY_VARIABLE}}}"{shlex.quote(after)}',
            "export OPENCODE_CONFIG_CONTENT",
            *(f"export {name}=1" for name in _OFFLINE),
            f'exec {shlex.quote(str(program))} "$@"',
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
