"""How long hostile output may keep the classification of a failure."""

from __future__ import annotations

import time

import pytest

from runner_e2e.cell.classification import classify_end, classify_text

pytestmark = pytest.mark.extended

HOSTILE = 1 << 17
MOST_S = 6.0  # a tenth of that is usual; quadratic time would be minutes


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(piece * (HOSTILE // len(piece)), id=ascii(piece[:20]))
        for piece in (
            *(
                '"',
                '\\"',
                "'",
                "`",
                '" ',
                "' ",
                "\x1b[",
                "\x1b[0",
                "\x1b]",
                " ",
                "a",
                "a ",
                "a_",
                "_",
                "0",
                "1 ",
            ),
            *(
                "server ",
                "server request ",
                "server_",
                "timeout ",
                "failed to ",
                "missing ",
                "missing a ",
                "before ",
            ),
            *(
                "browser bootstrap failed before ",
                "ACPX open ",
                "timeout observed ",
                "model a ",
                "status ",
                "error ",
            ),
            *(
                "no secret ",
                "redact ",
                "api-key ",
                "key ",
                "cleanup ",
                "\n",
                "a\n",
                "error\n",
                "x-ratelimit-",
                "HTTP ",
            ),
        )
    ],
)
def test_long_hostile_text_takes_no_quadratic_time(text: str) -> None:
    started = time.process_time()

    classify_text(text)
    classify_end(1, text.encode(), timed_out=False)

    assert time.process_time() - started < MOST_S
