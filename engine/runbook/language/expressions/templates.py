"""Expressions and templates: Jinja2 in a sandbox, with answers that may be unknown."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import field
from difflib import get_close_matches
from functools import cache
from typing import Any

from jinja2 import TemplateError, Undefined, nodes, pass_context
from jinja2.exceptions import SecurityError, TemplateSyntaxError

from runbook.dataclass import dataclass
from runbook.errors import ConfigError
from runbook.language.expressions.evaluation_errors import explained
from runbook.language.expressions.history import HISTORY, History, HistoryScope
from runbook.language.expressions.parsed_template import (
    HOST_SECRETS,
    OF_HOST,
    SECRETS,
    ElementAttribute,
    HistoryCall,
    ParsedTemplate,
    SampleFilter,
    named_values,
    read_tree,
)
from runbook.language.expressions.sandbox import Environment, Rounds
from runbook.language.expressions.series import ROUNDS, SAMPLE, OfSample, filters
from runbook.language.expressions.views import LONGEST, UnknownTouched, finite, known, plain, view
from runbook.values.playbook import NO_LET, Let
from runbook.values.types import Json, Raw, Unknown

INSTEAD = {"&": "and", "!": "not", "^": "and, or, not", "?": "A if CONDITION else B", "$": "a name as it is"}
"""Characters that have no meaning in expressions, each with the replacement for its meaning in other languages."""

ENDS = {"end of print statement": "`}}`", "end of statement block": "`%}`", "begin of statement block": "`{%`"}

_TAG_OPEN = re.compile(r"The innermost block that needs to be closed is '(\w+)'")


def plainly(said: str, filters: Collection[str], tests: Collection[str]) -> str:
    """Translate *said*, a message of Jinja, into plain words; return an unknown message unchanged."""
    said = said.strip().rstrip(".")
    if found := re.fullmatch(r"No (filter|test) named '(\w+)'", said):
        kind, name = found[1], found[2]
        near = get_close_matches(name, filters if kind == "filter" else tests, n=1)
        return f"there is no {kind} `{name}`" + (f": did you mean `{near[0]}`?" if near else "")
    if found := re.fullmatch(r"unexpected char '(.)' at \d+", said):
        meant = INSTEAD.get(found[1])
        return f"`{found[1]}` means nothing in an expression" + (f": write {meant}" if meant else "")
    if found := re.search(r"expected token '(.+?)', got '(.+?)'$", said):
        if found[2] == "=":
            return "`=` compares nothing: write `==`"
        return f"expected {_named(found[1])}, got {_named(found[2])}"
    if said.startswith("unexpected end of template"):
        return "`{{` or `{%` is opened and not closed"
    if found := _TAG_OPEN.search(said):
        return f"`{{% {found[1]} %}}` is opened and not closed by `{{% end{found[1]} %}}`"
    if found := re.search(r"[Ee]ncountered unknown tag '(\w+)'", said):
        return f"`{{% {found[1]} %}}` is not allowed here"
    if found := re.fullmatch(r"Expected an expression, got '(.+)'", said):
        return f"a value is missing before {_named(found[1])}"
    return said


def _named(token: str) -> str:
    return ENDS.get(token, f"`{token}`")


ROOTS = frozenset({"inputs", "host", "run", "item", SECRETS, HISTORY})
"""Names that every expression may use, besides the probes."""


FAULTS = (TemplateError, TypeError, ValueError, ArithmeticError, LookupError, AttributeError, RecursionError)
"""The errors that can be raised while a text is filled in."""


class SecretsAsWritten(Mapping[str, Json]):
    """Returns for every name the reference itself instead of a value.

    The name NAME gives ``{{ secrets.NAME }}``, and host.NAME gives ``{{ host.secrets.NAME }}``.
    """

    def __getitem__(self, name: str) -> str:
        of_host = name.startswith(OF_HOST)
        return f"{{{{ {HOST_SECRETS if of_host else SECRETS}.{name.removeprefix(OF_HOST)} }}}}"

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


WRITTEN_SECRETS = SecretsAsWritten()


class _OfHost(Mapping[str, Json]):
    """The secrets that ``host.secrets`` gives, by name; they cannot be listed."""

    def __init__(self, secrets: Mapping[str, Json]) -> None:
        self._secrets = secrets

    def __getitem__(self, name: str) -> Json:
        return self._secrets[f"{OF_HOST}{name}"]

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The values of the names in an expression."""

    inputs: Mapping[str, Json] = field(default_factory=dict)
    host: Mapping[str, Json] = field(default_factory=dict)
    run: Mapping[str, Json] = field(default_factory=dict)
    states: Mapping[str, Json | Unknown] = field(default_factory=dict)
    item: Json = None
    secrets: Mapping[str, Json] = field(default_factory=lambda: WRITTEN_SECRETS, repr=False)
    """The values of secrets, if a command is about to be sent; otherwise the references of the template are kept as
    text.
    """
    history: HistoryScope | None = field(default=None, repr=False)
    """The history that expressions read; None if these expressions have no history."""
    let: Let = NO_LET
    """The named expressions (``let``)."""

    def names(self, mentioned: Iterable[str]) -> dict[str, Any]:
        """Return the variables of a template that uses the names *mentioned*; other probes are left out."""
        host = {**self.host, SECRETS: _OfHost(self.secrets)} if HOST_SECRETS in mentioned else self.host
        own = {name: view(it) for name, it in (("inputs", self.inputs), ("host", host), ("run", self.run))}
        states = {name: view(self.states[name]) for name in mentioned if name in self.states}
        secrets = {SECRETS: view(self.secrets)} if SECRETS in mentioned else {}
        past = {HISTORY: History(self.history)} if self.history and HISTORY in mentioned else {}
        return {**own, "item": view(self.item), **states, **secrets, **past}


