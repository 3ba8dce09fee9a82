"""The payload of Alertmanager gives names of hosts and times when alerts began; nothing else is taken from it."""

from __future__ import annotations

import string
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runbook.errors import ConfigError
from runbook.values.watch_rule import Rule, Sources
from runbook.watch.alerts import AlertSeen, hosts_named, payload
from tests.support.tables import every_row

BEGAN = 1_800_000_000.0
"""2027-01-15 08:00 UTC."""


def alert(**changes: Any) -> dict[str, Any]:
    """Return an alert as Alertmanager 0.27 sends it, with *changes*; a change to None takes a key away."""
    whole = {
        "status": "firing",
        "labels": {"alertname": "GpuStuck", "instance": "gpu-01:9100", "severity": "page"},
        "annotations": {"summary": "GPU 3 of gpu-01 is stuck"},
        "startsAt": "2027-01-15T08:00:00.123456789Z",
        "endsAt": "0001-01-01T00:00:00Z",
        "generatorURL": "http://prometheus:9090/graph?g0.expr=up",
        "fingerprint": "9a1b3c5d7e9f0a1b",
        **changes,
    }
    return {key: value for key, value in whole.items() if value is not None}


def webhook(*alerts: Any, **changes: Any) -> dict[str, Any]:
    """Return a payload of version 4 with *alerts*."""
    return {
        "version": "4", "groupKey": '{}:{alertname="GpuStuck"}', "truncatedAlerts": 0, "status": "firing",
        "receiver": "runbook", "groupLabels": {"alertname": "GpuStuck"}, "commonLabels": {}, "commonAnnotations": {},
        "externalURL": "http://alertmanager:9093", "alerts": list(alerts), **changes,
    }  # fmt: skip


def only(tree: Any) -> AlertSeen:
    """Return the only alert in *tree*, of which nothing is malformed."""
    read = payload(tree)
    assert (len(read.alerts), read.malformed) == (1, 0)
    return read.alerts[0]


def rules(*rules: Rule) -> dict[str, Rule]:
    """Return *rules* by their names."""
    return {rule.name: rule for rule in rules}


def rule(name: str = "stuck", **on: Any) -> Rule:
    """Return a rule that listens to *on*."""
    return Rule(name=name, playbook="p", hosts="all", on=Sources(**on))


def host_of(**labels: Any) -> str:
    """Return the host of an alert with *labels*."""
    seen = only(webhook(alert(labels={"alertname": "GpuStuck", **labels})))
    return next(host for _, host in hosts_named(seen, rules(rule(alert="GpuStuck"))))


def test_an_alert_is_read_whole():
    assert only(webhook(alert())) == AlertSeen(
        name="GpuStuck",
        labels={"alertname": "GpuStuck", "instance": "gpu-01:9100", "severity": "page"},
        fingerprint="9a1b3c5d7e9f0a1b",
        since=BEGAN + 0.123456,
        starts_at="2027-01-15T08:00:00.123456+00:00",
        firing=True,
    )


@every_row(
    ("text", "since"),
    [
        ("2027-01-15T08:00:00Z", BEGAN),
        ("2027-01-15T08:00:00.5Z", BEGAN + 0.5),
        ("2027-01-15T08:00:00.123456789Z", BEGAN + 0.123456),
        ("2027-01-15T08:00:00.999999999Z", BEGAN + 0.999999),
        ("2027-01-15T08:00:00.1234567Z", BEGAN + 0.123456),
        ("2027-01-15T09:00:00.123456789+01:00", BEGAN + 0.123456),
        ("2027-01-15T02:30:00-05:30", BEGAN),
    ],
)
def test_the_times_of_go_are_read_to_the_microsecond(text, since):
    """Mutant: ``_to_microseconds`` returns its text."""
    assert only(webhook(alert(startsAt=text))).since == since


def test_one_moment_is_one_episode_in_whatever_zone_it_is_written():
    """Mutant: an episode by the letters of its beginning."""
    written = ("2027-01-15T08:00:00Z", "2027-01-15T09:00:00+01:00", "2027-01-15T08:00:00.000Z")
    assert len({only(webhook(alert(startsAt=text))).episode for text in written}) == 1


