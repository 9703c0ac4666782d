"""What a cell needs of the real product's REST API beyond what the reference has of it."""

from collections.abc import Mapping

from runner_e2e.cell.control_plane import Body, ControlPlane, rows_of
from runner_e2e.errors import TransientInfrastructureError

# What becomes of what was asked, by an answer that says yes.
_ANSWERED = ("answered", "accepted")
# The server gives no more events at once.
_PAGE = 1000
_MOST_PAGES = 20


class PaperclipApi(ControlPlane):
    """Talks to one server as the board; every failure says what was asked for."""

    def address(self, path: str) -> str:
        """Return the URL of a path of the API."""
        return str(self._client.base_url.join(path))

    def create_secret(self, company: str, name: str, value: str) -> str:
        """Keep a secret for a company's agents; return its id."""
        return str(self._post(f"/api/companies/{company}/secrets", {"name": name, "value": value})["id"])

    def revisions(self, agent: str) -> list[str]:
        """Return the ids of all changes of an agent's configuration, also of those that were undone."""
        return sorted(
            str(row.get("id")) for row in rows_of(self._get(f"/api/agents/{agent}/config-revisions"))
        )

    def create_note(self, company: str, title: str, description: str) -> str:
        """Create an issue that nobody works on; return its id."""
        body: Body = {"title": title, "description": description, "status": "backlog"}
        return str(self._post(f"/api/companies/{company}/issues", body)["id"])

    def create_work(self, company: str, title: str, description: str, agent: str, work_mode: str) -> str:
        """Create an issue of a work mode, `standard` or `planning`, which queues a run; return its id."""
        body: Body = {
            "title": title,
            "description": description,
            "status": "todo",
            "assigneeAgentId": agent,
            "workMode": work_mode,
        }
        return str(self._post(f"/api/companies/{company}/issues", body)["id"])

    def issue(self, issue: str) -> Body:
        """Return an issue, with the summary of its plan."""
        answer = self._get(f"/api/issues/{issue}")
        return answer if isinstance(answer, dict) else {}

    def interactions(self, issue: str) -> list[Body]:
        """Return what was asked on an issue, of whomever, answered or not."""
        return rows_of(self._get(f"/api/issues/{issue}/interactions"))

    def events(self, run: str) -> list[Body]:
        """Return what the server recorded of a run, oldest first, 20,000 events at most."""
        found: list[Body] = []
        for _ in range(_MOST_PAGES):
            after = str(found[-1].get("seq")) if found else "0"
            query = {"limit": str(_PAGE), "afterSeq": after}
            page = rows_of(self._get(f"/api/heartbeat-runs/{run}/events", query))
            found += page
            if len(page) < _PAGE:
                break
        return found

    def answer(self, issue: str, interaction: str, verb: str, body: Body) -> None:
        """Answer as the board what was asked on an issue: `respond`, or `accept`.

        Raises TransientInfrastructureError for an answer that the server does not take.
        """
        answer = self._post(f"/api/issues/{issue}/interactions/{interaction}/{verb}", body)
        if answer.get("status") not in _ANSWERED:
            raise TransientInfrastructureError(
                f"The server took an answer, and calls what was asked {answer.get('status')}",
                "Read its output in server.log",
            )

    def reopen(self, issue: str, body: str) -> None:
        """Comment on an issue as the board, and open it again, which queues a run."""
        self._post(f"/api/issues/{issue}/comments", {"body": body, "reopen": True})

    def messages(self, issue: str, agent: str) -> list[str]:
        """Return what an agent said on an issue, oldest first."""
        rows = rows_of(self._get(f"/api/issues/{issue}/comments"))
        own = [row for row in rows if row.get("authorAgentId") == agent]
        return [str(row.get("body", "")) for row in sorted(own, key=lambda row: str(row.get("createdAt")))]

    def has_spoken(self, issue: str, run: str) -> bool:
        """Whether a comment of a run stands on an issue."""
        rows = rows_of(self._get(f"/api/issues/{issue}/comments"))
        return any(row.get("createdByRunId") == run for row in rows)


def bind_secrets(config: Mapping[str, object], secrets: Mapping[str, str]) -> dict[str, object]:
    """Return an agent's configuration with each `{secretRef: NAME}` of its `env` bound to a secret's id.

    A name without a secret keeps its place, and the server refuses it.
    """
    bound = dict(config)
    variables = config.get("env")
    if isinstance(variables, Mapping):
        bound["env"] = {name: _bind(value, secrets) for name, value in variables.items()}
    return bound


def _bind(value: object, secrets: Mapping[str, str]) -> object:
    name = value.get("secretRef") if isinstance(value, Mapping) else None
    if isinstance(name, str) and name in secrets:
        return {"type": "secret_ref", "secretId": secrets[name], "version": "latest"}
    return value
