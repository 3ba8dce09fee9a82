"""What the program concludes from each subject of tests/data: one reader a directory."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import yaml

from runbook.codec import to_json
from runbook.commands.input_files import read_playbook
from runbook.errors import ProbeError
from runbook.execution.diagnosis.findings import evaluated
from runbook.language.arguments import build
from runbook.language.expressions.templates import Scope
from runbook.library.config.facts.config_text import Unparsable
from runbook.library.config.facts.patch import text_of
from runbook.library.docker.facts.containers import container
from runbook.library.docker.facts.daemon_options import conflicts, refusals
from runbook.library.docker.facts.engine import read_docker
from runbook.library.fabric.facts.nvlink import read_links
from runbook.library.fabric.infiniband import read_state as infiniband_state
from runbook.library.files import disk, log_scan
from runbook.library.files.facts.log_reading import LogFile, LogReading
from runbook.library.gpu import gpu_health as gpu_health_action
from runbook.library.gpu import nccl_log as nccl
from runbook.library.gpu.facts.health_query import GROUPS, OLD_REASONS, REASONS, read_health
from runbook.library.gpu.facts.model import SmiReading
from runbook.library.gpu.facts.pci import read_pci
from runbook.library.gpu.facts.reset import refusal
from runbook.library.gpu.facts.smi_answer import condition as condition_of_smi
from runbook.library.gpu.facts.smi_output import FRAME
from runbook.library.gpu.facts.smi_query import CORE, OPTIONAL, read_gpus
from runbook.library.gpu.facts.utilisation import busy, complaints, idle, wedged
from runbook.library.gpu.facts.verdict import Seen, verdicts
from runbook.library.jobs import job_log
from runbook.library.kernel import kernel_log
from runbook.library.kernel.facts.modules import read_module
from runbook.library.processes.facts.exit_codes import sentence
from runbook.library.scheduler.facts.slurm import read_jobs
from runbook.library.scheduler.facts.slurm import read_node as read_slurm_node
from runbook.library.system import memory
from runbook.library.system.facts.clock import read_clock
from runbook.library.system.facts.systemd_units import condition, is_up, read_unit
from runbook.plugins import discover
from runbook.secrets.masking import masking
from runbook.values.command import Command, Completed, Effect
from runbook.values.plan import Finding, Presence
from runbook.values.types import Unknown
from tests.support import fabric_readers
from tests.support.data_cases import Case
from tests.support.fake_nvidia_smi import KNOWN, Pretended, plant
from tests.support.fake_nvidia_smi import gpu as smi_row
from tests.support.probe_driver import Here, drive

PLAYBOOKS = Path(__file__).parents[2] / "playbooks"
KERNEL_FIELDS = (
    "oom", "oom_host", "oom_cgroup", "xids", "sxids", "gpu_faults", "lockups", "panics", "hardware_errors", "oomd_kills",
    "no_victim", "io_errors", "hung_tasks", "network",
)  # fmt: skip
INFORMATION = ("words", "done", "weights")
"""Signatures whose finding is no fault."""
Conclusions = Mapping[str, object]


@dataclass(frozen=True)
class Reader:
    """How a case of one subject is read."""

    conclude: Callable[[Case], Conclusions]
    given: frozenset[str] = frozenset()
    """What a case may give beside the answer."""


class PlaybookLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML of playbooks, whose ``!raw`` marks a text that is no template."""


PlaybookLoader.add_constructor("!raw", lambda loader, node: loader.construct_scalar(node))


class Canned:
    """A connection that gives one answer to everything."""

    def __init__(self, stdout: str) -> None:
        self.stdout = stdout

    def run(self, *commands: Command) -> tuple[Completed, ...]:
        return tuple(Completed(exit_code=0, stdout=self.stdout) for _ in commands)


def kernel(case: Case) -> Conclusions:
    """The State of kernel_log, and in short: the `faults` that it holds, and the `need` of the first GPU."""
    return kernel_conclusions(case.text)


