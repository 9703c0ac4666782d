"""What the gateway answers by itself, in the shape of the provider's errors. Pure."""

from starlette.responses import JSONResponse

from runner_e2e.gateway.dialects import Dialect

MARK = "x-runner-e2e-gateway"  # tells a refusal of ours from an answer of the provider

_ANTHROPIC_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}
_OPENAI_TYPES = {401: "authentication_error", 402: "insufficient_quota", 429: "rate_limit_error"}


class Problem(Exception):  # noqa: N818 - an answer to a client, not a failure of the program
    """A request that the gateway answers itself. `message` holds nothing of the request's own text."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message

    def answer(self, dialect: Dialect) -> JSONResponse:
        """Return the error as the client of a dialect expects it."""
        return JSONResponse(self._build_body(dialect), self.status, headers={MARK: self.code})

    def _build_body(self, dialect: Dialect) -> dict[str, object]:
        if dialect is Dialect.MESSAGES:
            kind = _ANTHROPIC_TYPES.get(self.status, _fall_back(self.status, "api_error"))
            return {"type": "error", "error": {"type": kind, "message": self.message}}
        kind = _OPENAI_TYPES.get(self.status, _fall_back(self.status, "server_error"))
        return {"error": {"message": self.message, "type": kind, "param": None, "code": self.code}}


def _fall_back(status: int, server_side: str) -> str:
    return server_side if status >= 500 else "invalid_request_error"
