"""The command ``runbook monitor``: probe hosts repeatedly, and show their state as a table."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import field, replace

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from runbook.codec import UNKNOWN
from runbook.commands.input_files import (
    find_playbook,
    read_inputs,
    read_playbook,
)
from runbook.commands.one_run import Run
from runbook.commands.options import FleetOptions, GivenInputs
from runbook.commands.order import Order
from runbook.commands.secret_masking import SecretMasking, secrets_on_command_line
from runbook.commands.sources import inventory_for, profile_inputs_for, selected
from runbook.commands.workspace import Person, order_for, with_secrets_resolved
from runbook.dataclass import dataclass
from runbook.errors import ConfigError, Problem, TransportError
from runbook.execution.fleet import Cancellation, Fleet
from runbook.language.includes import inputs_of_parts
from runbook.plugins import discover
from runbook.protocols import Connection
from runbook.reporting.outputs import outputs_for
from runbook.reporting.reporters.console.terminal import SEVERITY_STYLES, can_redraw, terminal_size
from runbook.reporting.wording.host_digest import host_digest
from runbook.reporting.wording.step_lines import grouped
from runbook.secret_sources.resolution import problems_with_references
from runbook.text.name_ranges import fold
from runbook.text.printable import printable
from runbook.values.command import Command, Completed
from runbook.values.inventory import Host
from runbook.values.plan import Presence
from runbook.values.playbook import Playbook, Severity, Step
from runbook.values.result import HostResult, Status, StepResult
from runbook.values.types import Json, plural
from runbook.values.units import duration

LATE = 3.0
"""Seconds after which a probe that has not ended is shown as waiting."""
WIDEST = 10_000
"""The columns of a line if no terminal limits them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostView:
    """The last result of a host; times are seconds on the monotonic clock."""

    host: str
    result: HostResult | None = None
    at: float = 0.0
    since: float = 0.0
    """The start time of a probe that still runs; 0: no probe runs."""


def view(book: Playbook, sights: Sequence[HostView], console: Console, height: int = 0) -> Group:
    """Return the table, and the findings below it; at most *height* lines (0: no limit)."""
    room = height - len(sights) - 2
    if height and room < -1:
        shown = sights[: max(0, height - 2)]
        return Group(_table(book, shown, console), line(f"... and {len(sights) - len(shown)} more hosts"))
    found = _notes(book, sights)
    whole = not height or sum(map(len, found)) <= room
    notes = [text for texts in found for text in (texts if whole else texts[:1])]
    if height and len(notes) > room:
        notes = [*notes[: room - 1], line(f"... and {len(notes) - room + 1} more")] if room > 0 else []
    return Group(_table(book, sights, console), *([Text(), *notes] if notes else []))


def _table(book: Playbook, sights: Sequence[HostView], console: Console) -> Table:
    """Return a table with one row for each host; if *console* is too narrow, printing cuts columns off at the right."""
    table, now = Table(box=None, pad_edge=False), time.monotonic()
    for name in ("host", *(step.id.removeprefix(f"{step.part}_") for step in _columns(book)), "seen"):
        table.add_column(Text(name), no_wrap=True)
    for sight in sights:
        table.add_row(Text(sight.host), *_cells(book, sight), _age(sight, now))
    table.width = console.measure(table, options=console.options.update(width=WIDEST)).maximum
    return table


def line(text: str, style: str = "") -> Text:
    """Return *text* as one line, which is cut if it is too long."""
    return Text(printable(text), style, no_wrap=True, overflow="ellipsis")


def _columns(book: Playbook) -> list[Step]:
    """Return the probes that a cell of the table can summarise.

    For other probes, only findings are shown, below the table.
    """
    return [step for step in book.diagnose if step.action in WORDS]


def _age(sight: HostView, now: float) -> Text:
    waits = now - sight.since if sight.since else 0.0
    if sight.result is None:
        return Text(f"waiting {waits:.0f} s" if waits >= LATE else "...", "dim")
    if waits >= LATE:
        return Text(f"{now - sight.at:.0f} s ago, waiting {waits:.0f} s", "dim")
    return Text(f"{now - sight.at:.0f} s ago", "dim")


def _cells(book: Playbook, sight: HostView) -> list[Text]:
    if sight.result is None:
        return [Text() for _ in _columns(book)]
    steps = {step.id: step for step in sight.result.steps}
    styles = _styles(book, sight.result)
    return [_cell(steps.get(column.id), styles.get(column.id, "")) for column in _columns(book)]


def _cell(step: StepResult | None, style: str) -> Text:
    if step is None or step.status is Status.UNREACHABLE:
        return Text("down" if step else "?", SEVERITY_STYLES[Severity.ERROR])
    if step.status is Status.SKIPPED:
        return Text("-", "dim")
    if step.status is not Status.OK:
        return Text("?", SEVERITY_STYLES[Severity.WARNING])
    return Text(printable(WORDS[step.action](step.state)), style)