def kernel_conclusions(text: str) -> Conclusions:
    """What `kernel` concludes from this text."""
    state = drive(kernel_log.probe(build(kernel_log.Args, {"text": text})), Here())
    faults = [name for name in KERNEL_FIELDS if getattr(state, name) and not isinstance(getattr(state, name), Unknown)]
    needs = [] if isinstance(state.gpu_needs, Unknown) else [gpu.need for gpu in state.gpu_needs]
    return {**to_json(state), "faults": sorted(faults), "need": str(needs[0]) if needs else None}


def smi_answer(rows: list[dict[str, str]], said: str = "", exit_code: int = 0) -> Completed:
    """nvidia-smi's two answers about the same *rows*, and what it *said* after them."""

    def section(name: str, columns: tuple[str, ...]) -> str:
        body = "".join(", ".join(row[column] for column in columns) + "\n" for row in rows)
        return f"{FRAME} begin {name} {','.join(columns)}\n{body}{said}\n{FRAME} end {exit_code}\n"

    text = section("gpus", (*CORE, *OPTIONAL)) + section("again", ("index", "uuid", "utilization.gpu"))
    return Completed(exit_code=0, stdout=text)


def gpu(case: Case) -> Conclusions:
    """One GPU: a `verdict`, its `faults`, and whether it is `idle`; columns that a case leaves out are a healthy H100's."""
    assert isinstance(case.says, Mapping)
    assert set(case.says) <= set(KNOWN), set(case.says) - set(KNOWN)
    (one,) = read_gpus(smi_answer([{**KNOWN, **case.says}])).gpus
    told = complaints(SmiReading(gpus=(one,)))
    return {
        "verdict": _gpu_verdict(one, bool(told)),
        "faults": list(one.faults),
        "complaints": list(told),
        "idle": to_json(idle(one, 5)),
        "busy": to_json(busy(one, 5)),
        "wedged": to_json(wedged(one, 5, False, False)),
        "waits_for_reset": to_json(one.waits_for_reset),
    }


def _gpu_verdict(one: object, complained_of: bool) -> str:
    if one.waits_for_reset is True:
        return "waits"
    if complained_of:
        return "fault"
    if one.requires_reset is True:
        return "wedged"
    if busy(one, 5) is True:
        return "busy"
    return "healthy" if wedged(one, 5, False, False) is False else "unknown"


def gpu_health(case: Case) -> Conclusions:
    """One GPU: its `verdict` and `conditions`, and what is `not_checked`; columns that a case leaves out are a healthy H100's.

    A column whose value is null is one that the driver does not know.
    """
    assert isinstance(case.says, Mapping)
    row = {**KNOWN, **case.says}
    assert set(row) <= set(KNOWN) | {OLD_REASONS}, set(row) - set(KNOWN)
    told = {column: str(value) for column, value in row.items() if value is not None}
    answer = smi_answer([{**KNOWN, **told}])
    columns = [column for group in GROUPS for column in group.replace("/", ",").split(",") if column in row]
    columns += [OLD_REASONS] if REASONS not in told and OLD_REASONS not in row else []
    parts = [
        f"{FRAME} begin part index,{it}\n{told['index']}, {told[it]}\n\n{FRAME} end 0\n"
        if it in told
        else f'{FRAME} begin part index,{it}\nField "{it}" is not a valid field to query.\n\n{FRAME} end 2\n'
        for it in columns
    ]
    if license := case.given.get("license"):
        parts.append(
            f"{FRAME} begin status\nGPU {row['pci.bus_id']}\n        License Status : {license}\n\n{FRAME} end 0\n"
        )
    whole = Completed(exit_code=0, stdout="".join((answer.stdout, *parts)))
    (one,) = verdicts(Seen(devices={}, gpus=read_gpus(whole).gpus, health=read_health(whole)))
    return {key: value for key, value in to_json(one).items() if key != "uuid"}


