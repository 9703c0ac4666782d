"""A script's text as a checked `Script`, with its placeholders filled; every mistake is told with its place.

The only place of the room that opens a script.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from runner_e2e.errors import InputError
from runner_e2e.model import script as shapes
from runner_e2e.model.script import MALFORMATIONS, SCRIPT_SCHEMA, Script
from runner_e2e.plan.catalog_problems import Problem, refuse, show, show_source, suggest
from runner_e2e.plan.catalog_yaml import load_yaml

MAX_SCRIPT_BYTES = 8 * 1024 * 1024

_GUIDE = "docs/scripted-model.md"
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_MAX_NAMES = 1000
_FILLED = ("title", "agents")

_MAPPINGS: dict[str, type[BaseModel]] = {
    "": Script,
    "agents": shapes.Agent,
    "match": shapes.Match,
    "steps": shapes.Step,
    "otherwise": shapes.Step,
    "tool": shapes.Tool,
    "tools": shapes.Tool,
    "error": shapes.Failure,
    "rate_limit": shapes.RateLimit,
    "meet": shapes.Meeting,
    "expect": shapes.Expectation,
    "until": shapes.Condition,
    "unless": shapes.Condition,
    "take": shapes.Taken,
    "usage": shapes.TokenCount,
}
_EXAMPLES = {
    "after": "after: a text",
    "agents": "agents: a list of agents, each beginning with - id:",
    "arguments": "arguments: {command: ls}",
    "before": "before: a text",
    "completion_tokens": "completion_tokens: 10",
    "contains": "contains: a text",
    "delay_s": "delay_s: 0.5",
    "error": "error: {status: 503}",
    "expect": "expect: {tool_result_contains: a text}",
    "id": "id: ada",
    "key": "key: '{ada_key}'",
    "malformed": f"malformed: {MALFORMATIONS[0]}",
    "match": "match: {key: '{ada_key}'}",
    "meet": "meet: {name: both-here}",
    "message": "message: a text",
    "model": "model: ada",
    "name": "name: bash",
    "otherwise": "otherwise: {text: There is no more to do}",
    "prompt_tokens": "prompt_tokens: 100",
    "rate_limit": "rate_limit: {retry_after_s: 1}",
    "repeat": "repeat: 2",
    "required": "required: true",
    "retry_after_s": "retry_after_s: 1",
    "schema": f"schema: {SCRIPT_SCHEMA}",
    "status": "status: 503",
    "steps": "steps: a list of steps, such as - text: Done",
    "take": "take: [{name: revision, after: a text, before: a text}]",
    "text": "text: Done",
    "title": "title: A title",
    "tool": "tool: {name: bash, arguments: {command: ls}}",
    "tool_result_contains": "tool_result_contains: a text",
    "tools": "tools: [{name: bash, arguments: {command: ls}}]",
    "unless": "unless: {contains: a text}",
    "until": "until: {tool_result_contains: a text}",
    "usage": "usage: {prompt_tokens: 100, completion_tokens: 10}",
    "values": "values: [nonce]",
    "within_s": "within_s: 60",
}


def read_script(path: Path, values: Mapping[str, str] | None = None) -> Script:
    """Return the script in a file of UTF-8 text of at most 8 MiB; `values` as for `parse_script`."""
    name = show_source(str(path))
    try:
        if not path.is_file():
            raise InputError(f"There is no file {name}", "Name a script in YAML")
        with path.open("rb") as file:
            data = file.read(MAX_SCRIPT_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or "it is no path"
        raise InputError(f"The script {name} cannot be read: {reason}", "Name a script in YAML") from None
    if len(data) > MAX_SCRIPT_BYTES:
        raise InputError(f"The script {name} is larger than 8 MiB", "Split it")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = None
    if text is None:  # outside of the handler: the error holds the whole file
        raise InputError(f"The script {name} is not UTF-8", "Save it as UTF-8")
    return parse_script(text, str(path), values)


def parse_script(text: str, source: str, values: Mapping[str, str] | None = None) -> Script:
    """Return the script that `text` holds, its placeholders replaced by `values`; `source` names it.

    With None nothing is replaced: so a script can be checked before its values are known.
    """
    document = load_yaml(text, source)
    names = _read_names(document)
    if values is not None:
        missing = [name for name in names if name not in values]
        if missing:
            raise InputError(
                f"{show_source(source)}: there is no value for {', '.join(map(show, missing[:10]))}",
                "Give each name in the script's values one",
            )
        document = _fill_document(document, {name: values[name] for name in names})
    try:
        script = Script.model_validate(document, by_alias=True, by_name=False)
    except ValidationError as error:
        breaches = error.errors(include_url=False)
    else:
        refuse(source, document, _find_conflicts(script), "script")
        return script
    refuse(source, document, map(_word, breaches), "script")
    raise AssertionError("a breach is a problem")


def _read_names(document: object) -> list[str]:
    """Return the names that placeholders may have; what is no such list is told with the other breaches."""
    listed = document.get("values") if isinstance(document, dict) else None
    if not isinstance(listed, list) or len(listed) > _MAX_NAMES:
        return []
    return [name for name in listed if isinstance(name, str) and _NAME.fullmatch(name)]


def _fill_document(document: object, values: Mapping[str, str]) -> object:
    if not (values and isinstance(document, dict)):
        return document
    # The longest first is not needed: the brace ends a name.
    pattern = re.compile(r"\{(" + "|".join(map(re.escape, values)) + r")\}")

    def fill(value: object) -> object:
        if isinstance(value, str):
            return pattern.sub(lambda match: values[match[1]], value)
        if isinstance(value, list):
            return [fill(item) for item in value]
        if isinstance(value, dict):
            return {key: fill(item) for key, item in value.items()}
        return value

    return {key: fill(item) if key in _FILLED else item for key, item in document.items()}


def _find_conflicts(script: Script) -> Iterator[Problem]:
    seen: dict[str, int] = {}
    matches: dict[object, str] = {}
    for index, agent in enumerate(script.agents):
        if agent.id in seen:
            yield Problem(("agents", index, "id"), f"{agent.id} stands twice", "give each agent its own id")
        seen[agent.id] = index
        if agent.match is None:
            if len(script.agents) > 1:
                yield Problem(
                    ("agents", index, "match"),
                    "is missing, and there are several agents",
                    f"add {_EXAMPLES['match']}",
                )
        elif (twin := matches.setdefault(agent.match, agent.id)) != agent.id:
            yield Problem(
                ("agents", index, "match"), f"is that of {twin}", "tell the agents apart, best by their keys"
            )
        yield from _find_lonely(script, index)
        yield from _find_taken_values(script, index)


def _find_lonely(script: Script, index: int) -> Iterator[Problem]:
    """Yield the meetings of an agent to which nobody else comes."""
    others = {
        step.meet.name
        for other, agent in enumerate(script.agents)
        if other != index
        for step in agent.steps
        if step.meet
    }
    for number, step in enumerate(script.agents[index].steps):
        if step.meet and step.meet.name not in others:
            yield Problem(
                ("agents", index, "steps", number, "meet"),
                f"nobody else comes to {step.meet.name}",
                "give another agent a step with the same meeting",
            )


def _find_taken_values(script: Script, index: int) -> Iterator[Problem]:
    """Yield what an agent's steps take by the name of a value, which has replaced its places before."""
    for number, step in enumerate(script.agents[index].steps):
        for place, taken in enumerate(step.take or ()):
            if taken.name in script.values:
                yield Problem(
                    ("agents", index, "steps", number, "take", place, "name"),
                    f"{taken.name} is a value of the script",
                    "give what is taken a name of its own",
                )


