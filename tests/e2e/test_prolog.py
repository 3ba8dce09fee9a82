"""`runbook prolog` as root on the node itself: beside a hanging nvidia-smi, in an empty environment, and under a pretended slurmd."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from pathlib import Path

import pytest

from tests.support.program import runbook
from tests.support.real_processes import lives
from tests.support.systemd_host import boot
from tests.support.waiting import LIMIT, until

PAGE = Path(__file__).parents[2] / "docs" / "prolog.md"
PROGRAM = "/opt/runbook/bin/runbook"
LONG = ("--within", "60s")
"""The time limit of tests that are not about it: a busy machine starts slowly."""
USUAL = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
TOY = """
name: toy
about: A toy.
inputs:
  word: {about: The word that tells the fault., type: string, default: bad}
diagnose:
  - {id: state, name: The state, command: {argv: [cat, FOLDER/state]}}
findings:
  - {id: broken, when: inputs.word in state.stdout, severity: error, say: "the node is {{ state.stdout | trim }}", advise: [Mend it.]}
"""
SLOW = """
name: slow
about: Another toy, whose program hangs.
diagnose:
  - {id: hangs, name: What hangs, command: {argv: [sleep, "1000"]}}
findings:
  - {id: odd, when: hangs.stdout, severity: error, say: "odd", advise: [Mend it.]}
"""
# By the rules of Slurm's "Prolog and Epilog Guide": no PATH, no HOME, a program that fails has the node drained.
SLURMD = r"""
state=$1 program=$2 context=$3
code=0
env -i SLURMD_NODENAME="$(uname -n)" SLURM_JOB_ID=4711 SLURM_JOB_GPUS=0,1 SLURM_SCRIPT_CONTEXT="${context}_slurmd" "$program" \
    >/dev/null 2>&1 </dev/null || code=$?
[ "$code" != 0 ] || exit 0
case $(cat "$state/slurm/flags" 2>/dev/null) in *DRAIN*) exit 0 ;; esac
scontrol update "NodeName=$(uname -n)" State=DRAIN "Reason=Prolog error"
"""


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A cache that no other program writes, so that a playbook is checked at its first run alone."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def node(tmp_path):
    """Two playbooks of toys, and the file that says whether the node is broken."""
    for name, text in (("toy", TOY), ("slow", SLOW)):
        (tmp_path / f"{name}.yaml").write_text(text.replace("FOLDER", str(tmp_path)))
    (tmp_path / "state").write_text("fine\n")
    return tmp_path


@pytest.fixture
def slurm(tmp_path):
    """The lab's scontrol, which answers by the rules of the real one; its state and its calls are in a directory."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "lab" / "slurm").mkdir(parents=True)
    scontrol = (
        files("runbook.lab").joinpath("node/scontrol.sh").read_text().replace("/run/lab/state", f"{tmp_path}/lab")
    )
    for name, text in (("scontrol", scontrol), ("squeue", "#!/bin/sh\necho '4711 RUNNING bob'\n")):
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    return tmp_path


def path_of(folder: Path) -> str:
    return f"{folder}/bin:{USUAL}"


def updates(folder: Path) -> list[str]:
    calls = folder / "lab" / "calls"
    return [line for line in calls.read_text().splitlines() if " update " in line] if calls.exists() else []


def bare(*argv: str, cwd: str = "/", **env: str) -> subprocess.CompletedProcess[str]:
    """Run it with no environment but *env*."""
    limit = () if "--within" in argv else LONG
    words = (sys.executable, "-m", "runbook", "prolog", *argv, *limit)
    whole = {"PYTHONPATH": os.pathsep.join(sys.path), "XDG_CACHE_HOME": os.environ["XDG_CACHE_HOME"], **env}
    return subprocess.run(words, capture_output=True, text=True, check=False, cwd=cwd, env=whole, timeout=LIMIT)


def test_a_node_is_healthy_faulty_or_unknown_and_says_so_in_one_line(node):
    """Mutants: ``prolog`` that gives an input to no playbook; any other exit code; unknown without a line on stderr."""
    toy = str(node / "toy.yaml")
    said = runbook("prolog", toy, *LONG)
    assert (said.code, said.out, said.err) == (0, "healthy: no fault found by toy\n", "")
    said = runbook("prolog", toy, "-e", "word=fine", *LONG)
    assert (said.code, said.out, said.err) == (1, "fault: the node is fine (toy)\n", "")
    (node / "state").unlink()
    said = runbook("prolog", toy, *LONG)
    assert (said.code, said.out.count("\n")) == (0, 1)
    assert said.out.startswith("unknown: failed toy.state: ")
    assert "not known whether this node is healthy" in said.err
    said = runbook("prolog", toy, "--unknown", "fail", "-v", *LONG)
    assert said.code == 2
    assert "not known: toy.broken: " in said.err


