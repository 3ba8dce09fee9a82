"""Findings that compare the hosts of a run (``across``)."""

from __future__ import annotations

import json
import random
import threading
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runbook.codec import to_json
from runbook.errors import ConfigError, Unreachable
from runbook.execution.diagnosis.comparing import Candidate, Offer, compared
from runbook.execution.diagnosis.host_context import RunContext
from runbook.execution.executor import Consent
from runbook.execution.fleet import Cancellation, Fleet
from runbook.language.expressions.comparison import LONGEST_VALUE, Compared, Share, compare, same
from runbook.language.expressions.templates import Scope
from runbook.language.loader import load_playbook
from runbook.values.inventory import Host
from runbook.values.plan import Finding, Presence
from runbook.values.playbook import Limits
from runbook.values.types import Unknown
from tests.support.tables import every_row
from tests.support.toy_actions import ACTIONS, ToyClock, ToyHost

BOOK = """\
name: toy
diagnose:
  - {id: seen, procs: {word: zombie}}
findings:
  - {id: some, when: seen.matches, severity: info}
  - id: behind
    across: %s
    when: across.value < across.highest
    severity: error
    say: "{{ across.value }} of {{ across.highest }}, as {{ across.at_highest | join(' and ') }}"
    evidence: {all: "across.hosts | map(attribute='value') | list"}
    advise: ["ask {{ host.name }}"]
"""
COUNT = "seen.matches | length"


class Slow(ToyHost):
    """A host that answers after some time."""

    after = 0.0

    def _run(self, command):
        time.sleep(self.after)  # noqa: TID251 hosts take different times, and their order must not count
        return super()._run(command)


def run(
    counts, across=COUNT, *, book="", racks=None, slow=None, order=None, limits=None, stop=None, dry=False, ends_at=""
):
    """The ends of hosts that have so many matches each; None: it cannot be reached, -1: its probe has no answer."""
    events, lock = [], threading.Lock()
    machines = {}
    for name, count in counts.items():
        machines[name] = Slow(procs={4 + number: (1, "zombie") for number in range(count or 0)})
        machines[name].blind = count == -1
        machines[name].after = (slow or {}).get(name, 0.0)

    def connect(host):
        if host.name == ends_at:
            stop.ask("the run was interrupted", level=1)
        if counts[host.name] is None:
            raise Unreachable("no route to host")
        return machines[host.name]

    def emit(event):
        with lock:
            events.append(event)

    made = load_playbook(book or BOOK % across, "toy.yaml", ACTIONS)
    made = replace(made, limits=limits) if limits else made
    fleet = Fleet(playbook=made, run=RunContext(inputs={}, facts={}, actions=ACTIONS, emit=emit), connect=connect, clock=ToyClock(), stop=stop or Cancellation(), parallel=1 if ends_at else 8)  # fmt: skip
    hosts = [Host(name=it, vars={"rack": (racks or {}).get(it, "a")}) for it in order or counts]
    results = fleet.conclude(fleet.plan(hosts)) if dry else fleet.plan_and_carry_out(hosts, Consent.YES)
    return {it.host: it for it in results}, events


def finding(result, name="behind"):
    return next((it for it in result.findings if it.id == name), None)


def test_the_host_that_is_behind_is_named_and_no_other():
    ends, _ = run({"a": 2, "b": 1, "c": 2})
    assert {name: it.verdict.value for name, it in ends.items()} == {"a": "healthy", "b": "unresolved", "c": "healthy"}
    found = finding(ends["b"])
    assert (found.say, found.evidence["all"], found.evidence["compared"]) == (
        "1 of 2, as a and c",
        [2, 1, 2],
        "3 of 3 hosts",
    )
    assert found.advise == ("ask b",)
    assert [it.id for it in ends["b"].findings] == ["some", "behind"], "findings keep the order of the playbook"


def test_hosts_that_cannot_be_reached_or_do_not_answer_are_said_to_be_missing():
    ends, _ = run({"a": 2, "b": 1, "c": None, "d": -1})
    assert "(compared among 2 of 4 hosts, without c (unreachable), d (seen: " in finding(ends["b"]).say
    assert ends["c"].verdict.value == "unreachable"
    assert finding(ends["c"]) is None
    assert (finding(ends["d"]).status.value, ends["d"].verdict.value) == ("unknown", "unknown")
    assert "ps did not answer" in finding(ends["d"]).why
    assert ends["a"].verdict.value == "healthy"


def test_what_only_one_of_several_hosts_says_is_unknown():
    ends, _ = run({"a": 2, "b": None})
    assert finding(ends["a"]).status.value == "unknown"
    assert finding(ends["a"]).why == "nothing to compare with: 1 of 2 hosts, without b (unreachable)"
    assert ends["a"].verdict.value == "unknown"


