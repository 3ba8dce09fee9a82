"""Check a playbook that fits the schema: names, references, sections, arguments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from types import UnionType
from typing import Any, Union, get_args, get_origin

from runbook.errors import Problem
from runbook.language.arguments import hints_of
from runbook.language.expressions.comparison import ACROSS, Compared
from runbook.language.expressions.history import HISTORY
from runbook.language.expressions.templates import Scope, is_template, line_of_fault, names
from runbook.language.history_calls import PastNames
from runbook.language.keys import STEP
from runbook.language.lenient_read import mapping, texts_in
from runbook.language.mistakes.field_types import types_of_names
from runbook.language.mistakes.follow_on import lost_names
from runbook.language.mistakes.shorthand_faults import faults_in_shorthand
from runbook.language.name_resolution import ROOTS, Allowed, Naming, broken, of_sample
from runbook.language.secret_uses import carriers
from runbook.language.sections.comparisons import faults_in_comparison, faults_of_included
from runbook.language.sections.symptoms import faults_in_symptoms
from runbook.language.shorthand import guards_of, let_of, written_out
from runbook.language.static_arguments import faults_in_arguments, faults_in_samples, unseen
from runbook.language.yaml_source import Document, Path
from runbook.protocols import Action
from runbook.values.playbook import FindingRule, Phase, Playbook, Step
from runbook.values.sampling import Series


def check(
    book: Playbook, document: Document, actions: Mapping[str, Action], brought: Mapping[str, Path]
) -> list[Problem]:
    """Return every mistake that can be seen only when the whole playbook is read.

    *brought* are the included parts, each with the place of its include; their own content was checked before.
    """
    checking = _Checking(book, document, actions, brought)
    return [*checking.ids(), *checking.references(), *checking.steps(), *checking.findings(), *checking.symptoms()]


def faults_in_values(
    book: Playbook, document: Document, actions: Mapping[str, Action], brought: Mapping[str, Path]
) -> dict[Path, list[Problem]]:
    """Return the mistakes in the values of ``let`` and in the conditions of groups; the key of each list is its path.

    *document* still has its groups and defaults in the short form.
    """
    if not let_of(document) and not guards_of(document):
        return {}
    return faults_in_shorthand(document, _Checking(book, written_out(document), actions, brought).of_values())


class _Checking:
    def __init__(
        self, book: Playbook, document: Document, actions: Mapping[str, Action], brought: Mapping[str, Path]
    ) -> None:
        self._book, self._document, self._actions, self._brought = book, document, actions, brought
        self._naming = Naming(document)
        self._let = book.let[""]
        self._lists = frozenset(each.id for each in book.diagnose if each.each)
        self._series = {each.id: self._own_fields(each) for each in book.diagnose if each.samples}
        self._probes = {each.id: self._state_fields(each) for each in book.diagnose}
        """Every probe with the fields that expressions may name."""
        self._elements = {
            step.id: elements_of(self._actions[step.action].State)
            for step in book.diagnose
            if not (step.each or step.samples)
        }
        """Every probe with its fields that are lists of things, and what these have."""
        self._paths = {id(step): path for step, path in self._placed()}
        self._finding_paths = dict(self._placed_findings())
        self._input_names = tuple(map(str, mapping(document.value.get("inputs"))))
        self._types = types_of_names(book, actions)
        self._lost = lost_names(document.value, book, brought)
        self._unseen = unseen(book, "")
        self._looks = frozenset(each.id for each in book.diagnose)
        self._hosts_own = self._looks - {each.id for each in book.diagnose if each.once}
        """Probes that are taken for each host."""
        self._past = PastNames(steps=tuple(each.id for each in book.remediate), probes=self._probes, lists=self._lists)
        """The names of earlier runs that expressions may use."""

    def _placed(self) -> Iterator[tuple[Step, Path]]:
        """Yield every step with its path in the file; a step that could not be built is left out."""
        by_place = {}
        for section in ("diagnose", "remediate", "verify"):
            trees = self._document.value.get(section)
            for number in range(len(trees) if isinstance(trees, list) else 0):
                by_place[self._document.where((section, number))] = (section, number)
        for step in self._book.steps:
            yield step, self._brought[step.part] if step.part else by_place[step.where]

    def of_values(self) -> Allowed:
        """Return the names that a value of ``let`` may use."""
        return self._of_findings({**self._probes, ACROSS: shown(Compared)})

    def _of_findings(self, probes: Mapping[str, tuple[str, ...]]) -> Allowed:
        acts = frozenset(step.id for step in (*self._book.remediate, *self._book.verify))
        return replace(self._allowed(probes, acts), past=self._past)

    def symptoms(self) -> Iterator[Problem]:
        listed = self._document.value.get("symptom")
        for path, words, hint in faults_in_symptoms(listed, self._book.diagnose, self._actions):
            yield self._document.problem(path, words, hint)

    def ids(self) -> Iterator[Problem]:
        """Yield a mistake for each id that names two things."""
        seen: dict[str, Path] = {}
        everything = [(it.id, (*path, "id")) for it, path in self._placed()]
        everything += [(finding.id, (*self._finding_paths[id(finding)], "id")) for finding in self._book.findings]
        everything += [(it, (*path, "id")) for it, path in self._brought.items()]
        everything += [(name, ("let", name)) for name in mapping(self._document.value.get("let"))]
        for name in mapping(self._document.value.get("let")):
            if not str(name).isidentifier():
                words = f"{name!r} is not a name: letters, digits and _ only, and no digit first"
                yield self._problem(("let", name), words)
        for name, path in everything:
            if name in seen:
                first = self._document.where(seen[name])
                yield self._problem(path, f"the id {name!r} is taken", f"first used on line {first.line}")
            elif name in (*ROOTS, HISTORY, ACROSS, "item", *WORDS):
                yield self._problem(path, f"{name!r} is a reserved name in expressions", "choose another id")
            seen.setdefault(name, path)

    def _placed_findings(self) -> Iterator[tuple[int, Path]]:
        """Yield the identity (``id()``) of every finding with its path in the file; findings without an id are left
        out.
        """
        listed = self._document.value.get("findings")
        there = (
            number
            for number, entry in enumerate(listed if isinstance(listed, list) else ())
            if isinstance(entry, Mapping) and isinstance(entry.get("id"), str)
        )
        for rule in self._book.findings:
            yield id(rule), self._brought[rule.part] if rule.part else ("findings", next(there))

    def references(self) -> Iterator[Problem]:
        """Yield a mistake for each name in ``for``, ``after`` or ``unless`` that does not exist or comes later in the
        file.
        """
        findings = dict.fromkeys(finding.id for finding in self._book.findings)
        for section, steps in (("remediate", self._book.remediate), ("verify", self._book.verify)):
            earlier = dict.fromkeys(each.id for each in self._book.remediate) if section == "verify" else {}
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
            if name in known:
                continue
            hint = self._naming.hints.near(name, known)
            if not self._lost.explains(name, hint):
                yield self._problem(path, f"no {what} is called {name!r}", hint)

    def steps(self) -> Iterator[Problem]:
        """Yield the mistakes of all steps: actions in the wrong section, keys without meaning, wrong arguments."""
        seen: dict[str, tuple[str, ...]] = {}
        for step in self._book.diagnose:
            yield from self._step(step, self._allowed(seen, self._looks))
            seen[step.id] = self._probes[step.id]
        acts = frozenset(each.id for each in (*self._book.remediate, *self._book.verify))
        for step in (*self._book.remediate, *self._book.verify):
            yield from self._step(step, self._allowed(self._probes, acts))

    def _allowed(self, probes: Mapping[str, tuple[str, ...]], later: frozenset[str]) -> Allowed:
        own = (self._input_names, later, self._lists, self._series, self._elements)
        return Allowed(probes, *own, let=self._let, types=self._types, lost=self._lost)

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
            with_past = allowed if step.once else replace(allowed, past=self._past)
            yield from self._naming.expression(step.when, (*path, "when"), with_past)
        yield from self._surroundings(step, path, allowed)
        carrying = carriers(self._actions[step.action].Args)
        allowed = replace(allowed, secrets_at=frozenset((*path, step.action, *inner) for inner in carrying))
        files = _template_files(self._actions[step.action], step.args)
        own = {name: value for name, value in step.args.items() if name not in files}
        yield from self._naming.templates(own, (*path, step.action), allowed)
        for name, named_by in files.items():
            text, place = str(step.args[name]), (*path, step.action, named_by)
            for template in self._naming.templates(text, place, allowed):
                yield _in_file(template, text, str(step.args[named_by]))
        yield from self._arguments(step, (*path, step.action))

    def _surroundings(self, step: Step, path: Path, allowed: Allowed) -> Iterator[Problem]:
        """Yield the wrong names in ``env`` and ``cwd``, which must be the same for all commands of the step on a
        host.
        """
        placed = [(text, (*path, "env", name)) for name, text in step.env if is_template(text)]
        placed += [(step.cwd, (*path, "cwd"))] if is_template(step.cwd) else []
        allowed = replace(allowed, secrets_at=frozenset({(*path, "env")}))
        for text, place in placed:
            late = {} if broken(text) else {root: 0 for root, _ in sorted(names(text, self._let))}
            wrong = [root for root in late if root == "item" or allowed.is_step(root)]
            for root in wrong:
                words = f"{root!r} cannot be used in `{place[len(path)]}`: only inputs, host and run"
                yield self._problem(place, words, "give what a probe saw as an argument: script with params")
            if not wrong:
                yield from self._naming.templates(text, place, allowed)

    def _section(self, step: Step, path: Path) -> Iterator[Problem]:
        """Yield the mistakes that *step* has because of the section in which it is written."""
        for key, message, hint in (*self._wrong_actions(step), *self._wrong_commands(step), *self._wrong_keys(step)):
            yield self._problem((*path, key), message, hint)

    def _wrong_actions(self, step: Step) -> Iterator[Fault]:
        """Yield a mistake if the action of *step* does nothing in its section, or does more than the section allows."""
        action = self._actions[step.action]
        match step.phase:
            case Phase.REMEDIATE if not (action.decide or action.waits):
                yield step.action, f"{step.action} only reads", "it belongs under diagnose"
            case Phase.VERIFY if not (action.holds or action.waits):
                able = ", ".join(action.name for action in self._actions.values() if action.holds)
                yield step.action, f"{step.action} asserts nothing", f"verify takes these actions: {able}"
            case Phase.DIAGNOSE if action.scratch and not step.scratch:
                words = f"{step.action} creates temporary files of its own on the host, and removes them"
                yield step.action, words, "allow it with `scratch: true`"

    def _wrong_commands(self, step: Step) -> Iterator[Fault]:
        """Yield a mistake if an author's command changes something where only reading is allowed, or only reads where
        it must change something.
        """
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
        for name, key in STEP.items():
            if name in tree and step.phase not in key.phases:
                general = f"`{name}` is not allowed in {step.phase}", f"it belongs under {' and '.join(key.phases)}"
                yield name, *(key.misplaced or general)
        if "within" in tree and changes and (not self._actions[step.action].decide or _unchecked(step)):
            words = "`within` waits until the change takes effect, but this step has no check that could show it"
            yield "within", words, "give the command a `check`, or leave `within` out"
        if "every" in tree and "within" not in tree and changes:
            yield "every", "`every` needs `within` here", ""
        if "cwd" in tree and step.action not in _AUTHORS:
            yield "cwd", f"`cwd` is only for commands, not for {step.action}", ""

    def _samples(self, step: Step, path: Path, allowed: Allowed) -> Iterator[Problem]:
        """Yield the mistakes of a probe with ``samples``."""
        action, tree = self._actions[step.action], self._tree(path[:-1])
        if action.waits:
            yield self._problem(path, f"{step.action} cannot be sampled")
        if step.scratch:
            words = "a probe with `scratch: true` runs only once"
            yield self._problem(path, words, "`samples` is for probes that only read")
        if "within" in tree and step.phase is Phase.DIAGNOSE:
            yield self._problem(path, "`samples` and `within` both repeat the probe", "leave `within` out")
        if "while" in step.samples and step.phase is Phase.VERIFY:
            words = "`while` is not allowed in verify: the first sample that does not hold ends the sampling"
            yield self._problem((*path, "while"), words)
        elif "while" in step.samples:
            inner = str(step.samples["while"])
            allowed = replace(allowed, types=of_sample(step.id, allowed))
            yield from self._naming.within_sample(inner, (*path, "while"), self._own_fields(step), allowed)
        amounts = {key: value for key, value in step.samples.items() if key != "while"}
        yield from self._naming.templates(amounts, path, allowed.only_inputs())
        for fault in faults_in_samples(step, self._scope()):
            yield self._problem((*path, *fault.path), fault.message)

    def _scope(self) -> Scope:
        """Return the names that have a value before any host is contacted: the inputs that have a default."""
        defaults = {each.name: each.default for each in self._book.inputs if not each.required}
        return Scope(inputs=defaults, states=self._unseen, let=self._let)

    def _shared(self, step: Step, path: Path) -> Iterator[Problem]:
        """A probe that all hosts share rests on nothing that is a host's own."""
        for text in (step.when, step.each, *texts_in([step.args, dict(step.env), step.cwd])):
            for root, _ in sorted(names(text, self._let)) if text and not broken(text) else ():
                if root == "host" or root in self._hosts_own:
                    words = f"a probe that runs once for all hosts cannot depend on {root!r}"
                    yield self._problem(path, words, "only inputs, run and probes with `once` are the same for all")

    def _tree(self, path: Path) -> Mapping[str, Any]:
        tree = self._document.value
        for key in path:
            tree = tree[key]
        return tree if isinstance(tree, Mapping) else {}

    def _arguments(self, step: Step, path: Path) -> Iterator[Problem]:
        """Arguments that are known with every input at its default."""
        if not isinstance(self._tree(path[:-1]).get(step.action) or {}, Mapping):  # reported when it was read
            return
        for argument in faults_in_arguments(step, self._actions[step.action], self._scope()):
            yield self._problem((*path, *argument.path), f"{step.action}: {argument.message}", argument.hint)

    def findings(self) -> Iterator[Problem]:
        """Yield the mistakes in the expressions and texts of findings, such as unknown probes or fields."""
        allowed = self._of_findings(self._probes)
        for rule in self._book.findings:
            if not rule.part:
                yield from self._finding(rule, self._finding_paths[id(rule)], allowed)
        for part, path in self._brought.items():
            for inner, words, hint in faults_of_included(part, self._book):
                yield self._problem((*path, *inner), words, hint)

    def _finding(self, rule: FindingRule, path: Path, allowed: Allowed) -> Iterator[Problem]:
        if rule.across is not None:
            for inner, words, hint in faults_in_comparison(rule, self._book, self._tree(path)):
                yield self._problem((*path, *inner), words, hint)
            shared = isinstance(self._tree(path).get(ACROSS), Mapping)
            for key, text in (("value", rule.across.value), ("by", rule.across.by)):
                if text:
                    at = (*path, ACROSS, key) if shared else (*path, ACROSS)
                    yield from self._naming.expression(text, at, allowed)
            allowed = replace(allowed, probes={**allowed.probes, ACROSS: shown(Compared)})
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
    """Return the arguments of *action* that hold the template of a file, each with the argument that names the file."""
    found = {
        field.name: field.metadata
        for field in fields(action.Args)
        if "rendered" in field.metadata and field.name in args
    }
    return {name: str(metadata["content_of"]) for name, metadata in found.items()}


