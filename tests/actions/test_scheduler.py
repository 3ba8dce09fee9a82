"""scheduler: who drained a host decides whether it is resumed; jobs are waited for, and what is not known is said."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from runbook.errors import ConfigError, ProbeError
from runbook.language.arguments import build
from runbook.library.scheduler import scheduler
from runbook.library.scheduler.facts import kubernetes
from runbook.library.scheduler.facts import slurm as slurm_facts
from runbook.library.scheduler.facts.model import Node
from runbook.library.scheduler.facts.query import ask_node, read_node
from runbook.library.scheduler.facts.steering import drain, resume
from runbook.library.scheduler.scheduler import Fitness
from runbook.protocols import Fails, Holds
from runbook.values.plan import Blocked, Change, NoChange
from runbook.values.types import Unknown
from tests.support.probe_driver import SHELLS, Here
from tests.support.real_processes import each
from tests.support.tables import every_row

shells = pytest.mark.parametrize("shell", each(SHELLS))
OURS = Node(
    kind="slurm", name="gpu-07", asked_at="gpu-07", host_name="gpu-07", state="IDLE+DRAIN", drained=True,
    reason="runbook: node-reboot", by="root", since="2026-11-23T20:00:00",
)  # fmt: skip
WHOLE = Fitness()
IDLE = replace(OURS, state="IDLE", drained=False, reason="", by="", since="")


def seen(node, fitness=WHOLE, user="root"):
    if isinstance(node, Unknown):
        return scheduler.State(**dict.fromkeys(
            ("kind", "node", "state", "drained", "ours", "reason", "by", "jobs", "responds", "whole"), node,
        ), fitness=fitness, user=user)  # fmt: skip
    return scheduler.State(
        kind=node.kind, node=node.name, state=node.state, drained=node.drained, ours=node.ours(), reason=node.reason,
        by=node.by, jobs=node.jobs, responds=node.responds, whole=node, fitness=fitness, user=user,
    )  # fmt: skip


def decided(node, fitness=WHOLE, user="root", **args):
    return scheduler.decide(build(scheduler.Args, args), seen(node, fitness, user))


def resumed(node, fitness=WHOLE, **args):
    return decided(node, fitness, do="resume", **args)


@every_row(
    ("changed", "args", "words"),
    [
        ({"reason": "bad DIMM", "by": "alice"}, {}, "stays drained by alice since 2026-11-23T20:00:00 (bad DIMM)"),
        ({"by": "bob"}, {}, "that is not our drain"),
        ({"reason": "runbook: x; NHC: check_hw failed"}, {}, "that is not our drain"),
        ({"reason": ""}, {}, "no reason given"),
        ({}, {"only": "gpu-lost"}, "not our drain for 'gpu-lost'"),
        ({"drained": False, "state": "IDLE"}, {}, "is not drained (IDLE)"),
    ],
)
def test_what_somebody_else_has_drained_is_left_alone(changed, args, words):
    found = resumed(replace(OURS, **changed), **args)
    assert isinstance(found, NoChange)
    assert words in found.why


@every_row(
    ("changed", "fitness", "args", "words"),
    [
        ({"responds": False, "state": "DOWN+DRAIN+NOT_RESPONDING"}, {}, {}, "does not hear from it"),
        ({"obstacle": "it is powered down by Slurm"}, {}, {}, "stays drained: it is powered down"),
        ({}, {"expected": 8, "responding": 7}, {}, "7 of 8 GPUs respond"),
        (
            {},
            {"expected": 8, "responding": Unknown(why="nvidia-smi hangs")},
            {},
            "not known to respond (nvidia-smi hangs)",
        ),
        ({}, {"going_down": "a reboot was sent 2 min ago"}, {}, "stays drained: a reboot was sent"),
        ({"asked_at": "head"}, {"expected": 8}, {"gpus": 8}, "cannot be inspected from head"),
    ],
)
def test_our_own_drain_stays_while_the_host_is_not_whole(changed, fitness, args, words):
    found = resumed(replace(OURS, **changed), Fitness(**fitness), **args)
    assert isinstance(found, Blocked)
    assert words in found.why


@every_row("only", ["", "node-reboot"])
def test_our_own_drain_of_a_whole_host_is_taken_back(only):
    found = resumed(OURS, Fitness(expected=8, responding=8), only=only)
    assert isinstance(found, Change)
    assert [it.key for it in found.targets] == ["node:slurm:gpu-07"]


def test_a_host_that_takes_jobs_is_drained_and_its_jobs_are_waited_for():
    found = decided(replace(IDLE, jobs=("job 1 of bob (RUNNING)",)), do="drain", reason="x", wait="30m")
    assert isinstance(found, Change)
    assert "wait up to 30 min for job 1 of bob" in found.summary
    assert found.patience == 1800


def test_a_host_that_is_drained_already_keeps_its_reason_and_is_waited_for():
    other = replace(OURS, reason="bad DIMM", by="alice")
    assert isinstance(decided(other, do="drain", reason="x"), NoChange)
    found = decided(replace(other, jobs=("job 1 of bob (RUNNING)",)), do="drain", reason="x", wait=60)
    assert isinstance(found, Change)
    assert "drained by alice" in found.summary


def test_jobs_that_are_left_alone_are_neither_waited_for_nor_asked_about():
    """Mutants: ``_drain``, ``_waiting``, ``_unsettled`` or ``explain`` without ``leave_jobs``."""
    args = {"do": "drain", "reason": "x", "leave_jobs": True}
    busy = replace(IDLE, jobs=("job 1 of bob (RUNNING)",))
    for node in (busy, replace(IDLE, jobs=Unknown(why="squeue failed"))):
        found = decided(node, **args)
        assert isinstance(found, Change)
        assert "wait" not in found.summary
    after = replace(busy, drained=True, state="MIXED+DRAIN", reason="runbook: x", by="root")
    made = build(scheduler.Args, args)
    assert scheduler.settled(made, seen(busy), seen(after))
    assert not scheduler.settled(made, seen(busy), seen(busy))
    other = replace(after, reason="bad DIMM", by="alice")  # drained right before us: its reason has stayed
    assert "not by us: it is drained by alice" in scheduler.explain(made, seen(busy), seen(other))
    assert not scheduler.settled(made, seen(busy), seen(other))


@every_row("state", ["DOWN", "DOWN+DRAIN", "IDLE+DRAIN"])
def test_a_node_that_is_out_of_service_keeps_its_reason_where_jobs_are_left_alone(state):
    """Mutants: ``_drain`` without ``node.down``; ``read_node`` without it; ``whose`` that calls it drained."""
    row = f"NodeName=gpu-07 State={state} Reason=bad DIMM [alice@2026-11-23T20:00:00]"
    node = slurm_facts.read_node(row, ("job 1 of bob (RUNNING)",), "gpu-07")
    found = decided(node, do="drain", reason="x", leave_jobs=True)
    assert isinstance(found, NoChange)
    word = "down" if state == "DOWN" else "drained"
    assert found.why == f"gpu-07 is {word} by alice since 2026-11-23T20:00:00 (bad DIMM)"


def test_jobs_that_cannot_be_listed_are_not_no_jobs():
    found = decided(replace(OURS, jobs=Unknown(why="squeue failed")), do="drain", reason="x")
    assert isinstance(found, Blocked)
    assert "squeue failed" in found.why


@every_row("do", [{"do": "drain", "reason": "x"}, {"do": "resume"}])
def test_an_unknown_scheduler_permits_nothing(do):
    assert isinstance(decided(Unknown(why="there is no scontrol in PATH"), **do), Blocked)


@every_row(
    ("args", "words"),
    [
        ({"do": "drain"}, "needs a `reason`"),
        ({"do": "drain", "reason": "a; b"}, "no quotes"),
        ({"do": "drain", "reason": "a\nb"}, "no quotes"),
        ({"do": "drain", "reason": "x" * 121}, "longer"),
        ({"do": "resume", "node": "a b"}, "not the name of a node"),
        ({"do": "resume", "node": "-x"}, "not the name of a node"),
        ({"do": "undrain"}, "drain"),
    ],
)
def test_a_mistake_in_a_playbook_is_refused(args, words):
    with pytest.raises(ConfigError, match=words):
        build(scheduler.Args, args)


def test_under_verify_a_drained_host_has_no_jobs_and_a_resumed_one_takes_them():
    drained, back = build(scheduler.Args, {"do": "drain", "reason": "x"}), build(scheduler.Args, {})
    assert isinstance(scheduler.holds(drained, seen(OURS)), Holds)
    assert isinstance(scheduler.holds(drained, seen(replace(OURS, jobs=("job 1",)))), Fails)
    assert isinstance(scheduler.holds(back, seen(OURS)), Fails)
    assert isinstance(scheduler.holds(back, seen(IDLE)), Holds)
    assert isinstance(scheduler.holds(back, seen(replace(IDLE, responds=False))), Fails)


# --- the scripts, against programs that answer as the real ones do

SCONTROL = r"""#!/bin/sh
D=$(dirname "$0")
echo "$*" >>$D/calls
case "$*" in
  '-o show node gpu-07') cat $D/row; exit 0;;
  '-o show node') sed 's/NodeName=gpu-07/NodeName=n7/' $D/row; exit 0;;
  *'show node'*) echo "Node ${4} not found"; exit 1;;
  update*State=DRAIN*) sed -i 's/State=IDLE /State=IDLE+DRAIN /' $D/row;;
  update*State=RESUME*) sed -i 's/State=IDLE+DRAIN /State=IDLE /' $D/row;;
