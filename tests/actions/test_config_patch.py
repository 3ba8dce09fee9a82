"""Real files, changed through real shells: in one stroke, or not at all."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import stat
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import yaml

from runbook.codec import from_json, to_json
from runbook.connections.transports import local
from runbook.errors import ConfigError, ProbeError
from runbook.execution.diagnosis.probe_types import ProbeAnswer
from runbook.execution.executor.permitted import PermittedDecision, permitted_decision
from runbook.language.arguments import build
from runbook.language.expressions.templates import Scope, render
from runbook.language.loader import load_playbook
from runbook.library.config import config_patch
from runbook.library.config.facts.config_file import HostFile, digest_of, octal
from runbook.plugins import discover
from runbook.protocols import Action, Connection, ConnectOptions, Fails, Holds
from runbook.secrets.config_lines import without_secrets
from runbook.secrets.masking import masked, masking
from runbook.values.command import Completed, Effect
from runbook.values.inventory import Host
from runbook.values.plan import Blocked, Change, Decision, NoChange, PlannedStep
from runbook.values.result import SentCommand
from tests.support.probe_driver import drive
from tests.support.real_processes import Machine, each, shell
from tests.support.tables import every_row

TEXT = """\
# why: it is so
rollout:
  name: ${experiment}   # not ours
  prompt: "{{ x }} {% y %}"

