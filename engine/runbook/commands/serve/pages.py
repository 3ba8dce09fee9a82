"""The routes for people: pages that work without JavaScript, and the forms on them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import HTMLResponse, RedirectResponse, Response

from runbook.commands.plans.document import parsed
from runbook.commands.plans.plan_file import read_plan
from runbook.commands.plans.saved_text import plan_text
from runbook.commands.serve import api
from runbook.commands.serve.access import Identity, Refusal, Scope, Token
from runbook.commands.serve.metrics import Metrics
from runbook.commands.serve.run_matrix import MOST_STEPS, Matrix, read_matrix
from runbook.commands.serve.site import Call, Refused, Site
from runbook.commands.serve.wire import answers, proposal_tree, rule_tree, waiting
from runbook.commands.watch.wording import answer_words, event_words
from runbook.dataclass import dataclass
from runbook.errors import ConfigError
from runbook.records.index import Index, RunQuery
from runbook.records.recorded_run import RunState
from runbook.text.printable import printable
from runbook.text.timestamps import utc
from runbook.values.types import seconds
from runbook.watch.events import Answered, Probed, Started, WatchEvent
from runbook.watch.memory import EVERY_HOST, PastRun, Proposal

HERE = Path(__file__).parent
DAY = 86400.0
MOST_ROWS = 200
"""The rows of a list on a page; of the others, their number is shown."""
MOST_RECENT = 500
"""The events of the last day that are kept for the first page."""
_TYPES = {"serve.css": "text/css", "live.js": "text/javascript"}


def _shown(value: Any) -> Any:
    """Return *value* as a template may write it: no control or invisible character of a text survives."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@lru_cache(1)
def _templates() -> Environment:
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"moment": utc, "lasts": seconds}
    made.globals["scopes"] = {str(scope): scope for scope in Scope}
    return made


def page(template: str, who: Identity, code: int = 200, **values: Any) -> Response:
    """Return the page that *template* makes of *values*."""
    return HTMLResponse(_templates().get_template(template).render(who=who, **values), code)


def error_page(site: Site, who: Identity, status: int, words: str) -> Response:
    """Return a page that says why a request is not served."""
    return page("error.html", who, status, status=status, words=words)


def static(name: str) -> Callable[[Site, Call], Response]:
    """Return the handler of the file *name*."""
    content = (HERE / "static" / name).read_bytes()
    return lambda site, call: Response(content, media_type=_TYPES[name])


class Recent:
    """The events of the last day that say something to people; each is read from the store once."""

    def __init__(self) -> None:
        self._events: deque[WatchEvent] = deque(maxlen=MOST_RECENT)
        self._last, self._lock = 0, Lock()

    def lines(self, site: Site) -> list[tuple[float, str]]:
        """Return the time and the words of each, the newest first.  Raises StoreError."""
        since = site.clock() - DAY
        with self._lock:
            with site.desk.lock:
                new = [*site.desk.known.store.since(self._last, at=since)]
            for stored in new:
                self._last = stored.number
                if not isinstance(stored.event, Answered | Probed | Started):
                    self._events.append(stored.event)
            found = [(event.at, event_words(event)) for event in reversed(self._events) if event.at >= since]
        return [(at, words) for at, words in found if words]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Running:
    """A plan that is being carried out."""

    host: str
    plan: PastRun
    record: str
    """The id of the run; empty: it is not on record yet."""


def home(recent: Recent, metrics: Metrics) -> Callable[[Site, Call], Response]:
    """Return the handler of the first page, which shows the alerts that *metrics* has counted as left out."""

    def handler(site: Site, call: Call) -> Response:
        desk, now = site.desk, site.clock()
        lines = recent.lines(site)
        with desk.lock:
            desk.known.catch_up()
            plans = [proposal_tree(desk, plan) for plan in waiting(desk, now)]
            silent = [_answer(each) for each in answers(desk) if each.decision in ("wait", "escalate")]
            at_work = [*_at_work(site, now)]
            holds = desk.known.remembered.holds(now)
            last = desk.known.last
        return page(
            "home.html", call.who, now=now, plans=plans, running=_with_records(site, at_work), lines=lines[:MOST_ROWS],
            silent=silent[:MOST_ROWS], more_silent=max(0, len(silent) - MOST_ROWS), holds=holds, last=last,
            health=desk.health(), hosts=_every_host(site), truncated=metrics.truncated,
        )  # fmt: skip

    return handler


