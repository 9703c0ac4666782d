"""A catalog's text: what is refused, where, and that reading it in pieces changes nothing."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner_e2e.errors import InputError
from runner_e2e.plan.catalog_yaml import load_yaml

WHOLE = 10**9


def refusal(text: str) -> str:
    with pytest.raises(InputError) as caught:
        load_yaml(text, "my.yaml")
    assert caught.value.exit_code == 2
    assert caught.value.__cause__ is None
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "place", "says"),
    [
        pytest.param("a: [1, 2", ", line 2, column 1", "a list that begins with [ is not closed", id="list"),
        pytest.param(
            "a: {b: 1", ", line 2, column 1", "a mapping that begins with { is not closed", id="mapping"
        ),
        pytest.param('a: "b', ", line 1, column 6", "a text in quotes is not closed", id="quote"),
        pytest.param("a: 'b", ", line 1, column 6", "a text in quotes is not closed", id="single-quote"),
        pytest.param("a: 1\na: 2", ", line 2, column 1", "the key a stands twice in one mapping", id="twice"),
        pytest.param("- a: 1\n  a: 2", ", line 1, column 3", "the key a stands twice", id="twice-inside"),
        pytest.param("a: b: c", ", line 1, column 5", "there is a colon where no key can stand", id="colon"),
        pytest.param(
            "a: 1\n b: 2", ", line 2, column 3", "there is a colon where no key can stand", id="indent"
        ),
        pytest.param("a:\n  - b\n - c", ", line 3, column 2", "the indentation does not fit", id="dedent"),
        pytest.param("a: - b", ", line 1, column 4", "a dash begins a list where none can stand", id="dash"),
        pytest.param("\ta: 1", "", "a value or an indentation begins with a character", id="tab"),
        pytest.param("a: @b", ", line 1, column 4", "a value or an indentation begins with", id="at-sign"),
        pytest.param("a: *b", ", line 1, column 4", "an alias has no anchor before it", id="alias"),
        pytest.param("a: &a [*a]", ", line 1, column 4", "values are nested too deeply", id="cycle"),
        pytest.param("[" * 5000, ", line 1, column 129", "values are nested too deeply", id="deep"),
        pytest.param("a: 1\n---\nb: 2", "", "there is more than one YAML document", id="documents"),
        pytest.param("a: 1\nb: \a", ", line 2, column 4", "there is a control character", id="control"),
        pytest.param("a: \ud800", "", "half of a surrogate pair is no text", id="surrogate"),
        pytest.param('a: "\\q"', ", line 1, column 5", "has an escape that YAML does not know", id="escape"),
        pytest.param('a: "\\ud800"', ", line 1, column 7", "has an escape that is no character", id="half"),
        pytest.param(
            "a: 1\nb: {{nonce}}\nc: 1", ", line 2", "a key is itself a list or a mapping", id="braces"
        ),
        pytest.param("? [a]\n: 1", ", line 1", "a key is itself a list or a mapping", id="list-as-key"),
        pytest.param(f"a: {'9' * 36}", ", line 1, column 4", "a number has too many digits", id="number"),
        pytest.param("a: !!int x", ", line 1, column 4", "a value does not fit its tag", id="wrong-tag"),
        pytest.param(
            "a: !e!x b", ", line 1, column 4", "there is a tag that cannot be read", id="tag-handle"
        ),
        pytest.param("a: 1\nb", ", line 3, column 1", "there is a key without a colon", id="no-colon"),
    ],
)
def test_malformed_text_is_refused_by_its_place(text: str, place: str, says: str) -> None:
    assert refusal(text).startswith(f"my.yaml{place}")
    assert says in refusal(text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('a: !!int "sk-or-v1-0123456789abcdef"', id="value"),
        pytest.param("sk-or-v1-0123456789abcdef: 1\nsk-or-v1-0123456789abcdef: 1", id="key"),
        pytest.param("a: [sk-or-v1-0123456789abcdef", id="near"),
    ],
)
def test_a_refusal_repeats_no_secret(text: str) -> None:
    assert "0123456789" not in refusal(text)


def test_aliases_that_multiply_are_refused() -> None:
    laughs = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{name}: &{name} [{','.join([f'*{before}'] * 10)}]\n"
        for before, name in zip("abcdefghi", "bcdefghij", strict=True)
    )
    assert "aliases repeat too much" in refusal(laughs)

    large = f"a: &a [{'{},' * 85_000}]\nb: [{','.join(['*a'] * 90)}]"
    assert "aliases repeat too much for so long a file. Write the repeated parts out" in refusal(large)


def test_a_few_aliases_are_read() -> None:
    assert load_yaml("a: &a [1]\nb: *a\nc: {d: *a}", "my.yaml") == {"a": [1], "b": [1], "c": {"d": [1]}}


def test_marks_of_emphasis_are_no_aliases() -> None:
    prompt = "R&D says *D* and Q&A, **A** & *B"
    text = f"a: '{prompt}'\ntasks:\n" + f"  - '{prompt}{'x' * 100}'\n" * 50_000

    content = load_yaml(text, "my.yaml")

    assert isinstance(content, dict)
    assert len(content["tasks"]) == 50_000


def test_a_long_text_that_is_no_list_of_items_is_refused_before_it_is_parsed() -> None:
    assert "takes more than 8 MiB. List suites" in refusal(f"tasks: [{'{},' * 3_000_000}]")
    assert "takes more than 8 MiB" in refusal("x" * (9 * 1024 * 1024))
    assert "takes more than 8 MiB" in refusal(f"tasks:\n- id: a\n{'  # x' * 2_000_000}\n- id: b\n")


def test_a_mistake_in_a_long_list_is_told_with_its_line_in_the_file() -> None:
    items = "  - id: a\n    label: b\n" * 450_000
    assert len(items) > 8 * 1024 * 1024
    text = f"schema: x\ntasks:\n{items}  - id: [\n{items}last: 1\n"

    assert refusal(text).startswith(f"my.yaml, line {2 + 900_000 + 2}, column ")


def test_a_long_list_is_read_whole_and_in_its_order() -> None:
    items = "".join(f"- id: case-{number}\n  prompt: |\n    - not an item\n" for number in range(20_000))
    text = f"# head\r\nsuites: [a]\ntasks: # all\n\n# first\n{items}groups: [b]\n"

    content = load_yaml(text, "my.yaml")

    assert content == {
        "suites": ["a"],
        "tasks": [{"id": f"case-{number}", "prompt": "- not an item\n"} for number in range(20_000)],
        "groups": ["b"],
    }


@pytest.mark.parametrize(
    ("text", "content"),
    [
        pytest.param('a: "x\ntasks:\n  - b\n  - c\n"\n', {"a": "x tasks: - b - c "}, id="in-quotes"),
        pytest.param("tasks:\n- a\n- |\n  - b\n- c\n", {"tasks": ["a", "- b\n", "c"]}, id="in-a-block"),
        pytest.param('tasks:\n- a\n- "b\n- c"\n- d\n', {"tasks": ["a", "b - c", "d"]}, id="dash-in-quotes"),
        pytest.param("tasks:\n- a\n# b\n\n- c\n\nx: 1", {"tasks": ["a", "c"], "x": 1}, id="comments"),
    ],
)
def test_what_only_looks_like_items_is_none(text: str, content: object) -> None:
    assert load_yaml(text, "my.yaml", 1) == content


# Values that reach over a line's end, and lines that look like items: {o} is the indentation of dashes,
# {i} that of keys.
VALUES = [
    *("a", '"a b"', "[1, 2]", "{a: 1}", "", "~", "x # c", "!!str 3", "!own 3", "&a 1", "*a", "{{a}}"),
    *("|\n{i}   lit\n{i}    - deeper\n\n", ">-\n{i}   f\n\n{i}   g\n", "|+\n{i}   k\n\n\n", "|\n{o}- x\n"),
    *('"multi\n{i}   line"', '"col\n{o}- inner"', "'col\n{o}- inner'", '"a\n\n{o}- b\n\n"', '"open', "'"),
    *("[1,\n{o}- 2]", "[1,\n{i}  2]", "{a: 1,\n{o}- b: 2}", "plain\n{i}   more", "plain\n{o}more", "[", "}"),
]
LINES = [
    *("# c\n", "\n", "{o}# c\n", " \n", "  x\n", "}\n", '"\n', "...\n", "---\n", "{o}-\n", "{o}- - a\n"),
    *(
        "tail: 1\n",
        "tasks: 2\n",
        "tail:\n  - q\n",
        'tail: "\n  - q\n"',
        "%YAML 1.2\n",
        "\r",
        "\u2028",
        "\x85",
    ),
]


@st.composite
def lists_of_items(draw: st.DrawFn) -> str:
    """Draw a text with long lists as their keys and items stand in a catalog, some of them broken."""
    outer = " " * draw(st.sampled_from([0, 1, 2, 4]))

    def place(text: str) -> str:
        return text.replace("{i}", f"{outer}  ").replace("{o}", outer)

    parts = [draw(st.sampled_from(["", "# head\n", "schema: x\n", 'a: "x\ntasks:\n"\n', "a: |\n  tasks:\n"]))]
    for key in draw(st.lists(st.sampled_from(["tasks", "suites", "other"]), min_size=1, max_size=3)):
        parts.append(f"{key}:{draw(st.sampled_from(['', ' ', ' # c']))}\n")
        for _ in range(draw(st.integers(1, 4))):
            values = draw(st.lists(st.sampled_from(VALUES), min_size=1, max_size=3))
            keys = [f"{outer}  " if number else "" for number in range(len(values))]
            parts.append(f"{outer}- ")
            parts += [
                f"{before}{'abc'[number]}: {place(value)}\n"
                for number, (before, value) in enumerate(zip(keys, values, strict=True))
            ]
            parts += [place(line) for line in draw(st.lists(st.sampled_from(LINES), max_size=1))]
    return "".join(parts)


@settings(deadline=None)
@given(lists_of_items(), st.integers(1, 30))
def test_reading_in_pieces_changes_nothing(text: str, piece_characters: int) -> None:
    assert _read(text, piece_characters) == _read(text, WHOLE)


def _read(text: str, piece_characters: int) -> object:
    try:
        return repr(load_yaml(text, "my.yaml", piece_characters))
    except InputError as error:
        return str(error)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param(f"x: {'[' * 100_000}{']' * 100_000}", "nested too deeply. Nest less", id="lists"),
        pytest.param("{a: " * 100_000, "nested too deeply. Nest less", id="mappings"),
        pytest.param("[" * 7_000_000, "line 1, column 101: values are nested too deeply", id="megabytes"),
        pytest.param('a: x\n  "\nb: ' + "[" * 100_000, "line 3, column 104: values", id="quote-in-plain"),
        pytest.param("a: |\n '\nb: " + "[" * 100_000, "line 3, column 104: values", id="quote-in-block"),
        pytest.param("# '\n" + "['" + "]" * 99 + "'," + "[" * 100_000, "nested too", id="closed-in-quotes"),
        pytest.param("%TAG !a! x\n" * 40_000 + "--- a", "too many lines begin with %", id="directives"),
        pytest.param("".join(f"{n}.5: 1\n" for n in range(50_000)), "keys are numbers", id="numbers"),
        pytest.param("{" + "".join(f"{n}.5, " for n in range(50_000)), "keys are num", id="flow-numbers"),
        pytest.param("".join(f"? {n}.5\n" for n in range(50_000)), "keys are num", id="explicit-numbers"),
    ],
)
def test_what_costs_quadratic_time_is_refused_before_it_is_parsed(text: str, says: str) -> None:
    assert says in refusal(text)


@pytest.mark.parametrize(
    "item",
    [
        pytest.param(f'"{"[" * 500}"', id="double-quotes"),
        pytest.param(f"'{'{' * 500}'", id="single-quotes"),
        pytest.param(f"|\n    {'[{' * 250}", id="block-scalar"),
        pytest.param(f"x {'[' * 500}", id="plain-text"),
        pytest.param(f"x # {'[' * 500}", id="comment"),
        pytest.param(f"[{'[],' * 500}]", id="flat"),
    ],
)
def test_brackets_that_do_not_nest_are_read_however_many(item: str) -> None:
    content = load_yaml(f"a:\n- {item}\n" + f"- {item}\n" * 99, "my.yaml", WHOLE)

    assert isinstance(content, dict)
    assert len(content["a"]) == 100
