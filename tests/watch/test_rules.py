"""A rule is read whole, and every mistake in it is told at once, each with its place."""

from __future__ import annotations

import contextlib
from hashlib import sha256

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from runbook.errors import ConfigError
from runbook.language.watch_rules import RULE, load_rule, looks_like_rule, rule_schema
from runbook.language.watch_times import cron, freeze, window
from runbook.values.plan import Risk
from runbook.values.playbook import Where
from runbook.values.watch_rule import (
    Approve,
    During,
    Freeze,
    Rule,
    RuleBreaker,
    Sources,
    Then,
    Times,
    Window,
)
from tests.support.tables import every_row

LEAST = "name: stuck\nplaybook: stuck-node\nhosts: all\non: {every: 60s}\n"
"""The shortest rule; what a row adds begins on line 5."""
WHOLE = """\
name: stuck-node
about: Ends what hangs on a node of the fleet.
playbook: stuck-node
hosts: "role=trainer & !site=lab"
inputs: {idle: 10m, most: 3, names: [a, b], raw: !raw "{{ x }}"}
finding: stuck
on: {alert: GpuStuck, host_label: node, every: 60s, cron: "0 3 * JAN sun"}
for: 10m
then: apply
risk: kills-processes
approve: {by: [ann, bob], count: 2, not: requester, within: 30m}
cooldown: 5m
attempts: {count: 3, within: 24h}
ineffective: 4
keep: 2
during:
  windows: [mon-fri 08:00-18:00, sat 22:00-04:00, "Fri-Mon 00:00-24:00", 06:30-07:00]
  freeze: [2026-12-20 to 2027-01-03, 2026-12-24, 2026-12-24 12:00 to 2026-12-27 06:00]
  zone: Europe/Berlin
threshold: {count: 2, within: 1h}
breaker: {hosts: 5, within: 1h, quiet: 15m}
notify: [gpu-team, pager]
"""


def test_every_key_is_read():
    """Mutants: a key of ``RULE`` read from another, or not at all."""
    assert load_rule(WHOLE, "rules/stuck-node.yaml") == Rule(
        name="stuck-node",
        about="Ends what hangs on a node of the fleet.",
        playbook="stuck-node",
        hosts="role=trainer & !site=lab",
        inputs={"idle": "10m", "most": 3, "names": ["a", "b"], "raw": "{{ x }}"},
        finding="stuck",
        on=Sources(alert="GpuStuck", host_label="node", every=60.0, cron="0 3 * jan sun"),
        sustained=600.0,
        then=Then.APPLY,
        risk=Risk.KILLS_PROCESSES,
        approve=Approve(by=("ann", "bob"), count=2, requester_counts=False, within=1800.0),
        cooldown=300.0,
        attempts=Times(count=3, within=86400.0),
        ineffective=4,
        keep=2,
        during=During(
            windows=(
                Window(days=(0, 1, 2, 3, 4), begins=480, ends=1080, text="mon-fri 08:00-18:00"),
                Window(days=(5,), begins=1320, ends=240, text="sat 22:00-04:00"),
                Window(days=(4, 5, 6, 0), begins=0, ends=1440, text="Fri-Mon 00:00-24:00"),
                Window(days=(0, 1, 2, 3, 4, 5, 6), begins=390, ends=420, text="06:30-07:00"),
            ),
            freeze=(
                Freeze(begins="2026-12-20T00:00", ends="2027-01-04T00:00", text="2026-12-20 to 2027-01-03"),
                Freeze(begins="2026-12-24T00:00", ends="2026-12-25T00:00", text="2026-12-24"),
                Freeze(begins="2026-12-24T12:00", ends="2026-12-27T06:00", text="2026-12-24 12:00 to 2026-12-27 06:00"),
            ),
            zone="Europe/Berlin",
        ),
        threshold=Times(count=2, within=3600.0),
        breaker=RuleBreaker(hosts=5, within=3600.0, quiet=900.0),
        notify=("gpu-team", "pager"),
        where=Where(file="rules/stuck-node.yaml", line=1, column=1),
        digest=sha256(WHOLE.encode()).hexdigest(),
    )


