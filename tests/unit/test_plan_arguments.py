"""The harness's command line: scanning, numbers, and which error comes first."""

import math
from dataclasses import Field, fields
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner_e2e.errors import InputError
from runner_e2e.plan.arguments import Arguments, parse_arguments, to_number
from runner_e2e.plan.selection import BLANKS, SELECTED_ID, Selectors

PARALLEL = "PAPERCLIP_E2E_MAX_PARALLEL"
ID = "chat.opencode.local.agents.change-manager"
VALUED = [
    "--antigravity-journey-config",
    "--antigravity-journey-recover",
    "--case",
    "--connection-config",
    "--environment",
    "--github-review-config",
    "--group",
    "--id",
    "--max-automatic-retries",
    "--max-parallel",
    "--profile",
    "--suite",
]
SWITCHES = [
    "--all",
    "--antigravity-journey-preflight",
    "--debug",
    "--headed",
    "--installed-startup-only",
    "--list",
    "--matrix-json",
    "--provision-github-repository",
    "--ui",
]


def parse(words: str, **environ: str) -> Arguments:
    return parse_arguments(words.split(), environ)[0]


def refuse(words: list[str], **environ: str) -> InputError:
    with pytest.raises(InputError) as caught:
        parse_arguments(words, environ)
    assert "--list" in caught.value.remedy
    return caught.value


@pytest.mark.parametrize(
    ("words", "selectors"),
    [
        pytest.param("--all", Selectors(all=True), id="all"),
        pytest.param("--list", Selectors(list=True), id="list"),
        pytest.param("--matrix-json", Selectors(matrix_json=True), id="matrix-json"),
        pytest.param("--list --all", Selectors(list=True, all=True), id="list-and-all"),
        pytest.param("--id a --id b --id a", Selectors(ids=("a", "b", "a")), id="ids-repeated"),
        pytest.param("--id a --list", Selectors(ids=("a",), list=True), id="id-and-list"),
        pytest.param("--suite a,b --suite c", Selectors(suites=("a,b", "c")), id="commas-are-not-split"),
        pytest.param(
            "--group g --profile p --environment local --case c.d",
            Selectors(groups=("g",), profiles=("p",), environments=("local",), cases=("c.d",)),
            id="each-dimension",
        ),
        pytest.param("--suite -", Selectors(suites=("-",)), id="a-single-hyphen-is-a-value"),
        pytest.param("--suite -x", Selectors(suites=("-x",)), id="so-is-a-word-with-one"),
        pytest.param("-- --suite s --", Selectors(suites=("s",)), id="bare-hyphens-around"),
        pytest.param("--suite -- s", Selectors(suites=("s",)), id="bare-hyphens-before-a-value"),
        pytest.param(
            "--suite -- -- s -- --list", Selectors(suites=("s",), list=True), id="bare-hyphens-anywhere"
        ),
    ],
)
def test_selectors_are_read(words: str, selectors: Selectors) -> None:
    assert parse(words).selectors == selectors


def test_a_value_may_hold_anything_that_a_word_can() -> None:
    words = ["--case", "a b\n=😀", "--suite", " "]

    assert parse_arguments(words, {})[0].selectors == Selectors(cases=("a b\n=😀",), suites=(" ",))


def test_without_flags_a_run_has_one_worker_and_one_retry() -> None:
    assert parse("--all") == Arguments(
        selectors=Selectors(all=True),
        max_parallel=1,
        max_automatic_retries=1,
        headed=False,
        ui=False,
        debug=False,
        installed_startup_only=False,
        connection_config=None,
        github_review_config=None,
        provision_github_repository=False,
        antigravity_journey_config=None,
        antigravity_journey_preflight=False,
        antigravity_journey_recover=None,
    )


OPTIONS = [field for field in fields(Arguments) if field.name not in {"selectors", "max_parallel"}]


