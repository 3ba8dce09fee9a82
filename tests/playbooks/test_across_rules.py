"""Rules of the playbooks that compare hosts, held against what the hosts of a run might have seen."""

from __future__ import annotations

from functools import cache
from typing import Any

from runbook.codec import to_json
from runbook.commands.input_files import find_playbook, read_playbook
from runbook.execution.diagnosis.comparing import Candidate, Offer, compared
from runbook.execution.diagnosis.findings import evaluated
from runbook.language.expressions.templates import Scope, value_of
from runbook.library.fabric import infiniband
from runbook.library.files.facts.log_reading import LogFile, LogReading
from runbook.library.gpu import nccl_log
from runbook.library.kernel import kernel_log
from runbook.plugins import discover
from runbook.values.command import Completed
from runbook.values.plan import Finding, Presence
from runbook.values.playbook import Playbook
from runbook.values.types import Unknown
from tests.support.probe_driver import Here, drive
from tests.support.tables import every_row

NOW = 1_790_000_000.0
KERNEL: dict[str, Any] = {
    "counts": {"fatal": 0, "power_or_heat": 0, "refused": 0, "unplugged": 0, "lost": 0, "crashed": 0},
    "matches": [], "found": [], "oom_job": [], "sick_gpus": [], "panics": [], "read_at": NOW,
}  # fmt: skip


@cache
def book(name: str) -> Playbook:
    return read_playbook(find_playbook(name), discover())


def ends(name: str, hosts: dict[str, dict[str, Any] | None], variables=None, **inputs) -> dict[str, dict[str, Finding]]:
    """The findings that are there on every host, which saw this; None: it could not be reached."""
    rules = book(name)
    given = {it.name: it.default for it in rules.inputs} | inputs
    candidates = []
    for host, looks in hosts.items():
        if looks is None:
            candidates.append(Candidate(host=host, why="unreachable"))
            continue
        own = {"name": host, **(variables or {}).get(host, {})}
        scope = Scope(inputs=given, host=own, states=looks, let=rules.let[""])
        found: dict[str, Finding] = {}
        offers = {}
        for rule in rules.findings:
            if rule.across:
                group = value_of(rule.across.by, scope) if rule.across.by else None
                offers[rule.id] = Offer(value=value_of(rule.across.value, scope), group=group, scope=scope)
            known = evaluated(rule, scope, found) if not rule.across else None
            found[rule.id] = known or Finding(id=rule.id, severity=rule.severity, status=Presence.ABSENT)
        candidates.append(Candidate(host=host, findings=tuple(found.values()), offers=offers))
    there = (Presence.PRESENT, Presence.UNKNOWN)
    return {
        host: {it.id: it for it in findings if it.status in there}
        for host, findings in compared(rules, candidates).items()
    }


def names(found: dict[str, dict[str, Finding]], *severities: str) -> dict[str, list[str]]:
    """The ids of the findings on each host; those of hosts without any are left out."""
    wanted = {
        host: [it.id for it in those.values() if it.severity.value in severities] for host, those in found.items()
    }
    return {host: those for host, those in wanted.items() if those}


# ---- ib-link


def ports(*rows: tuple[str, str, int], firmware: str = "28.39.1002", rise: bool = False) -> dict[str, Any]:
    """What a host with such ports has seen: state, rate and how often the link was lost."""
    lines = ["probed"]
    for number, (state, rate, downed) in enumerate(rows):
        path = f"/sys/{number}"
        phys = {"1: DOWN": "2: Polling"}.get(state, "5: LinkUp")
        said = ("InfiniBand", state, phys, rate, f"0000:{number}8:00.0", "-", "MT_0000000838", firmware)
        lines.append("\t".join(("port", path, f"mlx5_{number}", "1", *said)))
        lines.append("\t".join(("before", path, str(downed), "0", "0")))
        lines.append("\t".join(("after", path, str(downed + rise), "0", "0")))
    state = infiniband.read_state(Completed(exit_code=0, stdout="\n".join(lines)))
    return {"link": to_json(state), "kernel": KERNEL, "lately": KERNEL}


