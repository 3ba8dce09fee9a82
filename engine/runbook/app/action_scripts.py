"""The sh scripts that an action sends to hosts, found by what its code refers to."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from runbook.protocols import Action


def scripts_text(action: Action) -> str:
    """Every script that *action* can send, each under the name of its file, with its comments."""
    files = scripts_of(action.Args.__module__)
    if not files:
        return f"{action.name} sends no script; a plan shows the single commands that it sends\n"
    return _texts(files)


def every_script_text() -> str:
    """Every script that can ever run on a host: what runs in the throw-away hosts of the lab is not among them."""
    return _texts([file for file in sorted(ENGINE.rglob("*.sh")) if file.relative_to(ENGINE).parts[0] != "lab"])


ENGINE = Path(__file__).parents[1]


def _texts(files: Sequence[Path]) -> str:
    texts = [f"# {file.relative_to(ENGINE.parent)}\n{file.read_text(encoding='utf-8').rstrip()}\n" for file in files]
    return "\n".join(texts)


def scripts_of(module: str) -> list[Path]:
    """The files that *module* loads with ``script``, and those of every definition elsewhere that it refers to."""
    waiting = [(module, name) for name in _definitions(module)[0]]
    seen, found = set(waiting), dict[Path, None]()
    while waiting:
        where, name = waiting.pop(0)
        defined, imported, folder = _definitions(where)
        for node in (node for part in defined.get(name, ()) for node in ast.walk(part)):
            match node:
                case ast.Call(func=ast.Name("script"), args=[_, ast.Constant(str(file))]):
                    found[folder / f"{file}.sh"] = None
                case ast.Name(used) | ast.Attribute(attr=used):
                    next_one = imported.get(used, (where, used))
                    if next_one not in seen:
                        seen.add(next_one)
                        waiting.append(next_one)
    return list(found)


@cache
def _definitions(module: str) -> tuple[dict[str, list[ast.stmt]], dict[str, tuple[str, str]], Path]:
    """What *module* defines at its top level, what it imports from us (module, name), and its folder."""
    spec = find_spec(module) if module.startswith("runbook.") else None
    if spec is None or spec.origin is None:
        return {}, {}, Path()
    path = Path(spec.origin)
    defined: dict[str, list[ast.stmt]] = {}
    imported: dict[str, tuple[str, str]] = {}
    for statement in ast.parse(path.read_text(encoding="utf-8")).body:
        match statement:
            case ast.ImportFrom(module=str(source), names=names):
                imported |= {alias.asname or alias.name: (source, alias.name) for alias in names}
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                defined.setdefault(name, []).append(statement)
            case ast.Assign(targets=[ast.Name(name)]) | ast.AnnAssign(target=ast.Name(name)):
                defined.setdefault(name, []).append(statement)
    return defined, imported, path.parent
