"""Send an HTTP request from the host itself: GET and HEAD as a probe, other methods as a change with a check.

Headers, bodies and addresses never appear in a list of processes. A service that does not answer is a result: it is not
`reachable`. Redirects are followed only with `follow: true`, and only on the same host and port. A change is sent once,
if its `check` (a GET) says that it is needed; afterwards the check is sent again. Of the answer to a change, only the
status, the size, and the first words of an error are kept. On a host without curl, wget is used for probes, and only
for addresses without headers.
"""

from __future__ import annotations

import shlex
from collections.abc import Generator, Mapping
from dataclasses import field, replace
from typing import Any, Literal

from runbook.codec import NOT_THEIRS
from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.library.commands.facts.output_parsing import parsed
from runbook.library.system.facts.http import (
    HttpRequest,
    HttpResponse,
    ask,
    objection_to_headers,
    objection_to_url,
    read_answer,
    same_place,
    send,
    words_for,
)
from runbook.library.system.facts.json_paths import keys_of, value_at
from runbook.protocols import Fails, Holds, Probe
from runbook.values.command import Command, Completed
from runbook.values.plan import Blocked, Change, Decision, NoChange, Risk, Target
from runbook.values.types import Duration, Json, Size, Unknown, seconds

HOPS = 5
SHOWN = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A GET whose answer says that there is nothing to do."""

    url: str = ""
    """http:// or https://, as seen from the host."""
    headers: Mapping[str, Json] = field(default_factory=dict, metadata={"carries_secrets": True})
    """Name of each header to its value."""
    status: tuple[int, ...] = ()
    """Status codes for: nothing to do; empty: 2xx, and any other status is unknown."""
    expect: Mapping[str, Json] = field(default_factory=dict)
    """Path within the JSON body (a.b, a[0].b) to its value if there is nothing to do."""

    def __bool__(self) -> bool:
        return bool(self.url)


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    url: str
    """http:// or https://, as seen from the host."""
    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"] = "GET"
    """GET and HEAD are probes; the others are changes, and need a `check`."""
    headers: Mapping[str, Json] = field(default_factory=dict, metadata={"carries_secrets": True})
    """Name of each header to its value."""
    body: Json = field(default=None, metadata={"carries_secrets": True})
    """Text is sent unchanged; a mapping or a list is sent as JSON."""
    status: tuple[int, ...] = ()
    """Status codes that count as success; empty: 2xx."""
    expect: Mapping[str, Json] = field(default_factory=dict)
    """Path within the JSON body (a.b, a[0].b) to its wanted value."""
    present: tuple[str, ...] = ()
    """Paths within the JSON body whose value must exist and not be empty."""
    values: Mapping[str, str] = field(default_factory=dict)
    """Name to path within the JSON body; the values become `.values`."""
    at_most: Duration = field(default=Duration(10), metadata={"minimum": 0.1, "maximum": 600})
    """The time to wait for the answer."""
    max_size: Size = field(default=Size(1 << 20), metadata={"minimum": 1, "maximum": 1 << 22})
    """The part of the body that is read, at most."""
    follow: bool = False
    """Follow redirects, on the same host and port only."""
    check: Check = field(default_factory=Check)
    """For a change: the request sent before and after it."""
    settle: Duration = field(default=Duration(0), metadata={"maximum": 600})
    """For a change: how long to wait before the check is sent again."""

    def __post_init__(self) -> None:
        for url in (self.url, *([self.check.url] if self.check else [])):
            if why := objection_to_url(url):
                raise ValueError(why)
        if why := objection_to_headers(self.headers) or objection_to_headers(self.check.headers):
            raise ValueError(why)
        for path in (*self.expect, *self.present, *self.values.values(), *self.check.expect):
            keys_of(path)
        if why := self._objection_to_method():
            raise ValueError(why)

    def _objection_to_method(self) -> str:
        """Return the reason why the arguments do not go with the method; empty: they do."""
        asserts = bool(self.expect or self.present or self.values)
        if self.method in ("GET", "HEAD"):
            if self.check or self.body is not None or self.settle:
                return f"a {self.method} is a probe: `check`, `body` and `settle` belong to a change"
            return (
                "a HEAD has no body: use GET for `expect`, `present`, `values`"
                if self.method == "HEAD" and asserts
                else ""
            )
        if not self.check:
            return f"a {self.method} changes something: give a `check` that says when there is nothing to do"
        if asserts or self.follow:
            return f"for a {self.method}, give the wanted state in `check`; use another step with GET for more"
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The answer (of a change: to its check)."""

    reachable: bool
    """Whether a service answered."""
    why: str = ""
    """The reason why no service answered, or why the answer is incomplete."""
    ok: bool | Unknown
    """Whether status and body are as given."""
    status: int | Unknown
    """The status code of the answer, such as 200."""
    body: str = ""
    """The body's first 10000 characters."""
    json: Json | Unknown = None
    """The body, read as JSON."""
    values: Mapping[str, Json | Unknown] = field(default_factory=dict, metadata={"named_by": ("values",)})
    """The values at the paths under `values`, by name."""
    seconds: float | Unknown
    """The time that the answer took."""
    location: str = ""
    """The target of a redirect that was not followed."""
    tool: str = ""
    """The program that sent the request: curl, wget, busybox wget."""


