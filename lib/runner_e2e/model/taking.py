"""What a step takes over from a tool's result, such as an id that nobody knows before. Pure."""

from collections.abc import Iterable, Mapping

from pydantic import JsonValue

from runner_e2e.model.script import Step, Taken

LONGEST_TAKEN = 4096  # characters


def take_over(step: Step, results: Iterable[str]) -> tuple[Step, tuple[str, ...]]:
    """Return a step with what it takes in its place, and the names of what was not found.

    `results` are what tools answered since the last answer. `{name}` is replaced in the step's text and in
    the arguments of its calls; what is taken is no placeholder again.
    """
    if not step.take:
        return step, ()
    texts = tuple(results)
    found = {one.name: _find(one, texts) for one in step.take}
    missing = tuple(name for name, value in found.items() if value is None)
    if missing:
        return step, missing
    values = {f"{{{name}}}": value for name, value in found.items() if value is not None}
    changes: dict[str, object] = {}
    if step.text is not None:
        changes["text"] = _fill_text(step.text, values)
    if step.calls:
        changes["tool"] = None
        changes["tools"] = [
            call.model_copy(update={"arguments": _fill(call.arguments, values)}) for call in step.calls
        ]
    return step.model_copy(update=changes), ()


def _find(taken: Taken, texts: Iterable[str]) -> str | None:
    """Return what stands first between the two texts; an end that is too far away is none."""
    for text in texts:
        _, mark, rest = text.partition(taken.after)
        value, end, _ = rest[: LONGEST_TAKEN + len(taken.before)].partition(taken.before)
        if mark and end and value:
            return value
    return None


def _fill(value: JsonValue, values: Mapping[str, str]) -> JsonValue:
    if isinstance(value, str):
        return _fill_text(value, values)
    if isinstance(value, list):
        return [_fill(item, values) for item in value]
    if isinstance(value, dict):
        return {key: _fill(item, values) for key, item in value.items()}
    return value


def _fill_text(text: str, values: Mapping[str, str]) -> str:
    """Replace each placeholder at its first place after the one before, so that no value is looked into."""
    out, rest = "", text
    while True:
        places = [(place, mark) for mark in values if (place := rest.find(mark)) >= 0]
        if not places:
            return out + rest
        place, mark = min(places)
        out += rest[:place] + values[mark]
        rest = rest[place + len(mark) :]
