"""Run the diagnoses of the library on hosts, each once, and name the playbook to continue with."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from runbook.codec import to_json
from runbook.commands.history.recording import recording_of
from runbook.commands.input_files import (
    KnownPlaybooks,
    known_playbooks,
    library,
    playbook_files,
)
from runbook.commands.joined_playbooks import Conclusion, concluded, joined, prefix_of
from runbook.commands.one_run import Run
from runbook.commands.options import FleetOptions, GivenInputs
from runbook.commands.order import Order
from runbook.commands.rests_on import origin_of
from runbook.commands.secret_masking import SecretMasking, secrets_on_command_line
from runbook.commands.sources import inventory_for, profile_inputs_for, selected
from runbook.commands.step_resolution import without_scratch
from runbook.commands.workspace import Person, order_for, with_secrets_resolved
from runbook.dataclass import dataclass
from runbook.errors import ConfigError
from runbook.execution.fleet import Cancellation
from runbook.language.includes import inputs_of_parts
from runbook.plugins import discover
from runbook.secret_sources.resolution import problems_with_references
from runbook.text.printable import printable
from runbook.values.inventory import LeftOut
from runbook.values.playbook import Playbook
from runbook.values.result import Verdict
from runbook.values.types import plural

ORDER = (
    *("gpu-hang", "gpu-lost", "container-lost-gpu", "docker-recover", "nfs-hang", "host-oom", "disk-full", "shm-full"),
    *("fabric-manager", "nvlink", "ib-link", "gpu-row-remap", "driver-mismatch", "gpu-xid", "gpu-reset", "zombie-gpu"),
    *("mig-layout", "gpu-throttle", "time-sync", "gpu-health"),
)
"""Playbooks of the library that diagnose a host; those with the most exact knowledge of a fault come first.

A playbook about a job, a cluster or a container is not here: it needs a name, and is run by its own.
"""

MOST = 3
"""The maximum number of further findings that are shown for a host."""


def lines_of(conclusions: Sequence[Conclusion]) -> Iterator[str]:
    """Yield at most four lines for each host: its state, the next command, and further findings."""
    for each in sorted(conclusions, key=lambda it: list(Verdict).index(it.verdict)):
        if each.cause is None:
            yield f"{each.host}: {each.verdict}" + (f": {each.why}" if each.why else "")
            continue
        yield f"{each.host}: {each.cause.say} ({each.cause.playbook})"
        yield f"  next: {each.cause.next}"
        if each.also:
            names = dict.fromkeys(also.playbook for also in each.also if also.playbook != each.cause.playbook)
            yield f"  also: {'; '.join(also.say for also in each.also[:MOST])}"
            if names:
                yield f"  by: {', '.join(names)}"


OURS = frozenset({"monitor"})
"""The playbooks that have a command of their own."""


def diagnose_hosts(options: FleetOptions, person: Person) -> int:
    """Diagnose hosts with every playbook that needs no input.  Returns the exit code."""
    with SecretMasking(lambda: secrets_on_command_line("", options.choosing.inventory)) as hiding:
        found = diagnosis(options, person, hiding)
    _show(found.conclusions, options.output.output)
    if options.output.output == "console" and found.not_asked:
        names = ", ".join(found.not_asked)
        person.say(f"not asked; run these by name for a job, a cluster, a container or a disk: {names}")
    return found.exit_code


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The conclusions about all hosts, and the run that they are from."""

    run: str
    exit_code: int
    conclusions: tuple[Conclusion, ...]
    left_out: tuple[LeftOut, ...]
    not_asked: tuple[str, ...]
    """The playbooks that find errors but were not used here; they must be run by name."""


def diagnosis(
    options: FleetOptions, person: Person, hiding: SecretMasking, narrowed: Callable[[Order], Order] = lambda it: it
) -> Diagnosis:
    """Probe hosts with every playbook that needs no input.

    *narrowed* returns the order as it may be carried out.  Raises ConfigError.
    """
    known = known_playbooks(discover())
    books = playbooks_of_a_host(known)
    order = order_of(books, options, person)
    order = with_secrets_resolved(narrowed(order), hiding, changes=False)
    order = replace(order, origin=order.origin or origin_of(order, "diagnose"))
    stop, recording = Cancellation(), options.recording
    person.can_stop(stop)
    for name, why in known.faulty.items():
        person.say(f"not asked: {name}: {why}")
    if options.output.output == "console":
        hosts = plural(len(order.selection.hosts), "host")
        person.say(f"asking {hosts} what {plural(len(books), 'playbook')} would ask")
    run = Run(order, (), stop, lambda name: recording_of(name, recording, person.say, changing=False))
    hiding.learn(run.secrets)
    code, results = run.probed()
    where = "".join(f" -i {shlex.quote(path)}" for path in options.choosing.inventory)
    return Diagnosis(
        run=run.id,
        exit_code=code,
        conclusions=tuple(concluded(result, books, where) for result in results),
        left_out=order.selection.left_out,
        not_asked=tuple(_not_asked(known, books)),
    )


def order_of(books: Mapping[str, Playbook], options: FleetOptions, person: Person) -> Order:
    """Return the order for one run of all *books*.  Raises ConfigError."""
    whole = joined(books)
    pattern = options.choosing.hosts
    inventory = inventory_for(options.choosing, pattern or "")
    if pattern is None or not pattern.strip():
        raise ConfigError("no hosts: name them with --hosts PATTERN (--hosts all for all)")
    chosen = selected(inventory, pattern, options.choosing, options.recording.records)
    if problems := problems_with_references(whole, inventory, chosen.hosts):
        raise ConfigError(*problems)
    parts = inputs_of_parts(whole, {})
    whole = without_scratch(whole)
    return order_for(
        whole,
        options,
        person,
        parts=parts,
        profile_inputs=profile_inputs_for(GivenInputs(), whole, inventory, chosen),
        inventory=inventory,
        selection=chosen,
    )


def _not_asked(known: KnownPlaybooks, books: Mapping[str, Playbook]) -> list[str]:
    """Return the names of the playbooks that find errors but were not used here; they must be run by name."""
    asked = {book.name for book in books.values()} | OURS
    others = (book for name, book in known.usable.items() if name not in asked)
    return [book.name for book in others if any(rule.severity.drives for rule in book.findings)]


def playbooks_of_a_host(known: KnownPlaybooks) -> dict[str, Playbook]:
    """Return the playbooks that need no input, keyed by the prefix of their ids; the user's own first."""
    own = [path.stem for path in playbook_files() if path.resolve().parent != library().resolve()]
    names = [*(name for name in own if name not in ORDER), *ORDER]
    return {prefix_of(name): book for name in names if (book := known.usable.get(name)) and _can_be_asked(book)}


def _can_be_asked(book: Playbook) -> bool:
    required = any(declared.required for declared in book.inputs)
    return bool(book.findings) and book.name not in OURS and not (required or book.secrets)


def _show(conclusions: Sequence[Conclusion], output: str) -> None:
    if output == "json":
        print(json.dumps({"format": 1, "hosts": [to_json(each) for each in conclusions]}, indent=1))
        return
    for line in lines_of(conclusions):
        sys.stdout.write(f"{printable(line)}\n")
