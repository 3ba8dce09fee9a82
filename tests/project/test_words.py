"""The code speaks the words of its glossary, and a docstring names only what there is."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
MODULES = sorted((ROOT / "engine" / "runbook").rglob("*.py"))

RETIRED = re.compile(
    r"\b(?:anew|leash|lent|told|whoever(?! (?:runs the|holds))|(?:a|the|first|second|last|every|one|two) looks?(?! like))\b",
    re.IGNORECASE,
)
"""Words of a private dialect, for which there are others: again, probe, said, who."""

EXAMPLES = {
    *(
        "Ethernet",
        "FIELD",
        "MI300X",
        "RESET_GPU",
        "RESTART_APP",
        "aaa",
        "allow_root",
        "job_123",
        "public_key",
        "stauts",
        "step_10",
    ),
    "rwsem_down_write_slowpath",
}
"""Names in docstrings that are not of this program."""

SCRIPT = re.compile(r"(?m)^\s*(?:if |case |for |while |done\b|fi$|esac\b)|\|\||&& ")
"""What makes a text one that a shell runs."""


def _constants(tree: ast.AST) -> Iterator[tuple[int, str, bool]]:
    """Every text in *tree*: its line, the text, and whether it is a docstring."""
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value, id(node) in docs


def _names(tree: ast.AST) -> Iterator[str]:
    """Every identifier in *tree*."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.arg(arg=name) | ast.Name(id=name):
                yield name
            case ast.Attribute(attr=name) | ast.keyword(arg=str(name)):
                yield name
            case ast.alias(name=name, asname=other):
                yield other or name.rpartition(".")[2]


def test_what_a_docstring_names_is_there():
    trees = {path: ast.parse(path.read_text()) for path in MODULES}
    texts = {path: list(_constants(tree)) for path, tree in trees.items()}
    modules = {part.removesuffix(".py") for path in MODULES for part in path.relative_to(ROOT).parts}
    known = {*dir(builtins), *EXAMPLES, *modules, *(name for tree in trees.values() for name in _names(tree))}
    others = [
        path.read_text()
        for path in (*(ROOT / "engine" / "runbook").rglob("*.sh"), *(ROOT / "playbooks").glob("*.yaml"))
    ]
    others += [text for found in texts.values() for _, text, is_doc in found if not is_doc]
    words = known.union(*(re.findall(r"\w+", text) for text in others))
    wrong = []
    for path, found in texts.items():
        for line, text, _ in (each for each in found if each[2]):
            named = [part for name in re.findall(r"``([A-Za-z_][\w.]*\w)(?:\(\))?``", text) for part in name.split(".")]
            raised = re.findall(r"Raises ((?:[A-Z]\w+)(?:(?:, and |, | and | or )[A-Z]\w+)*)", text)
            wrong += [f"{path}:{line}: ``{name}``" for name in named if name not in words]
            wrong += [
                f"{path}:{line}: Raises {name}"
                for several in raised
                for name in re.findall(r"[A-Z]\w+", several)
                if name not in known
            ]
    assert wrong == [], "\n".join(wrong)


QUESTION = re.compile(r"\s*(?:What|How|Why|Who|Whom|Whose|Which|That|Those)\b")


def test_a_docstring_begins_with_a_verb_or_a_noun():
    """A question word, or ``that``, makes a clause of what could be a noun (style of the project)."""
    wrong = [
        f"{path}:{line}: {text.strip()[:60]}"
        for path in MODULES
        for line, text, is_doc in _constants(ast.parse(path.read_text()))
        if is_doc and QUESTION.match(text)
    ]
    assert wrong == [], "\n".join(wrong)


def test_no_retired_word_comes_back():
    wrong = []
    for path in (*MODULES, *(ROOT / "engine" / "runbook").rglob("*.sh")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if found := RETIRED.search(line):
                wrong.append(f"{path}:{number}: {found[0]}")
    assert wrong == []


def test_no_script_of_more_than_three_lines_stands_in_python():
    wrong = [
        f"{path}:{line}"
        for path in MODULES
        for line, text, is_doc in _constants(ast.parse(path.read_text()))
        if not is_doc and len(text.strip().splitlines()) > 3 and SCRIPT.search(text)
    ]
    assert wrong == []


def test_loops_have_nouns():
    """Mutant: a comprehension over ``it``."""
    wrong = [
        f"{path}:{node.target.lineno}"
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.For | ast.comprehension)
        and isinstance(node.target, ast.Name)
        and node.target.id == "it"
    ]
    assert wrong == []