def test_what_hangs_is_ended_and_a_fault_of_another_playbook_is_told_all_the_same(node):
    """Mutants: ``WithinTime`` that gives one command all the time; ``one_run`` without the limit."""
    (node / "state").write_text("bad\n")
    argv = ("prolog", str(node / "slow.yaml"), str(node / "toy.yaml"), "--output", "json")
    runbook(*argv, "--within", "1s")  # checks the playbooks, which takes longer than the probes
    said = runbook(*argv, "--within", "16s")
    assert (said.code, said.document["outcome"], said.document["exit_code"]) == (1, "fault", 1)
    said = runbook("prolog", str(node / "slow.yaml"), "--within", "4s", "--unknown", "fail")
    assert said.code == 2
    assert "unknown: " in said.out
    assert "4 s (--within)" in said.out


@pytest.mark.real("root")
def test_a_hanging_nvidia_smi_is_unknown_and_not_a_fault(tmp_path):
    """Mutant: a command that is ended by ``--within`` and counts as timed out."""
    (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\necho $$ >>{tmp_path}/pids\nexec sleep 1000\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    bare("gpu-health", PATH=USUAL)  # checks the playbook
    done = bare("gpu-health", "--within", "16s", PATH=f"{tmp_path}:{USUAL}")
    assert (done.returncode, done.stdout.startswith("unknown: ")) == (0, True), (done.stdout, done.stderr)
    assert re.search(r"no answer from nvidia-smi in [\d.]+ s, its part of 16 s \(--within\)", done.stdout), done.stdout
    for pid in (tmp_path / "pids").read_text().split():
        until(lambda pid=int(pid): not lives(pid), f"nvidia-smi {pid} has ended")


@pytest.mark.real("root")
def test_it_works_without_path_home_or_a_disk_that_can_be_written(node):
    """Mutant: a session without a PATH of its own."""
    done = bare(str(node / "toy.yaml"), XDG_CACHE_HOME="/proc/none")
    assert (done.returncode, done.stdout) == (0, "healthy: no fault found by toy\n"), done.stderr
    (node / "toy.yaml").write_text(TOY.replace("cat, FOLDER/state", "printenv, PATH"))
    done = bare(str(node / "toy.yaml"), "-e", "word=sbin")
    assert (done.returncode, done.stdout) == (1, f"fault: the node is {USUAL} (toy)\n"), done.stderr
    (node / "toy.yaml").write_text(TOY.replace("FOLDER", str(node)))
    words = (sys.executable, "-m", "runbook", "prolog", str(node / "toy.yaml"), "-e", "word=fine", *LONG)
    mounted = 'mount -o remount,bind,ro / && exec "$@"'
    shared = ("unshare", "-m", "sh", "-c", f"mount --bind / / 2>/dev/null; cd /; {mounted}", "sh", *words)
    env = {"PYTHONPATH": os.pathsep.join(sys.path), "PATH": USUAL}
    done = subprocess.run(shared, capture_output=True, text=True, check=False, env=env, timeout=LIMIT)
    assert (done.returncode, done.stdout) == (1, "fault: the node is fine (toy)\n"), done.stderr


def test_many_at_once_do_not_disturb_each_other(node):
    with ThreadPoolExecutor(4) as pool:
        found = [*pool.map(lambda _: bare(str(node / "toy.yaml")), range(8))]
    assert {(it.returncode, it.stdout, it.stderr) for it in found} == {(0, "healthy: no fault found by toy\n", "")}


def test_neither_ssh_nor_an_inventory_is_imported(node):
    """Mutant: an import of ``runbook.inventory`` at the top of a module that ``prolog`` uses."""
    code = (
        "import sys; from runbook.cli import cli; cli(['prolog', sys.argv[1]], standalone_mode=False); "
        "print([it for it in sys.modules if it.startswith(('runbook.inventory', 'runbook.connections.transports.ssh', 'paramiko', "
        "'ClusterShell', 'jsonschema'))])"
    )
    words = (sys.executable, "-c", code, str(node / "toy.yaml"))
    runs = [subprocess.run(words, capture_output=True, text=True, check=True, cwd=node) for _ in range(2)]
    assert runs[1].stdout.splitlines()[-1] == "[]"  # the first one has checked the playbook


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["node-drain"], "it has no findings"),
        (["toy.yaml", "-e", "other=1"], "-e other: no playbook has this input (there are: word)"),
        (["toy.yaml", "-e", "word={{ 1 }}"], "-e word: no {{ or {% may be in it"),
        (["toy.yaml", "--within", "soon"], "--within: "),
        (["elsewhere.yaml"], "probe there is sent to another host"),
        (["secret.yaml"], "it needs secrets"),
        (["toy.yaml", "--drain"], "there is no Slurm here"),
    ],
)
def test_a_mistake_is_told_before_anything_is_probed(node, argv, words):
    """Mutants: ``_unsuited`` without one of its reasons; ``_require_slurm`` that requires nothing."""
    text = (node / "toy.yaml").read_text()
    (node / "elsewhere.yaml").write_text(
        text.replace("name: toy", "name: elsewhere").replace("id: state,", "id: state, on: controller,").replace("id: state", "id: there").replace("state.std", "there.std")
    )  # fmt: skip
    secrets = "secrets:\n  token: {env: TOKEN}\ndiagnose:"
    (node / "secret.yaml").write_text(text.replace("name: toy", "name: secret").replace("diagnose:", secrets))
    done = bare(*argv, cwd=str(node))
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert words in done.stderr


