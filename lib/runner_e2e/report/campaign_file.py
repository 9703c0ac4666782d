"""Read a `results.json` that somebody downloaded. It is believed in nothing but its shape, which is checked.

What cannot be read ends in an InputError whose sentences hold no text of the file.
"""

import os
import stat
from functools import cache
from pathlib import Path

from jsonschema_rs import Draft202012Validator, RegexOptions, ValidationError

from runner_e2e.errors import InputError
from runner_e2e.report.campaign import Campaign, find_twice, read_campaign, read_time
from runner_e2e.report.rows import Record
from runner_e2e.report.schemas import read_results_schema
from runner_e2e.strict_json import StrictJsonError, parse_strict

NAME = "results.json"
MOST_BYTES = 64 << 20
_MOST_ENTRIES = 10_000
_MOST_NUMBER = 1 << 53  # beyond it programs read numbers differently
_SCHEMA = "runner-e2e.results/v1"
_REMEDY = "Download the campaign's report again"


def read_campaign_file(place: Path) -> Campaign:
    """Return the campaign of a `results.json`, or of the directory that holds one.

    A directory of downloaded artifacts will do, when one of them holds a report.
    """
    found = find_results(place)
    return parse_campaign(_read(found), show_path(found))


def find_results(place: Path) -> Path:
    """Return the `results.json` that a file or directory stands for."""
    try:
        if not place.is_dir():
            return place
        if (place / NAME).exists():
            return place / NAME
        with os.scandir(place) as entries:
            names = [entry.name for entry, _ in zip(entries, range(_MOST_ENTRIES), strict=False)]
        found = [place / name / NAME for name in sorted(names) if (place / name / NAME).is_file()]
    except OSError as error:
        raise InputError(
            f"{show_path(place)} cannot be read: {error.strerror}", "Name a directory of yours"
        ) from error
    if len(found) != 1:
        several = f"{len(found)} directories that hold a" if found else "no"
        raise InputError(f"{show_path(place)} holds {several} {NAME}", "Name the file itself")
    return found[0]


def parse_campaign(content: bytes, place: str) -> Campaign:
    """Return the campaign that the bytes of a `results.json` tell; `place` is for messages."""
    document = _parse(content, place)
    version = document.get("schema")
    if version != _SCHEMA:
        what = "of another version" if str(version).startswith("runner-e2e.results/") else "no report"
        raise InputError(f"{place} is {what}: its schema is not {_SCHEMA}", f"Give a {NAME} of this version")
    try:
        problem = next(_validator().iter_errors(document), None)
    except ValueError:  # the library's own limit
        raise InputError(f"{place} is nested deeper than any report is", _REMEDY) from None
    if problem is not None:
        raise InputError(f"{place} contradicts {_SCHEMA} at {_where(problem)}", _REMEDY)
    campaign = read_campaign(document)
    _check(campaign, place)
    return campaign


def show_path(path: Path) -> str:
    """Return a path as one line that does nothing to a terminal."""
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in str(path)
    )


def _read(path: Path) -> bytes:
    try:
        # Not blocking: a name may stand for a pipe.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise InputError(f"{show_path(path)} is no regular file", f"Name a {NAME}")
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise InputError(
            f"{show_path(path)} cannot be read: {error.strerror}",
            f"Name a {NAME} or the directory that holds it",
        ) from error
    except ValueError as error:
        raise InputError("A path holds a character that no path can have", f"Name a {NAME}") from error
    if len(content) > MOST_BYTES:
        raise InputError(f"{show_path(path)} is larger than {MOST_BYTES >> 20} MiB", "No report is as large")
    return content


def _parse(content: bytes, place: str) -> Record:
    try:
        document = parse_strict(content, most=_MOST_NUMBER)
    except StrictJsonError as error:
        raise InputError(f"{place} {error}", _REMEDY) from None
    if not isinstance(document, dict):
        raise InputError(f"{place} is no JSON object", _REMEDY)
    return document


@cache
def _validator() -> Draft202012Validator:
    return Draft202012Validator(read_results_schema(), pattern_options=RegexOptions())


def _where(problem: ValidationError) -> str:
    """Return where a document is wrong, in names that the schema itself has."""
    return "/" + "/".join(str(step) for step in problem.instance_path)


def _check(campaign: Campaign, place: str) -> None:
    """Raise InputError for what a schema cannot say."""
    if find_twice(cell.name for cell in campaign.cells) is not None:
        raise InputError(f"{place} tells one cell twice", _REMEDY)
    times = [campaign.generated_at, *(cell.started_at for cell in campaign.cells if cell.started_at)]
    try:
        for time in times:
            read_time(time)
    except ValueError:
        raise InputError(f"{place} has a time that is none", _REMEDY) from None
