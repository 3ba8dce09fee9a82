"""Secrets of `secrets:` go through real runs on a real sshd: the commands get them, and nothing else ever shows one."""

from __future__ import annotations

import http.server
import json
import os
import pty
import select
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from runbook.commands.options import Choosing, Output, RunOptions
from runbook.commands.run import run_playbook
from runbook.commands.secret_masking import InternalError
from tests.support.secret_forms import PRINTER, leaks

pytestmark = pytest.mark.real("sshd", "root", "sudo")

PROGRAM = (sys.executable, "-m", "runbook")

SECRETS = {
    "of a program": "pr0gram /k'an\"ary+wörd$x",
    "of a file": "-----BEGIN TEST PRIVATE KEY-----\nf1le+k4naryLine/one==\nf1le+k4naryLine/two==\n-----END TEST PRIVATE KEY-----",
    "of the inventory": "inv.*[k4nary](a|b)\\d{3}^$",
    "of the environment": "env-k4nary_0815",
    "of the host": "h0st-[k4nary]%s\\n&=own",
    "of the group": "gr0up k4nary 'rack' \"7\"",
    "of a header": "he4der-k4nary;,:=",
}

PLAYBOOK = """
name: canaries
about: Every way that a secret by reference may take.
hosts: all
secrets:
  program: {command: [cat, "%(folder)s/of-a-program"], description: Of a program.}
  key: {file: of-a-file}
  inventory: {description: Of the inventory.}
  rack: {description: Of the group.}
  variable: {env: K4NARY_OUTSIDE}
  header: {file: "%(folder)s/of-a-header"}
diagnose:
  - id: forms
    become: true
    env: {PROGRAM: "{{ secrets.program }}", KEY: "{{ secrets.key }}", INV: "x {{ secrets.inventory }} y", VARIABLE: "{{ secrets.variable }}",
          OWN: "{{ host.secrets.own }}", RACK: "{{ secrets.rack }}"}
    command: {argv: [python3, "%(folder)s/printer.py", PROGRAM, KEY, INV, VARIABLE, OWN, RACK]}
  - id: long
    env: {VARIABLE: "{{ secrets.variable }}"}
    command: {script: 'sleep 0.3; i=0; while [ $i -lt 3000 ]; do echo "$i $VARIABLE and $VARIABLE"; i=$((i+1)); done; set -x; : "$VARIABLE"; env'}
  - id: other
    become: true
    env: {PROGRAM: "{{ secrets.program }}"}
    command: {script: 'sleep 0.3; id -un; echo "$PROGRAM"; cat "%(folder)s/app.conf"', parse: lines}
  - id: wrong
    env: {PROGRAM: "{{ secrets.program }}"}
    command: {script: 'echo "no $PROGRAM" >&2; exit 3'}
  - id: late
    timeout: 1s
    env: {VARIABLE: "{{ secrets.variable }}"}
    command: {script: 'printf %%s "${VARIABLE%%?????}"; sleep 20'}
  - id: service
    http: {url: "http://127.0.0.1:%(port)s/", headers: {X-Key: "{{ secrets.header }}"}}
findings:
  - id: seen
    when: forms.exit_code == 0
    severity: error
    say: "{{ forms.stdout[:60] }} {{ other.value | join(' ') }} {{ service.body }}"
    evidence: {all: forms.stdout, some: "long.stdout[5:17]", json: service.json}
    advise: [None.]
  - {id: blind, when: wrong.stdout, severity: warning, say: "{{ wrong.stdout }}"}
remediate:
  - id: change
    for: seen
    become: true
    env: {PROGRAM: "{{ secrets.program }}", KEY: "{{ secrets.key }}"}
    command:
      check: {script: 'test -e "%(folder)s/done"'}
      do: {script: 'sleep 0.3; printf "%%s\\n%%s" "$PROGRAM" "$KEY" >"%(folder)s/done"; echo "did $PROGRAM"; echo "$KEY" >&2'}
  - id: patch
    for: seen
    become: true
    config_patch: {path: "%(folder)s/app.yaml", set: {mode: new}}
"""