def _answer(answer: Answered) -> dict[str, Any]:
    return {
        "rule": answer.rule,
        "host": answer.host,
        "question": answer.question,
        "why": answer.why,
        "until": answer.until,
        "is_for_people": answer.decision == "escalate",
    }


def _at_work(site: Site, now: float) -> Iterator[tuple[str, PastRun]]:
    """Yield each host on which a plan is being carried out, with the plan."""
    remembered = site.desk.known.remembered
    for rule, host in sorted(remembered.remembered_hosts()):
        for plan in remembered.host(rule, host).runs:
            if not plan.ended and plan.began > now - DAY:
                yield host, plan


def _with_records(site: Site, at_work: Sequence[tuple[str, PastRun]]) -> list[_Running]:
    """Return what is *at_work* with its record: a run that goes on, and has the host and the rule."""
    named: dict[tuple[str, str], str] = {}
    if at_work:
        with suppress(ConfigError), closing(Index(site.records)) as index:  # without a record, the page has no link
            for row in index.runs(RunQuery(limit=MOST_ROWS)):
                if row.state is RunState.RUNNING:
                    rule = row.reason.partition(",")[0]  # who approved the plan follows
                    named |= {(rule, host): row.run for host in index.unfinished(row.run, RunQuery())}
    return [_Running(host=host, plan=plan, record=named.get((f"rule {plan.rule}", host), "")) for host, plan in at_work]


def _every_host(site: Site) -> list[str]:
    return sorted({host for hosts in site.desk.hosts.values() for host in hosts})


def rules(site: Site, call: Call) -> Response:
    """Show the rules."""
    desk = site.desk
    with desk.lock:
        desk.known.catch_up()
        found = [{**rule_tree(desk, rule), "rule": rule} for rule in desk.known.rules.values()]
        last = desk.known.last
    return page("rules.html", call.who, rules=found, last=last)


def hosts(site: Site, call: Call) -> Response:
    """Show the hosts of all rules."""
    return page("hosts.html", call.who, hosts=_every_host(site))


def host(site: Site, call: Call) -> Response:
    """Show everything that is known of one host."""
    desk, name, now = site.desk, call.path["host"], site.clock()
    with desk.lock:
        desk.known.catch_up()
        remembered = desk.known.remembered
        named = {rule for rule, other in remembered.remembered_hosts() if other == name}
        named |= {rule for rule, names in desk.hosts.items() if name in names}
        if not named:
            raise Refused(404, f"no rule has a host {name!r}")
        parts = [
            {"rule": rule, "known": remembered.host(rule, name), "answer": _words(remembered.answer(rule, name))}
            for rule in sorted(named)
        ]
        holds = [each for each in remembered.holds(now) if each.host in (name, EVERY_HOST)]
        last = desk.known.last
    return page("host.html", call.who, host=name, rules=parts, holds=holds, now=now, last=last)


def _words(answer: Answered | None) -> str:
    return answer_words(answer) if answer else ""


def plan(site: Site, call: Call) -> Response:
    """Show the whole text of a plan that waits."""
    desk, digest, now = site.desk, call.path["digest"], site.clock()
    with desk.lock:
        desk.known.catch_up()
        found = desk.known.proposal(digest, now)
        shown = proposal_tree(desk, found)
    if found.digest != digest:
        raise Refused(404, "name the plan by its whole digest")
    text, fault = _text(found)
    return page("plan.html", call.who, plan=shown, text=text, fault=fault, now=now)


def _text(plan: Proposal) -> tuple[str, str]:
    """Return the text of the file of *plan*; or the reason why there is none to agree to."""
    try:
        content = read_plan(plan.file, trusted=True)
        if parsed(content, plan.file).digest != plan.digest:
            return "", "the file of this plan has another content than the plan that waits"
        return plan_text(plan.file, content), ""
    except ConfigError as error:
        return "", str(error)


