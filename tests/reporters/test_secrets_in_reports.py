"""A secret that a step is given, and that commands print, is in no report, however a report writes its texts."""

from __future__ import annotations

import base64
import html
import json
from urllib.parse import quote
from xml.sax.saxutils import escape

import pytest

from tests.support.program import runbook

SECRET = "c4nary<&'k \"9|`x"

BOOK = """name: canary
inputs:
  api_token: {about: A token., type: string, required: true}
diagnose:
  - id: printed
    command: {script: 'printf "%s\\n" "it is $1"; echo "$1" >&2', params: ["{{ inputs.api_token }}"]}
findings:
  - {id: there, when: printed.value != '', severity: error, say: "it said {{ printed.value }}", evidence: {line: printed.value},
     advise: ["curl -H 'Authorization: {{ inputs.api_token }}'"]}
remediate:
  - {id: send, for: there, command: {do: {argv: [sh, -c, 'echo "$1"; exit 3', sh, "{{ inputs.api_token }}"]}}}
"""


@pytest.fixture(scope="module")
def reports(tmp_path_factory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("canary")
    (folder / "canary.yaml").write_text(BOOK)
    (folder / "hosts.yaml").write_text("hosts: {h1: {transport: local, gpu: none}}\n")
    (folder / "inputs.yaml").write_text(json.dumps({"api_token": SECRET}))
    endings = ("html", "md", "xml", "prom", "json")
    words = [word for it in endings for word in ("--report", str(folder / f"r.{it}"))]
    where = ("--hosts", "h1", "-i", str(folder / "hosts.yaml"), "--inputs", str(folder / "inputs.yaml"))
    done = runbook("run", str(folder / "canary.yaml"), *where, "--yes", *words)
    assert done.code == 1, done.err
    return {it: (folder / f"r.{it}").read_text() for it in endings}


@pytest.mark.parametrize("ending", ["html", "md", "xml", "prom"])
def test_a_secret_is_in_no_report_in_any_form(reports, ending):
    """Mutant: run.py that sends events on as they are."""
    forms = {SECRET, html.escape(SECRET), escape(SECRET), quote(SECRET), json.dumps(SECRET)[1:-1], base64.b64encode(SECRET.encode()).decode()[:-2],
             SECRET.replace("|", "¦")}  # fmt: skip
    assert [it for it in forms if it in reports[ending]] == []
    assert "c4nary" not in reports[ending]


def test_what_was_hidden_would_have_been_there(reports):
    for ending in ("html", "md", "xml", "json"):
        assert "***" in reports[ending], ending
    assert (
        'runbook_run_finding_hosts{playbook="canary",mode="run",finding="there",severity="error",status="present"} 1'
        in reports["prom"]
    )
