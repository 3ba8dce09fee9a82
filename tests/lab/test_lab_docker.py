"""What a lab host's Docker engine needs, and that nothing of it is left."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from runbook import lab
from runbook.errors import ConfigError
from runbook.lab.docker_engine import group_of, require_engine
from tests.support.unprivileged import ordinary_user

pytestmark = pytest.mark.real("lab")


@pytest.mark.real("lab", "root")
def test_what_is_missing_is_named_before_anything_is_started(tmp_path, monkeypatch):
    """Mutants: a busybox that needs libraries taken for one that does not."""
    for it in ("unshare", "mount", "setsid", "hostname"):
        (tmp_path / it).symlink_to(str(shutil.which(it)))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match=r"\(gpu-02\) needs docker.io and busybox-static \(Debian: apt-get install"):
        lab.up(lab.LabOptions(directory=tmp_path / "lab", faults=("gpu-01=busy", "gpu-02=died_of_memory")))
    assert not (tmp_path / "lab").exists()
    for it in ("docker", "dockerd", "containerd", "runc"):
        (tmp_path / it).symlink_to("/bin/true")
    (tmp_path / "busybox").symlink_to("/bin/true")
    with pytest.raises(ConfigError, match=r"needs busybox-static \("):
        require_engine((("gpu-01", ("docker",)),))
    require_engine((("gpu-01", ("busy",)),))


@pytest.mark.real("lab", "root", "setpriv")
def test_an_ordinary_user_is_told_that_it_needs_root():
    with ordinary_user() as user:
        words = user.words("lab", "up", "--dir", f"{user.home}/lab", "--host", "gpu-01=docker")
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "a Docker engine (gpu-01) needs root: run the lab with sudo" in done.stderr


@pytest.mark.real("lab", "docker", "sshd")
def test_the_engine_is_the_host_s_own_and_nothing_of_it_is_left(tmp_path):
    """Mutants: cgroups left behind; the processes of containers not told; this machine's Docker asked."""
    made = lab.up(lab.LabOptions(directory=tmp_path / "lab", faults=("gpu-01=at_work+no_gpu", "gpu-02=docker")))
    try:
        argv = lab.shell_argv(made.directory, "gpu-01")
        said = subprocess.run((*argv, "docker ps --format '{{.Names}}'; docker info --format '{{.DockerRootDir}} {{json .Runtimes}}'; ls /etc/docker"),
                              capture_output=True, text=True, timeout=60, check=False).stdout  # fmt: skip
        assert said.startswith("run-at-work\n/var/lib/docker ")
        assert "nvidia" not in said
        commands = [command for _, command in lab.processes_on_host(made.hosts[0].pid)]
        assert any("Training step" in it for it in commands)
        assert not any("dockerd" in it or "containerd" in it for it in commands)
        assert not any("Training step" in command for _, command in lab.processes_on_host(made.hosts[1].pid))
        mine = [it for it in Path("/sys/fs/cgroup").glob("**/runbook-lab-*") if it.name == group_of(made.directory)]
        assert mine
    finally:
        lab.down(made.directory)
    assert not [it for it in mine if it.exists()]
    assert str(tmp_path) not in Path("/proc/self/mounts").read_text()
    assert not made.directory.exists()
