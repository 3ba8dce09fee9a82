"""Looks with samples, by the program itself on this machine: a dry run takes them too, and a deadline ends them."""

from __future__ import annotations

from tests.support.program import Said, runbook

BOOK = """\
name: toy
diagnose:
  - id: lines
    samples: SAMPLES
    command: {argv: [sed, -n, $=, LOG], parse: json}
  - {id: other, samples: SAMPLES, command: {argv: ["true"]}}
findings:
  - {id: grows, when: "lines | grows('value', 3)", severity: error, say: "{{ lines | series('value') }}", advise: [Look.]}
  - {id: fine, when: "other | sustained('exit_code == 0', '200ms')", severity: info}
remediate:
  - {id: tell, for: grows, note: {text: It grows.}}
"""


def run(place, samples, *more):
    text = BOOK.replace("SAMPLES", samples).replace("LOG", str(place / "log"))
    (place / "toy.yaml").write_text(text)
    (place / "hosts.yaml").write_text("hosts:\n  a: {transport: local}\n  b: {transport: local}\n")
    return runbook(
        "run", str(place / "toy.yaml"), "-i", str(place / "hosts.yaml"), "--hosts", "all", "--output", "json", *more
    )


def test_a_dry_run_takes_samples_too(tmp_path):
    (tmp_path / "log").write_text("1\n2\n")
    said = run(tmp_path, "{times: 3, every: 100ms}", "--dry-run")
    assert said.code == 0, said.out + said.err
    for host in ("a", "b"):
        assert said.finding(host, "grows")["status"] == "absent"
        assert said.finding(host, "fine")["status"] == "present"
        state = said.step(host, "lines")["state"]
        assert [it["value"] for it in state["samples"]] == [2, 2, 2]
        assert (state["asked"], state["known"], state["unknown"]) == (3, 3, [])
        assert len(said.step(host, "lines")["commands"]) == 3


def seen(said, host):
    """The samples of a host."""
    states = [step["state"] for step in said.host(host)["steps"] if step["id"] == "lines" and step["state"]]
    return [sample for state in states for sample in state["samples"]]


def test_a_deadline_ends_samples_and_what_was_seen_is_told_of_every_host(tmp_path):
    (tmp_path / "log").write_text("1\n")
    report = tmp_path / "report.json"
    options = ("--output", "console", "--report", str(report))
    for limit in ("2s", "30s"):  # on a slow machine the first is over before the first sample of both hosts
        told = run(tmp_path, "{for: 9m, every: 600ms}", "--deadline", limit, *options)
        assert told.code == 5, told.out + told.err
        if all(seen(Said(told.code, report.read_text(), told.err), host) for host in ("a", "b")):
            break
    assert "taking samples of lines, other for 9 min" in told.out
    assert " of 901 samples had been taken" in told.out
    said = Said(told.code, report.read_text(), told.err)
    for host in ("a", "b"):
        assert said.host(host)["verdict"] == "cancelled"
        assert [it["id"] for it in said.host(host)["steps"]] == ["lines", "other", "tell"]
        step = said.step(host, "lines")
        assert step["status"] == "cancelled"
        assert "samples had been taken" in step["why"]
        assert step["state"]["known"] == len(step["state"]["samples"]) >= 1