FAST, HALF, DOWN, NEW = ("4: ACTIVE", "400 Gb/sec (4X NDR)", 0), ("4: ACTIVE", "200 Gb/sec (2X NDR)", 0), (
    "1: DOWN", "10 Gb/sec (4X SDR)", 3), ("2: INIT", "400 Gb/sec (4X NDR)", 0)  # fmt: skip
NEVER = ("1: DOWN", "10 Gb/sec (4X SDR)", 0)
NONE = {"link": to_json(infiniband.read_state(Completed(exit_code=0, stdout="probed"))), "kernel": Unknown(why="skipped"), "lately": Unknown(why="skipped")}  # fmt: skip
LEFT = {**NONE, "link": {**NONE["link"], "on_bus": ["0000:18:00.0"]}}
WELL = ports(FAST, FAST)


@every_row(
    ("hosts", "wrong"),
    [
        ({"a": WELL, "b": WELL}, {}),
        ({"a": NONE, "b": NONE}, {}),
        ({"a": NONE, "b": WELL}, {}),
        ({"a": NONE, "b": WELL, "c": WELL}, {"a": ["no_card"]}),
        ({"a": NONE, "b": NONE, "c": WELL}, {}),
        ({"a": LEFT, "b": WELL, "c": WELL}, {"a": ["no_driver"]}),
        ({"a": WELL}, {}),
        ({"a": WELL, "b": None}, {"a": ["switch_side", "no_card", "fewer", "slower"]}),
        ({"a": WELL, "b": ports(FAST, DOWN)}, {"b": ["down"]}),
        ({"b": ports(FAST, DOWN)}, {"b": ["down"]}),
        ({"a": WELL, "b": ports(FAST, NEVER)}, {"b": ["fewer"]}),
        ({"a": WELL, "b": ports(FAST)}, {"b": ["fewer"]}),
        ({"a": ports(FAST, NEVER), "b": ports(FAST, NEVER)}, {}),
        ({"a": WELL, "b": ports(FAST, HALF), "c": WELL}, {"b": ["slower"]}),
        ({"a": WELL, "b": ports(FAST, NEW)}, {"b": ["no_manager"]}),
        ({"a": WELL, "b": ports(FAST, FAST, rise=True)}, {"b": ["flaps"]}),
        (
            {"a": ports(FAST, DOWN), "b": ports(FAST, DOWN), "c": WELL},
            {"a": ["switch_side", "down"], "b": ["switch_side", "down"]},
        ),
        ({"a": WELL, "b": WELL, "c": None}, {}),
        ({"a": ports(FAST, DOWN), "b": ports(FAST, DOWN)}, {"a": ["down"], "b": ["down"]}),
    ],
)
def test_the_host_with_the_bad_link_is_named(hosts, wrong):
    assert names(ends("ib-link", hosts), "error", "critical") == wrong


def test_a_link_that_was_lost_more_often_than_on_any_other_host_is_worth_a_warning():
    worn = ports(("4: ACTIVE", "400 Gb/sec (4X NDR)", 9), FAST)
    assert names(ends("ib-link", {"a": worn, "b": WELL, "c": WELL}), "warning") == {"a": ["lost_more_often"]}
    assert names(ends("ib-link", {"a": worn, "b": worn, "c": WELL}), "warning") == {}


def test_hosts_that_are_built_otherwise_are_compared_apart():
    kinds = {"a": {"gpu": "H100"}, "b": {"gpu": "A100"}, "c": {"gpu": "H100"}}
    hosts = {"a": WELL, "b": ports(HALF), "c": WELL}
    assert names(ends("ib-link", hosts, kinds), "error") == {"b": ["fewer"]}
    assert names(ends("ib-link", hosts, kinds, compare_by="gpu"), "error") == {}


def test_other_firmware_is_only_told():
    other = ports(FAST, FAST, firmware="28.30.1")
    found = ends("ib-link", {"a": WELL, "b": other, "c": WELL})
    assert names(found, "info") == {"b": ["other_firmware"]}
    assert found["b"]["other_firmware"].say.endswith("28.30.1; 1 of 3 hosts have the same")
    assert names(ends("ib-link", {"a": WELL, "b": other}), "info") == {}, "which of two is the other?"


