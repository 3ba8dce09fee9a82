"""Execute a plan: probe again, send the changes that the plan shows, or fewer, and return the results."""

from runbook.execution.executor.consent import Consent
from runbook.execution.executor.host_steps import Outcome, execute

__all__ = ["Consent", "Outcome", "execute"]
