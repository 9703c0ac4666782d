"""The launcher's command line. No argparse: it would cost as much as the rest of the launcher."""

from os import fsencode

from .ports import parse_port
from .refusal import Refusal

USAGE = """\
usage: agent_filesystem_sandbox.py [OPTION]... -- COMMAND [ARGUMENT]...

Run COMMAND in a Landlock domain in which the hidden paths cannot be opened, listed or changed.

  --hide PATH               hide a file or directory, which must exist
  --hide-optional PATH      hide a path that may be missing, and stays denied when it appears
  --expose PATH             show a file or directory that lies beneath a hidden one
  --close-port N            refuse every connection to TCP port N, on any address
  --policy-fd N             read more of the four from descriptor N, as JSON
                            (runner-e2e.sandbox-policy/v1: hide, hideOptional, expose,
                            closePorts)
  --scan-aliases            refuse when a file beneath a hidden path has a hard link outside
  --keep-file-capabilities  as root, keep CHOWN, DAC_OVERRIDE, FOWNER and FSETID
  --explain                 print the plan as JSON (runner-e2e.sandbox-plan/v1) and exit
  --help                    print this text and exit

One value is one path or port: nothing is split or expanded. --hide=PATH is the same as --hide PATH.
The command's own status is returned. 125: refused, with one JSON line on standard error;
126: the command cannot be executed; 127: it was not found.
"""

_PATH_OPTIONS = ("--hide", "--hide-optional", "--expose")
_VALUE_OPTIONS = (*_PATH_OPTIONS, "--close-port", "--policy-fd")
_FLAGS = ("--scan-aliases", "--keep-file-capabilities", "--explain", "--help")


class Options:
    """The parsed command line; paths and arguments as bytes."""

    __slots__ = ("command", "flags", "paths", "policy_descriptors", "ports")

    def __init__(self) -> None:
        self.paths: dict[str, list[bytes]] = {option: [] for option in _PATH_OPTIONS}
        self.ports: list[int] = []
        self.policy_descriptors: list[int] = []
        self.flags: set[str] = set()
        self.command: list[bytes] = []


def parse_options(arguments: list[str]) -> Options:
    """Parse the words after the program's name; raises a `usage` refusal."""
    options = Options()
    position = 0
    while position < len(arguments):
        word = arguments[position]
        position += 1
        if word == "--":
            options.command = [fsencode(argument) for argument in arguments[position:]]
            break
        if word in _FLAGS:
            options.flags.add(word)
            continue
        name, has_value, value = word.partition("=")
        if name not in _VALUE_OPTIONS:
            raise _usage(f"unknown option or word: {name}", "put the command after --")
        if not has_value:
            if position == len(arguments) or arguments[position].startswith("--"):
                raise _usage(f"{name} has no value", f"write {name}=VALUE if it starts with two dashes")
            value = arguments[position]
            position += 1
        if not value:
            raise _usage(f"{name} has an empty value", "name one path")
        if name == "--policy-fd":
            options.policy_descriptors.append(_parse_descriptor(value))
        elif name == "--close-port":
            port = parse_port(value)
            if not port:
                raise _usage("--close-port does not name a TCP port", "give a number from 1 to 65535")
            options.ports.append(port)
        else:
            options.paths[name].append(fsencode(value))
    if not options.flags & {"--explain", "--help"} and not (options.command and options.command[0]):
        raise _usage("there is no command", "write it after --, as in: -- COMMAND ARGUMENT")
    return options


def _parse_descriptor(value: str) -> int:
    # Standard output and error are the command's; int() alone would take '+3', ' 3' and '3_0'.
    if not (value.isascii() and value.isdigit()) or len(value) > 9 or int(value) in (1, 2):
        raise _usage(
            "--policy-fd does not name a descriptor to read",
            "give the number of an open descriptor",
        )
    return int(value)


def _usage(problem: str, remedy: str) -> Refusal:
    return Refusal("usage", problem, f"{remedy}; --help lists the options")
