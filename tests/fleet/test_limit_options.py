"""The limits of a playbook and of a command line together: the stricter one holds; and the order of hosts.

Mutants: limit_options.py taking the larger share, the shorter pause, the playbook's order; batches compared by number of
batches, not of hosts; a percentage compared with a number as if both were numbers.
"""

from __future__ import annotations

import pytest

from runbook.commands.limit_options import ordered, problems_with_variables, stricter
from runbook.errors import ConfigError
from runbook.execution.fleet.bounds import Bounds
from runbook.language.loader import load_playbook
from runbook.values.inventory import Host
from runbook.values.limit_options import LimitOptions
from runbook.values.playbook import HostOrder, Limits
from tests.support.tables import every_row
from tests.support.toy_actions import ACTIONS

HOSTS = [Host(name=name, vars={"rack": "r1", "where": {"row": 1}}) for name in ("b", "a10", "a9", "c")]


def limits(text: str) -> Limits:
    return load_playbook(f"name: toy\nlimits: {{{text}}}\n", "toy.yaml", ACTIONS).limits


@every_row(
    ("written", "options", "total", "holds"),
    [
        ("max_unavailable: 3", {"max_unavailable": "25%"}, 8, {"max_unavailable": 2}),
        ("max_unavailable: 3", {"max_unavailable": "25%"}, 40, {"max_unavailable": 3}),
        ("max_unavailable: 3", {"max_unavailable": "5"}, 40, {"max_unavailable": 3}),
        ("", {"max_unavailable": "2"}, 40, {"max_unavailable": 2}),
        ("stop_after: 10%", {"stop_after": "3"}, 20, {"stop_after": 2}),
        ("stop_after: 10%", {"stop_after": "3"}, 50, {"stop_after": 3}),
        ("stop_after: 10%", {}, 50, {"stop_after": 5}),
        ("batches: [1, 100%], pause_between: 10s", {"pause_between": "3s"}, 9, {"pause_between": 10.0}),
        ("batches: [1, 100%], pause_between: 10s", {"pause_between": "1m"}, 9, {"pause_between": 60.0}),
        ("batches: [2, 10%, 100%]", {"batches": "1, 50%"}, 40, {"batches": (1, 4, 20)}),
        ("batches: [2]", {"batches": "1,3,5"}, 40, {"batches": (1, 2, 2)}),
        ("", {"batches": "1,100%", "pause_between": "1s"}, 4, {"batches": (1, 4), "pause_between": 1.0}),
    ],
)
def test_the_stricter_limit_holds(written, options, total, holds):
    made = Bounds.of(
        stricter(limits(written), LimitOptions(**options), total), [Host(name=f"h{it}") for it in range(total)]
    )
    assert {key: getattr(made, key) for key in holds} == holds


def test_the_shorter_deadline_of_a_host_holds_and_the_order_of_the_command_line():
    made = stricter(limits("host_deadline: 5m, order: sorted"), LimitOptions(host_deadline="1m", order="inventory"), 4)
    assert (made.host_deadline, made.order) == (60.0, HostOrder.INVENTORY)
    assert (
        stricter(limits("host_deadline: 5m, order: sorted"), LimitOptions(host_deadline="1h"), 4).host_deadline == 300.0
    )
    assert stricter(limits("order: sorted"), LimitOptions(order=None), 4).order is HostOrder.SORTED


@every_row(
    ("order", "names"),
    [
        ("inventory", ["b", "a10", "a9", "c"]),
        ("reverse_inventory", ["c", "a9", "a10", "b"]),
        ("sorted", ["a10", "a9", "b", "c"]),
        ("reverse_sorted", ["c", "b", "a9", "a10"]),
        ("shuffle", ["a9", "c", "b", "a10"]),
    ],
)
def test_hosts_are_taken_in_the_order_that_was_asked_for(order, names):
    def shuffle(hosts):
        hosts[:] = [hosts[2], hosts[3], hosts[0], hosts[1]]

    assert [it.name for it in ordered(HOSTS, HostOrder(order), shuffle)] == names
    assert [it.name for it in HOSTS] == ["b", "a10", "a9", "c"]


@every_row(
    ("variable", "words"),
    [
        (
            "rakc",
            "toy.yaml:2:31: max_concurrent_per: none of the selected hosts has a variable 'rakc' (did you mean rack?)",
        ),
        (
            "where.rwo",
            "toy.yaml:2:31: max_concurrent_per: none of the selected hosts has a variable 'where.rwo' (did you mean where.row?)",
        ),
        ("rack", ""),
        ("where.row", ""),
        ("name", ""),
    ],
)
def test_a_variable_that_no_selected_host_has_is_a_mistake(variable, words):
    found = problems_with_variables(limits(f"max_concurrent_per: {{{variable}: 1}}"), HOSTS)
    assert [str(it) for it in found] == ([words] if words else [])


@every_row(
    ("options", "words"),
    [
        ({"max_unavailable": "0"}, "--max-unavailable: '0' is not a share"),
        ({"stop_after": "some"}, "--stop-after: 'some' is not a share"),
        ({"batches": "1,,2"}, "--batches: '' is not a share"),
        ({"host_deadline": "0s"}, "--host-deadline: '0s' is too short"),
        ({"pause_between": "soon"}, "--pause-between: 'soon' is not a duration"),
        ({"pause_between": "3s"}, "--pause-between: there are no batches (give --batches 1,100%)"),
    ],
)
def test_mistakes_on_the_command_line_are_named(options, words):
    with pytest.raises(ConfigError) as caught:
        stricter(Limits(), LimitOptions(**options), 4)
    assert words in str(caught.value)


@every_row(
    ("text", "words"),
    [
        ("max_unavailable: 0", "max_unavailable: 0 is not a share of the hosts"),
        ("max_unavailable: 101%", "101%"),
        ("max_concurrent_per: {rack: 0}", "rack: 0 is below 1"),
        ("max_concurrent_per: {rack: 10%}", "expected a whole number"),
        ("max_concurrent_per: [rack]", "expected a mapping, got a list"),
        ("order: random", "'random' is not allowed; use one of: inventory, reverse_inventory, sorted"),
        ("pause_between: 1m", "pause_between: there are no batches"),
        ("host_deadline: 0", "0 is too short"),
        ("throttle: 2", "write `limits: {max_concurrent_per: {VARIABLE: 1}}`"),
        ("any_errors_fatal: true", "write `limits: {stop_after: 1}`"),
    ],
)
def test_mistakes_with_limits_are_named(text, words):
    with pytest.raises(ConfigError) as caught:
        limits(text)
    assert words in str(caught.value)
