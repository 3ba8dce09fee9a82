"""The doors between rooms: what a plugin must look like from outside, and nothing more."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, is_dataclass
from types import ModuleType
from typing import Any, Generic, Protocol, TypeVar

from engine.errors import PluginError
from engine.values.command import Command, Completed
from engine.values.event import Event
from engine.values.inventory import Host, Inventory
from engine.values.plan import Change, Decision, Target
from engine.values.playbook import Where

S = TypeVar("S")


@dataclass(frozen=True, slots=True, kw_only=True)
class Absent(Generic[S]):
    """What a probe returns when the thing is proven not to be there: an answer, with an empty state."""

    why: str
    state: S


Probe = Generator[Command | tuple[Command, ...], Any, S | Absent[S]]
"""Yields looks, one or several at once; is sent a Completed, or as many in a tuple; returns a State.

It does no I/O and takes no clock.  Raises ProbeError when it cannot know.
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
    """How urgently the run is asked to end."""

    def level(self) -> int:
        """0: not at all; 1: end looks, let the write in flight finish; 2: end everything now."""
        ...


class Connection(Protocol):
    """A way to run commands on one host.  Owned by one thread."""

    def run(self, *commands: Command) -> tuple[Completed, ...]:
        """Send *commands* in this order and wait for all of them; later ones do not depend on earlier ones.

        A command that exits with any code, times out, or cannot be started (126, 127) is a Completed; so is one that
        was refused before it was sent.  Raises ConnectionLost when the line is gone, Cancelled when the run was asked
        to end, Unreachable when the host lets us in and starts no shell for us: nothing was sent.
        Writes are passed one at a time, and are sent once.
        """
        ...

    def close(self) -> None:
        """Hang up.  Never raises."""
        ...


@dataclass(slots=True)
class Trial:
    """What has become of a password on one host."""

    reported: bool = False
    """It was sent there."""
    taken: bool = False
    """A shell came of it, or words that only the right one brings."""


class Password(Protocol):
    """Sudo's password, which the connections of a run share."""

    secret: str

    def try_on(self, host: str, give: Callable[[str, Trial], S], check: Callable[[], None]) -> S:
        """What *give* makes of the secret on *host*; it notes in the Trial what becomes of it.

        Waits while another host tries it first, and calls *check* meanwhile.  Raises what these raise.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectOptions:
    """What a run says about connections in general; times in seconds."""

    connect_timeout: float = 10.0
    strict_host_keys: bool = False
    known_hosts: str = ""
    """Our own file of accepted keys; empty for ``~/.config/runbook/known_hosts``."""
    keepalive: float = 15.0
    """How often a server is asked for a sign of life; one that gives none three times in a row is gone."""
    answered_within: float = 20.0
    """How long a server may take to say whether it starts a program."""
    shell_within: float = 0.0
    """How long a shell, once started, may take to answer; 0: 20 seconds."""
    become_password: Password | None = field(default=None, repr=False)
    """For sudo, where it asks for one."""
    passphrases: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Of private keys, by the path of the file."""


class Transport(Protocol):
    """A file in ``engine/transports``."""

    def connect(self, host: Host, options: ConnectOptions, interrupt: Interrupt) -> Connection:
        """Open a session.  Raises Unreachable, naming every address that was tried and why it failed."""
        ...


Place = Callable[[tuple[str | int, ...]], Where]
"""The place of a key or an item in a file, by its path: ``("hosts", "gpu-01", "ssh_port")``."""


class InventoryFormat(Protocol):
    """A file in ``engine/inventory`` that reads one format: a module with these two functions."""

    def recognises(self, document: object) -> bool:
        """Whether the parsed file is of this format."""
        ...

    def load(self, document: object, source: str, where: Place) -> Inventory:
        """The hosts in it, each in the groups that follow from its fields; *source* is the file's name.

        ``groups:`` is read over all files together, not here.  Raises ConfigError with every mistake.
        """
        ...


class Reporter(Protocol):
    """What a file in ``engine/reporters`` makes with its ``Reporter`` class.

    One that draws on a terminal may have ``aside(line) -> bool`` too: it takes care of a line that is not the run's.
    """

    def on(self, event: Event) -> None:
        """Take note of *event*."""
        ...


class Clock(Protocol):
    """Time, as a parameter."""

    def now(self) -> float:
        """Seconds on a monotonic clock."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait; may return early when the run is asked to end."""
        ...


Emit = Callable[[Event], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One file in ``engine/actions``, seen from outside.

    The module has ``Args`` and ``State`` (frozen dataclasses) and ``probe(args)``, and for what it is for:

    - ``decide(args, state) -> Decision`` if it can change something, and optionally
      ``settled(args, before, after) -> bool`` where a change has no fixed point (default: ``decide`` on the second look
      gives NoChange), ``without(state, keys) -> State`` that leaves out targets by key, and
      ``reach(args, state) -> tuple[Target, ...]``, the most it may ever touch (default: the decision's), and
      ``latent(args) -> Change``, what it would do at its turn if its look called for that then (default: not known);
      Three more give words to a change: ``explain(args, before, after) -> str`` for a second look that disagrees, and
      ``refused(command, completed) -> str`` for a command that was not answered as it should be (or nothing), and
      ``outcome(summary, outputs) -> str`` for one that was done, given what its commands printed;
    - ``holds(args, state) -> Holds | Fails`` if it can be asserted in ``verify``;
    - ``waits(args) -> str`` if it only waits or tells a person something: the words for it in a plan; one whose
      ``Args`` have ``at_most`` raises ``NotInTime`` when that has passed, and is given what is left of its step's
      ``within`` or ``timeout`` instead, where that is less.

    ``by_hand(args) -> tuple[str, ...]`` may give the lines that a person would paste to do the same without us, and
    ``objection(args) -> str`` may refuse arguments that the types allow (empty: fine); the loader asks it.
    ``SCRATCH = True`` marks one whose look makes something of its own: its step must say ``scratch: true``.
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
    objection: Callable[[Any], str] | None
    by_hand: Callable[[Any], tuple[str, ...]] | None
    holds: Callable[[Any, Any], Holds | Fails] | None
    waits: Callable[[Any], str] | None
    scratch: bool = False

    @classmethod
    def of(cls, module: ModuleType) -> Action:
        """The action that *module* is.  Raises PluginError when the file does not keep the protocol."""
        name = module.__name__.rpartition(".")[2]
        lacks = [it for it in ("Args", "State", "probe") if not hasattr(module, it)]
        lacks += [it for it in ("Args", "State") if hasattr(module, it) and not is_dataclass(getattr(module, it))]
        if lacks or not module.__doc__:
            raise PluginError(f"action {name!r} lacks {', '.join(lacks) or 'a docstring'}")
        doc = module.__doc__.strip()
        optional: Mapping[str, Any] = {
            it: getattr(module, it, None)
            for it in (
                "decide",
                "settled",
                "without",
                "reach",
                "latent",
                "explain",
                "refused",
                "outcome",
                "objection",
                "by_hand",
                "holds",
                "waits",
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
