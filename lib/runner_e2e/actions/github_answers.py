"""What GitHub's API answers, checked: the fields that a target needs, and nothing else."""

import base64
import binascii
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from runner_e2e.errors import RunnerE2EError
from runner_e2e.plan.objects import Entry, Listing

Sha = Annotated[str, Field(pattern=r"^[0-9a-f]{40}\z")]
Mode = Annotated[str, Field(pattern=r"^[0-7]{5,6}\z")]

_WHO_ANSWERS = "Check GITHUB_API_URL, and whether a proxy answers in GitHub's place"


class Answer(BaseModel):
    """An answer's body. Unknown fields are ignored, known ones must have their exact type."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True, hide_input_in_errors=True)


class RepositoryAnswer(Answer):
    """`GET /repos/{owner}/{repo}`."""

    id: Annotated[int, Field(ge=1)]
    full_name: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,100}/[A-Za-z0-9._-]{1,100}\z")]
    default_branch: Annotated[str, Field(min_length=1)]


class Head(Answer):
    """The commit that a branch is at."""

    sha: Sha


class BranchAnswer(Answer):
    """`GET /repos/{owner}/{repo}/branches/{branch}`."""

    name: str
    commit: Head


class CommitAnswer(Answer):
    """`GET /repos/{owner}/{repo}/git/commits/{sha}`."""

    sha: Sha
    tree: Head


class TreeItem(Answer):
    """One entry of a tree."""

    path: Annotated[str, Field(min_length=1)]
    mode: Mode
    sha: Sha
    size: Annotated[int, Field(ge=0)] | None = None


class TreeAnswer(Answer):
    """`GET /repos/{owner}/{repo}/git/trees/{sha}`."""

    sha: Sha
    tree: tuple[TreeItem, ...]
    truncated: bool

    def listing(self) -> Listing:
        """Return the entries; two of one name are a malformed answer."""
        entries = {item.path: Entry(int(item.mode, 8), item.sha, item.size) for item in self.tree}
        if len(entries) != len(self.tree):
            raise malformed("a tree")
        return Listing(entries, complete=not self.truncated)


class BlobAnswer(Answer):
    """`GET /repos/{owner}/{repo}/git/blobs/{sha}`."""

    sha: Sha
    content: str
    encoding: Literal["base64", "utf-8"]

    def content_bytes(self) -> bytes:
        """Return the file's bytes."""
        if self.encoding == "utf-8":
            return self.content.encode("utf-8", "surrogatepass")
        try:
            return base64.b64decode("".join(self.content.split()), validate=True)
        except (binascii.Error, ValueError):
            raise malformed("a file") from None


_Kind = TypeVar("_Kind", bound=Answer)


def read_answer(kind: type[_Kind], body: str, subject: str) -> _Kind:
    """Return a body as `kind`; `subject` names for people what was asked for."""
    try:
        return kind.model_validate_json(body)
    except ValidationError:
        # Not chained: the original error lists foreign keys.
        raise malformed(subject) from None


class OversizedAnswerError(RunnerE2EError):
    """An answer is larger than what was asked for can be; the rest of it was not read."""


def oversized(subject: str, max_bytes: int) -> OversizedAnswerError:
    """Return the error for an answer of more than `max_bytes`."""
    return OversizedAnswerError(
        f"The API's answer about {subject} has more than {max_bytes} bytes", _WHO_ANSWERS
    )


def malformed(subject: str) -> RunnerE2EError:
    """Return the error for an answer that cannot be read."""
    return RunnerE2EError(
        f"The API's answer about {subject} is malformed",
        _WHO_ANSWERS,
    )
