"""What an `always` step owes a host is on record before the change is sent, named by later runs, and settled."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.past_runs.owed_scene import FLIP, INVENTORY, Scene
from tests.support.program import on_terminal, runbook


@pytest.fixture
def scene(tmp_path):
    made = Scene(tmp_path)
    yield made
    made.go()


def test_both_records_are_there_before_the_change_and_gone_after_the_clean_up(scene):
    """Mutants: `OwedRecord.keep` after the change is sent; `ended` that never drops; no note on the host."""
    scene.go()
    said = scene.run("--output", "json")
    assert (said.code, said.step("here", "put_back")["status"]) == (0, "changed")
    seen = Path(f"{scene.file}.seen").read_text().splitlines()
    assert [re.sub("[0-9]{8}T[0-9]{6}Z-[0-9a-f]{4}", "RUN", it) for it in seen] == [
        f"RUN-here-{seen[0].rpartition('-')[2]}",
        "owed-RUN-here",
    ]
    assert (scene.file.read_text(), scene.records(), scene.notes()) == ("old\n", [], [])
    assert said.host("here")["owed"] == []


def test_a_needless_clean_up_leaves_no_record_either(scene):
    scene.go()
    (scene.folder / "flip.yaml").write_text(FLIP.replace('cp -p "$1" "$1.kept" && ', ""))
    said = scene.run("--output", "json")
    assert said.step("here", "put_back")["status"] == "ok"
    assert "owed-" in Path(f"{scene.file}.seen").read_text()
    assert (scene.records(), scene.notes()) == ([], [])


def test_a_plan_and_a_run_without_always_steps_record_nothing(scene):
    """Mutants: `owed_steps` without `step.always`."""
    scene.go()
    assert scene.run("--dry-run").code == 0
    assert not Path(os.environ["XDG_STATE_HOME"], "runbook", "owed").exists()
    (scene.folder / "flip.yaml").write_text(FLIP.replace("    always: true\n", ""))
    assert scene.run().code == 0
    assert not Path(os.environ["XDG_STATE_HOME"], "runbook", "owed").exists()


def test_the_record_is_private_and_says_what_is_needed(scene):
    scene.killed()
    (path,) = scene.records()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    record = scene.record()
    assert (record["playbook"], record["host"]) == ("flip", "here")
    assert {name: record["rests_on"][name] for name in ("playbook", "inputs", "inventory")} == {
        "playbook": str(scene.folder / "flip.yaml"), "inputs": {"file": str(scene.file)},
        "inventory": [str(scene.folder / "hosts.yaml")],
    }  # fmt: skip
    assert [it["id"] for it in record["steps"]] == ["put_back"]
    (note,) = scene.notes()
    assert stat.S_IMODE(note.stat().st_mode) == 0o600
    assert note.read_text().splitlines()[1:6] == [record["run"], "here", record["by"], record["since"], "flip"]


@pytest.mark.slow
def test_what_is_owed_is_named_by_every_later_run_and_settled_once(scene):
    """Mutants: `hear` that drops notes; `owed_to` without other runs; `OwedSettlement.ended` that drops nothing."""
    scene.killed()
    record = scene.record()
    said = scene.look("--output", "json")
    (owed,) = said.host("here")["owed"]
    assert (owed["run"], owed["by"], owed["since"]) == (record["run"], record["by"], record["since"])
    assert (owed["playbook"], owed["noted"]) == ("flip", ["controller", "host"])
    assert owed["steps"][0].startswith("put_back: run mv -f")
    told = scene.look().out
    assert f"clean-up owed by run {record['run']} of flip" in told
    assert "next: `runbook settle --hosts here`" in told
    planned = scene.settle("--dry-run", "--output", "json")
    assert planned.step("here", "put_back")["status"] == "would_change"
    assert (scene.file.read_text(), len(scene.records())) == ("new\n", 1)
    blocked = scene.settle("--output", "json")
    assert (blocked.code, blocked.step("here", "put_back")["status"]) == (1, "blocked")
    done = scene.settle("--yes", "--output", "json")
    assert (done.code, done.step("here", "put_back")["status"]) == (0, "changed")
    assert done.step("here", "put_back")["verified"]
    assert (scene.file.read_text(), scene.log) == ("old\n", ["changed", "restored"])
    assert (scene.records(), scene.notes()) == ([], [])
    again = scene.settle("--yes")
    assert (again.code, again.out) == (0, "nothing is owed\n")
    assert scene.look("--output", "json").host("here")["owed"] == []


@pytest.mark.slow
@pytest.mark.soak
def test_another_controller_learns_it_from_the_host_alone(scene, monkeypatch):
    scene.killed()
    monkeypatch.setenv("XDG_STATE_HOME", str(scene.folder / "elsewhere"))
    said = scene.look("--output", "json")
    assert [it["noted"] for it in said.host("here")["owed"]] == [["host"]]
    assert "on the machine of the user who started that run" in scene.look().out
    assert scene.settle().out == "nothing is owed\n"


@pytest.mark.slow
def test_a_run_that_is_still_under_way_owes_nothing_yet(scene):
    """Mutants: `ProcessIdentity.lives` always false; owed_list.sh `alive` always false."""
    process = scene.started()
    try:
        assert scene.look("--output", "json").host("here")["owed"] == []
        said = scene.settle("--yes", "--output", "json")
        assert (said.code, said.document["hosts"]) == (0, [])
        assert "is still under way" in said.err
        assert len(scene.records()) == 1
    finally:
        scene.go()
        assert process.wait(timeout=60) == 0
    assert (scene.records(), scene.notes(), scene.log) == ([], [], ["changed", "restored"])


def test_where_the_record_cannot_be_written_the_change_is_not_sent(scene, monkeypatch):
    """Mutants: `_change` that goes on where `keep` says why not."""
    (scene.folder / "full").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(scene.folder / "full"))
    scene.go()
    said = scene.run("--output", "json", "--no-record")
    assert said.code == 1
    step = said.step("here", "change")
    assert step["status"] == "blocked"
    assert "not sent, because the clean-up that would be owed after it cannot be recorded" in step["why"]
    assert (scene.file.read_text(), scene.log, scene.notes()) == ("old\n", [], [])


@pytest.mark.slow
def test_a_clean_up_that_fails_stays_owed_and_the_run_itself_says_so(scene):
    """Mutants: FAILED among `DONE`."""
    scene.go()
    (scene.folder / "flip.yaml").write_text(FLIP.replace("mv -f", "false; exit 7; mv -f"))
    said = scene.run("--output", "json")
    assert said.step("here", "put_back")["status"] == "failed"
    assert [it["run"] for it in said.host("here")["owed"]] == [said.document["run"]]
    assert (len(scene.records()), len(scene.notes())) == (1, 1)
    failed = scene.settle("--yes", "--output", "json")
    assert (failed.code, failed.step("here", "put_back")["status"]) == (1, "failed")
    assert len(scene.records()) == 1


@pytest.mark.slow
def test_secrets_are_in_no_record_and_are_given_again(scene):
    """Mutants: `encoded` that leaves secrets as they are; `without_secrets` without the mask on `by_hand`;
    `_inputs` without the values of a file; `_given_in_vain` without its places.
    """
    scene.killed("-e", "token=hunter2-of-ann")
    for path in (*scene.records(), *scene.notes()):
        assert "hunter2" not in path.read_text()
    assert scene.record()["rests_on"]["secret_inputs"] == ["token"]
    refused = scene.settle("--yes")
    assert (refused.code, "runbook settle --hosts here -e token=..." in refused.err) == (2, True)
    assert scene.settle("--yes", "-e", "other=x").code == 2
    assert scene.log == ["changed"]
    (file := scene.folder / "again.yaml").write_text("tokken: hunter2-of-ann\n")
    assert "again.yaml: contains no input of what is owed (there are: token)" in scene.settle("--inputs", str(file)).err
    file.write_text("token: hunter2-of-ann\nother: hunter2-of-ann\n")
    vain = scene.settle("--yes", "--inputs", str(file))
    assert (vain.code, "again.yaml:2:1: other: no owed step needs it" in vain.err) == (2, True)
    shown = scene.settle("--dry-run", "-e", "token=hunter2-of-ann")
    assert (shown.code, scene.log) == (0, ["changed"]), shown.err
    file.write_text("token: hunter2-of-ann\n")
    done = scene.settle("--yes", "--inputs", str(file), "--output", "json")
    assert "hunter2" not in shown.out + shown.err + vain.err
    assert (done.code, scene.log) == (0, ["changed", "restored with hunter2-of-ann"])
    assert "hunter2" not in done.out + done.err
    assert scene.records() == []


@pytest.mark.slow
@pytest.mark.soak
def test_a_playbook_that_has_changed_is_refused_and_what_to_type_is_shown(scene):
    """Mutants: `_playbook` without the comparison of digests."""
    scene.killed()
    (scene.folder / "flip.yaml").write_text(FLIP.replace('echo "restored', 'echo "put back'))
    said = scene.settle("--yes", "--output", "json")
    assert (said.code, said.document["hosts"], scene.log) == (1, [], ["changed"])
    assert "has changed since that run" in said.document["left_out"][0]["why"]
    assert 'by hand: sh -c \'mv -f "$1.kept" "$1"' in said.err
    forced = scene.settle("--yes", "--force", "--output", "json")
    assert (forced.code, scene.file.read_text(), scene.records()) == (0, "old\n", [])
    assert scene.log == ["changed", "restored"], "the arguments are those of the record"


@pytest.mark.slow
@pytest.mark.parametrize("gone", ["host", "playbook", "inventory"])
@pytest.mark.soak
def test_what_is_gone_is_named_and_stays_on_record(gone, scene):
    scene.killed()
    if gone == "host":
        (scene.folder / "hosts.yaml").write_text("hosts:\n  there: {transport: local}\n")
    else:
        (scene.folder / {"playbook": "flip.yaml", "inventory": "hosts.yaml"}[gone]).unlink()
    said = scene.settle("--yes", "--output", "json")
    assert said.code == 1
    why = {"host": "in the inventory any more", "playbook": "cannot be read", "inventory": "in the inventory any more"}
    assert why[gone] in said.document["left_out"][0]["why"]
    assert (len(scene.records()), scene.log) == (1, ["changed"])


@pytest.mark.slow
def test_what_a_host_is_owed_is_not_done_to_another_machine_of_its_name(scene):
    """Mutants: `_refuse_changes` dropped; the digests of hosts not written down."""
    scene.killed()
    assert scene.record()["rests_on"]["hosts"].keys() == {"here"}
    (scene.folder / "hosts.yaml").write_text(INVENTORY.replace("here: {", "here: {rack: r2, ", 1))
    said = scene.settle("--yes", "--output", "json")
    assert (said.code, scene.log, len(scene.records())) == (1, ["changed"], 1)
    assert "what the inventory says of here has changed" in said.document["left_out"][0]["why"]
    assert "by hand: " in said.err
    assert scene.settle("--yes", "--changed-inventory").code == 0
    assert (scene.log, scene.records()) == (["changed", "restored"], [])


@pytest.mark.slow
@pytest.mark.soak
def test_a_record_can_be_forgotten_after_a_yes(scene):
    scene.killed()
    run = scene.record()["run"]
    assert scene.settle("--forget", run).code == 2
    assert scene.settle("--forget", "20200101T000000Z-0000", "--yes").code == 2
    assert len(scene.records()) == 1
    assert scene.settle("--forget", run, "--yes").code == 0
    assert (scene.records(), scene.log) == ([], ["changed"])


def test_what_somebody_has_done_by_hand_is_not_done_again(scene):
    scene.killed()
    Path(f"{scene.file}.kept").rename(scene.file)
    said = scene.settle("--yes", "--output", "json")
    assert (said.code, said.step("here", "put_back")["status"], said.writes()) == (0, "ok", [])
    assert (scene.records(), scene.notes(), scene.log) == ([], [], ["changed"])


KEEPS_RECORDS = """\
import runpy, sys
from runbook.records.private_folder import PrivateFolder
def remove(self, name):
    raise OSError(5, "Input/output error")
