"""A saved plan is applied once, and only where it is still true."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path

import pytest

from tests.past_runs.scene import ME, alive, asked, ended, resealed
from tests.support.program import PROGRAM, begun
from tests.support.waiting import appears, soon

pytestmark = pytest.mark.slow  # whole runs, one after the other


def test_a_host_with_a_new_victim_has_drifted_and_the_others_are_done(scene):
    """Mutants: permitted.py ``_unplanned`` without its new targets; narrowing.py ``_held_back`` that keeps ``seen``."""
    first, second = scene.sleeper("a"), scene.sleeper("b")
    made = scene.plan()
    assert (made.code, alive(first), alive(second)) == (0, True, True), made.err
    third = scene.sleeper("a")
    done = scene.apply()
    assert done.code == 6, done.err
    assert (done.host("a")["verdict"], done.host("b")["verdict"]) == ("drifted", "resolved")
    error = done.host("a")["error"]
    assert error.startswith("not as planned: one process more would be ended (stop): ")
    assert f": {third.pid} " in error
    assert f"({ME})" in error
    assert str(first.pid) not in error
    assert done.step("a", "stop")["status"] == "drifted"
    assert not any(it["effect"] == "write" for it in done.step("a", "stop")["commands"])
    assert ended(second)
    assert alive(first)
    assert alive(third)
    again = scene.apply()
    assert again.code == 2
    assert "the plan was already applied: " in again.err
    assert "(exit code 6)" in again.err
    assert alive(first)


def test_less_than_was_shown_is_done_and_said(scene):
    """Mutants: permitted.py ``_less`` that gives nothing."""
    first, second, other = scene.sleeper("a"), scene.sleeper("a"), scene.sleeper("b")
    assert scene.plan().code == 0
    for it in (first, other):
        it.kill()
        it.wait()
    done = scene.apply()
    assert done.code == 0, done.err
    assert (done.host("a")["verdict"], done.host("b")["verdict"]) == ("resolved", "healthy")
    assert "a: less than the plan showed: stop: 1 of the processes of the plan is gone, or left alone now: " in done.err
    assert "b: less than the plan showed: stop: no longer done: " in done.err
    assert ended(second)


@pytest.mark.soak
def test_a_plan_that_found_nothing_to_do_lets_nothing_be_done(scene):
    assert scene.plan().code == 0
    new = scene.sleeper("b")
    done = scene.apply()
    assert (done.code, done.host("b")["verdict"], done.host("a")["verdict"]) == (6, "drifted", "healthy")
    assert "found now, and not when the plan was made: held: 1 sleeper" in done.host("b")["error"]
    assert alive(new)
    assert "nothing was sent to any host: the plan can be applied again" in done.err


@pytest.mark.soak
def test_a_host_without_a_plan_is_not_touched(scene):
    """Mutants: narrowing.py ``ends_of_others`` that gives nothing."""
    scene.inventory.write_text("hosts: {a: {transport: local}, b: {ssh_host: 127.0.0.1, ssh_port: 1, ssh_user: x}}\n")
    victim = scene.sleeper("a")
    assert scene.plan().code == 4
    done = scene.apply()
    assert (done.code, done.host("a")["verdict"], done.host("b")["verdict"]) == (1, "resolved", "not_started")
    assert done.host("b")["error"] == "the plan has nothing for this host: it was unreachable when the plan was made"
    assert ended(victim)


@contextmanager
def as_before(*files: Path) -> Iterator[None]:
    """What is done to *files* is over afterwards."""
    before = [(file, file.read_bytes(), file.stat().st_mode & 0o777) for file in files]
    yield
    for file, content, mode in before:
        file.unlink(missing_ok=True)
        file.write_bytes(content)
        file.chmod(mode)


def edited_plan(scene):
    tree = scene.document()
    tree["options"]["force"] = True
    scene.file.write_text(json.dumps(tree))
    return "the plan file was changed after it was made"


def edited_playbook(scene):
    scene.book.write_text(scene.book.read_text().replace("grace: 1s", "grace: 0s"))
    return "the playbook has changed since the plan was made (", "remediate stop is another"


def commented_playbook(scene):
    scene.book.write_text(scene.book.read_text() + "# a comment\n")
    return "the playbook has changed since", "only in what no step, finding, input, secret or limit says"


def edited_inventory(scene):
    scene.inventory.write_text("hosts: {a: {transport: local}, b: {transport: local, gpu: 8x H100}}\n")
    return "the inventory has changed since the plan was made (", "b is another"


def edited_twice(scene):
    edited_playbook(scene)
    edited_inventory(scene)
    return "the playbook has changed since", "the inventory has changed since"


def no_plan(scene):
    scene.file.write_text("{}")
    return "plan.json is not a plan"


def another_format(scene):
    scene.file.write_text(json.dumps({**scene.document(), "format": 3}))
    return "is a plan of format 3"


def no_file(scene):
    scene.file.unlink()
    return "cannot read plan.json: No such file or directory"


def writable_by_others(scene):
    scene.file.chmod(0o622)
    return "other users can write to it"


def a_pipe(scene):
    scene.file.unlink()
    os.mkfifo(scene.file)
    return "it is not a regular file"


SPOILS = (
    edited_plan,
    edited_playbook,
    commented_playbook,
    edited_inventory,
    edited_twice,
    no_plan,
    another_format,
    no_file,
    writable_by_others,
    a_pipe,
)


def test_a_plan_that_is_true_no_more_is_refused_with_the_reason(scene):
    """Each way beside a plan, a playbook and an inventory that nobody has touched otherwise.

    Mutants: document.py without its digest; binding.py ``_of_playbook``, ``_of_inventory``; plan_file.py.
    """
    victim = scene.sleeper("a")
    assert scene.plan().code == 0
    found, expected = {}, {}
    for spoil in SPOILS:
        state, lived = scene.folder / spoil.__name__, alive(victim)
        with as_before(scene.file, scene.book, scene.inventory):
            words = spoil(scene)
            done = scene.apply(XDG_STATE_HOME=str(state))
        words = (words,) if isinstance(words, str) else words
        said = tuple(word for word in words if word in done.err)
        used = (state / "runbook" / "plans").exists()
        found[spoil.__name__] = (done.code, said or done.err, done.out, alive(victim) == lived, used)
        expected[spoil.__name__] = (2, words, "", True, False)
    assert found == expected
    assert alive(victim)


@pytest.mark.real("root")
def test_a_plan_of_another_user_is_refused(scene):
    """Mutants: plan_file.py ``_refuse_foreign`` without the owner."""
    assert scene.plan().code == 0
    os.chown(scene.file, 4242, 4242)
    done = scene.apply()
    assert (done.code, "plan.json belongs to the user 4242" in done.err) == (2, True), done.err
    assert scene.run("show", "plan.json").code == 0


def test_a_plan_expires(scene):
    """Mutants: saved_text.py ``expired`` with ``>`` the other way round."""
    victim = scene.sleeper("a")
    assert scene.plan("--expires", "1s").code == 0
    time.sleep(1.1)  # noqa: TID251 the program goes by the clock of this machine
    done = scene.apply()
    assert (done.code, "plan.json: the plan expired at " in done.err) == (2, True)
    assert alive(victim)


@pytest.mark.soak
def test_secret_inputs_are_not_in_the_plan_and_must_be_given_again(scene):
    """Mutants: binding.py ``_of_inputs`` without the secret ones; ``missing_inputs`` that gives nothing."""
    victim = scene.sleeper("a")
    canary = "canary-5f2d71c09b"
    assert scene.plan("-e", f"token={canary}").code == 0
    assert canary not in scene.file.read_text()
    forgot = scene.apply()
    assert (forgot.code, "the input 'token' is secret, so that the plan does not hold it" in forgot.err) == (2, True)
    wrong = scene.apply("-e", "token=another-5f2d71c09b")
    assert (wrong.code, "the input 'token' is not what the plan was made with" in wrong.err) == (2, True)
    assert "another-5f2d71c09b" not in wrong.err
    other = scene.apply("-e", f"token={canary}", "-e", "mark=other")
    assert (other.code, "the input 'mark' is not what the plan was made with" in other.err) == (2, True)
    assert alive(victim)
    (scene.folder / "inputs.yaml").write_text(f"token: {canary}\n")
    done = scene.apply("--inputs", "inputs.yaml")
    assert done.code == 0, done.err
    assert ended(victim)


def test_the_plan_is_for_its_owner_alone_and_shows_what_the_dry_run_showed(scene):
    scene.sleeper("a")
    made = scene.plan("-v")
    assert scene.file.stat().st_mode & 0o777 == 0o600
    shown = scene.run("show", "plan.json")
    assert shown.code == 0
    assert shown.out.partition("\n")[2].startswith(made.out.partition("\n")[2])  # the first line names the files, too
    assert f"made by {ME} on " in shown.out
    assert "not applied here so far" in shown.out


def test_without_a_terminal_and_a_yes_nothing_is_done(scene):
    """Mutants: apply.py ``_apply`` that takes SHOWN for NONE."""
    victim = scene.sleeper("a")
    assert scene.plan().code == 0
    done = scene.run("apply", "plan.json", "--output", "json")
    assert "needs --yes" in done.step("a", "stop")["why"]
    assert alive(victim)
    checked = scene.run("apply", "plan.json", "--dry-run", "--output", "json")
    assert (checked.code, checked.document["mode"], checked.host("a")["verdict"]) == (0, "plan", "planned")
    assert alive(victim)
    assert scene.apply().code == 0
    assert ended(victim)


def test_on_a_terminal_the_plan_is_shown_and_asked_for(scene):
    """A no leaves it as it was."""
    victim = scene.sleeper("a")
    assert scene.plan().code == 0
    for answer, code in (("n\n", 130), ("y\n", 0)):
        assert alive(victim)
        found, said = asked(scene, ("apply", "plan.json"), answer)
        assert found == code, said
        assert "would change stop: end 1 process" in said
        assert "Do this on 1 host? [y/N]" in said
    assert ended(victim)


@pytest.mark.slow
@pytest.mark.soak
def test_what_has_changed_can_be_planned_anew_on_a_terminal(scene):
    """Mutants: narrowing.py ``narrowed`` that gives back what is planned whatever the answer."""
    first, other = scene.sleeper("a"), scene.sleeper("b")
    assert scene.plan().code == 0
    second = scene.sleeper("a")
    assert "there is no terminal to ask on" in scene.apply("--replan").err
    code, said = asked(scene, ("apply", "plan.json", "--yes", "--replan"), "n\n")
    assert code == 6, said
    assert f"pid {second.pid}" in said
    assert ended(other)
    assert alive(first)
    assert scene.plan().code == 0
    third = scene.sleeper("a")
    code, said = asked(scene, ("apply", "plan.json", "--yes", "--replan"), "y\n")
    assert code == 0, said
    assert ended(first)
    assert ended(second)
    assert ended(third)


@pytest.mark.slow
@pytest.mark.soak
def test_of_two_applies_at_once_one_wins(scene):
    """Mutants: usage.py ``claim`` by ``write`` instead of ``create``."""
    for _ in range(3):
        victim = scene.sleeper("a")
        assert scene.plan().code == 0
        env = {**os.environ, "XDG_STATE_HOME": str(scene.state), "PYTHONPATH": os.getcwd()}
        argv = (*PROGRAM, "apply", "plan.json", "--yes")
        both = [
            subprocess.Popen(argv, cwd=scene.folder, env=env, stdin=subprocess.DEVNULL, stdout=-1, stderr=-1, text=True)
            for _ in range(2)
        ]
        said = [it.communicate(timeout=60) for it in both]
        assert sorted(it.returncode for it in both) == [0, 2], said
        (lost,) = [err for it, (_, err) in zip(both, said, strict=True) if it.returncode == 2]
        assert "the plan was already applied" in lost
        assert ended(victim)


@pytest.mark.slow
def test_an_apply_that_was_killed_leaves_the_plan_used(scene):
    """Mutants: apply.py that claims the plan after the run."""
    stubborn = scene.sleeper("a")
    scene.book.write_text(scene.book.read_text().replace("grace: 1s", "grace: 60s"))
    assert scene.plan(hosts="a").code == 0
    stubborn.send_signal(signal.SIGSTOP)  # TERM has to wait
    process = begun("apply", "plan.json", "--yes", cwd=scene.folder, **scene.env)
    mark = scene.state / "runbook" / "plans" / f"{scene.document()['plan']}.json"
    assert appears(mark)
    process.kill()
    done = scene.apply()
    assert done.code == 2
    assert "that apply is still under way, or was ended half-way" in done.err
    assert soon(lambda: "half-way" in scene.run("show", "plan.json").out)


def on_a_full_disk(scene, variable: str, folder: str) -> subprocess.CompletedProcess[str]:
    """Apply the plan where *variable* names a directory on a disk that is full; *folder* is in it already."""
    place = scene.folder / "full"
    place.mkdir(mode=0o700)
    line = (
        'mount --make-rprivate / && mount -t tmpfs -o size=16k,mode=700 none "$0" && umask 077 && mkdir -p "$0/$1" && '
        'dd if=/dev/zero of="$0/fill" 2>/dev/null; cd "$2" && export "$3=$0" && shift 3 && exec "$@"'
    )
    words = (str(place), folder, str(scene.folder), variable, *PROGRAM, "apply", "plan.json", "--yes")
    env = {**os.environ, "XDG_STATE_HOME": str(scene.state), "PYTHONPATH": os.getcwd()}
    return subprocess.run(
        ("unshare", "-m", "sh", "-c", line, *words), env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip


@pytest.mark.real("root", "lab")
@pytest.mark.soak
def test_an_apply_whose_record_fails_at_its_first_line_leaves_the_plan(scene):
    """Mutants: apply.py without its release after RecordLost."""
    victim = scene.sleeper("a")
    assert scene.plan().code == 0
    done = on_a_full_disk(scene, "RUNBOOK_RECORDS", "")
    assert done.returncode != 0
    assert "the run cannot be recorded, so it is not begun" in done.stderr
    assert alive(victim)
    assert scene.apply().code == 0
    assert ended(victim)


@pytest.mark.real("root", "lab")
@pytest.mark.soak
def test_a_full_disk_where_uses_are_recorded_refuses_the_apply(scene):
    """Mutants: usage.py ``claim`` that goes on after an OSError."""
    victim = scene.sleeper("a")
    assert scene.plan().code == 0
    done = on_a_full_disk(scene, "XDG_STATE_HOME", "runbook/plans")
    assert done.returncode == 2, done
    assert "a plan is applied once, and that cannot be recorded in " in done.stderr
    assert "No space left on device" in done.stderr
    assert alive(victim)


@pytest.mark.slow
def test_steps_from_a_risk_on_are_done_by_a_person_or_a_saved_plan_only(scenes):
    """Mutants: consent.py ``why_unconfirmed`` that gives nothing."""
    scene = scenes("limits: {confirm_from: kills-processes}\n")
    victim = scene.sleeper("a")
    words = ("run", "sleepers.yaml", "-i", "hosts.yaml", "--hosts", "a", "-e", f"mark={scene.mark}")
    done = scene.run(*words, "--yes", "--output", "json")
    assert (done.code, done.step("a", "stop")["status"]) == (1, "blocked")
    assert "--yes does not do: its risk is kills-processes" in done.step("a", "stop")["why"]
    assert alive(victim)
    code, said = asked(scene, words, "y\n")
    assert code == 0, said
    assert ended(victim)
    other = scene.sleeper("a")
    assert scene.plan().code == 0
    assert scene.apply().code == 0
    assert ended(other)


CLEANUP = """\
name: cleanup
about: A mild change, a rough one, and what cleans up after both.
remediate:
  - {id: mild, file: {path: "{{ inputs.folder }}/mild", content: "x {{ run.id }}\\n"}}
  - {id: rough, command: {do: {argv: [touch, "{{ inputs.folder }}/rough"]}}}
  - {id: last, always: true, command: {do: {argv: [touch, "{{ inputs.folder }}/last"]}}}
