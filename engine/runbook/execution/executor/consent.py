"""The consent of a person to changes, and the check whether it covers a change."""

from __future__ import annotations

from enum import Enum

from runbook.values.plan import Change, Risk
from runbook.values.playbook import Step


class Consent(Enum):
    """The way in which a person has consented to the changes of a run."""

    SHOWN = "shown"  # saw this plan, and said yes
    YES = "yes"  # said yes beforehand, to whatever the probes call for
    NONE = "none"  # nobody was asked


def why_unconfirmed(consent: Consent, step: Step, change: Change, least: str, *, owing: bool) -> str:
    """Return the reason why *consent* does not cover *change* of *step*; empty if it does.

    *least*: ``--yes`` does not cover a risk of this level or above (``limits.confirm_from``).  *owing*: the run has
    clean-up to do, which needs no consent.
    """
    if consent is Consent.NONE:
        asks = "the step says confirm: true" if step.confirm else f"its risk is {change.risk}"
        return f"needs --yes: {asks}, and there is no terminal to ask on"
    if consent is not Consent.YES or not least or (step.always and owing):
        return ""
    if not change.risk.at_least(Risk(least)):
        return ""
    return (
        f"--yes does not do: its risk is {change.risk}, and limits.confirm_from is {least}; run it on a terminal "
        "without --yes, or make a saved plan of the playbook (runbook plan) and apply it"
    )
