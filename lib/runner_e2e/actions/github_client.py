"""GitHub's REST API behind the protocols of `plan`: repository, branch, and git objects.

Owns what an answer means and when to ask again: one budget limits all waiting, one deadline all requests,
and a redirect is followed only within the API and the repository.
"""

import re
from dataclasses import dataclass, replace
from types import TracebackType
from typing import NoReturn, Self
from urllib.parse import quote

from github.Requester import Requester

from runner_e2e.actions.github_answers import (
    BlobAnswer,
    BranchAnswer,
    CommitAnswer,
    OversizedAnswerError,
    RepositoryAnswer,
    TreeAnswer,
    malformed,
    oversized,
    read_answer,
)
from runner_e2e.actions.github_transport import REDIRECTS, Answer, Transport
from runner_e2e.actions.github_waiting import (
    DEADLINE_S,
    MAX_TRIES,
    Clock,
    WaitBudget,
    plan_backoff,
    read_rate_limit,
    read_retry_after,
    show_time,
)
from runner_e2e.errors import InputError, RunnerE2EError, TransientInfrastructureError
from runner_e2e.plan.objects import MAX_FILE_BYTES, Entry, LargeObjectError, Listing
from runner_e2e.plan.target import Repository

MAX_REDIRECTS = 3
MAX_ANSWER_BYTES = 8 * 1024 * 1024  # GitHub cuts a tree off at 7 MB
# Base64 with an escaped line end after every 60 characters, and room for the other fields.
MAX_BLOB_ANSWER_BYTES = MAX_FILE_BYTES * 3 // 2 + 64 * 1024

_FULL_NAME = re.compile(r"(?!\.{1,2}/)[A-Za-z0-9._-]{1,100}/(?!\.{1,2}\Z)[A-Za-z0-9._-]{1,100}")
_ANY_REPOSITORY = re.compile(r"/repositories/[0-9]+|/repos/[A-Za-z0-9._-]+/[A-Za-z0-9._-]+")
_RETRIED = frozenset({202, 408, 500, 502, 503, 504})
_AGAIN = "Start the job again"


class NotFoundError(InputError):
    """The API has nothing of that name, or hides it from this token."""


@dataclass(frozen=True, slots=True)
class _Question:
    """A path to ask for. `inside` matches where a redirect of it may lead, `subject` names it for people.

    `permission` is what a token needs to read it.
    """

    path: str
    subject: str
    inside: re.Pattern[str]
    max_bytes: int = MAX_ANSWER_BYTES
    permission: str = "contents: read"


