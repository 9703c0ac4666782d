"""A cell whose server uses the caller's Postgres: a database of its own, closed to agents, then gone."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import secrets
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from e2e.checkout import Checkout, attempts, private_directory, wait_for
from runner_e2e.cell.paperclip_ports import find_free_port

from .cells import SCRIPTED, evidence_of, run_cell
from .test_bad_input import drive, ended_as

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner_e2e.product.installation import Installation

SINGLE = f"{SCRIPTED}chat.single-turn"
# What an agent finds of the address in the processes that it may look at and in its instance, and whether it
# gets to the port. OpenCode must not see what it runs, or its own rules refuse it; and the instance holds
# what is run, which must not be found there. What it sees of its own OpenCode shows that it looked.
LOOK = """\
found=$(cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep -c -e DATABASE_ -e WORD)
seen=$(cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep -c ^XDG_DATA_HOME=)
test "$seen" -gt 0 && seen=some
if (exec 3<>/dev/tcp/127.0.0.1/PORT) 2>/dev/null; then way=open; else way=closed; fi
if grep -rqs WORD "$(dirname "$(dirname "$PWD")")"; then kept=yes; else kept=no; fi
echo "found-$found seen-$seen way-$way kept-$kept"
"""
STEPS = """\
- tool: {name: bash, arguments: {description: Look, command: 'echo PROGRAM | base64 -d | bash'}}
- text: 'The word is {nonce}.'
  expect: {tool_result_contains: 'found-0 seen-some way-closed kept-no'}
