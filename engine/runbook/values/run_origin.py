"""Where a run comes from: who started it, where, why, with what, and which run it continues."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from runbook.secrets.names import MASK
from runbook.values.types import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessIdentity:
    """One process of one machine, so that no later one is mistaken for it."""

    machine: str
    boot: str
    """The id of that boot of the machine."""
    pid: int
    start: int
    """Clock ticks since the boot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretPlace:
    """Where the inventory said that the value of a secret is, of which only a digest is shown."""

    secret: str
    """As the playbook names it: ``NAME``, ``host.NAME``; behind ``PART/`` where an included playbook does."""
    hosts: tuple[str, ...]
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RestsOn:
    """The files, hosts and inputs on which a run, a saved plan or an owed clean-up rests."""

    playbook: str = ""
    """The path of its file; empty where it has none."""
    playbook_digest: str = ""
    """sha256 of the file and of all that it includes or sends."""
    inventory: tuple[str, ...] = ()
    """The paths of its files."""
    inventory_digest: str = ""
    hosts: Mapping[str, str] = field(default_factory=dict)
    """A digest of each host's entry in the inventory, by its name."""
    inputs: Mapping[str, Json] = field(default_factory=dict)
    """The inputs of the playbook; secret ones as ``***``."""
    secret_inputs: tuple[str, ...] = ()
    """The names of the secret inputs that differ from their default: they have to be given again."""
    secret_places: tuple[SecretPlace, ...] = ()
    """Where the inventory said that the secrets are which the playbook uses."""

    @property
    def known_inputs(self) -> Mapping[str, Json]:
        """The inputs that are not secret."""
        return {name: value for name, value in self.inputs.items() if value != MASK}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOrigin(RestsOn):
    """The origin of a run: user, place, reason, and what it rests on."""

    command: str
    """The command of the command line: ``run``, ``exec``, ``resume`` ..."""
    by: str
    """``USER@MACHINE``."""
    sudo_user: str = ""
    """The user who became that user by sudo."""
    client: str = ""
    """The address that this user came from by SSH."""
    reason: str = ""
    version: str
    """Of runbook."""
    process: ProcessIdentity
    inputs_digest: str = ""
    """sha256 of the inputs, without the secret ones."""
    lent_secrets: bool = False
    """Whether secrets were read for it (``secrets:`` of the playbook or the inventory), which no later run knows."""
    tags: tuple[str, ...] = ()
    skip_tags: tuple[str, ...] = ()
    diagnose_only: bool = False
    resumes: str = ""
    """The run that it goes on with."""
    applies: str = ""
    """The saved plan that it carries out."""
    undoes: str = ""
    """The run that it undoes."""
