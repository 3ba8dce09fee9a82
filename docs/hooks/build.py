"""What mkdocs asks for while it builds: pages that are generated, and pages that stand outside of ``docs/``."""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

sys.path.insert(0, str(Path(__file__).parent))

import layers
import reference

from engine.actions import discover

ROOT = Path(__file__).parents[2]
OUTSIDE = {
    "architecture.md": ("ARCHITECTURE.md", "engine/HOUSE.md"),
    "contributing.md": ("CONTRIBUTING.md",),
    "changelog.md": ("CHANGELOG.md",),
    "playbook-coverage.md": ("playbooks/README.md",),
}
"""Pages of the site, with the file of the repository that each shows: the first that is there."""


def on_config(config: Any) -> Any:
    """Put a page for every action into the navigation."""
    for entry in config["nav"]:
        for title, pages in entry.items():
            if title == "Actions":
                pages += [{name: f"actions/{name}.md"} for name in discover()]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are no files below ``docs/``."""
    pages = {"actions/index.md": reference.actions_index()}
    pages |= {f"actions/{action.name}.md": reference.action_page(action) for action in discover().values()}
    pages |= {page: shown(page) for page in OUTSIDE}
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Fill in the parts of a page that are generated."""
    return reference.filled(markdown)


def shown(page: str) -> str:
    """The text of *page*, which stands in a file of the repository, with its links as this site has them."""
    path = source_of(page)
    text = relinked(path.read_text(), path)
    if page != "architecture.md":
        return text
    picture = (
        "## Imports\n\nDrawn from the imports when these pages were built. A strong line is an import that follows "
        "from no others; import-linter refuses one that goes up.\n\n" + layers.svg() + "\n\n" + layers.text() + "\n"
    )
    return f"{text}\n{picture}"


def source_of(page: str) -> Path:
    """The file of the repository that *page* shows."""
    return next(path for name in OUTSIDE[page] if (path := ROOT / name).is_file())


def relinked(text: str, path: Path) -> str:
    """*text* of the file *path*, with links into ``docs/`` as links within the site, and other local ones as text."""
    pages = {name: page for page, names in OUTSIDE.items() for name in names}

    def link(found: re.Match[str]) -> str:
        words, target = found[1], found[2]
        if re.match(r"[a-z]+:|#", target):
            return found[0]
        name, mark, anchor = target.partition("#")
        name = posixpath.normpath((path.parent / name).relative_to(ROOT).as_posix())
        if name.startswith("docs/"):
            return f"[{words}]({name.removeprefix('docs/')}{mark}{anchor})"
        return f"[{words}]({pages[name]}{mark}{anchor})" if name in pages else words

    return re.sub(r"\[([^\]]*)\]\(([^)\s]+)\)", link, text)
