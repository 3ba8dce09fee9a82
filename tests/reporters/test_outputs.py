"""Whatever becomes of what it writes to, a run is carried through and keeps its exit code."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import termios
import time
from contextlib import contextmanager

import pytest

from tests.support.program import PROGRAM, runbook
from tests.support.waiting import until

NOWHERE = {
    "full": '"$@" > /dev/full',
    "closed": '"$@" >&-',
    "everything closed": '"$@" >&- <&-',
    "reader gone": 'set -o pipefail; "$@" | exec true',
}


@pytest.mark.parametrize(
    "output", ["console", pytest.param("json", marks=pytest.mark.slow), pytest.param("jsonl", marks=pytest.mark.soak)]
)
@pytest.mark.parametrize(
    "where",
    [
        "full",
        "reader gone",
        *(pytest.param(it, marks=pytest.mark.soak) for it in ("closed", "everything closed")),
    ],
)
def test_a_stdout_that_cannot_be_written_costs_one_line_and_no_host(toy, where, output):
    """Mutants: outputs.py's code saying 0 for a document that nobody got; 1 for ``| head``."""
    said = toy.sh(NOWHERE[where], "--yes", "--output", output)
    assert said.returncode == (0 if where == "reader gone" else 1), said.stderr
    assert toy.marked() == {"h1", "h2", "h3"}
    assert said.stderr.count("\n") == 1
    assert said.stderr.startswith("runbook: cannot write to stdout: ")


@pytest.mark.slow
@pytest.mark.parametrize("where", NOWHERE)
@pytest.mark.soak
def test_the_exit_code_of_the_hosts_is_kept_when_stdout_is_lost(toy, where):
    toy.marks.chmod(0o700)
    (toy.folder / "hosts.yaml").write_text(
        "hosts:\n  h1: {transport: local}\n  h2: {ssh_host: 127.0.0.1, ssh_port: 1}\n"
    )
    said = toy.sh(NOWHERE[where], "--yes")
    assert said.returncode == 4, said.stderr
    assert toy.marked() == {"h1"}


@pytest.mark.slow
def test_a_pager_that_is_closed_in_the_middle_does_not_cut_the_run_off(toy):
    said = toy.sh('"$@" | head -1; echo "${PIPESTATUS[0]}"', "--yes")
    first, code = said.stdout.splitlines()
    assert (first.startswith("toy ("), "run, on 3 hosts (h[1-3]) of " in first, code) == (True, True, "0")
    assert toy.marked() == {"h1", "h2", "h3"}
    assert "Traceback" not in said.stderr
    assert said.stderr.count("\n") <= 1


@pytest.mark.parametrize("output", ["console", pytest.param("jsonl", marks=pytest.mark.slow)])
@pytest.mark.slow
def test_a_reader_that_stalls_holds_up_no_host_and_gets_everything_in_the_end(toy, output):
    """Mutants: outputs.py telling the reporter in the run's own threads; not waiting for what is still to be written."""
    there, here = os.pipe()
    size = fcntl.fcntl(here, fcntl.F_SETPIPE_SZ, 4096)
    os.write(here, b"#" * size)  # so that not one line of the run gets in
    argv = (*toy.argv, "--yes", "--output", output)
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=here, stderr=subprocess.PIPE, text=True) as program:
        os.close(here)
        until(lambda: toy.marked() == {"h1", "h2", "h3"})
        assert program.poll() is None, "what nobody has read yet is not thrown away"
        with open(there) as reader:
            said = reader.read()[size:]
        assert (program.wait(60), program.stderr.read()) == (0, "")
    if output == "jsonl":
        kinds = [json.loads(it)["kind"] for it in said.splitlines()]
        assert (kinds[0], kinds[-1], kinds.count("host_finished")) == ("run_started", "run_finished", 3)
    else:
        assert "3 resolved" in said


