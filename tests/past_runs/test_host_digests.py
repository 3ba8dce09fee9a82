"""The digest of a host, which stands in records and saved plans: of all that the inventory says, but no secret."""

from __future__ import annotations

from runbook.commands.rests_on import host_digests
from tests.support.parse_text import inventory
from tests.support.tables import every_row

HOST = """
hosts:
  a:
    {ssh_host: 10.0.0.1, site: x, ssh_password: PASSWORD, wandb: {api_key: KEY, entity: team}, worker: 'http://w:URL-WORD@h/'}
"""


def digest(*changes: tuple[str, str]) -> str:
    text = HOST
    for before, after in changes:
        text = text.replace(before, after)
    found = inventory(text)
    return host_digests(found, found.hosts)["a"]


@every_row("before", ["PASSWORD", "KEY", "URL-WORD"])
def test_a_guess_of_a_secret_cannot_be_tried_against_the_digest(before):
    """Mutant: ``host_digests`` without the mask."""
    assert digest((before, "hunter22-first-guess")) == digest((before, "correct-horse-battery"))


@every_row(("before", "after"), [("10.0.0.1", "10.0.0.2"), ("site: x", "site: y"), ("team", "squad"), ("site", "rack")])
def test_whatever_else_the_inventory_says_is_in_the_digest(before, after):
    """Mutant: ``host_digests`` without each of its parts."""
    assert digest((before, after)) != digest()