def _in_file(problem: Problem, text: str, file: str) -> Problem:
    """Return *problem*, which is about the template *text*, as a problem of *file*, with the line if it is known."""
    line = line_of_fault(text)
    if not line:
        hint = "" if problem.hint.startswith("in: ") else problem.hint  # the beginning of the file says nothing
        return replace(problem, message=f"in {file}: {problem.message}", hint=hint)
    shown_line = " ".join(text.split("\n")[line - 1].split())[:80]
    return replace(problem, message=f"in {file}, line {line}: {problem.message}", hint=f"in: {shown_line}")


def elements_of(kind: type[Any]) -> dict[str, tuple[str, ...]]:
    """Return the fields of *kind* that are lists of dataclasses, each with the names of the fields of an element."""
    found = {}
    for name, hint in hints_of(kind).items():
        for each in get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,):
            inner = get_args(each)
            if get_origin(each) is tuple and len(inner) == 2 and inner[1] is ... and is_dataclass(inner[0]):
                found[name] = tuple(field.name for field in fields(inner[0]))
    return found


def shown(kind: type[Any]) -> tuple[str, ...]:
    """Return the names of the fields of *kind* that expressions may use."""
    return tuple(field.name for field in fields(kind) if not field.metadata.get("private"))


WORDS = ("true", "false", "none", "not", "and", "or", "in", "is", "if", "else")
"""The words of the expression language."""

Fault = tuple[str, str, str]
"""A mistake of a step: the key, the message, and a hint."""

_AUTHORS = ("command", "script")
"""Actions whose commands are written by the author of the playbook, as a probe or as a change."""
