"""The pages in a real browser: logging in, forms, what is live, and the policy for content."""

from __future__ import annotations

from contextlib import closing

import pytest

from runbook.commands.serve import pages, streams
from runbook.commands.serve.access import Role
from runbook.commands.serve.app import access_by, application
from runbook.commands.serve.oidc import Provider
from runbook.commands.serve.server import serving
from runbook.commands.serve.settings import Oidc, ServeSettings
from runbook.records.journal import Journal
from runbook.values.event import HostFinished, HostStarted, RunStarted, StepFinished, StepStarted
from runbook.values.playbook import Phase
from runbook.values.result import HostResult, Mode, Status, StepResult, Verdict
from runbook.watch.events import Approved, Rejected
from tests.serve.fake_desk import DIGEST, NOW, answered, proposed, served
from tests.serve.in_browser import HERE, clean, go, log_in, text
from tests.serve.oidc_provider import CLIENT, SECRET, OidcProvider
from tests.support.browser import Browser
from tests.support.forwarder import Forwarder
from tests.support.sample_runs import STEPS, finished, step
from tests.support.sshd import free_port
from tests.support.waiting import until

pytestmark = [pytest.mark.real("chromium", "bash"), pytest.mark.slow]

RUN = "20270115T080000Z-abcd"
AT = "2027-01-15T08:00:00.000Z"


def test_a_person_logs_in_and_approves_and_rejects(tmp_path, monkeypatch):
    made = served(tmp_path)
    monkeypatch.setattr(pages, "_text", lambda plan: ("$ kill 4711", ""))
    made.desk.tell(proposed(), proposed("e" * 64, host="gpu-2"))
    with serving(made.app, HERE) as server, Browser() as browser:
        base = f"http://127.0.0.1:{server.port}"
        log_in(browser, base, Role.APPROVE)
        until(lambda: "Plans that wait for a person (2)" in text(browser), "the plans")
        assert (
            browser.js("document.querySelectorAll('main form[action$=approve]').length") == 0
        )  # nobody has seen it yet
        browser.click(f"a.button[href='/plans/{DIGEST}']")
        until(lambda: "$ kill 4711" in text(browser), "the plan")
        browser.click(f"form[action='/plans/{DIGEST}/approve'] button")
        until(lambda: "(1 of 1)" in text(browser), "the approval")
        browser.click(f"a.button[href='/plans/{'e' * 64}']")
        until(
            lambda: browser.js(f"document.querySelector('form[action=\"/plans/{'e' * 64}/reject\"]') !== null"),
            "the plan",
        )
        browser.type(f"form[action='/plans/{'e' * 64}/reject'] input", "not now")
        browser.click(f"form[action='/plans/{'e' * 64}/reject'] button")
        until(lambda: "Plans that wait for a person (1)" in text(browser), "the refusal")
        assert [type(each) for each in made.desk.events()[2:]] == [Approved, Rejected]
        assert (made.desk.events()[-1].by, made.desk.events()[-1].why) == ("approve", "not now")
        assert browser.js("document.cookie") == ""
        clean(browser, base)
        browser.click(".who button")
        until(lambda: browser.js("location.pathname") == "/login", "the end of the session")
        made.desk.closing = True


def test_the_first_page_follows_the_events(tmp_path):
    made = served(tmp_path)
    with serving(made.app, HERE) as server, Browser() as browser:
        base = f"http://127.0.0.1:{server.port}"
        log_in(browser, base, Role.VIEW)
        until(lambda: "No plan waits." in text(browser), "the first page")
        with made.desk.lock:
            made.desk.tell(proposed(say="<b>kill 2</b>"), answered(at=NOW + 1))
        until(lambda: "Plans that wait for a person (1)" in text(browser), "the plan")
        assert "<b>kill 2</b>" in text(browser)
        clean(browser, base)
        made.desk.closing = True