def gpu_hosts(case: Case) -> Conclusions:
    """The State of gpu_health on a host with these `gpus` (what a healthy H100 says otherwise); nvidia-smi ends with `exit_code`.

    `warns` is what it prints above the rows, `unknown` are columns that it does not know.  The bus has `on_bus` GPUs,
    `nodes` are the numbers of their device nodes, and `minors` names the number of each GPU in the driver's table.
    """
    assert isinstance(case.says, Mapping)
    says = {"exit_code": 0, "warns": "", "unknown": (), "on_bus": 0, "nodes": (), "minors": {}, "container": False}
    assert set(case.says) <= {*says, "gpus"}, set(case.says)
    says |= case.says
    pretended = Pretended(
        gpus=[{**smi_row(at), **row} for at, row in enumerate(says["gpus"])],
        between={0: says["warns"]} if says["warns"] else {},
        fields=frozenset(KNOWN) - {*says["unknown"]},
        exit_code=says["exit_code"],
    )
    with TemporaryDirectory() as place:
        folder = Path(place)
        on_bus = [(f"0000:{0x90 + at:02x}:00.0", "0x10de", "0x030200") for at in range(says["on_bus"])]
        nodes = [f"nvidia{number}" for number in says["nodes"]]
        root = plant(folder / "root", pci=on_bus, nodes=nodes, minors=says["minors"].items())
        if says["container"]:
            (root / ".dockerenv").touch()
        here = LoadedDriver(path=pretended.install(folder / "bin"), root=root)
        return {**to_json(drive(gpu_health_action.probe(gpu_health_action.Args()), here))}


class LoadedDriver(Here):
    """This machine, whose kernel has the driver loaded."""

    def _run(self, command: Command) -> Completed:
        if command.argv[1:2] == ("nvidia",):
            return Completed(exit_code=0, stdout="loaded\nversion 570.1\nmodule nvidia 0\ndriver x\nuser 0\n")
        return super()._run(command)


def pci(case: Case) -> Conclusions:
    """One device of the bus: whether it is `gone` or `narrow`, its `kind`, `model`, `driver`, speed and width.

    `says` are values of sysfs, and `lspci` the line of lspci; those left out are a healthy H100's.
    """
    assert isinstance(case.says, Mapping)
    healthy = {
        "class": "0x030200", "device": "0x2330", "driver": "nvidia", "speed": "32.0 GT/s PCIe",
        "speed_max": "32.0 GT/s PCIe", "width": "16", "width_max": "16", "slot": "16", "power": "D0", "config": "de103023",
    }  # fmt: skip
    assert set(case.says) <= {*healthy, "lspci"}
    row = {**healthy, **case.says}
    lines = ["probed", "\t".join(("device", "0000:3b:00.0", *(str(row[key]) for key in healthy)))]
    lines += [f"lspci\t{row['lspci']}"] if "lspci" in row else []
    (device,) = read_pci(Completed(exit_code=0, stdout="\n".join(lines))).devices
    return {**to_json(device), "narrow": to_json(device.narrow)}


def infiniband(case: Case) -> Conclusions:
    """One port: its `state`, `phys_state`, `rate` and counters, what is `said` of it, and of what kind the host finds it.

    `says` are values of sysfs, `later` the counters that are others on the second reading; those left out are a healthy
    port's.
    """
    assert isinstance(case.says, Mapping)
    healthy = {
        "link_layer": "InfiniBand",
        "state": "4: ACTIVE",
        "phys_state": "5: LinkUp",
        "rate": "400 Gb/sec (4X NDR)",
    }
    counters = {"link_downed": "0", "link_error_recovery": "0", "symbol_error": "0"}
    later = case.given.get("later", {})
    assert set(case.says) <= {*healthy, *counters}
    assert set(later) <= {*counters}
    row = {**healthy, **counters, **case.says}
    place, card = "/sys/class/infiniband/mlx5_0/ports/1", ("0000:18:00.0", "ib0", "MT_0000000838", "28.39.1002")
    rows = [
        ("probed",),
        ("port", place, "mlx5_0", "1", *(row[key] for key in healthy), *card),
        ("before", place, *(row[key] for key in counters)),
        ("after", place, *(later.get(key, row[key]) for key in counters)),
    ]
    state = infiniband_state(Completed(exit_code=0, stdout="\n".join("\t".join(map(str, it)) for it in rows)))
    kinds = [
        it for it in ("active", "fell", "unused", "waiting", "unclear", "lost_now", "errors_now") if getattr(state, it)
    ]
    return {**to_json(state.ports[0]), "kinds": kinds, "total_rate": to_json(state.total_rate)}


