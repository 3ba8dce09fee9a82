"""Looks with samples on a pretended host: every unknown one, every way of being cut short, every second probe."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, replace

from runbook.codec import to_json
from runbook.commands.one_run import SystemClock
from runbook.errors import Cancelled, Unreachable
from runbook.execution.diagnosis import SharedProbes, verdict
from runbook.execution.diagnosis.host_context import RunContext
from runbook.execution.diagnosis.sampling import MAX_SERIES_CHARACTERS, shortened
from runbook.execution.executor import Consent, execute
from runbook.execution.fleet import Cancellation, Fleet
from runbook.execution.planner import make_plan
from runbook.language.loader import load_playbook
from runbook.protocols import Absent
from runbook.reporting.reporters.console import lines_of
from runbook.reporting.wording.host_digest import NEXT_AFTER_CANCEL
from runbook.reporting.wording.host_lines import host_lines
from runbook.values.command import Completed, read
from runbook.values.event import Waiting
from runbook.values.inventory import Host
from runbook.values.plan import Presence
from runbook.values.result import Status, Verdict
from runbook.values.sampling import Series
from runbook.values.types import Unknown
from runbook.values.verbosity import Verbosity
from tests.support.tables import every_row
from tests.support.toy_actions import ACTIONS, Procs, ToyClock, ToyHost, action, site, with_run

BOOK = """\
name: toy
diagnose:
  - {id: seen, samples: {times: 4, every: 10s}, procs: {word: zombie}}
findings:
  - {id: held, when: "seen | sustained('matches', '30s')", severity: error, say: "{{ seen | series('matches | length') }}"}
remediate:
  - {id: stop, for: held, end: {word: zombie}}
