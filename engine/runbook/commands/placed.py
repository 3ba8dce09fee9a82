"""Have an order carried out by this process, or by workers."""

from __future__ import annotations

from runbook.commands.options import FleetOptions
from runbook.commands.order import Order
from runbook.commands.secret_masking import SecretMasking
from runbook.commands.workspace import with_secrets_resolved
from runbook.errors import ConfigError


def at_its_place(order: Order, options: FleetOptions, hiding: SecretMasking) -> Order:
    """Return *order* as it is carried out: with the values of its secrets, or by workers, who read them at their sites.

    Raises ConfigError.
    """
    if not options.through.workers:
        return with_secrets_resolved(order, hiding, changes=not options.plan_only)
    try:
        from runbook.commands.cluster.client import through_cluster
    except ModuleNotFoundError as error:
        raise lacking(error) from None
    return through_cluster(order, options)


def lacking(error: ModuleNotFoundError) -> ConfigError:
    """Return what to say of the missing module in *error*; raises *error* if it is one of ours."""
    if error.name and error.name.partition(".")[0] == "runbook":
        raise error
    return ConfigError(f"the package {error.name} is not installed: pip install 'runbook-engine[cluster]'")