inputs:
  folder: {about: Where., type: string, required: true}
limits: {confirm_from: kills-processes}
"""


def test_what_cleans_up_after_a_change_waits_for_no_person(scene):
    """Mutants: consent.py ``why_unconfirmed`` without ``step.always``."""
    (scene.folder / "cleanup.yaml").write_text(CLEANUP)
    words = ("cleanup.yaml", "-i", "hosts.yaml", "--hosts", "a", "-e", f"folder={scene.folder}")
    done = scene.run("run", *words, "--yes", "--output", "json")
    steps = {it["id"]: it["status"] for it in done.host("a")["steps"]}
    assert steps == {"mild": "changed", "rough": "blocked", "last": "changed"}, done.err
    assert not (scene.folder / "rough").exists()


@pytest.mark.soak
def test_commands_and_files_are_as_they_were_shown(scene):
    """Mutants: host_context.py ``scope`` that takes the facts of the run that applies."""
    (scene.folder / "cleanup.yaml").write_text(CLEANUP)
    words = ("cleanup.yaml", "-i", "hosts.yaml", "--hosts", "a", "-e", f"folder={scene.folder}", "-o", "plan.json")
    made = scene.run("plan", *words, "--output", "json")
    assert made.code == 0, made.err
    shown = scene.run("show", "plan.json").out
    assert f"a: mild may touch: file {scene.folder}/mild" in shown
    done = scene.apply()
    assert done.code == 0, done.err
    assert (scene.folder / "mild").read_text() == f"x {made.document['run']}\n"
    assert done.document["run"] != made.document["run"]


def other_words(tree):
    step = next(it for it in tree["result"]["hosts"][0]["steps"] if it["id"] == "rough")
    step.update(why="look around", planned="look around")
    next(it for it in tree["hosts"][0]["steps"] if it["id"] == "rough").update(summary="look around")


def another_difference(tree):
    """A target that is nowhere, so that the step has more of them than it will have."""
    own, shown = tree["hosts"][0]["steps"][0], tree["result"]["hosts"][0]["steps"][0]
    own["targets"].append({**own["targets"][0], "key": "/nowhere 1", "say": "/nowhere"})
    for it in (own, shown):
        it["diff"] = it["diff"].replace("+x ", "+harmless ")


def other_limits(tree):
    tree["result"]["limits"]["max_unavailable"] = 1


def another_name(tree):
    tree["result"]["playbook"] = "harmless"


def a_condition_that_is_none(tree):
    own, shown = tree["hosts"][0]["steps"][0], tree["result"]["hosts"][0]["steps"][0]
    own["condition"] = shown["condition"] = "only if the moon is full"


FORGED = {
    a_condition_that_is_none: (6, "would now do something else to what the plan showed"),
    another_name: (2, "the plan shows the playbook harmless, and"),
    other_words: (6, "the plan showed: look around"),
    another_difference: (6, "would now do something else to what the plan showed"),
    other_limits: (2, "the limits that the plan shows are not those"),
}


@pytest.mark.slow
def test_what_a_plan_made_up_to_be_approved_is_not_done(scene):
    """Mutants: apply.py without ``_refuse_other_limits``; binding.py ``_of_playbook`` by its digest alone; permitted.py without ``_compared_words``."""
    (scene.folder / "cleanup.yaml").write_text(CLEANUP)
    words = ("cleanup.yaml", "-i", "hosts.yaml", "--hosts", "a", "-e", f"folder={scene.folder}", "-o", "plan.json")
    assert scene.run("plan", *words).code == 0
    plan = scene.document()
    found, expected = {}, {}
    for forge, (code, reason) in FORGED.items():
        tree = deepcopy(plan)
        forge(tree)
        scene.file.write_bytes(resealed(tree))
        done = scene.apply(XDG_STATE_HOME=str(scene.folder / forge.__name__))
        said = done.out + done.err
        made = [name for name in ("mild", "rough", "last") if (scene.folder / name).exists()]
        for name in made:
            (scene.folder / name).unlink()
        found[forge.__name__] = (done.code, reason if reason in said else said, made)
        expected[forge.__name__] = (code, reason, [])
    assert found == expected


def test_a_file_that_has_changed_since_is_named(scene):
    (scene.folder / "cleanup.yaml").write_text(CLEANUP)
    (scene.folder / "mild").write_text("one\n")
    words = ("cleanup.yaml", "-i", "hosts.yaml", "--hosts", "a", "-e", f"folder={scene.folder}", "-o", "plan.json")
    assert scene.run("plan", *words).code == 0
    (scene.folder / "mild").write_text("two\n")
    done = scene.apply()
    assert done.code == 6
    assert f"{scene.folder}/mild has changed since the plan was made" in done.host("a")["error"]
    assert (scene.folder / "mild").read_text() == "two\n"
    assert not (scene.folder / "last").exists()


@pytest.mark.slow
@pytest.mark.soak
def test_an_input_of_the_environment_is_taken_from_there_again(scene):
    """Mutants: binding.py ``missing_inputs`` without the environment's."""
    scene.book.write_text(
        scene.book.read_text().replace("secret: true, default: ''", "env: SLEEPER_TOKEN, default: ''")
    )
    victim = scene.sleeper("a")
    assert scene.plan(SLEEPER_TOKEN="canary-77aa31").code == 0
    assert "canary-77aa31" not in scene.file.read_text()
    other = scene.apply(SLEEPER_TOKEN="another-77aa31")
    assert (other.code, "the input 'token' is not what the plan was made with" in other.err) == (2, True), other.err
    assert scene.apply(SLEEPER_TOKEN="canary-77aa31").code == 0
    assert ended(victim)


