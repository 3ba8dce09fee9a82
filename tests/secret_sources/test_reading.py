"""The value of one secret: from the environment, a file, a program, the keyring; and which values are refused."""

from __future__ import annotations

import os
import sys
import time
from types import ModuleType

import pytest

from runbook.errors import ConfigError
from runbook.secret_sources import program
from runbook.secret_sources.reading import MAX_SECRET_BYTES, value_of
from runbook.values.playbook import SecretReference, SecretSource, Where
from tests.support.waiting import gone, until

VALUE = "canary-4711 'x'"
CANARY = "hunter2-XYZ"


def read(source: str, *words: str, beside: str = "") -> str:
    return value_of(
        SecretReference(name="it", source=SecretSource(source), words=words, where=Where(file=beside, line=1, column=1))
    )


def refused(source: str, *words: str, beside: str = "") -> str:
    with pytest.raises(ConfigError) as caught:
        read(source, *words, beside=beside)
    return str(caught.value)


def test_a_variable_is_taken_as_it_is(monkeypatch):
    monkeypatch.setenv("IT", f"{VALUE}\n")
    assert read("env", "IT") == f"{VALUE}\n"
    monkeypatch.delenv("IT")
    assert refused("env", "IT") == "the environment variable IT is not set"


@pytest.mark.parametrize(
    ("text", "value"), [("{}\n", "{}"), ("{}\r\n", "{}"), ("{}", "{}"), ("{}\n\n", "{}\n"), (" {}\n", " {}")]
)
def test_one_line_end_behind_the_text_of_a_file_is_no_part_of_it(tmp_path, text, value):
    path = tmp_path / "it"
    path.write_bytes(text.format(VALUE).encode())
    path.chmod(0o600)
    assert read("file", str(path)) == value.format(VALUE)
    assert read("command", "cat", str(path)) == value.format(VALUE)


def test_a_file_lies_beside_the_playbook_or_below_home(tmp_path, monkeypatch):
    (tmp_path / "it").write_text(VALUE)
    (tmp_path / "it").chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert read("file", "it", beside=str(tmp_path / "book.yaml")) == VALUE
    assert read("file", "~/it", beside="/elsewhere/book.yaml") == VALUE


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o610, 0o666])
def test_a_file_that_others_can_access_is_refused_with_what_to_do(tmp_path, mode):
    """Mutants: reading.py ``0o077`` as ``0o007`` or ``0o044``."""
    path = tmp_path / "it"
    path.write_text(VALUE)
    path.chmod(mode)
    assert refused("file", str(path)) == f"other users can access {path} (mode {mode:04o}): run chmod 600 {path}"


@pytest.mark.real("root")
def test_a_file_of_another_user_is_refused_and_one_of_root_is_not(tmp_path):
    path = tmp_path / "it"
    path.write_text(VALUE)
    path.chmod(0o600)
    assert read("file", str(path)) == VALUE
    os.chown(path, 12345, 12345)
    assert "belongs to another user (uid 12345)" in refused("file", str(path))


def test_what_is_no_file_is_not_waited_for(tmp_path):
    """Mutants: reading.py ``_file`` without ``O_NONBLOCK``."""
    os.mkfifo(tmp_path / "pipe", 0o600)
    assert "is not a regular file" in refused("file", str(tmp_path / "pipe"))
    assert "is not a regular file" in refused("file", "/dev/zero")
    assert "is a directory" in refused("file", str(tmp_path)) or "not a regular file" in refused("file", str(tmp_path))
    assert refused("file", str(tmp_path / "none")).endswith("no such file or directory")


UNFIT = {
    "": "it is empty",
    " \n": "it is empty",
    "abc": "it has 3 characters",
    "x": "it has 1 character,",
    " abc ": "it has 3 characters",
    "Default": "an ordinary word",
    "root": "an ordinary word",
    "Healthy": "an ordinary word",
    "not started": "an ordinary word",
    "would_change": "an ordinary word",
    "enabled": "an ordinary word",
    "hunter2\nab1\nAdmin22": "its line 2 has 3 characters, and fewer than 4 cannot be hidden",
    "-----BEGIN X KEY-----\nabcd\n-----END X KEY-----\nxyz": "its line 4 has 3 characters",
    "root\n{{{{{\ntest": "none of its lines can be hidden",
    "x" * (MAX_SECRET_BYTES + 1): "larger than 64 KiB",
}


@pytest.mark.parametrize("value", UNFIT, ids=lambda it: it[:8])
def test_a_value_that_could_not_be_hidden_or_sent_is_refused_and_not_repeated(tmp_path, value):
    path = tmp_path / "it"
    path.write_text(value)
    path.chmod(0o600)
    said = refused("file", str(path))
    assert UNFIT[value] in said
    assert not value.strip() or len(value) < 4 or f" {value} " not in said


