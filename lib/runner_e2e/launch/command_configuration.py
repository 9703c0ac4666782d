"""The configuration of the wrapper for agents' own commands: one JSON file beside runnerd's."""

from runner_e2e.isolation.paths import is_instance_parent

from .configuration import COMMON_KEYS, Common, is_document, read_document, strings, wrong_document

SCHEMA = "runner-e2e.command-configuration/v1"
FILE_NAME = "command.json"

_KEYS = {
    **COMMON_KEYS,
    "command": str,
    "instance": str,
    "instanceParent": str,
    "withoutVariables": list,
    "handedIn": str,
    "handedFiles": list,
    "handedLinks": str,
}


class CommandConfiguration(Common):
    """What the harness decided for all launches of agents' commands of one server start.

    `command` is the one program that is ever started. `instance` lies in `instance_parent`, which may hold
    one `*`. `without_variables` are names that the server's children inherit and no agent may have.
    `handed_files` are relative to XDG_CONFIG_HOME, which the server makes for each run in `handed_in`, and
    `handed_links`, empty for none, is the directory in which it links the skills of all: the launch gets
    both in a home that is not the server's.
    """

    __slots__ = (
        "command",
        "handed_files",
        "handed_in",
        "handed_links",
        "instance",
        "instance_parent",
        "without_variables",
    )

    def __init__(self, content: dict[str, object]) -> None:
        super().__init__(content)
        self.command = str(content["command"])
        self.instance = str(content["instance"])
        self.instance_parent = str(content["instanceParent"])
        self.without_variables = strings(content["withoutVariables"])
        self.handed_in = str(content["handedIn"])
        self.handed_files = strings(content["handedFiles"])
        self.handed_links = str(content["handedLinks"])


def read_command_configuration(path: bytes) -> CommandConfiguration:
    """Read and check the configuration; a wrapper without one must not start anything."""
    content = read_document(path)
    if not is_document(content, SCHEMA, _KEYS):
        raise wrong_document(SCHEMA)
    found = CommandConfiguration(content)
    plain = [found.instance, found.command, found.handed_in, found.handed_links or "/none"]
    if (
        not is_instance_parent(found.instance_parent)
        or not all(map(is_instance_parent, plain))
        or not all(is_instance_parent(f"/{name}") for name in found.handed_files)
        or any("*" in path.split("/") for path in (*plain, *found.handed_files))
    ):
        raise wrong_document(SCHEMA)
    return found