actor: &a {lr: 1.0e-06}
"""
ACTION = Action.of(config_patch)


class Calm:
    def level(self) -> int:
        return 0


@dataclass
class Lanes:
    """This machine by the transport that runs use, so by the same lanes as over SSH."""

    inner: Connection

    def run(self, *commands):
        return self.inner.run(*(replace(it, timeout=60.0) for it in commands))


@pytest.fixture
def here():
    made = Lanes(local.connect(Host(name="here"), ConnectOptions(), Calm()))
    yield made
    made.inner.close()


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "it's a" / "-train $x.yaml"
    path.parent.mkdir()
    path.write_text(TEXT)
    path.chmod(0o640)
    return path


def args_for(path, **keys):
    return build(config_patch.Args, {"path": str(path), "set": {"rollout.timeout": 7200}, **keys})


def look(path, machine, **keys):
    return drive(config_patch.probe(args_for(path, **keys)), machine)


def decided(path, machine, **keys) -> Decision:
    return config_patch.decide(args_for(path, **keys), look(path, machine, **keys))


def planned(path, machine, **keys) -> Change:
    change = decided(path, machine, **keys)
    assert isinstance(change, Change), change
    return change


def send(change: Change, machine) -> Completed:
    (command,) = change.commands
    assert command.effect is Effect.WRITE
    (done,) = machine.run(command)
    return done


def patch(path, machine, **keys) -> Completed:
    return send(planned(path, machine, **keys), machine)


def refusal(done: Completed) -> str:
    assert done.exit_code
    return config_patch.refused(config_patch.ask_file("/x"), done)


def beside(path: Path) -> list[str]:
    return sorted(it.name for it in path.parent.iterdir() if it.name != path.name)


def test_a_value_is_put_in_by_every_shell_and_everything_else_stays(machine, config):
    before = config.stat()
    change = planned(config, machine)
    assert change.diff.splitlines()[2:] == [
        "@@ -2,5 +2,6 @@",
        " rollout:",
        "   name: ${experiment}   # not ours",
        '   prompt: "{{ x }} {% y %}"',
        "+  timeout: 7200",
        " ",
        " actor: &a {lr: 1.0e-06}",
    ]
    assert config.read_text() == TEXT, "a plan only looks"
    assert beside(config) == []
    done = send(change, machine)
    assert (done.exit_code, done.stderr) == (0, "")
    assert config.read_text() == TEXT.replace('%}"\n', '%}"\n  timeout: 7200\n')
    after = config.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    assert isinstance(decided(config, machine), NoChange), "a second run sends no write"


def test_the_old_file_stays_beside_it_and_comes_back_by_the_line_that_is_said(machine, config):
    first, second = patch(config, machine), patch(config, machine, set={"rollout.timeout": 9})
    lines = [it.stdout.strip().partition(": ")[2] for it in (first, second)]
    assert len(set(lines)) == 2, "an earlier backup is never overwritten, however soon the next one comes"
    assert all(it.startswith("-train $x.yaml.backup-2") for it in beside(config))
    assert len(beside(config)) == 2
    for line, text in zip(lines[::-1], (TEXT.replace('%}"\n', '%}"\n  timeout: 7200\n'), TEXT), strict=True):
        assert line.startswith("cp -p -- ")
        subprocess.run(["sh", "-c", line], check=True)
        assert config.read_text() == text
        assert stat.S_IMODE(config.stat().st_mode) == 0o640


def test_without_a_backup_there_is_none(here, config):
    assert patch(config, here, backup=False).exit_code == 0
    assert beside(config) == []
    assert "to put it back" not in planned(config, here, backup=False, set={"rollout.timeout": 1}).summary


def test_what_changed_between_look_and_write_is_left_alone(machine, config):
    change = planned(config, machine)
    config.write_text(TEXT + "more: 1\n")
    done = send(change, machine)
    assert done.exit_code == 10
    assert refusal(done) == f"{config} has changed since it was inspected: nothing was written"
    assert config.read_text() == TEXT + "more: 1\n"
    assert beside(config) == []


def test_a_plan_that_was_shown_does_not_cover_a_file_that_has_changed_since(here, config):
    shown = PlannedStep(id="it", decision=planned(config, here))
    args, state = args_for(config), look(config, here)
    permitted = permitted_decision(planned(config, here), shown, ProbeAnswer(args=args, state=state), ACTION)
    assert permitted == PermittedDecision(planned(config, here))
    config.write_text(TEXT + "more: 1\n")
    fresh = ProbeAnswer(args=args, state=look(config, here))
    blocked = permitted_decision(planned(config, here), shown, fresh, ACTION).decision
    assert isinstance(blocked, Blocked)
    assert "the plan did not show" in blocked.why


def test_what_the_validation_itself_changes_is_left_alone(here, config):
    meddling = ["sh", "-c", 'echo "more: 1" >>"$1"; test -s "$2"', "sh", str(config), "{}"]
    for backup in (True, False):
        config.write_text(TEXT)
        done = patch(config, here, validate=meddling, backup=backup)
        assert "has changed since it was inspected" in refusal(done)
        assert config.read_text() == TEXT + "more: 1\n"
        assert beside(config) == []
    done = patch(config, here, validate=["sh", "-c", 'echo x >>"$1"', "sh", "{}"])
    assert "sh has changed the new text" in refusal(done)
    assert beside(config) == []


def test_a_file_that_came_meanwhile_is_not_overwritten(machine, tmp_path):
    path = tmp_path / "new.toml"
    change = planned(path, machine, create=True)
    path.write_text("mine = 1\n")
    assert "has appeared since it was inspected" in refusal(send(change, machine))
    assert path.read_text() == "mine = 1\n"


def test_a_new_file_is_made_when_that_is_asked_for(machine, tmp_path):
    path = tmp_path / "in" / "new.json"
    path.parent.mkdir()
    assert "there is no" in blocked(path, machine)
    assert "there is no directory" in blocked(tmp_path / "no" / "new.json", machine, create=True)
    assert patch(path, machine, create=True).exit_code == 0
    assert path.read_text() == '{\n  "rollout": {\n    "timeout": 7200\n  }\n}\n'
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert beside(path) == []


def blocked(path, machine, **keys) -> str:
    decision = decided(path, machine, **keys)
    assert isinstance(decision, Blocked), decision
    return decision.why


def test_the_validation_sees_the_new_text_under_the_same_name_and_has_the_last_word(machine, config):
    saw = config.parent / "saw"
    looking = ["sh", "-c", 'cat "$1" >"$2"; basename "$1" >>"$2"', "sh", "{}", str(saw)]
    assert patch(config, machine, validate=looking).exit_code == 0
    assert saw.read_text() == config.read_text() + config.name + "\n"
    before, there = config.read_text(), beside(config)
    done = patch(
        config, machine, set={"rollout.timeout": 1}, validate=["sh", "-c", "echo 'line 3: no good'; exit 4", "sh", "{}"]
    )
    assert refusal(done) == f"{config}: nothing was written: sh rejects the new text (exit code 4): line 3: no good"
    done = patch(config, machine, set={"rollout.timeout": 1}, validate=["/surely/no/such", "--file={}"])
    assert "exit code 127" in refusal(done)
    assert config.read_text() == before
    assert beside(config) == there


def test_through_a_link_the_file_behind_it_is_changed_and_the_link_stays(machine, config, tmp_path):
    link = tmp_path / "link.yaml"
    link.symlink_to("it's a/-train $x.yaml")
    change = planned(link, machine)
    assert f"(a link to {config})" in change.summary
    assert change.targets[0].say == str(config)
    done = send(change, machine)
    assert done.exit_code == 0
    assert link.is_symlink()
    assert "timeout: 7200" in config.read_text()
    subprocess.run(["sh", "-c", done.stdout.partition(": ")[2]], check=True)
    assert (link.is_symlink(), config.read_text()) == (True, TEXT)


def test_a_link_that_leads_elsewhere_meanwhile_is_drift(machine, config, tmp_path):
    link, other = tmp_path / "link.yaml", tmp_path / "other.yaml"
    shutil.copy(config, other)
    link.symlink_to(config)
    change = planned(link, machine)
    link.unlink()
    link.symlink_to(other)
    assert "leads to another file" in refusal(send(change, machine))
    assert (config.read_text(), other.read_text()) == (TEXT, TEXT)
    assert planned(link, machine).targets[0].key != change.targets[0].key, "a plan that was shown does not cover it"


def test_what_is_no_readable_text_gives_no_answer(machine, tmp_path):
    def fault(name: str, content: bytes | None = None) -> str:
        path = tmp_path / name
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(ProbeError) as caught:
            look(path, machine)
        return str(caught.value)

    assert "line 2 is not UTF-8 text" in fault("latin.yaml", b"a: 1\nb: caf\xe9\n")
    assert "NUL bytes" in fault("binary.yaml", b"a: \0\n")
    assert "is not valid YAML: the file contains several YAML documents" in fault("two.yaml", b"a: 1\n---\nb: 1\n")
    assert "is not valid JSON: line 1" in fault("bad.json", b"{")
    assert "has 1048577 bytes" in fault("big.yaml", b"#" * ((1 << 20) + 1))
    (tmp_path / "folder.yaml").mkdir()
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "round.yaml").symlink_to("round.yaml")
    assert "is a directory" in fault("folder.yaml")
    assert "is not a regular file" in fault("pipe.yaml")
    assert "leads nowhere" in fault("round.yaml")
    assert "is not a directory" in fault("latin.yaml/x.yaml")


@pytest.mark.slow
def test_a_megabyte_is_read_and_written(here, tmp_path):
    path = tmp_path / "big.json"
    path.write_text('{\n  "a": "' + "é" * ((1 << 19) - 100) + '"\n}\n')
    assert patch(path, here, set={"b": 1}).exit_code == 0
    assert path.read_text().endswith('",\n  "b": 1\n}\n')


def test_a_mark_windows_line_breaks_and_a_missing_end_stay(machine, tmp_path):
    path = tmp_path / "w.yaml"
    path.write_bytes(b"\xef\xbb\xbfrollout:\r\n  a: 1")
    assert patch(path, machine).exit_code == 0
    assert path.read_bytes() == b"\xef\xbb\xbfrollout:\r\n  a: 1\r\n  timeout: 7200"


def test_a_file_with_two_names_is_left_alone(machine, config):
    os.link(config, config.parent / "other")
    assert "has 2 hard links" in blocked(config, machine)


def test_a_host_without_sha256sum_is_held_by_another_sum(config, tmp_path):
    tools = tmp_path / "tools"
    tools.mkdir()
    for it in (
        "cat",
        "cksum",
        "id",
        "ls",
        "wc",
        "mkdir",
        "rm",
        "rmdir",
        "cp",
        "mv",
        "ln",
        "chmod",
        "date",
        "sed",
        "sh",
    ):
        (tools / it).symlink_to(shutil.which(it))
    bare = Machine(before=("env", "-i", f"PATH={tools}"), shell=(str(tools / "sh"),))
    assert look(config, bare).digest.startswith("cksum:")
    assert patch(config, bare).exit_code == 0
    change = planned(config, bare, set={"rollout.timeout": 1})
    config.write_text(TEXT)
    assert send(change, bare).exit_code == 10
    assert send(planned(config.parent / "new.yaml", bare, create=True), bare).exit_code == 0


@every_row("raw", [b"", b"a", b"caf\xc3\xa9\n" * 500])
def test_the_other_sum_is_that_of_posix(raw):
    crc, size = subprocess.run(["cksum"], input=raw, capture_output=True, check=True).stdout.split()
    assert digest_of(raw, "cksum:0:0") == f"cksum:{crc.decode()}:{size.decode()}"


@every_row(("shown", "mode"), [("-rw-r--r--", "644"), ("-rwsr-S--T+", "7740"), ("-r--------.", "400"), ("?", "")])
def test_a_mode_is_read_as_ls_shows_it(shown, mode):
    assert octal(shown) == mode


@pytest.mark.real("root", "setpriv")
def test_owner_and_mode_stay_also_for_root_and_others_are_told_why_not(config, tmp_path):
    for it in (tmp_path, *tmp_path.parents):
        if it.owner() == "root" and not it.stat().st_mode & 0o001:
            it.chmod(it.stat().st_mode | 0o011)
    nobody = Machine(before=("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"))
    with pytest.raises(ProbeError, match="may not be read by nobody"):
        look(config, nobody)
    config.chmod(0o644)
    assert "is not writable for nobody" in blocked(config, nobody)
    config.parent.chmod(0o777)
    assert "everybody can write to" in blocked(config, nobody)
    config.parent.chmod(0o755)
    os.chown(config.parent, 65534, 65534)
    done = patch(config, nobody)
    assert done.exit_code == 13
    assert "nobody cannot give its owner, mode, ACL or label to a new file" in refusal(done)
    assert (config.read_text(), beside(config)) == (TEXT, [])
    os.chown(config, 65534, 65534)
    config.chmod(0o404)
    assert patch(config, nobody).exit_code == 0, "a file that its owner may only read can be replaced"
    assert (config.stat().st_uid, stat.S_IMODE(config.stat().st_mode)) == (65534, 0o404)
    assert "give the step `become: nobody`" in blocked(config, Machine(), set={"rollout.timeout": 1})
    os.chown(config.parent, 0, 0)
    assert patch(config, Machine(), set={"rollout.timeout": 1}).exit_code == 0
    after = config.stat()
    assert (after.st_uid, after.st_gid, stat.S_IMODE(after.st_mode)) == (65534, 65534, 0o404)
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(ProbeError, match="nobody cannot access the directory"):
        look(closed / "a.yaml", nobody)


@pytest.mark.parametrize("sum_", ["sha256sum", "cksum"])
def test_a_text_that_did_not_come_whole_is_not_put_in_place(config, sum_):
    """Mutants: config_file.py without the check of what came."""
    (command,) = planned(config, Machine()).commands
    given = list(command.argv)
    if sum_ == "cksum":
        raw = {it: digest_of(text.encode(), "cksum:") for it, text in ((2, TEXT), (3, command.stdin))}
        given[2:4] = raw[2], raw[3]
    argv = ["sh", "-c", command.script, "sh", *given]
    done = subprocess.run(argv, input=command.stdin[:-9], text=True, capture_output=True, check=False)
    assert (done.returncode, "arrived incomplete" in done.stderr) == (12, True), done.stderr
    assert (config.read_text(), beside(config)) == (TEXT, [])


@pytest.fixture
def mounted(tmp_path):
    """A function that mounts a small file system for this test."""
    made = []

    def mount(options: str) -> Path:
        folder = tmp_path / f"disk{len(made)}"
        folder.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", str(folder)], check=True)
        made.append(folder)
        return folder

    yield mount
    for it in made:
        subprocess.run(["umount", str(it)], check=True)


@pytest.mark.real("root")
def test_on_a_full_disk_the_file_stays_as_it_is(mounted):
    folder = mounted("size=64k")
    config = folder / "train.yaml"
    config.write_text(TEXT + "#" * 8000 + "\n")
    for room in (0, 4096, 8192, 16384, 24576):  # no room for the folder's file, for the new text, for the backup ...
        (folder / "filling").write_bytes(b"")
        change = planned(config, Machine())
        with (folder / "filling").open("wb", buffering=0) as filling:
            try:
                while True:
                    filling.write(b"x" * 4096)
            except OSError:
                filling.truncate(max(0, filling.tell() - room))
        before = config.read_text()
        done = send(change, Machine())
        if not done.exit_code:
            assert room > 4096
            break
        assert "nothing was written" in refusal(done)
        assert "No space left on device" in refusal(done)
        assert config.read_text() == before
        assert beside(config) == ["filling"]
    else:
        pytest.fail("there was room enough in the end")


@pytest.mark.real("root")
def test_a_read_only_disk_is_seen_beforehand_and_when_it_becomes_so(mounted):
    folder = mounted("size=64k")
    config = folder / "train.yaml"
    config.write_text(TEXT)
    change = planned(config, Machine())
    subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
    assert "is read-only" in blocked(config, Machine())
    assert "Read-only file system" in refusal(send(change, Machine()))
    assert config.read_text() == TEXT


@pytest.mark.real("root")
def test_a_file_that_is_mounted_by_itself_is_left_as_it_is(mounted, tmp_path):
    config, inner = tmp_path / "train.yaml", mounted("size=64k") / "x.yaml"
    config.touch()
    inner.write_text(TEXT)
    subprocess.run(["mount", "--bind", str(inner), str(config)], check=True)
    try:
        done = patch(config, Machine())
        assert "nothing was written" in refusal(done)
        assert inner.read_text() == TEXT
        assert beside(config) == ["disk0"]
    finally:
        subprocess.run(["umount", str(config)], check=True)


def test_extended_attributes_and_lists_stay(here, config):
    try:
        os.setxattr(config, "user.note", b"kept")
    except OSError:
        pytest.skip("this file system has no extended attributes")
    assert patch(config, here).exit_code == 0
    assert os.getxattr(config, "user.note") == b"kept"


def test_a_write_that_is_ended_half_way_leaves_the_file_and_no_litter(config):
    done = patch(config, Machine(), validate=["sh", "-c", "kill -TERM $PPID; sleep 0.5", "sh", "{}"])
    assert done.exit_code == 12
    assert config.read_text() == TEXT
    assert beside(config) == []


def test_a_home_folder_is_that_of_the_user_who_looks(config, tmp_path):
    shutil.copy(config, tmp_path / "t.yaml")
    machine = Machine(before=("env", f"HOME={tmp_path}"))
    assert look("~/t.yaml", machine).path == f"{tmp_path}/t.yaml"
    with pytest.raises(ProbeError, match="no home folder"):
        look("~/t.yaml", Machine(before=("env", "-u", "HOME")))


def test_the_state_says_what_is_there_and_what_is_not(here, config):
    state = look(
        config, here,
        set={"rollout.name": "x", "rollout.new": 1, "actor.lr": 1e-6}, at_least={"rollout.timeout": 5}, unset=["rollout.prompt", "gone"],
    )  # fmt: skip
    assert state.values == {"rollout.name": "${experiment}", "actor.lr": 1e-6, "rollout.prompt": "{{ x }} {% y %}"}
    assert (state.missing, state.differing, state.surplus) == (
        ("rollout.new", "rollout.timeout"),
        ("rollout.name",),
        ("rollout.prompt",),
    )
    assert state.needs == ("rollout.new", "rollout.timeout", "rollout.name", "rollout.prompt")
    assert (state.exists, state.format, state.mode, state.conflict) == (True, "yaml", "640", "")


def test_a_conflict_is_told_beforehand(here, config):
    assert "rollout.name is text" in blocked(config, here, set={"rollout.name.x": 1})
    assert "set `parents: true`" in blocked(config, here, set={"no.such": 1})
    assert isinstance(decided(config, here, set={"no.such": 1}, parents=True), Change)


def test_an_assertion_holds_when_all_is_there(here, config):
    args = args_for(config, set={"rollout.name": "${experiment}"})
    assert isinstance(config_patch.holds(args, drive(config_patch.probe(args), here)), Holds)
    told = config_patch.holds(args_for(config), look(config, here))
    assert isinstance(told, Fails)
    assert "rollout.timeout is absent" in told.why


def test_a_second_look_that_disagrees_names_the_values(here, config):
    state = look(config, here, set={"rollout.name": "x"})
    words = config_patch.explain(args_for(config, set={"rollout.name": "x"}), state, state)
    assert 'rollout.name is "${experiment}"; another program may be rewriting' in words


@every_row(
    ("keys", "words"),
    [
        ({"path": "train.yaml"}, "absolute path"),
        ({"path": "/etc/"}, "absolute path"),
        ({"path": "/proc/sys/x.json"}, "not a configuration file"),
        ({"set": {}}, "at least one of"),
        ({"set": {"a..b": 1}}, "is not a key"),
        ({"set": {"a": 1, '"a"': 2}}, "named once"),
        ({"set": {"a": 1}, "unset": ["a"]}, "named once"),
        ({"set": {"a": {"b": 1}}, "at_least": {"a.b": 2}}, "is part of a, which is named as well"),
        ({"validate": ["true"]}, "needs {}"),
        ({"at_least": {"a": "7"}}, "at_least.a: expected a"),
    ],
)
def test_arguments_that_cannot_be_meant_are_refused(keys, words):
    with pytest.raises(ConfigError, match=words.replace("{", r"\{").replace("}", r"\}")):
        args_for(keys.pop("path", "/a.yaml"), **keys)


def test_an_ending_that_says_nothing_needs_the_format():
    assert "does not tell its format" in config_patch.objection(args_for("/etc/app.conf"))
    assert config_patch.objection(args_for("/etc/app.conf", format="toml")) == ""


@every_row("step", ["path: /etc/app.ini", "path: /etc/app.cfg", "path: /etc/x.conf", "path: /etc/x, format: ini"])
def test_a_playbook_that_would_edit_ini_is_told_what_there_is(step):
    """Mutants: the hint left out of the format's metadata."""
    with pytest.raises(ConfigError) as caught:
        load_playbook(f"name: p\nremediate:\n  - config_patch: {{{step}, set: {{a: 1}}}}\n", "p.yaml", discover())
    told = str(caught.value)
    assert "yaml`, toml or json" in told or "use one of: auto, yaml, toml, json" in told
    assert "INI is not edited: `file` with `content` or `template` replaces a whole file" in told


