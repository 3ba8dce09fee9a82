"""Rules of the playbooks that come along, held against what looks might have seen."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from runbook.commands.input_files import find_playbook, library, read_playbook
from runbook.errors import ConfigError
from runbook.language.expressions.history import HistoryScope
from runbook.language.expressions.templates import Scope, evaluate, render, say
from runbook.language.expressions.views import UnknownTouched
from runbook.plugins import discover
from runbook.values.playbook import Playbook
from runbook.values.recorded_change import RecordedAnswer
from runbook.values.types import Unknown
from tests.support.data_readers import kernel_conclusions
from tests.support.tables import every_row


@cache
def book(name: str) -> Playbook:
    return read_playbook(find_playbook(name), discover())


def rule(name: str, finding: str):
    return next(it for it in book(name).findings if it.id == finding)


def scope(
    name: str, looks: dict[str, Any], host: str = "gpu-01", groups: tuple[str, ...] = ("gpu",), **inputs
) -> Scope:
    known = {it.name: it.default for it in book(name).inputs} | inputs
    own = {"name": host, "groups": list(groups)}
    return Scope(inputs=known, host=own, run={"started_at": "NOW"}, states=looks, let=book(name).let[""])


def matches(**steps: list[int]) -> dict[str, Any]:
    """What a scan of the logs of several runs saw: the steps in each, and how each ended."""
    found = [
        {"signature": "step", "file": f"/{name}.log", "line": at, "text": f"step {number}", "number": number}
        for name, numbers in steps.items()
        for at, number in enumerate(numbers)
    ]
    return {
        "files": [f"/{it}.log" for it in steps],
        "matches": found,
        "found": ["step"] if found else [],
        "counts": {"step": len(found), "done": 0, "at_the_end": 0},
        "last": [],
    }


@every_row(
    ("runs", "same"),
    [
        (matches(a=[55, 56, 57], b=[56, 57]), True),
        (matches(a=[55, 56, 57], b=[56, 57], c=[57]), True),
        (matches(a=[55, 56, 57], b=[56, 58]), False),
        (matches(a=[55, 56, 57]), False),
        (matches(a=[57], b=[]), False),
        ({**matches(a=[57], b=[57]), "counts": {"step": 2, "done": 1, "at_the_end": 0}}, False),
        (matches(), False),
    ],
)
def test_runs_that_stop_at_the_same_step_are_told(runs, same):
    there = rule("training-crash", "same_step")
    assert evaluate(there.when, scope("training-crash", {"runs": runs})) is same
    if same:
        assert "stopped at step 57" in say(there.say, scope("training-crash", {"runs": runs}))


class Earlier:
    """What `runs` saw ten minutes ago, or a record that is not believed."""

    def __init__(self, state: Any) -> None:
        self._state = state

    def answer(self, _host: str, _probe: str) -> Any:
        if isinstance(self._state, Unknown) or self._state is None:
            return self._state
        return RecordedAnswer(run="r", state=self._state, ago=600.0)


def log(step: int, age: float, file: str = "/a.log") -> dict[str, Any]:
    there = matches(a=[step - 1, step])
    there["matches"] = [{**it, "file": file} for it in there["matches"]]
    return {**there, "files": [file], "last": [{"file": file, "text": "...", "age": age}]}


@every_row(
    ("now", "before", "stuck"),
    [
        (log(57, 60.0), log(57, 30.0), True),
        (log(57, 60.0, "/b.log"), log(57, 30.0), True),
        (log(58, 60.0), log(57, 30.0), False),
        (log(57, 700.0), log(57, 30.0), False),  # nothing was written since
        (log(57, 60.0), None, False),
        (log(57, 60.0), Unknown(why="edited"), False),
        ({**log(57, 60.0), "counts": {"done": 1, "at_the_end": 0}}, log(57, 30.0), False),
    ],
)
def test_a_training_that_got_no_further_since_the_last_run_is_told(now, before, stuck):
    there = rule("training-crash", "no_progress")
    seen = replace(
        scope("training-crash", {"runs": now}),
        history=HistoryScope(past=Earlier(before), host="h"),  # type: ignore[arg-type]
    )
    assert evaluate(there.when, seen) is stuck
    if stuck:
        assert "ended 10.0 min ago" in say(there.say, seen)


def jobs(*pids: int, seconds: float = 9000.0, at_work: tuple[int, ...] = ()) -> dict[str, Any]:
    return {"leftover": [{"pid": it, "seconds": seconds} for it in pids], "at_work": [{"pid": it} for it in at_work]}


@every_row(
    ("now", "before", "idle"),
    [
        (jobs(1, 2), jobs(1, 2, 3), True),
        (jobs(1, 2), jobs(1), False),
        (jobs(1, seconds=300.0), jobs(1), False),  # another process with that pid
        (jobs(1), jobs(1, at_work=(1,)), False),
        (jobs(1, at_work=(2,)), jobs(1), False),
        (jobs(), jobs(), False),
        (jobs(1), None, False),
        (jobs(1), Unknown(why="edited"), False),
    ],
)
def test_processes_that_were_idle_in_the_last_run_are_told(now, before, idle):
    there = rule("stuck-node", "idle_before")
    seen = replace(scope("stuck-node", {"jobs": now}), history=HistoryScope(past=Earlier(before), host="h"))  # type: ignore[arg-type]
    assert evaluate(there.when, seen) is idle
    if idle:
        assert "10 min ago" in say(there.say, seen)


def test_runs_whose_logs_cannot_be_read_are_unknown():
    blind = {**matches(a=[57], b=[57]), "matches": {"$unknown": "not readable"}}
    answer = evaluate(rule("training-crash", "same_step").when, scope("training-crash", {"runs": Unknown(why="blind")}))
    assert isinstance(answer, Unknown), blind


def test_what_was_tried_on_which_machine_is_written_below_what_stands_there():
    (step,) = (it for it in book("training-crash").remediate if it.id == "write_down")
    seen = scope("training-crash", {"noted": {"value": ["before: stopped on a spot instance"]}}, instance="regular")
    assert (
        render(step.args["content"], seen) == "before: stopped on a spot instance\nNOW: stopped on a regular instance\n"
    )
    assert evaluate("inputs.instance and true", scope("training-crash", {})) is False


PEER = {"selfplay_jobs": 2, "gpu_percent": 0.0, "is_cuda_gpu_node": True}


def leader(role: str = "leader", **keys: Any) -> dict[str, Any]:
    said = {"node_id": "boss", "role": role, "leader_id": "other", "self": {**PEER, "selfplay_jobs": 0}, **keys}
    return {"json": {"peers": {"gpu-01": PEER}, **said}, "ok": True}


@every_row(("host", "known"), [("boss", True), ("gpu-01", True), ("gpu-02", False)])
def test_the_leader_itself_is_a_node_that_it_knows(host, known):
    """`reset-node-jobs --hosts all` takes the leader, which is none of its own peers."""
    looks = {"status": leader(), "jobs": {"matches": []}}
    seen = scope("reset-node-jobs", looks, host=host, groups=("cpu",))
    assert evaluate(rule("reset-node-jobs", "not_known").when, seen) is not known
    if known:
        assert evaluate(rule("reset-node-jobs", "inflated").when, seen) is (host == "gpu-01")
        assert evaluate(rule("reset-node-jobs", "running").when, seen) is False


def test_only_the_leader_has_anything_ended():
    """A follower's word is an error of its own, which stands in for `stuck`."""
    follower = scope("stuck-node", {"status": leader("follower")})
    assert evaluate(rule("stuck-node", "not_leader").when, follower) is True
    assert rule("stuck-node", "not_leader").severity.drives
    assert "not_leader" in rule("stuck-node", "stuck").unless
    assert evaluate(rule("stuck-node", "not_leader").when, scope("stuck-node", {"status": leader()})) is False


