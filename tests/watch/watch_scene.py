"""A watcher as a thread over toy hosts of this machine: a fault of a host is a file, which a run removes."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from runbook.commands.options import Choosing, Recording
from runbook.commands.watch.event_store import EventStore, watch_folder
from runbook.commands.watch.known import Known
from runbook.commands.watch.options import ServeOptions
from runbook.commands.watch.rule_files import read_rules
from runbook.commands.watch.watcher import Watcher
from runbook.values.types import Json
from runbook.watch.alerts import payload
from runbook.watch.events import WatchEvent
from tests.support.program import PROGRAM

TOY = """\
name: toy
about: A toy whose fault is a file.
inputs:
  place: {about: The directory of the faults., type: string, required: true}
  takes: {about: The seconds that a cure takes., type: number, default: 0}
diagnose:
  - {id: mark, name: The fault, command: {script: 'cat "$1.fault" 2>/dev/null || echo none', params: ["{{ inputs.place }}/{{ host.name }}"]}}
findings:
  - {id: faulty, when: "'none' not in mark.stdout", severity: error, settle: 0s, say: "{{ host.name }} has a fault: {{ mark.stdout }}", advise: [Remove it.]}
remediate:
  - id: cure
    name: Remove the fault
    for: faulty
    timeout: 60s
    command:
      check: {params: ["{{ inputs.place }}/{{ host.name }}"], script: 'test ! -e "$1.fault"'}
      do:
        params: ["{{ inputs.place }}/{{ host.name }}", "{{ inputs.takes | string }}"]
        script: 'echo "$(date +%s.%N)" >>"$1.runs"; sleep "$2"; rm -f "$1.fault"'
"""

RULE = """\
name: toy
about: Remove faults.
playbook: PLACE/toy.yaml
hosts: all
inputs: {place: PLACE/marks}
finding: faulty
on: {alert: HostFaulty, every: 10s}
then: propose
"""


@dataclass
class WatchScene:
    """Toy hosts, a rule, and a watcher."""

    folder: Path
    hosts: tuple[str, ...] = ("a1", "a2")
    keys: dict[str, str] = field(default_factory=dict)
    """Lines of the rule in place of those of RULE, by their key; empty: left out."""
    watcher: Watcher | None = None
    said: list[str] = field(default_factory=list)
    """The troubles that the watcher has told."""

    def made(self) -> WatchScene:
        for name in ("marks", "watch", "locks"):
            (self.folder / name).mkdir()
        (self.folder / "toy.yaml").write_text(TOY)
        rows = [f"  {name}: {{transport: local}}" for name in self.hosts]
        (self.folder / "hosts.yaml").write_text("\n".join(["hosts:", *rows, ""]))
        lines = {line.partition(":")[0]: line for line in RULE.replace("PLACE", str(self.folder)).splitlines()}
        lines |= {key: f"{key}: {value}" if value else "" for key, value in self.keys.items()}
        self.rule_file.write_text("\n".join(filter(None, lines.values())) + "\n")
        return self

    @property
    def rule_file(self) -> Path:
        return self.folder / "watch/toy.yaml"

    @property
    def options(self) -> ServeOptions:
        return ServeOptions(
            rules=(str(self.folder / "watch"),),
            state=str(self.folder / "state"),
            choosing=Choosing(inventory=(str(self.folder / "hosts.yaml"),)),
            recording=Recording(records=str(self.folder / "records")),
        )

    def start(self) -> Watcher:
        options = self.options
        self.watcher = Watcher(read_rules(options.rules), watch_folder(options.state), options, self.said.append)
        self.watcher.start()
        return self.watcher

    def end(self) -> None:
        if self.watcher:
            self.watcher.end()

    def process(self) -> subprocess.Popen[bytes]:
        """Start a watcher as a program of its own."""
        options = self.options
        words = ("--rules", options.rules[0], "--state", options.state, "-i", options.choosing.inventory[0],
                 "--records", options.recording.records or "")  # fmt: skip
        environment = {**os.environ, "XDG_STATE_HOME": str(self.folder / "home")}
        with (self.folder / "watch.log").open("ab") as log:
            return subprocess.Popen(
                [*PROGRAM, "watch", "run", *words], env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def store(self, *events: WatchEvent) -> None:
        """Append events as a webhook in another process does."""
        store = EventStore(watch_folder(self.options.state))
        store.append(*events)
        store.close()

    def break_host(self, host: str, fault: str = "broken") -> None:
        (self.folder / f"marks/{host}.fault").write_text(f"{fault}\n")

    def is_broken(self, host: str) -> bool:
        return (self.folder / f"marks/{host}.fault").exists()

    def runs(self, host: str) -> int:
        """Return how often a run has changed *host*, counted there."""
        file = self.folder / f"marks/{host}.runs"
        return len(file.read_text().splitlines()) if file.exists() else 0

    def alert(self, host: str, *, starts: str = "2026-11-01T10:00:00Z", firing: bool = True, **labels: str) -> None:
        assert self.watcher
        self.watcher.heard(payload(alerts((host, starts, firing), **labels)))

    def events(self, *kinds: type) -> list[WatchEvent]:
        """Return the stored events of *kinds*, or all."""
        store = EventStore(watch_folder(self.options.state))
        try:
            return [each.event for each in store.since(0) if not kinds or isinstance(each.event, kinds)]
        finally:
            store.close()

    def known(self, ask: Callable[[Known], object]) -> object:
        assert self.watcher
        with self.watcher.lock:
            return ask(self.watcher.known)

    def approve(self, by: str = "bob") -> None:
        """Approve the only plan that waits."""

        def word(known: Known) -> None:
            (plan,) = known.proposals()
            known.approve(plan.digest, by, time.time())

        self.known(word)


def alerts(*seen: tuple[str, str, bool], **labels: str) -> Json:
    """Return a payload of Alertmanager with an alert for each host, its start, and whether it fires."""
    return {
        "version": "4",
        "status": "firing",
        "alerts": [
            {
                "status": "firing" if firing else "resolved",
                "labels": {"alertname": "HostFaulty", "instance": f"{host}:9100", **labels},
                "startsAt": starts,
                "fingerprint": f"{sum(map(ord, host)):016x}",
            }
            for host, starts, firing in seen
        ],
    }
