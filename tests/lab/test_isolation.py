"""What is written, opened or ended on a lab host is the host's: this machine and the other hosts have nothing of it."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

import pytest

from runbook import lab
from runbook.errors import ConfigError
from runbook.lab import isolation, location
from runbook.lab.root_filesystem import OWN, READ_ONLY, mounts, plan
from tests.lab.host_shell import on
from tests.support.unprivileged import NOBODY, ordinary_user
from tests.support.waiting import appears, gone, soon

MARK = f"runbook-{uuid.uuid4().hex[:8]}"
PLACES = ("/tmp", "/var/tmp", "/etc", "/root", "/home", "/var", "/var/lib", "/usr/local", "/opt", "/")
SERVE = (
    f"cd /tmp && echo $(hostname) >who && ({sys.executable} -m http.server --bind 127.0.0.1 %d >/dev/null 2>&1 &) ; "
)


@pytest.fixture(scope="module", params=[pytest.param("sshd", marks=pytest.mark.real("sshd")), "embedded"])
def two(request, tmp_path_factory):
    made = lab.up(
        lab.LabOptions(
            directory=tmp_path_factory.mktemp("apart") / "lab",
            faults=("gpu-01=healthy", "gpu-02=healthy", "lead=leader+no_gpu"),
            embedded=request.param == "embedded",
        )
    )
    yield made
    lab.down(made.directory)


@pytest.mark.real("lab")
def test_files_written_on_a_host_are_on_that_host_only(two):
    """Mutants: no overlay; /tmp, /home, /root bound from this machine; one upper layer for both."""
    names = [f"{it.rstrip('/')}/{MARK}" for it in PLACES]
    assert on(two, "gpu-01", f"for it in {' '.join(names)}; do echo x >$it && echo written; done") == "written\n" * 10
    assert on(two, "gpu-01", f"cat {' '.join(names)}") == "x\n" * 10
    assert on(two, "gpu-02", f"ls -d {' '.join(names)}") == ""
    assert [it for it in names if os.path.lexists(it)] == []


@pytest.mark.real("lab")
def test_what_this_machine_has_is_changed_and_removed_on_the_host_only(two):
    own = (
        f"echo {MARK}-x >>/etc/passwd; tail -n 1 /etc/passwd; rm -rf /srv /var/log; ls -d /srv; sed -i '$d' /etc/passwd"
    )
    root = Path("/etc/passwd").read_text().splitlines()[0]
    assert on(two, "gpu-01", own) == f"{MARK}-x\n"
    here = Path("/etc/passwd").read_text()  # other tests add and remove users meanwhile
    assert here.splitlines()[0] == root
    assert MARK not in here
    assert Path("/srv").is_dir()
    assert Path("/var/log").is_dir()
    assert MARK not in on(two, "gpu-02", "cat /etc/passwd")


@pytest.mark.real("lab")
def test_keys_and_files_of_this_machine_s_people_are_not_there(two, tmp_path):
    """Not in /root, not in /home, not in /tmp, and not the lab's own key and its other hosts."""
    (tmp_path / "mine").write_text("x")
    assert on(two, "gpu-01", f"ls -A /root/.ssh {tmp_path} {two.directory}/key {two.directory}/hosts") == ""
    assert on(two, "gpu-01", "echo ~; cd; pwd").split() == ["/root", "/root"]
    on(two, "gpu-01", "mkdir -m 700 ~/.ssh; echo k >~/.ssh/known_hosts")
    assert on(two, "gpu-02", "ls -A ~/.ssh") == ""
    mode = on(two, "gpu-01", "stat -c %a /root /tmp /etc /").split()
    assert mode == ["700", "1777", "755", "755"]


@pytest.mark.real("lab", "sshd")
def test_a_lab_that_lies_where_hosts_can_see_is_not_seen_by_them():
    """Mutant: the lab's own directory left in the copy of this machine's files."""
    with tempfile.TemporaryDirectory(dir="/var/cache") as folder:
        made = lab.up(lab.LabOptions(directory=Path(folder) / "lab", faults=("gpu-01=healthy",)))
        try:
            assert on(made, "gpu-01", f"ls -A {made.directory}; echo seen") == "seen\n"
        finally:
            lab.down(made.directory)


