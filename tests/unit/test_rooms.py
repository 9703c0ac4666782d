"""The rooms of the package import only what the flow of data allows."""

from __future__ import annotations

import ast
import sys
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

PACKAGE = "runner_e2e"
PROJECT = Path(__file__).resolve().parents[2]
SOURCES = PROJECT / "lib" / PACKAGE

# In the order of the data flow: a room imports only from rooms above it.
ROOMS = (
    "errors",
    "strict_json",
    "sandbox",
    "isolation",
    "evidence",
    "serving",
    "gateway",
    "launch",
    "probe",
    "plan",
    "model",
    "reference",
    "product",
    "cell",
    "report",
    "doctor",
    "chaos",
    "actions",
    "cli",
)

# Where less than all rooms above is allowed; names are relative to the package.
ALLOWED_ROOMS = {
    "sandbox": (),
    "isolation.layout": (),
    "isolation.words": (),
    "isolation.paths": ("isolation.layout", "isolation.words"),
    "strict_json": (),
    "serving": ("errors",),
    "gateway": ("errors", "strict_json", "isolation", "evidence", "serving"),
    "launch": ("sandbox", "isolation", "evidence.journal", "errors"),
    "model": ("errors", "evidence.redaction", "serving", "plan.catalog_yaml", "plan.catalog_problems"),
    "product": ("errors",),
    "report": ("errors", "strict_json", "evidence"),
    "doctor": (
        "errors",
        "sandbox",
        "isolation",
        "evidence",
        "launch",
        "probe",
        "product",
        "cell",
        "report",
    ),
}
STANDARD_LIBRARY_ONLY = ("sandbox", "isolation.layout", "isolation.words", "isolation.paths", "launch")
FORBIDDEN_MODULES = {
    "isolation": frozenset(  # pure rules: no disk, process or network
        {"asyncio", "glob", "http", "shutil", "socket", "sqlite3", "subprocess", "tempfile"}
    ),
}
ONLY_IMPORTED_BY = {
    "reference": ("reference", "chaos", "cli"),
    "github": ("actions",),
    "actions_toolkit": ("actions",),
}

# Where the entrypoints that become other programs begin: each launch of an agent runs what
# these import, on the way to exec.
STARTUP_MODULES = ("sandbox.launcher", "launch.wrapper", "launch.agent_command")
SLOW_MODULES = frozenset({"typing", "dataclasses", "enum", "re", "json", "subprocess", "pathlib"})
# The wrapper's configuration and journal are JSON: it pays for that wherever it is imported.
NEEDED_MODULES = {
    "launch.configuration": frozenset({"json"}),
    "evidence.journal": frozenset({"json"}),
}

# These run before anything is installed.
STANDALONE_ENTRYPOINTS = ("authorize",)


class When(Enum):
    """When an import runs."""

    START = "start"
    LATER = "later"
    NEVER = "never"  # for type checkers


@dataclass(frozen=True, slots=True)
class Import:
    """One imported name; `inner` is its path in the package, empty for anything else."""

    line: int
    outer: str
    inner: str
    when: When

    def modules(self, known: Collection[str]) -> set[str]:
        """Return which of the modules `known` this import runs, packages included."""
        parts = self.inner.split(".")
        names = {".".join(parts[:end]) for end in range(1, len(parts) + 1)}
        return {name for name in known if name.removesuffix(".__init__") in names}


def find_violations(sources: Mapping[str, str]) -> list[str]:
    """Return a sentence for each import that breaks a rule.

    `sources` maps a module, such as `cell.attempt` or `cell.__init__`, to its text.
    """
    imports = {module: list(read_imports(module, text)) for module, text in sources.items()}
    found = [
        f"{module}:{item.line} imports {item.inner or item.outer}: {problem}"
        for module, items in imports.items()
        for item in items
        for problem in (*judge_room(module, item), *judge_extra_rules(module, item))
    ]
    found += [
        f"{module}:{item.line} imports {item.outer} at module level: each launch pays for it"
        for module in sorted(find_startup_modules(imports))
        for item in imports[module]
        if item.when is When.START and item.outer in SLOW_MODULES - NEEDED_MODULES.get(module, frozenset())
    ]
    return found


