"""The policy by descriptor: no path in argv, and no doubt about what was asked for."""

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from kernel.harness import POLICY_SCHEMA, SECRET, Act, Box

pytestmark = pytest.mark.kernel


@contextmanager
def descriptor_of(content: bytes, kind: str = "memfd") -> Iterator[int]:
    """A descriptor that reads `content` from its beginning."""
    if kind == "pipe":
        descriptor, write_end = os.pipe()
        os.write(write_end, content)
        os.close(write_end)
    elif kind == "file":
        with tempfile.TemporaryFile() as file:
            file.write(content)
            file.flush()
            descriptor = os.dup(file.fileno())
        os.lseek(descriptor, 0, os.SEEK_SET)
    else:
        descriptor = os.memfd_create("policy", 0)
        os.write(descriptor, content)
        os.lseek(descriptor, 0, os.SEEK_SET)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def policy(**lists: object) -> bytes:
    return json.dumps({"schema": POLICY_SCHEMA, **lists}).encode()


def refuses_policy(box: Box, content: bytes) -> None:
    with descriptor_of(content) as descriptor:
        box.refuses("usage", "--policy-fd", str(descriptor), pass_fds=[descriptor])
    with descriptor_of(content) as descriptor:
        options = (*box.options, f"--policy-fd={descriptor}")
        box.refuses("usage", *options, pass_fds=[descriptor])


@pytest.mark.denies
@pytest.mark.parametrize("kind", ["memfd", "pipe", "file"])
def test_a_policy_by_descriptor_is_enforced(box: Box, kind: str) -> None:
    later = box.root / "later"
    content = policy(hide=[str(box.hid)], hideOptional=[str(later)], expose=[str(box.own)])
    acts: list[Act] = [
        ("read", box.secret),
        ("mkdir", later),
        ("read", box.own / "mine"),
        ("read", box.ok / "a"),
    ]
    with descriptor_of(content, kind) as descriptor:
        by_descriptor = box.with_options("--policy-fd", str(descriptor))
        inside = by_descriptor.act(*acts, pass_fds=[descriptor])

    assert [outcome.error for outcome in inside] == ["EACCES", "EACCES", "", ""]
    assert box.act(acts[0], sandboxed=False)[0].value == SECRET


def test_no_path_of_a_policy_by_descriptor_stands_in_the_command_line(box: Box) -> None:
    with descriptor_of(policy(hide=[str(box.hid)])) as descriptor:
        by_descriptor = box.with_options("--policy-fd", str(descriptor))
        with by_descriptor.start("sleep", "60", pass_fds=[descriptor]) as process:
            seen: set[bytes] = set()
            while b"sleep\x0060\0" not in seen:
                with suppress(ProcessLookupError):
                    line = Path(f"/proc/{process.pid}/cmdline").read_bytes()
                    seen.add(line)
                assert process.poll() is None
    assert not any(bytes(box.hid) in line for line in seen)


@pytest.mark.denies
def test_options_and_policies_add_up(box: Box) -> None:
    (box.root / "two").mkdir()
    (box.root / "two" / "s").write_text(SECRET)
    first = policy(hide=[str(box.hid)])
    second = policy(expose=[str(box.own)])
    acts: list[Act] = [
        ("read", box.root / "two" / "s"),
        ("read", box.secret),
        ("read", box.own / "mine"),
    ]
    with descriptor_of(first) as one, descriptor_of(second) as two:
        together = box.with_options("--policy-fd", str(one), "--hide", box.root / "two", f"--policy-fd={two}")
        inside = together.act(*acts, pass_fds=[one, two])

    assert [outcome.error for outcome in inside] == ["EACCES", "EACCES", ""]


@pytest.mark.denies
def test_the_rules_for_paths_are_the_same_by_descriptor(box: Box) -> None:
    for code, lists in {
        "hide-missing": {"hide": [str(box.root / "nope")]},
        "hide-root": {"hide": ["/"]},
        "expose-missing": {"hide": [str(box.hid)], "expose": [str(box.hid / "nope")]},
        "expose-reveals-hidden": {"hide": [str(box.hid)], "expose": [str(box.root)]},
        "expose-outside-hidden": {"hide": [str(box.hid)], "expose": [str(box.ok)]},
    }.items():
        with descriptor_of(policy(**lists)) as descriptor:
            box.refuses(code, "--policy-fd", str(descriptor), pass_fds=[descriptor])


@pytest.mark.denies
def test_names_that_are_not_utf8_travel_as_lone_surrogates(box: Box) -> None:
    name = os.fsdecode(b"\xff\xfe\xed\xa0\x80 \n")
    (box.root / name / "own").mkdir(parents=True)
    (box.root / name / "s").write_text(SECRET)
    (box.root / name / "own" / "o").write_text("o")
    path = f"{box.root}/{name}"
    content = policy(hide=[path], expose=[f"{path}/own"])
    assert content.isascii()
    with descriptor_of(content) as descriptor:
        by_descriptor = box.with_options("--policy-fd", str(descriptor))
        acts: list[Act] = [("read", f"{path}/s"), ("read", f"{path}/own/o")]
        inside = by_descriptor.act(*acts, pass_fds=[descriptor])

    assert [outcome.error for outcome in inside] == ["EACCES", ""]
    assert box.act(acts[0], sandboxed=False)[0].value == SECRET


