"""The launcher: hide paths from a command by a Landlock domain, prove it, become the command.

Standard library only, and only the cheap part of it: this room runs under `python3 -I -S` between a
server and each of its agents, where every import is paid once per launch. Paths are bytes. It decides
nothing about runs: which paths to hide is the caller's.
"""

import sys
from marshal import loads
from os import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType


def load_launcher() -> "Callable[[list[str]], int]":
    """Return the launcher's main function, from linked bytecode where that is up to date.

    See `linking`: the modules on the way to exec in one file, each with size and time of its source.
    """
    package, kind, spec = sys.modules[__name__], type(sys), type(__spec__)
    for name, code in _read_linked(__path__[0]):
        full = f"{__name__}.{name}"
        part = sys.modules[full] = kind(full)
        part.__spec__, part.__package__ = spec(full, None), __name__
        exec(code, part.__dict__)  # noqa: S102 - what importing a module does
        setattr(package, name, part)
    from .launcher import main

    return main


def _read_linked(room: str) -> "list[tuple[str, CodeType]]":
    """Return the linked modules; none when one of them has changed, or when they were not linked."""
    try:
        with open(f"{room}/__pycache__/linked.{sys.implementation.cache_tag}.bin", "rb", 0) as file:
            linked = loads(file.read())  # noqa: S302 - bytecode from where all bytecode comes from
        fresh = all(_is_fresh(f"{room}/{name}.py", size, time_ns) for name, size, time_ns, _ in linked)
        return [(name, code) for name, _, _, code in linked] if fresh else []
    except (OSError, EOFError, ValueError, TypeError):
        return []


def _is_fresh(source: str, size: int, time_ns: int) -> bool:
    status = stat(source)
    return status.st_size == size and status.st_mtime_ns == time_ns
