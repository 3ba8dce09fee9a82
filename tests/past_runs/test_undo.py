"""A recorded run is undone: files byte for byte, and nothing that somebody else has changed since."""

from __future__ import annotations

import json
import os
import shutil
from hashlib import sha256
from pathlib import Path

import pytest

from runbook.records.journal import Journal
from runbook.records.private_folder import PrivateFolder
from runbook.records.recorded_run import read_run
from runbook.values.event import ChangeStarted, HostFinished, RunFinished, StepFinished
from tests.support.program import Said, runbook

pytestmark = pytest.mark.slow  # whole runs, one after the other

INVENTORY = "hosts:\n  here: {transport: local}\n"
HEAD = "name: changes\nabout: Changes files.\nremediate:\n"
PATCH = HEAD + "  - {id: patch, config_patch: {path: PATH, format: yaml, set: {x.y: 5}, parents: true}}\n"
FETCH = "  - {id: got, fetch: {argv: [uname], save_as: kernel.txt}}\n"
WRITE = HEAD + "  - {id: write, file: {path: PATH, content: \"new\\n\", mode: '0600'}}\n"


class Scene:
    """A host, which is this machine, and a file on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        (folder / "hosts.yaml").write_text(INVENTORY)
        self.file = folder / "on-host" / "app.conf"
        self.file.parent.mkdir()

    def run(self, text: str, *words: str) -> str:
        """Run the playbook *text* on the host; the id of that run."""
        (self.folder / "changes.yaml").write_text(text.replace("PATH", str(self.file)))
        said = runbook("run", "changes.yaml", "--hosts", "here", "--yes", "--output", "json", *words, cwd=self.folder)
        assert said.code == 0, said.out + said.err
        return str(said.document["run"])

    def undo(self, run: str, *words: str) -> Said:
        words = words or ("--yes",)
        return runbook("undo", run, *words, "--output", "json", cwd=self.folder)

    def stands(self) -> tuple[bytes, int, int, int]:
        """Content, mode, owner and group of the file."""
        about = self.file.stat()
        return self.file.read_bytes(), about.st_mode & 0o7777, about.st_uid, about.st_gid


@pytest.fixture
def scene(tmp_path, monkeypatch) -> Scene:
    made = Scene(tmp_path / "scene")
    monkeypatch.chdir(made.folder)
    monkeypatch.setenv("RUNBOOK_INVENTORY", "hosts.yaml")
    return made


def records() -> Path:
    return Path(os.environ["XDG_STATE_HOME"], "runbook", "runs")


def copies(run: str) -> Path:
    return Path(os.environ["RUNBOOK_LOCK_PLACES"], "undo", run)


def status(said: Said) -> list[str]:
    return [it["status"] for it in said.host("here")["steps"]]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"x:\n  y: 1", id="no newline"), pytest.param(b"\xff\xfe\x00 not text \x80", id="no text", marks=pytest.mark.soak),
        pytest.param(b"a: 1\r\nx:\r\n  y: 1\r\n", id="crlf", marks=pytest.mark.soak), pytest.param(b"", id="empty", marks=pytest.mark.soak),
        pytest.param(b"x: {y: 1}  # \xc3\xa9\n\n\n", id="utf-8", marks=pytest.mark.soak), pytest.param(b"v\n" * 70_000, id="long", marks=pytest.mark.soak),
    ],
)  # fmt: skip
def test_a_file_is_restored_byte_for_byte_with_its_mode_and_owner(scene, content):
    """Mutants: a restore without the mode; ``keep_copy`` of the text that the probe read."""
    scene.file.write_bytes(content)
    scene.file.chmod(0o640)
    before = scene.stands()
    run = scene.run(WRITE)
    assert scene.stands()[:2] == (b"new\n", 0o600)
    planned = scene.undo(run, "--dry-run")
    assert planned.host("here")["verdict"] == "planned", planned.out + planned.err
    assert planned.writes() == []
    assert scene.stands()[:2] == (b"new\n", 0o600)
    said = scene.undo(run)
    assert (said.code, status(said)) == (0, ["changed"]), said.out + said.err
    assert scene.stands() == before


@pytest.mark.real("root")
def test_root_restores_the_owner_of_another_user(scene):
    """Mutants: ``restore_copy`` without owner and group."""
    scene.file.write_text("x:\n  y: 1\n")
    scene.file.chmod(0o640)
    os.chown(scene.file, 65534, 60)
    before = scene.stands()
    run = scene.run(
        HEAD + "  - {id: own, file: {path: PATH, content: \"new\\n\", mode: '0600', owner: root, group: root}}\n"
    )
    assert scene.stands()[1:] == (0o600, 0, 0)
    assert scene.undo(run).code == 0
    assert scene.stands() == before


@pytest.mark.soak
def test_mode_alone_is_restored_and_the_content_that_grew_stays(scene):
    scene.file.write_text("line\n")
    scene.file.chmod(0o644)
    run = scene.run(HEAD + "  - {id: mode, file: {path: PATH, mode: '0600'}}\n")
    scene.file.write_text("line\nand one more\n")
    said = scene.undo(run)
    assert said.code == 0, said.out
    assert scene.stands()[:2] == (b"line\nand one more\n", 0o644)


def test_a_file_that_the_run_made_is_removed_only_as_it_was_written(scene):
    """Mutant: ``remove_written`` whatever the digest is."""
    run = scene.run(WRITE)
    scene.file.write_text("by hand\n")
    refused = scene.undo(run)
    assert (refused.code, status(refused)) == (6, ["drifted"])
    assert scene.file.read_text() == "by hand\n"
    scene.file.write_text("new\n")
    assert scene.undo(run).code == 0
    assert not scene.file.exists()
    again = scene.undo(run)
    assert (again.code, status(again)) == (0, ["ok"])


def test_what_was_edited_since_is_left_alone_and_shown(scene):
    """Mutants: ``_changed_since`` that compares no content; ``Blocked`` without ``drifted`` (exit code 1)."""
    scene.file.write_text("x:\n  y: 1\npassword: geheimwort\n")
    run = scene.run(PATCH)
    scene.file.write_text(scene.file.read_text() + "z: by hand\n")
    edited = scene.stands()
    said = scene.undo(run)
    (step,) = said.host("here")["steps"]
    assert (said.code, step["status"], said.host("here")["verdict"]) == (6, "drifted", "drifted")
    assert f"has changed since run {run}: its content is neither" in step["why"]
    digest = sha256(b"x:\n  y: 1\npassword: geheimwort\n").hexdigest()
    assert step["why"].endswith(f"/runbook/undo/{run}/{digest}"), "the copy"
    assert "copy it by hand from where its step says" in runbook("undo", run, "--dry-run").out
    assert "-z: by hand" in step["diff"]
    assert "geheimwort" not in said.out
    assert said.writes() == []
    assert scene.stands() == edited


@pytest.mark.soak
def test_a_mode_that_somebody_changed_since_is_left_alone(scene):
    """Mutant: ``_changed_since`` without mode and owner."""
    scene.file.write_text("x:\n  y: 1\n")
    run = scene.run(PATCH)
    scene.file.chmod(0o604)
    said = scene.undo(run)
    assert (said.code, status(said)) == (6, ["drifted"])
    assert "its mode is 604" in said.out


@pytest.mark.soak
def test_a_second_undo_does_nothing_and_an_undo_can_be_undone(scene):
    """Mutant: ``_last`` that takes an undo for the last run."""
    scene.file.write_text("x:\n  y: 1\n")
    before = scene.stands()
    scene.run(PATCH)
    changed = scene.stands()
    first = scene.undo("last")
    assert (first.code, first.host("here")["verdict"]) == (0, "resolved")
    again = scene.undo("last")
    assert (again.code, again.host("here")["verdict"]) == (0, "healthy")
    assert again.writes() == []
    assert scene.stands() == before
    assert read_run(PrivateFolder(records()), first.document["run"]).started.origin.undoes != ""
    assert scene.undo(first.document["run"]).code == 0
    assert scene.stands() == changed


def test_no_content_is_in_the_record_and_nobody_else_can_read_the_copy(scene):
    """Mutants: umask 022 in undo_keep.sh; the text of a file as part of ``UndoFile``."""
    scene.file.write_text("x:\n  y: 1\nnote: quite-ordinary-words\ntoken: geheimwort\n")
    scene.file.chmod(0o600)
    run = scene.run(WRITE)
    journal = (records() / f"{run}.jsonl").read_text()
    assert "geheimwort" not in journal
    recorded = next(it for it in read_run(PrivateFolder(records()), run).events if isinstance(it, ChangeStarted))
    assert "quite-ordinary-words" not in repr(recorded.undo)
    (copy,) = copies(run).iterdir()
    assert copy.read_text().endswith("geheimwort\n")
    assert (copy.stat().st_mode & 0o777, copies(run).stat().st_mode & 0o777) == (0o600, 0o700)


@pytest.mark.soak
def test_several_changes_of_one_file_are_one_restore_to_what_it_was_first(scene):
    """Mutants: ``_merged`` that takes the later content; ``_wrote`` of the last change alone."""
    scene.file.write_text("x:\n  y: 1\n")
    before = scene.stands()
    run = scene.run(
        HEAD
        + "".join(
            f"  - {{id: s{it}, config_patch: {{path: PATH, format: yaml, set: {{x.y: {it}}}}}}}\n" for it in (5, 6, 7)
        )
    )
    planned = scene.undo(run, "--dry-run")
    assert status(planned) == ["would_change"]
    assert scene.undo(run).code == 0
    assert scene.stands() == before


def test_what_something_else_changed_between_two_changes_is_not_lost(scene):
    scene.file.write_text("x: 1\n")
    run = scene.run(
        HEAD
        + "  - {id: one, config_patch: {path: PATH, format: yaml, set: {x: 2}}}\n"
        + "  - {id: other, command: {do: {params: ['PATH'], script: 'echo z: 3 >>\"$1\"'}}}\n"
        + "  - {id: two, config_patch: {path: PATH, format: yaml, set: {x: 4}}}\n"
    )
    said = scene.undo(run)
    assert said.code == 0, said.out
    assert scene.file.read_text() == "x: 2\nz: 3\n"
    assert "something else has changed" in said.err
    assert "not undone: other (command)" in said.err


@pytest.mark.parametrize(
    "damage", ["gone", "a link", *(pytest.param(it, marks=pytest.mark.soak) for it in ("edited", "open"))]
)
def test_without_the_copy_as_it_was_written_nothing_is_restored(scene, damage):
    """Mutants: undo_probe.sh without the digest; ``undo_open`` without ``safe_stat``; ``undo_ours`` without the mode."""
    scene.file.write_text("x:\n  y: 1\n")
    run = scene.run(PATCH)
    changed = scene.stands()
    (copy,) = copies(run).iterdir()
    if damage == "gone":
        shutil.rmtree(copies(run))
    elif damage == "edited":
        copy.write_text("x:\n  y: 666\n")
    elif damage == "open":
        copies(run).chmod(0o755)
    else:
        (scene.folder / "same").write_bytes(copy.read_bytes())
        copy.unlink()
        copy.symlink_to(scene.folder / "same")
    said = scene.undo(run)
    assert (said.code, status(said)) == (1, ["blocked"]), said.out
    assert "cannot be restored" in said.out
    assert scene.stands() == changed


def as_if_killed(run: str) -> None:
    """What the run leaves that was killed while its change was in flight."""
    recorded = read_run(PrivateFolder(records()), run)
    (records() / f"{run}.jsonl").unlink()
    (records() / "ledger").unlink()
    made = Journal(PrivateFolder(records()), run)
    for event in recorded.events:
        if isinstance(event, StepFinished | HostFinished | RunFinished):
            break
        origin = getattr(event, "origin", None)
        made.on(event)
        assert origin is None or origin.process.pid
    made.close()


@pytest.mark.parametrize("done", [True, False])
def test_a_change_in_flight_is_probed_and_undone_where_it_was_done(scene, done):
    """Mutant: ``sent_changes`` that takes only those with an end."""
    scene.file.write_text("x:\n  y: 1\n")
    before = scene.stands()
    run = scene.run(PATCH)
    as_if_killed(run)
    if not done:
        scene.file.write_bytes(before[0])
    said = scene.undo(run)
    assert (said.code, status(said)) == (0, ["changed" if done else "ok"]), said.out + said.err
    assert scene.stands() == before


def test_a_name_that_is_another_machine_now_is_not_undone(scene):
    """Mutants: ``_refuse_others`` that refuses nothing; that leaves the hosts of ``on`` out; ``_elsewhere`` of none."""
    inventory = INVENTORY + "  there: {transport: local}\n"
    (scene.folder / "hosts.yaml").write_text(inventory)
    scene.file.write_text("x:\n  y: 1\n")
    other = scene.file.with_name("other.conf")
    other.write_text("x:\n  y: 2\n")
    before = scene.stands(), other.read_text()
    step = PATCH.removeprefix(HEAD).replace("id: patch", "id: on").replace("config_patch:", "on: there, config_patch:")
    run = scene.run(PATCH + step.replace("PATH", str(other)))
    changed = scene.stands(), other.read_text()
    assert changed[0] != before[0]
    assert changed[1] != before[1]
    found = {}
    for where in ("here", "there"):
        (scene.folder / "hosts.yaml").write_text(inventory.replace(f"  {where}: {{", f"  {where}: {{rack: 9, "))
        said = scene.undo(run)
        reason = f"says of {where} has changed since that run: it may be another machine"
        found[where] = (said.code, reason if reason in said.err else said.err, (scene.stands(), other.read_text()))
    assert found == {
        where: (2, f"says of {where} has changed since that run: it may be another machine", changed)
        for where in ("here", "there")
    }
    (scene.folder / "hosts.yaml").write_text(inventory.replace(": {", ": {rack: 9, "))
    assert scene.undo(run, "--yes", "--changed-inventory").code == 0
    assert (scene.stands(), other.read_text()) == before


@pytest.mark.soak
def test_a_run_that_was_undone_is_gone_on_with_only_where_that_is_said(scene):
    """Mutant: ``_resume`` without ``_refuse_undone``, or without ``without_undone``."""
    scene.file.write_text("old\n")
    run = scene.run(WRITE)
    as_if_killed(run)
    assert scene.undo(run).code == 0
    words = "resume", run, "--yes", "--output", "json"
    refused = runbook(*words, cwd=scene.folder)
    assert (refused.code, scene.file.read_text()) == (2, "old\n")
    assert f"run {run} was undone on here, by run " in refused.err
    went_on = runbook(*words, "--undone", cwd=scene.folder)
    assert (status(went_on), scene.file.read_text()) == (["changed"], "new\n"), went_on.err


def test_a_yes_beforehand_does_not_do_for_an_undo_where_the_playbook_says_so(scene):
    """Mutant: assignments of hosts without the limits."""
    scene.file.write_text("old\n")
    run = scene.run(WRITE)
    (scene.folder / "changes.yaml").write_text(
        WRITE.replace("PATH", str(scene.file)) + "limits: {confirm_from: edits-files}\n"
    )
    said = scene.undo(run)
    assert (status(said), scene.file.read_text()) == (["blocked"], "new\n")
    assert "--yes does not do: its risk is edits-files" in said.host("here")["steps"][0]["why"]


def test_an_undo_of_what_needs_approvals_is_refused_and_says_what_to_do(scene):
    """Mutant: ``limits_of_undo`` without the approvals."""
    scene.file.write_text("old\n")
    run = scene.run(WRITE)
    text = WRITE.replace("PATH", str(scene.file))
    (scene.folder / "changes.yaml").write_text(f"{text}limits: {{approvals: 2}}\n")
    refused = scene.undo(run)
    assert (refused.code, refused.out, scene.file.read_text()) == (2, "", "new\n")
    assert (
        "changes changes nothing without 2 approvals (limits.approvals), and so does an undo (save what it would do: "
        f"`runbook undo {run} --plan undo.json`, have it approved: `runbook approve undo.json`"
    ) in refused.err
    shown = scene.undo(run, "--dry-run")
    assert (shown.code, status(shown), scene.file.read_text()) == (0, ["would_change"], "new\n")


def test_the_last_run_is_the_newest_that_changed_something_and_is_named(scene):
    """Mutants: ``_last`` without ``sent``; a summary that does not strike what was not sent, or counts what only reads."""
    scene.file.write_text("old\n")
    run = scene.run(WRITE)
    scene.run(WRITE)  # there is nothing to do any more
    scene.run(WRITE, "--only", "diagnose")
    scene.run(HEAD + "  - {id: say, note: {text: done}}\n")
    words = ("exec", "here", "--read", "--", "true")
    assert runbook(*words, cwd=scene.folder).code == 0
    runbook("run", "changes.yaml", "--hosts", "here", "--dry-run", cwd=scene.folder)
    said = scene.undo("last")
    assert (said.code, scene.file.read_text()) == (0, "old\n"), said.err
    assert f"`last` is run {run}: " in said.err
    assert "newer runs changed nothing, or are undos" in said.err
    again = scene.undo("last")
    assert f"`last` is run {run}: " in again.err
    assert status(again) == ["ok"]


def test_a_plan_of_an_undo_takes_no_yes(scene):
    scene.file.write_text("old\n")
    run = scene.run(WRITE)
    for word in ("--yes", "--dry-run"):
        refused = scene.undo(run, "--plan", "undo.json", word)
        assert (refused.code, "leave out --dry-run and --yes" in refused.err) == (2, True)
    assert not (scene.folder / "undo.json").exists()


def test_what_cannot_be_undone_is_listed_with_its_reason(scene):
    run = scene.run(HEAD + "  - {id: end, command: {do: {argv: ['true']}}}\n")
    said = scene.undo(run)
    assert said.code == 1, "the host is not as it was"
    assert "here: not undone: end (command): run true: nobody but its author knows what the command changes" in said.err
    assert f"run {run}: nothing can be undone; here stays as that run has left it" in said.err


def test_a_run_that_has_changed_nothing_has_nothing_to_undo(scene):
    """Mutants: ``_nothing_to_do`` that always returns STAYS; ``undo_steps`` that takes what was only read for a change."""
    for steps in ("  - {id: end, command: {check: {argv: ['true']}, do: {argv: ['true']}}}\n", FETCH):
        said = scene.undo(scene.run(HEAD + steps))
        assert (said.code, "has changed nothing on these hosts: there is nothing to undo" in said.err) == (0, True), (
            said.err
        )


def test_a_run_without_a_record_keeps_no_copies(scene):
    """Mutant: ``keeps_copies`` of every run."""
    scene.file.write_text("x:\n  y: 1\n")
    run = scene.run(PATCH, "--no-record")
    assert not copies(run).exists()


def test_runs_that_cannot_be_undone_are_refused_before_any_connection(scene):
    scene.file.write_text("x:\n  y: 1\n")
    assert "no recorded run" in scene.undo("last").err
    run = scene.run(PATCH)
    dry = runbook("run", "changes.yaml", "--hosts", "here", "--dry-run", "--output", "json", cwd=scene.folder)
    assert "was a dry run" in scene.undo(dry.document["run"]).err
    nobody = scene.undo(run, "--yes", "--hosts", "nobody")
    assert nobody.code == 2, nobody.err
    path = records() / f"{run}.jsonl"
    path.write_text(path.read_text().replace(str(scene.file), "/etc/passwd"))
    refused = scene.undo(run)
    assert (refused.code, "is not as it was written" in refused.err) == (2, True)


@pytest.mark.real("root")
def test_root_restores_nothing_in_a_directory_that_became_another_users(scene):
    """Mutant: ``decide`` of restore_file without ``refusal``."""
    scene.file.write_text("x:\n  y: 1\n")
    run = scene.run(PATCH)
    changed = scene.stands()
    os.chown(scene.file.parent, 4242, 4242)
    said = scene.undo(run)
    assert (said.code, status(said)) == (1, ["blocked"]), said.out
    assert scene.stands() == changed


@pytest.mark.real("root")
def test_no_copy_is_kept_where_another_user_could_read_it_and_the_change_is_made(scene):
    """Mutant: ``undo_ours`` without the owner."""
    scene.file.write_text("x:\n  y: 1\n")
    place = copies("x").parent
    place.mkdir()
    os.chown(place, 4242, 4242)
    run = scene.run(PATCH)
    assert list(place.iterdir()) == []
    said = scene.undo(run)
    assert said.code == 1
    assert "was not copied before" in said.err
    assert scene.file.read_text() == "x:\n  y: 5\n"


def test_raise_timeouts_is_undone(scene):
    scene.file = scene.file.with_name("train.yaml")
    scene.file.write_bytes(b"# tuned\r\nrollout:\r\n  queue_size: null")
    scene.file.chmod(0o640)
    before = scene.stands()
    words = ("--hosts", "here", "--yes", "--output", "json", "-e", f"configs={json.dumps([str(scene.file)])}")
    said = runbook("run", "raise-timeouts", *words, cwd=scene.folder)
    assert said.code == 0, said.out + said.err
    assert scene.stands() != before
    assert scene.undo("last").code == 0
    assert scene.stands() == before


@pytest.mark.soak
def test_the_settings_of_docker_are_undone_and_a_file_that_was_not_there_is_removed(scene):
    """The first step of docker-logging-setup; its restart is tried with a real dockerd in tests/e2e."""
    scene.file = scene.file.with_name("daemon.json")
    text = (
        HEAD + "  - {id: write, config_patch: {path: PATH, set: {live-restore: true}, create: true, parents: true}}\n"
    )
    for content in (b'{\n    "dns": ["192.0.2.1"]}', None):
        if content is None:
            scene.file.unlink()
        else:
            scene.file.write_bytes(content)
        run = scene.run(text)
        assert scene.undo(run).code == 0
        assert (scene.file.read_bytes() if scene.file.exists() else None) == content