def test_the_shortest_rule_proposes_and_has_no_limits_of_its_own():
    assert load_rule(LEAST, "stuck.yaml") == Rule(
        name="stuck",
        playbook="stuck-node",
        hosts="all",
        on=Sources(every=60.0),
        approve=Approve(requester_counts=True),
        where=Where(file="stuck.yaml", line=1, column=1),
        digest=sha256(LEAST.encode()).hexdigest(),
    )


def test_the_defaults_of_the_language_are_those_of_the_values():
    assert load_rule(LEAST, "stuck.yaml").approve == Approve()


@every_row(
    ("key", "field", "value"),
    [
        ("then: probe", "then", Then.PROBE),
        ("then: propose", "then", Then.PROPOSE),
        *((f"then: apply\nrisk: {each}", "risk", each) for each in Risk if each is not Risk.UNKNOWN),
        ("for: 90", "sustained", 90.0),
        ("for: 1h30m", "sustained", 5400.0),
        ("cooldown: 500ms", "cooldown", 0.5),
        ("ineffective: 0", "ineffective", 0),
        ("keep: 0", "keep", 0),
        ("notify: pager", "notify", ("pager",)),
        ("inputs: {}", "inputs", {}),
        ("approve: {by: ann}", "approve", Approve(by=("ann",), requester_counts=True)),
        ("approve: {not: requester}", "approve", Approve(requester_counts=False)),
        ("approve: {within: 1d}", "approve", Approve(requester_counts=True, within=86400.0)),
        ("breaker: {hosts: 1, within: 1h}", "breaker", RuleBreaker(hosts=1, within=3600.0, quiet=600.0)),
        ("breaker: {hosts: 1, within: 1h, quiet: 0}", "breaker", RuleBreaker(hosts=1, within=3600.0, quiet=0.0)),
        ("during: {zone: UTC}", "during", During()),
    ],
)
def test_a_key_alone_has_its_value(key, field, value):
    assert getattr(load_rule(f"{LEAST}{key}\n", "stuck.yaml"), field) == value


@every_row(
    ("on", "sources"),
    [
        ("{alert: GpuStuck}", Sources(alert="GpuStuck")),
        ("{every: 10s}", Sources(every=10.0)),
        ("{every: 1d}", Sources(every=86400.0)),
        ("{cron: '*/5 0-6,22 1,15 * *'}", Sources(cron="*/5 0-6,22 1,15 * *")),
        ("{cron: '0 0 29 2 *'}", Sources(cron="0 0 29 2 *")),
        ("{cron: '0 0 31 */2 *'}", Sources(cron="0 0 31 */2 *")),
        ("{cron: '0 0 1-31/10 feb *'}", Sources(cron="0 0 1-31/10 feb *")),
        ("{cron: '  0   3 * * MON-fri '}", Sources(cron="0 3 * * mon-fri")),
    ],
)
def test_the_sources_are_read(on, sources):
    assert load_rule(LEAST.replace("{every: 60s}", on), "stuck.yaml").on == sources


@every_row("ending", ["stuck.yaml", "stuck.yml", "/etc/runbook/rules/stuck.yaml"])
def test_a_rule_is_called_as_its_file(ending):
    assert load_rule(LEAST, ending).name == "stuck"


def mistakes(text: str, file: str = "stuck.yaml") -> list[str]:
    """Return the mistakes in *text*, each with its place, but without the file."""
    with pytest.raises(ConfigError) as caught:
        load_rule(text, file)
    assert list(caught.value.problems) == sorted(caught.value.problems)
    return [f"{each.line}:{each.column}: {each.message}" for each in caught.value.problems]


