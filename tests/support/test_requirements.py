"""What a test asks for, and what is said at the end of a run of the tests that were left out."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.requirements import kinds
from tests.support.tables import every_row

TESTS = Path(__file__).parents[1]
SAMPLE = """
import pytest
def test_plain(): pass
@pytest.mark.real("git")
def test_git(): pass
@pytest.mark.real("git", "bash")
def test_git_and_bash(): pass
@pytest.mark.real("strace")
def test_strace(): pass
@pytest.mark.parametrize("part", ["none", pytest.param("both", marks=pytest.mark.real("strace", "tmux"))])
def test_param(part): pass
@pytest.mark.slow
def test_slow(): pass
@pytest.mark.faults
def test_fault(): pass
@pytest.mark.soak
@pytest.mark.real("strace")
def test_race(): pass
def test_on_its_way(): pytest.skip("the moon is full")
"""


@pytest.fixture
def sample(tmp_path):
    """Runs SAMPLE where no program is on PATH, and returns the exit code and the lines of the summary."""
    tests = tmp_path / "tests"
    (tests / "support").mkdir(parents=True)
    for name in ("__init__.py", "conftest.py", "support/__init__.py", "support/requirements.py"):
        shutil.copy(TESTS / name, tests / name)
    (tmp_path / "pyproject.toml").write_text(
        '[tool.pytest.ini_options]\nmarkers = ["real", "slow", "soak", "faults", "unit", "host", "docker", "systemd"]\n'
    )

    def run(*argv: str, text: str = SAMPLE, **env: str) -> tuple[int, list[str]]:
        (tests / "test_sample.py").write_text(text)
        words = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", *argv)
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("RUNBOOK_", "PYTEST_"))}
        done = subprocess.run(
            words, cwd=tmp_path, env={**clean, "PATH": str(tmp_path / "none"), **env}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        lines = (done.stdout + done.stderr).splitlines()
        return done.returncode, [
            line
            for line in lines
            if line.startswith(("left ", "FAILED ")) or " passed" in line or " deselected" in line or "needs " in line
        ]

    return run


@pytest.mark.parametrize("workers", ["0", pytest.param("1", marks=pytest.mark.slow)])
def test_what_a_machine_lacks_is_counted_in_one_line_for_each_part(sample, workers):
    code, lines = sample("-n", workers)
    assert code == 0
    assert lines[:-1] == [
        "left out: strace (3 tests): install strace",
        "left out: git (2 tests): install git",
        "left out: bash (1 test): install bash",
        "left out: tmux (1 test): install tmux",
        "left out: 5 tests in all (some need several of these)",
        "left out: 1 test: the moon is full",
    ]
    assert lines[-1].startswith("4 passed, 1 skipped")


def test_the_basic_suite_leaves_what_needs_a_real_part_or_is_slow_to_test_real_also_where_the_part_is_there(sample):
    code, lines = sample("--suite=basic", PATH=os.environ["PATH"])
    assert code == 0
    assert lines[:-1] == [
        "left out: 1 test: the moon is full",
        "left to make test-real: strace (2 tests)",
        "left to make test-real: bash (1 test)",
        "left to make test-real: tmux (1 test)",
        "left to make test-real: slow (1 test)",
        "left to make test-real: 4 tests in all (some need several of these)",
        "left to make soak: 2 tests",
    ]
    assert lines[-1].startswith("3 passed, 1 skipped, 6 deselected")


@pytest.mark.slow
def test_the_suite_of_real_parts_has_what_the_basic_one_leaves_but_for_soak(sample, tmp_path):
    """Mutants: conftest.py without the suite `real`; requirements.py with `soak` in it."""
    for program in ("git", "bash", "strace", "tmux"):
        tmp_path.joinpath(program).write_text("#!/bin/sh\n")
        tmp_path.joinpath(program).chmod(0o755)
    code, lines = sample("--suite=real", PATH=str(tmp_path))
    assert code == 0
    assert lines[:-1] == ["left to make soak: 2 tests"]
    assert lines[-1].startswith("4 passed, 6 deselected")


@pytest.mark.slow
def test_a_test_that_fails_is_named_at_once_and_at_the_end(sample):
    """Mutant: conftest.py without `pytest_runtest_logreport`."""
    _, lines = sample("-n", "1", text="def test_a(): assert 0\ndef test_b(): pass\n")
    named = [line for line in lines if line.startswith("FAILED tests/test_sample.py::test_a")]
    assert len(named) == 2


@pytest.mark.slow
def test_the_basic_suite_still_says_what_it_lacks_itself(sample):
    _, lines = sample("--suite=basic")
    assert lines[0] == "left out: git (1 test): install git"


@pytest.mark.slow
def test_a_list_of_the_tests_has_all_of_them(sample):
    code, lines = sample("--suite=basic", "--collect-only", RUNBOOK_TEST_ALL="1")
    assert (code, [line for line in lines if line.startswith("left ")]) == (0, [])


def test_where_nothing_may_be_left_out_a_missing_part_ends_the_run(sample):
    code, lines = sample("--suite=all", RUNBOOK_TEST_ALL="1")
    assert code != 0
    assert [line for line in lines if "needs git" in line and "RUNBOOK_TEST_ALL=1 leaves nothing out" in line]


@pytest.mark.slow
def test_where_nothing_may_be_left_out_a_test_that_leaves_itself_out_has_failed(sample):
    code, lines = sample(
        text="import pytest\ndef test_a(): pytest.skip('no')\ndef test_b(): pass\n", RUNBOOK_TEST_ALL="1"
    )
    assert code == 1
    assert lines[-1].startswith("1 failed, 1 passed")


@pytest.mark.slow
def test_a_part_that_nobody_knows_is_a_mistake(sample):
    code, lines = sample(text="import pytest\n@pytest.mark.real('gti')\ndef test_a(): pass\n")
    assert code != 0
    assert [line for line in lines if "needs gti, which tests/support/requirements.py does not know" in line]


@every_row(
    ("parts", "markers"),
    [
        ((), {"unit"}),
        (("git", "dash", "namespaces"), {"unit"}),
        (("sshd", "root"), {"host"}),
        (("bash", "git"), {"host"}),
        (("docker",), {"docker"}),
        (("systemd", "git"), {"systemd"}),
        (("docker", "sshd"), {"docker", "host"}),
    ],
)
def test_the_kind_of_a_test_is_what_it_needs(parts, markers):
    """Mutants: requirements.py with ``unit`` beside other kinds, or ``host`` for docker; ``basic`` negated."""
    assert kinds(parts) == markers


KINDS = """
import pytest
def test_plain(): pass
@pytest.mark.real("dash")
def test_dash(): pass
@pytest.mark.real("docker", "sshd")
def test_docker(): pass
@pytest.mark.parametrize("how", ["plainly", pytest.param("booted", marks=pytest.mark.real("systemd"))])
def test_service(how): pass
@pytest.mark.real("strace")
class TestTraced:
    def test_it(self): pass
"""


@pytest.mark.parametrize(
    ("expression", "lacking", "end"),
    [
        ("unit", ["dash"], "2 passed, 4 deselected"),
        ("docker", ["docker", "sshd"], "6 deselected"),
        ("systemd", ["systemd"], "6 deselected"),
        ("host and not docker", ["strace"], "6 deselected"),
    ],
)
@pytest.mark.slow
def test_tests_are_chosen_by_their_kind_which_nobody_wrote_down(sample, expression, lacking, end):
    """Mutants: conftest.py without `pytest_itemcollected`, or with its work done after `-m` has chosen."""
    _, lines = sample("-m", expression, text=KINDS)
    named = [line.split()[2] for line in lines if line.startswith("left out: ") and "in all" not in line]
    assert sorted(named) == lacking
    assert lines[-1].startswith(end)