def _styles(book: Playbook, result: HostResult) -> dict[str, str]:
    """Return the style of each probe, which is the style of its worst present finding."""
    probes, order = {rule.id: rule.probes for rule in book.findings}, list(Severity)
    there = [finding for finding in result.findings if finding.status is Presence.PRESENT]
    worst_last = sorted(there, key=lambda finding: order.index(finding.severity))
    return {probe: SEVERITY_STYLES[finding.severity] for finding in worst_last for probe in probes.get(finding.id, ())}


@dataclass(frozen=True, slots=True)
class Note:
    """A finding on hosts, or an unknown fact about them, with advice for a person."""

    rank: int
    """The rank of the note; a smaller rank is worse."""
    text: str
    action: str
    style: str


def _notes(book: Playbook, sights: Sequence[HostView]) -> list[list[Text]]:
    """Return the lines about findings and unknown facts, the worst first, each with advice.

    Hosts with the same note share a line.
    """
    seen = ((sight.host, sight.result) for sight in sights if sight.result)
    hosts = grouped((note, host) for host, result in seen for note in _of_host(book, result))
    return [
        [
            line(f"{fold(hosts[note])}: {note.text}", note.style),
            *([line(f"  next: {note.action}")] if note.action else []),
        ]
        for note in sorted(hosts, key=lambda note: note.rank)
    ]


def _of_host(book: Playbook, result: HostResult) -> Iterator[Note]:
    digest = host_digest(result)
    if result.error:
        action = digest.next_line.removeprefix("next: ")
        yield Note(-9, f"{result.verdict}: {result.error}", action, SEVERITY_STYLES[Severity.ERROR])
        return
    if digest.is_well and digest.cause:
        yield Note(0, f"{result.verdict}: {digest.cause.text}", "", "")
    probes, order = {rule.id: set(rule.probes) for rule in book.findings}, list(Severity)
    there = [*digest.errors, *digest.warnings]
    named = {step.id for step in book.diagnose}
    blind = [
        step for step in result.steps if step.id in named and (step.status.is_failure or step.status is Status.BLOCKED)
    ]
    unseen = {step_result.id for step_result in blind}
    for finding in there:
        if not probes.get(finding.id) or not probes[finding.id] <= unseen:
            yield Note(
                -order.index(finding.severity),
                str(finding.say),
                next(iter(finding.advise), ""),
                SEVERITY_STYLES[finding.severity],
            )
    for step in blind:
        about = [each for each in there if probes.get(each.id) == {step.id}]
        action = next((each.advise[0] for each in about if each.advise), "")
        yield Note(-1, f"{step.id} is unknown: {step.why}", action, SEVERITY_STYLES[Severity.WARNING])


def _known(value: Json) -> Json:
    """Return *value*; None if it is unknown."""
    return None if isinstance(value, Mapping) and UNKNOWN in value else value


def _percent(value: Json) -> str:
    known = _known(value)
    return f"{known:.0f}%" if isinstance(known, int | float) else "?"


def _memory(state: Mapping[str, Json]) -> str:
    total = _known(state.get("total"))
    size = f" of {total / 2**30:.0f}G" if isinstance(total, int) else ""
    return _percent(state.get("percent")) + size


def _gpus(state: Mapping[str, Json]) -> str:
    gpus = state.get("gpus")
    if not isinstance(gpus, list):
        return "?"
    reported = []
    for gpu in gpus:
        assert isinstance(gpu, Mapping)
        used, total = _known(gpu.get("memory_used")), _known(gpu.get("memory_total"))
        share = (
            used / total * 100 if isinstance(used, int | float) and isinstance(total, int | float) and total else None
        )
        reported.append(f"{_percent(gpu.get('utilization'))}/{_percent(share)}")
    if len(reported) > 4:
        reported = [*reported[:3], f"+{len(reported) - 3}"]
    return " ".join(reported) or "none"


_OF_THE_KERNEL = (
    ("oom", "killed"), ("xids", "Xid"), ("gpu_faults", "GPU fault"), ("panics", "oops"),
    ("hardware_errors", "HW error"), ("lockups", "hang"), ("io_errors", "I/O error"),
)  # fmt: skip
"""The fields of the kernel log's State, and the word for each in a cell."""


def _kernel(state: Mapping[str, Json]) -> str:
    """Return the number of kernel messages of each kind; ``?`` if there are none and a kind is unknown."""
    found = [(_known(state.get(field, [])), word) for field, word in _OF_THE_KERNEL]
    counts = [f"{len(messages)} {word}" for messages, word in found if isinstance(messages, list) and messages]
    if counts:
        return ", ".join(counts)
    return "none" if all(isinstance(messages, list) for messages, _ in found) else "?"


