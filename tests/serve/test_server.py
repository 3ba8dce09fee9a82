"""A real server: streams over real connections, and addresses that cannot be used."""

from __future__ import annotations

import http.client
import json
import socket
import threading

import pytest

from runbook.commands.serve import routing
from runbook.commands.serve.access import Role
from runbook.commands.serve.server import serving
from runbook.commands.serve.settings import ServeSettings, Tls
from runbook.errors import ConfigError
from tests.serve.fake_desk import NOW, ROLES, answered, payload, served
from tests.support.waiting import LIMIT, until

HERE = ServeSettings(listen="127.0.0.1:0")


def opened(
    port: int, path: str, role: Role = Role.VIEW, **headers: str
) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
    made = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT)
    made.request("GET", path, headers={"Authorization": f"Bearer {ROLES[role]}", **headers})
    return made, made.getresponse()


def read_numbers(answer: http.client.HTTPResponse, most: int) -> list[int]:
    found: list[int] = []
    while len(found) < most:
        line = answer.readline()
        assert line, "the stream has ended"
        if line.startswith(b"id: "):
            found.append(int(line[4:]))
    return found


class Counted:
    """A lock that counts who waits for it."""

    def __init__(self) -> None:
        self._lock, self.waiting = threading.RLock(), 0

    def __enter__(self) -> None:
        self.waiting += 1
        self._lock.acquire()
        self.waiting -= 1

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_health_is_told_while_every_thread_waits(tmp_path):
    """Mutant: a health that waits for a thread of those that wait for the watcher."""
    made = served(tmp_path)
    lock = made.desk.lock = Counted()
    with serving(made.app, HERE) as server:
        asked: list[http.client.HTTPConnection] = []
        with lock:
            for _ in range(45):
                asked.append(http.client.HTTPConnection("127.0.0.1", server.port, timeout=LIMIT))
                asked[-1].request("GET", "/api/rules", headers={"Authorization": f"Bearer {ROLES[Role.VIEW]}"})
            until(lambda: lock.waiting >= 40, "all threads")
            connection, answer = opened(server.port, "/healthz")
            assert (answer.status, json.loads(answer.read())) == (200, {"ok": True})
            connection.close()
        assert {each.getresponse().status for each in asked} == {200}
        for each in asked:
            each.close()


def test_a_stream_goes_on_after_its_connection_was_lost(tmp_path):
    made = served(tmp_path)
    made.desk.tell(*(answered(at=NOW + number) for number in range(3)))
    with serving(made.app, HERE) as server:
        connection, answer = opened(server.port, "/events")
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "no-store"
        assert read_numbers(answer, 3) == [1, 2, 3]
        with made.desk.lock:
            made.desk.tell(answered(at=NOW + 3))
        assert read_numbers(answer, 1) == [4]
        answer.close()
        connection.close()
        with made.desk.lock:
            made.desk.tell(answered(at=NOW + 4), answered(at=NOW + 5))
        connection, answer = opened(server.port, "/events", **{"Last-Event-ID": "4"})
        assert read_numbers(answer, 2) == [5, 6]
        made.desk.closing = True
        assert not [line for line in answer if line.startswith(b"id:")]
        answer.close()
        connection.close()


def test_the_server_ends_while_streams_are_open(tmp_path):
    made = served(tmp_path)
    made.desk.tell(answered())
    with serving(made.app, HERE) as server:
        connection, answer = opened(server.port, "/events")
        assert read_numbers(answer, 1) == [1]
        made.desk.closing = True
    assert not server.is_alive()
    answer.close()
    connection.close()


def test_the_webhook_answers_while_the_watcher_waits_for_nothing(tmp_path):
    made = served(tmp_path)
    with serving(made.app, HERE) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=LIMIT)
        body = json.dumps(payload("gpu-1", "gpu-2"))
        connection.request("POST", "/hooks/alertmanager", body, {"Authorization": f"Bearer {ROLES[Role.ALERT]}"})
        answer = connection.getresponse()
        assert (answer.status, json.loads(answer.read())["taken"]) == (202, 2)
        assert "server" not in {name.lower() for name in answer.headers}
        connection.close()


def test_a_name_in_a_header_of_a_proxy_is_not_believed(tmp_path):
    made = served(tmp_path)
    with serving(made.app, HERE) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=LIMIT)
        forged = {"Host": "evil.example", "X-Forwarded-Host": "localhost", "X-Forwarded-User": "admin"}
        connection.request("GET", "/healthz", headers=forged)
        assert connection.getresponse().status == 421
        connection.close()


def test_an_address_that_is_taken_is_a_mistake(tmp_path):
    made = served(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = f"127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(ConfigError, match="cannot listen on 127"), serving(made.app, ServeSettings(listen=taken)):
            pass


@pytest.mark.parametrize("cert", ["missing.pem", "bad.pem"])
def test_a_certificate_that_cannot_be_used_is_a_mistake(tmp_path, cert):
    made = served(tmp_path)
    (tmp_path / "bad.pem").write_text("no certificate")
    tls = Tls(cert=str(tmp_path / cert), key=str(tmp_path / cert))
    settings = ServeSettings(listen="127.0.0.1:0", tls=tls)
    with pytest.raises(ConfigError, match="cannot be used"), serving(made.app, settings):
        pass


def test_a_body_that_does_not_come_is_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(routing, "BODY_TIME", 0.05)
    made = served(tmp_path)
    with serving(made.app, HERE) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=LIMIT)
        connection.putrequest("POST", "/hooks/alertmanager")
        connection.putheader("Authorization", f"Bearer {ROLES[Role.ALERT]}")
        connection.putheader("Content-Length", "100")
        connection.endheaders(b"{")
        assert connection.getresponse().status == 408
        connection.close()
    assert made.desk.events() == []