def probe(args: Args) -> Probe[State]:
    """One request, and one for each redirect that is followed; of a change, its check."""
    if args.check:
        asked = replace(_request(args), url=args.check.url, method="GET", headers=args.check.headers, body=None)
        wanted, status = args.check.expect, args.check.status
    else:
        asked, wanted, status = _request(args), args.expect, args.status
    answer = read_answer((yield ask(asked)), asked)
    if args.follow:
        answer = yield from _followed(asked, answer)
    document: Json | Unknown = Unknown(why=answer.why or "no service answered")
    if answer.reachable:
        document = _document(answer)
    return State(
        reachable=answer.reachable,
        why=answer.why,
        ok=_ok(args, answer, document, wanted, status),
        status=answer.status,
        body=answer.body[:SHOWN],
        json=document,
        values={name: _value_at(document, path) for name, path in args.values.items()},
        seconds=answer.seconds,
        location=answer.location,
        tool=answer.tool,
    )


def _request(args: Args) -> HttpRequest:
    return HttpRequest(
        url=args.url,
        method=args.method,
        headers=args.headers,
        body=args.body,
        at_most=args.at_most,
        max_size=args.max_size,
    )


def _document(answer: HttpResponse) -> Json | Unknown:
    if not answer.whole:
        return Unknown(why=answer.why or "the body is larger than `max_size`")
    made = parsed(answer.body, "json")
    if isinstance(made, Unknown) and made.why != NOT_THEIRS:
        return Unknown(why="the body is not JSON" if answer.body.strip() else "the body is empty")
    return made


def _followed(asked: HttpRequest, answer: HttpResponse) -> Generator[Command, Any, HttpResponse]:
    for _ in range(HOPS):
        if not answer.location or not same_place(asked.url, answer.location):
            break
        if objection_to_url(answer.location) or answer.status not in (301, 302, 303, 307, 308):
            break
        asked = replace(asked, url=answer.location)
        answer = read_answer((yield ask(asked)), asked)
    return answer


def _value_at(document: Json | Unknown, path: str) -> Json | Unknown:
    return document if isinstance(document, Unknown) else value_at(document, path)


def _right(status: int, wanted: tuple[int, ...]) -> bool:
    return status in wanted if wanted else 200 <= status < 300


