"""Calls of a model through the gateway that a job names. Agents are scripted and make none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx

if TYPE_CHECKING:
    from collections.abc import Mapping

BASE_URL = "PAPERCLIP_E2E_GATEWAY_BASE_URL"
_BODY = {"model": "model", "max_tokens": 100, "messages": [{"role": "user", "content": "Say a word."}]}


class ProviderError(Exception):
    """A call was not answered as it should be."""


def ask_provider(environ: Mapping[str, str], credential: str, times: int) -> None:
    """Make so many calls, each with the cell's credential; raise at the first that does not succeed."""
    if not times:
        return
    url = f"{environ[BASE_URL]}/v1/chat/completions"
    with httpx.Client(timeout=30, trust_env=False) as client:
        for number in range(1, times + 1):
            try:
                answer = client.post(url, json=_BODY, headers={"Authorization": f"Bearer {credential}"})
            except httpx.HTTPError as error:
                raise ProviderError(f"the provider did not answer call {number}: {error}") from error
            if answer.status_code != 200:
                raise ProviderError(f"the provider answered call {number} with {answer.status_code}")