class Spy(threading.Thread):
    """Looks at the arguments and the environment of every process of this machine, for as long as it runs."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.arguments: set[str] = set()
        self.environments: set[str] = set()
        """The programs whose environment holds a secret."""
        self.looks = 0
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.is_set():
            for pid in os.listdir("/proc"):
                if pid.isdigit():
                    self._look(pid)
            self.looks += 1
            self._over.wait(0.01)

    def _look(self, pid: str) -> None:
        with suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
            if b"k4n" in words or b"/k'an" in words:
                self.arguments.add(words.decode("utf-8", "replace"))
            held = Path(f"/proc/{pid}/environ").read_bytes()
            if b"k4n" in held.replace(b"K4NARY_OUTSIDE=env-k4nary_0815", b"") or b"/k'an" in held:
                self.environments.add(words.decode("utf-8", "replace").partition("\0")[0])

    def __enter__(self) -> Spy:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()


@pytest.fixture
def site(tmp_path, sshd, account, home) -> Iterator[Path]:
    os.chmod(tmp_path, 0o755)
    name = account("/bin/bash", sudo="NOPASSWD: ALL")
    fields = {"ssh_host": sshd.address, "ssh_port": sshd.port, "ssh_user": name, "ssh_key": str(sshd.key)}
    own = {"own": {"command": ["cat", str(tmp_path / "of-the-host")]}}
    hosts = {
        "hosts": {"h": {**fields, "is_container": True, "secrets": own}},
        "groups": {"rack-7": {"hosts": ["h"], "secrets": {"rack": {"file": "of-the-group"}}}},
        "secrets": {"inventory": {"file": "of-the-inventory"}},
    }
    (tmp_path / "hosts.yaml").write_text(json.dumps(hosts))
    for name in SECRETS:
        file = name.replace(" ", "-")
        (tmp_path / file).write_text(SECRETS[name] + "\n")
        (tmp_path / file).chmod(0o600)
    (tmp_path / "printer.py").write_text(PRINTER)
    (tmp_path / "app.conf").write_text(f"a: 1\nword {SECRETS['of a header']}\n")
    (tmp_path / "app.yaml").write_text(f"mode: old\nword: {json.dumps(SECRETS['of a program'])}\n")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    (tmp_path / "canaries.yaml").write_text(PLAYBOOK % {"folder": tmp_path, "port": server.server_port})
    os.environ["K4NARY_OUTSIDE"] = SECRETS["of the environment"]
    yield tmp_path
    del os.environ["K4NARY_OUTSIDE"]
    server.shutdown()
    server.server_close()


class Echo(http.server.BaseHTTPRequestHandler):
    heard: list[str] = []

    def do_GET(self) -> None:
        Echo.heard.append(self.headers["X-Key"])
        body = json.dumps({"you": self.headers["X-Key"], "again": [self.headers["X-Key"]]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def argv(folder: Path, *more: str) -> tuple[str, ...]:
    return (*PROGRAM, "run", str(folder / "canaries.yaml"), "--hosts", "all", "-i", str(folder / "hosts.yaml"), *more)


def reset(folder: Path) -> None:
    (folder / "done").unlink(missing_ok=True)
    (folder / "app.yaml").write_text(f"mode: old\nword: {json.dumps(SECRETS['of a program'])}\n")


def live(words: tuple[str, ...]) -> str:
    """What a terminal shows of a run, narrow enough that lines are cut."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm", COLUMNS="61")
        os.execv(words[0], words)
    shown, deadline = "", time.monotonic() + 120
    while time.monotonic() < deadline:
        if not select.select([terminal], [], [], 1)[0]:
            continue
        try:
            shown += os.read(terminal, 65536).decode(errors="replace")
        except OSError:
            break
    os.close(terminal)
    os.waitpid(pid, 0)
    return shown


def planned_and_applied(folder: Path) -> dict[str, str]:
    """What the commands about saved plans say, and the plan itself."""
    plan = str(folder / "plan.json")
    words = ("plan", str(folder / "canaries.yaml"), "--hosts", "all", "-i", str(folder / "hosts.yaml"), "-o", plan)
    said = {}
    for argv in (words, ("show", plan), ("apply", plan, "--yes")):
        done = subprocess.run((*PROGRAM, *argv), capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=250)
        said |= {f"{argv[0]} stdout": done.stdout, f"{argv[0]} stderr": done.stderr}
        said["plan.json"] = Path(plan).read_text()
    assert "changed change" in said["apply stdout"], said
    return said


def looked_at_and_undone(folder: Path, name: str, code: int) -> dict[str, str]:
    """What an undo of the last run says, and what is said of its record."""
    undo = (
        "undo",
        "last",
        "--yes",
        "-i",
        str(folder / "hosts.yaml"),
        "--output",
        "json",
        "--report",
        str(folder / f"{name}.html"),
    )
    said = {}
    for words in (("history", "show", "last"), undo):
        done = subprocess.run((*PROGRAM, *words), capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=250)
        said |= {f"{name} {words[0]} stdout": done.stdout, f"{name} {words[0]} stderr": done.stderr}
    assert done.returncode == code, said
    said[f"{name}.html"] = (folder / f"{name}.html").read_text()
    return said


