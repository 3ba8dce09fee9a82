"""Each real output of ``tests/data/corpus`` is what its case says: nothing sick is called healthy, and nothing raises.

The expectations were written before the cases were fed; ``tests/data/corpus/README.md`` says how a file is made.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
import yaml
from actions.fake_nvidia_smi import KNOWN, Here, drive

from engine.actions.files import disk, log_scan
from engine.actions.system import kernel_log, memory
from engine.codec import to_json
from engine.errors import ProbeError
from engine.expressions.templates import Scope, evaluate
from engine.facts.config_edit.config_text import Unparsable
from engine.facts.config_edit.patch import text_of
from engine.facts.docker.containers import container
from engine.facts.docker.engine import read_docker
from engine.facts.gpu.model import SmiReading
from engine.facts.gpu.nvlink import read_links
from engine.facts.gpu.reset import refusal
from engine.facts.gpu.smi_output import FRAME
from engine.facts.gpu.smi_query import CORE, OPTIONAL, read_gpus
from engine.facts.gpu.utilisation import busy, complaints, wedged
from engine.facts.kernel.patterns import worth_sending
from engine.facts.processes.exit_codes import sentence
from engine.facts.system.systemd_units import condition, is_up, read_unit
from engine.lang.arguments import build
from engine.values.command import Command, Completed, Effect
from engine.values.types import Unknown

CORPUS = Path(__file__).parent / "data" / "corpus"
PLAYBOOKS = Path(__file__).parent.parent / "playbooks"
KERNEL_FIELDS = (
    "oom", "oom_host", "oom_cgroup", "xids", "sxids", "gpu_faults", "lockups", "panics", "hardware_errors", "oomd_kills",
    "no_victim", "io_errors", "hung_tasks",
)  # fmt: skip
INFORMATION = ("words", "done", "weights")
"""Signatures whose finding is no fault."""


@dataclass(frozen=True)
class Case:
    name: str
    expected: str
    text: str


def cases(file: str) -> Iterator[Case]:
    for part in re.split(r"^=== ", (CORPUS / file).read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        head, _, text = part.partition("\n")
        name, source, expected = (word.strip() for word in head.split(" | "))
        assert source, name
        yield Case(name=name, expected=expected, text=text)


@cache
def every_case() -> tuple[tuple[str, Case], ...]:
    return tuple((path.stem, case) for path in sorted(CORPUS.glob("*.txt")) for case in cases(path.name))


class Loader(yaml.SafeLoader):
    """YAML of playbooks, whose ``!raw`` marks a text that is no template."""


Loader.add_constructor("!raw", lambda loader, node: loader.construct_scalar(node))


class Canned:
    """A connection that gives one answer to everything."""

    def __init__(self, stdout: str) -> None:
        self.stdout = stdout

    def run(self, *commands: Command) -> tuple[Completed, ...]:
        return tuple(Completed(exit_code=0, stdout=self.stdout) for _ in commands)


def without_exit(text: str) -> tuple[str, int]:
    said, _, code = text.rstrip("\n").rpartition("EXIT ")
    return said, int(code)


def kernel(text: str) -> str:
    found = drive(kernel_log.probe(build(kernel_log.Args, {"text": text})), Here())
    told = [
        field for field in KERNEL_FIELDS if getattr(found, field) and not isinstance(getattr(found, field), Unknown)
    ]
    words = [field for field in sorted(told) if field != "xids"]
    if "xids" in told:
        words.append(f"xids {' '.join(map(str, found.xid_codes))} -> {found.gpu_needs[0].need}")
    return " + ".join(words) or "outside"


def query(rows: list[dict[str, str]], said: str = "", exit_code: int = 0) -> Completed:
    fields = (*CORE, *OPTIONAL)
    again = ("index", "uuid", "utilization.gpu")

    def section(name: str, columns: tuple[str, ...]) -> str:
        body = "".join(", ".join(row[column] for column in columns) + "\n" for row in rows)
        return f"{FRAME} begin {name} {','.join(columns)}\n{body}{said}\n{FRAME} end {exit_code}\n"

    return Completed(exit_code=0, stdout=section("gpus", fields) + section("again", again))


def gpus(text: str) -> str:
    shown = dict(pair.strip().split("=", 1) for pair in text.split(";"))
    assert set(shown) <= set(KNOWN), shown
    (gpu,) = read_gpus(query([{**KNOWN, **shown}])).gpus
    said = complaints(SmiReading(gpus=(gpu,)))
    if gpu.waits_for_reset is True:
        return "waits"
    if said:
        return "fault"
    if gpu.requires_reset is True:
        return "wedged"
    if busy(gpu, 5) is True:
        return "busy"
    return "healthy" if wedged(gpu, 5, False, False) is False else "unknown"


def smi_errors(text: str, expected: str) -> str:
    said, code = without_exit(text)
    if not expected.startswith("rows "):
        with pytest.raises(ProbeError) as raised:
            read_gpus(query([], said, code))
        return str(raised.value)
    reading = read_gpus(query([KNOWN], said, code))
    assert f"rows {len(reading.gpus)}: " == expected[:8]
    return " ".join(reading.errors)


def gpu_reset(text: str, expected: str) -> str:
    said, code = without_exit(text)
    command = Command(script="x", argv=("GPU-1",), effect=Effect.WRITE)
    return refusal(command, Completed(exit_code=code, stdout=said)) or "-"


def docker(text: str, expected: str) -> str:
    with pytest.raises(ProbeError) as raised:
        read_docker(Completed(exit_code=1, stderr=text))
    return str(raised.value)


def daemon_json(text: str) -> str:
    try:
        text_of(text, "json").put(("live-restore",), True)
    except Unparsable:
        return "refused"
    return "taken"


def inspect(text: str, expected: str) -> str:
    state = json.loads(text)
    row = {
        "id": "f" * 64, "name": "/trainer", "image": "x", "image_id": "x", "created": "", "status": state["Status"],
        "pid": state["Pid"], "exit_code": state["ExitCode"], "oom_killed": state["OOMKilled"], "error": state["Error"],
        "started": state.get("StartedAt", ""), "finished": state.get("FinishedAt", ""), "restarts": 0, "health": "",
        "memory": 0, "swap": 0, "nano": 0, "policy": None, "log": "json-file", "log_path": "", "auto_remove": False,
        "mounts": [],
    }  # fmt: skip
    found = container(row)
    evidence = ("Docker says OOMKilled",) if found.oom_killed else ()
    return f"{'dead' if found.dead else 'running'}: {sentence(found.exit_code, evidence)}"


def df(text: str) -> str:
    mount = text.split()[-1]
    table = "".join(f" {line}\n" for line in text.splitlines())
    answer = f"table\npath 0\nblocks\n{table}inodes\n Filesystem Inodes IUsed IFree IUse% Mounted on\n x 10 1 9 10% {mount}\n"
    state = drive(disk.probe(build(disk.Args, {"paths": [mount]})), Canned(answer))
    return "unknown" if isinstance(state.full, Unknown) else "full" if state.full else "room"


def meminfo(text: str) -> str:
    answer = "".join(f"mem {line}\n" for line in text.splitlines())
    state = drive(memory.probe(build(memory.Args, {})), Canned(answer))
    return "unknown" if isinstance(state.low, Unknown) else "short" if state.low else "enough"


@cache
def signatures(where: str) -> tuple[Mapping[str, str], bool]:
    playbook, _, look = where.partition(".")
    whole = yaml.load((PLAYBOOKS / f"{playbook}.yaml").read_text(encoding="utf-8"), Loader)
    if playbook == "container-death":
        return whole["inputs"]["signatures"]["default"], False
    step = next(step for step in whole["diagnose"] if step["id"] == look)["log_scan"]
    return {name: str(it) for name, it in step["signatures"].items() if not str(it).startswith("{{")}, bool(
        step.get("ignore_case")
    )


def logs(text: str, expected: str) -> str:
    where, _, wanted = expected.partition(": ")
    patterns, ignore_case = signatures(where)
    args = build(log_scan.Args, {"text": text, "signatures": dict(patterns), "ignore_case": ignore_case})
    state = drive(log_scan.probe(args), Here())
    found = [name for name in state.found if name not in INFORMATION]
    return f"{where}: {wanted if wanted in found else ' '.join(found) or 'none'}"


def systemd(text: str, expected: str) -> str:
    unit = read_unit("x", Completed(exit_code=0, stdout=f"user=0\nId=x.service\n{text}")).unit
    assert unit is not None
    return f"{'up' if is_up(unit) else 'down'}: {condition(unit)}"


def nvlink(text: str) -> str:
    said, code = without_exit(text)
    done = f"{FRAME} begin kinds index,uuid,compute_cap\n\n{FRAME} end 0\n{FRAME} begin links\n{said}\n{FRAME} end {code}\n"
    linked = read_links(Completed(exit_code=0, stdout=done)).linked
    return "unknown" if isinstance(linked, Unknown) else str(len(linked))


WHOLE: Mapping[str, Callable[[str], str]] = {
    "kernel-gpu": kernel, "kernel-disks": kernel, "kernel-system": kernel, "kernel-later": kernel, "gpus": gpus, "daemon-json": daemon_json,
    "df": df, "meminfo": meminfo, "nvlink": nvlink,
}  # fmt: skip
"""Readers whose whole answer is the expectation."""
WORDS: Mapping[str, Callable[[str, str], str]] = {
    "smi-errors": smi_errors, "gpu-reset": gpu_reset, "docker": docker, "inspect": inspect, "logs": logs,
    "systemd": systemd,
}  # fmt: skip
"""Readers that give a sentence, with the words of the expectation in it."""


def made_of(kind: str, case: Case) -> str:
    """What the program makes of *case*, in the words of the expectations."""
    if kind in WHOLE:
        return WHOLE[kind](case.text)
    answer = WORDS[kind](case.text, case.expected)
    if kind == "logs" or case.expected == "-":
        return answer
    told, _, words = case.expected.rpartition(": ") if not case.expected.endswith(":") else ("", "", case.expected)
    begins = answer.startswith(told) if kind in ("inspect", "systemd") else True
    return case.expected if words in answer and begins else answer


@pytest.mark.parametrize(("kind", "case"), [pytest.param(*it, id=f"{it[0]}-{it[1].name}") for it in every_case()])
def test_a_real_output_is_what_its_case_says(kind, case):
    assert made_of(kind, case) == case.expected


@pytest.mark.parametrize("kind", ["kernel-gpu", "kernel-disks", "kernel-system", "kernel-later"])
def test_what_a_reader_knows_comes_through_the_filter_on_the_host(kind):
    worth = re.compile(worth_sending())
    for case in cases(f"{kind}.txt"):
        sent = [line for line in case.text.splitlines() if worth.search(line.lower())]
        assert kernel("\n".join(sent) or "-") == case.expected, case.name


@pytest.mark.parametrize("playbook", ["monitor", "runner-preflight"])
def test_a_playbook_that_asks_the_kernel_has_a_finding_for_every_fault_of_a_gpu_or_of_the_machine(playbook):
    """Mutants: the findings kernel_broken and machine_suffers without one of the fields that they look at."""
    whole = yaml.load((PLAYBOOKS / f"{playbook}.yaml").read_text(encoding="utf-8"), Loader)
    rules = [rule for rule in whole["findings"] if "kernel." in rule["when"] and rule["severity"] != "info"]
    for kind, case in every_case():
        fields = {word.split(" ")[0] for word in case.expected.split(" + ")}
        if kind.startswith("kernel-") and fields & {"gpu_faults", "panics", "hardware_errors", "lockups"}:
            state = drive(kernel_log.probe(build(kernel_log.Args, {"text": case.text})), Here())
            scope = Scope(inputs={"read_kernel": True, "killed_within": "1h"}, looks={"kernel": to_json(state)})
            assert any(evaluate(rule["when"], scope) is True for rule in rules), case.name


def test_the_corpus_is_as_large_as_it_is_said_to_be():
    assert len(every_case()) >= 300
    assert len({(kind, case.name) for kind, case in every_case()}) == len(every_case())
    assert {kind for kind, _ in every_case()} == {*WHOLE, *WORDS}