def runs(site: Site, call: Call) -> Response:
    """Show the runs on this machine: those that go on, and the last ones."""
    with closing(Index(site.records)) as index:
        rows = index.runs(RunQuery(limit=MOST_ROWS))
    going = [row for row in rows if row.state is RunState.RUNNING]
    others = [row for row in rows if row.state is not RunState.RUNNING]
    return page("runs.html", call.who, groups=[("Running", going), ("Ended", others)])


def run(site: Site, call: Call) -> Response:
    """Show a run as a table of hosts and steps."""
    matrix = read_matrix(site.records, call.path["run"])
    goes_on = matrix.state is RunState.RUNNING
    return page("run.html", call.who, run=matrix, goes_on=goes_on, rows=_rows(matrix), most=MOST_STEPS)


def _rows(matrix: Matrix) -> list[tuple[str, str, list[str]]]:
    return [*matrix.rows()]


def login_form(site: Site, call: Call) -> Response:
    """Show the form that asks for a token."""
    return page("login.html", call.who, fault="", has_provider=site.provider is not None)


def log_in(site: Site, call: Call) -> Response:
    """Begin a session for the owner of the token in the body."""
    session = site.access.log_in(call.fields().get("token", "").strip(), call.address)
    if session is Refusal.TOO_MANY_FAILURES:
        return page("login.html", call.who, 429, fault=str(session), has_provider=site.provider is not None)
    if isinstance(session, Refusal):
        return page("login.html", call.who, 401, fault=str(session), has_provider=site.provider is not None)
    if call.who.session:
        site.access.log_out(call.who)
    answer = RedirectResponse("/", 303)
    answer.set_cookie(
        site.access.cookie, session, httponly=True, samesite="strict", secure=site.access.is_secure, path="/"
    )
    return answer


def begin_login(site: Site, call: Call) -> Response:
    """Send the browser to the provider."""
    from runbook.commands.serve.oidc import COOKIE, STARTED_LASTS, LoginFailed

    if site.provider is None:
        raise Refused(404, "the settings name no provider")
    try:
        started = site.provider.start()
    except LoginFailed as error:
        raise Refused(502, str(error)) from error
    answer = RedirectResponse(started.url, 303)
    answer.set_cookie(
        COOKIE, started.state, max_age=int(STARTED_LASTS), httponly=True, samesite="lax", secure=site.access.is_secure,
        path="/login",
    )  # fmt: skip
    return answer


def end_login(site: Site, call: Call) -> Response:
    """Begin a session for the person who comes back from the provider."""
    from runbook.commands.serve.oidc import COOKIE, LoginFailed

    if site.provider is None:
        raise Refused(404, "the settings name no provider")
    try:
        name, role = site.provider.end(call.query, call.cookies.get(COOKIE, ""))
    except LoginFailed as error:
        return page("login.html", call.who, 401, fault=str(error), has_provider=True)
    session = site.access.begin_session(Token(name=name, role=role, digest=""))
    answer = page("welcome.html", call.who)  # a redirect would come from the provider, and have no cookie
    answer.set_cookie(
        site.access.cookie, session, httponly=True, samesite="strict", secure=site.access.is_secure, path="/"
    )
    answer.delete_cookie(COOKIE, httponly=True, samesite="lax", secure=site.access.is_secure, path="/login")
    return answer


def log_out(site: Site, call: Call) -> Response:
    """End the session of the browser."""
    site.access.log_out(call.who)
    answer = RedirectResponse("/login", 303)
    answer.delete_cookie(site.access.cookie, httponly=True, samesite="strict", secure=site.access.is_secure, path="/")
    return answer


def form(act: Callable[[Site, Call], object], back: str = "/") -> Callable[[Site, Call], Response]:
    """Return the handler of a form that does *act*, and then shows the page *back*."""

    def handler(site: Site, call: Call) -> Response:
        act(site, call)
        return RedirectResponse(back, 303)

    return handler


FORMS: Mapping[str, Callable[[Site, Call], object]] = {
    "approve": api.approved,
    "reject": api.rejected,
    "ask": api.asked,
    "hold": api.held,
    "release": api.released,
    "reset": api.was_reset,
    "stop": api.stopped,
}
"""The effect of each form; that of the API is the same."""
