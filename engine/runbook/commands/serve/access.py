"""Decide who a request is from, and what that person or program may do: the only place that authorises."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from enum import StrEnum
from hashlib import sha256
from threading import Lock
from typing import Protocol, assert_never
from urllib.parse import urlsplit

from runbook.dataclass import dataclass

MOST_SESSIONS = 500
"""The sessions that are kept; the oldest one is ended for a new one."""
MOST_FAILURES = 10
"""The failed logins of one address within ``FAILURES_WITHIN``, after which no other is tried."""
FAILURES_WITHIN = 300.0
"""Seconds."""
MOST_ADDRESSES = 10_000
LONGEST_TOKEN = 512
LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")


class Scope(StrEnum):
    """The permission that a route needs."""

    PUBLIC = "public"
    """Nothing: everybody may call it."""
    ALERT = "alert"
    """Send alerts."""
    VIEW = "view"
    """Read everything."""
    RUN = "run"
    """Ask for a host to be looked at; hold and release hosts."""
    APPROVE = "approve"
    """Approve and reject plans."""
    ADMIN = "admin"
    """Reset a breaker."""


class Role(StrEnum):
    """The permissions of a token."""

    ALERT = "alert"
    VIEW = "view"
    RUN = "run"
    APPROVE = "approve"
    ADMIN = "admin"


LADDER = (Role.VIEW, Role.RUN, Role.APPROVE, Role.ADMIN)
"""The roles of which each includes the ones before it."""


def scopes(role: Role) -> frozenset[Scope]:
    """Return what *role* includes.

    A reader sends no alerts, as an alert makes the watcher probe; who may ask for a probe may send one.
    """
    match role:
        case Role.ALERT:
            return frozenset({Scope.PUBLIC, Scope.ALERT})
        case Role.VIEW:
            return frozenset({Scope.PUBLIC, Scope.VIEW})
        case Role.RUN:
            return frozenset({*scopes(Role.VIEW), Scope.ALERT, Scope.RUN})
        case Role.APPROVE:
            return frozenset({*scopes(Role.RUN), Scope.APPROVE})
        case Role.ADMIN:
            return frozenset({*scopes(Role.APPROVE), Scope.ADMIN})
    assert_never(role)


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token as the settings have it."""

    name: str
    """The person or program: their name in all that they do."""
    role: Role
    digest: str = field(repr=False)
    """The SHA-256 of the token, hexadecimal."""


def new_token() -> tuple[str, str]:
    """Return a new token of 256 random bits, and its digest for the settings."""
    made = f"rbk_{secrets.token_urlsafe(32)}"
    return made, token_digest(made)


def token_digest(token: str) -> str:
    """Return the SHA-256 of *token*, as the settings have it."""
    return sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The one behind a request."""

    name: str = ""
    """Empty: nobody is known."""
    role: Role | None = None
    session: str = field(default="", repr=False)
    """The id of a browser's session; empty: the request came with a token."""

    def may(self, scope: Scope) -> bool:
        """Whether this identity may use what needs *scope*."""
        return scope is Scope.PUBLIC or (self.role is not None and scope in scopes(self.role))


NOBODY = Identity()


class Refusal(StrEnum):
    """The reason why a request is not served."""

    WRONG_HOST = "the server is not called by that name; `names` in its settings lists those that are"
    WRONG_TOKEN = "the token is not known"  # noqa: S105 - a message
    NO_LOGIN = "a token is needed: log in, or send the header Authorization"
    NOT_PERMITTED = "the role of this token does not permit it"
    FOREIGN_ORIGIN = "the request does not come from a page of this server"
    TOO_MANY_FAILURES = "too many failed logins from this address; try again in five minutes"


class Asked(Protocol):
    """The parts of a request that count for access."""

    @property
    def method(self) -> str:
        """The method."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers, by their names in lower case."""
        ...

    @property
    def cookies(self) -> Mapping[str, str]:
        """The cookies."""
        ...

    @property
    def address(self) -> str:
        """The address of the other end of the connection."""
        ...


@dataclass(slots=True, kw_only=True)
class _Session:
    token: Token
    until: float


