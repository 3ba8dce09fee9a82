"""Between a plan and the yes to it (or the wait for the host's lock) what called for a step may go: then it is dropped."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from runbook.execution.diagnosis import verdict
from runbook.execution.diagnosis.diagnose import diagnose
from runbook.execution.diagnosis.findings import evaluate_findings
from runbook.execution.diagnosis.gates import gate_of, is_cleanup
from runbook.execution.executor import Consent, execute
from runbook.execution.planner import make_plan
from runbook.values import event
from runbook.values.command import Completed
from runbook.values.plan import Presence, Risk
from runbook.values.playbook import IncludedPlaybook, Phase, Playbook, Severity, Step
from runbook.values.result import Status, Verdict
from tests.laws.toy_fleet import fleet
from tests.laws.toy_playbooks import playbooks, tables
from tests.support.tables import every_row
from tests.support.toy_actions import ToyClock, ToyHost, blue, book, end, look_at, paint, restart, rule, site


def shown_and_run(made: Playbook, host: ToyHost, *, consent=Consent.SHOWN, force=False, **meanwhile):
    """What became of each step when *meanwhile* is what has become of the host since the plan was made."""
    events: list = []
    where = site(made, host, events)
    plan, seen = make_plan(where, force=force)
    for name, value in meanwhile.items():
        setattr(host, name, value)
    host.sent.clear()
    outcome = execute(where, plan, seen, consent, force=force)
    return {it.id: it for it in outcome.steps}, outcome, events


@settings(max_examples=200, deadline=None)
@given(playbooks(), tables, tables, st.booleans())
def test_a_host_that_changes_before_the_yes_gets_nothing_that_no_plan_of_now_calls_for(made, table, moved, unknown):
    """Mutants: host_steps.py without ``revalidate``; evidence.py ``withdrawn`` giving nothing."""
    host = ToyHost(procs=dict(table), wanted="blue")
    shown, _ = make_plan(site(made, host))
    then = ToyHost(procs=dict(moved), blind=unknown, wanted="blue")
    now = evaluate_findings(site(made, then), diagnose(site(made, then)).states)
    steps, _, _ = shown_and_run(made, host, procs=dict(moved), blind=unknown)
    for it in made.remediate:
        held, holds = (gate_of(it, one, force=False) is None for one in (shown.findings, now))
        first = [one.id for one in made.remediate if any(c.effect == "write" for c in steps[one.id].commands)][:1]
        if first == [it.id] and not is_cleanup(it):
            assert held
            assert holds


def test_what_has_no_finding_any_more_is_dropped_and_said_so():
    """Mutants: host_steps.py without ``revalidate``; evidence.py without the words."""
    made = book(restart("r", for_=("held",)), findings=(rule(),), diagnose=(look_at("zombie"),))
    host = ToyHost(procs={4: (1, "zombie")})
    steps, outcome, _ = shown_and_run(made, host, procs={})
    assert host.writes() == []
    assert (steps["r"].status, steps["r"].why) == (Status.SKIPPED, "no longer called for: held is gone")
    assert outcome.findings[0].status is Presence.GONE
    assert verdict(made, outcome.steps, outcome.findings) is Verdict.HEALTHY


def test_a_victim_that_ends_by_itself_between_plan_and_step_takes_the_finding_with_it():
    """Mutants: the diagnosis repeated only after a change of our own; nothing sent called resolved."""
    made = book(end("zombie", "k", for_=("held",)), findings=(rule(),), diagnose=(look_at("zombie"),))
    for consent in (Consent.YES, Consent.SHOWN):
        host = ToyHost(procs={4: (1, "zombie")})
        steps, outcome, _ = shown_and_run(made, host, consent=consent, procs={})
        assert host.writes() == []
        assert steps["k"].status in (Status.OK, Status.SKIPPED)
        assert [it.status for it in outcome.findings] == [Presence.GONE]
        assert verdict(made, outcome.steps, outcome.findings) is Verdict.HEALTHY


def test_what_has_become_unknown_calls_for_nothing_however_gentle_unless_forced():
    """Mutants: evidence.py letting a gentle change pass; gates.py ``within`` for some risks only."""
    made = book(restart("r", for_=("held",)), findings=(rule(),), diagnose=(look_at("zombie"),))
    host = ToyHost(procs={4: (1, "zombie")})
    steps, outcome, _ = shown_and_run(made, host, blind=True)
    assert host.writes() == []
    assert steps["r"].status is Status.BLOCKED
    assert steps["r"].why.startswith("no longer called for: held is unknown")
    assert verdict(made, outcome.steps, outcome.findings) is Verdict.UNKNOWN
    host = ToyHost(procs={4: (1, "zombie")})
    steps, _, _ = shown_and_run(made, host, blind=True, force=True)
    assert steps["r"].status is Status.CHANGED

    host = ToyHost(procs={}, blind=True, wanted="blue")  # unknown when it was shown, too
    made = book(paint("p", for_=("held",)), findings=(rule(),), diagnose=(look_at("zombie"),))
    steps, _, _ = shown_and_run(made, host)
    assert steps["p"].status is Status.BLOCKED
    steps, _, _ = shown_and_run(made, host, force=True)
    assert steps["p"].status is Status.CHANGED


def test_what_has_appeared_since_calls_for_nothing():
    """Mutants: evidence.py ``_permitting`` giving what is there now; ``withdrawn`` without what has appeared."""
    looks = (look_at("zombie"), look_at("train", "other"))
    findings = (rule(), rule("late", "other.matches", probes=("other",)))
    made = book(
        end("zombie", "k", for_=("held",)),
        restart("r", for_=("late",), after=("k",)),
        findings=findings,
        diagnose=looks,
    )
    host = ToyHost(procs={4: (1, "zombie")})
    steps, outcome, _ = shown_and_run(made, host, procs={9: (9, "train")})
    assert host.writes() == []
    assert steps["r"].why == "late is absent in the plan that was shown; what has appeared since is left alone"
    assert verdict(made, outcome.steps, outcome.findings) is Verdict.UNRESOLVED

    both = book(restart("r", for_=("held", "late")), findings=findings, diagnose=looks)
    host = ToyHost(procs={4: (1, "zombie")})
    steps, _, _ = shown_and_run(both, host, procs={9: (9, "train")})
    assert host.writes() == []
    assert steps["r"].why.startswith("no longer called for: ")

    host = ToyHost(procs={4: (1, "zombie")}, blind=True, wanted="blue")
    doubted = book(end("zombie", "k"), paint("p"), findings=findings, diagnose=looks)
    steps, _, _ = shown_and_run(doubted, host, blind=False)
    assert (steps["k"].status, steps["p"].status) == (Status.BLOCKED, Status.BLOCKED), "as it was shown"
    assert host.writes() == []


def test_a_when_that_no_longer_holds_drops_its_step_and_one_that_is_not_known_too():
    """Mutants: evidence.py without ``no_longer``, or with the probes of findings only."""
    made = book(paint("p", when="seen.matches"), paint("q"), diagnose=(look_at("zombie"),))
    host = ToyHost(procs={4: (1, "zombie")}, wanted="blue")
    steps, _, _ = shown_and_run(made, host, procs={})
    assert (steps["p"].status, steps["p"].why) == (Status.SKIPPED, "no longer called for: when: seen.matches")
    assert steps["q"].status is Status.CHANGED
    host = ToyHost(procs={4: (1, "zombie")}, wanted="blue")
    steps, _, _ = shown_and_run(made, host, blind=True)
    assert steps["p"].status is Status.BLOCKED
    assert steps["p"].why.startswith("no longer called for: `when` is unknown: seen: ps did not answer")
    host = ToyHost(procs={}, wanted="blue")
    steps, _, _ = shown_and_run(made, host, procs={4: (1, "zombie")})
    assert steps["p"].status is Status.SKIPPED, "and one that has come to hold adds nothing"


def test_what_the_run_itself_has_changed_takes_back_no_guard():
    """Mutants: evidence.py running guards again after each change."""
    made = book(end("zombie", "k"), paint("p", when="seen.matches"), diagnose=(look_at("zombie"),))
    host = ToyHost(procs={4: (1, "zombie")}, wanted="blue")
    steps, _, _ = shown_and_run(made, host)
    assert [steps[it].status for it in ("k", "p")] == [Status.CHANGED, Status.CHANGED]


def test_a_clean_up_is_dropped_with_what_called_for_it_only_where_nothing_was_done():
    """Mutants: evidence.py ``withdrawn`` after the run's own write too."""
    rungs = end("zombie", "k", for_=("held",)), restart("r", for_=("held",))
    steps = *rungs, restart("z", for_=("held",), always=True)
    made = book(*steps, findings=(rule(),), diagnose=(look_at("zombie"),))
    for moved, status in (({4: (1, "zombie")}, Status.CHANGED), ({}, Status.SKIPPED)):
        results, _, _ = shown_and_run(made, ToyHost(procs={4: (1, "zombie")}), procs=dict(moved))
        assert results["z"].status is status