def nccl_log(case: Case) -> Conclusions:
    """The log of one host's ranks: who `timed_out`, who is `behind`, in which `op`, the `standing`, and each rank's own."""
    args = nccl.Args(files=("job.log",), errors={"disk": "No space left on device"})
    reading = LogReading(files=(LogFile(path="job.log", whole=True, lines=tuple(case.text.splitlines()), age=60.0),))
    return {**to_json(nccl.read_state(args, reading))}


BOOTED, READ = 1_790_000_000, 1_790_864_000
"""The host's boot and the moment of the question, ten days later (seconds since 1970)."""


def kernel_window(case: Case) -> Conclusions:
    """The findings of a `playbook`, by the ring buffer of a kernel that was booted ten days ago: which are `present`, which `unknown`.

    `taint` is what /proc/sys/kernel/tainted has; `driver` are fields of gpu_health's State; `placed: false` is a pid
    namespace, where nobody knows which processes the log names; `inputs` are the playbook's.
    """
    given = {"taint": 0, "driver": {}, "placed": True, "inputs": {}, **case.given}
    lines = case.text.splitlines()
    said = "".join(f" {line}\n" for line in lines)
    said = f"source dmesg\nend 0\nlines {len(lines)}\nfirst {lines[0]}\nlast {lines[-1]}\n{said}"
    book = read_playbook(PLAYBOOKS / f"{given['playbook']}.yaml", discover())
    step = next(step for step in book.diagnose if step.id in ("kernel", "gpu_kernel"))
    args = build(kernel_log.Args, {**step.args, "since": given["inputs"].get("faults_since", "")})
    answer = f"clock {READ} {BOOTED} +0000\ntaint {given['taint']}\n{said}"
    state = drive(kernel_log.probe(args), Canned(answer))
    asked = [] if isinstance(state.xids, Unknown) else [xid for xid in state.xids if xid.names_process]
    driver = {**to_json(gpu_health_action.State()), **given["driver"]}
    placed = given["placed"] or not asked
    states = {
        step.id: to_json(state),
        "health": driver,
        "driver": driver,
        "named": {"alive": [] if placed else Unknown(why="a container"), "protected": [], "faults": []},
    }
    inputs = {it.name: it.default for it in book.inputs} | given["inputs"]
    scope = Scope(inputs=inputs, host={"name": "h"}, states=states, let=book.let[""])
    found: dict[str, Finding] = {}
    for rule in book.findings:
        found[rule.id] = evaluated(rule, scope, found)
    by_status = {status: [it.id for it in found.values() if it.status is status] for status in Presence}
    return {
        "present": by_status[Presence.PRESENT],
        "unknown": by_status[Presence.UNKNOWN],
        "says": [f"{it.id}: {it.say}" for it in found.values() if it.status is Presence.PRESENT],
        "gap": to_json(state.gap),
    }


def driver_version(case: Case) -> Conclusions:
    """The `version` of the loaded driver, by its file in /proc/driver."""
    text = f"loaded\nversion \ndriver {case.text.splitlines()[0]}\nmodule nvidia 0\nuser 0\n"
    return {"version": to_json(read_module("nvidia", Completed(exit_code=0, stdout=text)).version)}


def smi_condition(case: Case) -> Conclusions:
    """How nvidia-smi answers as a whole, by what it printed and its exit code."""
    answer = smi_answer([], case.text, case.given["exit_code"])
    return {"condition": str(condition_of_smi(answer, "it gave no row").condition)}


def smi_errors(case: Case) -> Conclusions:
    """nvidia-smi that fails: why it is `refused`, or, below good rows, which `errors` are noted."""
    rows = [KNOWN] * int(case.given.get("good_rows", 0))
    answer = smi_answer(rows, case.text, case.given["exit_code"])
    if not rows:
        with pytest.raises(ProbeError) as raised:
            read_gpus(answer)
        return {"refused": str(raised.value)}
    reading = read_gpus(answer)
    return {"rows": len(reading.gpus), "errors": list(reading.errors)}


def gpu_reset(case: Case) -> Conclusions:
    """Why nvidia-smi would not reset a GPU; empty where it did."""
    command = Command(script="x", argv=("GPU-1",), effect=Effect.WRITE)
    return {"refused": refusal(command, Completed(exit_code=case.given["exit_code"], stdout=case.text)) or ""}


