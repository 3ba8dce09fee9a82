"""What is kept of a stream that does not end, and what is said of the rest."""

from __future__ import annotations

from runbook.connections.sessions.framed_output import KEPT, UNREAD, Stream
from runbook.values.command import Completed
from runbook.values.excerpts import excerpt, gap
from runbook.values.kept_output import MIN_KEPT_CHARACTERS, MOST_OF_HOST, kept
from runbook.values.playbook import Phase
from runbook.values.result import SentCommand, Status, StepResult
from tests.support.tables import every_row


def test_what_nobody_reads_is_dropped_and_told():
    stream = Stream()
    for _ in range(100):
        stream.feed(b"x" * 65536)
        assert stream.line("lane") is None
    assert stream.flooded
    assert len(stream._waiting) <= UNREAD + 65536


def test_a_mark_without_an_end_is_no_mark_of_ours():
    stream = Stream()
    stream.feed(b"said\ntoken" + b"x" * 1000)
    part = stream.take("token")
    assert part is not None
    assert part.text == "said"
    assert not part.word.isdigit()


def test_both_ends_of_a_flood_are_kept_and_the_rest_is_counted():
    stream, sent = Stream(), 0
    for number in range(200):
        data = b"%07d\n" % number * 8192
        sent += len(data)
        stream.feed(data)
        assert stream.take("token") is None
    stream.feed(b"\ntoken 0\n")
    part = stream.take("token")
    assert part is not None
    assert part.text.startswith("0000000\n")
    assert part.text.rstrip().endswith("0000199")
    assert part.missing == sent - 2 * KEPT
    assert f"[... {part.missing} bytes left out ...]" in part.text


@every_row(
    ("text", "missing", "left"),
    [
        ("x" * 1000, 0, "900 bytes"),
        ("é" * 1000, 0, "1800 bytes"),
        ("\ufffd" * 1000, 0, "at least 900 bytes"),
        ("x" * 500 + gap(77) + "x" * 500, 77, "977 bytes"),
        ("x" * 500 + gap(77) + "x" * 600, 0, "1029 bytes"),
    ],
)
def test_an_excerpt_counts_what_it_leaves_out(text, missing, left):
    made = excerpt(text, missing, most=100)
    assert f"\n[... {left} left out ...]\n" in made
    assert made.startswith(text[:50])
    assert made.endswith(text[-50:])
    assert excerpt(made, missing, most=len(made)) == made
    assert excerpt(excerpt(text, missing, most=300), most=100) == made, "in two steps, the same is said"


def test_a_host_keeps_so_much_and_its_longest_answers_are_cut():
    commands = tuple(SentCommand(line="x", effect="read", stdout="y" * size) for size in (10, 2000, *[60_000] * 40))
    step = StepResult(id="s", phase=Phase.DIAGNOSE, action="a", status=Status.OK, commands=commands)
    (small,) = kept([step])
    assert sum(len(it.stdout) for it in small.commands) < MOST_OF_HOST * 1.01
    assert [len(it.stdout) for it in small.commands[:2]] == [10, 2000]
    assert all("bytes left out" in it.stdout for it in small.commands[2:])
    (few,) = kept([step], most=1)
    assert all(len(it.stdout) < MIN_KEPT_CHARACTERS + 50 for it in few.commands)
    assert kept([small]) == (small,)


def test_what_is_missing_makes_an_answer_cut():
    assert Completed(exit_code=0, missing=(0, 1)).cut
    assert not Completed(exit_code=0).cut
