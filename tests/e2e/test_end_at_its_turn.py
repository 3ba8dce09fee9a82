"""What `end` ends is decided at its turn: a process that has gone to work since the plan was made is left alone."""

from __future__ import annotations

import pytest

from tests.support.program import Practice

pytestmark = pytest.mark.real("lab", "sshd")

BOOK = r"""
name: idle
defaults: {become: true}
let:
  victims: kernels.leftover
diagnose:
  - {id: kernels, processes: {patterns: ['ipykernel_launcher'], starting: 0}}
findings:
  - id: idle
    when: victims
    severity: error
    say: "idle: {{ victims | join(', ') }}"
    advise: [Ask.]
remediate:
  - id: warn
    for: idle
    timeout: 30s
    command:
      check: {argv: [test, -e, /tmp/said]}
      do: {script: "touch /tmp/go; until [ -e /tmp/gone ]; do sleep 0.1; done; touch /tmp/said"}
  - id: free
    for: idle
    end: {processes: "{{ victims }}", grace: 2s}
"""
LAUNCH = "(exec -a '{name}' bash -c 'until [ -e /tmp/go ]; do sleep 0.1; done; {then}') </dev/null >/dev/null 2>&1 &"
KERNEL = "python3 -m ipykernel_launcher -f {}.json"

TO_WORK = {
    "on a busy GPU": ("busy", "exec 7</dev/nvidia1; touch /tmp/gone; sleep 800 & wait"),
    "as another program": ("healthy", "exec -a \"python3 train.py --precious\" sh -c \"touch /tmp/gone; sleep 800\""),
    "where nobody knows how busy the GPU is": ("mig", "exec 7</dev/nvidia0; touch /tmp/gone; sleep 800 & wait"),
}  # fmt: skip


@pytest.mark.parametrize("how", TO_WORK)
def test_who_goes_to_work_while_a_gentler_step_runs_is_left_alone(how, practice, tmp_path):
    """Mutants: host_steps.py that takes the arguments of the plan; evidence.py ``current_arguments`` that takes unknown for nothing new."""
    fault, then = TO_WORK[how]
    (tmp_path / "idle.yaml").write_text(BOOK)
    lab: Practice = practice(f"gpu-01={fault}")
    lab.exec("gpu-01", LAUNCH.format(name=KERNEL.format("worker"), then=then))
    lab.exec("gpu-01", LAUNCH.format(name=KERNEL.format("idler"), then="sleep 800 & wait"))
    said = lab.run(str(tmp_path / "idle.yaml"), "--yes")
    free = said.step("gpu-01", "free")
    assert free["status"] == "changed", said.out
    (victim,) = free["victims"]
    assert "idler.json" in victim["command"]
    assert "left alone, because it is not called for any more: pid " in free["why"]
    there = " ".join(lab.commands("gpu-01"))
    assert "worker.json" in there or "train.py --precious" in there
    assert "idler.json" not in there
