"""What people are shown of a command: a line that a shell takes as it stands, or a script's name and its arguments."""

from __future__ import annotations

import ast
import subprocess
from dataclasses import replace
from pathlib import Path

from runbook.codec import from_json, to_json
from runbook.library.gpu.facts.reset import reset, set_persistence
from runbook.reporting.wording.step_lines import LONGEST_LINE, step_lines
from runbook.values.command import Command, Completed, Effect, read_script, write_script
from runbook.values.playbook import Phase
from runbook.values.result import HostResult, SentCommand, Status, StepResult, Verdict, scripts_of
from tests.facts.gpu_values import seen
from tests.support.tables import every_row

ENGINE = Path(__file__).parents[2] / "engine" / "runbook"
ODD = ("a b", "it's", "$HOME", "`id`", "*", "", "--", "#x", "~", '"', "\\n", "a;b|c>d", "!", "ü")


def test_a_shown_line_does_in_a_shell_what_the_command_does():
    """Mutant: command.py ``shown`` that joins the words by spaces."""
    command = Command(argv=("printf", "[%s]", *ODD), effect=Effect.WRITE)
    said = subprocess.run(["sh", "-c", command.shown().removeprefix("$ ")], capture_output=True, text=True)
    assert said.stdout == "".join(f"[{it}]" for it in ODD)


def test_a_reset_shows_nvidia_smi_itself_and_whether_persistence_mode_goes_off_or_on():
    """Mutant: reset.py ``set_persistence`` that shows no mode."""
    one = seen(0.0)
    shown = [it.shown() for it in (set_persistence(one, on=False), reset((one,)), set_persistence(one, on=True))]
    assert shown == [
        f"$ nvidia-smi -i {one.uuid} -pm 0",
        f"$ nvidia-smi --gpu-reset -i {one.uuid}",
        f"$ nvidia-smi -i {one.uuid} -pm 1",
    ]


def test_a_script_of_ours_is_shown_by_its_name_and_its_arguments_and_the_user_it_runs_as():
    command = write_script('set -e\nrm -- "$1"\n', "/a b", called=("remove", "/a b"))
    assert command.shown() == "script remove '/a b'"
    assert replace(command, become="root").shown() == "script remove '/a b' (as root)"


def test_an_authors_script_of_several_lines_is_counted_and_a_short_one_is_shown_whole():
    long = Command(script="a\nb\nc\n", argv=("x",), effect=Effect.WRITE, foreign=True)
    assert long.shown() == "script of 3 lines x"
    assert Command(script="echo $1", argv=("x",), effect=Effect.WRITE).shown() == "$ sh -c 'echo $1' sh x"


def test_secrets_stand_in_no_shown_line():
    command = write_script("a\nb\n", called=("send-request", "GET", "https://u:hunter2hunter2@host/"))
    assert "hunter2" not in command.shown()


def writes_without_a_name(tree: ast.AST) -> list[int]:
    """The lines on which a script that changes a host is made, and neither named nor said to stand for a program."""
    found = []
    for call in (it for it in ast.walk(tree) if isinstance(it, ast.Call)):
        keys = {it.arg: it.value for it in call.keywords}
        name = getattr(call.func, "id", "")
        writes = name == "write_script" or (
            name == "Command" and "script" in keys and "WRITE" in ast.dump(keys.get("effect", call.func))
        )
        if writes and not keys.keys() & {"called", "stands_for", "foreign"}:
            found.append(call.lineno)
    return found


def test_every_script_of_ours_that_changes_a_host_says_how_it_is_shown():
    for file in [*ENGINE.glob("library/**/*.py"), *ENGINE.glob("onhost/**/*.py")]:
        text = file.read_text()
        lines = text.splitlines()
        bare = [
            it
            for it in writes_without_a_name(ast.parse(text))
            if not any("stands_for" in near for near in lines[it - 1 : it + 3])
        ]
        assert bare == [], f"{file}: {bare}"


@every_row(
    ("shown", "told"),
    [
        ("$ nvidia-smi -i 0 -pm 0", "  $ nvidia-smi -i 0 -pm 0"),
        ("script remove /a", "  script remove /a"),
        (f"$ echo {'x' * 1000}", f"  $ echo {'x' * 1000}"),
    ],
)
def test_a_plan_shows_each_command_in_one_line_that_is_not_cut_where_it_is_to_be_pasted(shown, told):
    """Mutant: host_lines.py that shortens a line to be pasted."""
    sent = SentCommand(line="sh -c 'x\ny' sh", effect="write", shown=shown)
    step = StepResult(id="s", phase=Phase.REMEDIATE, action="a", status=Status.WOULD_CHANGE, why="w", commands=(sent,))
    assert step_lines(step)[1:] == [told]
    assert len(shown) < LONGEST_LINE


LONG = "x=1\n" * 300


def recorded(command: Command) -> SentCommand:
    return SentCommand.of(command, Completed(exit_code=0))


def test_the_record_of_a_run_has_a_script_of_ours_once_and_its_name_and_digest_at_every_host():
    """Mutants: the whole script in `line`; a digest of the arguments too; what a plan would send left as it was."""
    sent = [
        recorded(write_script(LONG, "7:1", called=("end-processes", "pid 7"))),
        recorded(write_script(LONG, "8:1", called=("end-processes", "pid 8"))),
        SentCommand.planned(read_script(LONG, "/dev/nvidia*")),
    ]
    assert [it.line for it in sent] == [
        "script end-processes 'pid 7'",
        "script end-processes 'pid 8'",
        "script of 300 lines '/dev/nvidia*'",
    ]
    assert len({it.script for it in sent}) == 1
    step = StepResult(id="s", phase=Phase.DIAGNOSE, action="x", status=Status.OK, commands=tuple(sent))
    hosts = [HostResult(host=name, verdict=Verdict.HEALTHY, steps=(step,)) for name in ("a", "b")]
    assert scripts_of(hosts) == {sent[0].script: LONG}
    written = to_json(hosts[0])
    assert "x=1" not in str(written)
    assert from_json(HostResult, written) == hosts[0]


def test_what_an_author_wrote_and_what_is_short_stands_in_the_record_as_it_was_sent():
    author = recorded(replace(read_script(LONG), foreign=True))
    short = recorded(read_script("test -e /x\nexit 0"))
    assert (author.script, short.script) == ("", "")
    assert LONG.strip() in author.line
    assert "test -e /x" in short.line


def test_how_much_a_step_was_fed_is_recorded_where_its_script_is_left_out():
    fed = recorded(replace(write_script(LONG, called=("put",)), stdin="12345"))
    assert fed.line == "script put <STDIN  # 5 characters"
