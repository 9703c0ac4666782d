"""That the action, its types, the templates and their documents say the same. Pure.

Each rule takes texts and returns where they differ.
"""

import re
from typing import Any, get_args

import yaml

from action.workflow_rules import flatten, is_own, jobs, parse
from runner_e2e.actions.inputs import Command

# The format of github.com/typesafegithub/github-actions-typing: what may stand beside each type.
_FIELDS = {
    "string": frozenset[str](),
    "boolean": frozenset[str](),
    "float": frozenset[str](),
    "integer": frozenset[str](),
    "enum": frozenset({"allowed-values", "name"}),
    "list": frozenset({"separator", "list-item"}),
}
_NEEDED_FIELDS = {"enum": frozenset({"allowed-values"}), "list": frozenset({"separator", "list-item"})}
_SETTING = re.compile(r"\b(vars|secrets)\.([A-Z][A-Z0-9_]*)")
_READ = re.compile(r"\binputs\.(\w+)")
_LISTED = re.compile(r"^\| `([^`]+)` \|", re.MULTILINE)


def find_unknown_inputs(text: str, action: str) -> list[str]:
    """An input that the action does not have is ignored by the platform, whatever it was to prevent."""
    known = set(yaml.safe_load(action)["inputs"])
    found = []
    for name, job in jobs(text).items():
        for step in (step for step in job["steps"] if is_own(step)):
            found += [f"{name}: {key}" for key in step["with"] if key not in known]
            if step["with"].get("command") not in get_args(Command):
                found.append(f"{name}: {step['with'].get('command')}")
    return found


def find_unread_inputs(text: str) -> list[str]:
    """What people fill in is used: an input that nothing reads lets them believe that it was."""
    document = parse(text)
    asked = (document["on"].get("workflow_dispatch") or {}).get("inputs", {})
    used = {name for part in flatten({**document, "on": {}}) for name in _READ.findall(part)}
    return sorted(set(asked) ^ used)


def find_undocumented_settings(text: str, readme: str, name: str) -> list[str]:
    """The template's section lists every input, variable and secret that it reads, and no other."""
    section = readme.partition(f"## `{name}`\n")[2].partition("\n## ")[0]
    listed = set(_LISTED.findall(section))
    read = set((parse(text)["on"].get("workflow_dispatch") or {}).get("inputs", {}))
    read |= {setting for _, setting in _SETTING.findall(text)}
    return sorted(listed ^ read)


def find_untyped(action: str, types: str) -> list[str]:
    """Every input and output has a type, and every type belongs to one."""
    declared, typed = yaml.safe_load(action), yaml.safe_load(types)
    return [
        f"{part}: {name}"
        for part in ("inputs", "outputs")
        for name in sorted(set(declared[part]) ^ set(typed.get(part) or {}))
    ]


def find_malformed_types(types: str) -> list[str]:
    """A type has the fields of the published format."""
    document = yaml.safe_load(types)
    found = [f"unknown part {part}" for part in document if part not in ("inputs", "outputs")]
    for part in ("inputs", "outputs"):
        found += [name for name, fields in document[part].items() if not _is_type(fields)]
    return found


def _is_type(fields: dict[str, Any], *, in_list: bool = False) -> bool:
    kind = fields.get("type")
    if not isinstance(kind, str) or kind not in _FIELDS or (in_list and kind == "list"):
        return False
    others = set(fields) - {"type"}
    if others - _FIELDS[kind] or _NEEDED_FIELDS.get(kind, frozenset()) - others:
        return False
    if kind == "enum":
        values = fields["allowed-values"]
        return isinstance(values, list) and bool(values) and all(isinstance(v, str) and v for v in values)
    if kind == "list":
        separator = fields["separator"]
        return isinstance(separator, str) and bool(separator) and _is_type(fields["list-item"], in_list=True)
    return True
