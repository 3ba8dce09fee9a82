"""Keep ``unittest.mock`` from being imported with Invoke, which needs it for the tests of its users only."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType


@contextmanager
def without_mock() -> Iterator[None]:
    """Give what is imported within this context an empty ``unittest.mock``, unless the real one is there already.

    The real one imports asyncio: a tenth of the time in which a run starts.
    """
    name = "unittest.mock"
    if name in sys.modules:
        yield
        return
    stand_in = ModuleType(name)
    stand_in.Mock = object  # type: ignore[attr-defined]
    sys.modules[name] = stand_in
    try:
        yield
    finally:
        del sys.modules[name]
