"""What every transport does, tried on this machine and over a real sshd."""

from __future__ import annotations

import string
import subprocess
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runbook.errors import Cancelled
from tests.support.real_processes import end, gone, shows_up
from tests.support.tables import every_row
from tests.support.waiting import until
from tests.transports.commands import change, late, look, script
from tests.transports.interrupts import pressing

texts = st.text(alphabet=string.printable + "é漢\u202e'\"\\$`!*?[]{}~#;&|<>()", max_size=20).filter(
    lambda it: "\0" not in it
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(texts, max_size=5), texts)
def test_arguments_and_input_reach_the_host_unchanged(connection, arguments, stdin):
    probe = 'printf "%s\\0" "$@"; printf "\\1"; cat'
    (looked,) = connection.run(script(probe, *arguments, stdin=stdin))
    assert looked.exit_code == 0
    assert looked.stdout == "".join(f"{it}\0" for it in arguments) + ("\0" if not arguments else "") + "\1" + stdin
    (told,) = connection.run(look("printf", "%s\n", "-n", *arguments))
    assert told.stdout == "".join(f"{it}\n" for it in ("-n", *arguments))
    (written,) = connection.run(change(probe, *arguments, stdin=stdin))
    assert written.stdout == looked.stdout


def test_output_is_exact_also_without_a_newline_and_on_both_streams(connection):
    (done,) = connection.run(script("printf 'a\\n\\nb'; printf 'c\\n' >&2; exit 7"))
    assert (done.exit_code, done.stdout, done.stderr) == (7, "a\n\nb", "c\n")
    (empty,) = connection.run(look("true"))
    assert (empty.exit_code, empty.stdout, empty.stderr) == (0, "", "")


@every_row("code", [0, 1, 2, 126, 127, 137, 254, 255])
def test_exit_codes_are_those_of_the_program(connection, code):
    for command in (script(f"exit {code}"), change(f"exit {code}"), script(f"exit {code}", foreign=True)):
        (done,) = connection.run(command)
        assert done.exit_code == code


def test_a_program_that_is_not_there_says_127_and_a_signal_128_and_more(connection):
    missing, killed, broken = connection.run(
        look("no-such-program"), script("sh -c 'kill -s KILL $$'"), script("if then")
    )
    assert missing.exit_code == 127
    assert killed.exit_code == 137
    assert broken.exit_code == 2
    assert connection.run(look("echo", "still here"))[0].stdout == "still here\n"


def test_environment_and_directory_are_those_of_the_command_only(connection):
    env, after = connection.run(
        script('printf "%s %s" "$ONE" "$PWD"', env=(("ONE", "a 'b' $c"),), cwd="/usr"),
        script('printf "%s %s" "$ONE" "$PWD"'),
    )
    assert env.stdout == "a 'b' $c /usr"
    assert "a 'b'" not in after.stdout
    assert connection.run(look("true", cwd="/no/such"))[0].exit_code == 126


def test_what_is_not_utf_8_is_replaced_and_a_flood_is_cut_in_the_middle(connection):
    odd, flood = connection.run(
        script("printf '\\377\\376ok'"),
        script("yes aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa | head -c 20000000; echo end", timeout=60),
    )
    assert odd.stdout.endswith("ok")
    assert flood.exit_code == 0
    assert flood.stdout.endswith("end\n")
    assert "bytes left out" in flood.stdout
    assert len(flood.stdout) < 9_000_000


def test_many_looks_go_in_one_call_and_answer_in_order(connection):
    done = connection.run(*(script(f"echo {number}; echo e{number} >&2") for number in range(200)))
    assert [it.stdout for it in done] == [f"{it}\n" for it in range(200)]
    assert [it.stderr for it in done] == [f"e{it}\n" for it in range(200)]


def test_a_look_that_ignores_term_is_ended_in_time_and_nothing_of_it_is_left(connection, mark):
    hung, after = connection.run(
        script(f"trap '' TERM; (trap '' TERM; sleep {mark}); sleep {mark}", timeout=2.0), look("echo", "after")
    )
    assert hung.timed_out
    assert hung.exit_code is None
    assert after.stdout == "after\n"
    assert gone(mark)


def test_what_leaves_the_group_of_a_look_is_ended_too(connection, mark):
    (done,) = connection.run(script(f"setsid sleep {mark} & sleep 0.2; exec sleep {mark}", timeout=1.0, foreign=True))
    assert done.timed_out
    assert gone(mark)
    (done,) = connection.run(script(f"setsid sleep {mark} >/dev/null 2>&1 & echo started", foreign=True))
    assert done.stdout == "started\n"
    assert gone(mark)


