"""What a cell needs of the real product's REST API beyond what the reference has of it."""

from collections.abc import Mapping

from runner_e2e.cell.control_plane import Body, ControlPlane, rows_of


class PaperclipApi(ControlPlane):
    """Talks to one server as the board; every failure says what was asked for."""

    def address(self, path: str) -> str:
        """Return the URL of a path of the API."""
        return str(self._client.base_url.join(path))

    def create_secret(self, company: str, name: str, value: str) -> str:
        """Keep a secret for a company's agents; return its id."""
        return str(self._post(f"/api/companies/{company}/secrets", {"name": name, "value": value})["id"])

    def create_note(self, company: str, title: str, description: str) -> str:
        """Create an issue that nobody works on; return its id."""
        body: Body = {"title": title, "description": description, "status": "backlog"}
        return str(self._post(f"/api/companies/{company}/issues", body)["id"])

    def reopen(self, issue: str, body: str) -> None:
        """Comment on an issue as the board, and open it again, which queues a run."""
        self._post(f"/api/issues/{issue}/comments", {"body": body, "reopen": True})

    def messages(self, issue: str, agent: str) -> list[str]:
        """Return what an agent said on an issue, oldest first."""
        rows = rows_of(self._get(f"/api/issues/{issue}/comments"))
        own = [row for row in rows if row.get("authorAgentId") == agent]
        return [str(row.get("body", "")) for row in sorted(own, key=lambda row: str(row.get("createdAt")))]


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
