"""Pass each request to its handler, once access to its route is granted."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route as StarletteRoute
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as AsgiScope

from runbook.commands.serve.access import Identity, Refusal, Scope
from runbook.commands.serve.site import Call, Refused, Site
from runbook.commands.watch.event_store import StoreError
from runbook.dataclass import dataclass
from runbook.errors import ConfigError

SMALL_BODY = 64 * 1024
BODY_TIME = 30.0
"""Seconds in which the body of a request must have come."""
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; form-action 'self'; "
        "frame-ancestors 'none'; base-uri 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
"""The headers of every answer."""
_STATUS = {
    Refusal.WRONG_HOST: 421,
    Refusal.WRONG_TOKEN: 401,
    Refusal.NO_LOGIN: 401,
    Refusal.NOT_PERMITTED: 403,
    Refusal.FOREIGN_ORIGIN: 403,
    Refusal.TOO_MANY_FAILURES: 429,
}
_log = logging.getLogger("runbook.serve")

Handler = Callable[[Site, Call], Response]
ErrorPage = Callable[[Site, Identity, int, str], Response]


class For(StrEnum):
    """The callers of a route; they decide the form of its errors."""

    PEOPLE = "people"
    PROGRAMS = "programs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A route; each names the scope that it needs."""

    method: str
    path: str
    scope: Scope
    handler: Handler
    whom: For
    largest: int = SMALL_BODY
    """The maximum number of bytes of a body."""
    is_login: bool = False
    """Whether the body has a token."""
    is_quick: bool = False
    """Whether the handler never waits for anything, so that it is also served while every thread waits."""


class _Asked:
    """A request of Starlette, as ``Access`` sees it."""

    def __init__(self, request: Request) -> None:
        self.method, self.cookies = request.method, request.cookies
        self.address = request.client.host if request.client else ""
        self.headers = single_headers(request)


def single_headers(request: Request) -> Mapping[str, str]:
    """Return the headers by their names in lower case; one that was sent twice is joined, and so fits nothing."""
    found: dict[str, str] = {}
    for name, value in request.headers.items():
        found[name.lower()] = f"{found[name.lower()]}, {value}" if name.lower() in found else value
    return found


def routes(site: Site, table: Iterable[Route], error_page: ErrorPage) -> list[StarletteRoute]:
    """Return the routes of *table* for Starlette.  Raises TypeError for one that names no scope."""
    made = []
    for route in table:
        if not isinstance(route.scope, Scope):
            raise TypeError(f"the route {route.method} {route.path} names no scope")
        made.append(StarletteRoute(route.path, _endpoint(site, route, error_page), methods=[route.method]))
    return made


def _endpoint(site: Site, route: Route, error_page: ErrorPage) -> Callable[[Request], Any]:
    async def endpoint(request: Request) -> Response:
        asked = _Asked(request)
        who = site.access.authorise(asked, route.scope, by_form=route.is_login)
        if isinstance(who, Refusal):
            return _refusal(site, route, who, error_page)
        try:
            call = Call(
                who=who,
                address=asked.address,
                path=dict(request.path_params),
                query=dict(request.query_params),
                headers=asked.headers,
                cookies=asked.cookies,
                body=await _body(request, route.largest) if route.method == "POST" else b"",
            )
            return route.handler(site, call) if route.is_quick else await run_in_threadpool(route.handler, site, call)
        except Exception as error:
            return _failure(site, route, who, error, error_page)

    return endpoint


def _refusal(site: Site, route: Route, why: Refusal, error_page: ErrorPage) -> Response:
    if why is Refusal.NO_LOGIN and route.whom is For.PEOPLE and route.method == "GET":
        return RedirectResponse("/login", 303)
    response = _error(site, route, Identity(), _STATUS[why], str(why), error_page)
    if response.status_code == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    if response.status_code == 429:
        response.headers["Retry-After"] = "300"
    return response


def _failure(site: Site, route: Route, who: Identity, error: Exception, error_page: ErrorPage) -> Response:
    match error:
        case Refused():
            response = _error(site, route, who, error.status, str(error), error_page)
            response.headers.update(error.headers)
            return response
        case ConfigError():
            status = 409 if route.method == "POST" else 404
            return _error(site, route, who, status, str(error), error_page)
        case StoreError():
            return _error(site, route, who, 503, str(error), error_page)
        case ClientDisconnect():
            return Response(status_code=400)
    _log.error("%s %s failed", route.method, route.path, exc_info=error)
    words = "an error of the server; its log says more"
    return _error(site, route, who, 500, words, error_page)


def _error(site: Site, route: Route, who: Identity, status: int, words: str, error_page: ErrorPage) -> Response:
    if route.whom is For.PEOPLE:
        return error_page(site, who, status, words)
    return JSONResponse({"error": words}, status)


async def _body(request: Request, largest: int) -> bytes:
    """Return the body of *request*.  Raises Refused if it is too large, or too slow."""
    too_large = Refused(413, f"the body has more than {largest} bytes", {"Connection": "close"})
    parts, size = [], 0
    try:
        async with asyncio.timeout(BODY_TIME):
            async for part in request.stream():
                size += len(part)
                if size > largest:
                    raise too_large
                parts.append(part)
    except TimeoutError as error:
        raise Refused(408, "the body did not come in time", {"Connection": "close"}) from error
    return b"".join(parts)


class WithHeaders:
    """Adds the headers of safety to every answer, also to those of Starlette itself."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Answer as the application does, with the headers."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        await self._app(scope, receive, sending)