@every_row(
    ("added", "told"),
    [
        ("naem: x", "5:1: unknown key 'naem'"),
        ("hosts: x", "5:1: the key 'hosts' is given twice; the first is on line 3"),
        ("about: ''", "5:1: must not be empty"),
        ("about: [x]", "5:1: about: expected text, got a list"),
        ("inputs: []", "5:1: inputs: expected a mapping, got a list"),
        ("finding: a b", "5:1: 'a b' is not an id"),
        ("then: fix", "5:1: then: 'fix' is not allowed; use one of: probe, propose, apply"),
        ("then: 5", "5:1: then: 5 is not allowed"),
        ("then: apply\nrisk: bad", "6:1: risk: 'bad' is not allowed; use one of: reads,"),
        ("then: apply\nrisk: unknown", "6:1: risk: 'unknown' is not allowed"),
        ("for: ten", "5:1: for: 'ten' is not a duration"),
        ("for: -1", "5:1: for: -1 is not a duration"),
        ("for: 500d", "5:1: for: '500d' is longer than a year"),
        ("for: [10m]", "5:1: for: expected text or a number, got a list"),
        ("cooldown: 0", "5:1: cooldown: 0 is too short"),
        ("cooldown: 5 minutes", "5:1: cooldown: '5 minutes' is not a duration"),
        ("attempts: 3", "5:1: attempts: expected a mapping, got 3"),
        ("attempts: {count: 3}", "5:1: 'within' is missing"),
        ("attempts: {within: 1h}", "5:1: 'count' is missing"),
        ("attempts: {count: 0, within: 1h}", "5:12: count: 0 is below 1"),
        ("attempts: {count: 1001, within: 1h}", "5:12: count: 1001 is above 50"),
        ("attempts: {count: true, within: 1h}", "5:12: count: expected a whole number, got true"),
        ("attempts: {count: 3, within: x}", "5:22: within: 'x' is not a duration"),
        ("attempts: {count: 3, within: 1h, more: 1}", "5:34: unknown key 'more'"),
        ("threshold: {count: 3.5, within: 1h}", "5:13: count: expected a whole number, got 3.5"),
        ("ineffective: -1", "5:1: ineffective: -1 is below 0"),
        ("ineffective: 1.5", "5:1: ineffective: expected a whole number, got 1.5"),
        ("keep: -1", "5:1: keep: -1 is below 0"),
        ("keep: some", "5:1: keep: expected a whole number, got 'some'"),
        ("notify: 5", "5:1: notify: expected text or a list, got 5"),
        ("notify: [pager, 1]", "5:17: expected text, got 1"),
        ("approve: ann", "5:1: approve: expected a mapping, got 'ann'"),
        ("approve: {count: 0}", "5:11: count: 0 is below 1"),
        ("approve: {count: 11}", "5:11: count: 11 is above 10"),
        ("approve: {not: nobody}", "5:11: not: 'nobody' is not allowed; use one of: requester"),
        ("approve: {within: 0}", "5:11: within: 0 is too short"),
        ("approve: {within: 31d}", "5:11: within: a plan may wait 30 d at most"),
        ("approve: {buy: [ann]}", "5:11: unknown key 'buy'"),
        ("breaker: 5", "5:1: breaker: expected a mapping, got 5"),
        ("breaker: {hosts: 5}", "5:1: 'within' is missing"),
        ("breaker: {hosts: 0, within: 1h}", "5:11: hosts: 0 is below 1"),
        ("breaker: {hosts: 5, within: 0}", "5:21: within: 0 is too short"),
        ("breaker: {hosts: 5, within: 1h, quiet: x}", "5:33: quiet: 'x' is not a duration"),
        ("during: {}", "5:1: during: must have at least 1 key"),
        ("during: mon", "5:1: during: expected a mapping, got 'mon'"),
        ("during: {windows: mon}", "5:10: windows: expected a list, got 'mon'"),
        ("during: {windows: []}", "5:10: must not be empty"),
        ("during: {zone: Mars/Olympus}", "5:10: the time zone 'Mars/Olympus' is not known on this machine"),
        ("during: {zone: Europe}", "5:10: the time zone 'Europe' is not known on this machine"),
        ("during: {zone: ../../etc/passwd}", "5:10: the time zone '../../etc/passwd' is not known"),
        ('during: {zone: "a\\0b"}', "5:10: the time zone 'a\\x00b' is not known"),
        ("during: {zone: 5}", "5:10: zone: expected text, got 5"),
        ("during:\n  windows:\n  - mon 08:00-18:00\n  - mon 8-18", "8:5: 'mon 8-18' is not a window"),
        ("during:\n  freeze:\n  - 2026-12-24\n  - soon", "8:5: 'soon' is not a freeze"),
        ("then: apply", "5:1: then: apply, but no `risk` says which changes need no approval"),
        ("risk: reads", "5:1: risk: with `then: propose` every change needs an approval, whatever its risk"),
        ("then: probe\nrisk: reads", "6:1: risk: with `then: probe` every change needs an approval"),
        ("then: probe\napprove: {}", "6:1: approve: a rule with `then: probe` changes nothing; leave it out"),
        ("then: probe\nkeep: 1", "6:1: keep: a rule with `then: probe` changes nothing"),
        ("then: probe\nduring: {zone: UTC}", "6:1: during: a rule with `then: probe` changes nothing"),
        ("then: probe\nbreaker: {hosts: 1, within: 1h}", "6:1: breaker: a rule with `then: probe` changes nothing"),
        ("then: probe\ncooldown: 1m", "6:1: cooldown: a rule with `then: probe` changes nothing"),
        ("then: probe\nattempts: {count: 1, within: 1h}", "6:1: attempts: a rule with `then: probe` changes nothing"),
    ],
)
def test_a_mistake_is_told_with_its_place(added, told):
    found = mistakes(f"{LEAST}{added}\n")
    assert len(found) == 1
    assert found[0].startswith(told)