@pytest.mark.soak
def test_no_sink_and_no_list_of_processes_has_a_secret_and_the_commands_get_them(site):
    """Mutants: run.py without ``hiding``, or without ``secret_values.masked`` among its secrets; guards.py ``Redacting``
    that passes all; shell_programs.py ``_body`` with ``env NAME=VALUE``; probing.py without ``with_secrets``.
    """
    reports = tuple(
        word
        for end in ("json", "jsonl", "txt", "html", "md", "xml", "prom")
        for word in ("--report", str(site / f"report.{end}"))
    )
    said: dict[str, str] = {}
    with Spy() as spy:
        for output, mode in (("console", "--dry-run"), ("json", "--yes"), ("jsonl", "--yes")):
            reset(site)
            done = subprocess.run(argv(site, "--output", output, mode, *reports), capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=250)  # fmt: skip
            said |= {f"{output} stdout": done.stdout, f"{output} stderr": done.stderr}
            said |= {f"{output} {it.name}": it.read_text() for it in site.glob("report.*")}
        reset(site)
        said["live"] = live(argv(site, "--yes"))
        reset(site)
        said |= planned_and_applied(site)
        applied = (site / "app.yaml").read_text()
        (site / "app.yaml").write_text(f"{applied}other: {json.dumps(SECRETS['of the host'])}\n")
        said |= looked_at_and_undone(site, "drifted", 6)
        (site / "app.yaml").write_text(applied)
        said |= looked_at_and_undone(site, "undone", 0)
        assert "mode: old" in (site / "app.yaml").read_text()
        records = Path(os.environ["XDG_STATE_HOME"], "runbook", "runs")
        said |= {f"record {it.name}": it.read_text("latin-1") for it in records.iterdir()}
        (site / "app.yaml").write_text(applied)
    assert (site / "done").read_text() == f"{SECRETS['of a program']}\n{SECRETS['of a file']}"
    assert set(Echo.heard) == {SECRETS["of a header"]}
    assert (site / "app.yaml").read_text() == f"mode: new\nword: {json.dumps(SECRETS['of a program'])}\n"
    document = json.loads(said["json stdout"])
    states = {it["id"]: it["state"] for it in document["hosts"][0]["steps"]}
    assert "stdout" in states["forms"], document["hosts"][0]["steps"][0]["why"]
    assert states["forms"]["stdout"].count("plain ***\n") == 5
    assert "plain x *** y\n" in states["forms"]["stdout"]
    assert states["other"]["value"] == ["root", "***", "a: 1", "word ***"]
    assert states["service"]["json"] == {"you": "***", "again": ["***"]}
    steps = {it["id"]: it for it in document["hosts"][0]["steps"]}
    assert steps["wrong"]["why"].endswith("exited with 3, wanted 0: no ***")
    assert steps["late"]["commands"][0]["stdout"] == "***"
    assert {where: found for where, text in said.items() if (found := leaks(text, SECRETS, 9))} == {}
    assert spy.looks > 20
    assert spy.arguments == set()
    assert spy.environments <= {"python3", "sleep", "env", "cat", "id", "bash"}
    assert "python3" in spy.environments or "sleep" in spy.environments, "the spy has seen no step at work"


def test_no_file_of_the_machine_has_a_secret_afterwards(site):
    (site / "seen").mkdir()
    env = {**os.environ, "TMPDIR": str(site / "seen"), "XDG_STATE_HOME": str(site / "seen"), "HOME": str(site / "seen")}
    done = subprocess.run(argv(site, "--yes", "--report", str(site / "seen" / "r.json")), capture_output=True, text=True, stdin=subprocess.DEVNULL, env=env, timeout=250)  # fmt: skip
    assert "canaries:" in done.stdout, done.stderr
    files = [it for it in (site / "seen").rglob("*") if it.is_file()]
    assert files
    assert {str(it): found for it in files if (found := leaks(it.read_text(errors="replace"), SECRETS, 9))} == {}


class Crashes:
    """Somebody whose terminal breaks, when the secrets have been read."""

    def is_there(self) -> bool:
        return False

    def speak_through(self, _: object) -> None:
        pass

    say = speak_through

    def can_stop(self, _: object) -> None:
        raise KeyError(f"it is {SECRETS['of a program']} and {SECRETS['of a file']}")


def test_a_crash_after_they_were_read_has_none_in_its_traceback(site):
    """Mutants: workspace.py ``with_secrets_resolved`` without ``learn``."""
    options = RunOptions(
        choosing=Choosing(hosts="all", inventory=(str(site / "hosts.yaml"),)), output=Output(output="json"), plan_only=True,
    )  # fmt: skip
    with pytest.raises(InternalError) as caught:
        run_playbook(str(site / "canaries.yaml"), options, Crashes())
    assert "KeyError" in str(caught.value)
    assert leaks(str(caught.value), SECRETS, 9) == []
