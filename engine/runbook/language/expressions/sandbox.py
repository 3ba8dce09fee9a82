"""The sandbox of templates: allowed syntax, and limits on loops and sizes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from typing import Any, TypeVar

from jinja2 import StrictUndefined, Undefined, nodes, pass_context
from jinja2.compiler import Frame
from jinja2.exceptions import SecurityError, TemplateSyntaxError
from jinja2.nativetypes import NativeCodeGenerator, NativeEnvironment
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from runbook.language.expressions.series import NAMES as SERIES
from runbook.language.expressions.series import ROUNDS
from runbook.language.expressions.views import LONGEST, Silent, View, finite, known
from runbook.values.types import plural

MOST_ROUNDS = 100_000
"""The maximum number of rounds that all loops of one template may take together."""

LARGEST_ARGUMENT = 10_000
"""The largest number that a filter or a method may get, because the number may be a width or a count."""

COMPARING = frozenset({"select", "reject", "selectattr", "rejectattr", "default"})
"""Filters that only compare numbers or return them unchanged, so that their numbers may be of any size."""

WITHIN_BOUNDS = "_within_bounds"
JOINED = "_joined"

STATEMENTS = (nodes.Template, nodes.Output, nodes.TemplateData, nodes.For, nodes.If, nodes.Assign)
METHODS = (
    *("lower", "upper", "title", "capitalize", "swapcase", "casefold", "strip", "lstrip", "rstrip", "replace", "join"),
    *("split", "rsplit", "splitlines", "partition", "rpartition", "removeprefix", "removesuffix"),
    *("startswith", "endswith", "find", "rfind", "index", "rindex", "count", "isdigit", "isdecimal", "isalpha"),
    *("isalnum", "isnumeric", "isspace", "islower", "isupper", "isascii"),
)
"""The methods of a text that a template may call; methods that pad, format or encode are not among them."""

SHOWN = 8
"""The maximum number of existing keys that a message about a missing key names."""

NO_GLOBALS = ("lipsum", "cycler", "joiner", "namespace", "dict")
NO_FILTERS = ("attr", "pprint", "xmlattr", "urlize", "random", "center", "wordwrap", "batch", "slice", "indent")

F = TypeVar("F", bound=Callable[..., Any])


class Rounds:
    """Counts the rounds that the loops of a template take."""

    def __init__(self) -> None:
        self._left = MOST_ROUNDS

    def _count(self, items: Any) -> Iterator[Any]:
        for item in items:
            self._left -= 1
            if self._left < 0:
                raise SecurityError(f"its loops exceed {MOST_ROUNDS} rounds in total")
            yield item


@pass_context
def _within_bounds(context: Any, items: Any) -> Any:
    """Return *items*, the items of a loop, so that each round is counted."""
    return context[ROUNDS]._count(known(items))


def _joined(parts: Any) -> str:
    """Return the joined texts of a ``~`` expression."""
    return "".join(bounded([str(known(part)) for part in parts]))


def _format(form: str, *values: Any) -> str:
    """Format *values* like Python's ``%``, but refuse widths of more than three digits."""
    if re.search(r"\*|\d{4}", str(form)):
        raise SecurityError("`format` takes no width of more than three digits")
    return str(bounded(str(form) % tuple(map(known, values))))


def _counted(value: Any, noun: str, many: str = "") -> str:
    """Return a number with its noun in the right form: ``1 process``, ``2 processes``; a list counts by its length."""
    found = known(value)
    number = found if isinstance(found, int | float) else len(list(found))
    return plural(number, str(noun), str(many))


def _answered(value: Any) -> bool:
    """Whether the probe or the field *value* is known.  The test also accepts an unknown value."""
    if isinstance(value, Undefined):
        str(value)  # raises: a field that is not there was mistyped
    return not isinstance(value, Silent)


class _Asking(NativeCodeGenerator):
    """Compiles ``x.field is answered`` so that the fields are read without an error if they are unknown."""

    def visit_Test(self, node: nodes.Test, frame: Frame) -> None:  # noqa: N802 - as Jinja's visitor calls it
        asked = node.node
        fields: list[str] = []
        while node.name == "answered" and isinstance(asked, nodes.Getattr):
            fields.insert(0, asked.attr)
            asked = asked.node
        if not fields:
            super().visit_Test(node, frame)
            return
        with self._filter_test_common(node, frame, False):
            self.write("environment.field(")
            self.visit(asked, frame)
            self.write(f", {', '.join(map(repr, fields))})")