"""


def probe_gone(args):
    answer = yield read("ps")
    return Absent(why="no GPU", state=Procs(matches=())) if answer.exit_code == 9 else Procs(matches=(1,))


def probe_hazy(args):
    yield read("ps")
    return Procs(matches=Unknown(why="no clock"))


MORE = {
    **ACTIONS,
    "gone": action("gone", Args=ACTIONS["mute"].Args, State=Procs, probe=probe_gone),
    "hazy": action("hazy", Args=ACTIONS["mute"].Args, State=Procs, probe=probe_hazy),
}


@dataclass
class Changing(ToyHost):
    """A host on which each probe at the processes sees the next of *table*: a word, nothing, or (None) no answer."""

    table: tuple[str | None, ...] = ()
    looks: int = 0
    slow: float = 0.0
    clock: object = None
    exits: tuple[int, ...] = ()

    def _run(self, command):
        if command.argv == ("ps",):
            if self.slow:
                self.clock.sleep(self.slow)
            now = self.table[min(self.looks, len(self.table) - 1)] if self.table else "zombie"
            self.blind = now is None
            self.procs = {4: (1, now)} if now else {}
            if self.exits:
                self.sent.append(command)
                self.looks += 1
                return Completed(exit_code=self.exits[min(self.looks, len(self.exits)) - 1])
            done = super()._run(command)
            self.looks += 1
            return done
        return super()._run(command)


def planned(text: str, host: ToyHost, events: list | None = None):
    where = with_run(site(load_playbook(text, "toy.yaml", MORE), host, events), actions=MORE)
    if isinstance(host, Changing):
        host.clock = where.clock
    plan, seen = make_plan(where)
    return plan, seen, where


def looked(text: str, *table: str | None, **keys):
    plan, _, where = planned(text, Changing(procs={}, table=table, **keys))
    return plan.looks[0], plan.findings[0], where


Z = "zombie"


def test_samples_are_taken_at_their_times_and_the_last_state_is_not_the_look():
    """Mutants: a sample more or less; a pause after the last one; times since anything but the first."""
    look, finding, where = looked(BOOK, Z, "", Z, Z)
    assert where.clock.now() == 30.0
    assert [(it["at"], len(it["matches"])) for it in look.state["samples"]] == [
        (0.0, 1),
        (10.0, 0),
        (20.0, 1),
        (30.0, 1),
    ]
    assert {name: look.state[name] for name in ("asked", "known", "unknown", "seconds")} == {
        "asked": 4, "known": 4, "unknown": [], "seconds": 30.0
    }  # fmt: skip
    assert "matches" not in look.state
    assert finding.status is Presence.ABSENT
    assert look.seconds == 30.0
    assert len(look.commands) == 4
    after = BOOK.replace("diagnose:\n", "diagnose:\n  - {id: now, procs: {word: zombie}}\n")
    plan, _, _ = planned(after, Changing(procs={}, table=(Z,), slow=1.0))
    assert [it["at"] for it in plan.looks[1].state["samples"]] == [0.0, 10.0, 20.0, 30.0], "whenever the first is taken"


def test_what_is_so_in_every_sample_is_found():
    look, finding, _ = looked(BOOK, Z)
    assert (finding.status, finding.say, look.why) == (Presence.PRESENT, "1, 1, 1, 1", "")


@every_row("table", [(None, Z, Z, Z), (Z, None, Z, Z), (Z, Z, Z, None), (None, Z, None, Z), (Z, None, None, None)])
def test_law_6_an_unknown_sample_is_neither_held_nor_well(table):
    """Mutants: a gap is bridged, left out, or counted as a sample that is well."""
    look, finding, where = looked(BOOK, *table)
    assert look.status is Status.OK
    assert (look.state["known"], len(look.state["unknown"])) == (4 - table.count(None), table.count(None))
    assert [it["at"] for it in look.state["unknown"]] == [10.0 * at for at, it in enumerate(table) if it is None]
    assert finding.status is Presence.UNKNOWN
    assert "ps did not answer" in finding.why
    assert f"{table.count(None)} of 4 samples not known: ps did not answer" in look.why
    assert verdict(where.playbook, (look,), (finding,)) is Verdict.UNKNOWN


def test_a_sample_that_is_well_settles_it_whatever_is_not_known():
    assert looked(BOOK, Z, None, "", Z)[1].status is Presence.ABSENT


def test_law_6_where_no_sample_is_known_the_look_is_not():
    look, finding, _ = looked(BOOK, None)
    assert (look.status, look.why) == (Status.FAILED, "none of 4 samples is known: ps did not answer")
    assert finding.status is Presence.UNKNOWN
    assert len(look.commands) == 4


def test_a_look_that_is_skipped_or_proven_empty_is_so_once():
    skipped, finding, where = looked(BOOK.replace("procs:", "when: false, procs:"), Z)
    assert (skipped.status, skipped.commands, where.clock.now()) == (Status.SKIPPED, (), 0.0)
    assert finding.status is Presence.UNKNOWN
    absent, finding, where = looked(BOOK.replace("procs: {word: zombie}", "gone: {}"), exits=(9,))
    assert (absent.status, absent.why, len(absent.commands)) == (Status.SKIPPED, "no GPU", 1)
    assert (absent.state["samples"], absent.state["absent"], finding.status) == ([], "no GPU", Presence.ABSENT)
    assert where.clock.now() == 0.0


def test_what_is_gone_in_the_middle_is_a_sample_that_is_not_known():
    look, finding, _ = looked(BOOK.replace("procs: {word: zombie}", "gone: {}"), exits=(0, 0, 9, 0))
    assert (look.status, finding.status) == (Status.OK, Presence.UNKNOWN)
    assert "no GPU" in look.why


def test_a_faulty_sample_is_taken_again_where_the_step_says_so():
    text = BOOK.replace("procs:", "retry: {times: 1, every: 1s}, procs:")
    assert looked(text, Z, None, Z, Z, Z)[1].status is Presence.PRESENT


def test_samples_for_a_time_end_at_its_end_and_slow_looks_make_them_fewer():
    text = BOOK.replace("times: 4", "for: 25s").replace("'30s'", "'25s'")
    look, finding, _ = looked(text, Z)
    assert [it["at"] for it in look.state["samples"]] == [0.0, 10.0, 20.0, 25.0]
    assert finding.status is Presence.PRESENT
    look, finding, where = looked(text, Z, slow=12.0)
    assert [it["at"] for it in look.state["samples"]] == [0.0, 20.0, 32.0]
    assert (look.state["asked"], finding.status, where.clock.now()) == (4, Presence.PRESENT, 44.0 + 12.0)
    look, _, _ = looked(BOOK, Z, slow=12.0)
    assert [it["at"] for it in look.state["samples"]] == [0.0, 20.0, 40.0, 60.0], "so many as were asked for"


def test_samples_end_with_the_first_that_refutes_the_while_of_the_step():
    text = BOOK.replace("every: 10s", "every: 10s, while: matches")
    look, finding, where = looked(text, Z, "", Z)
    assert (len(look.state["samples"]), where.clock.now(), finding.status) == (2, 10.0, Presence.ABSENT)
    assert looked(text, None, Z, Z, "")[2].clock.now() == 30.0, "an unknown sample refutes nothing"
    assert looked(text, Z)[1].status is Presence.PRESENT
    for condition in ("not matches", "matches", "matches - 1"):
        hazy = text.replace("procs: {word: zombie}", "hazy: {}").replace("while: matches", f"while: {condition}")
        look, finding, where = looked(hazy, Z)
        assert where.clock.now() == 30.0, "what is not known refutes nothing"
        assert (look.status, finding.status) == (Status.OK, Presence.UNKNOWN)
    assert looked(text.replace("while: matches", "while: matches - 1"), Z)[2].clock.now() == 30.0, (
        "nor what makes no sense"
    )


def test_samples_that_make_no_sense_at_last_leave_the_look_unknown():
    text = BOOK.replace("times: 4", "times: '{{ inputs.n }}'").replace(
        "diagnose:", "inputs: {n: {about: x, default: 4}}\ndiagnose:"
    )
    host = ToyHost(procs={})
    where = with_run(site(load_playbook(text, "toy.yaml", MORE), host), inputs={"n": 1})
    plan, _ = make_plan(where)
    assert (plan.looks[0].status, plan.looks[0].commands) == (Status.BLOCKED, ())
    assert "times: 1 is not a number of samples" in plan.looks[0].why
    assert plan.findings[0].status is Presence.UNKNOWN


def test_looks_with_samples_are_taken_side_by_side_and_a_slow_look_delays_none():
    text = BOOK.replace(
        "findings:",
        "  - {id: more, samples: {for: 40s, every: 20s}, procs: {word: train}}\n  - {id: plain, procs: {word: x}}\nfindings:",
    )
    plan, _, where = planned(text, Changing(procs={}, table=(Z,)))
    assert where.clock.now() == 40.0
    assert [it["at"] for it in plan.looks[1].state["samples"]] == [0.0, 20.0, 40.0]
    assert plan.findings[0].status is Presence.PRESENT


def test_each_item_has_samples_of_its_own():
    text = BOOK.replace("procs: {word: zombie}", 'each: [zombie, train], procs: {word: "{{ item }}"}')
    text = text.replace("seen | sustained('matches', '30s')", "seen[0] | sustained('matches', '30s')")
    text = text.replace("seen | series('matches | length')", "seen | map('series', 'matches | length') | list")
    plan, _, where = planned(text, Changing(procs={}, table=(Z,)))
    assert [len(it["samples"]) for it in plan.looks[0].state["items"]] == [4, 4]
    assert [it["item"] for it in plan.looks[0].state["items"]] == ["zombie", "train"]
    assert (plan.findings[0].status, where.clock.now()) == (Presence.PRESENT, 30.0)


# -- after a change


def ran(text: str, *table: str | None, consent=Consent.YES):
    host = Changing(procs={}, table=table)
    plan, seen, where = planned(text, host)
    began = where.clock.now()
    outcome = execute(where, plan, seen, consent)
    return outcome, host, where.clock.now() - began


def test_after_a_change_one_more_sample_tells_and_nobody_waits_for_a_whole_series():
    """Mutants: all samples are taken again; the samples before the change are all that counts."""
    outcome, host, spent = ran(BOOK, *(Z,) * 6, "")
    assert (outcome.findings[0].status, spent) == (Presence.GONE, 0.0)
    assert host.looks == 8, "four samples; the step's own look, planned, before and after; one sample more"
    still, host, spent = ran(BOOK, *(Z,) * 6, "", Z)
    assert (still.findings[0].status, spent) == (Presence.PRESENT, 0.0), "it is still so"


def test_law_2_after_a_yes_one_sample_that_refutes_it_drops_the_step():
    for sample, status in (("", Status.SKIPPED), (None, Status.BLOCKED), (Z, Status.CHANGED)):
        outcome, host, spent = ran(BOOK, *(Z,) * 5, sample, Z, "", consent=Consent.SHOWN)
        assert (outcome.steps[1].status, bool(host.writes()), spent) == (status, sample == Z, 0.0), sample


def test_law_6_an_unknown_sample_after_a_change_makes_the_look_unknown():
    outcome, _, _ = ran(BOOK, *(Z,) * 6, "", None)
    assert outcome.findings[0].status is Presence.UNKNOWN
    assert "ps did not answer" in outcome.findings[0].why
    stale = BOOK.replace("seen | sustained('matches', '30s')", "seen.samples[0].matches")
    assert ran(stale, *(Z,) * 6, "", None)[0].findings[0].status is Presence.UNKNOWN, (
        "what was before tells nothing now"
    )


def test_a_finding_that_must_stay_gone_is_looked_at_with_single_samples():
    text = BOOK.replace("severity: error", "severity: error, settle: 5s, gone_for: 3s")
    outcome, _, spent = ran(text, *(Z,) * 6, "", "", "", Z, "")
    assert outcome.findings[0].status is Presence.GONE
    assert 3.0 <= spent <= 10.0


VERIFY = BOOK + "verify:\n  - {id: gone, samples: {times: 3, every: 10s}, procs: {word: zombie}, within: WITHIN}\n"


def verified(within: str, *table: str | None):
    outcome, _, spent = ran(VERIFY.replace("WITHIN", within), *(Z,) * 6, "", "", *table)
    return outcome.steps[-1], spent


def test_an_assertion_with_samples_holds_if_it_holds_in_every_one():
    """Mutants: the last one decides; the first that fails is passed over."""
    step, spent = verified("0s", "")
    assert (step.status, step.why, spent) == (Status.OK, "no zombie (3 samples, 20 s)", 20.0)
    step, spent = verified("0s", "", Z, "")
    assert (step.status, step.why, spent) == (Status.FAILED, "zombie is there (sample 2 of 3, 10 s)", 10.0)
    step, spent = verified("15s", "", Z, "")
    assert (step.status, spent) == (Status.OK, 10.0 + 2.0 + 20.0)
    step, spent = verified("15s", Z)
    assert (step.status, spent) == (Status.FAILED, 16.0), "it ends, whatever the samples say"


def test_law_6_an_unknown_sample_never_lets_an_assertion_hold():
    step, _ = verified("0s", "", None, "")
    assert (step.status, step.why) == (Status.FAILED, "ps did not answer (sample 2 of 3, 10 s)")


# -- cut short


def fleet(connect, clock, stop, text=BOOK, events=None, **keys):
    book = load_playbook(text, "toy.yaml", MORE)
    emit = (events if events is not None else []).append
    return Fleet(playbook=book, run=RunContext(inputs={}, facts={}, actions=MORE, emit=emit, once=SharedProbes(clock)), connect=connect, clock=clock, stop=stop, **keys)  # fmt: skip


def cut(*hosts: object):
    """The result of a host to which connections are made in turn: to these, or with these errors."""
    waiting = list(hosts)

    def connect(_):
        it = waiting.pop(0)
        if isinstance(it, Exception):
            raise it
        return it

    (result,) = fleet(connect, ToyClock(), Cancellation()).plan_and_carry_out([Host(name="h")], Consent.YES)
    return result, {it.id: it for it in result.steps}


def test_what_was_seen_is_told_when_the_run_is_asked_to_end():
    """Mutants: the samples are lost with the exception."""
    result, steps = cut(ToyHost(procs={4: (1, Z)}, cancel_at=2))
    assert result.verdict is Verdict.CANCELLED
    assert list(steps) == ["seen", "stop"]
    assert {it.status for it in steps.values()} == {Status.CANCELLED}
    assert steps["seen"].why == "interrupted; 2 of 4 samples had been taken"
    assert [it["at"] for it in steps["seen"].state["samples"]] == [0.0, 10.0]
    assert steps["stop"].why == "interrupted"
    told = ["interrupted", "seen: 2 of 4 samples had been taken", "done: nothing was changed", "not done: stop"]
    assert host_lines(result) == ["cancelled", *told, f"next: {NEXT_AFTER_CANCEL}"]
    assert json.loads(json.dumps(to_json(result)))["steps"][0]["state"]["known"] == 2


def test_what_was_seen_is_told_when_the_line_is_lost_for_good():
    gone = ToyHost(procs={4: (1, Z)}, lose_at=2)
    result, steps = cut(gone, Unreachable("connection refused"))
    assert result.verdict is Verdict.UNREACHABLE
    assert steps["seen"].why == "connection refused; 2 of 4 samples had been taken"
    assert steps["seen"].state["known"] == 2


def test_a_lost_line_is_never_bridged_the_samples_begin_anew():
    result, steps = cut(ToyHost(procs={4: (1, Z)}, lose_at=2), ToyHost(procs={4: (1, Z)}))
    assert result.verdict is Verdict.RESOLVED
    assert [it["at"] for it in steps["seen"].state["samples"]] == [0.0, 10.0, 20.0, 30.0]


class Heeding(ToyHost):
    """Asks, as a real connection does, whether the run is to end."""

    stop: Cancellation

    def _run(self, command):
        if self.stop.level():
            raise Cancelled(self.stop.why)
        return super()._run(command)


def test_the_deadline_ends_samples_at_once_and_every_host_and_step_is_told():
    """With a real clock: the run of ten minutes ends within its deadline."""
    stop, hosts = Cancellation(), {}
    for name in ("a", "b", "c"):
        hosts[name] = Heeding(procs={4: (1, Z)})
        hosts[name].stop = stop
    clock = SystemClock(stop)
    text = BOOK.replace("times: 4, every: 10s", "for: 600s, every: 1s")
    began = time.monotonic()
    made = fleet(lambda host: hosts[host.name], clock, stop, text, deadline=clock.now() + 3)
    results = made.plan([Host(name=it) for it in hosts])
    assert time.monotonic() - began < 60
    for it in results:
        assert it.result.verdict is Verdict.CANCELLED
        assert [step.id for step in it.result.steps] == ["seen", "stop"]
        assert it.result.steps[0].state["known"] >= 2
        assert "the deadline of the run has passed; " in it.result.steps[0].why


class Meeting(ToyHost):
    """Answers when all others are asked as well."""

    meets: threading.Barrier

    def _run(self, command):
        if command.argv == ("ps",):
            self.meets.wait(60)
        return super()._run(command)


def test_hosts_are_sampled_side_by_side():
    stop, meets = Cancellation(), threading.Barrier(8)
    text = BOOK.replace("every: 10s", "every: 100ms").replace("'30s'", "'300ms'")
    hosts = {name: Meeting(procs={4: (1, Z)}) for name in "abcdefgh"}
    for host in hosts.values():
        host.meets = meets
    results = fleet(lambda host: hosts[host.name], SystemClock(stop), stop, text).plan([Host(name=it) for it in hosts])
    assert not meets.broken
    assert {it.plan.findings[0].status for it in results} == {Presence.PRESENT}


def test_a_series_that_all_hosts_share_is_taken_once():
    stop, clock = Cancellation(), ToyClock()
    text = BOOK.replace("id: seen,", "id: seen, once: true,")
    hosts = {name: ToyHost(procs={4: (1, Z)}) for name in "abcd"}
    results = fleet(lambda host: hosts[host.name], clock, stop, text, parallel=1).plan([Host(name=it) for it in hosts])
    assert {it.plan.findings[0].say for it in results} == {"1, 1, 1, 1"}
    assert sum(len(it.plan.looks[0].commands) for it in results) == 4


# -- what is reported


def test_long_samples_are_told_beforehand_and_short_ones_are_not():
    events: list = []
    planned(BOOK, ToyHost(procs={}), events)
    (waiting,) = [it for it in events if isinstance(it, Waiting)]
    assert lines_of(waiting, Verbosity.VERBOSE) == ["h: taking samples of seen for 30 s"]
    planned(BOOK.replace("every: 10s", "every: 1s").replace("'30s'", "'3s'"), ToyHost(procs={}), events)
    assert len(events) == 1


def test_a_result_has_room_for_so_many_samples_and_says_how_many_it_left_out():
    """Mutants: it is silently shortened; the newest ones are left out."""
    samples = tuple({"at": float(it), "text": "x" * 1000} for it in range(500))
    series = Series(samples=samples, asked=500, known=500, seconds=499.0, began=0.0)
    shown = shortened(series)
    assert len(json.dumps(shown)) < MAX_SERIES_CHARACTERS + 5000
    assert shown["left_out"] + len(shown["samples"]) == 500
    assert (shown["samples"][0]["at"], shown["samples"][-1]["at"]) == (0.0, 499.0)
    assert shown["asked"] == 500
    whole = replace(series, samples=samples[:50])
    assert shortened(whole) == to_json(whole)
    huge = replace(series, samples=({"at": 0.0, "text": "x" * MAX_SERIES_CHARACTERS},) * 3)
    assert [len(shortened(huge)["samples"]), shortened(huge)["left_out"]] == [2, 1]


def test_a_finding_sees_every_sample_whatever_a_result_has_room_for(monkeypatch):
    monkeypatch.setattr("runbook.execution.diagnosis.sampling.MAX_SERIES_CHARACTERS", 100)
    look, finding, _ = looked(BOOK, Z)
    assert (finding.say, look.state["left_out"]) == ("1, 1, 1, 1", 2)
    items = BOOK.replace("procs: {word: zombie}", 'each: [zombie], procs: {word: "{{ item }}"}')
    items = items.replace("seen |", "seen[0] |")
    look, finding, _ = looked(items, Z)
    assert (finding.say, look.state["items"][0]["left_out"], look.state["items"][0]["item"]) == ("1, 1, 1, 1", 2, Z)


def test_a_connection_lost_for_ever_loses_no_step():
    result, steps = cut(ToyHost(procs={}, lose_at=1), ToyHost(procs={}, lose_at=0))
    assert result.verdict is Verdict.UNREACHABLE
    assert steps["seen"].state["known"] == 1


def test_a_look_that_took_too_long_leaves_unknown_what_was_in_between():
    """Mutants: sampling.py without the gap; one that the time to a sample after a change makes, too."""
    text = BOOK.replace("every: 10s", "every: 1s").replace("'30s'", "'3s'")
    look, finding, _ = looked(text, Z, Z, Z, Z, slow=6.0)
    assert [it["why"] for it in look.state["unknown"]] == ["nothing was seen for 6 s"] * 3
    assert [it["at"] for it in look.state["unknown"]] == [3.0, 9.0, 15.0]
    assert finding.status is Presence.UNKNOWN
    look, finding, _ = looked(text, Z, Z, Z, Z, slow=2.0)
    assert look.state["unknown"] == []
    assert finding.status is Presence.PRESENT
    longer = BOOK.replace("times: 4", "times: 5")
    outcome, _, _ = ran(longer, *(Z,) * 7, "", Z)
    assert outcome.findings[0].status is Presence.PRESENT, "between a series and what is added to it there is no gap"


def test_what_is_weighed_beside_long_samples_is_looked_at_once_more_after_them():
    """Mutants: diagnose.py judging by looks from before the samples; looking again where the samples were short."""
    text = BOOK.replace("diagnose:\n", "diagnose:\n  - {id: now, procs: {word: zombie}}\n")
    text = text.replace('"seen | sus', '"now.matches and seen | sus')
    _, finding, where = looked(text, Z, Z, Z, Z, Z, "")
    assert finding.status is Presence.ABSENT
    assert where.connection.looks == 6
    short = text.replace("every: 10s", "every: 1s").replace("'30s'", "'3s'")
    _, finding, where = looked(short, Z, Z, Z, Z, Z, "")
    assert finding.status is Presence.PRESENT
