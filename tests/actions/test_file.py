"""Files and directories of the host: written in one stroke, and never over something else."""

from __future__ import annotations

import grp
import os
import pwd
import stat
import subprocess
from pathlib import Path

import pytest

from runbook.commands.input_files import read_playbook
from runbook.errors import ConfigError
from runbook.execution.diagnosis.probe_types import ProbeAnswer, ProbeFailure
from runbook.language.arguments import build
from runbook.library.files import file
from runbook.onhost.writing import ask_place, make, read_place
from tests.support.probe_driver import drive
from tests.support.real_processes import Machine, each, shell
from tests.support.run_step import ACTIONS, carry_out, see, take, way_to
from tests.support.tables import every_row

ODD = 'it\'s a "file" $HOME `id`\nof two lines'


def mode(path) -> str:
    return f"{stat.S_IMODE(path.lstat().st_mode):o}"


def left_behind(folder) -> list[str]:
    return [it.name for it in folder.iterdir() if it.name.startswith(".runbook")]


@pytest.mark.real("root")
def test_a_parent_that_is_missing_below_another_users_directory_shows_nothing_of_ours(tmp_path, monkeypatch):
    """Mutant: file_probe.sh that looks at a file of that name in the directory that it stands in."""
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    os.chown(theirs, 4242, 4242)
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path)
    taken = take("file", {"path": f"{theirs}/app/data", "state": "directory", "parents": True})
    assert (taken.status, "belongs to" in taken.why) == ("blocked", True), taken.why


@every_row("name", ["plain", ODD, "-n", " "])
def test_a_file_is_made_with_its_content_and_the_second_run_does_nothing(tmp_path, name):
    path = tmp_path / name
    args = {"path": str(path), "content": "a: 1\n\n\nlast", "mode": "0640"}
    taken = take("file", args)
    assert (taken.status, taken.result.verified) == ("changed", True), taken.why
    assert path.read_bytes() == b"a: 1\n\n\nlast"
    assert mode(path) == "640"
    assert taken.planned.diff is not None
    assert "+a: 1" in taken.planned.diff
    assert "\\ No newline at end of file" in taken.planned.diff
    again = take("file", args)
    assert (again.status, again.writes) == ("ok", [])
    assert left_behind(tmp_path) == []


def test_a_change_keeps_mode_and_owner_and_shows_the_difference(tmp_path):
    path = tmp_path / "unit"
    path.write_text("one\ntwo\n")
    path.chmod(0o604)
    if os.geteuid() == 0:
        os.chown(path, 65534, 65534)
    inode = path.stat().st_ino
    taken = take("file", {"path": str(path), "content": "one\n2\n", "backup": True})
    assert taken.status == "changed", taken.why
    assert taken.planned.diff is not None
    assert "-two\n+2\n" in taken.planned.diff
    assert (path.read_text(), mode(path)) == ("one\n2\n", "604")
    assert path.stat().st_uid == (65534 if os.geteuid() == 0 else os.geteuid())
    assert path.stat().st_ino != inode, "put in place in one stroke"
    (kept,) = tmp_path.glob("unit.backup-*")
    assert kept.read_text() == "one\ntwo\n"


def test_only_the_mode_is_changed_where_no_content_is_asked_for(tmp_path):
    path = tmp_path / "key"
    path.write_bytes(b"\0\xff binary")
    path.chmod(0o644)
    inode = path.stat().st_ino
    taken = take("file", {"path": str(path), "mode": "0600"})
    assert (taken.status, mode(path)) == ("changed", "600")
    assert taken.planned.planned == f"change mode 0600 (is 644) of {path}"
    assert (path.read_bytes(), path.stat().st_ino) == (b"\0\xff binary", inode)


@pytest.mark.real("root")
def test_owner_and_group_are_set(tmp_path):
    args = {"path": str(tmp_path / "x"), "content": "x", "owner": "nobody", "group": "daemon"}
    assert take("file", args).status == "changed"
    assert ((tmp_path / "x").owner(), (tmp_path / "x").group()) == ("nobody", "daemon")
    assert take("file", args).status == "ok"
    taken = take("file", {**args, "owner": "surely-nobody"})
    assert taken.status == "failed"
    assert "nothing was written" in taken.why
    assert left_behind(tmp_path) == []


