"""Send messages about what waits for a person, what a rule did, and what went wrong: to a webhook, Slack or by mail."""

from __future__ import annotations

import json
import queue
import smtplib
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import field
from email.message import EmailMessage

from runbook.commands.watch.event_store import Stored
from runbook.commands.watch.wording import answer_words, event_words
from runbook.dataclass import dataclass
from runbook.text.printable import on_one_line
from runbook.values.types import Json
from runbook.values.watch_rule import Rule
from runbook.watch.events import Answered, Approved, Ended, NotProposed, Proposed, Rejected, Tripped, WatchEvent

WITHIN = 10.0
"""Seconds that a receiver has to answer."""
TRIES = (0.0, 5.0, 30.0, 120.0)
"""Seconds before each try to send a message."""
MOST_WAITING = 1000
"""The messages that wait to be sent; of more, the oldest are dropped and counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Receiver:
    """Someone who gets messages; one of the first three is given."""

    name: str
    webhook: str = field(default="", repr=False)
    """The URL to which a message is posted as JSON."""
    slack: str = field(default="", repr=False)
    """The URL of an incoming webhook of Slack, or of what understands the same."""
    mail: str = ""
    """The address to which a mail is sent."""
    smtp: str = "localhost:25"
    sender: str = ""
    starttls: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message about one event; it never contains a secret, or what a host has printed beyond a finding."""

    kind: str
    at: float
    rule: str
    host: str
    text: str
    link: str = ""

    def tree(self) -> Json:
        """Return the message as JSON."""
        fields = ("kind", "at", "rule", "host", "text", "link")
        return {name: getattr(self, name) for name in fields}


def message_of(event: WatchEvent, url: str) -> Message | None:
    """Return the message about *event*; None if people need not hear of it.

    *url* is the address of the page.
    """
    rule, host, link = str(getattr(event, "rule", "")), str(getattr(event, "host", "")), ""
    match event:
        case Proposed():
            link = f"{url}/plans/{event.digest}"
            words = f"a plan for {host} waits for an approval ({event.risk}): {event.say}"
        case Approved() | Rejected() | Ended() | NotProposed() | Tripped():
            words = event_words(event)
        case Answered(decision="escalate"):
            words = f"{rule} {host}: {answer_words(event)}"
        case _:
            return None
    link = link or (f"{url}/hosts/{host}" if host and url else url)
    return Message(kind=event.kind, at=event.at, rule=rule, host=host, text=on_one_line(words, 1000), link=link)


class Messenger:
    """Sends messages in a thread of its own; a receiver that does not answer holds nothing else up."""

    def __init__(
        self,
        receivers: Mapping[str, Receiver],
        rules: Mapping[str, Rule],
        url: str,
        complain: Callable[[str], None],
        pause: Callable[[float], object] = time.sleep,
    ) -> None:
        self._receivers, self._rules, self._url = receivers, rules, url
        self._complain, self._pause = complain, pause
        self._waiting: dict[str, queue.Queue[Message]] = {}
        self.sent, self.failed = 0, 0
        for name in receivers:
            self._waiting[name] = queue.Queue(MOST_WAITING)
            threading.Thread(target=self._run, args=(name,), name=f"messages to {name}", daemon=True).start()

    def on(self, stored: Stored) -> None:
        """Hand the message about *stored*, if there is one, to the receivers of its rule; never waits."""
        message = message_of(stored.event, self._url)
        rule = self._rules.get(message.rule) if message else None
        if message is None or rule is None:
            return
        for name in rule.notify:
            if (waiting := self._waiting.get(name)) is None:
                continue
            try:
                waiting.put_nowait(message)
            except queue.Full:
                self.failed += 1

    def _run(self, name: str) -> None:
        receiver, waiting = self._receivers[name], self._waiting[name]
        while True:
            message = waiting.get()
            why = ""
            for wait in TRIES:
                if wait:
                    self._pause(wait)
                if not (why := _sent(receiver, message)):
                    break
            if why:
                self.failed += 1
                self._complain(f"a message to {name} could not be sent: {why}")  # never the URL, which is a secret
            else:
                self.sent += 1


def _sent(receiver: Receiver, message: Message) -> str:
    """Send *message*.  Returns the reason why that failed; empty if it did not."""
    try:
        if receiver.mail:
            _mail(receiver, message)
        elif receiver.slack:
            _post(receiver.slack, {"text": f"{_escaped(message.text)}\n{message.link}".strip()})
        else:
            _post(receiver.webhook, message.tree())
    except urllib.error.HTTPError as error:
        return f"it answered {error.code}"
    except Exception as error:  # a library's error may quote the URL, which is a secret
        return getattr(error, "strerror", None) or type(error).__name__
    return ""


def _escaped(text: str) -> str:
    """Return *text* so that Slack finds no mention and no link in it; a host may have printed a part of it."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: a message goes where the settings say, and nowhere else."""

    def redirect_request(self, *given: object) -> None:
        return None


def _post(url: str, tree: Json) -> None:
    request = urllib.request.Request(  # noqa: S310 - the settings permit http and https only
        url, data=json.dumps(tree).encode(), headers={"Content-Type": "application/json"}, method="POST"
    )
    with urllib.request.build_opener(_NoRedirect).open(request, timeout=WITHIN) as answer:
        answer.read(1024)


def _mail(receiver: Receiver, message: Message) -> None:
    made = EmailMessage()
    made["Subject"] = f"[runbook] {message.text[:120]}"
    made["From"], made["To"] = receiver.sender or receiver.mail, receiver.mail
    made.set_content(f"{message.text}\n\n{message.link}\n")
    host, _, port = receiver.smtp.rpartition(":")
    with smtplib.SMTP(host or receiver.smtp, int(port or 25), timeout=WITHIN) as server:
        if receiver.starttls:
            server.starttls(context=ssl.create_default_context())
        server.send_message(made)