PrivateFolder.remove = remove
sys.argv = ["runbook", "settle", "--yes"]
runpy.run_module("runbook", run_name="__main__")
"""


@pytest.mark.slow
@pytest.mark.soak
def test_a_record_that_could_not_be_removed_is_not_passed_over(scene):
    """Mutants: settle.py that does not look whether the records of needless clean-ups are gone."""
    scene.killed()
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    argv = (sys.executable, "-c", KEEPS_RECORDS)
    said = subprocess.run(argv, cwd=scene.folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert said.returncode == 1
    assert "here: nothing is to be done, but its record could not be removed" in said.stderr
    assert (scene.log, len(scene.records())) == (["changed", "restored"], 1)
    assert scene.settle("--yes").code == 0
    assert (scene.log, scene.records()) == (["changed", "restored"], [])


@pytest.mark.slow
@pytest.mark.soak
def test_several_runs_are_settled_together_the_latest_first(scene):
    scene.killed()
    first = scene.record()["run"]
    assert re.search(r":\d\d\.\d{3}[+]", scene.record()["since"]), "two runs may begin within one second"
    (scene.folder / "file.go").unlink()
    scene.file.write_text("old again\n")
    scene.killed()
    assert len(scene.records()) == 2
    said = scene.settle("--yes", "--hosts", "here", "--output", "json")
    assert [it["id"] for it in said.host("here")["steps"]] == ["put_back", f"put_back@{first}"]
    assert [it["status"] for it in said.host("here")["steps"]] == ["changed", "ok"]
    assert (scene.records(), scene.notes(), scene.file.read_text()) == ([], [], "old again\n")


@pytest.mark.slow
def test_each_host_is_settled_by_its_own_record(scene):
    scene.killed()
    scene.file.write_text("old\n")
    (scene.folder / "file.go").unlink()
    scene.killed(host="there")
    assert {it.name.split("-")[2] for it in scene.records()} == {"here", "there"}
    said = scene.settle("--yes", "--hosts", "there", "--output", "json")
    assert [it["host"] for it in said.document["hosts"]] == ["there"]
    assert [it.name.split("-")[2] for it in scene.records()] == ["here"]


@pytest.mark.slow
def test_on_a_terminal_the_plan_is_shown_and_asked_for(scene):
    """A no leaves it owed."""
    scene.killed()
    for answer, code, log in (("n", 130, ["changed"]), ("y", 0, ["changed", "restored"])):
        ended, said = on_terminal(("settle",), f"{answer}\n", cwd=scene.folder)
        assert "restored" in said
        assert "Do this on 1 host? [y/N]" in said
        assert (ended, scene.log) == (code, log)
        assert len(scene.records()) == (answer == "n")


@pytest.mark.slow
def test_on_a_terminal_too_what_is_needless_is_struck_without_a_question(scene):
    """Mutants: `_settle` without `_strike_needless`."""
    scene.killed()
    Path(f"{scene.file}.kept").rename(scene.file)
    ended, said = on_terminal(("settle",), "n\n", cwd=scene.folder)
    assert "[y/N]" not in said
    assert (ended, scene.records(), scene.notes(), scene.log) == (0, [], [], ["changed"])


@pytest.mark.slow
def test_a_run_that_is_told_to_settles_first_what_is_owed_to_its_hosts(scene):
    """Mutants: run.py without `_settled`; settle_first that takes every record, or that passes no inventory."""
    scene.killed()
    first = scene.record()["run"]
    (scene.folder / "file.go").unlink()
    scene.file.write_text("old\n")
    scene.killed(host="there")
    shown = scene.look("--settle", "--output", "json")
    assert (shown.code, len(scene.records())) == (0, 2), "a dry run settles nothing"
    assert "would change put_back" in shown.err
    said = scene.run("--settle", "--output", "json")
    assert said.code == 0, said.err
    assert "changed put_back" in said.err
    assert [it.name.split("-")[2] for it in scene.records()] == ["there"]
    assert said.step("here", "change")["status"] == "changed"
    assert scene.log == ["changed", "changed", "restored", "changed", "restored"]
    assert first not in [it["run"] for it in said.host("here")["owed"]], "what is owed to `there` is noted here, too"


@pytest.mark.slow
def test_a_run_does_not_begin_where_what_is_owed_cannot_be_settled(scene):
    """Mutants: run.py that goes on whatever `settle_first` returns."""
    scene.killed()
    with (scene.folder / "flip.yaml").open("a") as file:
        file.write("# changed\n")
    said = scene.run("--settle")
    assert said.code == 1
    assert "has changed since that run" in said.err
    assert "flip was not begun" in said.err
    assert (scene.log, len(scene.records())) == (["changed"], 1)


@pytest.mark.slow
def test_what_a_host_of_another_inventory_is_owed_is_not_done_to_its_namesake(scene):
    """Mutants: settle_first that takes records by the names of their hosts alone."""
    scene.killed()
    (scene.folder / "others.yaml").write_text((scene.folder / "hosts.yaml").read_text())
    argv = ("run", "look.yaml", "-i", "others.yaml", "--hosts", "here", "--settle", "--yes")
    said = runbook(*argv, cwd=scene.folder)
    assert said.code == 1
    assert f"had another inventory: `runbook settle -i {scene.folder / 'hosts.yaml'}`" in said.err
    assert "look was not begun" in said.err
    assert (scene.log, len(scene.records())) == (["changed"], 1)


@pytest.mark.slow
def test_a_run_does_not_begin_beside_one_that_may_owe_its_host_something(scene):
    """Mutants: settle_first that passes over the records of living runs."""
    process = scene.started()
    try:
        said = scene.look("--settle", "--output", "json")
        assert said.code == 1
        assert "is still under way" in said.err
    finally:
        scene.go()
        process.wait(timeout=60)


def test_settling_is_no_diagnosis(scene):
    said = runbook(*scene.argv("--settle", "--only", "diagnose"), cwd=scene.folder)
    assert (said.code, "give one of them" in said.err) == (2, True), said.err
    said = runbook("run", "look.yaml", "-i", "hosts.yaml", "--settle", "--yes", cwd=scene.folder)
    assert (said.code, "add --hosts" in said.err) == (2, True), said.err
    said = runbook("lab", "run", "zombie-gpu", "--settle", cwd=scene.folder)
    assert (said.code, "leave out --settle" in said.err) == (2, True), said.err


@pytest.mark.slow
@pytest.mark.soak
def test_a_password_is_read_once_for_settling_and_running(scene):
    """A pipe has it only once.  Mutants: `settle_first` that does not hand on how to connect."""
    scene.killed()
    pipe = scene.folder / "password"
    os.mkfifo(pipe, 0o600)
    threading.Thread(target=pipe.write_text, args=("secret\n",), daemon=True).start()
    said = scene.run("--settle", "--become-password-file", str(pipe))
    assert said.code == 0, said.err
    assert scene.log == ["changed", "restored", "changed", "restored"]


TWO = """\
  - id: note
    always: true
    command: {do: {params: *file, script: 'echo noted >>"$1.log"'}}
