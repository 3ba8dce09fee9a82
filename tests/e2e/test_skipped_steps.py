"""A step that does not apply to a host is reported where its author counts on it."""

from __future__ import annotations

import json

from tests.support.program import runbook

SKIPS = """\
name: skips
diagnose:
  - {id: conf, file: {path: "%(here)s/conf", content: "a\\n"}}
findings:
  - {id: stale, when: conf.needs, severity: error, say: stale, advise: [look]}
remediate:
  - {id: write, for: stale, file: {path: "%(here)s/conf", content: "a\\n"}}
  - {id: free, if_changed: write, fuser: {paths: ["%(here)s/no-such-device"]}}
  - {id: other, for: stale, if_failed: write, fuser: {paths: ["%(here)s/no-such-device"]}}
"""


def test_a_step_whose_object_the_host_has_not_got_is_told_where_something_changes(tmp_path):
    (tmp_path / "skips.yaml").write_text(SKIPS % {"here": tmp_path})
    (tmp_path / "hosts.yaml").write_text("hosts: {here: {transport: local, gpu: none}}\n")
    argv = ("run", "skips.yaml", "--hosts", "here", "-i", "hosts.yaml")
    skipped = f"  skipped free: there is no {tmp_path}/no-such-device"
    planned = runbook(*argv, "--dry-run", cwd=tmp_path).out
    assert skipped in planned, planned
    done = runbook(*argv, "--yes", cwd=tmp_path).out
    assert "resolved" in done
    assert skipped in done, done
    again = runbook(*argv, "--yes", cwd=tmp_path).out
    assert "skipped" not in again, again


OFF = """\
name: skips
inputs: {more: {about: x, type: boolean, default: false}}
remediate:
  - {id: breaks, command: {do: {argv: ["false"]}}}
  - {id: off, when: inputs.more, after: breaks, command: {do: {argv: ["true"]}}}
  - {id: on_, when: not inputs.more, after: breaks, command: {do: {argv: ["true"]}}}
verify:
  - {id: proof, when: inputs.more, after: [off], command: {argv: ["true"]}}
"""


def test_a_step_that_is_switched_off_is_not_blocked_by_one_that_failed(tmp_path):
    (tmp_path / "skips.yaml").write_text(OFF)
    (tmp_path / "hosts.yaml").write_text("hosts: {here: {transport: local, gpu: none}}\n")
    argv = ("run", "skips.yaml", "--hosts", "here", "-i", "hosts.yaml", "--yes", "--output", "json")
    (host,) = json.loads(runbook(*argv, cwd=tmp_path).out)["hosts"]
    found = {it["id"]: it["status"] for it in host["steps"]}
    assert found == {"breaks": "failed", "off": "skipped", "on_": "blocked", "proof": "skipped"}
