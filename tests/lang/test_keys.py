"""The keys that bind steps together: each, once, on, retry, if_changed, if_failed, always, tags, include."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from runbook.commands.step_resolution import with_places, with_tags
from runbook.errors import ConfigError, ConnectionLost, Unreachable
from runbook.execution.diagnosis import OtherHosts, SharedProbes, verdict
from runbook.execution.diagnosis.host_context import RunContext
from runbook.execution.executor import Consent, execute
from runbook.execution.fleet import Cancellation, Fleet
from runbook.execution.planner import make_plan
from runbook.language import includes
from runbook.language.includes import inputs_of_parts
from runbook.values.inventory import Address, Host, Inventory
from runbook.values.plan import Presence
from runbook.values.playbook import written_id
from runbook.values.result import Status, Verdict
from tests.lang.load_text import load, placed
from tests.support.tables import every_row
from tests.support.toy_actions import ACTIONS, ToyClock, ToyHost, site, with_run


def mistakes(text: str, **others: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(text, **others)
    return str(caught.value)


def run(text: str, host: ToyHost, consent=Consent.YES, **others: str):
    where = placed(text, host, **others)
    plan, seen = make_plan(where)
    outcome = execute(where, plan, seen, consent)
    return {it.id: it for it in outcome.steps}, outcome, where


# -- each


EACH = """\
name: toy
inputs:
  words: {about: What to look for., default: [zombie, train]}
diagnose:
  - id: seen
    each: inputs.words
    procs: {word: "{{ item }}"}
findings:
  - {id: held, when: seen | selectattr('matches') | list, severity: error, say: "{{ seen | selectattr('matches') | map(attribute='item') | join(', ') }}"}
remediate:
  - {id: stop, for: held, each: "inputs.words", end: {word: "{{ item }}"}}
  - {id: after, for: held, after: stop, restart: {}}
verify:
  - {id: gone, each: inputs.words, procs: {word: "{{ item }}"}}
"""


def test_each_takes_a_look_a_change_and_an_assertion_once_for_every_item():
    host = ToyHost(procs={4: (1, "zombie"), 5: (1, "train"), 6: (1, "serve")})
    steps, outcome, _ = run(EACH, host)
    assert [it["item"] for it in steps["seen"].state["items"]] == ["zombie", "train"]
    assert outcome.findings[0].say == "zombie, train"
    assert [it.argv for it in host.writes() if it.argv[0] == "kill"] == [("kill", "4:1"), ("kill", "5:1")]
    assert (steps["stop[0]"].status, steps["stop[1]"].status) == (Status.CHANGED, Status.CHANGED)
    assert (steps["gone[0]"].status, steps["gone[1]"].status) == (Status.OK, Status.OK)
    assert host.procs == {6: (1, "serve")}
    assert {written_id(it) for it in steps} == {"seen", "stop", "after", "gone"}


def test_each_stops_at_the_item_that_breaks():
    host = ToyHost(procs={4: (1, "zombie"), 5: (1, "train")}, kill_exit=3)
    steps, _, _ = run(EACH, host)
    assert steps["stop[0]"].status is Status.FAILED
    assert steps["stop[1]"].status is Status.BLOCKED
    assert "stop[0]" in steps["stop[1]"].why
    assert steps["after"].status is Status.BLOCKED


def test_each_of_nothing_is_skipped_and_of_something_unknown_is_blocked():
    host = ToyHost(procs={})
    steps, outcome, _ = run(EACH.replace("[zombie, train]", "[]"), host)
    assert steps["seen"].state == {"items": []}
    assert outcome.findings[0].status is Presence.ABSENT
    blind = ToyHost(procs={4: (1, "zombie")}, blind=True)
    steps, outcome, where = run(EACH.replace('each: "inputs.words"', 'each: "seen[0].matches"'), blind)
    assert outcome.findings[0].status is Presence.UNKNOWN
    assert verdict(where.playbook, outcome.steps, outcome.findings) is Verdict.UNKNOWN
    assert blind.writes() == []


def test_an_item_without_an_answer_is_unknown_and_the_others_are_not():
    text = EACH.replace("each: inputs.words\n    procs", "each: inputs.words\n    when: item != 'train'\n    procs")
    host = ToyHost(procs={4: (1, "zombie")})
    steps, _, _ = run(text, host)
    assert [it["item"] for it in steps["seen"].state["items"]] == ["zombie"], "what `when` leaves out is not there"


@every_row(
    ("old", "new", "words"),
    [
        ("when: seen | selectattr('matches') | list", "when: seen.matches", "is a list (it has `each`)"),
        ('each: "inputs.words", end: {word: "{{ item }}"}', 'end: {word: "{{ item }}"}', "only in a step with `each`"),
        ("each: inputs.words\n    procs", "each: inputs.wordz\n    procs", "did you mean words?"),
        ("each: inputs.words\n    procs", "each: 7\n    procs", "expected text or a list"),
    ],
)
def test_mistakes_with_each_are_named(old, new, words):
    assert old in EACH
    assert words in mistakes(EACH.replace(old, new))


def test_each_may_be_a_list_and_its_items_of_any_kind():
    listed = EACH.replace("each: inputs.words\n    procs", 'each: [a\'b, "c", 3, true, null]\n    procs')
    assert "word: expected text, got a number (3)" in mistakes(listed)
    book = load(listed.replace('procs: {word: "{{ item }}"}\nfindings', 'procs: {word: "word {{ item }}"}\nfindings'))
    host = ToyHost(procs={})
    seen = make_plan(with_run(site(book, host), inputs={"words": []}))[1]
    assert [it.item for it in seen.taken["seen"]] == ["a'b", "c", 3, True, None]


# -- retry


def test_a_faulty_look_is_taken_again_so_many_times_and_no_more():
    text = """\
