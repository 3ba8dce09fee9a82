"""ARCHITECTURE.md says what the code is."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from pathlib import Path

from tests.support.tables import every_row

ROOT = Path(__file__).parents[2]
ENGINE = ROOT / "engine" / "runbook"
TESTS = ROOT / "tests"
PYPROJECT = (ROOT / "pyproject.toml").read_text()
PAGE = (ROOT / "ARCHITECTURE.md").read_text()


def section(title: str) -> str:
    return re.split(r"(?m)^#+ ", PAGE.partition(f" {title}\n")[2])[0]


def packages_on_the_page(title: str) -> list[str]:
    return re.findall(r"^\| `(\w+)` \|", section(title), flags=re.MULTILINE)


def packages_in(folder: Path) -> set[str]:
    folders = {path.name for path in folder.iterdir() if path.is_dir() and any(path.glob("*.*"))}
    files = {path.stem for path in folder.glob("*.py")}
    return {name for name in folders | files if not name.startswith("_")}


@every_row(("title", "folder"), [("Layers", ENGINE), ("Library", ENGINE / "library")])
def test_every_package_is_on_the_page_once(title, folder):
    assert sorted(packages_on_the_page(title)) == sorted(packages_in(folder))


def test_every_part_of_execution_is_on_the_page_from_top_to_bottom():
    parts = re.findall(r"^\| `execution/(\w+)` \|", section("Layers"), flags=re.MULTILINE)
    layers = re.search(r'containers = \["runbook.execution"\].*?layers = \[(.*?)\]', PYPROJECT, flags=re.DOTALL)
    assert layers
    assert parts == re.findall(r"\w+", layers.group(1))


def test_packages_stand_on_the_page_from_top_to_bottom_as_the_layers_do():
    layers = re.search(r"layers = \[(.*?)\]", PYPROJECT, flags=re.DOTALL)
    assert layers
    level = {
        package: number
        for number, line in enumerate(re.findall(r'"(.*?)"', layers.group(1)))
        for package in re.findall(r"\w+", line)
    }
    assert set(level) == set(packages_on_the_page("Layers"))
    levels = [level[package] for package in packages_on_the_page("Layers")]
    assert levels == sorted(levels)


def test_every_file_that_the_path_of_a_step_names_is_there():
    named = re.findall(r"`([\w/]+(?:\.py|/))`", section("The path of a step"))
    assert len(named) > 10
    known = {str(path.relative_to(ENGINE)) for path in ENGINE.rglob("*.py")}
    for name in named:
        assert (ENGINE / name).is_dir() or any(f"/{path}".endswith(f"/{name}") for path in known), name


def test_the_glossary_has_at_most_thirty_terms():
    terms = re.findall(r"^\| ([a-z][\w ]*) \|", section("Glossary"), flags=re.MULTILINE)
    assert 10 < len(terms) - 1 <= 30
    assert terms[1:] == sorted(terms[1:])


@every_row("path", sorted(ENGINE.rglob("*.py")), ids=lambda it: str(it.relative_to(ENGINE)))
def test_every_file_says_in_one_sentence_what_it_is_for(path: Path):
    first = path.read_text().lstrip().removeprefix("#!/usr/bin/env python3\n").splitlines()[0:2]
    text = " ".join(first).strip()
    assert text.startswith('"""'), path


def imported_modules(path: Path) -> Iterator[str]:
    """Every module, or name of a module, that the file imports anywhere; a relative import begins with dots."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def modules_meant(path: Path, modules: Collection[str]) -> Iterator[str]:
    """Those of *modules* that the file imports; ``from package import module`` means the module."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield from (name for name in (inner if inner in modules else str(node.module),) if name in modules)


def test_no_modules_import_each_other_in_a_circle():
    """Wherever the import stands: within a function, and for the type checker alone, too. Mutant: an import upwards."""
    paths = {
        ".".join(("runbook", *path.relative_to(ENGINE).with_suffix("").parts)): path for path in ENGINE.rglob("*.py")
    }
    modules = {name.removesuffix(".__init__"): path for name, path in paths.items()}
    edges = {name: set(modules_meant(path, modules)) - {name} for name, path in modules.items()}
    while leaves := {name for name, found in edges.items() if not found & edges.keys()}:
        edges = {name: found for name, found in edges.items() if name not in leaves}
    assert {name: found & edges.keys() for name, found in edges.items()} == {}


