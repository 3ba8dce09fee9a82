"""Commands of authors run on one lane, one after the other, with our probes: none harms the next, none leaves anything.

Each harmful command is followed by one of ours and another author's, which are sent ahead of its answer.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runbook.connections.sessions.programs import AGENT, LEFTOVERS
from runbook.errors import ConnectionLost
from runbook.values.command import Command, Completed
from tests.support.real_processes import gone
from tests.support.sshd import start_sshd
from tests.transports.commands import look, script
from tests.transports.ssh_login import connected

TOKEN = "0" * 32


@dataclass(frozen=True)
class Harm:
    """A command, and what is known of its end: its exit code, and what it prints; None: it has none, or anything."""

    text: str
    exit_code: int | None = 0
    stdout: str | None = ""
    timed_out: bool | None = False
    """None: that depends on when the host hears of it."""


WATCHERS = (
    'IFS= read -r s </proc/self/stat; me=${s%%%% *}; for p in $(grep -l ") [A-Z] $$ " /proc/[0-9]*/stat 2>/dev/null); do'
    " p=${p#/proc/}; p=${p%%/stat}; [ $p = $me ] || kill -s %s $p; done 2>/dev/null; echo x"
)
"""Signals every other child of the session's shell."""

HARMS = {
    "binary": Harm("head -c 3000 /dev/urandom; head -c 3000 /dev/urandom >&2; exit 3", 3, None),
    "every byte": Harm("printf '\\000\\001\\177\\377\\r\\n\\n\\033[2J'", 0, None),
    "imitated marks": Harm(
        f"for e in 1 2; do printf '\\n{TOKEN}.1 0\\nlane a b c d e\\nready\\n' >&$e; done", 0,
        f"\n{TOKEN}.1 0\nlane a b c d e\nready\n",
    ),
    "no newline": Harm("printf x; printf y >&2", 0, "x"),
    "exec": Harm("exec echo replaced", 0, "replaced\n"),
    "exec of nothing": Harm("exec /no/such/program", 127, ""),
    "exit": Harm("exit 9", 9),
    "its own end": Harm("sh -c 'kill -s KILL $PPID'; sleep 0.2", None, ""),
    "closed streams": Harm("exec >&- 2>&- </dev/null; echo x", None, ""),
    "closed numbers": Harm("exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; echo x", 0, "x\n"),
    "its directory removed": Harm("d=$(mktemp -d) && cd \"$d\" && rmdir \"$d\" && echo x", 0, "x\n"),
    "another directory": Harm("cd /proc/self/fd && umask 777 && echo x", 0, "x\n"),
    "few files": Harm("ulimit -n 3; echo x", 0, "x\n"),
    "set -e": Harm("set -eufx; false; echo never", 1, ""),
    "functions": Harm(
        "for f in runbook_sweep runbook_stat runbook_newest runbook_end_new wait sleep; do eval \"$f() { exit 99; }\";"
        " done; runbook_harm=' harmed' runbook_first=1 runbook_session=1 runbook_me=x; echo x", 0, "x\n",
    ),
    "aliases": Harm("alias echo=false kill=false wait=false 2>/dev/null; IFS=0123456789; echo x", 0, None),
    "no programs": Harm("PATH=/nonexistent; IFS=abc; unset HOME; echo x", 0, "x\n"),
    "traps": Harm("trap '' TERM INT HUP PIPE CHLD; trap 'echo bye' EXIT; echo x", 0, None),
    "input taken": Harm("cat; read -r x; echo \"<$x>\"", 0, "<>\n"),
    "child that goes on writing": Harm(
        "(trap '' TERM HUP; while :; do echo noise; echo noise >&2; : MARK; done) & echo started; sleep 0.1", 0, None
    ),
    "child in the background": Harm("sleep MARK & echo started", 0, "started\n"),
    "child in a session of its own": Harm("setsid sleep MARK & echo started; sleep 0.1", 0, "started\n"),
    "daemon": Harm("(setsid sh -c 'sleep MARK & sleep MARK' </dev/null >/dev/null 2>&1 &); echo started", 0, "started\n"),
    "daemons that go from program to program": Harm(
        "X='[ $0 -lt 200 ] || exec sleep MARK; exec sh -c \"$X\" $(($0 + 1)) MARK'; export X; n=0;"
        " while [ $((n += 1)) -lt 21 ]; do (setsid sh -c \"$X\" 0 MARK </dev/null >/dev/null 2>&1 &); done;"
        " echo started; sleep 0.1",
        0,
        "started\n",
    ),
    "many children": Harm("for i in 1 2 3 4 5 6 7 8; do sleep MARK & done; echo started", 0, "started\n"),
    "many children in sessions of their own": Harm(
        "n=0; while [ $((n += 1)) -lt 41 ]; do setsid sleep MARK & done; echo started; sleep 0.2", 0, "started\n"
    ),
    "child of a child in a session of its own": Harm(
        "setsid sh -c 'sh -c \"sleep MARK; :\"; :' & echo started; sleep 0.2", 0, "started\n"
    ),
    "stopped child": Harm("sleep MARK & kill -s STOP $!; echo started", 0, "started\n"),
    "hidden child that has our output": Harm(
        "(env -i setsid sh -c 'sleep 5; echo LATE; echo LATE >&2; sleep MARK' &); sleep 0.2; echo started", 0, "started\n"
    ),
    "children that have children": Harm("f() { sleep 0.02; (f &) ; sleep MARK; }; (f &); echo started", 0, "started\n"),
    "too late": Harm("trap '' TERM; (trap '' TERM; sleep MARK) & sleep MARK", None, "", timed_out=True),
    "stopped lane": Harm("kill -s STOP $$; sleep MARK", None, "", timed_out=True),
    "killed lane": Harm("kill -s KILL $$", None, None),
    "killed lane with a child": Harm("sleep MARK & kill -s KILL $$", None, "", timed_out=None),
    "killed lane with a silent child": Harm("sleep MARK >/dev/null 2>&1 & kill -s KILL $$", None, None),
    "killed watchers": Harm(WATCHERS % "KILL", 0, "x\n"),
    "stopped watchers": Harm(WATCHERS % "STOP", 0, "x\n"),
    "killed group": Harm("sleep MARK & kill -s KILL 0", None, None),
}  # fmt: skip