BROKEN: dict[str, bytes] = {
    "empty": b"",
    "not JSON": b"{",
    "two documents": policy() + policy(),
    "not UTF-8": policy().replace(b"runner", b"\xff"),
    "UTF-16": policy().decode().encode("utf-16"),
    "list": b"[]",
    "string": b'"x"',
    "null": b"null",
    "no schema": b'{"hide": []}',
    "schema of the plan": policy().replace(b"policy", b"plan"),
    "later schema": policy().replace(b"/v1", b"/v2"),
    "schema is a list": b'{"schema": ["' + POLICY_SCHEMA.encode() + b'"]}',
    "unknown key": policy(hidden=[]),
    "key in other case": policy(Hide=[]),
    "key with underscore": policy(hide_optional=[]),
    "key twice": policy(hide=["/x"]).replace(b"}", b', "hide": []}'),
    "schema twice": policy().replace(b"}", b', "schema": "' + POLICY_SCHEMA.encode() + b'"}'),
    "list is a string": policy(hide="/etc"),
    "list is null": policy(hide=None),
    "list is an object": policy(expose={"/etc": True}),
    "entry is a number": policy(hide=[1]),
    "entry is null": policy(expose=[None]),
    "entry is a list": policy(hideOptional=[["/etc"]]),
    "empty path": policy(hide=[""]),
    "path with NUL": policy(hide=["/etc\0/passwd"]),
    "lone high surrogate": policy(hide=["/\ud800"]),
    "surrogate of ASCII": policy(hide=["/\udc41"]),
    "very deep": b"[" * 100_000,
    "not a number": policy().replace(b"}", b', "hide": NaN}'),
}


@pytest.mark.denies
@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_a_broken_policy_is_a_usage_refusal(box: Box, content: bytes) -> None:
    refuses_policy(box, content)


@pytest.mark.denies
def test_a_descriptor_that_cannot_be_read_is_a_usage_refusal(box: Box) -> None:
    box.refuses("usage", "--policy-fd", "57")
    directory = os.open(box.ok, os.O_RDONLY)
    write_only = os.open(box.ok / "a", os.O_WRONLY)
    handle = os.open(box.ok / "a", os.O_PATH)
    try:
        for descriptor in (directory, write_only, handle):
            box.refuses("usage", "--policy-fd", str(descriptor), pass_fds=[descriptor])
    finally:
        for descriptor in (directory, write_only, handle):
            os.close(descriptor)


@pytest.mark.denies
@pytest.mark.parametrize("descriptor", ["1", "2"])
def test_a_descriptor_of_the_commands_output_is_a_usage_refusal(box: Box, descriptor: str) -> None:
    box.refuses("usage", "--policy-fd", descriptor)


@pytest.mark.denies
def test_a_policy_that_was_read_already_hides_nothing_and_is_refused(box: Box) -> None:
    """An empty rest must not pass for a policy without entries."""
    with descriptor_of(policy(hide=[str(box.hid)])) as descriptor:
        twice = ("--policy-fd", str(descriptor)) * 2
        box.refuses("usage", *twice, pass_fds=[descriptor])


def test_a_large_policy_is_read_to_its_end(box: Box) -> None:
    many = [f"{box.root}/missing/{'x' * 100}{number}" for number in range(3000)]
    with descriptor_of(policy(hideOptional=many, hide=[str(box.hid)])) as descriptor:
        by_descriptor = box.with_options("--policy-fd", str(descriptor))
        inside = by_descriptor.act(("read", box.secret), pass_fds=[descriptor])

    assert inside[0].error == "EACCES"


names = st.binary(min_size=1, max_size=20).filter(
    lambda name: not {0, ord("/")} & set(name) and name not in (b".", b"..")
)


@pytest.mark.denies
@settings(
    max_examples=6,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],  # a smaller example is not worth hundreds of launches
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(found=st.lists(names, min_size=2, max_size=12, unique=True))
def test_any_name_the_file_system_takes_can_be_hidden_and_exposed(box: Box, found: list[bytes]) -> None:
    """All but the first are hidden; each example is one tree and two launches."""
    with tempfile.TemporaryDirectory(dir=box.ok) as top:
        paths = [f"{top}/{os.fsdecode(name)}" for name in found]
        for path in paths:
            Path(path, "own").mkdir(parents=True)
            for file in ("s", "own/o"):
                Path(path, file).write_text(SECRET)
        shown, *hidden = paths
        content = policy(hide=hidden, expose=[f"{path}/own" for path in hidden])
        acts: list[Act] = [("read", f"{path}/s") for path in hidden]
        acts += [("read", f"{path}/own/o") for path in paths]
        acts.append(("read", f"{shown}/s"))
        options = [word for path in hidden for word in ("--hide", path, "--expose", f"{path}/own")]
        with descriptor_of(content) as descriptor:
            by_descriptor = box.with_options("--policy-fd", str(descriptor))
            first = by_descriptor.act(*acts, pass_fds=[descriptor])
        second = box.with_options(*options).act(*acts)
        expected = ["EACCES"] * len(hidden) + [""] * (len(paths) + 1)
        assert [outcome.error for outcome in first] == expected
        assert second == first
