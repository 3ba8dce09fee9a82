"""Reports are for their owner alone, and are written over nothing that is not ours."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress

import pytest

from runbook.errors import ConfigError
from runbook.reporting.report_file import create

STRANGER = 54321
"""A user that the machine does not know."""


def written(path, text: str = "new") -> None:
    with os.fdopen(create(str(path)), "w") as file:
        file.write(text)


def mode(path) -> int:
    return path.stat().st_mode & 0o777


@pytest.fixture
def shared(tmp_path):
    """A directory in which everybody may make things, as /tmp."""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


def test_a_report_is_for_its_owner_alone_whatever_the_umask(tmp_path):
    """Mutants: report_file.py ``create`` with mode 0o666, ``_taken_over`` without its ``fchmod``."""
    before = os.umask(0)
    try:
        written(tmp_path / "new.json")
    finally:
        os.umask(before)
    assert mode(tmp_path / "new.json") == 0o600
    old = tmp_path / "old.json"
    old.write_text("a longer text of before")
    old.chmod(0o644)
    written(old)
    assert (mode(old), old.read_text()) == (0o600, "new")


def test_the_program_itself_makes_them_so(tmp_path):
    (tmp_path / "i.yaml").write_text("hosts: {a: {transport: local}}")
    (tmp_path / "p.yaml").write_text("name: p\nhosts: all\ndiagnose:\n  - {id: a, command: {argv: ['true']}}\n")
    report = tmp_path / "r.jsonl"
    argv = [sys.executable, "-m", "runbook", "run", str(tmp_path / "p.yaml"), "-i", str(tmp_path / "i.yaml")]
    done = subprocess.run([*argv, "--report", str(report)], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert mode(report) == 0o600
    assert '"run_finished"' in report.read_text()


@pytest.mark.real("root")
@pytest.mark.parametrize("where", ["r.json", "sub/r.json"])
def test_a_link_that_a_stranger_has_planted_is_not_followed(shared, tmp_path, where):
    """Mutants: report_file.py ``_link`` without its refusal."""
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "r.json").write_text("precious")
    link = shared / where.partition("/")[0]
    link.symlink_to(precious if "/" in where else precious / "r.json")
    os.lchown(link, STRANGER, STRANGER)
    with pytest.raises(ConfigError, match=f"symbolic link owned by the user {STRANGER}"):
        create(str(shared / where))
    assert (precious / "r.json").read_text() == "precious"


@pytest.mark.real("root")
def test_a_link_of_our_own_is_followed(tmp_path):
    (tmp_path / "latest.json").symlink_to("runs/today.json")
    (tmp_path / "runs").mkdir()
    written(tmp_path / "latest.json")
    assert (tmp_path / "runs" / "today.json").read_text() == "new"


@pytest.mark.real("root")
@pytest.mark.parametrize("kind", ["file", "pipe"])
def test_what_a_stranger_has_made_there_is_left_alone(shared, kind):
    """Mutants: report_file.py ``_refuse_foreign`` without its first refusal."""
    there = shared / "r.json"
    if kind == "file":
        there.write_text("theirs")
    else:
        os.mkfifo(there)
    os.chown(there, STRANGER, STRANGER)
    with pytest.raises(ConfigError, match="belongs to the user"):
        create(str(there))
    assert kind == "pipe" or there.read_text() == "theirs"


def test_a_file_with_a_second_name_is_not_emptied(tmp_path):
    """Mutants: report_file.py ``_refuse_foreign`` without its second refusal."""
    (tmp_path / "config").write_text("kept")
    os.link(tmp_path / "config", tmp_path / "r.json")
    with pytest.raises(ConfigError, match="2 names"):
        create(str(tmp_path / "r.json"))
    assert (tmp_path / "config").read_text() == "kept"


def test_links_in_a_circle_and_directories_are_mistakes(tmp_path):
    (tmp_path / "a.json").symlink_to("b.json")
    (tmp_path / "b.json").symlink_to("a.json")
    for name in ("a.json", ".", "..", "a.json/x.json"):
        with pytest.raises((ConfigError, OSError)):
            create(str(tmp_path / name))


@pytest.mark.soak
@pytest.mark.real("root")
def test_who_swaps_files_and_links_never_gets_a_file_of_ours_emptied(shared, tmp_path):
    """A stranger swaps a file of his, and a link to one of ours, for as long as 200 reports are made."""
    precious = tmp_path / "precious.json"
    precious.write_text("precious")
    os.chmod(tmp_path, 0o755)
    script = 'cd "$1" && while :; do ln -sfn "$2" r.json; rm -f r.json; : > r.json; rm -f r.json; done'
    argv = ["setpriv", f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups", "sh", "-c", script, "sh"]
    attack = subprocess.Popen([*argv, str(shared), str(precious)], stderr=subprocess.DEVNULL)
    try:
        for _ in range(200):
            with suppress(ConfigError, OSError):
                written(shared / "r.json", "a report")
            assert precious.read_text() == "precious"
            with suppress(OSError):
                if os.lstat(shared / "r.json").st_uid == 0:
                    os.unlink(shared / "r.json")
    finally:
        attack.kill()
        attack.wait()
