"""A container that clones over its own directory again and again: real git, real files, real time."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from runbook import lab
from tests.support.program import Practice, look, runbook
from tests.support.waiting import until

pytestmark = pytest.mark.real("lab", "sshd", "git")

WORK = "/run/lab/workspace"
CLONE = f"{WORK}/AReaL"


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("loop") / "lab"
    faults = ("plain=restart_loop", "work=restart_loop+unsaved", "broken=restart_loop+broken_clone", "over=trained")
    made = lab.up(
        lab.LabOptions(
            directory=folder,
            faults=(*faults, "none=healthy", "kept=restart_loop", "aware=restart_loop+git_aware+broken_clone"),
        )
    )
    practice = Practice(made)
    for host in ("plain", "work", "broken", "kept", "aware"):
        asked = f"grep -c 'start container' {WORK}/container.log"
        until(lambda host=host, asked=asked: int(practice.exec(host, asked) or 0) >= 3, f"three starts on {host}")
    yield practice
    lab.down(folder)


def run(hosts, which, *more, **inputs):
    values = {"logs": [f"{WORK}/container.log"], "directory": CLONE, "allowed_roots": [WORK], **inputs}
    given = [
        word
        for name, value in values.items()
        for word in ("-e", f"{name}={value if isinstance(value, str) else json.dumps(value)}")
    ]
    return hosts.run("restart-loop", *given, *more, hosts=which)


@pytest.mark.soak
def test_the_directory_is_taken_away_and_the_next_start_comes_through(hosts):
    plan = run(hosts, "plain", "--dry-run")
    assert plan.host("plain")["verdict"] == "planned", plan.out + plan.err
    assert plan.step("plain", "clear")["risk"] == "deletes-data"
    assert hosts.exec("plain", f"test -e {CLONE}/.git && echo there") == "there\n"
    finding = plan.finding("plain", "clone_over")
    assert 0.5 <= finding["evidence"]["median_gap"] <= 60
    assert "already exists and is not an empty directory" in finding["evidence"]["since_the_last_start"][-1]
    said = run(hosts, "plain", "--yes")
    assert said.host("plain")["verdict"] == "resolved", said.out + said.err
    assert said.finding("plain", "clone_over")["status"] == "gone"
    assert said.step("plain", "came_through")["status"] == "ok"
    assert hosts.exec("plain", f"cat {CLONE}/train.py") == 'print("better training")\n'
    assert "Training step" in hosts.exec("plain", f"tail -n 1 {WORK}/container.log")
    again = run(hosts, "plain", "--yes")
    assert again.host("plain")["verdict"] == "healthy", again.out
    assert again.writes() == []


@pytest.mark.parametrize(("host", "lost"), [("work", "!! outputs/step_57.pt"), ("broken", f"{CLONE}/train.py")])
@pytest.mark.soak
def test_what_git_does_not_have_is_spared(hosts, host, lost):
    said = run(hosts, host, "--yes")
    assert said.code == 1
    assert said.host(host)["verdict"] == "unresolved", said.out
    assert lost in said.finding(host, "clone_over")["evidence"]["not_in_git"]
    assert "left alone" in said.finding(host, "has_work")["say"]
    assert said.step(host, "clear")["status"] == "skipped"
    assert said.writes() == []
    assert hosts.exec(host, f"test -e {CLONE}/train.py && echo there") == "there\n"
    advise = " ".join(said.finding(host, "clone_over")["advise"])
    assert "(rm -rf AReaL || true) && git clone" in advise
    assert "else mv AReaL AReaL.old; git clone" in advise, "what is advised first deletes nothing"
    assert "if [ -d AReaL/.git ]; then git -C AReaL fetch" in advise


UNSAVED = {
    "nothing": ("mkdir __pycache__; touch __pycache__/a.pyc", []),
    "a commit": ("git commit -q --allow-empty -m 'ignore __pycache__'", ["ignore __pycache__"]),
    "compiled, in git": ("echo 2 >kept.pyc", [" M kept.pyc"]),
    "skip-worktree": ("git update-index --skip-worktree code.py; echo 2 >code.py", ["not compared by git: code.py"]),
    "assume-unchanged": (
        "git update-index --assume-unchanged code.py; echo 2 >code.py",
        ["not compared by git: code.py"],
    ),
    "a submodule, as it was cloned": ("git submodule -q update --init", []),
    "changed in a submodule": (
        "git submodule -q update --init; git config diff.ignoreSubmodules all; echo 2 >sub/lib.py",
        [" M lib.py", " M sub"],
    ),
    "ignored in a submodule": ("git submodule -q update --init; echo 1 >sub/best.pt", ["!! best.pt"]),
    "stashed in a submodule": (
        "git submodule -q update --init; cd sub; echo 2 >lib.py; git stash -q; cd ..; git submodule -q deinit sub",
        ["stashed changes"],
    ),
}


@pytest.fixture(scope="module")
def upstream(tmp_path_factory):
    """Two repositories, one a submodule of the other, and the environment of a git that may clone them."""
    folder = tmp_path_factory.mktemp("upstream")
    git = {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    env = {**os.environ, **git, "HOME": str(folder), "GIT_ALLOW_PROTOCOL": "file"}
    line = f"""git init -q lib; cd lib; echo 1 >lib.py; echo '*.pt' >.gitignore; git add .; git commit -q -m lib; cd ..
    git init -q code; cd code; echo 1 >code.py; echo 1 >kept.pyc; git add -f code.py kept.pyc
    git submodule -q add {folder}/lib sub; git commit -q -m code"""
    subprocess.run(["sh", "-ec", line], cwd=folder, env=env, check=True)
    return folder / "code", env


@pytest.mark.parametrize("case", UNSAVED)
def test_what_a_clone_holds_that_its_repository_does_not_have(upstream, tmp_path, case):
    line, lost = UNSAVED[case]
    clone, (source, env) = tmp_path / "AReaL", upstream
    subprocess.run(["git", "clone", "-q", str(source), str(clone)], env=env, check=True)
    subprocess.run(["sh", "-ec", line], cwd=clone, env=env, check=True)
    script = look("restart-loop", "unsaved").args["script"]
    done = subprocess.run(["sh", "-c", script, "sh", str(clone)], env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    found = done.stdout.splitlines()
    assert len(found) == len(lost), found
    assert all(wanted in there for wanted, there in zip(lost, found, strict=True)), found


@pytest.mark.soak
def test_a_broken_repository_is_cloned_afresh_where_the_start_uses_what_is_there(hosts):
    upstream = {"mend": "checkout", "repo": "file:///run/lab/upstream", "ref": "main"}
    said = run(hosts, "aware", "--yes", **upstream)
    assert said.host("aware")["verdict"] == "resolved", said.out + said.err
    assert said.finding("aware", "other_loop")["status"] == "gone"
    assert said.step("aware", "clear")["status"] == "skipped"
    assert said.step("aware", "checkout")["verified"] is True
    assert hosts.exec("aware", f"cat {CLONE}/train.py") == 'print("better training")\n'
    again = run(hosts, "aware", "--yes", **upstream)
    assert again.host("aware")["verdict"] == "healthy", again.out
    assert again.writes() == []


def test_nothing_outside_of_the_allowed_roots_goes(hosts):
    said = run(hosts, "kept", "--yes", allowed_roots=["/var/lib/runbook-elsewhere"])
    assert said.host("kept")["verdict"] == "unresolved", said.out
    assert said.step("kept", "clear")["status"] == "blocked"
    assert said.writes() == []


@pytest.mark.soak
def test_without_yes_and_without_a_terminal_nothing_is_deleted(hosts):
    said = run(hosts, "kept")
    assert said.step("kept", "clear")["status"] == "blocked"
    assert "--yes" in said.step("kept", "clear")["why"]
    assert hosts.exec("kept", f"test -e {CLONE}/.git && echo there") == "there\n"


@pytest.mark.soak
def test_thresholds_decide_what_a_loop_is(hosts):
    said = run(hosts, "kept", at_least=100000)
    assert said.host("kept")["verdict"] == "healthy", said.out
    assert said.finding("kept", "other_loop")["status"] == "absent"
    other = run(hosts, "kept", never=["no such line"])
    assert other.finding("kept", "other_loop")["status"] == "present"
    assert other.step("kept", "clear")["status"] == "skipped"


@pytest.mark.soak
def test_a_loop_of_yesterday_is_healthy_and_no_log_is_unknown(hosts):
    said = run(hosts, "over,none", "--yes")
    assert said.host("over")["verdict"] == "healthy", said.out
    assert said.host("none")["verdict"] == "unknown"
    assert "no file matches" in said.finding("none", "clone_over")["why"]
    assert said.writes() == []


def test_nothing_goes_once_a_start_came_through_whatever_it_complained_of(hosts):
    """Mutants: the playbook's `clear` without `starts.lacking`."""
    fatal = "fatal: destination path 'AReaL' already exists and is not an empty directory."
    lines = [f"2026-01-31T12:00:{it:02}Z start container\n{fatal}" for it in (0, 17, 34)]
    through = ["HEAD is now at 1234567", "Successfully installed areal-1.0", "Training step 1"]
    for said, status in ((through, "skipped"), (through[:2], "would_change")):
        plan = run(hosts, "kept", "--dry-run", log_text="\n".join([*lines, *said]))
        assert plan.finding("kept", "clone_over")["status"] == "present", plan.out + plan.err
        assert plan.step("kept", "clear")["status"] == status, plan.step("kept", "clear")