def sampled(*busy: float | None, every: float = 10.0) -> dict[str, Any]:
    """What `watched` saw: how busy the GPU was in each sample; None: nvidia-smi did not answer."""
    samples: list[dict[str, Any]] = []
    missed = []
    for number, value in enumerate(busy):
        if value is None:
            missed.append({"at": number * every, "why": "hangs"})
        samples.append(
            {"$unknown": "hangs"} if value is None else {"gpus": [{"utilization": value}], "at": number * every}
        )
    known = len(busy) - len(missed)
    return {"samples": samples, "asked": 61, "known": known, "unknown": missed, "seconds": 600.0, "absent": ""}


TEN_MINUTES = sampled(*[0.0] * 61)
BUSY_ONCE = sampled(*[0.0] * 30, 90.0)


@every_row(
    ("watched", "zombie_nodes", "earlier", "inputs", "ends"),
    [
        (TEN_MINUTES, [], None, {}, True),
        (None, ["gpu-01"], None, {}, True),
        (None, ["gpu-01"], None, {"watch": 0}, True),
        (None, [], None, {"watch": 0}, False),  # one look
        (None, [], jobs(1), {"watch": 0}, False),  # two looks
        (sampled(0.0, 0.0), [], jobs(1), {}, None),  # and a sample 10 s later
        (BUSY_ONCE, [], jobs(1), {}, False),  # a busy minute in between
        (sampled(*[0.0] * 30, None, *[0.0] * 30), [], None, {}, None),  # a gap
        (sampled(*[0.0] * 60), [], None, {}, None),  # ten seconds less
        (None, ["gpu-02"], None, {"watch": 0}, False),
        (None, ["gpu-01"], None, {"watch": 15}, None),  # the leader's ten minutes are not fifteen
    ],
)
def test_only_ten_minutes_of_samples_or_the_leaders_own_report_end_anything(
    watched, zombie_nodes, earlier, inputs, ends
):
    """Mutants: the record of an earlier run counted; `watch: 0` taken for enough; a gap passed over."""
    looks = {"status": leader(idle_detection_stats={"zombie_nodes": zombie_nodes}), "jobs": jobs(1)}
    looks["watched"] = watched or Unknown(why="skipped")
    past = HistoryScope(past=Earlier(earlier), host="h")  # type: ignore[arg-type]
    seen = replace(scope("stuck-node", looks, **inputs), history=past)
    stuck = evaluate(rule("stuck-node", "stuck").when, seen)
    assert isinstance(stuck, Unknown) if ends is None else stuck is ends
    (step,) = (it for it in book("stuck-node").diagnose if it.id == "watched")
    assert evaluate(step.when, seen) is (watched is not None or inputs.get("watch") == 15)
    assert evaluate(rule("stuck-node", "one_look").when, seen) is (not ends and inputs.get("watch") == 0)


