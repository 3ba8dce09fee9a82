"""The lint rules about secrets: those that stand in the playbook itself, and references that nothing uses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from runbook.expressions.templates import is_template
from runbook.lang.lenient_read import unraw
from runbook.lang.lint.context import LintContext, RuleMatch
from runbook.lang.secret_uses import secret_uses
from runbook.lang.yaml_source import Path
from runbook.secrets.detection import masked_argv
from runbook.secrets.names import MASK, NOT_A_VALUE, is_secret
from runbook.values.playbook import SecretSource

INSTEAD = "secrets: {NAME: {env: VARIABLE}} (or file, command, keyring), and {{ secrets.NAME }} here"


def literal_secrets(context: LintContext) -> Iterator[RuleMatch]:
    """Secrets that everybody can read who can read the playbook."""
    for step, path in context.steps:
        args: Any = unraw(step.args)
        check = args.get("check") if isinstance(args.get("check"), Mapping) else {}
        for at, tree in (
            ((*path, "env"), dict(step.env)),
            ((*path, step.action, "headers"), args.get("headers")),
            ((*path, step.action, "check", "headers"), check.get("headers")),
        ):
            yield from (
                RuleMatch(item, "a secret stands in the playbook itself", INSTEAD) for item in _literal(tree, at)
            )
        for inner in ((), ("check",), ("do",)):
            yield from _on_command_line(args, (*path, step.action), inner)
    for declared in context.book.inputs:
        default = declared.default
        if isinstance(default, str) and default and declared.hides(default) and not _means_nothing(default):
            what = f"the default of the input {declared.name} is a secret that stands in the playbook itself"
            yield RuleMatch(("inputs", declared.name, "default"), what, "give no default, or use `secrets:` instead")


def _literal(tree: Any, path: Path) -> Iterator[Path]:
    for name, value in tree.items() if isinstance(tree, Mapping) else ():
        if isinstance(value, str) and not _means_nothing(value) and is_secret(str(name), value):
            yield (*path, name)


def _means_nothing(value: str) -> bool:
    return is_template(value) or value.strip().lower() in NOT_A_VALUE


def _on_command_line(args: Any, path: Path, inner: Path) -> Iterator[RuleMatch]:
    own = args
    for key in inner:
        own = own.get(key) if isinstance(own, Mapping) else None
    argv = own.get("argv") if isinstance(own, Mapping) else None
    words = [each for each in argv if isinstance(each, str)] if isinstance(argv, list) else []
    shown = masked_argv(words)
    if any(MASK in one and one != two and not is_template(two) for one, two in zip(shown, words, strict=True)):
        what = "a secret stands in the playbook itself, and in the list of processes of the host"
        yield RuleMatch((*path, *inner, "argv"), what, f"give it by `env:` with {INSTEAD}")


def undeclared_secrets(context: LintContext) -> Iterator[RuleMatch]:
    """Secrets that only an inventory could have."""
    places = {id(step): path for step, path in context.steps}
    declared = {secret.name for secret in context.book.secrets}
    for use in secret_uses(context.book):
        if not use.step.part and not use.of_host and use.name not in declared:
            what = f"the secret {use.name!r} is not declared here, so that every inventory has to have it"
            hint = f"secrets: {{{use.name}: {{description: ...}}}} says that the inventory gives it"
            yield RuleMatch((*places[id(use.step)], *use.path), what, hint)


def unused_secrets(context: LintContext) -> Iterator[RuleMatch]:
    """References that nothing uses."""
    used = {(use.secret, use.of_host) for use in secret_uses(context.book) if not use.step.part}
    for declared in context.book.secrets:
        of_host = declared.source is SecretSource.INVENTORY and (declared.name, True) in used
        if (declared.name, False) not in used and not of_host:
            yield RuleMatch(
                ("secrets", declared.name), f"the secret {declared.name!r} is not used", "use it, or remove it"
            )