name: toy
diagnose:
  - {id: seen, retry: {times: 2, every: 3s}, procs: {word: zombie}}
findings:
  - {id: held, when: seen.matches, severity: error}
"""

    class Flaky(ToyHost):
        def _run(self, command):
            self.blind = len(self.sent) < self.faults
            return super()._run(command)

    host = Flaky(procs={4: (1, "zombie")})
    host.faults = 2
    where = placed(text, host)
    plan, _ = make_plan(where)
    assert plan.findings[0].status is Presence.PRESENT
    assert len(plan.looks[0].commands) == 3
    assert where.clock.now() == 6.0
    host = Flaky(procs={4: (1, "zombie")})
    host.faults = 99
    assert make_plan(placed(text, host))[0].findings[0].status is Presence.UNKNOWN
    assert len(host.sent) == 3


def test_a_retry_of_a_write_is_refused():
    text = "name: toy\nremediate:\n  - {retry: {times: 2}, end: {word: zombie}}\n"
    assert "a write is sent once" in mistakes(text)


# -- if_changed, if_failed, always


CHAIN = """\
name: toy
remediate:
  - {id: stop, end: {word: zombie}}
  - {id: then, if_changed: stop, restart: {}}
  - {id: back, if_failed: stop, paint: {}}
  - {id: next, end: {word: train}}
  - {id: tidy, always: true, paint: {}}
