"""How a problem of a catalog is told: its place in the file, what is wrong, what to write instead.

Pure. It must never repeat a value that looks like a secret.
"""

import difflib
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import islice

from runner_e2e.errors import InputError
from runner_e2e.plan.secret_values import Place, find_secret_shape

MAX_SHOWN_PROBLEMS = 10
MAX_SHOWN_CHARACTERS = 80

_MAX_PATH_CHARACTERS = 4096

_PLAIN = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9._:/-]*")
# Comparing names is slow, and a list of all names is no help when it is long.
_MAX_COMPARED = 2000
_MAX_LISTED = 30


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong at `path`, and what to do.

    With `known`, `given` is a name that is none of these: the nearest one is proposed, or all are listed.
    A `line`, counted from 1, is given for what stands in no value.
    """

    path: Place
    says: str
    remedy: str
    given: str = ""
    known: Collection[str] = ()
    line: int = 0


def refuse(source: str, document: object, problems: Iterable[Problem], kind: str = "catalog") -> None:
    """Raise one InputError for all `problems`, of which the first few are told; return when there are none.

    `document` is what was read: it gives the ids that stand beside indexes. `kind` says what the file is.
    """
    remaining = iter(problems)
    shown = list(islice(remaining, MAX_SHOWN_PROBLEMS))
    if not shown:
        return
    rest = sum(1 for _ in remaining)
    name = show_source(source)
    heads = [f"{name}: {_describe_place(document, problem)}: {problem.says}" for problem in shown]
    remedies = [_describe_remedy(problem) for problem in shown]
    if len(shown) == 1:
        raise InputError(heads[0], remedies[0][:1].upper() + remedies[0][1:])
    lines = [f"{head}; {remedy}" for head, remedy in zip(heads, remedies, strict=True)]
    if rest:
        lines.append(f"{name}: {rest} more {'problem' if rest == 1 else 'problems'}")
    raise InputError(".\n".join(lines), f"Correct these places of the {kind}")


def describe_place(document: object, path: Place) -> str:
    """Return a place as the file spells it: `tasks[3] (agents.change-manager).attemptTimeoutMs.local`."""
    words, value = "", document
    for step in path:
        value = _enter(value, step)
        if isinstance(step, int):
            words += f"[{step}]"
            name = value.get("id") if isinstance(value, dict) else None
            if isinstance(name, str):
                words += f" ({show(name)})"
        elif _PLAIN.fullmatch(step) and "." not in step:
            words += f".{show(step)}" if words else show(step)
        else:
            words += f"[{show(step)}]"
    return words or "the whole file"


def show(text: str, most: int = MAX_SHOWN_CHARACTERS) -> str:
    """Return foreign text printable, cut after `most` characters, quoted unless it looks like a name."""
    if find_secret_shape(text):
        return "(a value that looks like a secret)"
    cut = text if len(text) <= most else f"{text[: most - 3]}..."
    if _PLAIN.fullmatch(cut):
        return cut
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in f'"{cut}"')


def show_source(source: str) -> str:
    """Return a file's path printable, and whole: its end says which file it is."""
    return show(source, _MAX_PATH_CHARACTERS)


def suggest(name: str, known: Collection[str]) -> str | None:
    """Return the known name that `name` is most likely meant to be."""
    candidates = list(known)
    if len(candidates) > _MAX_COMPARED:
        near = (other for other in candidates if other[:1] == name[:1] and abs(len(other) - len(name)) <= 3)
        candidates = list(islice(near, _MAX_COMPARED))
    folded = {other.lower().replace("_", "").replace("-", ""): other for other in candidates}
    if same := folded.get(name.lower().replace("_", "").replace("-", "")):
        return same
    return next(iter(difflib.get_close_matches(name[:512], candidates, n=1)), None)


def _describe_place(document: object, problem: Problem) -> str:
    return f"line {problem.line}" if problem.line else describe_place(document, problem.path)


def _describe_remedy(problem: Problem) -> str:
    if not problem.known:
        return problem.remedy
    if near := suggest(problem.given, problem.known):
        return f"did you mean {show(near)}? Otherwise {problem.remedy}"
    if len(problem.known) > _MAX_LISTED:
        return problem.remedy
    return f"{problem.remedy}: {', '.join(show(name) for name in problem.known)}"


def _enter(value: object, step: str | int) -> object:
    if isinstance(step, int):
        return value[step] if isinstance(value, list) and 0 <= step < len(value) else None
    return value.get(step) if isinstance(value, dict) else None
