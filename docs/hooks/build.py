"""What mkdocs asks for while it builds: pages that are generated, and pages that stand outside of ``docs/``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

sys.path.insert(0, str(Path(__file__).parent))

import outside
import reference

from runbook.plugins import discover


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
    pages |= {name: outside.page(name) for name in outside.PAGES}
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Fill in the parts of a page that are generated."""
    return reference.filled(markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Mend the code in tables."""
    return reference.unescaped(html)
