"""What a mistyped command line, an interrupt and a terminal do."""

from __future__ import annotations

import signal
import subprocess
import sys
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from runbook import lab
from tests.support.program import PROGRAM, on_terminal, runbook
from tests.support.real_processes import gone, living
from tests.support.tables import every_row
from tests.support.waiting import until

LOCAL = "hosts:\n  here: {transport: local, gpu: none}\n  there: {transport: local, status: offline}\n"


@pytest.fixture
def inventory(tmp_path) -> Path:
    path = tmp_path / "hosts.yaml"
    path.write_text(LOCAL)
    return path


@pytest.fixture
def mark() -> str:
    """A number of seconds that no other sleep on this machine has."""
    return f"4{uuid.uuid4().int % 1000:03}.{uuid.uuid4().int % 10**9:09}"


def playbook(tmp_path: Path, text: str, name: str = "toy") -> str:
    path = tmp_path / f"{name}.yaml"
    path.write_text(f"name: {name}\n{text}")
    return str(path)


def test_help_is_quick_and_imports_no_ssh_no_jinja_no_rich():
    code = "import sys, runbook.cli; print([it for it in ('paramiko', 'fabric', 'jinja2', 'rich', 'jsonschema', 'yaml') if it in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
    assert "zombie-gpu" in runbook("--help").out


