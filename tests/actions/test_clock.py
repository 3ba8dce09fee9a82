"""The clock: asked for real of this machine and of programs that answer as chrony's and systemd's do."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from runbook.errors import ProbeError
from runbook.language.arguments import build
from runbook.library.system import clock
from runbook.library.system.facts.clock import read_clock
from runbook.protocols import Fails, Holds
from runbook.values.command import Completed, Effect
from runbook.values.types import Unknown
from tests.support.probe_driver import drive
from tests.support.real_processes import SHELLS, Machine, each, shell
from tests.support.tables import every_row

TRACKING = "C0000201,192.0.2.1,3,1795480216.28,{},0.0,0.0,-3.225,-0.000,0.129,0.013,0.001,64.2,Normal"


def programs(folder: Path, **texts: str) -> Path:
    made = folder / "bin"
    made.mkdir()
    for name, text in texts.items():
        (made / name).write_text(f"#!/bin/sh\n{text}\n")
        (made / name).chmod(0o755)
    return made


@pytest.mark.parametrize("named", each(SHELLS))
def test_the_time_is_that_of_the_host_and_nothing_but_reading_is_sent(tmp_path, named):
    here = Machine(shell=shell(named, tmp_path))
    state = drive(clock.probe(build(clock.Args, {})), here)
    assert abs(state.now - time.time()) < 60
    assert [it.effect for it in here.sent] == [Effect.READ]


@pytest.mark.real("dash")
@pytest.mark.parametrize(
    ("slow", "kind", "words"), [("0.4", Holds, "synchronized"), ("1.5", Fails, "the clock is -1.5 s off")]
)
def test_chronyd_is_believed_before_the_kernel(tmp_path, slow, kind, words):
    """Mutants: the sign of the offset; `timedatectl` asked first."""
    fakes = {"chronyc": f"echo {TRACKING.format(slow)}", "timedatectl": "echo NTPSynchronized=no"}
    args = build(clock.Args, {})
    state = drive(clock.probe(args), Machine(path=programs(tmp_path, **fakes)))
    assert (state.by, state.source, state.offset) == ("chronyd", "192.0.2.1", -float(slow))
    assert state.too_far is (kind is Fails)
    answer = clock.holds(args, state)
    assert isinstance(answer, kind)
    assert words in answer.why


@pytest.mark.real("dash")
def test_a_program_that_does_not_answer_is_ended_and_the_others_are_asked(tmp_path):
    fakes = {"chronyc": "exec sleep 600", "timedatectl": "echo NTPSynchronized=yes", "adjtimex": "exit 1"}
    state = drive(clock.probe(build(clock.Args, {})), Machine(path=programs(tmp_path, **fakes)))
    assert (state.synchronized, state.by, state.too_far) == (True, "the kernel", False)


@every_row(
    "done",
    [
        Completed(exit_code=None, timed_out=True),
        Completed(exit_code=0, stdout="time 1795480256\n"),
        Completed(exit_code=0, stdout="time soon\nend\n"),
        Completed(exit_code=127, stderr="date: not found"),
    ],
)
def test_an_answer_that_is_cut_or_none_is_no_clock(done):
    with pytest.raises(ProbeError):
        read_clock(done)


def test_what_nobody_says_proves_nothing_and_no_synchronization_fails():
    args = build(clock.Args, {})
    unknown = clock.State(now=1, synchronized=Unknown(why="nobody says it"), offset=0.0)
    with pytest.raises(ProbeError, match="nobody says it"):
        clock.holds(args, unknown)
    alone = clock.State(now=1, synchronized=False, by="chronyd", offset=Unknown(why="no source"), daemons=("chronyd",))
    assert clock.holds(args, alone) == Fails(why="the clock is not synchronized (chronyd sets it)")
