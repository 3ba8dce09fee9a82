"""Expressions and templates: Jinja2 in a sandbox, with answers that may be unknown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from jinja2 import StrictUndefined, TemplateError, meta, nodes, pass_context
from jinja2.exceptions import SecurityError, UndefinedError
from jinja2.nativetypes import NativeEnvironment
from jinja2.sandbox import ImmutableSandboxedEnvironment

from engine.codec import UNKNOWN
from engine.errors import ConfigError
from engine.values.text import Json, Raw, Unknown

ROOTS = frozenset({"inputs", "host", "run", "item"})
"""Names that every expression may use, besides the looks."""

LONGEST = 1_000_000
"""Characters or elements that one value may have."""


class UnknownTouched(Exception):
    """An expression touched something that no look could answer; the text says what, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What the names in an expression stand for."""

    inputs: Mapping[str, Json] = field(default_factory=dict)
    host: Mapping[str, Json] = field(default_factory=dict)
    run: Mapping[str, Json] = field(default_factory=dict)
    looks: Mapping[str, Json | Unknown] = field(default_factory=dict)
    item: Json = None

    def names(self) -> dict[str, Any]:
        """The variables of a template."""
        plain = {name: _view(it) for name, it in (("inputs", self.inputs), ("host", self.host), ("run", self.run))}
        return {**plain, "item": _view(self.item), **{name: _view(it) for name, it in self.looks.items()}}


class _View(Mapping[str, Any]):
    """A JSON object whose keys are attributes, also where a dict has a method of that name."""

    def __init__(self, inner: Mapping[str, Json]) -> None:
        self._inner = inner

    def __getitem__(self, key: str) -> Any:
        return _known(_view(self._inner[key]))

    def __iter__(self) -> Iterator[str]:
        return iter(self._inner)

    def __len__(self) -> int:
        return len(self._inner)

    def __hash__(self) -> int:
        return hash(repr(self._inner))

    def __eq__(self, other: object) -> bool:
        return bool(self._inner == (other._inner if isinstance(other, _View) else other))

    def __str__(self) -> str:
        if "pid" in self._inner and "command" in self._inner:
            command = " ".join(str(self._inner["command"]).split())
            short = command if len(command) <= 80 else command[:79] + "…"
            user = f" ({self._inner['user']})" if self._inner.get("user") else ""
            return f"pid {self._inner['pid']}{user} {short}"
        return str(self._inner)

    __repr__ = __str__


@dataclass(frozen=True, slots=True)
class _Silent:
    """A look, or a field of one, without an answer: touching it says so."""

    why: str


def _view(value: Any) -> Any:
    match value:
        case Unknown(why=why):
            return _Silent(why)
        case Raw(value=inner):
            return _view(inner)
        case Mapping() if tuple(value) == (UNKNOWN,):
            return _Silent(str(value[UNKNOWN]))
        case _View() | _Silent() | str():
            return value
        case Mapping():
            return _View(value)
        case Sequence():
            return [_view(it) for it in value]
    return value


def _known(value: Any) -> Any:
    if isinstance(value, _Silent):
        raise UnknownTouched(value.why)
    return value


@pass_context
def _finalize(_context: Any, value: Any) -> Any:
    """What `{{ }}` prints; taking the context keeps Jinja from printing constants as text at compile time."""
    return _known(value)


def _plain(value: Any) -> Any:
    """*value* without views, as JSON has it."""
    match _known(value):
        case _View() as view:
            return {key: _plain(view[key]) for key in view}
        case Mapping() as mapping:
            return {str(key): _plain(it) for key, it in mapping.items()}
        case str() | int() | float() | None as scalar:
            return scalar
        case list() | tuple() | set() | frozenset() as many:
            return [_plain(it) for it in many]
        case Iterator() as some:
            return [_plain(it) for _, it in zip(range(LONGEST), some, strict=False)]
    raise ConfigError(f"an expression gave {type(value).__name__}, which is no value of a playbook")


class _Environment(ImmutableSandboxedEnvironment, NativeEnvironment):
    """Sandboxed, strict about undefined names, native types, and bounded."""

    intercepted_binops = frozenset({"*", "**", "+", "%", "<<"})

    def getattr(self, obj: Any, attribute: str) -> Any:
        _known(obj)
        if attribute.startswith("_"):
            raise SecurityError(f"{attribute!r} cannot be reached from a playbook")
        if isinstance(obj, _View):
            if attribute in obj:
                return obj[attribute]
            return self.undefined(obj=obj, name=attribute)
        return super().getattr(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        _known(obj)
        if isinstance(argument, str) and argument.startswith("_"):
            raise SecurityError(f"{argument!r} cannot be reached from a playbook")
        return _known(super().getitem(obj, argument))

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        _known(left), _known(right)
        if operator in ("**", "<<") or (operator == "*" and _sized(left, right) > LONGEST):
            raise SecurityError(f"`{operator}` could make a value without end")
        if operator == "%" and isinstance(left, str):
            raise SecurityError("use ~ to join texts; `%` on text is not allowed")
        return super().call_binop(context, operator, left, right)

    def is_safe_callable(self, obj: Any) -> bool:
        return not isinstance(obj, type) and super().is_safe_callable(obj)


def _sized(left: Any, right: Any) -> int:
    for one, other in ((left, right), (right, left)):
        if isinstance(one, str | list | tuple) and isinstance(other, int):
            return len(one) * max(other, 0)
    return 0


@cache
def _environment() -> _Environment:
    made = _Environment(undefined=StrictUndefined, autoescape=False, extensions=[])
    made.finalize = _finalize
    for name in ("lipsum", "cycler", "joiner", "namespace"):
        made.globals.pop(name, None)
    for name in ("attr", "pprint", "xmlattr", "urlize", "random"):
        made.filters.pop(name, None)
    made.tests = dict(made.tests)
    return made


def evaluate(expression: str, scope: Scope) -> bool | Unknown:
    """Whether *expression* is true; Unknown when it touches what no look could answer.

    Raises ConfigError when it cannot be evaluated at all.
    """
    value = value_of(expression, scope)
    return value if isinstance(value, Unknown) else bool(value)


def value_of(expression: str, scope: Scope) -> Json | Unknown:
    """What *expression* gives, as JSON; Unknown when it touches what no look could answer.  Raises ConfigError."""
    try:
        found: Json = _native(_as_template(expression), scope)
        return found
    except UnknownTouched as error:
        return Unknown(why=str(error))


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
    plain: Json = tree
    return plain


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


def _native(text: str, scope: Scope, *, whole: bool = False) -> Any:
    try:
        template = _compiled(text)
        pieces = [_known(it) for it in template.root_render_func(template.new_context(scope.names()))]
    except UnknownTouched:
        raise
    except (
        TemplateError,
        TypeError,
        ValueError,
        ArithmeticError,
        LookupError,
        AttributeError,
        RecursionError,
    ) as error:
        raise ConfigError(_reason(text, error)) from error
    single = re.fullmatch(r"\s*\{\{(?:(?!\{\{|\}\}).)*\}\}\s*", text, flags=re.DOTALL)
    if single and not whole:
        values = [it for it in pieces if not (isinstance(it, str) and not it.strip() and len(pieces) > 1)]
        return _plain(values[0]) if len(values) == 1 else "".join(map(_text, pieces))
    return "".join(map(_text, pieces))


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
    match error:
        case UndefinedError():
            return f"`{shown}`: {error.message}"
        case TemplateError():
            return f"`{shown}`: {error.message or error}"
    return f"`{shown}`: {error}"


@cache
def _compiled(text: str) -> Any:
    return _environment().from_string(text)


def fault_in(text: str) -> str:
    """Why *text* is no template; empty when it is one."""
    try:
        _compiled(text)
    except (TemplateError, RecursionError, SyntaxError, ValueError) as error:
        return str(getattr(error, "message", None) or error) or type(error).__name__
    return ""


def fault_in_expression(expression: str) -> str:
    """Why *expression* is none; empty when it is one."""
    if is_template(expression):
        return "an expression stands without {{ }}"
    return fault_in(_as_template(expression))


def names(text: str) -> frozenset[tuple[str, str]]:
    """Every free name in an expression or a template with its first attribute, or an empty text without one.

    Raises ConfigError when *text* cannot be parsed.
    """
    source = text if is_template(text) else _as_template(text)
    try:
        tree = _environment().parse(source)
        free = meta.find_undeclared_variables(tree)
    except (TemplateError, RecursionError) as error:
        raise ConfigError(_reason(text, error if isinstance(error, Exception) else ValueError("too deep"))) from error
    found = {(it.name, "") for it in tree.find_all(nodes.Name) if it.name in free}
    deeper = {
        pair for it in tree.find_all((nodes.Getattr, nodes.Getitem)) if (pair := _first_step(it)) and pair[0] in free
    }
    with_attribute = {name for name, _ in deeper}
    return frozenset(deeper | {it for it in found if it[0] not in with_attribute})


def _first_step(node: Any) -> tuple[str, str] | None:
    """The name and the attribute of ``name.attribute`` or ``name['attribute']``."""
    constant = isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Const)
    attribute = node.attr if isinstance(node, nodes.Getattr) else node.arg.value if constant else None
    return (node.node.name, attribute) if isinstance(node.node, nodes.Name) and isinstance(attribute, str) else None
