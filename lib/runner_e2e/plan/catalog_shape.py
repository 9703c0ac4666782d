"""A catalog's plain data checked value by value: the typed file, or every breach in plain words.

Pure. What values mean to each other is for `catalog_rules`.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping

from pydantic import TypeAdapter, ValidationError

from runner_e2e.evidence.shapes import names_secret
from runner_e2e.plan.catalog_problems import Problem, show
from runner_e2e.plan.catalog_wording import word_breach
from runner_e2e.plan.definitions import CatalogFile
from runner_e2e.plan.secret_values import (
    Place,
    find_named_secrets,
    find_shaped_lines,
    find_shaped_values,
)

# As many as there can be cells; more of anything is no catalog.
MAX_ITEMS = 250_000

SECTIONS = ("suites", "profiles", "environments", "tasks")

_ADAPTER = TypeAdapter(CatalogFile)

_ESCAPE = re.compile(r"\\(?:u[0-9a-f]{4}|.)")

_SLICE = 500
_MAX_BREACHES_IN_SLICE = 20_000


def read_shape(document: object) -> CatalogFile | None:
    """Return the file that `document` is, None when it is none: then `find_breaches` says why."""
    if not _find_long_sections(document):
        try:
            # Only the names of the file: the fields' own names are for Python.
            return _ADAPTER.validate_python(document, by_alias=True, by_name=False)
        except ValidationError:
            pass  # it carries the values; they are looked at one by one when the breaches are told
    return None


def find_breaches(document: object) -> Iterator[Problem]:
    """Yield every value that is wrong on its own, in the order of the file's lists."""
    if long := _find_long_sections(document):
        for section in long:
            yield Problem(
                (section,), f"has more than {MAX_ITEMS} items", "split the catalog into several files"
            )
        return
    yield from _find_slice_breaches(document, 0)
    if isinstance(document, dict):
        longest = max((len(value) for value in _lists(document).values()), default=0)
        for start in range(_SLICE, longest, _SLICE):
            yield from _find_slice_breaches(document, start)


def find_free_breaches(document: object) -> Iterator[Problem]:
    """Yield what is wrong where a catalog may hold any JSON: numbers that are none, tags, raw secrets."""
    for path, value in _free_values(document):
        if not _is_plain(value):
            yield from _find_unjson(value, path)
            for place in find_named_secrets(value, path):
                yield Problem(
                    place,
                    "holds a raw value, and its name says that it is a secret",
                    "write {secretRef: NAME} with the name of a variable, or a {placeholder}",
                )


def find_secrets(text: str, document: object) -> Iterator[Problem]:
    """Yield every place of the file, comments too, that holds what looks like a secret."""
    # What stands behind an escape is in the values alone.
    escaped = json.dumps(document, ensure_ascii=False) if "\\" in text else ""
    escaped = _ESCAPE.sub(" ", escaped)
    if not (any(find_shaped_lines(text)) or any(find_shaped_lines(escaped))):
        return
    remedy = (
        "remove it, and withdraw it where it was issued, because it is in a file; "
        "an adapterConfig names a secret as {secretRef: NAME}, with the name of a variable"
    )
    found = False
    for path, kind in find_shaped_values(document):
        found = True
        yield Problem(path, f"holds what looks like {kind}", remedy)
    if not found:
        for line, kind in find_shaped_lines(text):
            yield Problem((), f"holds what looks like {kind}", remedy, line=line)


def _lists(document: Mapping[object, object]) -> dict[str, list[object]]:
    found = {section: document.get(section) for section in SECTIONS}
    return {section: value for section, value in found.items() if isinstance(value, list)}


def _find_long_sections(document: object) -> list[str]:
    if not isinstance(document, dict):
        return []
    return [section for section, value in _lists(document).items() if len(value) > MAX_ITEMS]


def _find_slice_breaches(document: object, start: int) -> Iterator[Problem]:
    """Yield the breaches of the items from `start` on; with the first ones also those of the file itself.

    A breach costs about a kilobyte, and a file can hold millions, so they are never all made at once.
    """
    part = document
    if isinstance(document, dict):
        slices = {name: items[start : start + _SLICE] for name, items in _lists(document).items()}
        part = {**document, **{name: items for name, items in slices.items() if items or start == 0}}
    try:
        _ADAPTER.validate_python(part, by_alias=True, by_name=False)
    except ValidationError as error:
        if error.error_count() > _MAX_BREACHES_IN_SLICE:
            yield Problem(
                (), f"has {error.error_count()} wrong values or keys", "give it the shape of a catalog"
            )
            return
        breaches = error.errors(include_url=False)
    else:
        return
    for breach in breaches:
        path = tuple(breach["loc"])
        if start and not (path[0] in SECTIONS and len(path) > 1 and path[0] in slices and slices[path[0]]):
            continue
        if start:
            path = (path[0], start + int(path[1]), *path[2:])
        if problem := word_breach(breach, path):
            yield problem


def _free_values(document: object) -> Iterator[tuple[Place, object]]:
    if not isinstance(document, dict):
        return
    lists = _lists(document)
    for section, key in (("suites", "definitionMetadata"), ("profiles", "adapterConfig")):
        for index, item in enumerate(lists.get(section, ())):
            if isinstance(item, dict) and key in item:
                yield (section, index, key), item[key]
    for index, task in enumerate(lists.get("tasks", ())):
        matchers = task.get("matchers") if isinstance(task, dict) else None
        if isinstance(matchers, list):
            for number, matcher in enumerate(matchers):
                if isinstance(matcher, dict) and "parameters" in matcher:
                    yield ("tasks", index, "matchers", number, "parameters"), matcher["parameters"]


def _is_plain(value: object) -> bool:
    """Whether a value needs no closer look: most are a flat mapping to text."""
    return isinstance(value, dict) and all(
        type(key) is str
        and type(item) is str
        and key[:1] != "!"
        and key not in ("secretRef", "value")
        and not names_secret(key)
        for key, item in value.items()
    )


def _find_unjson(value: object, path: Place) -> Iterator[Problem]:
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                yield Problem(
                    path, f"has the key {show(str(key))}, which is not text", "put the key in quotes"
                )
            elif key.startswith("!"):
                yield Problem(
                    path, f"has the tag {show(key)}", "remove it; text that begins with ! needs quotes"
                )
            else:
                yield from _find_unjson(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _find_unjson(item, (*path, index))
    elif isinstance(value, float) and not math.isfinite(value):
        yield Problem(path, "is no number that JSON knows", "write a finite number, or put it in quotes")