@every_row(
    ("on", "told"),
    [
        ("{}", "4:1: on: must have at least 1 key"),
        ("alert", "4:1: on: expected a mapping, got 'alert'"),
        ("{alert: ''}", "4:6: must not be empty"),
        ("{alert: [a]}", "4:6: alert: expected text, got a list"),
        ("{alert: A, evry: 60s}", "4:16: unknown key 'evry'"),
        ("{alert: A, host_label: a-b}", "4:16: 'a-b' is not an id"),
        ("{host_label: node}", "4:1: on: nothing is given that the rule could listen to"),
        ("{every: 9.9s}", "4:6: every: 10 s is the least"),
        ("{every: 0}", "4:6: every: 0 is too short"),
        ("{every: often}", "4:6: every: 'often' is not a duration"),
        ("{cron: '0 0 31 2 *'}", "4:6: '0 0 31 2 *' never comes: no such month has a day 31"),
        ("{cron: '0 0 31 apr,jun,9-9 *'}", "4:6: '0 0 31 apr,jun,9-9 *' never comes"),
        ("{alert: A, cron: '* * * *'}", "4:16: '* * * *' has 4 fields, and cron has 5"),
    ],
)
def test_a_mistake_in_the_sources_is_told_with_its_place(on, told):
    found = mistakes(LEAST.replace("{every: 60s}", on))
    assert len(found) == 1
    assert found[0].startswith(told)


@every_row(
    ("on", "added", "told"),
    [
        ("{alert: A}", "keep: 2", "5:1: keep: how many hosts are well is known only where the clock probes them all"),
        ("{cron: '0 3 * * *'}", "keep: 2", "5:1: keep: how many hosts are well is known only"),
        ("{cron: '0 3 * * *'}", "for: 10m", "5:1: for: a rule that only listens to cron does not see whether"),
    ],
)
def test_a_key_that_does_not_go_with_the_sources_is_a_mistake(on, added, told):
    found = mistakes(LEAST.replace("{every: 60s}", on) + added)
    assert len(found) == 1
    assert found[0].startswith(told)


@every_row(
    "added", ["for: 10m", "for: 10m\ncooldown: 1h\nthreshold: {count: 2, within: 1h}\nineffective: 1\nnotify: x"]
)
def test_what_goes_together_is_no_mistake(added):
    load_rule(LEAST.replace("{every: 60s}", "{alert: A, cron: '0 3 * * *'}") + added, "stuck.yaml")


@every_row("key", ["name", "playbook", "hosts", "on"])
def test_a_key_that_a_rule_needs_is_missed(key):
    text = "".join(line for line in LEAST.splitlines(keepends=True) if not line.startswith(key))
    assert mistakes(text) == [f"1:1: {key!r} is missing"]


@every_row(
    ("text", "told"),
    [
        ("", "1:1: a rule is a mapping"),
        ("[]", "1:1: a rule is a mapping"),
        ("stuck", "1:1: a rule is a mapping"),
        ("a: [", "2:1: "),
        ("a: &a [*a]", "1:"),
        (LEAST.replace("name: stuck", "name: other"), "1:1: the rule is called 'other' and its file 'stuck.yaml'"),
        (LEAST.replace("name: stuck", "name: Stuck"), "1:1: name: 'Stuck' does not match"),
        (LEAST.replace("name: stuck", "name: 5"), "1:1: name: expected text, got 5"),
        (LEAST.replace("hosts: all", "hosts: [all]"), "3:1: hosts: expected text, got a list"),
        (LEAST.replace("playbook: stuck-node", "playbook: ''"), "2:1: must not be empty"),
    ],
)
def test_what_is_no_rule_is_told_with_its_place(text, told):
    found = mistakes(text)
    assert len(found) == 1
    assert found[0].startswith(told)


