"""Messages of the watcher to real receivers on loopback: a web server, and a mail server."""

from __future__ import annotations

import json
import socketserver
import threading
from dataclasses import replace
from email import message_from_string, policy
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from runbook.commands.watch.event_store import Stored
from runbook.commands.watch.messages import Messenger, Receiver, message_of
from runbook.language.watch_rules import load_rule
from runbook.values.plan import Risk
from runbook.watch.events import Answered, Approved, Began, Ended, Proposed, Tripped
from tests.support.waiting import until

RULE = load_rule("name: toy\nplaybook: toy\nhosts: all\non: {alert: A}\nnotify: [ops]\n", "toy.yaml")
DIGEST = "ab" * 32
PROPOSED = Proposed(
    at=1.0, rule="toy", host="a1", episode="1", digest=DIGEST, file="/f", until=9.0, risk=Risk.REBOOTS, signature="s",
    say="it would\nreboot",
)  # fmt: skip


class Web:
    """A web server that answers each POST with the next code, and keeps what it was sent."""

    def __init__(self, *codes: int) -> None:
        self.bodies: list[dict] = []
        left = list(codes)
        bodies = self.bodies

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                code = left.pop(0) if left else 200
                if code == 200:
                    bodies.append(body)
                self.send_response(code)
                if code == 302:
                    self.send_header("Location", "/elsewhere")
                self.end_headers()

            do_GET = do_POST  # noqa: N815 - the name that the library asks for

            def log_message(self, *words: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/secret-part"


@pytest.fixture
def web():
    made: list[Web] = []

    def make(*codes: int) -> Web:
        made.append(Web(*codes))
        return made[-1]

    yield make
    for each in made:
        each.server.shutdown()
        each.server.server_close()


def messenger(receiver, complained, pauses=None):
    said = pauses if pauses is not None else []
    return Messenger({"ops": receiver}, {"toy": RULE}, "https://here", complained.append, said.append)


def test_a_proposal_is_sent_with_a_link_to_a_webhook_and_to_slack(web):
    hook, slack = web(), web()
    complained: list[str] = []
    for receiver in (Receiver(name="ops", webhook=hook.url), Receiver(name="ops", slack=slack.url)):
        messenger(receiver, complained).on(Stored(number=1, event=PROPOSED))
    until(lambda: hook.bodies and slack.bodies)
    text = "a plan for a1 waits for an approval (reboots): it would\\nreboot"
    assert hook.bodies == [
        {
            "kind": "proposed",
            "at": 1.0,
            "rule": "toy",
            "host": "a1",
            "text": text,
            "link": f"https://here/plans/{DIGEST}",
        }
    ]
    assert slack.bodies == [{"text": f"{text}\nhttps://here/plans/{DIGEST}"}]
    assert complained == []


def test_what_a_host_has_printed_is_no_mention_and_no_link_in_slack(web):
    """Mutant: a text that is sent as it is."""
    slack, complained = web(), []
    printed = replace(PROPOSED, say="<!channel> & <https://evil.example|approve here>")
    messenger(Receiver(name="ops", slack=slack.url), complained).on(Stored(number=1, event=printed))
    until(lambda: slack.bodies)
    (text,) = [body["text"] for body in slack.bodies]
    assert "&lt;!channel&gt; &amp; &lt;https://evil.example|approve here&gt;" in text
    assert not {"<", ">"} & set(text)


def test_a_receiver_that_fails_is_tried_again_and_then_complained_of_without_its_address(web):
    """Mutant: a complaint with the URL, which is a secret."""
    hook, complained, pauses = web(500, 503), [], []
    messenger(Receiver(name="ops", webhook=hook.url), complained, pauses).on(Stored(number=1, event=PROPOSED))
    until(lambda: hook.bodies)
    assert (pauses, complained) == ([5.0, 30.0], [])
    dead = web(302, 500, 404, 500)
    messenger(Receiver(name="ops", webhook=dead.url), complained).on(Stored(number=1, event=PROPOSED))
    until(lambda: complained)
    assert complained == ["a message to ops could not be sent: it answered 500"]
    assert dead.bodies == []


def test_a_mail_is_sent():
    received: list[str] = []

    class Smtp(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(b"220 here\r\n")
            while line := self.rfile.readline():
                word = line.split()[0].upper() if line.split() else b""
                if word == b"DATA":
                    self.wfile.write(b"354 go on\r\n")
                    lines = []
                    while (text := self.rfile.readline()) not in (b".\r\n", b""):
                        lines.append(text.decode())
                    received.append("".join(lines))
                self.wfile.write(b"221 bye\r\n" if word == b"QUIT" else b"250 good\r\n")
                if word == b"QUIT":
                    return

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Smtp) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        place = f"127.0.0.1:{server.server_address[1]}"
        complained: list[str] = []
        receiver = Receiver(name="ops", mail="ops@example.com", smtp=place, sender="runbook@example.com")
        messenger(receiver, complained).on(Stored(number=1, event=PROPOSED))
        until(lambda: received or complained)
        server.shutdown()
    assert complained == []
    assert "[runbook] a plan for a1 waits for an approval (reboots)" in received[0]
    text = message_from_string(received[0], policy=policy.default).get_content()
    assert f"https://here/plans/{DIGEST}" in text


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (Ended(at=1, rule="toy", host="a1", digest=DIGEST, run="r", verdict="resolved", cured=True, changed=True),
         "toy a1: run r ended: resolved"),
        (Tripped(at=1, rule="toy", why="5 hosts"), "toy: the breaker has tripped: 5 hosts"),
        (Answered(at=1, rule="toy", host="a1", episode="1", question="attempts", decision="escalate", why="3 runs"),
         "toy a1: not acted, a person has to look (attempts): 3 runs"),
        (Approved(at=1, rule="toy", host="a1", digest=DIGEST, by="bob"), "toy a1: bob approved plan abababab"),
        (Began(at=1, rule="toy", host="a1", episode="1", digest=DIGEST), None),
        (Answered(at=1, rule="toy", host="a1", episode="1", question="cooldown", decision="wait", why="soon"), None),
    ],
)  # fmt: skip
def test_people_hear_of_ends_breakers_and_what_waits_for_them(event, words):
    message = message_of(event, "https://here")
    assert (message.text if message else None) == words
    assert message is None or message.rule == "toy"
