"""The gateway between the agents of a paid cell on the real product and their provider.

It runs for every such cell, also for one without a limit: agents show its token, and the credential stays in
this process.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runner_e2e.cell.paperclip_opencode import get_request_name
from runner_e2e.cell.spending import build_budget_error, running_gateway_of
from runner_e2e.errors import CancelledError, RunnerE2EError
from runner_e2e.plan.keys import hidden_names

if TYPE_CHECKING:
    from runner_e2e.cell.attempt import Attempt
    from runner_e2e.cell.paperclip_request import PaperclipRequest
    from runner_e2e.cell.spending import Running


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where agents find their model, and the key that each of them shows there."""

    base_url: str
    key: str = field(repr=False)


class Provider:
    """The provider of an attempt's agents; of a cell that is not paid for it knows nothing."""

    def __init__(self, attempt: "Attempt", request: "PaperclipRequest") -> None:
        if request.task.credential is not None and request.paid is None:
            raise ValueError("a paid cell needs its credential")
        self._attempt = attempt
        self._paid = request.paid
        self._model = get_request_name(request.task.model)
        self._gateway: Running | None = None

    @property
    def secrets(self) -> tuple[str, ...]:
        """The credential, and the gateway's token once there is one."""
        token = () if self._gateway is None else self._gateway.secrets
        return token if self._paid is None else (self._paid.credential, *token)

    @contextlib.contextmanager
    def running(self) -> Iterator[Endpoint | None]:
        """Run the gateway meanwhile; without one yield None.

        Raises InputError, which names nothing of a cell that a key hides, before anything else is done where
        a limit could not be kept.
        """
        if self._paid is None:
            yield None
            return
        paid, attempt = self._paid, self._attempt
        with contextlib.ExitStack() as stack:
            with hidden_names(active=attempt.request.hides_names):
                opened = running_gateway_of(
                    paid.spending, paid.credential_name, paid.credential, self._model, attempt.root.private
                )
                self._gateway = stack.enter_context(opened)
            yield Endpoint(self._gateway.chat_url, self._gateway.gateway.token)

    @contextlib.contextmanager
    def within_limits(self) -> Iterator[None]:
        """Raise BudgetExceededError for a limit that is passed by the end, whatever ended it but a stop."""
        try:
            yield
        except RunnerE2EError as error:
            end = explain_limit(self._exceeded, error)
            if end is error:
                raise
            raise end from error
        self.check_limits()

    def check_limits(self) -> None:
        """Raise BudgetExceededError when a limit is passed."""
        if self._exceeded is not None:
            raise build_budget_error(self._exceeded)

    @property
    def _exceeded(self) -> str | None:
        gateway = self._gateway
        return None if gateway is None or not gateway.exceeded else gateway.limit or "a limit"

    def record(self) -> dict[str, object] | None:
        """Return what was spent, final when the gateway has stopped; None where none ran."""
        return None if self._gateway is None else self._gateway.record()


def explain_limit(exceeded: str | None, error: RunnerE2EError) -> RunnerE2EError:
    """Return how a cell ended that met an error: at the limit that it had passed by then, if any.

    What agents fail of is then that nobody answers them any more. A stop stays one.
    """
    if exceeded is None or isinstance(error, CancelledError):
        return error
    return build_budget_error(exceeded)
