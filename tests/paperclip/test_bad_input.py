"""Whatever is wrong around a cell of the real product: its class, its record, and a sentence that helps.

A server that dies at its start and a run that never ends are in test_built_in.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import textwrap
from typing import TYPE_CHECKING

import pytest

from e2e.checkout import DECOY, Checkout, Ended, Evidence, private_directory
from runner_e2e.product.recipe import compute_recipe_digest
from runner_e2e.product.stamp import STAMP, compute_digest

from .cells import SCRIPTED, evidence_of, finish, run_cell

if TYPE_CHECKING:
    from pathlib import Path


SINGLE = f"{SCRIPTED}chat.single-turn"
TURNS = f"{SCRIPTED}chat.multi-turn"
ELSEWHERE = "continuation.scripted-warm.daytona.turns.two"
NODE = '#!/bin/sh\necho "{says}"\n'
# OpenCode's server as far as runnerd asks it for its version.
OTHER_OPENCODE = """\
#!/usr/bin/python3 -IS
import json, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
class Health(BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps({"healthy": True, "version": "1.18.30"}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass
ThreadingHTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Health).serve_forever()
"""
# Runs a cell with what no input offers: `task` and `programs` replace parts of it, `steps` its script. A cell
# that is `deaf` has nobody where its model should listen.
DRIVER = """
import os, shutil, sys
from dataclasses import replace
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from runner_e2e.cell.allowance import RetryPolicy
from runner_e2e.cell.paperclip_attempt import PaperclipHarness
from runner_e2e.cell.paperclip_plan import plan_paperclip
from runner_e2e.cell.request import CellRequest
from runner_e2e.cell.run import finish_evidence, run_cell
from runner_e2e.plan.catalog import find_catalog, read_catalog
catalog, name, asked = find_catalog("catalogs/paperclip.yaml"), sys.argv[2], eval(sys.argv[3])
class Deaf(PaperclipHarness):
    def _start_model(self, stage, stack):
        return None
(execution,) = [one for one in read_catalog(catalog).executions if one.id == name]
planned = plan_paperclip(execution, catalog, os.environ)
config = {**planned.task.config, **asked.get("config", {})}
task = replace(planned.task, config=config, **asked.get("task", {}))
programs = asked.get("programs", {})
planned = replace(planned, task=task, installation=replace(planned.installation, **programs))
request = CellRequest(evidence_parent=Path("runner-e2e-evidence"), catalog=catalog)
request = request.for_paperclip(execution, planned)
request = replace(request, retries=RetryPolicy(single_attempt=not asked.get("again")))
outcome = run_cell(request, None, None, Deaf if asked.get("deaf") else PaperclipHarness)
finish_evidence(outcome, "")
print(outcome.message)
raise SystemExit(outcome.exit_code)
"""
# Starts a server whose ports were taken between their choice and their use, by a stranger that says of itself
# what a server of the product says.
STRANGER = """
import json, os, sys, threading, time
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from runner_e2e.cell.paperclip_places import create_places
from runner_e2e.cell.paperclip_server import ServerOrder, running_paperclip
from runner_e2e.cell.reference_server import generate_secrets
from runner_e2e.cell.root import create_root, remove_root
from runner_e2e.product.installation import require_installation
asked = []
class Stranger(BaseHTTPRequestHandler):
    def do_GET(self):
        asked.append(self.path)
        now = datetime.now(UTC).isoformat()
        body = json.dumps({"status": "ok", "serverInfo": {"processStartedAt": now}}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    do_POST = do_GET
    def log_message(self, *_):
        pass
strangers = [ThreadingHTTPServer(("127.0.0.1", 0), Stranger) for _ in range(2)]
ports = [one.server_address[1] for one in strangers]
for one in strangers:
    threading.Thread(target=one.serve_forever, daemon=True).start()
root = create_root("taken")
try:
    order = ServerOrder(
        installation=require_installation(os.environ),
        places=create_places(root),
        runner=Path("/bin/false"),
        generated=generate_secrets(),
        environ=os.environ,
        choose_port=iter(ports).__next__,
    )
    with running_paperclip(order, root.private / "server-1.log", time.monotonic() + 120) as (server, api):
        company = api.create_company("Here")
        found = {"ports": ports, "address": api.address("/"), "company": api.companies() == [company]}
        print(json.dumps({**found, "asked": [path for path in asked if path.startswith("/api")]}))
finally:
    remove_root(root)
"""

# Runs a program as a user while attempts lie on a small disk; what is told to keep lies beside them.
SMALL_DISK = """
size=$1 project=$2 place=$3 user=$4
shift 4
aside=$(mktemp -d /run/runner-e2e-aside-XXXXXX)
mount --make-rprivate /
mount -t tmpfs aside "$aside"
mkdir "$aside/project" "$aside/place"
mount --bind "$project" "$aside/project"
mount --bind "$place" "$aside/place"
mount -t tmpfs -o "size=${size}m,mode=1777" small /var/tmp
mkdir -p "$project" "$place"
mount --move "$aside/project" "$project"
mount --move "$aside/place" "$place"
umount "$aside"
rmdir "$aside"
cd "$place"
exec setpriv --reuid "$user" --regid "$user" --clear-groups -- "$@"
"""


def drive(checkout: Checkout, cwd: Path, name: str, asked: str, steps: str = "", **environ: str) -> Ended:
    """Run a cell with what `asked` says, an expression; `steps` are those of its one agent's model."""
    catalogs = cwd / "catalogs"
    shutil.copytree(checkout.project / "catalogs", catalogs)
    if steps:
        script = catalogs / "paperclip-model" / f"{name.removeprefix(SCRIPTED)}.yaml"
        agent = "values: [nonce, ada_key]\nagents:\n- id: ada\n  match: {key: '{ada_key}'}\n  steps:\n"
        text = f"schema: runner-e2e.scripted-model/v1\n{agent}{textwrap.indent(steps, '  ')}"
        script.write_text(text, encoding="utf-8")
    words = [str(checkout.project / "lib"), name, asked]
    with checkout.start(
        [str(checkout.python), "-P", "-c", DRIVER, *words], cwd, {**DECOY, **environ}
    ) as process:
        return finish(process)


def ended_as(ended: Ended, evidence: Evidence, status: int, failure_class: str, *says: str) -> None:
    """The record says what the command said: a class, and a sentence with what to do."""
    assert ended.status == status, ended.stdout + ended.stderr
    assert "Traceback" not in ended.stdout + ended.stderr
    cell = evidence.cell
    assert (cell["exitCode"], cell["failureClass"]) == (status, failure_class), cell["message"]
    for one in says:
        assert one in cell["message"]
    assert cell["running"] is None


# Before anything is started.


def test_a_cell_that_takes_place_on_daytona_is_not_run_and_never_passed(ordinary: Checkout) -> None:
    with private_directory("daytona") as place:
        ended = run_cell(ordinary, place, ELSEWHERE, INPUT_CATALOG="reference")

        evidence = evidence_of(place, ELSEWHERE)
        ended_as(ended, evidence, 4, "not_run", "daytona", "harness: command")
        assert (evidence.cell["status"], evidence.cell["harness"]) == ("not_run", "built-in")
        assert evidence.cell["sandbox"] == "unproven"
        assert [row["retry"] for row in evidence.cell["attempts"]] == ["A not_run is not retried."]


def test_another_architecture_is_refused_in_the_record(ordinary: Checkout) -> None:
    program = [str(ordinary.python), "-I", str(ordinary.project / "entrypoints" / "run_cell.py")]
    with private_directory("architecture") as place:
        inputs = {"INPUT_HARNESS": "built-in", "INPUT_ID": SINGLE}
        with ordinary.start(["setarch", "i686", *program], place, inputs) as process:
            ended = finish(process)

        ended_as(ended, evidence_of(place, SINGLE), 2, "refused", "x86-64", "this is i686")


def make_installation(place: Path, says: str, **record: object) -> None:
    """Make an installation with little but its record and a Node that says its version."""
    directory = place / compute_recipe_digest()
    directory.mkdir(parents=True)
    for path in (place, directory):
        path.chmod(0o755)
    node = directory / "node"
    node.write_text(NODE.format(says=says), encoding="utf-8")
    node.chmod(0o755)
    stamp = {
        "schema": "runner-e2e.paperclip-installation/v1",
        "recipe": compute_recipe_digest(),
        "directory": str(directory),
        "node": "node",
        "npm": "npm",
        "node_version": "24.19.0",
        "paperclip_version": "2026.916.1",
        "opencode_version": "1.18.29",
        "packages": 1,
        "host_glibc": "glibc 2.36",
        "files": {"node": compute_digest(node)},
        "manifest": "",
    }
    (directory / STAMP).write_text(json.dumps(stamp | record), encoding="utf-8")


@pytest.mark.parametrize(
    ("says", "record", "problem"),
    [
        pytest.param("v22.21.0", {}, "its Node is no Node 24.11 or later", id="old-node"),
        pytest.param("Python 3.11.2", {}, "its Node is no Node 24.11 or later", id="no-node"),
        pytest.param("v22.21.0", {"node_version": "22.21.0"}, "its Node is 22.21.0", id="recorded-node"),
        pytest.param(
            "v24.19.0", {"opencode_version": "1.18.30"}, "its OpenCode is 1.18.30", id="another-opencode"
        ),
        pytest.param("v24.19.0", {"files": {"node": "0" * 64}}, "node is damaged or missing", id="changed"),
        pytest.param("v24.19.0", {"files": {"bin/x": ""}}, "bin/x is damaged or missing", id="missing"),
        pytest.param("v24.19.0", {"schema": "other"}, "it was not completed", id="no-record"),
    ],
)
def test_an_installation_that_cannot_be_used_is_refused_with_what_to_do(
    ordinary: Checkout, says: str, record: dict[str, object], problem: str
) -> None:
    with private_directory("installation") as place:
        make_installation(place / "cache", says, **record)

        ended = run_cell(ordinary, place, SINGLE, RUNNER_E2E_PAPERCLIP_DIR=str(place / "cache"))

        expected = ("cannot be used", problem, "runner-e2e paperclip install")
        ended_as(ended, evidence_of(place, SINGLE), 2, "refused", *expected)


# When the server starts.


@pytest.mark.extended
def test_a_stranger_on_a_chosen_port_is_never_taken_for_the_server(ordinary: Checkout, clean: None) -> None:
    with private_directory("stranger") as place:
        command = [str(ordinary.python), "-P", "-c", STRANGER, str(ordinary.project / "lib")]
        with ordinary.start(command, place) as process:
            ended = finish(process)

    assert ended.status == 0, ended.stdout + ended.stderr
    found = ended.json()
    assert found["company"]
    assert found["asked"] == []
    assert not any(f":{port}/" in found["address"] for port in found["ports"])


@pytest.mark.extended
def test_a_truncated_file_of_the_server_is_named_as_damage(ordinary: Checkout, clean: None) -> None:
    with private_directory("damaged") as place:
        (place / "index.mjs").write_text("import 'node:fs'\nexport const x = {", encoding="utf-8")

        ended = drive(ordinary, place, SINGLE, f"{{'programs': {{'server': Path('{place}/index.mjs')}}}}")

        says = ("code cannot be read", "runner-e2e paperclip install --verify")
        ended_as(ended, evidence_of(place, SINGLE), 3, "permanent_infrastructure", *says)


def test_a_node_that_cannot_be_executed_is_told(ordinary: Checkout, clean: None) -> None:
    with private_directory("unexecutable") as place:
        (place / "node").write_bytes(b"\x7fELF of another machine")
        (place / "node").chmod(0o755)

        ended = drive(ordinary, place, SINGLE, f"{{'programs': {{'node': Path('{place}/node')}}}}")

        says = ("The server cannot be started", "runner-e2e paperclip install --verify")
        ended_as(ended, evidence_of(place, SINGLE), 3, "permanent_infrastructure", *says)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
@pytest.mark.parametrize(
    "megabytes",
    [pytest.param(40, id="at-the-start"), pytest.param(75, id="later", marks=pytest.mark.extended)],
)
def test_a_full_disk_is_told_and_the_record_is_there(ordinary: Checkout, megabytes: int) -> None:
    inputs = {"INPUT_HARNESS": "built-in", "INPUT_ID": SINGLE, "PATH": os.defpath, "HOME": "/"}
    program = [ordinary.python, "-I", ordinary.project / "entrypoints" / "run_cell.py"]
    with private_directory("small-disk") as place:
        (place / "work").mkdir()
        (place / "work").chmod(0o777)
        words = [str(megabytes), str(ordinary.project), str(place / "work"), str(ordinary.uid)]
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-euc", SMALL_DISK, "sh", *words, *map(str, program)],
            env=inputs,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )

        ended = Ended(done.returncode, done.stdout, done.stderr)
        evidence = evidence_of(place / "work", SINGLE)
        ended_as(ended, evidence, 3, "permanent_infrastructure", "The disk of the instance is full", "Free")
        assert [row["rule"] for row in evidence.cell["attempts"]] == ["disk-full"]


# While agents work.


@pytest.mark.extended
@pytest.mark.parametrize(
    ("asked", "steps", "rule"),
    [
        pytest.param("{'deaf': True}", "", "model-unavailable", id="nobody-there"),
        pytest.param("{}", "- malformed: invalid_json\n  repeat: 99", "model-malformed", id="garbled"),
    ],
)
def test_a_model_endpoint_that_fails_is_not_the_candidates_failure(
    ordinary: Checkout, clean: None, asked: str, steps: str, rule: str
) -> None:
    with private_directory("endpoint") as place:
        ended = drive(ordinary, place, SINGLE, asked, steps)

        evidence = evidence_of(place, SINGLE)
        ended_as(ended, evidence, 3, "transient_infrastructure", "A run of ada failed", "endpoint")
        assert [row["rule"] for row in evidence.cell["attempts"]] == [rule]


@pytest.mark.extended
def test_an_endpoint_that_refuses_the_key_is_not_asked_again(ordinary: Checkout, clean: None) -> None:
    with private_directory("refused-key") as place:
        ended = drive(ordinary, place, SINGLE, "{'again': True}", "- error: {status: 401}\n  repeat: 99")

        evidence = evidence_of(place, SINGLE)
        ended_as(ended, evidence, 3, "permanent_infrastructure", "refused the agent's key", "credential")
        assert len(evidence.cell["attempts"]) == 1


@pytest.mark.extended
def test_an_opencode_of_another_version_is_told(ordinary: Checkout, clean: None) -> None:
    with private_directory("other-opencode") as place:
        (place / "opencode").write_text(OTHER_OPENCODE, encoding="utf-8")
        (place / "opencode").chmod(0o755)

        ended = drive(ordinary, place, SINGLE, f"{{'programs': {{'opencode': Path('{place}/opencode')}}}}")

        evidence = evidence_of(place, SINGLE)
        ended_as(ended, evidence, 3, "permanent_infrastructure", "another version", "install --verify")
        assert "OpenCode 1.18.30" in evidence.cell["attempts"][0]["line"]


@pytest.mark.extended
def test_a_quarantined_instance_is_told_and_the_second_attempt_has_a_fresh_one(
    ordinary: Checkout, clean: None
) -> None:
    """With another opencodePermissionMode than allow, which no catalog may ask for, a call ends a run."""
    steps = (
        "- tool: {name: bash, arguments: {command: echo hi, description: Say}}\n"
        "- text: 'The word is {nonce}.'\n- text: 'The word is {nonce}.'\n- text: 'The word is {nonce}.'\n"
    )
    asked = (
        "{'config': {'opencodePermissionMode': 'ask'}, 'again': True,"
        " 'task': {'run': 'failed', 'issue': 'in_progress', 'matchers': ()}}"
    )
    with private_directory("quarantine") as place:
        ended = drive(ordinary, place, TURNS, asked, steps)

        evidence = evidence_of(place, TURNS)
        says = ("A run of ada failed", "Only a fresh instance recovers")
        ended_as(ended, evidence, 3, "transient_infrastructure", *says)
        assert [row["rule"] for row in evidence.cell["attempts"]] == ["run-quarantined"] * 2
        for directory in (evidence.directory, evidence.directory / "attempt-1"):
            (agent,) = Evidence(directory).read("agents.json")["agents"]
            codes = [run["errorCode"] for run in agent["runs"]]
            assert codes == ["native_session_cleanup_quarantined", "provider_transport_failed"]