def _word(breach: ErrorDetails) -> Problem:
    """Return a breach in plain words; none of pydantic's are shown, and no value."""
    path = tuple(breach["loc"])
    if "arguments" in path:  # below are the kinds of value that were tried
        path = path[: path.index("arguments") + 1]
    kind, context = breach["type"], breach.get("ctx", {})
    names = [step for step in path if isinstance(step, str)]
    key = names[-1] if names else ""
    example = f"write {_EXAMPLES.get(key, f'what {_GUIDE} says')}"
    if kind == "rule":
        return Problem(path, context["says"], context["remedy"])
    if kind == "missing":
        return Problem(path, "is missing", f"add {_EXAMPLES.get(key, key)}")
    if kind == "extra_forbidden":
        mapping = _MAPPINGS.get(names[-2] if len(names) > 1 else "", Script)
        known = [field.alias or name for name, field in mapping.model_fields.items()]
        return Problem(path, "is no key of this mapping", "use one of its keys", given=key, known=known)
    if kind == "literal_error" and key == "malformed":
        given = breach["input"] if isinstance(breach["input"], str) else ""
        near = suggest(given, MALFORMATIONS)
        hint = f"did you mean {near}? Otherwise write" if near else "write"
        return Problem(path, "is no known malformation", f"{hint} one of {', '.join(MALFORMATIONS)}")
    return Problem(path, _SAYINGS.get(kind, "has a wrong value").format(**context), example)


_SAYINGS = {
    "bool_type": "must be true or false",
    "dict_type": "must be a mapping of keys to values",
    "float_type": "must be a number",
    "greater_than_equal": "must be at least {ge}",
    "int_type": "must be a whole number",
    "less_than_equal": "must be at most {le}",
    "list_type": "must be a list",
    "literal_error": "is not what it must be",
    "model_type": "must be a mapping of keys to values",
    "string_pattern_mismatch": (
        "must begin with a lower-case letter or digit and go on with letters, digits, _ and -"
    ),
    "string_too_long": "must have at most {max_length} characters",
    "string_too_short": "must have at least {min_length} characters",
    "string_type": "must be text; put it in quotes",
    "too_long": "has too many items",
    "too_short": "must not be empty",
}