def test_a_run_of_one_host_compares_nothing_and_says_so():
    ends, _ = run({"a": 2})
    assert (finding(ends["a"]).status.value, ends["a"].verdict.value) == ("absent", "healthy")
    assert finding(ends["a"]).why.startswith("not compared: no other host of the run takes part")


def test_a_host_whose_value_is_none_takes_no_part():
    ends, _ = run({"a": 2, "b": 1, "c": 0}, "(seen.matches | length) or none")
    assert finding(ends["b"]).evidence["compared"] == "2 of 2 hosts"
    assert finding(ends["c"]).status.value == "absent"


def test_hosts_are_compared_with_those_of_their_group():
    across = "{value: seen.matches | length, by: host.rack}"
    racks = {"a": "r1", "b": "r1", "c": "r2", "d": "r2"}
    ends, _ = run({"a": 5, "b": 5, "c": 2, "d": 1}, across, racks=racks)
    assert [name for name, it in ends.items() if finding(it).status.value == "present"] == ["d"]
    assert finding(ends["d"]).say == "1 of 2, as c"


def test_a_host_that_was_not_reached_may_be_of_any_group():
    across = "{value: seen.matches | length, by: host.rack}"
    ends, _ = run({"a": 5, "b": 4, "c": None}, across, racks={"a": "r1", "b": "r1", "c": "r2"})
    assert "among 2 of 3 hosts, without c (unreachable)" in finding(ends["b"]).say


def test_an_expression_that_fails_is_unknown_on_its_host():
    ends, _ = run({"a": 2, "b": 1, "c": 0}, "1 / (seen.matches | length)")
    assert "cannot be evaluated" in finding(ends["c"]).why
    assert finding(ends["a"]).status.value == "present"


def test_a_majority_needs_more_than_half():
    book = (BOOK % COUNT).replace("across.value < across.highest", "across.value != across.usual")
    book = book.replace("as {{ across.at_highest | join(' and ') }}", "unlike {{ across.unlike | join(' and ') }}")
    ends, _ = run({"a": 2, "b": 1, "c": 2}, book=book)
    assert finding(ends["b"]).say == "1 of 2, unlike b"
    assert finding(ends["a"]).status.value == "absent"
    ends, _ = run({"a": 2, "b": 1}, book=book)
    assert finding(ends["a"]).why == "no value is that of more than half of 2 hosts"


def test_values_without_an_order_have_no_lowest():
    ends, _ = run({"a": 2, "b": 1}, "seen.matches | length | string")
    assert "not all numbers" in finding(ends["a"]).why


def test_one_that_compares_is_folded_under_what_explains_it():
    ends, _ = run({"a": 2, "b": 1}, book=(BOOK % COUNT).replace("severity: error", "severity: error\n    unless: some"))
    assert finding(ends["b"]).why == "explained by some"


def test_one_that_compares_explains_what_a_host_shows_alone():
    late = "  - {id: late, when: seen.matches, severity: error, unless: behind}\n"
    ends, _ = run({"a": 2, "b": 1}, book=BOOK % COUNT + late)
    assert (finding(ends["b"], "late").status.value, finding(ends["b"], "late").why) == (
        "absent",
        "explained by behind",
    )
    assert finding(ends["a"], "late").status.value == "present"


VICTIM = """\
  - id: victim
    across: %s
    when: across.value and across.found.behind and host.name not in across.found.behind
    severity: warning
    say: "waits for {{ across.found.behind | join(', ') }}; {{ across.found.some | length }} have some"
"""


def test_a_later_finding_names_the_hosts_on_which_an_earlier_one_is_present():
    ends, _ = run({"a": 2, "b": 1, "c": 0, "d": 1}, book=BOOK % COUNT + VICTIM % COUNT)
    assert finding(ends["a"], "victim").say == "waits for b, c, d; 3 have some"
    assert {finding(ends[it], "victim").status.value for it in "bcd"} == {"absent"}
    by_rack = "{value: seen.matches | length, by: host.rack}"
    racks = {"a": "r1", "b": "r1", "c": "r2", "d": "r2"}
    ends, _ = run({"a": 2, "b": 1, "c": 0, "d": 1}, book=BOOK % by_rack + VICTIM % by_rack, racks=racks)
    assert finding(ends["a"], "victim").say == "waits for b; 2 have some", "only those of its group"


def test_what_is_shown_of_a_host_is_what_was_compared():
    for dry in (True, False):
        ends, events = run({"a": 2, "b": 1, "c": None}, dry=dry)
        planned = {it.plan.host: it.plan for it in events if it.kind == "host_planned"}
        assert {host: plan.findings for host, plan in planned.items()} == {it: ends[it].findings for it in "ab"}
        assert [it.kind for it in events].count("host_planned") == len(planned), "each host once"
        finished = [it.result for it in events if it.kind == "host_finished"]
        assert sorted(it.host for it in finished) == ["a", "b", "c"], "each host once"
        assert {it.host: it for it in finished} == ends


