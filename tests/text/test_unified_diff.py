"""A diff shows what differs and nothing else, however long and repetitive the text is; patch(1) can apply it."""

from __future__ import annotations

import re
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runbook.secrets.config_lines import masked_config
from runbook.text.unified_diff import MAX_DIFF_CHARACTERS, unified
from tests.support.tables import every_row

texts = st.lists(st.sampled_from(["a", "b", "", "  x: 1", "-", "+ y"]), max_size=12).map("\n".join)


def test_lines_that_are_repeated_in_a_long_text_are_not_shown_as_changed():
    old = "".join(f"- name: {number}\n  value: same\n\n" for number in range(150))
    new = old.replace("- name: 70\n", "- name: 70\n  added: yes\n")
    changed = [it for it in unified(old, new, "f", "f").splitlines()[2:] if it[0] in "+-"]
    assert changed == ["+  added: yes"]


def test_a_line_of_a_very_long_text_is_shown_at_its_place():
    """Mutants: unified_diff.py ``_same`` that is always 0; ``_moved`` that leaves the numbers."""
    old = "".join(f"{number}\n" for number in range(30_000))
    shown = unified(old, old.replace("\n20000\n", "\n20000\nmore\n"), "f", "f").splitlines()
    assert shown[2:] == ["@@ -19999,6 +19999,7 @@", " 19998", " 19999", " 20000", "+more", " 20001", " 20002", " 20003"]


@pytest.mark.real("patch")
@settings(max_examples=60, deadline=None)
@given(texts, texts)
def test_patch_makes_one_text_of_the_other(tmp_path_factory, old, new):
    folder = tmp_path_factory.mktemp("patched")
    (folder / "f").write_text(old)
    difference = unified(old, new, "f", "f")
    assert (difference == "") is (old == new)
    if difference:
        done = subprocess.run(
            ["patch", "-s", "f"], cwd=folder, input=difference, text=True, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stdout + difference
    assert (folder / "f").read_text() == new if (folder / "f").exists() else new == ""


@every_row(("old", "new"), [("", "a"), ("a", ""), ("a\n", "a"), ("a", "a\n")])
def test_the_end_of_the_last_line_counts(old, new):
    assert "\\ No newline at end of file" in unified(old, new, "f", "f")


def test_a_secret_that_is_far_above_its_difference_is_still_known_as_one():
    """Mutants: unified_diff.py ``unified`` with ``show`` on the lines of the difference, or not at all."""
    block = "\n".join(f"  {letter * 20}" for letter in "abcdefgh")
    old = f"key: |\n  -----BEGIN PRIVATE KEY-----\n{block}\n  -----END PRIVATE KEY-----\nsecrets:\n  db: h1\n  m: h2\nport: 1\n"
    shown = unified(old, old.replace("g" * 20, "z" * 20).replace("h2", "h3"), "a", "b", masked_config)
    assert "+  ***" in shown
    assert not re.search(r"aaa|eee|ggg|zzz|h1|h2|h3", shown)
    assert " port: 1" in shown


def test_a_secret_in_a_last_line_without_an_end_is_hidden_too():
    """Mutants: unified_diff.py ``_shown`` that leaves the mark where it is."""
    assert "hunter2" not in unified("a: 1\n", "a: 1\ntoken: hunter2", "a", "b", masked_config)


def test_a_secret_whose_block_gets_another_name_is_shown_on_neither_side():
    """Mutants: unified_diff.py ``unified`` with ``_hidden`` of one text alone."""
    old, new = "a: 1\nsecrets:\n  db: h1\n  m: h2", "a: 1\nothers:\n  db: h1\n  m: h2"
    for one, other in ((old, new), (new, old), (old, f"{new}\n  n: h2"), ("", f"{old}\nb: 2\nothers:\n  db: h1")):
        shown = unified(one, other, "a", "b", masked_config)
        assert "a: 1" in shown
        assert not re.search("h1|m: h2", shown)
    assert "--- a\n+++ b\n@@ -1,4 +1,4 @@\n a: 1\n-secrets:\n+others:\n   ***\n   ***\n" in unified(
        old, new, "a", "b", masked_config
    )


def test_a_difference_has_a_bound_and_says_what_is_left_out():
    """Mutants: unified_diff.py ``_bounded`` without its ``break``."""
    shown = unified("", "a line of text\n" * 30_000, "/dev/null", "b")
    assert len(shown) < MAX_DIFF_CHARACTERS + 100
    lines = shown.splitlines()
    assert lines[-1] == f"... {30_003 - len(lines) + 1} more lines are left out"


def test_very_long_texts_are_not_compared_and_that_is_said():
    """Mutants: unified_diff.py ``unified`` without MOST_PAIRS, which takes a minute."""
    old = "\n".join(str(number % 110) for number in range(40_000))
    shown = unified(old, old.replace("\n7\n", "\ntoken: hunter2\n"), "a", "b", masked_config)
    assert shown == "--- a\n+++ b\n... 39937 lines from line 5 on are now 39937: too many to compare\n"
    assert unified(old, old, "a", "b") == ""
    assert unified("", old, "a", "b").startswith("--- a\n+++ b\n@@ -0,0 +1,40000 @@\n+0\n")


@every_row(("name", "old"), [("a\nb", "x"), ("/dev/null", "")])
def test_the_names_stand_as_they_are(name, old):
    assert unified(old, "y\n", name, "b").startswith(f"--- {name}\n+++ b\n@@ ")