def docker(case: Case) -> Conclusions:
    """Why Docker refused, from what it printed on stderr."""
    with pytest.raises(ProbeError) as raised:
        read_docker(Completed(exit_code=1, stderr=case.text))
    return {"refused": str(raised.value)}


def daemon_json(case: Case) -> Conclusions:
    """Whether a key can be set in the text of a daemon.json."""
    try:
        text_of(case.text, "json").put(("live-restore",), True)
    except Unparsable:
        return {"changed": False}
    return {"changed": True}


def daemon_options(case: Case) -> Conclusions:
    """What dockerd would refuse when it starts with this daemon.json, while the log driver `running` is at work."""
    config = json.loads(case.text)
    clash = conflicts(config, str(case.given.get("command_line", "")).split())
    return {"refused": [*clash, *refusals(config, case.given.get("running", "json-file"), (), (), ())]}


def inspect(case: Case) -> Conclusions:
    """A container, from its State: whether it is `dead`, and the `sentence` on its exit code."""
    state = json.loads(case.text)
    row = {
        "id": "f" * 64, "name": "/trainer", "image": "x", "image_id": "x", "created": "", "status": state["Status"],
        "pid": state["Pid"], "exit_code": state["ExitCode"], "oom_killed": state["OOMKilled"], "error": state["Error"],
        "started": state.get("StartedAt", ""), "finished": state.get("FinishedAt", ""), "restarts": 0, "health": "",
        "memory": 0, "swap": 0, "nano": 0, "policy": None, "log": "json-file", "log_path": "", "auto_remove": False,
        "mounts": [],
    }  # fmt: skip
    found = container(row)
    evidence = ("Docker says OOMKilled",) if found.oom_killed else ()
    return {"dead": found.dead, "sentence": sentence(found.exit_code, evidence)}


def df(case: Case) -> Conclusions:
    """Whether the one file system in df's table is `full` (from 90 % on)."""
    mount = case.text.split()[-1]
    table = "".join(f" {line}\n" for line in case.text.splitlines())
    answer = f"table\npath 0\nblocks\n{table}inodes\n Filesystem Inodes IUsed IFree IUse% Mounted on\n x 10 1 9 10% {mount}\n"
    state = drive(disk.probe(build(disk.Args, {"paths": [mount]})), Canned(answer))
    return {"full": to_json(state.full) if isinstance(state.full, Unknown) else bool(state.full)}


def clock_of(case: Case) -> Conclusions:
    """What is known of a clock by the programs that set it."""
    conclusions: Conclusions = to_json(read_clock(Completed(exit_code=0, stdout=case.text)))
    return conclusions


def meminfo(case: Case) -> Conclusions:
    """Whether memory is `low` (90 % used), from the beginning of /proc/meminfo."""
    answer = "".join(f"mem {line}\n" for line in case.text.splitlines())
    state = drive(memory.probe(build(memory.Args, {})), Canned(answer))
    return {"low": to_json(state.low) if isinstance(state.low, Unknown) else bool(state.low)}


@cache
def signatures(where: str) -> tuple[Mapping[str, str], bool]:
    """The signatures of ``PLAYBOOK.STEP``, and whether capitals make no difference to them."""
    playbook, _, look = where.partition(".")
    whole = yaml.load((PLAYBOOKS / f"{playbook}.yaml").read_text(encoding="utf-8"), PlaybookLoader)
    if playbook == "container-death":
        return whole["inputs"]["signatures"]["default"], False
    step = next(step for step in whole["diagnose"] if step["id"] == look)["log_scan"]
    return {name: str(it) for name, it in step["signatures"].items() if not str(it).startswith("{{")}, bool(
        step.get("ignore_case")
    )


def logs(case: Case) -> Conclusions:
    """Which faults a shipped playbook finds in a log; of a training's log also which is `first`, its `ranks` and end."""
    if case.given["signatures"] == "training-crash.cause":
        return job_log_conclusions(case.text)
    patterns, ignore_case = signatures(case.given["signatures"])
    args = build(log_scan.Args, {"text": case.text, "signatures": dict(patterns), "ignore_case": ignore_case})
    state = drive(log_scan.probe(args), Here())
    found = [name for name in state.found if name not in INFORMATION]
    return {"found": found}


