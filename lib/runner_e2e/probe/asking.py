"""Ask a launched program one question."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


def ask(
    command: Sequence[Path | str],
    question: bytes,
    directory: Path,
    variables: Mapping[str, str],
    timeout_s: float,
) -> tuple[bytes, int]:
    """Return what a command prints when it is given `question`, and its exit status.

    It starts in `directory` with these variables alone. Raises OSError where it cannot be started and
    subprocess.TimeoutExpired when it takes longer. Whatever ends this early, a stop too, ends all that the
    command has started.
    """
    with subprocess.Popen(
        [os.fspath(word) for word in command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=directory,
        env=dict(variables),
        start_new_session=True,
    ) as process:
        try:
            answer, _ = process.communicate(question, timeout_s)
        except BaseException:
            # What the command has started holds its pipes, or all of it is gone already.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
    return answer, process.returncode
