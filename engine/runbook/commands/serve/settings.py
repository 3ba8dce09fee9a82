"""The settings of ``runbook serve``: ``serve.yaml``, every mistake at once, each with its place."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from runbook.commands.serve.access import LADDER, Role, Token
from runbook.commands.watch.messages import Receiver
from runbook.dataclass import dataclass
from runbook.errors import ConfigError, Problem
from runbook.foreign_files import MOVE_IT, refuse_foreign
from runbook.language import lenient_read
from runbook.language.keys import FLAG, QUANTITY, TEXT, TEXTS, Key, Schema, exactly, fields_of, schema_of, table
from runbook.language.playbook_schema import problems_in
from runbook.language.sections.placed_values import Entry, PlacedValues, duration_of, value_of
from runbook.language.yaml_source import Document, parse_playbook
from runbook.text_files import read_text
from runbook.values.units import time_span

LISTEN = "127.0.0.1:8420"
"""The address without a setting."""
SESSION = 8 * 3600.0
"""Seconds after which a browser has to log in again."""
MOST_TOKENS = 200
_ADDRESS = re.compile(r"(?:\[([0-9a-fA-F:.]+)\]|([0-9.]+)|(localhost)):([0-9]{1,5})")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
NAME = r"^[A-Za-z0-9]([A-Za-z0-9._@-]{0,62}[A-Za-z0-9])?$"
_ROLES = [str(each) for each in (Role.ALERT, *LADDER)]
_TOKEN: Schema = exactly(
    {
        "name": {"type": "string", "pattern": NAME},
        "role": {"enum": [*_ROLES]},
        "digest": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
    },
    ("name", "role", "digest"),
)


_RECEIVER: dict[str, Any] = dict(
    exactly({**dict.fromkeys(("webhook", "slack", "mail", "smtp", "sender"), TEXT), "starttls": FLAG})
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """The files of a certificate and its key (PEM)."""

    cert: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Oidc:
    """A provider of OpenID Connect, and the roles of its groups."""

    issuer: str
    client_id: str
    client_secret: str = field(default="", repr=False)
    name: str = "email"
    """The claim that names the person."""
    groups: str = "groups"
    """The claim with the groups of the person."""
    scopes: tuple[str, ...] = ("openid", "email", "profile")
    roles: Mapping[str, Role] = field(default_factory=dict)
    """The role of each group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeSettings:
    """The settings of the server."""

    listen: str = LISTEN
    names: tuple[str, ...] = ()
    """The names and addresses by which browsers and programs may call the server, without a port."""
    tokens: tuple[Token, ...] = ()
    tls: Tls | None = None
    behind_proxy: bool = False
    """Whether a proxy on this machine ends TLS."""
    session: float = SESSION
    public_metrics: bool = False
    url: str = ""
    """The address of the page in messages; empty: that of ``listen``."""
    oidc: Oidc | None = None
    """The provider that says who people are; None: they have tokens."""
    receivers: tuple[Receiver, ...] = ()
    """The receivers of messages."""

    @property
    def host(self) -> str:
        """Return the address to listen on, without brackets."""
        found = _ADDRESS.fullmatch(self.listen)
        assert found
        return found[1] or found[2] or "127.0.0.1"

    @property
    def port(self) -> int:
        """Return the port to listen on."""
        return int(self.listen.rpartition(":")[2])

    @property
    def is_secure(self) -> bool:
        """Whether browsers reach the server by TLS only."""
        return self.tls is not None or self.behind_proxy


def _tls(entry: Entry, key: str) -> Tls | None:
    tree = lenient_read.mapping(entry.tree.get(key))
    cert, secret = lenient_read.text(tree.get("cert")), lenient_read.text(tree.get("key"))
    return Tls(cert=cert, key=secret) if cert and secret else None


def _tokens(entry: Entry, key: str) -> tuple[Token, ...]:
    made: list[Token] = []
    listed = entry.tree.get(key)
    for number, each in enumerate(listed if isinstance(listed, list) else ()):
        tree = lenient_read.mapping(each)
        name, role, digest = (lenient_read.text(tree.get(word)) for word in ("name", "role", "digest"))
        if role not in _ROLES:
            continue
        for word, value in (("name", name), ("digest", digest)):
            if any(getattr(other, word) == value for other in made):
                entry.values.wrong((key, number, word), f"two tokens have the same {word}")
        made.append(Token(name=name, role=Role(role), digest=digest))
    return tuple(made)