def test_the_end_of_an_alert_has_the_episode_of_its_beginning():
    """Mutant: the episode without the time when it began, or with the time when it ended."""
    firing = only(webhook(alert()))
    resolved = only(webhook(alert(status="resolved", endsAt="2027-01-15T09:00:00Z"), status="resolved"))
    assert (firing.firing, resolved.firing) == (True, False)
    assert firing.episode == resolved.episode == "9a1b3c5d7e9f0a1b@2027-01-15T08:00:00.123456+00:00"
    assert only(webhook(alert(startsAt="2027-01-15T08:00:01Z"))).episode != firing.episode
    assert only(webhook(alert(fingerprint="0"))).episode != firing.episode


def test_a_group_of_alerts_that_fire_and_that_are_over_is_read_one_by_one():
    read = payload(webhook(alert(), alert(status="resolved", fingerprint="ab"), status="firing"))
    assert [each.firing for each in read.alerts] == [True, False]


@every_row(
    ("value", "truncated"),
    [(0, 0), (7, 7), (-1, 0), ("7", 0), (None, 0), (1.5, 0), ([], 0), (10**30, 10**9), (True, 0)],
)
def test_the_alerts_that_were_left_out_are_counted(value, truncated):
    assert payload(webhook(alert(), truncatedAlerts=value)).truncated == truncated


def test_a_payload_of_an_older_version_has_no_count_of_those_left_out():
    tree = webhook(alert())
    del tree["truncatedAlerts"]
    assert payload(tree).truncated == 0


@every_row(
    "tree", [None, 5, "alerts", [], [alert()], {}, {"alerts": None}, {"alerts": {}}, {"alerts": "x"}, {"Alerts": []}]
)
def test_something_else_is_no_payload(tree):
    with pytest.raises(ConfigError, match="not a payload of Alertmanager"):
        payload(tree)


def test_a_payload_with_too_many_alerts_is_refused():
    assert payload(webhook(*[alert()] * 10_000)).malformed == 0
    with pytest.raises(ConfigError, match=r"10001 alerts in one payload, and 10000 are the most: set max_alerts"):
        payload(webhook(*[alert()] * 10_001))


@every_row(
    "wrong",
    [
        None,
        5,
        "firing",
        [],
        {},
        alert(status=None),
        alert(status="suppressed"),
        alert(status="FIRING"),
        alert(status=["firing"]),
        alert(status={}),
        alert(labels=None),
        alert(labels=[]),
        alert(labels="alertname"),
        alert(fingerprint=None),
        alert(fingerprint=5),
        alert(fingerprint=""),
        alert(fingerprint="xyz"),
        alert(fingerprint="9A1B"),
        alert(fingerprint="ab\n"),
        alert(fingerprint="../../etc/passwd"),
        alert(fingerprint="a" * 65),
        alert(fingerprint="a@2027"),
        alert(startsAt=None),
        alert(startsAt=1_800_000_000),
        alert(startsAt=""),
        alert(startsAt="yesterday"),
        alert(startsAt="2027-01-15T08:00:00"),
        alert(startsAt="2027-13-15T08:00:00Z"),
        alert(startsAt="2027-01-15T08:00:00+99:00"),
        alert(startsAt="10000-01-15T08:00:00Z"),
        alert(startsAt="2027-01-15T08:00:00Z; rm -rf /"),
        alert(startsAt="２０２７-01-15T08:00:00Z"),
        alert(startsAt="2027-01-15\ud80008:00:00"),
        alert(startsAt="9" * 100_000),
        alert(startsAt="0001-01-01T00:00:00Z"),
        alert(startsAt="0001-01-01T00:00:00+23:59"),
        alert(startsAt="9999-12-31T23:59:59-23:59"),
    ],
)
def test_an_alert_that_cannot_be_read_is_counted_and_the_others_are_read(wrong):
    """Mutants: ``_alert`` without one of its checks."""
    read = payload(webhook(alert(), wrong, alert(fingerprint="0")))
    assert (len(read.alerts), read.malformed) == (2, 1)