@pytest.mark.real("root")
@pytest.mark.parametrize("name", each(["dash", "busybox"]))
def test_owners_are_compared_by_their_numbers(tmp_path, name):
    """Mutants: file.py comparing names; writing.py not asking who is meant."""
    (tmp_path / "x").write_text("x")
    machine = Machine()
    if name == "busybox":  # without getent too
        (tmp_path / "tools").mkdir()
        subprocess.run(["busybox", "--install", "-s", str(tmp_path / "tools")], check=True)
        machine = Machine(shell=(f"{tmp_path}/tools/sh",), before=("env", "-i", f"PATH={tmp_path}/tools"))
    nobody, daemon = pwd.getpwnam("nobody"), grp.getgrnam("daemon")

    def needs(owner, group):
        made = build(file.Args, {"path": str(tmp_path / "x"), "owner": owner, "group": group})
        return drive(file.probe(made), machine).needs

    assert needs("0", "0") == needs("root", "root") == ()
    assert needs("nobody", "daemon") == ("owner nobody (is root)", "group daemon (is root)")
    os.chown(tmp_path / "x", nobody.pw_uid, daemon.gr_gid)
    assert needs(str(nobody.pw_uid), str(daemon.gr_gid)) == needs("nobody", "daemon") == ()
    assert needs("0", "0") == ("owner 0 (is nobody)", "group 0 (is daemon)")
    os.chown(tmp_path / "x", 54321, 54321)
    assert needs("54321", "54321") == ()
    assert len(needs("root", "surely-nobody")) == 2


@pytest.mark.real("root", "lab")
def test_two_names_of_one_user_are_the_same_owner(tmp_path):
    """A whole /etc of its own: a mount on one file there ends when another test adds a user, which replaces the file."""
    subprocess.run(["cp", "-a", "/etc", str(tmp_path / "etc")], check=True)
    (tmp_path / "etc/passwd").write_text(f"toor:x:0:0::/:/bin/sh\n{Path('/etc/passwd').read_text()}")
    (tmp_path / "x").write_text("x")
    within = ("unshare", "-m", "sh", "-ec", f'mount --bind {tmp_path}/etc /etc; exec "$@"', "sh")
    made = build(file.Args, {"path": str(tmp_path / "x"), "owner": "root"})
    state = drive(file.probe(made), Machine(before=within))
    assert (state.owner, state.needs) == ("toor", ())


@pytest.mark.slow
def test_the_plan_says_that_other_names_of_a_file_keep_the_old_one(tmp_path):
    """Mutants: file.py silent about hard links, or talking of them where only the mode changes."""
    path = tmp_path / "x"
    path.write_text("old\n")
    os.link(path, tmp_path / "y")
    taken = take("file", {"path": str(path), "content": "new\n"})
    assert taken.planned.planned == f"change content of {path}; its other hard links (1) keep the old content"
    assert ((tmp_path / "x").read_text(), (tmp_path / "y").read_text()) == ("new\n", "old\n")
    assert take("file", {"path": str(path), "content": "newer\n"}).planned.planned == f"change content of {path}"
    os.link(path, tmp_path / "z")
    assert take("file", {"path": str(path), "mode": "0600"}).planned.planned == f"change mode 0600 (is 644) of {path}"


def test_a_directory_is_made_with_those_around_it_only_if_asked(tmp_path):
    path = tmp_path / "a/b/c"
    taken = take("file", {"path": str(path), "state": "directory"})
    assert (taken.status, taken.why) == (
        "blocked",
        f"{path}: there is no directory {tmp_path}/a/b: `parents: true` creates it",
    )
    taken = take("file", {"path": str(path), "state": "directory", "parents": True, "mode": "2750"})
    assert (taken.status, mode(path)) == ("changed", "2750"), taken.why
    assert take("file", {"path": str(path), "state": "directory", "mode": "2750"}).status == "ok"


def test_an_empty_file_is_made_and_content_may_be_empty(tmp_path):
    assert take("file", {"path": str(tmp_path / "a")}).status == "changed"
    (tmp_path / "b").write_text("x")
    assert take("file", {"path": str(tmp_path / "b"), "content": ""}).status == "changed"
    assert ((tmp_path / "a").read_bytes(), (tmp_path / "b").read_bytes()) == (b"", b"")


def test_a_link_is_not_followed_unasked(tmp_path):
    (tmp_path / "real").write_text("old\n")
    (tmp_path / "link").symlink_to("real")
    args = {"path": str(tmp_path / "link"), "content": "new\n"}
    taken = take("file", args)
    assert taken.status == "blocked"
    assert "is a symbolic link to real: `follow: true` changes that target" in taken.why
    assert (tmp_path / "real").read_text() == "old\n"
    taken = take("file", {**args, "follow": True})
    assert taken.status == "changed"
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new\n"