def _ok(
    args: Args, answer: HttpResponse, document: Json | Unknown, expect: Mapping[str, Json], wanted: tuple[int, ...]
) -> bool | Unknown:
    """Whether the answer is as it should be; of a check, what its answer does not say is unknown."""
    if not answer.reachable:
        return Unknown(why=f"{args.check.url}: {answer.why}") if args.check else False
    if isinstance(answer.status, Unknown):
        return answer.status
    if not _right(answer.status, wanted):
        return Unknown(why=f"{args.check.url} answered {answer.status}") if args.check and not wanted else False
    found = {path: _value_at(document, path) for path in (*expect, *args.present)}
    blind = next((each for each in found.values() if isinstance(each, Unknown)), None)
    if blind and (args.check or isinstance(document, Unknown)):
        return Unknown(why=f"{args.check.url}: {blind.why}") if args.check else blind
    if any(isinstance(each, Unknown) or each in (None, "", [], {}) for each in map(found.get, args.present)):
        return False
    return all(_same(found[path], value) for path, value in expect.items())


def _same(found: Json | Unknown, wanted: Json) -> bool:
    """Equal, and of the same kind: 1 is not true."""
    return isinstance(found, bool) == isinstance(wanted, bool) and found == wanted


def holds(args: Args, state: State) -> Holds | Fails:
    """Somebody answers, with the right status and the right body."""
    if isinstance(state.ok, Unknown) and state.reachable:
        raise ProbeError(state.ok.why)
    url = args.check.url if args.check else args.url
    took = "" if isinstance(state.seconds, Unknown) else f" in {seconds(state.seconds)}"
    if state.ok is True:
        return Holds(why=f"{url} answers {state.status}{took} as expected")
    if not state.reachable:
        return Fails(why=f"{url}: {state.why}")
    return Fails(why=f"{url} answers {state.status}; {_difference(args, state)}")


def _difference(args: Args, state: State) -> str:
    wanted = args.check.status if args.check else args.status
    if not isinstance(state.status, Unknown) and not _right(state.status, wanted):
        return f"wanted {' or '.join(map(str, wanted)) or '2xx'}"
    expect = args.check.expect if args.check else args.expect
    said: list[str] = []
    for path, value in expect.items():
        found = _value_at(state.json, path)
        if not _same(found, value):
            said.append(f"{path} is {found.why if isinstance(found, Unknown) else repr(found)}, wanted {value!r}")
    said += [
        f"{path} is missing or empty" for path in args.present if _value_at(state.json, path) in (None, "", [], {})
    ]
    said += [f"{path}: {it.why}" for path in args.present if isinstance(it := _value_at(state.json, path), Unknown)]
    return "; ".join(said)[:500]


def decide(args: Args, state: State) -> Decision:
    """Sent once, if the check says that it is needed and says so clearly."""
    if not args.check:
        return NoChange(why=f"a {args.method} changes nothing")
    if isinstance(state.ok, Unknown):
        return Blocked(why=f"the check gave no answer: {state.ok.why}")
    if state.ok:
        return NoChange(why=f"{args.check.url} says that there is nothing to do")
    if state.tool != "curl":
        return Blocked(why="curl is not installed; other programs would show the request in the list of processes")
    command = send(_request(args), args.status, args.settle)
    line = f"{args.method} {args.url}"
    return Change(
        summary=line, commands=(command,), risk=Risk.UNKNOWN, targets=(Target(kind="host", key=line, say=line),)
    )


def explain(args: Args, before: State, after: State) -> str:
    """The words for a check that still sees what was to be changed."""
    return f"sent and accepted, but {args.check.url} does not confirm it: {_difference(args, after)}"


def refused(command: Command, completed: Completed) -> str:
    """Describe the outcome of a request that was not accepted."""
    return words_for(completed)


def by_hand(args: Args) -> tuple[str, ...]:
    """Lines that a person would paste; values of headers are for them to fill in."""
    words = ["curl", "-sS"] if args.method == "GET" else ["curl", "-sS", "-X", args.method]
    for name in args.headers:
        words += ["-H", f"{name}: ..."]
    if args.body is not None:
        words += ["--data-binary", "@BODY"]
    check = (f"curl -sS {shlex.quote(args.check.url)}",) if args.check else ()
    return (*check, shlex.join([*words, args.url]))