def test_a_log_from_elsewhere_is_searched_too(hosts):
    lines = [
        f"2026-01-31T12:00:{it:02}Z start container\nfatal: destination path 'AReaL' already exists and is not an empty directory."
        for it in (0, 17, 34)
    ]
    said = run(hosts, "over", log_text="\n".join(lines), mend="nothing")
    assert said.host("over")["verdict"] == "unresolved", said.out
    assert said.finding("over", "clone_over")["evidence"]["median_gap"] == 17


@pytest.mark.real("docker")
def test_docker_knows_how_often_a_container_was_started(engine, tmp_path):
    inventory = tmp_path / "hosts.yaml"
    inventory.write_text("hosts:\n  here: {transport: local}\n")
    engine("run", "-d", "--name", "again", "--restart=always", "base:1", "sh", "-c", "exit 7")
    engine.lives(name="steady")
    # the engine waits twice as long each time: now for some seconds
    until(lambda: int(engine.inspect("again", "{{.RestartCount}}")) >= 6, "six restarts")

    def run(name):
        where = (
            "-i",
            str(inventory),
            "--hosts",
            "here",
            "--output",
            "json",
            "-e",
            "logs=[]",
            "-e",
            f"container={name}",
        )
        return runbook("run", "restart-loop", *where, DOCKER_HOST=engine.host)

    def between_two_lives():
        """What is said of the container where it waited to be started again while it was looked at."""
        state = "{{.RestartCount}} {{.State.Status}}"
        before = engine.inspect("again", state)
        said = run("again")
        return said if "restarting" in before and engine.inspect("again", state) == before else None

    said = until(between_two_lives, "a probe between two starts")
    assert said.host("here")["verdict"] == "unresolved", said.out + said.err
    found = said.finding("here", "container_loop")
    assert found["evidence"]["exit_code"] == 7
    assert found["evidence"]["starts"] >= 3
    assert "docker update --restart=no again" in found["advise"][0]
    assert run("steady").host("here")["verdict"] == "healthy"
    assert run("nobody").finding("here", "no_container")["status"] == "present"