def test_all_mistakes_are_told_at_once_in_the_order_of_their_places():
    """Mutant: ``load_rule`` raises after the first."""
    text = """\
name: other
playbook: ''
hosts: 5
on: {every: 1s, cron: x}
then: fix
for: ten
attempts: {count: 0, within: 0}
during:
  windows: [mon 8-18, mun 08:00-18:00, mon 08:00-08:00]
  freeze: [soon, 2026-12-24 to 2026-12-23]
  zone: Mars
breaker: {hosts: many, within: x}
aproove: {}
"""
    places = [found.partition(": ")[0] for found in mistakes(text)]
    assert places == [
        "1:1", "2:1", "3:1", "4:6", "4:17", "5:1", "6:1", "7:12", "7:22", "9:13", "9:23", "9:40", "10:12", "10:18",
        "11:3", "12:11", "13:1",
    ]  # fmt: skip


def test_what_does_not_go_together_is_told_with_the_other_mistakes():
    assert len(mistakes(f"{LEAST}then: apply\nfor: ten\n")) == 2


@every_row(
    "text",
    [
        "",
        "mon",
        "mon-fri",
        "mon 8:00-18:00",
        "mon 08:00",
        "08:00 - 18:00",
        "mon,tue 08:00-18:00",
        "monday 08:00-18:00",
        "mon-fri-sun 08:00-18:00",
        "mon 08:00-25:00",
        "mon 08:00-24:01",
        "mon 08:60-18:00",
        "mun 08:00-18:00",
        "mon-fry 08:00-18:00",
        "mon 08:00-08:00",
        "mon 08:00-18:00; reboot",
        "mon\n08:00-18:00",
    ],
)
def test_what_is_no_window_is_refused(text):
    with pytest.raises(ConfigError):
        window(text)


def test_a_window_in_which_there_is_no_time_is_refused():
    with pytest.raises(ConfigError):
        window("mon 24:00-00:00")


@every_row(
    "text",
    [
        "",
        "soon",
        "2026-12-24 to",
        "2026-12-24 - 2026-12-26",
        "2026-12-24T12:00",
        "2026-02-30",
        "2026-12-24 25:00 to 2026-12-26",
        "2026-12-24 to 2026-12-23",
        "2026-12-24 12:00",
        "2026-12-24 12:00 to 2026-12-24 12:00",
        "24.12.2026",
        "2026-12-24 to 2026-12-26 to 2026-12-28",
    ],
)
def test_what_is_no_freeze_is_refused(text):
    with pytest.raises(ConfigError):
        freeze(text)


def test_a_freeze_to_the_end_of_all_days_is_read_or_refused():
    with contextlib.suppress(ConfigError):
        freeze("9999-12-31")


@every_row(
    ("text", "told"),
    [
        ("", "0 fields"),
        ("* * * *", "4 fields"),
        ("* * * * * *", "6 fields"),
        ("@daily", "1 fields"),
        ("60 * * * *", "'60' is no minute (0 to 59)"),
        ("* 24 * * *", "'24' is no hour (0 to 23)"),
        ("* * 0 * *", "'0' is no day (1 to 31)"),
        ("* * 32 * *", "'32' is no day (1 to 31)"),
        ("* * * 13 *", "'13' is no month (1 to 12)"),
        ("* * * juni *", "'juni' is no month"),
        ("* * * * 0", "'0' is no day of the week: write its name"),
        ("* * * * 7", "write its name"),
        ("* * * * sunday", "write its name (did you mean sun?)"),
        ("* * * * mon-5", "'5' is no day of the week"),
        ("*/0 * * * *", "a step of 0"),
        ("*/x * * * *", "'*/x' is no minute"),
        ("*-5 * * * *", "'*-5' is no minute"),
        ("9-5 * * * *", "'9-5' ends before it begins"),
        ("* * * dec-jan *", "'dec-jan' ends before it begins"),
        ("* * * * fri-mon", "'fri-mon' ends before it begins"),
        ("1,,2 * * * *", "'' is no minute"),
        ("mon * * * *", "'mon' is no minute"),
        ("-1 * * * *", "'-1' is no minute"),
        ("1.5 * * * *", "'1.5' is no minute"),
        ("$(reboot) * * * *", "is no minute"),
    ],
)
def test_what_is_no_cron_is_refused(text, told):
    with pytest.raises(ConfigError) as caught:
        cron(text)
    assert told in str(caught.value)