"""


def statuses(steps) -> dict[str, str]:
    return {name: it.status.value for name, it in steps.items()}


def test_what_follows_a_change_that_worked():
    host = ToyHost(procs={4: (1, "zombie"), 5: (1, "train")}, wanted="blue")
    steps, _, _ = run(CHAIN, host)
    assert statuses(steps) == {
        "stop": "changed", "then": "changed", "back": "skipped", "next": "changed", "tidy": "changed"
    }  # fmt: skip
    assert steps["back"].why == "stop did not fail"


def test_what_follows_a_change_that_was_not_needed():
    host = ToyHost(procs={5: (1, "train")}, wanted="grey")
    steps, _, _ = run(CHAIN, host)
    assert statuses(steps) == {"stop": "ok", "then": "skipped", "back": "skipped", "next": "changed", "tidy": "ok"}
    assert steps["then"].why == "stop changed nothing"
    assert host.since == 0


def test_what_follows_a_change_that_broke():
    host = ToyHost(procs={4: (1, "zombie"), 5: (1, "train")}, wanted="blue", kill_exit=3)
    steps, _, _ = run(CHAIN, host)
    assert statuses(steps) == {
        "stop": "failed", "then": "blocked", "back": "changed", "next": "blocked", "tidy": "ok"
    }  # fmt: skip
    assert host.colour == "blue", "back was made, although the host is stopped"


def test_what_is_always_done_is_owed_where_the_line_is_lost():
    host = ToyHost(procs={4: (1, "zombie")}, wanted="blue")
    where = placed(CHAIN, host)
    plan, seen = make_plan(where)
    host.lose_at = len(host.sent) + 1
    outcome = execute(where, plan, seen, Consent.YES)
    steps = {it.id: it for it in outcome.steps}
    assert statuses(steps) == {
        "stop": "unknown", "then": "blocked", "back": "blocked", "next": "blocked", "tidy": "owed"
    }  # fmt: skip
    assert "pending" in steps["tidy"].why
    assert verdict(where.playbook, outcome.steps, outcome.findings) is Verdict.UNKNOWN
    assert len(host.sent) == host.lose_at + 1


def test_what_is_always_done_is_done_when_the_run_was_asked_to_end_and_its_looks_too():
    host = ToyHost(procs={4: (1, "zombie")}, wanted="blue")
    where = placed(CHAIN, host)
    plan, seen = make_plan(where)
    host.cancel_at = len(host.sent)
    outcome = execute(where, plan, seen, Consent.YES)
    steps = {it.id: it for it in outcome.steps}
    assert steps["stop"].status is Status.CANCELLED
    assert steps["tidy"].status is Status.CHANGED
    assert all(it.owed for it in host.sent[host.cancel_at + 1 :]), "they may pass although the run is to end"


def test_what_is_always_done_is_not_done_where_nothing_called_for_it():
    text = CHAIN.replace("remediate:", "diagnose:\n  - {id: seen, procs: {word: zombie}}\nfindings:\n"
                         "  - {id: held, when: seen.matches, severity: error}\nremediate:")  # fmt: skip
    host = ToyHost(procs={}, wanted="blue")
    steps, _, _ = run(text, host)
    assert steps["tidy"].status is Status.SKIPPED
    assert host.writes() == []
    cured = ToyHost(procs={4: (1, "zombie")}, wanted="blue")
    steps, outcome, _ = run(text, cured)
    assert outcome.findings[0].status is Presence.GONE
    assert steps["tidy"].status is Status.CHANGED


def test_a_plan_says_what_the_conditional_steps_hinge_on():
    host = ToyHost(procs={4: (1, "zombie")}, wanted="blue")
    plan, _ = make_plan(placed(CHAIN, host))
    planned = {it.id: it for it in plan.results}
    assert planned["then"].status is Status.WOULD_CHANGE
    assert planned["then"].condition == "only if stop changes something"
    assert planned["back"].status is Status.SKIPPED
    assert planned["back"].condition == "only if stop fails, then: paint it blue (edits-files)"
    idle, _ = make_plan(placed(CHAIN, ToyHost(procs={}, wanted="blue")))
    planned = {it.id: it for it in idle.results}
    assert planned["then"].status is Status.SKIPPED
    assert planned["back"].condition is None


# -- once, on


ONCE = """\
name: toy
diagnose:
  - {id: seen, once: true, on: leader, procs: {word: zombie}}
findings:
  - {id: held, when: seen.matches, severity: error}
remediate:
  - {id: stop, for: held, paint: {}}
