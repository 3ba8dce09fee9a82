"""Root runs no author's command in a directory, or from a file, that another user can exchange (law 9)."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from runbook.connections.sessions.programs import command_text, greeting, needed
from runbook.execution.diagnosis.probe_types import ProbeAnswer, ProbeFailure
from runbook.library.commands import tmux
from runbook.library.config.facts.config_file import HostFile, replace_file
from runbook.library.processes.components.component import Component
from runbook.library.processes.components.supervision import start_components
from runbook.onhost.fetched_output import fetch_command
from runbook.values.command import Command, Effect
from runbook.values.kept_file import Keep
from runbook.values.plan import Change
from runbook.values.result import Status
from tests.support.another_user import STRANGER, directory, give
from tests.transports.commands import script
from tests.transports.direct_steps import looked, sent

pytestmark = pytest.mark.real("root", "setpriv")

SHELLS = [
    pytest.param(("dash",), id="dash", marks=[] if shutil.which("dash") else pytest.mark.real("dash")),
    pytest.param(("busybox", "sh"), id="busybox", marks=pytest.mark.real("busybox")),
    pytest.param(("bash",), id="bash"),
]


def tool(path: Path, owner: int = 0, mode: int = 0o755) -> str:
    path.write_text("#!/bin/sh\necho ran\n")
    path.chmod(mode)
    os.chown(path, owner, owner)
    return str(path)


def link_to(path: Path, what: str) -> Path:
    path.symlink_to(what)
    return path


def script_by(path: Path, interpreter: str) -> str:
    path.write_text(f"#!{interpreter}\necho ran\n")
    path.chmod(0o755)
    return str(path)


def run(shell: tuple[str, ...], command: Command, user: int = 0) -> tuple[str, str]:
    """What the frame of *command* prints on both streams, when *user* runs it."""
    by = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"] if user else []
    text = "".join((greeting("here"), *needed([command], root=True), command_text(command, "TOKEN")))
    done = subprocess.run(
        [*by, *shell], input=text, capture_output=True, text=True, timeout=60, cwd="/", start_new_session=True
    )
    out, err = done.stdout.strip(), done.stderr.replace("TOKEN", "").replace("session here", "").strip()
    return out.partition("\n")[2].strip(), err


def authors(*argv: str, **keys) -> Command:
    return Command(argv=argv, effect=Effect.READ, foreign=True, **keys)


@pytest.mark.parametrize("shell", SHELLS)
def test_what_another_user_can_exchange_is_not_begun_and_they_are_named(shell, ground):
    """Mutants: shell_programs.py without the directory; the program; the script of an interpreter; PATH; ``shared``."""
    theirs, wide = give(directory(ground / "theirs")), directory(ground / "wide", 0o1777)
    inside = tool(theirs / "tool")  # root's own, where another user can put another one
    given = tool(ground / "given", STRANGER)
    open_ = tool(ground / "open", 0, 0o777)
    for name in ("mallorys", "echo", "program"):
        tool(ground / name, STRANGER)
    give(theirs).joinpath("link").symlink_to("/usr")
    refused = (
        authors("pwd", cwd=str(theirs)),
        authors("pwd", cwd=str(wide)),
        authors("pwd", cwd="/tmp"),
        authors("pwd", cwd=f"{theirs}/link"),
        authors("./tool", cwd=str(theirs)),
        authors(inside),
        authors(given),
        authors(open_),
        authors(tool(ground / "group", 0, 0o775)),
        authors(f"{wide}/none"),
        authors("timeout", "-s", "KILL", "5", given),
        authors("env", "A=b", "sh", "-e", given),
        authors("bash", inside, "x"),
        authors(str(link_to(ground / "conda", inside)), "info"),
        *(authors(it, env=(("PATH", f"{ground}:/usr/bin:/bin"),)) for it in ("mallorys", "echo", "program")),
        authors(script_by(ground / "by", given)),
        authors("flock", "/dev/null", given),
        authors("taskset", "1", "busybox", "sh", given),
        authors("env", "-C", str(theirs), "./tool"),
        authors("env", "--chdir", str(theirs), "sh", "tool"),
        authors("sh", "tool", cwd=str(theirs)),
        authors("pwd", env=(("PATH", f"/usr/bin:{theirs}"),)),
        *_hidden_programs(ground, theirs, given),
        script("echo ran", cwd=str(theirs), foreign=True),
        script("echo ran", cwd=str(theirs), foreign=True, stdin="x"),
    )
    for command in refused:
        out, err = run(shell, command)
        assert out == "TOKEN !", (command, out, err)
        assert any(
            it in err
            for it in (f"belongs to {STRANGER}", "verybody can", "thers can put", "others (group 0, or an ACL) can")
        ), (
            command,
            err,
        )
        assert "ran" not in err
    assert "no name for that user" in run(shell, authors(given))[1]


def _hidden_programs(ground: Path, theirs: Path, given: str) -> list[Command]:
    """A stranger's program that is not the first word, in forms that no list of options has."""
    text = give(Path(tool(ground / "text", STRANGER, 0o644)))
    argvs = [
        *(["perf", "stat", given], ["strace", "-e", "file", given], ["flock", "/run/test", given]),
        *(["xargs", "-I", "file", given], ["find", "/etc", "!", "-name", "test", "-exec", given, ";"]),
        *(
            ["env", f"-C{theirs}", "./tool"],
            ["env", "-iC", str(theirs), "./tool"],
            ["env", f"--chd={theirs}", "./tool"],
        ),
        *(["env", "-u", "FOO", "-C", str(theirs), "./tool"], ["unshare", f"--wd={theirs}", "./tool"]),
        *(["env", f"-S{given}"], ["env", f"--split-string={given}"], ["env", "-S", f"{given} x"]),
        *(["chroot", str(theirs), "/tool"], ["env", f"PATH={theirs}", "tool"], ["sort", f"--compress-program={given}"]),
        *(
            ["csh", text],
            ["tcsh", "-f", text],
            ["awk", "-f", text],
            ["busybox", "awk", "-f", text],
            ["sed", "-nf", text],
        ),
        *(["make", "-f", text], ["python3", "-m", "trace", "-c", text], ["perl", "-MTie::File", text]),
        *(["bash", "--norc", text], ["sh", "-e", text]),
    ]
    lines = [f"/usr/bin/env {given}", f"/usr/bin/env -S A=1 {given}", f"/bin/sh {text}", f"/usr/bin/nice {given}"]
    scripts = [[script_by(ground / f"by-{number}", line)] for number, line in enumerate(lines)]
    return [authors(*map(str, argv)) for argv in [*argvs, *scripts]]


