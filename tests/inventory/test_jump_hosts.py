"""``ssh_proxy`` names the host of the inventory that leads to another."""

from __future__ import annotations

from tests.support.parse_text import inventory, mistakes


def test_a_host_is_led_to_by_the_one_that_it_names_whatever_its_status_and_its_file():
    gate = "hosts:\n  gate: {ssh_host: 10.0.0.1, ssh_user: hop, status: proxy_only, ssh_proxy: outer}"
    rest = "hosts:\n  inner: {ssh_host: 10.0.1.1, ssh_proxy: gate}\n  outer: {ssh_host: 10.0.0.9}\n  plain: {ssh_proxy: null}"
    inner, outer, plain = inventory(rest, gate).hosts[:3]
    assert inner.via
    assert (inner.via.name, inner.via.user) == ("gate", "hop")
    assert inner.via.via
    assert inner.via.via.addresses == outer.addresses
    assert plain.via is None


def test_a_name_that_is_no_host_and_a_circle_are_mistakes_with_their_places():
    text = "hosts:\n  a: {ssh_proxy: b}\n  b: {ssh_proxy: a}\n  gate: {}\n  c: {ssh_proxy: gat}\n  d: {ssh_proxy: d}"
    found = [str(it) for it in mistakes(text)]
    assert found == [
        "a.yaml:2:7: a: ssh_proxy forms a loop: a via b via a",
        "a.yaml:3:7: b: ssh_proxy forms a loop: b via a via b",
        "a.yaml:5:7: c: ssh_proxy: no host of the inventory is called gat (did you mean gate?)",
        "a.yaml:6:7: d: ssh_proxy forms a loop: d via d",
    ]
