"""The command ``runbook apply``: carry out a saved plan, once, on the hosts where the plan is still true."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from runbook.commands.input_files import values_given
from runbook.commands.one_run import limits_of
from runbook.commands.options import FleetOptions, GivenInputs, RunOptions, made_from
from runbook.commands.order import Order
from runbook.commands.placed import at_its_place
from runbook.commands.plan import this_user
from runbook.commands.plans.approvals import SIGNERS, signature_files, signers_file
from runbook.commands.plans.binding import changes, missing_inputs
from runbook.commands.plans.document import RECORDED, SavedPlan, parsed
from runbook.commands.plans.narrowing import Narrowing, ends_of_others
from runbook.commands.plans.plan_file import read_plan
from runbook.commands.plans.saved_text import approvals_of, expired, from_the_future, plan_text
from runbook.commands.plans.usage import Usage, Use
from runbook.commands.playbook_order import order_of
from runbook.commands.rests_on import origin_of
from runbook.commands.secret_masking import SecretMasking, secrets_of, secrets_on_command_line
from runbook.commands.sources import Sources, read_sources
from runbook.commands.undo import UndoOptions, undo_order
from runbook.commands.workspace import OpenRun, Person
from runbook.dataclass import dataclass
from runbook.errors import ConfigError, Problem, RecordLost
from runbook.execution.diagnosis.verdicts import sent
from runbook.execution.executor import Consent
from runbook.reporting.collector import Collector
from runbook.secrets.masking import Masking, masked
from runbook.text.printable import printable
from runbook.values.result import Verdict
from runbook.values.types import plural
from runbook.version import __version__

DECLINED = 130
NEW_PLAN = "make a new one with `runbook plan`"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """A saved plan, read from its file."""

    path: str
    content: bytes
    saved: SavedPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyOptions(FleetOptions):
    """The options of ``runbook apply``."""

    given: GivenInputs = field(default_factory=GivenInputs)
    check: bool = False
    """Whether to report only where the plan is still true: ``--dry-run``."""
    replan: bool = False
    approval: tuple[str, ...] = ()
    """Files of signatures that are not beside the plan."""
    allowed_signers: str = ""


def apply_plan(path: str, options: ApplyOptions, person: Person) -> int:
    """Carry out the plan in the file *path*.  Returns the exit code.

    Raises ConfigError with every reason why the plan must not be applied, before any connection is made.
    """
    content = read_plan(path, trusted=True)
    plan = _Plan(path=path, content=content, saved=parsed(content, path))
    whole = options_of_plan(plan.saved, options)
    name = "" if plan.saved.undoes else _playbook_of(plan.saved)
    with SecretMasking(lambda: secrets_on_command_line(name, whole.choosing.inventory, whole.given)) as hiding:
        return _apply(plan, name, options, whole, person, hiding)


def options_of_plan(saved: SavedPlan, given: ApplyOptions) -> RunOptions:
    """Return the options that the plan was made with, together with the options of this command line."""
    made = made_from(RunOptions, {name: saved.options.get(name) for name in (*RECORDED, "hosts")})
    inventory = given.choosing.inventory or tuple(saved.rests_on.inventory)
    return replace(
        made,
        choosing=replace(made.choosing, inventory=inventory, only_addresses=not inventory),
        connecting=given.connecting,
        limits=replace(made.limits, wait_lock=given.limits.wait_lock),
        output=given.output,
        recording=given.recording,
        through=replace(given.through, via=str(saved.options.get("via", "local"))),
        given=replace(given.given, below=saved.rests_on.known_inputs, of_profiles=saved.rests_on.profile_inputs),
        plan_only=True,  # the hosts are those of the plan, also where the playbook names them
        scratch=True,
    )


def _playbook_of(saved: SavedPlan) -> str:
    """Return the playbook's file; if the file does not exist on this machine, the name that was given for the plan."""
    return saved.rests_on.playbook if Path(saved.rests_on.playbook).is_file() else saved.named