@pass_context
def _finalize(_context: Any, value: Any) -> Any:
    """Return the value that `{{ }}` prints.  The parameter for the context stops Jinja from printing constants when it
    compiles.
    """
    return finite(known(value))


@cache
def _environment() -> Environment:
    made = Environment(_finalize)
    made.filters |= filters(_inside)
    return made


def _inside(expression: str, names: Mapping[str, Any], let: Let = NO_LET) -> Any:
    """Return the value of *expression* in one sample; *names* are the names of the surrounding template."""
    template = _over_sample(expression, let)
    made = list(_pieces(template.root_render_func(template.new_context(dict(names)))))
    return _joined(as_template(expression), made, whole=False)


@cache
def _over_sample(expression: str, let: Let) -> Any:
    return _environment().from_string(OfSample().visit(_tree(as_template(expression), let)))


def evaluate(expression: str, scope: Scope) -> bool | Unknown:
    """Return whether *expression* is true; return Unknown if it uses the result of a probe that could not answer.

    Raises ConfigError if it cannot be evaluated at all.
    """
    value = value_of(expression, scope, gaps=True)  # a list is there or not, whatever is not known within it
    return value if isinstance(value, Unknown) else bool(value)


def value_of(expression: str, scope: Scope, *, gaps: bool = False) -> Json | Unknown:
    """Return the value of *expression* as JSON; return Unknown if it uses an unanswered probe.  Raises ConfigError.

    With *gaps*, an unknown value within a list or a mapping becomes a text that says so, and the rest is returned.
    """
    try:
        found: Json = _native(as_template(expression), scope, gaps=gaps)
        return found
    except UnknownTouched as error:
        return error.unknown


def evaluate_sample(condition: str, sample: Mapping[str, Json], scope: Scope) -> bool | Unknown:
    """Return whether *condition* is true in one sample; Unknown if it uses an unknown value.  Raises ConfigError."""
    try:
        return bool(_inside(condition, {**scope.names(()), ROUNDS: Rounds(), SAMPLE: view(sample)}, scope.let))
    except UnknownTouched as error:
        return error.unknown
    except FAULTS as error:
        raise ConfigError(_explained(condition, error, scope)) from error


def render(tree: Any, scope: Scope) -> Json:
    """Return *tree* with all its templates filled in; ``Raw`` values stay as they are.

    A text that consists of one ``{{ }}`` becomes the native value.  Raises UnknownTouched, and ConfigError.
    """
    match tree:
        case Raw(value=inner):
            return inner
        case str():
            return _native(tree, scope) if is_template(tree) else tree
        case Mapping():
            return {key: render(value, scope) for key, value in tree.items()}
        case list() | tuple():
            return [render(each, scope) for each in tree]
    literal: Json = tree
    return literal