"""


@pytest.mark.parametrize("secret", [(), ("-e", "token=s3cr3t-0f-Ours")], ids=["plain", "with a secret input"])
def test_clean_up_that_resume_has_done_is_owed_no_more(scene, secret):
    """Also one that no probe can check.

    Mutants: owed.py `OwedRecord.ended` without `_earlier`; keeping.py `gone_on_with` without secrets, `drop` that
    keeps what the host said, or that drops the run's own; resume.py without the chain.
    """
    (scene.folder / "flip.yaml").write_text(FLIP + TWO)
    scene.killed(*secret)
    assert (len(scene.records()), len(scene.notes())) == (1, 1)
    said = runbook("resume", "last", "-i", "hosts.yaml", "--yes", *secret, "--output", "json", cwd=scene.folder)
    assert said.code == 0, said.out
    assert said.host("here")["owed"] == []
    assert (scene.records(), scene.notes()) == ([], [])
    assert "nothing is owed" in scene.settle("--yes").out
    assert scene.log.count("noted") == 1


FINDING = """\
diagnose:
  - {id: seen, command: {params: ["{{ inputs.file }}"], script: '[ -e "$1.log" ] || echo never changed'}}
findings:
  - {id: old, when: "'never' in seen.stdout", severity: error, say: it was never changed}