@pytest.mark.slow
@pytest.mark.soak
def test_a_plan_is_applied_from_another_directory(scene, tmp_path):
    victim = scene.sleeper("a")
    assert scene.plan().code == 0
    (tmp_path / "elsewhere").mkdir()
    here = scene.folder
    moved = here.parent / "elsewhere" / "plan.json"
    scene.file.rename(moved)
    done = scene.run("apply", str(moved), "--yes", cwd=moved.parent)
    assert done.code == 0, done.err
    assert ended(victim)


@pytest.mark.real("root")
@pytest.mark.parametrize("out", ["theirs/plan.json", "/dev/null", "pipe"])
def test_a_plan_is_written_over_nothing_that_is_not_ours(scene, out):
    """Mutants: plan.py ``opened_plan`` without its refusal."""
    os.mkfifo(scene.folder / "pipe")
    (scene.folder / "ours").mkdir()
    (scene.folder / "theirs").symlink_to("ours")
    os.lchown(scene.folder / "theirs", 4242, 4242)
    words = ("-i", "hosts.yaml", "--hosts", "all", "-e", f"mark={scene.mark}", "-o", out)
    done = scene.run("plan", "sleepers.yaml", *words)
    assert (done.code, done.out, f"--out {out}: " in done.err) == (2, "", True), done.err
    assert not list((scene.folder / "ours").iterdir())