def test_what_follows_another_step_needs_no_finding_of_its_own():
    """Mutants: evidence.py ``withdrawn`` without ``is_cleanup``."""

    class Refusing(ToyHost):
        def _run(self, command):
            if command.argv[0] == "kill":
                return Completed(exit_code=None, refused="sudo said no")
            return super()._run(command)

    looks = (look_at("zombie"), look_at("train", "other"))
    findings = (rule(), rule("odd", "other.matches", probes=("other",), severity=Severity.WARNING))
    steps = (
        end("train", "k", for_=("odd",), ignore_failure=True),
        paint("p", if_failed=("k",)),
        restart("r", for_=("held",)),
    )
    host = Refusing(procs={4: (1, "zombie"), 5: (1, "train")}, wanted="blue")
    results, _, _ = shown_and_run(book(*steps, findings=findings, diagnose=looks), host, procs={5: (1, "train")})  # fmt: skip
    assert results["k"].status is Status.FAILED
    assert not results["p"].why.startswith("no longer called for")


def test_a_step_that_is_switched_off_is_skipped_whatever_is_unknown_of_its_list():
    """Mutants: items.py ``_items`` without the guard, or with it where `when` asks for the item."""
    each = "seen.matches | map(attribute='word') | list"
    off, item = paint("p", each=each, when="1 == 2"), paint("q", each=each, when="item.x is defined")
    made = book(off, item, diagnose=(look_at("e"),))
    plan, _ = make_plan(site(made, ToyHost(procs={}, wanted="blue", blind=True)))
    assert [(it.id, it.status) for it in plan.results if it.id in "pq"] == [
        ("p", Status.SKIPPED),
        ("q", Status.BLOCKED),
    ]


