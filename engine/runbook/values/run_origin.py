"""The origin of a run: the user, the machine, the reason, the files, and the run that it continues."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from runbook.dataclass import dataclass
from runbook.secrets.names import MASK
from runbook.values.types import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessIdentity:
    """The identity of one process on one machine, so that no later process is mistaken for it."""

    machine: str
    boot: str
    """The id of the machine's boot."""
    pid: int
    start: int
    """The start time of the process, in clock ticks since the boot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretPlace:
    """The place of a secret's value according to the inventory; only a digest of the place is shown."""

    secret: str
    """The name in the playbook: ``NAME`` or ``host.NAME``; with ``PART/`` before it for an included playbook."""
    hosts: tuple[str, ...]
    digest: str


InputsByPlaybook = Mapping[str, Mapping[str, Json]]
"""The inputs of some playbooks, by the names of the playbook and the input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestsOn:
    """The files, hosts and inputs on which a run, a saved plan or an owed clean-up depends."""

    playbook: str = ""
    """The path of the playbook file; empty if there is no file."""
    playbook_digest: str = ""
    """The SHA-256 of the playbook file and of all files that it includes or sends."""
    inventory: tuple[str, ...] = ()
    """The paths of the inventory files."""
    inventory_digest: str = ""
    hosts: Mapping[str, str] = field(default_factory=dict)
    """A digest of each host's entry in the inventory, by the name of the host."""
    inputs: Mapping[str, Json] = field(default_factory=dict)
    """The inputs of the playbook; secret inputs are ``***``."""
    profile_inputs: Mapping[str, InputsByPlaybook] = field(default_factory=dict)
    """The inputs that profiles of the inventory gave hosts in place of *inputs*, by the name of the host."""
    secret_inputs: tuple[str, ...] = ()
    """The names of the secret inputs that differ from their default; the user has to give them again."""
    secret_places: tuple[SecretPlace, ...] = ()
    """The places, according to the inventory, of the secrets that the playbook uses."""

    @property
    def known_inputs(self) -> Mapping[str, Json]:
        """Return the inputs that are not secret."""
        return {name: value for name, value in self.inputs.items() if value != MASK}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOrigin(RestsOn):
    """The origin of a run: the user, the machine, the reason, and the files."""

    command: str
    """The command, such as ``run``, ``exec`` or ``resume``."""
    by: str
    """The user who started the run, as ``USER@MACHINE``."""
    sudo_user: str = ""
    """The user who became *by* with sudo."""
    client: str = ""
    """The address from which the user came by SSH."""
    reason: str = ""
    version: str
    """The version of runbook."""
    process: ProcessIdentity
    inputs_digest: str = ""
    """The SHA-256 of the inputs, without the secret inputs."""
    lent_secrets: bool = False
    """Whether secrets (``secrets:`` of the playbook or the inventory) were read for the run; no later run
    knows them.
    """
    tags: tuple[str, ...] = ()
    skip_tags: tuple[str, ...] = ()
    diagnose_only: bool = False
    resumes: str = ""
    """The run that this run resumes."""
    applies: str = ""
    """The saved plan that this run carries out."""
    undoes: str = ""
    """The run that this run undoes."""
