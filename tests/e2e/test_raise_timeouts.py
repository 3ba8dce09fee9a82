"""Timeouts of a rollout are raised over real SSH, and nothing else in the file changes."""

from __future__ import annotations

import json
import stat
from difflib import unified_diff

import pytest

pytestmark = pytest.mark.real("lab", "sshd")

TRAINING = """\
# One A40, one hour.
experiment_name: small-grpo
trial_name: trial0     # the folder of its logs
allocation_mode: "sglang.d1t1p1+d1t1p1"
cluster:
  n_nodes: 1
  fileroot: /workspace/outputs   # on the volume
  name_resolve: {type: nfs, nfs_record_root: '/tmp/${experiment_name}'}

rollout:
  experiment_name: ${experiment_name}
  trial_name: ${trial_name}
  max_concurrent_rollouts: 64
  queue_size: null
  consumer_batch_size: ${train_dataset.batch_size}
  enable_rollout_tracing: false

gconfig: &sampling
  n_samples: 4
  temperature: 1.0
  prompt: "{{ question }} {% raw %}"

actor:
  path: Qwen/Qwen2.5-0.5B-Instruct
  optimizer:
    lr: 1.70e-5        # as published
    weight_decay: 0.017
ref:
  path: ${actor.path}
eval_gconfig: *sampling
train_dataset:
    batch_size: 8
"""
ADDED = ["+  request_timeout: 7200\n", "+  request_retries: 5\n", "+  setup_timeout: 300\n"]


ON_HOST = "/run/lab/shared/job"
"""Where a host sees the directory of its configurations."""


@pytest.fixture
def lab(practice):
    made = practice("gpu-01=healthy")
    (made.lab.shared / "job").mkdir()
    return made


@pytest.fixture
def config(lab):
    path = lab.lab.shared / "job" / "train.yaml"
    path.write_text(TRAINING)
    path.chmod(0o640)
    return path


def given(*paths, more: tuple[str, ...] = ()) -> tuple[str, ...]:
    return ("-e", f"configs={json.dumps([f'{ON_HOST}/{path.name}' for path in paths])}", *more)


def test_three_lines_are_put_in_and_the_second_run_writes_nothing(lab, config):
    plan = lab.run("raise-timeouts", "--dry-run", *given(config))
    assert plan.host("gpu-01")["verdict"] == "planned", plan.out + plan.err
    assert config.read_text() == TRAINING
    assert plan.writes() == []
    shown = plan.step("gpu-01", "raise[0]")["diff"].splitlines(keepends=True)
    assert [it for it in shown[2:] if it[0] in "+-"] == ADDED
    said = lab.run("raise-timeouts", "--yes", *given(config, more=("-e", 'validate=["grep", "-q", "7200", "{}"]')))
    assert said.code == 0, said.out + said.err
    assert said.host("gpu-01")["verdict"] == "resolved"
    assert said.finding("gpu-01", "short")["status"] == "gone"
    assert said.step("gpu-01", "raise[0]")["verified"] is True
    assert said.step("gpu-01", "raised[0]")["status"] == "ok"
    changed = list(unified_diff(TRAINING.splitlines(True), config.read_text().splitlines(True)))
    assert [it for it in changed[2:] if it[0] in "+-"] == ADDED
    assert stat.S_IMODE(config.stat().st_mode) == 0o640
    again = lab.run("raise-timeouts", "--yes", *given(config))
    assert again.host("gpu-01")["verdict"] == "healthy", again.out
    assert again.writes() == []
    commands = said.step("gpu-01", "raise[0]")["commands"]
    assert "Qwen" not in "".join(it["line"] + it["stdout"] for it in commands), "the file itself is not recorded"
    (line,) = [it["stdout"] for it in commands if it["effect"] == "write"]
    (backup,) = [it for it in config.parent.iterdir() if it != config]
    assert backup.name.startswith("train.yaml.backup-")
    assert said.step("gpu-01", "raise[0]")["why"].endswith(f"; {line.strip()}")
    assert line == f"to put it back by hand: cp -p -- '{ON_HOST}/{backup.name}' '{ON_HOST}/{config.name}'\n"
    lab.exec("gpu-01", line.partition(": ")[2])
    assert config.read_text() == TRAINING


def test_what_is_high_enough_stays_and_what_is_lower_is_raised(lab, config):
    mine = "  request_timeout: 9000  # ours\n  request_retries: 3\n"
    config.write_text(TRAINING.replace("  queue_size: null\n", mine))
    said = lab.run("raise-timeouts", "--yes", *given(config))
    assert said.host("gpu-01")["verdict"] == "resolved", said.out
    text = config.read_text()
    assert "  request_timeout: 9000  # ours\n  request_retries: 5\n" in text
    assert text.count("setup_timeout: 300") == 1


def test_a_file_that_is_not_there_or_is_another_ends_in_advice(lab, config):
    other = config.parent / "other.yaml"
    other.write_text("server: {port: 1}\n")
    said = lab.run("raise-timeouts", "--yes", *given(config.parent / "none.yaml", other))
    assert said.code == 1
    assert said.host("gpu-01")["verdict"] == "unresolved", said.out
    assert said.finding("gpu-01", "no_config")["status"] == "present"
    assert "there is no rollout" in said.finding("gpu-01", "by_hand")["say"]
    assert said.writes() == []
    made = lab.run("raise-timeouts", "--yes", *given(other, more=("-e", "make_section=true")))
    assert made.host("gpu-01")["verdict"] == "resolved", made.out
    assert other.read_text() == (
        "server: {port: 1}\nrollout:\n  request_timeout: 7200\n  request_retries: 5\n  setup_timeout: 300\n"
    )


def test_a_file_that_cannot_be_understood_is_unknown_and_left_alone(lab, config):
    config.write_text(TRAINING + "---\nrollout: {}\n")
    said = lab.run("raise-timeouts", "--yes", *given(config))
    assert said.code == 1
    assert said.host("gpu-01")["verdict"] == "unknown", said.out
    assert "several YAML documents" in said.out
    assert said.writes() == []


def test_a_check_that_refuses_leaves_the_file_and_fails_the_step(lab, config):
    said = lab.run(
        "raise-timeouts", "--yes", *given(config, more=("-e", 'validate=["grep", "surely not in it", "{}"]'))
    )
    assert said.code == 1
    assert said.step("gpu-01", "raise[0]")["status"] == "failed"
    assert "grep rejects the new text (exit code 1)" in said.step("gpu-01", "raise[0]")["why"]
    assert config.read_text() == TRAINING
    assert [it.name for it in config.parent.iterdir()] == ["train.yaml"]
