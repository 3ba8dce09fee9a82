"""What a playbook of the right shape can still get wrong: names, references, sections, arguments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

from engine.errors import Problem
from engine.expressions.templates import is_template, line_of_fault, names
from engine.lang.lenient_read import texts_in
from engine.lang.name_resolution import ROOTS, Allowed, Naming, broken
from engine.lang.playbook_schema import ONLY_IN
from engine.lang.static_arguments import faults_in_arguments, faults_in_samples, unseen
from engine.lang.yaml_source import Document, Path
from engine.protocols import Action
from engine.values.playbook import Phase, Playbook, Step
from engine.values.sampling import Series


def check(
    book: Playbook, document: Document, actions: Mapping[str, Action], brought: Mapping[str, Path]
) -> list[Problem]:
    """Every mistake that needs the whole playbook to be seen.

    *brought* are the parts that were included, each with the place of its include; what is in them was checked there.
    """
    checking = _Checking(book, document, actions, brought)
    return [*checking.ids(), *checking.references(), *checking.steps(), *checking.findings()]


class _Checking:
    def __init__(
        self, book: Playbook, document: Document, actions: Mapping[str, Action], brought: Mapping[str, Path]
    ) -> None:
        self._book, self._document, self._actions, self._brought = book, document, actions, brought
        self._naming = Naming(document)
        self._lists = frozenset(it.id for it in book.diagnose if it.each)
        self._series = {it.id: self._own_fields(it) for it in book.diagnose if it.samples}
        self._paths = {id(step): path for step, path in self._placed()}
        self._finding_paths = dict(self._placed_findings())
        self._input_names = tuple(it.name for it in book.inputs)
        self._unseen = unseen(book, "")
        self._looks = frozenset(it.id for it in book.diagnose)
        self._hosts_own = self._looks - {it.id for it in book.diagnose if it.once}
        """Looks that are taken for each host."""

    def _placed(self) -> Iterator[tuple[Step, Path]]:
        """Every step with its path in the file; steps that could not be built are not there."""
        by_place = {}
        for section in ("diagnose", "remediate", "verify"):
            trees = self._document.value.get(section)
            for number in range(len(trees) if isinstance(trees, list) else 0):
                by_place[self._document.where((section, number))] = (section, number)
        for step in self._book.steps:
            yield step, self._brought[step.part] if step.part else by_place[step.where]

    def ids(self) -> Iterator[Problem]:
        """An id names one thing only."""
        seen: dict[str, Path] = {}
        everything = [(it.id, (*path, "id")) for it, path in self._placed()]
        everything += [(it.id, (*self._finding_paths[id(it)], "id")) for it in self._book.findings]
        everything += [(it, (*path, "id")) for it, path in self._brought.items()]
        for name, path in everything:
            if name in seen:
                first = self._document.where(seen[name])
                yield self._problem(path, f"the id {name!r} is taken", f"first used on line {first.line}")
            elif name in (*ROOTS, "item", "true", "false", "none", "not", "and", "or", "in", "is", "if", "else"):
                yield self._problem(path, f"{name!r} means something else in expressions", "choose another id")
            seen.setdefault(name, path)

    def _placed_findings(self) -> Iterator[tuple[int, Path]]:
        """The identity of every finding with its path in the file; those without an id could not be built."""
        listed = self._document.value.get("findings")
        there = (
            number
            for number, it in enumerate(listed if isinstance(listed, list) else ())
            if isinstance(it, Mapping) and isinstance(it.get("id"), str)
        )
        for rule in self._book.findings:
            yield id(rule), self._brought[rule.part] if rule.part else ("findings", next(there))

    def references(self) -> Iterator[Problem]:
        """``for``, ``after`` and ``unless`` name things that are there, and come before."""
        findings = dict.fromkeys(it.id for it in self._book.findings)
        for section, steps in (("remediate", self._book.remediate), ("verify", self._book.verify)):
            earlier = dict.fromkeys(it.id for it in self._book.remediate) if section == "verify" else {}
            for step in steps:
                path = self._paths[id(step)]
                if not step.part:
                    yield from self._known(step.for_, findings, (*path, "for"), "finding")
                    for key, given in (("after", step.after), ("if_changed", step.if_changed)):
                        yield from self._known(given, earlier, (*path, key), "earlier step")
                    yield from self._known(step.if_failed, earlier, (*path, "if_failed"), "earlier step")
                earlier[step.id] = None
        before: dict[str, None] = {}
        for rule in self._book.findings:
            if not rule.part:
                path = (*self._finding_paths[id(rule)], "unless")
                yield from self._known(rule.unless, before, path, "earlier finding")
            before[rule.id] = None

    def _known(self, given: Iterable[str], known: Mapping[str, None], path: Path, what: str) -> Iterator[Problem]:
        for name in given:
            if name not in known:
                yield self._problem(path, f"no {what} is called {name!r}", self._naming.hints.near(name, known))

    def steps(self) -> Iterator[Problem]:
        """Actions stand where they may, keys mean something, and arguments are right."""
        every = {it.id: self._state_fields(it) for it in self._book.diagnose}
        seen: dict[str, tuple[str, ...]] = {}
        for step in self._book.diagnose:
            yield from self._step(step, Allowed(seen, self._input_names, self._looks, self._lists, self._series))
            seen[step.id] = every[step.id]
        acts = frozenset(it.id for it in (*self._book.remediate, *self._book.verify))
        for step in (*self._book.remediate, *self._book.verify):
            yield from self._step(step, Allowed(every, self._input_names, acts, self._lists, self._series))

    def _state_fields(self, step: Step) -> tuple[str, ...]:
        return shown(Series) if step.samples else self._own_fields(step)

    def _own_fields(self, step: Step) -> tuple[str, ...]:
        return shown(self._actions[step.action].State)

    def _step(self, step: Step, allowed: Allowed) -> Iterator[Problem]:
        if step.part:
            return
        path = self._paths[id(step)]
        yield from self._section(step, path)
        if step.each:
            yield from self._naming.expression(step.each, (*path, "each"), allowed)
            allowed = replace(allowed, item=True)
        if step.once:
            yield from self._shared(step, path)
        if is_template(step.on):
            yield from self._naming.templates(step.on, (*path, "on"), allowed.only_inputs())
        if step.samples:
            yield from self._samples(step, (*path, "samples"), allowed)
        if step.when:
            yield from self._naming.expression(step.when, (*path, "when"), allowed)
        yield from self._surroundings(step, path, allowed)
        files = _template_files(self._actions[step.action], step.args)
        own = {name: value for name, value in step.args.items() if name not in files}
        yield from self._naming.templates(own, (*path, step.action), allowed)
        for name, named_by in files.items():
            text, place = str(step.args[name]), (*path, step.action, named_by)
            for it in self._naming.templates(text, place, allowed):
                yield _in_file(it, text, str(step.args[named_by]))
        yield from self._arguments(step, (*path, step.action))

    def _surroundings(self, step: Step, path: Path, allowed: Allowed) -> Iterator[Problem]:
        """What ``env`` and ``cwd`` may name: they are the same for everything that the step does on a host."""
        placed = [(text, (*path, "env", name)) for name, text in step.env if is_template(text)]
        placed += [(step.cwd, (*path, "cwd"))] if is_template(step.cwd) else []
        for text, place in placed:
            late = {} if broken(text) else {root: 0 for root, _ in sorted(names(text))}
            wrong = [root for root in late if root == "item" or allowed.is_step(root)]
            for root in wrong:
                words = f"{root!r} may not be named in `{place[len(path)]}`: only inputs, host and run"
                yield self._problem(place, words, "give what a probe saw as an argument: script with params")
            if not wrong:
                yield from self._naming.templates(text, place, allowed)

    def _section(self, step: Step, path: Path) -> Iterator[Problem]:
        """What is wrong with a step in the section where it stands."""
        for key, message, hint in (*self._wrong_actions(step), *self._wrong_commands(step), *self._wrong_keys(step)):
            yield self._problem((*path, key), message, hint)

    def _wrong_actions(self, step: Step) -> Iterator[Fault]:
        """Actions that do nothing in their section, or more than it allows."""
        action = self._actions[step.action]
        match step.phase:
            case Phase.REMEDIATE if not (action.decide or action.waits):
                yield step.action, f"{step.action} only reads", "it belongs under diagnose"
            case Phase.VERIFY if not (action.holds or action.waits):
                able = ", ".join(it.name for it in self._actions.values() if it.holds)
                yield step.action, f"{step.action} asserts nothing", f"in verify stand: {able}"
            case Phase.DIAGNOSE if action.scratch and not step.scratch:
                words = f"{step.action} makes something of its own on the host, and takes it away again"
                yield step.action, words, "allow it with `scratch: true`"

    def _wrong_commands(self, step: Step) -> Iterator[Fault]:
        """Commands of the author that change something where nothing may, or the other way round."""
        if step.action not in _AUTHORS:
            return
        match step.phase:
            case Phase.DIAGNOSE if "do" in step.args or "check" in step.args:
                yield step.action, "a probe changes nothing", "a command with `do` belongs under remediate"
            case Phase.VERIFY if "do" in step.args:
                yield step.action, "an assertion changes nothing", "use argv or script"
            case Phase.REMEDIATE if "do" not in step.args:
                yield step.action, "this command only reads", "put what changes something under `do`"

    def _wrong_keys(self, step: Step) -> Iterator[Fault]:
        """Keys that mean nothing where they stand."""
        tree, changes = self._tree(self._paths[id(step)]), step.phase is Phase.REMEDIATE
        if "retry" in tree and changes:
            words = "a write is sent once: `retry` is for probes"
            yield "retry", words, "write another step with `if_failed` instead"
        for key, phases in ONLY_IN.items():
            if key in tree and step.phase not in phases and key != "retry":
                yield key, f"`{key}` means nothing in {step.phase}", f"it belongs under {' and '.join(phases)}"
        if "within" in tree and changes and (not self._actions[step.action].decide or _unchecked(step)):
            words = "`within` is the time in which a change comes true, and nothing here sees whether it has"
            yield "within", words, "give the command a `check`, or leave `within` out"
        if "every" in tree and "within" not in tree and changes:
            yield "every", "`every` means nothing here without `within`", ""
        if "cwd" in tree and step.action not in _AUTHORS:
            yield "cwd", f"`cwd` is for commands, and {step.action} takes none", ""
        if "inputs" in tree:
            yield "inputs", "`inputs` belongs to an include", "arguments stand under the action"

    def _samples(self, step: Step, path: Path, allowed: Allowed) -> Iterator[Problem]:
        """What is wrong with a look that is taken again and again."""
        action, tree = self._actions[step.action], self._tree(path[:-1])
        if action.waits:
            yield self._problem(path, f"{step.action} sees nothing that samples could be taken of")
        if step.scratch:
            words = "a probe that makes something of its own on the host runs once"
            yield self._problem(path, words, "`samples` is for probes that only read")
        if "within" in tree and step.phase is Phase.DIAGNOSE:
            yield self._problem(path, "`samples` and `within` both repeat the probe", "leave `within` out")
        if "while" in step.samples and step.phase is Phase.VERIFY:
            words = "`while` means nothing in verify: there the first sample that does not hold ends them"
            yield self._problem((*path, "while"), words)
        elif "while" in step.samples:
            inner = str(step.samples["while"])
            yield from self._naming.within_sample(inner, (*path, "while"), self._own_fields(step), allowed)
        amounts = {key: it for key, it in step.samples.items() if key != "while"}
        yield from self._naming.templates(amounts, path, allowed.only_inputs())
        for fault in faults_in_samples(step, self._defaults(), self._unseen):
            yield self._problem((*path, *fault.path), fault.message)

    def _defaults(self) -> dict[str, Any]:
        """Every input at its default, but for those that have none."""
        return {it.name: it.default for it in self._book.inputs if not it.required}

    def _shared(self, step: Step, path: Path) -> Iterator[Problem]:
        """A look that all hosts share rests on nothing that is a host's own."""
        for text in (step.when, step.each, *texts_in([step.args, dict(step.env), step.cwd])):
            for root, _ in sorted(names(text)) if text and not broken(text) else ():
                if root == "host" or root in self._hosts_own:
                    words = f"a probe that runs once for all hosts cannot rest on {root!r}"
                    yield self._problem(path, words, "only inputs, run, and probes with once: true are the same")

    def _tree(self, path: Path) -> Mapping[str, Any]:
        tree = self._document.value
        for it in path:
            tree = tree[it]
        return tree if isinstance(tree, Mapping) else {}

    def _arguments(self, step: Step, path: Path) -> Iterator[Problem]:
        """Arguments that are known with every input at its default."""
        for it in faults_in_arguments(step, self._actions[step.action], self._defaults(), self._unseen):
            yield self._problem((*path, *it.path), f"{step.action}: {it.message}", it.hint)

    def findings(self) -> Iterator[Problem]:
        """Expressions and texts of findings name looks and their fields."""
        every = {it.id: self._state_fields(it) for it in self._book.diagnose}
        acts = frozenset(it.id for it in (*self._book.remediate, *self._book.verify))
        allowed = Allowed(every, self._input_names, acts, self._lists, self._series)
        for rule in self._book.findings:
            if rule.part:
                continue
            path = self._finding_paths[id(rule)]
            if rule.when:
                yield from self._naming.expression(rule.when, (*path, "when"), allowed)
            yield from self._naming.templates(rule.say, (*path, "say"), allowed)
            for name, text in rule.evidence.items():
                yield from self._naming.expression(text, (*path, "evidence", name), allowed)
            yield from self._naming.templates(list(rule.advise), (*path, "advise"), allowed)

    def _problem(self, path: Path, message: str, hint: str = "") -> Problem:
        return self._document.problem(path, message, hint)