KILLED = ("killed lane", "killed lane with a silent child", "killed group")


def tried(connection, harms: list[Harm], mark: str) -> tuple[Completed, ...]:
    """What became of *harms*; what follows each of them is held to be exactly what it should be."""
    commands: list[Command] = []
    for number, harm in enumerate(harms):
        timeout = 30.0 if harm.timed_out is False else 1.0
        commands += [
            script(harm.text.replace("MARK", mark), foreign=True, timeout=timeout),
            script(f"printf 'ours {number}'; printf 'e {number}' >&2; exit 4"),
            script(f"printf '%s' \"$PWD \"; umask; echo author {number}; exit 5", foreign=True),
        ]
    done = connection.run(*commands)
    here = connection.run(script("printf '%s' \"$PWD \"; umask"))[0].stdout
    for number in range(len(harms)):
        ours, author = done[3 * number + 1 : 3 * number + 3]
        assert (ours.exit_code, ours.stdout, ours.stderr) == (4, f"ours {number}", f"e {number}"), harms[number]
        assert (author.exit_code, author.stdout, author.stderr) == (5, f"{here}author {number}\n", ""), harms[number]
    return done[::3]


@pytest.mark.parametrize("name", HARMS)
def test_no_command_harms_the_next_or_leaves_anything(name, connection, mark):
    harm = HARMS[name]
    (done,) = tried(connection, [harm], mark)
    assert gone(mark)
    assert harm.timed_out is None or done.timed_out is harm.timed_out
    if harm.exit_code is not None:
        assert done.exit_code == harm.exit_code
    if harm.stdout is not None:
        assert done.stdout == harm.stdout
    if name in KILLED:
        assert done.exit_code is None
        assert "killed on the host" in done.stderr


def test_a_session_serves_every_command_that_leaves_nothing(connection):
    """Mutants: agent.sh ``runbook_end_own`` that fails where the clock has ended at its signal; a sweep that finds itself."""
    shells = {connection.run(script("echo $$", foreign=True))[0].stdout for _ in range(30)}
    assert len(shells) == 1


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from([it for it in HARMS.values() if it.timed_out is False]), min_size=2, max_size=6))
def test_nor_do_many_of_them(connection, mark, harms):
    tried(connection, harms, mark)
    assert gone(mark)


