"""Catalogs: where they are, reading one, and every cell that it makes.

The only place of planning that opens a catalog's file. A catalog that is read is checked as a whole;
what is wrong with it is one `InputError` that names file, place and what to write instead.
"""

import gc
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

from runner_e2e.errors import InputError
from runner_e2e.plan.catalog_matrix_rules import find_matrix_problems
from runner_e2e.plan.catalog_problems import refuse, show_source, suggest
from runner_e2e.plan.catalog_rules import find_name_problems
from runner_e2e.plan.catalog_shape import find_breaches, find_free_breaches, find_secrets, read_shape
from runner_e2e.plan.catalog_yaml import load_yaml
from runner_e2e.plan.cells import Catalog
from runner_e2e.plan.expansion import expand, resolve_suites

MAX_CATALOG_BYTES = 45 * 1024 * 1024
SHIPPED_CATALOGS = ("paperclip", "reference")

PROJECT = Path(__file__).resolve().parents[3]

_BLOCK_BYTES = 1 << 20


def find_catalog(name: str, base: Path | None = None) -> Path:
    """Return the file of a shipped catalog, or the path `name`, relative to `base` (default: here).

    A shipped name wins over a file of that name, which is then spelled with a directory, as `./reference`.
    """
    if name in SHIPPED_CATALOGS:
        return PROJECT / "catalogs" / f"{name}.yaml"
    near = suggest(name, SHIPPED_CATALOGS)
    remedy = f"Name a file, or one of {', '.join(SHIPPED_CATALOGS)}"
    if near:
        remedy = f"Did you mean {near}? {remedy}"
    if not name.strip():
        raise InputError("The name of the catalog is empty", remedy)
    path = (base or Path()) / name
    try:
        path.stat()
    except (OSError, ValueError) as error:
        raise InputError(
            f"There is no catalog {show_source(name)}: {_describe_reason(error)}", remedy
        ) from None
    return path


def read_catalog(path: Path) -> Catalog:
    """Return the catalog in a regular file of at most 45 MiB."""
    data = _read_file(path)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        # Not chained: the error holds the whole file.
        line = data.count(b"\n", 0, error.start) + 1
        problem = f"{show_source(str(path))}, line {line}: there is a byte that is not UTF-8"
    else:
        del data  # half of the memory that the text takes
        return parse_catalog(text, str(path))
    raise InputError(problem, "Save the file as UTF-8")


def parse_catalog(text: str, source: str) -> Catalog:
    """Return the catalog that `text` holds; `source` names it in messages."""
    with _collector_paused():
        document = load_yaml(text, source)
        file = read_shape(document)
        breaches = find_breaches(document) if file is None else ()
        # Secrets first: the rest may be too long to be told whole.
        refuse(source, document, chain(find_secrets(text, document), find_free_breaches(document), breaches))
        if file is None:
            raise InputError(
                f"{show_source(source)}: it is no catalog", "Compare with catalogs/reference.yaml"
            )
        refuse(source, document, find_name_problems(file))
        suites = resolve_suites(file)
        refuse(source, document, find_matrix_problems(file, suites))
        del document
        return Catalog(source=source, suites=file.suites, executions=expand(suites))


def _read_file(path: Path) -> bytes:
    name = show_source(str(path))
    try:
        # Opening a FIFO must not wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            return _read_regular(descriptor, name)
        finally:
            os.close(descriptor)
    except (OSError, ValueError) as error:
        reason = _describe_reason(error)
        raise InputError(
            f"The catalog {name} cannot be read: {reason}", "Name a file that can be read"
        ) from None


def _read_regular(descriptor: int, name: str) -> bytes:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise InputError(f"The catalog {name} is not a regular file", "Name a YAML file")
    data, size = bytearray(), status.st_size
    while size <= MAX_CATALOG_BYTES and (block := os.read(descriptor, _BLOCK_BYTES)):
        data += block
        size = max(size, len(data))
    if size > MAX_CATALOG_BYTES:
        raise InputError(
            f"The catalog {name} is larger than {MAX_CATALOG_BYTES // 1024**2} MiB",
            "Split it into several catalogs, or let suites multiply profiles by tasks",
        )
    return bytes(data)


def _describe_reason(error: OSError | ValueError) -> str:
    # A ValueError is a NUL in the path, or half of a surrogate pair.
    return (error.strerror if isinstance(error, OSError) else None) or "it is no path"


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Keep the cycle collector from walking hundreds of thousands of new objects again and again.

    A catalog has no cycles, and the walks cost as much as all the rest.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
