"""The wrapper's configuration: one JSON file in the attempt's private directory."""

import json
from os import O_CLOEXEC, O_NOFOLLOW, O_RDONLY, close, read
from os import open as open_descriptor

from runner_e2e.isolation.paths import PROGRAM_OPTIONS, is_instance_parent
from runner_e2e.sandbox.protections import NAMES, OFF, PREFERRED, REQUIRED
from runner_e2e.sandbox.refusal import Refusal

SCHEMA = "runner-e2e.runnerd-configuration/v1"
FILE_NAME = "runnerd.json"

_KEYS = {
    "schema": str,
    "runner": str,
    "journal": str,
    "boot": int,
    "instanceParents": list,
    "scratchRoot": str,
    "hide": list,
    "hideOptional": list,
    "writable": list,
    "withholdPrefix": str,
    "minimumAbi": int,
    "levels": dict,
    "keepFileCapabilities": bool,
}


# May be left out: a launch that replaces nothing pays nothing for it.
REPLACEMENTS = "replacements"
_LISTS = ("instanceParents", "hide", "hideOptional", "writable")
_LEVELS = (REQUIRED, PREFERRED, OFF)


class Configuration:
    """What the harness decided for all launches of one server start (`boot`, from 1).

    An `instance_parents` entry may hold one `*` as a whole segment, see `isolation.paths`.
    `withhold_prefix` starts the names of all attempts' roots: those beside this one are not granted.
    `writable` names places beside the instance and the temporary directories that agents may write.
    `replacements` holds, by option of runnerd, the program to start instead of the one that the server
    names, and its SHA-256: a program that is another one by the time of a launch is refused by runnerd.
    """

    __slots__ = (
        "boot",
        "hide",
        "hide_optional",
        "instance_parents",
        "journal",
        "keep_file_capabilities",
        "levels",
        "minimum_abi",
        "replacements",
        "runner",
        "scratch_root",
        "withhold_prefix",
        "writable",
    )

    def __init__(self, content: dict[str, object]) -> None:
        self.runner = str(content["runner"])
        self.journal = str(content["journal"])
        self.boot = _number(content["boot"])
        self.instance_parents = _strings(content["instanceParents"])
        self.scratch_root = str(content["scratchRoot"])
        self.hide = _strings(content["hide"])
        self.hide_optional = _strings(content["hideOptional"])
        self.writable = _strings(content["writable"])
        self.withhold_prefix = str(content["withholdPrefix"])
        self.minimum_abi = _number(content["minimumAbi"])
        levels = content["levels"]
        self.levels = {str(k): str(v) for k, v in levels.items()} if isinstance(levels, dict) else {}
        self.keep_file_capabilities = content["keepFileCapabilities"] is True
        self.replacements: dict[str, tuple[str, str]] = {}
        replacements = content.get(REPLACEMENTS)
        if isinstance(replacements, dict):
            self.replacements = {str(k): (str(v["path"]), str(v["sha256"])) for k, v in replacements.items()}


def read_configuration(path: bytes) -> Configuration:
    """Read and check the configuration; a wrapper without one must not start anything."""
    try:
        descriptor = open_descriptor(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
        try:
            blocks = []
            while block := read(descriptor, 1 << 20):
                blocks.append(block)
        finally:
            close(descriptor)
        content = json.loads(b"".join(blocks))
    except (OSError, ValueError, RecursionError) as error:
        raise Refusal(
            "usage",
            "the wrapper's configuration cannot be read",
            "start runnerd through the attempt's own bin directory",
            errno=getattr(error, "errno", None),
        ) from error
    if (
        not isinstance(content, dict)
        or content.get("schema") != SCHEMA
        or content.keys() - {REPLACEMENTS} != _KEYS.keys()
        or not all(isinstance(content[key], kind) for key, kind in _KEYS.items())
        or not all(isinstance(path, str) for key in _LISTS for path in content[key])
        or not all(map(is_instance_parent, content["instanceParents"]))
        or not all(name in NAMES and level in _LEVELS for name, level in content["levels"].items())
        or (REPLACEMENTS in content and not _are_replacements(content[REPLACEMENTS]))
    ):
        raise Refusal(
            "usage", f"the wrapper's configuration is not {SCHEMA}", "let the harness write it anew"
        )
    return Configuration(content)


def _are_replacements(value: object) -> bool:
    return isinstance(value, dict) and all(
        option in PROGRAM_OPTIONS
        and isinstance(program, dict)
        and program.keys() == {"path", "sha256"}
        and all(isinstance(text, str) for text in program.values())
        and program["path"].startswith("/")
        and "\0" not in program["path"]
        for option, program in value.items()
    )


def _strings(value: object) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else []


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
