"""Expressions and templates: Jinja2 in a sandbox, with answers that may be unknown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

from jinja2 import TemplateError, Undefined, meta, nodes, pass_context
from jinja2.exceptions import SecurityError, TemplateSyntaxError, UndefinedError

from engine.errors import ConfigError
from engine.expressions.evaluation_errors import explained
from engine.expressions.sandbox import Environment, Rounds
from engine.expressions.series import NAMES, ROUNDS, SAMPLE, OfSample, filters
from engine.expressions.syntax_errors import plainly
from engine.expressions.views import LONGEST, UnknownTouched, finite, known, plain, view
from engine.values.types import Json, Raw, Unknown

ROOTS = frozenset({"inputs", "host", "run", "item"})
"""Names that every expression may use, besides the looks."""


FAULTS = (TemplateError, TypeError, ValueError, ArithmeticError, LookupError, AttributeError, RecursionError)
"""What a text that cannot be filled in may raise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What the names in an expression stand for."""

    inputs: Mapping[str, Json] = field(default_factory=dict)
    host: Mapping[str, Json] = field(default_factory=dict)
    run: Mapping[str, Json] = field(default_factory=dict)
    looks: Mapping[str, Json | Unknown] = field(default_factory=dict)
    item: Json = None

    def names(self, mentioned: Iterable[str]) -> dict[str, Any]:
        """The variables of a template in which *mentioned* stand: of very many looks it names a few."""
        own = {name: view(it) for name, it in (("inputs", self.inputs), ("host", self.host), ("run", self.run))}
        looks = {name: view(self.looks[name]) for name in mentioned if name in self.looks}
        return {**own, "item": view(self.item), **looks}


@pass_context
def _finalize(_context: Any, value: Any) -> Any:
    """What `{{ }}` prints; taking the context keeps Jinja from printing constants as text at compile time."""
    return finite(known(value))


@cache
def _environment() -> Environment:
    made = Environment(_finalize)
    made.filters |= filters(_inside)
    return made


def _inside(expression: str, names: Mapping[str, Any]) -> Any:
    """What *expression* over one sample gives; *names* are those of the template that it stands in."""
    made = list(_pieces(_over_sample(expression).root_render_func(_over_sample(expression).new_context(dict(names)))))
    return _joined(_as_template(expression), made, whole=False)


@cache
def _over_sample(expression: str) -> Any:
    environment = _environment()
    tree = environment.parse(_as_template(expression))
    return environment.from_string(OfSample().visit(tree))


def evaluate(expression: str, scope: Scope) -> bool | Unknown:
    """Whether *expression* is true; Unknown when it touches what no look could answer.

    Raises ConfigError when it cannot be evaluated at all.
    """
    value = value_of(expression, scope, gaps=True)  # a list is there or not, whatever is not known within it
    return value if isinstance(value, Unknown) else bool(value)


def value_of(expression: str, scope: Scope, *, gaps: bool = False) -> Json | Unknown:
    """What *expression* gives, as JSON; Unknown when it touches what no look could answer.  Raises ConfigError.

    With *gaps*, what is not known within a list or a mapping is a text that says so, and the rest is reported.
    """
    try:
        found: Json = _native(_as_template(expression), scope, gaps=gaps)
        return found
    except UnknownTouched as error:
        return Unknown(why=str(error))


def evaluate_sample(condition: str, sample: Mapping[str, Json], scope: Scope) -> bool | Unknown:
    """Whether *condition* is true of one sample.  Raises ConfigError."""
    try:
        return bool(_inside(condition, {**scope.names(()), ROUNDS: Rounds(), SAMPLE: view(sample)}))
    except UnknownTouched as error:
        return Unknown(why=str(error))
    except FAULTS as error:
        raise ConfigError(_explained(condition, error, scope)) from error


def render(tree: Any, scope: Scope) -> Json:
    """*tree* with every template in it filled in; ``Raw`` values as they are.

    A text that is nothing but one ``{{ }}`` gives the native value.  Raises UnknownTouched, and ConfigError.
    """
    match tree:
        case Raw(value=inner):
            return inner
        case str():
            return _native(tree, scope) if is_template(tree) else tree
        case Mapping():
            return {key: render(it, scope) for key, it in tree.items()}
        case list() | tuple():
            return [render(it, scope) for it in tree]
    literal: Json = tree
    return literal


def say(text: str, scope: Scope) -> str:
    """*text* for people; what is not known prints ``unknown``.  Raises ConfigError."""
    try:
        return str(_native(text, scope, whole=True)) if is_template(text) else text
    except UnknownTouched:
        if "{%" in text:
            return "unknown"
    parts = re.split(r"(\{\{.*?\}\})", text, flags=re.DOTALL)
    return "".join(_said(it, scope) for it in parts)


def _said(part: str, scope: Scope) -> str:
    if not part.startswith("{{"):
        return part
    try:
        return str(_native(part, scope, whole=True))
    except UnknownTouched:
        return "unknown"


def is_template(text: str) -> bool:
    """Whether there is anything in *text* to fill in."""
    return "{{" in text or "{%" in text or "{#" in text


def _as_template(expression: str) -> str:
    return "{{ (" + expression + "\n) }}"


def _native(text: str, scope: Scope, *, whole: bool = False, gaps: bool = False) -> Any:
    try:
        template = _compiled(text)
        context = template.new_context({**scope.names(_parsed(text).mentioned), ROUNDS: Rounds()})
        return _joined(text, list(_pieces(template.root_render_func(context))), whole=whole, gaps=gaps)
    except UnknownTouched:
        raise
    except FAULTS as error:
        raise ConfigError(_explained(text, error, scope)) from error


def _explained(text: str, error: Exception, scope: Scope) -> str:
    """Why *text* cannot be filled in, in words that name the value and the look."""
    environment = _environment()
    names = {**scope.names(scope.looks), ROUNDS: Rounds()}

    def value(node: nodes.Node) -> Any:
        tree = nodes.Template([nodes.Output([node], lineno=1)], lineno=1)
        tree.set_environment(environment)
        template = environment.from_string(tree)
        (found,) = _pieces(template.root_render_func(template.new_context(dict(names))))
        return found

    try:
        tree = environment.parse(text if is_template(text) else _as_template(text))
        return explained(text, error, tree, value, scope.looks)
    except FAULTS:  # what cannot even be parsed is its own explanation
        return _reason(text, error)


def _joined(text: str, pieces: list[Any], *, whole: bool, gaps: bool = False) -> Any:
    """The text of all *pieces*, or the native value where *text* is nothing but one ``{{ }}``."""
    if is_single(text) and not whole:
        values = [it for it in pieces if not (isinstance(it, str) and not it.strip() and len(pieces) > 1)]
        if len(values) == 1 and isinstance(values[0], Undefined):
            str(values[0])  # raises UndefinedError, which says what there is
        return plain(values[0], gaps=gaps) if len(values) == 1 else "".join(map(_text, pieces))
    return "".join(map(_text, pieces))


def is_single(text: str) -> bool:
    """Whether *text* is nothing but one ``{{ }}``, and gives the native value."""
    return bool(re.fullmatch(r"\s*\{\{(?:(?!\{\{|\}\}).)*\}\}\s*", text, flags=re.DOTALL))


def _pieces(made: Iterator[Any]) -> Iterator[Any]:
    """What a template gives, until it is too much."""
    size = 0
    for it in made:
        size += len(it) if isinstance(it, str) else 1
        if size > LONGEST:
            raise SecurityError(f"it makes a text of more than {LONGEST} characters")
        yield known(it)


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
    match error:
        case UndefinedError():
            return f"`{shown}`: {error.message}"
        case TemplateError():
            return f"`{shown}`: {error.message or error}"
    return f"`{shown}`: {error}"


def _compiled(text: str) -> Any:
    """The template that *text* is.  Raises what Jinja has against it."""
    return _parsed(text).compiled or _environment().from_string(text)


def fault_in(text: str) -> str:
    """Why *text* is no template; empty when it is one."""
    try:
        if not _parsed(text).plain:
            _compiled(text)
    except SecurityError as error:  # in our own words
        return str(error.message or error)
    except (TemplateError, RecursionError, SyntaxError, ValueError) as error:
        said = str(getattr(error, "message", None) or error) or type(error).__name__
        return plainly(said, _environment().filters, _environment().tests)
    return ""


def line_of_fault(text: str) -> int:
    """The line of *text* in which it stops being a template; 0 where it is one, or nobody can tell."""
    try:
        _environment().parse(text)
    except TemplateSyntaxError as error:
        return error.lineno
    except (TemplateError, RecursionError, ValueError):
        return 0
    return 0


def fault_in_expression(expression: str) -> str:
    """Why *expression* is none; empty when it is one."""
    if is_template(expression):
        return "an expression stands without {{ }}"
    return fault_in(_as_template(expression))


def names(text: str) -> frozenset[tuple[str, str]]:
    """Every free name in an expression or a template with its first attribute, or an empty text without one.

    Raises ConfigError when *text* cannot be parsed.
    """
    return _understood(text).names


@dataclass(frozen=True)
class _Parsed:
    """What is read from the tree of a template."""

    names: frozenset[tuple[str, str]]
    mentioned: frozenset[str]
    """Every name in it, also those that it binds itself."""
    over_samples: tuple[SampleFilter, ...]
    plain: bool
    """It is so simple that nothing can be wrong with it."""
    tree: Any

    @cached_property
    def compiled(self) -> Any:
        """The compiled template, which the tree is changed by; None where it can be parsed and not compiled."""
        try:
            return _environment().from_string(self.tree)
        except (TemplateError, RecursionError, SyntaxError, ValueError):
            return None


def _understood(text: str) -> _Parsed:
    """As ``_parsed``, of an expression or a template.  Raises ConfigError."""
    try:
        return _parsed(text if is_template(text) else _as_template(text))
    except (TemplateError, RecursionError) as error:
        raise ConfigError(_reason(text, error if isinstance(error, Exception) else ValueError("too deep"))) from error


@cache
def _parsed(template: str) -> _Parsed:
    """*template* parsed; every author writes the same ones again and again.

    Raises TemplateError or RecursionError where it cannot be parsed.
    """
    tree = _environment().parse(template)
    everything = list(_within(tree))
    found = _names_in(tree, everything)
    mentioned = frozenset(node.name for node in everything if isinstance(node, nodes.Name))
    uses = tuple(_over_samples(everything))
    return _Parsed(found, mentioned, uses, len(everything) <= FEW and all(map(_is_plain, everything)), tree)


FEW = 40
"""Nodes of a template in which nothing can be nested too deep."""
PLAIN = (
    *(nodes.Output, nodes.TemplateData, nodes.Name, nodes.Const),
    *(nodes.Compare, nodes.Operand, nodes.And, nodes.Or, nodes.Not),
)


def _is_plain(node: Any) -> bool:
    """Whether *node* can be compiled wherever it stands.

    Its parts are known, none needs Python's own check, and no value is computed while it is compiled.
    """
    if isinstance(node, nodes.Filter):
        known_filter = node.name in _environment().filters
        return known_filter and not (node.kwargs or node.dyn_args or node.dyn_kwargs) and _is_of_name(node)
    return isinstance(node, PLAIN) or (isinstance(node, nodes.Getattr | nodes.Getitem) and _is_of_name(node))


def _is_of_name(node: Any) -> bool:
    """Whether *node* is a part of the value of a name, or what filters make of that."""
    while isinstance(node, nodes.Getattr | nodes.Getitem | nodes.Filter):
        node = node.node
    return isinstance(node, nodes.Name)


def _within(node: Any) -> Iterator[Any]:
    """Every node below *node*, in the order of the text."""
    for child in node.iter_child_nodes():
        yield child
        yield from _within(child)


def _names_in(tree: Any, everything: list[Any]) -> frozenset[tuple[str, str]]:
    used = [node for node in everything if isinstance(node, nodes.Name)]
    if any(name.ctx != "load" for name in used):
        free = meta.find_undeclared_variables(tree)
    else:
        free = {name.name for name in used} - _environment().globals.keys()
    steps = (_first_step(node) for node in everything if isinstance(node, nodes.Getattr | nodes.Getitem))
    deeper = {pair for pair in steps if pair and pair[0] in free}
    with_attribute = {name for name, _ in deeper}
    return frozenset(deeper | {(name, "") for name in free & {it.name for it in used} if name not in with_attribute})


def _first_step(node: Any) -> tuple[str, str] | None:
    """The name and the attribute of ``name.attribute`` or ``name['attribute']``."""
    constant = isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Const)
    attribute = node.attr if isinstance(node, nodes.Getattr) else node.arg.value if constant else None
    return (node.node.name, attribute) if isinstance(node.node, nodes.Name) and isinstance(attribute, str) else None


@dataclass(frozen=True, slots=True)
class SampleFilter:
    """A filter over samples, as it stands in a text."""

    look: str
    """The name before it; empty where that is no name."""
    filter: str
    given: tuple[Any, ...]
    """What it is given; None where it is not written out."""


def over_samples(text: str) -> Iterator[SampleFilter]:
    """Every filter over samples in *text*.  Raises ConfigError when it cannot be parsed."""
    if "|" in text:
        yield from _understood(text).over_samples


def _over_samples(everything: list[Any]) -> Iterator[SampleFilter]:
    for it in everything:
        if not isinstance(it, nodes.Filter):
            continue
        given = tuple(arg.value if isinstance(arg, nodes.Const) else None for arg in it.args)
        if it.name in NAMES:
            yield SampleFilter(it.node.name if isinstance(it.node, nodes.Name) else "", it.name, given)
        elif it.name == "map" and given and given[0] in NAMES:
            yield SampleFilter("", given[0], given[1:])
