"""Lines of playbooks and inventories are those that an editor counts."""

from __future__ import annotations

import pytest

from runbook.errors import ConfigError
from runbook.language.yaml_source import parse_inventory, parse_playbook
from tests.support.tables import every_row


@every_row("parse", [parse_playbook, parse_inventory])
@every_row("mark", ["\x85", "\u2028", "\u2029"])
def test_a_line_separator_in_a_comment_or_a_text_ends_no_line(parse, mark):
    text = f"# pasted{mark}from a document: not a key\nhosts:\n  a: {{say: 'x{mark}y'}}  # and{mark}here\n  b: [\n"
    with pytest.raises(ConfigError) as caught:
        parse(text, "f.yaml")
    assert [problem.line for problem in caught.value.problems] == [5]  # the end of the file: a bracket is open
    document = parse(text.replace("[", "1"), "f.yaml")
    assert document.value == {"hosts": {"a": {"say": f"x{mark}y"}, "b": 1}}
    assert document.where(("hosts", "b")).line == 4


def test_aliases_and_characters_of_private_use_are_read_as_they_are():
    text = "a: &x ['one\u2028two', {k\u2028: v}]\nb: *x\n"
    value = parse_playbook(text, "f.yaml").value
    assert value == {"a": ["one\u2028two", {"k\u2028": "v"}], "b": ["one\u2028two", {"k\u2028": "v"}]}
    assert parse_playbook("a: '\ue928'\n", "f.yaml").value == {"a": "\ue928"}
