"""The options of commands, made by `cli/` from a command line, by `api` from arguments, by `apply` from a saved
plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, fields, is_dataclass
from typing import Any, TypeVar, get_type_hints

from runbook.dataclass import dataclass
from runbook.values.limit_options import LimitOptions
from runbook.values.run_origin import InputsByPlaybook
from runbook.values.types import Json

Kind = TypeVar("Kind")


@dataclass(frozen=True, slots=True, kw_only=True)
class Choosing:
    """The options that select the hosts of a command, and the inventory with these hosts."""

    hosts: str | None = None
    """A host pattern; None: the option was not given."""
    inventory: tuple[str, ...] = ()
    """The inventory files; empty: they are found in the environment, or in the working directory."""
    include_not_ready: bool = False
    only_addresses: bool = False
    """Whether no inventory is searched for, because a saved plan was made without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenInputs:
    """The inputs that the user gives to a command, from the weakest to the strongest."""

    below: Mapping[str, Json] = field(default_factory=dict)
    """Values in place of defaults; the environment, a file and the command line override them."""
    inputs_file: str = ""
    inputs: tuple[str, ...] = ()
    """The inputs as typed: ``NAME=VALUE``."""
    of_profiles: Mapping[str, InputsByPlaybook] | None = None
    """The inputs that profiles gave hosts when the run or plan was made; None: those of the inventory count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connecting:
    """The options for connecting to hosts."""

    parallel: int = 32
    """The maximum number of hosts at a time."""
    strict_host_keys: bool = False
    ask_become_pass: bool = False
    become_password_file: str = ""
    connect_timeout: str = ""
    shell_timeout: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits(LimitOptions):
    """The limits of a run, with times as on a command line; an empty text is no limit."""

    timeout: str = ""
    """The timeout of each probe that has none."""
    deadline: str = ""
    wait_lock: str = ""
    """The time to wait for a host that another run has locked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """The options for the output of a command."""

    output: str = "console"
    """The format of stdout."""
    report: tuple[str, ...] = ()
    """Files for further reports."""
    verbosity: str | None = None
    """``verbose``, ``quiet``, or None."""
    debug: bool = False
    """Whether sent commands, decisions and second probes are logged on stderr."""
    detailed_exitcode: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """The options for recording a run, and for reading the records of earlier runs."""

    reason: str = ""
    records: str | None = None
    """The directory of the records; empty: the user's own; None: the command reads no records."""
    no_record: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Through:
    """The options about who works on the hosts."""

    via: str = "local"
    """``cluster``: the workers at the sites of the hosts; otherwise this process."""
    cluster: str = ""
    """The place of the cluster; empty: the environment says it."""
    start_within: str = ""
    """The time in which a worker must have begun each part."""
    sign_with: str = ""
    """The SSH key that signs what is ordered from workers."""

    @property
    def workers(self) -> bool:
        """Whether workers carry it out."""
        return self.via == "cluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetOptions:
    """The options of every command that works on hosts."""

    choosing: Choosing = field(default_factory=Choosing)
    connecting: Connecting = field(default_factory=Connecting)
    limits: Limits = field(default_factory=Limits)
    output: Output = field(default_factory=Output)
    recording: Recording = field(default_factory=Recording)
    through: Through = field(default_factory=Through)
    force: bool = False
    """Whether steps run even if their finding is unknown."""
    plan_only: bool = False
    """Whether nothing is changed: ``--dry-run``."""
    yes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions(FleetOptions):
    """The options of a run of a playbook."""

    given: GivenInputs = field(default_factory=GivenInputs)
    only: str | None = None
    """``diagnose``: change nothing, and plan no change."""
    tags: tuple[str, ...] = ()
    skip_tags: tuple[str, ...] = ()
    scratch: bool = False
    """Whether a dry run also runs the probes that write files of their own."""
    settle: bool = False
    detach: bool = False
    typed: tuple[str, ...] = ()
    """The words of the command line; a dry run uses them to show the command for the real run."""

    @property
    def diagnoses_only(self) -> bool:
        """Whether a run with these options plans no change."""
        return self.only == "diagnose"


def made_from(kind: type[Kind], given: Mapping[str, Any]) -> Kind:
    """Make the options of type *kind*, with the options inside it, from *given*: values keyed by field name."""
    found: dict[str, Any] = {}
    for name, hint in _hints(kind).items():
        if isinstance(hint, type) and is_dataclass(hint):
            found[name] = made_from(hint, given)
        elif name in given:
            found[name] = tuple(given[name]) if isinstance(given[name], list) else given[name]
    return kind(**found)


def option_names(kind: type) -> Iterator[str]:
    """Yield the names of all fields that ``made_from`` takes for *kind*."""
    for name, hint in _hints(kind).items():
        yield from option_names(hint) if is_dataclass(hint) and isinstance(hint, type) else (name,)


def _hints(kind: type) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {each.name: hints[each.name] for each in fields(kind)}
