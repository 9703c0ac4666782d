"""From a branch or a checkout to the commit under test, its id transport and its sandbox's owner.

Owns the rule that only the workflow's own repository is a target: to dispatch a branch is to let its
code hold a credential. Decided once per campaign; nothing here is asked again for a cell.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

from runner_e2e.errors import InputError
from runner_e2e.plan.branches import is_branch_name
from runner_e2e.plan.marker import HARNESS_DIRECTORY, LAUNCH, SELECTORS, describe, scan
from runner_e2e.plan.objects import (
    Found,
    Kind,
    Listing,
    ObjectSource,
    find_listing,
    is_sha,
    judge_entry,
    read_file,
)
from runner_e2e.plan.transport import (
    Policy,
    Scan,
    ScannedFile,
    Support,
    Transport,
    check_policy,
    decide_transport,
)

Owner = Literal["target", "action"]
# What a behavioural probe of the checkout finds.
Probe = Callable[[], Support]

_SANDBOX = re.compile(r"agent-filesystem-sandbox\.[A-Za-z0-9]+")


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository as the API names it, after renames."""

    id: int
    full_name: str
    default_branch: str


@dataclass(frozen=True, slots=True)
class Home:
    """The repository that the workflow belongs to (GITHUB_REPOSITORY_ID and GITHUB_REPOSITORY)."""

    repository_id: int | None
    full_name: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetRequest:
    """What the caller asks for. `repository` is `owner/name`, for `branch`."""

    repository: str | None = None
    branch: str | None = None
    sha: str | None = None
    policy: Policy = "auto"
    require_hidden_id: bool = False


@dataclass(frozen=True, slots=True)
class Harness:
    """What the target's harness directory says at one commit."""

    scan: Scan
    sandbox_owner: Owner


@dataclass(frozen=True, slots=True)
class Target:
    """The commit under test. `ref` and `repository` are None for a checkout without a branch."""

    sha: str
    ref: str | None
    repository: str | None
    transport: Transport
    sandbox_owner: Owner

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return what a person should hear about the decisions."""
        return self.transport.warnings


class Repositories(Protocol):
    """The API, as far as a target needs it."""

    def repository(self, full_name: str) -> Repository:
        """Return the repository that has, or had, this name."""
        ...

    def branch_sha(self, repository: Repository, branch: str) -> str:
        """Return the commit at the head of a branch."""
        ...

    def objects(self, repository: Repository) -> ObjectSource:
        """Return the objects of a repository."""
        ...


class Checkout(ObjectSource, Protocol):
    """A local checkout."""

    def read_head(self) -> str:
        """Return the commit that is checked out."""
        ...


def resolve_target(
    request: TargetRequest,
    home: Home,
    repositories: Repositories | None,
    checkout: Checkout | None,
    probe: Probe | None = None,
) -> Target:
    """Return the target, from the API, a checkout, or both; both have to name the same commit.

    At most eight calls of the API, fewer with a checkout. `probe` runs the target's code, so it is asked
    last, when it is known that the checkout is the commit.
    """
    if request.sha is not None and not is_sha(request.sha):
        raise InputError("target-sha is no commit id", "Give 40 lower-case hexadecimal digits")
    check_policy(request.policy, require_hidden_id=request.require_hidden_id)
    repository = sha = None
    source: ObjectSource | None = checkout
    if request.branch is not None:
        client = _require_client(repositories)
        repository, sha = _resolve_branch(request, request.branch, home, client)
        source = checkout or client.objects(repository)
    if checkout is not None:
        sha = check_head(checkout, sha or request.sha)
    if source is None or sha is None:
        raise InputError("No target is named", "Give target-branch, or target-path with a checkout of it")
    harness = read_harness(source, sha)
    transport = decide_transport(
        request.policy,
        require_hidden_id=request.require_hidden_id,
        scan=harness.scan,
        probe=None if probe is None else probe(),
    )
    return Target(
        sha=sha,
        ref=None if request.branch is None else f"refs/heads/{request.branch}",
        repository=None if repository is None else repository.full_name,
        transport=transport,
        sandbox_owner=harness.sandbox_owner,
    )


def check_same_repository(found: Repository, home: Home) -> None:
    """Refuse any repository but the workflow's own; the id decides, because names change hands."""
    if home.repository_id is not None:
        same = found.id == home.repository_id
    elif home.full_name is not None:
        same = found.full_name.lower() == home.full_name.lower()
    else:
        raise InputError(
            "It is not known which repository this workflow belongs to",
            "Set GITHUB_REPOSITORY to its owner/name, as the runner does",
        )
    if not same:
        raise InputError(
            f"{found.full_name} is not the repository of this workflow",
            "Name a branch of the workflow's own repository: no other code may hold its credentials",
        )


