"""The playbook of docs/first-playbook.md that ends Jupyter kernels: over SSH, with real processes beside them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.program import Practice, runbook

pytestmark = pytest.mark.real("lab", "sshd")

PAGE = (Path(__file__).parents[2] / "docs/first-playbook.md").read_text()
LAUNCH = "(exec -a '{name}' sleep 800) {held} </dev/null >/dev/null 2>&1 &"


def started(lab: Practice, name: str, held: str = "") -> None:
    """Start a process that is called *name*, with a file open if so wished."""
    lab.exec("gpu-01", LAUNCH.format(name=name, held=f"7<{held}" if held else ""))


@pytest.fixture
def kernels(tmp_path) -> str:
    """The page's own playbook."""
    (text,) = re.findall(r'^```yaml title="playbooks/idle-kernels.yaml"\n(.*?)^```', PAGE, re.MULTILINE | re.DOTALL)
    (tmp_path / "idle-kernels.yaml").write_text(text.replace("gone_for: 3s", "gone_for: 1s"))
    return str(tmp_path / "idle-kernels.yaml")


def test_exactly_the_kernels_that_the_finding_names_are_ended(practice, kernels, tmp_path):
    """Beside them a kernel without a GPU, another program with one, and a kernel that was started after the plan, which names it."""
    lab = practice("gpu-01=healthy")
    kernel = "python3 -m ipykernel_launcher -f {}.json"
    started(lab, kernel.format("idle"), "/dev/nvidia0")
    started(lab, kernel.format("without"))
    started(lab, "python3 train.py", "/dev/nvidia0")
    asked = ("-e", "idle_for=1s", "-e")
    young = lab.run(kernels, "--yes", *asked, "older_than=1h")
    assert (young.host("gpu-01")["verdict"], young.writes()) == ("healthy", []), young.out

    where = ("-i", str(lab.lab.inventory), "--hosts", "all")
    plan = str(tmp_path / "saved.plan")
    made = runbook("plan", kernels, *where, *asked, "older_than=0s", "-o", plan)
    assert made.code == 0, made.out + made.err
    started(lab, kernel.format("young"), "/dev/nvidia1")
    refused = runbook("apply", plan, "--output", "json", "--yes")
    assert "one process more would be ended" in refused.host("gpu-01")["error"], refused.out
    assert "young.json" in refused.host("gpu-01")["error"]
    assert there(lab) == {"idle", "without", "train", "young"}

    lab.exec("gpu-01", "kill -9 $(pgrep -f [y]oung.json)")
    said = runbook("apply", plan, "--output", "json", "--yes")
    assert said.host("gpu-01")["verdict"] == "resolved", said.out + said.err
    (victim,) = said.step("gpu-01", "free")["victims"]
    assert "idle.json" in victim["command"]
    assert there(lab) == {"without", "train"}


def there(lab: Practice) -> set[str]:
    """Those of the test that run."""
    lines = " ".join(lab.commands("gpu-01"))
    return {name for name in ("idle", "without", "train", "young") if f"{name}." in lines}