def test_an_item_that_is_not_in_the_list_any_more_is_dropped():
    """Mutants: items.py ``no_longer`` without the list; planner.py losing the item."""
    each = "seen.matches | map(attribute='word') | unique | list"
    made = book(
        replace(end("{{ item }}", "k", each=each), action="end"), paint("p", each="[7]"), diagnose=(look_at("e"),)
    )
    host = ToyHost(procs={4: (1, "zombie"), 5: (1, "serve")}, wanted="blue")
    steps, _, _ = shown_and_run(made, host, procs={5: (1, "serve")})
    assert steps["k[0]"].why.startswith("no longer called for: zombie is not in seen.matches")
    assert [steps[it].status for it in ("k[1]", "p[0]")] == [Status.CHANGED, Status.CHANGED]
    listed = book(paint("p", each=each), diagnose=(look_at("e"),))
    steps, _, _ = shown_and_run(listed, ToyHost(procs={4: (1, "zombie")}, wanted="blue"), blind=True)
    assert steps["p[0]"].status is Status.BLOCKED
    assert steps["p[0]"].why.startswith("no longer called for: `each` is unknown")
    guarded = book(paint("p", each="seen.matches", when="item.word in seen.matches | map(attribute='word')"), diagnose=(look_at("e"),))  # fmt: skip
    host = ToyHost(procs={4: (1, "zombie")}, wanted="blue")
    steps, _, _ = shown_and_run(guarded, host, procs={5: (1, "serve")})
    assert steps["p[0]"].why.startswith("no longer called for: when:")


