"""Which credential a cell gets: the one that it needs, under the name that the caller gives. Pure."""

from collections.abc import Mapping, Sequence

from runner_e2e.errors import InputError
from runner_e2e.isolation.harness import choose_credentials


def choose_cell_credentials(
    name: str | None,
    credential: str | None,
    needed: str | None,
    required: Sequence[str],
    environ: Mapping[str, str],
) -> dict[str, str]:
    """Return exactly what the cell needs: `required`, among them `needed`, its provider's.

    `credential` is given under `name`; another name than `needed` is a mistake in the workflow. Raises
    InputError, which names variables alone.
    """
    if name is not None and name != needed:
        raise InputError(
            f"Input credential-name is {name}, and the cell needs {needed or 'none'}",
            "Give the credential that the matrix row names (credentialName), and only where it names one",
        )
    given = {} if name is None or credential is None else {name: credential}
    return choose_credentials(environ, required, given)