@every_row("kind", ["directory", "pipe"])
def test_nothing_is_put_in_the_place_of_something_else(tmp_path, kind):
    path = tmp_path / "x"
    path.mkdir() if kind == "directory" else os.mkfifo(path)
    taken = take("file", {"path": str(path), "content": "x"})
    assert (taken.status, taken.writes) == ("blocked", [])
    assert "and is not replaced" in taken.why


def test_a_file_that_changed_after_the_plan_is_left_alone(tmp_path):
    path = tmp_path / "x"
    path.write_text("seen\n")
    taken = take("file", {"path": str(path), "content": "new\n"}, between=lambda: path.write_text("another's\n"))
    assert (taken.status, taken.writes) == ("drifted", [])
    assert path.read_text() == "another's\n"
    path.unlink()
    taken = take("file", {"path": str(path), "content": "new\n"}, between=lambda: path.write_text("another's\n"))
    assert (taken.status, path.read_text()) == ("drifted", "another's\n")


@pytest.mark.parametrize("drift", ["content", "link", "directory", "gone"])
@pytest.mark.parametrize("name", each(["dash", "bash", "busybox", "only busybox"]))
def test_the_write_itself_looks_once_more(tmp_path, name, drift):
    path = tmp_path / "place/x"
    path.parent.mkdir()
    path.write_text("seen\n")
    machine = Machine(shell=shell(name, tmp_path))
    place = read_place(str(path), machine.run(ask_place(str(path), follow=False))[0])
    path.unlink()
    if drift == "content":
        path.write_text("other\n")
    elif drift == "link":
        (tmp_path / "same").write_text("seen\n")
        path.symlink_to(tmp_path / "same")
    elif drift == "directory":
        path.mkdir()
    command = make(place, file._wanted(build(file.Args, {"path": str(path), "content": "new\n"}), _state(place)))
    done = subprocess.run(
        [*machine.shell, "-c", command.script, "sh", *command.argv],
        input=command.stdin,
        text=True,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, "has changed since it was inspected" in done.stderr) == (10, True)
    assert left_behind(path.parent) == []
    if drift == "content":
        assert path.read_text() == "other\n"
    if drift == "link":
        assert (tmp_path / "same").read_text() == "seen\n"


def _state(place):
    return file.State(path=place.path, kind=place.kind, needs=("content",), place=place)


@pytest.mark.parametrize("name", each(["dash", "bash", "busybox", "only busybox"]))
def test_every_shell_writes_the_same(tmp_path, name):
    path = tmp_path / ODD
    args = build(file.Args, {"path": str(path), "content": "é\nnew", "mode": "0600"})
    machine = Machine(shell=shell(name, tmp_path))
    for _ in range(2):
        place = read_place(str(path), machine.run(ask_place(str(path), follow=False))[0])
        command = make(place, file._wanted(args, _state(place)))
        argv = [*machine.shell, "-c", command.script, "sh", *command.argv]
        assert subprocess.run(argv, input=command.stdin.encode(), check=False).returncode == 0
        assert (path.read_text(), mode(path)) == ("é\nnew", "600")


def test_content_that_did_not_come_whole_is_not_put_in_place(tmp_path):
    """Mutants: writing.py without the check of what came."""
    path = tmp_path / "x"
    place = read_place(str(path), Machine().run(ask_place(str(path), follow=False))[0])
    command = make(place, file._wanted(build(file.Args, {"path": str(path), "content": "whole\n"}), _state(place)))
    done = subprocess.run(
        ["sh", "-c", command.script, "sh", *command.argv], input="who", text=True, capture_output=True, check=False
    )
    assert done.returncode == 12
    assert "arrived incomplete" in done.stderr
    assert [*tmp_path.iterdir()] == []


@pytest.mark.real("root", "setpriv")
def test_a_place_that_may_not_be_written_to_is_told(tmp_path):
    within = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    path = tmp_path / "x"
    for it in way_to(tmp_path):
        it.chmod(0o755)
    taken = take("file", {"path": str(path), "content": "x"}, within=within)
    assert taken.status == "failed"
    assert "nothing was written" in taken.why
    assert "Permission denied" in taken.why
    path.write_text("secret")
    path.chmod(0o600)
    outcome = see("file", {"path": str(path)}, within=within)
    assert isinstance(outcome, ProbeFailure)
    assert "may not be read by nobody" in outcome.why


