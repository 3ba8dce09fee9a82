"""What the README, CONTRIBUTING.md and docs/ show is so: examples load and run, commands exist, links lead somewhere."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import yaml
from click import Group
from click.testing import CliRunner

from runbook import errors
from runbook.cli import cli
from runbook.plugins import discover
from runbook.reporting import reporters
from runbook.values.plan import Risk
from runbook.values.result import Status, Verdict
from tests.support.tables import every_row

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md"))]
GENERATED = {"architecture.md", "contributing.md", "changelog.md", "playbook-coverage.md", "actions/index.md"} | {
    f"actions/{name}.md" for name in discover()
}
"""Pages of the site that are made while it is built."""

named = every_row("page", PAGES, ids=lambda page: page.name)


def hook(name: str = "reference"):
    """A module that makes generated pages; these need no mkdocs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(DOCS / "hooks")  # as mkdocs imports them
        return import_module(name)


def blocks(page: Path, language: str) -> list[tuple[str, str]]:
    """The code blocks of *page* in one language, each with its title."""
    return re.findall(
        rf'^```{language}(?: title="([^"]*)")?\n(.*?)^```', page.read_text(), flags=re.DOTALL | re.MULTILINE
    )


def whole(page: Path) -> str:
    """The text of *page*, without code blocks and generated parts."""
    return re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


@pytest.mark.slow
def test_the_action_of_the_docs_runs_when_it_is_copied_into_place(tmp_path: Path):
    page = ROOT / "docs" / "writing-an-action.md"
    (action_path, action), (test_path, test) = (
        it for it in blocks(page, "python") if not it[0].startswith("runbook-racks")
    )
    ((book_path, book),) = (it for it in blocks(page, "yaml") if not it[0].startswith("runbook-racks"))
    for folder in ("engine", "playbooks"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in (
        "tests/__init__.py",
        "tests/support/probe_driver.py",
        "tests/support/waiting.py",
        "tests/actions/__init__.py",
    ):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, tmp_path / file)
    (tmp_path / test_path).write_text(test)
    (tmp_path / action_path).write_text(action)
    (tmp_path / book_path).write_text(book)
    (tmp_path / "hosts.yaml").write_text("hosts: {here: {transport: local}}\n")

    def runbook(*words: str, module: str = "runbook") -> str:
        command = (sys.executable, "-m", module, *words)
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path / "engine"), str(tmp_path), *sys.path])},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    tested = runbook("-q", "-p", "no:cacheprovider", "-p", "no:randomly", "-c", os.devnull, test_path, module="pytest")
    assert re.search(r"^9 passed", tested, flags=re.MULTILINE), tested
    assert "Seconds since the kernel was started." in runbook("actions", "uptime")
    assert "Used to probe." in runbook("actions", "uptime")
    assert runbook("check", "--strict", "just-booted").startswith("playbooks/just-booted.yaml: good")
    words = ("run", "just-booted", "--hosts", "here", "-i", "hosts.yaml", "--output", "json")
    (host,) = json.loads(runbook(*words))["hosts"]
    look, assertion = host["steps"]
    assert abs(look["state"]["seconds"] - float(Path("/proc/uptime").read_text().split()[0])) < 60
    assert (look["status"], assertion["status"]) == ("ok", "ok")
    assert re.fullmatch(r"up for \d+ s", assertion["why"])