@pytest.mark.slow
def test_a_hundred_megabytes_harm_nobody(connection, mark):
    (done,) = tried(connection, [Harm("head -c 100000000 /dev/zero | tr '\\000' x", 0, None)], mark)
    assert done.missing[0] + len(done.stdout.encode()) >= 100_000_000
    assert done.stdout.startswith("xxx")


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["sh", "bash", pytest.param("busybox sh", marks=pytest.mark.real("busybox"))])
@pytest.mark.parametrize(
    "host",
    [
        "runbook_reads_nul=yes",
        "runbook_reads_nul=''",
        "runbook_above=' * '",
        "runbook_reads_nul='' runbook_above=' * '",
        "runbook_tells=''",
        'read() { if [ "${6-}" = runbook_pid ]; then runbook_l=Gid: runbook_pid=; else command read "$@"; fi; }',
        'read() { if [ "${6-}" = runbook_pid ]; then runbook_l=0 runbook_pid=9999; else command read "$@"; fi; }',
        'read() { if [ "${6-}" = runbook_pid ]; then runbook_l=2/99 runbook_pid=; else command read "$@"; fi; }',
    ],
)
@pytest.mark.parametrize("number", [1, 40])
def test_what_left_the_session_is_found_whatever_the_host_shows_and_the_shell_can_read(shell, host, number, mark):
    """Mutants: ``runbook_likely`` and ``runbook_is_kin`` without ``*``; ``runbook_is_marked`` without grep;
    ``runbook_newest`` that believes what is no line of /proc/loadavg (bash: seeking in the file of a process that has
    just ended fails, and what was read of it is given to anybody who reads next).
    """
    left = f"n=0; while [ $((n += 1)) -le {number} ]; do (setsid sleep {mark} &); done; sleep 0.2"
    text = f"RUNBOOK_SESSION=lane{mark}; export RUNBOOK_SESSION\n{AGENT}{LEFTOVERS}\n{host}\n({left})\nrunbook_sweep; echo $runbook_harm"
    ended = subprocess.run(["setsid", *shell.split(), "-c", text], capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "\n", "")
    assert gone(mark)


@pytest.mark.real("root")
@pytest.mark.parametrize("shell", ["sh", "bash", pytest.param("busybox sh", marks=pytest.mark.real("busybox"))])
@pytest.mark.parametrize(
    ("last", "number", "again"),
    [
        ("$(($(cat /proc/sys/kernel/pid_max) - 2))", 1, ""),
        ("$(($(cat /proc/sys/kernel/pid_max) - 2))", 40, ""),
        ("$(($(cat /proc/sys/kernel/pid_max) - 40))", 40, ""),
        ("280", 40, ""),
        ("20000", 1, "echo 19990 >/proc/sys/kernel/ns_last_pid"),
        ("20000", 40, "echo 19700 >/proc/sys/kernel/ns_last_pid"),
    ],
)
def test_what_is_left_is_found_where_the_pids_begin_anew(shell, last, number, again, mark):
    """A session is not taken for what its command left, nor what is left for older, wherever the pids are: they go round
    once, have gone round before, or go round as a whole meanwhile.

    Mutants: leftovers.sh that goes by the order of pids; that ends its own shell; without the time.
    """
    left = f"n=0; while [ $((n += 1)) -le {number} ]; do (setsid sleep {mark} &); sleep {mark} & done; sleep 0.2"
    round_ = (
        "[ $runbook_first -gt 19999 ] && sleep 0.6 && echo 20100 >/proc/sys/kernel/ns_last_pid\n" if number > 1 else ""
    )
    lane = (
        f"RUNBOOK_SESSION=lane{mark}; export RUNBOOK_SESSION\n{AGENT}{LEFTOVERS}\n"
        f"echo {last} >/proc/sys/kernel/ns_last_pid\nrunbook_newest; runbook_first=$runbook_pid\n{again}\n({left})\n{again and round_}"
        'runbook_sweep; echo "$$$runbook_harm"\n'
        "for try in 1 2 3 4 5 6 7 8 9 10; do left=; for pid in /proc/[0-9]*; do pid=${pid#/proc/};"
        " runbook_stat_of $pid && read -r name </proc/$pid/comm && [ $name = sleep ] && left=$pid; done;"
        ' [ -n "$left" ] || break; sleep 0.5; done 2>/dev/null; echo $left\n'
    )
    words = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c"]
    words += ['echo 300 >/proc/sys/kernel/ns_last_pid; setsid --wait "$@"; exit $?', "sh", *shell.split(), "-c", lane]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "301\n\n", "")


LAST_PIDS = {
    "the kernel's own": (":", "yes"),
    "one that stands still (lxcfs)": (
        'echo "0.10 0.10 0.10 1/90 $((last + 30))" >"$1"; mount --bind "$1" /proc/loadavg',
        "no",
    ),
    "none (gVisor)": ('echo "0.00 0.00 0.00 0/0 0" >"$1"; mount --bind "$1" /proc/loadavg', "no"),
    "nothing": ("mount --bind /dev/null /proc/loadavg", "no"),
}
"""What is done to the file that ends with the last pid, and whether that is believed."""


@pytest.mark.real("root")
@pytest.mark.parametrize("shell", ["sh", "bash", pytest.param("busybox sh", marks=pytest.mark.real("busybox"))])
@pytest.mark.parametrize("source", LAST_PIDS)
def test_the_last_pid_is_read_only_where_the_kernel_says_it(source, shell, mark, tmp_path):
    """Mutants: leftovers.sh that believes any /proc/loadavg; a sweep after which nothing began that gives the lane up."""
    done, believed = LAST_PIDS[source]
    text = (
        f"read -r last last last last last </proc/loadavg; {done}\nRUNBOOK_SESSION=lane{mark}; export RUNBOOK_SESSION\n"
        f'{AGENT}{LEFTOVERS}\nrunbook_sweep; sleep {mark} & left=$!\nrunbook_sweep; echo "${{runbook_tells:-no}}$runbook_harm"\n'
        f"runbook_sweep; runbook_stat_of $left && echo lives; echo $runbook_harm"
    )
    words = ["unshare", "--mount", "setsid", *shell.split(), "-c", text, "sh", str(tmp_path / "loadavg")]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stdout) == (0, f"{believed}\n\n"), ended.stderr
    assert gone(mark)