def say(text: str, scope: Scope) -> str:
    """Return *text* filled in for people; an unknown value becomes the word ``unknown``.  Raises ConfigError."""
    try:
        return str(_native(text, scope, whole=True)) if is_template(text) else text
    except UnknownTouched:
        if "{%" in text:
            return "unknown"
    parts = re.split(r"(\{\{.*?\}\})", text, flags=re.DOTALL)
    return "".join(_said(part, scope) for part in parts)


def _said(part: str, scope: Scope) -> str:
    if not part.startswith("{{"):
        return part
    try:
        return str(_native(part, scope, whole=True))
    except UnknownTouched:
        return "unknown"


def is_template(text: str) -> bool:
    """Whether *text* contains a template (``{{``, ``{%`` or ``{#``)."""
    return "{{" in text or "{%" in text or "{#" in text


def as_template(text: str) -> str:
    """Return *text* as a template; an expression is put into ``{{ }}``."""
    return text if is_template(text) else "{{ (" + text + "\n) }}"


def _native(text: str, scope: Scope, *, whole: bool = False, gaps: bool = False) -> Any:
    try:
        parsed = _parsed(text, scope.let)
        names = scope.names(parsed.mentioned)
        if parsed.path:
            pieces = iter([_at(parsed.path, names)])
        else:
            template = _compiled(text, scope.let)
            pieces = template.root_render_func(template.new_context({**names, ROUNDS: Rounds()}))
        return _joined(text, list(_pieces(pieces)), whole=whole, gaps=gaps)
    except UnknownTouched:
        raise
    except FAULTS as error:
        raise ConfigError(_explained(text, error, scope)) from error


def _at(path: tuple[str, ...], names: Mapping[str, Any]) -> Any:
    """Return the value of the attributes *path*, as a compiled template would, but without compiling (which takes far
    longer).
    """
    name, *attributes = path
    environment = _environment()
    value = names[name] if name in names else environment.undefined(name=name)
    for attribute in attributes:
        value = environment.getattr(value, attribute)
    return finite(known(value))


def _explained(text: str, error: Exception, scope: Scope) -> str:
    """Explain why *text* cannot be filled in; the explanation names the value and the probe."""
    environment = _environment()
    names = {**scope.names(scope.states), ROUNDS: Rounds()}

    def value(node: nodes.Node) -> Any:
        tree = nodes.Template([nodes.Output([node], lineno=1)], lineno=1)
        tree.set_environment(environment)
        template = environment.from_string(tree)
        (found,) = _pieces(template.root_render_func(template.new_context(dict(names))))
        return found

    try:
        tree = _tree(as_template(text), scope.let)
        return explained(text, error, tree, value, scope.states)
    except FAULTS:  # what cannot even be parsed is its own explanation
        return _reason(text, error)


def _joined(text: str, pieces: list[Any], *, whole: bool, gaps: bool = False) -> Any:
    """Return the text of all *pieces*; return the native value if *text* is only one ``{{ }}``."""
    if is_single(text) and not whole:
        values = [piece for piece in pieces if not (isinstance(piece, str) and not piece.strip() and len(pieces) > 1)]
        if len(values) == 1 and isinstance(values[0], Undefined):
            str(values[0])  # raises UndefinedError, which says what there is
        return plain(values[0], gaps=gaps) if len(values) == 1 else "".join(map(_text, pieces))
    return "".join(map(_text, pieces))


def is_single(text: str) -> bool:
    """Whether *text* is only one ``{{ }}``, so that its result is the native value."""
    return bool(re.fullmatch(r"\s*\{\{(?:(?!\{\{|\}\}).)*\}\}\s*", text, flags=re.DOTALL))


def _pieces(made: Iterator[Any]) -> Iterator[Any]:
    """Yield the pieces of a template's output; raise SecurityError if they are too large together."""
    size = 0
    for piece in made:
        size += len(piece) if isinstance(piece, str) else 1
        if size > LONGEST:
            raise SecurityError(f"the text exceeds {LONGEST} characters")
        yield known(piece)