# --- Slurm


@pytest.mark.real("root")
def test_a_known_fault_drains_the_node_once_and_the_reason_of_others_stays(node, slurm):
    """Mutants: ``prolog`` that drains if nothing is known, or sends twice; `leave_jobs` that waits for jobs."""
    toy, env = str(node / "toy.yaml"), {"PATH": path_of(slurm)}
    assert bare(toy, "--drain", **env).returncode == 0
    (node / "state").rename(node / "gone")
    assert bare(toy, "--drain", **env).returncode == 0
    assert updates(slurm) == []
    (node / "gone").rename(node / "state")
    (node / "state").write_text('bad; "x"\n')
    done = bare(toy, "--drain", **env)
    assert done.returncode == 1
    assert "drained in Slurm, seen: " in done.stderr, done.stderr
    (sent,) = updates(slurm)
    assert sent.endswith("State=DRAIN Reason=runbook: toy: the node is bad x")
    done = bare(toy, "--drain", "--output", "json", **env)
    assert json.loads(done.stdout)["drain"]["status"] == "left"
    assert len(updates(slurm)) == 1


@pytest.mark.real("root")
@pytest.mark.parametrize("flags", ["DRAIN", "DOWN"])
def test_a_node_that_somebody_has_taken_out_keeps_the_reason(node, slurm, flags):
    """Mutants: ``_drain`` of the scheduler without ``node.down``; without ``node.drained``."""
    scontrol = slurm / "bin" / "scontrol"
    if flags == "DOWN":
        scontrol.write_text(scontrol.read_text().replace("State=$base${flags:++$flags}", "State=DOWN"))
    (slurm / "lab" / "slurm" / "flags").write_text("DRAIN\n" if flags == "DRAIN" else "")
    (slurm / "lab" / "slurm" / "reason").write_text("bad DIMM [alice@2026-11-23T20:00:00]\n")
    (node / "state").write_text("bad\n")
    done = bare(str(node / "toy.yaml"), "--drain", PATH=path_of(slurm))
    assert done.returncode == 1
    assert "nothing was sent" in done.stderr
    assert "by alice since 2026-11-23T20:00:00 (bad DIMM)" in done.stderr
    assert updates(slurm) == []


@pytest.mark.real("root")
def test_a_drain_that_slurm_refuses_or_does_not_know_is_said(node, slurm):
    (node / "state").write_text("bad\n")
    done = bare(str(node / "toy.yaml"), "--drain", PATH=path_of(slurm), SLURMD_NODENAME="other")
    assert (done.returncode, "Slurm has no node other" in done.stderr) == (1, True), done.stderr
    done = bare(str(node / "toy.yaml"), "--drain", PATH=path_of(slurm), SLURMD_NODENAME="a b")
    assert (done.returncode, "not the name of a node" in done.stderr) == (2, True)
    scontrol = slurm / "bin" / "scontrol"
    scontrol.write_text(
        scontrol.read_text().replace("DRAIN|drain)", "DRAIN|drain) echo 'Invalid user id'; exit 1;; never)")
    )
    done = bare(str(node / "toy.yaml"), "--drain", PATH=path_of(slurm))
    assert (done.returncode, "Invalid user id" in done.stderr) == (1, True), done.stderr


def recipe(title: str, kind: str, node: Path) -> str:
    """The first block of a *kind* after *title* on the page, for the toy instead of the playbooks of GPUs."""
    text = PAGE.read_text().split(f"{title}", 1)[1]
    (found, *_) = re.findall(rf"```{kind}\n(.*?)```", text, re.DOTALL)
    return re.sub(r"gpu-health( gpu-xid)?( disk-full)?", str(node / "toy.yaml"), found)


