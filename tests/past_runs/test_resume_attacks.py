"""What was found by attacking resumed runs: each of these did something twice, or called well what nobody knew."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from runbook.errors import RecordLost
from runbook.records.journal import Journal
from runbook.records.private_folder import PrivateFolder
from runbook.records.pruning import expired
from runbook.records.recorded_run import RunState, read_run
from tests.past_runs.counting_scene import INVENTORY, Scene, as_if_killed_in, records
from tests.past_runs.recorded import RUN, change, finished, host_end, journal, started
from tests.support.program import Said, begun, runbook
from tests.support.waiting import until

pytestmark = pytest.mark.slow  # whole runs, one after the other

SECRET_ITEMS = """\
name: counted
inputs:
  place: {about: Where it counts., type: string, required: true}
  keys: {about: Secrets., type: array, items: {type: string}, secret: true, required: true}
  token: {about: A secret., type: string, default: its-default, secret: true}
remediate:
  - id: pre
    each: inputs.keys
    command: {do: {params: ["{{ inputs.place }}/{{ host.name }}", "{{ item }}"], script: 'echo "$2" >>"$1.pre"'}}
  - id: last
    command: {do: {params: ["{{ inputs.place }}/{{ host.name }}", "{{ inputs.token }}"], script: 'echo "$2" >>"$1.last"'}}
"""

ITEMS = """\
name: counted
inputs:
  place: {about: Where it counts., type: string, required: true}
remediate:
  - id: pre
    each: "[1, true, 'x']"
    command: {do: {params: ["{{ inputs.place }}/{{ host.name }}", "{{ item | string }}"], script: 'echo "$2" >>"$1.pre"'}}
"""

FAILING = """\
name: counted
inputs:
  place: {about: Where it counts., type: string, required: true}
remediate:
  - id: bad
    ignore_failure: true
    command: {do: {params: &file ["{{ inputs.place }}/{{ host.name }}"], script: 'echo bad >>"$1.log"; exit 1'}}
  - id: tidy
    if_failed: [bad]
    command: {do: {params: *file, script: 'echo tidy >>"$1.log"'}}
  - id: last
    command: {do: {params: *file, script: 'echo last >>"$1.log"'}}