def test_hosts_that_an_end_of_the_run_has_left_are_missing():
    stop = Cancellation()
    stop.ask("the run was interrupted", level=1)
    ends, _ = run({"a": 2, "b": 1}, stop=stop)
    assert {it.verdict.value for it in ends.values()} == {"not_started"}


def test_hosts_that_were_probed_before_an_interrupt_are_compared_among_themselves():
    ends, events = run({"a": 2, "b": 1, "c": 2, "d": 2}, stop=Cancellation(), ends_at="c")
    assert {it.verdict.value for name, it in ends.items() if name in "cd"} <= {"cancelled", "not_started", "healthy"}
    assert ends["d"].verdict.value == "not_started"
    assert "(compared among " in finding(ends["b"]).say
    assert "d (not started)" in finding(ends["b"]).say
    assert sorted(it.result.host for it in events if it.kind == "host_finished") == ["a", "b", "c", "d"]


def test_limits_leave_the_comparison_as_it_is():
    ends, _ = run({"a": 2, "b": 1, "c": None}, limits=Limits(host_deadline=30.0, deadline=600.0))
    assert finding(ends["b"]).status.value == "present"


def test_included_findings_that_compare_see_their_own_names():
    outer = "name: toy\ndiagnose:\n  - {id: inner, include: part}\n"
    part = (BOOK % COUNT).replace("name: toy", "name: part")
    book = load_playbook(outer, "toy.yaml", ACTIONS, lambda name, file: ("part.yaml", part))
    assert book.comparisons[0].id == "inner_behind"
    assert book.comparisons[0].probes == ("inner_seen",)


def test_included_findings_ask_for_each_other_by_their_own_names():
    part = (BOOK % COUNT + VICTIM % COUNT).replace("name: toy", "name: part")
    outer = "name: toy\ndiagnose:\n  - {id: inner, include: part}\n"
    book = load_playbook(outer, "toy.yaml", ACTIONS, lambda name, file: ("part.yaml", part))
    scope = Scope(host={"name": "a"}, states={})
    offers = {it.id: Offer(value=2, group=None, scope=scope) for it in book.comparisons}
    behind = {it: replace(offer, value=1) for it, offer in offers.items()}
    own = tuple(Finding(id=it.id, severity=it.severity, status=Presence.ABSENT) for it in book.findings)
    hosts = [Candidate(host="a", findings=own, offers=offers), Candidate(host="b", findings=own, offers=behind)]
    assert compared(book, hosts)["a"][2].say == "waits for b; 0 have some"


@given(st.dictionaries(st.sampled_from("abcdef"), st.sampled_from([0, 1, 2, 3, None, -1]), min_size=1), st.randoms())
def test_neither_the_order_of_hosts_nor_who_is_first_makes_a_difference(counts, dice):
    order = list(counts)
    dice.shuffle(order)
    slow = {name: dice.choice((0.0, 0.002)) for name in counts}
    plain, _ = run(counts)
    other, _ = run(counts, order=order, slow=slow)
    assert {name: (it.findings, it.verdict) for name, it in plain.items()} == {
        name: (it.findings, it.verdict) for name, it in other.items()
    }


BROUGHT = """\
name: toy
diagnose:
  - {id: seen, procs: {word: zombie}}
findings:
  - id: other
    across: seen.matches
    when: across.value != across.usual
    severity: error
    say: "{{ across.value }}, not {{ across.usual }}"
    evidence: {all: across.hosts, missing: across.missing}
"""


def brought(*values):
    """The findings of hosts h00, h01 ... that bring *values*, as a report has them."""
    book = load_playbook(BROUGHT, "toy.yaml", ACTIONS)
    hosts = []
    for number, value in enumerate(values):
        offer = Offer(value=value, group=None, scope=Scope())
        own = (Finding(id="other", severity=book.findings[0].severity, status=Presence.ABSENT),)
        hosts.append(Candidate(host=f"h{number:02}", findings=own, offers={"other": offer}))
    return {host: findings[0] for host, findings in compared(book, hosts).items()}


@every_row("forged", ["A" * 900_000, "a)\n\x1b[31m1 of 1 hosts\u2028" * 20_000])
def test_what_one_host_writes_is_not_multiplied_by_the_number_of_hosts(forged):
    """Mutants: the reason not cut; not cleaned; the value not bounded; the group not bounded."""
    for value in (Unknown(why=forged), forged, [forged], {forged: 1}):
        found = brought(value, *(["x"] * 39), "y")
        assert found["h40"].status.value == "present"
        assert "(compared among 40 of 41 hosts, without h00 (" in found["h40"].say
        assert found["h40"].say.isprintable()
        assert len(found["h40"].say) < 250
        assert sum(len(json.dumps(to_json(it))) for host, it in found.items() if host != "h00") < 50_000
        assert found["h00"].status.value == "unknown"