def _unchecked(step: Step) -> bool:
    return step.action in _AUTHORS and "check" not in step.args


def _template_files(action: Action, args: Mapping[str, Any]) -> dict[str, str]:
    """The arguments of *action* that hold the template of a file, each with the argument that names the file."""
    found = {it.name: it.metadata for it in fields(action.Args) if "rendered" in it.metadata and it.name in args}
    return {name: str(metadata["content_of"]) for name, metadata in found.items()}


def _in_file(problem: Problem, text: str, file: str) -> Problem:
    """*problem* of the template *text* as one of *file*, with the line where that is known."""
    line = line_of_fault(text)
    if not line:
        hint = "" if problem.hint.startswith("in: ") else problem.hint  # the beginning of the file says nothing
        return replace(problem, message=f"in {file}: {problem.message}", hint=hint)
    shown_line = " ".join(text.split("\n")[line - 1].split())[:80]
    return replace(problem, message=f"in {file}, line {line}: {problem.message}", hint=f"in: {shown_line}")


def shown(kind: type[Any]) -> tuple[str, ...]:
    """The fields of *kind* that expressions may name."""
    return tuple(it.name for it in fields(kind) if not it.metadata.get("private"))


Fault = tuple[str, str, str]
"""A key of a step, what is wrong with it, and a hint."""

_AUTHORS = ("command", "script")
"""Actions that are a look or a change, as their author wrote them."""