def _containers(state: Mapping[str, Json]) -> str:
    """Return the number of containers that are running, restarting, failed or paused.

    A container that ended well, or never started, is not counted.
    """
    found = _known(state.get("containers"))
    if not isinstance(found, list):
        return "?"
    kinds = [_fate(each, state) for each in found if isinstance(each, Mapping)]
    reported = [f"{kinds.count(word)} {word}" for word in ("up", "restarting", "failed", "paused") if word in kinds]
    return ", ".join(reported) or "none"


def _fate(container: Mapping[str, Json], state: Mapping[str, Json]) -> str:
    """Return one word about a container; empty if its state needs no mention."""
    looping, failed = _known(state.get("looping")), state.get("failed")
    name, status = container.get("name"), container.get("status")
    if status == "restarting" or (isinstance(looping, list) and name in looping):
        return "restarting"
    if isinstance(failed, list) and name in failed:
        return "failed"
    return {"running": "up", "paused": "paused"}.get(str(status), "")


WORDS = {
    "memory": _memory,
    "disk": lambda state: _percent(state.get("percent")),
    "nvidia_smi": _gpus,
    "kernel_log": _kernel,
    "containers": _containers,
}
"""The functions that describe the state of each action in one cell."""


Show = Callable[[Sequence[HostView]], None]
"""Receives the views of all hosts, in order."""


class Monitor:
    """Probes every host at its own pace, so that a host that hangs or is down does not delay the others."""

    def __init__(self, order: Order, stop: Cancellation, every: float) -> None:
        self._run = Run(order, (), stop)
        self._kept = _Kept(self._run.fleet.connect)
        fleet = self._run.fleet
        quiet = replace(fleet.run, emit=lambda event: None)
        self._fleet: Fleet = replace(fleet, run=quiet, connect=self._kept.connect)
        self._stop, self._every = stop, every
        self._sights = {host.name: HostView(host=host.name) for host in order.selection.hosts}
        self._due = {host.name: 0.0 for host in order.selection.hosts}
        self._hosts = order.selection.hosts

    def watch(self, show: Show, *, redraw: float = 1.0) -> None:
        """Probe until the run is asked to end; *show* is called after each new result, and every *redraw* seconds."""
        drawn = 0.0
        with ThreadPoolExecutor(max_workers=max(1, min(self._fleet.parallel, len(self._hosts)))) as pool:
            running: dict[Future[HostResult], Host] = {}
            while not self._stop.level():
                self._begin(pool, running)
                ended = self._take_in(running)
                if ended or time.monotonic() - drawn >= redraw:
                    show(self._now())
                    drawn = time.monotonic()
                time.sleep(0.1)
        self._kept.close()
        self._run.close()

    def _begin(self, pool: ThreadPoolExecutor, running: dict[Future[HostResult], Host]) -> None:
        at_work = {each.name for each in running.values()}
        for host in self._hosts:
            if host.name not in at_work and self._due[host.name] <= time.monotonic():
                self._sights[host.name] = replace(self._sights[host.name], since=time.monotonic())
                running[pool.submit(self._look, host)] = host

    def _take_in(self, running: dict[Future[HostResult], Host]) -> bool:
        ended = [each for each in running if each.done()]
        for future in ended:
            host = running.pop(future)
            self._sights[host.name] = HostView(
                host=host.name, result=self._run.hidden(future.result()), at=time.monotonic()
            )
            self._due[host.name] = time.monotonic() + self._every
        return bool(ended)

    def _look(self, host: Host) -> HostResult:
        (planned,) = self._fleet.plan((host,))
        return planned.result

    def _now(self) -> tuple[HostView, ...]:
        return tuple(self._sights[host.name] for host in self._hosts)


class _Kept:
    """Connections that stay open from one probe to the next."""

    def __init__(self, connect: Callable[[Host], Connection]) -> None:
        self._connect = connect
        self._open: dict[str, _Lasting] = {}
        self._lock = threading.Lock()

    def connect(self, host: Host) -> Connection:
        """Return the connection to *host*; a new one if there is none, or if the last connection is broken."""
        with self._lock:
            known = self._open.get(host.name)
        if known is not None and not known.broken:
            return known
        made = _Lasting(self._connect(host))
        with self._lock:
            self._open[host.name] = made
        return made

    def close(self) -> None:
        """Close all connections."""
        for session in self._open.values():
            session.inner.close()