@every_row(
    ("text", "found"),
    [
        ("wait_func:1144:(pid 1): MODIFY_CQ(0x403) timeout. Will cause a leak of a command resource", "fatal"),
        ("poll_health:834:(pid 0): device's health compromised - reached miss count", "fatal"),
        ("print_health_info:424:(pid 0): synd 0x8: unrecoverable hardware error", "fatal"),
        ("mlx5_pcie_event:301:(pid 5): Detected insufficient power on the PCIe slot (27W).", "power_or_heat"),
        ("temp_warn:180:(pid 0): High temperature on sensors with bit set 0 1", "power_or_heat"),
        ("mlx5_cmd_out_err:803:(pid 6): ACCESS_REG(0x805) op_mod(0x1) failed, status bad operation(0x2)", "refused"),
        ("Port module event[error]: module 0, Cable error, Bus stuck", "refused"),
        ("Port module event: module 0, Cable unplugged", "unplugged"),
        ("Port module event: module 0, Cable plugged", ""),
        ("firmware version: 28.39.1002", ""),
    ],
)
def test_what_the_kernel_says_of_a_card_is_fatal_or_not(text, found):
    step = next(it for it in book("ib-link").diagnose if it.id == "kernel")
    signatures = {name: getattr(it, "value", it) for name, it in step.args["signatures"].items()}
    log = f"[    0.000000] Linux version 6.1.0 (x) #1 SMP\n[   12.000000] mlx5_core 0000:18:00.0: {text}\n"
    state = drive(kernel_log.probe(kernel_log.Args(text=log, signatures=signatures)), Here())
    assert state.found == ((found,) if found else ())


# ---- nccl-timeout


def waited(rank: int, sequence: int, group: str = "ID 0 PG GUID 0(default_pg)") -> str:
    return (
        f"[rank{rank}]:[E1 00:00:00.1 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective operation timeout: "
        f"WorkNCCL(SeqNum={sequence}, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600060 milliseconds before timing out.\n"
        f"[rank{rank}]:[E1 00:00:00.2 x] [PG {group} Rank {rank}] failure: last enqueued work: {sequence + 2}, last completed work: {sequence - 1}\n"
    )  # fmt: skip


def job(text: str | None, age: float = 60.0, **kernel: Any) -> dict[str, Any]:
    """What a host has seen whose ranks printed this, so long ago; None: it has no such log."""
    step = next(it for it in book("nccl-timeout").diagnose if it.id == "nccl")
    errors = {name: getattr(it, "value", it) for name, it in step.args["errors"].items()}
    files = () if text is None else (LogFile(path="job.log", whole=True, lines=tuple(text.splitlines()), age=age),)
    state = nccl_log.read_state(nccl_log.Args(files=("job.log",), errors=errors), LogReading(files=files))
    return {"nccl": to_json(state), "kernel": Unknown(why="skipped") if text is None else {**KERNEL, **kernel}}


def killed(ago: float) -> dict[str, Any]:
    """What the kernel said so many seconds before its log was read; the ranks wrote their last line 60 s before."""
    return {"pid": 1, "name": "python3", "seconds": NOW - ago}


def signalled(
    rank: int,
    enqueued: int,
    completed: int,
    words: str = "due to a collective timeout from  rank 6 and we will try our best",
) -> str:
    return (
        f"[rank{rank}]:[E9 05:20:03.1 ProcessGroupNCCL.cpp:1746] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] Received a dump signal {words} "
        f"to dump the debug info. Last enqueued NCCL work: {enqueued}, last completed NCCL work: {completed}.This is most likely caused by\n"
    )  # fmt: skip


def waits_alone(rank: int, sequence: int) -> str:
    """As PyTorch wrote it without the counts of the group."""
    return waited(rank, sequence).splitlines()[0] + "\n"


def waited_within(rank: int, number: int, sequence: int, group: int) -> str:
    """As a rank says it that has another *number* within its group."""
    own, within = f"[Rank {rank}]", f"[Rank {number}]"
    text = waited(rank, sequence, f"ID 3 PG GUID {group}")
    return text.replace(own, within).replace(f"GUID {group} Rank {rank}]", f"GUID {group} Rank {number}]")


