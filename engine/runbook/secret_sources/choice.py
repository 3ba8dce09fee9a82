"""Choose the reference for the name of a secret, host by host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runbook.errors import Problem
from runbook.language.secret_uses import SecretUse
from runbook.text.name_ranges import fold
from runbook.text.suggestions import suggest
from runbook.values.inventory import Host, Inventory
from runbook.values.playbook import Playbook, SecretReference, SecretSource, Where

Referred = Mapping[str, SecretReference]
"""The reference for each host, keyed by host name; ``""``: for every host of the run."""


class Choice:
    """Chooses the reference for the name of a secret.

    The reference in the step's own playbook comes first, then that of the host, of one of its groups, and of the whole
    inventory.  ``host.secrets.NAME`` skips the playbook.
    """

    def __init__(self, playbook: Playbook, inventory: Inventory, hosts: Sequence[Host]) -> None:
        self._own = {"": {secret.name: secret for secret in playbook.secrets}}
        self._own |= {part.id: {secret.name: secret for secret in part.secrets} for part in playbook.parts}
        self._inventory = {reference.name: reference for reference in inventory.references}
        self._hosts = {host.name: {secret.name: secret for secret in host.secrets} for host in hosts}
        self._searched = ", ".join(inventory.sources) or "the inventory"

    def referred(self, use: SecretUse) -> Referred | Problem:
        """Return the reference that *use* means, keyed by host if hosts differ; or the problem that a host has none."""
        own = {} if use.of_host else self._own.get(use.step.part, {})
        declared = own.get(use.secret)
        if declared and declared.source is not SecretSource.INVENTORY:
            return {"": declared}
        shared = self._inventory.get(use.secret)
        of_hosts = {host: found.get(use.secret) or shared for host, found in self._hosts.items()}
        if not any(use.secret in found for found in self._hosts.values()):
            return {"": shared} if shared else self._unknown(use, declared, own)
        if lacking := [host for host, found in of_hosts.items() if found is None]:
            return self._lacking(use, lacking)
        found = {host: it for host, it in of_hosts.items() if it}
        if (
            use.step.once
            and len({(reference.source, reference.words, reference.where.file) for reference in found.values()}) > 1
        ):
            words = f"secret {use.shown}: a probe that runs once for all hosts, whose secrets of this name differ"
            return problem_at(use.step.where, words, "say under `secrets:` of the playbook where it is")
        return found

    def _unknown(self, use: SecretUse, declared: SecretReference | None, own: Referred) -> Problem:
        name = use.secret
        if declared:
            words = f"secret {name}: neither the playbook nor {self._searched} says where it is"
            return problem_at(declared.where, words, f"secrets: {{{name}: {{env: NAME}}}} in one of them")
        known = dict.fromkeys([*own, *self._inventory, *(word for found in self._hosts.values() for word in found)])
        if use.of_host:
            words = f"there is no secret {name!r} in {self._searched}, neither of the hosts nor of all"
        else:
            words = f"there is no secret {name!r}: not in the playbook, not in {self._searched}"
        return problem_at(use.step.where, words, suggest(name, [*known]))

    def _lacking(self, use: SecretUse, hosts: Sequence[str]) -> Problem:
        words = f"there is no secret {use.secret!r} for {fold(hosts)}, while other hosts of the run have one"
        hint = f"secrets: {{{use.secret}: {{env: NAME}}}} in the host, in one of its groups, or beside `hosts:`"
        return problem_at(use.step.where, words, hint)


def problem_at(at: Where, message: str, hint: str = "") -> Problem:
    """Return a problem at the place *at*."""
    return Problem(file=at.file, line=at.line, column=at.column, message=message, hint=hint)