@contextmanager
def stalled(toy, *argv, **keys):
    """The program, with a stdout into which not one line gets."""
    there, here = os.pipe()
    os.write(here, b"#" * fcntl.fcntl(here, fcntl.F_SETPIPE_SZ, 4096))
    with subprocess.Popen((*toy.argv, *argv), stdout=here, text=True, **keys) as program:
        os.close(here)
        try:
            yield program
        finally:
            program.kill()
            os.close(there)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("output", "signals"), [("jsonl", 1), pytest.param("json", 1, marks=pytest.mark.soak), ("console", 2)]
)
def test_an_interrupted_run_does_not_wait_for_a_reader_that_stalls(toy, output, signals):
    """Mutants: outputs.py waiting without an end; for a signal too many; standard_streams.py ending as a program usually does."""
    report = toy.folder / "good.json"
    argv = ("--yes", "--output", output, "--report", str(report))
    with stalled(toy, *argv, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE) as program:
        until(lambda: toy.marked() == {"h1", "h2", "h3"} and report.exists() and report.read_text().endswith("}\n"))
        time.sleep(0.3)  # noqa: TID251 that it does not end by itself shows with time only
        assert program.poll() is None
        words = []
        for _ in range(signals):
            program.send_signal(signal.SIGINT)
            words.append(program.stderr.readline().rstrip("\n"))
        code, said = program.wait(60), [*words, *program.stderr.read().splitlines()]
        assert code == 130, said
    assert said[signals:] == ["runbook: stdout is incomplete: nothing read it after the run was interrupted"]
    assert json.loads(report.read_text())["totals"] == {"resolved": 3}


@pytest.mark.slow
def test_nobody_is_asked_once_what_the_question_is_about_was_given_up(toy):
    """Mutants: outputs.py draining without an end; run.py asking all the same."""
    ours, theirs = pty.openpty()
    log = toy.folder / "log.jsonl"
    with stalled(toy, "--report", str(log), stdin=theirs, stderr=subprocess.PIPE) as program:
        until(lambda: log.exists() and '"asked"' in log.read_text())
        program.send_signal(signal.SIGTERM)
        assert program.wait(60) == 130
        assert "[y/N]" not in program.stderr.read()
    os.close(ours)
    os.close(theirs)
    assert toy.marked() == set()
    assert json.loads(log.read_text().splitlines()[-1])["kind"] == "run_finished"


@pytest.mark.slow
def test_a_stderr_that_nobody_reads_holds_up_no_interrupted_run(toy):
    there, here = os.pipe()
    os.write(here, b"#" * fcntl.fcntl(here, fcntl.F_SETPIPE_SZ, 4096))
    with stalled(toy, "--yes", stdin=subprocess.DEVNULL, stderr=here) as program:
        until(lambda: toy.marked() == {"h1", "h2", "h3"})
        program.send_signal(signal.SIGINT)
        assert program.wait(60) == 130
    os.close(here)
    os.close(there)


@pytest.mark.slow
def test_stderr_may_be_lost_too(toy):
    said = toy.sh('"$@" >&- 2>&- <&-', "--yes")
    assert said.returncode == 1
    assert toy.marked() == {"h1", "h2", "h3"}
    assert toy.sh('"$@" 2>/dev/full', "--yes").returncode == 0


@pytest.mark.slow
def test_a_report_that_fills_the_disk_costs_one_line_and_turns_0_into_1(toy):
    full = toy.folder / "full.json"
    full.symlink_to("/dev/full")
    said = toy.sh('"$@"', "--yes", "--report", str(full), "--report", str(toy.folder / "good.jsonl"))
    assert said.returncode == 1
    assert (
        said.stderr
        == f"runbook: cannot write to {full}: No space left on device; the run continues without this output\n"
    )
    assert toy.marked() == {"h1", "h2", "h3"}
    assert "3 resolved" in said.stdout
    assert json.loads((toy.folder / "good.jsonl").read_text().splitlines()[-1])["kind"] == "run_finished"


def test_a_report_that_cannot_be_opened_is_refused_before_anything_is_done(toy):
    said = toy.sh('"$@"', "--yes", "--report", str(toy.folder / "no" / "such.json"))
    assert said.returncode == 2
    assert "No such file" in said.stderr
    assert toy.marked() == set()


def test_a_report_of_a_kind_that_is_not_ours_is_not_emptied(toy):
    notes = toy.folder / "notes.doc"
    notes.write_text("mine")
    assert toy.sh('"$@"', "--yes", "--report", str(notes)).returncode == 2
    assert notes.read_text() == "mine"


