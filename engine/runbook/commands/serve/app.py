"""The application: one table of all routes, each with the scope that it needs."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Callable

from starlette.applications import Starlette
from starlette.middleware import Middleware

from runbook.commands.serve import api, pages
from runbook.commands.serve.access import Access, Scope
from runbook.commands.serve.desk import Desk
from runbook.commands.serve.metrics import Metrics
from runbook.commands.serve.routing import For, Route, WithHeaders, routes
from runbook.commands.serve.settings import ServeSettings
from runbook.commands.serve.site import Provider, Site
from runbook.commands.serve.streams import Streams, events, run_events
from runbook.records.private_folder import PrivateFolder


def access_by(settings: ServeSettings, clock: Callable[[], float] = time.monotonic) -> Access:
    """Return access by *settings*.  *clock*: seconds since any moment."""
    listens = ipaddress.ip_address(settings.host)
    own = f"[{listens}]" if listens.version == 6 else str(listens)
    names = settings.names if listens.is_unspecified else (*settings.names, own)
    return Access(settings.tokens, names, is_secure=settings.is_secure, session=settings.session, clock=clock)


def application(
    desk: Desk,
    access: Access,
    settings: ServeSettings,
    records: PrivateFolder,
    clock: Callable[[], float] = time.time,
    provider: Provider | None = None,
) -> Starlette:
    """Return the application.  *records*: the records of runs on this machine."""
    site = Site(desk=desk, access=access, settings=settings, records=records, clock=clock, provider=provider)
    made = Starlette(routes=routes(site, table(site), pages.error_page), middleware=[Middleware(WithHeaders)])
    made.router.redirect_slashes = False
    return made


def table(site: Site) -> tuple[Route, ...]:
    """Return all routes."""
    metrics = Metrics(site)
    return (*_for_programs(site, metrics), *_for_people(metrics), *_forms())


def _for_programs(site: Site, metrics: Metrics) -> tuple[Route, ...]:
    streams = Streams()
    of_metrics = Scope.PUBLIC if site.settings.public_metrics else Scope.VIEW
    gets = (
        ("/metrics", of_metrics, metrics.handler),
        ("/api/inbox", Scope.VIEW, api.inbox),
        ("/api/rules", Scope.VIEW, api.rules),
        ("/api/answers", Scope.VIEW, api.last_answers),
        ("/api/log", Scope.VIEW, api.log),
        ("/events", Scope.VIEW, events(streams)),
        ("/runs/{run}/events", Scope.VIEW, run_events(streams)),
    )
    posts = (
        ("/api/plans/{digest}/approve", Scope.APPROVE, api.approve),
        ("/api/plans/{digest}/reject", Scope.APPROVE, api.reject),
        ("/api/plans/{digest}/stop", Scope.RUN, api.stop),
        ("/api/rules/{rule}/ask", Scope.RUN, api.ask),
        ("/api/hosts/{host}/hold", Scope.RUN, api.hold),
        ("/api/hosts/{host}/release", Scope.RUN, api.release),
        ("/api/rules/{rule}/reset", Scope.ADMIN, api.reset),
    )
    return (
        Route(
            method="GET", path="/healthz", scope=Scope.PUBLIC, handler=api.healthz, whom=For.PROGRAMS, is_quick=True
        ),
        Route(
            method="POST", path="/hooks/alertmanager", scope=Scope.ALERT, handler=api.alertmanager(metrics),
            whom=For.PROGRAMS, largest=api.LARGEST_PAYLOAD,
        ),
        *(Route(method="GET", path=p, scope=scope, handler=make, whom=For.PROGRAMS) for p, scope, make in gets),
        *(Route(method="POST", path=p, scope=scope, handler=make, whom=For.PROGRAMS) for p, scope, make in posts),
    )  # fmt: skip


def _for_people(metrics: Metrics) -> tuple[Route, ...]:
    gets = (
        ("/", Scope.VIEW, pages.home(pages.Recent(), metrics)),
        ("/rules", Scope.VIEW, pages.rules),
        ("/hosts", Scope.VIEW, pages.hosts),
        ("/hosts/{host}", Scope.VIEW, pages.host),
        ("/plans/{digest}", Scope.VIEW, pages.plan),
        ("/runs", Scope.VIEW, pages.runs),
        ("/runs/{run}", Scope.VIEW, pages.run),
        ("/login", Scope.PUBLIC, pages.login_form),
        ("/login/provider", Scope.PUBLIC, pages.begin_login),
        ("/login/callback", Scope.PUBLIC, pages.end_login),
        ("/static/serve.css", Scope.PUBLIC, pages.static("serve.css")),
        ("/static/live.js", Scope.PUBLIC, pages.static("live.js")),
    )
    return tuple(Route(method="GET", path=p, scope=scope, handler=make, whom=For.PEOPLE) for p, scope, make in gets)


def _forms() -> tuple[Route, ...]:
    posts = (
        ("/plans/{digest}/approve", Scope.APPROVE, pages.form(pages.FORMS["approve"])),
        ("/plans/{digest}/reject", Scope.APPROVE, pages.form(pages.FORMS["reject"])),
        ("/plans/{digest}/stop", Scope.RUN, pages.form(pages.FORMS["stop"])),
        ("/rules/{rule}/ask", Scope.RUN, pages.form(pages.FORMS["ask"])),
        ("/rules/{rule}/reset", Scope.ADMIN, pages.form(pages.FORMS["reset"], "/rules")),
        ("/hosts/{host}/hold", Scope.RUN, pages.form(pages.FORMS["hold"])),
        ("/hosts/{host}/release", Scope.RUN, pages.form(pages.FORMS["release"])),
        ("/hold", Scope.RUN, pages.form(pages.FORMS["hold"])),
        ("/logout", Scope.PUBLIC, pages.log_out),
    )
    login = Route(
        method="POST", path="/login", scope=Scope.PUBLIC, handler=pages.log_in, whom=For.PEOPLE, is_login=True
    )
    return (
        login,
        *(Route(method="POST", path=p, scope=scope, handler=make, whom=For.PEOPLE) for p, scope, make in posts),
    )
