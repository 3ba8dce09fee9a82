"""What a shell takes from the login user is fit for the user that it runs as (law 9)."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess

import pytest

from runbook.connections.sessions.programs import PATH_GUARD
from tests.support.run_step import way_to

SHELLS = [
    pytest.param(("dash",), id="dash", marks=[] if shutil.which("dash") else pytest.mark.real("dash")),
    pytest.param(("busybox", "sh"), id="busybox", marks=pytest.mark.real("busybox")),
    pytest.param(("bash", "--posix"), id="bash"),
]
USUAL = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def told(shell: tuple[str, ...], user: int = 0, **env: str) -> list[str]:
    """PATH and HOME of a *shell* that is started with *env*; programs are found by the usual PATH."""
    by = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"] if user else []
    given = "".join(f"{name}={shlex.quote(value)}; export {name}\n" for name, value in env.items())
    argv = [*by, *shell, "-c", f'{given}{PATH_GUARD}\nprintf "%s\\n" "$PATH" "$HOME"', "sh"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, cwd="/")
    assert not done.stderr, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("shell", SHELLS)
def test_programs_are_not_sought_in_the_current_directory(shell):
    """Mutants: PATH_GUARD keeping every entry."""
    assert told(shell, PATH=f".:{USUAL}::bin:./x:")[0] == USUAL
    assert told(shell, PATH=".")[0] == USUAL


@pytest.mark.real("root", "setpriv")
@pytest.mark.parametrize("shell", SHELLS)
def test_root_seeks_no_program_where_others_can_put_one(shell, tmp_path):
    (theirs, wide, mine) = (tmp_path / it for it in ("their s", "wide", "mine"))
    for it in (theirs, wide, mine):
        it.mkdir(mode=0o755)
    os.chown(theirs, 4242, 4242)
    wide.chmod(0o777)
    (tmp_path / "link").symlink_to(theirs)
    fake = theirs / "ls"
    fake.write_text(f"#!/bin/sh\n: >{mine}/ran\n")
    fake.chmod(0o755)
    path = f"{theirs}:{tmp_path}/link:{USUAL}:{wide}:{mine}:/nonexistent"
    assert told(shell, PATH=path)[0] == f"{USUAL}:{mine}:/nonexistent"
    assert list(mine.iterdir()) == []


@pytest.mark.real("root", "setpriv")
@pytest.mark.parametrize("shell", SHELLS)
def test_root_seeks_no_program_where_others_can_put_another_directory(shell, tmp_path):
    """Mutants: PATH_GUARD without the directories above; without those that a link leads to; with links of others."""
    home, shared, own = (tmp_path / it for it in ("home", "shared", "own"))
    for it in (home / "venv/bin", shared / "venv/bin", own / "venv/bin", shared / "theirs"):
        it.mkdir(parents=True)
    os.chown(home, 4242, 4242)  # what root has made in a user's home can be renamed by that user
    shared.chmod(0o1777)
    (own / "to-home").symlink_to(home / "venv/bin")
    (shared / "to-own").symlink_to(own / "venv/bin")
    os.lchown(shared / "to-own", 4242, 4242)
    (shared / "mine").symlink_to(own / "venv/bin")
    bad = f"{home}/venv/bin:{home}/venv/bin/:{own}/to-home:{shared}/to-own:{home}/none"
    good = f"{shared}/venv/bin:{own}/venv/bin:{shared}/mine:/nonexistent/x"
    assert told(shell, PATH=f"{bad}:{good}:{USUAL}")[0] == f"{good}:{USUAL}"
    assert told(shell, PATH=bad)[0] == USUAL


@pytest.mark.real("root", "setpriv")
@pytest.mark.parametrize("shell", SHELLS)
def test_the_home_of_another_user_is_not_ours(shell, tmp_path):
    os.chown(tmp_path, 4242, 4242)
    root = os.path.expanduser("~root")
    assert told(shell, HOME=str(tmp_path))[1] == root
    assert told(shell, HOME=root)[1] == root
    assert told(shell, user=4242, HOME="/root/none")[1] == "/", "it may not even be inspected, and there is no ~4242"
    for it in way_to(tmp_path):
        it.chmod(0o755)
    assert told(shell, user=4242, HOME=str(tmp_path))[1] == str(tmp_path)
