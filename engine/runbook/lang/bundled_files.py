"""Files beside a playbook whose text its steps send to hosts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field, dataclass, field, fields, is_dataclass
from hashlib import sha256
from typing import Any

from runbook.errors import ConfigError
from runbook.expressions.templates import is_template
from runbook.lang.arguments import hints_of
from runbook.lang.yaml_source import Document, Path
from runbook.values.types import Json, Raw

Read = Callable[[str, str, bool], str]
"""Name of a file, the playbook that names it and whether that is included, to the file's text.  Raises ConfigError."""

UNREAD = ":\n"
"""Stands for a text that could not be read, so that nothing else is said of it; such a playbook is refused."""

Wrong = Callable[[Path, str], None]


def nothing_to_read(name: str, playbook: str, included: bool) -> str:
    """What reads files where there are none to be found."""
    raise ConfigError(f"no file {name!r} can be found from here")


@dataclass(slots=True)
class BundledFiles:
    """The files that one playbook names, read once each."""

    document: Document
    read: Read
    wrong: Wrong
    """Takes note of a mistake: its place and what it is."""
    included: bool = False
    texts: dict[str, str] = field(default_factory=dict)

    def filled(self, args: Mapping[str, Any], kind: type[Any], path: Path) -> Mapping[str, Any]:
        """*args* with the text of each file in them, where *kind* (an action's ``Args``) has a place for it.

        Such a place is a field whose metadata says ``content_of``: the name of the field with the file's name.  Where
        it says ``rendered`` too, the text is filled in as the playbook's own texts are; ``exact`` keeps the end of one.
        """
        made = dict(args)
        for argument in fields(kind):
            if "exact" in argument.metadata and argument.name in args:
                made[argument.name] = _to_the_end(args[argument.name])
        for argument, inner in _nested(kind):
            if isinstance(args.get(argument.name), Mapping):
                made[argument.name] = self.filled(args[argument.name], inner, (*path, argument.name))
        for argument in fields(kind):
            if "content_of" not in argument.metadata:
                continue
            if argument.name in args:
                names = f"`{argument.metadata['content_of']}`"
                self.wrong(
                    (*path, argument.name),
                    f"`{argument.name}` is read from the file that {names} names; leave it out",
                )
            if argument.metadata["content_of"] in args:
                text = self._text(args[argument.metadata["content_of"]], (*path, argument.metadata["content_of"]))
                made[argument.name] = _to_the_end(text) if "rendered" in argument.metadata else Raw(text)
        return made

    def _text(self, named: Json | Raw, path: Path) -> str:
        name = named.value if isinstance(named, Raw) else named
        if not isinstance(name, str) or not name:
            return UNREAD  # the action's own types say so
        if isinstance(named, str) and is_template(name):
            self.wrong(path, "a file is read when the playbook is loaded: write its name out, without a template")
            return UNREAD
        try:
            if name not in self.texts:
                self.texts[name] = self.read(name, self.document.file, self.included)
        except ConfigError as error:
            for problem in error.problems:
                self.wrong(path, problem.message)
        return self.texts.get(name, UNREAD)

    def digests(self) -> tuple[str, ...]:
        """sha256 of each file that was read, hexadecimal."""
        return tuple(sha256(self.texts[text].encode()).hexdigest() for text in sorted(self.texts))


def _to_the_end(tree: Json | Raw) -> Json | Raw:
    """*tree* with a newline more where filling it in takes one away."""
    return f"{tree}\n" if isinstance(tree, str) and is_template(tree) and tree.endswith("\n") else tree


def _nested(kind: type[Any]) -> Iterator[tuple[Field[Any], type[Any]]]:
    hints = hints_of(kind)
    for argument in fields(kind):
        if is_dataclass(hints[argument.name]) and isinstance(hints[argument.name], type):
            yield argument, hints[argument.name]