def test_bytes_that_are_no_text_are_refused(tmp_path):
    path = tmp_path / "it"
    path.write_bytes(b"abcd\xff\xfe")
    path.chmod(0o600)
    assert "is not UTF-8 text" in refused("file", str(path))
    path.write_bytes(b"abcd\0efgh")
    assert "NUL" in refused("file", str(path))
    assert "NUL" in refused("command", "cat", str(path))


@pytest.mark.parametrize(
    "value",
    [
        "four",
        "-----BEGIN X PRIVATE KEY-----\nabc\n-----END",
        '{\n  "key": "abcdefg"\n}',
        "hunter2\n\nadmin",
        "a.*b[c](d)\\",
        "пароль ü 密码",
        "tab\there",
        "$HOME `id` $(id) \"'",
    ],
)
def test_other_values_are_taken_as_they_are(value, monkeypatch):
    monkeypatch.setenv("IT", value)
    assert read("env", "IT") == value
    assert read("command", sys.executable, "-c", "import os; print(os.environ['IT'])") == value


def test_no_shell_reads_a_program():
    assert read("command", "printf", "%s", "$HOME;`id`") == "$HOME;`id`"


SAYS_IT = {
    "on stderr alone": f"echo 'denied for key {CANARY}' >&2; exit 3",
    "also on stderr": f"echo {CANARY}; echo 'no entry for {CANARY}' >&2; exit 3",
    "within more on stdout": f"echo user {CANARY}; echo {CANARY} >&2; exit 3",
    "encoded on stderr": f"echo {CANARY}; echo {CANARY} | base64 >&2; exit 3",
    "under set -x": f"set -x; key={CANARY}; exit 3",
}


@pytest.mark.parametrize("script", SAYS_IT.values(), ids=SAYS_IT)
def test_of_a_program_that_fails_nothing_is_repeated_and_it_is_said_how_to_see_it(script, capfd):
    """Mutants: program.py with the end of stderr in its message; with our own stderr for the program's."""
    assert refused("command", "sh", "-c", script) == f"the program sh exited with 3{program.NOT_SHOWN}"
    assert capfd.readouterr() == ("", "")


def test_what_a_program_writes_on_stderr_is_no_part_of_the_value():
    """Mutants: program.py with STDOUT for the program's stderr."""
    assert read("command", "sh", "-c", f"echo warning >&2; echo {CANARY}") == CANARY


def test_a_program_that_cannot_do_it_is_named_with_the_way_it_ended():
    assert refused("command", "sh", "-c", "kill -9 $$") == f"the program sh was ended by signal 9{program.NOT_SHOWN}"
    assert "run the command by hand" in program.NOT_SHOWN
    assert refused("command", "/no/such") == "the program /no/such cannot be started: no such file or directory"


def test_a_program_is_bounded_in_time_and_so_is_what_it_has_started(monkeypatch, tmp_path):
    """Mutants: program.py ``_end`` that kills the program alone."""
    monkeypatch.setattr(program, "LIMIT", 0.5)
    pid = tmp_path / "pid"
    for limit in (0.5, 20.0):  # on a slow machine nothing is begun within the first
        words = ("sh", "-c", f"echo asking >&2; sleep 3600 & echo $! >{pid}; wait")
        with pytest.raises(ConfigError, match=rf"did not end within {limit:g} s: what it says may"):
            program.printed(words, 100, limit)
        if pid.exists() and pid.read_text():
            break
    child = int(pid.read_text())
    until(lambda: gone(child), "what it has started to end")


def test_a_program_is_bounded_in_what_it_prints():
    assert refused("command", "yes", "canary") == "the program yes printed more than 64 KiB"


def test_what_a_program_leaves_behind_on_its_pipe_is_not_waited_for():
    """Mutants: program.py ``_listen`` without its ``poll``."""
    began = time.monotonic()
    assert read("command", "sh", "-c", "sleep 100 & echo canary-4711; exit 0") == "canary-4711"
    assert time.monotonic() - began < 60


def keyring_with(entries: dict[tuple[str, str], str]) -> ModuleType:
    made = ModuleType("keyring")
    made.get_password = lambda service, user: entries.get((service, user))  # type: ignore[attr-defined]
    return made


def test_an_entry_of_the_keyring(monkeypatch):
    monkeypatch.setitem(sys.modules, "keyring", keyring_with({("vault", "ops"): VALUE}))
    assert read("keyring", "vault", "ops") == VALUE
    assert refused("keyring", "vault", "me") == "the keyring holds nothing for the service vault and the user me"


def test_a_keyring_that_is_not_installed_or_breaks_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "keyring", None)
    assert "pip install 'runbook-engine[keyring]'" in refused("keyring", "vault", "ops")
    broken = keyring_with({})
    broken.get_password = lambda service, user: 1 / 0  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "keyring", broken)
    assert "the keyring cannot be read: ZeroDivisionError" in refused("keyring", "vault", "ops")