def job_log_conclusions(text: str) -> Conclusions:
    """What the log of a training tells: `found`, the strongest first; `ranks` that failed, and its last checkpoint."""
    state = drive(job_log.probe(job_log.Args(text=text)), Here())
    return {
        "found": list(state.found), "first": next(iter(state.found), "nothing"), "certain": state.certain,
        "unsaved": state.unsaved,
        "failed_after": state.failed_after,
        "usual_pause": state.usual_pause, "ranks": [sign.rank for sign in state.ranks], "followers": state.followers,
        "root": to_json(state.root), "checkpoint": to_json(state.checkpoint), "next_job": state.next_job,
        "quoted": next((sign.text for sign in state.matches if sign.signature == state.found[0]), ""),
    }  # fmt: skip


def systemd(case: Case) -> Conclusions:
    """A unit, from the properties that systemctl shows: whether it is `up`, and its `condition` in words."""
    unit = read_unit("x", Completed(exit_code=0, stdout=f"user=0\nId=x.service\n{case.text}")).unit
    assert unit is not None
    return {"up": is_up(unit), "condition": condition(unit)}


def slurm_node(case: Case) -> Conclusions:
    """How a node stands with Slurm, by ``scontrol -o show node``; `unknown` where that is not known."""
    jobs = read_jobs(str(case.given.get("jobs", "")).splitlines(), "")
    try:
        node = read_slurm_node(case.text.strip(), jobs, "gpu-07")
    except ProbeError as error:
        return {"unknown": str(error)}
    return {
        "drained": node.drained, "ours": node.ours(), "reason": node.reason, "by": node.by, "since": node.since,
        "responds": node.responds, "obstacle": node.obstacle, "jobs": to_json(node.jobs),
    }  # fmt: skip


def nvlink(case: Case) -> Conclusions:
    """How many GPUs have an active link, by nvidia-smi nvlink -s."""
    done = (
        f"{FRAME} begin kinds index,uuid,compute_cap\n\n{FRAME} end 0\n"
        f"{FRAME} begin links\n{case.text}\n{FRAME} end {case.given['exit_code']}\n"
    )
    linked = read_links(Completed(exit_code=0, stdout=done)).linked
    return {"linked": to_json(linked) if isinstance(linked, Unknown) else len(linked)}


def shown_text(case: Case) -> Conclusions:
    """A text as it is shown, where nobody has named a secret."""
    return {"shown": masking(())(case.text)}


READERS: Mapping[str, Reader] = {
    "clock": Reader(clock_of),
    "daemon_json": Reader(daemon_json),
    "daemon_options": Reader(daemon_options, frozenset({"running", "command_line"})),
    "df": Reader(df),
    "docker": Reader(docker),
    "gpu": Reader(gpu),
    "driver_version": Reader(driver_version),
    "gpu_health": Reader(gpu_health, frozenset({"license"})),
    "gpu_hosts": Reader(gpu_hosts),
    "kernel_window": Reader(kernel_window, frozenset({"playbook", "taint", "driver", "placed", "inputs"})),
    "infiniband": Reader(infiniband, frozenset({"later"})),
    "pci": Reader(pci),
    "smi_condition": Reader(smi_condition, frozenset({"exit_code"})),
    "gpu_reset": Reader(gpu_reset, frozenset({"exit_code"})),
    "inspect": Reader(inspect),
    "kernel_log": Reader(kernel),
    "logs": Reader(logs, frozenset({"signatures"})),
    "meminfo": Reader(meminfo),
    "nccl_log": Reader(nccl_log),
    "fabric_manager": Reader(fabric_readers.fabric_manager),
    "mig": Reader(fabric_readers.mig, frozenset({"exit_codes", "wanted"})),
    "nvlink": Reader(nvlink, frozenset({"exit_code"})),
    "nvlink_errors": Reader(fabric_readers.nvlink_errors, frozenset({"links", "uuids"})),
    "shown_text": Reader(shown_text),
    "slurm_node": Reader(slurm_node, frozenset({"jobs"})),
    "smi_errors": Reader(smi_errors, frozenset({"exit_code", "good_rows"})),
    "systemd": Reader(systemd),
}
"""By the directory of the cases."""
