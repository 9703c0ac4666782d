"""Keep secrets out of what is uploaded: exact values, longest first, raw and JSON-escaped."""

import json
from collections.abc import Iterable

REPLACEMENT = b"[redacted]"
_SHORTEST = 6  # shorter values would hit ordinary text


class Redactor:
    """Replaces known secret values in bytes."""

    def __init__(self, secrets: Iterable[str]) -> None:
        forms: set[bytes] = set()
        for secret in secrets:
            if len(secret) >= _SHORTEST:
                forms.add(secret.encode("utf-8", "surrogateescape"))
                for ascii_only in (True, False):
                    text = json.dumps(secret, ensure_ascii=ascii_only)[1:-1]
                    forms.add(text.encode("utf-8", "surrogateescape"))
        self._forms = sorted(forms, key=len, reverse=True)

    def redact(self, content: bytes) -> bytes:
        """Return the content with every known secret replaced."""
        for form in self._forms:
            content = content.replace(form, REPLACEMENT)
        return content