@pytest.mark.parametrize("field", [pytest.param(field, id=field.name) for field in OPTIONS])
def test_each_option_has_a_flag_and_the_last_value_wins(field: Field[object]) -> None:
    flag = "--" + field.name.replace("_", "-")
    text = type(None) in get_args(field.type)

    if text:
        assert getattr(parse(f"--all {flag} first {flag} /last"), field.name) == "/last"
    elif field.type is bool:
        assert getattr(parse(f"--all {flag} {flag}"), field.name) is True
    else:
        assert getattr(parse(f"--all {flag} 1 {flag} 0"), field.name) == 0


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        pytest.param(["--all", "word"], "Unknown argument word", id="positional"),
        pytest.param(["core", "--bogus"], "Unknown argument core", id="first-of-two"),
        pytest.param(["--bogus", "--suite"], "Unknown argument --bogus", id="unknown-before-missing"),
        pytest.param(["--suite", "--bogus"], "--suite requires a value", id="missing-before-unknown"),
        pytest.param(["--all", "-h"], "Unknown argument -h", id="short"),
        pytest.param(["--All"], "Unknown argument --All", id="case-counts"),
        pytest.param([""], "Unknown argument ''", id="empty-word"),
        pytest.param(["--id=a"], "Unknown argument --id=...", id="joined-value"),
        pytest.param(["--all=true"], "Unknown argument --all=...", id="joined-switch"),
        pytest.param(["--token=hunter2"], "Unknown argument --token=...", id="joined-unknown"),
        pytest.param(["KEY=hunter2"], "Unknown argument KEY=...", id="joined-positional"),
        pytest.param(["a\nb"], r"Unknown argument 'a\nb'", id="newline"),
        pytest.param(["::error::x\x1b"], r"Unknown argument '::error::x\x1b'", id="command"),
        pytest.param(["x" * 5000], f"Unknown argument {'x' * 120}...", id="long"),
        pytest.param(["\ud800"], r"Unknown argument '\ud800'", id="surrogate"),
        pytest.param(["---"], "Unknown argument ---", id="three-hyphens"),
        pytest.param(["--max-parallel", "0", "word"], "Unknown argument word", id="scan-before-numbers"),
        pytest.param(["--all", "--suite", "s", "--case"], "--case requires a value", id="scan-before-checks"),
    ],
)
def test_the_first_word_that_is_wrong_is_named(words: list[str], problem: str) -> None:
    assert refuse(words).problem == problem


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        pytest.param(["--suites"], "Did you mean --suite?", id="misspelt"),
        pytest.param(["--id=a"], "Write the value as the word after --id", id="joined"),
        pytest.param(["--list=true"], "Write --list without a value", id="joined-switch"),
    ],
)
def test_an_unknown_word_comes_with_advice(words: list[str], remedy: str) -> None:
    assert refuse(words).remedy.startswith(remedy)


@pytest.mark.parametrize("flag", VALUED)
@pytest.mark.parametrize(
    "rest",
    [
        pytest.param([], id="missing"),
        pytest.param(["--"], id="bare-hyphens-are-no-value"),
        pytest.param([""], id="empty"),
        pytest.param(["--all"], id="a-flag"),
        pytest.param(["--x y"], id="begins-with-two-hyphens"),
    ],
)
def test_a_flag_without_its_value_is_refused(flag: str, rest: list[str]) -> None:
    assert refuse(["--list", flag, *rest]).problem == f"{flag} requires a value"


@pytest.mark.parametrize("switch", SWITCHES)
def test_a_switch_takes_no_value(switch: str) -> None:
    assert refuse([switch, "true"]).problem == "Unknown argument true"


@pytest.mark.parametrize(
    ("words", "default", "workers"),
    [
        pytest.param("--all", "6", 6, id="default"),
        pytest.param("--all", "\t0x10\ufeff", 16, id="default-in-javascript"),
        pytest.param("--all --max-parallel 4", "6", 4, id="flag-before-default"),
        pytest.param("--all --max-parallel 4.0", None, 4, id="point-zero"),
        pytest.param("--all --max-parallel 1e1", None, 10, id="exponent"),
        pytest.param("--all --max-parallel 0x10", None, 16, id="hexadecimal"),
        pytest.param("--max-parallel 2 --all --max-parallel 3", None, 3, id="last-wins"),
        pytest.param("--max-parallel 0 --all --max-parallel 3", None, 3, id="only-the-last-is-checked"),
        pytest.param("--all --headed --max-parallel 9", "6", 1, id="headed"),
        pytest.param("--all --ui", "6", 1, id="ui"),
        pytest.param("--all --max-parallel 9 --debug", None, 1, id="debug"),
    ],
)
def test_the_number_of_workers(words: str, default: str | None, workers: int) -> None:
    environ = {} if default is None else {PARALLEL: default}

    assert parse(words, **environ).max_parallel == workers


NO_WORKERS = ["0", "-1", "1.5", "x", "1_0", "Infinity", "NaN", "-0", "1e-9", "0x", "4,", "\uff14"]


@pytest.mark.parametrize("text", [*NO_WORKERS, " "])
def test_a_flag_that_is_no_positive_integer_is_refused(text: str) -> None:
    error = refuse(["--list", "--max-parallel", text])

    assert error.problem == "--max-parallel must be a positive integer"


