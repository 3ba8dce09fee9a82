"""What a plan says of steps that follow others, on a host on which nothing is to be done."""

from __future__ import annotations

from tests.support.program import runbook

PLAYBOOK = """name: follows
about: A change, and what follows it.
hosts: all
inputs:
  there: {about: The file., type: string, default: /nowhere}
diagnose:
  - id: look
    command: {argv: [test, -e, "{{ inputs.there }}"], accepts: [0, 1]}
findings:
  - id: absent
    when: look.exit_code == 1
    severity: error
    say: it is not there
    advise: [Make it.]
remediate:
  - id: make
    for: absent
    command: {check: {argv: [test, -e, "{{ inputs.there }}"]}, do: {argv: [touch, "{{ inputs.there }}"]}}
  - id: follow
    if_changed: [make]
    command: {check: {argv: ["true"]}, do: {argv: ["true"]}}
"""


def test_a_dry_run_on_a_host_that_is_well_says_healthy_and_names_no_condition_of_nothing(tmp_path):
    """Mutants: the condition without what it hinges on; planned commands taken for sent ones."""
    (tmp_path / "follows.yaml").write_text(PLAYBOOK)
    (tmp_path / "hosts.yaml").write_text("hosts:\n  here: {transport: local}\n")
    (tmp_path / "there").touch()

    def plan(name):
        where = ("-i", str(tmp_path / "hosts.yaml"), "--hosts", "here", "--output", "json", "--dry-run")
        return runbook("run", str(tmp_path / "follows.yaml"), *where, "-e", f"there={tmp_path / name}")

    well = plan("there")
    assert well.out, well.err
    assert well.host("here")["verdict"] == "healthy", well.out
    assert well.code == 0
    assert not any(it["condition"] for it in well.host("here")["steps"])
    assert "changes something" not in well.out
    other = plan("absent")
    assert other.host("here")["verdict"] == "planned"
    assert other.step("here", "follow")["condition"] == "only if make changes something"