def test_a_finding_is_given_no_time_to_go_by_itself_but_must_stay_gone():
    """Mutants: evidence.py ``revalidate`` waiting for ``settle``, or not for ``gone_for``."""

    class Respawning(ToyHost):
        def _run(self, command):
            answer = super()._run(command)
            if command.argv == ("ps",) and not self.procs:
                self.procs = {9: (2, "zombie")}
            return answer

    held = rule(settle=600.0, gone_for=3.0)
    made = book(restart("r", for_=("held",)), findings=(held,), diagnose=(look_at("zombie"),))
    host = ToyHost(procs={4: (1, "zombie")})
    where = site(made, host)
    plan, seen = make_plan(where)
    called = replace(where, clock=(clock := ToyClock()))
    host.cancel_at = len(host.sent) + 1  # the probe after the one that is taken again
    execute(called, plan, seen, Consent.SHOWN)
    assert clock.now() == 0.0

    steps, _, events = shown_and_run(made, Respawning(procs={4: (1, "zombie")}), procs={})
    assert steps["r"].status is not Status.SKIPPED, "it came back, so it was never gone"
    assert next(it.why for it in events if isinstance(it, event.Waiting)).startswith("making sure for 3 s")


def test_one_round_more_and_only_where_a_person_was_shown_a_change():
    """Mutants: evidence.py ``_is_old`` always; ``revalidate`` not noting that it was done."""
    made = book(end("zombie", "k"), restart("r"), findings=(rule(),), diagnose=(look_at("zombie"),))
    host = ToyHost(procs={4: (1, "zombie")}, stubborn=frozenset({"zombie"}))
    asked = {}
    for consent in (Consent.YES, Consent.SHOWN):
        shown_and_run(made, host, consent=consent)
        asked[consent] = [it.argv for it in host.sent].count(("ps",))
    assert asked[Consent.SHOWN] == asked[Consent.YES] + 1
    host = ToyHost(procs={})
    shown_and_run(book(paint("p", when="not seen.matches"), diagnose=(look_at("zombie"),)), host)
    assert [it.argv for it in host.sent] == [("colours",)]


def test_what_would_supersede_a_finding_is_looked_for_too():
    """Mutants: evidence.py ``_rules`` without ``unless``."""
    looks = (look_at("zombie"), look_at("train", "other"))
    cheap = rule("cheap", "other.matches", probes=("other",))
    made = book(
        restart("r", for_=("held",)), findings=(cheap, rule(unless=("cheap",))), diagnose=looks
    )  # fmt: skip
    host = ToyHost(procs={4: (1, "zombie")})
    steps, _, _ = shown_and_run(made, host, procs={4: (1, "zombie"), 5: (1, "train")})
    assert host.writes() == []
    assert steps["r"].why == "no longer called for: held is gone"


def test_a_line_that_is_lost_over_it_is_the_first_steps_and_a_clean_up_stays_owed():
    """Mutants: evidence.py asked outside of what accounts for every step."""
    made = book(
        restart("r", for_=("held",)), paint("p", for_=("held",)), restart("z", for_=("held",), always=True),
        findings=(rule(),), diagnose=(look_at("zombie"),),
    )  # fmt: skip
    host = ToyHost(procs={4: (1, "zombie")}, wanted="blue")
    steps, outcome, _ = shown_and_run(made, host, lose_at=0)
    assert [steps[it].status for it in ("r", "p", "z")] == [Status.UNREACHABLE, Status.BLOCKED, Status.OWED]
    assert outcome.error


