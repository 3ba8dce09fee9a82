"""The limits of a run over pretended hosts: who is changed, with whom, and who is not started; and that no bound breaks.

Mutants: rollout.py without the unreachable ones in `_unwell`; `>` for `>=` in `stopped`, `used_up` and `_open`; no place
given back in `ended`; claims not counted; `_failed` never set; `known` always true; groups not counted, or never given
back; bounds.py rounding `max_unavailable` up; fleet.py reporting a host after its turn is given away.
"""

from __future__ import annotations

from pathlib import Path

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from runbook.execution.diagnosis import exit_code
from runbook.execution.executor import Consent
from runbook.execution.fleet import UNWELL
from runbook.execution.fleet.bounds import Bounds
from runbook.execution.fleet.rollout import Rollout
from runbook.values.inventory import Host
from runbook.values.playbook import ConcurrencyLimit, Limits, Share
from runbook.values.result import Verdict
from tests.fleet.toy_run import WAYS, ran
from tests.support.tables import every_row
from tests.support.toy_actions import ToyClock

CASES = yaml.safe_load(Path(__file__).with_name("rollouts.yaml").read_text())


@every_row("two_phases", [False, True], ids=["host-by-host", "plan-first"])
@every_row("case", CASES, ids=[it["about"].replace(" ", "-") for it in CASES])
def test_who_is_changed_and_who_is_not_is_what_the_case_says(case, two_phases):
    done = ran(case["hosts"], case["limits"], two_phases=two_phases, rack=case.get("rack"), after=case.get("after"))
    assert done.ends() == {verdict: sorted(hosts) for verdict, hosts in case["ends"].items()}
    assert [sorted(wave) for wave in done.watch.waves] == case["waves"]
    assert [it.host for it in done.results] == list(case["hosts"])
    left = {it.error for it in done.results if it.verdict is Verdict.NOT_STARTED}
    assert left == ({case["why"]} if "why" in case else set())
    assert all(not done.machines[it.host].writes() for it in done.results if it.verdict is Verdict.NOT_STARTED)
    over = bool(done.stop.spent)
    assert exit_code(done.results, interrupted=False, over=over, detailed=False) == case["code"]


def test_a_limit_that_is_reached_when_no_host_is_left_is_no_reason_for_the_exit_code():
    """Mutants: scheduling.py ``_leave_some`` that takes note of a reason although it leaves nobody."""
    done = ran({"a": "cured", "b": "broken"}, "{stop_after: 1}", two_phases=True, after={"a": 1})
    assert done.ends() == {"resolved": ["a"], "failed": ["b"]}
    assert not done.stop.spent


def test_whoever_is_probed_last_does_not_overtake_those_who_wait():
    """Mutants: rollout.py ``_has_place`` without ``waiting``."""
    bounds = Bounds.of(Limits(max_unavailable=Share(number=1)), [Host(name=name) for name in "abc"])
    rollout = Rollout(["a", "b", "c"], bounds, ToyClock(), lambda *_: None)
    rollout.ended("b", Verdict.HEALTHY, touched=False)
    rollout.waits("a")
    assert not rollout.ask("c")
    rollout.waits("c")
    assert (rollout.next("ac"), rollout.next("c")) == ("a", None)
    rollout.ended("a", Verdict.RESOLVED, touched=True)
    assert rollout.next("c") == "c"


def test_without_a_yes_nothing_can_be_changed_and_no_host_is_held_back():
    """Mutants: fleet.py applies the limits to a run that may change nothing: one host is blocked, nine are not started."""
    ways = dict.fromkeys("abcdefghij", "cured")
    done = ran(ways, "{batches: [1, '100%'], stop_after: 1, max_unavailable: 1}", consent=Consent.NONE)
    assert done.ends() == {"unresolved": list(ways)}
    assert not done.watch.changed


def test_a_host_that_hangs_while_it_is_probed_holds_up_nobody_in_its_batch():
    """Mutants: rollout.py lets nobody begin before the hosts ahead are known, whatever the size of the batch."""
    done = ran({"slow": "cured", "b": "cured", "c": "cured"}, "{batches: ['100%']}", hangs={"slow": 2})
    assert [name for name in done.watch.changed if name != "slow"] == done.watch.changed[:2]
    assert done.ends() == {"resolved": ["slow", "b", "c"]}


def test_a_host_that_hangs_keeps_its_place_in_a_batch_that_others_could_fill():
    done = ran({"slow": "cured", "b": "cured", "c": "cured"}, "{batches: [1, '100%']}", slow={"slow": 0.2})
    assert done.watch.changed[0] == "slow"
    assert done.watch.waves == [("slow",)]