"""


@pytest.fixture
def scene(tmp_path) -> Scene:
    made = Scene(tmp_path / "scene")
    (made.folder / "hosts.yaml").write_text("hosts:\n  h0: {transport: local}\n")
    return made


def with_playbook(scene: Scene, text: str, *given: str) -> Scene:
    (scene.folder / "counted.yaml").write_text(text)
    scene.begin = (*scene.begin, *given)
    return scene


def lines(scene: Scene, name: str) -> list[str]:
    path = scene.folder / name
    return path.read_text().splitlines() if path.exists() else []


def test_a_run_that_is_resumed_twice_is_gone_on_with_once(scene):
    """Mutant: ``_names`` that gives the first run alone."""
    run = as_if_killed_in(scene, "handler")
    (scene.folder / "h0.last").unlink()
    assert scene.run("resume", run, "--yes", "--assume-done", "handler").code == 0
    again = scene.run("resume", run, "--yes", "--assume-done", "handler")
    assert "nothing to resume: every host came to its end" in again.err
    assert len(lines(scene, "h0.last")) == 1


def test_two_resumes_at_once_are_one(scene):
    """Mutant: ``resume`` without ``_claimed``."""
    text = (
        (scene.folder / "counted.yaml")
        .read_text()
        .replace('echo >>"$1.last"; sleep 0.05', 'echo >>"$1.last"; until [ -e "$1.go" ]; do sleep 0.05; done')
    )
    assert ".go" in text
    with_playbook(scene, text)
    (scene.folder / "h0.go").touch()
    run = as_if_killed_in(scene, "handler")
    (scene.folder / "h0.last").unlink()
    (scene.folder / "h0.go").unlink()
    first = begun("resume", run, "--yes", "--assume-done", "handler", "-i", "hosts.yaml", cwd=scene.folder)
    until(lambda: lines(scene, "h0.last") or first.poll() is not None, "the last step")
    second = scene.run("resume", run, "--yes", "--assume-done", "handler")
    (scene.folder / "h0.go").touch()
    assert first.wait(timeout=60) == 0
    assert (second.code, "under way" in second.err) == (2, True)
    assert len(lines(scene, "h0.last")) == 1


def test_a_living_run_is_known_by_its_lock_whatever_its_machine_is_called(tmp_path):
    """Mutant: ``is_locked`` that is never true."""
    folder = PrivateFolder(tmp_path)
    made = Journal(folder, RUN)
    made.on(started())
    assert read_run(folder, RUN).state is RunState.RUNNING
    made.close()
    assert read_run(folder, RUN).state is RunState.INTERRUPTED


def test_a_living_run_elsewhere_keeps_its_record(tmp_path):
    """Mutant: ``expired`` that goes by the name of the machine alone."""
    folder = PrivateFolder(tmp_path)
    made = Journal(folder, RUN)
    made.on(started())
    assert expired(folder, "", "0") == []
    made.close()
    assert expired(folder, "", "0") == [RUN]


@pytest.mark.soak
def test_items_that_are_secret_are_in_doubt(scene):
    """Their text is in no record.  Mutant: ``_of`` without its hidden ones."""
    with_playbook(scene, SECRET_ITEMS, "-e", 'keys=["kkkksecret","llllsecret"]')
    run = as_if_killed_in(scene, "last")
    assert lines(scene, "h0.pre") == ["kkkksecret", "llllsecret"]
    said = scene.run("resume", run, "--yes", "-e", 'keys=["kkkksecret","llllsecret"]')
    assert said.code == 1
    assert said.step("h0", "pre[0]")["status"] == "unknown"
    assert lines(scene, "h0.pre") == ["kkkksecret", "llllsecret"]


@pytest.mark.soak
def test_a_secret_that_was_left_at_its_default_keeps_it(scene):
    """Mutant: ``_resume`` that takes the masked inputs for the inputs."""
    with_playbook(scene, SECRET_ITEMS, "-e", 'keys=["kkkksecret"]')
    run = as_if_killed_in(scene, "last")
    given = ("-e", 'keys=["kkkksecret"]', "--assume-done", "pre", "--repeat", "last")
    assert scene.run("resume", run, "--yes", *given).code == 0
    assert lines(scene, "h0.last") == ["its-default"] * 2


@pytest.mark.soak
def test_items_that_python_takes_for_equal_are_not(scene):
    """Mutants: ``_of`` that compares by ==; ``_key`` by repr."""
    with_playbook(scene, ITEMS)
    run = as_if_killed_in(scene, "pre[1]")
    (scene.folder / "h0.pre").write_text("1\n")
    said = scene.run("resume", run, "--yes", "--repeat", "pre[1]")
    assert [said.step("h0", f"pre[{it}]")["status"] for it in range(3)] == ["ok", "changed", "changed"]
    assert lines(scene, "h0.pre") == ["1", "True", "x"]


def test_what_follows_a_failure_follows_the_failure_of_this_run_too(scene):
    """Mutant: ``continued`` that goes by earlier runs alone."""
    with_playbook(scene, FAILING)
    run = as_if_killed_in(scene, "last")
    assert lines(scene, "h0.log")[:2] == ["bad", "tidy"]
    (scene.folder / "h0.log").unlink()
    scene.run("resume", run, "--yes", "--assume-done", "last")
    assert lines(scene, "h0.log") == ["bad", "tidy"]


def test_a_journal_that_was_removed_or_replaced_records_nothing_more(tmp_path):
    """Mutants: ``on`` without ``_stays``; ``holds`` that goes by the name alone."""
    folder = PrivateFolder(tmp_path / "runs")
    for harm in (
        lambda: (tmp_path / "runs" / f"{RUN}.jsonl").unlink(),
        lambda: (tmp_path / "runs").rename(tmp_path / f"moved-{time.monotonic_ns()}"),
        lambda: (tmp_path / "runs" / f"{RUN}.jsonl").rename(tmp_path / "other"),
    ):
        made = Journal(folder, RUN)
        made.on(started())
        made.on(change("x"))
        harm()
        with pytest.raises(RecordLost):
            made.on(change("y"))
        made.close()
        (tmp_path / "other").unlink(missing_ok=True)


def test_a_name_that_is_another_machine_now_is_refused(scene):
    """Mutant: ``_selected`` that goes by names alone."""
    run = as_if_killed_in(scene, "last")
    (scene.folder / "hosts.yaml").write_text("hosts:\n  h0: {transport: local, rack: 9}\n")
    said = scene.run("resume", run, "--yes", "--assume-done", "last")
    assert (said.code, "may be another machine" in said.err) == (2, True)
    assert scene.run("resume", run, "--yes", "--assume-done", "last", "--changed-inventory").code == 0


@pytest.mark.soak
def test_a_host_that_a_step_names_may_be_another_machine_too(scene):
    """Mutant: ``_selected`` that compares the hosts of the run alone."""
    hosts = "hosts:\n  h0: {transport: local}\n  other: {transport: local%s}\n"
    (scene.folder / "hosts.yaml").write_text(hosts % "")
    scene.begin = (*scene.begin[:3], "h0", *scene.begin[4:])
    with_playbook(scene, (scene.folder / "counted.yaml").read_text().replace("- id: last", "- id: last\n    on: other"))
    run = as_if_killed_in(scene, "last")
    (scene.folder / "hosts.yaml").write_text(hosts % ", rack: 9")
    said = scene.run("resume", run, "--yes", "--assume-done", "last")
    assert (said.code, "says of other has changed since that run" in said.err) == (2, True), said.err
    assert scene.run("resume", run, "--yes", "--assume-done", "last", "--changed-inventory").code == 0


@pytest.mark.soak
def test_what_was_undone_by_hand_is_not_called_well(scene):
    """Mutant: ``continued`` that says no change where the step's own probe says that one is needed."""
    run = as_if_killed_in(scene, "last")
    (scene.folder / "h0.conf").unlink()
    said = scene.run("resume", run, "--yes", "--assume-done", "last")
    assert said.code == 1
    assert said.step("h0", "settings")["status"] == "blocked"
    assert "--repeat settings" in said.step("h0", "settings")["why"]
    assert not (scene.folder / "h0.conf").exists()
    again = scene.run("resume", run, "--yes", "--assume-done", "last", "--repeat", "settings")
    assert again.err == "" or "every host" in again.err or again.code == 0


