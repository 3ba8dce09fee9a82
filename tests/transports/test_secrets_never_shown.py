"""Twelve secrets of twelve kinds go through real runs on a real sshd; none is in anything that is shown or recorded."""

from __future__ import annotations

import base64
import fcntl
import html
import http.server
import json
import os
import pty
import re
import select
import shlex
import shutil
import signal
import struct
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest

from runbook.cli.completing import inputs, proposals
from runbook.commands.check import checked
from runbook.commands.listings import hosts_text
from runbook.commands.options import Choosing, GivenInputs, Recording, RunOptions
from runbook.commands.run import run_playbook
from runbook.commands.secret_masking import InternalError, SecretMasking
from runbook.commands.show import show_text
from runbook.errors import ConfigError
from tests.support.sshd import make_key, start_sshd
from tests.support.waiting import until

pytestmark = pytest.mark.real("sshd", "root", "sudo")

PROGRAM = (sys.executable, "-m", "runbook")

CANARIES = {
    "sudo password": "Sud0-k4n'ry $x/1",
    "key passphrase": 'pHr4se k4n"ry/2',
    "inventory token": "inv-t0k&n/k4nry+3",
    "cloudflare secret": "cf1are-k4nry=4",
    "input by its name": "n4med-k4nry<5>",
    "input from a file": "fi1e-k4n ry/6",
    "variable": "v4riable 'k4nry' 7",
    "header": "he4der_k4nry_8",
    "nested authorization": "nest3d-k4nry_9",
    "password of an address": "dsn-k4nry-10",
    "line of a private file": "pr1vate-k4nry-11",
    "argument of a process": "4rgument of k4nry 12",
}

JOB = "k4nry_job"
"""A word among the arguments of the process of somebody else."""

PLAYBOOK = """
name: canaries
about: Every place that a secret may stand in.
hosts: all
inputs:
  hf_token: {about: A token., type: string, default: 'n4med-k4nry<5>'}
  word: {about: A word., type: string, secret: true, required: true}
diagnose:
  - id: jobs
    processes: {patterns: ['k4nry_job']}
  - id: printed
    env: {DB_PASSWORD: "v4riable 'k4nry' 7"}
    command: {script: 'echo "it is $DB_PASSWORD"; echo "$1" | base64; echo "$1 $2 $3"', params: ["{{ inputs.word }}",
      "{{ inputs.hf_token | urlencode }} {{ inputs.hf_token | e }} {{ inputs.hf_token | tojson }}", none]}
  - id: service
    http: {url: "http://127.0.0.1:%(port)s/x", headers: {X-Api-Key: he4der_k4nry_8, X-Other: "{{ inputs.word }}"}}
  - id: config
    become: true
    config_value: {read: {url: {file: "%(folder)s/app.yaml", key: url}, login: {file: "%(folder)s/app.yaml", key: client},
      most: {file: "%(folder)s/app.yaml", key: limits.requests},
      lent: {file: "%(folder)s/app.yaml", key: lent}}}
findings:
  - id: running
    when: jobs.matches
    severity: warning
    say: "running: {{ jobs.matches | join(', ') }} with {{ config.values.url }}, {{ config.values.lent }}"
    evidence: {jobs: jobs.matches, all: printed.stdout, url: config.values.url, client: config.values.login}
  - id: few
    when: config.values.most < 7
    severity: error
    say: "too few requests for {{ config.values.url }}"
    advise: [None.]
remediate:
  - id: client
    become: true
    config_patch: {path: "%(folder)s/client.json", set: {headers: {Authorization: {scheme: bearer, value: nest3d-k4nry_9}}}}
  - id: patch
    become: true
    config_patch: {path: "%(folder)s/app.yaml", set: {"limits.requests": 7}, validate: [cat, "{}"]}
"""

CONFIG = """\
session_secret: pr1vate-k4nry-11
url: postgres://app:dsn-k4nry-10@db.internal/app
limits:
  requests: 5
mirror: "amqp://app:dsn-k4nry-10@mq.internal/app"
client: {name: x, password: pr1vate-k4nry-11}
# token: pr1vate-k4nry-11
lent: ["Sud0-k4n'ry $x/1", 'pHr4se k4n"ry/2', 'inv-t0k&n/k4nry+3']
"""
"""A file of the host; its last line has what only the inventory and the person at the terminal have said."""


