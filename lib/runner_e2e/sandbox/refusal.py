"""The launcher's one way to say no: a stable code, a sentence, a remedy, and an exit status."""

from errno import errorcode
from os import fsdecode

SCHEMA = "runner-e2e.sandbox-refusal/v1"

REFUSED = 125
CANNOT_EXECUTE = 126
NOT_FOUND = 127

CODES = frozenset(
    {
        "usage",
        "hide-missing",
        "hide-root",
        "path-unresolvable",
        "ancestor-unlistable",
        "expose-missing",
        "expose-outside-hidden",
        "expose-reveals-hidden",
        "expose-symlink",
        "expose-unreadable",
        "cwd-hidden",
        "cwd-ancestor",
        "stdio-hidden",
        "command-hidden",
        "hard-link-alias",
        "mount-alias",
        "unsupported-filesystem",
        "threads-running",
        "landlock-unavailable",
        "abi-too-old",
        "layer-limit",
        "hidden-readable",
        "protection-unavailable",
        "exec-failed",
    }
)


class Refusal(Exception):  # noqa: N818 - the contract's word for it; nothing here is an error of ours
    """The command was not started, because `code`; nothing of it was executed."""

    def __init__(  # noqa: PLR0913 - the fields of the refusal line, keyword only
        self,
        code: str,
        message: str,
        remedy: str,
        *,
        path: bytes | None = None,
        errno: int | None = None,
        status: int = REFUSED,
    ) -> None:
        assert code in CODES, code  # noqa: S101 - a typo here would break the contract
        super().__init__(message)
        self.code = code
        self.message = message
        self.remedy = remedy
        self.path = path
        self.errno = errno
        self.status = status

    def fields(self) -> dict[str, object]:
        """The refusal as the fields of `runner-e2e.sandbox-refusal/v1`."""
        fields: dict[str, object] = {
            "schema": SCHEMA,
            "code": self.code,
            "path": None if self.path is None else fsdecode(self.path),
            "message": self.message,
            "remedy": self.remedy,
        }
        if self.errno is not None:
            fields["errno"] = self.errno
            fields["errnoName"] = errorcode.get(self.errno, str(self.errno))
        return fields