"""


def fleet(text: str, leader: ToyHost, count: int, *, refuse: bool = False, own=None):
    book, clock = load(text), ToyClock()
    names = [f"gpu-{number:02}" for number in range(count)]
    inventory = Inventory(
        hosts=tuple(Host(name=it, addresses=(Address(host="127.0.0.1"),)) for it in (*names, "leader"))
    )
    book = with_places(book, {"": {}}, inventory)
    lock = threading.Lock()
    hosts = {it: own(it) if own else ToyHost(procs={}, wanted="blue") for it in names}
    opened = []

    def connect_to(name):
        opened.append(name)
        if refuse:
            raise Unreachable("connection refused")
        return leader

    events: list = []

    def emit(event):
        with lock:
            events.append(event)

    made = Fleet(playbook=book, run=RunContext(inputs={}, facts={}, actions=ACTIONS, emit=emit, once=SharedProbes(clock)), connect=lambda host: hosts[host.name], clock=clock, stop=Cancellation(), elsewhere=OtherHosts(connect_to, clock))  # fmt: skip
    return made, [Host(name=it) for it in names], hosts, opened


def test_a_look_that_is_taken_once_on_the_leader_makes_one_request_for_fifty_hosts():
    leader = ToyHost(procs={4: (1, "zombie")})
    made, hosts, own, opened = fleet(ONCE, leader, 50)
    planned = made.plan(hosts)
    assert len(planned) == 50
    assert len(leader.sent) == 1
    assert opened == ["leader"]
    assert all(it.plan.findings[0].status is Presence.PRESENT for it in planned)
    assert sum(len(it.plan.looks[0].commands) for it in planned) == 1, "told by the host that sent it"
    assert all(it.argv == ("colours",) for host in own.values() for it in host.sent)


def test_when_the_look_that_all_share_fails_it_is_unknown_for_all():
    leader = ToyHost(procs={}, blind=True)
    deadly = ONCE.replace("paint: {}", "end: {word: zombie}")
    made, hosts, own, _ = fleet(deadly, leader, 50, own=lambda name: ToyHost(procs={4: (1, "zombie")}))
    results = made.plan_and_carry_out(hosts, Consent.YES)
    assert len(leader.sent) == 1
    assert {it.verdict for it in results} == {Verdict.UNKNOWN}
    assert not any(it.writes() for it in own.values())
    assert all("ps did not answer" in it.findings[0].why for it in results)


def test_a_leader_that_cannot_be_reached_is_asked_once_and_makes_no_host_unreachable():
    made, hosts, _, opened = fleet(ONCE, ToyHost(procs={}), 50, refuse=True)
    results = made.plan_and_carry_out(hosts, Consent.YES)
    assert opened == ["leader"]
    assert {it.verdict for it in results} == {Verdict.UNKNOWN}
    assert all("on leader: connection refused" in it.findings[0].why for it in results)


def test_a_shared_look_is_taken_anew_after_a_change():
    leader = ToyHost(procs={4: (1, "zombie")})

    class Curing(ToyHost):
        def _run(self, command):
            if command.argv[0] == "paint":
                leader.procs.clear()
            return super()._run(command)

    made, hosts, _, _ = fleet(ONCE, leader, 3, own=lambda name: Curing(procs={}, wanted="blue"))
    results = replace(made, parallel=1).plan_and_carry_out(hosts, Consent.YES)
    assert results[0].findings[0].status is Presence.GONE
    assert len(leader.sent) > 1


def test_a_write_elsewhere_that_was_lost_is_unknown_and_the_host_itself_is_not():
    text = "name: toy\nremediate:\n  - {id: there, on: leader, end: {word: zombie}}\n"
    leader = ToyHost(procs={4: (1, "zombie")}, lose_at=2)
    made, hosts, _, _ = fleet(text, leader, 1)
    (result,) = made.plan_and_carry_out(hosts, Consent.YES)
    (step,) = result.steps
    assert step.status is Status.UNKNOWN
    assert "on leader" in step.why
    assert result.error is None
    assert [it.argv for it in leader.writes()] == [("kill", "4:1")]


@every_row(
    ("text", "words"),
    [
        ("diagnose:\n  - {id: a, once: true, procs: {word: '{{ host.name }}'}}", "cannot depend on 'host'"),
        (
            "diagnose:\n  - {id: b, procs: {word: xy}}\n  - {id: a, once: true, when: b.matches, procs: {word: xy}}",
            "cannot depend on 'b'",
        ),
        ("diagnose:\n  - {id: a, on: '{{ host.name }}', procs: {word: xy}}", "'host' cannot be used here"),
        ("remediate:\n  - {id: a, once: true, end: {word: xy}}", "`once` is not allowed in remediate"),
        ("verify:\n  - {id: a, always: true, procs: {word: xy}}", "`always` is not allowed in verify"),
        ("remediate:\n  - {id: a, if_failed: b, end: {word: xy}}", "no earlier step is called 'b'"),
    ],
)
def test_mistakes_with_shared_looks_and_hinges_are_named(text, words):
    assert words in mistakes(f"name: toy\n{text}\n")


def test_on_names_one_host_or_the_load_fails_with_the_place():
    book = load("name: toy\ndiagnose:\n  - {id: a, on: gpuu, procs: {word: xy}}\n")
    hosts = tuple(Host(name=it, addresses=(Address(host="127.0.0.1"),)) for it in ("gpu-1", "gpu-2"))
    with pytest.raises(ConfigError) as caught:
        with_places(book, {"": {}}, Inventory(hosts=hosts))
    assert str(caught.value).startswith("toy.yaml:3:5: on: ")
    many = load("name: toy\ndiagnose:\n  - {id: a, on: gpu-*, procs: {word: xy}}\n")
    with pytest.raises(ConfigError, match="must name one host, but names 2"):
        with_places(many, {"": {}}, Inventory(hosts=hosts))
    here = load("name: toy\ndiagnose:\n  - {id: a, on: controller, procs: {word: xy}}\n")
    assert with_places(here, {"": {}}, Inventory(hosts=hosts)).diagnose[0].on == "controller"


def test_a_finding_that_is_unknown_keeps_every_change_from_being_made_unless_it_is_forced():
    text = ONCE.replace(", on: leader", "").replace("once: true, ", "")
    host = ToyHost(procs={4: (1, "zombie")}, blind=True, wanted="blue")
    steps, outcome, _ = run(text + "  - {id: hard, for: held, restart: {}}\n", host)
    assert (steps["stop"].status, steps["hard"].status) == (Status.BLOCKED, Status.BLOCKED)
    assert host.writes() == []
    assert outcome.findings[0].status is Presence.UNKNOWN


# -- tags


TAGGED = """\
name: toy
diagnose:
  - {id: seen, procs: {word: zombie}}
  - {id: also, tags: [slow], procs: {word: train}}