@every_row(
    ("seconds", "inputs", "long_known"),
    [(9000.0, {}, True), (600.0, {}, True), (599.0, {}, False), (3.0, {"older_than": 0}, True)],
)
def test_the_leaders_report_is_not_about_jobs_that_are_younger_than_its_ten_minutes(seconds, inputs, long_known):
    """Mutant: the list of zombies alone."""
    now = jobs(1, 2, seconds=9000.0)
    now["leftover"][1]["seconds"] = seconds
    looks = {"status": leader(idle_detection_stats={"zombie_nodes": ["gpu-01"]}), "jobs": now}
    (watched,) = (it for it in book("stuck-node").diagnose if it.id == "watched")
    assert evaluate(watched.when, scope("stuck-node", looks, **inputs)) is not long_known


def test_jobs_whose_owner_lives_are_named_with_the_way_to_end_them():
    spared = {**jobs(), "owned": [{"pid": 7, "owner": "the service selfplay.service"}], "matches": [{"pid": 7}]}
    seen = scope("stuck-node", {"status": leader(), "jobs": spared})
    owned = rule("stuck-node", "owned")
    assert evaluate(owned.when, seen) is True
    assert "owner: the service selfplay.service" in say(owned.say, seen)
    assert "-e spare_owned=false" in say(owned.say, seen)
    assert evaluate(owned.when, scope("stuck-node", seen.states, spare_owned=False)) is False
    steps = [
        it for it in (*book("stuck-node").diagnose, *book("stuck-node").remediate) if it.id in ("jobs", "end_jobs")
    ]
    assert [render(it.args["spare_owned"], scope("stuck-node", {}, spare_owned=False)) for it in steps] == [False] * 2


def test_the_neighbouring_documents_are_named_where_they_go_on():
    where = {"dead": "DAEMON_FAILURE_RECOVERY", "no_status": "P2P_LEADER_FAILOVER", "no_games": "GAME_HEALTH"}
    for finding, document in where.items():
        assert any(document in it for it in rule("stuck-node", finding).advise)


@every_row("name", ["stuck-node", "reset-node-jobs"])
def test_a_key_for_the_leader_is_sent_only_where_there_is_one(name):
    (step,) = (it for it in book(name).remediate if it.id == "reset_count")
    assert render(step.args["headers"], scope(name, {}, admin_key="k3y")) == {"X-Admin-Key": "k3y"}
    assert render(step.args["headers"], scope(name, {})) == {}
    assert next(it for it in book(name).inputs if it.name == "admin_key").hides("k3y")


@every_row(("lines", "words"), [(["Traceback"], "Read its log"), ([], "It left no log")])
def test_a_log_that_is_empty_is_not_to_be_read(lines, words):
    looks = {"which": {"chosen": {"name": "run"}}, "log": {"kept": True, "lines": lines}}
    assert say(rule("container-death", "unexplained").advise[0], scope("container-death", looks)).startswith(words)


@every_row(
    ("smi", "said", "words"),
    [
        ("failed", "a GPU has fallen off the bus or cannot be reached (exit code 15): ... GPU is lost.", "runbook run gpu-lost"),
        ("failed", "exit code 255: Unable to determine the device handle for GPU0000:07:00.0: Unknown Error", "runbook run gpu-lost"),
        ("failed", "exit code 255: Failed to initialize NVML: Unknown Error", "runbook run container-lost-gpu"),
        ("failed", "not permitted (exit code 4): Failed to initialize NVML: Insufficient Permissions", "device files are not this user's"),
        ("failed", "exit code 255: Failed to initialize NVML: GPU access blocked by the operating system", "WSL"),
        ("no_devices", "a GPU could not be queried, or no GPU is usable (exit code 6): No devices were found", "RmInitAdapter"),
        ("no_driver", "the NVIDIA driver is not loaded or does not answer (exit code 9)", "Is the driver loaded"),
    ],
)  # fmt: skip
def test_each_way_in_which_nvidia_smi_fails_has_its_own_advice(smi, said, words):
    """Mutant: one advice for all of them."""
    looks = {"health": {"smi": smi, "smi_said": said}}
    assert words in say(rule("gpu-health", "no_driver").advise[0], scope("gpu-health", looks))