def read_harness(source: ObjectSource, sha: str) -> Harness:
    """Return what the harness directory says at commit `sha`."""
    listing = find_listing(source, sha, HARNESS_DIRECTORY)
    if isinstance(listing, Found):
        _refuse_detour(listing)
        complete = listing.kind is not Kind.UNLISTED
        absent = Scan("unknown", describe(SELECTORS, Kind.MISSING if complete else Kind.UNLISTED))
        return Harness(absent, _decide_owner(Listing({}, complete)))
    owner = _decide_owner(listing)
    return Harness(_scan_files(source, listing), owner)


def _require_client(repositories: Repositories | None) -> Repositories:
    if repositories is None:
        raise InputError(
            "A branch can only be resolved over the API", "Give github-token, or only target-path"
        )
    return repositories


def _resolve_branch(
    request: TargetRequest, branch: str, home: Home, client: Repositories
) -> tuple[Repository, str]:
    if not is_branch_name(branch):
        raise InputError(
            "target-branch is no branch name",
            "Give the name as git branch shows it, without refs/heads/ before it, at most 255 characters",
        )
    if request.repository is None:
        raise InputError("The target's repository is not named", "Give target-repository as owner/name")
    repository = client.repository(request.repository)
    check_same_repository(repository, home)
    sha = client.branch_sha(repository, branch)
    if request.sha is not None and request.sha != sha:
        raise InputError(
            f"Branch {branch} is at {sha}, not at target-sha",
            "Start the campaign again, or leave target-sha out",
        )
    return repository, sha


def check_head(checkout: Checkout, wanted: str | None) -> str:
    """Return the commit that is checked out; with `wanted` it has to be that one."""
    head = checkout.read_head()
    if wanted is not None and head != wanted:
        raise InputError(
            f"The checkout is at {head}, not at {wanted}", "Check out that commit; the branch may have moved"
        )
    return head


def _refuse_detour(found: Found) -> None:
    if found.kind in {Kind.SYMLINK, Kind.SUBMODULE}:
        raise InputError(
            f"{found.path} of the target is a {found.kind}, so nobody can say what is below it",
            "Make it a directory of the target's own repository",
        )


def _decide_owner(listing: Listing) -> Owner:
    """Return whether the target ships its own sandbox; a directory of that name is none."""
    owner: Owner = "action"
    for found in _find_sandboxes(listing):
        if found.kind in {Kind.SYMLINK, Kind.SUBMODULE, Kind.IRREGULAR}:
            raise InputError(
                f"{found.path} of the target is a {found.kind}, so nobody can say whose sandbox it is",
                "Make it a regular file, or remove it",
            )
        if found.kind in {Kind.FILE, Kind.TOO_LARGE}:
            owner = "target"
    if owner == "action" and not listing.complete:
        raise InputError(
            "The API lists the target's files only in part, so nobody can say who owns the sandbox",
            "Check the target out and give target-path",
        )
    return owner


def _find_sandboxes(listing: Listing) -> Iterator[Found]:
    for name in sorted(listing.entries):
        if _SANDBOX.fullmatch(name):
            yield judge_entry(listing, name, f"{HARNESS_DIRECTORY}/{name}")


def _scan_files(source: ObjectSource, listing: Listing) -> Scan:
    contents: list[bytes] = []
    files: list[ScannedFile] = []
    for name in (SELECTORS, LAUNCH):
        found = judge_entry(listing, name, f"{HARNESS_DIRECTORY}/{name}")
        content = read_file(source, found)
        if isinstance(content, Kind):
            return Scan("unknown", describe(name, content), tuple(files))
        contents.append(content)
        if found.entry is not None:
            files.append(ScannedFile(found.path, found.entry.sha, len(content)))
    judged = scan(*contents)
    return Scan(judged.result, judged.reason, tuple(files))
