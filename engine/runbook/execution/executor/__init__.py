"""Plan in, results out: sends what the plan shows, or less, having probed again first."""

from runbook.execution.executor.consent import Consent
from runbook.execution.executor.host_steps import Outcome, execute

__all__ = ["Consent", "Outcome", "execute"]