class GitHubClient:
    """Reads one API on behalf of one token; without a token only what is public.

    Close it, or use it in a `with` statement. All its requests together may take `deadline_s`.
    """

    def __init__(
        self, api_url: str, token: str | None, clock: Clock | None = None, deadline_s: float = DEADLINE_S
    ) -> None:
        self._transport = Transport(api_url, token)
        self._clock = clock or Clock()
        self._budget = WaitBudget(self._clock, deadline_s)

    @property
    def requests(self) -> int:
        """How many requests were sent."""
        return self._transport.sent

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._transport.close()

    def repository(self, full_name: str) -> Repository:
        """Return the repository that has this name, or had it before it was renamed."""
        if not _FULL_NAME.fullmatch(full_name):
            raise InputError("The target's repository has no usable name", "Give it as owner/name")
        question = _Question(f"/repos/{full_name}", f"repository {full_name}", _ANY_REPOSITORY)
        answer = read_answer(RepositoryAnswer, self._ask(question), question.subject)
        return Repository(answer.id, answer.full_name, answer.default_branch)

    def branch_sha(self, repository: Repository, branch: str) -> str:
        """Return the commit at the head of a branch; a branch that was renamed is refused."""
        subject = f"branch {branch} of {repository.full_name}"
        path = f"/branches/{quote(branch, safe='')}"
        answer = read_answer(BranchAnswer, self._ask(_ask_inside(repository, path, subject)), subject)
        if answer.name != branch:
            raise InputError(
                f"The API answers another branch than {branch}, which may have been renamed",
                "Give target-branch as the repository spells it",
            )
        return answer.commit.sha

    def objects(self, repository: Repository) -> "GitHubObjects":
        """Return the objects of a repository."""
        return GitHubObjects(self, repository)

    def ask_inside(
        self,
        repository: Repository,
        path: str,
        subject: str,
        max_bytes: int = MAX_ANSWER_BYTES,
        permission: str = "contents: read",
    ) -> str:
        """Return the body of a path below a repository; see `_ask` for the errors."""
        question = _ask_inside(repository, path, subject)
        return self._ask(replace(question, max_bytes=max_bytes, permission=permission))

    def _ask(self, question: _Question) -> str:
        """Return the body of an answer with status 200.

        Follows redirects, and repeats what may pass, within the budget. Raises `InputError` for what
        the caller can mend, `TransientInfrastructureError` when another time may be better, and
        `OversizedAnswerError`.
        """
        path, redirects, tries = question.path, 0, 0
        while True:
            started = self._clock.monotonic()
            outcome = self._send(path, question)
            if isinstance(outcome, Answer) and outcome.status == 200:
                if not outcome.complete:
                    raise oversized(question.subject, question.max_bytes)
                return outcome.body
            if isinstance(outcome, Answer) and outcome.status in REDIRECTS:
                redirects += 1
                path = self._follow(path, outcome, redirects, question)
                continue
            tries += 1
            self._budget.charge(self._clock.monotonic() - started)
            wait_s, failure = self._judge(outcome, question, tries)
            if tries == MAX_TRIES or not self._budget.pause(wait_s):
                raise failure

    def _send(self, path: str, question: _Question) -> Answer | str:
        left_s = self._budget.left_s()
        if left_s == 0:
            raise self._late(question)
        try:
            return self._transport.send(path, left_s, question.max_bytes)
        except TimeoutError:
            raise self._late(question) from None
        except ValueError:
            raise malformed(question.subject) from None

    def _late(self, question: _Question) -> TransientInfrastructureError:
        return TransientInfrastructureError(
            f"The API did not answer for {question.subject} within the {self._budget.deadline_s:g} s"
            " that all requests may take",
            _AGAIN,
        )

    def _follow(self, path: str, answer: Answer, redirects: int, question: _Question) -> str:
        """Return the path to go on with; the address stays the API's and the repository the same."""
        target = self._transport.resolve(path, answer.headers.get("location", ""))
        if target is None or redirects > MAX_REDIRECTS or not question.inside.match(target):
            raise RunnerE2EError(
                f"The API redirects the request for {question.subject} too often or out of its place",
                "Give target-repository as it is called on the address of GITHUB_API_URL",
            )
        return target

    def _judge(
        self, outcome: Answer | str, question: _Question, tries: int
    ) -> tuple[float, TransientInfrastructureError]:
        """Return how long to wait before another try, and the error when there is none.

        Raises what no try can mend.
        """
        if isinstance(outcome, str):
            problem = f"The API could not be reached for {question.subject} ({outcome})"
            return plan_backoff(tries), TransientInfrastructureError(problem, _AGAIN)
        now = self._clock.now()
        says_limit = Requester.isRateLimitError(_read_message(outcome.body))
        limit = read_rate_limit(outcome.status, outcome.headers, says_limit=says_limit, now=now)
        if limit is not None:
            return limit.wait_s, TransientInfrastructureError(
                f"The API's rate limit is used up until {show_time(limit.resets_at)}",
                f"{_AGAIN} after that time",
            )
        if outcome.status not in _RETRIED:
            self._refuse(outcome.status, question)
        asked = read_retry_after(outcome.headers, now)
        problem = f"The API does not answer for {question.subject} (HTTP {outcome.status})"
        return max(plan_backoff(tries), asked or 0.0), TransientInfrastructureError(problem, _AGAIN)

    def _refuse(self, status: int, question: _Question) -> NoReturn:
        subject = question.subject
        if status == 401:
            problem = "does not accept the token" if self._transport.has_token else "wants a token"
            raise InputError(f"The API {problem} (HTTP 401)", "Give github-token: ${{ github.token }}")
        if status == 403:
            raise InputError(
                f"The token may not read {subject} (HTTP 403)",
                f"Give the job the permission {question.permission}",
            )
        if status == 404:
            raise NotFoundError(
                f"The API finds no {subject} (HTTP 404)",
                "Check the name; a private repository is seen only with a github-token that may read it",
            )
        if status in {409, 410, 451}:
            raise InputError(
                f"The API does not give out {subject} (HTTP {status})", "Look at the repository on GitHub"
            )
        raise RunnerE2EError(
            f"The API answers the request for {subject} with HTTP {status}", "Check GITHUB_API_URL"
        )


class GitHubObjects:
    """The git objects of one repository, one request each."""

    def __init__(self, client: GitHubClient, repository: Repository) -> None:
        self._client = client
        self._repository = repository

    def tree_of(self, commit: str) -> str:
        """Return the SHA of a commit's tree."""
        body, subject = self._read("commit", commit)
        answer = read_answer(CommitAnswer, body, subject)
        _check_same(answer.sha, commit, subject)
        return answer.tree.sha

    def entries(self, tree: str) -> Listing:
        """Return what one tree lists; not complete when the API cuts it off."""
        body, subject = self._read("tree", tree)
        answer = read_answer(TreeAnswer, body, subject)
        _check_same(answer.sha, tree, subject)
        return answer.listing()

    def blob(self, entry: Entry) -> bytes:
        """Return a file's bytes; a file that is listed as too large is not asked for."""
        if (entry.size or 0) > MAX_FILE_BYTES:
            raise LargeObjectError(f"Object {entry.sha} has {entry.size} bytes", "Make the file smaller")
        try:
            body, subject = self._read("blob", entry.sha, MAX_BLOB_ANSWER_BYTES)
        except OversizedAnswerError as error:
            if entry.size is not None:
                raise
            raise LargeObjectError(
                f"Object {entry.sha} has more than {MAX_FILE_BYTES} bytes", "Make the file smaller"
            ) from error
        answer = read_answer(BlobAnswer, body, subject)
        _check_same(answer.sha, entry.sha, subject)
        return answer.content_bytes()

    def _read(self, kind: str, sha: str, max_bytes: int = MAX_ANSWER_BYTES) -> tuple[str, str]:
        subject = f"{kind} {sha} of {self._repository.full_name}"
        return self._client.ask_inside(self._repository, f"/git/{kind}s/{sha}", subject, max_bytes), subject


def _ask_inside(repository: Repository, path: str, subject: str) -> _Question:
    places = (f"/repositories/{repository.id}", f"/repos/{re.escape(repository.full_name)}")
    inside = re.compile(f"(?:{'|'.join(places)})/", re.IGNORECASE)
    return _Question(f"/repos/{repository.full_name}{path}", subject, inside)


def _check_same(found: str, wanted: str, subject: str) -> None:
    if found != wanted:
        raise malformed(subject)


def _read_message(body: str) -> str:
    # Only whether it speaks of a rate limit is of interest, so no parser is needed.
    found = re.search(r'"message"\s*:\s*"([^"]{0,500})', body[:4096])
    return found[1] if found else ""