def test_the_table_of_a_run_is_live(tmp_path):
    made = served(tmp_path)
    known = step(Phase.DIAGNOSE, "gpus", Status.OK)
    with (
        serving(made.app, HERE) as server,
        Browser(width=400) as browser,
        closing(Journal(made.records, RUN)) as journal,
    ):
        base = f"http://127.0.0.1:{server.port}"
        journal.on(RunStarted(at=AT, run=RUN, playbook="zombie-gpu", mode=Mode.RUN, hosts=("gpu-1", "gpu-2")))
        journal.on(StepFinished(at=AT, host="gpu-1", result=known))
        log_in(browser, base, Role.VIEW)
        go(browser, f"{base}/runs/{RUN}")
        until(lambda: "gpu-2" in text(browser), "the table")
        journal.on(HostStarted(at=AT, host="gpu-2"))
        journal.on(StepFinished(at=AT, host="gpu-2", result=step(Phase.DIAGNOSE, "gpus", Status.FAILED)))
        cells = "[...document.querySelectorAll('#matrix tbody tr')].map(row => [...row.cells].map(cell => cell.textContent))"
        until(lambda: browser.js(cells)[1:] == [["gpu-2", "started", "failed"]], "the step")
        assert browser.js("document.querySelectorAll('#matrix td')[3].dataset.is") == "failed"
        assert browser.js("document.documentElement.scrollWidth <= innerWidth")
        other = step(Phase.REMEDIATE, "stop", Status.CHANGED)
        journal.on(HostFinished(at=AT, result=HostResult(host="gpu-2", verdict=Verdict.RESOLVED, steps=(known, other))))
        until(lambda: browser.js(cells)[1:] == [["gpu-2", "resolved", "ok", "changed"]], "the new column")
        journal.on(finished(run=RUN))
        until(lambda: browser.js("document.getElementById('state').textContent") == "finished", "the end")
        clean(browser, base)
        made.desk.closing = True


IN_HASTE = "{ const wait = setTimeout; window.setTimeout = (act, span) => wait(act, span / 50); }"


def test_a_page_whose_stream_is_refused_asks_again_and_says_when_the_run_is_interrupted(tmp_path, monkeypatch):
    made = served(tmp_path)
    with (
        serving(made.app, HERE) as server,
        Browser() as browser,
        closing(Journal(made.records, RUN)) as journal,
    ):
        base = f"http://127.0.0.1:{server.port}"
        journal.on(RunStarted(at=AT, run=RUN, playbook="zombie-gpu", mode=Mode.RUN, hosts=("gpu-1",)))
        log_in(browser, base, Role.VIEW)
        browser.call("Page.addScriptToEvaluateOnNewDocument", source=IN_HASTE)
        with monkeypatch.context() as patched:
            patched.setattr(streams, "MOST_STREAMS", 0)
            go(browser, f"{base}/runs/{RUN}")
            until(lambda: "Not live now" in text(browser), "the refusal")
            journal.on(StepFinished(at=AT, host="gpu-1", result=step(Phase.DIAGNOSE, "gpus", Status.OK)))
        until(lambda: browser.js(MATRIX) == [["Host", "Verdict", "gpus"], ["gpu-1", "", "ok"]], "the step")
        until(lambda: browser.js("document.getElementById('notice').textContent") == "", "the end of the refusals")
        journal.close()
        until(lambda: browser.js("document.getElementById('state').textContent") == "interrupted", "the interruption")
        made.desk.closing = True


MANY = [f"gpu-{number:04}" for number in range(1000)]
MATRIX = "[...document.querySelectorAll('#matrix tr')].map(row => [...row.cells].map(cell => cell.textContent))"
STATUSES = (Status.OK, Status.SKIPPED, Status.CHANGED, Status.FAILED, Status.TIMEOUT, Status.BLOCKED)
LONG_TASKS = """
    window.tasks = [];
    new PerformanceObserver(list => list.getEntries().forEach(each => tasks.push(Math.round(each.duration))))
        .observe({type: "longtask", buffered: true});
"""


def status_of(host: int, place: int) -> Status:
    return STATUSES[(host * 7 + place * 5) % len(STATUSES)]


def results(host: int) -> list[StepResult]:
    """Return what is recorded of a host; every tenth has a step with two items, of which the first is worse."""
    found = [step(phase, name, status_of(host, place)) for place, (phase, name) in enumerate(STEPS)]
    if host % 10 == 3:
        phase, name = STEPS[5]
        found[5:6] = [step(phase, f"{name}[0]", Status.FAILED), step(phase, f"{name}[1]", Status.CHANGED)]
    return found


def shown(host: int) -> list[str]:
    """Return the row that the page has to show at the end."""
    cells = [str(status_of(host, place)) for place in range(len(STEPS))]
    if host % 10 == 3:
        cells[5] = "failed"
    return [MANY[host], "resolved", *cells]