def forms(secret: str) -> dict[str, str]:
    """What to look for: nothing of ten characters of any of these may be found (a base64 alone says the rest)."""
    raw = secret.encode()
    found = {
        "plain": secret, "lower": secret.lower(), "upper": secret.upper(), "hex": raw.hex(), "HEX": raw.hex().upper(),
        "json": json.dumps(secret)[1:-1], "shell": shlex.quote(secret), "html": html.escape(secret),
        "url": quote(secret), "whole url": quote(secret, safe=""), "form": quote_plus(secret), "python": repr(secret)[1:-1],
    }  # fmt: skip
    for number, before in enumerate((b"", b"u", b"us")):
        for name, encode in (("base64", base64.b64encode), ("base64 for URLs", base64.urlsafe_b64encode)):
            text = encode(before + raw).decode().rstrip("=")
            found[f"{name} after {number}"] = text[4 if number else 0 : len(text) // 4 * 4 - 4]
    return found


def leaked(text: str) -> list[str]:
    """Which canaries are in *text*, and in which form."""
    return [
        f"{name} ({form}): {text[max(0, at - 60) : at + 60]!r}"
        for name, secret in CANARIES.items()
        for form, written in forms(secret).items()
        if (at := text.find(written)) >= 0 or (form == "plain" and (at := _part(text, written)) >= 0)
    ]


def _part(text: str, written: str) -> int:
    return max(text.find(written[at : at + 9]) for at in range(len(written) - 8))


def below(pid: int) -> list[int]:
    """Every process that *pid* has started, directly or not."""
    found = []
    with suppress(OSError):  # it has ended
        for thread in os.listdir(f"/proc/{pid}/task"):
            found += [int(it) for it in Path(f"/proc/{pid}/task/{thread}/children").read_text().split()]
    return [*found, *(it for child in found for it in below(child))]


class Spy(threading.Thread):
    """Looks at the arguments and the environment of every process of the program, and of the host, for as long as it runs."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.caught: set[str] = set()
        self.looks = 0
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.is_set():
            for pid in below(os.getpid()):
                self._look(pid)
            self.looks += 1
            self._over.wait(0.02)

    def _look(self, pid: int) -> None:
        for name in ("cmdline", "environ"):
            try:
                text = Path(f"/proc/{pid}/{name}").read_bytes()
            except OSError:
                continue
            if b"k4n" not in text.lower() or JOB.encode() in text.split(b"\0"):
                continue
            for which in leaked(text.decode("utf-8", "replace")):
                if not (name == "environ" and which.startswith("variable")):  # that is where it is asked to be
                    self.caught.add(f"{name}: {which}")

    def stop(self) -> None:
        self._over.set()
        self.join()


@dataclass
class Site:
    """One host on a real sshd, and the files that a run needs."""

    folder: Path
    asked: list[dict[str, str]]

    def argv(self, *more: str, playbook: str = "canaries.yaml") -> tuple[str, ...]:
        given = ("-i", str(self.folder / "hosts.yaml"), "--inputs", str(self.folder / "inputs.yaml"))
        lent = ("--become-password-file", str(self.folder / "password"))
        return (*PROGRAM, "run", str(self.folder / playbook), "--hosts", "all", *given, *lent, *more)

    def reset(self) -> None:
        (self.folder / "app.yaml").write_text(CONFIG)
        (self.folder / "client.json").write_text('{\n  "a": 1\n}\n')


OF_ITS_OWN = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "sh")
"""What makes a host whose processes are its own: others may be at work on this machine."""


@pytest.fixture
def site(tmp_path, account, home) -> Iterator[Site]:
    os.chmod(tmp_path, 0o755)
    job = (sys.executable, "-c", "import time; time.sleep(1e5)", JOB, "--api-key", CANARIES["argument of a process"])
    (tmp_path / "host.sh").write_text(f'{shlex.join(job)} & exec "$@"\n')
    sshd = start_sshd(tmp_path / "sshd", before=(*OF_ITS_OWN, str(tmp_path / "host.sh")))
    key = make_key(tmp_path / "locked", passphrase=CANARIES["key passphrase"])
    with (sshd.welcome / "authorized_keys").open("a") as file:
        file.write(Path(f"{key}.pub").read_text())
    name = account("/bin/bash", sudo="ALL", password=CANARIES["sudo password"])
    fields = {
        "ssh_host": sshd.address, "ssh_port": sshd.port, "ssh_user": name, "ssh_key": str(key), "is_container": True,
        "api_token": CANARIES["inventory token"], "cloudflare_service_token_secret": CANARIES["cloudflare secret"],
    }  # fmt: skip
    (tmp_path / "hosts.yaml").write_text(json.dumps({"hosts": {"h": fields}}))
    (tmp_path / "inputs.yaml").write_text(json.dumps({"word": CANARIES["input from a file"]}))
    (tmp_path / "password").write_text(CANARIES["sudo password"] + "\n")
    (tmp_path / "password").chmod(0o600)
    asked: list[dict[str, str]] = []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler(asked))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    text = PLAYBOOK % {"port": server.server_port, "folder": tmp_path}
    (tmp_path / "canaries.yaml").write_text(text)
    made = Site(tmp_path, asked)
    made.reset()
    yield made
    server.shutdown()
    server.server_close()
    sshd.process.kill()  # the whole of the host goes with it
    sshd.process.wait()
    shutil.rmtree(sshd.welcome)


def handler(asked: list[dict[str, str]]) -> type[http.server.BaseHTTPRequestHandler]:
    class Answers(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(dict(self.headers))
            body = json.dumps({"you": self.headers.get("X-Api-Key"), "other": self.headers.get("X-Other")}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    return Answers


def on_a_terminal(
    argv: tuple[str, ...], stdout: Path | None = None, at_work: Callable[[int], None] | None = None
) -> tuple[str, int]:
    """What is shown on a terminal where somebody types the passphrase, and says yes; stdout may go to a file instead.

    *at_work* is called with the pid, beside it.
    """
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm"
        if stdout:
            os.dup2(os.open(stdout, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 1)
        os.execv(argv[0], argv)
    if at_work:
        threading.Thread(target=at_work, args=(pid,), daemon=True).start()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 300, 0, 0))
    answers = {"Passphrase for": CANARIES["key passphrase"], "Do this on": "y"}
    shown, deadline = "", time.monotonic() + 240
    while time.monotonic() < deadline:
        if not select.select([terminal], [], [], 1)[0]:
            continue
        try:
            shown += os.read(terminal, 65536).decode(errors="replace")
        except OSError:
            break
        for prompt in [it for it in answers if re.search(rf"{it}.*: ?$|{it}.*\[y/N\] $", shown)]:
            if no_echo(terminal) or prompt == "Do this on":
                os.write(terminal, f"{answers.pop(prompt)}\n".encode())
    os.close(terminal)
    return shown, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def no_echo(terminal: int) -> bool:
    return not termios.tcgetattr(terminal)[3] & termios.ECHO


@contextmanager
def spied_on() -> Iterator[Spy]:
    spy = Spy()
    spy.start()
    yield spy
    spy.stop()


def test_none_of_twelve_secrets_is_shown_recorded_or_in_a_list_of_processes(site):
    """Mutants: run.py without ``secrets_of``, without ``_secret_inputs`` or without *shared*; masking.py ``_fields``
    without ``without_private``; config_patch.py ``_diff`` without ``masked_config``; processes/table.py with the bare argv.
    """
    folder = site.folder
    reports = tuple(
        word
        for end in ("json", "jsonl", "txt", "html", "md", "xml", "prom")
        for word in ("--report", str(folder / f"report.{end}"))
    )
    outputs: dict[str, str] = {}
    with spied_on() as spy:
        for output, *ways in (("console", "--dry-run", "--yes"), ("json", "--yes"), ("jsonl", "--dry-run")):
            for more in [(way, *reports) for way in ways]:
                site.reset()
                said, code = on_a_terminal(site.argv("--output", output, *more), folder / "stdout")
                assert code == 0, said + (folder / "stdout").read_text()
                outputs[f"{output} {more[0]} stderr"] = said
                outputs[f"{output} {more[0]}"] = (folder / "stdout").read_text()
                outputs |= {f"{output} {it.name}": it.read_text() for it in folder.glob("report.*")}
        site.reset()
        outputs["live"], code = on_a_terminal(site.argv())
        assert code == 0, outputs["live"]
    records = [*Path(os.environ["XDG_STATE_HOME"], "runbook", "runs").iterdir()]
    assert len(records) > 5
    outputs |= {f"record {it.name}": it.read_text("latin-1") for it in records}
    assert spy.looks > 5
    assert {"requests: 7", CANARIES["password of an address"]} <= set(
        re.findall(r"requests: \d|dsn-k4nry-10", (folder / "app.yaml").read_text())
    )
    assert CANARIES["nested authorization"] in (folder / "client.json").read_text()
    assert site.asked[0]["X-Api-Key"] == CANARIES["header"]
    assert site.asked[0]["X-Other"] == CANARIES["input from a file"]
    whole = "".join(outputs.values())
    assert "pg:" not in whole
    for shown in ("--api-key ***", "postgres://app:***@db.internal", "it is ***", "resolved", "requests: 7"):
        assert shown in whole, shown
    assert {where: found for where, text in outputs.items() if (found := leaked(text))} == {}
    assert spy.caught == set()


NEUTRAL = """\
  - id: neutral
    become: true
    config_patch: {path: "%(folder)s/other.yaml", set: {greeting: "{{ inputs.word }}"}}
  - id: made
    become: true
    file: {path: "%(folder)s/made", content: "hello {{ inputs.word }}\\nbye {{ inputs.hf_token }}\\n"}
  - id: sleeps
    become: true
    command: {do: {params: ["{{ inputs.word }}"], script: 'echo "$1"; sleep 3'}}
"""
"""Secrets in files, under names that say nothing of them."""


@pytest.mark.slow
@pytest.mark.soak
def test_none_of_them_is_in_a_plan_that_is_applied_nor_in_what_is_resumed_or_undone(site):
    """Mutants: undo_steps.py without ``_hiding``; restore_file.py ``_diff`` that shows what was masked."""
    folder, outputs = site.folder, dict[str, str]()
    text = (folder / "canaries.yaml").read_text()
    (folder / "canaries.yaml").write_text(text.replace("remediate:\n", "remediate:\n" + NEUTRAL % {"folder": folder}))
    (folder / "other.yaml").write_text("a: 1\n")
    lent = ("-i", str(folder / "hosts.yaml"), "--become-password-file", str(folder / "password"))
    given = ("--inputs", str(folder / "inputs.yaml"))
    plan = ("--hosts", "all", *given, "-o", str(folder / "plan.json"))

    def said(name: str, *words: str, codes: tuple[int, ...] = (0,)) -> None:
        for end in ("json", "html", "txt"):
            (folder / f"report.{end}").unlink(missing_ok=True)
        reports = [word for end in ("json", "html", "txt") for word in ("--report", str(folder / f"report.{end}"))]
        shown, code = on_a_terminal((*PROGRAM, *words, *lent, *reports), folder / "stdout")
        assert code in codes, (name, code, shown, (folder / "stdout").read_text())
        outputs[f"{name} stderr"] = shown
        outputs[name] = (folder / "stdout").read_text()
        outputs.update({f"{name} {it.name}": it.read_text() for it in folder.glob("report.*")})

    with spied_on() as spy:
        said("plan", "plan", str(folder / "canaries.yaml"), *plan)
        outputs["plan.json"] = (folder / "plan.json").read_text()
        outputs["show"], _ = on_a_terminal((*PROGRAM, "show", str(folder / "plan.json")))
        said("apply", "apply", str(folder / "plan.json"), *given)
        assert CANARIES["input from a file"] in (folder / "made").read_text()
        said("undo --dry-run", "undo", "last", "--dry-run")
        said("undo", "undo", "last", "--output", "json")
        assert not (folder / "made").exists()
        undone = json.loads(outputs["undo"])["run"]
        said("undo of undo", "undo", undone, "--output", "json")
        assert CANARIES["input from a file"] in (folder / "made").read_text()
        (folder / "other.yaml").write_text((folder / "other.yaml").read_text() + "b: by hand\n")
        said("drifted", "undo", "last", codes=(6,))
        site.reset()
        (folder / "made").unlink(missing_ok=True)
        killed_while_it_sleeps(site.argv("--yes"))
        said("resume", "resume", "last", "--assume-done", "sleeps", "--yes", *given)
    outputs |= {f"record {it.name}": it.read_text("latin-1") for it in runs().iterdir()}
    whole = "".join(outputs.values())
    assert {where: found for where, text in outputs.items() if (found := leaked(text))} == {}
    for words in ("would change neutral", "restore ", "has changed since run", "it is ***", "is not shown: run"):
        assert words in whole, words
    assert spy.caught == set()


def runs() -> Path:
    return Path(os.environ["XDG_STATE_HOME"], "runbook", "runs")


def killed_while_it_sleeps(argv: tuple[str, ...]) -> None:
    """A run that is killed while a step sleeps."""
    before = set(runs().iterdir())

    def kill(pid: int) -> None:
        begun = rb'"step": "sleeps", [^\n]*"kind": "change_started"'
        until(
            lambda: any(re.search(begun, journal.read_bytes()) for journal in set(runs().glob("*.jsonl")) - before),
            "the step to sleep",
            within=200,
        )
        os.kill(pid, signal.SIGKILL)

    _, code = on_a_terminal(argv, at_work=kill)
    assert code == -signal.SIGKILL


def test_none_of_them_is_in_what_show_check_and_mistakes_say(site):
    """Mutants: playbook_text.py without ``masked_by``; secret_masking.py ``__exit__`` without its RunbookError and its
    ConfigError; check_command.py without ``masked_by`` on mistakes, or on warnings.
    """
    folder = site.folder
    text = (folder / "canaries.yaml").read_text()
    variable = """env: {DB_PASSWORD: "v4riable 'k4nry' 7"}"""
    broken = {
        "unknown key": text.replace("headers: {X-Api", "header: {X-Api"),
        "value": text.replace("http://127.0.0.1", "ftp://{{ inputs.hf_token }}"),
        "type": text.replace("type: string, default: 'n4med", "type: integer, default: 'n4med"),
        "list": text.replace("X-Api-Key: he4der_k4nry_8", "X-Api-Key: [he4der_k4nry_8]"),
        "syntax": text.replace(variable, variable[:-1]),
        "quoted": text.replace("  - id: service\n", "  - id: service\n    scratch: he4der_k4nry_8\n"),
        "given": text.replace("type: string, secret: true", "type: string, secret: true, maxLength: 3"),
        "given url": text.replace("http://127.0.0.1", "ftp://{{ inputs.word }}"),
    }
    said = {}
    for name, it in broken.items():
        assert it != text
        path = folder / f"{name}.yaml"
        path.write_text(it.replace("name: canaries", f"name: {name}"))
        said[f"check {name}"] = "".join(one.text for one in checked([str(path)]))
        said[f"run {name}"] = mistake(str(path), site)
        said[f"show {name}"] = shown(str(path))
    warned = folder / "warned.yaml"
    warned.write_text(text.replace("name: canaries", "name: warned").replace("- id: service", "- id: he4der_k4nry_8"))
    said["check warning"] = "".join(one.text for one in checked([str(warned)]))
    said["show warning"] = shown(str(warned))
    said["show"] = shown(str(folder / "canaries.yaml"))
    said["check"] = "".join(one.text for one in checked([str(folder / "canaries.yaml")]))
    said["hosts"] = hosts_text("all", Choosing(inventory=(str(folder / "hosts.yaml"),)))
    said["completion"] = str(proposals(inputs, {"playbook": str(folder / "canaries.yaml")}, "hf_"))
    (folder / "hosts.yaml").write_text((folder / "hosts.yaml").read_text().replace("true", '"inv-t0k&n/k4nry+3"'))
    said["a mistake in the inventory"] = mistake(str(folder / "canaries.yaml"), site)
    assert "got '***'" in said["check quoted"]
    assert "names the probe '***'" in said["check warning"]
    assert "[***]" in said["show warning"]
    assert "DB_PASSWORD=***" in said["show"]
    assert "X-Api-Key = ***" in said["show"]
    assert said["completion"] == "['hf_token=']"
    assert {where: found for where, text in said.items() if (found := leaked(text))} == {}


class Nobody:
    """Nobody has started the program."""

    def is_there(self) -> bool:
        return False


def mistake(playbook: str, site: Site) -> str:
    """What a run says that is refused before it begins."""
    options = RunOptions(
        choosing=Choosing(hosts="all", inventory=(str(site.folder / "hosts.yaml"),)),
        given=GivenInputs(inputs_file=str(site.folder / "inputs.yaml")), recording=Recording(records=""),
    )  # fmt: skip
    with pytest.raises(ConfigError) as caught:
        run_playbook(playbook, options, Nobody())
    return str(caught.value)


def shown(playbook: str) -> str:
    try:
        return show_text(playbook) + show_text(playbook, verbose=True)
    except ConfigError as error:
        return str(error)


def test_a_crash_tells_where_it_was_and_no_secret():
    """Mutants: secret_masking.py ``__exit__`` that lets other errors pass, or raises them from what they were; without its
    ConfigError (whose problems are shown one by one).
    """
    secret = CANARIES["inventory token"]
    with pytest.raises(InternalError) as caught, SecretMasking(lambda: (secret,)):
        {}[f"it is {secret}"]
    assert "KeyError: 'it is ***'" in str(caught.value)
    assert "test_secrets_never_shown.py" in str(caught.value)
    assert (caught.value.__cause__, caught.value.__suppress_context__) == (None, True)
    with pytest.raises(ConfigError) as wrong, SecretMasking(lambda: (secret,)):
        raise ConfigError(f"no {quote(secret)}")
    assert str(wrong.value) == "no ***"
    assert [str(problem) for problem in wrong.value.problems] == ["no ***"]
