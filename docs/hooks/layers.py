"""Draw the layers of the package and their imports, from the imports themselves.

``python docs/hooks/layers.py`` prints the picture as SVG, with ``--text`` as a table.  The order of the layers is the
one that import-linter holds (pyproject.toml).
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Mapping
from functools import cache
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[2]
Edges = Mapping[tuple[str, str], int]
"""Importing package and imported package, to the number of modules that import."""

WIDTH, ROW, BOX, MARGIN = 860, 78, 34, 20


def layers() -> list[list[str]]:
    """The packages of each layer, top layer first, as import-linter's contract has them; the rest at the end."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    contract = next(it for it in contracts if it["type"] == "layers")
    rows = [[part.strip(" ()") for part in re.split(r"[|:]", row)] for row in contract["layers"]]
    rows = [[part.removeprefix("runbook.") for part in row] for row in rows]
    known = {part for row in rows for part in row}
    others = sorted(packages() - known)
    return [*rows, *([others] if others else [])]


@cache
def packages() -> set[str]:
    """The packages and modules right below ``runbook`` that hold Python code."""
    names = {path.relative_to(ROOT / "engine" / "runbook").parts[0].removesuffix(".py") for path in sources()}
    return {name for name in names if not name.startswith("_")}


def sources() -> list[Path]:
    """Every Python file of the package."""
    return sorted((ROOT / "engine" / "runbook").rglob("*.py"))


@cache
def edges() -> Edges:
    """Who imports whom, with the number of modules that do."""
    known = packages()
    found: dict[tuple[str, str], int] = {}
    for path in sources():
        own = path.relative_to(ROOT / "engine" / "runbook").parts[0].removesuffix(".py")
        if own not in known:
            continue
        for other in {name for name in _imported(path) if name in known and name != own}:
            found[own, other] = found.get((own, other), 0) + 1
    return found


def _imported(path: Path) -> set[str]:
    """The packages of ``runbook`` that the file *path* imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        found |= {name.split(".")[1] for name in names if name.startswith("runbook.")}
    return found


def needed(all_edges: Edges) -> set[tuple[str, str]]:
    """The edges that follow from no others: those that are drawn strongly."""
    below: dict[str, set[str]] = {}
    for upper, lower in all_edges:
        below.setdefault(upper, set()).add(lower)

    def reaches(start: str, end: str, seen: set[str]) -> bool:
        for following in below.get(start, set()) - seen:
            seen.add(following)
            if following == end or reaches(following, end, seen):
                return True
        return False

    return {
        (upper, lower)
        for upper, lower in all_edges
        if not any(reaches(other, lower, {upper}) for other in below[upper] - {lower})
    }


def text() -> str:
    """A Markdown table: each package, its layer, and what it imports."""
    all_edges, rows = edges(), layers()
    lines = ["| layer | package | imports (number of its modules that do) |", "|---|---|---|"]
    order = [name for row in rows for name in row]
    for number, row in enumerate(rows, 1):
        for name in row:
            lower = [other for other in order if (name, other) in all_edges]
            words = ", ".join(f"`{other}` ({all_edges[name, other]})" for other in lower) or "nothing"
            lines.append(f"| {number} | `{name}` | {words} |")
    return "\n".join(lines)


def width_of(name: str) -> int:
    """How wide the box of *name* is, in the picture's own units."""
    return max(80, 9 * len(name) + 24)


def wrapped(row: list[str]) -> list[list[str]]:
    """*row* in as many rows as it takes for its boxes to stand apart."""
    lines: list[list[str]] = [[]]
    for name in row:
        if lines[-1] and sum(width_of(other) + 16 for other in [*lines[-1], name]) > WIDTH:
            lines.append([])
        lines[-1].append(name)
    return lines


def svg() -> str:
    """The picture: a row for each layer, a box for each package, a line for each import."""
    rows, all_edges = [part for row in layers() for part in wrapped(row)], edges()
    strong = needed(all_edges)
    height = MARGIN * 2 + ROW * (len(rows) - 1) + BOX
    places, boxes = {}, []
    for number, row in enumerate(rows):
        step, top = WIDTH / len(row), MARGIN + number * ROW
        for index, name in enumerate(row):
            wide, middle = width_of(name), step * (index + 0.5)
            places[name] = (middle, top)
            boxes.append(
                f'<rect class="box" x="{middle - wide / 2:.0f}" y="{top}" width="{wide}" height="{BOX}" rx="5"/>'
                f'<text x="{middle:.0f}" y="{top + BOX / 2 + 5:.0f}">{escape(name)}</text>'
            )
    lines = []
    for upper, lower in sorted(all_edges, key=lambda edge: edge in strong):
        if upper not in places or lower not in places:
            continue
        (from_x, from_y), (to_x, to_y) = places[upper], places[lower]
        start, end = from_y + BOX, to_y
        bow = 0 if end - start < ROW else (90 if from_x >= WIDTH / 2 else -90) * min(3, (end - start) / ROW / 2)
        middle = (start + end) / 2
        kind = "strong" if (upper, lower) in strong else "weak"
        lines.append(
            f'<path class="{kind}" d="M{from_x:.0f} {start} C{from_x + bow:.0f} {middle:.0f} '
            f'{to_x + bow:.0f} {middle:.0f} {to_x:.0f} {end}"><title>{escape(upper)} imports {escape(lower)}: '
            f"{all_edges[upper, lower]} modules</title></path>"
        )
    style = (
        "text{font:14px monospace;text-anchor:middle;fill:currentColor}"
        ".box{fill:var(--md-code-bg-color,#f5f5f5);stroke:currentColor;stroke-width:1.2}"
        "path{fill:none;stroke:currentColor}.strong{stroke-width:1.4;opacity:.75}.weak{stroke-width:.8;opacity:.16}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-60 0 {WIDTH + 120} {height}" role="img" '
        f'style="max-width:100%;height:auto" aria-label="Layers of the engine and their imports">'
        f"<style>{style}</style>{''.join(lines)}{''.join(boxes)}</svg>"
    )


if __name__ == "__main__":
    sys.stdout.write((text() if "--text" in sys.argv else svg()) + "\n")
