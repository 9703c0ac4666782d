"""One row of a target's `--list`: taken when it is the asked cell's, else refused without repeating it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner_e2e.errors import InputError, RunnerE2EError
from runner_e2e.isolation.product import CellTraits
from runner_e2e.plan.listing import ListingRefusedError
from runner_e2e.plan.target_list import ListedCell, describe_listed_cell, list_cell, parse_list

if TYPE_CHECKING:
    from runner_e2e.plan.transport import Decision

ID = "chat.opencode-native.local.agents.secret-case"
HEADER = "ID\tSUITE\tGENERATION\tPROVIDER\tMODEL\tCREDENTIALS\n"
ROW = f"{ID}\tchat\tnative\topencode\topenrouter/deepseek/v4\tOPENROUTER_API_KEY\n"
CELL = ListedCell("native", "opencode", "openrouter/deepseek/v4", "chat")


class Target:
    """Answers with a text, and notes what it was called with."""

    def __init__(self, answer: str | InputError) -> None:
        self.answer = answer
        self.calls: list[tuple[list[str], dict[str, str]]] = []

    def __call__(self, argv: object, variables: object) -> bytes:
        self.calls.append((list(argv), dict(variables)))  # type: ignore[call-overload]  # a fake
        if isinstance(self.answer, InputError):
            raise self.answer
        return self.answer.encode()


@pytest.mark.parametrize(
    ("transport", "argv", "variables"),
    [
        pytest.param("env", ["--list"], {"PAPERCLIP_RUNNER_E2E_SELECTED_ID": ID}, id="variable"),
        pytest.param("argv", ["--list", "--id", ID], {}, id="argument"),
    ],
)
def test_the_id_goes_by_the_decided_way_and_by_no_other(
    transport: Decision, argv: list[str], variables: dict[str, str]
) -> None:
    target = Target(HEADER + ROW)

    assert list_cell(target, ID, transport, hidden=True) == CELL
    assert target.calls == [(argv, variables)]


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(ROW, id="one"),
        pytest.param(ROW.rstrip("\n"), id="without-line-end"),
        pytest.param(f"{ROW}\n\n", id="empty-lines-after"),
        pytest.param(ROW.replace("\tOPENROUTER_API_KEY", "\tA, B;C|D"), id="other-joiner"),
        pytest.param(ROW.replace("\tOPENROUTER_API_KEY", "\tA\tB"), id="joined-by-tabs"),
        pytest.param(ROW.replace("\tOPENROUTER_API_KEY", "\t"), id="no-credential"),
        pytest.param(ROW.replace("\tOPENROUTER_API_KEY", ""), id="no-last-column"),
    ],
)
def test_the_last_column_may_be_anything_printable(row: str) -> None:
    assert parse_list((HEADER + row).encode(), ID) == CELL


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("", "is empty", id="nothing"),
        pytest.param("\n\n", "is empty", id="empty-lines"),
        pytest.param(HEADER, "has 0 cells", id="only-a-header"),
        pytest.param(ROW, "header", id="no-header"),
        pytest.param(f"> paperclip@1.0.0 test\n{HEADER}{ROW}", "header", id="package-manager-before"),
        pytest.param(HEADER.replace("\t", " ") + ROW, "header", id="blanks-for-tabs"),
        pytest.param(HEADER.lower() + ROW, "header", id="lower-case-header"),
        pytest.param(HEADER.replace("MODEL\t", "") + ROW, "header", id="column-missing"),
        pytest.param(HEADER.replace("\n", "\tMORE\n") + ROW, "header", id="column-more"),
        pytest.param(HEADER + ROW + ROW, "has 2 cells", id="twice"),
        pytest.param(HEADER + ROW + ROW.replace("secret", "other"), "has 2 cells", id="two"),
        pytest.param(HEADER + "\n" + ROW, "has 2 cells", id="empty-line-between"),
        pytest.param(HEADER + ROW.replace("secret", "other"), "another cell", id="another"),
        pytest.param(HEADER + ROW.replace(ID, f" {ID}"), "another cell", id="blank-before"),
        pytest.param(HEADER + ROW.replace(ID, ID.upper()), "another cell", id="upper-case"),
        pytest.param(HEADER + ROW.replace("\tchat\t", "\tcore\t"), "another suite", id="suite"),
        pytest.param(HEADER + ROW.replace("\tnative", "\tmodern"), "generation", id="generation"),
        pytest.param(HEADER + ROW.replace("\tnative", "\tNative"), "generation", id="generation-in-capitals"),
        pytest.param(HEADER + ROW.replace("\topencode\t", "\t\t"), "no usable provider", id="no-provider"),
        pytest.param(HEADER + ROW.replace("\topencode\t", "\topencode \t"), "provider", id="blank-after"),
        pytest.param(HEADER + ROW.replace("openrouter/", "x" * 600), "no usable model", id="long-model"),
        pytest.param(HEADER + f"{ID}\tchat\tnative\topencode\n", "too few columns", id="short-row"),
        pytest.param(HEADER + ROW.replace("native", "nat\x1b[0mive"), "cannot be printed", id="escape"),
        pytest.param(HEADER + ROW.replace("\n", "\r\n"), "cannot be printed", id="carriage-return"),
        pytest.param(HEADER + ROW.replace("API", "\u202e"), "cannot be printed", id="reversed-credentials"),
        pytest.param(HEADER + ROW + "\0", "cannot be printed", id="nul"),
        pytest.param(HEADER + ROW + "x" * 5_000_000, "larger", id="flood"),
    ],
)
def test_anything_else_is_refused_and_nothing_of_it_repeated(text: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_list(text.encode(), ID)

    assert said in caught.value.problem
    assert "secret-case" not in str(caught.value)
    assert "opencode" not in str(caught.value)


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(InputError, match="is not UTF-8"):
        parse_list(HEADER.encode() + b"\xff\n", ID)


def test_what_the_target_says_is_shown_only_where_ids_are_no_secret() -> None:
    refusal = ListingRefusedError(f"It ended with status 1: unknown id {ID}", "Run it by hand")

    with pytest.raises(ListingRefusedError, match="secret-case"):
        list_cell(Target(refusal), ID, "env", hidden=False)
    with pytest.raises(RunnerE2EError) as caught:
        list_cell(Target(refusal), ID, "env", hidden=True)

    assert "secret-case" not in str(caught.value)
    assert caught.value.exit_code == 2
    assert caught.value.__cause__ is None


def test_a_listed_cell_gets_the_traits_that_its_row_and_its_id_tell() -> None:
    remote = ID.replace(".local.", ".daytona.")

    assert describe_listed_cell(CELL, remote) == CellTraits(
        suite="chat",
        case="agents.secret-case",
        profile="opencode-native",
        generation="native",
        provider="opencode",
        model="openrouter/deepseek/v4",
        remote=True,
    )
    assert not describe_listed_cell(CELL, ID).remote
    with pytest.raises(InputError, match="not the listed one"):
        describe_listed_cell(CELL, ID.replace("chat.", "core."))


@given(st.text(alphabet=st.sampled_from("ID\t\n\r\x00achtnaive"), max_size=80))
def test_any_answer_is_the_cell_or_an_input_error(text: str) -> None:
    try:
        found = parse_list((HEADER + text + ROW).encode(), ID)
    except InputError:
        return
    assert found == CELL