def _receivers(entry: Entry, key: str) -> tuple[Receiver, ...]:
    made: list[Receiver] = []
    for name, tree in lenient_read.mapping(entry.tree.get(key)).items():
        given = {word: text for word, text in lenient_read.mapping(tree).items() if word in _RECEIVER["properties"]}
        if [word in given for word in ("webhook", "slack", "mail")].count(True) != 1:
            entry.values.wrong((key, name), f"{name}: one of webhook, slack and mail is needed")
            continue
        for word in ("webhook", "slack"):
            if not str(given.get(word, "https://")).startswith(("https://", "http://")):
                entry.values.wrong((key, name, word), f"{word}: a URL begins with https:// or http://")
        made.append(Receiver(name=name, **given))
    return tuple(made)


def _oidc(entry: Entry, key: str) -> Oidc | None:
    tree = lenient_read.mapping(entry.tree.get(key))
    roles = {group: Role(role) for group, role in lenient_read.mapping(tree.get("roles")).items() if role in LADDER}
    texts = {word: tree[word] for word in ("issuer", "client_id", "client_secret", "name", "groups") if word in tree}
    if "issuer" not in texts or "client_id" not in texts or not all(isinstance(each, str) for each in texts.values()):
        return None
    if not re.match(r"https://|http://(127\.0\.0\.1|localhost|\[::1\])[:/]", texts["issuer"]):
        entry.values.wrong((key, "issuer"), "issuer: only https:// can be believed")
    if not roles:
        entry.values.wrong((key,), "oidc: no group has a role, so that nobody could log in", "roles: {sre: approve}")
    scopes = tuple(lenient_read.ids(tree.get("scopes"))) or Oidc(issuer="", client_id="").scopes
    return Oidc(**texts, scopes=scopes, roles=roles)


def _listen(entry: Entry, key: str) -> str:
    text = lenient_read.text(entry.tree.get(key)) or LISTEN
    found = _ADDRESS.fullmatch(text)
    if not found or not 0 < int(found[4]) < 65536 or not _is_address(found[1] or found[2] or "127.0.0.1"):
        entry.values.wrong((key,), f"listen: {text!r} is no address with a port", f"listen: {LISTEN}")
        return LISTEN
    return text


def _names(entry: Entry, key: str) -> tuple[str, ...]:
    listed = entry.tree.get(key)
    made = tuple(lenient_read.ids(listed))
    for number, name in enumerate(made):
        if not _is_address(name) and not _HOST.fullmatch(name):
            path = (key, number) if isinstance(listed, list) else (key,)
            entry.values.wrong(path, f"names: {name!r} is no name of a host, and no address", "without a port")
    return made


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


SETTINGS: Mapping[str, Key] = table(
    Key(name="listen", about="The address and the port to listen on.", schema=TEXT, read=_listen),
    Key(
        name="names",
        about="The names and addresses by which the server may be called; localhost always is one.",
        schema=TEXTS,
        read=_names,
    ),
    Key(
        name="tokens",
        about="Who may do what: a name, a role, and the SHA-256 of a token (never the token).",
        schema={"type": "array", "items": _TOKEN, "maxItems": MOST_TOKENS},
        read=_tokens,
    ),
    Key(
        name="tls",
        about="The files of the certificate and of its key (PEM), absolute or beside this file.",
        schema=exactly({"cert": TEXT, "key": TEXT}, ("cert", "key")),
        read=_tls,
    ),
    Key(
        name="behind_proxy",
        about="A proxy ends TLS, and passes the header Host on; no other header of it is believed.",
        schema=FLAG,
        read=value_of(lenient_read.flag),
    ),
    Key(
        name="session",
        about="After this time a browser has to log in again.",
        schema=QUANTITY,
        read=duration_of(time_span, SESSION),
    ),
    Key(
        name="oidc",
        about="A provider of OpenID Connect: `issuer`, `client_id`, `client_secret`, and the role of each group.",
        schema=exactly(
            {
                **dict.fromkeys(("issuer", "client_id", "client_secret", "name", "groups"), TEXT),
                "scopes": TEXTS,
                "roles": {"type": "object", "additionalProperties": {"enum": [str(each) for each in LADDER]}},
            },
            ("issuer", "client_id", "roles"),
        ),
        read=_oidc,
    ),
    Key(
        name="url",
        about="The address of the page, for the links in messages, such as https://runbook.example.com.",
        schema={"type": "string", "pattern": "^https?://[^/?#]+$"},
        read=value_of(lenient_read.text),
    ),
    Key(
        name="notify",
        about="Receivers of messages by their names in rules: each with `webhook`, `slack` or `mail`.",
        schema={"type": "object", "additionalProperties": _RECEIVER},
        read=_receivers,
        field="receivers",
    ),
    Key(
        name="public_metrics",
        about="Everybody on this machine may read /metrics; on a loopback address only, and behind no proxy.",
        schema=FLAG,
        read=value_of(lenient_read.flag),
    ),
)
"""The keys of ``serve.yaml``; the order is that of the documentation."""


