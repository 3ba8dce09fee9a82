"""Validate playbooks for ``runbook check``: mistakes, then lint warnings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from runbook.actions import discover
from runbook.app.believed_probes import believed_note
from runbook.app.input_files import ENDINGS, find_playbook, read_playbook, read_text
from runbook.app.secret_masking import masked_by, secrets_in_playbook_file
from runbook.errors import ConfigError
from runbook.values.types import plural


@dataclass(frozen=True, slots=True)
class Checked:
    """What is to be said of one playbook."""

    text: str
    good: bool
    warned: bool = False


def checked(names: Sequence[str]) -> Iterator[Checked]:
    """For each playbook whether it is good, its mistakes or its warnings."""
    from runbook.lang.lint.linter import warnings_in

    actions = discover()
    for name in names:
        try:
            path = find_playbook(name)
            text = read_text(path)
            book = read_playbook(path, actions)
        except ConfigError as error:
            yield Checked(masked_by(secrets_in_playbook_file(name), str(error)), good=False)
            continue
        warnings = warnings_in(book, text, actions)
        count = f"{plural(len(book.steps), 'step')}, {plural(len(book.findings), 'finding')}"
        said = f"{path}: good ({count}{', ' + plural(len(warnings), 'warning') if warnings else ''})"
        warned = masked_by(
            secrets_in_playbook_file(name), "\n".join([*map(str, warnings), said, *filter(None, [believed_note(book)])])
        )
        yield Checked(warned, good=True, warned=bool(warnings))


def named_files(names: Sequence[str]) -> tuple[str, ...]:
    """*names* with the playbooks of each directory in its place; without names those of ``./playbooks``.

    Raises ConfigError where a directory has none.
    """
    found: list[str] = []
    for name in names or ("playbooks",):
        if not Path(name).is_dir():
            found.append(name)
            continue
        inside = sorted(str(path) for path in Path(name).iterdir() if path.suffix in ENDINGS and path.is_file())
        if not inside:
            raise ConfigError(f"no playbook in {name}: no file there ends in {' or '.join(ENDINGS)}")
        found += inside
    if found == ["playbooks"]:
        raise ConfigError("no playbook was named, and there is no directory ./playbooks here")
    return tuple(found)


def rules_text() -> str:
    """Every rule of the linter: why it is there, and an example."""
    from runbook.lang.lint.linter import rule_texts

    lines = [text for _, text in rule_texts()]
    return "\n\n".join(
        [*lines, "To switch off a rule, write a comment on that line or the line above: # runbook: allow RULE reason"]
    )
