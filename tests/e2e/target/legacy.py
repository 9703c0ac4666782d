"""An agent of the older kind: no runner, just a process of the server's that uses the API with its key."""

from __future__ import annotations

import secrets
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner_e2e.cell.control_plane import FINAL_RUN
from runner_e2e.errors import AttemptTimeoutError

if TYPE_CHECKING:
    from runner_e2e.cell.control_plane import ControlPlane

# It is told its run, and asks which issue that is about.
_SOURCE = """
import json, os, urllib.request as web
base, run = os.environ["PAPERCLIP_API_URL"], os.environ["PAPERCLIP_RUN_ID"]
opener = web.build_opener(web.ProxyHandler({}))
with opener.open(f"{base}/api/heartbeat-runs/{run}") as answer:
    issue = json.load(answer)["contextSnapshot"]["issueId"]
headers = {
    "Authorization": "Bearer " + os.environ["PAPERCLIP_API_KEY"],
    "x-paperclip-run-id": run,
    "Content-Type": "application/json",
}
body = json.dumps({"status": "done", "comment": "Done."}).encode()
opener.open(web.Request(f"{base}/api/issues/{issue}", body, headers, method="PATCH")).close()
"""


@dataclass(frozen=True)
class Ended:
    """What became of the one run."""

    run: str
    issue: str
    run_status: str
    issue_status: str


def run_legacy_agent(client: ControlPlane, company: str, deadline: float) -> Ended:
    """Let one agent of the `process` adapter close one issue; `deadline` is monotonic."""
    config = {"command": sys.executable, "args": ["-I", "-c", _SOURCE]}
    agent = client.create_agent(company, "eve", "process", config)
    title = f"Close this ({secrets.token_hex(4)})"
    issue = client.create_issue(company, title, "Close this issue.", agent)
    while True:
        runs = client.runs(company, agent)
        if runs and runs[-1].get("status") in FINAL_RUN:
            run = runs[-1]
            return Ended(str(run["id"]), issue, str(run["status"]), client.issue_status(issue))
        if time.monotonic() > deadline:
            raise AttemptTimeoutError("The agent did not finish in time", "Read server.log")
        time.sleep(0.05)
