"""Patterns that people write: they mean what they mean to Python's `re`, and a search ends whatever the text is."""

from __future__ import annotations

import re
import threading
import time
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from runbook.errors import ConfigError, ProbeError
from runbook.language.arguments import objection_to
from runbook.language.loader import load_playbook
from runbook.language.playbook_schema import violations
from runbook.library.commands.facts.output_parsing import parsed
from runbook.library.docker import container_logs
from runbook.library.files import log_scan
from runbook.library.jobs.facts import by_command_line
from runbook.library.jobs.facts.arguments import JobArguments
from runbook.library.kernel import kernel_log
from runbook.library.kernel.facts.events import OomKill
from runbook.library.kernel.facts.oom_victims import sort_kills
from runbook.library.processes.components import discovery
from runbook.library.processes.facts.table import Process, Row, Table
from runbook.library.system import starts
from runbook.plugins import discover
from runbook.text import regexes
from runbook.text.regexes import SearchBudget, SearchTimeout, compile_regex, fault_in_regex, needed_words
from runbook.text.signatures import STRIKES, SignatureSearch
from runbook.values.types import Unknown
from tests.support.tables import every_row

ROOT = Path(__file__).parents[2]
SLOW = "(a|aa)+$"
ENDLESS = "a" * 60 + "!"
"""A search for SLOW in it takes years."""

META = re.compile(r"[\\\[|*+?^$]|\((?!s\))")
PATTERNS = r"""
(^|[ /])areal([ ./]|$)
(^|[ /])ray(::|let)
python.*train.*--config.*yaml
CUDA-capable device\(s\) is/are busy or unavailable
Total reclaimed space: ([\d.]+)\s*(B|kB|MB|GB)
^(\S+)\s+(\S+)\s+(.*)$
(?P<ip>(?:\d{1,3}\.){3}\d{1,3})
([0-9]+,)*[0-9]+
(?i)out of memory|killed process (\d+) \((.+?)\)
"(?:[^"\\]|\\.)*"
^(?!.*debug).*error
(\w+)\s\1
x*+y
(?>a+)b
loss {e} of {i}
(?:foo){e<=1}
[[:alpha:]]+
[]a]|[^]b]
(?:(?i:A))?[^bc]
(?x) a {e} [#] # a comment [ with {e}
(?#a {comment})b
a{,3}|a{1|a{2}|{}
\{rank\} \[x\] [\[\]]
\N{BULLET}|\x41|é
(?<=rank )\d+(?! of)
""".splitlines()[1:]

TEXTS = """
python -m areal.launcher train --config x.yaml
/usr/bin/ray::worker rayx areal
CUDA-capable device(s) is/are busy or unavailable
Total reclaimed space: 5.2 GB
Out of memory: Killed process 4711 (python3)
10.0.0.1 1,2,3 "a \\" b" no debug here, an error
error error word word xxxy aaab
loss {e} of {i} loss of foo{e<=1} foo fo B
:alpha:] [[:alpha:]] ] [ a] {rank} [x] {} a{1 aaa a {e}#
• A é rank 3 rank 3 of 4
""".splitlines()[1:]


@pytest.fixture
def hasty(monkeypatch):
    monkeypatch.setattr(regexes, "SECONDS_OF_TEXT", 0.05)


def seen(found: Any) -> Any:
    return found and (found.span(), found.groups())


@cache
@cache
def written_in_this_repository() -> tuple[str, ...]:
    """Whatever may be a regular expression among the values of the playbooks that ship."""
    found: set[str] = set()

    def walk(value: Any) -> None:
        if isinstance(value, dict | list):
            for it in value.values() if isinstance(value, dict) else value:
                walk(it)
        elif isinstance(value, str) and len(value) < 300 and META.search(value) and not fault_in_regex(value):
            found.add(value)

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        pass

    Loader.add_multi_constructor("!", lambda loader, _, node: loader.construct_scalar(node))
    for path in sorted(ROOT.glob("playbooks/*.yaml")):
        walk(yaml.load(path.read_text(), Loader))
    return tuple(sorted(found))