def test_ssh_comes_without_asyncio_and_leaves_the_real_mock_to_others():
    """Mutants: without_mock.py that does nothing; that leaves its stand-in."""
    code = (
        "import sys, runbook.connections.transports.ssh; print([it for it in ('asyncio', 'unittest.mock') if it in sys.modules]);"
        "from unittest.mock import patch; import fabric; print(patch.__name__, fabric.Connection('h').host)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\npatch h\n"


def test_a_lab_of_its_own_takes_no_inventory(tmp_path):
    """Mutants: lab_commands.py running on the lab all the same."""
    said = runbook("lab", "run", "zombie-gpu", "--dir", str(tmp_path / "lab"), "-i", "prod.yaml", "--dry-run")
    assert (said.code, said.out) == (2, "")
    assert said.err == "runbook: `lab run` starts its own hosts and takes no -i: use `runbook run` for other hosts\n"
    assert not (tmp_path / "lab").exists()


@pytest.mark.real("lab")
def test_one_at_a_time_makes_a_lab_in_a_directory(tmp_path):
    """Mutants: lab_commands.py not keeping the directory to itself."""
    where = ("--dir", str(tmp_path / "lab"), "--host", "gpu-01=healthy")
    words = ("run", "zombie-gpu", *where, "--dry-run", "--output", "json"), ("up", *where)
    with ThreadPoolExecutor(2) as pool:
        said = list(pool.map(lambda it: runbook("lab", *it), (words[0], words[0])))
    assert sorted(it.code for it in said) in ([0, 0], [0, 2]), [it.err for it in said]
    assert not any("Traceback" in it.err for it in said)
    with lab.held(tmp_path / "lab"):
        for it in words:
            said = runbook("lab", *it)
            assert (said.code, said.out) == (2, "")
            assert said.err.startswith(
                f"runbook: a lab is being started in {tmp_path}/lab, or `lab run` is at work there"
            )
    assert not (tmp_path / "lab").exists()


@every_row("command", ["run", "exec", "hosts", "check", "show", "schema", "list", "actions", "lab"])
def test_every_command_has_help(command):
    said = runbook(command, "--help")
    assert said.code == 0
    assert "Usage" in said.out


@pytest.mark.parametrize(
    ("pattern", "words"),
    [("heer", "here"), ("gpuu", "gpu"), ("here,!here", "no hosts"), ("here-[1-3]", "here-"), ("there*,", "")],
)
def test_a_mistyped_target_is_an_error_with_a_suggestion_before_any_connection(inventory, pattern, words):
    said = runbook("run", "zombie-gpu", "--hosts", pattern, "-i", str(inventory))
    assert said.code == 2
    assert said.out == ""
    assert words in said.err


@every_row(
    ("line", "words"),
    [
        ("exec --hosts all -- true", "'--hosts' (here: the argument PATTERN, without an option)"),
        ("hosts --limit all", "'--limit' (here: the argument PATTERN, without an option)"),
        ("undo --run last", "'--run' (here: the argument RUN, without an option)"),
        ("history show last --host a", "'--host' (here: the argument HOST, without an option)"),
        ("history --host a", "write it behind the command, as in `runbook history list --host`"),
        ("--hosts all run zombie-gpu", "as in `runbook run --hosts`"),
        ("history export --output csv", "(here: --format FORMAT)"),
        ("history replay last --format html", "(here: --output FORMAT)"),
        ("history list -n 3", "(here: --limit N)"),
        ("run zombie-gpu --host a", "(here: --hosts PATTERN)"),
        ("history list --nonsense", "No such option '--nonsense'."),
        ("rollback", "No such command 'rollback' (here: runbook undo RUN)"),
        ("replay last", "(here: runbook history replay)"),
        ("history last", "(here: runbook history show last)"),
        ("history 20261123T17", "(here: runbook history show 20261123T17)"),
        ("histroy", "Did you mean 'history'?"),
        ("undo", "Missing argument 'RUN': a run's id, its beginning, or `last`"),
        ("history diff last", "Missing argument 'AFTER': a run's id"),
        ("apply", "Missing argument 'PLAN'."),
    ],
)
def test_an_option_that_belongs_elsewhere_is_answered_with_its_place(line, words):
    """Mutants: ``_elsewhere`` without its arguments; a group that passes the error on."""
    said = runbook(*line.split())
    assert said.code == 2
    assert words in said.err


def test_hosts_of_a_recorded_run_can_be_named_wherever_hosts_are(inventory, tmp_path):
    """Mutant: ``hosts_text`` that selects without records."""
    given = ("-i", str(inventory), "--records", str(tmp_path / "runs"))
    assert runbook("exec", "here", "--read", *given, "--", "true").code == 0
    where = {"RUNBOOK_RECORDS": str(tmp_path / "runs")}
    said = runbook("hosts", "@last:healthy", "-i", str(inventory), **where)
    assert "1 host taken: here" in said.out, said.err
    assert "no host of run" in runbook("hosts", "@last:failed", "-i", str(inventory), **where).err


def test_every_mistake_of_a_run_is_reported_at_once(inventory, tmp_path):
    bad = playbook(tmp_path, "diagnos: []\nfindings:\n  - {id: x, when: nope.x, severity: bad}\n")
    said = runbook("run", bad, "--hosts", "heer", "-i", str(inventory), "-e", "nosuch=1")
    assert said.code == 2
    for words in ("toy.yaml:2:1", "diagnose", "nope", "severity", "bad", "heer"):
        assert words in said.err, words


def test_hosts_shows_who_is_taken_and_who_is_left_out_and_why(inventory):
    said = runbook("hosts", "-i", str(inventory))
    assert said.code == 0
    assert "1 host taken: here" in said.out
    assert "left out: there (status: offline)" in said.out
    assert "there" in runbook("hosts", "there", "-i", str(inventory)).out


AWKWARD = [
    "a b",
    "",
    "-n",
    "--",
    "'",
    '"',
    "$HOME",
    "`id`",
    "\\",
    "\n",
    "a\nb",
    "é漢",
    "{}",
    "@x",
    "*",
    "!",
    "~",
    "#",
    "%s",
    "\t",
]


@pytest.mark.parametrize("way", [(), ("--read",)])
def test_exec_passes_every_argument_unchanged_and_returns_what_the_program_says(inventory, way):
    said = runbook(
        "exec", "here", *way, "-i", str(inventory), "--output", "json", "--yes", "--", "printf", "%s\\0", *AWKWARD
    )
    assert said.code == 0, said.err
    (command,) = said.step("here", "exec")["commands"][-1:]
    assert command["stdout"] == "".join(f"{it}\0" for it in AWKWARD)
    assert runbook("exec", "here", *way, "-i", str(inventory), "--yes", "--", "false").code == 1
    quoted = runbook("exec", "here", *way, "-i", str(inventory), "--yes", "--", "ps axo pid")
    assert (quoted.code, "leave the quotes out, or let a shell read it: -- sh -c 'ps axo pid'" in quoted.err) == (
        2,
        True,
    )


def test_an_empty_target_or_command_is_an_error_and_not_everything(inventory, tmp_path):
    """Mutants: run.py taking an empty --hosts for none given; exec without the check of its first word."""
    book = playbook(tmp_path, "hosts: here\ndiagnose:\n  - {id: a, command: {argv: ['true']}}\n")
    assert runbook("run", book, "-i", str(inventory)).code == 0
    for empty in ("", " "):
        said = runbook("run", book, "-i", str(inventory), "--hosts", empty)
        assert (said.code, said.out) == (2, "")
        assert "--hosts is empty" in said.err
    said = runbook("exec", "here", "-i", str(inventory), "--", "")
    assert (said.code, said.out) == (2, "")
    assert "is empty" in said.err


def test_exec_ends_what_takes_longer_than_it_may(inventory):
    """Mutants: exec.py making the step of ``exec`` without its timeout."""
    said = runbook(
        "exec", "here", "-i", str(inventory), "--timeout", "1s", "--output", "json", "--yes", "--", "sleep", "4123.25"
    )
    step = said.step("here", "exec")
    assert said.code == 1
    assert step["status"] == "timeout"
    assert "timed out after 1 s" in step["why"]


def test_exec_changes_nothing_without_a_yes_where_nobody_can_be_asked(inventory, tmp_path):
    """Mutants: exec.py giving ``exec`` the consent of --yes; run.py asking for it from resets on only."""
    argv = ("exec", "here", "-i", str(inventory), "--output", "json")
    said = runbook(*argv, "--", "touch", str(tmp_path / "made"))
    assert said.code == 1
    assert said.step("here", "exec")["status"] == "blocked"
    assert "needs --yes" in said.step("here", "exec")["why"]
    assert not (tmp_path / "made").exists()
    assert runbook(*argv, "--yes", "--", "touch", str(tmp_path / "made")).code == 0
    assert (tmp_path / "made").exists()


@pytest.mark.parametrize(
    "words", [("rm", "-f"), ("sh", "-c", 'rm -f "$0"'), ("sudo", "-u", "root", "rm"), ("env", "A=1", "rm")]
)
def test_exec_read_is_refused_where_a_look_of_a_playbook_is(inventory, tmp_path, words):
    """Mutants: exec.py without the question to ``known``."""
    there = tmp_path / "there"
    there.write_text("x")
    said = runbook("exec", "nobody-has-asked-for-it", "--read", "-i", str(inventory), "--", *words, str(there))
    assert (said.code, said.out) == (2, "")
    assert "--read is for commands that change nothing, but `rm` does (deletes-data) (leave out --read)" in said.err
    assert there.exists()


def test_a_run_that_changes_wants_to_be_told_which_hosts(inventory, tmp_path):
    """Mutants: run.py without ``_may_change``, or with it for looks, for notes, or in a dry run."""
    does = f"{{id: a, command: {{check: {{argv: ['false']}}, do: {{argv: [touch, {tmp_path}/made]}}}}}}"
    book = playbook(tmp_path, f"hosts: here\nremediate:\n  - {does}\n")
    where = ("-i", str(inventory), "--output", "json")
    said = runbook("run", book, *where, "--yes")
    assert (said.code, said.out) == (2, "")
    assert "add --hosts PATTERN (--hosts here is the playbook's default; --dry-run uses it without --hosts)" in said.err
    assert runbook("run", book, *where, "--dry-run").document["totals"] == {"planned": 1}
    assert runbook("run", book, *where, "--only", "diagnose").code == 0
    blocked = runbook("run", book, *where, "--hosts", "here")
    assert "needs --yes" in blocked.step("here", "a")["why"], "whatever its risk"
    assert not (tmp_path / "made").exists()
    assert runbook("run", playbook(tmp_path, "hosts: here\nremediate:\n  - {note: {text: x}}\n"), *where).code == 0


def test_an_unchecked_command_of_a_playbook_needs_a_yes_where_nobody_can_be_asked(inventory, tmp_path):
    """Mutants: run.py letting risk ``unknown`` pass without consent."""
    book = playbook(tmp_path, f"remediate:\n  - {{id: a, command: {{do: {{argv: [touch, {tmp_path}/made]}}}}}}\n")
    said = runbook("run", book, "--hosts", "here", "-i", str(inventory), "--output", "json")
    assert "needs --yes" in said.step("here", "a")["why"]
    assert not (tmp_path / "made").exists()
    assert runbook("run", book, "--hosts", "here", "-i", str(inventory), "--yes").code == 0
    assert (tmp_path / "made").exists()


def test_hosts_is_an_answer_where_everybody_is_left_out(inventory):
    said = runbook("hosts", "status=offline", "-i", str(inventory))
    assert said.code == 0
    assert said.out == "no host taken\nleft out: there (status: offline)\n"
    assert runbook("run", "zombie-gpu", "--hosts", "status=offline", "-i", str(inventory)).code == 2


def test_exec_shows_what_the_host_said(inventory):
    said = runbook("exec", "here", "--read", "-i", str(inventory), "--", "echo", "hello there")
    assert "hello there" in said.out


def test_a_look_that_hangs_is_failed_and_ended(inventory, tmp_path, mark):
    book = playbook(
        tmp_path,
        f"diagnose:\n  - id: hung\n    timeout: 2s\n    command: {{script: \"trap '' TERM; sleep {mark}; sleep {mark}\"}}\n",
    )
    said = runbook("run", book, "--hosts", "here", "-i", str(inventory), "--output", "json")
    step = said.step("here", "hung")
    assert step["status"] == "timeout"
    assert step["commands"][0]["timed_out"]
    assert said.host("here")["verdict"] == "unknown"
    assert said.code == 1
    assert step["seconds"] < 60
    assert gone(f"sleep {mark}")


def test_an_interrupt_reports_every_host_and_exits_130(inventory, tmp_path, mark):
    book = playbook(tmp_path, f"diagnose:\n  - id: long\n    timeout: 60s\n    command: {{argv: [sleep, '{mark}']}}\n")
    argv = (
        *PROGRAM,
        "run",
        book,
        "--hosts",
        "here,there",
        "--include-not-ready",
        "--parallel",
        "1",
        "-i",
        str(inventory),
        "--output",
        "json",
    )
    process = subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
    )
    until(lambda: living(f"sleep {mark}"), "the probe to begin")
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    import json

    hosts = {it["host"]: it["verdict"] for it in json.loads(out)["hosts"]}
    assert hosts == {"here": "cancelled", "there": "not_started"}
    assert gone(f"sleep {mark}")