@pytest.mark.parametrize("text", [*NO_WORKERS, " ", ""])
@pytest.mark.parametrize("words", ["--list", "--all --max-parallel 4", "--all --headed"])
def test_a_bad_default_fails_every_call(words: str, text: str) -> None:
    error = refuse(words.split(), **{PARALLEL: text})

    assert error.problem == f"{PARALLEL} must be a positive integer"


@pytest.mark.parametrize(
    ("text", "retries"),
    [("0", 0), ("1", 1), ("1.0", 1), ("0b1", 1), (" ", 0), ("-0", 0), ("10e-1", 1), ("\n1\n", 1)],
)
def test_retries_are_read_as_javascript_does(text: str, retries: int) -> None:
    arguments, _ = parse_arguments(["--all", "--max-automatic-retries", text], {})

    assert arguments.max_automatic_retries == retries


@pytest.mark.parametrize("text", ["2", "-1", "0.5", "x", "Infinity", "true"])
def test_other_retries_are_refused(text: str) -> None:
    error = refuse(["--all", "--max-automatic-retries", text])

    assert error.problem == "--max-automatic-retries must be 0 or 1"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        pytest.param(
            "--max-parallel x --max-automatic-retries x --id a --all", "--max-parallel must be", id="parallel"
        ),
        pytest.param("--max-automatic-retries x --id a --all", "--max-automatic-retries must", id="retries"),
        pytest.param("--id a --all --suite s", "Selector id cannot be combined with all, suite", id="id"),
        pytest.param("--all --suite s", "Selector all cannot be combined with suite", id="all"),
        pytest.param("--max-parallel 2 --headed", "Nothing is selected, and billable runs", id="nothing"),
        pytest.param("--installed-startup-only", "Nothing is selected, and billable", id="startup-only"),
        pytest.param("--connection-config x", "Nothing is selected, and billable", id="attended"),
        pytest.param("", "Nothing is selected, and billable", id="empty"),
        pytest.param("-- --", "Nothing is selected, and billable", id="only-bare-hyphens"),
    ],
)
def test_checks_follow_the_scan_in_their_order(words: str, problem: str) -> None:
    assert refuse(words.split()).problem.startswith(problem)


@pytest.mark.parametrize("dimension", ["--suite", "--group", "--profile", "--environment", "--case"])
def test_an_id_and_all_exclude_every_dimension(dimension: str) -> None:
    kind = dimension.removeprefix("--")

    assert refuse(["--id", "a", dimension, "b"]).problem == f"Selector id cannot be combined with {kind}"
    assert refuse([dimension, "b", "--all"]).problem == f"Selector all cannot be combined with {kind}"
    assert (
        refuse([dimension, "b"], **{SELECTED_ID: ID}).problem == f"Selector id cannot be combined with {kind}"
    )


@pytest.mark.parametrize(
    ("words", "value", "selectors"),
    [
        pytest.param("", f" {ID}\n", Selectors(ids=(ID,)), id="alone"),
        pytest.param("--id a.b.local.c", ID, Selectors(ids=("a.b.local.c", ID)), id="union-at-the-end"),
        pytest.param("--list", ID, Selectors(list=True, ids=(ID,)), id="list"),
        pytest.param("--matrix-json", ID, Selectors(matrix_json=True, ids=(ID,)), id="matrix-json"),
        pytest.param("", "a,b", Selectors(ids=("a,b",)), id="one-id-only"),
        pytest.param("--all", " \ufeff", Selectors(all=True), id="blank"),
        pytest.param("", "-", Selectors(ids=("-",)), id="one-hyphen"),
    ],
)
def test_the_selected_id_counts_as_one_more_id_and_is_gone(
    words: str, value: str, selectors: Selectors
) -> None:
    arguments, rest = parse_arguments(words.split(), {SELECTED_ID: value, "PATH": "/bin"})

    assert arguments.selectors == selectors
    assert rest == {"PATH": "/bin"}


@pytest.mark.parametrize(
    ("words", "value", "problem"),
    [
        pytest.param(["--all"], ID, "Selector id cannot be combined with all", id="all"),
        pytest.param([], "--all", "--id requires a value", id="begins-with-two-hyphens"),
        pytest.param([], "  --", "--id requires a value", id="bare-hyphens"),
        pytest.param(["--suite"], ID, "--suite requires a value", id="is-no-value-of-the-flag-before"),
        pytest.param([], "\t", "Nothing is selected", id="blank"),
    ],
)
def test_a_selected_id_that_does_not_fit_is_refused(words: list[str], value: str, problem: str) -> None:
    assert refuse(words, **{SELECTED_ID: value}).problem.startswith(problem)


WORDS = st.one_of(
    st.sampled_from([*VALUED, *SWITCHES, "--", "-", "", "4", "--x=y"]),
    st.text(st.characters(exclude_categories=()), max_size=10),
)


