"""What a person sees on a terminal while a run is on, and what is left of it afterwards."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.reporters.terminal import REGION, Terminal
from tests.support.program import PROGRAM

FEED = (sys.executable, str(Path(__file__).with_name("replay_events.py")))
BOOK = """name: gated
diagnose:
  - id: gate
    timeout: 100s
    command: {argv: [sh, -c, 'until [ -e "$1/$2" ] || [ -e "$1/all" ]; do sleep 0.1; done', x, FOLDER, '{{ host.name }}']}
"""
CHANGE = "remediate:\n  - id: touch\n    command: {do: {argv: [touch, FOLDER/done]}}\n"

pytestmark = pytest.mark.real("tmux")
SOAK = pytest.mark.soak


@pytest.fixture
def gated(tmp_path):
    """A function that gives the command line of a run whose hosts wait until a file by their name is there."""

    def argv(*options: str, hosts: int = 4, text: str = BOOK) -> tuple[str, ...]:
        (tmp_path / "gated.yaml").write_text(text.replace("FOLDER", str(tmp_path)))
        names = [f"gpu-{number:02}" for number in range(1, hosts + 1)]
        lines = (f"  {it}: {{transport: local, gpu: none}}\n" for it in names)
        (tmp_path / "hosts.yaml").write_text("hosts:\n" + "".join(lines))
        where = ("-v", "--hosts", "all", "-i", str(tmp_path / "hosts.yaml"))
        return (*PROGRAM, "run", str(tmp_path / "gated.yaml"), *where, *options)

    return argv


def steady(lines: list[str]) -> list[str]:
    """*lines* without how long things took, and without the order in which hosts ended."""
    plain = [re.sub(r"\d+(\.\d+)? m?s\b", "N s", it) for it in lines if it and not it.isdigit()]
    return sorted(plain[: plain.index("gpu-[01-04]: healthy")]) + plain[plain.index("gpu-[01-04]: healthy") :]


@pytest.mark.parametrize(
    ("columns", "rows"),
    [(80, 24), *(pytest.param(*size, marks=SOAK) for size in ((40, 24), (200, 50), (80, 6)))],
)
def test_pending_hosts_are_named_below_the_results_and_nothing_of_it_stays(gated, tmp_path, columns, rows):
    with Terminal(columns, rows, gated("--parallel", "3")) as terminal:
        if rows < 9:
            terminal.until(lambda it: it.region()[1:] == ["  pending (4): gpu-[01-04]"])
        else:
            terminal.until(lambda it: any("probing (3" in row and "gpu-[01-03]" in row for row in it.region()))
            terminal.until(lambda it: any(row.endswith("turn: gpu-04") for row in it.region()))
        (tmp_path / "gpu-02").touch()
        seen = terminal.until(lambda it: any("1 of 4 hosts done" in row for row in it.region()))
        assert any(re.fullmatch(r"gpu-02: healthy \(\d.*\)", row) for row in seen.above()) or rows < 9
        (tmp_path / "all").touch()
        assert terminal.until_ended() == 0
        left = terminal.everything()
    assert [it for it in left if REGION.match(it)] == []
    piped = subprocess.run(gated(), capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL)
    assert steady(left[: left.index("ended with 0")]) == steady(piped.stdout.splitlines())


@SOAK
@pytest.mark.parametrize("sizes", [[(40, 24), (100, 30)], [(60, 24), (40, 24), (79, 10)], [(30, 40), (200, 50)]])
def test_a_terminal_that_changes_its_size_meanwhile_keeps_every_result_once(gated, tmp_path, sizes):
    with Terminal(80, 24, gated()) as terminal:
        terminal.until(lambda it: it.region())
        for number, (columns, rows) in enumerate(sizes, 1):
            before = terminal.until(lambda it: it.region()).region()
            terminal.until(lambda it, before=before: it.region() != before)  # so that the next frame is far away
            terminal.resize(columns, rows)
            terminal.until(lambda it, columns=columns: it.region() and all(len(row) < columns for row in it.region()))
            (tmp_path / f"gpu-{number:02}").touch()
            terminal.until(
                lambda it, number=number, columns=columns: (
                    len(it.region()) == 2
                    and f"{number} of 4 hosts" in it.region()[0]
                    and all(len(row) < columns for row in it.region())
                )
            )
        (tmp_path / "all").touch()
        assert terminal.until_ended() == 0
        left = terminal.everything()
    assert [it for it in left if REGION.match(it)] == []
    assert sorted(it[:15] for it in left if re.match(r"gpu-0\d: healthy \(", it)) == [
        f"gpu-0{it}: healthy" for it in (1, 2, 3, 4)
    ]


def test_the_question_stands_alone_and_the_run_goes_on_below_it(gated, tmp_path):
    with Terminal(80, 24, gated(text=BOOK + CHANGE)) as terminal:
        terminal.until(lambda it: it.region())
        (tmp_path / "all").touch()
        question = "Do this on 4 hosts? [y/N]"
        seen = terminal.until(lambda it: it.rows[-1].rstrip() == question and it.region() == [])
        assert any(row.startswith("gpu-[01-04]:") for row in seen.rows)
        assert any("touch" in row for row in seen.rows)
        time.sleep(3.2)  # noqa: TID251 nobody answers at once; what follows must know its own region even so
        terminal.type("y", "Enter")
        assert terminal.until_ended() == 0
        left = terminal.everything()
    assert [it for it in left if REGION.match(it)] == []
    assert "Do this on 4 hosts? [y/N] y" in left
    assert (tmp_path / "done").exists()


def test_an_interrupt_says_what_happens_above_the_region_and_leaves_nothing_of_it(gated):
    with Terminal(80, 24, gated()) as terminal:
        terminal.until(lambda it: any("probing (4" in row for row in it.region()))
        terminal.type("C-c")
        assert terminal.until_ended() == 130
        left = terminal.everything()
    assert any(it.startswith("runbook: SIGINT: ending probes") for it in left)
    assert [it for it in left if REGION.match(it)] == []
    assert not any("probing (" in it for it in left)


@SOAK
@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (40, 24), (200, 50)])
def test_two_hundred_hosts_fit_a_region_of_fixed_size(tmp_path, columns, rows):
    with Terminal(columns, rows, (*FEED, str(tmp_path)), PYTHONPATH=os.getcwd()) as terminal:
        region = terminal.until(lambda it: any("the others" in row for row in it.region())).region()
        assert region[0].startswith("feed: 0 of 200 hosts done in")
        assert len(region) == 8
        assert all(len(it) < columns and "gpu-" in it for it in region[1:])
        (tmp_path / "1").touch()
        seen = terminal.until(lambda it: it.region()[:1] and it.region()[0].startswith("feed: 100 of 200 hosts"))
        assert seen.region()[1:] == ["  waiting for their turn (100): gpu-[101-200]"[:columns]] or columns == 40
        terminal.resize(50, 24)
        (tmp_path / "2").touch()
        terminal.until_seen("feed: 200 of 200 hosts")
        (tmp_path / "3").touch()
        assert terminal.until_ended() == 0
        left = terminal.everything()
        last = terminal.screen()
    assert [it for it in left if REGION.match(it)] == []
    ends = [it for it in left if re.match(r"gpu-\d+: (healthy|failed) \(", it)]
    assert len(ends) == len(set(ends)) == 2, "the first host with each result"
    assert not any("done: " in it for it in left), "the region says how far it is"
    assert not any("\033" in it for it in left)
    assert any("no \\x1b[31mroute" in it for it in last)
    assert any(it.startswith("feed: 4 failed, 196 healthy") for it in last)


def raw(argv: tuple[str, ...], **environment: str) -> bytes:
    """What the program writes to a terminal, byte by byte."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=theirs, env={**os.environ, **environment})
    os.close(theirs)
    said = b""
    try:
        while chunk := os.read(ours, 65536):
            said += chunk
    except OSError:  # the other side is closed
        pass
    assert process.wait(30) == 0
    return said


@SOAK
@pytest.mark.parametrize(
    ("environment", "region", "colour"),
    [
        ({"TERM": "xterm-256color"}, True, True),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, True, False),
        ({"TERM": "dumb"}, False, False),
        ({"TERM": ""}, False, False),
    ],
)
def test_no_color_and_a_dumb_terminal_are_respected(gated, tmp_path, environment, region, colour):
    (tmp_path / "all").touch()
    said = raw(gated(), **{"NO_COLOR": "", **environment})
    assert (b"\033[J" in said) == region
    assert bool(re.search(rb"\033\[[0-9;]*3[0-7]m", said)) == colour
    assert region or b"\033" not in said
    assert b"gpu-[01-04]: " in said


def test_without_a_terminal_nothing_but_lines_is_written_whatever_stderr_is(gated, tmp_path):
    (tmp_path / "all").touch()
    ours, theirs = pty.openpty()
    done = subprocess.run(gated(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=theirs, check=True)
    assert select.select([ours], [], [], 0)[0] == []
    os.close(theirs)
    os.close(ours)
    assert b"\033" not in done.stdout
    assert done.stdout.endswith(b" s\n")