@every_row(
    ("error", "words"),
    [
        ('could not select device driver "" with capabilities: [[gpu]]', "install the NVIDIA container toolkit"),
        ("CDI device injection failed: unresolvable CDI devices runtime.nvidia.com/gpu=all", "nvidia-ctk cdi generate"),
        ("nvidia-container-cli: mount error: /usr/lib/libnvidia-ml.so.1: file exists: unknown", "not from the host"),
        ("nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.8, please update your driver", "too old for this image"),
        ("nvidia-container-cli: initialization error: driver rpc error: timed out", "runbook run gpu-health"),
        ("Error starting userland proxy: listen tcp4 0.0.0.0:80: bind: address already in use", "The host's port is taken"),
        ("mkdir /var/lib/docker/overlay2/1: no space left on device", "runbook run disk-full"),
        ("exec /run.sh: exec format error", "another processor"),
        ("error mounting /etc/x to rootfs: not a directory: Are you trying to mount a directory onto a file", "rmdir"),
        ('error gathering device information while adding custom device "/dev/sda": no such file', "`--device`"),
        ("failed to write 1761 to cgroup.procs: permission denied", "nesting"),
        ('exec: "/bin/topsy": stat /bin/topsy: no such file or directory', "not in the image"),
        ('exec: "/entry.sh": permission denied', "chmod +x"),
        ("something that nobody knows", "all that is known"),
    ],
)  # fmt: skip
def test_a_container_that_could_not_be_started_has_the_advice_for_its_error(error, words):
    """Mutants: the order of the words; the last container's error taken for another one's."""
    there = [{"status": "exited", "error": "an older one"}, {"status": "created", "error": error}]
    seen = scope("container-death", {"containers": {"containers": there}})
    assert words in say(rule("container-death", "could_not_start").advise[0], seen)


@every_row(
    ("line", "found"),
    [
        ("EDAC MC3: 1 UE memory read error on CPU_SrcID#1_MC#1_Chan#2_DIMM#0 (channel:2 slot:0)", "uncorrected_errors"),
        ("{2}[Hardware Error]: event severity: fatal", "uncorrected_errors"),
        ("Memory failure: 0xb757589: recovery action for dirty LRU page: Recovered", "uncorrected_errors"),
        ("pcieport 0000:00:03.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer", "uncorrected_errors"),
        ("mce: [Hardware Error]: CPU 3: Machine Check Exception: 5 Bank 4: be00000000800400", "uncorrected_errors"),
        ("mce: [Hardware Error]: Machine check events logged", "hardware_errors"),
        ("{1}[Hardware Error]: event severity: recoverable", "hardware_errors"),
        ("pcieport 0000:00:03.0: PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=Transaction Layer", "hardware_errors"),
        ("nvidia 0000:07:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0003 address=0x80000040]", "dma_refused"),
    ],
)  # fmt: skip
def test_what_lost_data_is_told_from_what_only_passed_by(line, found):
    looks = {"kernel": kernel_conclusions(f"[ 100.000000] {line}")}
    seen = scope("gpu-health", looks)
    told = [
        it
        for it in ("uncorrected_errors", "dma_refused", "hardware_errors")
        if evaluate(rule("gpu-health", it).when, seen)
    ]
    assert told[0] == found, "what stands first explains the others (`unless`)"
    assert line in say(rule("gpu-health", found).say, seen)
    assert {"uncorrected_errors", "dma_refused"} <= set(rule("gpu-health", "hardware_errors").unless)


@every_row(
    ("errno", "step"), [("ENOENT", "make_outputs"), ("EACCES", "own_outputs"), ("EROFS", None), ("ENOSPC", None)]
)
def test_the_directory_of_the_outputs_is_made_or_given_to_its_owner(errno, step):
    seen = scope("pipeline-hang", {"writable": {"errno": errno}}, outputs_owner="ann", repair=["directory"])
    steps = {it.id: evaluate(it.when, seen) for it in book("pipeline-hang").remediate if it.id.endswith("_outputs")}
    assert [name for name, due in steps.items() if due] == ([step] if step else [])


