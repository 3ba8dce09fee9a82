"""Describe a playbook in sentences (``runbook show``)."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar, get_type_hints

from runbook.commands.input_files import find_playbook, read_playbook
from runbook.commands.secret_masking import SecretMasking, masked_by, secrets_in_playbook_file, secrets_of
from runbook.commands.show.layout import WIDTH, plain, width, wrapped
from runbook.commands.show.steps import conditions, limits
from runbook.errors import ConfigError
from runbook.language.arguments import build
from runbook.language.expressions.templates import Scope, names, render, value_of
from runbook.language.expressions.views import UnknownTouched
from runbook.language.includes import inputs_of_parts
from runbook.plugins import discover
from runbook.protocols import Action
from runbook.secrets.masking import Masking, masked
from runbook.values.command import shown_variable
from runbook.values.playbook import (
    FindingRule,
    IncludedPlaybook,
    Input,
    Let,
    Phase,
    Playbook,
    SecretReference,
    Step,
    SymptomKind,
)
from runbook.values.types import Duration, Json, Unknown, seconds

T = TypeVar("T", Step, FindingRule)

SHOWN_SYMPTOMS = 3
BRANCH = re.compile(r"\{%-?\s*(?:elif|else)\b.*?%\}.*?(?=\{%-?\s*endif)", re.DOTALL)
"""The branches of a template after its first condition."""
FILLED = re.compile(r"\{\{.*?\}\}", re.DOTALL)
STATEMENT = re.compile(r"\{%.*?%\}", re.DOTALL)


def summary_lines(book: Playbook, path: str, actions: Mapping[str, Action], wide: int = WIDTH) -> list[str]:
    """Return a summary of *book*, the playbook in the file *path*, as lines.

    ``...`` replaces the value of a template.
    """
    head = wrapped(f"{book.name}: {book.about}" if book.about else book.name, "", wide)
    texts = [symptom.written for symptom in book.symptom if symptom.kind is SymptomKind.TEXT][:SHOWN_SYMPTOMS]
    sections = [
        ("When you read", texts),
        ("It probes, which changes nothing", _steps(book, book.diagnose, actions)),
        ("It finds", _findings(book)),
        ("It changes, in this order", _steps(book, book.remediate, actions)),
        ("Afterwards it probes again, and checks", _steps(book, book.verify, actions)),
        ("Inputs (-e NAME=VALUE)", [f"{given.name}: {_first_sentence(given.about)}" for given in book.inputs]),
        ("Secrets", [f"{secret.name}: from {secret}" for secret in book.secrets]),
    ]
    lines = [*head, f"({path}; for hosts: {book.hosts or 'as given by --hosts'})"]
    for title, entries in sections:
        if entries:
            lines += ["", title, *(line for entry in entries for line in wrapped(entry, "  ", wide))]
    held = wrapped(words, "", wide) if (words := limits(book.limits)) else []
    more = f"Every argument, condition and advice, and how to do it by hand: runbook show -v {book.name}"
    return [*lines, *(["", *held] if held else []), "", more]


def _steps(book: Playbook, steps: Iterable[Step], actions: Mapping[str, Action]) -> list[str]:
    """Return the names of the steps, one a line; the steps of each included playbook share one line."""
    lines: list[str] = []
    for part, group in _by_part(book, steps):
        if part:
            lines.append(f"what the included {part} does: {', '.join(step.action for step in group)}")
            continue
        for step in group:
            name = step.name or actions[step.action].summary.rstrip(".")
            why = f" (if found: {', '.join(step.for_)})" if step.for_ else ""
            lines.append(f"{step.id or step.action}: {_in_words(name)}{why}")
    return lines


def _findings(book: Playbook) -> list[str]:
    lines = []
    for part, group in _by_part(book, book.findings):
        if part:
            names = [rule.id.removeprefix(f"{part}_") for rule in group if rule.severity.drives]
            lines.append(f"what the included {part} finds: {', '.join(names)}")
            continue
        said = ((rule, _in_words(rule.say)) for rule in group)
        lines += [f"{rule.severity} {rule.id}" + (f": {words}" if words != "..." else "") for rule, words in said]
    return lines


def _by_part(book: Playbook, things: Iterable[T]) -> Iterator[tuple[str, list[T]]]:
    """Yield the *things* of the playbook itself, then the things of each included playbook, each group with its
    part's id.
    """
    groups: dict[str, list[T]] = {"": [], **{part.id: [] for part in book.parts}}
    for thing in things:
        groups[thing.part].append(thing)
    return ((part, group) for part, group in groups.items() if group)


def _in_words(text: str) -> str:
    """Return *text* without templates: only the first of several branches, and ``...`` in place of values."""
    return re.sub(r"(?:\.\.\.[\s:;,]*)+\.\.\.", "...", FILLED.sub("...", STATEMENT.sub("", BRANCH.sub("", text))))


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=[.;:]) ", " ".join(text.split()), maxsplit=1)[0].rstrip(";:")


_SHAPES = Masking(())
SPARES = frozenset({"lost"})
"""Arguments that only spare more processes, based on a probe; the lines to do a step by hand leave them out."""
ITEM = "ITEM"
"""The text in place of the item of an ``each`` in the lines to do a step by hand."""


def playbook_lines(book: Playbook, path: str, actions: Mapping[str, Action], wide: int = WIDTH) -> list[str]:
    """Return the full description of *book*, the playbook in the file *path*, as lines.

    A line has at most *wide* columns, unless a single word is longer.
    """
    lines = wrapped(f"{book.name}: {book.about}" if book.about else book.name, "", wide)
    lines += [f"({path}; for hosts: {book.hosts or 'as given by --hosts'})"]
    if book.inputs:
        lines += ["", "INPUTS (-e NAME=VALUE)", *(line for item in book.inputs for line in _input_lines(item, wide))]
    if book.secrets:
        lines += ["", "SECRETS (read right before a run that needs them)"]
        lines += [line for secret in book.secrets for line in _secret_lines(secret, wide)]
    writer = _Writer(book, actions, wide)
    if any(book.let.values()):
        lines += ["", "NAMES (used in conditions and arguments below)"]
        own = ((part, name, value) for part, let in book.let.items() for name, value in let)
        for part, name, value in own:
            within = f" (in {part})" if part else ""
            lines += wrapped(f"{name}{within}: {' '.join(value.split())}", "  ", wide, further="    ")
    if book.diagnose:
        lines += ["", *wrapped("1. DIAGNOSE (changes nothing; a dry run does all of it, too)", "", wide)]
        lines += writer.steps(1, book.diagnose)
    if book.findings:
        lines += ["", "2. FINDINGS"]
        lines += [
            line for number, finding in enumerate(book.findings, 1) for line in writer.finding(f"2.{number}", finding)
        ]
    if book.remediate:
        each = "each step only while its finding is present" if book.findings else "each step decides by its own probe"
        lines += ["", *wrapped(f"3. REMEDIATE (in this order; {each})", "", wide)]
        lines += writer.steps(3, book.remediate)
    if (book.remediate and book.diagnose) or book.verify:
        lines += ["", *wrapped("4. VERIFY (after a change every probe of part 1 runs again)", "", wide)]
        lines += writer.steps(4, book.verify)
    words = limits(book.limits)
    return [*lines, *(["", *wrapped(words, "", wide)] if words else [])]


def _input_lines(declared: Input, wide: int) -> list[str]:
    value = (
        "required"
        if declared.required
        else f"default {'***' if declared.hides(declared.default) else plain(declared.default) or 'empty'}"
    )
    return wrapped(f"{declared.name}: {declared.about} ({value})", "  ", wide, further="    ")


def _secret_lines(declared: SecretReference, wide: int) -> list[str]:
    about = f"{declared.description.rstrip('.')}: from" if declared.description else "from"
    return wrapped(f"{declared.name}: {about} {declared}", "  ", wide, further="    ")


class _Writer:
    """Describes steps and findings; inputs have their defaults."""

    def __init__(self, book: Playbook, actions: Mapping[str, Action], wide: int) -> None:
        self._book, self._actions, self._wide = book, actions, wide
        self._parts = {part.id: part for part in book.parts}
        self._inputs = _inputs(book)

    def steps(self, section: int, steps: Iterable[Step]) -> list[str]:
        """Return lines about the steps; the steps of an included playbook follow a line with its name."""
        lines: list[str] = []
        part = ""
        for number, step in enumerate(steps, 1):
            if step.part != part:
                part = step.part
                lines += self._wrapped(self._part(part), "  ") if part else ["  from this playbook's own steps:"]
            lines += self._step(f"{section}.{number}", step)
        return lines

    def _part(self, name: str) -> str:
        part: IncludedPlaybook = self._parts[name]
        given = f" with {plain(masked(part.given, _SHAPES))}" if part.given else ""
        return f"from the playbook that is included as {name}{given}:"

    def _step(self, number: str, step: Step) -> list[str]:
        """Return lines about a step, with the commands to do it by hand."""
        action = self._actions[step.action]
        lines = self._wrapped(f"{number} {step.name or action.summary.rstrip('.')} [{step.id or step.action}]", "  ")
        lines += self._wrapped(f"{step.action}: {action.summary}", "      ") if step.name else []
        samples = {key: self._rendered(str(value), step) for key, value in step.samples.items()}
        env = tuple((name, self._rendered(text, step)) for name, text in step.env)
        step = replace(step, env=env, cwd=self._rendered(step.cwd, step))
        known = replace(step, on=self._rendered(step.on, step), samples=samples)
        for sentence in conditions(known, found=bool(self._book.findings), items=self._items(step)):
            lines += self._wrapped(sentence, "      ")
        args = self._args(step, action)
        hints = get_type_hints(action.Args)
        open_ = {name for name, value in step.args.items() if self._stands_in(value, step)}
        for name, value in step.args.items():
            if name in open_ | SPARES:
                lines += self._wrapped(f"{name}: {plain(value)}", "        ")
                continue
            shown = masked({name: getattr(args, name, value) if args is not None else value}, _SHAPES)[name]
            words = seconds(shown) if hints.get(name) is Duration and isinstance(shown, float) else plain(shown)
            lines += self._wrapped(f"{name}: {words}", "        ")
        lines += self._by_hand(step, action, None if open_ else args)
        if step.action in ("command", "script") and step.phase is Phase.DIAGNOSE:
            lines.append("      (read-only, as its author says)")
        return lines

    def _items(self, step: Step) -> str:
        """Return the items of the step's ``each``; empty if they are not known from the inputs."""
        try:
            found = value_of(step.each, self._scope(step)) if step.each else None
        except ConfigError:
            return ""
        return plain(found) if isinstance(found, list) else ""

    def _rendered(self, text: str, step: Step) -> str:
        """Return *text* with the inputs at their defaults; unchanged if that is not possible."""
        try:
            return str(render(text, self._scope(step)))
        except ConfigError:
            return text

    def _scope(self, step: Step) -> Scope:
        return Scope(inputs=self._inputs.get(step.part, {}), let=self._book.let_of(step.part))

    def _stands_in(self, value: Any, step: Step) -> bool:
        """Whether *value* is a template that uses a fallback because an input is empty by default."""
        given = self._inputs.get(step.part, {})
        if not isinstance(value, str) or not re.search(r"\{\{.*\b(or|else|default)\b", value):
            return False
        named = re.findall(r"\binputs\.(\w+)", value)
        return any(name in given and given[name] in ("", [], {}, None) for name in named)

    def _by_hand(self, step: Step, action: Action, args: Any) -> list[str]:
        shown = (
            action.by_hand and args is not None and not (step.phase is not Phase.REMEDIATE and _changes(action, args))
        )
        lines = action.by_hand(args) if action.by_hand and shown else ()
        before = [f"cd {shlex.quote(step.cwd)}"] if step.cwd else []
        before += [f"export {name}={shlex.quote(shown_variable(name, value))}" for name, value in step.env]
        return ["      by hand:", *(f"        {line}" for line in (*before, *lines))] if lines else []

    def _args(self, step: Step, action: Action) -> Any:
        states = {each.id.removeprefix(f"{step.part}_"): Unknown(why="not probed yet") for each in self._book.diagnose}
        item = ITEM if step.each else None
        wanted = {name: value for name, value in step.args.items() if name not in SPARES}
        try:
            rendered = render(wanted, replace(self._scope(step), states=states, item=item))
            return build(action.Args, rendered) if isinstance(rendered, Mapping) else None
        except (UnknownTouched, ConfigError):
            return None

    def _wrapped(self, text: str, indent: str) -> list[str]:
        return wrapped(text, indent, self._wide)

    def finding(self, number: str, rule: FindingRule) -> list[str]:
        """Return lines about a finding, with its advice."""
        let = self._book.let_of(rule.part)
        lines = self._wrapped(f"{number} {rule.severity} [{rule.id}] {_spoken(rule.say, let)}", "  ")
        if rule.across:
            by = f", by {rule.across.by}" if rule.across.by else ""
            lines += self._wrapped(f"compared across all hosts, once each is probed: {rule.across.value}{by}", "      ")
        lines += self._wrapped(f"when: {rule.when}", "      ")
        lines += self._wrapped(f"unless: {', '.join(rule.unless)}", "      ") if rule.unless else []
        words = [f"after a change, wait up to {seconds(rule.settle)} for it to go"] if rule.settle else []
        words += [f"counts as gone only after staying gone for {seconds(rule.gone_for)}"] if rule.gone_for else []
        lines += self._wrapped(", ".join(words), "      ") if words else []
        for count, advice in enumerate(rule.advise, 1):
            indent = "      if it is still present: " if count == 1 else "                   "
            lines += self._wrapped(f"{count}. {_spoken(advice, let)}", indent)
        return lines