CANNOT = {"> /dev/full": "No space left", ">&-": "it is closed", "| true": ""}


@pytest.mark.parametrize(
    ("command", "where", "words"),
    [
        *(("--help", *it) for it in CANNOT.items()),
        *(
            pytest.param(name, *it, marks=pytest.mark.soak)
            for name in ("list", "run --help", "actions")
            for it in CANNOT.items()
        ),
        ("show zombie-gpu", "> /dev/full", "No space left"),
    ],
)
def test_every_command_says_in_one_line_that_it_cannot_write(command, where, words):
    argv = ("bash", "-c", f'"$@" {where}', "bash", *PROGRAM, *command.split())
    said = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert said.stderr.count("\n") == bool(words)
    assert words in said.stderr
    assert said.returncode == bool(words)


@pytest.mark.slow
@pytest.mark.parametrize(
    "encoding", ["ascii", *(pytest.param(it, marks=pytest.mark.soak) for it in ("latin-1", "utf-8"))]
)
@pytest.mark.soak
def test_an_encoding_that_lacks_letters_crashes_nothing(toy, encoding):
    texts = {"console": "\\u6f22", "json": "漢", "jsonl": "漢"}
    for output, shown in texts.items():
        said = runbook(
            "exec", "h1", "--read", "-i", str(toy.folder / "hosts.yaml"), "--output", output, "--", "printf", "漢",
            PYTHONIOENCODING=encoding,
        )  # fmt: skip
        assert said.code == 0, said.err
        if output == "console":
            assert ("漢" if encoding == "utf-8" else shown) in said.out
        else:
            last = json.loads(said.out.splitlines()[-1]) if output == "jsonl" else json.loads(said.out)
            hosts = last["result"]["hosts"] if output == "jsonl" else last["hosts"]
            assert hosts[0]["steps"][0]["commands"][0]["stdout"] == shown


def full(pipe: int) -> bool:
    """Whether hardly anything more goes into a pipe."""
    waiting = struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"    "))[0]
    return waiting > fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ) - 4096


def test_a_stdout_that_another_program_made_nonblocking_is_written_whole(toy):
    ours, theirs = os.pipe()
    os.set_blocking(theirs, False)
    argv = ("exec", "h1", "--read", "-i", str(toy.folder / "hosts.yaml"), "--output", "json", "--", "seq", "30000")
    process = subprocess.Popen((*PROGRAM, *argv), stdout=theirs, stdin=subprocess.DEVNULL)
    os.close(theirs)
    until(lambda: full(ours), "the pipe to be full")
    with os.fdopen(ours) as reader:
        document = json.loads(reader.read())
    assert process.wait(60) == 0
    assert document["hosts"][0]["steps"][0]["commands"][0]["stdout"].endswith("\n30000\n")


HOSTILE = "\033]0;owned\007\033[2J\rgpu-99: healthy\x9b31m\u202e\u2028x"


def test_what_a_host_says_steers_no_terminal(toy):
    for output in ("console", "json", "jsonl"):
        said = runbook(
            "exec",
            "h1",
            "--read",
            "-i",
            str(toy.folder / "hosts.yaml"),
            "--output",
            output,
            "--",
            "printf",
            "%s",
            HOSTILE,
        )
        assert not set("\033\007\x9b\r") & set(said.out), output
        assert not any(it.lstrip().startswith("gpu-99") for it in said.out.splitlines()), output
        if output == "console":
            assert "\\x1b]0;owned\\x07\\x1b[2J" in said.out
            assert "\\x9b31m\\u202e" in said.out
        if output == "json":
            assert said.document["hosts"][0]["steps"][0]["commands"][0]["stdout"] == HOSTILE


def test_a_mistake_that_quotes_a_file_steers_no_terminal(tmp_path):
    (tmp_path / "hosts.yaml").write_text('hosts:\n  "a\\e[31m": {transport: local}\n')
    said = runbook("hosts", "-i", str(tmp_path / "hosts.yaml"))
    assert "\033" not in said.out + said.err