def test_a_deadline_stops_the_run_with_5(inventory, tmp_path):
    book = playbook(tmp_path, "diagnose:\n  - id: long\n    timeout: 250s\n    command: {argv: [sleep, '200']}\n")
    for limit in ("2s", "20s"):  # on a slow machine the host has not begun within the first
        said = runbook("run", book, "--hosts", "here", "-i", str(inventory), "--deadline", limit, "--output", "json")
        assert said.code == 5
        if said.host("here")["verdict"] != "not_started":
            break
    assert said.host("here")["verdict"] == "cancelled"


@pytest.mark.parametrize(("answer", "code", "done"), [("y\n", 0, True), ("n\n", 130, False), ("\n", 130, False)])
def test_a_terminal_is_shown_the_plan_and_asked(inventory, tmp_path, answer, code, done):
    mark = tmp_path / "mark"
    book = playbook(tmp_path, f"remediate:\n  - id: touch\n    command: {{do: {{argv: [touch, {mark}]}}}}\n")
    got, said = on_terminal(("run", book, "--hosts", "here", "-i", str(inventory)), answer)
    assert "Do this on 1 host?" in said
    assert "touch" in said
    assert got == code
    assert mark.exists() is done
    assert ("s; nothing was changed\n" in said.replace("\r", "")) is not done


