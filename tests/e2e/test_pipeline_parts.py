"""The parts of a pipeline, started and looked at one by one, over real SSH and in real tmux sessions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytestmark = pytest.mark.real("lab", "sshd", "tmux")

TRAIN = 'max_steps = 100\n\n[model]\nname = "small"  # ours\n\n[optim]\nlr = 1e-6'
PUT_IN = "\n\n[fake_data_loader]\nbatch_size = 8\nmicro_batch_size = 8\nseq_len = 512"


def isolating(folder: Path, script: str, name: str) -> tuple[str, ...]:
    given = {
        "train_config": f"{folder}/train.toml",
        "argv": json.dumps(["sh", "-c", script, "trainer", "@", f"{folder}/train.toml"]),
        "folder": str(folder),
        "log": f"{folder}/{name}.log",
    }
    return tuple(word for key, it in given.items() for word in ("-e", f"{key}={it}"))


def test_a_trainer_alone_tells_where_the_fault_is(practice, tmp_path):
    made = practice("gpu-01=healthy", "gpu-02=healthy")
    (tmp_path / "train.toml").write_text(TRAIN)
    works = isolating(tmp_path, 'grep -q fake_data_loader "$2" && echo "step: 1 | loss: 2.5"; sleep 60', "works")
    plan = made.run("isolate-with-fake-data", "--dry-run", *works, hosts="gpu-01")
    assert plan.host("gpu-01")["verdict"] == "planned", plan.out
    assert (tmp_path / "train.toml").read_text() == TRAIN
    said = made.run("isolate-with-fake-data", "--yes", *works, hosts="gpu-01")
    assert said.host("gpu-01")["verdict"] == "resolved", said.out
    assert said.finding("gpu-01", "trainer_works")["status"] == "present"
    assert (tmp_path / "train.toml").read_text().rstrip("\n") == TRAIN + PUT_IN
    again = made.run("isolate-with-fake-data", "--yes", *works, hosts="gpu-01")
    assert (again.host("gpu-01")["verdict"], again.writes()) == ("healthy", []), again.out
    fails = isolating(tmp_path, 'echo "Traceback (most recent call last):"; sleep 60', "fails")
    said = made.run("isolate-with-fake-data", "--yes", *fails, hosts="gpu-02")
    assert said.host("gpu-02")["verdict"] == "unresolved", said.out
    assert said.finding("gpu-02", "trainer_fails")["status"] == "present"
