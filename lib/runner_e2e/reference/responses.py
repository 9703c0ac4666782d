"""How the API answers: JSON bodies, and errors that never carry a traceback."""

from collections.abc import Iterable
from typing import TypeVar

from pydantic import BaseModel, JsonValue, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from runner_e2e.reference.records import Record, build_body

_MAX_BODY_BYTES = 8 * 1024 * 1024

B = TypeVar("B", bound=BaseModel)
T = TypeVar("T")


def reply(record: Record, status: int = 200) -> Response:
    """Answer with one record."""
    return JSONResponse(build_body(record), status)


def reply_all(records: Iterable[Record]) -> Response:
    """Answer with a list of records."""
    return JSONResponse([build_body(record) for record in records])


def found(record: T | None, what: str) -> T:
    """Return the record, or answer 404."""
    if record is None:
        raise HTTPException(404, f"{what} not found")
    return record


async def read_body(request: Request) -> bytes:
    """Return a request's body, or answer 413."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MAX_BODY_BYTES:
            raise HTTPException(413, "Body is too large")
    return bytes(body)


def parse_body(make: type[B], text: bytes | str, status: int = 400) -> B:
    """Return a parsed body, or answer `status` naming the fields."""
    try:
        return make.model_validate_json(text or "{}")
    except ValidationError as error:
        raise HTTPException(status, _describe(error)) from None


def parse_value(make: type[B], value: dict[str, JsonValue], status: int) -> B:
    """Return a parsed part of a body, or answer `status` naming the fields."""
    try:
        return make.model_validate(value)
    except ValidationError as error:
        raise HTTPException(status, _describe(error)) from None


def _describe(error: ValidationError) -> str:
    problems = sorted(
        f"{'.'.join(map(str, entry['loc'])) or 'body'}: {entry['msg']}" for entry in error.errors()
    )
    return "Validation error: " + "; ".join(problems)


async def answer_http_error(_request: Request, error: Exception) -> Response:
    """Answer a refused request."""
    if not isinstance(error, HTTPException):
        return await answer_crash(_request, error)
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)


async def answer_crash(_request: Request, _error: Exception) -> Response:
    """Answer a request that met a fault of the server; the log has the details."""
    return JSONResponse({"error": "Internal server error"}, 500)