@pytest.mark.slow
@pytest.mark.parametrize("flags", [0, re.IGNORECASE, pytest.param(re.MULTILINE, marks=pytest.mark.slow)])
def test_patterns_find_what_pythons_own_module_finds(flags):
    """Mutants: `{e}` or `[[:` are left to `regex`; comments are not skipped; nothing stands before `(?i:`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # `re` warns of [[
        shipped = written_in_this_repository()
    assert len(shipped) > 100
    texts = [*TEXTS, "\n".join(TEXTS), ""]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # `re` warns of [[
        for pattern in [*PATTERNS, *shipped]:
            assert fault_in_regex(pattern, flags) == "", pattern
            theirs, ours = re.compile(pattern, flags), compile_regex(pattern, flags)
            for text in (*texts, re.sub(r"\\.|[\[\](){}?*+^$|]", "", pattern)):
                assert seen(SearchBudget().search(ours, text)) == seen(theirs.search(text)), (pattern, text)


pieces = st.sampled_from(
    [
        *(
            "a",
            "b",
            "1",
            " ",
            "-",
            "_",
            ".",
            ",",
            "#",
            r"\w",
            r"\d",
            r"\s",
            r"\S",
            r"\b",
            r"\Z",
            "^",
            "$",
            "(a)",
            "(|a)",
        ),
        *("[ab]", "[^a]", "[[:alpha:]]", "[]a]", r"[\]a-]", "{e}", "{", "{1", r"\{", r"\[", "(?:ab|a)", "x{,2}"),
        *("(?=a)", "(?!b)", "(?<=a)", "(?i:A)", "(?>ab|a)"),
    ]
)
repeats = st.sampled_from(["*", "+", "?", "{2}", "{0,3}", "{,2}", "{1,}", "*?", "+?", "{1,2}?"])
patterns = st.recursive(
    pieces,
    lambda it: (
        st.tuples(it, it).map("".join)
        | st.tuples(it, it).map(lambda two: f"({two[0]}|{two[1]})")
        | st.tuples(it, repeats).map(lambda two: f"(?:{two[0]}){two[1]}")
    ),
    max_leaves=8,
)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(["", "(?i)", "(?x)"]), patterns, st.lists(st.text("ab1 -_.AB{}[]#,e:x\n", max_size=12), max_size=8)
)
def test_any_pattern_finds_what_pythons_own_module_finds(start, pattern, texts):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            theirs = re.compile(start + pattern)
        except re.error:
            assert "not a regular expression" in fault_in_regex(start + pattern)
            return
        assert fault_in_regex(start + pattern) == ""
        for text in texts:
            assert seen(SearchBudget().search(compile_regex(start + pattern), text)) == seen(theirs.search(text))


@every_row(
    ("pattern", "words"),
    [
        ("CUDA out of memory", ["cuda out of memory"]),
        (r"Kill(ed|ing) process \d+", [" process "]),
        (r"(?:oom|out of memory).*", []),
        (r"(?:NaN!|out of memory).*", ["nan!", "out of memory"]),
        (r"(?:abc)?defg|xyz1", ["defg", "xyz1"]),
        (r"(?:abcde)*fgh(?:ijkl)+", ["ijkl"]),
        (r"abc(?=defgh)", ["abc"]),
        (r"ab[cd]ef", []),
        (r"ab\d|cde", []),
        ("straße", ["stra"]),
        (r"[[x]abc", ["abc"]),
        (r"(a", []),
        ("", []),
    ],
)
def test_words_of_which_each_match_has_one(pattern, words):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert sorted(needed_words(pattern)) == sorted(words)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(["", "(?i)", "(?x)"]), patterns, st.lists(st.text("ab1 -_.AB{}[]#,e:x\n", max_size=12), max_size=8)
)
def test_no_match_is_without_the_needed_words(start, pattern, texts):
    """Mutants: an optional part counts; one branch is enough; the letters on both sides of a class are one word."""
    long = re.sub(r"(?<![\\{?<\[^:])[abx](?![^\[]*\])", lambda one: one[0] * 3, start + pattern)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            theirs = re.compile(long)
        except re.error:
            return
        words = needed_words(long)
        for text in (text.replace("a", "aaa").replace("b", "bbb").replace("x", "xxx") for text in texts):
            assert not words or not theirs.search(text) or any(word in text.lower() for word in words)


def test_most_patterns_that_ship_need_a_word():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # `re` warns of [[
        shipped = written_in_this_repository()
    assert sum(bool(needed_words(pattern)) for pattern in shipped) > len(shipped) / 2


@every_row("pattern", ["(", "[z-a]", "a{99999999999}", "*a", "(?P<n>a", r"\q", r"\p{L}", "(?R)", "(?|a)"])
def test_what_is_no_pattern_of_python_is_refused_with_the_reason(pattern):
    assert fault_in_regex(pattern).startswith("not a regular expression: ")


def test_what_cannot_be_read_as_python_reads_it_is_refused():
    assert "begin all of it with (?x)" in fault_in_regex("(?x:a # [\n)")
    assert "2000 characters" in fault_in_regex("a" * 2001)


@every_row("pattern", ["a{100001}", "((((a{100}){100}){100}){100})", "(?:[ab]{400}){1,400}", r"(\.{9}){99,99999}"])
def test_counted_repeats_that_would_take_all_memory_are_refused(pattern):
    """Mutants: groups are not multiplied; the smaller number counts."""
    assert "counted repeats are too large" in fault_in_regex(pattern)


def test_counted_repeats_that_stand_beside_each_other_are_no_product():
    assert fault_in_regex(r"[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}" * 9 + r".{0,9000}(\({9000}|[(]{9000})") == ""
    assert fault_in_regex("a{,99}{e}") == ""


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (SLOW, ENDLESS),
        (r"(\w+)\s\1", "x" * 100_000),
        ("(x+x+)+y", "x" * 10_000 + "!y"),
        ("python.*train.*--config.*yaml", "python train --config " * 5000),
        (r"(?:a{1,10}){1,10}b", "a" * 10_000 + "cb"),
    ],
)
def test_a_search_ends_in_time_and_what_is_not_known_is_said(hasty, pattern, text):
    """Mutants: the quick search has no time; a time that is up counts as not found."""
    began = time.thread_time()
    try:
        found = SearchBudget().found(compile_regex(pattern), text)
    except SearchTimeout as error:
        assert f"could not be searched for {pattern} within 0.05 s ({len(text)} characters)" in str(error)
    else:
        assert not found
    assert time.thread_time() - began < 60


def test_a_slow_search_lets_other_threads_work():
    worked = 0

    def search() -> None:
        with pytest.raises(SearchTimeout):
            SearchBudget().found(compile_regex(SLOW), ENDLESS)

    thread = threading.Thread(target=search)
    thread.start()
    while thread.is_alive():
        worked += 1
        thread.join(0.01)
    assert worked > 20


def test_the_time_of_all_searches_in_a_list_is_bounded_together():
    budget = SearchBudget(seconds=0.2)
    with pytest.raises(SearchTimeout):
        budget.found(compile_regex(SLOW), ENDLESS)
    began = time.thread_time()
    for _ in range(1000):
        with pytest.raises(SearchTimeout, match="the time for all searches was used up before"):
            budget.found(compile_regex("b"), "a")
    assert time.thread_time() - began < 60


def test_a_text_of_many_megabytes_is_not_searched():
    with pytest.raises(SearchTimeout, match="it has 1048577 characters"):
        SearchBudget().found(compile_regex("b"), "a" * ((1 << 20) + 1))


def test_a_signature_that_is_too_slow_leaves_the_others_their_time(hasty, monkeypatch):
    """Mutants: no end to the strikes; a signature that was found is unknown; one that was not found is not."""
    search = SignatureSearch({"slow": SLOW, "good": "good"})
    lines = [ENDLESS] * (STRIKES + 40) + ["good"]
    tried = []
    really = SearchBudget.search

    def counted(budget, pattern, line):
        tried.append(str(pattern))
        return really(budget, pattern, line)

    monkeypatch.setattr(SearchBudget, "search", counted)
    hits = {name for line in lines for name in search.patterns if search.search(name, line)}
    assert tried.count(SLOW) == STRIKES
    assert hits == {"good"}
    assert list(search.unknown(hits)) == ["slow"]
    assert "a line could not be searched for (a|aa)+$ within 0.05 s" in search.unknown(hits)["slow"]
    assert search.unknown({"slow"}) == {}


# --- what each action says


def test_output_that_cannot_be_searched_is_unknown(hasty):
    value = parsed(ENDLESS, {"regex": SLOW})
    assert value == Unknown(why=f"the output could not be searched for {SLOW} within 0.05 s (61 characters)")


def test_a_log_that_cannot_be_searched_for_a_signature_is_unknown_of_it(hasty):
    args = log_scan.Args(text=f"{ENDLESS}\ngood", signatures={"slow": SLOW, "good": "good", "none": "zzz"})
    state = next_value(log_scan.probe(args))
    assert isinstance(state.counts["slow"], Unknown)
    assert (state.counts["good"], state.counts["none"]) == (1, 0)
    assert isinstance(state.found, Unknown), "`'slow' not in found` would be a lie"
    assert "could not be searched for" in state.found.why
    assert isinstance(state.matches, Unknown)


def test_messages_of_the_kernel_that_cannot_be_searched_are_unknown(hasty):
    text = f"[1.0] {ENDLESS}\n[2.0] all of it is good"
    state = next_value(kernel_log.probe(kernel_log.Args(text=text, signatures={"slow": SLOW, "good": "good"})))
    assert isinstance(state.counts["slow"], Unknown)
    assert state.counts["good"] == 1
    assert isinstance(state.found, Unknown)
    assert isinstance(state.matches, Unknown)
    assert state.xids == ()


def test_a_killed_process_whose_name_cannot_be_searched_is_neither_the_jobs_nor_anothers(hasty):
    keys = {"seconds": 0.0, "pid": 1, "cgroup": "", "container": "", "limit": "", "invoked_by": "", "resident_kb": 1}
    kill = OomKill(at="", name=ENDLESS, scope="host", **keys)
    sides = sort_kills((kill,), (SLOW,))
    assert isinstance(sides.job, Unknown)
    assert isinstance(sides.others, Unknown)


def test_starts_that_cannot_be_searched_are_unknown(hasty):
    text = f"2026-01-31T12:00:00Z up\n2026-01-31T12:00:01Z {ENDLESS}\n"
    for keys in ({"started": SLOW}, {"started": "up", "never": (SLOW,)}, {"started": "up", "expect": (SLOW,)}):
        state = next_value(starts.probe(starts.Args(text=text, **keys)))
        assert isinstance(state.count, Unknown), keys
        assert isinstance(state.loop, Unknown)
        with pytest.raises(ProbeError, match="could not be searched"):
            starts.holds(starts.Args(text=text, **keys), state)


def test_a_log_of_a_container_that_cannot_be_searched_is_unknown(hasty):
    args = container_logs.Args(container="c", signatures={"slow": SLOW, "good": "good"})
    stamped = (f"2026-01-31T12:00:00Z {ENDLESS}", "2026-01-31T12:00:01Z good")
    state = container_logs._searched(args, container_logs.State(), stamped, 0.0)
    assert isinstance(state.counts["slow"], Unknown)
    assert state.counts["good"] == 1
    assert isinstance(state.found, Unknown)
    assert isinstance(state.matches, Unknown)


def row(pid: int, user: str, line: str) -> Row:
    process = Process(pid=pid, start=1, ppid=1, user=user, state="S", command=line, seconds=1.0)
    return Row(process=process, name="x", argv=tuple(line.split(" ")), group=pid, terminal=False, threads=1)


def chosen(pattern: str, *rows: Row) -> by_command_line.CommandLineMatch:
    table = Table(rows={it.process.pid: it for it in rows}, way_in=(), uid=0)
    return by_command_line.chosen([compile_regex(pattern)], table, (), (), JobArguments())


def test_a_process_that_cannot_be_searched_is_left_alone_and_named(hasty):
    """Mutants: it is a match; it is no match and not named; with nobody else found, nobody is there."""
    state = chosen(SLOW, row(50, "eve", ENDLESS), row(51, "ann", "aaa"))
    assert [it.pid for it in state.matches] == [51]
    assert [(it.pid, it.user) for it in state.unsearched] == [(50, "eve")]
    assert "could not be searched for" in state.unsearched[0].why
    alone = chosen(SLOW, row(50, "eve", ENDLESS))
    assert isinstance(alone.matches, Unknown)
    assert alone.matches.why.startswith("pid 50 (eve): its command line could not be searched for")
    assert isinstance(alone.leftover, Unknown)


def test_a_user_whose_processes_take_too_long_does_not_take_the_time_of_others(hasty):
    """Mutant: no strikes."""
    began = time.thread_time()
    state = chosen(SLOW, *(row(at, "eve", ENDLESS) for at in range(50, 250)), row(300, "ann", "aaa"))
    assert time.thread_time() - began < 60
    assert [it.pid for it in state.matches] == [300]
    assert len(state.unsearched) == 200
    assert "the searches of 3 others of eve took too long" in state.unsearched[-1].why


def test_of_a_component_whose_process_cannot_be_searched_it_is_not_known_whether_it_runs(hasty):
    table = Table(rows={50: row(50, "eve", ENDLESS)}, way_in=(), uid=0)
    with pytest.raises(SearchTimeout, match=r"pid 50 \(eve\) could not be searched for"):
        discovery._matches(compile_regex(SLOW), table, set(), SearchBudget())


def test_another_pattern_may_still_find_it(hasty):
    table = Table(rows={50: row(50, "eve", f"{ENDLESS} train")}, way_in=(), uid=0)
    state = by_command_line.chosen([compile_regex(SLOW), compile_regex("train")], table, (), (), JobArguments())
    assert [it.pid for it in state.matches] == [50]
    assert state.unsearched == ()


def test_a_pattern_of_processes_that_takes_too_long_on_a_system_command_line_is_refused(hasty, monkeypatch):
    monkeypatch.setattr("runbook.language.arguments.SYSTEM", (ENDLESS,))
    assert "the command line of a system process could not be searched for" in objection_to(SLOW)


def test_an_input_that_cannot_be_searched_for_its_pattern_is_refused(hasty):
    (why,) = violations(ENDLESS, {"type": "string", "pattern": SLOW})
    assert "could not be searched for" in why
    (why,) = violations({ENDLESS: 1}, {"patternProperties": {SLOW: {}}, "additionalProperties": False})
    assert "could not be searched for" in why
    assert violations({"aaa": 1}, {"patternProperties": {SLOW: {}}, "additionalProperties": False}) == []
    assert violations({"b": 1}, {"patternProperties": {SLOW: {}}, "additionalProperties": False}) != []
    assert violations({"b": 1}, {"patternProperties": {SLOW: {}}, "additionalProperties": {"type": "string"}}) != []


@every_row(
    "step",
    [
        "- {id: a, processes: {patterns: ['python(']}}",
        "- {id: a, log_scan: {files: [/x], signatures: {s: 'python('}}}",
        "- {id: a, container_logs: {container: x, signatures: {s: 'python('}}}",
        "- {id: a, command: {argv: [date], parse: {regex: 'python('}}}",
    ],
)
def test_a_pattern_that_does_not_compile_is_refused_with_its_place(step):
    with pytest.raises(ConfigError, match=r"toy.yaml:3:\d+: .*not a regular expression"):
        load_playbook(f"name: toy\ndiagnose:\n  {step}\n", "toy.yaml", discover())


def next_value(probe: Any) -> Any:
    """What a probe returns that asks nothing of a host."""
    with pytest.raises(StopIteration) as done:
        next(probe)
    return done.value.value