class _Bounding(NodeTransformer):
    """Changes a tree so that loops are counted and joined texts are measured; refuses statements that could avoid
    this.
    """

    def __init__(self, environment: Environment) -> None:
        self._filters, self._tests = environment.filters, environment.tests

    def generic_visit(self, node: nodes.Node, *args: Any, **kwargs: Any) -> nodes.Node:
        if isinstance(node, nodes.Stmt) and not isinstance(node, STATEMENTS):
            word = type(node).__name__.lower()
            raise SecurityError(f"templates support `if`, `for` and `set`, but not `{word}`")
        return super().generic_visit(node, *args, **kwargs)

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802 - as Jinja's visitor calls it
        if node.recursive:
            raise SecurityError("a loop may not be recursive")
        self.generic_visit(node)
        node.iter = nodes.Filter(node.iter, WITHIN_BOUNDS, [], [], None, None, lineno=node.lineno)
        return node

    def visit_Const(self, node: nodes.Const) -> nodes.Node:  # noqa: N802 - as above
        """Refuse a number that is too large, such as 1e999: Python would write it as `inf`, which is a name."""
        try:
            finite(node.value)
        except ValueError as error:
            raise SecurityError("it contains a number that is too large") from error
        return node

    def visit_Filter(self, node: nodes.Filter) -> nodes.Node:  # noqa: N802 - as above
        """Check that filters over samples get an expression that the author wrote, never a text from a host."""
        self.generic_visit(node)
        self._named(node)
        if node.name in ("map", *SERIES) and (node.dyn_args or node.dyn_kwargs):
            raise SecurityError(f"`{node.name}` needs its arguments written out, without `*`")
        given = [_text(item) for item in node.args]
        name, given = (given[0], given[1:]) if node.name == "map" and given else (node.name, given)
        if not name:
            raise SecurityError("`map` needs the name of its filter written out")
        if name in SERIES and not (given and given[0]):
            raise SecurityError(f"`{name}` needs its condition or field written out, in quotes")
        return node

    def _named(self, node: nodes.Filter) -> None:
        """Refuse a test or a filter that is named in quotes and does not exist; Jinja itself would notice this only at
        evaluation.
        """
        place = {"select": 0, "reject": 0, "selectattr": 1, "rejectattr": 1, "map": 0}.get(node.name, len(node.args))
        name = _text(node.args[place]) if place < len(node.args) else ""
        kind, known_names = ("filter", self._filters) if node.name == "map" else ("test", self._tests)
        if name and name not in known_names:
            raise TemplateSyntaxError(f"No {kind} named {name!r}.", node.lineno)

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802 - as above
        self.generic_visit(node)
        parts = nodes.List(node.nodes, lineno=node.lineno)
        return nodes.Filter(parts, JOINED, [], [], None, None, lineno=node.lineno)


def _text(node: nodes.Expr) -> str:
    return node.value if isinstance(node, nodes.Const) and isinstance(node.value, str) else ""


class Missing(StrictUndefined):
    """A missing name or key; its message uses the words of playbooks."""

    @property
    def _undefined_message(self) -> str:
        if not isinstance(self._undefined_obj, View):
            return super()._undefined_message
        known_keys = list(self._undefined_obj)
        more = ", ..." if len(known_keys) > SHOWN else ""
        there = f"there is {', '.join(known_keys[:SHOWN])}{more}" if known_keys else "it is empty"
        return f"there is no {self._undefined_name!r} ({there})"