def recorded(journal: Journal, hosts: range) -> None:
    for host in hosts:
        journal.on(HostStarted(at=AT, host=MANY[host]))
        found = results(host)
        for each in found:
            journal.on(StepStarted(at=AT, host=MANY[host], step=each.id, action="command"))
            journal.on(StepFinished(at=AT, host=MANY[host], result=each))
        again = tuple(found) if host % 10 == 3 else ()  # of the others, no later line hides one that was lost
        journal.on(HostFinished(at=AT, result=HostResult(host=MANY[host], verdict=Verdict.RESOLVED, steps=again)))


def test_a_run_of_a_thousand_hosts_has_no_gap_over_cut_connections(tmp_path):
    made = served(tmp_path)
    with (
        serving(made.app, HERE) as server,
        Forwarder(server.port) as line,
        Browser() as browser,
        closing(Journal(made.records, RUN)) as journal,
    ):
        base = f"http://127.0.0.1:{line.port}"
        # the last host is in no line but its own, and no step has a column yet
        journal.on(RunStarted(at=AT, run=RUN, playbook="zombie-gpu", mode=Mode.RUN, hosts=tuple(MANY[:-1])))
        log_in(browser, base, Role.VIEW)
        browser.call("Page.addScriptToEvaluateOnNewDocument", source=LONG_TASKS)
        go(browser, f"{base}/runs/{RUN}")
        browser.js("window.isTheSame = true")
        for first in range(0, 1000, 250):
            recorded(journal, range(first, first + 125))
            last = f"document.querySelectorAll('#matrix tbody tr')[{first + 10}].cells[13]?.textContent"
            until(lambda last=last: browser.js(last), "a part of the lines")
            line.cut()
            until(lambda: "Connection lost" in text(browser), "the page to notice")
            recorded(journal, range(first + 125, first + 250))
            line.accept_again()
        journal.on(finished(run=RUN))
        until(lambda: browser.js("document.getElementById('state').textContent") == "finished", "the end")
        expected = [["Host", "Verdict", *(name for _, name in STEPS)], *map(shown, range(1000))]
        assert browser.js(MATRIX) == expected
        assert browser.js("isTheSame") is True
        assert sum(f"/runs/{RUN}/events" in url for url in browser.asked_for()) >= 5
        until(lambda: browser.js("document.getElementById('totals').textContent") == "1000 resolved", "the totals")
        while_live = browser.js("tasks.sort((a, b) => a - b)")
        go(browser, f"{base}/runs/{RUN}")
        until(lambda: browser.js("window.isTheSame") is None, "the page as it is served")
        assert browser.js(MATRIX) == expected
        until(lambda: browser.js("document.readyState") == "complete", "the page")
        load = browser.js("Math.round(performance.getEntriesByType('navigation')[0].duration)")
        print(f"\nload: {load} ms; long tasks while it was live: {len(while_live)}, {while_live[-5:]} ms;", end=" ")
        print(f"of the whole page: {browser.js('tasks')} ms")
        made.desk.closing = True


def test_a_person_logs_in_with_the_account_of_the_organisation(tmp_path):
    """Mutants: a cookie of the login that browsers do not send with the way back from another site; one that is lax."""
    idp, port = OidcProvider(), free_port()
    base = f"http://localhost:{port}"  # another site than the provider's, which is at 127.0.0.1
    oidc = Oidc(issuer=idp.issuer, client_id=CLIENT, client_secret=SECRET, roles={"sre": Role.APPROVE})
    settings = ServeSettings(listen=f"127.0.0.1:{port}", oidc=oidc, url=base)
    made = served(tmp_path)
    made.desk.tell(proposed())
    provider = Provider(oidc, f"{base}/login/callback")
    app = application(made.desk, access_by(settings), settings, made.records, made.clock, provider)
    try:
        with serving(app, settings), Browser() as browser:
            go(browser, base)
            until(lambda: browser.js("location.pathname") == "/login", "the form")
            browser.click("a[href='/login/provider']")
            until(lambda: "alice@example.com (approve)" in text(browser), "the first page")
            assert browser.js("location.pathname") == "/"
            browser.call("Page.reload")
            until(lambda: "Plans that wait for a person (1)" in text(browser), "the first page again")
            assert [each for each in browser.complaints() if "favicon" not in each and "[DOM]" not in each] == []
            assert browser.js("document.cookie") == ""  # no script can read it
    finally:
        idp.close()
