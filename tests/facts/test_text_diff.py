"""A diff shows what differs and nothing else, however long and repetitive the text is; patch(1) can apply it."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.facts.text_diff import unified

texts = st.lists(st.sampled_from(["a", "b", "", "  x: 1", "-", "+ y"]), max_size=12).map("\n".join)


def test_lines_that_are_repeated_in_a_long_text_are_not_shown_as_changed():
    """Mutants: text_diff.py with ``autojunk``."""
    old = "".join(f"- name: {number}\n  value: same\n\n" for number in range(150))
    new = old.replace("- name: 70\n", "- name: 70\n  added: yes\n")
    changed = [it for it in unified(old, new, "f", "f").splitlines()[2:] if it[0] in "+-"]
    assert changed == ["+  added: yes"]


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


@pytest.mark.parametrize(("old", "new"), [("", "a"), ("a", ""), ("a\n", "a"), ("a", "a\n")])
def test_the_end_of_the_last_line_counts(old, new):
    assert "\\ No newline at end of file" in unified(old, new, "f", "f")
