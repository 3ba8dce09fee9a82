"""Read a page: its elements, its text, and the rows of its tables."""

from __future__ import annotations

from html.parser import HTMLParser


class Page(HTMLParser):
    """The elements of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self._words: list[str] = []
        self._rows: list[list[str]] = []
        self._is_cell = False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag == "tr":
            self._rows.append([])
        if tag in ("td", "th"):
            self._rows[-1].append("")
            self._is_cell = True

    def handle_endtag(self, tag):
        self._is_cell = self._is_cell and tag not in ("td", "th")

    def handle_data(self, data):
        self._words.append(data)
        if self._is_cell:
            self._rows[-1][-1] += data

    def all(self, *names: str) -> list[dict[str, str]]:
        """Return the attributes of each element with one of *names*."""
        return [attributes for tag, attributes in self.tags if tag in names]

    def rows(self) -> list[list[str]]:
        """Return the cells of each row of all tables."""
        return self._rows

    @property
    def text(self) -> str:
        """Return all words, with single spaces."""
        return " ".join(" ".join(self._words).split())