class Access:
    """The tokens, and the sessions of browsers."""

    def __init__(
        self,
        tokens: Iterable[Token],
        names: Iterable[str],
        *,
        is_secure: bool,
        session: float,
        clock: Callable[[], float],
    ) -> None:
        """Prepare access by *tokens*.

        *names*: the names and addresses by which the server may be called.  *is_secure*: browsers use TLS only.
        *session*: seconds for which a browser stays logged in.
        """
        self._tokens, self.is_secure, self._lasts, self._clock = tuple(tokens), is_secure, session, clock
        self._names = frozenset(name.lower() for name in (*names, *LOCAL_NAMES))
        self._lock = Lock()
        self._sessions: dict[str, _Session] = {}
        self._failures: dict[str, list[float]] = {}

    @property
    def cookie(self) -> str:
        """Return the name of the cookie; with TLS, browsers take one of that name from this very host only."""
        return "__Host-runbook" if self.is_secure else "runbook"

    def authorise(self, asked: Asked, scope: Scope, *, by_form: bool = False) -> Identity | Refusal:
        """Return who *asked*, if they may use what needs *scope*.

        *by_form*: the request carries a token in its body, and must come from a page of ours.
        """
        if not self._is_ours(asked.headers.get("host", "")):
            return Refusal.WRONG_HOST
        who = self._identify(asked)
        if isinstance(who, Refusal):
            if scope is not Scope.PUBLIC:
                return who
            who = NOBODY
        changes = asked.method not in ("GET", "HEAD")
        if changes and (who.session or by_form) and not self._is_from_us(asked.headers):
            return Refusal.FOREIGN_ORIGIN
        if who.may(scope):
            return who
        return Refusal.NOT_PERMITTED if who.name else Refusal.NO_LOGIN

    def log_in(self, token: str, address: str) -> str | Refusal:
        """Return the id of a new session for the owner of *token*."""
        if self._has_failed_often(address):
            return Refusal.TOO_MANY_FAILURES
        found = self._token(token)
        if found is None:
            self._note_failure(address)
            return Refusal.WRONG_TOKEN
        return self.begin_session(found)

    def begin_session(self, who: Token) -> str:
        """Return the id of a new session for *who*, whose identity is known."""
        made, now = secrets.token_urlsafe(32), self._clock()
        with self._lock:
            self._sessions = {key: each for key, each in self._sessions.items() if each.until > now}
            while len(self._sessions) >= MOST_SESSIONS:
                del self._sessions[next(iter(self._sessions))]
            self._sessions[_key(made)] = _Session(token=who, until=now + self._lasts)
        return made

    def log_out(self, who: Identity) -> None:
        """End the session of *who*."""
        with self._lock:
            self._sessions.pop(_key(who.session), None)

    def is_alive(self, who: Identity) -> bool:
        """Whether the session of *who* goes on; one with a token has no end."""
        return not who.session or self._session(who.session) is not None

    def _identify(self, asked: Asked) -> Identity | Refusal:
        """Return who *asked*, by the header Authorization, or by the cookie; no other header counts."""
        header = asked.headers.get("authorization")
        if header is not None:
            kind, _, token = header.partition(" ")
            found = self._token(token.strip()) if kind.lower() == "bearer" else None
            if found:
                return Identity(name=found.name, role=found.role)
            if self._has_failed_often(asked.address):
                return Refusal.TOO_MANY_FAILURES
            self._note_failure(asked.address)
            return Refusal.WRONG_TOKEN
        session = asked.cookies.get(self.cookie, "")
        known = self._session(session) if session else None
        return Identity(name=known.name, role=known.role, session=session) if known else NOBODY

    def _token(self, token: str) -> Token | None:
        """Return the settings' entry for *token*; all entries are compared, each in constant time."""
        if not token or len(token) > LONGEST_TOKEN:
            return None
        digest, found = token_digest(token), None
        for each in self._tokens:
            if hmac.compare_digest(each.digest, digest):
                found = each
        return found

    def _session(self, session: str) -> Token | None:
        with self._lock:
            known = self._sessions.get(_key(session))
            return known.token if known and known.until > self._clock() else None

    def _has_failed_often(self, address: str) -> bool:
        with self._lock:
            recent = self._recent(address)
            return len(recent) >= MOST_FAILURES

    def _note_failure(self, address: str) -> None:
        with self._lock:
            if len(self._failures) >= MOST_ADDRESSES:
                self._failures = {each: kept for each in self._failures if (kept := self._recent(each))}
            while len(self._failures) >= MOST_ADDRESSES:
                del self._failures[next(iter(self._failures))]
            self._failures[address] = [*self._recent(address), self._clock()]

    def _recent(self, address: str) -> list[float]:
        since = self._clock() - FAILURES_WITHIN
        return [at for at in self._failures.get(address, ()) if at > since]

    def _is_ours(self, host: str) -> bool:
        """Whether *host*, a header Host, is one of our names: a foreign name may have been bound to our address."""
        name, colon, port = host.rpartition(":")
        if not colon or not port.isdecimal():
            name = host
        return name.lower() in self._names or (name.startswith("[") and name[1:-1].lower() in self._names)

    def _is_from_us(self, headers: Mapping[str, str]) -> bool:
        """Whether a browser sent the request from a page of ours.

        With ``Referrer-Policy: no-referrer`` browsers send ``Origin: null`` with a form; Sec-Fetch-Site, which no page
        can set, decides then.
        """
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        if site is not None and site != "same-origin":
            return False
        if origin is None or origin == "null":
            return site == "same-origin"
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        scheme = "https" if self.is_secure else "http"
        return parts.scheme == scheme and parts.netloc.lower() == headers.get("host", "").lower()


def _key(session: str) -> str:
    """Return the name of *session* in memory, which is looked up by its digest: no comparison leaks the id."""
    return sha256(session.encode("utf-8", "surrogateescape")).hexdigest()