def test_what_goes_on_writing_harms_no_later_look(connection):
    noise = "(i=0; while [ $i -lt 200 ]; do echo noise; sleep 0.01; i=$((i+1)); done) & echo started; sleep 0.1"
    (done,) = connection.run(change(noise))
    assert done.exit_code == 0
    assert done.stdout.replace("noise\n", "") == "started\n"
    for _ in range(20):
        assert connection.run(look("echo", "clean"))[0].stdout == "clean\n"


def test_a_write_may_leave_a_daemon_behind_and_does_not_wait_for_it(connection, mark):
    (done,) = connection.run(change(f"sleep {mark} & echo started"))
    assert done.exit_code == 0
    assert shows_up(mark)
    end(mark)


def test_a_write_past_its_timeout_gets_term_and_then_kill(connection, mark, tmp_path):
    told, begun, began = tmp_path / "told", tmp_path / "begun", time.monotonic()
    text = f"trap 'echo term > {told}' TERM; sleep {mark} & : >{begun}; wait; wait; sleep {mark}"
    done = late(connection, lambda timeout: change(text, timeout=timeout), begun)
    assert done.timed_out
    assert done.exit_code is None
    assert told.read_text() == "term\n"
    assert time.monotonic() - began >= 1.0
    assert gone(mark)


def test_what_must_not_be_killed_is_reported_and_left_running(connection, mark):
    (done,) = connection.run(change(f"sleep {mark}", timeout=1.0, unkillable=True))
    assert done.timed_out
    assert done.survivors
    assert shows_up(mark)
    end(mark)


def test_the_first_interrupt_ends_a_look_at_once(connection, interrupt, mark, tmp_path):
    pressing(interrupt, 1, tmp_path / "begun")
    with pytest.raises(Cancelled):
        connection.run(script(f"trap '' TERM; echo > {tmp_path}/begun; sleep {mark}; sleep {mark}", timeout=250))
    assert gone(mark)


def test_the_first_interrupt_lets_a_write_end_and_stops_what_comes_after(connection, interrupt, tmp_path):
    connection.run(look("true"))
    pressing(interrupt, 1, tmp_path / "begun")
    (done,) = connection.run(change(f"echo > {tmp_path}/begun; sleep 1; echo done > {tmp_path}/w", timeout=30))
    assert done.exit_code == 0
    assert (tmp_path / "w").read_text() == "done\n"
    with pytest.raises(Cancelled):
        connection.run(look("true"))
    with pytest.raises(Cancelled):
        connection.run(change("true"))
    assert connection.run(change("echo owed", owed=True))[0].stdout == "owed\n"


def test_the_second_interrupt_ends_a_write_too(connection, interrupt, mark, tmp_path):
    pressing(interrupt, 2, tmp_path / "begun")
    with pytest.raises(Cancelled) as caught:
        connection.run(change(f"echo > {tmp_path}/begun; sleep {mark}", timeout=250))
    assert caught.value.sent
    assert gone(mark)


def test_nothing_of_ours_stays_after_hanging_up(host, interrupt):
    from runbook.connections import transports
    from runbook.protocols import ConnectOptions

    made = transports.load(host.transport).connect(host, ConnectOptions(), interrupt)
    (done,) = made.run(script("printf %s $RUNBOOK_SESSION"))
    lane = done.stdout
    assert len(lane) == 16
    made.close()
    words = f"grep -ls RUNBOOK_SESSION={lane} /proc/[0-9]*/environ"
    until(lambda: not subprocess.run(words, shell=True, capture_output=True, check=False).stdout, "nothing of ours")


def test_a_write_that_was_permitted_too_long_ago_is_not_sent(connection, tmp_path):
    """Mutant: a connection that does not look at ``send_before``."""
    from runbook.protocols import seconds_since_boot

    late = change(f"echo >{tmp_path}/late", send_before=seconds_since_boot() - 0.1)
    (done,) = connection.run(late)
    assert (done.exit_code, "permitted" in done.refused, (tmp_path / "late").exists()) == (None, True, False)
    (done,) = connection.run(change(f"echo >{tmp_path}/timely", send_before=seconds_since_boot() + 60))
    assert (done.exit_code, (tmp_path / "timely").exists()) == (0, True)