def _apply(
    plan: _Plan, name: str, options: ApplyOptions, whole: RunOptions, person: Person, hiding: SecretMasking
) -> int:
    saved = plan.saved
    problems = _unusable(plan, options, whole, person)
    order = _order_of_undo(saved, whole, person, problems) if saved.undoes else None
    if order is None:
        missing = missing_inputs(saved, frozenset(values_given(options.given.inputs, options.given.inputs_file)))
        problems += missing
        sources = read_sources(name, whole, problems) if not missing else None
        if sources:
            problems += _changes(saved, sources)
        order = replace(order_of(sources, whole, person, problems), keeps_owed=True, planned_in=saved.run)
    _refuse_other_limits(saved, order)
    consent: Consent | None = Consent.SHOWN if options.yes else Consent.NONE
    if options.check:
        consent = None
    elif not options.yes and person.is_there():
        print(printable(plan_text(plan.path, plan.content, options.allowed_signers)), file=sys.stderr)
        if not person.confirms(f"\nDo this on {plural(saved.changed_hosts, 'host')}?"):
            person.say("declined: nothing was changed")
            return DECLINED
        consent = Consent.SHOWN
        if expired(saved, datetime.now(UTC)):
            raise ConfigError(f"{plan.path}: the plan has expired while it was shown; {NEW_PLAN}")
    order = at_its_place(order, replace(whole, plan_only=consent is not Consent.SHOWN), hiding)
    return _carry_out(saved, order, options, person, hiding, consent)


def _changes(saved: SavedPlan, sources: Sources) -> list[Problem]:
    mask = Masking((*sources.inventory.secrets, *secrets_of(sources.playbook)))
    return changes(saved, sources, lambda value: masked({"value": value}, mask)["value"])


def _order_of_undo(saved: SavedPlan, whole: RunOptions, person: Person, problems: list[Problem]) -> Order:
    """Make the order of the undo that *saved* shows again, from the present record.  Raises ConfigError."""
    given = UndoOptions(
        choosing=whole.choosing, connecting=whole.connecting, limits=whole.limits, output=whole.output,
        recording=whole.recording, plan_only=True, changed_inventory=True,  # the inventory has to be that of the plan
    )  # fmt: skip
    order = undo_order(saved.undoes, given, person, approved=True)
    if isinstance(order, int):
        raise ConfigError(*problems, Problem(message=f"nothing of run {saved.undoes} can be undone any more"))
    sources = Sources(
        name=saved.undoes, playbook=order.playbook, inventory=order.inventory, inputs={}, profile_inputs={},
        given=GivenInputs(), selection=order.selection,
    )  # fmt: skip
    problems += _changes(saved, sources)
    if problems:
        raise ConfigError(*problems)
    return replace(order, planned_in=saved.run)


def _refuse_other_limits(saved: SavedPlan, order: Order) -> None:
    """Raise ConfigError if hosts would be changed in other batches, or under other limits, than the plan shows."""
    planned = [host.host for host in saved.result.hosts if host.verdict is Verdict.PLANNED]
    shown = saved.result.limits
    if shown is None or replace(shown, used=None) != limits_of(order, planned):
        raise ConfigError("the limits that the plan shows are not those that it would be applied with; make a new plan")


def _unusable(plan: _Plan, options: ApplyOptions, whole: RunOptions, person: Person) -> list[Problem]:
    """Return the reasons why this user must not apply the plan now."""
    saved, now = plan.saved, datetime.now(UTC)
    words = []
    if saved.engine_version != __version__:
        words.append(
            f"the plan was made by version {saved.engine_version}, and this is {__version__}, which may decide "
            f"otherwise; {NEW_PLAN}"
        )
    if expired(saved, now):
        words.append(f"the plan expired at {saved.expires_at}; {NEW_PLAN}")
    if from_the_future(saved, now):
        words.append(f"the plan was made at {saved.made.at}, which lies ahead: check the clock")
    if use := Usage().of(saved.plan):
        words.append(f"the plan was already applied: {use}; {NEW_PLAN}")
    if options.replan and not person.is_there():
        words.append("--replan shows a new plan and asks, and there is no terminal to ask on")
    if options.replan and saved.signatures:
        words.append("--replan: a new plan would need approvals of its own; leave it out, and make a new plan")
    return [
        *(Problem(message=f"{plan.path}: {word}") for word in words),
        *_unapproved(plan, options, whole.choosing.inventory),
    ]


