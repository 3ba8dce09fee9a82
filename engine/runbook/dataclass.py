"""Frozen dataclasses whose methods are shared or made at their first use, so that the program starts sooner.

The standard library compiles six methods for each class, of which there are 240, when the class is made.
"""

from __future__ import annotations

import dataclasses
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(kind: Any = None, /, **options: bool) -> Any:
        """Return the class *kind* as ``dataclasses.dataclass`` makes it.

        Only a plain frozen class is made here; the standard library makes any other, and a subclass of a dataclass.
        A field without an argument (``init=False``) has no default here: ``__post_init__`` sets it.
        """
        if kind is None:
            return lambda given: dataclass(given, **options)
        is_plain = options.get("frozen") and options.keys() <= {"frozen", "slots", "kw_only"}
        if not is_plain or hasattr(kind, "__dataclass_fields__") or not _METHODS.isdisjoint(vars(kind)):
            return dataclasses.dataclass(kind, **options)
        kind.__doc__ = kind.__doc__ or kind.__name__  # the standard library would make one from the signature
        return _with_methods(dataclasses.dataclass(kind, **_NO_METHODS, **{**options, "frozen": False}))


_NO_METHODS = {"init": False, "repr": False, "eq": False}
_METHODS = frozenset(
    ["__init__", "__repr__", "__eq__", "__hash__", "__setattr__", "__delattr__", "__getstate__", "__setstate__"]
)
_set = object.__setattr__


def _with_methods(made: Any) -> Any:
    """Give *made*, a dataclass without methods, those of a frozen one."""
    fields = dataclasses.fields(made)
    in_repr = [field.name for field in fields if field.repr]
    compared = [field.name for field in fields if field.compare]
    key = attrgetter("__class__", *compared)

    def init(self: Any, *args: Any, **given: Any) -> None:
        made.__init__ = _init(made)
        made.__init__(self, *args, **given)

    @recursive_repr()
    def shown(self: Any) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in in_repr)})"

    def equal(self: Any, other: Any) -> bool:
        return key(self) == key(other) if other.__class__ is self.__class__ else NotImplemented

    def hashed(self: Any) -> int:
        return hash(key(self))

    def state(self: Any) -> list[Any]:
        return [getattr(self, field.name) for field in fields]

    def set_state(self: Any, values: list[Any]) -> None:
        for field, value in zip(fields, values, strict=True):
            _set(self, field.name, value)

    made.__init__, made.__repr__, made.__eq__, made.__hash__ = init, shown, equal, hashed
    made.__setattr__, made.__delattr__ = _setattr, _delattr
    if "__slots__" in vars(made):
        made.__getstate__, made.__setstate__ = state, set_state
    made.__dataclass_params__.frozen = made.__dataclass_params__.eq = True  # for subclasses
    return made


def _setattr(self: Any, name: str, value: Any) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _delattr(self: Any, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _init(made: Any) -> Any:
    """Return the method ``__init__`` of the dataclass *made*."""
    known: dict[str, Any] = {"_set": _set, "_missing": object()}
    positional, by_name, body = list[str](), list[str](), list[str]()
    for field in dataclasses.fields(made):
        name, argument, value = field.name, field.name, field.name
        if field.default is not dataclasses.MISSING:
            known[f"_default_{name}"] = field.default
            argument = f"{name}=_default_{name}"
        elif field.default_factory is not dataclasses.MISSING:
            known[f"_make_{name}"] = field.default_factory
            argument, value = f"{name}=_missing", f"_make_{name}() if {name} is _missing else {name}"
        if field.init:
            (by_name if field.kw_only else positional).append(argument)
            body.append(f"    _set(self, {name!r}, {value})")
    body.append("    self.__post_init__()" if hasattr(made, "__post_init__") else "    pass")
    arguments = ", ".join(["self", *positional, *(["*", *by_name] if by_name else [])])
    exec("\n".join([f"def __init__({arguments}):", *body]), known)  # noqa: S102  # as the standard library does
    known["__init__"].__qualname__ = f"{made.__qualname__}.__init__"
    return known["__init__"]