@pytest.mark.slow
@pytest.mark.soak
def test_the_hosts_of_a_recorded_run_are_those_of_the_plan(scene):
    """Mutants: plan.py ``_hosts`` that gives the pattern."""
    victim = scene.sleeper("a")
    words = ("run", "sleepers.yaml", "-i", "hosts.yaml", "--hosts", "all", "-e", f"mark={scene.mark}", "--dry-run")
    assert scene.run(*words).code == 0
    assert scene.plan(hosts="@last:planned").code == 0
    assert [it["host"] for it in scene.document()["result"]["hosts"]] == ["a"]
    assert scene.run(*words).code == 0
    done = scene.apply()
    assert (done.code, [it["host"] for it in done.document["hosts"]]) == (0, ["a"]), done.err
    assert ended(victim)


@pytest.mark.soak
def test_an_apply_that_cannot_be_recorded_is_not_begun_and_leaves_the_plan(scene):
    """Mutants: apply.py without its release after RecordLost."""
    victim = scene.sleeper("a")
    assert scene.plan().code == 0
    done = scene.run("apply", "plan.json", "--yes", "--records", "/dev/full")
    assert done.code != 0
    assert "cannot be recorded" in done.err
    assert alive(victim)
    again = scene.apply()
    assert again.code == 0, again.err
    assert ended(victim)
    shown = scene.run("history", "show", "last")
    assert shown.code == 0, shown.err


SECRET = """\
name: cleanup
about: A step with a secret in its environment.
secrets:
  token: {env: CLEANUP_TOKEN}
inputs:
  folder: {about: Where., type: string, required: true}
remediate:
  - id: use
    command: {do: {script: 'printf "%s" "$TOKEN" >"$1/used"', params: ["{{ inputs.folder }}"]}}
    env: {TOKEN: "{{ secrets.token }}"}
"""


def test_a_secret_that_a_step_needs_is_read_when_the_plan_is_applied(scene):
    """Mutants: apply.py that resolves secrets as a dry run does."""
    (scene.folder / "cleanup.yaml").write_text(SECRET)
    words = ("cleanup.yaml", "-i", "hosts.yaml", "--hosts", "a", "-e", f"folder={scene.folder}", "-o", "plan.json")
    made = scene.run("plan", *words, CLEANUP_TOKEN="canary-61ce90")
    assert (made.code, "canary-61ce90" in scene.file.read_text()) == (0, False), made.err
    done = scene.apply(CLEANUP_TOKEN="canary-61ce90")
    assert done.code == 0, done.err
    assert "canary-61ce90" not in done.out
    assert (scene.folder / "used").read_text() == "canary-61ce90"
