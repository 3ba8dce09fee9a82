"""Log people in by OpenID Connect: the code flow with PKCE, for browsers."""

from __future__ import annotations

import hmac
import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Any

import httpx2
from authlib.common.errors import AuthlibBaseError
from authlib.integrations.base_client import OAuthError
from authlib.integrations.httpx_client import OAuth2Client
from authlib.oidc.core import CodeIDToken
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from runbook.commands.serve.access import LADDER, Role
from runbook.commands.serve.settings import NAME, Oidc
from runbook.dataclass import dataclass

WITHIN = 10.0
"""Seconds that the provider has to answer."""
STARTED_LASTS = 600.0
"""Seconds that a person has to log in with the provider."""
MOST_STARTED = 1000
KEYS_LAST = 300.0
"""Seconds after which the provider's keys and addresses are read again."""
LEEWAY = 60
"""Seconds by which the clock of the provider may differ."""
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""The signatures that are believed; never `none`, and none with a shared secret."""
COOKIE = "runbook-login"


class LoginFailed(Exception):
    """The provider did not say who somebody is, or the person may do nothing here; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A login that a browser has begun."""

    url: str
    """The address of the provider to which the browser goes."""
    state: str
    """The content of the browser's cookie."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pending:
    nonce: str
    verifier: str
    until: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Provider:
    authorization: str
    token: str
    keys: KeySet
    read_at: float


class Provider:
    """A provider of OpenID Connect, found by its issuer's address."""

    def __init__(self, settings: Oidc, callback: str, clock: Callable[[], float] = time.monotonic) -> None:
        """*callback*: the address to which the provider sends browsers back."""
        self._settings, self._callback, self._clock = settings, callback, clock
        self._lock = Lock()
        self._pending: dict[str, _Pending] = {}
        self._provider: _Provider | None = None

    def start(self) -> Started:
        """Begin a login.  Raises LoginFailed if the provider cannot be reached."""
        provider = self._found()
        nonce, verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(48)
        with self._client() as client:
            url, state = client.create_authorization_url(provider.authorization, nonce=nonce, code_verifier=verifier)
        now = self._clock()
        with self._lock:
            self._pending = {key: each for key, each in self._pending.items() if each.until > now}
            while len(self._pending) >= MOST_STARTED:
                del self._pending[next(iter(self._pending))]
            self._pending[state] = _Pending(nonce=nonce, verifier=verifier, until=now + STARTED_LASTS)
        return Started(url=url, state=state)

    def end(self, query: Mapping[str, str], cookie: str) -> tuple[str, Role]:
        """Return who has logged in, and their role, from the *query* with which the browser came back.

        *cookie*: the state that this browser began with.  Each login ends once.  Raises LoginFailed.
        """
        state = query.get("state", "")
        with self._lock:
            pending = self._pending.pop(state, None)
        if pending is None or pending.until <= self._clock() or not hmac.compare_digest(state, cookie):
            raise LoginFailed("this login was not begun in this browser, or too long ago; begin again")
        if "error" in query or not query.get("code"):
            raise LoginFailed("the provider has refused the login")
        return self._person(self._claims(query["code"], pending))

    def _claims(self, code: str, pending: _Pending) -> Mapping[str, Any]:
        provider = self._found()
        try:
            with self._client() as client:
                token = client.fetch_token(provider.token, code=code, code_verifier=pending.verifier)
            signed = jwt.decode(token["id_token"], provider.keys, algorithms=list(ALGORITHMS))
            options = {
                "iss": {"essential": True, "value": self._settings.issuer},
                "aud": {"essential": True, "value": self._settings.client_id},
            }
            params = {"nonce": pending.nonce, "client_id": self._settings.client_id}
            claims = CodeIDToken(signed.claims, signed.header, options, params)
            claims.validate(leeway=LEEWAY)
        except (OAuthError, AuthlibBaseError, JoseError, KeyError, ValueError, TypeError, OSError) as error:
            raise LoginFailed(f"the provider's answer does not hold: {type(error).__name__}") from error
        except Exception as error:  # of the library below Authlib, whose errors have no common base with these
            raise LoginFailed(f"the provider cannot be asked: {type(error).__name__}") from error
        if not hmac.compare_digest(str(claims.get("nonce", "")), pending.nonce):
            raise LoginFailed("the provider's answer is not for this login")
        return dict(claims)

    def _person(self, claims: Mapping[str, Any]) -> tuple[str, Role]:
        name = claims.get(self._settings.name)
        if not isinstance(name, str) or not re.fullmatch(NAME, name):
            raise LoginFailed(f"the provider names nobody by `{self._settings.name}`")
        if self._settings.name == "email" and claims.get("email_verified") is not True:
            raise LoginFailed("the provider has not verified this address")
        groups = claims.get(self._settings.groups, ())
        role = role_of(groups if isinstance(groups, list) else [], self._settings.roles)
        if role is None:
            raise LoginFailed(f"{name} is in none of the groups that may do something here")
        return name, role

    def _found(self) -> _Provider:
        """Return the addresses and the keys of the provider.  Raises LoginFailed."""
        known = self._provider
        if known and self._clock() - known.read_at < KEYS_LAST:
            return known
        try:
            tree = _fetched(f"{self._settings.issuer.rstrip('/')}/.well-known/openid-configuration")
            if tree["issuer"] != self._settings.issuer:
                raise LoginFailed("the provider has another issuer than the settings say")
            keys = KeySet.import_key_set(_fetched(tree["jwks_uri"]))
            self._provider = _Provider(
                authorization=str(tree["authorization_endpoint"]), token=str(tree["token_endpoint"]), keys=keys,
                read_at=self._clock(),
            )  # fmt: skip
        except LoginFailed:
            raise
        except Exception as error:  # of three libraries, without a common base
            raise LoginFailed(f"the provider cannot be asked: {type(error).__name__}") from error
        return self._provider

    def _client(self) -> Any:
        return OAuth2Client(
            client_id=self._settings.client_id,
            client_secret=self._settings.client_secret or None,
            scope=" ".join(self._settings.scopes),
            redirect_uri=self._callback,
            code_challenge_method="S256",
            timeout=WITHIN,
            follow_redirects=False,
        )


def _fetched(url: str) -> Any:
    return httpx2.get(url, timeout=WITHIN, follow_redirects=False).raise_for_status().json()


def role_of(groups: Sequence[Any], roles: Mapping[str, Role]) -> Role | None:
    """Return the highest role that one of *groups* has in *roles*; None if none has any."""
    found = [roles[group] for group in groups if isinstance(group, str) and group in roles]
    return max(found, key=LADDER.index, default=None)
