"""Every fault that the program promises to meet well, one row each: what is provoked, and what is then expected.

A row is provoked for real, by a function of this package or by the test that it names.
"""

from __future__ import annotations

from dataclasses import dataclass

from faults import answers, files, lines
from faults.files import BOMB, DEEP, HUGE, Provoke

PROMISED = (
    "unreadable playbook", "empty playbook", "huge playbook", "deeply nested playbook", "YAML bomb in a playbook",
    "unreadable inventory", "empty inventory", "huge inventory", "deeply nested inventory", "YAML bomb in an inventory",
    "missing required input",
    "wrong host key", "wrong key", "wrong user", "connection cut while looking", "connection cut during a write",
    "output of 100 MB", "output without a newline", "output that is not UTF-8",
    "tool missing", "permission denied", "sudo refused",
)  # fmt: skip
"""Each of them has a row."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A row: exactly one of *by* and *test* provokes it."""

    of: str
    """One of PROMISED."""
    what: str
    """A sentence about what happens, and to what end."""
    code: int
    """What the program exits with."""
    host: str = ""
    """Whom the rest is about; empty: nobody was connected to, and the words stand on stderr."""
    verdict: str = ""
    step: str = ""
    status: str = ""
    """Of the step."""
    words: tuple[str, ...] = ()
    """What people are told of it."""
    by: Provoke | None = None
    test: str = ""
    """The id of a test, from ``tests/`` on."""


def refused(of: str, what: str, *words: str, by: Provoke) -> Fault:
    """A mistake in a file or on the command line: one message, and nobody is connected to."""
    return Fault(of=of, what=what, code=2, words=words, by=by)


FILES = (
    refused("unreadable playbook", "A playbook that may not be read is named, with the reason.",
            "cannot read", "toy.yaml", "Permission denied", by=files.unreadable_playbook),
    refused("empty playbook", "An empty playbook is told what a playbook is.",
            "toy.yaml:1:1: a playbook is a mapping, this is an empty file", by=files.playbook("")),
    refused("huge playbook", "A playbook of 5 MB is not read to its end.",
            "toy.yaml is larger than 4 MiB", by=files.playbook(HUGE)),
    refused("deeply nested playbook", "A playbook of 5000 brackets is refused before the parser breaks.",
            "toy.yaml: nested deeper than 50 levels", by=files.playbook(DEEP)),
    refused("YAML bomb in a playbook", "Aliases that multiply are counted, not followed.",
            "toy.yaml:", "more than 200000 values", by=files.playbook(BOMB)),
    refused("unreadable inventory", "An inventory that may not be read is named, with the reason.",
            "cannot read", "inventory.yaml", "Permission denied", by=files.unreadable_inventory),
    refused("empty inventory", "An empty inventory is told what an inventory has.",
            "inventory.yaml:1:1: the file is empty", "`hosts:`", by=files.inventory("")),
    refused("huge inventory", "An inventory of 5 MB is not read to its end.",
            "inventory.yaml is larger than 4 MiB", by=files.inventory(HUGE)),
    refused("deeply nested inventory", "An inventory of 5000 brackets is refused before the parser breaks.",
            "inventory.yaml: nested deeper than 50 levels", by=files.inventory(DEEP)),
    refused("YAML bomb in an inventory", "Aliases that multiply are counted, not followed.",
            "inventory.yaml:", "more than 200000 values", by=files.inventory(BOMB)),
    refused("missing required input", "An input that must be given is named, with what it is for and how to give it.",
            "the input 'configs' is required", "-e configs=", "Configuration files on the host", by=files.missing_input),
)  # fmt: skip

LINES = (
    Fault(of="wrong host key", what="A host with another key than the known one is not logged in to.", code=4,
          host="far", verdict="unreachable", step="look", status="unreachable",
          words=("its host key has changed", "known_hosts:1", "ssh-keygen -R"), by=lines.wrong_host_key),
    Fault(of="wrong key", what="A refused login says as whom, and with which key.", code=4,
          host="far", verdict="unreachable", step="look", status="unreachable",
          words=("login as root with", "/other was refused"), by=lines.wrong_key),
    Fault(of="wrong user", what="A refused login says as whom, and with which key.", code=4,
          host="far", verdict="unreachable", step="look", status="unreachable",
          words=("login as nosuchuser with", "was refused"), by=lines.wrong_user),
    Fault(of="connection cut while looking", what="A look that was cut off is taken again on a new line.", code=0,
          host="far", verdict="healthy", step="look", status="ok", by=lines.cut_once_while_looking),
    Fault(of="connection cut while looking", what="A host that stays away is unreachable.", code=4,
          host="far", verdict="unreachable", step="look", status="unreachable", words=("connection refused",),
          by=lines.cut_for_good_while_looking),
    Fault(of="connection cut during a write", what="A write whose line was cut is unknown, and is sent once.", code=1,
          host="far", verdict="unknown", step="write", status="unknown",
          words=("the line was lost while this ran", "it is not sent again"), by=lines.cut_during_a_write),
    Fault(of="connection cut during a write", what="Nothing is done after a write whose line was cut.", code=1,
          host="far", verdict="unknown", step="later", status="blocked",
          words=("the host cannot be asked any more", "the connection to the host was lost"),
          by=lines.cut_during_a_write),
)  # fmt: skip

ANSWERS = (
    Fault(of="output of 100 MB", what="Of a flood both ends are kept, and what is left out is said.", code=0,
          host="far", verdict="healthy", step="flood", status="ok", words=("bytes left out ...]",), by=answers.a_flood),
    Fault(of="output without a newline", what="Output that ends without a newline is whole, and ends there.", code=0,
          host="here", verdict="healthy", step="look0", status="ok", by=answers.odd_output),
    Fault(of="output that is not UTF-8", what="What is not UTF-8 is replaced, and the rest is kept.", code=0,
          host="here", verdict="healthy", step="look1", status="ok", words=("caf\ufffd",), by=answers.odd_output),
    Fault(of="output without a newline", what="A line of 20 MB is cut in the middle like any other.", code=0,
          host="here", verdict="healthy", step="look2", status="ok", words=("bytes left out ...]",),
          by=answers.odd_output),
    Fault(of="tool missing", what="A program that is not there is no answer.", code=1,
          host="here", verdict="unknown", step="look", status="failed", words=("127", "no-such-tool", "not found"),
          by=answers.a_tool_that_is_missing),
    Fault(of="permission denied", what="A configuration that may not be read is no answer.", code=1,
          host="here", verdict="unknown", step="config", status="failed", words=("train.yaml may not be read",),
          by=answers.permission_denied),
    Fault(of="permission denied", what="A program that may not be run is no answer.", code=1,
          host="here", verdict="unknown", step="tool", status="failed", words=("126", "Permission denied"),
          by=answers.permission_denied),
    Fault(of="permission denied", what="What rests on a log that may not be read is unknown.", code=1,
          host="here", verdict="unknown", words=("could not be read", "job.log"), by=answers.permission_denied),
    Fault(of="sudo refused", what="A look that needs sudo is no answer without it.", code=1,
          host="far", verdict="failed", step="look", status="failed",
          words=("sudo to root is refused", "--ask-become-pass"), by=answers.sudo_refused),
    Fault(of="sudo refused", what="A change that needs sudo is not sent without it.", code=1,
          host="far", verdict="failed", step="write", status="failed",
          words=("nothing was sent", "sudo to root is refused"), by=answers.sudo_refused),
)  # fmt: skip

FAULTS: tuple[Fault, ...] = (*FILES, *LINES, *ANSWERS)