def test_a_wait_is_waited_for_on_a_terminal_too(inventory, tmp_path):
    """Mutants: run.py ending where nothing would change, although something is waited for."""
    book = playbook(tmp_path, f"remediate:\n  - {{id: w, wait_for: {{path: {tmp_path}/never, at_most: 1s}}}}\n")
    code, said = on_terminal(("run", book, "--hosts", "here", "-i", str(inventory)), "")
    assert code == 1, said
    assert "failed: w:" in said


def test_json_is_one_document_and_nothing_else(inventory, tmp_path):
    book = playbook(tmp_path, "diagnose:\n  - id: up\n    command: {argv: [uptime]}\n")
    said = runbook("run", book, "--hosts", "here", "-i", str(inventory), "--output", "json")
    assert said.document["format"] == 1
    assert set(said.host("here")["steps"][0]) == {
        "id", "name", "phase", "action", "status", "why", "condition", "ignored", "changed_earlier", "verified", "seconds", "risk", "diff",
        "sent", "planned", "victims", "state", "commands", "kept",
    }  # fmt: skip


def test_secrets_reach_no_output(tmp_path):
    inventory = tmp_path / "hosts.yaml"
    inventory.write_text("hosts:\n  here: {transport: local, gpu: none, api_token: s3cr3t-val/ue}\n")
    book = playbook(
        tmp_path,
        "inputs:\n  password: {about: A secret., type: string, secret: true, required: true}\n"
        "  wandb_api_key: {about: Secret by its name., type: string, default: wandb-0123456789}\n"
        "  hooks: {about: Several., type: array, secret: true, default: [{url: hook-abcdefg}, hook-hijklmn]}\n"
        "diagnose:\n  - id: said\n    command: {argv: [echo, '{{ inputs.password }}', 's3cr3t-val/ue',"
        " '{{ inputs.wandb_api_key }}', '{{ inputs.hooks[0].url }}', '{{ inputs.hooks[1] }}']}\n",
    )
    for output in ("json", "console", "jsonl"):
        said = runbook(
            "run", book, "--hosts", "here", "-i", str(inventory), "-e", "password=hunter2hunter2", "--output", output
        )
        assert said.code == 0, said.err
        assert "hunter2" not in said.out + said.err
        assert "s3cr3t" not in said.out + said.err
        assert "wandb-0123" not in said.out + said.err
        assert "hook-" not in said.out + said.err
