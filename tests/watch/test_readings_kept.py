"""The readings of a probe of all hosts that are stored: those that say something new, or about which something is decided."""

from __future__ import annotations

from dataclasses import replace

from runbook.commands.watch.event_store import watch_folder
from runbook.commands.watch.rule_files import read_rules
from runbook.commands.watch.watcher import Watcher
from runbook.values.plan import Presence
from runbook.watch.events import Alerted, Probed, Reading, Started
from tests.watch.watch_scene import WatchScene

NOW = 1_800_000_000.0
HOSTS = ("a1", "a2", "a3")


def readings(**found: str) -> Probed:
    made = (Reading(host=host, presence=Presence(found.get(host, "absent")), changes=1) for host in HOSTS)
    return Probed(at=NOW, rule="toy", readings=tuple(made))


def test_a_host_that_stays_as_it_was_is_stored_once(tmp_path):
    """Mutants: readings of unknown hosts that are stored at each probe; of hosts that were well before, too; and each
    condition left out.
    """
    scene = WatchScene(tmp_path, hosts=HOSTS).made()
    watcher = Watcher(read_rules(scene.options.rules), watch_folder(scene.options.state), scene.options, lambda _: None)

    def kept(event: Probed) -> str:
        stored = watcher._sparing(event)
        watcher.known.append(stored)
        return " ".join(f"{each.host}:{each.presence}" for each in stored.readings)

    watcher.known.append(Started(at=NOW))
    assert kept(readings()) == ""
    assert kept(readings(a1="unknown", a2="present")) == "a1:unknown a2:present"
    assert kept(readings(a1="unknown", a2="present")) == "a2:present"
    assert kept(readings()) == "a1:absent a2:absent"
    assert kept(readings()) == ""
    assert kept(readings(a3="unknown")) == "a3:unknown"
    watcher.known.append(Alerted(at=NOW, rule="toy", host="a3", episode="1", since=NOW, firing=True))
    assert kept(readings(a3="unknown")) == "a3:unknown"
    watcher.known.append(Started(at=NOW))
    assert kept(readings()) == "a1:absent a2:absent a3:absent"
    part = replace(readings(), whole=False)
    assert watcher._sparing(part) == part
    watcher.known.close()
