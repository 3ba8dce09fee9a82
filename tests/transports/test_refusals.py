"""What is never sent, what is never believed, and what is said of it; on this machine and over a real sshd."""

from __future__ import annotations

import pytest

from runbook.connections.sessions.session import ShellSession
from runbook.errors import Cancelled
from runbook.execution.diagnosis.probe_types import ProbeAnswer, ProbeFailure
from runbook.values.command import Command, Effect
from runbook.values.result import Status
from tests.transports.commands import change, look, script
from tests.transports.direct_steps import looked, sent

UNSENDABLE: tuple[dict, ...] = (
    {"argv": ("echo", "a\0b")},
    {"argv": ("echo", "\ud800")},
    {"argv": ("\0",)},
    {"argv": ("-x",)},
    {"argv": ()},
    {"script": "echo \0"},
    {"script": "echo $1", "argv": ("\0",)},
    {"argv": ("cat",), "stdin": "\0"},
    {"argv": ("cat",), "stdin": "\udcff"},
    {"argv": ("env",), "env": (("A", "\0"),)},
    {"argv": ("env",), "env": (("A B", "1"),)},
    {"argv": ("env",), "env": (("A=$(touch x)", "1"),)},
    {"argv": ("pwd",), "cwd": "/\0"},
    {"argv": ("id",), "become": "ro\0ot"},
)


def test_what_no_host_can_be_sent_is_refused_with_words_and_the_rest_is_done(connection):
    for odd in UNSENDABLE:
        for effect in (Effect.READ, Effect.WRITE):
            command = Command(**odd, effect=effect, timeout=10.0)
            assert command.objection(), odd
            refused, fine = connection.run(command, look("echo", "fine"))
            assert refused.refused == command.objection()
            assert refused.exit_code is None
            assert not refused.answers(command)
            assert fine.stdout == "fine\n"


def test_a_look_that_cannot_be_sent_is_blind_and_a_write_failed_and_neither_counts_as_sent(connection):
    blind = looked(connection, "command", {"argv": ["echo", "a\0b"]})
    assert blind.outcome == ProbeFailure(why="argument 1 contains a NUL character, which cannot be sent to a host")
    assert blind.commands == ()
    done = sent(connection, change("echo \0"), finally_=(change("echo put back"),))
    assert (done.status, done.sent, done.commands) == (Status.FAILED, False, [])
    assert done.why == "nothing was sent: the script contains a NUL character, which cannot be sent to a host"


def test_what_is_owed_after_half_a_change_is_done_and_the_other_half_is_said_not_to_be_sent(connection, tmp_path):
    put_back = change(f"echo > {tmp_path}/back")
    done = sent(connection, change("true"), change("echo \0; true"), finally_=(put_back,))
    assert (done.status, done.sent, len(done.commands)) == (Status.FAILED, True, 2)
    assert done.why.startswith("not sent: echo")
    assert (tmp_path / "back").exists()


def test_an_answer_with_its_middle_missing_is_no_answer(connection):
    outcome = looked(connection, "flood", {}).outcome
    assert isinstance(outcome, ProbeFailure)
    assert outcome.why.startswith("the output was too long, and its middle is missing: yes 0123456789abcdef | head")


def test_what_an_authors_own_command_printed_is_shown_as_it_came_and_never_parsed_in_part(connection):
    flood = ["sh", "-c", "yes 0123456789abcdef | head -c 9000000"]
    shown = looked(connection, "command", {"argv": flood}).outcome
    assert isinstance(shown, ProbeAnswer)
    assert "bytes left out" in shown.state.value
    counted = looked(connection, "command", {"argv": flood, "parse": "lines"}).outcome
    assert isinstance(counted, ProbeAnswer)
    assert "its middle is missing" in counted.state.value.why


def test_a_command_cannot_learn_the_marks_that_end_its_output(connection, monkeypatch):
    tokens: list[str] = []
    plain = ShellSession.token

    def recorded(lane: ShellSession) -> str:
        tokens.append(plain(lane))
        return tokens[-1]

    monkeypatch.setattr(ShellSession, "token", recorded)
    spy = 'set; env; cat /proc/$$/cmdline /proc/$PPID/cmdline /proc/self/environ /proc/$$/environ; echo "$c $l $n $*"'
    for command in (script(spy), change(spy), script(spy, foreign=True), look("cat", "/proc/self/environ")):
        (told,) = connection.run(command)
        assert told.exit_code == 0
        assert "PATH=" in told.stdout
        assert len(tokens[-1]) > 32
        assert tokens[-1].split(".")[0] not in told.stdout
    assert len(tokens) == 4


def test_a_forged_mark_of_the_lanes_own_name_ends_nothing(connection):
    forged = 'printf \'\\n%s.1 0\\n%s.2 0\\n\' "$RUNBOOK_SESSION" "$RUNBOOK_SESSION"; sleep 0.2; echo real; exit 3'
    for command in (script(forged), change(forged)):
        (done,) = connection.run(command)
        assert done.exit_code == 3
        assert done.stdout.endswith("real\n")


LONG = "\n".join(["", "echo the first line", *("# and so on" for _ in range(50)), "sleep 60"])


def test_words_about_a_command_are_one_short_line(connection, interrupt):
    interrupt.pressed = 1
    with pytest.raises(Cancelled) as caught:
        connection.run(script(LONG, foreign=True))
    assert str(caught.value) == "asked to stop before this command was sent: echo the first line ..."
    with pytest.raises(Cancelled) as caught:
        connection.run(script(LONG))
    assert str(caught.value) == "asked to stop before this command was sent: a script of runbook's own"
    assert Command(argv=("echo", "x" * 500), effect=Effect.READ).brief() == "echo " + "x" * 75 + " ..."
    assert Command(script="\n true\n", effect=Effect.READ).brief() == "true"
    assert Command(script="\nLC_ALL=C; export LC_ALL\ndate\n", effect=Effect.READ).brief() == "a script of 2 lines"
    assert Command(script="\ndate\ndate\n", effect=Effect.READ, called=("end", "12")).brief() == "script end 12"