FAILED = "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1331, internal error, NCCL version 2.18.3\n"
FULL = "OSError: [Errno 28] No space left on device: 'x.pt'\n"
SIGNALLED, ROW = signalled(2, 1582, 1579), job("".join(waited(rank, 1580) for rank in range(1, 8)))
COUNTS = "[rank2]:[E9 x] [PG ID 0 PG GUID 0(default_pg) Rank 2] last enqueued work: {}, last completed work: {}\n"
VICTIM, STEP = job(waited(0, 1580) + waited(1, 1580)), "step 1579: loss 2.1\n"


@every_row(
    ("hosts", "wrong", "waits"),
    [
        ({"a": VICTIM, "b": VICTIM}, {"a": ["timed_out"], "b": ["timed_out"]}, []),
        ({"a": VICTIM}, {"a": ["timed_out"]}, []),
        ({"a": VICTIM, "b": job(STEP, 640)}, {"b": ["did_not_report"]}, ["a"]),
        ({"a": VICTIM, "b": job(STEP + FULL, 640), "c": VICTIM}, {"b": ["did_not_report"]}, ["a", "c"]),
        ({"a": VICTIM, "b": job(STEP, 86400)}, {"a": ["timed_out"]}, []),
        ({"a": VICTIM, "b": job(STEP, 40)}, {"b": ["did_not_report"]}, ["a"]),
        ({"a": VICTIM, "b": job(STEP, 5)}, {"a": ["timed_out"]}, []),
        ({"a": job(waited(0, 1580), 7200), "b": job(STEP, 5)}, {"a": ["timed_out"]}, []),
        ({"a": VICTIM, "b": job(None)}, {"a": ["timed_out"], "b": ["no_log"]}, []),
        ({"a": VICTIM, "b": job(waited(2, 1570))}, {"b": ["behind"]}, ["a"]),
        ({"a": VICTIM, "b": job(waited(2, 12, "ID 2 PG GUID 9"))}, {"a": ["timed_out"], "b": ["timed_out"]}, []),
        ({"a": VICTIM, "b": job(FULL + waited(2, 1580))}, {"b": ["failed_first"]}, ["a"]),
        ({"a": VICTIM, "b": job(waited(2, 1580) + FULL)}, {"a": ["timed_out"], "b": ["timed_out"]}, []),
        ({"a": job(waited(0, 1580) + waited(1, 1570))}, {"a": ["rank_behind"]}, []),
        (
            {"a": VICTIM, "b": job(waited(2, 12, "ID 2 PG GUID 9") + waited(3, 7, "ID 2 PG GUID 9"))},
            {"b": ["rank_behind"]},
            ["a"],
        ),
        ({"a": job(STEP), "b": job(STEP)}, {}, []),
        ({"a": job(FULL), "b": job(STEP)}, {}, []),
        # nobody waited until the watchdog ended it: there is nothing to compare, and the job has failed all the same
        ({"a": job(FULL + FAILED), "b": job(STEP)}, {"a": ["failed_alone"]}, []),
        ({"a": job(STEP + FAILED)}, {"a": ["failed_alone"]}, []),
        ({"a": VICTIM, "b": job(STEP + FAILED, 640)}, {"b": ["did_not_report"]}, ["a"]),
        ({"a": job(FAILED + waited(0, 1580))}, {"a": ["timed_out"]}, []),
        # two groups within the job, each at a collective of its own
        ({"a": job(waited_within(2, 1, 900, 21) + waited_within(6, 3, 412, 22))}, {"a": ["timed_out"]}, []),
        ({"a": job(waited_within(2, 1, 900, 21) + waited_within(6, 3, 899, 21))}, {"a": ["rank_behind"]}, []),
        ({"a": job(None), "b": job(None)}, {"a": ["no_log"], "b": ["no_log"]}, []),
        ({"a": VICTIM, "b": job(waited(2, 1580), oom_job=[killed(700)])}, {"b": ["machine_failed"]}, ["a"]),
        ({"a": VICTIM, "b": job(waited(2, 1580), oom_job=[killed(5)])}, {"a": ["timed_out"], "b": ["timed_out"]}, []),
        ({"a": VICTIM, "b": job(waited(2, 1580), matches=[killed(5)])}, {"a": ["timed_out"], "b": ["timed_out"]}, []),
        # a dump signal is a report: that rank waited
        ({"a": job(SIGNALLED)}, {"a": ["timed_out"]}, []),
        ({"a": job(signalled(2, 166, 166))}, {"a": ["timed_out"]}, []),
        (
            {"a": job("[rank2]:[E9 x] [Rank 2] Received a global timeout from another rank and will start to dump\n")},
            {"a": ["timed_out"]},
            [],
        ),
        ({"a": VICTIM, "b": job(SIGNALLED)}, {"a": ["timed_out"], "b": ["timed_out"]}, []),
        (
            {"a": job(waits_alone(6, 1580) + waits_alone(7, 1580)), "b": job(SIGNALLED)},
            {"a": ["timed_out"], "b": ["timed_out"]},
            [],
        ),
        ({"a": VICTIM, "b": job(signalled(2, 1590, 1579))}, {"a": ["timed_out"], "b": ["timed_out"]}, []),
        ({"a": VICTIM, "b": job(signalled(2, 1590, 1570))}, {"a": ["timed_out"], "b": ["timed_out"]}, []),
        ({"a": VICTIM, "b": job(SIGNALLED + FULL)}, {"a": ["timed_out"], "b": ["timed_out"]}, []),
        ({"a": VICTIM, "b": job(FULL + SIGNALLED)}, {"b": ["failed_first"]}, ["a"]),
        ({"a": VICTIM, "b": job(SIGNALLED), "c": job(STEP, 640)}, {"c": ["did_not_report"]}, ["a", "b"]),
        ({"a": VICTIM, "b": job(signalled(2, 1579, 1579))}, {"b": ["behind"]}, ["a"]),
        ({"a": job(waits_alone(6, 1580)), "b": job(signalled(2, 1579, 1579))}, {"b": ["behind"]}, ["a"]),
        ({"a": job(SIGNALLED), "b": job(STEP, 640)}, {"b": ["did_not_report"]}, ["a"]),
        ({"a": VICTIM, "b": job(COUNTS.format(1580, 1579))}, {"a": ["timed_out"]}, []),
        ({"a": VICTIM, "b": job(COUNTS.format(1579, 1579))}, {"b": ["did_not_report"]}, ["a"]),
        # the number that is missing from the row is the one that did not come
        ({"a": ROW}, {"a": ["rank_silent"]}, []),
        ({"a": ROW, "b": job("".join(waited(rank, 1580) for rank in range(8, 16)))}, {"a": ["rank_silent"]}, ["b"]),
        ({"a": ROW, "b": job(waited(0, 1580))}, {"a": ["silent_elsewhere"], "b": ["timed_out"]}, []),
    ],
)
def test_the_cause_is_told_from_its_victims(hosts, wrong, waits):
    found = ends("nccl-timeout", hosts)
    assert names(found, "error", "critical") == wrong
    assert [host for host, those in found.items() if "victim" in those] == waits


