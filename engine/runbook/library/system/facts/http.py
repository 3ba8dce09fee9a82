"""Send HTTP requests from a host and read the responses; nothing secret appears in a list of processes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from math import ceil
from urllib.parse import urlsplit

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.shell import script
from runbook.text.host_json import finite
from runbook.values.command import Command, Completed, Effect
from runbook.values.types import Json, Unknown, seconds

ASK = script(__package__, "http_request")
"""The body goes to stdout, everything else to stderr.  GNU wget reads the address from stdin; busybox's cannot, so that
an address with a query in it, which may be a secret, is not given to it."""

SEND = script(__package__, "http_send")
"""The answer to a change may hold secrets (a new token): its body stays on the host, but
for the first words of an error.
"""


_NOBODY = frozenset({5, 6, 7, 28, 35, 51, 52, 55, 56, 58, 59, 60, 83, 92, 95, 96, 97})
"""Exit codes of curl (its manual, EXIT CODES) for a server that did not answer, or gave no trustworthy answer."""

_NOTHING_SENT = frozenset({5, 6, 7, 35, 51, 58, 59, 60})


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """One request."""

    url: str
    method: str = "GET"
    headers: Mapping[str, Json]
    body: Json = None
    """The body: a text is sent as it is, other values as JSON; None: no body."""
    at_most: float = 10.0
    max_size: int = 1 << 20

    @property
    def plain(self) -> bool:
        """Whether it says nothing but its address, so that any program may send it."""
        return self.method == "GET" and not self.headers and self.body is None


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpResponse:
    """The answer of the server."""

    tool: str
    reachable: bool
    why: str = ""
    """The reason why no answer came, or only a part of it."""
    status: int | Unknown
    body: str = ""
    whole: bool = True
    seconds: float | Unknown
    location: str = ""
    """Where it would send us on to."""


def objection_to_url(url: str) -> str:
    """Return the reason why *url* is refused; empty: it may be asked."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        return f"{url!r} is not an address: {error}"
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return f"{url!r} is not an address: write http:// or https:// and a host"
    if "@" in parts.netloc:
        return "a user or password in the address would appear in logs: use `headers`"
    if re.search(r"[\s\x00-\x1f\x7f\\]", url):
        return f"{url!r} has a character that is not allowed in an address: write %20 for a space"
    return ""


def objection_to_headers(headers: Mapping[str, Json]) -> str:
    """Return the reason why *headers* are refused; empty: they may be sent."""
    for name, value in headers.items():
        if not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", name):
            return f"{name!r} is not a valid header name"
        if not isinstance(value, str | int | float) or isinstance(value, bool) or re.search(r"[\r\n\x00]", str(value)):
            return f"header {name}: the value must be one line of text"
    return ""


def ask(request: HttpRequest) -> Command:
    """A request that only reads."""
    argv = (str(request.max_size + 1), "plain" if request.plain else "", str(ceil(request.at_most)))
    return Command(
        script=ASK,
        argv=argv,
        effect=Effect.READ,
        stdin=_config(request, _SAY),
        timeout=request.at_most + 10,
        private=bool(request.headers) or request.body is not None,
    )


def send(request: HttpRequest, wanted: tuple[int, ...], settle: float) -> Command:
    """A request that changes something: sent once; exit code 0 where its answer has one of the *wanted* codes."""
    argv = (" ".join(map(str, wanted)), f"{settle:g}")
    config = _config(request, "status %{http_code}\\nsize %{size_download}\\n")
    return Command(
        script=SEND,
        argv=argv,
        effect=Effect.WRITE,
        stdin=config,
        called=("send-request", request.method, request.url),
        timeout=request.at_most + settle + 10,
        private=bool(request.headers) or request.body is not None,
    )


_SAY = "status %{http_code}\\ntime %{time_total}\\nlocation %{redirect_url}\\n"


def _config(request: HttpRequest, say: str) -> str:
    """Return curl's configuration for its stdin; the first line is for the shell, and a comment to curl."""
    headers = {name: str(value) for name, value in request.headers.items()}
    named = {header.lower() for header in headers}
    if request.body is not None and "content-type" not in named:
        kind = "text/plain; charset=utf-8" if isinstance(request.body, str) else "application/json"
        headers["Content-Type"] = kind
    lines = [f"# {request.url}", f"url = {_quoted(request.url)}", "silent", "show-error", "globoff", 'noproxy = "*"']
    lines += ['proto = "=http,https"', f"max-time = {request.at_most:g}", f"connect-timeout = {request.at_most:g}"]
    lines += ["head"] if request.method == "HEAD" else [f"request = {_quoted(request.method)}"]
    lines += [f"header = {_quoted(f'{name}: {value}' if value else f'{name};')}" for name, value in headers.items()]
    if request.body is not None:
        body = request.body if isinstance(request.body, str) else json.dumps(request.body)
        lines += ['header = "Expect:"', f"data-raw = {_quoted(body)}"]
    return "\n".join([*lines, f'write-out = "{say}"', ""])


def _quoted(text: str) -> str:
    for plain, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t")):
        text = text.replace(plain, escaped)
    return f'"{text}"'