@every_row("asked", [True, False])
def test_a_log_of_starts_that_nobody_named_leaves_nothing_unknown(asked):
    """Any `*.log` beside a job may have such lines, without a time."""
    looks = {"there": {"count": 1}, "starts": {"loop": {"$unknown": "the lines of starts have no time"}}}
    seen = scope("restart-loop", looks, need_log=asked)
    found = {it: evaluate(rule("restart-loop", it).when, seen) for it in ("clone_over", "other_loop", "not_told")}
    if asked:
        assert isinstance(found["other_loop"], Unknown)
        assert found["not_told"] is False
    else:
        assert found == {"clone_over": False, "other_loop": False, "not_told": True}


def test_a_fault_of_a_program_without_a_number_leaves_nothing_unknown():
    """A log that names no process: nothing is looked for, nothing is ended, and the fault is told."""
    fault = {
        "need": "restart the application",
        "names_process": False,
        "code": 31,
        "bus_id": "0000:1a:00.0",
        "meaning": "m",
    }
    looks = {"kernel": {"xids": [fault]}, "named": {"alive": []}}
    (named,) = (it for it in book("gpu-xid").diagnose if it.id == "named")
    assert render(named.args["xids"], scope("gpu-xid", looks)) == []
    assert evaluate(rule("gpu-xid", "application_unnamed").when, scope("gpu-xid", looks))
    assert not evaluate(rule("gpu-xid", "application_gone").when, scope("gpu-xid", looks))


def test_only_the_newest_holder_of_a_lock_that_is_not_in_state_d_is_ended():
    """Mutants: gpu-hang without `rejectattr`; with the first of `owners`; with every process that hangs; without the
    protected ones, who are then left alone without a word.
    """
    tasks = [
        {"pid": 5, "owner": "old", "owner_pid": 40, "seconds": 1.0},
        {"pid": 6, "owner": "holder", "owner_pid": 41, "seconds": 2.0},
        {"pid": 7, "owner": "hangs", "owner_pid": 7, "seconds": 3.0},
    ]
    alive, spared = {"pid": 41, "start": 9, "command": "x"}, {"pid": 42, "start": 8, "command": "y"}
    looks = {
        "blocked": {"pids": [5, 6, 7], "in_driver": [{"pid": 5}, {"pid": 6}, {"pid": 7}]},
        "kernel": {"hung_tasks": tasks},
        "holder": {"alive": [alive], "protected": [{"pid": 42, "why": "w", "process": spared}]},
    }
    seen = scope("gpu-hang", looks, end_owner=True)
    (holder,) = (it for it in book("gpu-hang").diagnose if it.id == "holder")
    (step,) = book("gpu-hang").remediate
    assert render(holder.args["xids"], seen) == [{"pid": 41, "name": "holder", "seconds": 2.0}]
    assert evaluate(holder.when, seen)
    assert evaluate(step.when, seen)
    assert render(step.args["processes"], seen) == [alive, spared]
    all_hang = {**looks, "blocked": {"pids": [7, 40, 41]}}
    assert not evaluate(step.when, scope("gpu-hang", all_hang, end_owner=True))
    assert not evaluate(step.when, scope("gpu-hang", looks))


@every_row(
    ("name", "waits_for", "next_step"),
    [
        ("nvidia-smi", "", "runbook run gpu-hang --hosts gpu-01"),
        ("UVM global queue", "", "runbook run gpu-hang --hosts gpu-01"),
        ("nfsd", "", "`sudo cat /proc/7/stack`"),
        ("nvme-wq", "", "`sudo cat /proc/7/stack`"),
        ("python3", "GPU driver", "runbook run gpu-hang --hosts gpu-01"),
        ("python3", "network file system", "runbook run nfs-hang --hosts gpu-01"),
        ("python3", "FUSE", "findmnt -t fuse"),
        ("python3", "disk", "disk-slow --hosts gpu-01"),
    ],
)
def test_the_advice_for_a_hung_task_depends_on_whose_it_is_and_on_what_it_waits_for(name, waits_for, next_step):
    """Mutants: ``driver_hangs`` that takes an nvme thread for one of the driver; a test that Jinja does not have."""
    task = {"name": name, "pid": 7, "waited": 122, "at": "now", "waits_for": waits_for, "waits_in": "f of x"}
    seen = scope("gpu-health", {"kernel": {"hung_tasks": [task], "lockups": []}})
    (lockup,) = (it for it in book("gpu-health").findings if it.id == "machine_hangs")
    assert next_step in say(lockup.advise[0], seen)


@every_row(
    ("text", "next_step"),
    [
        ("nvme 0000:01:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0000 address=0x1]", "runbook run disk-slow"),
        ("mlx5_core 0000:01:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0000 address=0x1]", "mlxfwmanager"),
        ("nvidia 0000:01:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0000 address=0x1]", "from GPU to GPU"),
        ("DMAR: [DMA Read NO_PASID] Request device [17:00.0] fault addr 0x1 [fault reason 0x06]", "from GPU to GPU"),
    ],
)
def test_the_advice_for_a_refused_access_is_about_the_device_that_asked(text, next_step):
    other = "nvme 0000:09:00.0: AER: can't recover (no error_detected callback)"
    seen = scope("gpu-health", {"kernel": {"hardware_errors": [{"text": text}, {"text": other}]}})
    (refused,) = (it for it in book("gpu-health").findings if it.id == "dma_refused")
    assert say(refused.advise[0], seen).count(next_step) == 1