def settings_schema() -> Mapping[str, Any]:
    """Return the JSON Schema of ``serve.yaml``."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema_of(SETTINGS)}


def read_settings(path: Path) -> ServeSettings:
    """Return the settings in *path*.  Raises ConfigError with every mistake; if others could read or write it."""
    made = load_settings(read_text(_private(path)), str(path))
    if made.tls is None:
        return made
    folder = path.absolute().parent
    key = _private(folder / made.tls.key)
    cert = refuse_foreign(folder / made.tls.cert, MOVE_IT)
    return replace(made, tls=Tls(cert=str(cert), key=str(key)))


def load_settings(text: str, file: str) -> ServeSettings:
    """Return the settings in *text*.  Raises ConfigError with every mistake in it, sorted by place."""
    document = parse_playbook(text, file)
    if not isinstance(document.value, Mapping):
        raise ConfigError(Problem(file=file, line=1, column=1, message="the settings are a mapping, with `listen:`"))
    problems = [_without_values(each) for each in problems_in(document, settings_schema())]
    fields = fields_of(SETTINGS, Entry(document.value, (), PlacedValues(document, problems)))
    if problems:
        raise ConfigError(*sorted(set(problems)))
    made = ServeSettings(**fields)
    if unsafe := [*_unsafe(made, document)]:
        raise ConfigError(*sorted(unsafe))
    return made


def _without_values(problem: Problem) -> Problem:
    """Return *problem* without what the file says there, which may be a secret."""
    if "unknown key" in problem.message or "is missing" in problem.message:
        return problem
    return replace(problem, message=re.sub(r"'[^']*'|\bgot .*", "...", problem.message))


def listening_on(made: ServeSettings, address: str) -> ServeSettings:
    """Return *made* with another address to listen on.  Raises ConfigError if it is none, or lets others look in."""
    document, problems = Document({"listen": address}, "--listen", {}), list[Problem]()
    changed = replace(made, listen=_listen(Entry(document.value, (), PlacedValues(document, problems)), "listen"))
    if problems := [*problems, *_unsafe(changed, document)]:
        raise ConfigError(*(Problem(message=each.message, hint=each.hint) for each in problems))
    return changed


def _unsafe(made: ServeSettings, document: Document) -> Iterable[Problem]:
    """Yield the settings that would let others listen or look in."""
    is_loopback = ipaddress.ip_address(made.host).is_loopback
    if not is_loopback and not made.is_secure:
        words = f"listen: {made.listen} is reached from other machines, and tokens would be sent in the clear"
        yield document.problem(("listen",), words, "add tls: {cert: FILE, key: FILE}, or behind_proxy: true")
    if not is_loopback and not made.tokens and not made.oidc:
        words = f"listen: {made.listen} is reached from other machines, and there are no tokens"
        yield document.problem(("listen",), words, "add tokens, or listen on 127.0.0.1")
    if made.oidc and not made.url:
        words = "oidc: the provider sends browsers back to `url`, and there is none"
        yield document.problem(("oidc",), words, "url: https://runbook.example.com")
    if made.tls and made.behind_proxy:
        words = "behind_proxy: the server ends TLS itself; leave one of `tls` and `behind_proxy` out"
        yield document.problem(("behind_proxy",), words)
    if made.public_metrics and (not is_loopback or made.behind_proxy):
        words = "public_metrics: other machines could read them"
        yield document.problem(("public_metrics",), words, "give Prometheus a token with `role: view`")


def _private(path: Path) -> Path:
    """Return *path*.  Raises ConfigError if another user can read, write or exchange it."""
    refuse_foreign(path, MOVE_IT)
    if os.stat(path).st_mode & 0o077:
        raise ConfigError(Problem(file=str(path), message="other users can read it", hint=f"chmod 600 {path}"))
    return path
