"""Plan in, results out: sends what the plan shows, or less, having probed again first."""

from engine.executor.consent import Consent
from engine.executor.host_steps import Outcome, execute

__all__ = ["Consent", "Outcome", "execute"]
