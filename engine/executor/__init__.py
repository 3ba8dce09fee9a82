"""Plan in, results out: sends what the plan shows, or less, having looked again first."""

from engine.executor.running import Consent, Outcome, execute

__all__ = ["Consent", "Outcome", "execute"]
