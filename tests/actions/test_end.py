"""End exactly the processes that were given: real ones, with namesakes, younger ones and protected ones beside them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from runbook.codec import to_json
from runbook.errors import ConfigError, ProbeError
from runbook.language.arguments import build
from runbook.library.jobs import processes
from runbook.library.processes import end
from runbook.library.processes.facts.table import table_of
from runbook.library.processes.facts.victims import processes_in_words
from runbook.protocols import Fails, Holds
from runbook.values.plan import Blocked, Change, NoChange
from runbook.values.types import Unknown
from tests.support.probe_driver import drive
from tests.support.real_processes import lives
from tests.support.waiting import until


def given(machine, stage, *pids: int) -> list:
    """The processes with *pids*, as the probe `processes` gives them to an expression."""
    state = drive(processes.probe(processes.Args(patterns=(stage.word,))), machine)
    return to_json([it for it in state.matches if it.pid in pids])


def args(processes_: list, **keys) -> end.Args:
    return build(end.Args, {"processes": processes_, "grace": 1, **keys})


def look(chosen: end.Args, machine) -> end.State:
    return drive(end.probe(chosen), machine)


def carry_out(change, machine) -> str:
    assert isinstance(change, Change), change
    (done,) = machine.run(*change.commands)
    return end.outcome(change.summary, (done.stdout,))


def test_exactly_those_that_were_given_are_ended(machine, stage):
    """Mutants: ``_state`` by command line; by pid without the start; with all that match."""
    victim, namesake = stage.job(), stage.job()
    chosen = args(given(machine, stage, victim.pid))
    young = stage.job()
    before = look(chosen, machine)
    change = end.decide(chosen, before)
    assert [it.pid for it in change.targets] == [victim.pid]
    assert end.holds(chosen, before).why.startswith(f"1 process still runs: pid {victim.pid} ")
    assert carry_out(change, machine) == "end 1 process (TERM, KILL after 1 s)"
    after = look(chosen, machine)
    assert end.settled(chosen, before, after)
    assert (after.alive, after.gone) == ((), 1)
    assert isinstance(end.decide(chosen, after), NoChange)
    assert isinstance(end.holds(chosen, after), Holds)
    assert (lives(victim.pid), lives(namesake.pid), lives(young.pid)) == (False, True, True)


def test_a_pid_that_another_process_has_by_now_is_not_the_one(machine, stage):
    """Mutants: the start time left out of what is wanted."""
    (one,) = given(machine, stage, stage.job().pid)
    chosen = args([{**one, "start": one["start"] - 1}])
    state = look(chosen, machine)
    assert (state.alive, state.gone) == ((), 1)
    assert isinstance(end.decide(chosen, state), NoChange)
    assert lives(one["pid"])


def test_the_one_that_needs_the_second_signal_is_named(machine, stage):
    """Mutants: terminate.sh without ``by``; ``outcome`` without the pids."""
    stubborn, willing = stage.job(ignores="TERM"), stage.job()
    chosen = args(given(machine, stage, stubborn.pid, willing.pid))
    summary = carry_out(end.decide(chosen, look(chosen, machine)), machine)
    assert summary == f"end 2 processes (TERM, KILL after 1 s); KILL was needed for pid {stubborn.pid}"


def test_what_starts_it_again_is_named(machine, stage):
    """Mutants: ``started`` left out of what came back; ``_is_later`` without the user, or the command; ``may_restart``
    not heeded.
    """
    line = f"python worker_{stage.word}.py"
    loop = f"while :; do (exec -a '{line}' sleep 800) & wait; done"
    keeper = stage.start(["bash", "-c", f"echo up; {loop}"])
    children = Path(f"/proc/{keeper.pid}/task/{keeper.pid}/children")
    until(
        lambda: [it for it in children.read_text().split() if Path(f"/proc/{it}/comm").read_text() == "sleep\n"], "it"
    )
    stage.others += [int(children.read_text())]
    namesake = stage.job(name=line)
    chosen = args([it for it in given(machine, stage, *stage.others) if it["command"].startswith(line)])
    before = look(chosen, machine)
    carry_out(end.decide(chosen, before), machine)
    after = look(chosen, machine)
    stage.others += [it.pid for it in after.started]
    assert not end.settled(chosen, before, after)
    words = end.explain(chosen, before, after)
    assert "respawned as pid" in words
    assert f"parent pid {keeper.pid})" in words
    assert str(namesake.pid) not in words
    assert end.settled(replace(chosen, may_restart=True), before, after), "where that is what is wanted"


def test_protected_ones_are_named_and_left_alone(machine, stage):
    """This test's own parents are our way in; PID 1 is nobody's victim. Mutants: ``_state`` without the split."""
    (one,) = given(machine, stage, stage.job().pid)
    start = int(Path("/proc/1/stat").read_text().rpartition(")")[2].split()[19])
    chosen = args([one, {"pid": 1, "start": start, "user": "root", "command": "init"}])
    state = look(chosen, machine)
    change = end.decide(chosen, state)
    assert [it.pid for it in state.protected] == [1]
    assert [it.pid for it in change.targets] == [one["pid"]]
    assert isinstance(end.holds(chosen, state), Fails)


def test_where_processes_of_others_are_hidden_none_is_taken_for_gone():
    """Mutants: ``_state`` without ``blind``."""
    chosen = args([{"pid": 7, "start": 8, "user": "root", "command": "x"}])
    state = end._state(chosen, end.Table(rows={}, way_in=(), uid=1, hidden="hidepid"))
    assert isinstance(state.alive, Unknown)
    assert isinstance(end.decide(chosen, state), Blocked)
    with pytest.raises(ProbeError, match="hidepid"):
        end.holds(chosen, state)


@pytest.mark.parametrize(
    "wrong", [[{"pid": 7}], [{"start": 7}], [{"pid": True, "start": 1}], [{"pid": "7", "start": 8}]]
)
def test_a_pid_alone_is_refused(wrong):
    assert "has no pid and start time" in end.objection(args(wrong))


def test_numbers_instead_of_processes_are_refused():
    with pytest.raises(ConfigError):
        args([4711])


def test_nothing_given_asks_the_host_nothing_and_changes_nothing(machine):
    chosen = args([])
    state = look(chosen, machine)
    assert machine.sent == []
    assert isinstance(end.decide(chosen, state), NoChange)
    assert isinstance(end.holds(chosen, state), Holds)


def test_a_victim_that_a_person_was_not_shown_can_be_left_out(machine, stage):
    jobs = [stage.job(), stage.job()]
    chosen = args(given(machine, stage, *(it.pid for it in jobs)))
    state = look(chosen, machine)
    less = end.without(state, frozenset({state.alive[0].key}))
    assert [it.pid for it in less.alive] == [state.alive[1].pid]
    assert end.decide(args(given(machine, stage, *(it.pid for it in jobs)), max_victims=1), state) == Blocked(
        why=f"2 processes would be ended, but max_victims is 1: {processes_in_words(state.alive)}"
    )


def test_by_hand_is_what_a_person_would_paste():
    assert end.by_hand(args([]))[1:] == ("kill -s TERM PID...", "sleep 1; kill -s KILL PID...")
    assert end.by_hand(args([], then="nothing"))[1:] == ("kill -s TERM PID...",)


def seen_as(*lines: str) -> end.State:
    """The state of pid 700 of bob, in a table of these lines."""
    one = {"pid": 700, "start": 5000, "user": "bob", "command": "python -m kernel"}
    shell = (
        "u 0 root",
        "u 1001 bob",
        "self 50 50 0 1000.0 -",
        "p 1 S 0 1 0 1 1 0 - init",
        "p 50 S 1 50 0 1 900 0 - sh",
    )
    table = table_of([*shell, *lines, "a 1 init", "a 50 sh"])
    return end._state(end.Args(processes=(one,)), table)


def test_a_process_that_its_users_many_others_hide_is_not_gone():
    """Mutants: ``_unseen`` without ``left_out``; with it for users who have none of the processes."""
    chosen = end.Args(processes=({"pid": 700, "start": 5000},))
    hidden = seen_as("left 9000 bob")
    assert isinstance(hidden.alive, Unknown)
    assert hidden.gone == 0
    assert isinstance(end.decide(chosen, hidden), Blocked)
    with pytest.raises(ProbeError, match="could be listed"):
        end.holds(chosen, hidden)
    assert not end.settled(chosen, seen_as("p 700 S 1 700 0 1 5000 1001 - python", "a 700 python"), hidden)
    assert seen_as("left 9000 carol").gone == 1


def test_one_of_our_own_connection_is_not_gone_but_left_alone():
    """Mutants: ``_ours`` left out."""
    own = {"pid": 50, "start": 900, "user": "root", "command": "sh"}
    table = table_of(
        [
            "u 0 root",
            "self 50 50 0 1000.0 -",
            "p 1 S 0 1 0 1 1 0 - init",
            "p 50 S 1 50 0 1 900 0 - sh",
            "a 1 init",
            "a 50 sh",
        ]
    )
    chosen = end.Args(processes=(own,))
    state = end._state(chosen, table)
    assert (state.alive, state.gone, state.protected[0].why) == ((), 0, "it is one of our own connection")
    decided = end.decide(chosen, state)
    assert decided == NoChange(
        why="no process that may be ended of the 1 process given still runs; left alone: pid 50: it is one of our own connection"
    )
    assert isinstance(end.holds(chosen, state), Fails)


def test_who_is_spared_beside_a_victim_is_named(machine, stage):
    """Mutants: ``names_spared`` left out."""
    victim = given(machine, stage, stage.job().pid)
    start = int(Path("/proc/1/stat").read_text().rpartition(")")[2].split()[19])
    chosen = args([*victim, {"pid": 1, "start": start}])
    change = end.decide(chosen, look(chosen, machine))
    assert [it.pid for it in change.targets] == [victim[0]["pid"]]
    assert "; left alone: pid 1: " in change.summary


def test_one_that_no_signal_reaches_has_survived_nothing():
    """Mutants: ``with_second_signal`` without ``_DENIED``."""
    words = end.outcome(
        "pid 8084 survives KILL in state S (root); pid 9 survives KILL in state S (bob)", ("8084 not permitted\n",)
    )
    assert words == (
        "pid 8084 was sent no signal: it is a process of root, and only root may; pid 9 survives KILL in state S (bob)"
    )
