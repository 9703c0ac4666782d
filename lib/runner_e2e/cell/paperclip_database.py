"""A database of the caller's instead of the product's own: one for each attempt, dropped at its end.

The address comes in the variable DATABASE_URL and is a secret: it goes to the client on its standard input
and to the server in its environment, which agents cannot read, and into no file.
"""

import contextlib
import json
import os
import secrets
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from runner_e2e.cell.unfinished import DATABASE_PREFIX
from runner_e2e.errors import CleanupError, HostRefusedError, RunnerE2EError, TransientInfrastructureError
from runner_e2e.isolation.variables import DATABASE_URL
from runner_e2e.product.installation import Installation
from runner_e2e.product.surroundings import build_check_environment

VARIABLE: Final = DATABASE_URL
_SCHEMES: Final = ("postgres", "postgresql")
_PORT: Final = 5432
_LIMIT_S: Final = 60.0
# Shorter ones are words that stand anywhere.
_LEAST_SECRET: Final = 8
_REMEDY: Final = f"Give {VARIABLE} as postgres://user:password@host:port/database, or leave it out"

# Uses the client that the product itself uses; says how it went, and nothing of what it was told.
_CLIENT: Final = """\
import { readFileSync } from "node:fs";
const { url, client, statement } = JSON.parse(readFileSync(0, "utf8"));
const postgres = (await import(client)).default;
const sql = postgres(url, { max: 1, connect_timeout: 15, idle_timeout: 1, onnotice: () => {} });
try {
  await sql.unsafe(statement);
  process.stdout.write("done");
} catch (error) {
  process.stdout.write(String(error?.code ?? "unknown"));
} finally {
  await sql.end({ timeout: 5 }).catch(() => {});
}
"""


@dataclass(frozen=True, slots=True)
class Database:
    """Where the caller's server is; `url` names a database that its role may connect to."""

    url: str = field(repr=False)
    port: int
    secrets: tuple[str, ...] = field(repr=False)

    def of(self, name: str) -> str:
        """Return the address of another database of the same server."""
        return urlunsplit(urlsplit(self.url)._replace(path=f"/{name}"))


def read_database(environ: Mapping[str, str]) -> Database | None:
    """Return the database that the caller gives, None without one.

    Raises HostRefusedError, which quotes nothing of it, for what is no address of one.
    """
    url = environ.get(VARIABLE, "").strip()
    if not url:
        return None
    try:
        parts = urlsplit(url)
        port = parts.port or _PORT
    except ValueError:
        raise HostRefusedError(f"{VARIABLE} is no address", _REMEDY) from None
    if parts.scheme not in _SCHEMES or not parts.hostname or not parts.path.strip("/"):
        raise HostRefusedError(
            f"{VARIABLE} does not name a Postgres server by host, and a database of it", _REMEDY
        )
    if "," in unquote(parts.netloc.rpartition("@")[2]):
        raise HostRefusedError(f"{VARIABLE} names several hosts, and agents are kept from one", _REMEDY)
    if not url.isprintable() or " " in url:
        raise HostRefusedError(f"{VARIABLE} holds a blank or a character that cannot be shown", _REMEDY)
    return Database(url, port, tuple(_find_secrets(url, parts)))


@contextlib.contextmanager
def own_database(
    installation: Installation, database: Database, note: Callable[[str | None], object]
) -> Iterator[str]:
    """Yield the address of a new database with a random name, and drop it at the end.

    `note` is told the name before there is one, and None when it is gone.
    Raises HostRefusedError when the role may not make one, TransientInfrastructureError when the server
    cannot be reached, and CleanupError when nothing else went wrong and it cannot be dropped.
    """
    name = f"{DATABASE_PREFIX}{secrets.token_hex(8)}"
    note(name)
    code = _ask(installation, database, f'CREATE DATABASE "{name}"')
    if code != "done":
        note(None)
        raise explain_code(code)
    failed = True
    try:
        yield database.of(name)
        failed = False
    finally:
        code = _ask(installation, database, f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        if code == "done":
            note(None)
        elif not failed:
            raise CleanupError(
                f"The attempt's database {name} could not be dropped ({_show(code)})",
                f"Drop it by hand: DROP DATABASE {name} WITH (FORCE)",
            )


def explain_code(code: str) -> RunnerE2EError:
    """Return the error for what the client says: an SQLSTATE, or the name of a failed system call."""
    shown = _show(code)
    if code == "42501":
        return HostRefusedError(
            f"The role in {VARIABLE} may not create databases, and each attempt needs one of its own",
            "Give a role with CREATEDB, or leave the variable out: then the product starts its own Postgres",
        )
    if code in ("28P01", "28000", "3D000"):
        return HostRefusedError(
            f"The Postgres server of {VARIABLE} refuses its user, password or database ({shown})",
            "Correct the secret that the variable comes from",
        )
    return TransientInfrastructureError(
        f"The Postgres server of {VARIABLE} cannot be used ({shown})",
        "See that it runs, can be reached from this machine, and has room for connections and a database",
    )


def _ask(installation: Installation, database: Database, statement: str) -> str:
    client = Path(installation.packages) / "node_modules" / "postgres" / "src" / "index.js"
    told = {"url": database.url, "client": str(client), "statement": statement}
    try:
        done = subprocess.run(
            [installation.node, "--input-type=module", "--eval", _CLIENT],
            input=json.dumps(told).encode(),
            env=build_check_environment(os.devnull),
            cwd="/",
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "timeout"
    except OSError as error:
        return f"client: {error.strerror}"
    return done.stdout.decode("ascii", "replace") or "client"


def _find_secrets(url: str, parts: SplitResult) -> Iterator[str]:
    yield url
    login, at, _ = parts.netloc.rpartition("@")
    if at:
        yield f"{login}@"
    password = parts.password or ""
    for form in {password, unquote(password)}:
        if len(form) >= _LEAST_SECRET:
            yield form


def _show(code: str) -> str:
    return "".join(char if char.isascii() and char.isprintable() else "?" for char in code)[:80]
