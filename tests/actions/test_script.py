"""Scripts beside a playbook: read when it is loaded, sent as they are, refused where they would mislead."""

from __future__ import annotations

import pytest

from runbook.commands.input_files import LARGEST_SENT, read_playbook
from runbook.errors import ConfigError
from runbook.execution.diagnosis.probe_types import ProbeAnswer, ProbeFailure
from runbook.language.expressions.templates import Scope, render
from runbook.values.plan import Risk
from tests.support.run_step import ACTIONS, carry_out, see


@pytest.fixture
def beside(tmp_path):
    """Writes a playbook with scripts beside it, and loads it."""

    def write(steps: str, **files: str | bytes):
        folder = tmp_path / "book"
        folder.mkdir(exist_ok=True)
        for name, text in files.items():
            path = folder / f"{name}.sh"
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
        (folder / "it.yaml").write_text(f"name: it\n{steps}\n")
        return read_playbook(folder / "it.yaml", ACTIONS)

    return write


def looked(book):
    (step,) = book.diagnose
    return see("script", render(step.args, Scope()))


def value(book):
    outcome = looked(book)
    assert isinstance(outcome, ProbeAnswer), outcome
    return outcome.state.value


LOOK = "diagnose:\n- id: a\n  script: {file: a.sh"


def test_a_script_is_sent_as_it_stands_with_its_arguments(beside):
    text = "# {{ not ours }} ${1}\nprintf '%s|' \"$@\"\n"
    assert value(beside(LOOK + ', args: ["a b", "$(id)", "it\'s"]}', a=text)) == "a b|$(id)|it's|"


@pytest.mark.parametrize("first", ["#!/bin/sh", "#!/bin/sh -e", "#! /bin/dash", "#!/usr/bin/env sh", ""])
def test_a_script_for_sh_is_run_by_the_hosts_sh(beside, first):
    assert value(beside(LOOK + "}", a=f'{first}\necho "${{BASH_VERSION:-sh}}" $#\n')) == "sh 0"


@pytest.mark.parametrize(
    "first", ["#!/bin/bash", "#!/usr/bin/env bash", "#!/usr/bin/bash -eu", "#!/usr/bin/env -S bash -e"]
)
def test_a_script_for_bash_is_run_by_bash_and_what_it_runs_does_not_read_it(beside, first):
    text = f"{first}\nwords=(a b 'c d')\ncat\necho \"${{#words[@]}} $1\"\n[[ $- == *e* ]] && echo strict\nexit 0\n"
    lines = value(beside(LOOK + ", args: [x y], parse: lines}", a=text))
    assert lines == (["3 x y", "strict"] if "-" in first.partition("bash")[2] or "-e" in first[-3:] else ["3 x y"])


def test_the_flags_of_the_first_line_hold(beside):
    outcome = looked(beside(LOOK + "}", a="#!/bin/sh -e\nfalse\necho on\n"))
    assert isinstance(outcome, ProbeFailure)
    assert "exited with 1" in outcome.why