def cells(line: str) -> list[str]:
    """The cells of a row of a table; `\\|` is a `|` within one."""
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def test_the_expressions_of_the_docs_give_what_they_say(tmp_path: Path):
    page = ROOT / "docs" / "expressions.md"
    ((_, book),) = blocks(page, "yaml")
    rows = [cells(line) for line in page.read_text().splitlines() if line.startswith("| `")]
    wanted = {}
    for expression, value in (row[:2] for row in rows if len(row) == 2):
        if re.fullmatch(r"`[^`]*`", expression) and (value == "unknown" or re.fullmatch(r"`[^`]*`", value)):
            wanted[expression.strip("`")] = value.strip("`")
    assert len(wanted) >= 17
    evidence = {f"e{number}": expression for number, expression in enumerate(wanted)}
    findings = f"findings:\n  - {{id: all, when: 'true', severity: info, evidence: {json.dumps(evidence)}}}\n"
    (tmp_path / "examples.yaml").write_text(book + findings)
    (tmp_path / "hosts.yaml").write_text("hosts: {here: {transport: local}}\n")
    words = ("run", "examples.yaml", "--hosts", "here", "-i", "hosts.yaml", "--output", "json")
    done = subprocess.run((sys.executable, "-m", "runbook", *words), cwd=tmp_path, capture_output=True, text=True)
    (host,) = json.loads(done.stdout)["hosts"]
    seen = host["findings"][0]["evidence"]
    for number, (expression, value) in enumerate(wanted.items()):
        given = seen[f"e{number}"]
        if value == "unknown":
            assert "unknown" in json.dumps(given), (expression, given)
        else:
            assert given == json.loads(value), (expression, given)


def test_the_samples_of_the_docs_are_good(tmp_path: Path):
    (looks,) = [text for _, text in blocks(DOCS / "language.md", "yaml") if "samples:" in text]
    text = (DOCS / "expressions.md").read_text()
    asked = [
        row.replace(r"\|", "|") for row in re.findall(r"^\| `(\w+ \\\| \w+\('.*?\))` \|", text, flags=re.MULTILINE)
    ]
    asked = [row for row in asked if row.startswith(("gpus", "memory"))]
    assert len(asked) == 3
    findings = [f'  - {{id: f{number}, when: "{when}", severity: info}}\n' for number, when in enumerate(asked)]
    (tmp_path / "toy.yaml").write_text(f"name: toy\n{looks}findings:\n{''.join(findings)}")
    done = CliRunner().invoke(cli, ["check", str(tmp_path / "toy.yaml")])
    assert "toy.yaml: good (2 steps, 3 findings" in done.output, (done.output, done.exception)


# ---- how it reads ---------------------------------------------------------------------------------------------------

WIDEST_LINE = 160
LONGEST_PARAGRAPH = 60
"""Words; a list item is a paragraph."""

LONGEST_CHANGES = 60