def read_answer(done: Completed, request: HttpRequest) -> HttpResponse:
    """Parse *done* as the answer to *request*.  Raises ProbeError where no server could be asked."""
    if done.timed_out:
        raise ProbeError(f"{request.url}: curl or wget did not finish in time")
    reported = _curl_fields(done.stderr)
    tool = reported.get("tool", "")
    if tool == "none":
        raise ProbeError("neither curl nor wget is on this host")
    if tool == "wget shows":
        raise ProbeError("curl is not on this host, and wget would expose what may be secret in its arguments")
    if done.exit_code != 0 or not tool:
        raise ProbeError(done.why_not("curl or wget failed"))
    body = done.stdout
    whole = len(body.encode("utf-8", "replace")) <= request.max_size
    plain = HttpResponse(
        tool=tool, reachable=True, status=_status(reported, done.stderr), seconds=_time(reported), whole=whole
    )
    plain = replace(plain, body="" if request.method == "HEAD" else body, location=reported.get("location", ""))
    return _by_curl(plain, reported, done, request) if tool == "curl" else _by_wget(plain, reported, done, request)


def _curl_fields(stderr: str) -> dict[str, str]:
    words = ("tool", "status", "time", "location", "exit")
    pairs = (line.partition(" ")[::2] for line in stderr.splitlines())
    return {word: rest.strip() for word, rest in pairs if word in words}


def _status(reported: Mapping[str, str], stderr: str) -> int | Unknown:
    if reported.get("status", "").isdigit() and int(reported["status"]):
        return int(reported["status"])
    lines = re.findall(r"^\s*(?:wget: server returned error: )?HTTP/[\d.]+ (\d{3})\b", stderr, re.MULTILINE)
    return int(lines[-1]) if lines else Unknown(why="no HTTP status was returned")


def _time(reported: Mapping[str, str]) -> float | Unknown:
    try:
        return round(finite(reported["time"].replace(",", ".")), 3)
    except (KeyError, ValueError):
        return Unknown(why="wget does not report how long the request took")


def _by_curl(answer: HttpResponse, reported: Mapping[str, str], done: Completed, request: HttpRequest) -> HttpResponse:
    code = int(reported["exit"]) if reported.get("exit", "").isdigit() else -1
    said = re.findall(r"^curl: \(\d+\) (.*)$", done.stderr, re.MULTILINE)
    why = said[-1].strip() if said else f"curl ended with exit code {code}"
    if code == 28:
        why = f"no answer within {seconds(request.at_most)}"
    if code == 0 or (code == 23 and not answer.whole):
        return answer
    if not isinstance(answer.status, Unknown) and code in (*_NOBODY, 18, 23):
        return replace(answer, whole=False, why=f"the answer is not complete: {why}")
    if code in _NOBODY:
        return replace(answer, reachable=False, why=why, status=Unknown(why=why), body="")
    raise ProbeError(f"{request.url}: {why}")


def _by_wget(answer: HttpResponse, reported: Mapping[str, str], done: Completed, request: HttpRequest) -> HttpResponse:
    here = urlsplit(request.url)
    hops = re.findall(r"^\s*Location:\s*(\S+)", done.stderr, re.MULTILINE | re.IGNORECASE)
    if answer.tool == "busybox wget" and any(urlsplit(hop).netloc not in ("", here.netloc) for hop in hops):
        raise ProbeError(f"{request.url} redirects to another host, and this host's wget followed it: install curl")
    answer = replace(answer, location=hops[-1] if hops else "")
    if reported.get("exit") in ("124", "137", "143"):
        why = f"no answer within {seconds(request.at_most)}"
        return replace(answer, reachable=False, why=why, status=Unknown(why=why), body="")
    if not isinstance(answer.status, Unknown):
        return answer
    if reported.get("exit") == "0":
        return replace(answer, status=Unknown(why="this wget does not report the HTTP status"))
    said = [
        line
        for line in done.stderr.splitlines()
        if re.search(r"fail|refused|unable|error|bad address|timed", line, re.I)
    ]
    why = said[-1].strip().removeprefix("wget: ") if said else "no server answered"
    return replace(answer, reachable=False, why=why, status=Unknown(why=why), body="")


def same_place(one: str, other: str) -> bool:
    """Whether two addresses are of the same scheme, host and port."""
    try:
        first, second = urlsplit(one), urlsplit(other)
        return (first.scheme, first.hostname, first.port) == (second.scheme, second.hostname, second.port)
    except ValueError:
        return False


def words_for(done: Completed) -> str:
    """Describe the outcome of a request that was sent and not answered as it should be."""
    code = re.findall(r"^exit (\d+)$", done.stdout, re.MULTILINE)
    status = re.findall(r"^status (\d{3})$", done.stdout, re.MULTILINE)
    said = re.findall(r"^curl: \(\d+\) (.*)$", done.stdout, re.MULTILINE)
    if done.exit_code == 127:
        return "curl is not on this host; nothing was sent"
    if code and int(code[-1]) in _NOTHING_SENT:
        return f"nothing was sent: {said[-1] if said else 'no server answered'}"
    if not status or status[-1] == "000":
        why = said[-1] if said else "the time limit was reached"
        return f"sent, but no answer came ({why}): it may have taken effect, and is not sent again"
    body = "\n".join(re.findall(r"^body (.*)$", done.stdout, re.MULTILINE)).strip()
    return f"answered {status[-1]}" + (f": {body}" if body else "")