@every_row(
    ("text", "next_step"),
    [
        ("amdgpu 0000:c5:00.0: amdgpu: GPU reset begin!", "names the program, and whether the reset succeeded"),
        ("i915 0000:00:02.0: [drm] GPU HANG: ecode 12:1:85dffffb, in python3", "names the program"),
        ("amdgpu 0000:c5:00.0: amdgpu: 1 uncorrectable hardware errors detected in umc block", "memory of the GPU"),
        ("pciehp: Slot(3): Link Down", "ras-mc-ctl --errors"),
        ("mce: CPU2: Package temperature above threshold, cpu clock throttled (total events = 9)", "fans, filters"),
    ],
)
def test_the_advice_for_a_fault_of_the_hardware_is_about_the_part_that_failed(text, next_step):
    seen = scope("gpu-health", {"kernel": {"hardware_errors": [{"text": text}]}})
    (rule,) = (it for it in book("gpu-health").findings if it.id == "hardware_errors")
    assert next_step in say(rule.advise[0], seen)


def words_of(name: str) -> list[str]:
    """What a person reads of a playbook: its own name, its inputs, its steps, and what it finds and advises."""
    made = book(name)
    found = [text for it in made.findings for text in (str(it.say or ""), *map(str, it.advise))]
    named = [str(it.name or "") for it in (*made.diagnose, *made.remediate, *made.verify)]
    return [made.about or "", *(it.about or "" for it in made.inputs), *named, *found]


@every_row("name", sorted(it.stem for it in library().glob("*.yaml")))
def test_what_a_playbook_says_has_plain_words_and_real_plurals(name):
    """Mutant: a finding that says `process(es)`."""
    odd = re.compile(r"\w\(e?s\)|\blest\b|as it shall|Not fixable|takes? pictures")
    assert [it for it in words_of(name) if odd.search(it)] == []


@every_row(
    ("text", "value"),
    [
        ("{{ [1] | counted('process') }}", "1 process"),
        ("{{ [] | counted('process') }}", "0 processes"),
        ("{{ 2 | counted('leftover process holds', 'leftover processes hold') }}", "2 leftover processes hold"),
        ("{{ gpus.wedged | counted('GPU') }}", "2 GPUs"),
    ],
)
def test_a_number_is_counted_with_its_noun(text, value):
    assert render(text, Scope(states={"gpus": {"wedged": ["a", "b"]}})) == value


def test_what_is_not_known_is_not_counted():
    with pytest.raises(UnknownTouched):
        render("{{ gpus.wedged | counted('GPU') }}", Scope(states={"gpus": {"wedged": Unknown(why="no answer")}}))
    with pytest.raises(ConfigError):
        render("{{ inputs | counted('x', 5, 6) }}", Scope())


TORCH = "class cuda:\n    device_count = staticmethod(lambda: {count})\nclass backends:\n    class cuda:\n        is_built = staticmethod(lambda: {built})\n{more}"
CREATES = "def zeros(*_, device):\n    {body}\n"


@every_row(
    ("torch", "code"),
    [
        ("raise ImportError('none')", 3),
        (TORCH.format(count=0, built=False, more=""), 3),
        (TORCH.format(count=0, built=True, more=""), 1),
        (TORCH.format(count=2, built=True, more=CREATES.format(body="pass")), 0),
        (TORCH.format(count=2, built=True, more=CREATES.format(body="raise RuntimeError('busy')")), 1),
    ],
)
def test_a_cuda_probe_says_failed_only_where_torch_could_try(tmp_path, torch, code):
    """Without a torch for CUDA nothing is known (3 is no answer); a torch that sees no device has not opened one.

    Mutants: the probe that only imports torch, or that loops over no device.
    """
    look = next(it for it in book("cuda-context").diagnose if it.id == "cuda")
    (tmp_path / "torch.py").write_text(torch)
    argv = [sys.executable, *look.args["argv"][1:]]
    done = subprocess.run(argv, env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True)
    assert (done.returncode, bool(done.stderr)) == (code, code != 0)
    assert code == 3 or code in look.args["accepts"]


def test_a_service_that_cannot_be_looked_at_has_a_next_action():
    told = {way: {"about": {"value": ["root", "/r", way, "no"]}} for way in ("systemd", "tmux")}
    there = rule("runner-monitor", "no_service")
    assert evaluate(there.when, scope("runner-monitor", told["systemd"])) is True
    assert evaluate(there.when, scope("runner-monitor", told["tmux"])) is False


