"""The interfaces of plugins and connections: what each must provide."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import field, is_dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

from runbook.dataclass import dataclass
from runbook.errors import PluginError
from runbook.values.command import Command, Completed
from runbook.values.inventory import Host, Inventory
from runbook.values.kept_file import Fetched, KeptFile, NotKept
from runbook.values.owed import NotRecorded, OwedCleanup
from runbook.values.plan import Change, Decision, Target
from runbook.values.playbook import Symptom, Where
from runbook.values.recorded_change import RecordedAnswer, RecordedChange
from runbook.values.types import Unknown
from runbook.values.undo import Undo

if TYPE_CHECKING:  # `runbook check` needs no events, and would import all results with them
    from runbook.values.event import Event

S = TypeVar("S")


@dataclass(frozen=True, slots=True, kw_only=True)
class Absent(Generic[S]):
    """The answer of a probe whose subject is proven to be absent, with an empty state."""

    why: str
    state: S


Probe = Generator[Command | tuple[Command, ...], Any, S | Absent[S]]
"""Yields one command, or a tuple of several; receives a Completed, or a tuple of as many; returns a State.

It does no I/O and reads no clock.  Raises ProbeError if it cannot know the state.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holds:
    """The state is as the step demands."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fails:
    """The state is not as the step demands."""

    why: str


class Interrupt(Protocol):
    """The urgency with which the run is asked to end."""

    def level(self) -> int:
        """0: not at all; 1: end probes, let the write in flight finish; 2: end everything now."""
        ...


class Connection(Protocol):
    """A way to run commands on one host.  Owned by one thread."""

    def run(self, *commands: Command) -> tuple[Completed, ...]:
        """Send *commands* in this order and wait for all of them; later ones do not depend on earlier ones.

        A command that exits with any code, times out, or cannot be started (126, 127) gives a Completed.  So does one
        that was refused before it was sent.  Raises ConnectionLost if the connection is lost, and Cancelled if the run
        was asked to end.  Raises Unreachable if the host accepts the login but starts no shell: then nothing was sent.
        A write is passed alone, and sent once.
        """
        ...

    def close(self) -> None:
        """Close the connection.  Never raises."""
        ...


@dataclass(slots=True)
class Trial:
    """The outcome of a password on one host."""

    reported: bool = False
    """It was sent there."""
    taken: bool = False
    """The password opened a shell, or the host printed what only follows the right one."""


class Password(Protocol):
    """Sudo's password, which the connections of a run share."""

    secret: str

    def try_on(self, host: str, give: Callable[[str, Trial], S], check: Callable[[], None]) -> S:
        """Return the result of *give* for the secret on *host*; *give* notes the outcome of the secret in the Trial.

        While another host tries the secret first, waits and calls *check*.  Raises the errors of both.
        """
        ...


class Closing(Protocol):
    """A connection that can be closed."""

    def close(self) -> None:
        """Hang up.  Never raises."""
        ...


C = TypeVar("C", bound=Closing)


class Shared(Protocol):
    """Connections that a run shares, such as those to gateways."""

    def of(self, kind: Callable[[], C]) -> C:
        """Return the result of the first call of *kind*; it is closed when the run ends."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectOptions:
    """The options of a run for connections in general; times in seconds."""

    connect_timeout: float = 10.0
    strict_host_keys: bool = False
    known_hosts: str = ""
    """Our own file of accepted keys; empty for ``~/.config/runbook/known_hosts``."""
    keepalive: float = 15.0
    """The interval between requests for a sign of life; a server that fails three times in a row counts as lost."""
    shell_within: float = 0.0
    """The time that a server may take to start a shell, and the shell to answer; 0: 20 seconds."""
    become_password: Password | None = field(default=None, repr=False)
    """For sudo, where it asks for one."""
    passphrases: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Of private keys, by the path of the file."""
    shared: Shared | None = field(default=None, repr=False, compare=False)
    """The shared state of the run; None: this connection shares nothing."""


class Transport(Protocol):
    """A file in ``engine/runbook/connections/transports``."""

    def connect(self, host: Host, options: ConnectOptions, interrupt: Interrupt) -> Connection:
        """Open a session.  Raises Unreachable, naming every address that was tried and why it failed."""
        ...


Place = Callable[[tuple[str | int, ...]], Where]
"""The place of a key or an item in a file, by its path: ``("hosts", "gpu-01", "ssh_port")``."""


