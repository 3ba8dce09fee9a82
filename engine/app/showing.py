"""Playbooks, hosts and actions in words."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from difflib import get_close_matches
from typing import Any, get_args, get_origin, get_type_hints

from engine.actions import discover
from engine.app.files import find_playbook, inventory_paths, playbook_files, read_inventory, read_playbook
from engine.errors import ConfigError
from engine.facts.folding import fold
from engine.inventory.patterns import select
from engine.ports import Action
from engine.values.inventory import Host, LeftOut
from engine.values.playbook import FindingRule, Input, Limits, Playbook, Step
from engine.values.text import Json, Raw, plural, seconds

WIDTH = 110


def list_text() -> str:
    """The playbooks that a bare name can mean, each with what it is for."""
    actions, lines = discover(), []
    for path in playbook_files():
        try:
            lines.append(f"{path.stem:20} {read_playbook(path, actions).about}")
        except ConfigError as error:
            lines.append(
                f"{path.stem:20} cannot be used: {plural(len(error.problems), 'mistake')} (runbook check {path})"
            )
    return "\n".join(lines) or "no playbooks: neither in ./playbooks nor in the library"


def hosts_text(pattern: str, given: Sequence[str], include_not_ready: bool) -> str:
    """Who *pattern* would take, who is left out, and why."""
    inventory = read_inventory(inventory_paths(given))
    chosen = select(inventory, pattern, include_not_ready, may_be_none=True)
    rows = [_host_row(it) for it in chosen.hosts]
    widths = [max(len(row[column]) for row in rows) for column in range(4)] if rows else [0] * 4
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, (*widths, 0), strict=True)).rstrip() for row in rows
    ]
    taken = f"{plural(len(rows), 'host')} taken: {fold([it.name for it in chosen.hosts])}" if rows else "no host taken"
    lines += ["", taken] if rows else [taken]
    lines += [f"left out: {it.host} ({it.why})" for it in _by_reason(chosen.left_out)]
    return "\n".join(lines)


def _by_reason(left_out: Sequence[LeftOut]) -> list[LeftOut]:
    groups: dict[str, list[str]] = {}
    for it in left_out:
        groups.setdefault(it.why, []).append(it.host)
    return [LeftOut(host=fold(hosts), why=why) for why, hosts in groups.items()]


def _host_row(host: Host) -> tuple[str, str, str, str, str]:
    way = " then ".join(map(str, host.addresses)) or host.transport
    return (
        host.name,
        f"{host.user}@{way}" if host.user else way,
        str(host.status),
        host.host_keys,
        " ".join(host.groups),
    )


def actions_text(name: str) -> str:
    """Every action with its summary; with *name*, what it takes and what it sees."""
    actions = discover()
    if not name:
        return "\n".join(f"{it.name:15} {_uses(it):9} {it.summary}" for it in actions.values())
    if name not in actions:
        near = get_close_matches(name, actions, n=1)
        raise ConfigError(f"no action {name!r}" + (f" (did you mean {near[0]}?)" if near else ""))
    action = actions[name]
    lines = [f"{name}: {action.doc}", "", f"Used to {_uses(action)}.", "", "Arguments"]
    lines += _fields(action.Args) or ["  none"]
    lines += ["", "Fields that expressions can use"]
    return "\n".join(lines + (_fields(action.State) or ["  none"]))


def schema_text() -> str:
    """The JSON Schema of playbooks, with the arguments of every action."""
    import json

    from engine.lang.exporting import exported_schema

    return json.dumps(exported_schema(discover()), indent=2, ensure_ascii=False)


def _uses(action: Action) -> str:
    if action.decide:
        return "change"
    return "wait" if action.waits else "look"


def _fields(kind: type[Any]) -> list[str]:
    hints, lines = get_type_hints(kind), []
    for it in fields(kind):
        if it.metadata.get("private"):
            continue
        default = "required" if it.default is MISSING and it.default_factory is MISSING else ""
        if it.default is not MISSING and it.default not in ("", ()):
            default = f"default {_plain(it.default)}"
        about = str(it.metadata.get("about", ""))
        lines.append(f"  {it.name:14} {_type(hints[it.name])}" + (f", {default}" if default else ""))
        lines += textwrap.wrap(about, WIDTH, initial_indent="      ", subsequent_indent="      ") if about else []
    return lines


def _type(kind: Any) -> str:
    if get_origin(kind) is tuple:
        return f"list of {_type(get_args(kind)[0])}"
    if str(get_origin(kind)) == "typing.Literal":
        return " | ".join(map(str, get_args(kind)))
    if isinstance(get_origin(kind), type) and issubclass(get_origin(kind), Mapping):
        return "mapping"
    if get_origin(kind) is not None and get_args(kind):
        return (
            " or ".join(sorted({_type(it) for it in get_args(kind)}))
            if "Union" in str(kind) or "|" in str(kind)
            else "mapping"
        )
    return str(getattr(kind, "__name__", kind))


def show_text(name: str) -> str:
    """The playbook in words that a person could follow by hand."""
    actions = discover()
    path = find_playbook(name)
    book = read_playbook(path, actions)
    lines = [f"{book.name}: {book.about}", f"({path}; for hosts: {book.hosts or 'as told by --hosts'})"]
    if book.inputs:
        lines += ["", "KNOBS (-e NAME=VALUE)", *(line for it in book.inputs for line in _input_lines(it))]
    defaults = {it.name: it.default for it in book.inputs}
    writer = _Writer(book, actions, defaults)
    lines += ["", "1. LOOK (changes nothing; all of it also happens in a dry run)"]
    lines += [line for number, it in enumerate(book.diagnose, 1) for line in writer.step(f"1.{number}", it)]
    if book.findings:
        lines += ["", "2. WHAT IT MEANS"]
        lines += [line for number, it in enumerate(book.findings, 1) for line in writer.finding(f"2.{number}", it)]
    lines += ["", "3. DO (in this order; each only while what it is for is still found)"]
    lines += [line for number, it in enumerate(book.remediate, 1) for line in writer.step(f"3.{number}", it)]
    lines += ["", "4. PROVE (after a change every look of part 1 is taken again)"]
    lines += [line for number, it in enumerate(book.verify, 1) for line in writer.step(f"4.{number}", it)]
    limits = _limits(book.limits)
    return "\n".join([*lines, *(["", *_wrapped(limits, "")] if limits else [])])


def _limits(limits: Limits) -> str:
    words = [f"The whole run ends after {seconds(limits.deadline)}."] if limits.deadline else []
    if limits.batches:
        *first, last = map(str, limits.batches)
        shares = "; then ".join([*first, f"{last} at a time" if last != "100%" else "all the others"])
        words.append(f"Hosts are changed in batches, each begun when the one before has ended: {shares}.")
    if limits.stop_after:
        them = (
            "of the hosts have"
            if limits.stop_after.percent
            else f"host{'' if limits.stop_after.number == 1 else 's'} have"
        )
        words.append(f"Once {limits.stop_after} {them} not come out well, no further host is begun.")
    return " ".join(words)


def _input_lines(it: Input) -> list[str]:
    value = "required" if it.required else f"default {'***' if it.secret else _plain(it.default)}"
    return textwrap.wrap(f"{it.name}: {it.about} ({value})", WIDTH, initial_indent="  ", subsequent_indent="      ")


class _Writer:
    """Puts steps and findings into words, with the inputs at their defaults."""

    def __init__(self, book: Playbook, actions: Mapping[str, Action], inputs: Mapping[str, Json]) -> None:
        self._book, self._actions, self._inputs = book, actions, inputs

    def step(self, number: str, step: Step) -> list[str]:
        """A step, with the lines to do it by hand."""
        action = self._actions[step.action]
        lines = _wrapped(f"{number} {step.name or action.summary.rstrip('.')} [{step.id or step.action}]", "  ")
        lines += _wrapped(f"{step.action}: {action.summary}", "      ") if step.name else []
        conditions = self._conditions(step)
        lines += _wrapped(conditions, "      ") if conditions else []
        args = self._args(step, action)
        for name, value in step.args.items():
            shown = getattr(args, name, value) if args is not None else value
            lines += _wrapped(f"{name}: {_plain(shown)}", "        ")
        hand = action.by_hand(args) if action.by_hand and args is not None else ()
        lines += ["      by hand:", *(f"        {line}" for line in hand)] if hand else []
        if step.action in ("command", "script") and step in self._book.diagnose:
            lines.append("      (read-only by the author's word)")
        return lines

    def _conditions(self, step: Step) -> str:
        words = [f"only when {step.when}"] if step.when else []
        if step in self._book.remediate:
            words.append(f"for: {', '.join(step.for_) if step.for_ else 'any error found'}")
        words += [f"after {', '.join(step.after)}"] if step.after else []
        words += [f"again every {seconds(step.every)} for {seconds(step.within)}"] if step.within else []
        words += [f"as {step.become}"] if step.become else []
        words += ["a failure is shown and ignored"] if step.ignore_failure else []
        words += ["needs a yes"] if step.confirm else []
        return "; ".join(words)

    def _args(self, step: Step, action: Action) -> Any:
        from engine.lang.arguments import build
        from engine.lang.templates import Scope, render
        from engine.lang.views import UnknownTouched
        from engine.values.text import Unknown

        looks = {it.id: Unknown(why="not looked at yet") for it in self._book.diagnose}
        try:
            rendered = render(step.args, Scope(inputs=self._inputs, host={}, run={}, looks=looks))
            return build(action.Args, rendered) if isinstance(rendered, Mapping) else None
        except (UnknownTouched, ConfigError):
            return None

    def finding(self, number: str, rule: FindingRule) -> list[str]:
        """A finding, with what people should do about it."""
        lines = _wrapped(f"{number} {rule.severity} [{rule.id}] {_spoken(rule.say)}", "  ")
        lines += _wrapped(f"when: {rule.when}", "      ")
        lines += [f"      unless: {', '.join(rule.unless)}"] if rule.unless else []
        words = [f"may take {seconds(rule.settle)} to go after a change"] if rule.settle else []
        words += [f"must then stay gone for {seconds(rule.gone_for)}"] if rule.gone_for else []
        lines += [f"      {', '.join(words)}"] if words else []
        for count, advice in enumerate(rule.advise, 1):
            lines += _wrapped(
                f"{count}. {_spoken(advice)}", "      if it stays: " if count == 1 else "                   "
            )
        return lines


def _spoken(text: str) -> str:
    """*text* with each template in it as the names that it will be filled from: ``<holders.leftover>``."""
    from engine.lang.templates import names

    def shorter(found: re.Match[str]) -> str:
        used = sorted(f"{root}.{field}" if field else root for root, field in names(found[0]) if root != "inputs")
        return f"<{', '.join(used)}>" if used else found[0]

    return re.sub(r"\{\{.*?\}\}", shorter, text, flags=re.DOTALL)


def _wrapped(text: str, indent: str) -> list[str]:
    after = " " * len(indent) + "  "
    return textwrap.wrap(" ".join(text.split()), WIDTH, initial_indent=indent, subsequent_indent=after) or [indent]


def _plain(value: Any) -> str:
    match value:
        case Raw(value=inner):
            return _plain(inner)
        case bool():
            return "yes" if value else "no"
        case list() | tuple():
            return ", ".join(map(_plain, value)) or "none"
        case Mapping():
            return ", ".join(f"{name} = {_plain(it)}" for name, it in value.items())
        case float():
            return f"{value:g}"
        case None:
            return "none"
    return str(value)
