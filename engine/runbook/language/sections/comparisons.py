"""Check the findings of a playbook that compare hosts (``across``)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import takewhile
from typing import Any

from runbook.errors import ConfigError
from runbook.language.expressions.comparison import ACROSS
from runbook.language.expressions.templates import names
from runbook.language.yaml_source import Path
from runbook.text.suggestions import suggest
from runbook.values.playbook import FindingRule, Let, Playbook

Fault = tuple[Path, str, str]
"""A mistake: its path in the entry of the finding, the message, and a hint."""

ALONE = "let a playbook without `across` change the host, and run it with --hosts on the ones that were named"


def faults_in_comparison(rule: FindingRule, book: Playbook, tree: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield the mistakes of *rule*, a finding of *book* that compares hosts; *tree* is its entry in the file."""
    if isinstance(tree[ACROSS], Mapping) and "value" not in tree[ACROSS]:
        yield (ACROSS,), "'value' is missing", "an expression that each host evaluates"
    for section in ("remediate", "verify"):
        if getattr(book, section):
            words = (
                f"hosts are compared after the last one is probed, so that a playbook with `{ACROSS}` has no {section}"
            )
            yield (ACROSS,), words, ALONE
    for key in ("settle", "gone_for"):
        if key in tree:
            yield (key,), f"`{key}` is not allowed beside `{ACROSS}`: nothing is changed before hosts are compared", ""
    if rule.when and not _names_comparison(rule.when, book.let[rule.part]):
        hint = f"{ACROSS}.value < {ACROSS}.highest, or leave `{ACROSS}` out"
        yield ("when",), f"`{ACROSS}` compares hosts, but `when` does not name what was found", hint
    yield from _unknown_findings(rule, book)


_FOUND = re.compile(rf"\b{ACROSS}\s*\.\s*found\s*\.\s*(\w+)")


def _unknown_findings(rule: FindingRule, book: Playbook) -> Iterator[Fault]:
    """Yield a mistake for each name after ``across.found.`` that is not the id of an earlier finding."""
    earlier = [finding_rule.id for finding_rule in takewhile(lambda it: it is not rule, book.findings)]
    texts: list[tuple[Path, str]] = [(("when",), rule.when), (("say",), rule.say)]
    texts += [(("evidence", name), text) for name, text in rule.evidence.items()]
    texts += [(("advise",), text) for text in rule.advise]
    for path, text in texts:
        for name in _FOUND.findall(text):
            if name not in earlier:
                yield path, f"no earlier finding is called {name!r}", suggest(name, earlier)


def faults_of_included(part: str, book: Playbook) -> Iterator[Fault]:
    """Yield the mistakes that come from including the playbook *part*, which compares hosts, in *book*."""
    compares = [comparison.id for comparison in book.comparisons if comparison.part == part]
    for section in ("remediate", "verify"):
        if compares and getattr(book, section):
            words = (
                f"{compares[0]} compares hosts after the last one is probed, so that nothing can be changed: {section}"
            )
            yield (), words, ALONE


def _names_comparison(when: str, let: Let) -> bool:
    """Whether *when* uses the result of a comparison; True also if it cannot be parsed (another check reports that)."""
    try:
        return any(root == ACROSS for root, _ in names(when, let))
    except ConfigError:
        return True