@pytest.mark.real("lab")
def test_loopback_ports_are_each_host_s_own(two):
    """Mutants: without --net; the listener outside made in the host."""
    with socket.create_server(("127.0.0.1", 0)) as ours:
        port = ours.getsockname()[1]
        for host in ("gpu-01", "gpu-02"):
            ask = f"n=0; until curl -sS http://127.0.0.1:{port}/who 2>/dev/null || [ $n = 400 ]; do n=$((n+1)); sleep 0.1; done"
            assert on(two, host, SERVE % port + ask) == f"{host}\n"
        ours.settimeout(0.1)
        with pytest.raises(TimeoutError):
            ours.accept()


@pytest.mark.real("lab")
def test_hosts_reach_each_other_s_ssh_and_the_leader(two):
    """Mutants: no routes; the leader's descriptors not handed on."""
    first, second, lead = two.hosts
    url = f"http://{lead.address}:8770/status"
    for asked in (on(two, "gpu-01", f"curl -sS {url}"), on(two, "lead", f"curl -sS {url}")):
        assert json.loads(asked)["node_id"] == "lead"
    with socket.create_connection((lead.address, 8770), timeout=60) as line:
        line.sendall(b"GET /status HTTP/1.0\r\n\r\n")
        assert line.recv(100).startswith(b"HTTP/1.0 200")
    hello = f"exec 3<>/dev/tcp/{second.address}/{second.port}; head -n 1 <&3"
    assert on(two, "gpu-01", f"bash -c '{hello}'").startswith("SSH-2.0")
    assert on(two, "gpu-01", f"bash -c 'exec 3<>/dev/tcp/{first.address}/9 && echo there' 2>/dev/null") == ""


@pytest.mark.real("lab")
def test_settings_of_the_kernel_cannot_be_written(two):
    said = on(
        two,
        "gpu-01",
        "for it in /proc/sys/kernel/panic /sys/kernel/mm/ksm/run; do cat $it >$it && echo written; done 2>/dev/null",
    )
    assert said == ""


@pytest.mark.real("lab")
def test_one_directory_is_shared_and_said_to_be(two):
    (two.directory / "shared" / "from-here").write_text("x")
    assert on(two, "gpu-01", "cat /run/lab/shared/from-here; echo y >/run/lab/shared/from-there") == "x"
    assert (two.directory / "shared" / "from-there").read_text() == "y\n"
    assert on(two, "gpu-02", "cat /run/lab/shared/from-there") == "y\n"


@pytest.mark.real("lab")
def test_nothing_of_a_lab_can_be_read_by_others(two):
    """The lab's directory is its user's; the layers of hosts are in memory, and in no mount of this machine."""
    assert stat.S_IMODE(two.directory.stat().st_mode) == 0o700
    assert str(two.directory) not in Path("/proc/self/mounts").read_text()
    assert list((two.directory / "hosts" / "gpu-01" / "mnt").iterdir()) == []


@pytest.mark.real("lab")
def test_the_first_process_waits_and_leaves_no_zombie(two):
    """Mutants: the wake-up socket collected as garbage (it spins); SIGCHLD not reaped."""
    (host, *_) = two.hosts
    on(two, "gpu-01", "sh -c '(exec sleep 0.1) & exec true'")
    ticks = _ticks(host.pid)
    time.sleep(1)  # noqa: TID251 in which one that spins takes a hundred ticks
    assert _ticks(host.pid) - ticks < 10
    # what has just ended there is one until it is reaped, which is at once
    assert soon(lambda: "Z" not in {it[:1] for it in on(two, "gpu-01", "ps -eo stat=").split()})


def _ticks(outer: int) -> int:
    """Clock ticks of processor time that the first process of a host and its children there have taken."""
    total = 0
    for each in (each / "stat" for each in Path("/proc").glob("[0-9]*")):
        try:
            words = each.read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        total += int(words[11]) + int(words[12]) if int(words[1]) == outer else 0
    return total