def test_types_come_through_a_playbook_as_they_are_written(here, config):
    book = load_playbook(
        "name: p\ninputs:\n  n: {about: x, type: integer, default: 7}\nremediate:\n"
        f"  - config_patch:\n      path: {str(config)!r}\n".replace("\\'", "''")
        + "      set: {rollout.i: '{{ inputs.n }}', rollout.s: '5', rollout.z: 0, rollout.r: !raw '{{ x }}', rollout.d: '${actor.path}'}\n"
        if "'" not in str(config)
        else "name: p\ninputs:\n  n: {about: x, type: integer, default: 7}\nremediate:\n"
        f'  - config_patch:\n      path: "{config}"\n'
        "      set: {rollout.i: '{{ inputs.n }}', rollout.s: '5', rollout.z: 0, rollout.r: !raw '{{ x }}', rollout.d: '${actor.path}'}\n",
        "p.yaml", discover(),
    )  # fmt: skip
    args = build(config_patch.Args, render(book.remediate[0].args, Scope(inputs={"n": 7})))
    change = config_patch.decide(args, drive(config_patch.probe(args), here))
    assert isinstance(change, Change)
    assert send(change, here).exit_code == 0
    added = '  i: 7\n  s: "5"\n  z: 0\n  r: "{{ x }}"\n  d: "${actor.path}"\n'
    assert config.read_text() == TEXT.replace('%}"\n', '%}"\n' + added)


