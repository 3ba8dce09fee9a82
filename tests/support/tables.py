"""One test for all the rows of a table: each row is tried, and every row that fails is told with its own words."""

from __future__ import annotations

import functools
import inspect
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

Test = Callable[..., None]
FAILURES = (Exception, pytest.fail.Exception, pytest.skip.Exception, pytest.xfail.Exception)
"""A row that leaves itself out has failed too: nobody would hear of it."""
PARAMETERS = type(pytest.param())
OUT_OF_TIME = "from pytest-timeout"
SHOWN = 160
"""Characters of a value that are shown: the number and the name of the row say the rest."""


@dataclass(frozen=True)
class Row:
    number: int
    name: str
    """What the table calls it, as an `id` of pytest."""
    values: dict[str, Any]

    def __str__(self) -> str:
        name = f" [{self.name}]" if self.name else ""
        return f"row {self.number}{name} " + ", ".join(f"{key}={_short(it)}" for key, it in self.values.items())


def every_row(
    names: str | Sequence[str], rows: Iterable[Any], *, ids: Callable[[Any], Any] | Iterable[Any] | None = None
) -> Callable[[Test], Test]:
    """Run a test on each row and tell all that fail; written as `pytest.mark.parametrize` is, but one test, not many.

    For tests of data alone: what is not in the table (fixtures) is made once, and all rows have it. Only `tmp_path` is
    an own directory for each row. A test that changes what it is given, skips, or needs marks for single rows takes
    `parametrize`.

    Raises ValueError for a table that is empty, has marks, or has a row with another number of values than names.
    """
    table = list(_table(names, list(rows), ids))
    if not table:
        raise ValueError(f"the table of {names} has no rows: such a test would assert nothing")

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def on_every_row(*args: Any, **given: Any) -> None:
            __tracebackhide__ = True
            failed: list[tuple[Row, BaseException]] = []
            for row in table:
                try:
                    test(*args, **_own_directory(given, row), **row.values)
                except FAILURES as error:
                    failed.append((row, error))
                    if OUT_OF_TIME in str(error):
                        break  # its clock runs once: the next row could take for ever
            if failed:
                told = "\n".join(_told(row, error, test) for row, error in failed)
                raise AssertionError(f"{len(failed)} of {len(table)} rows failed:\n{told}") from failed[0][1]

        on_every_row.__signature__ = _without(table[0].values, test)  # type: ignore[attr-defined]
        return on_every_row

    return decorate


def _table(names: str | Sequence[str], rows: list[Any], ids: Any) -> Iterator[Row]:
    words = [name.strip() for name in names.split(",") if name.strip()] if isinstance(names, str) else list(names)
    alone = isinstance(names, str) and len(words) == 1
    named = ids if ids is None or callable(ids) else list(ids)
    if isinstance(named, list) and len(named) != len(rows):
        raise ValueError(f"the table of {names} has {len(rows)} rows and {len(named)} ids")
    for number, row in enumerate(rows):
        it = row if isinstance(row, PARAMETERS) else pytest.param(*((row,) if alone else row))
        if it.marks:
            raise ValueError(f"row {number} of {names} has marks, which belong to a whole test: take parametrize")
        if len(it.values) != len(words):
            raise ValueError(f"row {number} of {names} has {len(it.values)} values for {len(words)} names")
        name = it.id or _name(named, number, it.values)
        yield Row(number, str(name), dict(zip(words, it.values, strict=True)))


def _name(ids: Any, number: int, values: Iterable[Any]) -> str:
    if callable(ids):
        return "-".join(str(ids(value)) for value in values)
    return "" if ids is None else str(ids[number])


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def _own_directory(given: dict[str, Any], row: Row) -> dict[str, Any]:
    if "tmp_path" not in given:
        return given
    own = given["tmp_path"] / f"row{row.number}"
    own.mkdir(mode=0o700)
    return {**given, "tmp_path": own}


def _without(names: Iterable[str], test: Test) -> inspect.Signature:
    signature = inspect.signature(test)
    if unknown := [name for name in names if name not in signature.parameters]:
        raise ValueError(f"{test.__name__} does not take {', '.join(unknown)}, which its table has")
    return signature.replace(parameters=[it for name, it in signature.parameters.items() if name not in set(names)])


def _told(row: Row, error: BaseException, test: Test) -> str:
    file = inspect.unwrap(test).__code__.co_filename
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    place = f"{Path(file).name}:{lines[-1]}: " if lines else ""
    kind = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
    said = (str(error) or "assert").replace("\n", "\n    ")
    return f"- {row}\n    {place}{kind}{said}"
