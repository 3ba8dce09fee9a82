"""Read from a template's tree what other modules need: names, filters over samples, whether it must be compiled."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import cached_property
from typing import Any, TypeVar, cast

from jinja2 import TemplateError, meta, nodes
from jinja2.visitor import NodeTransformer

from runbook.dataclass import dataclass
from runbook.language.expressions.history import HISTORY
from runbook.language.expressions.sandbox import Environment
from runbook.language.expressions.series import NAMES
from runbook.values.playbook import Let

N = TypeVar("N", bound=nodes.Node)


@dataclass(frozen=True, slots=True)
class SampleFilter:
    """A filter over the samples of a probe, as it is written in a text."""

    probe: str
    """The name of the probe before the filter; empty if the filter does not follow a name."""
    filter: str
    given: tuple[Any, ...]
    """The arguments of the filter; None in place of an argument that is not constant."""


@dataclass(frozen=True, slots=True)
class HistoryCall:
    """A use of ``history``, as it is written in a text."""

    method: str
    """The method, such as ``runs``; empty if ``history`` is used without a method."""
    given: tuple[str, ...] | None
    """The texts given to the call; None if there is no call, or if an argument is not constant."""


@dataclass(frozen=True, slots=True)
class ElementAttribute:
    """An attribute of the elements of a probe's list: ``jobs.leftover | selectattr('seconds', 'gt', 60)``."""

    probe: str
    field: str
    """The name of the probe's field that holds the list."""
    attribute: str


@dataclass(frozen=True, kw_only=True)
class ParsedTemplate:
    """The properties of a template that other modules need."""

    names: frozenset[tuple[str, str]]
    mentioned: frozenset[str]
    """Every name in the template, also the names that the template itself assigns."""
    over_samples: tuple[SampleFilter, ...]
    plain: bool
    """Whether the template is so simple that compiling it cannot fail."""
    path: tuple[str, ...]
    """The name and the attributes, if the template is only ``{{ name.attribute }}``; empty otherwise."""
    secrets: frozenset[str]
    """The secrets that the template inserts: NAME for ``{{ secrets.NAME }}``, host.NAME for ``{{ host.secrets.NAME
    }}``.
    """
    bends_secrets: bool
    """Whether the template uses a secret for more than inserting it; the result could then not be masked."""
    history: tuple[HistoryCall, ...]
    elements: tuple[ElementAttribute, ...]
    demands_silence: bool
    """Whether the template is a condition that can only hold if something was not answered."""
    tree: nodes.Template
    environment: Environment

    @cached_property
    def compiled(self) -> Any:
        """Return the compiled template; None if it can be parsed but not compiled.  Compiling changes the tree."""
        try:
            return self.environment.from_string(self.tree)
        except (TemplateError, RecursionError, SyntaxError, ValueError):
            return None


class _NamedValues(NodeTransformer):
    """Replaces the names of ``let`` in a tree by their expressions.

    Each expression stays a tree of its own, so that operators beside a name cannot split the expression.
    """

    def __init__(self, let: Let, bound: Collection[str], parse: Callable[[str], nodes.Template]) -> None:
        self._values = {name: (value, let[:number]) for number, (name, value) in enumerate(let) if name not in bound}
        self._parse = parse

    def visit_Name(self, node: nodes.Name) -> nodes.Node:  # noqa: N802 - as Jinja's visitor calls it
        if node.name not in self._values:
            return node
        value, earlier = self._values[node.name]
        (output,) = self._parse(value).body
        (inner,) = output.nodes  # type: ignore[attr-defined]  # of an Output
        return named_values(cast(nodes.Node, inner), earlier, self._parse)


def named_values(tree: N, let: Let, parse: Callable[[str], nodes.Template]) -> N:
    """Return *tree* with each name of *let* replaced by its expression; *parse* makes a template from an expression.

    A name that *tree* itself assigns, such as a loop variable, is not replaced.  Raises what *parse* raises.
    """
    bound = {node.name for node in tree.find_all(nodes.Name) if node.ctx != "load"}
    return cast(N, _NamedValues(let, bound, parse).visit(tree)) if let else tree


def read_tree(tree: nodes.Template, environment: Environment) -> ParsedTemplate:
    """Return the properties of *tree*, which was parsed by *environment*."""
    everything = list(_within(tree))
    inserted = _inserted_secrets(everything)
    return ParsedTemplate(
        names=_names_in(tree, everything, environment),
        mentioned=_mentioned(everything, inserted),
        over_samples=tuple(_over_samples(everything)),
        plain=len(everything) <= FEW and all(_is_plain(node, environment) for node in everything),
        path=_path(tree, environment),
        secrets=frozenset(inserted),
        bends_secrets=_bends_secrets(everything, inserted),
        history=tuple(_history(everything)),
        elements=tuple(_elements(everything)),
        demands_silence=any(isinstance(node, nodes.Test) for node in everything) and _demands_silence(_only(tree)),
        tree=tree,
        environment=environment,
    )


