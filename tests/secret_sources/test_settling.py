"""A clean-up with a secret that a run still owes: its record has the reference, and settling reads the value again."""

from __future__ import annotations

import http.server
import json
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from runbook.commands.input_files import read_inventory, read_playbook
from runbook.commands.rests_on import secret_places
from runbook.plugins import discover
from runbook.records.owed_record import Record, without_secrets
from runbook.records.private_folder import PrivateFolder
from runbook.records.process_identity import this_process
from runbook.secrets.masking import masking
from runbook.values.owed import OwedStep
from runbook.values.run_origin import RestsOn
from tests.support.program import Said, runbook

BOOK = """
name: lent
secrets: {token: {file: token}}
inputs: {port: {about: x, type: integer, required: true}}
remediate:
  - id: give_back
    always: true
    env: {TOKEN: "{{ secrets.token }}"}
    http:
      url: "http://127.0.0.1:{{ inputs.port }}/back"
      method: POST
      headers: {Authorization: "Bearer {{ secrets.token }}", X-Which: "{{ inputs.port }}"}
      check: {url: "http://127.0.0.1:{{ inputs.port }}/", expect: {back: true}}
"""


@pytest.fixture
def service():
    heard: list[tuple[str, str | None]] = []

    class Lends(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            heard.append((self.path, self.headers["Authorization"]))
            self._say({})

        def do_GET(self) -> None:
            self._say({"back": bool(heard)})

        def _say(self, what: dict) -> None:
            body = json.dumps(what).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Lends)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port, heard
    server.shutdown()
    server.server_close()


def owed_by(folder: Path, port: int, of: str) -> Record:
    """The record of a run whose secret the playbook names, or the inventory for its host."""
    own = "{file: token}"
    (folder / "lent.yaml").write_text(BOOK if of == "playbook" else BOOK.replace(own, "{description: Of the host.}"))
    (folder / "token").write_text("canary-4711\n")
    (folder / "token").chmod(0o600)
    said_by_host = f", secrets: {{token: {own}}}" if of == "host" else ""
    (folder / "hosts.yaml").write_text(f"hosts: {{h: {{transport: local{said_by_host}}}}}\n")
    book = read_playbook(folder / "lent.yaml", discover())
    inventory = read_inventory([folder / "hosts.yaml"])
    url = f"http://127.0.0.1:{port}/"
    args = {
        "url": f"{url}back", "method": "POST", "check": {"url": url, "expect": {"back": True}},
        "headers": {"Authorization": "Bearer {{ secrets.token }}", "X-Which": str(port)},
    }  # fmt: skip
    owed = without_secrets(OwedStep(id="give_back", action="http", args=args), {}, masking(["canary-4711"]))
    assert owed.withheld == ""
    return Record(
        run="20261123T000000Z-0001", playbook="lent", host="h", by="me", since="2026-11-23T00:00:00.000+00:00", steps=(owed,),
        maker=replace(this_process(), pid=2**22 + 1),
        rests_on=RestsOn(
            playbook=str(folder / "lent.yaml"), playbook_digest=book.digest, inputs={"port": port}, inventory=(str(folder / "hosts.yaml"),),
            secret_places=secret_places(book, inventory, inventory.hosts),
        ),
    )  # fmt: skip


def settle(folder: Path, *more: str) -> Said:
    return runbook("settle", "--yes", "--output", "json", *more, cwd=folder, XDG_STATE_HOME=str(folder / "state"))


@pytest.mark.real("curl")
@pytest.mark.parametrize("of", ["playbook", "host"])
def test_the_record_names_the_secret_and_settling_sends_its_value(tmp_path, service, of):
    """Mutants: settling.py ``_secret_values`` that gives ``by_part``; with every argument raw; without ``secrets`` of the assignment; masking.py without REFERENCE."""
    port, heard = service
    record = owed_by(tmp_path, port, of)
    assert "4711" not in record.text()
    PrivateFolder(tmp_path / "state" / "runbook" / "owed").write(record.name, record.text())
    said = settle(tmp_path)
    assert heard == [("/back", "Bearer canary-4711")], said.err + said.out
    assert "4711" not in said.out + said.err
    assert said.code == 0, said.out


@pytest.mark.real("curl")
def test_a_secret_that_the_inventory_has_elsewhere_now_is_not_sent_without_a_word(tmp_path, service):
    """Mutants: ``_refuse_changes`` dropped; ``secret places`` not written down."""
    port, heard = service
    record = owed_by(tmp_path, port, "host")
    PrivateFolder(tmp_path / "state" / "runbook" / "owed").write(record.name, record.text())
    (tmp_path / "other").write_text("canary-4712\n")
    (tmp_path / "other").chmod(0o600)
    (tmp_path / "hosts.yaml").write_text("hosts: {h: {transport: local, secrets: {token: {file: other}}}}\n")
    said = settle(tmp_path)
    assert (said.code, heard) == (1, []), said.out
    assert "has the secret token elsewhere than in that run" in said.document["left_out"][0]["why"]
    assert settle(tmp_path, "--changed-inventory").code == 0
    assert heard == [("/back", "Bearer canary-4712")]