@pytest.mark.real("lab")
def test_what_is_left_of_a_start_that_was_killed_is_ended(tmp_path):
    """Mutants: processes known from lab.json only; a directory without an inventory taken for somebody else's."""
    folder = tmp_path / "lab"
    script = f"import sys; from runbook import lab; from pathlib import Path; lab.up(lab.LabOptions(directory=Path({str(folder)!r}), faults=tuple(f'gpu-{{n}}' for n in range(40))))"
    process = subprocess.Popen([sys.executable, "-c", script], cwd=Path(lab.__file__).parents[3])
    assert appears(folder / "hosts" / "gpu-3" / "log")
    process.send_signal(signal.SIGKILL)
    process.wait()
    (folder / location.OF_US).write_text('[]\n{"name": "gp')
    left = location.leftover_processes(folder, [])
    assert left
    lab.down(folder)
    assert location.leftover_processes(folder, []) == []
    assert [it for it in left if not gone(it)] == []
    assert not folder.exists()
    assert str(folder) not in Path("/proc/self/mounts").read_text()


@pytest.mark.real("lab")
def test_hosts_whose_processes_were_killed_leave_nothing(tmp_path):
    made = lab.up(lab.LabOptions(directory=tmp_path / "lab", faults=("gpu-01=leftovers", "gpu-02=healthy")))
    for it in made.hosts:
        os.kill(it.pid, signal.SIGKILL)
    assert lab.down(made.directory) == ("gpu-01", "gpu-02")
    assert not made.directory.exists()


def test_more_hosts_than_a_lab_can_have_are_refused_with_the_bound(tmp_path):
    with pytest.raises(ConfigError, match="at most 1000 hosts, not 1001"):
        lab.up(lab.LabOptions(directory=tmp_path / "lab", faults=tuple(f"gpu-{n}" for n in range(1001))))
    assert not (tmp_path / "lab").exists()
    made, port = location.addresses(tmp_path, 1000)
    assert len(set(made)) == 1000
    for it in made:
        socket.create_server((it, port)).close()


@pytest.mark.real("root")
def test_a_directory_that_others_can_change_is_refused(tmp_path):
    """Root would run what they put there, and end the processes that they name (law 9).

    Mutants: the owner not inspected; the directories above not inspected; links followed.
    """
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    victim = subprocess.Popen(["sleep", "60"])
    start = Path(f"/proc/{victim.pid}/stat").read_text().rpartition(")")[2].split()[19]
    row = {"name": "x", "address": "", "port": 1, "faults": [], "pid": victim.pid, "start": start}
    (theirs / location.OF_US).write_text(f"[]\n{json.dumps(row)}")
    link = tmp_path / "link"
    link.symlink_to(theirs)
    try:
        os.lchown(link, NOBODY, NOBODY)
        os.chown(theirs, NOBODY, NOBODY)
        for folder in (theirs, theirs / "below", link):
            for act in (lab.down, lab.status, lambda it: lab.up(lab.LabOptions(directory=it, faults=("gpu-01",)))):
                with pytest.raises(ConfigError, match=r"another user can change|symbolic link of another user"):
                    act(folder)
        os.chown(theirs, 0, 0)
        theirs.chmod(0o777)
        with pytest.raises(ConfigError, match="another user can change"):
            lab.down(theirs)
        assert victim.poll() is None
    finally:
        victim.kill()
        victim.wait()


INFO = """22 1 8:1 / / rw,relatime - ext4 /dev/a rw
23 22 0:5 / /proc rw - proc proc rw
24 22 8:2 / /usr ro,nodev - ext4 /dev/b ro
25 22 8:3 / /home rw,nosuid,nodev - ext4 /dev/c rw
26 22 8:4 / /data\\040x rw,nosuid - ext4 /dev/d rw
27 22 0:9 / /var/lib/docker/overlay2/x/merged rw - overlay overlay rw
"""


def test_file_systems_below_the_root_are_seen_only_where_they_belong_to_the_system():
    there = mounts(INFO)
    assert plan(OWN, ["/home/me/venv", "/usr/lib", "/data x/py", "/opt/x", "/tmp"], there).splitlines() == [
        "over nodev /usr",
        "see nosuid /data x/py",
        "see nosuid,nodev /home/me/venv",
    ]
    rows = plan(READ_ONLY, [], there).splitlines()
    assert "bind nodev /usr" in rows
    assert "dir - /var" in rows
    assert "copy - /etc" in rows
    assert not [it for it in rows if it.endswith((" /home", " /tmp", " /proc", "merged"))]