def _changes(action: Action, args: Any) -> bool:
    """Whether the commands to do the step by hand change the host; some steps only read."""
    if action.decide is None:
        return False
    reads = getattr(args, "method", "") in ("GET", "HEAD") or action.name in ("command", "script")
    return not reads or bool(getattr(args, "do", None))


def _inputs(book: Playbook) -> Mapping[str, Mapping[str, Json]]:
    """Return the inputs of the playbook and of each included playbook, at their defaults."""
    own = {each.name: each.default for each in book.inputs if not each.required}
    try:
        return inputs_of_parts(book, own)
    except ConfigError:  # a part is given an input that has no default here
        return {"": own}


def _spoken(text: str, let: Let) -> str:
    """Return *text* with each template replaced by the names that it uses: ``<holders.leftover>``."""

    def shorter(found: re.Match[str]) -> str:
        used = sorted(f"{root}.{field}" if field else root for root, field in names(found[0], let) if root != "inputs")
        return f"<{', '.join(used)}>" if used else found[0]

    return re.sub(r"\{\{.*?\}\}", shorter, text, flags=re.DOTALL)


def show_text(name: str, *, verbose: bool = False) -> str:
    """Describe the probes and remedies of the playbook *name*; *verbose*: in full, so that a person could do it by
    hand.
    """
    actions = discover()
    path = find_playbook(name)
    described = playbook_lines if verbose else summary_lines
    with SecretMasking(lambda: secrets_in_playbook_file(name)):
        book = read_playbook(path, actions)
        return masked_by(secrets_of(book), "\n".join(described(book, str(path), actions, width())))