XID = "NVRM: Xid (PCI:0000:3b:00): {}"


@every_row(
    ("said", "code", "failed"),
    [
        (XID.format("79, GPU has fallen off the bus."), 1, True),
        (XID.format("95, pid=7, name=python3"), 134, True),
        ("NVRM: GPU 0000:b3:00.0: GPU has fallen off the bus.", 1, True),
        (XID.format("79, GPU has fallen off the bus."), 137, False),
        (XID.format("79, GPU has fallen off the bus."), 0, False),
        (XID.format("13, pid=7, name=python3"), 1, False),
        ("usb 1-1: new device", 1, False),
    ],
)
def test_a_container_that_ended_by_itself_when_a_gpu_failed_died_of_that(said, code, failed):
    """Mutants: `gpu_failed` without the exit codes; with every Xid; without faults that have no number."""
    chosen = {"name": "train", "status": "exited", "exit_code": code}
    seen = scope("container-death", {"which": {"count": 1, "chosen": chosen}, "kernel": kernel_conclusions(said)})
    there = rule("container-death", "gpu_failed")
    assert bool(evaluate(there.when, seen)) is failed
    if failed:
        assert "GPU" in say(there.say, seen)
    for superseded in ("cuda_error", "segfault", "unexplained"):
        assert "gpu_failed" in rule("container-death", superseded).unless
    blind = scope(
        "container-death", {"which": {"count": 1, "chosen": {**chosen, "exit_code": 1}}, "kernel": Unknown(why="x")}
    )
    assert evaluate(there.when, blind) is False


@every_row(("text", "named"), [("31, pid=7, name=python3, Ch 8", True), ("43, pid=7, name=python3", False)])
def test_a_fault_of_a_program_when_the_log_ended_is_named_with_its_process(text, named):
    last = [{"age": 60, "text": "x"}]
    seen = scope(
        "training-crash",
        {"trainer": {"last": last}, "server": {"last": []}, "death": kernel_conclusions(XID.format(text))},
    )
    there = rule("training-crash", "application_fault_then")
    assert bool(evaluate(there.when, seen)) is named
    assert not named or "(Xid 31 of python3, pid 7, at unknown)" in " ".join(say(there.say, seen).split())
    assert "application_fault_then" in rule("training-crash", "silent_stop").unless


ASKED = {"bus_id": "0000:01:00.0", "need": "reset the GPU", "say": "Xid 95"}


@every_row(
    ("driver", "kernel", "wanted"),
    [
        ([], [], False),
        (["GPU-1"], [], True),
        (Unknown(why="an old driver"), [ASKED], True),
        (Unknown(why="an old driver"), [], "an old driver"),
        ([], Unknown(why="no log"), False),  # which is said: only nvidia-smi counts then
        (Unknown(why="an old driver"), Unknown(why="no log"), "an old driver"),
    ],
)
def test_a_gpu_wants_a_reset_by_whatever_is_known_and_never_does_not_by_what_is_not(driver, kernel, wanted):
    """Mutant: the last line of the condition dropped."""
    gpus = {
        "requires_reset": driver,
        "waiting_for_reset": driver,
        "tool": "nvidia-smi",
        "gpus": [{"bus_id": ASKED["bus_id"]}],
    }
    seen = scope("gpu-reset", {"gpus": gpus, "kernel": {"open_needs": kernel, "open_faults": kernel}})
    said = evaluate(rule("gpu-reset", "wanted").when, seen)
    assert (said.why if isinstance(said, Unknown) else said) == wanted
    assert evaluate(rule("gpu-reset", "log_unread").when, seen) is isinstance(kernel, Unknown)


@every_row(
    ("reasons", "words"),
    [
        (["locked"], "never delete the database"),
        (["pid_file"], "ps -fp $(cat /var/run/docker.pid)"),
        (["firewall"], "firewall-cmd --check-config"),
        (["no_subnet"], '"default-address-pools"'),
        (["containerd"], "containerd comes first"),
        (["storage"], "modprobe overlay"),
        ([], "Read why it ended"),
    ],
)
def test_a_dockerd_that_ended_has_the_advice_for_the_reason_that_it_gave(reasons, words):
    """Mutants: the order of the reasons; `reboot it` for one that is known."""
    daemon = {"running": 0, "live_restore": False, "refused": "", "root": "/srv/docker"}
    seen = scope(
        "docker-recover", {"daemon": {"value": daemon}, "words": {"value": ["x"]}, "reason": {"found": reasons}}
    )
    advice = [str(say(line, seen)) for line in rule("docker-recover", "dead").advise]
    assert words in advice[0]
    assert ("reboot" in advice[2]) is (not reasons)


