"""Describe a playbook in words (``runbook show``)."""

from __future__ import annotations

from runbook.actions import discover
from runbook.app.input_files import find_playbook, read_playbook
from runbook.app.playbook_text.instructions import playbook_lines
from runbook.app.playbook_text.layout import width
from runbook.app.playbook_text.summary import summary_lines
from runbook.app.secret_masking import SecretMasking, masked_by, secrets_in_playbook_file, secrets_of


def show_text(name: str, *, verbose: bool = False) -> str:
    """What the playbook looks for and does, on a page or two; *verbose*: so that a person could do it all by hand."""
    actions = discover()
    path = find_playbook(name)
    described = playbook_lines if verbose else summary_lines
    with SecretMasking(lambda: secrets_in_playbook_file(name)):
        book = read_playbook(path, actions)
        return masked_by(secrets_of(book), "\n".join(described(book, str(path), actions, width())))
