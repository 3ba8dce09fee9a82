"""A container is meant by its name, or by enough of its id; what restarts has not started, and what runs on is over its loop."""

from __future__ import annotations

from types import SimpleNamespace

from runbook.language.arguments import build
from runbook.library.docker import container, containers
from runbook.library.system.facts.http import HttpRequest, ask, send
from tests.support.tables import every_row

IT = SimpleNamespace(id="db0123456789abcdef", name="web", status="restarting")


@every_row(("name", "meant"), [
    ("web", True), ("/web", True), ("db0123456789", True), ("db", False), ("we", False), ("db012345678", False),
])  # fmt: skip
def test_the_first_letters_of_an_id_are_no_name(name, meant):
    """Mutants: container.py taking whatever docker takes."""
    assert container._is_called(IT, name) is meant


@every_row(
    ("status", "since", "looping"),
    [("running", 91, False), ("running", 89, True), ("exited", 91, True), ("restarting", 91, True)],
)
def test_a_container_that_has_run_for_longer_than_the_gap_is_over_its_loop(status, since, looping):
    """Mutants: the quick starts of the past alone making a loop."""
    it = SimpleNamespace(status=status, restart_count=4)
    assert containers._looping(it, 4, 2.0, build(containers.Args, {}), since) is looping


@every_row(("status", "started"), [("restarting", False), ("running", True), ("exited", False)])
def test_one_that_restarts_has_not_started(status, started):
    args = build(container.Args, {"name": "web", "do": "start"})
    now = container.State(found=(SimpleNamespace(status=status),))
    assert container.settled(args, now, now) is started


@every_row(("headers", "body", "hidden"), [({}, None, False), ({}, {"a": "b"}, True), ({"X": "y"}, None, True)])
def test_what_a_request_carries_is_in_no_record(headers, body, hidden):
    """Mutants: http.py hiding requests with headers only."""
    request = HttpRequest(url="http://127.0.0.1/", method="POST", headers=headers, body=body)
    assert send(request, (200,), 0.0).private is hidden
    assert ask(request).private is hidden