findings:
  - {id: held, when: seen.matches, severity: error}
  - {id: more, when: also.matches, severity: error}
remediate:
  - {id: stop, for: held, tags: [kill, soft], end: {word: zombie}}
  - {id: hard, for: held, restart: {}}
"""


def tagged(wanted, skipped):
    host = ToyHost(procs={4: (1, "zombie"), 5: (1, "train")})
    book = with_tags(load(TAGGED), wanted, skipped)
    plan, _ = make_plan(site(book, host))
    return plan, {it.id: it for it in (*plan.looks, *plan.results)}


def test_tags_choose_changes_and_looks_without_tags_are_always_taken():
    plan, steps = tagged(["kill,slow"], [])
    assert statuses(steps) == {"seen": "ok", "also": "ok", "stop": "would_change", "hard": "skipped"}
    assert steps["hard"].why == "left out by --tags kill,slow"
    assert [it.status for it in plan.findings] == [Presence.PRESENT, Presence.PRESENT]


def test_what_a_skipped_look_would_have_told_is_unknown():
    plan, steps = tagged([], ["slow"])
    assert statuses(steps) == {"seen": "ok", "also": "skipped", "stop": "would_change", "hard": "would_change"}
    assert [it.status for it in plan.findings] == [Presence.PRESENT, Presence.UNKNOWN]
    assert "--skip-tags slow" in plan.findings[1].why


def test_a_tag_that_nobody_carries_is_an_error_with_a_suggestion():
    with pytest.raises(ConfigError, match=r"no step has the tag 'kil' \(did you mean kill\?\)"):
        with_tags(load(TAGGED), ["kil"], [])


# -- include


INNER = """\
name: inner
inputs:
  word: {about: What to end., type: string, minLength: 2, default: zombie}
