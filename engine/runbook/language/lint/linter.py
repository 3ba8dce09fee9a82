"""Run the lint rules on a valid playbook, and apply the comments that allow exceptions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from runbook.dataclass import dataclass
from runbook.errors import Problem
from runbook.language.lint.context import LintContext
from runbook.language.lint.rules import RULES, Rule
from runbook.language.shorthand import written_out
from runbook.language.yaml_source import Document, parse_playbook
from runbook.protocols import Action
from runbook.text.suggestions import suggest
from runbook.values.playbook import Playbook

ALLOW = re.compile(r"#\s*runbook:\s*allow\s+([\w-]+(?:\s*,\s*[\w-]+)*)")


@dataclass(frozen=True, slots=True, order=True)
class LintWarning:
    """A likely fault, with the id of its rule."""

    problem: Problem
    rule: str

    def __str__(self) -> str:
        at = self.problem
        hint = f" ({at.hint})" if at.hint else ""
        return f"{at.file}:{at.line}:{at.column}: warning: {at.message}{hint} [{self.rule}]"


def warnings_in(book: Playbook, text: str, actions: Mapping[str, Action]) -> list[LintWarning]:
    """Return every warning about *book*, sorted by place; *text* is the content of its file.

    Warnings that a comment in *text* allows are left out.  Included playbooks are not checked: they have files of
    their own.
    """
    plain = parse_playbook(text, book.path)
    document = written_out(plain)
    linted = LintContext(book=book, document=document, written=plain.value, actions=actions)
    allowed = _allowed(text)
    used: set[tuple[int, str]] = set()
    found = []
    for rule in RULES:
        for warning in rule.check(linted):
            placed = plain if warning.written else document
            problem = placed.problem(warning.path, warning.message, warning.hint)
            if (comment := allowed.get((problem.line, rule.id))) is not None:
                used.add((comment, rule.id))
            else:
                found.append(LintWarning(problem, rule.id))
    found += _idle_comments(document, allowed, used)
    return sorted(set(found))


def _allowed(text: str) -> dict[tuple[int, str], int]:
    """Return, for each line and each rule that is allowed there, the line of the comment (the same line or right
    above).
    """
    allowed: dict[tuple[int, str], int] = {}
    above: dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), 1):
        found = ALLOW.search(line)
        own = {part.strip(): number for part in found[1].split(",")} if found else {}
        allowed |= {(number, name): at for name, at in {**above, **own}.items()}
        above = {**above, **own} if line.lstrip().startswith("#") else {}
    return allowed


def _idle_comments(
    document: Document, allowed: Mapping[tuple[int, str], int], used: set[tuple[int, str]]
) -> Iterator[LintWarning]:
    """Yield a warning for each comment that allows nothing: its rule does not exist, or the rule finds nothing
    there.
    """
    known = [rule.id for rule in RULES]
    for line, name in sorted({(at, name) for (_, name), at in allowed.items()} - used):
        if name in known:
            words, hint = f"nothing here needs `allow {name}`", "remove the comment"
        else:
            words = f"no rule is called {name!r}"
            hint = suggest(name, known, "runbook check --rules lists them")
        yield LintWarning(Problem(file=document.file, line=line, column=1, message=words, hint=hint), "allow")


def rule_texts() -> Iterator[tuple[Rule, str]]:
    """Yield every rule with its text for ``runbook check --rules``."""
    for rule in RULES:
        yield (
            rule,
            f"{rule.id}\n  {rule.why}\n  for example:\n"
            + "\n".join(f"    {line}" for line in rule.example.splitlines()),
        )
