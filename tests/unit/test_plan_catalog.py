"""Reading a catalog: where it is found, and what every refusal says."""

from __future__ import annotations

import dataclasses
import gc
import json
import os
import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic.alias_generators import to_camel

from runner_e2e.errors import InputError
from runner_e2e.plan.catalog import MAX_CATALOG_BYTES, PROJECT, find_catalog, parse_catalog, read_catalog
from runner_e2e.plan.definitions import CatalogFile, Environment, Profile, Suite, Task
from runner_e2e.plan.ids import split_execution_id
from unit.catalog_text import as_text, changed, refusal, small_catalog

SHIPPED = sorted((PROJECT / "catalogs").glob("*.yaml"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_a_shipped_catalog_loads(path: Path) -> None:
    catalog = read_catalog(path)

    assert catalog.source == str(path)
    assert len(catalog.executions) >= 10


def test_the_catalog_of_the_product_holds_its_dotted_cases() -> None:
    ids = {execution.id for execution in read_catalog(find_catalog("paperclip")).executions}

    assert "chat-features.runner-opencode.local.agents.change-manager" in ids
    assert "chat-features.runner-opencode.local.routines.pause-owned" in ids


def test_the_catalog_of_the_product_can_be_judged() -> None:
    for execution in read_catalog(find_catalog("paperclip")).executions:
        said = json.dumps([dict(matcher.parameters) for matcher in execution.task.matchers])
        assert execution.task.title is not None
        assert "{nonce}" in (execution.task.prompt or "")
        assert "{nonce}" in said
        paid = ("OPENROUTER_API_KEY",) if execution.profile.id == "runner-opencode" else ()
        assert execution.required_credentials == paid


def test_a_shipped_catalog_is_found_by_its_name() -> None:
    assert find_catalog("paperclip") == PROJECT / "catalogs" / "paperclip.yaml"
    assert find_catalog("reference", Path("/anywhere")).name == "reference.yaml"


def test_any_other_name_is_a_path(tmp_path: Path) -> None:
    (tmp_path / "reference").touch()

    assert find_catalog("./reference", tmp_path) == tmp_path / "reference"
    assert find_catalog(str(tmp_path / "reference")) == tmp_path / "reference"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("refrence", "no catalog refrence: No such file or directory. Did you mean reference?"),
        pytest.param("gone.yaml", "no catalog gone.yaml: No such file or directory. Name a file, or one of"),
        pytest.param("", "name of the catalog is empty. Name a file", id="empty"),
        pytest.param("a\0b", r'no catalog "a\x00b": it is no path', id="nul"),
        pytest.param("a\nb", r'no catalog "a\nb": No such file', id="line-end"),
        pytest.param("a\udcffb", r'no catalog "a\udcffb": No such file', id="bytes-of-another-encoding"),
        pytest.param("\ud800", r'no catalog "\ud800": it is no path', id="half-a-pair"),
        pytest.param("x" * 5000, "File name too long", id="long"),
        pytest.param("here.yaml/there.yaml", "Not a directory", id="below-a-file"),
    ],
)
def test_a_catalog_that_is_not_there_is_named(name: str, expected: str, tmp_path: Path) -> None:
    (tmp_path / "here.yaml").touch()

    with pytest.raises(InputError) as caught:
        find_catalog(name, tmp_path)

    assert expected in str(caught.value)
    assert caught.value.exit_code == 2


def test_a_file_is_read_through_a_symbolic_link_and_with_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "real.yaml").write_text("\ufeff" + as_text(small_catalog()), encoding="utf-8")
    (tmp_path / "link.yaml").symlink_to("real.yaml")

    assert len(read_catalog(tmp_path / "link.yaml").executions) == 8


def test_what_is_no_regular_file_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")

    for path in (tmp_path / "fifo", tmp_path, Path("/dev/null")):
        with pytest.raises(InputError, match=f"{path} is not a regular file"):
            read_catalog(path)


@pytest.mark.parametrize("extra", [1, 5 * 1024 * 1024])
def test_a_file_over_the_limit_is_refused(extra: int, tmp_path: Path) -> None:
    path = tmp_path / "large.yaml"
    path.touch()
    os.truncate(path, MAX_CATALOG_BYTES + extra)

    with pytest.raises(InputError, match=r"large\.yaml is larger than 45 MiB"):
        read_catalog(path)


def test_a_file_that_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gone\.yaml cannot be read: No such file"):
        read_catalog(tmp_path / "gone.yaml")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(InputError, match="Too many levels of symbolic links"):
        read_catalog(tmp_path / "loop")


