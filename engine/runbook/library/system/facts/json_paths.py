"""Places within JSON, as people write them: ``peers.gpu-01.jobs``, ``data[0].id``, ``peers["a.b"]``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from runbook.codec import UNKNOWN
from runbook.values.types import Json, Unknown

_PART = re.compile(r"""\.?(?:\[(\d+)\]|\["([^"]*)"\]|\['([^']*)'\]|([^.\[\]"']+))""")


def keys_of(path: str) -> tuple[str, ...]:
    """The keys that *path* goes through, outermost first.  Raises ValueError with the words for it."""
    keys: list[str] = []
    at = 0
    while at < len(path):
        found = _PART.match(path, at)
        if not found or (found[0].startswith(".") and not keys):
            raise ValueError(f'{path!r} is not a path of keys: write a.b, a[0].b, or a["x.y"]')
        keys.append(next(group for group in found.groups() if group is not None))
        at = found.end()
    if not keys:
        raise ValueError("a path of keys is empty")
    return tuple(keys)


def value_at(value: Json, path: str) -> Json | Unknown:
    """Return the value at *path*; a key of digits also counts the items of a list.  Unknown where there is none."""
    gone: list[str] = []
    for key in keys_of(path):
        if (why := _why_unknown(value)) is not None:
            return Unknown(why=why)
        if isinstance(value, Mapping) and key in value:
            value = value[key]
        elif _is_list(value) and key.isdigit() and int(key) < len(value):  # type: ignore[arg-type] # a list has a length
            value = value[int(key)]  # type: ignore[index] # as above
        else:
            where = f" in {'.'.join(gone)}" if gone else ""
            return Unknown(why=f"there is no {key}{where}")
        gone.append(key)
    return value if (why := _why_unknown(value)) is None else Unknown(why=why)


def _why_unknown(value: Json) -> str | None:
    """Return the reason why *value* is unknown; None: it is known."""
    return str(value[UNKNOWN]) if isinstance(value, Mapping) and UNKNOWN in value else None


def _is_list(value: Json) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)
