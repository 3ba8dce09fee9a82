"""Very many words, such as the secrets of a thousand hosts, are found where they stand, and nowhere else."""

from __future__ import annotations

import random

from runbook.secrets.masking import Masking
from runbook.text.many_words import MANY, FormsByPart, ManyWords
from tests.support.secret_forms import forms, leaks
from tests.support.tables import every_row


@every_row("count", [3, MANY, MANY + 1, 2000])
def test_the_words_that_stand_in_a_text_are_found_whatever_their_number(count):
    """Mutants: ``ManyWords`` without those of another length; ``_parts`` that stops one piece before the end."""
    chosen = random.Random(count)
    words = ["".join(chosen.choices("abcd", k=6)) for _ in range(count)] + ["ab", "a-longer-one"]
    for text in (
        "",
        "abcd",
        words[0],
        f"x{words[1]}y a-longer-one",
        "".join(chosen.choices("abcd", k=300)),
        "zzzzzz" + words[2],
    ):
        there = {it for it in words if it in text}
        assert ManyWords(words, 6).all_in(text) == there
        assert ManyWords(words, 6).any_in(text) == bool(there)


def test_only_forms_whose_part_is_there_are_possible():
    every = {f"{number:06d}-rest-{number}": f"{number:06d}" for number in range(MANY + 1)}
    assert list(FormsByPart(every, 6).possible("x 000007-rest-7 000009")) == ["000007-rest-7", "000009-rest-9"]
    assert list(FormsByPart(every, 6).possible("nothing")) == []
    few = {it: every[it] for it in list(every)[:3]}
    assert list(FormsByPart(few, 6).possible("nothing")) == list(few)


def test_the_secrets_of_very_many_hosts_are_hidden_in_every_form_also_cut_and_parted():
    """Mutants: masking.py with the parts of ``_by_end`` from the beginning; ``in_all`` without the words of other lengths."""
    secrets = [f"pa$s /{number:04d}'k4nary\"{number * 7919 % 10007}" for number in range(60)] + ["ab4c", "hunter"]
    mask = Masking(secrets)
    for secret in (secrets[0], secrets[59]):
        found, alone = {"it": secret}, Masking([secret])
        for name, form in forms(secret).items():
            half = len(form) // 2
            for text in (f"a {form} b", f"{form[:half]}\n{form[half:]}", form[:-1], form[2:]):
                for hides in (
                    Masking.__call__,
                    lambda it, text: it.in_all([text, "x"]).get(text, text),
                    lambda it, text: it.redacted(text, True),
                ):
                    left = leaks(hides(mask, text), found, 12)
                    assert {*left} <= {*leaks(hides(alone, text), found, 12)}, "many are hidden as well as one"
                    assert left == [] or form not in text or name.startswith("base64"), name
    assert mask("say ab4c and hunter, no hunters") == "say *** and ***, no hunters"
    assert mask(secrets[3][8:] + " follows") == "*** follows"
    assert mask("an ordinary text") == "an ordinary text"