def _unapproved(plan: _Plan, options: ApplyOptions, inventory: Sequence[str]) -> list[Problem]:
    """Return the reasons why the approvals of the plan do not suffice."""
    saved, file = plan.saved, shlex.quote(plan.path)
    if not saved.signatures or options.check:
        return []
    needs = f"{plan.path} needs {plural(saved.signatures, 'approval')}"
    if saved.made.agent:
        needs = f"{plan.path} was made by an agent, and needs {plural(saved.signatures, 'approval')} of a person"
    who = "another user" if saved.approvals else "a person"
    how = f"{who} runs `runbook approve {file}`, which makes {plan.path}.NAME.sig beside it (or --approval FILE)"
    files = signature_files(os.path.expanduser(plan.path), options.approval)
    known = signers_file(options.allowed_signers, inventory)
    if known is None:
        words = f"{needs}, and nothing says whose key is whose"
        hint = (
            f"write a file {SIGNERS} beside the inventory, a line for each person, such as `bob@example.com "
            "ssh-ed25519 AAAA...`; or name it with --allowed-signers FILE"
        )
        return [Problem(message=words, hint=hint)]
    try:
        good, refused = approvals_of(
            saved, plan.content, files, str(known), excluded=this_user(datetime.now(UTC)).names
        )
    except ConfigError as error:
        return list(error.problems)
    if len(good) >= saved.signatures:
        return []
    return [
        Problem(message=f"{needs}, and has {len(good)}", hint=how),
        *(Problem(message=f"{each.file} does not count: {each.why}") for each in refused),
    ]


def _carry_out(
    saved: SavedPlan,
    order: Order,
    options: ApplyOptions,
    person: Person,
    hiding: SecretMasking,
    consent: Consent | None,
) -> int:
    kept, changing = Collector(), consent is Consent.SHOWN
    origin = origin_of(order, "apply")
    order = replace(order, origin=replace(origin, applies=saved.plan, undoes=saved.undoes))
    open_run = OpenRun(order, options, person, hiding, changing=changing, listeners=(kept,))
    usage, this = Usage(), this_user(datetime.now(UTC))
    use = Use(by=str(this), since=this.at)
    narrowing = Narrowing.of(saved, open_run.run, person, replans=options.replan and changing)
    if changing:
        usage.claim(saved.plan, use)
    try:
        with open_run:
            code = open_run.run.apply(narrowing.narrowed, ends_of_others(saved), consent)
    except RecordLost:  # the run was not begun
        if changing:
            usage.release(saved.plan)
        raise
    if changing:
        _note_end(usage, saved.plan, replace(use, exit_code=code), _anything_sent(kept), person)
    return open_run.code(code)


def _anything_sent(kept: Collector) -> bool:
    """Whether a command was sent that may have changed a host."""
    hosts: Sequence[Any] = kept.result.hosts if kept.result else ()
    return kept.result is None or any(sent(step) for host in hosts for step in host.steps)


def _note_end(usage: Usage, plan: str, use: Use, anything: bool, person: Person) -> None:
    """Record the end of an apply; the plan stays unused if nothing was sent to any host."""
    try:
        if anything:
            usage.ended(plan, use)
        else:
            usage.release(plan)
            person.say("nothing was sent to any host: the plan can be applied again while it is valid")
    except OSError as error:
        person.say(f"the end of this apply could not be recorded ({error.strerror}): the plan counts as applied")
