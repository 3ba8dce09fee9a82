"""A change that harms is stopped after the first host, from the command line."""

from __future__ import annotations

from e2e.conftest import runbook

HOSTS = "hosts:\n" + "".join(f"  here-{number}: {{transport: local, gpu: none}}\n" for number in range(1, 5))
BOOK = """\
name: toy
remediate:
  - {{id: change, command: {{check: {{argv: ["false"]}}, do: {{argv: [{program}]}}}}}}
limits: {{batches: [1, "50%"], stop_after: "25%"}}
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
    assert said.host("here-4")["error"] == "stop_after 25%: 1 of 4 hosts did not come out well: here-1"
    assert len(said.writes()) == 1
    told = runbook("run", *where, "--yes", cwd=tmp_path)
    assert told.code == 5
    assert "stop_after 25%" in told.out
    planned = runbook("run", *where, "--dry-run", "--output", "json", cwd=tmp_path)
    assert planned.document["totals"] == {"planned": 4}
    words = " ".join(runbook("show", "toy.yaml", cwd=tmp_path).out.split())
    assert "1; then 50% at a time" in words
    assert "Once 25% of the hosts have not come out well" in words