SECRET = "s3'cr\"et\nété"


def test_secrets_stay_out_of_the_plan_and_out_of_the_record(here, config):
    config.write_text(TEXT + "wandb_api_key: old-key-1234\nmax_tokens: 4096\nlogin:\n  password: hunter22\n")
    change = planned(config, here, set={"login.note": SECRET, "login.password": "new-pass", "rollout.x": "plain"})
    hide = masking((SECRET,))
    told = str(masked(to_json(change.diff), hide)) + str(masked(change.summary, hide))
    for it in ("s3", 'cr\\"et', "été", "old-key-1234", "hunter22", "new-pass"):
        assert it not in told
    assert "plain" in told
    assert "max_tokens: 4096" in change.diff
    sent = SentCommand.planned(change.commands[0])
    assert "old-key-1234" not in sent.line
    assert re.search(r"<STDIN  # \d+ characters$", sent.line)
    done = send(change, here)
    assert done.exit_code == 0
    assert "old-key-1234" not in str(SentCommand.of(change.commands[0], done))
    assert SECRET in yaml.safe_load(config.read_text())["login"]["note"]


def test_neither_the_look_nor_the_state_carries_the_file_into_the_record(here, config):
    command = config_patch.ask_file(str(config))
    (done,) = here.run(command)
    assert TEXT in done.stdout
    assert SentCommand.of(command, done).stdout == f"({len(done.stdout)} characters, not shown)"
    state = to_json(look(config, here))
    assert "not ours" not in str({key: it for key, it in state.items() if key != "diff"})
    assert {"file", "text"}.isdisjoint(state)


