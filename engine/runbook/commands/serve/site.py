"""The arguments of every handler of the server: the watcher, the caller, and the content of the request."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol
from urllib.parse import parse_qs

from starlette.responses import Response

from runbook.commands.serve.access import Access, Identity, Role
from runbook.commands.serve.desk import Desk
from runbook.commands.serve.settings import ServeSettings
from runbook.dataclass import dataclass
from runbook.records.private_folder import PrivateFolder
from runbook.text.printable import on_one_line

LONGEST_TEXT = 500
"""The characters of a text that a person may write, such as a reason."""


class Refused(Exception):
    """A request that is not served; the message says why."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.headers = status, dict(headers or {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The things that live as long as the server."""

    desk: Desk
    access: Access
    settings: ServeSettings
    records: PrivateFolder
    """The records of runs on this machine."""
    clock: Callable[[], float]
    provider: Provider | None = None
    """The one who says who people are; None: they have tokens."""


class Provider(Protocol):
    """A provider of OpenID Connect (``commands.serve.oidc``)."""

    def start(self) -> Any:
        """Begin a login."""
        ...

    def end(self, query: Mapping[str, str], cookie: str) -> tuple[str, Role]:
        """Return who has logged in, and their role."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request that is permitted."""

    who: Identity
    address: str
    """The address of the other end of the connection."""
    path: Mapping[str, str]
    """The parts of the path with a name."""
    query: Mapping[str, str]
    headers: Mapping[str, str]
    cookies: Mapping[str, str]
    body: bytes = b""

    def tree(self) -> Any:
        """Return the body as JSON; an empty one is an empty object.  Raises Refused."""
        try:
            return json.loads(self.body or b"{}")
        except (ValueError, RecursionError) as error:
            raise Refused(400, "the body is not JSON") from error

    def fields(self) -> Mapping[str, str]:
        """Return the texts in the body: the fields of a form, or those of a JSON object.  Raises Refused."""
        if self.headers.get("content-type", "").partition(";")[0].strip() == "application/x-www-form-urlencoded":
            try:
                found = parse_qs(self.body.decode(), keep_blank_values=True, max_num_fields=20)
            except ValueError as error:
                raise Refused(400, "the body is no form") from error
            return {name: values[-1] for name, values in found.items()}
        tree = self.tree()
        if not isinstance(tree, dict):
            raise Refused(400, "the body is not a JSON object")
        return {str(name): value for name, value in tree.items() if isinstance(value, str)}

    def text(self, name: str) -> str:
        """Return the text *name* of the body, without spaces around it; empty: there is none.  Raises Refused."""
        text = self.fields().get(name, "").strip()
        if len(text) > LONGEST_TEXT:
            raise Refused(400, f"{name} has more than {LONGEST_TEXT} characters")
        return on_one_line(text)

    def number(self, name: str) -> int:
        """Return the whole number *name* of the query; 0: there is none.  Raises Refused."""
        text = self.query.get(name, "") or "0"
        if not text.isascii() or not text.isdecimal() or len(text) > 15:
            raise Refused(400, f"{name} is not a whole number")
        return int(text)


def as_json(tree: Any, status: int = 200) -> Response:
    """Return *tree* as an answer."""
    return Response(compact(tree), status, media_type="application/json")


def compact(tree: Any) -> str:
    """Return *tree* as one line of JSON, in which every character outside ASCII is written out."""
    return json.dumps(tree, ensure_ascii=True, separators=(",", ":"))