def judge_room(module: str, item: Import) -> Iterator[str]:
    """Yield what is wrong with the direction of one import of `module`."""
    own, room = room_of(module), item.inner.split(".", maxsplit=1)[0]
    if own == "__init__":
        if room:
            yield "each launch imports the package itself, so that imports no room"
    elif own not in ROOMS:
        yield f"{own} is not a room"
    elif room and room not in ROOMS:
        yield f"{room} is not a room"
    elif room and ROOMS.index(room) > ROOMS.index(own):
        yield f"{room} is below {own}"


def judge_extra_rules(module: str, item: Import) -> Iterator[str]:
    """Yield which rule of a single room one import of `module` breaks."""
    for place, allowed in ALLOWED_ROOMS.items():
        foreign = item.inner and not any(is_in(item.inner, one) for one in (place, *allowed))
        if foreign and is_in(module, place):
            yield f"{place} may import only {', '.join(allowed) or 'itself'}"
    for place in STANDARD_LIBRARY_ONLY:
        if is_in(module, place) and item.outer not in {PACKAGE, *sys.stdlib_module_names}:
            yield f"{place} may import only the standard library"
    for place, forbidden in FORBIDDEN_MODULES.items():
        if is_in(module, place) and item.outer in forbidden:
            yield f"{place} must not touch disk, processes or network"
    for thing, users in ONLY_IMPORTED_BY.items():
        if (is_in(item.inner, thing) or item.outer == thing) and room_of(module) not in users:
            yield f"only {', '.join(users)} may import {thing}"


def find_startup_modules(imports: Mapping[str, Sequence[Import]]) -> set[str]:
    """Return the modules that every launch imports; what functions import waits until needed."""
    packages = {f"{module.split('.', maxsplit=1)[0]}.__init__" for module in STARTUP_MODULES}
    return find_reached({*STARTUP_MODULES, *packages, "__init__"}, imports, {When.START})


def find_reached(
    start: Collection[str], imports: Mapping[str, Sequence[Import]], when: Collection[When]
) -> set[str]:
    """Return the modules among `start`, and all that they import, at those times, one by another."""
    reached = imports.keys() & set(start)
    while True:
        found = {
            name
            for module in reached
            for item in imports[module]
            if item.when in when
            for name in item.modules(imports)
        }
        if found <= reached:
            return reached
        reached |= found


def find_foreign_imports(entrypoint: str, text: str, sources: Mapping[str, str]) -> list[str]:
    """Return a sentence for each import that a standalone entrypoint reaches outside the standard library.

    Imports in functions count too: what is not installed is not there later either.
    """
    imports = {module: list(read_imports(module, source)) for module, source in sources.items()}
    own = f"entrypoints/{entrypoint}"
    imports[own] = list(read_imports(own, text))
    return [
        f"{module}:{item.line} imports {item.outer}: {own} runs before anything is installed"
        for module in sorted(find_reached({own, "__init__"}, imports, {When.START, When.LATER}))
        for item in imports[module]
        if item.when is not When.NEVER and item.outer not in {PACKAGE, *sys.stdlib_module_names}
    ]


def read_imports(module: str, text: str) -> Iterator[Import]:
    """Yield every import of a source, also those in functions and for type checkers."""
    yield from _walk(module, ast.parse(text), When.START)


