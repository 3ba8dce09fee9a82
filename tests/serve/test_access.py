"""Every route against every role; tokens, sessions, origins and names of the host."""

from __future__ import annotations

import pytest

from runbook.commands.serve.access import FAILURES_WITHIN, LADDER, MOST_FAILURES, Role, Scope, new_token, token_digest
from runbook.commands.serve.app import table
from runbook.commands.serve.routing import For, Route, routes
from runbook.commands.serve.site import Site
from tests.serve.fake_desk import DIGEST, OWN, ROLES, Served, payload, proposed, served, tripped

EVERYBODY = (None, *Role)
READERS = frozenset(LADDER)
RUNNERS = READERS - {Role.VIEW}
APPROVERS = RUNNERS - {Role.RUN}
ADMINS = APPROVERS - {Role.APPROVE}
SENDERS = RUNNERS | {Role.ALERT}
ALL = frozenset(EVERYBODY)
HOST = {"json": {"host": "gpu-1", "for": "4h"}}
RUN = "20270115T080000Z-abcd"

PERMITTED = {
    "POST /hooks/alertmanager": (SENDERS, 202, {"json": payload("gpu-1")}),
    "GET /healthz": (ALL, 200, {}),
    "GET /metrics": (READERS, 200, {}),
    "GET /api/inbox": (READERS, 200, {}),
    "GET /api/rules": (READERS, 200, {}),
    "GET /api/answers": (READERS, 200, {}),
    "GET /api/log": (READERS, 200, {}),
    "GET /events": (READERS, 200, {}),
    "GET /runs/{run}/events": (READERS, 404, {}),
    "POST /api/plans/{digest}/approve": (APPROVERS, 200, {}),
    "POST /api/plans/{digest}/reject": (APPROVERS, 200, {}),
    "POST /api/plans/{digest}/stop": (RUNNERS, 200, {}),
    "POST /api/rules/{rule}/ask": (RUNNERS, 202, HOST),
    "POST /api/hosts/{host}/hold": (RUNNERS, 200, HOST),
    "POST /api/hosts/{host}/release": (RUNNERS, 409, {}),
    "POST /api/rules/{rule}/reset": (ADMINS, 200, {}),
    "GET /": (READERS, 200, {}),
    "GET /rules": (READERS, 200, {}),
    "GET /hosts": (READERS, 200, {}),
    "GET /hosts/{host}": (READERS, 200, {}),
    "GET /plans/{digest}": (READERS, 200, {}),
    "GET /runs": (READERS, 200, {}),
    "GET /runs/{run}": (READERS, 404, {}),
    "GET /login": (ALL, 200, {}),
    "GET /login/provider": (ALL, 404, {}),
    "GET /login/callback": (ALL, 404, {}),
    "GET /static/serve.css": (ALL, 200, {}),
    "GET /static/live.js": (ALL, 200, {}),
    "POST /login": (ALL, 303, {"data": {"token": ROLES[Role.VIEW]}, "headers": {"Origin": OWN}}),
    "POST /plans/{digest}/approve": (APPROVERS, 303, {}),
    "POST /plans/{digest}/reject": (APPROVERS, 303, {}),
    "POST /plans/{digest}/stop": (RUNNERS, 303, {}),
    "POST /rules/{rule}/ask": (RUNNERS, 303, HOST),
    "POST /rules/{rule}/reset": (ADMINS, 303, {}),
    "POST /hosts/{host}/hold": (RUNNERS, 303, HOST),
    "POST /hosts/{host}/release": (RUNNERS, 409, {}),
    "POST /hold": (RUNNERS, 303, HOST),
    "POST /logout": (ALL, 303, {}),
}
"""Who may call each route, the status of its answer for them, and what is sent."""


def ready(tmp_path, **keys) -> Served:
    made = served(tmp_path, **keys)
    made.desk.tell(proposed(), tripped())
    made.desk.closing = True  # streams end at once
    return made


def url(path: str) -> str:
    return path.format(digest=DIGEST, rule="gpu-held", host="gpu-1", run=RUN)


def routes_of(made: Served) -> tuple[Route, ...]:
    return table(
        Site(desk=made.desk, access=made.access, settings=made.settings, records=made.records, clock=made.clock)
    )


def expected(name: str, role: Role | None) -> int:
    who, status, _ = PERMITTED[name]
    if role in who:
        return status
    is_page = name.startswith("GET ") and not name.startswith(
        ("GET /api", "GET /events", "GET /metrics", "GET /runs/{run}/e")
    )
    return (303 if is_page else 401) if role is None else 403


def test_every_route_has_an_entry_in_the_table(tmp_path):
    made = ready(tmp_path)
    assert {f"{each.method} {each.path}" for each in routes_of(made)} == set(PERMITTED)
    assert len(made.app.routes) == len(PERMITTED)


