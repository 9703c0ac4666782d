"""The wrappers' configurations: one JSON file each in the attempt's private directory."""

import json
from os import O_CLOEXEC, O_NOFOLLOW, O_RDONLY, close, read
from os import open as open_descriptor

from runner_e2e.isolation.paths import is_instance_parent
from runner_e2e.isolation.words import PROGRAM_OPTIONS
from runner_e2e.sandbox.ports import is_port
from runner_e2e.sandbox.protections import NAMES, OFF, PREFERRED, REQUIRED
from runner_e2e.sandbox.refusal import Refusal

SCHEMA = "runner-e2e.runnerd-configuration/v1"
FILE_NAME = "runnerd.json"

# What every kind of wrapper is told.
COMMON_KEYS = {
    "schema": str,
    "journal": str,
    "boot": int,
    "scratchRoot": str,
    "hide": list,
    "hideOptional": list,
    "writable": list,
    "withholdPrefix": str,
    "minimumAbi": int,
    "levels": dict,
    "keepFileCapabilities": bool,
}
# May be left out: where the server has no database but that of its instance.
CLOSE_PORTS = "closePorts"
_KEYS = {**COMMON_KEYS, "runner": str, "instanceParents": list}


# May be left out: a launch that replaces nothing pays nothing for it.
REPLACEMENTS = "replacements"
_LEVELS = (REQUIRED, PREFERRED, OFF)


class Common:
    """What the harness decided for all launches of one server start (`boot`, from 1).

    `withhold_prefix` starts the names of all attempts' roots: those beside this one are not granted.
    `writable` names places beside the instance and the temporary directories that agents may write.
    `close_ports` are TCP ports that no launch may reach, beside that of the instance's database.
    """

    __slots__ = (
        "boot",
        "close_ports",
        "hide",
        "hide_optional",
        "journal",
        "keep_file_capabilities",
        "levels",
        "minimum_abi",
        "scratch_root",
        "withhold_prefix",
        "writable",
    )

    def __init__(self, content: dict[str, object]) -> None:
        self.journal = str(content["journal"])
        self.boot = _number(content["boot"])
        self.close_ports = [_number(port) for port in _items(content.get(CLOSE_PORTS))]
        self.scratch_root = str(content["scratchRoot"])
        self.hide = strings(content["hide"])
        self.hide_optional = strings(content["hideOptional"])
        self.writable = strings(content["writable"])
        self.withhold_prefix = str(content["withholdPrefix"])
        self.minimum_abi = _number(content["minimumAbi"])
        levels = content["levels"]
        self.levels = {str(k): str(v) for k, v in levels.items()} if isinstance(levels, dict) else {}
        self.keep_file_capabilities = content["keepFileCapabilities"] is True


class Configuration(Common):
    """What is decided beside that for launches of runnerd.

    An `instance_parents` entry may hold one `*` as a whole segment, see `isolation.paths`.
    `replacements` holds, by option of runnerd, the program to start instead of the one that the server
    names, and its SHA-256: a program that is another one by the time of a launch is refused by runnerd.
    """

    __slots__ = ("instance_parents", "replacements", "runner")

    def __init__(self, content: dict[str, object]) -> None:
        super().__init__(content)
        self.runner = str(content["runner"])
        self.instance_parents = strings(content["instanceParents"])
        self.replacements: dict[str, tuple[str, str]] = {}
        replacements = content.get(REPLACEMENTS)
        if isinstance(replacements, dict):
            self.replacements = {str(k): (str(v["path"]), str(v["sha256"])) for k, v in replacements.items()}


def read_configuration(path: bytes) -> Configuration:
    """Read and check the configuration; a wrapper without one must not start anything."""
    content = read_document(path)
    if (
        not is_document(content, SCHEMA, _KEYS, (REPLACEMENTS,))
        or not all(map(is_instance_parent, strings(content["instanceParents"])))
        or (REPLACEMENTS in content and not _are_replacements(content[REPLACEMENTS]))
    ):
        raise wrong_document(SCHEMA)
    return Configuration(content)


def read_document(path: bytes) -> dict[str, object]:
    """Read one JSON object, which is none of a link; refuses anything else."""
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
    return content if isinstance(content, dict) else {}


def is_document(
    content: dict[str, object], schema: str, keys: dict[str, type], optional: tuple[str, ...] = ()
) -> bool:
    """Tell whether a configuration has exactly these keys, with values of these kinds, and this schema."""
    if content.get("schema") != schema or content.keys() - {CLOSE_PORTS, *optional} != keys.keys():
        return False
    ports = content.get(CLOSE_PORTS, [])
    if not isinstance(ports, list) or not all(map(is_port, ports)):
        return False
    levels = content["levels"]
    return (
        all(isinstance(content[key], kind) for key, kind in keys.items())
        and all(
            isinstance(item, str)
            for key, kind in keys.items()
            if kind is list
            for item in _items(content[key])
        )
        and isinstance(levels, dict)
        and all(name in NAMES and level in _LEVELS for name, level in levels.items())
    )


def wrong_document(schema: str) -> Refusal:
    """Return the refusal of a configuration that is none."""
    return Refusal("usage", f"the wrapper's configuration is not {schema}", "let the harness write it anew")


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


def strings(value: object) -> list[str]:
    """Return the items of a list as texts."""
    return [str(item) for item in _items(value)]


def _items(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