diagnose:
  - {id: seen, procs: {word: "{{ inputs.word }}"}}
findings:
  - {id: held, when: seen.matches, severity: error, say: "{{ inputs.word }}: {{ seen.matches | length }}"}
remediate:
  - {id: stop, end: {word: "{{ inputs.word }}"}}
  - {id: then, after: stop, restart: {}}
verify:
  - {id: gone, procs: {word: "{{ inputs.word }}"}}
"""

OUTER = """\
name: toy
inputs:
  what: {about: What to end., default: train}
diagnose:
  - {id: own, procs: {word: serve}}
findings:
  - {id: mine, when: own.matches and not a_seen.matches, unless: a_held, severity: error}
remediate:
  - {id: a, include: inner, inputs: {word: "{{ inputs.what }}"}}
  - {id: b, include: inner}
"""


def test_an_included_playbook_keeps_its_own_names_and_gets_a_prefix():
    host = ToyHost(procs={4: (1, "train"), 5: (1, "zombie"), 6: (1, "serve")})
    steps, outcome, _ = run(OUTER, host, inner=INNER)
    assert list(steps) == [
        "own", "a_seen", "b_seen", "a_stop", "a_then", "b_stop", "b_then", "a_gone", "b_gone"
    ]  # fmt: skip
    findings = {it.id: it for it in outcome.findings}
    assert findings["a_held"].say == "train: 1"
    assert findings["b_held"].say == "zombie: 1"
    assert findings["mine"].status is not Presence.UNKNOWN
    assert [it.argv[1] for it in host.writes() if it.argv[0] == "kill"] == ["4:1", "5:1"]
    assert steps["a_then"].status is Status.SKIPPED, "its own finding is gone"


def test_a_rung_of_an_included_playbook_is_for_the_findings_of_that_playbook():
    host = ToyHost(procs={5: (1, "zombie")})
    steps, _, _ = run(OUTER, host, inner=INNER)
    assert steps["a_stop"].status is Status.SKIPPED
    assert steps["b_stop"].status is Status.CHANGED


HANDLER = """\
name: inner
diagnose:
  - {id: seen, procs: {word: zombie}}
findings:
  - {id: held, when: seen.matches, severity: error}
remediate:
  - {id: stop, for: held, end: {word: zombie}}
  - {id: again, if_changed: [stop], restart: {}}
