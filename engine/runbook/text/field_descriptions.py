"""Read the description of a dataclass field from the docstring below it."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Mapping
from dataclasses import Field
from functools import cache
from itertools import pairwise
from typing import Any


def description(kind: type, field: Field[Any]) -> str:
    """Return the first paragraph of the docstring below *field* of the dataclass *kind* as one line; empty if there is
    none.
    """
    return _docstrings(kind).get(field.name, "")


@cache
def _docstrings(kind: type) -> Mapping[str, str]:
    """Return the first paragraph of every attribute docstring of *kind* and its base classes, by the name of the
    attribute.
    """
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        found |= _own_docstrings(each)
    return found


def _own_docstrings(kind: type) -> dict[str, str]:
    """Return the attribute docstrings of *kind* alone; none if its source is not available."""
    if kind.__module__ == "builtins":
        return {}
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    except (OSError, TypeError, SyntaxError):
        return {}
    found = {}
    for field, below in pairwise(tree.body if isinstance(tree, ast.ClassDef) else ()):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found[name] = _plain(text)
            case _:
                pass
    return found


def _plain(text: str) -> str:
    """Return the first paragraph of the docstring *text*, without its markup for names."""
    joined = " ".join(inspect.cleandoc(text).split("\n\n")[0].split())
    return re.sub(r"(?<!\w)\*(\w+)\*(?!\w)", r"\1", joined.replace("``", "`"))
