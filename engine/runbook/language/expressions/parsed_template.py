"""The parts of a template's tree that matter: its names, its filters over samples, and whether it has
to be compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar, cast

from jinja2 import TemplateError, meta, nodes
from jinja2.visitor import NodeTransformer

from runbook.language.expressions.history import HISTORY
from runbook.language.expressions.sandbox import Environment
from runbook.language.expressions.series import NAMES
from runbook.values.playbook import Let

N = TypeVar("N", bound=nodes.Node)


@dataclass(frozen=True, slots=True)
class SampleFilter:
    """A filter over samples, as it stands in a text."""

    probe: str
    """The name before it; empty where that is not a name."""
    filter: str
    given: tuple[Any, ...]
    """The arguments; None stands for an argument that is not constant."""


@dataclass(frozen=True, slots=True)
class HistoryCall:
    """A use of ``history``, as it stands in a text."""

    method: str
    """Empty where the name stands alone."""
    given: tuple[str, ...] | None
    """The texts in the call; None: it is not called, or its arguments are not constant."""


@dataclass(frozen=True, slots=True)
class ElementAttribute:
    """An attribute of the elements of a probe's list: ``jobs.leftover | selectattr('seconds', 'gt', 60)``."""

    probe: str
    field: str
    """The field of the probe that is the list."""
    attribute: str


@dataclass(frozen=True, kw_only=True)
class ParsedTemplate:
    """The parts of a template's tree that matter."""

    names: frozenset[tuple[str, str]]
    mentioned: frozenset[str]
    """Every name in it, also those that it binds itself."""
    over_samples: tuple[SampleFilter, ...]
    plain: bool
    """It is so simple that nothing can be wrong with it."""
    path: tuple[str, ...]
    """The name and the attributes of a template that is nothing but ``{{ name.attribute }}``."""
    secrets: frozenset[str]
    """The secrets that it inserts: NAME of ``{{ secrets.NAME }}``, and host.NAME of ``{{ host.secrets.NAME }}``."""
    bends_secrets: bool
    """Whether it uses secrets for more than inserting them: the result could not be masked."""
    history: tuple[HistoryCall, ...]
    elements: tuple[ElementAttribute, ...]
    tree: nodes.Template
    environment: Environment

    @cached_property
    def compiled(self) -> Any:
        """Return the compiled template; None: it can be parsed but not compiled.  Compiling changes the tree."""
        try:
            return self.environment.from_string(self.tree)
        except (TemplateError, RecursionError, SyntaxError, ValueError):
            return None


class _NamedValues(NodeTransformer):
    """Puts the expressions of named values (``let``) in the place of their names.

    Each is a tree of its own, so that nothing beside a name takes its expression to pieces.
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
    """Return *tree* with the expressions of *let* in the place of their names; *parse* makes a template of each.

    A name that *tree* binds itself, as the variable of a loop, is its own.  Raises what *parse* raises.
    """
    bound = {node.name for node in tree.find_all(nodes.Name) if node.ctx != "load"}
    return cast(N, _NamedValues(let, bound, parse).visit(tree)) if let else tree


def read_tree(tree: nodes.Template, environment: Environment) -> ParsedTemplate:
    """Read *tree*, which *environment* parsed."""
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
        tree=tree,
        environment=environment,
    )


SECRETS = "secrets"
"""The name behind which secrets stand."""

HOST = "host"
OF_HOST = f"{HOST}."
"""The beginning of the names of secrets behind ``host.secrets``."""
HOST_SECRETS = f"{HOST}.{SECRETS}"
"""The name among the mentioned ones where such a secret is inserted."""


def _inserted_secrets(everything: list[Any]) -> list[str]:
    """The names in every ``{{ secrets.NAME }}`` and ``{{ host.secrets.NAME }}``, as often as they stand there."""
    printed = (node for output in everything if isinstance(output, nodes.Output) for node in output.nodes)
    return [name for node in printed if (name := _inserted(node))]


def _inserted(node: Any) -> str:
    """The secret that *node* is; empty: it is anything else."""
    step = _first_step(node)
    if step and step[0] == SECRETS:
        return step[1]
    if isinstance(node, nodes.Getattr) and _first_step(node.node) == (HOST, SECRETS):
        return f"{OF_HOST}{node.attr}"
    return ""


def _bends_secrets(everything: list[Any], inserted: list[str]) -> bool:
    """Whether secrets are used for more than inserting them.

    With secrets of a host, ``host`` as a whole counts, too.
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
    """See ``ParsedTemplate.path``; empty where the template is more than that."""
    match tree.body:
        case [nodes.Output(nodes=[node])]:
            attributes: list[str] = []
            while isinstance(node, nodes.Getattr):
                attributes.append(node.attr)
                node = node.node
            if isinstance(node, nodes.Name) and node.name not in environment.globals:
                return (node.name, *reversed(attributes))
    return ()


FEW = 40
"""Nodes of a template in which nothing can be nested too deep."""
PLAIN = (
    *(nodes.Output, nodes.TemplateData, nodes.Name, nodes.Const, nodes.Slice, nodes.CondExpr, nodes.List, nodes.Tuple),
    *(nodes.Compare, nodes.Operand, nodes.And, nodes.Or, nodes.Not, nodes.Keyword),
)
COMPUTED = (nodes.Add, nodes.Sub, nodes.Mul, nodes.Div)


def _is_plain(node: Any, environment: Environment) -> bool:
    """Whether *node* can be compiled at any place.

    That is so if its parts are known, Python itself need not check them, and compiling it computes no value.
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
    """Whether *node* is computed from the value of a name, so that nothing is computed before there is one."""
    while isinstance(node, nodes.Getattr | nodes.Getitem | nodes.Filter):
        node = node.node
    if isinstance(node, COMPUTED):
        return _is_of_name(node.left) or _is_of_name(node.right)
    return isinstance(node, nodes.Name)


def _within(node: Any) -> Iterator[Any]:
    """Every node below *node*, in the order of the text."""
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
    """Return name and attribute of ``name.attribute`` or ``name['attribute']``; None for other nodes."""
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
    """Every use of ``history``, those that are no call with texts, too."""
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
"""Filters that give elements of the list that they are given."""
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
    """Return the attribute that *node* takes from elements of a list, and the list.

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