def test_the_words_name_the_cause_its_error_and_its_victims():
    found = ends("nccl-timeout", {"a": VICTIM, "b": job(STEP + FULL, 640), "c": None})
    assert found["b"]["did_not_report"].say == (
        "the cause is more likely here: no rank of this host reports a timeout, and those of a waited for somebody; "
        "before that: OSError: [Errno 28] No space left on device: 'x.pt' (compared among 2 of 3 hosts, without c (unreachable))"
    )
    assert found["a"]["victim"].say.startswith(
        "2 ranks of this host only waited, 600 s in ALLREDUCE 1580, for b (compared"
    )
    ahead = ends("nccl-timeout", {"a": VICTIM, "b": job(waited(2, 1570))})
    assert "had come to collective 1570, and those of a to 1580" in ahead["b"]["behind"].say
    assert ahead["a"]["victim"].say.endswith("for b")


def test_a_rank_that_only_got_the_dump_signal_is_never_called_the_cause():
    """Mutants: a report only where `timed_out`; `reached` not looked at."""
    found = ends("nccl-timeout", {"a": VICTIM, "b": job(SIGNALLED), "c": job(STEP, 640)})
    assert found["b"]["victim"].say.startswith("1 rank of this host only waited, in a collective 1580, for c")
    alone = ends("nccl-timeout", {"a": ROW})["a"]["rank_silent"].say
    assert alone.startswith("rank 0 is the one that did not come: 7 other ranks of this host waited 600 s in ALLREDUCE")