remediate:
"""


@pytest.mark.parametrize("each", ["", '    each: ["one", "two"]\n'], ids=["once", "for each item"])
def test_clean_up_whose_finding_the_killed_change_has_cured_is_done_by_resume(scene, each):
    """Its own run would have done it, too.

    Mutants: `needs_no_finding` that is always `is_cleanup`, or that compares the ids of items; evidence.py `gate`
    with `is_cleanup`.
    """
    text = FLIP.replace("remediate:\n", FINDING) + TWO.replace("always: true\n", f"always: true\n{each}")
    text = re.sub(r"(  - id: (?!linger).*\n)", r"\1    for: [old]\n", text)
    (scene.folder / "flip.yaml").write_text(text.replace("after: [change]", "if_changed: [change]"))
    scene.killed()
    assert scene.file.read_text() == "new\n"
    looked = runbook("resume", "last", "-i", "hosts.yaml", "--dry-run", "--output", "json", cwd=scene.folder)
    said = runbook("resume", "last", "-i", "hosts.yaml", "--yes", "--output", "json", cwd=scene.folder)
    assert said.code == 0, said.out
    done = [step["id"] for step in said.host("here")["steps"] if step["status"] == "changed"]
    assert done == ["put_back", *(["note[0]", "note[1]"] if each else ["note"])]
    assert [step["id"] for step in looked.host("here")["steps"] if step["status"] == "would_change"] == done
    assert said.host("here")["owed"] == []
    assert scene.records() == []
    assert scene.log.count("restored") == 1


OTHER = {"other arguments": ("echo noted", "echo jotted"), "no clean-up": ("note\n    always: true\n", "note\n")}


@pytest.mark.parametrize("change", OTHER)
def test_only_clean_up_that_is_the_same_is_struck_by_resume(scene, change):
    """Mutants: owed.py `_same` always true; `OwedRecord.ended` with a step that is no clean-up any more."""
    (scene.folder / "flip.yaml").write_text(FLIP + TWO)
    scene.killed()
    text = (FLIP + TWO).replace(*OTHER[change])
    assert text != FLIP + TWO
    (scene.folder / "flip.yaml").write_text(text)
    more = ("--yes", "--changed-playbook", "--output", "json")
    said = runbook("resume", "last", "-i", "hosts.yaml", *more, cwd=scene.folder)
    assert (said.code, said.step("here", "note")["status"]) == (0, "changed"), said.out
    (left,) = said.host("here")["owed"]
    assert [words.partition(":")[0] for words in left["steps"]] == ["note"]
    assert [owed_step["id"] for owed_step in scene.record()["steps"]] == ["note"]
