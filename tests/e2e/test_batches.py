"""A change that harms is stopped after the first host, from the command line."""

from __future__ import annotations

import json

from runbook.codec import from_json, to_json
from runbook.values.event import Event
from tests.support.program import on_terminal, runbook

HOSTS = "hosts:\n" + "".join(f"  here-{number}: {{transport: local, gpu: none}}\n" for number in range(1, 5))
BOOK = """\
name: toy
remediate:
  - {{id: change, command: {{check: {{argv: ["false"]}}, do: {{argv: [{program}]}}}}}}
limits: {{batches: [1, "50%"], stop_after: "25%"}}
"""

LASTING = """\
name: toy
remediate:
  - {id: change, command: {check: {argv: [test, -e, "{{ run.id }}-{{ host.name }}"]}, do: {argv: [touch, "{{ run.id }}-{{ host.name }}"]}}}
limits: {batches: [1, "50%"], stop_after: "25%"}
"""


def test_the_rest_of_the_fleet_is_not_started_and_the_exit_code_says_so(tmp_path):
    (tmp_path / "toy.yaml").write_text(BOOK.format(program='"false"'))
    (tmp_path / "hosts.yaml").write_text(HOSTS)
    where = ("toy.yaml", "--hosts", "all", "-i", "hosts.yaml")
    said = runbook("run", *where, "--yes", "--output", "json", cwd=tmp_path)
    assert said.code == 5
    assert said.document["exit_code"] == 5
    assert said.document["totals"] == {"failed": 1, "not_started": 3}
    assert [it["host"] for it in said.document["hosts"]] == ["here-1", "here-2", "here-3", "here-4"]
    assert said.host("here-4")["error"] == "stop_after 25%: 1 of 4 hosts is failed: here-1"
    assert len(said.writes()) == 1
    (tmp_path / "toy.yaml").write_text(LASTING)
    events = runbook("run", *where, "--yes", "--output", "jsonl", cwd=tmp_path).out.splitlines()
    waves = [json.loads(it) for it in events if "batch_finished" in it]
    assert [(it["number"], it["hosts"]) for it in waves] == [(1, ["here-1"]), (2, ["here-2", "here-3"])]
    assert [to_json(from_json(Event, it)) for it in waves] == waves
    (tmp_path / "toy.yaml").write_text(BOOK.format(program='"false"'))
    told = runbook("run", *where, "--yes", cwd=tmp_path)
    assert told.code == 5
    assert "stop_after 25%" in told.out
    planned = runbook("run", *where, "--dry-run", "--output", "json", cwd=tmp_path)
    assert planned.document["totals"] == {"planned": 4}
    words = " ".join(runbook("show", "toy.yaml", cwd=tmp_path).out.split())
    assert "1; then 50% at a time" in words
    assert "Once 25% of the hosts are failed, unresolved" in words


def test_who_is_asked_sees_what_the_limits_come_to(tmp_path):
    """Mutants: run.py asks without the limits; bounds.py counts hosts that are not to be changed."""
    (tmp_path / "toy.yaml").write_text(
        BOOK.format(program='"false"').replace("stop_after", "max_unavailable: 2, stop_after")
    )
    (tmp_path / "hosts.yaml").write_text(HOSTS)
    where = ("--hosts", "all", "-i", str(tmp_path / "hosts.yaml"))
    code, said = on_terminal(("run", str(tmp_path / "toy.yaml"), *where), "n\n")
    assert code == 130
    lines = said.replace("runbook: ", "").splitlines()
    assert "limits: batches: 4 hosts in 3 (1, 2, 1)" in lines
    assert "        max_unavailable: 2 of 4 hosts" in lines
    assert "        stop_after: 1 of 4 hosts" in lines