def test_a_name_that_is_known_in_one_path_is_not_known_in_another(ground):
    """Mutant: agent.sh that remembers what was found in a PATH of the step's own."""
    mine, other = directory(ground / "mine"), directory(ground / "other")
    tool(mine / "program")
    tool(other / "program", STRANGER)
    first = authors("program", env=(("PATH", f"{mine}:/usr/bin:/bin"),))
    again = authors("program")
    text = "".join((greeting("here"), *needed([first], root=True), f"PATH={other}:$PATH\n"))
    text += command_text(first, "ONE") + command_text(again, "TWO")
    done = subprocess.run(
        ["sh"], input=text, capture_output=True, text=True, timeout=60, cwd="/", start_new_session=True
    )
    assert "\nONE 0\n" in done.stdout
    assert "\nTWO !\n" in done.stdout


@pytest.mark.parametrize("shell", SHELLS)
def test_what_is_roots_own_runs_as_before(shell, ground):
    """Mutant: shell_programs.py with ``absent`` refused; with a variable of ours left to the author's script."""
    mine = tool(ground / "mine")
    (ground / "way").symlink_to(ground)
    assert run(shell, authors(mine))[0] == "ran\n\nTOKEN 0"
    assert run(shell, authors("./mine", cwd=f"{ground}/way"))[0] == "ran\n\nTOKEN 0"
    assert run(shell, authors("timeout", "5", "sh", mine))[0] == "ran\n\nTOKEN 0"
    theirs = tool(ground / "theirs", STRANGER)
    readers = ("cat", "od", "sort", "sed -n p", "awk 1", "find", "tar -cf /dev/null", "env cat", "nice -n 1 cat")
    for argv in (*((*reader.split(), theirs) for reader in readers), ("sh", "-c", 'cat "$1"', "sh", theirs)):
        assert run(shell, authors(*argv))[0].endswith("TOKEN 0")
    assert run(shell, authors(f"{ground}/no"))[0] == "TOKEN 127"
    assert run(shell, authors(f"{ground}/no/no"))[0] == "TOKEN 127"
    assert run(shell, authors("pwd", cwd=f"{ground}/no"))[0] == "TOKEN 126"
    spy = script('printf "%s" "${why-}${owner-}${kind-}${real-}${f-}${cwd-}$PWD"', cwd="/usr", foreign=True)
    assert run(shell, spy)[0] == "/usr\nTOKEN 0"


def test_so_are_the_programs_that_our_own_scripts_run(ground):
    """Mutants: an action that hands on an author's program without ``runs``; ``_trusted`` of one program only."""
    given, mine = tool(ground / "given", STRANGER), tool(ground / "mine")
    components = [Component(name=name, argv=(argv,), log="/dev/null") for name, argv in (("a", mine), ("b", given))]
    change = tmux.decide(tmux.Args(session="s", argv=("nice", given)), tmux.State(installed=True))
    assert isinstance(change, Change)
    file = HostFile(path="/f", target="/f", exists=True, folder=True, writable=True, user="root", digest="sha256:x")
    for command in (
        fetch_command((given,), Keep(name="x", most=99), limit=5.0, own_directory=False, confined=False),
        replace_file(file, "text", (given, "{}"), backup=False),
        start_components(components, {}, "/none", 1, watch=0.0, grace=0.0, end_others=False),
        *change.commands,
    ):
        out, err = run(("sh",), command)
        assert (out.split("\n")[0], f"{given} belongs to {STRANGER}" in err) == ("TOKEN !", True), (command, out, err)


def test_a_user_who_is_not_root_runs_what_they_like(ground):
    theirs = give(directory(ground / "theirs"), STRANGER + 1)
    assert run(("sh",), authors("pwd", cwd=str(theirs)), user=STRANGER)[0] == f"{theirs}\n\nTOKEN 0"


def test_a_look_is_blind_and_a_change_failed_and_nothing_was_begun(connection, ground):
    """Mutant: command_run.py that takes the mark for a lost exit code."""
    theirs = give(directory(ground / "theirs"))
    blind = looked(connection, "command", {"argv": ["./looked"]}, cwd=str(theirs)).outcome
    assert isinstance(blind, ProbeFailure)
    assert blind.why.startswith(f"{theirs} belongs to {STRANGER}, who could exchange what is in it meanwhile")
    command = Command(script="echo >ran", effect=Effect.WRITE, foreign=True, cwd=str(theirs), timeout=10.0)
    done = sent(connection, command)
    assert (done.status, done.sent, done.commands) == (Status.FAILED, False, [])
    assert done.why.startswith(f"nothing was sent: {theirs} belongs to {STRANGER}")
    assert list(theirs.iterdir()) == []
    assert isinstance(looked(connection, "command", {"argv": ["pwd"]}, cwd=str(ground)).outcome, ProbeAnswer)