@every_row(
    "text",
    [
        "* * * * *",
        "0 0 1 1 mon",
        "59 23 31 12 sun",
        "*/5 * * * *",
        "0-59/15 0,6,12,18 1-31 jan-dec mon-sun",
        "0 0 * jan,jul sat,sun",
        "0 0 * 2-apr *",
    ],
)
def test_what_is_cron_is_kept(text):
    assert cron(text) == text


def test_digits_of_another_script_are_no_numbers_of_cron():
    with pytest.raises(ConfigError):
        cron("٣ * * * *")


def test_an_empty_list_of_people_is_a_mistake():
    mistakes(f"{LEAST}approve: {{by: []}}\n")


def test_more_people_have_to_agree_than_there_are_is_a_mistake():
    mistakes(f"{LEAST}approve: {{by: [ann], count: 2}}\n")


@pytest.mark.parametrize(
    "added", ["attempts: {count: 51, within: 1d}", "ineffective: 51", "threshold: {count: 101, within: 1d}"]
)
def test_a_limit_that_is_never_reached_is_a_mistake(added):
    mistakes(f"{LEAST}{added}\n")


def test_a_rule_that_only_probes_has_no_number_of_runs():
    mistakes(f"{LEAST}then: probe\nineffective: 3\n")


def test_the_schema_has_every_key_and_says_what_each_is_for():
    schema = rule_schema()
    assert set(schema["properties"]) == set(RULE) == {
        "name", "about", "playbook", "hosts", "inputs", "finding", "on", "for", "then", "risk", "approve", "cooldown",
        "attempts", "ineffective", "keep", "during", "threshold", "breaker", "notify",
    }  # fmt: skip
    assert all(key.about.endswith((".", "}.")) for key in RULE.values())


@every_row(
    ("text", "is_rule"),
    [
        (LEAST, True),
        (WHOLE, True),
        ("on: {every: 60s}\nthen: probe\n", True),
        ("name: x\ndiagnose: []\n", False),
        ("playbook: x\n", False),
        ("", False),
    ],
)
def test_a_rule_is_known_by_its_keys(text, is_rule):
    assert looks_like_rule(text) is is_rule


KEYS = st.sampled_from(
    [*RULE, "alert", "every", "cron", "count", "within", "hosts", "windows", "freeze", "zone", "by", "not"]
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6) | st.sampled_from(
    ["60s", "1h", "apply", "reads", "mon 08:00-18:00", "2026-12-24", "UTC", "* * * * *", "stuck", "requester"]
)  # fmt: skip
TREES = st.recursive(
    SCALARS, lambda it: st.lists(it, max_size=3) | st.dictionaries(KEYS, it, max_size=4), max_leaves=10
)


@settings(max_examples=200)
@given(st.dictionaries(KEYS, TREES, max_size=4))
def test_any_tree_as_a_rule_is_good_or_a_config_error(tree):
    whole = {"name": "stuck", "playbook": "p", "hosts": "all", "on": {"every": "60s"}, **tree}
    try:
        load_rule(yaml.safe_dump(whole, allow_unicode=True), "stuck.yaml")
    except ConfigError as error:
        assert all(each.line and each.message for each in error.problems)


@settings(max_examples=200)
@given(st.data())
def test_a_rule_with_anything_done_to_it_is_good_or_a_config_error(data):
    at = data.draw(st.integers(0, len(WHOLE)))
    until = min(len(WHOLE), at + data.draw(st.integers(0, 12)))
    text = WHOLE[:at] + data.draw(st.text(alphabet="{}[]:-&*!%|>'\" \n\tabz019._", max_size=6)) + WHOLE[until:]
    try:
        load_rule(text, "stuck-node.yaml")
    except ConfigError as error:
        assert all(each.line for each in error.problems)