@pytest.mark.slow
def test_a_script_as_long_as_may_be_is_sent_whole(beside):
    filler = f"# {'x' * 97}\n" * ((LARGEST_SENT - 100) // 100)
    for first in ("#!/bin/sh", "#!/bin/bash"):
        assert value(beside(LOOK + "}", a=f"{first}\n{filler}echo end\n")) == "end"


def test_a_change_asks_its_check_before_and_after(beside, tmp_path):
    steps = f"""
remediate:
- script:
    check: {{file: check.sh, args: [{tmp_path}/made]}}
    do: {{file: do.sh, args: [{tmp_path}/made]}}
"""
    book = beside(steps, check='test -e "$1"\n', do='#!/bin/bash\n[[ -n $1 ]] && : >"$1"\n')
    taken = carry_out(book)
    assert (taken.status, taken.result.verified) == ("changed", True), taken.why
    assert taken.planned.planned == f"run do.sh {tmp_path}/made"
    assert (tmp_path / "made").exists()
    assert (carry_out(book).status, carry_out(book).writes) == ("ok", [])


def test_a_change_that_its_check_does_not_confirm_has_failed(beside):
    steps = "remediate:\n- script: {check: {file: check.sh}, do: {file: do.sh}}"
    taken = carry_out(beside(steps, check="echo not yet; exit 1\n", do="true\n"))
    assert (taken.status, taken.why) == ("failed", "done, but its check still exits with 1: not yet")


def test_a_change_without_a_check_can_be_anything_and_is_not_verified(beside):
    taken = carry_out(beside("remediate:\n- script: {do: {file: do.sh}}", do="true\n"))
    assert (taken.status, taken.result.verified, taken.result.risk) == ("changed", False, Risk.UNKNOWN)


def test_the_text_is_that_of_the_moment_when_the_playbook_was_loaded(beside, tmp_path):
    book = beside(LOOK + "}", a="echo old\n")
    (tmp_path / "book/a.sh").write_text("echo new\n")
    assert value(book) == "old"
    again = read_playbook(tmp_path / "book/it.yaml", ACTIONS)
    assert value(again) == "new"
    assert again.digest != book.digest, "a plan rests on what stands in the script"


def test_a_script_of_an_included_playbook_lies_beside_that_one(beside, tmp_path):
    (tmp_path / "book/inner").mkdir(parents=True)
    (tmp_path / "book/inner/part.yaml").write_text("name: part\n" + LOOK + "}\n")
    (tmp_path / "book/inner/a.sh").write_text("echo inner\n")
    outer = "diagnose:\n- {id: x, include: inner/part}"
    first = beside(outer, a="echo outer\n")
    assert value(first) == "inner"
    (tmp_path / "book/inner/a.sh").write_text("echo other\n")
    assert beside(outer).digest != first.digest


@pytest.mark.parametrize(
    ("args", "place", "words"),
    [
        ("{file: no.sh}", "4:12", "there is no such file"),
        ("{file: ../out.sh}", "4:12", "lies outside"),
        ("{file: link.sh}", "4:12", "lies outside"),
        ("{file: .}", "4:12", "not a file"),
        ("{file: bin.sh}", "4:12", "NUL byte"),
        ("{file: latin.sh}", "4:12", "not UTF-8"),
        ("{file: big.sh}", "4:12", "larger than 256 KiB"),
        ("{file: '{{ host.name }}.sh'}", "4:12", "without a template"),
        ("{file: a.sh, text: x}", "4:24", "leave it out"),
        ("{file: empty.sh}", "4:", "is empty"),
        ("{file: dos.sh}", "4:", "line ends"),
        ("{file: py.sh}", "4:", "is for python3"),
        ("{file: odd.sh}", "4:", "write such options into the script"),
        ("{file: kills.sh}", "4:", "may not change the host, and `rm`"),
        ("{}", "4:", "give `file`"),
        ("{args: [a]}", "4:", "no `file` is given"),
        ("{do: {file: a.sh}}", "4:", "a probe changes nothing"),
        ("{fil: a.sh}", "4:", "did you mean file?"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_meant_is_refused_at_its_place(beside, tmp_path, args, place, words):
    beside("", a="true\n", bin=b"echo\0\n", latin=b"echo \xe9\n", big="#" * (LARGEST_SENT + 1), empty="\n",
           dos="echo\r\n", py="#!/usr/bin/env python3\n", odd="#!/bin/sh --login\n", kills="rm -rf /x\n")  # fmt: skip
    (tmp_path / "out.sh").write_text("true\n")
    (tmp_path / "book/link.sh").symlink_to(tmp_path / "out.sh")
    with pytest.raises(ConfigError) as raised:
        beside(f"diagnose:\n- id: a\n  script: {args}")
    text = str(raised.value)
    assert len(raised.value.problems) == 1, "and nothing else is said of it"
    assert words in text
    assert f"it.yaml:{place}" in text


def test_an_absolute_path_is_taken_from_anywhere(beside, tmp_path):
    (tmp_path / "out.sh").write_text("echo far\n")
    assert value(beside(f"diagnose:\n- id: a\n  script: {{file: {tmp_path}/out.sh}}")) == "far"


def test_a_check_that_changes_something_is_refused(beside):
    with pytest.raises(ConfigError, match=r"the check check\.sh may not change the host, and `kill`"):
        beside("remediate:\n- script: {check: {file: check.sh}, do: {file: do.sh}}", check="kill 1\n", do="true\n")


def test_what_only_looks_does_not_belong_under_remediate(beside):
    with pytest.raises(ConfigError, match="only reads"):
        beside("remediate:\n- script: {file: a.sh}", a="true\n")