@pytest.mark.soak
def test_repeat_repeats_also_what_is_known_to_be_done(scene):
    """Mutant: ``continued`` that looks at *done* first."""
    run = as_if_killed_in(scene, "last")
    assert scene.run("resume", run, "--yes", "--assume-done", "last", "--repeat", "count").code == 0
    assert len(lines(scene, "h0.count")) == 2
    said = scene.run("resume", run, "--yes", "--assume-done", "last", "--repeat", "last")
    assert (said.code, "name the same step" in said.err) == (2, True)


@pytest.mark.soak
def test_a_host_that_is_gone_keeps_no_other_from_being_resumed(tmp_path):
    made = Scene(tmp_path / "scene")
    run = as_if_killed_in(made, "last")
    (made.folder / "hosts.yaml").write_text(INVENTORY.replace("  h2: {transport: local}\n", ""))
    said = made.run("resume", run, "--yes", "--assume-done", "last")
    assert (said.code, "h2 of that run is not in the inventory" in said.err) == (2, True)
    assert made.run("resume", run, "--yes", "--assume-done", "last", "--hosts", "h0,h1").code == 0


@pytest.mark.soak
def test_an_empty_name_is_no_run(scene):
    """Mutant: ``named_run`` that takes the beginning of every id for one."""
    assert scene.run(*scene.begin).code == 0
    said: Said = scene.run("run", "counted.yaml", "-e", f"place={scene.folder}", "--dry-run", "--hosts", "@")
    assert (said.code, "is empty" in said.err) == (2, True)


def test_a_finished_run_holds_no_lock(tmp_path):
    folder = journal(tmp_path, started(), host_end(), finished(host_end()))
    assert read_run(folder, RUN).state is RunState.FINISHED
    assert isinstance(records(), Path)
    assert runbook("history", "verify").code == 0