@pytest.mark.parametrize(
    ("content", "line"),
    [
        pytest.param(b"a: 1\nb: \xff\n", 2, id="latin"),
        pytest.param("a: 1".encode("utf-16"), 1, id="utf-16"),
        pytest.param(b"a: 1\n\n\nb: \xed\xa0\x80", 4, id="surrogate"),
    ],
)
def test_a_file_that_is_not_utf8_is_refused_by_its_line(content: bytes, line: int, tmp_path: Path) -> None:
    path = tmp_path / "my.yaml"
    path.write_bytes(content)

    with pytest.raises(InputError) as caught:
        read_catalog(path)

    assert f"my.yaml, line {line}: there is a byte that is not UTF-8" in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_reading_leaves_the_collector_as_it_was() -> None:
    refusal("[")
    assert gc.isenabled()
    gc.disable()
    try:
        parse_catalog(as_text(small_catalog()), "my.yaml")
        assert not gc.isenabled()
    finally:
        gc.enable()


HOSTILE_TEXT = st.text() | st.text("-:[]{}&*!|>'\"%@`#,? \n\tab1~<.\\\r\ufeff\x85\u2028", max_size=60)


@settings(deadline=None)
@given(HOSTILE_TEXT)
def test_hostile_text_is_never_more_than_an_input_error(text: str) -> None:
    _read_or_refuse(text)


@settings(deadline=None)
@given(
    st.data(),
    st.sampled_from(["delete", "insert", "swap", "repeat"]),
)
def test_a_broken_catalog_is_never_more_than_an_input_error(data: st.DataObject, how: str) -> None:
    text = data.draw(st.sampled_from([as_text(small_catalog()), yaml.safe_dump(small_catalog())]))
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 200)))
    middle = {
        "delete": "",
        "insert": data.draw(HOSTILE_TEXT),
        "swap": text[start:end][::-1],
        "repeat": text[start:end] * 2,
    }[how]

    _read_or_refuse(text[:start] + middle + text[end:])


PLACES = st.sampled_from(
    [
        ("schema",),
        ("groups",),
        ("suites",),
        ("suites", 0),
        ("suites", 0, "id"),
        ("suites", 0, "profiles"),
        ("suites", 0, "environments"),
        ("suites", 0, "excludedExecutionIds"),
        ("suites", 0, "definitionMetadata"),
        ("suites", 0, "expectedMatrixSize"),
        ("profiles", 0, "adapterConfig"),
        ("profiles", 0, "supportedEnvironments"),
        ("environments", 1, "expectedExecutionTarget"),
        ("tasks", 0),
        ("tasks", 0, "id"),
        ("tasks", 0, "explicitGroup"),
        ("tasks", 0, "attemptTimeoutMs"),
        ("tasks", 0, "matchers"),
        ("tasks", 0, "matchers", 0, "parameters"),
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@settings(deadline=None)
@given(PLACES, JSON)
def test_any_value_at_any_place_is_read_or_refused(path: tuple[str | int, ...], value: object) -> None:
    text = json.dumps(changed(path, value), ensure_ascii=False)

    _read_or_refuse(text.replace("Infinity", ".inf").replace("NaN", ".nan"))


def _read_or_refuse(text: str) -> None:
    refused = None
    try:
        catalog = parse_catalog(text, "my.yaml")
    except InputError as error:
        refused = error
    if refused is None:
        assert all(split_execution_id(execution.id) for execution in catalog.executions)
    else:
        assert str(refused).startswith("my.yaml")
        assert refused.__cause__ is None
        assert re.fullmatch(r"[^\x00-\x09\x0b-\x1f\x7f]*", str(refused))


GUIDE = (PROJECT / "docs" / "catalog.md").read_text(encoding="utf-8")


def test_the_example_of_the_guide_is_a_catalog_of_one_cell() -> None:
    example = GUIDE.split("```yaml\n")[1].split("```")[0]

    (cell,) = parse_catalog(example, "greeting.yaml").executions

    assert cell.id == "greeting.scripted.local.greet.once"
    assert cell.id in GUIDE


@pytest.mark.parametrize("mapping", [CatalogFile, Suite, Profile, Environment, Task])
def test_the_guide_names_every_key(mapping: type) -> None:
    keys = [to_camel(field.name) for field in dataclasses.fields(mapping)]

    assert [key for key in keys if f"`{key}`" not in GUIDE and f"`{key}." not in GUIDE] == []