"""


def test_a_step_that_follows_another_does_so_in_an_included_playbook_too():
    """Its finding is gone by then, or unknown.  Mutants: includes.py giving every step the findings."""
    for text in (HANDLER.replace("inner", "toy"), "name: toy\nremediate:\n  - {id: a, include: inner}\n"):
        steps, _, _ = run(text, ToyHost(procs={4: (1, "zombie")}), inner=HANDLER)
        assert [it.status for it in steps.values() if it.phase == "remediate"] == [Status.CHANGED, Status.CHANGED]


def test_an_include_under_diagnose_brings_looks_and_findings_only():
    text = "name: toy\ndiagnose:\n  - {id: a, include: inner}\nfindings:\n  - {id: x, when: a_seen.matches, severity: info}\n"
    host = ToyHost(procs={5: (1, "zombie")})
    steps, outcome, _ = run(text, host, inner=INNER)
    assert list(steps) == ["a_seen"]
    assert [it.id for it in outcome.findings] == ["a_held", "x"]
    assert host.writes() == []


def test_includes_may_stand_within_each_other_but_not_within_themselves():
    middle = "name: middle\ninputs: {w: {about: x, default: train}}\n" + (
        "remediate:\n  - {id: sub, include: inner, inputs: {word: '{{ inputs.w }}'}}\n"
    )
    text = "name: toy\nremediate:\n  - {id: a, include: middle, inputs: {w: serve}}\n"
    host = ToyHost(procs={5: (1, "serve"), 6: (1, "train")})
    steps, _, _ = run(text, host, inner=INNER, middle=middle)
    assert "a_sub_stop" in steps
    assert host.procs == {6: (1, "train")}
    loop = "name: loop\nremediate:\n  - {id: x, include: loop}\n"
    words = mistakes("name: toy\nremediate:\n  - {id: a, include: loop}\n", loop=loop)
    assert "loop.yaml:3:13: loop includes itself: toy.yaml -> loop.yaml -> loop.yaml" in words


def test_the_number_of_includes_is_bounded_with_those_within_each_other():
    """Mutant: a bound on the depth alone, so that four short files take minutes."""

    def many(name: str, inner: str) -> str:
        return f"name: {name}\nremediate:\n" + "".join(f"  - {{id: a{it}, include: {inner}}}\n" for it in range(30))

    words = mistakes(many("toy", "b"), b=many("b", "c"), c=many("c", "inner"), inner=INNER)
    assert "more than 100 includes, with those of what is included" in words


@every_row(
    ("line", "words"),
    [
        ("{id: a, include: iner}", "toy.yaml:3:13: no playbook 'iner'"),
        ("{include: inner}", "an include needs an id"),
        ("{id: a, include: inner, for: x}", "`for` is not allowed beside include"),
        ("{id: a, include: inner, inputs: {wrod: zombie}}", "inner has no input 'wrod' (there are: word)"),
        ("{id: a, include: inner, inputs: {word: x}}", "input word of inner"),
        ("{id: a, include: inner, inputs: {word: '{{ host.name }}'}}", "only inputs can be used here"),
        ("{id: a, include: inner, inputs: {word: '{{ inputs.nope }}'}}", "there is no input 'nope'"),
        ("{id: a, include: bad}", "bad.yaml:2:1: unknown key 'diagnos' (did you mean diagnose?)"),
        ("{id: a, inputs: {x: 1}, end: {word: zombie}}", "`inputs` belongs to an include"),
    ],
)
def test_mistakes_with_includes_are_named_where_they_stand(line, words):
    found = mistakes(f"name: toy\nremediate:\n  - {line}\n", inner=INNER, bad="name: bad\ndiagnos: []\n")
    assert words in found


def test_the_digest_of_a_playbook_covers_what_it_includes():
    one = load(OUTER, inner=INNER)
    other = load(OUTER, inner=INNER.replace("zombie", "zombies"))
    assert one.digest != other.digest


def test_a_value_that_an_include_hands_on_is_held_against_the_schema_of_the_input():
    book = load(OUTER, inner=INNER)
    with pytest.raises(ConfigError, match="input word of a"):
        inputs_of_parts(book, {"what": "x"})


def test_a_lost_connection_elsewhere_is_opened_anew():
    clock = ToyClock()
    hosts = [ToyHost(procs={}, lose_at=0), ToyHost(procs={})]
    there = OtherHosts(lambda name: hosts.pop(0), clock).to("leader")
    from runbook.values.command import read

    with pytest.raises(ConnectionLost, match="on leader"):
        there.run(read("ps"))
    assert there.run(read("ps"))[0].exit_code == 0


def test_an_included_playbook_with_its_defaults_is_not_checked_again(monkeypatch):
    """What checks values takes long to import.  Mutants: every value; values that are only equal (``True`` and 1)."""
    inner = "name: inner\nabout: x\ninputs: {n: {about: x, type: [integer, boolean], default: 1}}\ndiagnose: [{id: a, procs: {word: x}}]\n"
    outer = "name: toy\nabout: x\ninputs: {m: {about: x, default: 1, type: [integer, boolean]}}\ndiagnose:\n"
    book = load(f"{outer}  - {{id: part, include: inner, inputs: {{n: '{{{{ inputs.m }}}}'}}}}\n", inner=inner)
    checked: list[object] = []
    monkeypatch.setattr(includes, "faults", lambda _, value: checked.append(value) or [])
    for value in (1, True, 2):
        assert inputs_of_parts(book, {"m": value})["part"] == {"n": value}
    assert checked == [True, 2]
