"""Markdown for a ticket: short, and whatever a host says stays in code spans."""

from __future__ import annotations

import io

from markdown_it import MarkdownIt
from markdown_it.token import Token

from runbook.reporting.reporters.markdown import SHOWN, Reporter, code
from runbook.values.inventory import LeftOut
from runbook.values.plan import Finding, Presence, Risk
from runbook.values.playbook import Phase, Severity
from runbook.values.result import HostResult, Mode, Status, Verdict
from tests.reporters.hostile_texts import HOSTILE
from tests.support.sample_runs import command, finished, sample_host, sample_of, step
from tests.support.tables import every_row

OURS = {"heading", "bullet_list", "list_item", "paragraph", "table", "thead", "tbody", "tr", "th", "td", "strong", "text", "code_inline", "inline"}  # fmt: skip


def written(*hosts: HostResult, **keys) -> str:
    stream = io.StringIO()
    Reporter(stream).on(finished(*hosts, **keys))
    return stream.getvalue()


def tokens(text: str) -> list[Token]:
    """What a reader of Markdown makes of *text*, the parts of lines, too."""
    parsed = MarkdownIt("commonmark").enable("table").parse(text)
    return [token for it in parsed for token in (it, *(it.children or ()))]


def kinds(text: str) -> set[str]:
    return {it.type.removesuffix("_open").removesuffix("_close") for it in tokens(text)}


def test_the_page_begins_with_the_counts_and_names_causes_hosts_and_what_to_do():
    lines = written(*map(sample_host, (5, 7, 17, 0))).splitlines()
    assert lines[0] == "# `zombie-gpu`: 2 failed, 1 resolved, 1 healthy"
    assert "- exit code 1: a host failed, is unresolved, or is unknown" in lines
    at = lines.index("## What is wrong, the worst first")
    assert lines[at + 2 : at + 4] == [
        "- `gpu-[0007,0017]` (2) **failed**: `failed reset_gpus: exit code 3: In use by another client`",
        "  - next: `Stop the supervisor that starts them.`",
    ]
    assert (
        "| `gpu-[0005,0007,0017]` (3) | `stop_leftovers` | changed | `end 3 processes (TERM, KILL after 10 s)` |"
        in lines
    )
    assert "| `gpu-[0007,0017]` (2) | `reset_gpus` | failed | `exit code 3: In use by another client` |" in lines
    assert "| `gpu-0005` | `held` | error | gone | `4 leftover processes hold /dev/nvidia0` |" in lines
    assert any(line.startswith("- `gpu-0007`: `clean-up owed by run") for line in lines)
    assert "- `gpu-9001`: `status: offline`" in lines
    assert lines[-1] == "`grace=10s`, `patterns=torchrun, sglang`"


def test_what_is_not_verified_ignored_or_would_be_done_says_so():
    """Mutants: markdown.py ``_status`` without one of its notes."""
    steps = (
        step(Phase.REMEDIATE, "a", Status.CHANGED, why="run it", verified=False),
        step(Phase.REMEDIATE, "b", Status.FAILED, why="exit code 7", ignored=True),
        step(
            Phase.REMEDIATE, "c", Status.WOULD_CHANGE, why="end it", risk=Risk.KILLS_PROCESSES, condition="if b fails"
        ),
    )
    text = written(HostResult(host="h", verdict=Verdict.PLANNED, steps=steps), mode=Mode.PLAN)
    for row in ("| `h` | `a` | changed, not verified | `run it` |", "| `h` | `b` | failed, failure ignored | `exit code 7` |",
                "| `h` | `c` | would change, kills-processes, `if b fails` | `end it` |"):  # fmt: skip
        assert row in text.splitlines()


def test_parts_about_which_nothing_is_to_be_said_are_not_there():
    text = written(HostResult(host="h", verdict=Verdict.HEALTHY), exit_code=0, left_out=(), limits=None, inputs={})
    assert "##" not in text
    assert text.splitlines()[0] == "# `zombie-gpu`: 1 healthy"


