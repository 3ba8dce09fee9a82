"""The debug log: what is sent, decided and probed again, on stderr or in a file, without secrets."""

from __future__ import annotations

import json
import os
import re
import stat

import pytest

from tests.support.program import runbook

SECRET = "hunter2-of-the-log"
BOOK = f"""
name: toy
about: Writes a file with a secret.
inputs:
  token: {{about: A secret., secret: true, required: true}}
  folder: {{about: Where., required: true}}
remediate:
  - id: write
    command:
      do: {{argv: [sh, -c, 'echo "$1 $TOKEN" >"$2/out"; echo "$1 said" >&2', sh, "{{{{ inputs.token }}}}", "{{{{ inputs.folder }}}}"]}}
      check: {{argv: [sh, -c, 'test -e "$0/out"', "{{{{ inputs.folder }}}}"]}}
    env: {{TOKEN: "{{{{ inputs.token }}}}"}}
  - id: refused
    ignore_failure: true
    command: {{do: {{argv: [sh, -c, 'echo "no {SECRET} for you" >&2; exit 9']}}}}
"""


@pytest.fixture
def run(tmp_path):
    (tmp_path / "hosts.yaml").write_text("hosts: {a: {transport: local}}\n")
    (tmp_path / "toy.yaml").write_text(BOOK)
    (tmp_path / "inputs.yaml").write_text(f"token: {SECRET}\nfolder: {tmp_path}\n")

    def run(*more, **env):
        (tmp_path / "out").unlink(missing_ok=True)
        words = ("toy.yaml", "--hosts", "a", "-i", "hosts.yaml", "--inputs", "inputs.yaml", "--yes", "--no-record")
        return runbook("run", *words, *more, cwd=tmp_path, XDG_STATE_HOME=str(tmp_path / "state"), **env)

    return run


def lines_of(text: str) -> list[str]:
    return [
        re.sub(r"#\d+ ", "#N ", re.sub(r"#\d+:", "#N:", re.sub(r"^(runbook: )?debug [\dTZ:.-]+ ", "", line)))
        for line in text.splitlines()
        if "debug " in line
    ]


def test_it_says_what_is_sent_decided_and_probed_again_and_no_secret(run):
    """Mutants: debug_log.py ``line`` without the mask; ``sent`` without ``again``; one_run.py ``hiding`` without the log."""
    said = run(RUNBOOK_DEBUG="1")
    assert "decided write: would_change" in said.err, said.err
    log = lines_of(said.err)
    assert "hunter2" not in said.err
    assert len([line for line in log if line.startswith("a: send #N write: $ env 'TOKEN=***'")]) == 1, said.err
    (begun,) = (
        number for number, line in enumerate(log) if line.startswith("a: change write begins (edits-files): run sh -c")
    )
    again = [number for number, line in enumerate(log) if line.startswith("a: send #N probe again: $ env")]
    assert again, log
    assert again[-1] > begun
    assert any(
        re.match(r"a: answer #N: exit 9 after \d\.\d{3} s, 0 \+ \d+ characters: no \*\*\* for you$", line)
        for line in log
    ), log
    assert any(re.match(r"a: step write ended: changed: .*, probed again$", line) for line in log), log
    assert log[-1].endswith("ended with exit code 0")


SPREAD = "pass  phrase\twith  gaps77"
SECOND = "QxZwPassw0rd77"
LEAKS = """
name: toy
about: Prints secrets.
inputs:
  spread: {about: A secret., secret: true, required: true}
  second: {about: A secret., secret: true, required: true}
diagnose:
  - {id: one, command: {argv: [sh, -c, 'echo "E: $S" >&2; exit 5']}, env: {S: "{{ inputs.spread }}"}}
  - {id: two, command: {argv: [sh, -c, 'printf "%0195d$S" 0 >&2; exit 5']}, env: {S: "{{ inputs.second }}"}}
"""


def test_no_secret_shows_where_white_space_is_folded_or_a_line_is_cut(tmp_path, run):
    """Mutants: ``line`` that masks what is folded; ``answered`` that cuts before it masks."""
    (tmp_path / "toy.yaml").write_text(LEAKS)
    (tmp_path / "inputs.yaml").write_text(json.dumps({"spread": SPREAD, "second": SECOND}))
    said = run(RUNBOOK_DEBUG="1").err
    assert "E: ***" in said
    assert "000000" in said
    assert [part for part in ("phrase", "gaps77", "QxZ", "0Qx", "Passw0rd") if part in said] == []


def test_it_is_off_unless_it_is_asked_for_and_vvv_asks_for_it(run):
    """Mutants: ``debug_lines`` that takes ``0`` for a file; an option that nobody reads."""
    assert lines_of(run().err) == lines_of(run(RUNBOOK_DEBUG="0").err) == lines_of(run("-v").err) == []
    assert lines_of(run("-vvv").err)


def test_a_file_takes_it_which_only_its_user_can_read(run, tmp_path):
    """Mutants: a file of mode 644; one that is emptied; a link that is followed; a pipe; one that others can read."""
    for count in (1, 2):
        said = run(RUNBOOK_DEBUG=str(tmp_path / "log"))
        assert lines_of(said.err) == []
        assert (tmp_path / "log").read_text().count("of toy begins (run)") == count
    assert stat.S_IMODE((tmp_path / "log").stat().st_mode) == 0o600
    assert "hunter2" not in (tmp_path / "log").read_text()
    (tmp_path / "link").symlink_to(tmp_path / "log")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "open").touch()
    (tmp_path / "open").chmod(0o644)
    for place in ("link", "none/log", "pipe", "open"):
        said = run(RUNBOOK_DEBUG=str(tmp_path / place))
        assert (said.code, "RUNBOOK_DEBUG: " in said.err, (tmp_path / "out").exists()) == (2, True, False), said.err