def test_a_change_survives_the_trip_through_json(here, config):
    change = planned(config, here)
    assert from_json(Change, to_json(change)) == change


@every_row(
    ("line", "shown"),
    [
        ("+  api_key: abc  ", "+  api_key: ***  "),
        (' "password": "x",', ' "password": ***,'),
        ("-token = 'x'", "-token = ***"),
        ("+  max_tokens: 4096", "+  max_tokens: 4096"),
        ("   tokenizer_path: /x", "   tokenizer_path: /x"),
        ("@@ -1,2 +1,2 @@", "@@ -1,2 +1,2 @@"),
    ],
)
def test_values_of_secret_names_are_masked_in_a_difference(line, shown):
    assert without_secrets(line) == shown


def test_by_hand_it_is_a_copy_an_edit_and_a_comparison(config):
    lines = config_patch.by_hand(args_for(config, validate=["yamllint", "{}"], unset=["a"]))
    assert lines[0] == f"cp -p -- {shlex.quote(str(config))} {shlex.quote(str(config))}.old"
    assert "rollout.timeout: 7200; no a" in lines[1]
    assert lines[2] == f"yamllint {shlex.quote(str(config))}"
    assert ACTION.by_hand is not None


@pytest.mark.parametrize("name", each(["dash", "bash"]))
def test_a_name_may_hold_anything(name, tmp_path):
    path = tmp_path / "a\nb '\"$(x) *\\.yaml"
    path.write_text(TEXT)
    assert patch(path, Machine(shell=shell(name, tmp_path))).exit_code == 0
    assert "timeout: 7200" in path.read_text()


def test_a_look_names_the_file_by_what_is_in_it():
    file = HostFile(path="/l", target="/t", exists=True, folder=True, writable=True, user="u", digest="sha256:00")
    assert file.key == "/l -> /t sha256:00"