def test_content_never_stands_in_what_is_recorded_but_in_the_difference(tmp_path):
    taken = take("file", {"path": str(tmp_path / "x"), "content": "password: hunter2\nport: 1\n"})
    assert taken.planned.diff is not None
    assert "hunter2" not in taken.planned.diff
    assert "+port: 1" in taken.planned.diff
    assert not any("hunter2" in it.line + it.stdout for it in taken.result.commands)


def book(tmp_path, step: str, **files: str):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    head = "name: it\ninputs:\n  port: {about: x, type: integer, default: 80}\nremediate:\n"
    (tmp_path / "it.yaml").write_text(f"{head}- file: {step}\n")
    return read_playbook(tmp_path / "it.yaml", ACTIONS)


@pytest.mark.slow
def test_a_source_is_sent_as_it_is_and_a_template_is_filled_in(tmp_path):
    text = "port={{ inputs.port }}\n"
    assert carry_out(book(tmp_path, f"{{path: {tmp_path}/a, source: raw}}", raw=text)).status == "changed"
    assert (tmp_path / "a").read_text() == text
    assert carry_out(book(tmp_path, f"{{path: {tmp_path}/b, template: t}}", t=text)).status == "changed"
    assert (tmp_path / "b").read_text() == "port=80\n"
    assert carry_out(book(tmp_path, f"{{path: {tmp_path}/c, content: '{{{{ inputs.port }}}}'}}")).status == "changed"
    assert (tmp_path / "c").read_text() == "80"
    block = "|\n      port={{ inputs.port }}\n"
    assert carry_out(book(tmp_path, f"\n    path: {tmp_path}/d\n    content: {block}")).status == "changed"
    assert (tmp_path / "d").read_text() == "port=80\n"


def test_a_name_in_a_template_that_nobody_knows_is_a_mistake_in_the_playbook(tmp_path):
    with pytest.raises(ConfigError, match="in t: there is no input 'prot'"):
        book(tmp_path, f"{{path: {tmp_path}/b, template: t}}", t="port={{ inputs.prot }}\n")


@every_row(
    ("text", "words"),
    [
        ("a\nb {{ c }\n", r"in t, line 2: cannot be understood: unexpected '}' \(in: b {{ c }\)"),
        ("a\n{% for b in inputs %}\n{% endfr %}\n", r"in t, line 3: .*endfor.* \(in: {% endfr %}\)"),
        ("{{ 1 | upcase }}", r"in t: cannot be understood: [^()]*upcase[^()]*$"),
    ],
)
def test_a_template_that_is_none_is_told_with_its_file_and_line(tmp_path, text, words):
    with pytest.raises(ConfigError, match=words):
        book(tmp_path, f"{{path: {tmp_path}/b, template: t}}", t=text)


@every_row(
    ("values", "words"),
    [
        ({"path": "x"}, "absolute path"),
        ({"path": "/"}, "absolute path"),
        ({"path": "/a/../b"}, "must not be written to"),
        ({"path": "/proc/sys/x"}, "must not be written to"),
        ({"path": "/a", "mode": "rw"}, "octal"),
        ({"path": "/a", "mode": "9999"}, "octal"),
        ({"path": "/a", "owner": "a b"}, "not a valid name of a user"),
        ({"path": "/a", "state": "directory", "content": "x"}, "a directory has no `content`"),
        ({"path": "/a", "source": "x", "content": "x"}, "give one of `source` and `content`"),
        ({"path": "/a", "state": "absent"}, "use one of"),
    ],
)
def test_a_mistake_in_the_arguments_is_refused(values, words):
    with pytest.raises(ConfigError, match=words):
        build(file.Args, values)


def test_what_is_there_can_be_looked_at(tmp_path):
    outcome = see("file", {"path": str(tmp_path), "state": "directory"})
    assert isinstance(outcome, ProbeAnswer)
    assert (outcome.state.kind, outcome.state.needs) == ("directory", ())


@every_row(
    ("args", "words"),
    [
        ("path: etc/x, template: t", "`path` must be an absolute path"),
        ("path: /x, template: t, content: a", "give one of `template` and `content`"),
        ('path: /x, template: t, mode: "u=rw"', "`mode` must be octal"),
    ],
)
def test_what_is_wrong_beside_a_template_of_the_host_is_said_before_any_connection(tmp_path, args, words):
    with pytest.raises(ConfigError, match=words):
        book(tmp_path, f"{{{args}}}", t="{{ host.name }}\n")
