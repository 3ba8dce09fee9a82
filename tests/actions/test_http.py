"""Web services: asked truly, told once, and never with a secret where others see it."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runbook.codec import to_json
from runbook.errors import ConfigError, ProbeError
from runbook.language.arguments import build
from runbook.library.system import http
from runbook.library.system.facts.json_paths import keys_of, value_at
from runbook.protocols import Fails, Holds
from runbook.values.command import Completed, Effect
from runbook.values.plan import Blocked, Change, NoChange
from runbook.values.result import SentCommand
from runbook.values.types import Unknown
from tests.actions.local_connection import Fed, wired
from tests.support.probe_driver import SHELLS, drive
from tests.support.real_processes import each
from tests.support.tables import every_row

pytestmark = pytest.mark.real("curl")
shells = pytest.mark.parametrize("shell", each(SHELLS))


@dataclass
class Service:
    """A real web service on loopback, and what was asked of it."""

    port: int = 0
    jobs: int = 3
    broken: bool = False
    elsewhere: str = ""
    asked: list[tuple[str, str, dict[str, str], str]] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)
    """Command lines of this machine while a slow answer was waited for."""
    over: threading.Event = field(default_factory=threading.Event)
    """No answer is given before."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


def answer(service: Service, method: str, path: str, body: str):
    """Status, headers and body."""
    if path == "/status":
        return (
            200,
            {"Content-Type": "application/json"},
            json.dumps({"peers": {"gpu-1": {"jobs": service.jobs}}, "ids": [{"id": "a"}], "none": []}),
        )
    if path == "/reset" and method == "POST":
        if service.broken:
            return 403, {}, '{"error": "not the leader"}'
        service.jobs = 0
        return 200, {}, '{"success": true, "token": "s3cr3t-b"}\nstatus 500'
    if path == "/hop":
        return 302, {"Location": "/status"}, "moved"
    if path == "/away":
        return 302, {"Location": service.elsewhere or "http://127.0.0.1:1/x"}, "moved"
    if path == "/round":
        return 302, {"Location": "/round"}, ""
    if path == "/slow":
        for cmdline in (each / "cmdline" for each in Path("/proc").glob("[0-9]*")):
            with contextlib.suppress(OSError):  # it has ended since
                service.seen.append(cmdline.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))
        return 200, {}, "late"
    if path == "/never":
        service.over.wait(60)
        return 200, {}, ""
    if path == "/big":
        return 200, {}, "[" + "1," * 200_000 + "1]"
    if path == "/much":
        return 500, {}, "x" * 400_000
    if path == "/odd":
        return 200, {}, '"\xe9\\n \\u0000 \nstatus 500\nexit 7"'
    return 503 if path == "/sick" else 404, {}, "no such thing here"