@given(st.lists(WORDS, max_size=8), st.one_of(st.none(), st.text(max_size=10)), st.one_of(st.none(), WORDS))
def test_any_words_are_understood_or_refused_in_one_line(
    words: list[str], selected: str | None, default: str | None
) -> None:
    environ = {} if selected is None else {SELECTED_ID: selected}
    if default is not None:
        environ[PARALLEL] = default
    try:
        arguments, rest = parse_arguments(words, environ)
    except InputError as error:
        problem = str(error)
        assert problem.isprintable(), problem
        return
    assert arguments.max_parallel >= 1
    assert SELECTED_ID not in rest


@given(st.lists(st.sampled_from(["--suite", "s", "--all", "--list", "x"]), max_size=6), st.data())
def test_bare_hyphens_change_nothing(words: list[str], data: st.DataObject) -> None:
    with_hyphens = [*words]
    for _ in range(data.draw(st.integers(1, 3))):
        with_hyphens.insert(data.draw(st.integers(0, len(with_hyphens))), "--")

    assert outcome(with_hyphens) == outcome(words)


def outcome(words: list[str]) -> object:
    try:
        return parse_arguments(words, {})
    except InputError as error:
        return str(error)


# Written by Node.js 20: `Number(text)`.
NUMBERS = {
    "": 0,
    "  ": 0,
    "\t\n": 0,
    "0": 0,
    "1": 1,
    "+1": 1,
    "-1": -1,
    "4.0": 4,
    "4.": 4,
    ".": math.nan,
    ".5": 0.5,
    "5.5": 5.5,
    "1e1": 10,
    "1E+1": 10,
    "1e-1": 0.1,
    "1e": math.nan,
    "1e+": math.nan,
    "e1": math.nan,
    "1e1000": math.inf,
    "-1e1000": -math.inf,
    "1e-400": 0,
    "0x10": 16,
    "0X1f": 31,
    "0xg": math.nan,
    "0x": math.nan,
    "-0x10": math.nan,
    "+0x1": math.nan,
    "0x1p3": math.nan,
    "0x1.8": math.nan,
    "0o17": 15,
    "0O7": 7,
    "0o8": math.nan,
    "0b101": 5,
    "0B11": 3,
    "0b2": math.nan,
    "00010": 10,
    "1_0": math.nan,
    "1n": math.nan,
    "1,5": math.nan,
    "1 2": math.nan,
    "--1": math.nan,
    "+-1": math.nan,
    "Infinity": math.inf,
    "+Infinity": math.inf,
    "-Infinity": -math.inf,
    "infinity": math.nan,
    "inf": math.nan,
    "nan": math.nan,
    "NaN": math.nan,
    "\u00a04\ufeff": 4,
    "\u30004\u2029": 4,
    "4\x85": math.nan,
    "4\x1c": math.nan,
    "\u180e4": math.nan,
    "\uff14": math.nan,
    "\u0664": math.nan,
    "9007199254740993": 9007199254740992,
    "0x20000000000001": 9007199254740992,
    "0x20000000000003": 9007199254740996,
}


@pytest.mark.parametrize(("text", "number"), NUMBERS.items())
def test_numbers_are_javascripts(text: str, number: float) -> None:
    assert to_number(text) == pytest.approx(number, rel=0, abs=0, nan_ok=True)


def test_minus_zero_keeps_its_sign() -> None:
    assert math.copysign(1, to_number("-0")) == -1


@given(st.integers(min_value=0), st.text(BLANKS), st.text(BLANKS))
def test_a_whole_number_is_read_in_every_base_and_between_blanks(number: int, left: str, right: str) -> None:
    try:
        expected = float(number)
    except OverflowError:
        expected = math.inf

    for text in (str(number), f"{number:#x}", f"{number:#o}", f"{number:#b}", f"0X{number:X}"):
        assert to_number(left + text + right) == expected


@given(st.floats(allow_nan=False))
def test_a_float_survives_its_own_text(number: float) -> None:
    text = repr(number).replace("inf", "Infinity")

    assert to_number(text) == number


@given(st.text(st.characters(exclude_categories=())))
def test_any_text_is_a_number_or_not(text: str) -> None:
    number = to_number(text)

    assert isinstance(number, float)
    assert math.isnan(number) or not set(text.strip(BLANKS)) - set("0123456789abcdefABCDEFxXoO.+-Infity")


@pytest.mark.parametrize("text", ["1" * 100_000 + "x", "0x" + "f" * 100_000, "." + "1" * 100_000 + "e"])
def test_length_does_not_make_a_number_slow(text: str) -> None:
    assert not math.isfinite(to_number(text))