class Environment(ImmutableSandboxedEnvironment, NativeEnvironment):
    """The Jinja environment: sandboxed, strict about undefined names, with native types and limits."""

    code_generator_class = _Asking
    intercepted_binops = frozenset({"*", "**", "+", "-", "/", "//", "%"})

    def __init__(self, finalize: Callable[..., Any]) -> None:
        super().__init__(undefined=Missing, autoescape=False, extensions=[])
        self.finalize = finalize
        for name in NO_GLOBALS:
            self.globals.pop(name, None)
        for name in NO_FILTERS:
            self.filters.pop(name, None)
        self.filters = {name: _measured(name, value) for name, value in self.filters.items()}
        self.filters |= {WITHIN_BOUNDS: _within_bounds, JOINED: _joined, "format": _format, "counted": _counted}
        self.tests = {name: _asked_of_known(value) for name, value in self.tests.items()} | {"answered": _answered}

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        made: nodes.Template = _Bounding(self).visit(tree)
        return made

    def getattr(self, obj: Any, attribute: str) -> Any:
        known(obj)
        if attribute.startswith("_"):
            raise SecurityError(f"{attribute!r} cannot be reached from a playbook")
        if isinstance(obj, View):
            if attribute in obj:
                return obj[attribute]
            return self.undefined(obj=obj, name=attribute)
        if isinstance(obj, str) and attribute not in METHODS:
            raise SecurityError(f"a text has no {attribute!r} in a playbook")
        return super().getattr(obj, attribute)

    def field(self, obj: Any, *path: str) -> Any:
        """Return the value at *path* in *obj*; a ``Silent`` if a part of the path is not known."""
        for name in path:
            if isinstance(obj, Silent):
                break
            there = isinstance(obj, View) and name in tuple(obj)  # `in obj` would touch it
            obj = obj.field(name) if there else self.getattr(obj, name)
        return obj

    def getitem(self, obj: Any, argument: Any) -> Any:
        known(obj)
        if isinstance(argument, str) and argument.startswith("_"):
            raise SecurityError(f"{argument!r} cannot be reached from a playbook")
        if isinstance(obj, str) and isinstance(argument, str):
            return self.getattr(obj, argument)
        return known(super().getitem(obj, argument))

    def call(__self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        name = str(getattr(__obj, "__name__", "it")).removeprefix("safe_")
        _refuse_large(name, getattr(__obj, "__self__", None), args, kwargs)
        return bounded(super().call(__context, __obj, *args, **kwargs))

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        known(left), known(right)
        if operator in ("**", "<<") or (operator == "*" and _sized(left, right) > LONGEST):
            raise SecurityError(f"`{operator}` could produce a value of unlimited size")
        if operator == "%" and isinstance(left, str):
            raise SecurityError("use ~ to join texts; `%` on text is not allowed")
        return bounded(super().call_binop(context, operator, left, right))

    def is_safe_callable(self, obj: Any) -> bool:
        return not isinstance(obj, type) and super().is_safe_callable(obj)


def bounded(value: Any) -> Any:
    """Return *value* unchanged; raise SecurityError if it is too large.  The texts of a list count together."""
    size = len(value) if isinstance(value, str | list | tuple | Mapping) else 0
    if isinstance(value, list):
        size += sum(len(each) for each in value if isinstance(each, str))
    finite(value)
    if size > LONGEST:
        raise SecurityError(f"the result exceeds {LONGEST} characters or elements")
    return value


def _asked_of_known(test: Any) -> Any:
    """Return *test* for known values only: with an unknown value the returned test raises."""
    if hasattr(test, "jinja_pass_arg"):
        return test

    @wraps(test)
    def asked(*args: Any, **kwargs: Any) -> Any:
        return test(*map(known, args), **kwargs)

    return asked


def _measured(name: str, function: F) -> F:
    """Return the filter *function* with limits on its arguments and on its result."""

    @wraps(function)
    def within(*args: Any, **kwargs: Any) -> Any:
        own = args[1:] if hasattr(function, "jinja_pass_arg") else args
        _refuse_large(name, own[0] if own else None, own[1:], kwargs)
        return bounded(function(*args, **kwargs))

    return within  # type: ignore[return-value] # of the same form


def _refuse_large(name: str, value: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Raise SecurityError if an argument is too large for a width or a count, or if `join` would repeat a text too
    often.
    """
    given = (*args, *kwargs.values())
    numbers = [each for each in given if isinstance(each, int) and not isinstance(each, bool)]
    if name not in COMPARING and any(
        abs(number) > (MOST_ROUNDS if name == "range" else LARGEST_ARGUMENT) for number in numbers
    ):
        raise SecurityError(f"`{name}` is given a number that is too large")
    times = len(value) if isinstance(value, str | list | tuple) else 0
    if name == "join" and isinstance(value, str):
        times = max((len(each) for each in given if isinstance(each, list | tuple)), default=0) if value else 0
        given = (*given, value)
    longest = max((len(each) for each in given if isinstance(each, str)), default=0)
    if name in ("replace", "join") and times * longest > LONGEST:
        raise SecurityError(f"`{name}` could produce a value of more than {LONGEST} characters")


def _sized(left: Any, right: Any) -> int:
    for one, other in ((left, right), (right, left)):
        if isinstance(one, str | list | tuple) and isinstance(other, int):
            return len(one) * max(other, 0)
    return 0
