"""The command ``runbook approve``: sign a saved plan with an SSH key."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime

from runbook.commands.plan import opened_plan, publish, this_user
from runbook.commands.plans.approvals import default_key, same_person, sign
from runbook.commands.plans.document import parsed
from runbook.commands.plans.plan_file import read_plan
from runbook.commands.plans.saved_text import expired, plan_text
from runbook.commands.workspace import Person
from runbook.dataclass import dataclass
from runbook.errors import ConfigError
from runbook.text.printable import printable

DECLINED = 130

SHARED = 0o644
"""The mode of a signature file: other users must read it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApproveOptions:
    """The options of ``runbook approve``."""

    key: str = ""
    """The file of the key; empty: the first key in ``~/.ssh``."""
    out: str = ""
    allowed_signers: str = ""
    yes: bool = False


def approve_plan(path: str, options: ApproveOptions, person: Person) -> int:
    """Show the plan in the file *path*, ask, and sign exactly what was shown.  Returns the exit code."""
    content = read_plan(path, trusted=False)
    saved = parsed(content, path)
    now = datetime.now(UTC)
    this = this_user(now)
    if expired(saved, now):
        raise ConfigError(f"{path}: the plan expired at {saved.expires_at}; there is nothing to approve")
    if options.yes and saved.made.agent:  # the agent can start programs, too: what it lacks is a terminal
        raise ConfigError(
            f"{path} was made by an agent: a person reads it and approves it on a terminal, without --yes"
        )
    if not options.yes:
        if not person.is_there():
            raise ConfigError("approving needs a yes: there is no terminal to ask on, and no --yes")
        print(printable(plan_text(path, content, options.allowed_signers)), file=sys.stderr)
        if not person.confirms("\nApprove this plan?"):
            person.say("declined: nothing was signed")
            return DECLINED
    if saved.approvals and same_person(this.names, saved.made.names):
        person.say(
            f"you are {this.sudo_user or this.user}, who made this plan: apply counts the approval only if the key is "
            "another user's in allowed_signers"
        )
    key = os.path.expanduser(options.key) if options.key else default_key()
    out = options.out or f"{os.path.expanduser(path)}.{this.sudo_user or this.user}.sig"
    made = opened_plan(out, SHARED)
    signature = sign(content, key)
    publish(made, signature, out)
    person.say(f"approved plan {saved.plan[:8]} with {key}: the signature is in {out}")
    return 0