@pytest.fixture
def service():
    made = Service()

    class Handler(BaseHTTPRequestHandler):
        def handle_any(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            made.asked.append((self.command, self.path, dict(self.headers), body))
            code, headers, text = answer(made, self.command, self.path.partition("?")[0], body)
            data = text.encode("latin-1" if self.path == "/odd" else "utf-8")
            try:
                self.send_response(code)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(data)
            except OSError:
                return

        def log_message(self, *_):
            pass

    for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"):
        setattr(Handler, f"do_{method}", Handler.handle_any)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    made.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield made
    made.over.set()
    server.shutdown()
    thread.join()
    server.server_close()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def asked(url, shell="dash", connection=None, **values):
    made = build(http.Args, {"url": url, **values})
    here = connection or Fed(shell=SHELLS[shell])
    state = drive(http.probe(made), here)
    assert {it.effect for it in here.sent} == {Effect.READ}
    json.dumps(to_json(state))
    return made, state


@shells
def test_a_get_gives_status_body_and_time(service, shell):
    made, state = asked(f"{service.url}/status", shell, values={"jobs": "peers.gpu-1.jobs", "no": "peers.gpu-2.jobs"})
    assert (state.reachable, state.status, state.ok, state.tool) == (True, 200, True, "curl")
    assert state.json["ids"] == [{"id": "a"}]
    assert state.values["jobs"] == 3
    assert state.values["no"] == Unknown(why="there is no gpu-2 in peers")
    assert 0 <= state.seconds < 5
    assert isinstance(http.holds(made, state), Holds)


@shells
def test_nobody_there_is_an_answer(shell):
    made, state = asked(f"http://127.0.0.1:{free_port()}/x", shell)
    assert (state.reachable, state.ok) == (False, False)
    assert "onnect" in state.why
    assert isinstance(state.status, Unknown)
    assert isinstance(state.json, Unknown)
    assert isinstance(http.holds(made, state), Fails)


def test_a_name_that_nobody_knows_is_an_answer():
    """A label of a name has 63 letters at most, so that no server of names is asked."""
    assert "resolve" in asked(f"http://{'x' * 64}.invalid/x")[1].why


def test_an_answer_that_does_not_come_in_time_is_an_answer(service):
    _, state = asked(f"{service.url}/never", at_most="1s")
    assert (state.reachable, state.why) == (False, "no answer within 1 s")


@shells
def test_a_service_that_says_no_is_reachable_and_not_ok(service, shell):
    made, state = asked(f"{service.url}/sick", shell)
    assert (state.reachable, state.status, state.ok, state.body) == (True, 503, False, "no such thing here")
    assert http.holds(made, state) == Fails(why=f"{service.url}/sick answers 503; wanted 2xx")
    assert asked(f"{service.url}/sick", shell, status=[503])[1].ok is True


@pytest.mark.parametrize(
    ("values", "ok"),
    [
        ({"expect": {"peers.gpu-1.jobs": 3}}, True),
        ({"expect": {"peers.gpu-1.jobs": "3"}}, False),
        ({"expect": {"peers.gpu-1.jobs": True}}, False),
        ({"expect": {"peers.gpu-9.jobs": 0}}, False),
        ({"present": ["ids[0].id"]}, True),
        ({"present": ["none"]}, False),
        ({"present": ["nothing.at.all"]}, False),
    ],
)
def test_a_body_is_held_against_what_is_wanted(service, values, ok):
    made, state = asked(f"{service.url}/status", **values)
    assert state.ok is ok
    assert isinstance(http.holds(made, state), Holds if ok else Fails)


def test_a_body_that_is_no_json_is_no_empty_one(service):
    made, state = asked(f"{service.url}/slow", expect={"a": 1})
    assert state.json == Unknown(why="the body is not JSON")
    assert isinstance(state.ok, Unknown)
    with pytest.raises(ProbeError, match="not JSON"):
        http.holds(made, state)


@shells
def test_what_a_service_says_cannot_pass_for_curls_own_words(service, shell):
    _, state = asked(f"{service.url}/odd", shell)
    assert (state.status, state.ok, state.reachable) == (200, True, True)
    assert "status 500" in state.body


@shells
def test_a_body_that_is_too_large_is_cut_and_not_believed(service, shell):
    _, state = asked(f"{service.url}/big", shell, max_size="10kB")
    assert (state.status, len(state.body)) == (200, 10_000)
    assert state.json == Unknown(why="the body is larger than `max_size`")
    assert len(asked(f"{service.url}/big", shell)[1].json) == 200_001


def test_a_redirect_is_followed_only_when_asked_and_only_on_the_same_host(service):
    _, state = asked(f"{service.url}/hop")
    assert (state.status, state.location, state.ok) == (302, f"{service.url}/status", False)
    assert asked(f"{service.url}/hop", follow=True)[1].json["ids"]
    _, state = asked(f"{service.url}/away", follow=True)
    assert (state.status, state.location) == (302, "http://127.0.0.1:1/x")
    service.asked.clear()
    assert asked(f"{service.url}/round", follow=True)[1].status == 302
    assert len(service.asked) == 6


def test_a_head_asks_for_no_body(service):
    _, state = asked(f"{service.url}/status", method="HEAD")
    assert (state.status, state.body, service.asked[0][0]) == (200, "", "HEAD")


ODD = 'a"b\\c \t$HOME`id`{}%{http_code}@x é'


@shells
def test_headers_arrive_unchanged(service, shell):
    asked(f"{service.url}/status?a=[1-3]&b={{x,y}}", shell, headers={"X-Odd": ODD.strip(), "X-None": "", "X-Number": 3})
    _, path, headers, _ = service.asked[0]
    assert (path, headers["X-Number"], headers["X-None"]) == ("/status?a=[1-3]&b={x,y}", "3", "")
    assert headers["X-Odd"].encode("latin-1").decode() == ODD.strip()


def test_no_secret_stands_in_the_list_of_processes(service):
    with wired() as connection:
        asked(f"{service.url}/slow?token=s3cr3t-q", connection=connection, headers={"Authorization": "Bearer s3cr3t-h"})
    assert any("curl" in it for it in service.seen)
    assert [it for it in service.seen if "s3cr3t" in it and "pytest" not in it] == []
    assert service.asked[0][2]["Authorization"] == "Bearer s3cr3t-h"


def test_no_header_stands_in_the_record_of_what_was_sent(service):
    made, state, here = changed(
        service,
        headers={"X-Token": "s3cr3t-h"},
        check={"url": service.url, "headers": {"X-Token": "s3cr3t-h"}, "status": [200]},
    )
    (command,) = http.decide(made, state).commands
    (done,) = here.run(command)
    shown = f"{[SentCommand.of(*it) for it in ((here.sent[0], done), (command, done))]}"
    assert "s3cr3t" not in shown
    assert service.asked[1][2]["X-Token"] == "s3cr3t-h"


def test_what_the_user_has_set_up_for_curl_and_for_proxies_changes_nothing(service, tmp_path, monkeypatch):
    (tmp_path / ".curlrc").write_text('header = "X-Theirs: 1"\nfail\n')
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert asked(f"{service.url}/sick")[1].status == 503
    assert "X-Theirs" not in service.asked[0][2]


def changed(service, **values):
    check = {"url": f"{service.url}/status", "expect": {"peers.gpu-1.jobs": 0}}
    given = {"url": f"{service.url}/reset", "method": "POST", "body": {"node_id": "gpu-1"}, "check": check, **values}
    made, here = build(http.Args, given), Fed()
    return made, drive(http.probe(made), here), here


def test_a_change_is_sent_once_and_only_if_its_check_says_that_it_is_needed(service):
    made, before, here = changed(service)
    decision = http.decide(made, before)
    assert isinstance(decision, Change)
    assert (decision.commands[0].effect, len(decision.commands)) == (Effect.WRITE, 1)
    (done,) = here.run(*decision.commands)
    assert done.answers(decision.commands[0])
    assert [(it[0], it[1], it[3]) for it in service.asked[1:]] == [("POST", "/reset", '{"node_id": "gpu-1"}')]
    assert service.asked[1][2]["Content-Type"] == "application/json"
    made, after, _ = changed(service)
    assert isinstance(http.decide(made, after), NoChange)
    assert isinstance(http.holds(made, after), Holds)
    assert "wanted 0" in http.explain(made, before, before)


@shells
def test_what_a_change_is_answered_with_stays_on_the_host_but_for_the_first_words_of_an_error(service, shell):
    made, before, _ = changed(service)
    here = Fed(shell=SHELLS[shell])
    (done,) = here.run(*(commands := http.decide(made, before).commands))
    assert sorted(done.stdout.split("\n")) == ["", "exit 0", "size 49", "status 200"]
    assert "s3cr3t" not in f"{SentCommand.of(commands[0], done)}"
    wanted = http.decide(*changed(service, status=[202], check={"url": f"{service.url}/sick", "status": [200]})[:2])
    (done,) = here.run(*wanted.commands)
    assert http.refused(wanted.commands[0], done) == "answered 200"
    assert "s3cr3t" not in done.stdout
    away = http.decide(*changed(service, url=f"{service.url}/much", check={"url": f"{service.url}/sick", "status": [200]})[:2])  # fmt: skip
    (done,) = here.run(*away.commands)
    assert http.refused(away.commands[0], done) == "answered 500: " + "x" * 300
    assert "size 400000" in done.stdout


def test_a_body_arrives_unchanged(service):
    text = '@/etc/passwd\n"quoted" \\n é\r\n'
    made, _, here = changed(service, body=text, headers={"Content-Type": "x/y"})
    here.run(*http.decide(made, _).commands)
    assert service.asked[1][3] == text
    assert service.asked[1][2]["Content-Type"] == "x/y"


def test_a_change_that_is_refused_is_a_fault_with_its_words(service):
    made, before, here = changed(service)
    service.broken = True
    decision = http.decide(made, before)
    (done,) = here.run(*decision.commands)
    assert not done.answers(decision.commands[0])
    assert http.refused(decision.commands[0], done) == 'answered 403: {"error": "not the leader"}'
    (done,) = here.run(*http.decide(*changed(service, status=[403])[:2]).commands)
    assert done.exit_code == 0


def test_whether_anything_was_sent_is_told(service):
    made, before, here = changed(service, url=f"http://127.0.0.1:{free_port()}/x")
    (command,) = http.decide(made, before).commands
    assert http.refused(command, here.run(command)[0]).startswith("nothing was sent: ")
    made, before, here = changed(service, url=f"{service.url}/never", at_most="1s")
    (command,) = http.decide(made, before).commands
    words = http.refused(command, here.run(command)[0])
    assert words.startswith("sent, but no answer came")
    assert sum(it[1] == "/never" for it in service.asked) == 1


@pytest.mark.parametrize(
    "check",
    [
        {"url": "http://127.0.0.1:1/x"},
        {"url": "{0}/sick", "expect": {"a": 1}},
        {"url": "{0}/slow", "expect": {"a": 1}},
        {"url": "{0}/status", "expect": {"peers.gone.jobs": 0}},
    ],
)
def test_a_check_that_gives_no_answer_lets_nothing_be_sent(service, check):
    made, state, _ = changed(service, check={**check, "url": check["url"].format(service.url)})
    decision = http.decide(made, state)
    assert isinstance(decision, Blocked)
    assert decision.why.startswith("the check gave no answer: http://")
    assert all(it[0] == "GET" for it in service.asked)


def test_a_status_can_be_what_the_check_is_about(service):
    made, state, _ = changed(service, check={"url": f"{service.url}/sick", "status": [200]})
    assert isinstance(http.decide(made, state), Change)
    made, state, _ = changed(service, check={"url": f"{service.url}/sick", "status": [503]})
    assert isinstance(http.decide(made, state), NoChange)


def without_curl(folder: Path, *tools: str) -> Path:
    """A PATH with nothing on it but these, and the small tools."""
    folder.mkdir()
    for it in ("head", "timeout", "true", "grep", "cat", "sed", "tail", *tools):
        (folder / it).symlink_to(shutil.which(it) or f"/bin/{it}")
    return folder


def bare(folder: Path) -> Fed:
    return Fed(shell=("env", "-i", f"PATH={folder}", "/bin/dash"))


@pytest.mark.real("wget")
def test_wget_asks_where_there_is_no_curl(service, tmp_path):
    tools = without_curl(tmp_path / "bin", "wget")
    _, state = asked(f"{service.url}/status?q=1", connection=bare(tools), expect={"peers.gpu-1.jobs": 3})
    assert (state.tool, state.status, state.ok, isinstance(state.seconds, Unknown)) == ("wget", 200, True, True)
    assert asked(f"{service.url}/sick", connection=bare(tools))[1].status == 503
    assert asked(f"{service.url}/sick", connection=bare(tools))[1].body == "no such thing here"
    _, state = asked(f"{service.url}/hop", connection=bare(tools))
    assert (state.status, state.location) == (302, "/status")
    _, state = asked(f"http://127.0.0.1:{free_port()}/x", connection=bare(tools))
    assert (state.reachable, "refused" in state.why) == (False, True)
    _, state = asked(f"{service.url}/never", connection=bare(tools), at_most="1s")
    assert (state.reachable, state.why) == (False, "no answer within 1 s")


@pytest.mark.real("busybox")
def test_busyboxs_wget_asks_where_there_is_nothing_else(service, tmp_path):
    tools = without_curl(tmp_path / "bin")
    (tools / "wget").symlink_to(shutil.which("busybox"))
    _, state = asked(f"{service.url}/status", connection=bare(tools))
    assert (state.tool, state.json["peers"]) == ("busybox wget", {"gpu-1": {"jobs": 3}})
    assert asked(f"{service.url}/sick", connection=bare(tools))[1].status == 503
    _, state = asked(f"http://127.0.0.1:{free_port()}/x", connection=bare(tools))
    assert (state.reachable, "refused" in state.why) == (False, True)
    with pytest.raises(ProbeError, match="wget would expose"):
        asked(f"{service.url}/status?token=x", connection=bare(tools))
    service.elsewhere = f"http://localhost:{service.port}/status"
    with pytest.raises(ProbeError, match="another host"):
        asked(f"{service.url}/away", connection=bare(tools))


@pytest.mark.real("wget")
def test_without_curl_no_header_is_shown_and_nothing_is_sent(service, tmp_path):
    tools = without_curl(tmp_path / "bin", "wget")
    with pytest.raises(ProbeError, match="curl is not on this host, and wget would expose"):
        asked(f"{service.url}/status", connection=bare(tools), headers={"X-Token": "s"})
    made, state, _ = changed(service)
    state = drive(http.probe(made), bare(tools))
    assert isinstance(http.decide(made, state), Blocked)
    with pytest.raises(ProbeError, match="neither curl nor wget"):
        asked(f"{service.url}/status", connection=bare(without_curl(tmp_path / "none")))


@every_row(
    ("values", "words"),
    [
        ({"url": "ftp://x/y"}, "http://"),
        ({"url": "http://"}, "and a host"),
        ({"url": "file:///etc/passwd"}, "http://"),
        ({"url": "http://me:secret@x/"}, "use `headers`"),
        ({"url": "http://x/a b"}, "%20"),
        ({"url": "http://x/\nurl = y"}, "%20|no address"),
        ({"url": "http://x:99999/"}, "not an address"),
        ({"url": "http://x/", "headers": {"A": "b\nC: d"}}, "one line"),
        ({"url": "http://x/", "headers": {"A b": "c"}}, "not a valid header name"),
        ({"url": "http://x/", "expect": {"a..b": 1}}, "path of keys"),
        ({"url": "http://x/", "method": "POST"}, "give a `check`"),
        ({"url": "http://x/", "body": "x"}, "is a probe"),
        ({"url": "http://x/", "check": {"url": "http://y/"}}, "is a probe"),
        ({"url": "http://x/", "method": "HEAD", "expect": {"a": 1}}, "no body"),
        ({"url": "http://x/", "method": "PUT", "check": {"url": "y"}}, "not an address"),
        ({"url": "http://x/", "method": "PUT", "check": {"url": "http://y/"}, "expect": {"a": 1}}, "in `check`"),
        ({"url": "http://x/", "method": "TRACE"}, "use one of"),
    ],
)
def test_a_mistake_is_refused(values, words):
    with pytest.raises(ConfigError, match=words):
        build(http.Args, values)


@every_row(
    ("path", "keys"),
    [
        ("a.b", ("a", "b")),
        ("a[0].b", ("a", "0", "b")),
        ("a.0.b", ("a", "0", "b")),
        ('peers["a.b"].x', ("peers", "a.b", "x")),
        ("[2]", ("2",)),
        ("['x y']", ("x y",)),
    ],
)
def test_a_path_of_keys_is_read(path, keys):
    assert keys_of(path) == keys


@given(st.text(max_size=20))
def test_any_path_is_read_or_refused(path):
    try:
        value_at({"a": [1, {"b": None}]}, path)
    except ValueError as error:
        assert str(error)


def test_a_list_is_counted_and_a_text_is_not():
    assert value_at({"a": [{"b": None}]}, "a[0].b") is None
    assert value_at({"a": "text"}, "a[0]") == Unknown(why="there is no 0 in a")
    assert value_at([1], "[1]") == Unknown(why="there is no 1")


def test_an_answer_that_is_none_is_a_fault():
    for done in (Completed(exit_code=None, timed_out=True), Completed(exit_code=2, stderr="no shell")):
        probe = http.probe(build(http.Args, {"url": "http://x/"}))
        next(probe)
        with pytest.raises(ProbeError):
            probe.send(done)


def test_the_lines_by_hand_show_no_secret():
    made = build(http.Args, {"url": "http://x/a b".replace(" ", "%20"), "headers": {"X-Token": "s3cret"}})
    assert http.by_hand(made) == ("curl -sS -H 'X-Token: ...' http://x/a%20b",)
