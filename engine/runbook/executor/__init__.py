"""Plan in, results out: sends what the plan shows, or less, having probed again first."""

from runbook.executor.consent import Consent
from runbook.executor.host_steps import Outcome, execute

__all__ = ["Consent", "Outcome", "execute"]
