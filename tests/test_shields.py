"""Secrets are hidden wherever, and in whatever form, they turn up."""

from __future__ import annotations

import base64
import json
import shlex
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.shields import MASK, masked, masking
from engine.values.result import SentCommand

SECRET = "s3cr3t /pa'ss\"wörd+long"
MANY_WAYS = {
    "plain": SECRET,
    "in a shell": shlex.quote(SECRET),
    "in JSON": json.dumps(SECRET),
    "in a URL": quote(SECRET, safe=""),
    "in base64": base64.b64encode(SECRET.encode()).decode(),
    "in base64 after one byte": base64.b64encode(b"u" + SECRET.encode()).decode(),
    "in base64 after a user": base64.b64encode(b"me:" + SECRET.encode() + b"\n").decode(),
    "in base64 between": base64.b64encode(b"me, " + SECRET.encode() + b"!").decode(),
    "in hexadecimal": SECRET.encode().hex(),
}


@pytest.mark.parametrize("way", MANY_WAYS)
def test_a_secret_is_hidden_in_every_form(way):
    """Mutants: shields.py ``_forms`` without one of them; ``_within_base64`` without one of its three cuts."""
    shown = masking((SECRET,))(f"curl -H {MANY_WAYS[way]} host")
    assert MASK in shown
    for length in (10,):
        for at in range(len(MANY_WAYS[way]) - length):
            assert MANY_WAYS[way][at : at + length] not in shown


@pytest.mark.parametrize("shown_of_it", range(6, len(SECRET)))
@pytest.mark.parametrize("after", ["", "…", "… and more", "..."])
def test_what_a_cut_left_of_a_secret_is_hidden_too(shown_of_it, after):
    """Mutants: shields.py ``_uncut`` without its first ``if``; ``_CUT`` without one of its signs."""
    told = masking((SECRET,))(f"pid 7 python --token {SECRET[:shown_of_it]}{after}")
    assert told == f"pid 7 python --token {MASK}{after}"


@pytest.mark.parametrize("shown_of_it", range(6, len(SECRET)))
@pytest.mark.parametrize("before", ["", "a line …"])
def test_the_end_of_a_secret_after_a_cut_is_hidden_too(shown_of_it, before):
    """Mutants: shields.py ``_uncut`` without its second ``if``."""
    told = masking((SECRET,))(f"{before}{SECRET[-shown_of_it:]} --rank 0")
    assert told == f"{before}{MASK} --rank 0"


@given(st.text(max_size=40), st.text(max_size=40))
def test_whatever_stands_around_a_secret_it_is_hidden(before, after):
    assert SECRET not in masking((SECRET,))(before + SECRET + after)


@given(st.text(alphabet="abc…. ", max_size=60))
def test_nothing_else_is_hidden(text):
    assert masking(("zzzzzzzz-zzzz", "abc"))(text) == text
    assert masking(())(text) == text


def test_a_secret_is_hidden_however_deep_it_lies_in_a_value():
    """Mutants: shields.py ``_masked`` without one of its branches."""
    sent = SentCommand(line=f"login {SECRET}", effect="read", stdout=f"ok {SECRET}")
    hidden = masked({"a": [(sent,)], SECRET: 1}, masking((SECRET,)))
    assert SECRET not in repr(hidden)
    assert hidden["a"][0][0] == SentCommand(line=f"login {MASK}", effect="read", stdout=f"ok {MASK}")