@every_row(
    ("reporting", "seen", "missing"),
    [
        ({1, 2, 3, 4, 5, 6, 7}, set(), (0,)),
        ({8, 9, 10, 12, 13, 14, 15}, set(), (11,)),
        ({9, 10, 11, 12, 13, 14, 15}, {8}, (8,)),
        ({0, 1, 2, 3, 4, 5, 6}, {7}, (7,)),
        ({0, 1, 2, 3, 4, 5}, set(), ()),  # a host of six
        ({6, 7, 8, 9, 10, 11}, set(), ()),
        ({0, 2, 4, 6}, set(), ()),  # a group of every second rank
        ({5}, {0, 1, 2, 3, 4, 6, 7}, ()),  # the launcher ended the others before they could report
        ({1, 2, 3}, set(), (0,)),
        ({3}, set(), ()),
        (set(), {0, 1}, ()),
    ],
)
def test_the_number_that_is_missing_from_a_row_is_found(reporting, seen, missing):
    assert nccl_log.missing_ranks(reporting, seen) == missing


@every_row(
    ("line", "reports"),
    [
        ("Received a global timeout from another rank and will start to dump the debug info.", True),
        ("Received a timeout signal from this local rank and will start to dump the debug info.", True),
        ("Received a dump signal from this local rank and will start to dump the debug info.", True),
        ("Received a dump signal due to a collective timeout from this local rank and we will try our best", True),
        ("Observed flight recorder dump signal from another rank via TCPStore.", True),
        ("Received a dump signal from pipe", False),
        ("ProcessGroupNCCL initialization options: size: 4, global rank: 2, TIMEOUT(ms): 600000", False),
    ],
)
def test_a_dump_signal_is_read_in_each_of_its_wordings(line, reports):
    state = job(f"(Worker pid=7) [rank2]:[E9 05:20:03.1 ProcessGroupNCCL.cpp:1746] [PG 0 Rank 2] {line}\n")["nccl"]
    assert (state["reporting"], state["timed_out"]) == ([2] if reports else [], [])


@every_row(
    ("text", "crashed"),
    [
        ("python3[4711]: segfault at 0 ip 00007f sp 00007f error 4 in libnccl.so.2.21.5[7f0000000000+1000]", True),
        ("pt_main_thread[12]: segfault at 8 ip 00007f sp 00007f error 4 in libc.so.6[7f0000000000+1000]", True),
        ("traps: python3[9] general protection fault ip:7f sp:7f error:0 in libnccl.so.2[7f+1]", True),
        ("fluentd[77]: segfault at 8 ip 00007f sp 00007f error 4 in libc.so.6[7f0000000000+1000]", False),
        ("Out of memory: Killed process 1 (python3)", False),
    ],
)
def test_a_crash_of_a_rank_counts_and_that_of_another_program_does_not(text, crashed):
    step = next(it for it in book("nccl-timeout").diagnose if it.id == "kernel")
    signatures = {name: getattr(it, "value", it) for name, it in step.args["signatures"].items()}
    log = f"[    0.000000] Linux version 6.1.0 (x) #1 SMP\n[   12.000000] {text}\n"
    assert (
        drive(kernel_log.probe(kernel_log.Args(text=log, signatures=signatures)), Here()).found
        == ("crashed",) * crashed
    )


def test_an_error_before_the_timeout_comes_before_the_network():
    advice = next(it for it in book("nccl-timeout").findings if it.id == "did_not_report").advise
    assert "comes before the network" in advice[0]
    assert "ib-link" in advice[-1]