@every_row(
    ("file", "reasons", "words", "advice"),
    [
        ({"values": {}, "problems": {"f": "/f is not valid JSON: line 4, column 3: Expecting ',' delimiter"}}, ["json"],
         "line 4, column 3", "a comma between two entries"),
        ({"values": {"log-opts": ["max-size=1m"], "dns": []}, "problems": {}}, ["json"],
         "log-opts must be a mapping", "the rest of the file is valid JSON"),
        ({"values": {"log-opts": {}, "dns": "10.0.0.1"}, "problems": {}}, ["json"], "dns must be a list", "Write it so"),
        ({"values": {"log-opts": {}, "dns": []}, "problems": {}}, ["flags"], "its own words", "both as a flag and in the"),
        (Unknown(why="x"), ["json"], "its own words", "python3 -m json.tool"),
    ],
)  # fmt: skip
def test_a_configuration_that_dockerd_refuses_is_named_with_the_fault_in_it(file, reasons, words, advice):
    """Mutants: flags named for a file that is no JSON; a list called a mapping."""
    daemon = {"installed": True, "answers": False, "refused": "its own words", "root": "/srv/docker"}
    looks = {"daemon": {"value": daemon}, "words": {"value": []}, "reason": {"found": reasons}, "file": file}
    seen = scope("docker-recover", looks)
    there = rule("docker-recover", "refused")
    assert evaluate(there.when, seen)
    assert words in say(there.say, seen)
    assert advice in " ".join(str(say(there.advise[0], seen)).split())


def ended_well(*lines: tuple[str, str, int]) -> Scope:
    """A container that ended with 0, whose log has these signatures (name, text, line from its end)."""
    found = [{"signature": name, "text": text, "line": line} for name, text, line in lines]
    chosen = {"name": "train", "status": "exited", "exit_code": 0}
    return scope("container-death", {"which": {"count": 1, "chosen": chosen}, "log": {"kept": True, "matches": found}})


@every_row(
    ("lines", "failed", "erred"),
    [
        ([("child_failed", "36 Killed python3 x.py", -2)], True, True),
        ([("child_failed", "36 Killed python3 x.py", -40)], False, False),
        ([("error", "ValueError: x", -1)], False, True),
        ([("timed_out", "timed out, again", -1), ("clone_over", "x", -1)], False, False),
        ([], False, False),
    ],
)
def test_exit_code_0_with_a_failure_in_the_last_lines_is_not_healthy(lines, failed, erred):
    """Mutants: the whole log read for its end; `ended_normally` beside it; a retry taken for a failure."""
    seen = ended_well(*lines)
    assert bool(evaluate(rule("container-death", "work_failed").when, seen)) is failed
    assert bool(failed or evaluate(rule("container-death", "errors_at_the_end").when, seen)) is erred
    assert {"work_failed", "errors_at_the_end"} <= set(rule("container-death", "ended_normally").unless)
    silent = scope(
        "container-death",
        {"which": {"count": 1, "chosen": {"status": "exited", "exit_code": 0}}, "log": {"kept": False}},
    )
    assert not evaluate(rule("container-death", "work_failed").when, silent)


MAY_GIVE_WAY = {
    ("pipeline-hang", "no_pipeline"),  # nothing of a pipeline is on that host, so that nothing of it can be wrong there
    ("training-crash", "disk_errors_then"),  # disk_errors or disk_failed_then is there, too, and an error
    ("nccl-timeout", "victim"),  # the cause stands on another host, as an error
}
"""Findings that are no error and hold one back, all the same."""


@every_row("name", sorted(it.stem for it in library().glob("*.yaml")))
def test_no_error_gives_way_to_a_finding_that_is_none(name):
    """Else a host with a proven error is called healthy.  Mutant: `killed` unless `maybe_out_of_memory`."""
    severities = {it.id: it.severity for it in book(name).findings}
    errors = [it for it in book(name).findings if it.severity.drives]
    weak = {(it.id, other) for it in errors for other in it.unless if not severities[other].drives}
    assert {(one, other) for one, other in weak if (name, other) not in MAY_GIVE_WAY} == set()


@every_row(
    ("name", "step", "finding"),
    [
        ("disk-slow", "kernel", "file_server"),
        ("monitor", "gpu_kernel", "file_server"),
        ("runner-preflight", "gpu_kernel", "file_server"),
    ],
)
def test_a_silent_file_server_is_told_until_it_answers_and_is_no_disk_error(name, step, finding):
    silent = "[9.0] nfs: server filer-1 not responding, still trying\n"
    disks = "errors" if name == "disk-slow" else "disk_errors"
    for text, there in ((silent, True), (silent + "[24.0] nfs: server filer-1 OK\n", False)):
        looks = {step: kernel_conclusions(text)}
        assert bool(evaluate(rule(name, finding).when, scope(name, looks))) is there
        assert not evaluate(rule(name, disks).when, scope(name, looks))