class InventoryFormat(Protocol):
    """A module in ``engine/runbook/inventory`` that reads one format, with these two functions.

    For a format that is no YAML, it also has ``parse_text(text, file) -> TextDocument | None``.  That returns a
    document that its ``recognises`` knows, with the line of each key; None: the text has another format.
    ``ONLY_IF_NO_OTHER = True`` makes it the last resort, for files that no other format recognises.
    """

    def recognises(self, document: object) -> bool:
        """Whether the parsed file is of this format."""
        ...

    def load(self, document: object, source: str, where: Place) -> Inventory:
        """The hosts in it, each in the groups that follow from its fields; *source* is the file's name.

        ``groups:`` is read over all files together, not here.  Raises ConfigError with every mistake.
        """
        ...


class Reporter(Protocol):
    """The object that a file in ``engine/runbook/reporting/reporters`` makes with its ``Reporter`` class.

    A reporter that draws on a terminal may also have ``aside(line) -> bool``, which shows a line from outside the run.
    """

    def on(self, event: Event) -> None:
        """Take note of *event*."""
        ...


class OwedRecords(Protocol):
    """Where this machine keeps which clean-ups runs owe to hosts; used by many threads."""

    def keep(self, cleanup: OwedCleanup) -> OwedCleanup | NotRecorded:
        """Write *cleanup* down, in the place of what stood there of the same run and host.

        Returns it as it may be shown: without secrets.
        """
        ...

    def drop(self, cleanup: OwedCleanup) -> None:
        """Remove the record of it.  Never raises."""
        ...

    def settled_here(self, host: str) -> tuple[OwedCleanup, ...]:
        """Return the clean-ups that earlier runs owe *host*; none unless this run settles them."""
        ...

    def gone_on_with(self, host: str) -> tuple[OwedCleanup, ...]:
        """Return the clean-ups that the continued runs owe *host*; none if this run continues no other."""
        ...

    def is_open(self, cleanup: OwedCleanup) -> bool:
        """Whether the record of it is still there: another run may have settled it meanwhile."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class NotPermitted:
    """The reason why a write must not be sent."""

    why: str
    in_doubt: bool = False
    """Whether it may have been sent before."""
    ended: bool = False
    """Whether nothing more may be sent to the host: the run is to end, or another worker has the host now."""


def seconds_since_boot() -> float:
    """Return a time that goes on also while this process, or its machine, stands still."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Permits(Protocol):
    """Permits the writes of a run whose hosts are worked on by several machines; used by many threads."""

    def ask(
        self, host: str, step: str, command: int, words: str, *, seconds: float, owed: bool
    ) -> NotPermitted | float:
        """Take the permit for command number *command* (from 0) of *step* on *host*: there is one for ever.

        Returns the time (``seconds_since_boot``) from which it must not be sent any more; 0: whenever.
        *seconds*: the time that the command may take on the host.  *owed*: the step owes it to the host, so that it is
        sent also where nobody can be asked, or the run is to end.
        """
        ...


class KeptFiles(Protocol):
    """The files that a run fetches from hosts into its record; used by many threads."""

    where: str
    """The directory that the paths of its files are relative to."""

    def keep(self, host: str, name: str, fetched: Fetched) -> KeptFile | NotKept:
        """Write *fetched* without secrets, completely or not at all.  *name*: the wanted file name."""
        ...


class RecordedPast(Protocol):
    """The records of this machine on earlier runs of one playbook with one inventory; used by many threads.

    Unknown stands where a record cannot be read, was edited or removed, or where there are too many.
    """

    def changes(self, host: str, within: float) -> tuple[RecordedChange, ...] | Unknown:
        """The changes that were sent to *host* within the last so many seconds, the newest first."""
        ...

    def last_change(self, host: str) -> RecordedChange | None | Unknown:
        """Return the newest change that was sent to *host*; None: there was none."""
        ...

    def changed_hosts(self, within: float) -> frozenset[str] | Unknown:
        """The hosts to which a change was sent within the last so many seconds."""
        ...

    def attempt(self, host: str) -> str:
        """Return the run that was interrupted while it changed *host*, if the asking run continues it.

        Empty: there is none, or the records are unclear.
        """
        ...

    def answer(self, host: str, probe: str) -> RecordedAnswer | None | Unknown:
        """Return the newest recorded answer of *probe* on *host*; None: no run has one."""
        ...


class Clock(Protocol):
    """Time, as a parameter."""

    def now(self) -> float:
        """Seconds on a monotonic clock."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait; may return early when the run is asked to end."""
        ...