def _only(tree: nodes.Template) -> nodes.Node | None:
    """Return the expression of which *tree* consists; None if it is more."""
    match tree.body:
        case [nodes.Output(nodes=[node])]:
            return node
    return None


def _demands_silence(node: nodes.Node | None, *, negated: bool = False) -> bool:
    """Whether *node*, or its negation, can only be true if an ``is answered`` in it is false."""
    match node:
        case nodes.Test(name="answered"):
            return negated
        case nodes.Not():
            return _demands_silence(node.node, negated=not negated)
        case nodes.And() | nodes.Or():
            every = isinstance(node, nodes.Or) != negated
            sides = (_demands_silence(side, negated=negated) for side in (node.left, node.right))
            return all(sides) if every else any(sides)
        case nodes.CondExpr():
            chosen = ((node.test, False, node.expr1), (node.test, True, node.expr2))
            return all(_demands_silence(t, negated=no) or _demands_silence(e, negated=negated) for t, no, e in chosen)
        case nodes.Compare(ops=[nodes.Operand(op="eq" | "ne" as op, expr=nodes.Const(value=bool() as value))]):
            return _demands_silence(node.expr, negated=negated != ((op == "eq") != value))
    return False


SECRETS = "secrets"
"""The name through which expressions read secrets."""

HOST = "host"
OF_HOST = f"{HOST}."
"""The prefix of the names of secrets that are read through ``host.secrets``."""
HOST_SECRETS = f"{HOST}.{SECRETS}"
"""The entry in ``ParsedTemplate.mentioned`` that says that the template inserts a secret of the host."""


def _inserted_secrets(everything: list[Any]) -> list[str]:
    """Return the names in every ``{{ secrets.NAME }}`` and ``{{ host.secrets.NAME }}``; repeated uses are repeated."""
    printed = (node for output in everything if isinstance(output, nodes.Output) for node in output.nodes)
    return [name for node in printed if (name := _inserted(node))]


def _inserted(node: Any) -> str:
    """Return the name of the secret that *node* reads; empty if *node* is anything else."""
    step = _first_step(node)
    if step and step[0] == SECRETS:
        return step[1]
    if isinstance(node, nodes.Getattr) and _first_step(node.node) == (HOST, SECRETS):
        return f"{OF_HOST}{node.attr}"
    return ""


def _bends_secrets(everything: list[Any], inserted: list[str]) -> bool:
    """Whether the template uses a secret for more than inserting it.

    If it inserts secrets of the host, a use of ``host`` without an attribute counts, too.
    """
    of_host = sum(word.startswith(OF_HOST) for word in inserted)
    steps = [step for node in everything if (step := _first_step(node)) and step[0] == HOST]
    names = [node.name for node in everything if isinstance(node, nodes.Name)]
    if len(inserted) - of_host != names.count(SECRETS) or of_host != steps.count((HOST, SECRETS)):
        return True
    return bool(of_host) and names.count(HOST) != len(steps)


def _mentioned(everything: list[Any], inserted: list[str]) -> frozenset[str]:
    found = {node.name for node in everything if isinstance(node, nodes.Name)}
    return frozenset(found | {HOST_SECRETS} if any(word.startswith(OF_HOST) for word in inserted) else found)


def _path(tree: nodes.Template, environment: Environment) -> tuple[str, ...]:
    """Return the value of ``ParsedTemplate.path``; empty if the template is anything else."""
    node = _only(tree)
    attributes: list[str] = []
    while isinstance(node, nodes.Getattr):
        attributes.append(node.attr)
        node = node.node
    if isinstance(node, nodes.Name) and node.name not in environment.globals:
        return (node.name, *reversed(attributes))
    return ()


FEW = 40
"""A template with at most this number of nodes cannot be nested too deeply."""
PLAIN = (
    *(nodes.Output, nodes.TemplateData, nodes.Name, nodes.Const, nodes.Slice, nodes.CondExpr, nodes.List, nodes.Tuple),
    *(nodes.Compare, nodes.Operand, nodes.And, nodes.Or, nodes.Not, nodes.Keyword),
)
COMPUTED = (nodes.Add, nodes.Sub, nodes.Mul, nodes.Div)


def _is_plain(node: Any, environment: Environment) -> bool:
    """Whether *node* can be compiled wherever it is.

    This is true if its parts are known, Python has no rules of its own for them, and compiling it computes no value.
    """
    match node:
        case nodes.Filter():
            names = [keyword.key for keyword in node.kwargs]
            twice = len({*names}) < len(names)  # which Python refuses
            known_filter = node.name in environment.filters and not twice
            return known_filter and not (node.dyn_args or node.dyn_kwargs) and _is_of_name(node)
        case nodes.Getattr() | nodes.Getitem() | nodes.Add() | nodes.Sub() | nodes.Mul() | nodes.Div():
            return _is_of_name(node)
        case nodes.Neg():
            return isinstance(node.node, nodes.Const) and type(node.node.value) in {int, float}
    return isinstance(node, PLAIN)