class _Lasting:
    """A connection that only its owner closes; it is also closed when it breaks."""

    def __init__(self, inner: Connection) -> None:
        self.inner = inner
        self.broken = False

    def run(self, *commands: Command) -> tuple[Completed, ...]:
        """Send *commands* over the inner connection; close it if that fails."""
        try:
            return self.inner.run(*commands)
        except TransportError:
            self.broken = True
            self.inner.close()
            raise

    def close(self) -> None:
        """Do nothing: the connection is used again."""


PLAYBOOK = "monitor"


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorOptions(FleetOptions):
    """The options of ``runbook monitor``."""

    given: GivenInputs = field(default_factory=GivenInputs)
    every: str = "5s"
    """The time between two probes of a host."""
    once: bool = False


def monitor_hosts(options: MonitorOptions, person: Person) -> int:
    """Watch hosts until interrupted; or probe them once, and report.  Returns the exit code."""
    with SecretMasking(lambda: secrets_on_command_line(PLAYBOOK, options.choosing.inventory, options.given)) as hiding:
        return _monitor_hosts(options, person, hiding)


def _monitor_hosts(options: MonitorOptions, person: Person, hiding: SecretMasking) -> int:
    book = read_playbook(find_playbook(PLAYBOOK), discover())
    if book.remediate or book.verify:
        raise ConfigError(f"the playbook {PLAYBOOK!r} may only probe: it has remediate or verify")
    if book.comparisons:
        words = f"the playbook {PLAYBOOK!r} may not compare hosts (across): each is probed at its own pace"
        raise ConfigError(Problem(message=words, hint="name such a playbook to `runbook run`"))
    inventory = inventory_for(options.choosing, options.choosing.hosts or "")
    pattern = options.choosing.hosts if options.choosing.hosts is not None else book.hosts or "all"
    if not pattern.strip():
        raise ConfigError("--hosts is empty: name hosts, or leave the option out")
    inputs = read_inputs(options.given, book)
    every = duration(options.every)
    if every < 1:
        raise ConfigError("--every must be at least 1s")
    chosen = selected(inventory, pattern, options.choosing)
    if problems := problems_with_references(book, inventory, chosen.hosts):
        raise ConfigError(*problems)
    order = order_for(
        book,
        options,
        person,
        inputs=inputs,
        parts=inputs_of_parts(book, inputs),
        profile_inputs=profile_inputs_for(options.given, book, inventory, chosen),
        inventory=inventory,
        selection=chosen,
    )
    order = with_secrets_resolved(order, hiding, changes=False)
    stop = Cancellation()
    person.can_stop(stop)
    if options.once or options.output.output != "console":
        return _once(order, options, stop, person)
    _watch(book, Monitor(order, stop, every), every)
    return 0


def _once(order: Order, options: MonitorOptions, stop: Cancellation, person: Person) -> int:
    if options.output.output != "console":
        with outputs_for(options.output.output, sys.stdout, person.say, stop) as outputs:
            code = Run(order, (outputs,), stop).plan_only()
        return outputs.code(code)
    code, results = Run(order, (), stop).probed()
    sights = [HostView(host=result.host, result=result, at=time.monotonic()) for result in results]
    print("\n".join(_lines(order.playbook, sights, _console())))
    return code


def _watch(book: Playbook, monitor: Monitor, every: float) -> None:
    console, began = _console(), time.strftime("%H:%M:%S")
    if not console.is_terminal:
        monitor.watch(_appended(book, console))
        return
    with Live(console=console, screen=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False) as live:

        def show(sights: Sequence[HostView]) -> None:
            console.size = _, height = terminal_size(sys.stdout)
            hosts = plural(len(sights), "host")
            title = line(f"runbook monitor: {hosts}, each every {every:g} s, since {began} (Ctrl-C ends)")
            live.update(Group(title, view(book, sights, console, height - 2)), refresh=True)

        monitor.watch(show)


def _appended(book: Playbook, console: Console) -> Show:
    """Return a function that prints a line for each host with a new result since the last call."""
    last: Sequence[HostView] = ()

    def show(sights: Sequence[HostView]) -> None:
        nonlocal last
        fresh = [sight for sight in sights if sight.result is not None and sight not in last]
        last = sights
        for row in _lines(book, fresh, console)[1:]:
            if row:
                print(time.strftime("%H:%M:%S"), row, flush=True)

    return show


def _console() -> Console:
    """Return the console for the output; if stdout is no terminal, no line is cut."""
    console = Console(force_terminal=can_redraw(sys.stdout))
    console.size = terminal_size(sys.stdout) if console.is_terminal else (WIDEST, 1)
    return console


def _lines(book: Playbook, sights: Sequence[HostView], console: Console) -> list[str]:
    with console.capture() as captured:
        console.print(view(book, sights, console))
    return [row.rstrip() for row in captured.get().splitlines()]