def installed(text: str, place: Path, folder: Path) -> Path:
    """Write *text* to *place*, with the program and the PATH of this test."""
    program = folder / "runbook"
    env = f"PYTHONPATH={os.pathsep.join(sys.path)}"
    program.write_text(f'#!/bin/sh\n{env} exec {sys.executable} -m runbook "$@" --within 60s\n')
    program.chmod(0o755)
    place.write_text(text.replace(PROGRAM, str(program)).replace(f"PATH={USUAL}", f"PATH={path_of(folder)}"))
    place.chmod(0o755)
    return place


def as_slurmd(folder: Path, program: Path, context: str = "prolog") -> None:
    words = ("sh", "-c", SLURMD, "sh", str(folder / "lab"), str(program), context)
    subprocess.run(words, check=True, env={"PATH": path_of(folder)}, timeout=LIMIT)


@pytest.mark.real("root")
def test_the_prolog_of_the_page_has_slurm_drain_a_faulty_node_and_no_other(node, slurm):
    """Mutants: the page's wrapper without ``exit "$code"``, without its PATH, or that lets a mistake drain the node."""
    prolog = installed(recipe("`/etc/slurm/prolog.sh`", "sh", node), slurm / "prolog.sh", slurm)
    as_slurmd(slurm, prolog)
    (node / "state").rename(node / "gone")
    as_slurmd(slurm, prolog, "epilog")
    assert updates(slurm) == []
    (node / "gone").rename(node / "state")
    text = (node / "toy.yaml").read_text()
    (node / "toy.yaml").write_text(text.replace("name:", "nam:"))
    as_slurmd(slurm, prolog)
    assert updates(slurm) == []
    (node / "toy.yaml").write_text(text)
    (node / "state").write_text("bad\n")
    as_slurmd(slurm, prolog)
    assert [it.rpartition("Reason=")[2] for it in updates(slurm)] == ["Prolog error"]


@pytest.mark.real("root")
def test_the_health_check_of_the_page_drains_by_itself_and_slurm_keeps_its_reason(node, slurm):
    (node / "state").write_text("bad\n")
    as_slurmd(slurm, installed(recipe("`/etc/slurm/health.sh`", "sh", node), slurm / "health.sh", slurm))
    assert [it.rpartition("Reason=")[2] for it in updates(slurm)] == ["runbook: toy: the node is bad"]


@pytest.mark.real("root")
def test_the_plugin_of_the_page_is_what_node_problem_detector_takes(node, slurm):
    config = json.loads(recipe("node-problem-detector", "json", node))
    (rule,) = config["rules"]
    (node / "state").unlink()
    program = installed('#!/bin/sh\nexec /opt/runbook/bin/runbook "$@"\n', slurm / "plugin", slurm)
    done = subprocess.run([program, *rule["args"]], capture_output=True, text=True, check=False, env={}, timeout=LIMIT)
    assert (rule["path"], done.returncode) == (PROGRAM, 2)
    assert len(done.stdout) <= config["pluginConfig"]["max_output_length"] + 1


@pytest.mark.real("root")
def test_the_start_command_of_the_page_starts_nothing_on_a_faulty_node(node, slurm):
    text = (
        recipe("## RunPod", "sh", node).replace("-e need_kernel=false ", "").replace("exec /start.sh", "echo started")
    )
    installed("", slurm / "unused", slurm)
    for state, started in (("fine", True), ("bad", False)):
        (node / "state").write_text(f"{state}\n")
        env = {"PATH": f"{slurm}:{USUAL}"}
        done = subprocess.run(["sh", "-c", text], capture_output=True, text=True, check=False, env=env, timeout=LIMIT)
        assert ("started" in done.stdout, done.returncode == 0) == (started, started), done.stderr


@pytest.mark.real("systemd")
def test_systemd_starts_a_service_only_on_a_node_without_a_known_fault(node, slurm):
    """Mutant: ``ExecStartPre=-`` on the page, which heeds no exit code."""
    text = installed(recipe("## systemd", "ini", node), slurm / "drop-in", slurm).read_text()
    host = boot()
    try:
        host.run("mkdir", "-p", "/etc/systemd/system/training.service.d")
        host.write("/etc/systemd/system/training.service.d/gpus.conf", text)
        host.unit(
            "training.service",
            "[Unit]\nDefaultDependencies=no\n[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true\n",
        )
        for state, wanted in (("bad", "failed"), ("fine", "active")):
            (node / "state").write_text(f"{state}\n")
            host.run("systemctl", "start", "training.service", check=False)
            assert host.show("training.service", "ActiveState") == wanted
    finally:
        host.stop()