def test_every_route_for_every_role(tmp_path):
    wrong = []
    common = ready(tmp_path / "common")
    for number, (name, role) in enumerate((name, role) for name in PERMITTED for role in EVERYBODY):
        method, path = name.split()
        changes = method == "POST" and role in PERMITTED[name][0]
        made = ready(tmp_path / str(number)) if changes else common
        answer = made.client(role).request(method, url(path), **PERMITTED[name][2])
        if answer.status_code != expected(name, role):
            wrong.append((name, str(role), answer.status_code, expected(name, role)))
        if answer.status_code == 303 and role is None and method == "GET":
            assert answer.headers["location"] == "/login"
    assert wrong == []


def test_a_refused_request_changes_nothing(tmp_path):
    made = ready(tmp_path)
    before = made.desk.events()
    for name, (who, _, sent) in PERMITTED.items():
        method, path = name.split()
        for role in EVERYBODY:
            if role not in who:
                made.client(role).request(method, url(path), **sent)
    assert made.desk.events() == before


def test_a_get_appends_nothing(tmp_path):
    made = ready(tmp_path)
    before = made.desk.events()
    for each in routes_of(made):
        if each.method == "GET":
            for method in ("GET", "HEAD"):
                made.client(Role.ADMIN).request(method, url(each.path))
    assert made.desk.events() == before
    assert made.desk.woken == 0


def test_no_post_is_reached_by_a_get(tmp_path):
    made = ready(tmp_path)
    only_post = {each.path for each in routes_of(made) if each.method == "POST"} - {"/login"}
    answers = {path: made.client(Role.ADMIN).get(url(path)).status_code for path in only_post}
    assert set(answers.values()) == {405}, answers


def test_a_route_without_a_scope_cannot_be_registered(tmp_path):
    made = ready(tmp_path)
    site = Site(desk=made.desk, access=made.access, settings=made.settings, records=made.records, clock=made.clock)

    def handler(site, call):
        raise AssertionError

    with pytest.raises(TypeError):
        Route(method="GET", path="/x", handler=handler, whom=For.PEOPLE)
    bare = Route(method="GET", path="/x", scope=None, handler=handler, whom=For.PEOPLE)
    with pytest.raises(TypeError, match="names no scope"):
        routes(site, [bare], handler)


@pytest.mark.parametrize(
    "header",
    [
        {"X-Forwarded-User": "admin"},
        {"X-Remote-User": "admin"},
        {"Remote-User": "admin"},
        {"X-Forwarded-For": "127.0.0.1"},
        {"Forwarded": "for=127.0.0.1"},
        {"Authorization": "Basic YWRtaW46YWRtaW4="},
        {"Authorization": ROLES[Role.ADMIN]},
        {"Authorization": f"Basic {ROLES[Role.ADMIN]}"},
        {"Authorization": "Bearer "},
        {"Authorization": "Bearer " + token_digest(ROLES[Role.ADMIN])},
        {"X-Api-Key": ROLES[Role.ADMIN]},
        {"Cookie": "runbook=admin"},
        {"Cookie": f"runbook={ROLES[Role.ADMIN]}"},
    ],
    ids=str,
)
def test_no_other_header_names_a_person(tmp_path, header):
    assert ready(tmp_path).client().get("/api/inbox", headers=header).status_code == 401


def test_a_token_in_the_address_counts_for_nothing(tmp_path):
    made = ready(tmp_path)
    assert made.client().get(f"/api/inbox?token={ROLES[Role.ADMIN]}").status_code == 401
    assert made.client().get(f"/api/inbox?access_token={ROLES[Role.ADMIN]}").status_code == 401


def test_a_bad_token_is_not_made_good_by_a_cookie(tmp_path):
    browser = ready(tmp_path).browser(Role.ADMIN)
    assert browser.get("/api/inbox").status_code == 200
    assert browser.get("/api/inbox", headers={"Authorization": "Bearer wrong"}).status_code == 401


def test_a_header_that_is_sent_twice_fits_nothing(tmp_path):
    made = ready(tmp_path)
    twice = [("Authorization", f"Bearer {ROLES[Role.VIEW]}"), ("Authorization", f"Bearer {ROLES[Role.ADMIN]}")]
    assert made.client().get("/api/inbox", headers=twice).status_code == 401


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": OWN}, 200),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Origin": "null", "Sec-Fetch-Site": "same-origin"}, 200),  # a form of a page with no-referrer
        ({"Origin": OWN, "Sec-Fetch-Site": "same-origin"}, 200),
        ({}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "http://localhost.evil.example"}, 403),
        ({"Origin": "http://localhost:81"}, 403),
        ({"Origin": "https://localhost"}, 403),
        ({"Origin": "http://evil@localhost"}, 403),
        ({"Origin": "localhost"}, 403),
        ({"Origin": "http://[localhost"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Origin": OWN}, 403),
        ({"Sec-Fetch-Site": "none"}, 403),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "http://evil.example"}, 403),
        ({"Referer": f"{OWN}/"}, 403),
    ],
    ids=str,
)
def test_a_post_by_cookie_must_come_from_a_page_of_ours(tmp_path, headers, status):
    made = ready(tmp_path)
    browser = made.browser(Role.APPROVE)
    assert browser.post(f"/api/plans/{DIGEST}/approve", headers=headers).status_code == status
    assert len(made.desk.events()) == (3 if status == 200 else 2)


