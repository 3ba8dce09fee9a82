"""A run may open as many files as its hosts need, or says before it begins that it may not."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.program import PROGRAM

CODE = """
import resource, sys
from runbook.commands.one_run import provide_files
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), int(sys.argv[2])))
provide_files(int(sys.argv[3]))
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.parametrize(
    ("soft", "hard", "hosts", "then"),
    [
        (256, 4000, 300, "2432 4000"),
        (256, 1000, 300, "1000 1000"),
        (900, 1000, 100, "900 1000"),
        (256, 256, 112, "256 256"),
    ],
)
def test_the_soft_limit_is_raised_to_what_is_needed_and_never_lowered(soft, hard, hosts, then):
    """Mutants: ``provide_files`` that takes the hard limit; one that sets what is more already."""
    words = (sys.executable, "-c", CODE, str(soft), str(hard), str(hosts))
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip() == then


def test_too_few_files_are_said_before_anything_is_sent(tmp_path):
    """Mutants: ``Run`` without ``provide_files``; one that counts hosts which are never at work at once."""
    (tmp_path / "hosts.yaml").write_text("hosts:\n" + "".join(f"  h{it}: {{transport: local}}\n" for it in range(120)))
    shell = 'ulimit -n 256 && exec "$@"'

    def run(*words: str) -> subprocess.CompletedProcess:
        command = (
            "exec",
            "all",
            "-i",
            "hosts.yaml",
            "--yes",
            "--no-record",
            *words,
            "--",
            "touch",
            str(tmp_path / "changed"),
        )
        argv = ("sh", "-c", shell, "sh", *PROGRAM, *command)
        return subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)

    done = run("--parallel", "300")
    assert done.returncode == 2, done.stderr
    assert "120 hosts at once need 272 open files, and this process may have 256" in done.stderr
    assert "--parallel 112, or `ulimit -Hn 272` as root" in done.stderr
    assert not (tmp_path / "changed").exists()
    done = run("--parallel", "4")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "changed").exists()
