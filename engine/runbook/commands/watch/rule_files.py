"""Read the watcher's rules, and check each against its playbook and the inventory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from runbook.commands.input_files import ENDINGS, RULES_FOLDER, find_playbook, read_playbook
from runbook.errors import ConfigError, Problem
from runbook.foreign_files import refuse_foreign
from runbook.inventory.host_patterns import select
from runbook.language.inputs import resolve_inputs
from runbook.language.watch_rules import load_rule
from runbook.plugins import discover
from runbook.text.suggestions import suggest
from runbook.text_files import read_text
from runbook.values.inventory import Inventory
from runbook.values.playbook import Playbook
from runbook.values.watch_rule import Rule, Then


def rule_files(given: Sequence[str]) -> list[Path]:
    """Return the files of the rules in *given*: files, and folders of them; ``./watch`` if nothing is given.

    Raises ConfigError if there is none.
    """
    found: list[Path] = []
    for name in given or (RULES_FOLDER,):
        path = Path(name)
        if path.is_dir():
            found += sorted(each for each in path.iterdir() if each.suffix in ENDINGS and each.is_file())
        elif path.exists():
            found.append(path)
        else:
            raise ConfigError(Problem(message=f"there is no {name}", hint="name the rules with --rules PATH"))
    if not found:
        raise ConfigError(
            f"no rule in {', '.join(given or (RULES_FOLDER,))}: no file there ends in {' or '.join(ENDINGS)}"
        )
    return found


def read_rules(given: Sequence[str]) -> tuple[Rule, ...]:
    """Return the rules in the files or folders *given*.  Raises ConfigError with every mistake in all of them."""
    problems: list[Problem] = []
    rules: dict[str, Rule] = {}
    for path in rule_files(given):
        try:
            rule = read_rule(path)
        except ConfigError as error:
            problems += error.problems
            continue
        if rule.name in rules:
            words = f"there are two rules {rule.name!r}: {rules[rule.name].where.file} is the other"
            problems.append(Problem(file=str(path), line=1, column=1, message=words))
        rules[rule.name] = rule
    for rule in rules.values():
        if rule.on.cured_by and rule.on.cured_by not in rules and not problems:
            words = f"on.cured_by: there is no rule {rule.on.cured_by!r}"
            others = [name for name in rules if name != rule.name]
            problems.append(
                Problem(file=rule.where.file, line=1, column=1, message=words, hint=suggest(rule.on.cured_by, others))
            )
    if problems:
        raise ConfigError(*problems)
    return tuple(rules.values())


def read_rule(path: Path) -> Rule:
    """Return the rule in *path*, checked against its playbook.  Raises ConfigError with every mistake in it."""
    rule = load_rule(read_text(refuse_foreign(path)), str(path))
    try:
        book = read_playbook(find_playbook(rule.playbook), discover())
    except ConfigError as error:
        mistakes = [each if each.file else replace(each, file=str(path), line=1, column=1) for each in error.problems]
        raise ConfigError(*mistakes) from error
    if problems := [*_against(rule, book, str(path))]:
        raise ConfigError(*problems)
    return rule


def _against(rule: Rule, book: Playbook, file: str) -> Iterator[Problem]:
    """Yield the mistakes of *rule* that its playbook shows."""

    def mistake(message: str, hint: str = "") -> Problem:
        return Problem(file=file, line=1, column=1, message=message, hint=hint)

    findings = [each.id for each in book.findings]
    if rule.finding and rule.finding not in findings:
        yield mistake(f"finding: {book.name} has no finding {rule.finding!r}", suggest(rule.finding, findings))
    if rule.then is not Then.PROBE and not book.remediate:
        yield mistake(f"then: {rule.then}, but {book.name} changes nothing", "then: probe")
    hidden = [each.name for each in book.inputs if each.name in rule.inputs and each.hides(rule.inputs[each.name])]
    for name in hidden:
        yield mistake(f"inputs: {name} is a secret, and a rule is no place for one", "its `env` or a `secrets:` entry")
    try:
        resolve_inputs(book, rule.inputs)
    except ConfigError as error:
        yield from (replace(each, file=file, line=1, column=1) for each in error.problems)


def hosts_of_rules(rules: Sequence[Rule], inventory: Inventory) -> Mapping[str, tuple[str, ...]]:
    """Return the hosts that each of *rules* may touch, by its name.  Raises ConfigError with every mistake."""
    problems: list[Problem] = []
    found: dict[str, tuple[str, ...]] = {}
    for rule in rules:
        try:
            chosen = select(inventory, rule.hosts, False, may_be_none=True)
        except ConfigError as error:
            problems += [
                replace(each, file=rule.where.file, line=1, column=1, message=f"hosts: {each.message}")
                for each in error.problems
            ]
            continue
        found[rule.name] = tuple(host.name for host in chosen.hosts)
    if problems:
        raise ConfigError(*problems)
    return found