def test_no_function_takes_the_options_of_a_command_as_a_mapping():
    """They are values with types (``commands/options.py``). Mutant: ``options: Mapping[str, Any]``."""
    wrong = [
        f"{path.name}: {node.name}"
        for path in (ENGINE / "commands").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef)
        for arg in (*node.args.args, *node.args.kwonlyargs)
        if "options" in arg.arg and re.match(r"(dict|Mapping|Options\b)", ast.unparse(arg.annotation or ast.Name("")))
    ]
    assert set(wrong) <= {"document.py: _of_options", "__init__.py: __init__"}, (
        "those of a plan's file, and of a caller"
    )


TEST_FILES = sorted(TESTS.rglob("*.py"))
ROOTLESS = {path.stem for path in TESTS.iterdir()} | {path.stem for path in TEST_FILES if path.parent != TESTS}
"""What stands below tests/, by the short names that only a second import root would make importable."""


def test_helpers_of_tests_are_imported_from_tests_and_are_no_tests_themselves():
    """Mutants: ``from sshd import``, ``from .x import``, ``from tests.lab.test_lab import``, ``from tests.e2e.conftest import``."""
    wrong = [
        f"{path.relative_to(ROOT)}: {module}"
        for path in TEST_FILES
        for module in imported_modules(path)
        if _is_wrong(module)
    ]
    assert not wrong, (
        "write `from tests... import`; what tests share stands in a module with a plain name; a fixture in conftest.py needs no import"
    )


def _is_wrong(module: str) -> bool:
    root, *rest = module.split(".")
    if root != "tests":
        return not root or root in ROOTLESS
    return any(part == "conftest" or part.startswith("test_") for part in rest)


def test_no_test_changes_where_modules_are_searched_for():
    changes = re.compile(r"sys\.path(\.\w+\(|\[.*\] *=| *\+?= )")
    assert [path.name for path in TEST_FILES if changes.search(path.read_text())] == []


def test_every_directory_of_tests_is_a_package():
    assert [path for path in {path.parent for path in TEST_FILES} if not (path / "__init__.py").exists()] == []


def test_no_function_of_the_engine_takes_a_flag_for_a_dry_run():
    for path in ENGINE.rglob("*.py"):
        assert "dry_run" not in path.read_text(), path


PLACEHOLDERS = {"uptime.py", "test_uptime.py", "NAME.py", "NAME.sh", "test_NAME.py"}
"""Files that a reader is asked to make."""


def test_the_pages_name_files_that_exist() -> None:
    pages = [ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
    known = {path.name for path in (*ROOT.glob("engine/**/*"), *ROOT.glob("tests/**/*"))}
    named = {
        (page.name, name) for page in pages for name in re.findall(r"`(?:[\w.]+/)*(\w+\.(?:py|sh))`", page.read_text())
    }
    assert len(named) > 20
    assert {(page, name) for page, name in named if name not in known | PLACEHOLDERS} == set()


def test_every_action_is_in_the_folder_of_its_subject():
    """A module beside the folders would not be found, and nobody would hear of it."""
    assert [path.name for path in (ENGINE / "library").glob("*.py")] == ["__init__.py"]


def test_actions_and_facts_of_the_library_know_no_action():
    """Mutants: an action that imports another one; a parser that imports an action."""
    wrong = []
    for path in (ENGINE / "library").rglob("*.py"):
        subject, *rest = path.relative_to(ENGINE / "library").parts
        own = f"runbook.library.{subject}.{rest[0].removesuffix('.py')}" if rest else ""
        for module in imported_modules(path):
            parts = module.split(".")
            is_action = parts[:2] == ["runbook", "library"] and len(parts) > 3 and parts[3] != "facts"
            if is_action and (rest[0] == "facts" or ".".join(parts[:4]) != own):
                wrong.append(f"{path}: {module}")
    assert wrong == []


def test_a_sleep_in_a_test_says_why_time_has_to_pass():
    """ruff refuses a plain `time.sleep` (TID251); here, that it was allowed without a reason."""
    bare = re.compile(r"# noqa: TID251\s*$", flags=re.MULTILINE)
    assert bare.search("time.sleep(1)  # noqa: TID251\n")
    assert [path.name for path in TEST_FILES if bare.search(path.read_text())] == []
