"""What a command prints reaches nobody with a secret in it, wherever the output was parted or cut."""

from __future__ import annotations

import base64
import json
import shlex
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runbook.connections.sessions.framed_output import Stream
from runbook.execution.guards import Redacting
from runbook.secrets.masking import MASK, masking
from runbook.values.command import Command, Completed, Effect
from runbook.values.excerpts import excerpt, gap

FILLER = st.text(alphabet="abc \n", max_size=80)
SECRETS = st.text(alphabet="XYZ0123456789-.+?[](){}^$|\\ÄЖ密", min_size=8, max_size=40).filter(
    lambda it: it.strip() == it and len(set(it)) > 3
)
"""None of their characters stands in FILLER."""


def told(text: str, secret: str) -> set[str]:
    """The characters of *secret* in *text*, but for those of a mask and of the line that stands for a gap."""
    plain = text.replace(MASK, "")
    for line in [it for it in plain.split("\n") if it.startswith("[... ") and it.endswith(" bytes left out ...]")]:
        plain = plain.replace(line, "")
    return {it for it in plain if it in secret}


@given(SECRETS, st.lists(FILLER, min_size=1, max_size=6), st.integers(1, 60), st.lists(st.integers(1, 30), max_size=30))
def test_whatever_chunks_an_output_comes_in_and_wherever_it_is_cut_no_character_of_a_secret_is_left(
    secret, between, kept, sizes
):
    """Mutants: masking.py ``redacted`` with ``TELLING`` instead of 1; without one of its two ends; ``rstrip(UNREADABLE)``."""
    data = secret.join(["", *between, ""]).encode() + b"\nmark 0\n"
    stream, found = Stream(), None
    stream.keep(kept)
    for size in [*sizes, len(data)]:
        stream.feed(data[:size])
        data = data[size:]
        found = found or stream.take("mark")
    assert found
    shown = masking([secret]).redacted(found.text, False)
    assert told(shown, secret) == set(), shown


@given(SECRETS, FILLER, st.data())
def test_of_a_command_that_was_ended_in_the_middle_of_one_nothing_is_left_either(secret, before, data):
    """Mutants: masking.py ``redacted`` without ``or cut``; guards.py ``cut`` that is always false."""
    cut = data.draw(st.integers(1, len(secret) - 1))
    ended = Completed(exit_code=None, stdout=before + secret[:cut], stderr=before + secret[:cut], timed_out=True)
    (answer,) = Redacting(Answers(ended), masking([secret]).redacted).run(AUTHORS)
    assert told(answer.stdout + answer.stderr, secret) == set()


@given(SECRETS, FILLER, st.integers(10, 80))
def test_an_excerpt_of_what_came_back_has_no_part_of_one(secret, around, most):
    text = masking([secret]).redacted((around + secret) * 9, False)
    assert told(excerpt(text, most=most), secret) == set()


@given(SECRETS, st.integers(0, 90), st.sampled_from([60, 64, 76]), st.sampled_from(["\n", "\r\n", "\n  "]))
def test_base64_and_hexadecimal_on_several_lines_are_found(secret, before, width, end):
    """Mutants: masking.py ``_unwrapped`` that gives its text back."""
    raw = b"q" * before + secret.encode() + b"q" * 99
    for written in (base64.b64encode(raw).decode(), raw.hex()):
        parted = end.join(written[at : at + width] for at in range(0, len(written), width))
        hide = masking([secret])
        assert MASK in hide.redacted(parted, False)
        scale = len(written) / len(raw)
        ends = (before * scale, (before + len(secret.encode())) * scale - 24)
        if len(secret) >= 24 and any(at > 4 and (at - 4) // width == (at + 28) // width for at in ends):
            assert MASK in hide(parted), "its beginning or its end stands on one line"


def test_one_of_which_neither_the_beginning_nor_the_end_is_whole_on_a_line_is_found():
    """Mutants: masking.py ``redacted`` without ``lines_aside``."""
    written = base64.b64encode(b"q" * 40 + b"00000123" + b"q" * 99).decode()
    assert MASK in masking(["00000123"]).redacted(f"{written[:60]}\n{written[60:]}", False)


FORMS = {
    "plain": lambda it: it,
    "upper": str.upper,
    "json": json.dumps,
    "json twice": lambda it: json.dumps(json.dumps([it])),
    "url": lambda it: quote(it, safe=""),
    "shell": shlex.quote,
    "python": repr,
    "ascii": ascii,
    "hex": lambda it: it.encode().hex(),
}


@given(SECRETS, st.sampled_from(sorted(FORMS)))
def test_a_form_that_is_found_in_a_short_text_is_found_in_a_long_one(secret, form):
    """``redacted`` searches another way than what is shown is searched: both find the same."""
    text = f"a {FORMS[form](secret)} b\n"
    hide = masking([secret])
    assert MASK in hide(text)
    assert hide.redacted(text * 3, False).count(MASK) >= 3
    assert secret not in hide.redacted(text, False)


WORDS = {"swordfish": 9, "hunter": 6, "12345": 5}


@pytest.mark.parametrize("secret", WORDS)
def test_a_secret_that_is_a_short_word_is_hidden_as_a_word_and_beside_a_gap(secret):
    hide = masking([secret])
    assert hide.redacted(f"it is {secret}, {secret.upper()}", False) == f"it is {MASK}, {MASK}"
    assert hide.redacted(f"q {secret[:3]}{gap(7)}{secret[-2:]} q", False) == f"q {MASK}{gap(7)}{MASK} q"
    assert hide.redacted(f"q {secret[:3]}{gap(7, at_least=True)}q", False).startswith(f"q {MASK}\n[")


def test_what_is_not_secret_comes_back_as_it_was():
    text = "token: abc\npassword=x\nhttp://me:pw123456@host/\n" + gap(3)
    assert masking(["zzzz-zzzz"]).redacted(text, True) == text
    assert masking([]).redacted(text, True) == text


class Answers:
    """A connection that gives one answer to everything."""

    def __init__(self, answer: Completed) -> None:
        self.answer = answer

    def run(self, *commands: Command) -> tuple[Completed, ...]:
        return (self.answer,) * len(commands)

    def close(self) -> None:
        pass


AUTHORS = Command(argv=("x",), effect=Effect.READ, foreign=True)
OURS = Command(argv=("x",), effect=Effect.READ)


def test_what_our_own_scripts_print_comes_back_as_it_is():
    """Files are written back, and processes are ended, by what they say.  Mutants: guards.py without ``foreign``."""
    said = Completed(exit_code=0, stdout="a zzzz-zzzz", stderr="zzzz-zzzz", refused="", survivors=("pid 1 zzzz-zzzz",))
    ours, authors = Redacting(Answers(said), masking(["zzzz-zzzz"]).redacted).run(OURS, AUTHORS)
    assert ours == said
    assert (authors.stdout, authors.stderr, authors.survivors) == (f"a {MASK}", MASK, (f"pid 1 {MASK}",))
