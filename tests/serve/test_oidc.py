"""Logins through a provider of OpenID Connect."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from joserfc.jwk import OctKey, RSAKey
from starlette.testclient import TestClient

from runbook.commands.serve.access import Role
from runbook.commands.serve.app import access_by, application
from runbook.commands.serve.oidc import Provider, role_of
from runbook.commands.serve.settings import Oidc, ServeSettings, load_settings
from runbook.errors import ConfigError
from tests.serve.fake_desk import OWN, served
from tests.serve.oidc_provider import CLIENT, SECRET, OidcProvider

ROLES = {"sre": Role.APPROVE, "everyone": Role.VIEW}


@pytest.fixture
def idp():
    made = OidcProvider()
    yield made
    made.close()


def browser_of(tmp_path, idp, **keys) -> TestClient:
    oidc = Oidc(issuer=idp.issuer, client_id=CLIENT, client_secret=SECRET, roles=ROLES, **keys)
    settings = ServeSettings(oidc=oidc, url=OWN)
    made = served(tmp_path)
    provider = Provider(oidc, f"{OWN}/login/callback")
    app = application(made.desk, access_by(settings), settings, made.records, made.clock, provider)
    return TestClient(app, base_url=OWN, follow_redirects=False)


def come_back(browser, idp) -> str:
    """Log in with the provider, and return the path with which the browser comes back."""
    began = browser.get("/login/provider")
    assert began.status_code == 303, began.text
    query = dict(pair.split("=", 1) for pair in urlsplit(began.headers["Location"]).query.split("&"))
    from urllib.parse import unquote

    back = urlsplit(idp.back({name: unquote(value.replace("+", " ")) for name, value in query.items()}))
    return f"{back.path}?{back.query}"


def test_a_person_logs_in_and_has_the_role_of_the_group(tmp_path, idp):
    browser = browser_of(tmp_path, idp)
    assert "Log in with your organisation" in browser.get("/login").text
    answer = browser.get(come_back(browser, idp))
    assert answer.status_code == 200
    assert 'url=/"' in answer.text
    assert "samesite=strict" in answer.headers["set-cookie"].lower()
    assert "alice@example.com (approve)" in browser.get("/").text
    (asked,) = idp.asked
    assert (asked["code_challenge_method"], asked["response_type"], asked["scope"]) == (
        "S256",
        "code",
        "openid email profile",
    )


def test_a_login_counts_once_and_in_the_browser_that_began_it(tmp_path, idp):
    """Mutants: a state that is not taken away; one that is not compared with the cookie."""
    browser = browser_of(tmp_path, idp)
    back = come_back(browser, idp)
    assert browser.get(back).status_code == 200
    assert browser.get(back).status_code == 401
    other = browser_of(tmp_path / "other", idp)
    stolen = come_back(browser, idp)
    assert other.get(stolen).status_code == 401
    browser.cookies.clear()
    assert browser.get(come_back_without_cookie(browser, idp)).status_code == 401


def come_back_without_cookie(browser, idp) -> str:
    back = come_back(browser, idp)
    browser.cookies.clear()
    return back


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda it: {**it, "aud": "another"}, "does not hold"),
        (lambda it: {**it, "iss": "http://127.0.0.1:1"}, "does not hold"),
        (lambda it: {**it, "exp": it["iat"] - 3600}, "does not hold"),
        (lambda it: {**it, "nonce": "another"}, "does not hold"),
        (lambda it: {name: value for name, value in it.items() if name != "nonce"}, "not hold"),
        (lambda it: {name: value for name, value in it.items() if name != "exp"}, "does not hold"),
        (lambda it: {**it, "email_verified": False}, "has not verified this address"),
        (lambda it: {**it, "email": "<script>"}, "names nobody"),
        (lambda it: {**it, "email": ["alice@example.com"]}, "names nobody"),
        (lambda it: {**it, "groups": ["others"]}, "in none of the groups"),
        (lambda it: {**it, "groups": "sre"}, "in none of the groups"),
    ],
)  # fmt: skip
def test_what_the_provider_gets_wrong_lets_nobody_in(tmp_path, idp, spoil, words):
    """Mutants: an ID token whose audience, issuer, time or nonce is not looked at."""
    idp.spoil = spoil
    browser = browser_of(tmp_path, idp)
    answer = browser.get(come_back(browser, idp))
    assert (answer.status_code, words in answer.text) == (401, True), answer.text
    assert browser.get("/").status_code == 303


def test_a_token_that_another_key_or_the_clients_secret_has_signed_is_not_believed(tmp_path, idp):
    """Mutant: HS256 among the algorithms."""
    browser = browser_of(tmp_path, idp)
    idp.signing_key = RSAKey.generate_key(2048, {"kid": "one"})
    assert browser.get(come_back(browser, idp)).status_code == 401
    idp.signing_key, idp.algorithm = OctKey.import_key(SECRET + SECRET), "HS256"
    assert browser.get(come_back(browser, idp)).status_code == 401


def test_a_provider_that_is_away_is_said(tmp_path, idp):
    browser = browser_of(tmp_path, idp)
    idp.close()
    answer = browser.get("/login/provider")
    assert (answer.status_code, "the provider cannot be asked" in answer.text) == (502, True)


def test_the_highest_role_counts():
    assert role_of(["everyone", "sre", 5], ROLES) is Role.APPROVE
    assert role_of(["everyone"], ROLES) is Role.VIEW
    assert role_of([], ROLES) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("url: https://x\noidc: {issuer: 'http://idp.example.com', client_id: a, roles: {g: view}}\n", "only https://"),
        ("url: https://x\noidc: {issuer: 'https://idp', client_id: a, roles: {}}\n", "nobody could log in"),
        (
            "url: https://x\noidc: {issuer: 'https://idp', client_id: a, roles: {g: root}}\n",
            "is not allowed; use one of: view, run",
        ),
        ("oidc: {issuer: 'https://idp', client_id: a, roles: {g: view}}\n", "sends browsers back to `url`"),
        ("url: https://x\noidc: {issuer: 'https://idp', roles: {g: view}}\n", "client_id"),
    ],
)
def test_mistakes_in_the_settings(text, words):
    with pytest.raises(ConfigError) as caught:
        load_settings(text, "serve.yaml")
    assert words in str(caught.value)
