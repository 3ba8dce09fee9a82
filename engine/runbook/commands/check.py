"""Validate playbooks for ``runbook check``: print their mistakes, then the warnings of the linter."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from runbook.commands.file_cache import FileCache
from runbook.commands.input_files import ENDINGS, RULES_FOLDER, FilesRead, find_playbook, own_folders, read_playbook
from runbook.dataclass import dataclass
from runbook.errors import ConfigError
from runbook.text_files import read_text
from runbook.values.playbook import Playbook, Step
from runbook.values.types import Json, plural, seconds

FILE = "checks.json"


def believed_note(book: Playbook) -> str:
    """Return a line about the probes of *book* that run the author's own program; empty if there are none.

    Included playbooks are left out.
    """
    found = [(step.id, *probe) for step in book.steps if not step.part and (probe := _own_program_of(step))]
    kept = ", ".join(f"{id} ({name})" for id, name, confined in found if confined)
    asking = ", ".join(f"{id} ({name})" for id, name, confined in found if not confined)
    words = [
        f"{kept}, unless root probes a host that has mount namespaces" if kept else "",
        f"{asking}, for it asks how file systems are mounted" if asking else "",
    ]
    said = "; ".join(filter(None, words))
    return f"note: an author's own program is believed, not enforced, to only read: {said}" if said else ""


def _own_program_of(step: Step) -> tuple[str, bool] | None:
    """Return the interpreter that the probe of *step* runs, and whether it is kept from writing if the host allows
    that.

    None if the probe runs no program of the author.
    """
    from runbook.language.lenient_read import unraw
    from runbook.programs.reading_programs import interpreter_in, is_to_be_confined

    args: Any = unraw(step.args)
    if step.action not in ("command", "script") or not isinstance(args, Mapping):
        return None
    probe = args.get("check") if "do" in args else args
    if not isinstance(probe, Mapping):
        return None
    text = probe.get("text" if step.action == "script" else "script")
    argv, script = _texts(probe.get("argv")), text if isinstance(text, str) else ""
    name = interpreter_in(argv, script)
    return (name, is_to_be_confined(argv, script)) if name else None


def _texts(argv: Json) -> tuple[str, ...]:
    return tuple(map(str, argv)) if isinstance(argv, list) else ()


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of checking one playbook: its mistakes or warnings as text."""

    text: str
    good: bool
    warned: bool = False
    is_rule: bool = False
    """Whether it is a rule of the watcher."""


def checked(names: Sequence[str]) -> Iterator[Checked]:
    """Check each playbook of *names*, and yield its result.

    A good playbook whose files are unchanged since it was checked by the same version of runbook is not checked again.
    """
    cache = FileCache(FILE)
    for name in names:
        try:
            path = find_playbook(name)
            result = _known(cache.recall(path))
            if not result:
                result, files = _checked(name, path)
                if not result.is_rule:  # whose playbook is another file
                    cache.keep(path, files, {"text": result.text, "warned": result.warned})
            yield result
        except ConfigError as error:
            yield Checked(_masked(name, str(error)), good=False)
    cache.write()


def _known(kept: Any) -> Checked | None:
    match kept:
        case {"text": str(text), "warned": bool(warned)}:
            return Checked(text, good=True, warned=warned)
    return None


def _checked(name: str, path: Path) -> tuple[Checked, FilesRead]:
    from runbook.language.lint.linter import warnings_in
    from runbook.language.watch_rules import looks_like_rule
    from runbook.plugins import discover

    actions, text, files = discover(), read_text(path), FilesRead()
    if looks_like_rule(text):
        return Checked(_rule_line(path), good=True, is_rule=True), files
    book = read_playbook(path, actions, files)
    warnings = warnings_in(book, text, actions)
    count = f"{plural(len(book.steps), 'step')}, {plural(len(book.findings), 'finding')}"
    said = f"{path}: good ({count}{', ' + plural(len(warnings), 'warning') if warnings else ''})"
    lines = [*map(str, warnings), said, *filter(None, [believed_note(book)])]
    return Checked(_masked(name, "\n".join(lines)), good=True, warned=bool(warnings)), files


def _rule_line(path: Path) -> str:
    """Return a line about the watcher's rule in *path*.  Raises ConfigError with every mistake in it."""
    from runbook.commands.watch.rule_files import read_rule

    rule = read_rule(path)
    listens = [
        *([f"the alert {rule.on.alert}"] if rule.on.alert else []),
        *([f"every {seconds(rule.on.every)}"] if rule.on.every else []),
        *([f"cron {rule.on.cron}"] if rule.on.cron else []),
    ]
    return f"{path}: good (a rule: {', '.join(listens)}; then {rule.then} {rule.playbook})"


def _masked(name: str, text: str) -> str:
    from runbook.commands.secret_masking import masked_by, secrets_in_playbook_file

    return masked_by(secrets_in_playbook_file(name), text)


def named_files(names: Sequence[str]) -> tuple[str, ...]:
    """Return *names*, with each directory replaced by the playbooks in it.

    Without names, returns the playbooks in the user's own directories.  Raises ConfigError if a directory has none.
    """
    found: list[str] = []
    folders = [str(folder) for folder in own_folders()]
    rules = [RULES_FOLDER] if os.path.isdir(RULES_FOLDER) else []
    for name in names or [*folders[:1], *filter(os.path.isdir, folders[1:]), *rules]:
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
    """Return a text about every rule of the linter: its purpose, and an example."""
    from runbook.language.lint.linter import rule_texts

    lines = [text for _, text in rule_texts()]
    return "\n\n".join(
        [*lines, "To switch off a rule, write a comment on that line or the line above: # runbook: allow RULE reason"]
    )
