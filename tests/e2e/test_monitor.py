"""runbook monitor: live in a terminal, once for scripts, and every host at its own pace."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from secrets import token_hex

import pytest
from rich.console import Console

from runbook import lab
from runbook.commands.input_files import find_playbook, read_playbook
from runbook.commands.monitor import WIDEST, WORDS, HostView, _appended, view
from runbook.plugins import discover
from runbook.values.plan import Finding, Presence
from runbook.values.playbook import FindingRule, Phase, Playbook, Severity, Step
from runbook.values.result import HostResult, Status, StepResult, Verdict
from tests.support.program import runbook
from tests.support.tables import every_row
from tests.support.waiting import until

MONITOR = read_playbook(find_playbook("monitor"), discover())
LOOK = Step(id="mem", phase=Phase.DIAGNOSE, action="memory")
BOOK = Playbook(
    name="monitor",
    diagnose=(LOOK, replace(LOOK, id="gpu", action="nvidia_smi")),
    findings=(FindingRule(id="low", when="mem.low", severity=Severity.ERROR, say="little", probes=("mem",)),),
)


def sight(host: str, percent: object, *, low: bool = False, gpu: Status = Status.SKIPPED, **keys) -> HostView:
    steps = (
        StepResult(id="mem", phase=Phase.DIAGNOSE, action="memory", status=Status.OK, state={"percent": percent, "total": 2**34}),
        StepResult(id="gpu", phase=Phase.DIAGNOSE, action="nvidia_smi", status=gpu, why="it hangs"),
    )  # fmt: skip
    status = Presence.PRESENT if low else Presence.ABSENT
    found = Finding(id="low", severity=Severity.ERROR, status=status, say=f"little on {host}")
    result = HostResult(host=host, verdict=Verdict.HEALTHY, findings=(found,), steps=steps)
    return HostView(host=host, result=result, at=time.monotonic(), **keys)


def shown(book: Playbook, sights: list[HostView], width: int, height: int = 0, *, colours: bool = False) -> list[str]:
    """The lines of the table on a terminal of so many columns."""
    stream = io.StringIO()
    console = Console(
        file=stream,
        width=width,
        force_terminal=colours,
        color_system="standard" if colours else None,
        markup=False,
        emoji=False,
    )
    console.print(view(book, sights, console, height))
    return [line.rstrip() for line in stream.getvalue().splitlines()]


def test_a_number_has_the_colour_of_the_finding_that_rests_on_it():
    """Mutants: table.py ``_styles`` giving each probe the colour of any finding."""
    head, good, bad, *_ = shown(BOOK, [sight("a", 20.0), sight("b", 97.0, low=True)], 80, colours=True)
    assert "mem" in head
    assert "\x1b[31m97% of 16G\x1b[0m" in bad
    assert "20% of 16G" in good
    assert "\x1b[31m" not in good


def test_of_two_findings_the_worse_gives_the_colour():
    """Mutants: table.py ``_styles`` without its order."""
    seen = sight("a", 97.0, low=True)
    assert seen.result
    found = (replace(seen.result.findings[0], severity=Severity.CRITICAL), replace(seen.result.findings[0], id="lower"))
    rules = (BOOK.findings[0], replace(BOOK.findings[0], id="lower"))
    seen = replace(seen, result=replace(seen.result, findings=found))
    assert "\x1b[1;31m97%" in shown(replace(BOOK, findings=rules), [seen], 80, colours=True)[1]


def test_what_is_not_known_is_a_question_mark_with_its_reason_and_never_a_number():
    lines = shown(BOOK, [sight("a", {"$unknown": "masked"}, gpu=Status.FAILED)], 80)
    assert lines[1].split() == ["a", "?", "of", "16G", "?", "0", "s", "ago"]
    assert "a: gpu is unknown: it hangs" in lines


@every_row(
    ("state", "cell"),
    [
        ({"oom": []}, "none"),
        ({"oom": [{}], "xids": [{}, {}]}, "1 killed, 2 Xid"),
        ({"oom": [], "panics": [{}], "lockups": [{}]}, "1 oops, 1 hang"),
        ({"oom": [], "gpu_faults": [{}], "hardware_errors": {"$unknown": "masked"}}, "1 GPU fault"),
        ({"oom": [], "xids": {"$unknown": "masked"}}, "?"),
    ],
)
def test_a_cell_of_the_kernel_counts_everything_that_it_told_of(state, cell):
    """Mutants: table.py ``_kernel`` saying none where one field is not known."""
    assert WORDS["kernel_log"](state) == cell


def noted(host: str, say: str, *advise: str, severity: Severity = Severity.ERROR) -> HostView:
    plain = sight(host, 97.0, low=True)
    assert plain.result
    found = replace(plain.result.findings[0], say=say, advise=advise, severity=severity)
    return replace(plain, result=replace(plain.result, findings=(found,)))


def test_below_the_table_stand_causes_with_what_to_do_the_worst_first_and_hosts_alike_together():
    """Mutants: table.py ``_notes`` that does not sort, or keeps each host apart; ``_of_host`` without advice."""
    down = HostView(
        host="e", result=HostResult(host="e", verdict=Verdict.UNREACHABLE, error="e:22: connection refused")
    )
    seen = [
        noted("a", "odd", severity=Severity.WARNING),
        noted("b", "full", "Make room."),
        noted("c", "full", "Make room."),
    ]
    lines = shown(BOOK, [*seen, down], 200)
    assert lines[6:] == [
        "e: unreachable: e:22: connection refused",
        "  next: nothing listens on this port: check that host and sshd are up, and the address and port",
        "b,c: full",
        "  next: Make room.",
        "a: odd",
    ]
    small = shown(BOOK, [*seen, down], 200, 9)
    assert small[6:] == ["e: unreachable: e:22: connection refused", "b,c: full", "a: odd"]


def test_what_is_not_known_is_told_once_with_its_reason_and_what_to_do():
    rule = next(it for it in MONITOR.findings if it.id == "gpus_unknown")
    blind = StepResult(id="gpus", phase=Phase.DIAGNOSE, action="nvidia_smi", status=Status.FAILED, why="it hangs")
    found = Finding(id=rule.id, severity=rule.severity, status=Presence.PRESENT, say="not known", advise=("Look.",))
    result = HostResult(host="a", verdict=Verdict.UNKNOWN, findings=(found,), steps=(blind,))
    lines = shown(MONITOR, [HostView(host="a", result=result)], 200)
    assert lines[3:] == ["a: gpus is unknown: it hangs", "  next: Look."]


def test_a_disk_that_the_kernel_complains_of_is_in_the_table():
    """Mutant: table.py ``_OF_THE_KERNEL`` without its errors of disks."""
    assert WORDS["kernel_log"]({"oom": [], "io_errors": [{}, {}]}) == "2 I/O error"


@every_row("width", [10, 20, 33, 40, 80])
@every_row("height", [3, 5, 24])
def test_it_fits_whatever_the_terminal_s_size(width, height):
    sights = [sight(f"gpu-{it:03}", 97.0, low=True, since=time.monotonic() - 9) for it in range(40)]
    lines = shown(BOOK, sights, width, height)
    assert len(lines) <= height
    assert all(len(it) <= width for it in lines)
    assert lines[-1] == f"... and {42 - height} more hosts" or (width <= 20 and lines[-1].startswith("... and "))
    assert lines[1].startswith("gpu-000  97%"[:width]), "what has no room is left out from the right"


def test_what_hosts_and_playbooks_say_is_shown_as_it_is():
    """Mutants: table.py ``line`` without ``printable``, or giving rich a text with its markup."""
    said = noted("a", "[/dev/nvidia0] :skull: [bold]GPU-1[/bold]\x1b[2J", "Run `x --at=[1]`.")
    lines = shown(BOOK, [said], 200, colours=True)
    assert lines[3:] == [
        "\x1b[31ma: [/dev/nvidia0] :skull: [bold]GPU-1[/bold]\\x1b[2J\x1b[0m",
        "  next: Run `x --at=[1]`.",
    ]


def test_without_a_terminal_every_line_is_whole_and_nothing_but_text(tmp_path):
    """Mutants: command.py ``_console`` with the width of a terminal, or with its colours; ``_lines`` that keep blanks."""
    name = "a" * 200
    (tmp_path / "hosts.yaml").write_text(f"hosts:\n  {name}: {{transport: local}}\n")
    said = runbook("monitor", "--once", "-i", str(tmp_path / "hosts.yaml"), FORCE_COLOR="1", COLUMNS="80")
    head, row, *_ = said.out.splitlines()
    assert head.split()[:2] == ["host", "memory"]
    assert row.startswith(f"{name}  ")
    assert "\x1b" not in said.out
    assert not any(it.endswith(" ") or "…" in it for it in said.out.splitlines())


def test_a_letter_of_two_columns_counts_as_two():
    """Mutants: table.py that cuts by letters."""
    assert shown(BOOK, [noted("a", "\u6ee1" * 30)], 20)[-1] == "a: " + "\u6ee1" * 8 + "\u2026"


def test_without_a_terminal_a_host_is_told_again_only_once_it_was_seen_again(capsys):
    """Mutants: command.py ``_appended`` that forgets what it was given last, or keeps the head."""
    show = _appended(BOOK, Console(width=WIDEST))
    one, two = sight("one", 20.0), sight("two", 30.0)
    for sights in ((HostView(host="one"), two), (one, two), (one, two)):
        show(sights)
    rows = [it.split()[1:4] for it in capsys.readouterr().out.splitlines()]
    assert rows == [["two", "30%", "of"], ["one", "20%", "of"]]


def test_a_host_that_is_waited_for_keeps_what_was_seen_last():
    (_, line, *_) = shown(BOOK, [sight("a", 20.0, since=time.monotonic() - 9)], 80)
    assert "20%" in line
    assert "waiting 9 s" in line


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    folder = tmp_path_factory.mktemp("monitor") / "lab"
    made = lab.up(lab.LabOptions(directory=folder, faults=("gpu-01=busy", "gpu-02=smi_hangs", "gpu-03=down")))
    yield made
    lab.down(made.directory)


@pytest.mark.real("lab", "sshd")
@pytest.mark.soak
def test_once_tells_every_host_and_exits_as_a_run_would(three):
    once = ("monitor", "--once", "-i", str(three.inventory), "-e", "killed_within=1s")
    said = runbook(*once, "--timeout", "3s")
    rows = {it.split()[0]: it for it in said.out.split("\n\n")[0].splitlines()[1:]}
    assert "87%" in runbook(*once, "--hosts", "gpu-01").out
    assert " ? " in rows["gpu-02"]
    assert rows["gpu-03"].count("down") == 5
    assert "gpu-03: unreachable" in said.out
    assert "gpus is unknown: nvidia-smi did not answer" in said.out
    assert said.code == 1
    document = json.loads(runbook("monitor", "-i", str(three.inventory), "--hosts", "gpu-01", "--output", "json").out)
    assert document["mode"] == "plan"
    assert [it["host"] for it in document["hosts"]] == ["gpu-01"]
    assert {it["effect"] for step in document["hosts"][0]["steps"] for it in step["commands"]} == {"read"}


@pytest.mark.real("lab", "sshd", "tmux")
def test_live_a_host_that_hangs_keeps_nobody_waiting(three):
    """Mutants: monitor.py waiting for all hosts before it shows one."""
    socket, program = f"runbook-{token_hex(4)}", Path(sys.executable)

    def tmux(*words: str) -> str:
        return subprocess.run(["tmux", "-L", socket, *words], capture_output=True, text=True, check=False).stdout

    def screen(*wanted: str, rows: int = 20) -> str:
        def seen() -> str:
            shown = tmux("capture-pane", "-p")
            few = len([line for line in shown.splitlines() if line.strip()]) <= rows
            return shown if few and all(words in shown for words in wanted) else ""

        return until(seen, f"{wanted} on a screen of {rows} rows")

    size = "COLUMNS=120 LINES=40"  # of the time of the start: the terminal has another
    line = (
        f"{size} {program} -m runbook monitor -i {three.inventory} --every 1s --timeout 25s; echo the end $?; sleep 60"
    )
    tmux("-f", "/dev/null", "new-session", "-d", "-x", "90", "-y", "20", line)
    try:
        seen = screen("87%", "connection refused", "waiting")
        assert "gpu-02" in next(it for it in seen.splitlines() if "waiting" in it)
        assert tmux("display-message", "-p", "#{alternate_on}").strip() == "1"
        tmux("resize-window", "-x", "40", "-y", "8")
        small = until(lambda: "\n\ngpu-02" not in (shown := screen("gpu-01", rows=8)) and shown)
        assert "gpu-01" in small
        tmux("send-keys", "C-c")
        left = screen("the end 0")
        assert "runbook monitor" not in left
        assert tmux("display-message", "-p", "#{cursor_flag} #{alternate_on}").split() == ["1", "0"]
    finally:
        tmux("kill-server")


@pytest.mark.real("docker")
def test_containers_that_died_lately_or_start_again_and_again_are_told(engine, tmp_path):
    """Mutants: table.py ``_containers`` telling of those that ended well; the finding without its ``died_within``."""
    (tmp_path / "hosts.yaml").write_text("hosts:\n  here: {transport: local}\n")

    def once(*argv: str):
        words = ("--once", "-i", str(tmp_path / "hosts.yaml"), "-e", "killed_within=1s", *argv)
        return runbook("monitor", *words, DOCKER_HOST=engine.host)

    engine.lives(name="alive")
    engine.dies("true", name="done")
    calm = once()
    assert " 1 up " in calm.out
    assert "died within" not in calm.out
    engine.dies("sh", "-c", "exit 3", name="broken")
    engine(
        "run",
        "-d",
        "--name",
        "loop",
        "--restart",
        "always",
        "--network",
        "none",
        "base:1",
        "sh",
        "-c",
        "sleep 0.1; exit 128",
    )
    until(
        lambda: int(engine.inspect("loop", "{{.RestartCount}}")) >= 6, "six restarts"
    )  # between two lives for seconds

    def between_two_lives():
        said = once()
        return "1 up, 1 restarting, 1 failed" in said.out and said

    said = until(between_two_lives)
    assert "here: containers died within 60 minutes: broken" in said.out
    assert "here: containers in a restart loop: loop" in said.out
    assert said.code == 1
    assert "died within" not in once("-e", "died_within=0").out
    down = runbook("monitor", "--once", "-i", str(tmp_path / "hosts.yaml"), DOCKER_HOST=f"unix://{tmp_path}/none.sock")
    assert "here: containers is unknown: the Docker daemon is not running" in down.out
