"""zombie-gpu in containers, by docker and by kubectl: who is ended, who is spared, and a second run that finds nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support import fake_kubectl
from tests.support.docker_engine import Engine
from tests.support.fake_nvidia_smi import Pretended
from tests.support.program import Said, runbook
from tests.support.waiting import until

pytestmark = pytest.mark.real("docker", "busybox")

JOB = "#!/bin/sh\nexec 3</dev/nvidia0\nmkfifo /tmp/$$\nread -r line </tmp/$$\n"
"""A process that holds the GPU, and is called python3."""

ENDED = (
    'for p in /proc/[0-9]*; do case $(tr "\\0" " " <$p/cmdline) in "/bin/sh /jobs/"*) kill -9 ${p#/proc/};; esac; done'
)
"""Ends what is left of the jobs."""

NOTEBOOK = "#!/bin/sh\n/jobs/python3 kernel.py\nexit 0\n"
"""The server of a notebook, with a job of its own."""

INSTALLED = """\
mkdir /jobs; : >/dev/nvidia0; : >/dev/nvidiactl
cat >/jobs/python3 <<'END'
{job}END
cat >/jobs/jupyter-lab <<'END'
{notebook}END
cp {smi} /bin/nvidia-smi; chmod 755 /jobs/* /bin/nvidia-smi
"""

HOSTS = {
    "docker": "hosts:\n  box: {transport: docker, gpu: H100}\n",
    "kubectl": "hosts:\n  box: {transport: kubectl, namespace: default, context: lab, gpu: H100}\n",
}


@pytest.fixture
def box(engine: Engine, tmp_path: Path):
    """A container with a pretended GPU, a leftover of a job, and a notebook."""
    engine.import_image("machine:1", every_tool=True)
    smi = Pretended().install(tmp_path / "smi") / "nvidia-smi"
    options = (*fake_kubectl.labels("box"), "--init", "-v", f"{tmp_path}:{tmp_path}")
    engine.lives(*options, name="box", image="machine:1")
    engine("exec", "box", "sh", "-c", INSTALLED.format(job=JOB, notebook=NOTEBOOK, smi=smi))
    engine("exec", "-d", "box", "sh", "-c", "/jobs/python3 torchrun train.py & exit 0")
    engine("exec", "-d", "box", "/jobs/jupyter-lab")
    until(lambda: len(holders(engine)) == 2, "both hold the GPU")
    return engine


def holders(engine: Engine) -> set[str]:
    """The command lines that hold the GPU, but for the sleeps below them."""
    listing = 'for p in /proc/[0-9]*; do ls -l $p/fd 2>/dev/null | grep -q "/dev/nvidia0$" && { tr "\\0" " " <$p/cmdline; echo; }; done; true'
    lines = engine("exec", "box", "sh", "-c", listing).splitlines()
    return {line.strip() for line in lines if "/jobs/" in line}


def played(tmp_path: Path, engine: Engine, kind: str, *words: str) -> Said:
    (tmp_path / "hosts.yaml").write_text(HOSTS[kind])
    path = f"{fake_kubectl.install(tmp_path / 'kubectl')}:{os.environ['PATH']}"
    return runbook(
        "run", "zombie-gpu", "-i", str(tmp_path / "hosts.yaml"), "--hosts", "box", "--output", "json", "-e", "older_than=0s",
        *words, cwd=tmp_path, DOCKER_HOST=engine.host, PATH=path, XDG_STATE_HOME=str(tmp_path / "state"),
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["docker", "kubectl"])
def test_a_leftover_in_a_container_is_ended_and_a_notebook_is_spared(box, tmp_path, kind):
    before = holders(box)
    dry = played(tmp_path, box, kind, "--dry-run")
    assert dry.writes() == []
    victims = dry.step("box", "stop_leftovers")["victims"]
    assert [victim["command"] for victim in victims] == ["/bin/sh /jobs/python3 torchrun train.py"]
    assert holders(box) == before
    assert "notebook" in dry.finding("box", "owned")["say"]
    done = played(tmp_path, box, kind, "--yes")
    assert done.step("box", "stop_leftovers")["status"] == "changed", done.out
    assert holders(box) == {"/bin/sh /jobs/python3 kernel.py"}
    again = played(tmp_path, box, kind, "--yes")
    assert again.writes() == []
    assert again.finding("box", "owned")["status"] == "present"
    box("exec", "box", "sh", "-c", ENDED)
    until(lambda: not holders(box), "the notebook has ended")
    healthy = played(tmp_path, box, kind, "--yes")
    assert (healthy.code, healthy.document["totals"], healthy.writes()) == (0, {"healthy": 1}, [])