def test_a_page_on_a_thousand_hosts_that_all_differ_fits_into_a_comment_and_counts_the_rest():
    """Mutant: markdown.py without ``SHOWN``."""
    words = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa")
    hosts = [
        HostResult(host=f"h{number}", verdict=Verdict.FAILED,
                   findings=(Finding(id="f", severity=Severity.ERROR, status=Presence.PRESENT, say=name * 40, advise=(name * 40,)),),
                   steps=(step(Phase.REMEDIATE, "stop", Status.FAILED, why=name * 40),))
        for number in range(1000) for name in ["".join(words[int(it)] for it in f"{number:03}")]
    ]  # fmt: skip
    text = written(*hosts, left_out=tuple(LeftOut(host=f"o{it}", why=f"reason {it}") for it in range(99)))
    assert len(text) < 65_536
    assert text.count("\n| `h") == 2 * SHOWN
    assert "... and 970 more causes:" in text
    stream = io.StringIO()
    Reporter(stream).on(finished(*sample_of(1000).hosts))
    assert len(stream.getvalue()) < 65_536


@every_row("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_is_never_markup(text):
    """Mutants: markdown.py ``code`` without ``printable``, without the longer fence, or without ``BAR``."""
    bad = step(Phase.REMEDIATE, "stop", Status.FAILED, why=text)
    done = step(Phase.REMEDIATE, text[:30], Status.CHANGED, why=text)
    there = Finding(id="f", severity=Severity.ERROR, status=Presence.PRESENT, say=text, advise=(text,))
    host = HostResult(host="h", verdict=Verdict.UNRESOLVED, steps=(bad, done), findings=(there,))
    page = written(
        host,
        HostResult(host="i", verdict=Verdict.UNREACHABLE, error=text),
        inputs={text[:20]: text},
        left_out=(LeftOut(host="l", why=text),),
    )
    assert kinds(page) <= OURS
    outside = "".join(it.content for it in tokens(page) if it.type == "text")
    assert "owned" not in outside
    assert not set(page) & {*map(chr, range(9)), "\x1b", "\u202e", "\u2028", "\udc80"}
    assert not set("`<>@#[]\x1b\x00\u202e") & set(outside.replace("|", "")), outside
    cells = [it for it in tokens(page) if it.type == "td_open"]
    assert len(cells) == 4 + 4 + 5


@every_row(
    ("mode", "words"), [("plan", "every host is healthy, or has a plan"), ("run", "every host is healthy or resolved")]
)
def test_a_success_says_of_what(mode, words):
    """Mutant: exit_codes.py that says the same of a plan and of a run."""
    assert f"- exit code 0: {words}" in written(mode=Mode(mode), exit_code=0).splitlines()


def executed(name: str, stdout: str) -> HostResult:
    """A host on which ``runbook exec`` ran a command that printed *stdout*."""
    done = step(Phase.DIAGNOSE, "exec", Status.OK, commands=(command("show", stdout),))
    return HostResult(host=name, verdict=Verdict.HEALTHY, steps=(done,))


def test_what_exec_printed_is_there_for_the_hosts_that_say_the_same_once():
    text = written(*(executed(f"h{it}", "one\n" * 40 if it == 3 else "two\n") for it in range(1, 5)), playbook="exec")
    assert "`h[1-2,4]` (3):\n\n```\ntwo\n```\n" in text
    assert text.count("\none") == SHOWN
    assert "\n... 10 more lines\n```" in text


@every_row("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_output_does_not_leave_its_block(text):
    """Mutants: markdown.py ``block`` with three backticks always, or without ``printable``."""
    page = written(executed("h", text), playbook="exec", inputs={}, left_out=(), limits=None)
    assert kinds(page) <= {*OURS, "fence"}
    assert [it.type for it in tokens(page)].count("fence") == 1
    assert not set(page) & {*map(chr, range(9)), "\x1b", "\u202e", "\u2028", "\udc80"}


@every_row("text", ["a", "`", "``", "a`b``c", "`a", "a`", "a\\", "\\`"])
def test_a_code_span_says_what_is_in_it(text):
    (span,) = [it for it in tokens(f"x {code(text)} y") if it.type == "code_inline"]
    assert span.content == text


def test_nothing_is_no_code_span():
    assert code("") == code(" \n") == ""
