"""Find the secrets that a playbook uses: in the environment of a step, and in arguments that are sent on standard
input.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from itertools import zip_longest
from typing import Any

from runbook.dataclass import dataclass
from runbook.language.arguments import hints_of
from runbook.language.expressions.parsed_template import OF_HOST
from runbook.language.expressions.templates import Scope, is_template, names, render, secrets_in_template
from runbook.protocols import Action
from runbook.values.playbook import Let, Phase, Playbook, Step
from runbook.values.types import Json, Raw

Path = tuple[str | int, ...]

CARRIES_SECRETS = "carries_secrets"
"""The metadata key of an argument that reaches the host on a program's standard input and is never shown."""

WHERE = "pass it through `env:` (the command then reads the variable), or in `headers:` or `body:` of http"


@dataclass(frozen=True, slots=True)
class SecretUse:
    """A use of one secret at one place of a step."""

    name: str
    """The name as ``secrets_in_template`` returns it: ``NAME`` or ``host.NAME``."""
    step: Step
    path: Path
    """The path within the step."""

    @property
    def secret(self) -> str:
        """Return the name of the secret in ``secrets:`` sections."""
        return self.name.removeprefix(OF_HOST)

    @property
    def of_host(self) -> bool:
        """Whether only the inventory can give the secret: ``host.secrets.NAME``."""
        return self.name.startswith(OF_HOST)

    @property
    def shown(self) -> str:
        """Return the name of the secret for a message, without ``secrets.``."""
        return f"{self.secret} of the host" if self.of_host else self.secret

    @property
    def in_header(self) -> bool:
        """Whether the value of the secret must be a single line."""
        return "headers" in self.path


def carriers(kind: type[Any]) -> frozenset[Path]:
    """Return the paths of the arguments in *kind* (an action's ``Args``) that may contain a secret."""
    return frozenset(_carriers(kind))


def _carriers(kind: type[Any]) -> Iterator[Path]:
    hints = hints_of(kind)
    for field in fields(kind):
        if field.metadata.get(CARRIES_SECRETS):
            yield (field.name,)
        elif isinstance(hints[field.name], type) and is_dataclass(hints[field.name]):
            yield from ((field.name, *inner) for inner in _carriers(hints[field.name]))


def secret_uses(playbook: Playbook) -> Iterator[SecretUse]:
    """Yield every secret that a step of *playbook*, or of its parts, inserts, with its place."""
    for step in playbook.steps:
        yield from uses_in(step)


def uses_in(step: Step) -> Iterator[SecretUse]:
    """Yield every secret that *step* inserts, with its place."""
    for path, text in (*_texts(dict(step.env), ("env",)), *_texts(step.args, (step.action,))):
        for name in sorted(secrets_in_template(text)):
            yield SecretUse(name, step, path)


def host_fields(step: Step, let: Let) -> frozenset[str]:
    """Return the fields of the host (``FIELD`` of ``host.FIELD``) on which the commands of *step* depend."""
    texts = (*_texts(dict(step.env), ()), *_texts(step.args, ()), *_texts(step.cwd, ()))
    templates = {text for _, text in texts if is_template(text)}
    return frozenset(field for text in templates for root, field in names(text, let) if root == "host")


def only_in_change(use: SecretUse, action: Action) -> bool:
    """Whether only the change needs the secret, and no probe: a dry run then never sends it."""
    step = use.step
    if step.phase is Phase.VERIFY or (step.phase is Phase.REMEDIATE and action.decide is None):
        return True
    if step.phase is Phase.DIAGNOSE or ("do" not in step.args and "check" not in step.args):
        return False
    if use.path[0] == "env":
        return "do" in step.args and "check" not in step.args
    return "check" not in use.path


def with_secrets(step: Step, args: Mapping[str, Json], scope: Scope) -> Mapping[str, Json]:
    """Return *args* with real values: each text of the playbook that inserts a secret is filled in again, with the
    value.

    Only texts of the playbook itself are filled in, so that output of a host is never used as a template. Raises
    ConfigError and UnknownTouched.
    """
    filled: dict[str, Any] = dict(args)
    for path, text in _texts(step.args, ()):
        if secrets_in_template(text):
            _put(filled, path, render(text, scope))
    return filled


def with_templates_of_secrets(written: Any, recorded: Any) -> Any:
    """Return *recorded*, the arguments of a step, but with the text in *written* for each argument that inserts a
    secret.
    """
    match written, recorded:
        case str(), _ if secrets_in_template(written):
            return written
        case Mapping(), Mapping() if any(secrets_in_template(text) for _, text in _texts(written, ())):
            return {key: with_templates_of_secrets(written.get(key), value) for key, value in recorded.items()}
        case list(), list() if any(secrets_in_template(text) for _, text in _texts(written, ())):
            pairs = zip_longest(written, recorded)
            return [with_templates_of_secrets(one, two) for one, two in pairs][: len(recorded)]
    return Raw(recorded)


def _put(tree: dict[str, Any], path: Path, value: Json) -> None:
    """Set the value at *path* in *tree*; the lists and mappings on the path are copied first."""
    at: Any = tree
    for key in path[:-1]:
        at[key] = list(at[key]) if isinstance(at[key], list | tuple) else dict(at[key])
        at = at[key]
    at[path[-1]] = value


def other_names(text: str, let: Let) -> list[str]:
    """Return the names on which *text* depends, other than secrets, inputs, host and run."""
    return sorted({root for root, _ in names(text, let)} - {"secrets", "inputs", "host", "run"})


def _texts(tree: Any, path: Path) -> Iterator[tuple[Path, str]]:
    """Yield every text in *tree* that may be a template, with its path."""
    match tree:
        case Raw():
            return
        case str():
            yield path, tree
        case Mapping():
            for key, value in tree.items():
                yield from _texts(value, (*path, key))
        case list() | tuple():
            for number, value in enumerate(tree):
                yield from _texts(value, (*path, number))
