"""The resources that an assistant can read: records, findings and evidence of recorded runs."""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

from runbook.commands.mcp.recorded import run_evidence, run_findings, run_record, runs
from runbook.commands.mcp.served import Served
from runbook.dataclass import dataclass
from runbook.errors import ConfigError
from runbook.text.printable import on_one_line
from runbook.values.types import Json

ROOT = "runbook://runs/"
MOST_LISTED = 50
TEMPLATES = {
    f"{ROOT}{{run}}": "The record of a run: what it was, and what each host came to.",
    f"{ROOT}{{run}}/findings": "The findings of a run, host by host.",
    f"{ROOT}{{run}}/hosts/{{host}}": "The evidence of a host in a run: every step, with its commands and their output.",
}
"""The forms of the addresses, each with what it gives."""
_ADDRESS = re.compile(re.escape(ROOT) + r"([^/?#]{1,60})(?:(/findings)|/hosts/([^/?#]{1,900}))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A resource in the list."""

    uri: str
    name: str
    about: str


def listed(served: Served) -> list[Listed]:
    """Return the records of the newest runs.  Raises ConfigError."""
    return [
        Listed(
            uri=f"{ROOT}{quote(row.run)}", name=row.run, about=on_one_line(f"{row.playbook}, {row.started}", most=200)
        )
        for row in runs(served, {}, MOST_LISTED)
    ]


def read(served: Served, uri: str) -> dict[str, Json]:
    """Return the resource at *uri*.  Raises ConfigError."""
    found = _ADDRESS.fullmatch(uri)
    if not found:
        raise ConfigError(f"{uri!r} is no address of a resource (there are: {', '.join(TEMPLATES)})")
    run, findings, host = found.groups()
    if host:
        return run_evidence(served, run, unquote(host))
    return run_findings(served, run) if findings else run_record(served, run)