@every_row(
    ("instance", "host"),
    [
        ("gpu-01", "gpu-01"),
        ("gpu-01:9100", "gpu-01"),
        ("gpu-01:1", "gpu-01"),
        ("gpu-01:65535", "gpu-01"),
        ("gpu-01.site:9400", "gpu-01.site"),
        ("10.0.0.1:9100", "10.0.0.1"),
        ("gpu-01:", "gpu-01:"),
        ("gpu-01:http", "gpu-01:http"),
        ("gpu-01:123456", "gpu-01:123456"),
        ("gpu-01:9100/metrics", "gpu-01:9100/metrics"),
        ("gpu-01:9100:9100", "gpu-01:9100:9100"),
        ("GPU-01", "GPU-01"),
        (" gpu-01 ", " gpu-01 "),
        ("gpu-*", "gpu-*"),
        ("all", "all"),
        ("gpu-01,gpu-02", "gpu-01,gpu-02"),
        ("gpu-0[1-9]", "gpu-0[1-9]"),
        ("$(reboot)", "$(reboot)"),
        ("gpu-01; reboot", "gpu-01; reboot"),
        ("-oProxyCommand=reboot", "-oProxyCommand=reboot"),
        ("../../etc/passwd", "../../etc/passwd"),
        ("<script>alert(1)</script>", "<script>alert(1)</script>"),
        ("{{ inputs.word }}", "{{ inputs.word }}"),
        ("gpu-01\n", "gpu-01\n"),
        ("gpu-01\0", "gpu-01\0"),
        ("", ""),
        ("gpü-01", "gpü-01"),
    ],
)
def test_the_host_is_named_by_the_label_as_it_is_but_for_a_port(instance, host):
    """Mutant: ``_PORT`` without its end, or with letters."""
    assert host_of(instance=instance) == host


def test_an_alert_without_the_label_names_no_host():
    assert host_of(node="gpu-01") == ""


def test_an_address_of_ipv6_is_a_host_of_its_own():
    assert host_of(instance="2001:db8::1") == "2001:db8::1"


def test_a_name_that_is_too_long_is_no_other_host():
    name = "gpu-" + "0" * 249
    assert host_of(instance=name) == name
    assert host_of(instance=name + "1") != name


def test_an_alert_whose_labels_are_no_texts_is_malformed():
    assert payload(webhook(alert(labels={"alertname": "GpuStuck", "instance": None}))).malformed == 1


def test_a_huge_name_stays_short():
    assert len(host_of(instance="a" * 1_000_000)) <= 253


def test_each_rule_that_listens_to_the_alert_gets_its_host_from_its_own_label():
    """Mutants: ``host_label`` is not looked at; a rule without an alert hears of an alert without a name."""
    seen = only(webhook(alert(labels={"alertname": "GpuStuck", "instance": "exporter:9100", "node": "gpu-01"})))
    listen = rules(
        rule("one", alert="GpuStuck"),
        rule("two", alert="GpuStuck", host_label="node"),
        rule("other", alert="GpuLost"),
        rule("clock", every=60.0),
    )
    assert [(each.name, host) for each, host in hosts_named(seen, listen)] == [("one", "exporter"), ("two", "gpu-01")]


@every_row("name", ["gpustuck", "GpuStuck ", "GpuStuck.*", ".*", "", "GpuStuckToo"])
def test_only_an_alert_of_the_very_name_is_heard(name):
    seen = only(webhook(alert(labels={"alertname": name, "instance": "gpu-01"})))
    assert list(hosts_named(seen, rules(rule(alert="GpuStuck"), rule("clock", every=60.0)))) == []


def test_an_alert_without_a_name_is_heard_by_nobody():
    seen = only(webhook(alert(labels={"instance": "gpu-01"})))
    assert list(hosts_named(seen, rules(rule(alert="GpuStuck"), rule("clock", every=60.0)))) == []


def test_nothing_of_an_alert_but_names_and_times_is_kept():
    seen = only(webhook(alert(annotations={"playbook": "rm", "command": "reboot"}, runbook="x", playbook="x")))
    assert "reboot" not in repr(seen)
    assert not hasattr(seen, "annotations")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda it: st.lists(it, max_size=3) | st.dictionaries(st.text(max_size=5), it, max_size=3),
    max_leaves=8,
)


@settings(max_examples=200)
@given(st.dictionaries(st.sampled_from(list(alert())), JSON, max_size=3), JSON)
def test_whatever_an_alert_has_it_is_read_or_malformed(changes, labels):
    read = payload(webhook({**alert(), **changes}, {**alert(), "labels": labels}, alert()))
    assert len(read.alerts) + read.malformed == 3
    assert all(isinstance(each.since, float) for each in read.alerts)


@settings(max_examples=200)
@given(st.text(alphabet=string.digits + "-:.TZ+ ２é", max_size=80))
def test_any_text_as_a_time_is_a_time_or_malformed(text):
    read = payload(webhook(alert(startsAt=text)))
    assert len(read.alerts) + read.malformed == 1