def _walk(module: str, node: ast.AST, when: When) -> Iterator[Import]:
    match node:
        case ast.Import(names=names, lineno=line):
            for name in names:
                yield _build_import(line, name.name, when)
        case ast.ImportFrom(names=names, lineno=line):
            base = _resolve_base(module, node)
            for name in names:
                yield _build_import(line, f"{base}.{name.name}", when)
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
            when = When.LATER
        case ast.If(test=ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING")):
            for child in node.body:
                yield from _walk(module, child, When.NEVER)
            for child in node.orelse:
                yield from _walk(module, child, when)
            return
    for part in ast.iter_child_nodes(node):
        yield from _walk(module, part, when)


def _resolve_base(module: str, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    parts = [PACKAGE, *module.split(".")]
    return ".".join([*parts[: len(parts) - node.level], *filter(None, [node.module])])


def _build_import(line: int, dotted: str, when: When) -> Import:
    outer, _, inner = dotted.partition(".")
    inside = outer == PACKAGE and not inner.startswith("__")  # such as `__version__`
    return Import(line, outer, inner if inside else "", when)


def room_of(module: str) -> str:
    """Return the room of a module; `python -m` on the package is the command line's."""
    return "cli" if module == "__main__" else module.split(".", maxsplit=1)[0]


def is_in(module: str, place: str) -> bool:
    """Whether `module` is `place`, or lies in it."""
    return module == place or module.startswith(f"{place}.")


def read_sources() -> dict[str, str]:
    return {
        ".".join(path.relative_to(SOURCES).with_suffix("").parts): path.read_text(encoding="utf-8")
        for path in SOURCES.rglob("*.py")
    }


def test_the_rooms_of_the_package_keep_the_rules() -> None:
    sources = read_sources()

    assert {"errors", *STARTUP_MODULES} <= sources.keys()
    violations = find_violations(sources)
    assert not violations, "\n".join(violations)


@pytest.mark.parametrize(
    ("module", "text", "violation"),
    [
        pytest.param("plan.catalog", "from runner_e2e.cell import run", "cell is below plan", id="upwards"),
        pytest.param("plan.catalog", "import runner_e2e.cell.run", "cell is below plan", id="plain-import"),
        pytest.param("plan.catalog", "from ..cell import run", "cell is below plan", id="relative"),
        pytest.param("plan.__init__", "from .. import cell", "cell is below plan", id="package"),
        pytest.param(
            "plan.catalog",
            "def later():\n    from runner_e2e import cell",
            "cell is below plan",
            id="inside-a-function",
        ),
        pytest.param(
            "plan.catalog",
            "if TYPE_CHECKING:\n    from runner_e2e.cell import Attempt",
            "cell is below plan",
            id="for-types-only",
        ),
        pytest.param("cli", "from runner_e2e.helpers import x", "helpers is not", id="no-room"),
        pytest.param("helpers.x", "import os", "helpers is not a room", id="new-room"),
        pytest.param(
            "sandbox.plan", "from runner_e2e import errors", "sandbox may import", id="sandbox-room"
        ),
        pytest.param(
            "sandbox.plan",
            "def later():\n    import psutil",
            "only the standard library",
            id="sandbox-package",
        ),
        pytest.param("isolation.paths", "from .names import x", "isolation.paths may", id="path-rules"),
        pytest.param("isolation.paths", "import pydantic", "only the standard library", id="path-package"),
        pytest.param("isolation.rules", "import shutil", "must not touch disk", id="pure-rules"),
        pytest.param("gateway.x", "import runner_e2e.sandbox", "gateway may import", id="gateway-room"),
        pytest.param("launch.run", "from runner_e2e.evidence import redact", "launch may", id="launch-room"),
        pytest.param("launch.run", "import rich", "only the standard library", id="launch-package"),
        pytest.param("report.merge", "from runner_e2e.cell import x", "report may import", id="report-cell"),
        pytest.param("cell.run", "import runner_e2e.reference", "may import reference", id="reference"),
        pytest.param("doctor.x", "from runner_e2e.plan import x", "doctor may import", id="doctor-plan"),
        pytest.param("cell.run", "from runner_e2e.doctor import x", "doctor is below", id="cell-doctor"),
        pytest.param("plan.gate", "import github", "may import github", id="github"),
        pytest.param("__init__", "from runner_e2e import errors", "no room", id="package-itself"),
        pytest.param("sandbox.launcher", "import re", "at module level", id="slow"),
        pytest.param("launch.wrapper", "from json import dumps", "at module level", id="slow-from"),
        pytest.param(
            "sandbox.launcher", "try:\n    import re\nexcept OSError:\n    pass", "level", id="slow-try"
        ),
        pytest.param("launch.__init__", "class A:\n    import enum", "level", id="slow-in-a-class"),
        pytest.param("__init__", "import pathlib", "at module level", id="slow-package-itself"),
    ],
)
def test_an_import_that_breaks_a_rule_is_found(module: str, text: str, violation: str) -> None:
    found = find_violations({module: text})

    assert len(found) == 1
    assert violation in found[0]
    assert found[0].startswith(module)


@pytest.mark.parametrize(
    ("module", "text"),
    [
        pytest.param("cell.run", "from runner_e2e.plan import catalog\nimport httpx", id="room-above"),
        pytest.param("cell.run", "from runner_e2e import __version__", id="version"),
        pytest.param("cell.run", "from . import files\nfrom .files import x", id="own-room"),
        pytest.param("sandbox.plan", "from .names import x\nimport os", id="sandbox"),
        pytest.param("launch.wrapper", "def later():\n    import json", id="slow-when-needed"),
        pytest.param("launch.wrapper", "if TYPE_CHECKING:\n    import typing", id="slow-for-types"),
        pytest.param(
            "launch.run",
            "from runner_e2e.evidence.journal import append\n"
            "from runner_e2e.evidence import journal\n"
            "from runner_e2e.isolation.paths import x\n"
            "from runner_e2e.sandbox import y",
            id="launch",
        ),
        pytest.param("report.merge", "from runner_e2e.evidence import manifest", id="report"),
        pytest.param("doctor.x", "from runner_e2e import cell, probe, product, report", id="doctor"),
        pytest.param("chaos.run", "from runner_e2e import reference, report, cell", id="chaos"),
        pytest.param("cli", "from runner_e2e import actions, reference", id="cli"),
        pytest.param("__main__", "from runner_e2e.cli import main", id="main"),
        pytest.param("actions.client", "import github, actions_toolkit", id="github-contact"),
    ],
)
def test_an_import_within_the_rules_is_not_reported(module: str, text: str) -> None:
    assert find_violations({module: text}) == []


def test_a_slow_module_is_found_behind_what_a_launch_imports() -> None:
    sources = {
        "launch.wrapper": "from runner_e2e.isolation.paths import x",
        "isolation.__init__": "",
        "isolation.paths": "import re",
        "isolation.rules": "import re",
    }

    assert find_violations(sources) == [
        "isolation.paths:1 imports re at module level: each launch pays for it"
    ]


def test_a_package_that_a_launch_passes_through_counts_as_imported() -> None:
    sources = {
        "launch.wrapper": "from runner_e2e.evidence.journal import append",
        "evidence.__init__": "from .bundle import stage",
        "evidence.bundle": "import subprocess",
        "evidence.journal": "import json",
    }

    assert find_violations(sources) == [
        "evidence.bundle:1 imports subprocess at module level: each launch pays for it"
    ]


def test_a_module_imported_when_needed_may_be_slow_until_something_imports_it_at_start() -> None:
    lazy = {
        "sandbox.launcher": "def main():\n    from .explain import explain",
        "sandbox.explain": "import json",
    }
    eager = {**lazy, "launch.wrapper": "from runner_e2e.sandbox.explain import explain"}

    assert find_violations(lazy) == []
    assert len(find_violations(eager)) == 1


@pytest.mark.parametrize("entrypoint", STANDALONE_ENTRYPOINTS)
def test_a_standalone_entrypoint_reaches_nothing_but_the_standard_library(entrypoint: str) -> None:
    text = (PROJECT / "entrypoints" / f"{entrypoint}.py").read_text(encoding="utf-8")

    foreign = find_foreign_imports(entrypoint, text, read_sources())

    assert not foreign, "\n".join(foreign)


@pytest.mark.parametrize(
    ("text", "sources", "where"),
    [
        pytest.param("import requests", {}, "entrypoints/x:1 imports requests", id="itself"),
        pytest.param("from runner_e2e import a", {"a": "import github"}, "a:1 imports github", id="module"),
        pytest.param(
            "from runner_e2e.a.b import f",
            {"a.__init__": "import rich", "a.b": ""},
            "a.__init__:1 imports rich",
            id="package-on-the-way",
        ),
        pytest.param("import os", {"__init__": "import httpx"}, "__init__:1 imports httpx", id="the-package"),
        pytest.param(
            "from runner_e2e.a import f",
            {"a": "def f():\n    from . import b", "b": "import yaml"},
            "b:1 imports yaml",
            id="when-needed",
        ),
    ],
)
def test_a_foreign_import_behind_a_standalone_entrypoint_is_found(
    text: str, sources: dict[str, str], where: str
) -> None:
    (found,) = find_foreign_imports("x", text, sources)

    assert found.startswith(where)


def test_what_a_standalone_entrypoint_does_not_reach_may_import_packages() -> None:
    sources = {"a": "import os\nif TYPE_CHECKING:\n    import rich", "b": "import rich"}

    assert find_foreign_imports("x", "from runner_e2e import a", sources) == []
