"""The programs of the watcher: their arguments, what they leave behind, and what a faulty one leads to."""

from __future__ import annotations

import os
import time

from runbook.commands.watch.event_store import KEPT_DAYS, watch_folder
from runbook.commands.watch.options import ServeOptions
from runbook.commands.watch.programs import LONGEST_ARGUMENT, Programs, _pattern
from runbook.inventory.host_patterns import select
from runbook.values.inventory import Host, Inventory
from runbook.values.plan import Presence
from tests.support.waiting import until
from tests.watch.watch_scene import WatchScene


def test_ten_thousand_hosts_fit_into_one_argument_and_are_the_same_hosts():
    """Mutant: names that are not folded."""
    names = tuple(f"gpu-rack-{number:06}.cluster.example.com" for number in range(10_000))
    pattern = _pattern(names)
    assert len(pattern) < LONGEST_ARGUMENT
    inventory = Inventory(hosts=tuple(Host(name=name) for name in names))
    assert tuple(host.name for host in select(inventory, pattern, False).hosts) == names
    assert _pattern(names[:3]) == ",".join(names[:3])


def test_old_plans_and_outputs_are_removed_and_young_ones_stay(tmp_path):
    programs = Programs(watch_folder(str(tmp_path / "state")), ServeOptions(), lambda event: None)
    old = time.time() - (KEPT_DAYS + 1) * 86400
    for folder, ending in (("plans", "json"), ("outputs", "jsonl")):
        for name, at in (("old", old), ("young", time.time())):
            file = tmp_path / "state" / folder / f"{name}.{ending}"
            file.write_text("{}")
            os.utime(file, (at, at))
    programs.prune(time.time())
    left = sorted(each.name for each in (tmp_path / "state").rglob("*.json*"))
    assert left == ["young.json", "young.jsonl"]


def test_a_fault_of_our_own_is_an_answer_too(tmp_path, monkeypatch):
    """Mutant: a thread that dies without a word, so that its hosts are never asked again."""
    scene = WatchScene(tmp_path).made()
    heard = []
    programs = Programs(watch_folder(scene.options.state), scene.options, heard.append)

    def broken(*given, **named):
        raise RuntimeError("a fault")

    monkeypatch.setattr(programs, "_output", broken)
    from runbook.commands.watch.rule_files import read_rules

    (rule,) = read_rules(scene.options.rules)
    programs.probe(rule, ("a1", "a2"), whole=True)
    until(lambda: heard)
    assert [(each.host, each.presence, "a fault" in each.say) for each in heard[0].readings] == [
        ("a1", Presence.UNKNOWN, True),
        ("a2", Presence.UNKNOWN, True),
    ]