def _text(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case list() | tuple():
            return ", ".join(map(_text, value))
        case Iterator():
            return ", ".join(map(_text, value))
    return str(value)


def _reason(text: str, error: Exception) -> str:
    shown = " ".join(text.split())
    shown = shown if len(shown) <= 160 else f"{shown[:157]}..."
    return f"`{shown}`: {getattr(error, 'message', None) or error}"


def _compiled(text: str, let: Let) -> Any:
    """Return the compiled template of *text*.  Lets the errors of Jinja through."""
    return _parsed(text, let).compiled or _environment().from_string(_tree(text, let))


def fault_in(text: str, let: Let) -> str:
    """Return the reason why *text* is not a valid template; empty if it is valid."""
    return _fault(lambda: _parsed(text, let).plain or _compiled(text, let))


def _fault(read: Callable[[], object]) -> str:
    """Return the reason why the call of *read* fails; empty if it succeeds."""
    try:
        read()
    except SecurityError as error:  # in our own words
        return str(error.message or error)
    except (TemplateError, RecursionError, SyntaxError, ValueError) as error:
        said = str(getattr(error, "message", None) or error) or type(error).__name__
        return plainly(said, _environment().filters, _environment().tests)
    return ""


def line_of_fault(text: str) -> int:
    """Return the line of *text* that has the first syntax error; 0 if there is none or the line is not known."""
    try:
        _environment().parse(text)
    except (TemplateError, RecursionError, ValueError) as error:
        return error.lineno if isinstance(error, TemplateSyntaxError) else 0
    return 0


def fault_in_expression(expression: str, let: Let) -> str:
    """Return the reason why *expression* is malformed; empty if it is well-formed."""
    if is_template(expression):
        return "write an expression without {{ }}"
    braced = "{{ " + expression + "\n}}"
    fault = fault_in(as_template(expression), let)
    return fault or (_fault(lambda: _environment().parse(braced)) if ")" in expression else "")  # `a) or (b`


def names(text: str, let: Let) -> frozenset[tuple[str, str]]:
    """Return every free name in *text* with its first attribute (empty if it has none); *text* is an expression or a
    template.

    A name of *let* counts as the names in its expression.  Raises ConfigError if *text* cannot be parsed.
    """
    return _understood(text, let).names


def _understood(text: str, let: Let) -> ParsedTemplate:
    """Return the properties of *text*, an expression or a template.  Raises ConfigError if it cannot be parsed."""
    try:
        return _parsed(as_template(text), let)
    except (TemplateError, RecursionError) as error:
        raise ConfigError(_reason(text, error if isinstance(error, Exception) else ValueError("too deep"))) from error


@cache
def _parsed(template: str, let: Let) -> ParsedTemplate:
    """Return the properties of *template*; the result is cached, because the same templates appear again and again.

    Raises TemplateError or RecursionError if it cannot be parsed.
    """
    return read_tree(_tree(template, let), _environment())


def _tree(template: str, let: Let) -> nodes.Template:
    parse = _environment().parse
    return named_values(parse(template), let, lambda value: parse(as_template(value)))


def demands_silence(text: str, let: Let) -> bool:
    """Whether the condition *text* can only hold if something was not answered.  Raises ConfigError."""
    return _understood(text, let).demands_silence


def history_calls(text: str, let: Let) -> tuple[HistoryCall, ...]:
    """Return every use of ``history`` in *text*.  Raises ConfigError if *text* cannot be parsed."""
    return _understood(text, let).history if any(HISTORY in each for each in (text, *dict(let).values())) else ()


def secrets_in_template(text: str) -> frozenset[str]:
    """Return the names of the secrets that *text* inserts (``NAME``, ``host.NAME``).

    Returns none if *text* cannot be parsed; another check reports that.
    """
    if SECRETS not in text or not is_template(text) or fault_in(text, NO_LET):
        return frozenset()
    return _parsed(text, NO_LET).secrets


def bends_secrets(text: str, let: Let) -> bool:
    """Whether *text* does more with secrets than insert them.  Raises ConfigError if *text* cannot be parsed."""
    return SECRETS in text and _understood(text, let).bends_secrets


def element_attributes(text: str, let: Let) -> tuple[ElementAttribute, ...]:
    """Return every attribute that *text* reads from the elements of a probe's lists.  Raises ConfigError."""
    return _understood(text, let).elements


def over_samples(text: str, let: Let) -> tuple[SampleFilter, ...]:
    """Return every filter over samples in *text*.  Raises ConfigError if *text* cannot be parsed."""
    return _understood(text, let).over_samples