def test_hosts_wait_between_batches_and_only_there():
    """Mutants: rollout.py rests before the first batch, after the last one, or never."""
    clock = ToyClock()  # on which time passes only where somebody sleeps
    done = ran(dict.fromkeys("abcd", "cured"), "{batches: [1, 2], pause_between: 40s}", clock=clock)
    assert 80 <= clock.now() < 81
    assert done.watch.waves == [("a",), ("b", "c")]
    assert done.watch.pauses == [40.0, 40.0]
    assert ran(dict.fromkeys("abcd", "cured"), "{batches: [4], pause_between: 40s}").watch.waves == []


@every_row(
    ("given_share", "total", "up", "down"),
    [("10%", 38, 4, 3), ("10%", 5, 1, 1), ("100%", 7, 7, 7), ("3", 38, 3, 3), ("0.1%", 10, 1, 1),
     ("1.1%", 3000, 33, 33), ("4.35%", 10000, 435, 435), ("33.3%", 9, 3, 2), ("1.001%", 100000, 1001, 1001), ("50%", 5, 3, 2), ("99.999%", 2, 2, 1)],
)  # fmt: skip
def test_shares_are_rounded_exactly(given_share, total, up, down):
    """Mutants: floats, in which 1.1 times 3000 is more than 3300, and 4.35 times 100 less than 435."""
    share = Share(number=float(given_share.rstrip("%")), percent=given_share.endswith("%"))
    assert (share.of(total), share.at_most(total)) == (up, down)


def test_what_is_nested_in_a_host_is_found_and_lists_and_numbers_are_values_too():
    limits = Limits(
        max_concurrent_per=tuple(ConcurrencyLimit(variable=it, most=1) for it in ("where.row", "slot", "no"))
    )
    host = Host(name="h", vars={"where": {"row": [1, 2]}, "slot": 0, "no": None})
    assert Bounds.of(limits, [host]).groups == {"h": (("where.row", "[1, 2]"), ("slot", "0"))}


@settings(max_examples=50, deadline=None)
@given(
    ways=st.lists(st.sampled_from(list(WAYS)), min_size=1, max_size=9),
    racks=st.lists(st.sampled_from(["", "r1", "r2"]), min_size=9, max_size=9),
    batches=st.lists(st.sampled_from([1, 2, 3, "'30%'", "'100%'"]), max_size=3),
    stop_after=st.sampled_from([0, 1, 3, "'50%'"]),
    unavailable=st.sampled_from([0, 1, 2, 4, "'25%'"]),
    per_rack=st.sampled_from([0, 1, 2]),
    parallel=st.sampled_from([1, 2, 32]),
    two_phases=st.booleans(),
)
def test_no_bound_is_ever_exceeded_and_every_host_is_reported_once(
    ways, racks, batches, stop_after, unavailable, per_rack, parallel, two_phases
):
    hosts = {f"h{number}": way for number, way in enumerate(ways)}
    given_limits = {"batches": f"[{', '.join(map(str, batches))}]" if batches else "", "stop_after": stop_after,
                    "max_unavailable": unavailable, "max_concurrent_per": f"{{rack: {per_rack}}}" if per_rack else ""}  # fmt: skip
    text = ", ".join(f"{key}: {value}" for key, value in given_limits.items() if value)
    rack = {name: it for name, it in zip(hosts, racks, strict=False) if it}
    done = ran(hosts, f"{{{text}}}", two_phases=two_phases, rack=rack, parallel=parallel, seconds=0.0005)
    assert [it.host for it in done.results] == list(hosts)
    assert done.watch.reported == dict.fromkeys(hosts, 1)
    for it in done.results:
        assert it.verdict in (WAYS[hosts[it.host]], Verdict.NOT_STARTED)
        if it.verdict is Verdict.NOT_STARTED:
            assert hosts[it.host] != "idle" or stop_after or batches
            assert not done.machines[it.host].writes()
    bounds = Bounds.of(_limits(text), [Host(name=name) for name in hosts])
    if unavailable and done.watch.changed:
        assert done.watch.most_unavailable <= bounds.max_unavailable
    if per_rack:
        assert done.watch.most_per_rack <= per_rack
    for number, wave in enumerate(done.watch.waves):
        assert len(wave) == bounds.size(number)
        assert any(done.watch.ended[name] not in UNWELL for name in wave)


def _limits(text: str) -> Limits:
    from runbook.language.loader import load_playbook
    from tests.support.toy_actions import ACTIONS

    return load_playbook(f"name: toy\nlimits: {{{text}}}\n", "toy.yaml", ACTIONS).limits