def test_an_included_playbooks_guards_are_looked_at_under_its_own_names():
    """Mutants: evidence.py taking the names of a guard for the outer playbook's."""
    inner = replace(paint("in_p", when="seen.matches and inputs.on"), part="in")
    made = replace(
        book(inner, diagnose=(replace(look_at("zombie", "in_seen"), part="in"),)), parts=(IncludedPlaybook(id="in"),)
    )
    for moved, status in (({4: (1, "zombie")}, Status.CHANGED), ({}, Status.SKIPPED)):
        host = ToyHost(procs={4: (1, "zombie")}, wanted="blue")
        where = replace(site(made, host), parts={"in": {"on": True}})
        plan, seen = make_plan(where)
        host.procs = dict(moved)
        (result,) = [it for it in execute(where, plan, seen, Consent.SHOWN).steps if it.id == "in_p"]
        assert result.status is status


@every_row("consent", [Consent.YES, Consent.SHOWN])
def test_who_waited_for_another_run_looks_at_guards_too(consent):
    """Mutants: host_steps.py not making the probes due again after the wait."""

    class Taken(ToyHost):
        def _run(self, command):
            if len(self.locks) == 3 and self.lock.startswith("busy"):
                self.lock, self.procs = "held", {}
            return super()._run(command)

    made = book(paint("p", when="seen.matches"), diagnose=(look_at("zombie"),))
    host = Taken(procs={4: (1, "zombie")}, wanted="blue", lock="busy run 7")
    steps, _, _ = shown_and_run(made, host, consent=consent)
    assert host.writes() == []
    assert steps["p"].why == "no longer called for: when: seen.matches"


def test_who_was_shown_no_plan_and_waited_does_what_is_called_for_now():
    """Mutants: evidence.py ``_permitting`` holding the run against a plan that nobody has seen."""

    class Taken(ToyHost):
        def _run(self, command):
            if len(self.locks) == 3 and self.lock.startswith("busy"):
                self.lock, self.procs = "held", {5: (1, "train")}
            return super()._run(command)

    looks = (look_at("zombie"), look_at("train", "other"))
    findings = (rule(), rule("late", "other.matches", probes=("other",)))
    made = book(restart("r", for_=("held", "late")), findings=findings, diagnose=looks)
    for consent, status in ((Consent.YES, Status.CHANGED), (Consent.SHOWN, Status.SKIPPED)):
        steps, _, _ = shown_and_run(made, Taken(procs={4: (1, "zombie")}, lock="busy run 7"), consent=consent)
        assert steps["r"].status is status


def test_a_host_of_a_later_batch_is_looked_at_when_its_turn_comes():
    made, hosts, _, machines = fleet(3, "[1]")
    planned = made.plan(hosts)
    kill = machines["h00"]._kill

    def and_cure_another(key):
        machines["h02"].procs.clear()
        kill(key)

    machines["h00"]._kill = and_cure_another
    results = made.carry_out(planned, Consent.SHOWN)
    assert [it.verdict.value for it in results] == ["resolved", "resolved", "healthy"]
    assert not machines["h02"].writes()


def rescued(host: ToyHost, step, **meanwhile):
    """What becomes of a step that is only for the failure of another, after a yes."""
    made = book(end("zombie", "k"), step)
    plan, _ = make_plan(site(made, host))
    steps, _, _ = shown_and_run(made, host, **meanwhile)
    assert steps["k"].status is Status.FAILED
    return plan, steps["p"]


def zombie(**more) -> ToyHost:
    return ToyHost(procs={4: (1, "zombie")}, stubborn=frozenset({"zombie"}), **more)


