"""Patterns that people write: those that could take for ever are refused, the others are searched for."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.actions import discover
from engine.errors import ConfigError
from engine.facts.commands.output_parsing import parsed
from engine.lang.loader import load_playbook
from engine.text.regexes import fault_in_regex, found_anywhere, reach, too_long_for
from engine.values.types import Unknown

GOOD = r"""
sglang
areal\.launcher
(^|[ /])areal([ ./]|$)
(^|[ /])ray(::|let)
python.*gsm8k_grpo
python.*train.*--config.*yaml
python.*train.*--model.*llama.*--rank
CUDA-capable device\(s\) is/are busy or unavailable
Total reclaimed space: ([\d.]+)\s*(B|kB|MB|GB)
^(\S+)\s+(\S+)\s+(.*)$
(?P<ip>(?:\d{1,3}\.){3}\d{1,3})
([0-9]+,)*[0-9]+
(\w+,)+
[0-9a-f]{64}
\b(error|fail(ed|ure)?|timeout|killed)\b
(?i)out of memory|killed process (\d+) \((.+?)\)
^\s*$
(?:/[^/ ]+)+
rank \d+.*step \d+.*loss \d+
^\[\s*(\d+\.\d+)\] (.*)$
\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?
"(?:[^"\\]|\\.)*"
(a|b|c)+x
(\d|\w)+x
^(?!.*debug).*error
GPU-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}
.*error.*
.{0,200}OOM
.*\d+ GB
.*\s+error
(?:foo)?bar
x*+y
(?>a+)b
""".splitlines()[1:]

BAD = r"""
(a+)+$
(a*)*$
(a|a)*$
(a|aa)+$
(\w+\s?)+$
(\w+)*$
([a-zA-Z]+)*x
(.*)*x
(.*,)*x
(x+x+)+y
(a?){40}a{40}
a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?aaaaaaaaaaaaaaaaaaaaaaaaaaaa
.*.*.*.*x
\w+\w+\w+\w+\w+x
(\w+\d+)+x
^(([a-z])+.)+[A-Z]([a-z])+$
((a*|b*)c)*d
(?:a{1,10}){1,10}b
(\w+)\s\1
(a{1,3}){0,30}b
(?:\s*\w+)*;
\s+\s+\s+\s+x
(?=(a+)+$)b
((ab)*)*c
(.+)+
([^/]+/?)*x
(a|b|ab)*c
(?i:(a|A)+)+b
((a{20,}){20,}){20,}
(
[z-a]
a{99999999999}
""".splitlines()[1:]

TEXTS = ("a", "b", " ", "1", "ab", "a ", "aB1_", "python train ", "/x")


@pytest.mark.slow
@pytest.mark.parametrize("pattern", GOOD)
def test_a_good_pattern_may_be_searched_for_and_no_text_makes_it_slow(pattern):
    assert fault_in_regex(pattern) == ""
    compiled = re.compile(pattern)
    most = reach(compiled)
    for text in TEXTS:
        began = time.process_time()
        compiled.search((text * most)[:most])
        assert time.process_time() - began < 10, text


@pytest.mark.parametrize("pattern", BAD)
def test_a_bad_pattern_is_refused_with_the_reason_at_once(pattern):
    began = time.process_time()
    fault = fault_in_regex(pattern)
    assert "could take for ever" in fault or "not a regular expression" in fault
    assert time.process_time() - began < 2


pieces = st.sampled_from(["a", "b", "ab", ".", r"\w", "[^a]", "c", " "])
repeats = st.sampled_from(["*", "+", "?", "{2,5}", "{0,20}", "*?", "{3}"])
patterns = st.recursive(
    pieces,
    lambda it: (
        st.tuples(it, it).map("".join)
        | st.tuples(it, it).map(lambda two: f"({two[0]}|{two[1]})")
        | st.tuples(it, repeats).map(lambda two: f"(?:{two[0]}){two[1]}")
    ),
    max_leaves=6,
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(patterns, st.sampled_from(["", "!", "$", "c!"]))
def test_whatever_is_let_through_comes_to_an_end(pattern, end):
    if fault_in_regex(pattern + end):
        return
    compiled = re.compile(pattern + end)
    most = min(reach(compiled), 2048)
    began = time.process_time()
    for text in ("a", "b", "ab", "aab", " a", "c"):
        compiled.search((text * most)[:most])
    assert time.process_time() - began < 20


def test_a_long_command_line_is_searched_to_its_end():
    pattern = re.compile(r"--model.*llama.*--rank.*tail\.py$")
    long = "java " + "-cp /opt/x.jar " * 3000
    assert len(long) > 4 * reach(pattern)
    assert found_anywhere(pattern, f"{long}--model llama --rank 3 tail.py")
    assert found_anywhere(pattern, f"{long}--model llama --rank 3 tail.py -x") is False
    assert found_anywhere(re.compile("^java.*-cp"), long)
    assert not found_anywhere(re.compile("^-cp"), long), "a piece does not begin where the line begins"


def test_a_piece_of_a_line_has_no_end_of_its_own():
    pattern = re.compile(r"x.*x.*a$")
    most = reach(pattern)
    assert not found_anywhere(pattern, "x" * (most - 1) + "a" + "b" * most * 2)
    assert not found_anywhere(re.compile("^(?!.*spared).*job"), "job " * 20_000 + "spared")


def test_output_is_not_searched_if_that_could_take_for_ever():
    pattern, text = re.compile(r"(\S+)\s+(\S+)$", re.MULTILINE), "x " * 100_000
    why = f"what it printed cannot be searched: {too_long_for(pattern, text)}"
    assert parsed(text, {"regex": pattern.pattern}) == Unknown(why=why)
    assert "200000 characters" in why
    many = "nothing here\n" * 20_000 + "Total reclaimed space: 5 MB\n"
    assert parsed(many, {"regex": r"^Total reclaimed space: (.*)$"}) == "5 MB", "its lines are short"


@pytest.mark.parametrize(
    "step",
    [
        "- {id: a, processes: {patterns: ['(a+)+$']}}",
        "- {id: a, log_scan: {files: [/x], signatures: {s: '(a+)+$'}}}",
        "- {id: a, command: {argv: [date], parse: {regex: '(a+)+$'}}}",
    ],
)
def test_wherever_a_pattern_meets_text_of_a_host_a_bad_one_is_refused_with_its_place(step):
    with pytest.raises(ConfigError, match=r"toy.yaml:3:\d+: .*could take for ever"):
        load_playbook(f"name: toy\ndiagnose:\n  {step}\n", "toy.yaml", discover())
