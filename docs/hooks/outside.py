"""Show files that stand outside of ``docs/`` as pages of the site: the architecture, how to contribute, the changes."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

import layers

ROOT = Path(__file__).parents[2]
PAGES = {
    "architecture.md": ("ARCHITECTURE.md",),
    "contributing.md": ("CONTRIBUTING.md",),
    "changelog.md": ("CHANGELOG.md",),
    "playbook-coverage.md": ("playbooks/README.md",),
}
"""Pages of the site, with the file of the repository that each shows: the first that is there."""

MARK = "<!-- layers -->"
"""Where ARCHITECTURE.md wants the picture of the layers; without it the picture comes at the end."""


def page(name: str) -> str:
    """The text of the page *name*, with its links as the site has them."""
    path = next(path for file in PAGES[name] if (path := ROOT / file).is_file())
    text = relinked(path.read_text(), path)
    if name != "architecture.md":
        return text
    return text.replace(MARK, picture()) if MARK in text else f"{text}\n## Imports\n\n{picture()}"


def picture() -> str:
    """The layers and their imports, drawn and as a table."""
    words = (
        "Drawn from the imports when these pages were built. A strong line is an import that follows from no others; "
        "import-linter refuses one that goes up."
    )
    return f"{words}\n\n{layers.svg()}\n\n{layers.text()}\n"


def relinked(text: str, path: Path) -> str:
    """*text* of the file *path*, with links into ``docs/`` as links within the site, and other local ones as text."""
    pages = {file: page for page, files in PAGES.items() for file in files}

    def link(found: re.Match[str]) -> str:
        image, words, target = found[1], found[2], found[3]
        if re.match(r"[a-z]+:|#", target):
            return found[0]
        file, mark, anchor = target.partition("#")
        file = posixpath.normpath((path.parent / file).relative_to(ROOT).as_posix())
        if file.startswith("docs/"):
            return f"{image}[{words}]({file.removeprefix('docs/')}{mark}{anchor})"
        return f"{image}[{words}]({pages[file]}{mark}{anchor})" if file in pages else words

    return re.sub(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)", link, text)
