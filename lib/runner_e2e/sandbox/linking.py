"""Link the bytecode of the launcher's path to exec into one file.

The modules are found, opened and checked one by one at each start, which costs a sixteenth of a launch.
The linked file holds them together, each with size and time of its source: a loader that finds one of
them changed imports the modules as usual.
"""

import marshal
import os
import sys
import tempfile

# In the order in which they import each other.
MODULES = (
    "refusal",
    "kernel",
    "names",
    "rules",
    "plan",
    "domain",
    "granting",
    "proof",
    "seccomp",
    "protections",
    "ports",
    "execute",
    "options",
    "launcher",
)


def linked_path(directory: str) -> str:
    """Return where the linked file of a `sandbox` directory lies for this interpreter."""
    return f"{directory}/__pycache__/linked.{sys.implementation.cache_tag}.bin"


def link(directory: str) -> None:
    """Write the linked file, atomically, unless it is up to date."""
    stamps = [_stamp(directory, name) for name in MODULES]
    try:
        with open(linked_path(directory), "rb") as file:
            known = marshal.loads(file.read())  # noqa: S302 - what this function wrote
        if [(name, size, time_ns) for name, size, time_ns, _ in known] == stamps:
            return
    except (OSError, EOFError, ValueError, TypeError):
        pass  # none yet, or none that can be used
    linked = []
    for name in MODULES:
        source = f"{directory}/{name}.py"
        with open(source, "rb") as file:
            status = os.fstat(file.fileno())
            code = compile(file.read(), source, "exec", dont_inherit=True)
        linked.append((name, status.st_size, status.st_mtime_ns, code))
    path = linked_path(directory)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=os.path.dirname(path), delete=False) as new:
        new.write(marshal.dumps(linked))
    os.chmod(new.name, 0o644)
    os.replace(new.name, path)


def _stamp(directory: str, name: str) -> tuple[str, int, int]:
    status = os.stat(f"{directory}/{name}.py")
    return name, status.st_size, status.st_mtime_ns


if __name__ == "__main__":
    link(os.path.dirname(os.path.realpath(__file__)))
