"""Texts are shown together when they differ in amounts, and never when they differ in what happened."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runbook.text.similar_texts import block_of, merged_lines
from tests.support.tables import every_row


def together(one: list[str] | str, other: list[str] | str, *, strict: bool) -> list[str] | None:
    blocks = [
        block_of([lines] if isinstance(lines, str) else lines, host, strict=strict)
        for lines, host in ((one, "gpu-01"), (other, "gpu-02"))
    ]
    return merged_lines(blocks) if blocks[0].key == blocks[1].key else None


@every_row("strict", [True, False])
@every_row(
    ("one", "other", "told"),
    [
        ("stopped 3 processes", "stopped 5 processes", "stopped 3..5 processes"),
        ("stopped 1 process", "stopped 12 processes", "stopped 1..12 processes"),
        ("1 GPU at 5 % or less", "8 GPUs at 5 % or less", "1..8 GPUs at 5 % or less"),
        ("4 leftover process(es) hold", "1 leftover process(es) hold", "1..4 leftover process(es) hold"),
        ("timed out after 30 s", "timed out after 30.1 s", "timed out after 30 s..30.1 s"),
        ("took 59 s", "took 1 min 3 s", "took 59 s..1 min 3 s"),
        ("9.5 GiB free", "10 GiB free", "9.5..10 GiB free"),
        ("gpu-01: no route to 10.0.0.1", "gpu-02: no route to 10.0.0.2", "…: no route to …"),
        (
            "pid 99 (root) python a.py",
            "pid 100 (root) python a.py",
            "pid 99 on gpu-01, 100 on gpu-02 (root) python a.py",
        ),
        (
            "  on: GPU 0 (GPU-1ab00000-0000-4000-8000-000000000000)",
            "  on: GPU 0 (GPU-2ab00000-0000-4000-8000-000000000000)",
            "  on: GPU 0 (GPU-…)",
        ),
    ],
)
def test_pids_counts_times_sizes_and_addresses_are_marked(one, other, told, strict):
    assert together(one, other, strict=strict) == [told]


@every_row("strict", [True, False])
@every_row(
    ("one", "other"),
    [
        ("exit code 1", "exit code 137"),
        ("exit code: 1", "exit code: 137"),
        ("ended by signal 9", "ended by signal 15"),
        ("rc=1", "rc=2"),
        ("XID 79 on GPUs", "XID 48 on GPUs"),
        ("Xid 79, off the bus", "Xid 48, off the bus"),
        ("holds /dev/nvidia0", "holds /dev/nvidia1"),
        ("GPU 0 is busy", "GPU 3 is busy"),
        ("pid 1 (root) train.py --port 30000", "pid 1 (root) train.py --port 30001"),
        ("pid 1 (root) qwen2.5", "pid 1 (root) qwen2.6"),
        ("pid 1 (root) a", "pid 1 (alice) a"),
        ("Permission denied", "No such file"),
        ("stopped 3 processes", "started 3 processes"),
        ("driver 550.54.15", "driver 535.104.05"),
        ("3 processes in /var/log/a", "3 processes in /var/logs/a"),
        ("| 3 files", "| 4 files"),
        ("  $ kill 3", "  $ kill 4"),
    ],
)
def test_what_names_a_thing_keeps_texts_apart(one, other, strict):
    assert together(one, other, strict=strict) is None


@every_row(("one", "other"), [("load: 97.3", "load: 3.2"), ("returned errors 3 of 4", "returned errors 2 of 4")])
def test_a_bare_number_in_a_reason_is_not_taken_for_a_quantity(one, other):
    assert together(one, other, strict=True) is None
    assert together(one, other, strict=False) is not None


def test_lists_of_different_length_are_told_together_with_how_many_there_are():
    one = ["pid 5 (root) a.py", "pid 6 (root) a.py", "pid 7 (root) b.py"]
    other = ["pid 9 (root) a.py", "pid 8 (root) b.py"]
    assert together(one, other, strict=True) == [
        "pid 5 and 6 on gpu-01, 9 on gpu-02 (root) a.py",
        "pid 7 on gpu-01, 8 on gpu-02 (root) b.py",
    ]
    assert together("  held: pid 5 holds /dev/a; pid 6 holds /dev/a", "  held: pid 7 holds /dev/a", strict=True) == [
        "  held: pid 5 and 6 on gpu-01, 7 on gpu-02 holds /dev/a"
    ]
    assert together("left: 3 GiB in a; 4 GiB in a", "left: 5 GiB in a", strict=True) == [
        "left: 3..5 GiB in a (1..2 of these)"
    ]


def test_a_dozen_pids_are_named_with_their_hosts_and_the_rest_is_counted():
    """Mutants: pids as a range; a pid that is shown on another host; the rest left out in silence."""
    blocks = [block_of([f"pid {number} (root) a.py"], f"gpu-{number}", strict=True) for number in range(50)]
    (line,) = merged_lines(blocks[:12])
    assert line == "pid " + ", ".join(f"{number} on gpu-{number}" for number in range(12)) + " (root) a.py"
    assert merged_lines(blocks)[0].endswith("11 on gpu-11, and 38 more (root) a.py")


@given(st.lists(st.text(alphabet="ab1 .:;-/(pids)s%\n\0", max_size=30), max_size=4), st.booleans())
def test_a_block_alone_is_told_as_alike_to_itself(lines, strict):
    block = block_of(lines, "a", strict=strict)
    assert block.key == block_of(lines, "a", strict=strict).key
    told = merged_lines([block, block])
    assert len(told) <= len(lines)


WORDS = st.sampled_from(
    ["pid", "exit code", "3", "17", "processes", "process", "holds", "/dev/nvidia0", "XID", "4 s", "GiB"]
)


@given(st.lists(WORDS, max_size=8), st.lists(WORDS, max_size=8), st.booleans())
def test_alike_is_the_same_either_way_round(one, other, strict):
    first, second = " ".join(one), " ".join(other)
    assert (together(first, second, strict=strict) is None) == (together(second, first, strict=strict) is None)