esac
"""
ROW = "NodeName=gpu-07 NodeHostName={host} State={state} Owner=N/A{reason}\n"


@pytest.fixture
def slurm(tmp_path):
    """Programs of Slurm in a directory, for a node in that state."""

    def made(state="IDLE", reason="", jobs="", name="gpu-07", host="gpu-07"):
        for program, text in (
            ("scontrol", SCONTROL),
            ("squeue", f"#!/bin/sh\nprintf '%s' '{jobs}'\n"),
            ("uname", f"#!/bin/sh\necho {name}.cluster\n"),
        ):
            (tmp_path / program).write_text(text)
            (tmp_path / program).chmod(0o755)
        reason = f" Reason={reason}" if reason else ""
        (tmp_path / "row").write_text(ROW.format(state=state, reason=reason, host=host))
        return tmp_path

    return made


def asked(path: Path | None, *words, shell="dash"):
    return read_node(Here(path=path, shell=SHELLS[shell]).run(ask_node(*words))[0])


@shells
def test_slurm_is_found_and_its_node_and_jobs_are_read(slurm, shell):
    node = asked(
        slurm("MIXED+DRAIN", "runbook: a b [root@2026-11-23T20:00:00]", "12 RUNNING bob\n"),
        "auto",
        "gpu-07",
        shell=shell,
    )
    assert isinstance(node, Node), node
    assert (node.kind, node.name, node.reason, node.by) == ("slurm", "gpu-07", "runbook: a b", "root")
    assert node.jobs == ("job 12 of bob (RUNNING)",)


def test_a_node_is_found_by_the_name_of_its_host(slurm):
    node = asked(slurm(name="host9", host="host9"))
    assert isinstance(node, Node)
    assert (node.name, node.here) == ("n7", True)


def test_a_node_that_slurm_does_not_know_is_unknown_where_it_is_named(slurm):
    found = asked(slurm(), "auto", "gpu-99")
    assert isinstance(found, Unknown)
    assert "gpu-99" in found.why


def test_a_machine_of_slurm_that_is_no_node_has_no_scheduler_that_could_be_drained(slurm, empty_notes):
    found = asked(slurm(name="login1", host="other"))
    assert isinstance(found, Node)
    assert found.kind == "none"


def test_a_controller_that_does_not_answer_is_unknown(slurm):
    path = slurm()
    (path / "scontrol").write_text(
        "#!/bin/sh\necho 'slurm_load_node error: Unable to contact slurm controller' >&2; exit 1\n"
    )
    found = asked(path)
    assert isinstance(found, Unknown)
    assert "Unable to contact slurm controller" in found.why


def test_squeue_that_fails_leaves_the_jobs_unknown(slurm):
    path = slurm()
    (path / "squeue").write_text("#!/bin/sh\necho 'slurm_load_jobs error: timed out' >&2; exit 1\n")
    node = asked(path)
    assert isinstance(node, Node)
    assert isinstance(node.jobs, Unknown)


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("runbook: node-reboot [root@2026-11-23T20:00:00]", 0),
        ("runbook: node-reboot [bob@2026-11-23T20:00:00]", 10),
        ("runbook: gpu-lost [root@2026-11-23T20:00:00]", 10),
        ("runbook: node-reboot; NHC: x [root@2026-11-23T20:00:00]", 10),
        ("bad DIMM [alice@2026-11-23T20:00:00]", 10),
    ],
)
@shells
def test_right_before_a_resume_the_reason_is_read_once_more(slurm, shell, reason, code):
    """Mutants: steer.sh without ``ours "$why"``, without the user, or without the `;`."""
    path = slurm("IDLE+DRAIN", reason)
    done = Here(path=path, shell=SHELLS[shell]).run(resume(OURS, "node-reboot", 0))[0]
    assert done.exit_code == code, done.stderr
    assert ("State=RESUME" in (path / "calls").read_text()) is (code == 0)


def test_a_node_that_does_not_respond_is_not_resumed(slurm):
    path = slurm("DOWN+DRAIN+NOT_RESPONDING", "runbook: node-reboot [root@2026-11-23T20:00:00]")
    done = Here(path=path).run(resume(OURS, "", 0))[0]
    assert (done.exit_code, "does not respond" in done.stderr) == (11, True)
    assert "RESUME" not in (path / "calls").read_text()


@shells
def test_a_drain_of_somebody_else_is_not_overwritten(slurm, shell):
    path = slurm("IDLE+DRAIN", "bad DIMM [alice@2026-11-23T20:00:00]")
    assert Here(path=path, shell=SHELLS[shell]).run(drain(IDLE, "runbook: x", "me"))[0].exit_code == 0
    assert "update" not in (path / "calls").read_text()


def test_what_slurm_refuses_is_said(slurm):
    path = slurm()
    text = SCONTROL.replace(
        "update*State=DRAIN*)", "update*) echo 'slurm_update error: Invalid user id'; exit 1;; nothing)"
    )
    (path / "scontrol").write_text(text)
    done = Here(path=path).run(drain(IDLE, "runbook: x", "me"))[0]
    assert (done.exit_code, "Invalid user id" in done.stderr) == (12, True)


@pytest.fixture
def empty_notes(tmp_path, monkeypatch):
    """Where a host keeps our marks, for this test alone."""
    notes = tmp_path / "notes"
    notes.mkdir(mode=0o700)
    (notes / ".runbook-locks").touch(mode=0o600)
    monkeypatch.setenv("RUNBOOK_LOCK_PLACES", str(notes))
    return notes


PLAIN = Node(kind="none", name="here", asked_at="here", jobs_known=False)


@pytest.mark.real("root")
@shells
def test_a_host_without_a_scheduler_has_a_mark_of_ours(empty_notes, shell):
    here = Here(shell=SHELLS[shell])
    assert here.run(drain(PLAIN, "runbook: node-drain", "root@ops"))[0].exit_code == 0
    node = read_node(here.run(ask_node("none"))[0])
    assert isinstance(node, Node)
    assert (node.drained, node.reason, node.by) == (True, "runbook: node-drain", "root@ops")
    assert node.ours()
    assert here.run(resume(PLAIN, "gpu-lost", 0))[0].exit_code == 10
    assert here.run(resume(PLAIN, "node-drain", 0))[0].exit_code == 0
    assert sorted(os.listdir(empty_notes)) == [".runbook-locks"]


@pytest.mark.real("root")
def test_a_mark_that_is_a_link_is_not_believed(empty_notes, tmp_path):
    (tmp_path / "secret").write_text("runbook: x\n")
    (empty_notes / "drained").symlink_to(tmp_path / "secret")
    found = read_node(Here().run(ask_node("none"))[0])
    assert isinstance(found, Unknown)


# --- Kubernetes


def kubernetes_node(unschedulable=False, note="", ready="True", **changed):
    notes = {"node.alpha.kubernetes.io/ttl": "0"} | ({kubernetes.MARK: note} if note else {})
    tree = {
        "kind": "Node",
        "metadata": {"name": "ip-10-0-0-7.ec2.internal", "annotations": notes, "labels": {"kubernetes.io/hostname": "n7"}},
        "spec": {"providerID": "aws:///x"} | ({"unschedulable": True} if unschedulable else {}),
        "status": {"conditions": [{"type": "DiskPressure", "status": "False"}, {"type": "Ready", "status": ready}]},
    }  # fmt: skip
    return kubernetes.read_node(json.dumps(tree | changed, indent=4), (), "n7")


@every_row(
    ("given", "state", "ours", "responds"),
    [
        ({}, "Ready", False, True),
        ({"note": "runbook: x"}, "Ready", False, True),
        ({"unschedulable": True}, "Ready,SchedulingDisabled", False, True),
        ({"unschedulable": True, "note": "runbook: x"}, "Ready,SchedulingDisabled", True, True),
        ({"unschedulable": True, "note": "runbook: x", "ready": "Unknown"}, "NotReady,SchedulingDisabled", True, False),
        ({"status": {}}, "NotReady", False, False),
    ],
)
def test_a_cordon_is_ours_where_it_has_our_words(given, state, ours, responds):
    node = kubernetes_node(**given)
    assert (node.state, node.ours(), node.responds) == (state, ours, responds)
    assert node.here


@every_row("text", ["", "[]", "{}", '{"kind": "Pod", "metadata": {"name": "x"}}', "error: x"])
def test_what_is_no_node_is_not_believed(text):
    with pytest.raises(ProbeError, match="no node"):
        kubernetes.read_node(text, (), "n7")


def test_pods_that_a_drain_leaves_do_not_count():
    rows = [
        "kube-system   kube-proxy-x7k2p   DaemonSet    Running",
        "kube-system   etcd-n7            Node         Running",
        "training      grpo-worker-0      Job          Running",
        "training      grpo-worker-1      Job          Succeeded",
        "default       bare               <none>       Pending",
    ]
    found = kubernetes.read_pods(rows, "")
    assert found == ("pod training/grpo-worker-0 (Running)", "pod default/bare (Pending)")
    assert isinstance(kubernetes.read_pods(["a b"], ""), Unknown)
    assert isinstance(kubernetes.read_pods([], "kubectl failed"), Unknown)