Emit: TypeAlias = "Callable[[Event], None]"

NARROWS = "narrows"
"""The key, in the metadata of a field of ``Args``, of the keys by which an item of the field is known: a step acts only
on items that both its plan and the field's expression at its turn contain.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One file in ``engine/runbook/library``, seen from outside.

    The module has ``Args`` and ``State`` (frozen dataclasses) and ``probe(args)``, and for what it is for:

    - ``decide(args, state) -> Decision`` if it can change something, and optionally
      ``settled(args, before, after) -> bool`` where a change has no fixed point (default: ``decide`` on a second probe
      gives NoChange), ``without(state, keys) -> State`` that leaves out targets by key, and
      ``reach(args, state) -> tuple[Target, ...]``, the most it may ever touch (default: the decision's), and
      ``latent(args) -> Change``, what it would do at its turn if its probe called for that then (default: not known);
      Three more give words to a change: ``explain(args, before, after) -> str`` for a second probe that disagrees, and
      ``refused(command, completed) -> str`` for a command that was not answered as it should be (or nothing), and
      ``outcome(words, outputs) -> str`` for what is said of one that was sent, given what its commands printed;
    - ``holds(args, state) -> Holds | Fails`` if it can be asserted in ``verify``;
    - ``waits(args) -> str`` if it only waits or shows a person a text: the words for it in a plan; one whose
      ``Args`` have ``at_most`` raises ``NotInTime`` when that has passed, and is given what is left of its step's
      ``within`` or ``timeout`` instead, where that is less.

    ``undo(args, state, change) -> Undo`` may say, before the change is sent and from what the probe has read, how it is
    taken back: by files of which the host keeps a copy, by steps, and what stays (default: nothing can be undone).
    ``by_hand(args) -> tuple[str, ...]`` may give the lines that a person would paste to do the same without us, and
    ``objection(args) -> str`` may refuse arguments that the types allow (empty: fine); the loader asks it.
    ``signs(written) -> Mapping[str, Symptom]`` may give the patterns by which it recognises faults in a text, by name,
    from its arguments as they stand in the playbook: `runbook find` searches them (``symptom: [{signs: STEP}]``).
    ``SCRATCH = True`` marks one whose probe makes something of its own: its step must say ``scratch: true``.
    """

    name: str
    summary: str
    doc: str
    Args: type[Any]
    State: type[Any]
    probe: Callable[[Any], Probe[Any]]
    decide: Callable[[Any, Any], Decision] | None
    settled: Callable[[Any, Any, Any], bool] | None
    without: Callable[[Any, frozenset[str]], Any] | None
    reach: Callable[[Any, Any], tuple[Target, ...]] | None
    latent: Callable[[Any], Change] | None
    explain: Callable[[Any, Any, Any], str] | None
    refused: Callable[[Command, Completed], str] | None
    outcome: Callable[[str, tuple[str, ...]], str] | None
    undo: Callable[[Any, Any, Change], Undo] | None
    objection: Callable[[Any], str] | None
    by_hand: Callable[[Any], tuple[str, ...]] | None
    holds: Callable[[Any, Any], Holds | Fails] | None
    waits: Callable[[Any], str] | None
    signs: Callable[[Mapping[str, Any]], Mapping[str, Symptom]] | None = None
    scratch: bool = False

    @classmethod
    def of(cls, module: ModuleType) -> Action:
        """The action that *module* is.  Raises PluginError when the file does not keep the protocol."""
        name = module.__name__.rpartition(".")[2]
        lacks = [word for word in ("Args", "State", "probe") if not hasattr(module, word)]
        lacks += [
            word for word in ("Args", "State") if hasattr(module, word) and not is_dataclass(getattr(module, word))
        ]
        if lacks or not module.__doc__:
            raise PluginError(f"action {name!r} lacks {', '.join(lacks) or 'a docstring'}")
        doc = module.__doc__.strip()
        optional: Mapping[str, Any] = {
            name: getattr(module, name, None)
            for name in (
                "decide",
                "settled",
                "without",
                "reach",
                "latent",
                "explain",
                "refused",
                "outcome",
                "undo",
                "objection",
                "by_hand",
                "holds",
                "waits",
                "signs",
            )
        }
        return cls(
            name=name,
            summary=doc.splitlines()[0],
            doc=doc,
            Args=module.Args,
            State=module.State,
            probe=module.probe,
            scratch=getattr(module, "SCRATCH", False),
            **optional,
        )
