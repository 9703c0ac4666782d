"""The order of ids against what JavaScript's `localeCompare` gave."""

import random
import string

from hypothesis import given
from hypothesis import strategies as st

from runner_e2e.plan.ordering import build_sort_key

# Written by Node.js 20 with ICU 78: `list.sort((a, b) => a.localeCompare(b))`.
CHARACTERS = "_-.0123456789aAbBcCdDeEfFgGhHiIjJkKlLmMnNoOpPqQrRsStTuUvVwWxXyYzZ"
SORTED = [
    "a",
    "A",
    "a_b",
    "a-b",
    "a.",
    "a.b",
    "a.B",
    "A.b",
    "a0",
    "aa",
    "aA",
    "Aa",
    "AA",
    "ab",
    "aB",
    "Ab",
    "AB",
    "aB1",
    "ab2",
    "s_x.p.local.a",
    "s-x.p.local.a",
    "s.p-x.local.a",
    "s.p.daytona.a",
    "s.P.local.a",
    "s.p.local.a_b",
    "s.p.local.a-b",
    "s.p.local.a.b",
    "s.p.local.a1",
    "s.p.local.ab",
    "s.p.local.aB",
    "s.p.local.z",
    "s.p.local.Z",
    "s10.p.local.a",
    "s9.p.local.a",
]

TEXT = st.text(string.ascii_letters + string.digits + "._-", max_size=8)


def test_single_characters_sort_as_in_javascript() -> None:
    shuffled = sorted(CHARACTERS)

    assert shuffled != list(CHARACTERS)
    assert "".join(sorted(shuffled, key=build_sort_key)) == CHARACTERS


def test_names_sort_as_in_javascript() -> None:
    for seed in range(50):
        shuffled = random.Random(seed).sample(SORTED, len(SORTED))

        assert sorted(shuffled, key=build_sort_key) == SORTED


@given(TEXT, TEXT)
def test_only_equal_texts_have_equal_keys(first: str, second: str) -> None:
    assert (build_sort_key(first) == build_sort_key(second)) == (first == second)


@given(TEXT, TEXT)
def test_case_decides_only_between_texts_that_are_otherwise_equal(first: str, second: str) -> None:
    if first.lower() != second.lower():
        before = build_sort_key(first) < build_sort_key(second)

        assert before == (build_sort_key(first.upper()) < build_sort_key(second.lower()))


@given(TEXT, TEXT)
def test_a_beginning_comes_before_the_whole(text: str, rest: str) -> None:
    assert build_sort_key(text) <= build_sort_key(text + rest)