@every_row("colour", ["grey", "blue"])
def test_what_is_only_for_a_failure_is_shown_whole_and_done_after_a_yes_too(colour):
    """Mutants: permitted.py without ``_announced``; planner.py without ``latent``, or forgetting what a step would do."""
    plan, done = rescued(zombie(colour=colour), blue("p", if_failed=("k",)), colour="grey")
    assert plan.steps[1].condition == "only if k fails, then: paint it blue (edits-files)"
    shown = plan.results[1]
    assert (shown.status, shown.planned, shown.risk) == (Status.SKIPPED, "paint it blue", Risk.EDITS_FILES)
    assert [it.line for it in shown.commands if it.effect == "write"] == ["paint blue"]
    assert done.status is Status.CHANGED


def test_what_is_only_for_a_failure_and_would_be_another_change_by_now_is_left():
    """Mutants: permitted.py ``_announced`` without the commands, or with what the plan knows nothing of."""
    for wanted in ("blue", "grey"):  # a change that was shown, and none at all
        host = zombie(wanted=wanted)
        _, done = rescued(host, paint("p", if_failed=("k",)), wanted="red")
        assert (done.status, done.why) == (Status.DRIFTED, "would now paint it red; the plan did not show that")
        assert host.colour == "grey"


def test_what_hinges_on_nothing_and_was_not_to_change_anything_is_left():
    """Mutants: permitted.py ``_announced`` without the condition."""
    for step in (paint("p"), blue("p")):
        host = ToyHost(procs={}, colour="blue", wanted="blue")
        steps, _, _ = shown_and_run(book(step), host, colour="red")
        assert host.writes() == []
        assert steps["p"].status is Status.DRIFTED


def test_what_may_follow_from_an_earlier_change_is_shown_beside_what_is_well_now():
    """Mutants: planner.py saying nothing of it where the probe is content."""
    made = book(end("zombie", "k"), blue("p", after=("k",)))
    host = ToyHost(procs={4: (1, "zombie")}, colour="blue")
    plan, _ = make_plan(site(made, host))
    assert plan.results[1].why == "it is blue; probed again after k, then: paint it blue (edits-files)"
    assert plan.results[1].risk is Risk.EDITS_FILES
    steps, _, _ = shown_and_run(made, host, colour="grey")
    assert steps["p"].status is Status.CHANGED


def test_what_was_probed_before_the_runs_own_change_counts_for_nothing_after_it():
    """The clock stands still: no probe is too old by itself.

    Mutants: evidence.py `host_changed` that keeps the times of the probes, or the findings that had their time.
    """
    made = book(
        end("zombie", "k", for_=("held",)),
        end("serve", "l", for_=("held",)),
        restart("r", for_=("held",)),
        findings=(rule(),),
        diagnose=(look_at("e"),),
    )
    for consent in (Consent.YES, Consent.SHOWN):
        steps, _, _ = shown_and_run(made, ToyHost(procs={4: (1, "zombie"), 5: (1, "serve")}), consent=consent)
        assert [steps[it].status for it in "klr"] == [Status.CHANGED, Status.CHANGED, Status.SKIPPED]


def test_what_was_probed_before_a_wait_counts_for_nothing_after_it():
    """Mutants: evidence.py `time_passed` that keeps the times of the probes; host_steps.py that does not tell it."""

    class Slow(ToyHost):
        def _run(self, command):
            if command.argv == ("ps",) and self.writes():
                self.since += 1
                self.procs = self.procs if self.since < 5 else {}
            return super()._run(command)

    waiting = Step(id="v", phase=Phase.VERIFY, action="procs", args={"word": "serve"}, within=4.0, every=0.1)
    made = book(
        end("zombie", "k", for_=("held",)), findings=(rule(),), diagnose=(look_at("e"),), verify=(waiting,)
    )  # fmt: skip
    steps, outcome, _ = shown_and_run(made, Slow(procs={4: (1, "zombie"), 5: (1, "serve")}))
    assert (steps["k"].status, steps["v"].status) == (Status.CHANGED, Status.OK)
    assert [it.status for it in outcome.findings] == [Presence.GONE]
    assert verdict(made, outcome.steps, outcome.findings) is Verdict.RESOLVED
