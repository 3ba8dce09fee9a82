"""Find the secrets that a run needs, and read their values: each value once, with all mistakes reported together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field

from runbook.dataclass import dataclass
from runbook.errors import ConfigError, Problem
from runbook.language.secret_uses import SecretUse, host_fields, only_in_change, secret_uses
from runbook.protocols import Action
from runbook.secret_sources.choice import Choice, problem_at
from runbook.secret_sources.reading import value_of
from runbook.secrets.documents import secrets_in
from runbook.secrets.masking import Masking, masked
from runbook.secrets.names import MASK
from runbook.text.name_ranges import fold
from runbook.values.inventory import Host, Inventory
from runbook.values.playbook import Playbook, SecretReference, SecretSource
from runbook.values.types import Json

Read = Callable[[SecretReference], str]

ByPart = Mapping[str, Mapping[str, Json]]
"""The values of secrets, keyed by the prefix of the included playbook (``""``: the playbook itself), then by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretValues:
    """The values of the secrets that a run uses."""

    by_part: ByPart = field(default_factory=dict, repr=False)
    """The values that are the same on every host."""
    by_host: Mapping[str, ByPart] = field(default_factory=dict, repr=False)
    """The values for single hosts and groups of the inventory, keyed by host name."""
    masked: tuple[str, ...] = field(default=(), repr=False)
    """The texts that are masked everywhere: the values, and the single lines of multi-line values."""

    def of(self, host: str) -> ByPart:
        """Return the values of the secrets for *host*, keyed by part."""
        own = self.by_host.get(host, {})
        return {part: {**self.by_part.get(part, {}), **own.get(part, {})} for part in {**self.by_part, **own}}


def problems_with_references(playbook: Playbook, inventory: Inventory, hosts: Sequence[Host]) -> list[Problem]:
    """Return a problem for every secret that a step uses on one of *hosts* and that has no reference; no secret is
    read.

    A masked field of a host is a problem, too, because the mask would be sent.
    """
    choice = Choice(playbook, inventory, hosts)
    problems = [it for use in secret_uses(playbook) if isinstance(it := choice.referred(use), Problem)]
    return [*problems, *_masked_fields(playbook, hosts)]


def _masked_fields(playbook: Playbook, hosts: Sequence[Host]) -> Iterator[Problem]:
    """Yield a problem for every use of a host's field that the inventory has under a secret name, so that it is
    masked.
    """
    masked_on: dict[str, list[str]] = {}
    for host in hosts:
        for name, value in host.vars.items():
            if value == MASK or (isinstance(value, Mapping) and value and all(each == MASK for each in value.values())):
                masked_on.setdefault(name, []).append(host.name)
    for step in playbook.steps if masked_on else ():
        for name in sorted(host_fields(step, playbook.let_of(step.part)) & masked_on.keys()):
            words = f"host.{name} of {fold(masked_on[name])} is a secret field, which no expression sees"
            hint = f"in the host: secrets: {{{name}: {{file: PATH}}}}, and here: {{{{ host.secrets.{name} }}}}"
            yield problem_at(step.where, words, hint)


def resolved(
    playbook: Playbook,
    inventory: Inventory,
    hosts: Sequence[Host],
    actions: Mapping[str, Action],
    *,
    changes: bool,
    read: Read = value_of,
) -> SecretValues:
    """Return the value of every secret that *playbook* needs on *hosts*; each is read once.

    *changes*: the run may change hosts; otherwise secrets for changes only are not read.  Raises ConfigError with every
    secret that cannot be read, and the place of its first use.
    """
    reading = _Reading(Choice(playbook, inventory, hosts), read)
    wanted: dict[tuple[str, str], list[SecretUse]] = {}
    for use in secret_uses(playbook):
        if not use.step.left_out and (changes or not only_in_change(use, actions[use.step.action])):
            wanted.setdefault((use.step.part, use.name), []).append(use)
    for uses in wanted.values():
        reading.add(uses)
    return reading.values()


class _Reading:
    """Reads the secrets that references name, and keeps the values for the hosts that use them."""

    def __init__(self, choice: Choice, read: Read) -> None:
        self._choice, self._read = choice, read
        self._common: dict[str, dict[str, Json]] = {}
        self._of_hosts: dict[str, dict[str, dict[str, Json]]] = {}
        self._problems: list[Problem] = []
        self._known: dict[tuple[SecretSource, tuple[str, ...], str], str | Problem] = {}

    def add(self, uses: Sequence[SecretUse]) -> None:
        """Read the secret of *uses*, which all have the same name and are in the same playbook."""
        referred = self._choice.referred(uses[0])
        if isinstance(referred, Problem):
            self._problems.append(referred)
            return
        part, name = uses[0].step.part, uses[0].name
        for host, reference in referred.items():
            value = self._value(reference, uses)
            if isinstance(value, Problem):
                self._problems.append(value)
            elif wrong := _unfit(value, uses):
                self._problems.append(wrong)
            else:
                into = self._of_hosts.setdefault(host, {}) if host else self._common
                into.setdefault(part, {})[name] = value

    def values(self) -> SecretValues:
        """Return the values that were read.  Raises ConfigError with every secret that cannot be read."""
        texts = [value for value in self._known.values() if isinstance(value, str)]
        hidden = secrets_in({"secret": texts})
        if self._problems:  # a program may have printed another secret where it says what is wrong
            mask = Masking(hidden)
            raise ConfigError(*(masked(problem, mask) for problem in dict.fromkeys(self._problems)))
        return SecretValues(by_part=self._common, by_host=self._of_hosts, masked=hidden)

    def _value(self, reference: SecretReference, uses: Sequence[SecretUse]) -> str | Problem:
        beside = reference.where.file if reference.source is SecretSource.FILE else ""
        key = (reference.source, reference.words, beside)
        if key not in self._known:
            self._known[key] = _read_value(reference, uses, self._read)
        return self._known[key]


def _read_value(reference: SecretReference, uses: Sequence[SecretUse], read: Read) -> str | Problem:
    try:
        return read(reference)
    except ConfigError as error:
        used = f"used at {uses[0].step.where}"
        words = f"secret {reference.name}: {error.problems[0].message}"
        return problem_at(reference.where, words, used)


def _unfit(value: str, uses: Iterable[SecretUse]) -> Problem | None:
    """Return a problem if one of *uses* does not allow *value*; otherwise None."""
    for use in uses:
        if use.in_header and ("\n" in value or "\r" in value):
            words = f"secret {use.shown}: it has several lines, and the header of a request is a single line"
            return problem_at(use.step.where, words)
    return None