prose = every_row("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=lambda page: page.name)

LIST_ITEM = re.compile(r"\s*(?:[-*]|\d+\.) ")


def paragraphs(text: str) -> list[str]:
    """Consecutive lines of prose outside code blocks and tables, each joined; every list item counts by itself."""
    found: list[list[str]] = []
    begins, in_code = True, False
    for line in text.splitlines():
        fence = line.lstrip().startswith("```")
        in_code ^= fence
        if fence or in_code or not line.strip() or line.lstrip().startswith(("|", "#", "<!--")):
            begins = True
            continue
        if begins or LIST_ITEM.match(line):
            found.append([])
        found[-1].append(line.strip())
        begins = False
    return [" ".join(lines) for lines in found]


def test_paragraphs_end_where_a_reader_pauses():
    """Mutants: code, a table or a heading that counts as prose; list items that count as one paragraph."""
    text = "# A\na b\nc\n\nd\n```\ncode\n```\n- e\n  f\n- g\n    1. h\n| t |\n<!-- made -->\ni"
    assert paragraphs(text) == ["a b c", "d", "- e f", "- g", "1. h", "i"]


@prose
def test_no_line_is_too_wide(page: Path):
    """Mutant: a line of 161 characters on any page."""
    assert [line for line in page.read_text().splitlines() if len(line) > WIDEST_LINE] == []


@prose
def test_no_paragraph_is_too_long(page: Path):
    """Mutants: a paragraph of 61 words; two list items joined to one of 61 words."""
    assert [text for text in paragraphs(page.read_text()) if len(text.split()) > LONGEST_PARAGRAPH] == []


def test_the_list_of_changes_is_short():
    """Mutants: a 61st line; a 41st feature."""
    lines = (ROOT / "CHANGELOG.md").read_text().splitlines()
    assert len(lines) <= LONGEST_CHANGES
    assert len([line for line in lines if line.startswith("- ")]) <= 40


def test_nested_lists_are_indented_as_the_site_wants_it():
    """Python-Markdown nests by four columns, and takes less for an item of the outer list.  Mutant: two columns."""
    pages = [*DOCS.glob("*.md"), ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
    wrong = [(page.name, line) for page in pages for line in whole(page).splitlines() if re.match(r" {1,3}[-*] ", line)]
    assert wrong == []


# ---- YAML ----------------------------------------------------------------------------------------------------------


def kind_of(text: str) -> str:
    """What a YAML example is: a playbook, a part of one, an inventory, or a few lines of a step."""
    tree = yaml.safe_load(text)
    if not isinstance(tree, dict):
        return "lines"
    if "name" in tree:
        return "playbook"
    if isinstance(tree.get("hosts"), dict):
        return "inventory"
    return "part" if tree.keys() & {"inputs", "diagnose", "findings", "remediate", "verify", "limits"} else "lines"


EXAMPLES = [
    pytest.param(page, title, text, id=f"{page.stem}-{number}")
    for page in PAGES
    for number, (title, text) in enumerate(blocks(page, "yaml"))
]


@every_row(("page", "title", "text"), EXAMPLES)
def test_every_yaml_example_is_good(page: Path, title: str, text: str, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kind = kind_of(text)
    if kind == "inventory":
        Path("hosts.yaml").write_text(text)
        done = CliRunner().invoke(cli, ["hosts", "all", "-i", "hosts.yaml"])
        assert re.search(r"^\d+ hosts? taken: ", done.output, flags=re.MULTILINE), (done.output, done.exception)
    elif kind in ("playbook", "part"):
        name = yaml.safe_load(text).get("name") or "part"
        book = text if kind == "playbook" else f"name: part\n{text}"
        if "uptime" in text or "rack_power" in text:
            return  # the action of that page is not installed: the test of that page runs it
        Path(f"{name}.yaml").write_text(book)
        done = CliRunner().invoke(cli, ["check", f"{name}.yaml"])
        assert f"{name}.yaml: good (" in done.output, (done.output, done.exception)
        if title.startswith("playbooks/"):
            assert title == f"playbooks/{name}.yaml"
            assert "warning" not in done.output or name == "examples", done.output
    else:
        assert title == "", "an example with a title is a whole file"


# ---- commands, options, exit codes ---------------------------------------------------------------------------------


def commands_in(text: str) -> list[str]:
    """Each line that shows a runbook command, and each in `code`."""
    found = re.findall(r"^(?:\$ )?(runbook (?!:).*?)(?:\s+#.*)?$", text, flags=re.MULTILINE)
    return [line for line in [*found, *re.findall(r"`(runbook [^`]*)`", text)] if not re.match(r"runbook [A-Z]", line)]


@named
def test_every_command_and_option_that_a_page_names_exists(page: Path):
    for line in commands_in(page.read_text()):
        words = re.split(r" [|<>] | -- ", line)[0].split()
        if words[1] == "--version":
            continue
        assert words[1] in cli.commands, line
        command = cli.commands[words[1]]
        if isinstance(command, Group) and len(words) > 2 and not words[2].startswith("-"):
            assert words[2] in command.commands, line
            command = command.commands[words[2]]
        known = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if re.match(r"-{1,2}[a-zA-Z]", word)} <= known | {"-v"}, line


def options() -> set[str]:
    """Every option of every command."""
    every = [*cli.commands.values()]
    every += [inner for command in every if isinstance(command, Group) for inner in command.commands.values()]
    parameters = [parameter for command in [cli, *every] for parameter in command.params]
    return {option for each in parameters for option in (*each.opts, *each.secondary_opts)}


@named
def test_every_option_that_a_page_names_by_itself_exists(page: Path):
    foreign = {"--check", "--limit", "--extra-vars", "--gpu-reset", "--help", "--rm", "--api-key"}
    mine = re.findall(r"`(--[a-z-]+)[^`]*`", whole(page))
    assert set(mine) - foreign <= options()


def test_the_exit_codes_of_the_docs_are_those_of_the_program():
    told = {int(code) for code in re.findall(r"^\| (\d+) \|", (DOCS / "output.md").read_text(), flags=re.MULTILINE)}
    assert told == {0, 1, 2, 3, 4, 5, 6, 130}
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    assert {kind.exit_code for kind in kinds if issubclass(kind, errors.RunbookError)} <= told


@every_row(("page", "values"), [("getting-started.md", Verdict), ("output.md", Status)])
def test_every_verdict_and_status_is_told(page: str, values):
    text = (DOCS / page).read_text()
    assert [value.value for value in values if f"`{value.value}`" not in text] == []


@named
def test_make_has_the_targets_that_a_page_names(page: Path):
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    assert set(re.findall(r"(?:^|`|\()make ([a-z][\w-]*)", page.read_text(), flags=re.MULTILINE)) <= targets


def test_the_document_of_the_docs_has_the_keys_of_a_real_one(tmp_path: Path):
    ((_, text),) = blocks(DOCS / "output.md", "json")
    shown = json.loads(text)
    (tmp_path / "toy.yaml").write_text("name: toy\ndiagnose: [{id: a, command: {argv: [echo, x]}}]\n")
    (tmp_path / "hosts.yaml").write_text("hosts: {here: {transport: local}}\n")
    words = ("run", "toy.yaml", "--hosts", "here", "-i", "hosts.yaml", "--output", "json")
    done = subprocess.run((sys.executable, "-m", "runbook", *words), cwd=tmp_path, capture_output=True, text=True)
    real = json.loads(done.stdout)
    assert shown.keys() == real.keys() - {"scripts"}
    (host,), (real_host,) = shown["hosts"], real["hosts"]
    assert host.keys() == real_host.keys()
    assert host["steps"][0].keys() == real_host["steps"][0].keys()
    assert host["steps"][0]["commands"][0].keys() <= real_host["steps"][0]["commands"][0].keys()


def test_every_output_and_ending_is_told():
    """Mutants: docs/output.md without a format; options.py whose help names one less."""
    page, asked = (DOCS / "output.md").read_text(), {name: help_of("run", name) for name in ("--output", "--report")}
    for name in reporters.names():
        assert f"`{name}`" in page
        assert name in asked["--output"]
        endings = import_module(f"runbook.reporting.reporters.{name}").ENDINGS
        assert [it for it in endings if f"`.{it}`" not in page] == []
        assert f".{endings[0]}" in asked["--report"]


def help_of(command: str, option: str) -> str:
    """The help text of an option."""
    parameters = cli.commands[command].params
    return next(it.help for it in parameters if option in it.opts)


# ---- links, navigation ---------------------------------------------------------------------------------------------


def anchors(page: Path) -> set[str]:
    """The anchors of the headings of *page*, as mkdocs and code hosts make them."""
    titles = re.findall(r"^#+ (.+)$", whole(page), flags=re.MULTILINE)
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", title.lower())).strip("-") for title in titles}


@named
def test_every_link_leads_somewhere(page: Path):
    for target in re.findall(r"\]\(([^)\s]+)\)", whole(page)):
        if re.match(r"https?:", target):
            continue
        name, _, anchor = target.partition("#")
        there = (page.parent / name).resolve() if name else page
        if page.parent == DOCS and name in GENERATED:
            continue
        assert there.exists(), target
        if anchor and there.suffix == ".md" and "<!-- generated" not in there.read_text():
            assert anchor in anchors(there), target


def test_every_page_is_in_the_navigation_once():
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    pages = [page for section in nav for pages in section.values() for page in pages]
    assert len(pages) == len(set(pages))
    assert set(pages) == {page.name for page in DOCS.glob("*.md")} | {
        name for name in GENERATED if not name.startswith("actions/") or name == "actions/index.md"
    }


# ---- what is generated ---------------------------------------------------------------------------------------------


@every_row("name", sorted(discover()))
def test_the_page_of_an_action_names_all_that_it_takes_and_gives(name: str):
    action = discover()[name]
    page = hook().action_page(action)
    for kind in (action.Args, action.State):
        known = vars(kind)["__dataclass_fields__"].values()
        public = [it.name for it in known if not {"private", "content_of"} & it.metadata.keys()]
        assert [name for name in public if f"| `{name}` |" not in page] == []
    rows = [line for line in page.splitlines() if line.startswith("|")]
    assert [row for row in rows if len(cells(row)) not in (2, 3, 4)] == []
    assert ("risk `" in page) == bool(action.decide)


def test_the_risk_on_the_page_is_the_risk_of_the_plan():
    pages = {name: hook().action_page(discover()[name]) for name in ("pkill", "gpu_reset", "remove", "file")}
    told = {name: re.search(r"risk (.*)", page)[1] for name, page in pages.items()}
    assert told == {
        "pkill": f"`{Risk.KILLS_PROCESSES}`",
        "gpu_reset": f"`{Risk.RESETS_HARDWARE}`",
        "remove": f"`{Risk.DELETES_DATA}`",
        "file": f"`{Risk.EDITS_FILES}`",
    }


def test_code_in_a_table_has_its_bars_without_backslashes():
    html = r"<td><code>a \| b</code></td><p><code>c \| d</code></p>"
    assert hook().unescaped(html) == r"<td><code>a | b</code></td><p><code>c \| d</code></p>"


@every_row("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.name)
def test_every_generated_part_is_made(page: Path):
    filled = hook().filled(page.read_text())
    assert "<!-- generated" not in filled
    for line in filled.splitlines():
        if line.startswith("|"):
            assert line.endswith("|"), line


def test_the_keys_of_the_reference_are_those_of_the_schema():
    page = (DOCS / "language.md").read_text()
    words = CliRunner().invoke(cli, ["schema", "--keys"]).output
    keys = re.findall(r"^  ([a-z_]+) {2,}", words, flags=re.MULTILINE)
    assert len(keys) > 40
    assert [key for key in keys if not re.search(rf"^- `{key}`[ :]", page, flags=re.MULTILINE)] == []


@every_row("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.name)
def test_the_lists_of_keys_are_those_of_the_language(page: Path):
    """Mutants: another word in a list of docs/language.md; a key more in keys.py; ``refreshed`` that leaves its text."""
    text = page.read_text()
    assert hook().refreshed(text) == text, "run: make docs"
    assert text.count("<!-- keys: ") == len(hook().KEYS.findall(text)) == (9 if page.name == "language.md" else 0)


def test_the_picture_of_the_layers_has_every_package_and_no_import_upwards():
    layers = hook("layers")
    order = {name: number for number, row in enumerate(layers.layers()) for name in row}
    assert set(order) >= layers.packages()
    assert [edge for edge in layers.edges() if order[edge[0]] >= order[edge[1]]] == []
    picture = layers.svg()
    assert all(f">{name}</text>" in picture for name in layers.packages())
    assert "http" not in picture.replace("http://www.w3.org/2000/svg", "")


def test_pages_from_outside_of_docs_have_no_link_that_leads_out_of_the_site(tmp_path: Path):
    outside = hook("outside")
    pages = GENERATED | {page.name for page in DOCS.glob("*.md")}
    for name in outside.PAGES:
        links = re.findall(
            r"\]\((?!https?:|#)([^)#\s]+)", re.sub(r"```.*?```", "", outside.page(name), flags=re.DOTALL)
        )
        assert set(links) <= pages, name
    text = "[a](docs/lab.md#faults) [b](engine/x.py) ![c](docs/c.svg) [d](CONTRIBUTING.md) [e](https://e.org) [f](#g)"
    assert outside.relinked(text, ROOT / "ARCHITECTURE.md") == (
        "[a](lab.md#faults) b ![c](c.svg) [d](contributing.md) [e](https://e.org) [f](#g)"
    )
    assert "<svg" in outside.page("architecture.md")