def test_what_cannot_be_kept_apart_is_said_first_and_loud():
    shared = isolation.Isolation(network=False, no_network="no net", files=READ_ONLY, no_overlay="no layers").lines()
    assert [it.split(":")[0] for it in shared[:2]] == ["CAREFUL", "CAREFUL"]
    assert "network" in shared[0]
    assert "no net" in shared[0]
    assert "files, read-only" in shared[1]
    assert "no layers" in shared[1]
    assert "network" not in shared[2]
    assert "files" not in shared[2]
    (own,) = isolation.Isolation().lines()
    assert "CAREFUL" not in own


@pytest.mark.real("lab")
@pytest.mark.parametrize(
    ("lacking", "loud"), [("overlay", "machine's files, read-only"), ("network", "machine's network")]
)
def test_a_machine_that_allows_less_is_told_so_and_still_cannot_be_written(tmp_path, monkeypatch, lacking, loud):
    """As in a container with fewer rights: the parts that are left are the hosts' own all the same."""
    real = isolation.found()
    less = {"overlay": {"files": READ_ONLY, "no_overlay": "no"}, "network": {"network": False, "no_network": "no"}}
    argv = tuple(it for it in real.argv if it != "--net" or lacking != "network")
    monkeypatch.setattr(isolation, "found", lambda: isolation.Isolation(**{"argv": argv, **less[lacking]}))
    made = lab.up(lab.LabOptions(directory=tmp_path / "lab", faults=("gpu-01=leftovers", "lead=leader")))
    try:
        assert loud in lab.sharing(made.directory)[0]
        names = [f"{it.rstrip('/')}/{MARK}" for it in PLACES]
        on(made, "gpu-01", f"for it in {' '.join(names)}; do echo x >$it; done 2>/dev/null")
        assert [it for it in names if os.path.lexists(it)] == []
        assert on(made, "gpu-01", f"cat /tmp/{MARK} /etc/{MARK}") == "x\nx\n"
        assert '"lead"' in on(made, "gpu-01", f"curl -sS http://{made.hosts[1].address}:8770/status")
        assert "sglang" in on(made, "gpu-01", "ps -eo args")
    finally:
        lab.down(made.directory)


@pytest.mark.real("lab", "root", "setpriv")
def test_an_ordinary_user_s_hosts_cannot_write_to_this_machine_either():
    """Mutants: this machine's directories bound without the remount; /etc bound."""
    with ordinary_user() as user:
        where = ("--dir", f"{user.home}/lab")
        up = subprocess.run(user.words("lab", "up", *where, "--host", "gpu-01", "--host", "gpu-02"),
                            capture_output=True, text=True, timeout=100, check=False)  # fmt: skip
        try:
            assert "CAREFUL: these hosts share this machine's files, read-only" in up.stdout, up.stderr
            key = user.home / "mine"
            key.write_text("x")
            os.chown(key, NOBODY, NOBODY)
            write = f"for it in /tmp /etc /root /home /var /var/log {user.home}/mine; do echo y >$it/{MARK} && echo written; done 2>/dev/null; cat {key}"
            made = lab.Lab(directory=user.home / "lab", inventory=Path(), hosts=())
            said = _as_owner(user, made, "gpu-01", write)
            assert said == "written\n" * 6
            assert _as_owner(user, made, "gpu-02", f"ls /tmp/{MARK} /etc/{MARK} /var/{MARK} /root/{MARK}") == ""
            assert [it for it in PLACES if os.path.lexists(f"{it}/{MARK}")] == []
        finally:
            down = subprocess.run(
                user.words("lab", "down", *where), capture_output=True, text=True, timeout=60, check=False
            )
        assert down.stdout == "ended gpu-01, gpu-02\n"
        assert not (user.home / "lab").exists()


def _as_owner(user, made: lab.Lab, host: str, text: str) -> str:
    """What *text* prints on a host of an ordinary user's lab."""
    rows = map(json.loads, (made.directory / location.OF_US).read_text().splitlines()[1:])
    (row,) = (it for it in rows if it["name"] == host)
    argv = ("ssh", "-p", str(row["port"]), "-i", f"{made.directory}/key", "-o", "StrictHostKeyChecking=no",
            "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR", f"root@{row['address']}", text)  # fmt: skip
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False).stdout