def test_a_login_must_come_from_a_page_of_ours(tmp_path):
    client = ready(tmp_path).client()
    for headers in ({}, {"Origin": "http://evil.example"}, {"Authorization": "Bearer wrong"}):
        answer = client.post("/login", data={"token": ROLES[Role.ADMIN]}, headers=headers)
        assert answer.status_code == 403, headers
        assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:8420", 200),
        ("127.0.0.1:8420", 200),
        ("[::1]:8420", 200),
        ("runbook.example", 200),
        ("runbook.example:443", 200),
        ("evil.example", 421),
        ("localhost.evil.example", 421),
        ("runbook.example.evil.example", 421),
        ("evil.example:8420", 421),
        ("runbook.example@evil.example", 421),
        ("10.0.0.1", 421),
        ("", 421),
    ],
)
def test_a_foreign_name_of_the_host_is_refused(tmp_path, host, status):
    client = ready(tmp_path, names=("runbook.example",)).client(Role.ADMIN)
    for path in ("/api/inbox", "/healthz", "/static/live.js"):
        assert client.get(path, headers={"Host": host}).status_code == status


def test_the_cookie_is_out_of_reach(tmp_path):
    login = {"data": {"token": ROLES[Role.VIEW]}}
    plain = (
        ready(tmp_path / "1").client().post("/login", headers={"Origin": OWN}, **login).headers["set-cookie"].lower()
    )
    assert plain.startswith("runbook=")
    assert "httponly" in plain
    assert "samesite=strict" in plain
    assert "secure" not in plain
    made = ready(tmp_path / "2", behind_proxy=True)
    answer = made.client(base="https://localhost").post("/login", headers={"Origin": "https://localhost"}, **login)
    secure = answer.headers["set-cookie"].lower()
    assert secure.startswith("__host-runbook=")
    assert "; secure" in secure
    assert made.client().post("/login", headers={"Origin": OWN}, **login).status_code == 403


def test_a_session_ends_by_its_time_and_by_logging_out(tmp_path):
    made = ready(tmp_path, session=3600.0)
    browser, other = made.browser(Role.VIEW), made.browser(Role.VIEW)
    assert browser.get("/").status_code == 200
    kept = dict(browser.cookies)
    assert browser.post("/logout", headers={"Origin": OWN}).status_code == 303
    stolen = made.client()
    stolen.cookies.update(kept)
    assert stolen.get("/api/inbox").status_code == 401
    assert other.get("/api/inbox").status_code == 200
    made.clock.now += 3601
    assert other.get("/api/inbox").status_code == 401


def test_each_login_has_a_session_of_its_own_that_says_nothing(tmp_path):
    made = ready(tmp_path)
    ids = [made.browser(Role.VIEW).cookies["runbook"] for _ in range(3)]
    assert len(set(ids)) == 3
    assert all(len(each) >= 43 for each in ids)


def test_failed_logins_are_limited(tmp_path):
    made = ready(tmp_path)
    client = made.client()

    def log_in(token: str) -> int:
        return client.post("/login", data={"token": token}, headers={"Origin": OWN}).status_code

    assert [log_in(f"wrong{number}") for number in range(MOST_FAILURES)] == [401] * MOST_FAILURES
    assert log_in("wrong") == 429
    assert log_in(ROLES[Role.VIEW]) == 429
    assert client.get("/api/inbox", headers={"Authorization": "Bearer wrong"}).status_code == 429
    assert made.client(Role.ALERT).post("/hooks/alertmanager", json=payload()).status_code == 202
    made.clock.now += FAILURES_WITHIN + 1
    assert log_in(ROLES[Role.VIEW]) == 303


def test_an_answer_never_shows_a_token(tmp_path):
    made = ready(tmp_path)
    answer = made.client().post("/login", data={"token": "<script>guess"}, headers={"Origin": OWN})
    assert "guess" not in answer.text
    assert ROLES[Role.ADMIN] not in repr(made.settings)
    assert token_digest(ROLES[Role.ADMIN]) not in repr(made.settings)


def test_a_new_token_is_long_and_fits_its_digest():
    token, digest = new_token()
    assert token_digest(token) == digest
    assert len(token) > 40
    assert new_token()[0] != token


def test_every_scope_is_needed_by_a_route(tmp_path):
    assert {each.scope for each in routes_of(ready(tmp_path))} == set(Scope)


def test_every_answer_has_the_headers_of_safety(tmp_path):
    made = ready(tmp_path)
    for path in ("/", "/login", "/nowhere", "/api/inbox", "/static/live.js", "/metrics"):
        for role in (None, Role.ADMIN):
            headers = made.client(role).get(path).headers
            assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'")
            assert "unsafe" not in headers["content-security-policy"]
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "no-referrer"
            assert headers["cache-control"] == "no-store"
