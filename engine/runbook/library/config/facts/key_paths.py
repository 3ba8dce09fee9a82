"""Keys as people write them: words with dots between them, and quotes around a word that has dots of its own."""

from __future__ import annotations

import re

KeyPath = tuple[str, ...]

_WORD = re.compile(r"""\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([^."'][^.]*))\s*(\.|$)""", re.DOTALL)
_BARE = re.compile(r"[^\s.\"'][^.\"']*")


def key_path(text: str) -> KeyPath:
    """The words of ``rollout.request_timeout`` or ``tool."a.b".x``.  Raises ValueError when it is not a key."""
    words: list[str] = []
    at = 0
    while True:
        found = _WORD.match(text, at)
        if found is None:
            raise ValueError(f'{text!r} is not a key: write words with dots between them, as in a.b or a."b.c"')
        double, single, bare = found[1], found[2], found[3]
        words.append(
            re.sub(r"\\(.)", r"\1", double) if double is not None else single if bare is None else bare.strip()
        )
        at = found.end()
        if not found[4]:
            return tuple(words)


def key_text(path: KeyPath) -> str:
    """*path* in one word, as a playbook would have it."""
    return ".".join(word if _BARE.fullmatch(word) and word == word.strip() else _quoted(word) for word in path)


def _quoted(word: str) -> str:
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'