"""
ASK = """
import { readFileSync } from "node:fs";
const { url, client, statement } = JSON.parse(readFileSync(0, "utf8"));
const sql = (await import(client)).default(url, { max: 1, onnotice: () => {} });
process.stdout.write(JSON.stringify(await sql.unsafe(statement)));
await sql.end();
"""


@dataclass(frozen=True, slots=True)
class Postgres:
    """A server with one role that is its owner, and how to ask it."""

    installation: Installation
    port: int
    password: str

    def url(self, user: str = "cells", password: str | None = None) -> str:
        return f"postgres://{user}:{password or self.password}@127.0.0.1:{self.port}/postgres"

    def ask(self, statement: str) -> str:
        client = self.installation.packages / "node_modules/postgres/src/index.js"
        told = f'{{"url": "{self.url()}", "client": "{client}", "statement": "{statement}"}}'
        command = [str(self.installation.node), "--input-type=module", "--eval", ASK]
        done = subprocess.run(command, input=told, capture_output=True, text=True, timeout=60, check=True)
        return str(done.stdout)

    def databases(self) -> set[str]:
        rows = json.loads(self.ask("SELECT datname FROM pg_database WHERE NOT datistemplate"))
        return {str(row["datname"]) for row in rows}


@pytest.fixture(scope="module")
def postgres(ordinary: Checkout, installation: Installation) -> Iterator[Postgres]:
    """The installation's own Postgres, run as the cell's user, where its agents could reach it."""
    programs, password, port = installation.postgres / "bin", secrets.token_hex(12), find_free_port()
    found = Postgres(installation, port, password)
    with private_directory("postgres") as place, contextlib.ExitStack() as stack:
        (place / "password").write_text(password, encoding="ascii")
        if ordinary.uid is not None:
            os.chown(place / "password", ordinary.uid, ordinary.uid)
        data = place / "data"
        make = [programs / "initdb", "-D", data, "-U", "cells", "-A", "scram-sha-256", "--no-sync"]
        words = [str(word) for word in (*make, f"--pwfile={place / 'password'}")]
        ended = ordinary.run(words, place, {"LC_ALL": "C"})
        assert ended.status == 0, ended.stderr
        command = [str(programs / "postgres"), "-D", str(data), "-p", str(port)]
        command += ["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="]
        process = stack.enter_context(ordinary.start(command, place))
        stack.callback(process.terminate)
        wait_for(lambda: _answers(found), "Postgres does not answer")
        found.ask("CREATE ROLE plain LOGIN PASSWORD 'a-plain-password'")
        yield found


def _answers(postgres: Postgres) -> bool:
    try:
        return "postgres" in postgres.databases()
    except subprocess.CalledProcessError:
        return False


@pytest.mark.extended
def test_the_server_uses_it_and_agents_neither_see_the_address_nor_reach_the_port(
    ordinary: Checkout, postgres: Postgres
) -> None:
    with private_directory("external") as place:
        program = LOOK.replace("PORT", str(postgres.port)).replace("WORD", postgres.password)
        steps = STEPS.replace("PROGRAM", base64.b64encode(program.encode()).decode())
        before, roots = postgres.databases(), attempts()

        ended = drive(ordinary, place, SINGLE, "{}", steps, DATABASE_URL=postgres.url())

        assert ended.status == 0, ended.stdout + ended.stderr
        evidence = evidence_of(place, SINGLE)
        assert b"Using external PostgreSQL" in evidence.log
        assert [launch["closedPorts"] for launch in evidence.probe["launches"]] == [[postgres.port]]
        assert postgres.databases() == before
        assert not [path for path in attempts() - roots if path.exists() and path.owner() == place.owner()]
        for path in (*evidence.directory.rglob("*"), *place.rglob("*.json")):
            assert path.is_dir() or postgres.password.encode() not in path.read_bytes(), path
        assert postgres.password not in ended.stdout + ended.stderr


@pytest.mark.extended
def test_a_cell_that_is_killed_names_the_database_that_it_leaves(
    ordinary: Checkout, postgres: Postgres
) -> None:
    with private_directory("killed") as place:
        before = postgres.databases()
        command = [str(ordinary.python), "-I", str(ordinary.project / "entrypoints" / "run_cell.py")]
        inputs = {"INPUT_HARNESS": "built-in", "INPUT_ID": SINGLE, "DATABASE_URL": postgres.url()}
        with ordinary.start(command, place, inputs) as process:
            assert process.stdout is not None
            assert any("Starting the server" in line for line in process.stdout)
            process.kill()
            process.communicate()
        sweep = [command[0], "-I", str(ordinary.project / "entrypoints" / "sweep_cell.py")]

        swept = ordinary.run(sweep, place)

        (left,) = postgres.databases() - before
        assert swept.status == 3, swept
        cell = evidence_of(place, SINGLE).cell
        assert cell["failureClass"] == "cleanup_failure"
        assert f"DROP DATABASE IF EXISTS {left} WITH (FORCE)." in cell["message"]
        assert postgres.password not in json.dumps(cell)
        postgres.ask(f"DROP DATABASE IF EXISTS {left} WITH (FORCE)")


@pytest.mark.parametrize(
    ("user", "password", "status", "failure_class", "says"),
    [
        pytest.param("plain", "a-plain-password", 2, "refused", "CREATEDB", id="no-right"),
        pytest.param("cells", "a-wrong-password", 2, "refused", "refuses its user, password", id="password"),
    ],
)
def test_a_role_that_cannot_be_used_is_refused_before_a_server_starts(  # noqa: PLR0917 - one row each
    ordinary: Checkout,
    postgres: Postgres,
    user: str,
    password: str,
    status: int,
    failure_class: str,
    says: str,
) -> None:
    with private_directory("role") as place:
        ended = run_cell(ordinary, place, SINGLE, DATABASE_URL=postgres.url(user, password))

        ended_as(ended, evidence_of(place, SINGLE), status, failure_class, says, "DATABASE_URL")
        # Only where the platform is told to hide it.
        shown = [line for line in ended.stdout.splitlines() if not line.startswith("::add-mask::")]
        assert password not in "\n".join(shown)


def test_a_database_server_that_is_down_is_tried_once_more(ordinary: Checkout) -> None:
    with private_directory("down") as place:
        address = f"postgres://cells:a-long-password@127.0.0.1:{find_free_port()}/postgres"

        ended = run_cell(ordinary, place, SINGLE, DATABASE_URL=address)

        evidence = evidence_of(place, SINGLE)
        ended_as(ended, evidence, 3, "transient_infrastructure", "ECONNREFUSED", "See that it runs")
        assert len(evidence.cell["attempts"]) == 2


def test_an_address_of_something_else_is_refused(ordinary: Checkout) -> None:
    with private_directory("address") as place:
        ended = run_cell(ordinary, place, SINGLE, DATABASE_URL="mysql://u:a-long-password@h/d")

        ended_as(ended, evidence_of(place, SINGLE), 2, "refused", "does not name a Postgres server")
        assert "a-long-password" not in ended.stdout