def test_a_value_too_large_to_compare_is_said_to_be():
    size = LONGEST_VALUE - 2
    assert brought("b" * size, "a" * size, "a" * size)["h00"].evidence["compared"] == "3 of 3 hosts"
    large = brought("b" * (size + 1), "a", "a")["h00"]
    assert large.why == "its value has 10001 characters, over the 10000 that are compared: give a digest"
    group = [Share(host=it, value=1, group="x" * 20_000) for it in "ab"]
    assert {it.why[:13] for it in compare(group).values()} == {"its value has"}


VALUES = st.one_of(
    st.none(), st.integers(-3, 3), st.sampled_from([0.5, 1.0]), st.booleans(), st.just(Unknown(why="no answer"))
)


@given(st.lists(st.tuples(VALUES, st.sampled_from([1, 2, Unknown(why="no group")])), min_size=1, max_size=7))
def test_nobody_is_counted_twice_or_lost(given_values):
    shares = [Share(host=f"h{number}", value=value, group=group) for number, (value, group) in enumerate(given_values)]
    for own in shares:
        found = compare(random.Random(1).sample(shares, len(shares)))[own.host]
        assert found == compare(shares)[own.host]
        if isinstance(found, Compared):
            named = [it.host for it in (*found.hosts, *found.missing)]
            assert len(named) == len(set(named)) == found.total
            assert own.host in {it.host for it in found.hosts}
            assert found.alike == sum(same(it.value) == same(own.value) for it in found.hosts)
            assert all(
                share.value is None or share.group not in (own.group,) for share in shares if share.host not in named
            )


REFUSED = {
    "remediate": (
        BOOK % COUNT + "remediate:\n  - {id: stop, for: some, end: {word: zombie}}\n",
        "toy.yaml:7:5: hosts are compared after the last one is probed, so that a playbook with `across` has no remediate",
    ),
    "verify": (BOOK % COUNT + "verify:\n  - {id: still, procs: {word: zombie}}\n", "has no verify"),
    "a plain when": ((BOOK % COUNT).replace("across.value < across.highest", "seen.matches"), "`when` does not name what was found"),
    "settle": (BOOK % COUNT + "    settle: 3s\n", "`settle` is not allowed beside `across`"),
    "a field": ((BOOK % COUNT).replace("across.highest", "across.hihgest"), "has no field 'hihgest' (did you mean highest?)"),
    "a probe": (BOOK % "sene.matches | length", "the name 'sene' is not defined (did you mean seen?)"),
    "a key": (BOOK % "{valeu: seen.matches}", "did you mean value?"),
    "no value": (BOOK % "{by: host.name}", "toy.yaml:7:5: 'value' is missing (an expression that each host"),
    "a number": (BOOK % "3", "across: expected text or a mapping, got 3"),
    "itself": (BOOK % "across.value", "`across` exists only in what a finding with `across` says"),
    "without across": (
        (BOOK % COUNT).replace("when: seen.matches", "when: across.value > 1"),
        "`across` exists only in what a finding with `across` says",
    ),
    "a finding": (
        BOOK % COUNT + (VICTIM % COUNT).replace("found.behind and", "found.behnid and"),
        "toy.yaml:15:5: no earlier finding is called 'behnid' (did you mean behind?)",
    ),
    "itself in found": (
        (BOOK % COUNT).replace("{{ across.value }} of", "{{ across.found.behind }} of"),
        "no earlier finding is called 'behind'",
    ),
    "its name": ((BOOK % COUNT).replace("id: seen", "id: across"), "'across' is a reserved name in expressions"),
}  # fmt: skip


@every_row("mistake", REFUSED)
def test_what_could_not_be_compared_is_a_mistake_of_the_playbook(mistake):
    text, words = REFUSED[mistake]
    with pytest.raises(ConfigError) as caught:
        load_playbook(text, "toy.yaml", ACTIONS)
    assert words in str(caught.value)


def test_a_playbook_that_changes_something_includes_none_that_compares():
    outer = (
        "name: toy\ndiagnose:\n  - {id: inner, include: part}\n"
        "remediate:\n  - {id: stop, for: inner_some, end: {word: zombie}}\n"
    )
    part = (BOOK % COUNT).replace("name: toy", "name: part")
    with pytest.raises(ConfigError) as caught:
        load_playbook(outer, "toy.yaml", ACTIONS, lambda name, file: ("part.yaml", part))
    assert "toy.yaml:3:5: inner_behind compares hosts after the last one is probed" in str(caught.value)
