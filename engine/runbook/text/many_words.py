"""Find which of very many words are in a text, in a time that does not depend on their number."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

MANY = 400
"""The number of words above which the text is read once; with fewer words, a search for each word is faster."""


class ManyWords:
    """A set of words to search for; most of them have the same length."""

    def __init__(self, words: Iterable[str], length: int) -> None:
        """*length*: the length of most words; words of other lengths are searched for one by one."""
        every = tuple(dict.fromkeys(words))
        many = len(every) > MANY
        self._length = length
        self._counted = frozenset(word for word in every if many and len(word) == length)
        self._others = tuple(word for word in every if word not in self._counted)

    def any_in(self, text: str) -> bool:
        """Whether *text* contains one of the words."""
        return any(other in text for other in self._others) or any(part in self._counted for part in self._parts(text))

    def all_in(self, text: str) -> set[str]:
        """Return the words that *text* contains."""
        return {other for other in self._others if other in text} | {
            part for part in self._parts(text) if part in self._counted
        }

    def _parts(self, text: str) -> Iterable[str]:
        """Return every piece of *text* with the length of the counted words; none if there are no such words."""
        if not self._counted:
            return ()
        return (text[at : at + self._length] for at in range(len(text) - self._length + 1))


class FormsByPart:
    """Texts, each with a part of it.  If the searched text does not contain the part, it cannot contain the whole
    text.
    """

    def __init__(self, forms: Mapping[str, str], length: int) -> None:
        """*forms*: each text with a part of it, in small letters, of at most *length* characters."""
        self._forms = dict(forms)
        self._parts = ManyWords(self._forms.values(), length)

    def possible(self, lower: str) -> Collection[str]:
        """Return the texts that may be in *lower*, a text in small letters, in their order."""
        if len(self._forms) <= MANY:
            return self._forms
        there = self._parts.all_in(lower)
        return [form for form, part in self._forms.items() if part in there] if there else ()