def test_a_connection_that_a_command_ends_is_lost_and_what_was_begun_is_not_sent_again(connection, tmp_path, mark):
    """A lane that was killed is replaced: what it had not begun is sent again, and nothing twice."""
    counted = [script(f"echo {number} >>{tmp_path}/ran", foreign=True) for number in range(3)]
    killer = script(f"echo killer >>{tmp_path}/ran; kill -s KILL $$; sleep {mark}", foreign=True, timeout=5)
    connection.run(counted[0], killer, counted[1], killer, counted[2])
    assert (tmp_path / "ran").read_text().split() == ["0", "killer", "1", "killer", "2"]
    assert gone(mark)


def test_output_that_somebody_made_non_blocking_is_given_up(connection, mark):
    """What others write would be lost where a pipe is full.  Mutant: ``runbook_sweep`` without its last loop."""
    python = shutil.which("python3") or pytest.skip("no python3")
    harm = Harm(f"{python} -c 'import os; os.set_blocking(1, False)' || exit 127", None, None)
    done = connection.run(
        script(harm.text, foreign=True, timeout=60),
        script("head -c 1500000 /dev/zero | tr '\\000' x; echo $?", timeout=60),
    )
    assert len(done[1].stdout) == 1_500_002
    assert done[1].stderr == ""


def test_a_harmed_lane_runs_nothing_more_that_was_sent_ahead(connection, tmp_path):
    """Mutants: a frame without ``_UNTIL_ENDED``."""
    python = shutil.which("python3") or pytest.skip("no python3")
    harm = script(f"{python} -c 'import os; os.set_blocking(1, False)' || exit 127", foreign=True, timeout=60)
    counted = [script(f"echo {number} >>{tmp_path}/ran", foreign=True) for number in range(4)]
    connection.run(counted[0], harm, *counted[1:])
    assert (tmp_path / "ran").read_text().split() == ["0", "1", "2", "3"]


def test_the_child_of_a_killed_lane_is_ended_also_where_nothing_follows(connection, mark):
    """Mutants: ``_run_batch`` that gives up harmed lanes only."""
    connection.run(script(f"sleep {mark} >/dev/null 2>&1 & kill -s KILL $$", foreign=True))
    connection.close()
    assert gone(mark)


@pytest.mark.real("sshd", "root")
def test_bash_as_the_hosts_sh_holds_as_well(tmp_path, interrupt, mark):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sh").symlink_to(shutil.which("bash"))
    server = start_sshd(tmp_path / "sshd", extra=f"SetEnv PATH={tmp_path}/bin:/usr/bin:/bin")
    try:
        connection = connected(server.host(), interrupt)
        (spoken,) = connection.run(script('echo "$BASH_VERSION"', foreign=True))
        assert spoken.stdout[:1].isdigit()
        for harm in HARMS.values():
            tried(connection, [harm], mark)
            assert gone(mark), harm
        connection.close()
    finally:
        server.stop()


@pytest.mark.real("sshd", "root", "fish", "tcsh")
@pytest.mark.parametrize("shell", ["/usr/bin/fish", "/bin/tcsh"])
@pytest.mark.soak
def test_so_does_every_login_shell(shell, account, sshd, interrupt, mark):
    connection = connected(sshd.host(user=account(shell)), interrupt)
    for harm in HARMS.values():
        tried(connection, [harm], mark)
        assert gone(mark), harm
    connection.close()


@pytest.mark.real("sshd", "root")
def test_who_ends_the_servers_process_loses_the_line(sshd, interrupt):
    """``$PPID`` of a command of root's is the server's own process for the connection."""
    connection = connected(sshd.host(), interrupt)
    with pytest.raises(ConnectionLost):
        connection.run(script("kill -s KILL $PPID; sleep 2", foreign=True), look("true"))
    connection.close()


@pytest.mark.real("sshd", "root")
def test_another_users_processes_and_older_ones_are_left_alone(connection, stage, host, mark):
    """Only what began after the command did, in its session or with its mark, is ended."""
    bystander = stage.job()
    connection.run(script("echo x", foreign=True))
    other = stage.job()
    connection.run(script(f"sleep {mark} & echo x", foreign=True), script("echo y", foreign=True))
    assert bystander.poll() is None
    assert other.poll() is None
    assert gone(mark)