def _is_of_name(node: Any) -> bool:
    """Whether *node* depends on the value of a name, so that Jinja computes nothing while it compiles the template."""
    while isinstance(node, nodes.Getattr | nodes.Getitem | nodes.Filter):
        node = node.node
    if isinstance(node, COMPUTED):
        return _is_of_name(node.left) or _is_of_name(node.right)
    return isinstance(node, nodes.Name)


def _within(node: Any) -> Iterator[Any]:
    """Yield every node below *node*, in the order of the text."""
    for child in node.iter_child_nodes():
        yield child
        yield from _within(child)


def _names_in(tree: Any, everything: list[Any], environment: Environment) -> frozenset[tuple[str, str]]:
    used = [node for node in everything if isinstance(node, nodes.Name)]
    if any(name.ctx != "load" for name in used):
        free = meta.find_undeclared_variables(tree)
    else:
        free = {name.name for name in used} - environment.globals.keys()
    steps = (_first_step(node) for node in everything if isinstance(node, nodes.Getattr | nodes.Getitem))
    deeper = {pair for pair in steps if pair and pair[0] in free}
    with_attribute = {name for name, _ in deeper}
    return frozenset(
        deeper | {(name, "") for name in free & {each.name for each in used} if name not in with_attribute}
    )


def _first_step(node: Any) -> tuple[str, str] | None:
    """Return the name and the attribute of ``name.attribute`` or ``name['attribute']``; None for other nodes."""
    if not isinstance(node, nodes.Getattr | nodes.Getitem):
        return None
    if isinstance(node, nodes.Getattr):
        attribute: Any = node.attr
    else:
        attribute = node.arg.value if isinstance(node.arg, nodes.Const) else None
    return (node.node.name, attribute) if isinstance(node.node, nodes.Name) and isinstance(attribute, str) else None


def _over_samples(everything: list[Any]) -> Iterator[SampleFilter]:
    for node in everything:
        if not isinstance(node, nodes.Filter):
            continue
        given = tuple(arg.value if isinstance(arg, nodes.Const) else None for arg in node.args)
        if node.name in NAMES:
            yield SampleFilter(node.node.name if isinstance(node.node, nodes.Name) else "", node.name, given)
        elif node.name == "map" and given and given[0] in NAMES:
            yield SampleFilter("", given[0], given[1:])


def _history(everything: list[Any]) -> Iterator[HistoryCall]:
    """Yield every use of ``history``, also the uses that are not a call with constant texts."""
    names = {id(node) for node in everything if isinstance(node, nodes.Name) and node.name == HISTORY}
    for node in everything:
        if isinstance(node, nodes.Call) and (step := _first_step(node.node)) and step[0] == HISTORY:
            names.discard(id(node.node.node))  # type: ignore[attr-defined]  # a step has a node
            texts = [item.value for item in node.args if isinstance(item, nodes.Const) and isinstance(item.value, str)]
            whole = len(texts) == len(node.args) and not (node.kwargs or node.dyn_args or node.dyn_kwargs)
            yield HistoryCall(step[1], tuple(texts) if whole else None)
    for node in everything:
        if isinstance(node, nodes.Getattr) and id(node.node) in names:
            names.discard(id(node.node))
            yield HistoryCall(node.attr, None)
    yield from (HistoryCall("", None) for _ in names)


_SAME_ELEMENTS = frozenset({"selectattr", "rejectattr", "select", "reject", "list", "sort", "unique", "reverse"})
"""Filters that return elements of their input list, unchanged."""
_FIRST_ARGUMENT = frozenset({"selectattr", "rejectattr", "groupby"})
"""Filters whose first argument is an attribute of the elements."""


def _elements(everything: list[Any]) -> Iterator[ElementAttribute]:
    for node in everything:
        attribute, source = _attribute_of(node)
        while isinstance(source, nodes.Filter) and source.name in _SAME_ELEMENTS:
            source = source.node
        if attribute and (step := _first_step(source)):
            yield ElementAttribute(*step, attribute.partition(".")[0])


def _attribute_of(node: Any) -> tuple[str, Any]:
    """Return the attribute that *node* reads from the elements of a list, and the node of this list.

    The attribute is empty if there is none.
    """
    if isinstance(node, nodes.Filter):
        named = [keyword.value for keyword in node.kwargs if keyword.key == "attribute"]
        given = [*(node.args[:1] if node.name in _FIRST_ARGUMENT else []), *named]
        texts = [item.value for item in given if isinstance(item, nodes.Const) and isinstance(item.value, str)]
        return (texts[0], node.node) if texts else ("", None)
    if isinstance(node, nodes.Getattr) and isinstance(node.node, nodes.Filter) and node.node.name in ("first", "last"):
        return node.attr, node.node.node
    if isinstance(node, nodes.Getattr) and isinstance(node.node, nodes.Getitem) and _is_number(node.node.arg):
        return node.attr, node.node.node
    return "", None


def _is_number(node: Any) -> bool:
    node = node.node if isinstance(node, nodes.Neg) else node
    return isinstance(node, nodes.Const) and type(node.value) is int
