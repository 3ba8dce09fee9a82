"""Load a Playbook from its text, and report every mistake with its place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field, dataclass, field, fields, is_dataclass, replace
from hashlib import sha256
from pathlib import PurePath
from typing import Any

from runbook.errors import ConfigError, Problem
from runbook.language import lenient_read
from runbook.language.ansible_hints import stands_for_action
from runbook.language.arguments import hints_of
from runbook.language.expressions.templates import is_template
from runbook.language.includes import (
    DEEPEST,
    Included,
    Open,
    as_careful,
    counted,
    nothing_to_open,
    prefixed,
    problems_with_inputs,
)
from runbook.language.inputs import faults
from runbook.language.keys import INPUT, LIMITS, PLAYBOOK, STEP, fields_of
from runbook.language.sections.findings import findings_of
from runbook.language.sections.placed_values import Entry, PlacedValues
from runbook.language.shorthand import let_of, written_out
from runbook.language.yaml_source import Document, Path, could_be_playbook, parse_playbook
from runbook.protocols import Action
from runbook.values.playbook import Input, Let, Limits, Phase, Playbook, SecretReference, Step
from runbook.values.secret_reference import read_secrets
from runbook.values.types import Json, Raw

Read = Callable[[str, str, bool], str]
"""A function from a file name, the naming playbook, and whether it is included, to the text.  Raises ConfigError."""

UNREAD = ":\n"
"""The text that replaces a file that could not be read, to avoid more mistakes about it; the playbook is refused
anyway.
"""

Wrong = Callable[[Path, str], None]


def nothing_to_read(name: str, playbook: str, included: bool) -> str:
    """Raise ConfigError, because no file can be read here."""
    raise ConfigError(f"no file {name!r} can be found from here")


@dataclass(slots=True)
class BundledFiles:
    """The files that one playbook names; each file is read only once."""

    document: Document
    read: Read
    wrong: Wrong
    """Records a mistake: its path and its message."""
    included: bool = False
    texts: dict[str, str] = field(default_factory=dict)

    def filled(self, args: Mapping[str, Any], kind: type[Any], path: Path) -> Mapping[str, Any]:
        """Return a copy of *args* with file contents filled in.

        A field of *kind* (an action's ``Args``) with the metadata ``content_of: F`` gets the content of the file that
        field F names.  With ``rendered``, templates in the content are filled in; with ``exact``, the end of a text is
        not changed.  *path* is the place of *args* in the playbook.
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
        """Return the SHA-256 (hexadecimal) of each file that was read."""
        return tuple(sha256(self.texts[text].encode()).hexdigest() for text in sorted(self.texts))


def _to_the_end(tree: Json | Raw) -> Json | Raw:
    """Return *tree* with one more newline at its end if it is a template, because filling it in removes one newline."""
    return f"{tree}\n" if isinstance(tree, str) and is_template(tree) and tree.endswith("\n") else tree


def _nested(kind: type[Any]) -> Iterator[tuple[Field[Any], type[Any]]]:
    hints = hints_of(kind)
    for argument in fields(kind):
        if is_dataclass(hints[argument.name]) and isinstance(hints[argument.name], type):
            yield argument, hints[argument.name]


def load_playbook(
    text: str,
    file: str,
    actions: Mapping[str, Action],
    opened: Open = nothing_to_open,
    around: tuple[str, ...] = (),
    read: Read = nothing_to_read,
    *,
    checked: bool = True,
) -> Playbook:
    """Return the playbook in *text*.  Raises ConfigError with every mistake in it, sorted by place.

    *opened* opens included playbooks, *read* reads other files.  *around* are the files that include this file,
    outermost first.  With ``checked=False``, a playbook that is known to be good is not checked again, which takes
    half the time.
    """
    ours = could_be_playbook(text, file)
    document = parse_playbook(text, file, ours=ours)
    if not isinstance(document.value, Mapping):
        plays = isinstance(document.value, list)
        what = "an empty file" if document.value is None else "a list" if plays else "something else"
        hint = (
            "write one playbook per file, with `name:`, `hosts:`, `diagnose:` ... at its top level, without a dash"
            if plays
            else ""
        )
        words = f"a playbook is a mapping, but this is {what}"
        raise ConfigError(Problem(file=file, line=1, column=1, message=words, hint=hint))
    if not ours:  # nothing of it is repeated: it may be any file
        words = "this is not a playbook: it has neither `about:` nor a section such as `diagnose:`"
        raise ConfigError(Problem(file=file, line=1, column=1, message=words))
    if not checked:  # it needs none of the modules that find mistakes, whose import takes a tenth of a second
        building = _Building(written_out(document), actions, [], opened, around, read, let_of(document), checked=False)
        return building.playbook(text)
    from runbook.language.checks import check, faults_in_values
    from runbook.language.mistakes.follow_on import once
    from runbook.language.mistakes.repairs import repaired
    from runbook.language.playbook_schema import playbook_schema, problems_in

    repair = repaired(document, actions)
    document = repair.document
    problems = [*repair.problems, *problems_in(document, playbook_schema(actions))]
    whole = written_out(document)
    made, brought = _built(whole, actions, problems, opened, around, read, let_of(document), text)
    if made is not None and (wrong := faults_in_values(made, document, actions, brought)):
        problems += [problem for each in wrong.values() for problem in each]
        whole = written_out(document, wrong)  # what is wrong in a value is said once, where it stands
        made, brought = _built(whole, actions, [], opened, around, read, let_of(document, wrong), text)
    if made is not None:
        problems += check(made, whole, actions, brought)
    if problems or made is None:
        raise ConfigError(*once(problems))
    return made


def _built(
    document: Document,
    actions: Mapping[str, Action],
    problems: list[Problem],
    opened: Open,
    around: tuple[str, ...],
    read: Read,
    let: Let,
    text: str,
) -> tuple[Playbook | None, Mapping[str, Path]]:
    """Return the playbook in *document*, as far as its tree has the right shape, and the paths of its includes."""
    building = _Building(document, actions, problems, opened if around else counted(opened), around, read, let)
    try:
        return building.playbook(text), building.brought
    except (TypeError, AttributeError, KeyError, ValueError):
        if not problems:
            raise
        return None, {}


class _Building:
    """Builds the playbook from the parts of the tree that have the right shape; problems about the other parts exist
    already.
    """

    def __init__(
        self,
        document: Document,
        actions: Mapping[str, Action],
        problems: list[Problem],
        opened: Open,
        around: tuple[str, ...],
        read: Read,
        let: Let,
        *,
        checked: bool = True,
    ) -> None:
        self._checked, self._let = checked, let
        self._document, self._actions, self._problems = document, actions, problems
        self._opened, self._around, self._read = opened, around, read
        self._values = PlacedValues(document, problems)
        self._wrong = self._values.wrong
        self._bundle = BundledFiles(document, read, self._wrong, included=bool(around))
        self._tree: Mapping[str, Any] = document.value
        self._included: list[tuple[Phase, Included]] = []
        self.brought: dict[str, Path] = {}
        """The ids of parts, each with the place of the include that brought it."""

    def playbook(self, written: str) -> Playbook:
        tree, file = self._tree, self._document.file
        name = tree.get("name")
        stem = PurePath(file).stem
        if isinstance(name, str) and name != stem:
            self._wrong(
                ("name",), f"the playbook is called {name!r} and its file {PurePath(file).name!r}", f"name: {stem}"
            )
        diagnose = self._steps("diagnose", Phase.DIAGNOSE)
        inputs = self._inputs()
        remediate = self._steps("remediate", Phase.REMEDIATE)
        verify = self._steps("verify", Phase.VERIFY)
        limits = Entry(lenient_read.mapping(tree.get("limits")), ("limits",), self._values)
        books = [it.book for _, it in self._included]
        whole = [it.book for phase, it in self._included if phase is Phase.REMEDIATE]
        diagnose += tuple(step for each in whole for step in each.diagnose)
        rests_on = [*(book.digest for book in books), *self._bundle.digests()]
        digest = sha256("\0".join([written, *rests_on]).encode()) if rests_on else None
        own = fields_of(PLAYBOOK, Entry(tree, (), self._values))
        return Playbook(
            name=name if isinstance(name, str) else stem,
            **own,
            inputs=inputs,
            secrets=self._secrets(),
            diagnose=diagnose,
            findings=(
                *(rule for book in books for rule in book.findings),
                *findings_of(tree.get("findings"), self._values, diagnose, self._let),
            ),
            remediate=remediate,
            verify=(*verify, *(step for each in whole for step in each.verify)),
            limits=as_careful(Limits(**fields_of(LIMITS, limits)), books),
            parts=tuple(part for book in books for part in book.parts),
            let={"": self._let, **{part: let for book in books for part, let in book.let.items()}},
            path=file,
            digest=(digest or sha256(written.encode())).hexdigest(),
        )

    def _inputs(self) -> tuple[Input, ...]:
        made = []
        for name, tree in lenient_read.mapping(self._tree.get("inputs")).items():
            path: Path = ("inputs", name)
            if not isinstance(tree, Mapping):
                continue
            schema = {key: lenient_read.unraw(value) for key, value in tree.items() if key not in INPUT}
            if self._checked and not self._is_input(name, tree, schema):
                continue
            declared = Input(
                name=name,
                schema=schema,
                **fields_of(INPUT, Entry(tree, path, self._values)),
                where=self._document.where(path),
            )
            if "default" in tree and self._checked:
                for words in faults(declared, declared.default):
                    self._wrong((*path, "default"), f"the default of {name} does not match its schema: {words}")
            made.append(declared)
        return tuple(made)

    def _is_input(self, name: str, tree: Mapping[str, Any], schema: Mapping[str, Json]) -> bool:
        """Whether *tree* can be read as an input; the mistakes in it are recorded in any case."""
        from runbook.language.input_schema import faults_in_schema

        path: Path = ("inputs", name)
        if not name.isidentifier():
            self._wrong(path, f"{name!r} is not a name: letters, digits and _ only, and no digit first")
        if wrong := faults_in_schema(schema):
            for inner, words, hint in wrong:
                self._wrong((*path, *inner), f"input {name}: {words}", hint)
            return False
        if "default" not in tree and tree.get("required") is not True:
            self._wrong(path, f"input {name}: give it a default, or required: true")
        return True

    def _secrets(self) -> tuple[SecretReference, ...]:
        found = read_secrets(self._tree.get("secrets"), self._document.where)
        self._problems += found.problems
        return found.references

    def _steps(self, section: str, phase: Phase) -> tuple[Step, ...]:
        listed = self._tree.get(section)
        if not isinstance(listed, list):
            return ()
        found: list[Step] = []
        for number, entry in enumerate(listed):
            if isinstance(entry, Mapping) and "include" in entry:
                found += self._include(entry, (section, number), phase)
            elif isinstance(entry, Mapping) and (step := self._step(entry, (section, number), phase)):
                found.append(step)
        return tuple(found)

    def _include(self, tree: Mapping[str, Any], path: Path, phase: Phase) -> tuple[Step, ...]:
        """Return the steps of an included playbook that belong to section *phase*; its other parts are kept for
        later.
        """
        part, name = tree.get("id"), lenient_read.text(tree.get("include"))
        known = [name for name, key in STEP.items() if key.of_include]
        for key in tree:
            if key not in known:
                self._wrong((*path, key), f"`{key}` is not allowed beside include", f"there are: {', '.join(known)}")
        if not isinstance(part, str):
            self._wrong(path, "an include needs an id, the prefix of the ids that it includes")
            return ()
        if phase is Phase.VERIFY:
            self._wrong(path, "include a playbook under diagnose (its probes only) or under remediate (all of it)")
            return ()
        if part in self.brought:
            self._wrong((*path, "id"), f"the id {part!r} is taken")
            return ()
        inner = self._inner(name, path)
        if inner is None:
            return ()
        if self._checked:
            own = tuple(lenient_read.mapping(self._tree.get("inputs")))
            self._problems += problems_with_inputs(inner, tree.get("inputs"), self._document, path, own, self._let)
        included = prefixed(inner, part, lenient_read.mapping(tree.get("inputs")), self._document, path)
        self.brought |= {part.id: path for part in included.book.parts}
        self._included.append((phase, included))
        return included.book.diagnose if phase is Phase.DIAGNOSE else included.book.remediate

    def _inner(self, name: str, path: Path) -> Playbook | None:
        around = (*self._around, self._document.file)
        place = (*path, "include")
        try:
            file, text = self._opened(name, self._document.file)
            if file in around:
                self._wrong(place, f"{name} includes itself: {' -> '.join((*around, file))}")
                return None
            if len(around) > DEEPEST:
                self._wrong(place, f"playbooks include each other more than {DEEPEST} levels deep")
                return None
            return load_playbook(text, file, self._actions, self._opened, around, self._read, checked=self._checked)
        except ConfigError as error:
            self._problems += [
                problem if problem.file else replace(problem, **self._at(place)) for problem in error.problems
            ]
            return None

    def _at(self, path: Path) -> dict[str, Any]:
        where = self._document.where(path)
        return {"file": where.file, "line": where.line, "column": where.column}

    def _step(self, tree: Mapping[str, Any], path: Path, phase: Phase) -> Step | None:
        named = [word for word in tree if word in self._actions]
        if not named and any(key not in STEP and stands_for_action(key) for key in tree):
            return None  # reported as a key that is not known
        if len(named) != 1:
            words = (
                f"a step has one action, but this one has {', '.join(named)}" if named else "the step names no action"
            )
            hint = "" if named else "runbook actions lists them"
            self._wrong((*path, named[1]) if named else path, words, hint)
            return None
        action = named[0]
        args = tree[action] if tree[action] is not None else {}
        if not isinstance(args, Mapping):
            hint = f"write each argument as a key: runbook actions {action} lists them"
            from runbook.language.schema_violations import shown

            self._wrong((*path, action), f"{action}: expected a mapping of arguments, got {shown(args)}", hint)
            args = {}
        step_id = tree.get("id")
        if phase is Phase.DIAGNOSE and not isinstance(step_id, str):
            self._wrong(path, "a probe needs an id, so that findings can name it")
        return Step(
            id=step_id if isinstance(step_id, str) else f"{path[0]}_{int(path[1]) + 1}",
            phase=phase,
            action=action,
            args=self._bundle.filled(args, self._actions[action].Args, (*path, action)),
            **fields_of(STEP, Entry(tree, path, self._values)),
            where=self._document.where(path),
        )
