"""A value that needs quotes is named with its place, and shown with them where it is a sentence."""

from __future__ import annotations

import pytest

from runbook.errors import ConfigError
from runbook.language.loader import load_playbook
from runbook.language.yaml_source import parse_playbook
from runbook.plugins import discover
from tests.support.tables import every_row

HEAD = "name: toy\ndiagnose:\n  - {id: jobs, processes: {patterns: [train]}}\nfindings:\n  - id: held\n    severity: info\n"
UNQUOTED = {
    "a template with more": ("    say: {{ x }} y", '7:10: a value that begins with {{ needs quotes: `say: "{{ x }} y"`'),
    "a template": ("    say: {{ x }}", '7:10: a value that begins with {{ needs quotes: `say: "{{ x }}"`'),
    "a template with a text": ("    say: {{ x['a'] ~ \"b\" }}", """7:10: a value that begins with {{ needs quotes: `say: '{{ x[''a'']"""),
    "a template in a list": ("    advise:\n      - {{ x }} y", '8:9: a value that begins with {{ needs quotes: `- "..."`'),
    "a template in brackets": ("    advise: [a, {{ x }} y]", '7:17: a value that begins with {{ needs quotes: `"..."`'),
    "a template in braces": ("    evidence: {a: b, c: {{ x }}}", '7:25: a value that begins with {{ needs quotes: `c: "{{ x }}"`'),
    "a comment behind it": ("    say: {{ x }} y # z", '7:10: a value that begins with {{ needs quotes: `say: "{{ x }} y"`'),
    "a colon": ("    say: error: no job", '7:10: a text with `: ` in it needs quotes: `say: "error: no job"`'),
    "a colon in a list": ("    advise:\n      - a b: c: d", '8:9: a text with `: ` in it needs quotes: `- "..."`'),
    "a colon at the end": ("    say: see below:", '7:10: a text with `: ` in it needs quotes: `say: "see below:"`'),
    "a colon in braces": ("    evidence: {a: b: c}", '7:19: a text with `: ` in it needs quotes: `a: "..."`'),
    "an alias": ("    say: *job is gone", '7:10: a text that begins with * (which means an alias) needs quotes: `say: "*job is gone"`'),
    "an anchor": ("    when: jobs.matches\n    say: &job is gone", '8:10: a text that begins with & (which means an anchor, and none'),
    "an at": ("    say: @job", "7:10: a value cannot begin with '@' in YAML (put the whole value in quotes)"),
    "a percent sign": ("    say: %job", "7:10: a value cannot begin with '%' in YAML"),
    "a backquote": ("    say: `job` is gone", "7:10: a value cannot begin with '`' in YAML"),
    "a text in quotes with more": ("    when: 'x' in jobs.users", """7:11: a text that begins with a quote and goes on behind its end needs quotes: `when: "'x' in jobs.users"`"""),
    "brackets with more": ("    say: [a-z]+ is gone", '7:10: a text that begins with [ and goes on behind its end needs quotes: `say: "[a-z]+ is gone"`'),
    "braces with more": ("    say: {a} is gone", '7:10: a text that begins with { and goes on behind its end needs quotes: `say: "{a} is gone"`'),
    "a bracket that is open": ("    advise: [pattern\n    when: x", "7:13: the [ that begins here is never closed: `advise: [`"),
    "a bracket that is open at the end": ("    advise: [pattern", "7:13: the [ that begins here is never closed: `advise: [`"),
    "a brace that is open": ("    evidence: {a: b\n    when: x", "7:15: the { that begins here is never closed: `evidence: {`"),
    "a bracket in braces": ("    evidence: {a: b == [], c: d}", '7:19: a text with [ or { in it, within { }, needs quotes: `a: "..."`'),
    "an index in braces": ("    evidence: {c: d, a: b[0].x}", '7:25: a text with [ or { in it, within { }, needs quotes: `a: "..."`'),
    "brackets in quotes": ("    say: \"a [{{ b }}]\" c", """7:10: a text that begins with a quote and goes on behind its end needs quotes: `say: '"a [{{ b }}]" c'`"""),
    "a long text": ("    say: error: " + "x" * 100, "7:10: a text with `: ` in it needs quotes"),
}  # fmt: skip
OTHERWISE = {
    "keys in two columns": ("    say: x\n      when: y", "8:11: mapping values are not allowed in this context (put a value"),
    "a key less far in": ("   say: x", "see that the items of one list start in one column"),
    "a quote that is open": ("    say: 'a\n    when: x", "close the quote"),
    "a list that goes on": ("    advise: [a,\n      'b' c,\n      d]", "close the { or ["),
}  # fmt: skip


def mistakes(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_playbook(HEAD + text + "\n", "toy.yaml", discover())
    return str(caught.value).splitlines()


@every_row("kind", [*UNQUOTED, *OTHERWISE])
def test_a_value_that_needs_quotes_is_one_mistake_with_its_place(kind):
    """Mutants: ``quoting_mistake`` without one of its cases; ``_of_line`` that keeps comments; ``_depth`` always 1."""
    text, words = {**UNQUOTED, **OTHERWISE}[kind]
    (only,) = mistakes(text)
    assert words in only
    if kind in UNQUOTED:
        assert only.startswith(f"toy.yaml:{words}")
    if kind == "a long text":
        assert "xxx" not in only


@every_row(
    "text",
    ["a: {{ secret }} y", "a: secret: y", "a: 'secret' y", "a: [secret\nb: c", "a: *secret y", "a: {{ secret }}"],
)
def test_nothing_is_repeated_of_a_file_that_is_not_ours(text):
    with pytest.raises(ConfigError) as caught:
        parse_playbook(text, "x.yaml", ours=False)
    assert "secret" not in str(caught.value)


@every_row(
    "text",
    [
        "    when: &there jobs.matches\n",
        "    when: jobs.matches\n    say: &word it is gone\n  - {id: other, severity: info, when: jobs.matches, say: *word}\n"
        "  - id: third\n    severity: info\n    when: jobs.matches\n    say: |\n      say: &other it is gone\n",
        "    when: jobs.matches\n    say: &word it is gone\n  - {id: other, severity: info, when: jobs.matches, say: *word}\n",
        "    when: jobs.matches\n    say: &word 'it is gone'\n",
        "    when: jobs.matches\n    say: |\n      say: &word it is gone\n",
        "    when: jobs.matches\n    say: 'say: &word it is gone'\n",
    ],
)  # fmt: skip
def test_an_anchor_that_may_be_meant_is_no_mistake(text):
    """Mutants: ``unused_anchors`` that asks neither for aliases nor for the kind of text."""
    assert load_playbook(HEAD + text, "toy.yaml", discover())


def test_only_the_anchor_that_is_not_used_is_a_mistake():
    text = "    when: jobs.matches\n    say: &word it is gone\n  - {id: other, severity: info, when: jobs.matches, say: *word}\n"
    (only,) = mistakes(text + "  - id: third\n    severity: info\n    when: jobs.matches\n    say: &more of it")
    assert "toy.yaml:13:10: " in only
